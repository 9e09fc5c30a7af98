//! What a session leaves behind: every run as it happened, tables, and the verdict on the bars.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use serde::Serialize;
use serde_json::json;

use crate::arguments::Arguments;
use crate::bars::{Bar, Outcome};
use crate::children::{Cpus, Finished};
use crate::modes::Mode;
use crate::statistics::Spread;
use crate::tools::{Reading, Tool};

/// One run of one tool.
#[derive(Clone, Debug, Serialize)]
pub struct Run {
    tool: &'static str,
    mode: &'static str,
    round: u32,
    command: Vec<String>,
    /// What the tool said; `None` where it failed or was not understood.
    reading: Option<Reading>,
    /// Why there is no reading.
    failure: Option<String>,
    user_s: f64,
    system_s: f64,
    wall_s: f64,
    stdout: String,
    stderr: String,
}

impl Run {
    /// A run from its parts.
    pub fn new(
        tool: &'static str,
        mode: Mode,
        round: u32,
        command: Vec<String>,
        finished: Finished,
        measured: Result<Reading, String>,
    ) -> Run {
        let failure = measured.as_ref().err().cloned();
        Run {
            tool,
            mode: mode.name(),
            round,
            command,
            reading: measured.ok(),
            failure,
            user_s: finished.user_s,
            system_s: finished.system_s,
            wall_s: finished.wall_s,
            stdout: finished.stdout,
            stderr: finished.stderr,
        }
    }

    /// One line about it.
    pub fn summary(&self) -> String {
        let Some(reading) = &self.reading else {
            let last = self.stderr.lines().rfind(|line| !line.trim().is_empty()).unwrap_or_default();
            return format!("FAILED: {} {last}", self.failure.as_deref().unwrap_or_default());
        };
        let cpu = self.cpu_us().map_or("-".to_owned(), |cpu| format!("{cpu:.2}"));
        let errors = if reading.errors > 0 { format!(", {} errors", reading.errors) } else { String::new() };
        format!(
            "{:>9.0} requests/s  {:>9} ms  {cpu:>7} µs CPU/request{errors}",
            reading.rate,
            milliseconds(reading.latency_s)
        )
    }

    /// Client CPU time per request, in microseconds.
    fn cpu_us(&self) -> Option<f64> {
        let reading = self.reading.filter(|reading| reading.requests > 0)?;
        Some((self.user_s + self.system_s) * 1e6 / reading.requests as f64)
    }
}

/// A session that is being measured; every run is on disk as soon as it happened.
#[derive(Debug)]
pub struct Session {
    folder: PathBuf,
    runs: Vec<Run>,
    tools: Vec<Tool>,
    heading: String,
}

impl Session {
    /// Makes the session's folder and writes down where it runs.
    ///
    /// # Errors
    /// If that cannot be written.
    pub fn begin(
        output: &Path,
        arguments: &Arguments,
        tools: &[Tool],
        cpus: &Cpus,
    ) -> Result<Session, String> {
        let now = jiff::Timestamp::now();
        let host = read("/proc/sys/kernel/hostname");
        let host: String =
            host.chars().map(|c| if c.is_ascii_alphanumeric() || c == '-' { c } else { '-' }).collect();
        let folder = output.join(format!("{}-{host}", now.strftime("%Y%m%dT%H%M%SZ")));
        fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
        let processor = read("/proc/cpuinfo")
            .lines()
            .find_map(|line| line.strip_prefix("model name"))
            .unwrap_or_default()
            .trim_start_matches(['\t', ' ', ':'])
            .to_owned();
        let versions: serde_json::Map<_, _> =
            tools.iter().map(|tool| (tool.name.to_owned(), json!(tool.version))).collect();
        let environment = json!({
            "time": now.to_string(),
            "host": host,
            "kernel": read("/proc/sys/kernel/osrelease"),
            "processor": processor,
            "cpus": std::thread::available_parallelism().map_or(0, usize::from),
            "server_cpu": cpus.server,
            "client_cpu": cpus.client,
            "rounds": arguments.rounds,
            "seconds": arguments.seconds,
            "versions": versions,
            "load_average_before": read("/proc/loadavg"),
        });
        let session = Session {
            heading: format!(
                "{} rounds of {} s, {} · {} · Linux {} · server on CPU {}, clients on CPU {}",
                arguments.rounds,
                arguments.seconds,
                now.strftime("%Y-%m-%d %H:%M UTC"),
                processor,
                read("/proc/sys/kernel/osrelease"),
                cpu(cpus.server),
                cpu(cpus.client),
            ),
            folder,
            runs: Vec::new(),
            tools: tools.to_vec(),
        };
        session.write("environment.json", &format!("{environment:#}\n"))?;
        Ok(session)
    }

