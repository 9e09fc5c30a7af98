//! The rules that a specification has to keep whoever wrote it, flags or a file. A message names the flag and the key
//! of the file, so that either reader finds the place.

use http::{HeaderName, HeaderValue, Method};
use webstone_lab::servers;
use webstone_model::spec::{
    ClientSpec, ConnectionPolicy, LoadSpec, Logging, RunSpec, ServerSpec, Software, parse_cpu_list,
};
use webstone_model::units::Nanos;

use super::target;
use crate::failure::Failure;
use crate::usage::split_remedy;

/// Most timed runs of a level, and of all levels together: each is planned before the first, and in the record.
const ITERATIONS_MAX: u32 = 10_000;
const TIMED_RUNS_MAX: u64 = 100_000;

/// Longest name of a run, in characters: it is part of a file name.
const NAME_CHARS_MAX: usize = 100;

/// Checks everything that can be wrong without looking at a file or a network.
pub(super) fn check(spec: &RunSpec) -> Result<(), Failure> {
    name(&spec.name)?;
    for url in &spec.target {
        target::server_url(url, "run")?;
    }
    load(&spec.load)?;
    open_loop(spec)?;
    client(&spec.client)?;
    cpus("--cpus (generator.cpus)", &spec.generator.cpus)?;
    agent(spec)?;
    if spec.target.is_empty() {
        server(&spec.server)?;
        own_server(&spec.server)?;
    }
    Ok(())
}

/// The rules of an agent: what it watches is elsewhere, and is found there by its port.
fn agent(spec: &RunSpec) -> Result<(), Failure> {
    const OPTION: &str = "--server-agent (server.agent)";
    let Some(command) = &spec.server.agent else { return Ok(()) };
    if shlex::split(command).is_none_or(|words| words.is_empty()) {
        return Err(
            wrong(OPTION, command, "no command").hint("write one, as in 'ssh root@web1 webstone agent'")
        );
    }
    let instead = match (&spec.client.unix_socket, spec.target.first()) {
        (Some(_), _) => "is asked over a Unix socket (--unix-socket)",
        (None, None) => "is started here, by webstone",
        (None, Some(_)) => return Ok(()),
    };
    Err(Failure::usage(format!("{OPTION} watches a server on another host, and this one {instead}"))
        .hint("leave it out: here, webstone looks by itself"))
}

/// The rules of the reference server's settings.
pub(super) fn server(spec: &ServerSpec) -> Result<(), Failure> {
    cpus("the server's CPUs (server.cpus)", &spec.cpus)?;
    if let Err(rule) = crate::args::listen(&spec.listen) {
        let (rule, remedy) = split_remedy(&rule);
        return Err(Failure::usage(format!("the server's address (server.listen): {rule}"))
            .hint(remedy.unwrap_or_default()));
    }
    let logs = match spec.logging() {
        Logging::Unsaid => spec.software != Software::Reference,
        logging => logging != Logging::Off,
    };
    if spec.resolve_names && !logs {
        return Err(Failure::usage(
            "clients shall be named in the access log (server.resolve_names), but no access log is written",
        )
        .hint("add --access-log FILE (in `run`: --server-log FILE)"));
    }
    if spec.backlog == Some(0) {
        return Err(wrong("the listen queue (server.backlog)", "0", "less than 1").hint("write at least 1"));
    }
    Ok(())
}

/// The rules of a server that `run` starts: what its driver has no counterpart of.
fn own_server(spec: &ServerSpec) -> Result<(), Failure> {
    if let Some(origin) = &spec.origin {
        target::server_url(origin, "run").map_err(|failure| Failure {
            message: format!("--server-origin (server.origin): {}", failure.message),
            ..failure
        })?;
    }
    servers::check(spec).map_err(|refusal| Failure::usage(refusal.what).hint(refusal.hint))
}

/// The rules of an open loop, and of what means nothing without one.
fn open_loop(spec: &RunSpec) -> Result<(), Failure> {
    let load = &spec.load;
    let Some(rates) = &load.rate else {
        let defaults = LoadSpec::default();
        let vain = [
            ("--arrivals (load.arrivals) spaces the arrivals of", load.arrivals != defaults.arrivals),
            (
                "--when-busy (load.when_busy) says what becomes of the arrivals of",
                load.when_busy != defaults.when_busy,
            ),
            ("--spin (generator.spin) waits for the arrivals of", spec.generator.spin),
        ];
        return match vain.into_iter().find(|(_, given)| *given) {
            Some((what, _)) => {
                Err(Failure::usage(format!("{what} an open loop, but no --rate (load.rate) is given"))
                    .hint("add a rate, as in -R 1k, or leave it out"))
            }
            None => Ok(()),
        };
    };
    if load.clients.0.len() != 1 {
        return Err(wrong(
            "--clients (load.clients)",
            &load.clients.to_string(),
            "more than one level, but the levels are those of --rate (load.rate)",
        )
        .hint("write one count, of clients that stand by for arrivals, or leave it out"));
    }
    if load.pages.is_some() {
        let option = "--pages (load.pages; --requests of `hit`)";
        return Err(Failure::usage(format!(
            "{option} and --rate (load.rate) exclude each other: a schedule ends by time"
        ))
        .hint("give --duration instead: arrivals are rate × duration, to the last one"));
    }
    if let Some(ramp) = rates.0.iter().find(|rate| rate.over > load.duration) {
        return Err(Failure::usage(format!(
            "--rate (load.rate): the ramp `{ramp}` takes longer than --duration (load.duration), {}",
            load.duration
        ))
        .hint(format!("give -d {} or more, or a shorter ramp", ramp.over)));
    }
    if let Some(rate) = rates.0.iter().find(|rate| rate.expected(load.duration.0) < 1.0) {
        return Err(Failure::usage(format!(
            "--rate (load.rate): `{rate}` has not a single arrival within --duration (load.duration), {}",
            load.duration
        ))
        .hint("give a higher rate or a longer duration"));
    }
    Ok(())
}

