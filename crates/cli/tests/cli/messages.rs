//! Wrong command lines, and the messages about them.

use std::os::unix::ffi::OsStrExt;

use crate::program::{command, said, webstone, webstone_in};
use crate::reaching::server;

/// Checks that a call is a usage error with exactly this text, and prints nothing on standard output.
fn says(arguments: &[&str], text: &str) {
    let said = webstone(arguments);
    assert_eq!(said.err, format!("{text}\n"), "{arguments:?}");
    assert_eq!((said.code, said.out.as_str()), (2, ""), "{arguments:?}");
}

#[test]
fn unknown_commands() {
    says(
        &[],
        "error: a command is missing\nhint: the most common are\n\n  webstone run                                   benchmark the \
         embedded server\n  webstone run --server nginx                    the same on nginx\n  webstone servers \
         nginx,apache,lighttpd,caddy   compare servers\n  webstone hit http://127.0.0.1:8080/            load one URL, as wrk \
         does\n  webstone report last                           print the newest report again\n\n  `webstone --help` lists all \
         commands",
    );
    says(&["runn"], "error: `runn` is not a command\nhint: did you mean `run`?");
    says(&["xyzzy"], "error: `xyzzy` is not a command\nhint: `webstone --help` lists the commands");
    says(
        &["localhost:8080"],
        "error: `localhost:8080` is not a command\nhint: a URL begins with its protocol: `webstone http://localhost:8080`",
    );
    says(
        &["generators"],
        "error: generators: what to do is missing\nhint: write one of\n\n  \
         webstone generators check    Start every agent, and show its host, build, CPUs and clock\n  \
         webstone generators job      Print the manifest of a Kubernetes Job whose pods make load\n\n  \
         `webstone generators --help` explains them",
    );
    says(
        &["workloads", "standard"],
        "error: `standard` is not a command\n\
         hint: `webstone workloads` lists the workloads, `webstone workloads show standard` prints one",
    );
}

#[test]
fn slow_clients_that_cannot_be() {
    says(
        &["hit", "http://127.0.0.1/", "-K", "--bandwidth", "14.4k", "--pipeline", "8"],
        "error: --bandwidth (client.bandwidth): `14.4k`, but with --pipeline (client.pipeline) a connection is not of one client\n\
         hint: leave out --bandwidth (client.bandwidth) or --pipeline (client.pipeline)",
    );
    says(
        &["hit", "http://127.0.0.1/", "--bandwidth", "fast"],
        "error: --bandwidth: `fast` is not a bandwidth\n\
         hint: write bits per second from 300 to 100g, with k, m or g for thousands, as in 14.4k or 2m",
    );
    says(
        &["hit", "http://127.0.0.1/", "--think", "1s", "-R", "10"],
        "error: --think (client.think): `1s` is a pause between pages, but the schedule of --rate (load.rate) says when they begin\n\
         hint: leave out --think (client.think) or --rate (load.rate)",
    );
}

/// In any option, and in any form.
#[test]
fn no_message_quotes_a_password() {
    says(
        &["hit", "http://ann:s3cret@127.0.0.1/"],
        "error: URL `http://[redacted]@127.0.0.1/`: a user name in a URL is not sent\n\
         hint: write a header field instead, as in 'Authorization: Basic …'",
    );
    for arguments in [
        &["run", "http://ann:s3/cret@127.0.0.1/"][..],
        &["run", "ann:s3cret@127.0.0.1"],
        &["ann:s3cret@127.0.0.1"],
        &["http://s3cret@127.0.0.1"],
        &["find", "http://ann:s3cret@127.0.0.1/", "--slo", "errors<1%"],
        &["duel", "http://ann:s3cret@127.0.0.1/", "http://127.0.0.1/"],
        &["hit", "http://127.0.0.1/", "--proxy", "http://ann:s3cret@127.0.0.1:3128"],
        &["hit", "http://127.0.0.1/", "--proxy", "https://ann:s3cret@127.0.0.1:3128"],
        &["hit", "http://127.0.0.1/", "--allow-hosts", "ann:s3cret@127.0.0.1"],
        &["hit", "http://127.0.0.1/", "--connect-to", "http://ann:s3cret@h"],
        &["hit", "--curl", "curl -x http://ann:s3cret@127.0.0.1 ftp://ann:s3cret@127.0.0.1"],
        &["run", "http://127.0.0.1/", "-w", "http://ann:s3cret@127.0.0.1/w.toml"],
        &["ui", "--port", "http://ann:s3cret@127.0.0.1"],
    ] {
        let said = webstone(arguments);
        assert_ne!(said.code, 0, "{arguments:?}");
        assert!(!said.err.contains("cret") && !said.out.contains("cret"), "{arguments:?}: {}", said.err);
    }
}

