//! Reads the output of each load generator.
//!
//! Of each the total of responses, their rate and the mean latency are read; a format that is not understood is an
//! error, never a zero.

use serde_json::Value;

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
    /// CPU time per request in seconds while the measured window was open, as the tool itself reports it: without start-up and
    /// connecting. `None` if it reports none.
    pub window_cpu_s: Option<f64>,
    /// How late requests of a schedule were sent, 99th percentile in microseconds; `None` where there is no schedule.
    pub lateness_p99_us: Option<f64>,
}

/// Reads what the tool of this name printed.
///
/// # Errors
/// If the numbers are not where they are expected.
pub fn read(tool: &str, output: &str) -> Result<Reading, String> {
    let reading = match tool {
        _ if tool.starts_with("floor") => floor(output),
        "wrk" => wrk(output),
        "ab" => ab(output),
        "h2load" => h2load(output),
        "oha" => oha(output),
        "hey" => hey(output),
        "k6" => k6(output),
        "webstone-bare" => webstone_bare(output),
        _ => webstone(output),
    };
    reading.ok_or_else(|| format!("what {tool} printed is not understood"))
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
        window_cpu_s: figures.get("generator_cpu_per_request_s").and_then(Value::as_f64),
        lateness_p99_us: lateness_p99_s(&report).map(|seconds| seconds * 1e6),
    })
}

/// How late the requests of a schedule were sent, 99th percentile; `None` where there is no schedule.
fn lateness_p99_s(report: &Value) -> Option<f64> {
    report.pointer("/computed/levels/0/distributions/schedule_lag/p99_s")?.as_f64()
}

/// A build without statistics counts whole-life totals only.
fn webstone_bare(output: &str) -> Option<Reading> {
    let report: Value = serde_json::from_str(output).ok()?;
    let measured = report.pointer("/iterations/0/measured")?;
    let requests = measured.pointer("/lifetime/requests")?.as_u64()?;
    let window_s = measured.get("window_ns")?.as_u64()? as f64 / 1e9;
    // One with statistics in its place would compare webstone with itself.
    let counts_nothing = measured.pointer("/counts/succeeded")?.as_u64()? == 0;
    let reading = Reading {
        requests,
        rate: requests as f64 / window_s,
        latency_s: None,
        errors: 0,
        window_cpu_s: None,
        lateness_p99_us: None,
    };
    (counts_nothing && requests > 0 && window_s > 0.0).then_some(reading)
}

/// `webstone-floor` of this suite.
fn floor(output: &str) -> Option<Reading> {
    let report: Value = serde_json::from_str(output).ok()?;
    Some(Reading {
        requests: report.get("requests")?.as_u64()?,
        rate: report.get("rate")?.as_f64()?,
        latency_s: None,
        errors: 0,
        window_cpu_s: Some(report.get("window_cpu_per_request_s")?.as_f64()?),
        lateness_p99_us: None,
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
        window_cpu_s: None,
        lateness_p99_us: None,
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
        window_cpu_s: None,
        lateness_p99_us: None,
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
        window_cpu_s: None,
        lateness_p99_us: None,
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
        window_cpu_s: None,
        lateness_p99_us: None,
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
        window_cpu_s: None,
        lateness_p99_us: None,
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
        window_cpu_s: None,
        lateness_p99_us: None,
    })
}