fn name(name: &str) -> Result<(), Failure> {
    let rule = if name.is_empty() {
        "empty"
    } else if name.chars().count() > NAME_CHARS_MAX {
        "longer than 100 characters"
    } else if name.starts_with('.') {
        "hidden, because it begins with a dot"
    } else if !name.chars().all(|c| c.is_alphanumeric() || "._-".contains(c)) {
        "not usable as part of a file name"
    } else {
        return Ok(());
    };
    Err(wrong("--name (name)", name, rule).hint("write letters, digits, dots, hyphens and underscores"))
}

fn load(spec: &LoadSpec) -> Result<(), Failure> {
    if spec.iterations == 0 {
        return Err(wrong("--iterations (load.iterations)", "0", "less than 1").hint("write at least 1"));
    }
    if spec.iterations > ITERATIONS_MAX {
        let rule = format!("more than {ITERATIONS_MAX}");
        return Err(wrong("--iterations (load.iterations)", &spec.iterations.to_string(), &rule)
            .hint("3 to 10 give an interval; for a longer run, make its windows longer (-d)"));
    }
    let timed_runs = spec.levels() as u64 * u64::from(spec.iterations);
    if timed_runs > TIMED_RUNS_MAX {
        return Err(Failure::usage(format!(
            "--iterations (load.iterations): {} of {} levels are {timed_runs} timed runs, more than {TIMED_RUNS_MAX}",
            spec.iterations,
            spec.levels()
        ))
        .hint("ask for fewer levels, or fewer iterations"));
    }
    if spec.aa && (spec.iterations < 4 || spec.iterations % 2 == 1) {
        let rule = "not an even number of at least 4, as the two arms of --aa (load.aa) need";
        return Err(wrong("--iterations (load.iterations)", &spec.iterations.to_string(), rule)
            .hint("write -i 4, -i 6 or more"));
    }
    if spec.pages == Some(0) {
        return Err(wrong("--pages (load.pages)", "0", "less than 1")
            .hint("write at least 1, or leave it out to end levels by --duration"));
    }
    if spec.duration == Nanos::ZERO && spec.pages.is_none() {
        return Err(Failure::usage(
            "--duration (load.duration) is 0s and --pages (load.pages) is not given: a level would never end",
        )
        .hint("give one of them, as in -d 10s or -n 10k"));
    }
    Ok(())
}

fn client(spec: &ClientSpec) -> Result<(), Failure> {
    if spec.parallel == 0 {
        return Err(wrong("--parallel (client.parallel)", "0", "less than 1").hint("write at least 1"));
    }
    match spec.requests_per_connection {
        Some(0) => {
            return Err(wrong(
                "--requests-per-connection (client.requests_per_connection)",
                "0",
                "less than 1",
            )
            .hint("write at least 1, or leave it out for no limit"));
        }
        Some(limit) if spec.connections != ConnectionPolicy::KeepAlive => {
            return Err(Failure::usage(format!(
                "--requests-per-connection (client.requests_per_connection) is {limit}, but connections are not kept alive"
            ))
            .hint("add --connections keep-alive, or leave out the limit"));
        }
        _ => {}
    }
    if Method::from_bytes(spec.method.as_bytes()).is_err() {
        return Err(wrong("--method (client.method)", &spec.method, "not a method")
            .hint("write one word, as in GET or POST"));
    }
    if spec.method == "CONNECT" {
        return Err(wrong(
            "--method (client.method)",
            "CONNECT",
            "a request for a tunnel, which has no response to measure",
        )
        .hint("use another method"));
    }
    for (name, value) in &spec.headers {
        if HeaderName::from_bytes(name.as_bytes()).is_err() || HeaderValue::from_str(value).is_err() {
            return Err(wrong(
                "--header (client.headers)",
                &format!("{name}: {value}"),
                "not a header field",
            )
            .hint("write the field's name, a colon and its value, as in 'Accept: */*'"));
        }
    }
    for (option, value) in [
        ("--connect-timeout (client.connect_timeout)", spec.connect_timeout),
        ("--first-byte-timeout (client.first_byte_timeout)", spec.first_byte_timeout),
        ("--timeout (client.request_timeout)", spec.request_timeout),
    ] {
        if value == Nanos::ZERO {
            return Err(wrong(option, "0s", "no time at all").hint("write how long to wait, as in 10s"));
        }
    }
    if let Some(proxy) = &spec.proxy {
        if spec.unix_socket.is_some() {
            return Err(Failure::usage(
                "--proxy (client.proxy) and --unix-socket (client.unix_socket) exclude each other",
            )
            .hint("leave out one of them"));
        }
        let (target, path) = target::split(proxy).map_err(|failure| Failure {
            message: format!("--proxy (client.proxy): {}", failure.message),
            ..failure
        })?;
        if path != "/" {
            return Err(
                wrong("--proxy (client.proxy)", proxy, "a URL with a path").hint(format!("write {target}"))
            );
        }
    }
    Ok(())
}

