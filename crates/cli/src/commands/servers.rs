//! `webstone servers`: lists the servers for --server.

use std::collections::BTreeSet;
use std::fmt::Write;

use webstone_lab::servers;
use webstone_lab::servers::interfaces::Lacking;
use webstone_model::spec::{Interface, ServerChoice, ServerSpec, Software};

use crate::args::{ServersArgs, ServersCommand};
use crate::console;
use crate::failure::{Exit, Failure};

pub(super) fn execute(args: &ServersArgs) -> Result<Exit, Failure> {
    let text = match args.command {
        None | Some(ServersCommand::List) => list(),
        Some(ServersCommand::Show { server, interface }) => shown(server, interface)?,
    };
    console::print(&text)?;
    Ok(Exit::Done)
}

/// One line for each server: what it is, and its version and program, or how to install it.
fn list() -> String {
    let rows = Software::ALL.map(|software| (software.name(), version(software), summary(software)));
    let width = rows.iter().map(|(_, version, _)| version.len()).max().unwrap_or_default();
    let mut out = format!("{:<15} {:<width$} {}\n", "name", "version here", "what it is");
    for (name, version, summary) in rows {
        // Writing to a String cannot fail.
        let _ = writeln!(out, "{name:<15} {version:<width$} {summary}");
    }
    out += "\nInterfaces, for --server-interface (in parentheses: the package to install):\n";
    let mut unusable: BTreeSet<String> = BTreeSet::new();
    unusable.extend(Software::ALL.into_iter().filter_map(servers::unusable).map(|found| found.to_string()));
    for software in Software::ALL {
        let names: Vec<String> = servers::interfaces::of_software(software)
            .iter()
            .map(|interface| match servers::interfaces::missing(software, *interface) {
                None => interface.to_string(),
                Some(Lacking { package, unusable: None }) => format!("{interface} ({package})"),
                Some(Lacking { unusable: Some(found), .. }) => {
                    unusable.insert(found.to_string());
                    format!("{interface} (not for {})", found.user)
                }
            })
            .collect();
        if !names.is_empty() {
            out += &listed(software.name(), &names);
        }
    }
    out += "\nTLS (--tls), HTTP/2 (--http 2) and HTTP/3 (--http 3):\n";
    for software in Software::ALL {
        out += &listed(software.name(), &[servers::tls::summary(software)]);
    }
    if !unusable.is_empty() {
        out += "\nInstalled, but not for the user that servers run as:\n";
        unusable.iter().for_each(|found| out += &format!("{found}\n"));
    }
    out + "\nAll but the first and the last have two profiles: stock, as Debian ships it, and\n:tuned. With --server-cache, a proxy caches answers.\n"
}

/// A name and a list in lines of 80 columns, with the list indented.
fn listed(name: &str, items: &[String]) -> String {
    let mut out = format!("{name:<15} ");
    let mut column = 16;
    for (place, item) in items.iter().enumerate() {
        let text = if place + 1 < items.len() { format!("{item}, ") } else { item.clone() };
        if column + text.trim_end().len() > 80 {
            out.truncate(out.trim_end().len());
            out += "\n                ";
            column = 16;
        }
        column += text.len();
        out += &text;
    }
    out + "\n"
}

fn version(software: Software) -> String {
    match software {
        Software::Reference => concat!("webstone ", env!("CARGO_PKG_VERSION")).to_owned(),
        Software::Command => "yours".to_owned(),
        _ => match servers::find(&ServerSpec { software, ..ServerSpec::default() }) {
            Ok(installed) => installed.version,
            Err(_) => match servers::unusable(software) {
                Some(found) => format!("not for {}", found.user),
                None => {
                    let how = servers::driver(software).map_or("", |driver| driver.install);
                    format!("none: {}", how.trim_start_matches("Debian: "))
                }
            },
        },
    }
}

fn summary(software: Software) -> &'static str {
    match software {
        Software::Reference => "embedded; the default",
        Software::Nginx => "nginx",
        Software::Apache => "Apache httpd, event MPM",
        Software::ApachePrefork => "Apache httpd, prefork MPM",
        Software::Lighttpd => "lighttpd",
        Software::Caddy => "Caddy",
        Software::Haproxy => "proxy before an origin",
        Software::NginxProxy | Software::Envoy => "proxy before an origin",
        Software::Nghttpd => "nghttp2's server, HTTP/2 only",
        Software::Command => "by --server-command",
    }
}

fn shown(server: ServerChoice, interface: Option<Interface>) -> Result<String, Failure> {
    let setup = servers::example(server, interface).filter(|setup| !setup.files.is_empty());
    let setup = setup.ok_or_else(|| {
        Failure::usage(format!("{} is run without a configuration file", server.software.name()))
            .hint("its options are those of `webstone run --help`")
    })?;
    let mut out = String::new();
    for (name, text) in &setup.files {
        let _ = write!(out, "# ==> {name}\n{text}\n");
    }
    for (name, value) in &setup.environment {
        let _ = writeln!(out, "# environment: {name}={value}");
    }
    let words: Vec<String> = setup.arguments.iter().map(|word| word.to_string_lossy().into_owned()).collect();
    let _ = writeln!(out, "# arguments: {}", words.join(" "));
    for companion in &setup.companions {
        let words: Vec<String> =
            companion.words.iter().map(|word| word.to_string_lossy().into_owned()).collect();
        let _ = writeln!(out, "# behind it: {}", words.join(" "));
    }
    Ok(out)
}