#[test]
fn unknown_options() {
    says(
        &["run", "--durration", "3s"],
        "error: --durration: there is no such option\nhint: did you mean `--duration`?",
    );
    says(
        &["run", "--xyzzy"],
        "error: --xyzzy: there is no such option\nhint: `webstone run --help` explains every option",
    );
    says(
        &["hit", "--tls-version", "1.1", "https://127.0.0.1/"],
        "error: --tls-version: `1.1` is not a supported version of TLS; known are 1.2, 1.3\n\
         hint: `webstone hit --help` explains every option",
    );
    says(
        &["hit", "--early-data", "https://127.0.0.1/"],
        "error: --early-data (client.tls.early_data): early data is sent only in resumed handshakes, and none is resumed\nhint: resume a share of them with --tls-resume (client.tls.resume), such as 100%",
    );
    says(
        &["duel", "a=http://a/", "b=http://b/", "--record-all", "all.tsv"],
        "error: --record-all: a duel writes no single transactions\nhint: leave it out, or measure each contestant with `run` and compare",
    );
    says(
        &["workout", "http://127.0.0.1:9/", "--trace", "1"],
        "error: --trace: a workout shows no single exchanges\nhint: leave it out, or use `run`",
    );
    says(
        &["run", "-d", "-1s"],
        "error: -1 is read as an option, but there is no such option\nhint: a negative value is not possible here",
    );
}

#[test]
fn options_of_other_programs_get_the_hint_that_helps() {
    for (option, hint) in [
        ("--vus", "the number of clients (virtual users) is -c here, as in -c 10"),
        ("--concurrency", "the number of clients (virtual users) is -c here, as in -c 10"),
        ("--rps", "the rate is -R here: the total, as in -R 1000"),
        ("-X", "the method, which curl calls -X, is -m here, as in -m HEAD"),
        ("--data", "the body is --body here: text, or @FILE"),
    ] {
        says(
            &["hit", "http://a/", option, "10"],
            &format!("error: {option}: there is no such option\nhint: {hint}"),
        );
    }
}

#[test]
fn a_url_alone_is_loaded_as_by_wrk() {
    let url = format!("http://{}/", server("127.0.0.1:0").0);
    for line in [&[&url, "-n", "5"][..], &["-t1", "-c2", "-d1s", "--latency", "-n5", &url]] {
        let said = webstone(line);
        assert!(matches!(said.code, 0 | 4), "{}", said.err);
        assert!(said.out.contains("5 valid responses"), "{}", said.out);
    }
    let said = webstone(&["-t1", "-c2", "-d1s", "http://a/", "--xyzzy"]);
    let what = "error: --xyzzy: there is no such option\nhint: `webstone hit --help` explains every option\n";
    assert_eq!((said.code, said.err.as_str()), (2, what));
}

#[test]
fn an_argument_that_is_not_utf8_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let mut command = command(dir.path(), &["hit"]);
    let said = said(command.arg(std::ffi::OsStr::from_bytes(b"http://a/\xff")));
    let what = "error: the argument `http://a/\u{fffd}` is not UTF-8\n\
                hint: where a URL needs other bytes, write them as escapes, as in %FF\n";
    assert_eq!((said.code, said.err.as_str()), (2, what));
}

