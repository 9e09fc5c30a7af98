//! Writes the defaults into the help: they are read from the specification itself, so that the help cannot be wrong.

use clap::{Arg, Command};
use serde::Serialize;
use webstone_model::search::SearchSpec;
use webstone_model::series::Kind;
use webstone_model::server_tls::CertificateKey;
use webstone_model::spec::{ClientSpec, GeneratorSpec, LoadSpec, RunSpec, ServerSpec};
use webstone_workload::tls::TlsSpec;

use crate::intent;

/// The definition with a default named in the help of every flag that takes a value.
pub(super) fn documented(command: Command) -> Command {
    let run = intent::run_defaults();
    let hit = intent::hit_defaults();
    let workload = || vec![("workload", run.workload.clone())];
    let checks =
        || vec![("timeout", run.client.request_timeout.to_string()), ("allow_hosts", "none".to_owned())];
    let run_defaults = [
        workload(),
        only(load(&run.load), &RUN_LOAD),
        client(&run.client),
        generator(&run.generator),
        own_server(&run.server),
        elsewhere(),
        output(&run, "text"),
    ];
    let hit_defaults = [
        only(load(&hit.load), &HIT_LOAD),
        client(&hit.client),
        generator(&hit.generator),
        elsewhere(),
        output(&hit, "hit"),
    ];
    let find = intent::find_defaults(hit.clone());
    let search = find.find.clone().unwrap_or_default();
    let find_defaults = [
        search_of_find(&search),
        only(load(&find.load), &["duration", "warmup", "arrivals", "when_busy", "retries"]),
        client(&find.client),
        generator(&find.generator),
        elsewhere(),
        output(&find, "text"),
    ];
    let series_defaults = |kind| {
        let series = intent::series_defaults(kind);
        let mut defaults = [
            vec![("workload", series.workload.clone())],
            only(load(&series.load), &RUN_LOAD),
            client(&series.client),
            generator(&series.generator),
            own_server(&series.server),
            output(&series, "text"),
        ]
        .concat();
        // The name is the command's; of CPUs the server's are meant, which vary or do not.
        defaults.retain(|(id, _)| !["cpus", "name"].contains(id));
        defaults.push(("name", "the command's".to_owned()));
        defaults
    };
    let command = with_defaults(command, vec![("color", "auto".to_owned())]);
    command.mut_subcommands(|command| {
        let defaults = match command.get_name() {
            "run" => run_defaults.concat(),
            "hit" => hit_defaults.concat(),
            "find" => find_defaults.concat(),
            "servers" => series_defaults(Kind::Servers),
            "scale" => series_defaults(Kind::Scale),
            "spice" => series_defaults(Kind::Spice),
            "workout" => {
                [client(&RunSpec::default().client), generator(&run.generator), own_server(&run.server)]
                    .concat()
            }
            "serve" => [workload(), server_alone(&run.server)].concat(),
            "genfiles" => workload(),
            "checkfiles" => [workload(), checks(), tls(&run.client.tls)].concat(),
            _ => return command,
        };
        with_defaults(command, defaults)
    })
}

