//! The load generators: how each is told what to do, and where its answer stands in what it prints.
//!
//! Of each the total of responses, their rate and the mean latency are read; a format that is not understood is an
//! error, never a zero.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::arguments::Arguments;
use crate::modes::{Mode, WRK_STANDARD};
use crate::nginx::Target;

/// One load generator that is installed.
#[derive(Clone, Debug)]
pub struct Tool {
    /// Its name, or the name of a variant of it.
    pub name: &'static str,
    /// What it says its version is.
    pub version: String,
    program: PathBuf,
}

/// What a tool says that it measured.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize)]
pub struct Reading {
    /// Responses.
    pub requests: u64,
    /// Responses per second.
    pub rate: f64,
    /// Mean latency in seconds, as the tool defines it; `None` where it prints none that is precise enough.
    pub latency_s: Option<f64>,
    /// Requests that failed, or were answered with an error.
    pub errors: u64,
}

/// Every tool, webstone first: name, and how its version is asked for.
const KNOWN: [(&str, &[&str]); 8] = [
    ("webstone", &["--version"]),
    ("webstone-reset", &["--version"]),
    ("wrk", &["-v"]),
    ("ab", &["-V"]),
    ("h2load", &["--version"]),
    ("oha", &["--version"]),
    ("hey", &[]),
    ("k6", &["version"]),
];

impl Tool {
    /// Those that are installed, or those of `wanted`, in the order of [`KNOWN`].
    ///
    /// # Errors
    /// If one that is wanted is unknown or missing.
    pub fn installed(webstone: &Path, wanted: &[String]) -> Result<Vec<Tool>, String> {
        if let Some(unknown) = wanted.iter().find(|name| !KNOWN.iter().any(|(known, _)| known == name)) {
            let known = KNOWN.map(|(name, _)| name).join(", ");
            return Err(format!("--tools: `{unknown}` is none of {known}"));
        }
        let mut tools = Vec::new();
        for (name, version) in KNOWN {
            let named = wanted.iter().any(|wanted| wanted == name);
            if !wanted.is_empty() && !named {
                continue;
            }
            let program = if name.starts_with("webstone") { Some(webstone.to_owned()) } else { find(name) };
            match program {
                Some(program) => tools.push(Tool { name, version: version_of(&program, version), program }),
                None if named => return Err(format!("--tools: {name} is not installed")),
                None => eprintln!("note: {name} is not installed and is left out"),
            }
        }
        Ok(tools)
    }

    /// Its command line for a mode; `None` where it cannot do that.
    pub fn command(&self, mode: Mode, target: &Target, arguments: &Arguments) -> Option<Vec<String>> {
        let clients = mode.clients().to_string();
        let seconds = arguments.seconds;
        let url = format!("{}{}", target.base_url, mode.path().unwrap_or_default());
        let keep = mode.keeps_alive();
        let cpu = arguments.client_cpu.to_string();
        let mut words = vec![self.program.display().to_string()];
        let mut add = |text: &str| words.extend(text.split_whitespace().map(str::to_owned));
        match (self.name, mode) {
            ("webstone", Mode::Standard) => {
                let runs = target.folder.join("runs").display().to_string();
                add(&format!(
                    "run {url} -w standard -c {clients} -d {seconds}s -i 1 --warmup 0s -t 1 --cpus {cpu}"
                ));
                add(&format!("--connections keep-alive --format json --quiet --runs-dir {runs}"));
            }
            ("webstone", _) => {
                let policy = if keep { "keep-alive" } else { "per-request" };
                add(&format!("hit {url} -c {clients} -d {seconds}s --warmup 0s -t 1 --cpus {cpu}"));
                add(&format!("--connections {policy} --format json --quiet"));
            }
            ("webstone-reset", Mode::PerRequest) => {
                add(&format!("hit {url} -c {clients} -d {seconds}s --warmup 0s -t 1 --cpus {cpu}"));
                add("--connections per-request --reset --format json --quiet");
            }
            ("wrk", Mode::Standard) => {
                let script = target.folder.join("standard.lua");
                std::fs::write(&script, WRK_STANDARD).ok()?;
                add(&format!("-t1 -c{clients} -d{seconds}s -s {} {url}", script.display()));
            }
            ("wrk", _) => {
                add(&format!("-t1 -c{clients} -d{seconds}s"));
                if !keep {
                    words.extend(["-H", "Connection: close"].map(str::to_owned));
                }
                words.push(url);
            }
            ("ab", Mode::KeepAlive | Mode::PerRequest | Mode::Large) => {
                // -t sets -n to 50,000; a -n behind it lifts that again. ab reserves memory for n results.
                let most = seconds * 400_000;
                add(&format!(
                    "-q -t {seconds} -n {most} -c {clients} {} {url}",
                    if keep { "-k" } else { "" }
                ));
            }
            ("h2load", Mode::KeepAlive | Mode::Large) => {
                add(&format!("--h1 -t1 -c{clients} -D {seconds}s {url}"))
            }
            ("oha", Mode::KeepAlive | Mode::PerRequest | Mode::Large) => {
                let keep = if keep { "" } else { "--disable-keepalive" };
                add(&format!("--no-tui --output-format json -c {clients} -z {seconds}s {keep} {url}"));
            }
            ("hey", Mode::KeepAlive | Mode::PerRequest | Mode::Large) => {
                let keep = if keep { "" } else { "-disable-keepalive" };
                add(&format!("-cpus 1 -c {clients} -z {seconds}s {keep} {url}"));
            }
            ("k6", Mode::KeepAlive | Mode::PerRequest | Mode::Large) => {
                let script = target.folder.join(format!("{}.js", mode.name()));
                std::fs::write(&script, k6_script(&url, keep)).ok()?;
                let summary = "--summary-export /dev/stdout";
                add(&format!(
                    "run --quiet --vus {clients} --duration {seconds}s {summary} {}",
                    script.display()
                ));
            }
            _ => return None,
        }
        Some(words)
    }