#[test]
fn the_newest_run_of_an_empty_directory_is_an_error() {
    for line in
        [&["report", "last"][..], &["report", "last~1"], &["compare", "last~1", "last"], &["verify", "last"]]
    {
        let said = webstone(line);
        let what = "error: there is no run in runs\nhint: `webstone run` makes one, and `webstone hit` with --store; \
                    --runs-dir names another directory\n";
        assert_eq!((said.code, said.err.as_str()), (1, what), "{line:?}");
    }
}

#[test]
fn a_number_without_quotes_in_a_testbed_has_its_own_hint() {
    let dir = tempfile::tempdir().unwrap();
    for (line, value, column) in
        [("duration = 10", "integer `10`", 12), ("clients = 20.5", "floating point `20.5`", 11)]
    {
        std::fs::write(dir.path().join("t.toml"), format!("[load]\n{line}\n")).unwrap();
        let said = webstone_in(dir.path(), &["run", "-f", "t.toml", "--dump-spec"]);
        let what = format!(
            "error: testbed file t.toml, line 2, column {column}: {value} is not in quotes\n\
             hint: write it as text with its unit, as in duration = \"10s\" or clients = \"20\"\n"
        );
        assert_eq!((said.code, said.err), (2, what));
    }
    // A number without a unit is a number of seconds.
    let said = webstone(&["run", "--duration=10", "--dump-spec"]);
    assert!(said.out.contains("\nduration = \"10s\"\n"), "{}", said.out);
}

/// A report for a terminal of this environment.
fn report_in(environment: &[(&str, &str)]) -> String {
    let dir = tempfile::tempdir().unwrap();
    let url = format!("http://{}/", server("127.0.0.1:0").0);
    let mut command = command(dir.path(), &["hit", &url, "-n", "20", "-c", "2"]);
    command.env_remove("LC_ALL").env_remove("LC_CTYPE").env_remove("LANG").env_remove("TERM");
    let said = said(command.envs(environment.iter().copied()));
    assert!(matches!(said.code, 0 | 4), "{}", said.err);
    said.out
}

#[test]
fn without_a_locale_of_unicode_a_report_is_ascii() {
    for environment in [
        &[][..],
        &[("LC_ALL", "C")],
        &[("LANG", "POSIX")],
        &[("LANG", "C.UTF-8"), ("LC_ALL", "C")],
        &[("LANG", "C.UTF-8"), ("TERM", "dumb")],
    ] {
        let report = report_in(environment);
        assert!(report.is_ascii() && report.contains("---"), "{environment:?}: {report}");
    }
    assert!(report_in(&[("LANG", "en_US.utf8"), ("TERM", "xterm")]).contains('─'));
}

#[test]
fn arguments_too_few_or_too_many() {
    says(
        &["hit"],
        "error: <URL> is missing\nhint: for example, webstone hit http://127.0.0.1:8080/index.html",
    );
    says(
        &["find"],
        "error: --slo <CONDITIONS> is missing\nhint: for example, webstone find http://127.0.0.1:8080/ --slo \
         'p(99)<50ms,errors<0.1%'",
    );
    says(
        &["hit", "http://a/", "http://b/"],
        "error: URL `http://b/`: http://b is another server than http://a\n\
         hint: name URLs of one server; a workload in a file may name several hosts, with --allow-hosts",
    );
    says(
        &["hit", "http://a/", "-q", "10"],
        "error: unexpected argument `10`\nhint: -q is --quiet and takes no value; a rate, which hey and oha call -q, is -R \
         here: the total, as in -R 1000",
    );
    says(
        &["hit", "http://a/", "-z", "10s"],
        "error: -z: there is no such option\nhint: the duration, which hey and oha call -z, is -d here, as in -d 10s",
    );
    says(&["rnu"], "error: `rnu` is not a command\nhint: did you mean `run`?");
    says(&["ls"], "error: `ls` is not a command\nhint: did you mean `list`?");
    says(
        &["report"],
        "error: <RUN> is missing\nhint: for example, webstone report runs/20260701T120000Z-webstone --format json",
    );
    says(&["run", "--duration"], "error: --duration: a value is missing\nhint: write it as in -d 10m");
    says(&["run", "-d", "1s", "-d", "2s"], "error: --duration is given twice\nhint: give it once");
}

