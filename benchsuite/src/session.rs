//! A session: every run, on disk as soon as it happened, what rounds say together, and the verdict on the bars.

use std::fs;
use std::path::{Path, PathBuf};

use clap::ValueEnum as _;
use serde_json::json;

use crate::arguments::Arguments;
use crate::bars::{Bar, Judged, Outcome, Quantity};
use crate::children::Cpus;
use crate::disturbance::Disturbance;
use crate::handshakes::Handshakes;
use crate::modes::{Case, MEMORY_BETWEEN, Mode, Server};
use crate::run::Run;
use crate::statistics::Spread;
use crate::tables;
use crate::tools::Tool;

/// A session that is being measured; every run is on disk as soon as it happened.
#[derive(Debug)]
pub struct Session {
    folder: PathBuf,
    /// Every run so far.
    pub runs: Vec<Run>,
    /// The tools, in their order.
    pub tools: Vec<Tool>,
    /// When, where and how, in a line.
    pub heading: String,
    /// What was seen of others on the clients' CPU, before each round.
    pub disturbances: Vec<Disturbance>,
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
        let cpu = |cpu: Option<u32>| cpu.map_or("any".to_owned(), |cpu| cpu.to_string());
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
            disturbances: Vec::new(),
        };
        session.write("environment.json", &format!("{environment:#}\n"))?;
        Ok(session)
    }

    /// Where it is kept.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Notes how much others took of the clients' CPU.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn note(&mut self, disturbance: Disturbance) -> Result<(), String> {
        self.disturbances.push(disturbance);
        self.write("disturbances.json", &format!("{:#}\n", json!(self.disturbances)))
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
        let judged: Vec<Judged> = Bar::all()?.iter().flat_map(|bar| self.judge(bar)).collect();
        let text = tables::report(self, &judged);
        println!("\n{text}");
        self.write("report.md", &text)?;
        self.write("bars.json", &format!("{:#}\n", json!(judged)))?;
        let failed = self.runs.iter().filter(|run| run.tool.starts_with("webstone"));
        let failed = failed.filter(|run| run.reading.is_none_or(|reading| reading.errors > 0)).count();
        if failed > 0 {
            return Err(format!(
                "{failed} runs of webstone failed or had errors; see {}",
                self.folder.display()
            ));
        }
        Ok(judged.iter().all(|judged| judged.outcome != Outcome::Missed))
    }

    /// Judges a bar on each server that was loaded, or on its first one.
    fn judge(&self, bar: &Bar) -> Vec<Judged> {
        let mode = Mode::all().find(|mode| mode.name() == bar.mode);
        let is_its = |server: &Server| bar.server.as_ref().is_none_or(|name| *name == server.name());
        let servers = mode.map_or(Server::value_variants(), Mode::servers).iter().copied().filter(is_its);
        let on = |server: Server| {
            let of = |tool: &str| self.measured(bar, mode?, server, tool);
            let measured = of(&bar.tool);
            let floor = mode.and_then(|mode| floor_of(&bar.tool, mode)).and_then(of);
            Judged {
                bar: bar.clone(),
                on: server.name(),
                measured,
                floor,
                busy: mode.and_then(|mode| self.busy(bar, mode, server)),
                outcome: bar.outcome(measured, floor),
            }
        };
        let mut judged: Vec<Judged> = servers.map(on).collect();
        let any = judged.iter().any(|judged| judged.measured.is_some());
        if any {
            judged.retain(|judged| judged.measured.is_some());
        } else {
            judged.truncate(1);
        }
        judged
    }

    fn measured(&self, bar: &Bar, mode: Mode, server: Server, tool: &str) -> Option<Spread> {
        match bar.quantity {
            Quantity::Cpu => {
                let against = bar.against.as_deref()?;
                // The least client has no start-up work, so start-up is left out of comparisons with it.
                let cost = if against.starts_with("floor") { Run::steady_cpu_us } else { Run::cpu_us };
                self.ratio(*mode.cases(server).first()?, tool, against, cost)
            }
            Quantity::ConnectionBytes => self.connection_bytes(mode, server, tool),
            Quantity::CpuGrowth => self.cpu_growth(server, tool),
            Quantity::SecondWorker => self.second_worker(server, tool, true),
            Quantity::LatenessP99Us => {
                let case = *mode.cases(server).first()?;
                self.by_round(|round| self.value(case, tool, round, Run::lateness_p99_us))
            }
        }
    }

    /// Share of a CPU that a bar's two tools used.
    fn busy(&self, bar: &Bar, mode: Mode, server: Server) -> Option<(f64, f64)> {
        let case = *mode.cases(server).first()?;
        let of = |tool: &str| {
            Spread::of_values(self.runs_of(case, tool).filter_map(Run::busy)).map(|busy| busy.median)
        };
        Some((of(&bar.tool)?, of(bar.against.as_deref()?)?))
    }

    /// TLS handshakes of a tool in a case, all rounds together.
    pub fn handshakes(&self, case: Case, tool: &str) -> Handshakes {
        let mut all = Handshakes::default();
        self.runs_of(case, tool).for_each(|run| all.add(&run.handshakes));
        all
    }

    /// The runs of a tool in a case.
    pub fn runs_of(&self, case: Case, tool: &str) -> impl Iterator<Item = &Run> {
        self.runs.iter().filter(move |run| run.case == case && run.tool == tool)
    }

    /// The ratio of a quantity in each round.
    pub fn ratio(
        &self,
        case: Case,
        tool: &str,
        against: &str,
        quantity: fn(&Run) -> Option<f64>,
    ) -> Option<Spread> {
        self.by_round(|round| {
            Some(self.value(case, tool, round, quantity)? / self.value(case, against, round, quantity)?)
        })
    }

    /// Memory for each further connection, in bytes.
    pub fn connection_bytes(&self, mode: Mode, server: Server, tool: &str) -> Option<Spread> {
        let (few, many) = MEMORY_BETWEEN;
        // One that answered nothing has not used its buffers.
        let answered = |run: &Run| run.reading.filter(|reading| reading.requests > 0);
        let memory = |clients: u32, round: u32| {
            let case = mode.cases(server).into_iter().find(|case| case.clients == clients)?;
            self.value(case, tool, round, |run| {
                answered(run).and(run.memory_bytes_max).map(|bytes| bytes as f64)
            })
        };
        self.by_round(|round| Some((memory(many, round)? - memory(few, round)?) / f64::from(many - few)))
    }

    /// CPU time per request, the most expensive number of clients divided by the cheapest, of rounds that have all of them.
    pub fn cpu_growth(&self, server: Server, tool: &str) -> Option<Spread> {
        self.by_round(|round| {
            let costs: Option<Vec<f64>> = Mode::Scale
                .cases(server)
                .into_iter()
                .map(|case| self.value(case, tool, round, Run::steady_cpu_us))
                .collect();
            let costs = Spread::of_values(costs?)?;
            Some(costs.max / costs.min)
        })
    }

    /// CPU time per request with two workers, to that with one: alone, or beside another process.
    pub fn second_worker(&self, server: Server, tool: &str, accompanied: bool) -> Option<Spread> {
        let cases = Mode::Workers.cases(server);
        let one = *cases.iter().find(|case| case.workers == 1 && case.accompanied == accompanied)?;
        let two = *cases.iter().find(|case| case.workers == 2)?;
        let cost = |case: Case, round: u32| self.value(case, tool, round, Run::cpu_us);
        self.by_round(|round| Some(cost(two, round)? / cost(one, round)?))
    }

    fn value(
        &self,
        case: Case,
        tool: &str,
        round: u32,
        quantity: impl Fn(&Run) -> Option<f64>,
    ) -> Option<f64> {
        self.runs_of(case, tool).find(|run| run.round == round).and_then(quantity)
    }

    fn by_round(&self, value: impl Fn(u32) -> Option<f64>) -> Option<Spread> {
        let rounds = self.runs.iter().map(|run| run.round).max()? + 1;
        Spread::of_values((0..rounds).filter_map(value))
    }

    fn write(&self, name: &str, text: &str) -> Result<(), String> {
        let file = self.folder.join(name);
        fs::write(&file, text).map_err(|error| format!("{}: {error}", file.display()))
    }
}