/// Flags by their identifiers, each with its default in words.
type Defaults = Vec<(&'static str, String)>;

/// Flags of the load that `run` has.
const RUN_LOAD: [&str; 11] = [
    "clients",
    "rate",
    "arrivals",
    "when_busy",
    "duration",
    "iterations",
    "pages",
    "warmup",
    "drain",
    "order",
    "retries",
];
/// Flags of the load that `hit` has.
const HIT_LOAD: [&str; 9] =
    ["clients", "rate", "arrivals", "when_busy", "duration", "iterations", "requests", "warmup", "retries"];

fn load(load: &LoadSpec) -> Defaults {
    let pages = || load.pages.map_or("no limit".to_owned(), |pages| pages.to_string());
    vec![
        ("clients", load.clients.to_string()),
        ("rate", "none: closed loop".to_owned()),
        ("arrivals", name_of(&load.arrivals)),
        ("when_busy", name_of(&load.when_busy)),
        ("duration", load.duration.to_string()),
        ("iterations", load.iterations.to_string()),
        ("pages", pages()),
        ("requests", pages()),
        ("warmup", load.warmup.to_string()),
        ("drain", load.drain.to_string()),
        ("order", name_of(&load.order)),
        ("retries", load.retries.to_string()),
    ]
}

/// Of a command that has only some of the flags.
fn only(defaults: Defaults, flags: &[&str]) -> Defaults {
    defaults.into_iter().filter(|(flag, _)| flags.contains(flag)).collect()
}

fn search_of_find(search: &SearchSpec) -> Defaults {
    vec![
        ("over", search.over.to_string()),
        ("resolution", format!("{}%", search.resolution_percent)),
        ("repeats", search.repeats.to_string()),
    ]
}

fn client(client: &ClientSpec) -> Defaults {
    let none = || "none".to_owned();
    let mut defaults = vec![
        ("connections", name_of(&client.connections)),
        (
            "requests_per_connection",
            client.requests_per_connection.map_or("no limit".to_owned(), |n| n.to_string()),
        ),
        ("parallel", client.parallel.to_string()),
        ("http", name_of(&client.http)),
        ("streams", client.streams.map_or("no limit of its own".to_owned(), |n| n.to_string())),
        ("http2_settings", client.http2_settings.to_string()),
        ("clients_per_connection", client.clients_per_connection.to_string()),
        ("method", client.method.clone()),
        ("headers", none()),
        ("allow_hosts", none()),
        ("body", none()),
        ("seed", client.seed.to_string()),
        ("resolve", name_of(&client.resolve)),
        ("unix_socket", none()),
        ("source", "the operating system's choice".to_owned()),
        ("proxy", none()),
        ("connect_timeout", client.connect_timeout.to_string()),
        ("first_byte_timeout", client.first_byte_timeout.to_string()),
        ("request_timeout", client.request_timeout.to_string()),
        ("check", name_of(&client.check)),
    ];
    defaults.extend(tls(&client.tls));
    defaults
}

fn tls(tls: &TlsSpec) -> Defaults {
    let none = || "none".to_owned();
    let list = |names: Vec<&str>| names.join(",");
    vec![
        ("cacert", "the system's trusted certificates".to_owned()),
        ("tls_version", list(tls.versions.iter().map(|version| version.name()).collect())),
        ("tls_ciphers", "all supported ones, AES-128 first".to_owned()),
        ("tls_groups", list(tls.groups.iter().map(|group| group.name()).collect())),
        ("tls_pin", none()),
        ("cert", none()),
        ("key", "the certificate's file".to_owned()),
        ("sni", "the URL's host name".to_owned()),
        ("alpn", "what --http says".to_owned()),
        ("tls_resume", tls.resume.to_string()),
        ("tls_key_log", none()),
    ]
}

fn generator(generator: &GeneratorSpec) -> Defaults {
    vec![
        ("generator", "none: this host makes the load".to_owned()),
        ("workers", generator.workers.to_string()),
        ("cpus", "chosen by webstone".to_owned()),
        ("page_histograms", generator.page_histograms.to_string()),
        ("trace", generator.trace.to_string()),
        ("record_all", "none".to_owned()),
    ]
}

fn own_server(server: &ServerSpec) -> Defaults {
    vec![
        ("server", server.software.name().to_owned()),
        ("server_program", "found by its name".to_owned()),
        ("server_command", "none".to_owned()),
        ("server_origin", "a reference server".to_owned()),
        ("server_processes", server.processes.to_string()),
        ("server_listen", server.listen.clone()),
        ("server_threads", server.threads.to_string()),
        ("server_cpus", "chosen by webstone".to_owned()),
        ("server_root", "none".to_owned()),
        ("server_log", "what the profile says; off for the reference server".to_owned()),
        (
            "server_backlog",
            format!("what the profile says; {} for the reference server", server.reference_backlog()),
        ),
        ("server_interface", "none; native for the reference server".to_owned()),
        ("server_handlers", server.handlers.to_string()),
        ("server_tls_key", CertificateKey::default().name().to_owned()),
        ("server_tls_cert", "none: one is made for the run".to_owned()),
        ("server_tls_versions", "1.2,1.3".to_owned()),
        ("server_tls_tickets", "what the profile says; on for the reference server".to_owned()),
        ("server_tls_session_cache", "what the profile says; off for the reference server".to_owned()),
    ]
}

fn elsewhere() -> Defaults {
    vec![("server_agent", "none: only the answers of a server elsewhere are measured".to_owned())]
}

fn server_alone(server: &ServerSpec) -> Defaults {
    vec![
        ("listen", server.listen.clone()),
        ("threads", server.threads.to_string()),
        ("cpus", "all that the process may use".to_owned()),
        ("root", "none".to_owned()),
        ("access_log", "none".to_owned()),
        ("backlog", server.reference_backlog().to_string()),
        ("interface", "native".to_owned()),
        ("handler", "webstone's own".to_owned()),
        ("handlers", server.handlers.to_string()),
        ("handler_timeout", "30s".to_owned()),
        ("handler_output_max", "1099511627776".to_owned()),
        ("cert", "none: one is made".to_owned()),
        ("key", "none: one is made".to_owned()),
        ("tls_key", CertificateKey::default().name().to_owned()),
        ("tls_certificate_to", "none".to_owned()),
        ("tls_versions", "1.2,1.3".to_owned()),
        ("tls_tickets", "on".to_owned()),
        ("tls_session_cache", "off".to_owned()),
        ("http", "1.1".to_owned()),
    ]
}

fn output(spec: &RunSpec, format: &str) -> Defaults {
    vec![
        ("name", spec.name.clone()),
        ("format", format.to_owned()),
        ("output", "standard output".to_owned()),
        ("events", "none".to_owned()),
        ("runs_dir", intent::RUNS_DIR.to_owned()),
    ]
}

/// The name that files and flags use for a variant.
fn name_of(variant: &impl Serialize) -> String {
    match toml::Value::try_from(variant) {
        Ok(toml::Value::String(name)) => name,
        other => unreachable!("an enumeration without fields serialises as its name, not as {other:?}"),
    }
}

/// Adds defaults to the help of flags, which keep their order.
fn with_defaults(command: Command, defaults: Defaults) -> Command {
    command.mut_args(|arg| match defaults.iter().find(|(id, _)| arg.get_id() == id) {
        Some((_, default)) => with_default(arg, default),
        None => arg,
    })
}

fn with_default(arg: Arg, default: &str) -> Arg {
    let short = arg.get_help().map(ToString::to_string).unwrap_or_default();
    let long = arg.get_long_help().map_or_else(|| short.clone(), ToString::to_string);
    arg.help(format!("{short} [default: {default}]")).long_help(format!("{long}\n\nDefault: {default}"))
}

#[cfg(test)]
mod tests {
    use clap::Command;

    /// Every flag that takes a value says what it is without it, and shows one.
    #[test]
    fn every_value_has_a_default_and_an_example() {
        let mut seen = 0;
        for command in commands(&super::super::command()) {
            for arg in command.get_arguments().filter(|arg| arg.get_action().takes_values()) {
                if arg.is_positional() {
                    assert!(arg.get_help().is_some(), "{} {}", command.get_name(), arg.get_id());
                    continue;
                }
                seen += 1;
                let help = arg.get_long_help().map(ToString::to_string).unwrap_or_default();
                for part in ["Default: ", "Example: "] {
                    assert!(help.contains(part), "{} --{} has no `{part}`", command.get_name(), arg.get_id());
                }
            }
        }
        assert!(seen > 50, "{seen} flags seen");
    }

    fn commands(command: &Command) -> Vec<Command> {
        let mut all = vec![command.clone()];
        command.get_subcommands().for_each(|sub| all.extend(commands(sub)));
        all
    }
}