fn cpus(option: &str, list: &str) -> Result<(), Failure> {
    match parse_cpu_list(list) {
        Ok(_) => Ok(()),
        Err(_) => {
            Err(wrong(option, list, "not a list of CPUs").hint("write numbers and ranges, as in 0-1,4"))
        }
    }
}

fn wrong(option: &str, value: &str, rule: &str) -> Failure {
    Failure::usage(format!("{option}: `{value}` is {rule}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use webstone_model::spec::Levels;

    fn message(change: impl FnOnce(&mut RunSpec)) -> String {
        let mut spec = RunSpec::default();
        change(&mut spec);
        check(&spec).unwrap_err().to_string()
    }

    #[test]
    fn the_defaults_keep_every_rule() {
        assert_eq!(check(&RunSpec::default()), Ok(()));
        assert_eq!(check(&super::super::hit_defaults()), Ok(()));
        assert_eq!(RunSpec::default().load.clients, Levels(vec![5, 10, 20, 40]));
    }

    #[test]
    fn each_rule_names_flag_key_value_and_remedy() {
        type Change = fn(&mut RunSpec);
        let cases: [(&str, Change); 14] = [
            (
                "--iterations (load.iterations): `4294967295` is more than 10000\nhint: 3 to 10 give an interval; \
                 for a longer run, make its windows longer (-d)",
                |s| s.load.iterations = u32::MAX,
            ),
            (
                "--iterations (load.iterations): 10000 of 11 levels are 110000 timed runs, more than 100000\n\
                 hint: ask for fewer levels, or fewer iterations",
                |s| {
                    s.load.iterations = 10_000;
                    s.load.clients = "1..11+1".parse().unwrap();
                },
            ),
            ("--iterations (load.iterations): `0` is less than 1\nhint: write at least 1", |s| {
                s.load.iterations = 0
            }),
            (
                "--pages (load.pages): `0` is less than 1\nhint: write at least 1, or leave it out to end levels by --duration",
                |s| s.load.pages = Some(0),
            ),
            (
                "--duration (load.duration) is 0s and --pages (load.pages) is not given: a level would never end\nhint: give one of them, as in -d 10s or -n 10k",
                |s| s.load.duration = Nanos::ZERO,
            ),
            ("--parallel (client.parallel): `0` is less than 1\nhint: write at least 1", |s| {
                s.client.parallel = 0
            }),
            (
                "--requests-per-connection (client.requests_per_connection) is 5, but connections are not kept alive\nhint: add --connections keep-alive, or leave out the limit",
                |s| s.client.requests_per_connection = Some(5),
            ),
            (
                "--method (client.method): `GET /` is not a method\nhint: write one word, as in GET or POST",
                |s| s.client.method = "GET /".into(),
            ),
            (
                "--header (client.headers): `a b: c` is not a header field\nhint: write the field's name, a colon and its value, as in 'Accept: */*'",
                |s| {
                    s.client.headers.insert("a b".into(), "c".into());
                },
            ),
            (
                "--timeout (client.request_timeout): `0s` is no time at all\nhint: write how long to wait, as in 10s",
                |s| s.client.request_timeout = Nanos::ZERO,
            ),
            (
                "--proxy (client.proxy): URL `localhost:1`: the protocol is missing\nhint: write http://localhost:1",
                |s| s.client.proxy = Some("localhost:1".into()),
            ),
            (
                "--cpus (generator.cpus): `3-1` is not a list of CPUs\nhint: write numbers and ranges, as in 0-1,4",
                |s| s.generator.cpus = "3-1".into(),
            ),
            (
                "the server's address (server.listen): `here` has no port\nhint: write an address and a port, as in 127.0.0.1:8080, with port 0 for a free one",
                |s| s.server.listen = "here".into(),
            ),
            (
                "--name (name): `a/b` is not usable as part of a file name\nhint: write letters, digits, dots, hyphens and underscores",
                |s| s.name = "a/b".into(),
            ),
        ];
        for (expected, change) in cases {
            assert_eq!(message(change), format!("error: {expected}"));
        }
    }
}
