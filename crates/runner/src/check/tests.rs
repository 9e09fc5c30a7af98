//! What every way of asking has in common: completed once, refused by the same rules, the same when it is checked again.

use super::*;
use webstone_measure::units::Nanos;
use webstone_model::spec::{Levels, Software};

fn asked(text: &str) -> Asked {
    let testbed = Testbed::parse("t.toml", text).unwrap_or_else(|error| panic!("{text}: {error:?}"));
    Asked { given: Vec::new(), testbed: Some(testbed.clone()), ..Asked::from(testbed.spec) }
}

fn checked(text: &str) -> RunSpec {
    check(&asked(text)).unwrap_or_else(|error| panic!("{text}: {error}")).spec
}

#[test]
fn the_defaults_keep_every_rule() {
    let spec = RunSpec::default();
    assert_eq!(check(&spec.clone().into()), Ok(Checked { spec, warnings: Vec::new() }));
}

#[test]
fn what_was_checked_is_the_same_when_it_is_checked_again() {
    for text in [
        "",
        "target = [\"http://WEB:80/\", \"http://[0::1]:81\"]\n[client]\nproxy = \"http://P:3128/\"\n",
        "[load]\nrate = \"1k..3k+1k\"\n",
        "[load]\nrate = \"10..50k/6s\"\n",
        "[load]\nrate = \"10..50k/90s\"\nduration = \"2m\"\nclients = \"7\"\n",
        "[server]\nsoftware = \"haproxy\"\norigin = \"http://A/\"\n",
        "[load]\nrate = \"100\"\nclients = \"5\"\n[find]\nslo = \"p(99)<50ms\"\n",
    ] {
        let once = checked(text);
        assert_eq!(check(&once.clone().into()).map(|again| again.spec), Ok(once), "{text}");
    }
    // Values that happen to be those of a run without options.
    let mut typed = asked("[load]\nrate = \"10..50k/3s\"\n");
    (typed.spec.load.duration, typed.given) = (Nanos::from_secs(6), vec!["load.duration"]);
    let once = check(&typed).unwrap().spec;
    assert_eq!(once.load.duration, Nanos::from_secs(6));
    assert_eq!(check(&once.clone().into()).map(|again| again.spec), Ok(once));
    let stated = checked("[load]\nrate = \"10..50k/3s\"\nduration = \"6s\"\n");
    assert_eq!(stated.load.duration, Nanos::from_secs(6));
}

#[test]
fn a_rate_brings_what_follows_from_it_where_that_is_not_given() {
    let load = |text: &str| checked(text).load;
    let ramp = load("[load]\nrate = \"10..50k/90s\"\n");
    assert_eq!((ramp.duration, ramp.clients), (Nanos::from_secs(90), Levels(vec![1000])));
    let ramp = load("[load]\nrate = \"10..50k/90s\"\nduration = \"2m\"\nclients = \"64\"\n");
    assert_eq!((ramp.duration, ramp.clients), (Nanos::from_secs(120), Levels(vec![64])));
    // Given on the command line, with the default's value.
    let mut typed = asked("[load]\nrate = \"10..50k/90s\"\n");
    typed.given = vec!["load.duration"];
    assert_eq!(check(&typed).unwrap_err().key, "load.rate");
}

#[test]
fn urls_are_written_in_one_way() {
    let spec = checked("target = [\"http://WEB:80/\"]\n[client]\nproxy = \"HTTP://p:3128/\"\n");
    assert_eq!((spec.target, spec.client.proxy), (vec!["http://web".into()], Some("http://p:3128".into())));
    assert_eq!(checked("[server]\nsoftware = \"haproxy\"\n").server.software, Software::Haproxy);
}

#[test]
fn cpus_that_pin_nothing_are_warned_about() {
    let warnings = check(&asked("[generator]\npin = false\ncpus = \"0\"\n")).unwrap().warnings;
    assert_eq!(warnings, ["generator.cpus: `0` pins nothing, because generator.pin is false"]);
}

