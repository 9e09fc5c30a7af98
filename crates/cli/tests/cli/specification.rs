//! What is typed and what it means, as shown by `--dump-spec`.

use webstone_measure::units::Nanos;
use webstone_model::spec::{Check, ConnectionPolicy, HttpVersion, Levels, Order, Resolve, RunSpec, WhenBusy};
use webstone_workload::arrivals::ArrivalProcess;
use webstone_workload::http2_settings::Http2Settings;

use crate::program::{Said, Server, assert_ended, webstone, webstone_in};

fn parsed(said: &Said) -> RunSpec {
    assert_eq!((said.code, said.err.as_str()), (0, ""), "{said:?}");
    toml::from_str(&said.out).unwrap()
}

fn dumped(arguments: &[&str]) -> RunSpec {
    parsed(&webstone(&[arguments, &["--dump-spec"]].concat()))
}

#[test]
fn nothing_typed_is_the_defaults() {
    let mut kept = RunSpec::default();
    kept.client.connections = ConnectionPolicy::KeepAlive;
    assert_eq!(dumped(&["run"]), kept);
}

#[test]
fn every_flag_of_a_run_reaches_its_place() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("body.json"), "{\"a\":1}").unwrap();
    let body = format!("@{}", dir.path().join("body.json").display());
    let spec = dumped(&[
        "run",
        "http://127.0.0.1:8080/",
        "http://[::1]:8081",
        "-w",
        "general",
        "-c",
        "1..8*2",
        "-d",
        "1m30s",
        "-i",
        "3",
        "-n",
        "10k",
        "--warmup",
        "0",
        "--drain",
        "500ms",
        "--order",
        "random",
        "--connections",
        "keep-alive",
        "--requests-per-connection",
        "100",
        "--parallel",
        "6",
        "--http",
        "1.0",
        "-m",
        "PUT",
        "-H",
        "Accept: */*",
        "-H",
        "X-A:b",
        "--body",
        &body,
        "--seed",
        "7",
        "--resolve",
        "per-connection",
        "--source",
        "127.0.0.1,127.0.0.2",
        "--proxy",
        "http://127.0.0.1:3128",
        "--connect-timeout",
        "1s",
        "--first-byte-timeout",
        "2s",
        "--timeout",
        "3s",
        "--check",
        "content",
        "--reset",
        "-t",
        "2",
        "--cpus",
        "0-1",
        "--page-histograms",
        "5",
        "--trace",
        "1",
        "--record-all",
        "all.csv",
        "--name",
        "x-1",
    ]);
    let mut expected = RunSpec {
        name: "x-1".into(),
        target: vec!["http://127.0.0.1:8080".into(), "http://[::1]:8081".into()],
        workload: "general".into(),
        ..RunSpec::default()
    };
    expected.load.clients = Levels(vec![1, 2, 4, 8]);
    expected.load.duration = Nanos::from_secs(90);
    expected.load.iterations = 3;
    expected.load.pages = Some(10_000);
    expected.load.warmup = Nanos::ZERO;
    expected.load.drain = Nanos::from_millis(500);
    expected.load.order = Order::Random;
    expected.client.connections = ConnectionPolicy::KeepAlive;
    expected.client.requests_per_connection = Some(100);
    expected.client.parallel = 6;
    expected.client.http = HttpVersion::Http10;
    expected.client.method = "PUT".into();
    expected.client.headers = [("Accept", "*/*"), ("X-A", "b")].into_iter().collect();
    expected.client.body = Some("{\"a\":1}".into());
    expected.client.seed = 7;
    expected.client.resolve = Resolve::PerConnection;
    expected.client.source = vec!["127.0.0.1".parse().unwrap(), "127.0.0.2".parse().unwrap()];
    expected.client.proxy = Some("http://127.0.0.1:3128".into());
    expected.client.connect_timeout = Nanos::from_secs(1);
    expected.client.first_byte_timeout = Nanos::from_secs(2);
    expected.client.request_timeout = Nanos::from_secs(3);
    expected.client.check = Check::Content;
    expected.client.reset = true;
    expected.generator.workers = 2;
    expected.generator.cpus = "0-1".into();
    expected.generator.page_histograms = 5;
    expected.generator.trace = 1;
    expected.generator.record_all = Some("all.csv".into());
    assert_eq!(spec, expected);
}