    /// Reads what the tool printed.
    ///
    /// # Errors
    /// If the numbers are not where they are expected.
    pub fn read(&self, _mode: Mode, output: &str) -> Result<Reading, String> {
        let reading = match self.name {
            "wrk" => wrk(output),
            "ab" => ab(output),
            "h2load" => h2load(output),
            "oha" => oha(output),
            "hey" => hey(output),
            "k6" => k6(output),
            _ => webstone(output),
        };
        reading.ok_or_else(|| format!("what {} printed is not understood", self.name))
    }
}

fn webstone(output: &str) -> Option<Reading> {
    let report: Value = serde_json::from_str(output).ok()?;
    let figures = report.pointer("/computed/levels/0/figures")?;
    let measured = report.pointer("/iterations/0/measured")?;
    Some(Reading {
        // As for the others: everything it asked for, so that its CPU time is divided by all the work it did.
        requests: measured.pointer("/lifetime/requests")?.as_u64()?,
        rate: figures.get("request_rate")?.as_f64()?,
        latency_s: Some(figures.get("latency_mean_s")?.as_f64()?),
        errors: measured.pointer("/counts/failed")?.as_u64()?,
    })
}

fn wrk(output: &str) -> Option<Reading> {
    let number = |label: &str| after(output, label)?.parse::<u64>().ok();
    // `Socket errors: connect 0, read 0, write 0, timeout 0`
    let socket = output.lines().find_map(|line| line.trim().strip_prefix("Socket errors: "));
    let socket: u64 = socket.map_or(0, |list| {
        list.split(", ").filter_map(|part| part.split(' ').nth(1)?.parse::<u64>().ok()).sum()
    });
    let total = output.lines().find_map(|line| line.trim().split_once(" requests in "))?.0.parse().ok()?;
    Some(Reading {
        requests: total,
        rate: after(output, "Requests/sec:")?.parse().ok()?,
        latency_s: Some(seconds(after(output, "Latency")?)?),
        errors: number("Non-2xx or 3xx responses:").unwrap_or(0) + socket,
    })
}

fn ab(output: &str) -> Option<Reading> {
    let number = |label: &str| after(output, label)?.parse::<u64>().ok();
    let concurrency = number("Concurrency Level:")? as f64;
    let taken: f64 = after(output, "Time taken for tests:")?.parse().ok()?;
    let complete = number("Complete requests:")?;
    Some(Reading {
        requests: complete,
        rate: after(output, "Requests per second:")?.parse().ok()?,
        // "Time per request" is concurrency × time / requests: it follows from the rate, rounded to whole microseconds.
        latency_s: (complete > 0).then(|| concurrency * taken / complete as f64),
        errors: number("Failed requests:")? + number("Non-2xx responses:").unwrap_or(0),
    })
}

fn h2load(output: &str) -> Option<Reading> {
    let finished = output.lines().find_map(|line| line.strip_prefix("finished in "))?;
    let rate = finished.split(", ").nth(1)?.strip_suffix(" req/s")?.parse().ok()?;
    let requests = output.lines().find_map(|line| line.strip_prefix("requests: "))?;
    let count = |what: &str| {
        let part = requests.split(", ").find_map(|part| part.strip_suffix(what))?;
        part.trim().parse::<u64>().ok()
    };
    let time = output.lines().find_map(|line| line.strip_prefix("time for request:"))?;
    Some(Reading {
        requests: count(" done")?,
        rate,
        latency_s: Some(seconds(time.split_whitespace().nth(2)?)?),
        errors: count(" failed")?,
    })
}