#[test]
fn a_broken_rule_is_told_with_place_key_value_and_remedy() {
    // Line of the key; key; rule; remedy.
    for (text, line, key, rule, remedy) in [
        ("[load]\niterations = 0\n", 2, "load.iterations", "`0` is less than 1", "write at least 1"),
        (
            "[load]\niterations = 4294967295\n",
            2,
            "load.iterations",
            "`4294967295` is more than 10000",
            "3 to 10",
        ),
        (
            "[load]\niterations = 10000\nclients = \"1..11+1\"\n",
            2,
            "load.iterations",
            "`10000` of 11 levels are 110000 timed runs, more than 100000",
            "fewer levels",
        ),
        (
            "[load]\naa = true\niterations = 3\n",
            3,
            "load.iterations",
            "`3` is not an even number",
            "write 4, 6",
        ),
        ("\n[load]\npages = 0\n", 3, "load.pages", "`0` is less than 1", "write at least 1"),
        (
            "load.duration = \"0s\"\n",
            1,
            "load.duration",
            "`0s`, and load.pages is not given",
            "give one of them",
        ),
        (
            "[load]\nrate = \"1k\"\nclients = \"1,2\"\n",
            3,
            "load.clients",
            "`1,2` is more than one level",
            "one count",
        ),
        (
            "[load]\nrate = \"1k\"\npages = 9\n",
            3,
            "load.pages",
            "`9`, but a schedule of load.rate",
            "load.duration",
        ),
        (
            "[load]\nrate = \"1k..5k/60s\"\nduration = \"10s\"\n",
            2,
            "load.rate",
            "the ramp `1000..5000/1m` takes longer than load.duration, 10s",
            "give 1m or more",
        ),
        ("[load]\nrate = \"0.01\"\n", 2, "load.rate", "`0.01` has not a single arrival", "higher rate"),
        (
            "[load]\narrivals = \"poisson\"\n",
            2,
            "load.arrivals",
            "of an open loop, but load.rate",
            "add a rate",
        ),
        ("[generator]\ncpus = \"3-1\"\n", 2, "generator.cpus", "`3-1` is not a list of CPUs", "as in 0-1,4"),
        ("[client]\nparallel = 0\n", 2, "client.parallel", "`0` is less than 1", "write at least 1"),
        (
            "[client]\nrequests_per_connection = 5\n",
            2,
            "client.requests_per_connection",
            "`5`, but connections are not kept alive",
            "set client.connections to keep-alive",
        ),
        ("[client]\nmethod = \"GET /\"\n", 2, "client.method", "`GET /` is not a method", "one word"),
        (
            "[client.headers]\n\"a b\" = \"c\"\n",
            1,
            "client.headers",
            "`a b: c` is not a header field",
            "a colon",
        ),
        (
            "[client]\nrequest_timeout = \"0s\"\n",
            2,
            "client.request_timeout",
            "`0s` is too short",
            "as in 10s",
        ),
        (
            "[client]\nallow_hosts = [\"http://x\"]\n",
            2,
            "client.allow_hosts",
            "`http://x` is not a host",
            "HOST:PORT",
        ),
        (
            "[client]\nproxy = \"p:1\"\n",
            2,
            "client.proxy",
            "URL `p:1`: the protocol is missing",
            "write http://p:1",
        ),
        (
            "[client]\nproxy = \"http://p\"\nunix_socket = \"/s\"\n",
            2,
            "client.proxy",
            "`http://p` and client.unix_socket cannot be used together",
            "leave out one",
        ),
        (
            "target = [\"ftp://a\"]\n",
            1,
            "target",
            "URL `ftp://a`: `ftp` is not a protocol that can be measured",
            "write http://HOST",
        ),
        (
            "target = [\"http://a/x\"]\n",
            1,
            "target",
            "URL `http://a/x`: it must name only a server",
            "write http://a",
        ),
        (
            "target = [\"http://a\"]\n[server]\nthreads = 2\n",
            3,
            "server.threads",
            "it applies to a server that webstone starts, but the server under test is http://a",
            "remove it",
        ),
        ("[server]\nlisten = \"here\"\n", 2, "server.listen", "`here` has no port", "an address and a port"),
        ("[server]\nbacklog = 0\n", 2, "server.backlog", "`0` is less than 1", "write at least 1"),
        (
            "[server]\nresolve_names = true\n",
            2,
            "server.resolve_names",
            "none is written",
            "server.access_log",
        ),
        (
            "[server]\nprocesses = 7\n",
            2,
            "server.processes",
            "does not apply to the reference",
            "such as nginx",
        ),
        ("[server]\nagent = \"'\"\n", 2, "server.agent", "`'` is not a command", "as in 'ssh"),
        ("[server]\nagent = \"x\"\n", 2, "server.agent", "is started here, by webstone", "remove it"),
        ("name = \"a/b\"\n", 1, "name", "`a/b` is not usable as part of a file name", "letters, digits"),
        ("[series]\nservers = [\"nginx\"]\n", 1, "series", "a matrix is several runs", "webstone servers -f"),
        ("[find]\nslo = \"p(99)<50\"\n", 2, "find.slo", "needs a unit", "p(99)<50ms"),
        (
            "[find]\nslo = \"avg<1s\"\nfrom = 20\nto = 10\n",
            3,
            "find.from",
            "`20` is above find.to, 10",
            "the lowest",
        ),
        (
            "[find]\nslo = \"avg<1s\"\nto = 200000000\n",
            3,
            "find.to",
            "more than 100000000 arrivals",
            "at most 100m",
        ),
        (
            "[server]\nsoftware = \"haproxy\"\norigin = \"https://a\"\n",
            3,
            "server.origin",
            "ask their origin without TLS",
            "http:// URL",
        ),
        (
            "target = [\"http://a\"]\n[server]\ndns_delay = \"20ms\"\n",
            3,
            "server.dns_delay",
            "the server under test is http://a",
            "remove it",
        ),
        (
            "[find]\nslo = \"avg<1s\"\nrepeats = 2\n",
            3,
            "find.repeats",
            "`2` is not a possible number",
            "write 3 to 100",
        ),
    ] {
        let error = check(&asked(text)).map(|checked| checked.spec).unwrap_err();
        assert_eq!(
            (error.place.as_deref(), error.key.as_str()),
            (Some(&*format!("testbed file t.toml, line {line}")), key)
        );
        assert!(error.rule.contains(rule) && error.remedy.contains(remedy), "{error}; {}", error.remedy);
        // The rule does not depend on who asked.
        let from_elsewhere = check(&Asked { testbed: None, ..asked(text) }).unwrap_err();
        assert_eq!(from_elsewhere, SpecError { place: None, ..error });
    }
}