#[test]
fn every_flag_of_the_embedded_server_reaches_its_place() {
    let spec = dumped(&[
        "run",
        "--server-listen",
        "127.0.0.1:9",
        "--server-threads",
        "3",
        "--server-cpus",
        "1",
        "--server-root",
        "/srv",
        "--server-no-cache",
        "--server-no-keep-alive",
        "--server-log",
        "a.log",
        "--server-resolve-names",
        "--server-backlog",
        "7",
        "--unix-socket",
        "/s",
        "--no-pin",
        "-K",
    ]);
    let mut expected = RunSpec::default();
    expected.server.listen = "127.0.0.1:9".into();
    expected.server.threads = 3;
    expected.server.cpus = "1".into();
    expected.server.root = Some("/srv".into());
    expected.server.cache = Some(false);
    expected.server.keep_alive = false;
    expected.server.access_log = Some("a.log".into());
    expected.server.resolve_names = true;
    expected.server.backlog = Some(7);
    expected.client.unix_socket = Some("/s".into());
    expected.client.connections = ConnectionPolicy::KeepAlive;
    expected.generator.pin = false;
    assert_eq!(spec, expected);
}

#[test]
fn flags_override_the_file_and_the_file_the_defaults() {
    let dir = tempfile::tempdir().unwrap();
    let file = "name = \"lab\"\n[load]\nclients = \"1,2\"\nduration = \"3s\"\n[client.headers]\naccept = \"text/html\"\n\
                X-Kept = \"1\"\n[disclosure]\ntopology = \"loopback\"\n";
    std::fs::write(dir.path().join("t.toml"), file).unwrap();
    let arguments =
        ["run", "-f", "t.toml", "-d", "9s", "-H", "Accept: */*", "-H", "accept: text/plain", "--dump-spec"];
    let spec = parsed(&webstone_in(dir.path(), &arguments));
    let mut expected = RunSpec { name: "lab".into(), ..RunSpec::default() };
    expected.load.clients = Levels(vec![1, 2]);
    expected.load.duration = Nanos::from_secs(9);
    // As without a file.
    expected.client.connections = ConnectionPolicy::KeepAlive;
    expected.client.headers =
        [("X-Kept", "1"), ("Accept", "*/*"), ("Accept", "text/plain")].into_iter().collect();
    expected.disclosure.insert("topology".into(), "loopback".into());
    assert_eq!(spec, expected);
}

#[test]
fn a_dumped_specification_is_a_testbed_file_that_dumps_as_itself() {
    let dir = tempfile::tempdir().unwrap();
    let typed = [
        "run",
        "http://127.0.0.1:1",
        "-c",
        "3",
        "-n",
        "5",
        "-H",
        "A: \"b\"",
        "--body",
        "x\ny",
        "--dump-spec",
    ];
    let first = webstone(&typed);
    std::fs::write(dir.path().join("t.toml"), &first.out).unwrap();
    let second = webstone_in(dir.path(), &["run", "-f", "t.toml", "--dump-spec"]);
    assert_eq!((second.code, second.out), (0, first.out));
}

#[test]
fn a_body_is_posted_unless_a_method_was_named() {
    assert_eq!(dumped(&["run", "--body", "x"]).client.method, "POST");
    assert_eq!(dumped(&["run", "--body", "x", "-m", "GET"]).client.method, "GET");
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("t.toml"), "[client]\nmethod = \"PATCH\"\n").unwrap();
    let said = webstone_in(dir.path(), &["run", "-f", "t.toml", "--body", "x", "--dump-spec"]);
    assert_eq!(parsed(&said).client.method, "PATCH");
}

#[test]
fn a_rate_brings_what_follows_from_it() {
    let spec = dumped(&["run", "-R", "1k..4k*2", "--arrivals", "poisson", "--when-busy", "skip", "--spin"]);
    assert_eq!(spec.load.rate, Some("1000,2000,4000".parse().unwrap()));
    assert_eq!((spec.load.arrivals, spec.load.when_busy), (ArrivalProcess::Poisson, WhenBusy::Skip));
    // Enough clients for answers of 50 ms at the highest rate.
    assert_eq!((spec.load.clients, spec.generator.spin), (Levels(vec![200]), Some(true)));

    let ramp = |more: &[&str]| dumped(&[&["run", "-R", "10..50k/90s"], more].concat()).load;
    assert_eq!((ramp(&[]).duration, ramp(&[]).clients), (Nanos::from_secs(90), Levels(vec![1000])));
    assert_eq!(
        (ramp(&["-d", "2m"]).duration, ramp(&["-c", "64"]).clients),
        (Nanos::from_secs(120), Levels(vec![64]))
    );
    assert_eq!(dumped(&["run", "-R", "5"]).load.clients, Levels(vec![10]));
}

