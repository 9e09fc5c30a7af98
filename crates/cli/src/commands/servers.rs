//! `webstone servers`: what --server can name.

use std::fmt::Write;

use webstone_lab::servers;
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
    out += "\nInterfaces, for --server-interface (in parentheses: what is missing here):\n";
    for software in Software::ALL {
        let names: Vec<String> = servers::interfaces::of(software)
            .iter()
            .map(|interface| match servers::interfaces::missing(software, *interface) {
                None => interface.to_string(),
                Some(package) => format!("{interface} ({package})"),
            })
            .collect();
        if !names.is_empty() {
            let _ = writeln!(out, "{:<15} {}", software.name(), names.join(", "));
        }
    }
    out + "\nAll but the first and the last have two profiles: stock, as Debian ships it, and :tuned.\n"
}

fn version(software: Software) -> String {
    match software {
        Software::Reference => concat!("webstone ", env!("CARGO_PKG_VERSION")).to_owned(),
        Software::Command => "yours".to_owned(),
        _ => match servers::find(&ServerSpec { software, ..ServerSpec::default() }) {
            Ok(installed) => installed.version,
            Err(_) => {
                let package = servers::driver(software).map_or("", |driver| driver.package());
                format!("none: apt-get install {package}")
            }
        },
    }
}

fn summary(software: Software) -> &'static str {
    match software {
        Software::Reference => "the reference server, embedded; what is measured without --server",
        Software::Nginx => "nginx, serving files",
        Software::Apache => "Apache httpd, event MPM",
        Software::ApachePrefork => "Apache httpd, prefork MPM",
        Software::Lighttpd => "lighttpd",
        Software::Caddy => "Caddy",
        Software::Haproxy => "HAProxy before an origin; with --server-cache as a cache",
        Software::NginxProxy => "nginx before an origin; with --server-cache as a cache",
        Software::Command => "any command line, by --server-command",
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
