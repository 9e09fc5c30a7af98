//! `webstone serve`: the reference server, in the foreground or as the child of a run.

use std::ffi::OsString;
use std::path::Path;

use webstone_lab::servers;
use webstone_measure::units::Nanos;
use webstone_model::spec::{Interface, ServerSpec};
use webstone_runner::Feeds;
use webstone_server::{self as server, Fileset, GatewayOptions, ServeOptions, serve};
use webstone_workload::content;

use super::load_fileset;
use crate::args::ServeArgs;
use crate::console::{self, Console};
use crate::failure::{Exit, Failure};
use crate::intent;

pub(super) fn execute(args: &ServeArgs, console: &Console) -> Result<Exit, Failure> {
    let (spec, workload) = intent::of_serve(args)?;
    let handler = Handler {
        command: args.handler.as_deref(),
        timeout: args.handler_timeout,
        output_max: args.handler_output_max,
    };
    let mut options = options(spec, &workload, &handler)?;
    options.test_handlers = args.test_handlers;
    options.until_stdin_closes = args.until_stdin_closes;
    run(options, args.tls.tls_certificate_to.as_deref(), console)
}

/// The server of a run, which ends when its standard input ends.
pub(super) fn as_child(spec: ServerSpec, workload: &str, console: &Console) -> Result<Exit, Failure> {
    let mut options = options(spec, workload, &Handler::default())?;
    options.until_stdin_closes = true;
    run(options, None, console)
}

/// The program that answers /send, if it is not webstone's own.
#[derive(Default)]
struct Handler<'a> {
    command: Option<&'a str>,
    timeout: Option<Nanos>,
    output_max: Option<u64>,
}

fn options(spec: ServerSpec, workload: &str, handler: &Handler<'_>) -> Result<ServeOptions, Failure> {
    let gateway = gateway(handler, &spec)?;
    let has_root = spec.root.is_some();
    let mut options = ServeOptions::new(spec);
    options.gateway = gateway;
    if !has_root {
        options.fileset = fileset(workload)?;
    }
    Ok(options)
}

/// Serves until it is ended. A certificate that is made is written to `certificate_to`.
fn run(options: ServeOptions, certificate_to: Option<&Path>, console: &Console) -> Result<Exit, Failure> {
    let mut announced = Ok(());
    let report = serve(options, |ready| {
        if let (Some(path), Some(pem)) = (certificate_to, &ready.certificate)
            && let Err(error) = std::fs::write(path, pem)
        {
            console.note(format!("warning: --tls-certificate-to {}: {error}", path.display()));
        }
        // Programs that start the server wait for this line.
        let urls = std::iter::once(&ready.url).chain(&ready.secure_url);
        let urls: Vec<&str> = urls.map(String::as_str).collect();
        announced = console::print(&format!("READY {}\n", urls.join(" ")));
        ready.notes.iter().for_each(|note| console.note(format!("warning: {note}")));
    })
    .map_err(|error| Failure { hint: error.hint, ..Failure::failed(error.what) })?;
    announced?;
    match report.log_error {
        Some(error) => Err(Failure::failed(format!("--access-log: {error}"))),
        None => Ok(Exit::Done),
    }
}

/// The external handler, if there is one.
fn gateway(handler: &Handler<'_>, spec: &ServerSpec) -> Result<Option<GatewayOptions>, Failure> {
    let asked = ServerSpec { interface: spec.interface, ..ServerSpec::default() };
    servers::check(&asked).map_err(|refusal| Failure::usage(refusal.what).hint(refusal.hint))?;
    let (interface, protocol) = match spec.interface {
        Some(Interface::Cgi) => (server::Interface::Cgi, "cgi"),
        Some(Interface::Fastcgi) => (server::Interface::FastCgi, "fastcgi"),
        Some(Interface::Persistent) => (server::Interface::Persistent, "persistent"),
        _ => {
            let vain = [
                ("--handler", handler.command.is_some()),
                ("--handlers", spec.handlers > 0),
                ("--handler-timeout", handler.timeout.is_some()),
                ("--handler-output-max", handler.output_max.is_some()),
            ];
            return match vain.into_iter().find(|(_, given)| *given) {
                None => Ok(None),
                Some((option, _)) => Err(Failure::usage(format!(
                    "{option} is for a program that answers /send, but the server answers it itself"
                ))
                .hint("add --interface cgi, fastcgi or persistent, or leave it out")),
            };
        }
    };
    let command: Vec<OsString> = match handler.command {
        Some(line) => shlex::split(line)
            .ok_or_else(|| {
                Failure::usage(format!("--handler `{line}`: a quote is not closed"))
                    .hint("write it as for a shell, as in '/usr/lib/cgi-bin/hello --fast'")
            })?
            .into_iter()
            .map(OsString::from)
            .collect(),
        None => {
            let program = std::env::current_exe()
                .map_err(|error| Failure::failed(format!("cannot tell where webstone itself is: {error}")))?;
            let mut words = vec![program.into_os_string(), "respond".into(), protocol.into()];
            if interface == server::Interface::FastCgi {
                // Otherwise it would wait for connections for ever if the server were killed.
                words.extend(["--beneath".into(), std::process::id().to_string().into()]);
            }
            words
        }
    };
    let mut options = GatewayOptions::new(interface, command);
    options.slots = spec.handlers;
    if let Some(most) = handler.timeout {
        options.silence_max = most.as_duration();
    }
    if let Some(most) = handler.output_max {
        options.output_bytes_max = most;
    }
    Ok(Some(options))
}

/// The generated files of a workload: those with a stated size.
fn fileset(name: &str) -> Result<Fileset, Failure> {
    let workload = load_fileset(name, Feeds::Anywhere)?;
    let files = workload.pages.iter().flat_map(|page| &page.files);
    let entries =
        files.filter_map(|file| Some((content::file_path(&file.url).into_owned(), file.size?))).collect();
    Ok(Fileset::from_entries(entries, content::fill))
}