fn read(path: &str) -> String {
    fs::read_to_string(path).unwrap_or_default().trim().to_owned()
}

/// The least client that does what a variant of webstone does, if there is one.
fn floor_of(tool: &str, mode: Mode) -> Option<&'static str> {
    match tool {
        "webstone" => Some("floor"),
        // Over TCP it verifies signatures.
        "webstone-insecure" if mode == Mode::H3Full => Some("floor"),
        "webstone-reset" => Some("floor-reset"),
        "webstone-content" => Some("floor-content"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::children::Finished;
    use crate::readings::Reading;

    fn run(tool: &'static str, case: Case, round: u32, cpu_s: f64, requests: u64) -> Run {
        let finished = Finished {
            stdout: String::new(),
            stderr: String::new(),
            code: Some(0),
            user_s: cpu_s / 2.0,
            system_s: cpu_s / 2.0,
            wall_s: 3.0,
            memory_bytes_max: Some(1_000_000 + u64::from(case.clients) * 500),
        };
        let reading = Reading {
            requests,
            rate: requests as f64 / 3.0,
            latency_s: Some(0.001),
            errors: 0,
            window_cpu_s: None,
            lateness_p99_us: None,
        };
        Run::new(tool, case, round, vec![tool.to_owned()], finished, Ok(reading), Handshakes::default())
    }

    fn empty(folder: &Path) -> Session {
        let arguments = <Arguments as clap::Parser>::parse_from(["x"]);
        Session::begin(folder, &arguments, &[], &Cpus { server: Some(0), client: Some(1) }).unwrap()
    }

    fn session(folder: &Path, webstone_cpu: [f64; 3]) -> Session {
        let case = Mode::KeepAlive.cases(Server::Nginx)[0];
        let mut session = empty(folder);
        for (round, cpu) in (0..).zip(webstone_cpu) {
            // The machine slows down in each round: wrk's own time doubles, and ratios must stay.
            let slow = f64::from(1 << round);
            session.keep(run("wrk", case, round, slow, 300_000)).unwrap();
            session.keep(run("webstone", case, round, cpu * slow, 300_000)).unwrap();
        }
        session
    }

    #[test]
    fn ratios_are_paired_by_round_and_bars_decide() {
        let folder = tempfile::tempdir().unwrap();
        let mut good = session(folder.path(), [0.7, 0.8, 0.9]);
        for (taken, longest_us) in [(0.01, 40.0), (0.03, 20.0), (0.0, 5.0)] {
            good.note(Disturbance { taken, longest_us }).unwrap();
        }
        let case = Mode::KeepAlive.cases(Server::Nginx)[0];
        let ratio = good.ratio(case, "webstone", "wrk", Run::cpu_us).unwrap();
        assert!((ratio.median - 0.8).abs() < 1e-9 && (ratio.max - 0.9).abs() < 1e-9, "{ratio:?}");
        assert_eq!(good.finish(), Ok(true));
        let stored = fs::read_to_string(good.folder().join("disturbances.json")).unwrap();
        assert_eq!(stored.matches("longest_us").count(), 3, "{stored}");
        let stored = fs::read_to_string(good.folder().join("runs.ndjson")).unwrap();
        assert_eq!(stored.lines().count(), 6);
        assert!(
            stored.contains(r#""mode":"keep-alive","server":"nginx","clients":64,"streams":1,"workers":1"#),
            "{stored}"
        );
        let report = fs::read_to_string(good.folder().join("report.md")).unwrap();
        assert!(
            report
                .contains("taken by others for 1.00 % of the time (3 looks; at most 3.00 %, 40 µs at once)"),
            "{report}"
        );
        assert!(report.contains("| keep-alive | webstone | CPU/request | wrk | nginx | 0.800 | 0.750 to 0.850 | - | 53 % / 67 % |"), "{report}");

        let mut with_floor = session(&folder.path().join("floor"), [0.7, 0.8, 0.9]);
        for round in 0..3 {
            // Half of wrk's in each round, as the machine slows down.
            with_floor.keep(run("floor", case, round, f64::from(1 << round) / 2.0, 300_000)).unwrap();
        }
        let bars = Bar::all().unwrap();
        let judged = bars.iter().flat_map(|bar| with_floor.judge(bar));
        let floors: Vec<(String, f64)> =
            judged.filter_map(|judged| Some((judged.bar.against?, judged.floor?.median))).collect();
        assert_eq!(floors, [("wrk".to_owned(), 0.5)]);

        let bad = session(&folder.path().join("bad"), [0.7, 0.9, 0.9]);
        assert_eq!(bad.finish(), Ok(false));

        // Met on one server, missed on the other.
        let mut half = session(&folder.path().join("half"), [0.7, 0.8, 0.8]);
        let canned = Mode::KeepAlive.cases(Server::Canned)[0];
        half.keep(run("wrk", canned, 0, 1.0, 300_000)).unwrap();
        half.keep(run("webstone", canned, 0, 0.9, 300_000)).unwrap();
        let to_wrk =
            bars.iter().find(|bar| bar.mode == "keep-alive" && bar.against.as_deref() == Some("wrk"));
        let judged: Vec<_> =
            half.judge(to_wrk.unwrap()).iter().map(|judged| (judged.on.clone(), judged.outcome)).collect();
        assert_eq!(judged, [("nginx".to_owned(), Outcome::Met), ("canned".to_owned(), Outcome::Missed)]);
        assert_eq!(half.finish(), Ok(false));
    }

    #[test]
    fn scale_and_workers_are_compared_with_the_tool_itself() {
        let folder = tempfile::tempdir().unwrap();
        let mut session = empty(folder.path());
        for (case, cost) in Mode::Scale.cases(Server::Nginx).into_iter().zip([1.0, 0.8, 0.9, 1.1]) {
            session.keep(run("webstone", case, 0, cost, 1000)).unwrap();
        }
        for (case, cost) in Mode::Workers.cases(Server::Canned).into_iter().zip([0.7, 1.0, 1.05]) {
            session.keep(run("webstone", case, 0, cost, 1000)).unwrap();
        }
        let median = |spread: Option<Spread>| spread.unwrap().median;
        assert_eq!(median(session.connection_bytes(Mode::Scale, Server::Nginx, "webstone")), 500.0);
        assert!((median(session.cpu_growth(Server::Nginx, "webstone")) - 1.375).abs() < 1e-9);
        assert!((median(session.second_worker(Server::Canned, "webstone", true)) - 1.05).abs() < 1e-9);
        assert!((median(session.second_worker(Server::Canned, "webstone", false)) - 1.5).abs() < 1e-9);
        assert_eq!(session.cpu_growth(Server::Canned, "webstone"), None);
        // 500 bytes are within the bar, growth is not.
        assert_eq!(session.finish(), Ok(false));
        let report = fs::read_to_string(session.folder().join("report.md")).unwrap();
        assert!(report.contains("| scale | webstone | bytes/connection | - | nginx | 500 |"), "{report}");
    }

    #[test]
    fn a_failed_run_of_webstone_fails_the_session() {
        let folder = tempfile::tempdir().unwrap();
        let mut session = session(folder.path(), [0.7, 0.7, 0.7]);
        let mut failed = run("webstone", Mode::KeepAlive.cases(Server::Nginx)[0], 3, 1.0, 1);
        failed.reading = None;
        assert!(failed.summary().starts_with("FAILED"));
        session.keep(failed).unwrap();
        assert!(session.finish().unwrap_err().contains("1 runs of webstone failed"));
    }
}