#[test]
fn invalid_values() {
    for (arguments, text) in [
        (
            ["-d", "10 parsecs"],
            "error: --duration: `10 parsecs` is not a duration\n\
             hint: write a number and a unit (ns, us, ms, s, m, h), as in 10s, 500ms or 1m30s",
        ),
        (
            ["-c", "100..20+10"],
            "error: --clients: `100..20+10` is not a list of client counts: the range 100..20+10 runs backwards\n\
             hint: write one count (64), a list (1,2,4), a range with a step (20..100+10) or with a factor (1..64*2)",
        ),
        (
            ["--http2-settings", "frame=1000"],
            "error: --http2-settings: `frame=1000`: frame is `1000`, which is not a number of bytes from 16384 to 16777215\n\
             hint: write chrome, firefox, or values in bytes, as in header-table=65536,window=131072,frame=16384,\
             header-list=262144,connection-window=12582912",
        ),
        (
            ["-c", "ten"],
            "error: --clients: `ten` is not a list of client counts: `ten` is not a whole number, such as 64 or 10k\n\
             hint: write one count (64), a list (1,2,4), a range with a step (20..100+10) or with a factor (1..64*2)",
        ),
        (
            ["-c", "1,two"],
            "error: --clients: `1,two` is not a list of client counts: `two` is not a whole number, such as 64 or 10k\n\
             hint: write one count (64), a list (1,2,4), a range with a step (20..100+10) or with a factor (1..64*2)",
        ),
        (
            ["-c", "0"],
            "error: --clients: `0` is not a list of client counts: 0 is not between 1 and 10000000\n\
             hint: write one count (64), a list (1,2,4), a range with a step (20..100+10) or with a factor (1..64*2)",
        ),
        (
            ["-c", "1..10+0"],
            "error: --clients: `1..10+0` is not a list of client counts: the step of 1..10+0 must be at least 1\n\
             hint: write one count (64), a list (1,2,4), a range with a step (20..100+10) or with a factor (1..64*2)",
        ),
        (
            ["-o", "report.pdf"],
            "error: --output report.pdf: `.pdf` is not the ending of a format\n\
             hint: end it with .txt, .html, .json, .csv, .xlsx, .md, .hgrm, .prom, .xml, or name the format with --format",
        ),
        (
            ["-n", "many"],
            "error: --pages: `many` is not a count\n\
             hint: write a whole number, with k, m or g for thousands, millions and billions, as in 10k",
        ),
        (["-i", "0"], "error: --iterations: `0` is less than 1\nhint: write at least 1"),
        (["-t", "5g"], "error: --workers: `5g` is too many\nhint: write at most 4294967295"),
        (
            ["--cpus", "3-1"],
            "error: --cpus: `3-1` is not a list of CPUs\nhint: write numbers and ranges, as in 0-1,4",
        ),
        (
            ["--seed", "x"],
            "error: --seed: `x` is not a seed\nhint: write a whole number from 0 to 18446744073709551615",
        ),
        (
            ["--source", "1.2.3"],
            "error: --source: `1.2.3` is not a list of IP addresses: `1.2.3` is not an IP address\n\
             hint: write one (127.0.0.2), a range (127.0.0.2-127.0.0.9) or a network (10.0.0.0/24)",
        ),
        (
            ["-H", "Accept"],
            "error: --header: `Accept` has no colon\n\
             hint: write the field's name, a colon and its value, as in 'Accept: */*'",
        ),
        (
            ["--order", "alphabetical"],
            "error: --order: `alphabetical` is not one of its values\nhint: write one of interleaved, sequential, random",
        ),
        (
            ["--connections", "keepalive"],
            "error: --connections: `keepalive` is not one of its values\n\
             hint: did you mean `keep-alive`? The values are per-request, per-page, keep-alive",
        ),
        (
            ["--connections", "64"],
            "error: --connections: `64` is not one of its values\n\
             hint: write one of per-request, per-page, keep-alive; the number of connections is that of clients: -c 64",
        ),
        (
            ["--http", "4"],
            "error: --http: `4` is not one of its values\nhint: write one of 1.0, 1.1, 2, 3, auto",
        ),
        (
            ["--server-listen", "8080"],
            "error: --server-listen: `8080` has no port\n\
             hint: write an address and a port, as in 127.0.0.1:8080, with port 0 for a free one",
        ),
        (
            ["--format", "xml"],
            "error: --format: `xml` is not one of its values\nhint: did you mean `xlsx`? The values are text, html, hit, json, csv, webstone1, webstone2, xlsx, markdown, hgrm, prometheus, otel, junit",
        ),
        (
            ["-m", "GET /"],
            "error: --method (client.method): `GET /` is not a method\nhint: write one word, as in GET or POST",
        ),
        (
            ["--name", "a/b"],
            "error: --name (name): `a/b` is not usable as part of a file name\n\
             hint: write letters, digits, dots, hyphens and underscores",
        ),
        (
            ["-d", "0s"],
            "error: --duration (load.duration): `0s`, and --pages (load.pages) is not given: a level would never end\n\
             hint: give one of them, as in 10s or in 10k pages",
        ),
        (
            ["--requests-per-connection=5", "--connections=per-request"],
            "error: --requests-per-connection (client.requests_per_connection): `5`, but connections are not kept alive\n\
             hint: set --connections (client.connections) to keep-alive, or remove the limit",
        ),
        (
            ["--body", "@/nonexistent/order.json"],
            "error: --body @/nonexistent/order.json: cannot read the file: No such file or directory\n\
             hint: after @ comes the path of a file; put text that begins with @ into a file",
        ),
        (
            ["--proxy", "localhost:3128"],
            "error: --proxy (client.proxy): URL `localhost:3128`: the protocol is missing\n\
             hint: write http://localhost:3128",
        ),
    ] {
        says(&[["run"].as_slice(), &arguments].concat(), text);
    }
    says(
        &["hit", "http://a/", "-c", "1..8*2"],
        "error: --clients: `1..8*2` names 4 levels\nhint: write one count, or use `webstone run` for a sweep",
    );
}