#[test]
fn a_testbed_file_may_hold_a_rate() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("t.toml"), "[load]\nrate = \"1k..3k+1k\"\narrivals = \"poisson\"\n")
        .unwrap();
    let spec = parsed(&webstone_in(dir.path(), &["run", "-f", "t.toml", "--dump-spec"]));
    assert_eq!((spec.load.rate, spec.load.clients), (Some("1k,2k,3k".parse().unwrap()), Levels(vec![150])));
    let written = webstone_in(dir.path(), &["run", "-f", "t.toml", "--dump-spec"]).out;
    assert!(written.contains("rate = \"1000,2000,3000\""), "{written}");
}

/// Flags and files are checked by the same rules; for a file, the error has the line.
#[test]
fn flags_and_files_are_checked_by_the_same_rules() {
    let dir = tempfile::tempdir().unwrap();
    for (flags, file) in [
        (&["-i", "20k"][..], "[load]\niterations = 20000\n"),
        (&["-d", "0s"], "[load]\nduration = \"0s\"\n"),
        (&["-R", "1k", "-c", "1,2"], "[load]\nrate = \"1k\"\nclients = \"1,2\"\n"),
        (&["-R", "1k", "-n", "9"], "[load]\nrate = \"1k\"\npages = 9\n"),
        (&["-R", "1..5/60s", "-d", "9s"], "[load]\nrate = \"1..5/60s\"\nduration = \"9s\"\n"),
        (&["--when-busy", "skip"], "[load]\nwhen_busy = \"skip\"\n"),
        (
            &["--requests-per-connection=5", "--connections=per-request"],
            "[client]\nrequests_per_connection = 5\nconnections = \"per-request\"\n",
        ),
        (&["-m", "a b"], "[client]\nmethod = \"a b\"\n"),
        (&["--proxy", "https://p"], "[client]\nproxy = \"https://p\"\n"),
        (&["--name", ".a"], "name = \".a\"\n"),
        (&["--server-processes", "2"], "[server]\nprocesses = 2\n"),
        (&["--server", "caddy", "--server-backlog", "7"], "[server]\nsoftware = \"caddy\"\nbacklog = 7\n"),
        (&["--server-log", "on"], "[server]\naccess_log = \"on\"\n"),
        (&["--server-threads", "2", "http://a"], "target = [\"http://a\"]\n[server]\nthreads = 2\n"),
        (&["--server-agent", "x"], "[server]\nagent = \"x\"\n"),
    ] {
        std::fs::write(dir.path().join("t.toml"), file).unwrap();
        let typed = webstone_in(dir.path(), &[&["run"], flags, &["--dump-spec"]].concat());
        let written = webstone_in(dir.path(), &["run", "-f", "t.toml", "--dump-spec"]);
        let (said, rule) = written.err.split_once("error: testbed file t.toml, line ").map_or_else(
            || panic!("{file}: {}", written.err),
            |(_, rest)| rest.split_once(": ").unwrap_or_default(),
        );
        assert!(said.parse::<usize>().is_ok_and(|line| line <= file.lines().count()), "{file}: {said}");
        assert_eq!((typed.code, written.code), (2, 2));
        assert_eq!(typed.err, format!("error: {rule}"), "{flags:?}");
        assert!(rule.contains("\nhint: "), "{rule}");
    }
}

#[test]
fn settings_of_a_browser_are_values_in_every_specification() {
    let typed = |text: &str| {
        let said = webstone(&["run", "--http", "2", "--http2-settings", text, "--dump-spec"]);
        (parsed(&said).client.http2_settings, said.out)
    };
    let (chrome, text) = typed("chrome");
    assert_eq!(chrome, Http2Settings::CHROME);
    // A later version may have other values under this name.
    let values = "header-table=65536,header-list=262144,window=6291456,connection-window=15728640";
    assert!(text.contains(&format!("http2_settings = \"{values}\"")), "{text}");
    assert_eq!(typed(values).0, chrome);
    assert_eq!(typed("firefox").0, Http2Settings::FIREFOX);
    assert!(!webstone(&["run", "--http", "2", "--dump-spec"]).out.contains("http2_settings"));
}

#[test]
fn a_run_with_the_settings_of_a_browser_says_so() {
    let dir = tempfile::tempdir().unwrap();
    let run =
        ["run", "--tls", "--http", "2", "-K", "--parallel", "4", "-c", "2", "-n", "40", "--warmup", "0s"];
    let more = ["--http2-settings", "firefox", "--full"];
    let said = webstone_in(dir.path(), &[&run[..], &more].concat());
    assert_ended(&said);
    let line = said.out.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(line.contains("HTTP/2 settings: those of firefox (header-table=65536,"), "{}", said.out);
    let json = webstone_in(dir.path(), &["report", "last", "--format", "json"]);
    let record: serde_json::Value = serde_json::from_str(&json.out).unwrap();
    assert_eq!(record["spec"]["client"]["http2_settings"], Http2Settings::FIREFOX.to_string());
    assert_eq!(record["iterations"][0]["measured"]["counts"]["failed"], 0);
}