fn oha(output: &str) -> Option<Reading> {
    let report: Value = serde_json::from_str(output).ok()?;
    let answered = report.get("statusCodeDistribution")?.as_object()?;
    let count = |good: bool| -> u64 {
        answered
            .iter()
            .filter(|(code, _)| code.starts_with('2') == good)
            .filter_map(|(_, n)| n.as_u64())
            .sum()
    };
    // Requests cut off by the deadline are listed as errors and are not the server's.
    let failed = report.get("errorDistribution").and_then(Value::as_object).map_or(0, |errors| {
        errors.iter().filter(|(what, _)| !what.contains("deadline")).filter_map(|(_, n)| n.as_u64()).sum()
    });
    Some(Reading {
        requests: count(true) + count(false),
        rate: report.pointer("/summary/requestsPerSec")?.as_f64()?,
        latency_s: report.pointer("/summary/average")?.as_f64(),
        errors: count(false) + failed,
    })
}

fn hey(output: &str) -> Option<Reading> {
    // `  [200]	81234 responses`
    let mut counts = output.lines().filter_map(|line| {
        let (code, rest) = line.trim().strip_prefix('[')?.split_once(']')?;
        let number = rest.trim().strip_suffix(" responses")?.parse::<u64>().ok()?;
        Some((code.starts_with('2'), number))
    });
    let (good, bad) = counts
        .by_ref()
        .fold((0, 0), |(good, bad), (ok, n)| if ok { (good + n, bad) } else { (good, bad + n) });
    Some(Reading {
        requests: good + bad,
        rate: after(output, "Requests/sec:")?.parse().ok()?,
        latency_s: Some(after(output, "Average:")?.parse().ok()?),
        errors: bad,
    })
}

fn k6(output: &str) -> Option<Reading> {
    let report: Value = serde_json::from_str(&output[output.find('{')?..]).ok()?;
    let metric = |name: &str, field: &str| report.pointer(&format!("/metrics/{name}/{field}"))?.as_f64();
    let requests = metric("http_reqs", "count")?;
    Some(Reading {
        requests: requests as u64,
        rate: metric("http_reqs", "rate")?,
        latency_s: Some(metric("http_req_duration", "avg")? / 1e3),
        errors: (metric("http_req_failed", "value").unwrap_or(0.0) * requests).round() as u64,
    })
}

fn k6_script(url: &str, keep: bool) -> String {
    format!(
        "import http from 'k6/http';\n\
         export const options = {{ discardResponseBodies: true, noConnectionReuse: {}, noVUConnectionReuse: false }};\n\
         export default function () {{ http.get('{url}'); }}\n",
        !keep
    )
}

/// The first word behind a label.
fn after<'a>(output: &'a str, label: &str) -> Option<&'a str> {
    output.lines().find_map(|line| line.trim().strip_prefix(label))?.split_whitespace().next()
}

/// A time with its unit, as wrk and h2load print it: `75.73us`, `1.20ms`, `2.00s`.
fn seconds(text: &str) -> Option<f64> {
    for (unit, factor) in [("us", 1e-6), ("ms", 1e-3), ("ns", 1e-9), ("s", 1.0), ("m", 60.0)] {
        if let Some(number) = text.strip_suffix(unit) {
            return number.parse::<f64>().ok().map(|number| number * factor);
        }
    }
    None
}

fn find(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let home = std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".cargo/bin"));
    std::env::split_paths(&path).chain(home).map(|folder| folder.join(program)).find(|file| file.is_file())
}