#[test]
fn options_that_exclude_each_other() {
    says(
        &["run", "--no-store", "--runs-dir", "x"],
        "error: --no-store and --runs-dir cannot be used together\nhint: leave out one of them",
    );
    says(
        &["run", "--proxy", "http://a", "--unix-socket", "/s"],
        "error: --proxy and --unix-socket cannot be used together\nhint: leave out one of them",
    );
    says(
        &["serve", "--resolve-names"],
        "error: --resolve-names (server.resolve_names): it applies to the access log, but none is written\n\
         hint: give its file with --access-log (server.access_log)",
    );
    says(
        &["run", "http://127.0.0.1:8080", "--no-cache"],
        "error: --server-cache (server.cache): it applies to a server that webstone starts, but the server under test is \
         http://127.0.0.1:8080\n\
         hint: remove it, or remove the URL: webstone then starts the server",
    );
}

#[test]
fn urls_that_cannot_be_measured() {
    says(
        &["run", "127.0.0.1:8080"],
        "error: URL `127.0.0.1:8080`: the protocol is missing\nhint: write http://127.0.0.1:8080",
    );
    says(
        &["run", "http://127.0.0.1:8080/index.html", "-w", "standard"],
        "error: URL `http://127.0.0.1:8080/index.html`: it must name only a server, but it has the path `/index.html`; paths \
         come from the workload\n\
         hint: write http://127.0.0.1:8080; for this one URL, `webstone hit http://127.0.0.1:8080/index.html`",
    );
}