    /// Where it is kept.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Adds a run and stores it.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn keep(&mut self, run: Run) -> Result<(), String> {
        use std::io::Write as _;
        let file = self.folder.join("runs.ndjson");
        let line = serde_json::to_string(&run).map_err(|error| format!("{}: {error}", file.display()))?;
        fs::OpenOptions::new()
            .create(true)
            .append(true)
            .open(&file)
            .and_then(|mut stream| writeln!(stream, "{line}"))
            .map_err(|error| format!("{}: {error}", file.display()))?;
        self.runs.push(run);
        Ok(())
    }

    /// Prints and stores the tables; whether every bar that was measured was met.
    ///
    /// # Errors
    /// If they cannot be written, if webstone itself failed, or if it had errors.
    pub fn finish(&self) -> Result<bool, String> {
        let bars = Bar::all()?;
        let judged: Vec<(Bar, Option<Spread>, Outcome)> = bars
            .into_iter()
            .map(|bar| {
                let ratio = self.ratio(&bar.mode, &bar.tool, &bar.against, Run::cpu_us);
                let outcome = bar.judge(ratio);
                (bar, ratio, outcome)
            })
            .collect();
        let text = format!("{}{}", self.tables(), bar_table(&judged));
        println!("\n{text}");
        self.write("report.md", &text)?;
        let ratios: Vec<_> = judged
            .iter()
            .map(|(bar, ratio, outcome)| {
                json!({ "mode": bar.mode, "tool": bar.tool, "against": bar.against, "at_most": bar.at_most,
                        "aim": bar.aim, "cpu_ratio": ratio, "outcome": outcome })
            })
            .collect();
        self.write("bars.json", &format!("{:#}\n", json!(ratios)))?;
        let failed = self.runs.iter().filter(|run| run.tool.starts_with("webstone"));
        let failed = failed.filter(|run| run.reading.is_none_or(|reading| reading.errors > 0)).count();
        if failed > 0 {
            return Err(format!(
                "{failed} runs of webstone failed or had errors; see {}",
                self.folder.display()
            ));
        }
        Ok(judged.iter().all(|(_, _, outcome)| *outcome != Outcome::Missed))
    }

    /// Median of the rounds' own ratios of a quantity.
    fn ratio(
        &self,
        mode: &str,
        tool: &str,
        against: &str,
        quantity: fn(&Run) -> Option<f64>,
    ) -> Option<Spread> {
        let value = |tool: &str, round: u32| {
            self.runs
                .iter()
                .find(|run| run.tool == tool && run.mode == mode && run.round == round)
                .and_then(quantity)
        };
        let rounds = self.runs.iter().map(|run| run.round).max()? + 1;
        Spread::of((0..rounds).filter_map(|round| Some(value(tool, round)? / value(against, round)?)))
    }

    fn tables(&self) -> String {
        let mut text = format!("# Comparison of load generators\n\n{}\n", self.heading);
        for tool in &self.tools {
            let _ = write!(text, "\n- {}: {}", tool.name, tool.version);
        }
        text.push('\n');
        for mode in Mode::ALL {
            let clients = f64::from(mode.clients());
            if !self.runs.iter().any(|run| run.mode == mode.name()) {
                continue;
            }
            let _ = write!(
                text,
                "\n## {}, {} clients\n\n\
                 | tool | requests/s | mean latency, ms | rate × latency / clients | CPU/request, µs | rate to wrk | latency to wrk | CPU to wrk | quartiles | extremes | errors | rounds |\n\
                 |---|---:|---:|---:|---:|---:|---:|---:|---|---|---:|---:|\n",
                mode.name(),
                mode.clients()
            );
            for tool in &self.tools {
                let runs: Vec<&Run> =
                    self.runs.iter().filter(|run| run.tool == tool.name && run.mode == mode.name()).collect();
                if runs.is_empty() {
                    continue;
                }
                let median = |quantity: &dyn Fn(&Run) -> Option<f64>| {
                    Spread::of(runs.iter().filter_map(|run| quantity(run))).map(|s| s.median)
                };
                let rate = |run: &Run| run.reading.map(|reading| reading.rate);
                let latency = |run: &Run| run.reading.and_then(|reading| reading.latency_s);
                let little = |run: &Run| Some(rate(run)? * latency(run)? / clients);
                let to_wrk =
                    |quantity: fn(&Run) -> Option<f64>| self.ratio(mode.name(), tool.name, "wrk", quantity);
                let cpu = to_wrk(Run::cpu_us);
                let errors: u64 =
                    runs.iter().filter_map(|run| run.reading).map(|reading| reading.errors).sum();
                let measured = runs.iter().filter(|run| run.reading.is_some()).count();
                let _ = writeln!(
                    text,
                    "| {} | {} | {} | {} | {} | {} | {} | {} | {} | {} | {errors} | {measured} of {} |",
                    tool.name,
                    number(median(&rate), 0),
                    milliseconds(median(&latency)),
                    number(median(&little), 3),
                    number(median(&Run::cpu_us), 2),
                    number(to_wrk(rate).map(|s| s.median), 3),
                    number(to_wrk(latency).map(|s| s.median), 3),
                    number(cpu.map(|s| s.median), 3),
                    cpu.map_or("-".to_owned(), |s| format!("{:.3} to {:.3}", s.lower, s.upper)),
                    cpu.map_or("-".to_owned(), |s| format!("{:.3} to {:.3}", s.min, s.max)),
                    runs.len(),
                );
            }
        }
        text
    }

    fn write(&self, name: &str, text: &str) -> Result<(), String> {
        let file = self.folder.join(name);
        fs::write(&file, text).map_err(|error| format!("{}: {error}", file.display()))
    }
}