/// The first line that a program says about its version.
fn version_of(program: &Path, arguments: &[&str]) -> String {
    if arguments.is_empty() {
        return "tells no version".to_owned();
    }
    let output = Command::new(program).args(arguments).output();
    let text = output.map(|output| [output.stdout, output.stderr].concat()).unwrap_or_default();
    String::from_utf8_lossy(&text).lines().next().unwrap_or("tells no version").trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tool(name: &'static str) -> Tool {
        Tool { name, version: String::new(), program: name.into() }
    }

    fn command(name: &'static str, mode: Mode) -> Option<String> {
        let target = Target { base_url: "http://127.0.0.1:8080".into(), folder: std::env::temp_dir() };
        let arguments = Arguments::parse(std::iter::empty()).unwrap().unwrap();
        tool(name).command(mode, &target, &arguments).map(|words| words.join(" "))
    }

    #[test]
    fn every_tool_is_told_the_same() {
        let url = "http://127.0.0.1:8080/file500.html";
        assert_eq!(command("wrk", Mode::KeepAlive).unwrap(), format!("wrk -t1 -c64 -d3s {url}"));
        assert_eq!(
            command("wrk", Mode::PerRequest).unwrap(),
            format!("wrk -t1 -c64 -d3s -H Connection: close {url}")
        );
        assert_eq!(command("ab", Mode::KeepAlive).unwrap(), format!("ab -q -t 3 -n 1200000 -c 64 -k {url}"));
        assert_eq!(
            command("webstone", Mode::PerRequest).unwrap(),
            format!(
                "webstone hit {url} -c 64 -d 3s --warmup 0s -t 1 --cpus 1 --connections per-request --format json --quiet"
            )
        );
        assert!(command("webstone-reset", Mode::PerRequest).unwrap().contains("--reset"));
        assert_eq!(command("webstone-reset", Mode::KeepAlive), None);
        assert_eq!(command("h2load", Mode::PerRequest), None);
        assert_eq!(command("oha", Mode::Standard), None);
    }

    /// Real output, shortened.
    #[test]
    fn printed_numbers_are_read() {
        let wrk = "Running 1s test @ http://127.0.0.1/x\n  1 threads and 4 connections\n  Thread Stats   Avg      Stdev     Max   +/- Stdev\n    Latency    75.73us  338.45us   7.22ms   99.01%\n    Req/Sec    76.81k     4.55k   81.51k    72.73%\n  83801 requests in 1.10s, 58.98MB read\n  Socket errors: connect 0, read 3, write 0, timeout 1\n  Non-2xx or 3xx responses: 5\nRequests/sec:  76173.79\nTransfer/sec:     53.61MB\n";
        let reading = tool("wrk").read(Mode::KeepAlive, wrk).unwrap();
        assert_eq!((reading.requests, reading.rate, reading.errors), (83801, 76173.79, 9));
        assert!((reading.latency_s.unwrap() - 75.73e-6).abs() < 1e-12);

        let ab = "Concurrency Level:      4\nTime taken for tests:   1.000 seconds\nComplete requests:      80000\nFailed requests:        2\nNon-2xx responses:      1\nRequests per second:    80000.00 [#/sec] (mean)\nTime per request:       0.050 [ms] (mean)\n";
        let reading = tool("ab").read(Mode::KeepAlive, ab).unwrap();
        assert_eq!(reading, Reading { requests: 80000, rate: 80000.0, latency_s: Some(5e-5), errors: 3 });

        let h2load = "finished in 1.00s, 75460.00 req/s, 53.11MB/s\nrequests: 75460 total, 75464 started, 75460 done, 75460 succeeded, 0 failed, 0 errored, 0 timeout\ntime for request:       22us      2.38ms        52us        34us    93.06%\n";
        let reading = tool("h2load").read(Mode::KeepAlive, h2load).unwrap();
        assert_eq!((reading.requests, reading.rate, reading.errors), (75460, 75460.0, 0));
        assert!((reading.latency_s.unwrap() - 52e-6).abs() < 1e-12);

        let oha = r#"{"summary":{"successRate":1.0,"total":1.0,"average":0.00005,"requestsPerSec":75000.5},"statusCodeDistribution":{"200":75000,"404":2},"errorDistribution":{"aborted due to deadline":4,"refused":1}}"#;
        let reading = tool("oha").read(Mode::KeepAlive, oha).unwrap();
        assert_eq!(reading, Reading { requests: 75002, rate: 75000.5, latency_s: Some(0.00005), errors: 3 });

        let hey = "Summary:\n  Total:	1.0006 secs\n  Average:	0.0014 secs\n  Requests/sec:	43000.1\n\nStatus code distribution:\n  [200]	43000 responses\n  [500]	3 responses\n";
        let reading = tool("hey").read(Mode::KeepAlive, hey).unwrap();
        assert_eq!(reading, Reading { requests: 43003, rate: 43000.1, latency_s: Some(0.0014), errors: 3 });

        let k6 = r#"{"metrics":{"http_reqs":{"count":21000,"rate":20999.5},"http_req_duration":{"avg":2.5},"http_req_failed":{"value":0}}}"#;
        let reading = tool("k6").read(Mode::KeepAlive, k6).unwrap();
        assert_eq!(reading, Reading { requests: 21000, rate: 20999.5, latency_s: Some(0.0025), errors: 0 });

        let webstone = r#"{"iterations":[{"measured":{"lifetime":{"requests":1010},"counts":{"failed":1}}}],"computed":{"levels":[{"figures":{"request_rate":1000.5,"latency_mean_s":0.001}}]}}"#;
        let reading = tool("webstone").read(Mode::KeepAlive, webstone).unwrap();
        assert_eq!(reading, Reading { requests: 1010, rate: 1000.5, latency_s: Some(0.001), errors: 1 });
    }

    #[test]
    fn what_is_not_understood_is_an_error() {
        for (name, _) in KNOWN {
            assert!(tool(name).read(Mode::KeepAlive, "unable to connect").is_err(), "{name}");
        }
    }
}