#[test]
fn paths_in_a_testbed_file_are_relative_to_it() {
    let dir = tempfile::tempdir().unwrap();
    let beds = dir.path().join("beds");
    std::fs::create_dir(&beds).unwrap();
    std::fs::write(beds.join("list"), "/a 1 #10\n").unwrap();
    std::fs::write(beds.join("bed.toml"), "workload = 'list'\n[load]\nclients = '2'\n").unwrap();
    let plan = webstone_in(dir.path(), &["run", "-f", "beds/bed.toml", "--plan"]);
    assert_eq!((plan.code, plan.err.as_str()), (0, ""));
    assert!(
        plan.out.starts_with("reference, beds/list: 2 clients\n1 levels × 1 iterations: 7 s"),
        "{}",
        plan.out
    );
    let other = dir.path().join("elsewhere");
    std::fs::create_dir(&other).unwrap();
    let bed = beds.join("bed.toml");
    let run = [
        "run",
        "-f",
        bed.to_str().unwrap(),
        "-d",
        "100ms",
        "--warmup",
        "0",
        "--no-store",
        "--format",
        "json",
    ];
    let said = webstone_in(&other, &run);
    assert!(said.out.contains("\"url\": \"/a\""), "{}", said.err);
    let series = "[series]\nservers = ['reference']\nworkloads = ['list']\n";
    std::fs::write(beds.join("series.toml"), series).unwrap();
    let plan = webstone_in(&other, &["servers", "-f", "../beds/series.toml", "--plan"]);
    assert_eq!((plan.code, plan.err.as_str()), (0, ""), "{}", plan.out);
    // What is missing is told of before any load.
    for (command, text, told) in [
        ("run", "workload = 'none'\n", "there is no workload `beds/none`"),
        ("run", "server_config = ['none']\n", "server_config: `beds/none` is not there"),
        ("run", "[client.tls]\ncacert = 'none.pem'\n", "client.tls.cacert: `beds/none.pem` is not there"),
        (
            "servers",
            "[series]\nservers = ['reference']\nworkloads = ['list', 'none']\n",
            "there is no workload `beds/none`",
        ),
        (
            "servers",
            "[series]\nservers = ['reference']\n[server]\nroot = 'www'\n",
            "server.root: `beds/www` is not there",
        ),
    ] {
        std::fs::write(beds.join("missing.toml"), text).unwrap();
        let said = webstone_in(dir.path(), &[command, "-f", "beds/missing.toml"]);
        assert_eq!(said.code, 2, "{text}: {}", said.err);
        let shown = said.err.replace("--server-config (server_config)", "server_config");
        let shown = shown.replace("--cacert (client.tls.cacert)", "client.tls.cacert");
        assert!(
            shown.replace("--server-root (server.root)", "server.root").contains(told),
            "{text}: {}",
            said.err
        );
        assert!(!dir.path().join("runs").exists(), "{text}");
    }
}

#[test]
fn quick_makes_three_short_levels() {
    let dir = tempfile::tempdir().unwrap();
    let text = "[load]\nclients = '1..9+1'\nduration = '10m'\niterations = 5\n";
    std::fs::write(dir.path().join("bed.toml"), text).unwrap();
    let spec = parsed(&webstone_in(dir.path(), &["run", "-f", "bed.toml", "--quick", "--dump-spec"]));
    assert_eq!(spec.load.clients, "1,5,9".parse().unwrap());
    assert_eq!((spec.load.duration, spec.load.iterations), (Nanos::from_secs(2), 1));
    // Flags override it.
    let spec =
        parsed(&webstone_in(dir.path(), &["run", "-f", "bed.toml", "--quick", "-d", "3s", "--dump-spec"]));
    assert_eq!(spec.load.duration, Nanos::from_secs(3));
    let said = webstone_in(dir.path(), &["run", "-f", "bed.toml", "--quick", "-d", "200ms", "-c", "1"]);
    assert_eq!(said.code, 0, "{}", said.err);
    // A window that ends before the next answer of a slow server shows no defect.
    let server = Server::start(dir.path(), &[]);
    let url = format!("{}/test?delay=900ms", server.url);
    let slow = ["run", &url, "--quick", "-d", "200ms", "--warmup", "0s", "-c", "1", "--no-store"];
    let said = webstone_in(dir.path(), &slow);
    assert!(said.code == 0 && said.err.contains("no request ended inside"), "{} {}", said.code, said.err);
}