fn bar_table(judged: &[(Bar, Option<Spread>, Outcome)]) -> String {
    let mut text = String::from(
        "\n## Bars: client CPU per request, ratio\n\n\
         | mode | tool | against | measured | quartiles | at most | aim | |\n|---|---|---|---:|---|---:|---:|---|\n",
    );
    for (bar, ratio, outcome) in judged {
        let _ = writeln!(
            text,
            "| {} | {} | {} | {} | {} | {:.2} | {} | {} |",
            bar.mode,
            bar.tool,
            bar.against,
            number(ratio.map(|s| s.median), 3),
            ratio.map_or("-".to_owned(), |s| format!("{:.3} to {:.3}", s.lower, s.upper)),
            bar.at_most,
            number(bar.aim, 2),
            outcome.name(),
        );
    }
    text
}

fn number(value: Option<f64>, decimals: usize) -> String {
    value.map_or("-".to_owned(), |value| format!("{value:.decimals$}"))
}

fn milliseconds(seconds: Option<f64>) -> String {
    number(seconds.map(|seconds| seconds * 1e3), 3)
}

fn cpu(cpu: Option<u32>) -> String {
    cpu.map_or("any".to_owned(), |cpu| cpu.to_string())
}

fn read(path: &str) -> String {
    fs::read_to_string(path).unwrap_or_default().trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(tool: &'static str, round: u32, cpu_s: f64, requests: u64) -> Run {
        let finished = Finished {
            stdout: String::new(),
            stderr: String::new(),
            success: true,
            user_s: cpu_s / 2.0,
            system_s: cpu_s / 2.0,
            wall_s: 3.0,
        };
        let reading = Reading { requests, rate: requests as f64 / 3.0, latency_s: Some(0.001), errors: 0 };
        Run::new(tool, Mode::KeepAlive, round, vec![tool.to_owned()], finished, Ok(reading))
    }

    fn session(folder: &Path, webstone_cpu: [f64; 3]) -> Session {
        let arguments = Arguments::parse(std::iter::empty()).unwrap().unwrap();
        let cpus = Cpus { server: Some(0), client: Some(1) };
        let mut session = Session::begin(folder, &arguments, &[], &cpus).unwrap();
        for (round, cpu) in (0..).zip(webstone_cpu) {
            // The machine slows down by the round: wrk's own time doubles, and ratios must not care.
            let slow = f64::from(1 << round);
            session.keep(run("wrk", round, slow, 300_000)).unwrap();
            session.keep(run("webstone", round, cpu * slow, 300_000)).unwrap();
        }
        session
    }

    #[test]
    fn ratios_are_paired_by_round_and_bars_decide() {
        let folder = tempfile::tempdir().unwrap();
        let good = session(folder.path(), [0.7, 0.8, 0.9]);
        let ratio = good.ratio("keep-alive", "webstone", "wrk", Run::cpu_us).unwrap();
        assert!((ratio.median - 0.8).abs() < 1e-9 && (ratio.max - 0.9).abs() < 1e-9, "{ratio:?}");
        assert_eq!(good.finish(), Ok(true));
        let stored = fs::read_to_string(good.folder().join("runs.ndjson")).unwrap();
        assert_eq!(stored.lines().count(), 6);
        assert!(
            fs::read_to_string(good.folder().join("report.md"))
                .unwrap()
                .contains("| keep-alive | webstone | wrk | 0.800 |")
        );

        let bad = session(&folder.path().join("bad"), [0.7, 0.9, 0.9]);
        assert_eq!(bad.finish(), Ok(false));
    }

    #[test]
    fn a_failed_run_of_webstone_fails_the_session() {
        let folder = tempfile::tempdir().unwrap();
        let mut session = session(folder.path(), [0.7, 0.7, 0.7]);
        let mut failed = run("webstone", 3, 1.0, 1);
        failed.reading = None;
        assert!(failed.summary().starts_with("FAILED"));
        session.keep(failed).unwrap();
        assert!(session.finish().unwrap_err().contains("1 runs of webstone failed"));
    }
}