#[test]
fn testbed_files_that_are_wrong() {
    says(
        &["run", "-f", "testbed.toml"],
        "error: cannot read the testbed file testbed.toml: No such file or directory\n\
         hint: `webstone run --dump-spec > testbed.toml` writes one to begin with",
    );
    let dir = tempfile::tempdir().unwrap();
    let cases: [(&[u8], &str); 5] = [
        (
            b"[load]\nclient = 3\n",
            "error: testbed file t.toml, line 2, column 1: unknown field `client`, expected one of `clients`, `rate`, `arrivals`, `when_busy`, `duration`, \
             `pages`, `repetitions`, `iterations`, `warmup`, `drain`, `order`, `retries`, `aa`\n\
             hint: did you mean `clients`?\n",
        ),
        (
            b"[load]\nthreads = 3\n",
            "error: testbed file t.toml, line 2, column 1: unknown field `threads`, expected one of `clients`, `rate`, `arrivals`, `when_busy`, `duration`, \
             `pages`, `repetitions`, `iterations`, `warmup`, `drain`, `order`, `retries`, `aa`\n\
             hint: `webstone run --dump-spec` prints every key with its default\n",
        ),
        (
            b"[load]\n\nduration = \"soon\"\n",
            "error: testbed file t.toml, line 3, column 12: `soon` is not a duration\n\
             hint: write a number and a unit (ns, us, ms, s, m, h), as in 10s, 500ms or 1m30s\n",
        ),
        (
            b"[load]\niterations = 0\n",
            "error: testbed file t.toml, line 2: --iterations (load.iterations): `0` is less than 1\nhint: write at least 1\n",
        ),
        (
            b"name = \"\xff\"\n",
            "error: cannot read the testbed file t.toml: it is not text in UTF-8\n\
             hint: a testbed file is UTF-8 text in TOML\n",
        ),
    ];
    for (content, text) in cases {
        std::fs::write(dir.path().join("t.toml"), content).unwrap();
        let said = webstone_in(dir.path(), &["run", "-f", "t.toml"]);
        assert_eq!((said.code, said.err.as_str()), (2, text));
    }
}

#[test]
fn rates_that_make_no_schedule() {
    says(
        &["run", "-R", "fast"],
        "error: --rate: `fast` is not a list of rates: `fast` is not a rate from 0.001 to 100m arrivals per second\n\
         hint: write one rate (10k), a list (1k,5k,10k), a range with a step (1k..10k+1k) or with a factor (1k..64k*2), or a ramp over a time (1k..50k/60s)",
    );
    says(
        &["hit", "-R", "1k,2k", "http://127.0.0.1/"],
        "error: --rate: `1k,2k` names 2 levels\nhint: write one rate, or use `webstone run` for a sweep",
    );
    says(
        &["run", "-R", "1k", "-c", "1,2"],
        "error: --clients (load.clients): `1,2` is more than one level, but the levels are those of --rate (load.rate)\n\
         hint: write one count, of clients that stand by for arrivals, or leave it out",
    );
    says(
        &["run", "-R", "1k", "-n", "10k"],
        "error: --pages (load.pages): `10000`, but a schedule of --rate (load.rate) ends by time\n\
         hint: give --duration (load.duration) instead: arrivals are rate × duration, to the last one",
    );
    says(
        &["run", "-R", "1k..5k/60s", "-d", "10s"],
        "error: --rate (load.rate): the ramp `1000..5000/1m` takes longer than --duration (load.duration), 10s\n\
         hint: give 1m or more, or a shorter ramp",
    );
    says(
        &["run", "-R", "0.01", "-d", "10s"],
        "error: --rate (load.rate): `0.01` has not a single arrival within --duration (load.duration), 10s\n\
         hint: give a higher rate or a longer duration",
    );
    says(
        &["run", "--arrivals", "poisson"],
        "error: --arrivals (load.arrivals): it spaces the arrivals of an open loop, but --rate (load.rate) is not given\n\
         hint: add a rate, as in 1k, or leave it out",
    );
}