#[test]
fn what_cannot_go_over_quic_is_refused() {
    let refused = |target: &str, client: &str| {
        let text = format!("{target}[client]\nhttp = \"3\"\n{client}\n");
        check(&asked(&text)).err().map(|error| error.key)
    };
    let there = "target = [\"https://127.0.0.1:1\"]\n";
    for (client, key) in [
        ("reset = true", Some("client.reset")),
        ("bandwidth = \"14.4k\"", Some("client.bandwidth")),
        ("unix_socket = \"/s\"", Some("client.unix_socket")),
        ("proxy_protocol = \"v1\"", Some("client.proxy_protocol")),
        ("proxy = \"http://p:3128\"", Some("client.proxy")),
        ("connections = \"keep-alive\"\npipeline = 4", Some("client.pipeline")),
        ("http2_settings = \"chrome\"", Some("client.http2_settings")),
        ("tls = { versions = [\"1.2\"] }", Some("client.tls.versions")),
        ("tls = { early_data = true, resume = \"100%\" }\nquic_version = \"2\"", None),
        ("connections = \"keep-alive\"\nclients_per_connection = 4\nstreams = 10", None),
    ] {
        assert_eq!(refused(there, client).as_deref(), key, "{client}");
    }
    assert_eq!(refused("target = [\"http://127.0.0.1:1\"]\n", "").as_deref(), Some("target"));
    let own = checked("[client]\nhttp = \"3\"\n");
    assert!(own.server.http3 && own.server.tls.is_some(), "a server of webstone's own speaks it");
}