/// The first word after a label.
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tools::KNOWN;

    /// Real output, shortened.
    #[test]
    fn printed_numbers_are_read() {
        let wrk = "Running 1s test @ http://127.0.0.1/x\n  1 threads and 4 connections\n  Thread Stats   Avg      Stdev     Max   +/- Stdev\n    Latency    75.73us  338.45us   7.22ms   99.01%\n    Req/Sec    76.81k     4.55k   81.51k    72.73%\n  83801 requests in 1.10s, 58.98MB read\n  Socket errors: connect 0, read 3, write 0, timeout 1\n  Non-2xx or 3xx responses: 5\nRequests/sec:  76173.79\nTransfer/sec:     53.61MB\n";
        let reading = read("wrk", wrk).unwrap();
        assert_eq!((reading.requests, reading.rate, reading.errors), (83801, 76173.79, 9));
        assert!((reading.latency_s.unwrap() - 75.73e-6).abs() < 1e-12);

        let ab = "Concurrency Level:      4\nTime taken for tests:   1.000 seconds\nComplete requests:      80000\nFailed requests:        2\nNon-2xx responses:      1\nRequests per second:    80000.00 [#/sec] (mean)\nTime per request:       0.050 [ms] (mean)\n";
        let reading = read("ab", ab).unwrap();
        assert_eq!(
            reading,
            Reading {
                requests: 80000,
                rate: 80000.0,
                latency_s: Some(5e-5),
                errors: 3,
                window_cpu_s: None,
                lateness_p99_us: None
            }
        );

        let h2load = "finished in 1.00s, 75460.00 req/s, 53.11MB/s\nrequests: 75460 total, 75464 started, 75460 done, 75460 succeeded, 0 failed, 0 errored, 0 timeout\ntime for request:       22us      2.38ms        52us        34us    93.06%\n";
        let reading = read("h2load", h2load).unwrap();
        assert_eq!((reading.requests, reading.rate, reading.errors), (75460, 75460.0, 0));
        assert!((reading.latency_s.unwrap() - 52e-6).abs() < 1e-12);

        let oha = r#"{"summary":{"successRate":1.0,"total":1.0,"average":0.00005,"requestsPerSec":75000.5},"statusCodeDistribution":{"200":75000,"404":2},"errorDistribution":{"aborted due to deadline":4,"refused":1}}"#;
        let reading = read("oha", oha).unwrap();
        assert_eq!(
            reading,
            Reading {
                requests: 75002,
                rate: 75000.5,
                latency_s: Some(0.00005),
                errors: 3,
                window_cpu_s: None,
                lateness_p99_us: None
            }
        );

        let hey = "Summary:\n  Total:	1.0006 secs\n  Average:	0.0014 secs\n  Requests/sec:	43000.1\n\nStatus code distribution:\n  [200]	43000 responses\n  [500]	3 responses\n";
        let reading = read("hey", hey).unwrap();
        assert_eq!(
            reading,
            Reading {
                requests: 43003,
                rate: 43000.1,
                latency_s: Some(0.0014),
                errors: 3,
                window_cpu_s: None,
                lateness_p99_us: None
            }
        );

        let floor = r#"{"requests":1010,"rate":500.5,"window_cpu_per_request_s":7e-6}"#;
        let reading = read("floor", floor).unwrap();
        assert_eq!((reading.requests, reading.rate, reading.window_cpu_s), (1010, 500.5, Some(7e-6)));

        let k6 = r#"{"metrics":{"http_reqs":{"count":21000,"rate":20999.5},"http_req_duration":{"avg":2.5},"http_req_failed":{"value":0}}}"#;
        let reading = read("k6", k6).unwrap();
        assert_eq!(
            reading,
            Reading {
                requests: 21000,
                rate: 20999.5,
                latency_s: Some(0.0025),
                errors: 0,
                window_cpu_s: None,
                lateness_p99_us: None
            }
        );

        let webstone = r#"{"iterations":[{"measured":{"window_ns":2000000000,"lifetime":{"requests":1010},"counts":{"succeeded":1000,"failed":1}}}],"computed":{"levels":[{"figures":{"request_rate":1000.5,"latency_mean_s":0.001,"generator_cpu_per_request_s":5e-6}}]}}"#;
        let reading = read("webstone", webstone).unwrap();
        assert_eq!(
            reading,
            Reading {
                requests: 1010,
                rate: 1000.5,
                latency_s: Some(0.001),
                errors: 1,
                window_cpu_s: Some(5e-6),
                lateness_p99_us: None
            }
        );
        assert!(read("webstone-bare", webstone).is_err());
        let bare = webstone.replace("\"succeeded\":1000", "\"succeeded\":0");
        assert_eq!(read("webstone-bare", &bare).unwrap().rate, 505.0);
    }

    #[test]
    fn what_is_not_understood_is_an_error() {
        for tool in KNOWN {
            assert!(read(tool.name, "unable to connect").is_err(), "{}", tool.name);
        }
    }
}
