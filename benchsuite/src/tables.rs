//! A session as text: Markdown that can be pasted.

use std::fmt::Write as _;

use crate::bars::{Judged, Outcome};
use crate::modes::{Case, MEMORY_BETWEEN, Mode, PACE, Server};
use crate::run::Run;
use crate::session::Session;
use crate::statistics::Spread;

/// The whole report.
pub fn report(session: &Session, judged: &[Judged]) -> String {
    // Writing to a String cannot fail, here and below.
    let mut text = format!("# Comparison of load generators\n\n{}\n", session.heading);
    for tool in &session.tools {
        let _ = write!(text, "\n- {}: {}", tool.name, tool.version);
    }
    text.push('\n');
    disturbances(session, &mut text);
    for mode in Mode::all() {
        for server in mode.servers() {
            let cases = mode.cases(*server);
            if !session.runs.iter().any(|run| cases.contains(&run.case)) {
                continue;
            }
            match mode {
                Mode::Scale | Mode::HttpsScale => scale(session, mode, *server, &cases, &mut text),
                Mode::Workers => workers(session, *server, &cases, &mut text),
                Mode::Pacing => cases.iter().for_each(|case| pacing(session, *case, &mut text)),
                _ => cases.iter().for_each(|case| comparison(session, *case, &mut text)),
            }
            for case in &cases {
                handshakes(session, *case, &mut text);
            }
        }
    }
    cost_of_measuring(session, &mut text);
    before(session, &mut text);
    bars(session, judged, &mut text);
    text
}

fn disturbances(session: &Session, text: &mut String) {
    let taken = Spread::of_values(session.disturbances.iter().map(|seen| seen.taken * 1e2));
    let longest = Spread::of_values(session.disturbances.iter().map(|seen| seen.longest_us));
    if let (Some(taken), Some(longest)) = (taken, longest) {
        let _ = writeln!(
            text,
            "\nBefore rounds the clients' CPU was taken by others for {:.2} % of the time ({} looks; at most {:.2} %, {:.0} µs at once).",
            taken.median, taken.count, taken.max, longest.max
        );
    }
}

/// What each tool's TLS handshakes were by the server's log.
fn handshakes(session: &Session, case: Case, text: &mut String) {
    let mut told = String::new();
    for tool in &session.tools {
        let found = session.handshakes(case, tool.name);
        if !found.is_empty() {
            let _ = writeln!(told, "- {}: {found}", tool.name);
        }
    }
    if !told.is_empty() {
        let _ = write!(
            text,
            "\nTLS handshakes over {} clients, as the server logged them:\n\n{told}",
            case.clients
        );
    }
}

fn comparison(session: &Session, case: Case, text: &mut String) {
    let connections = match case.streams {
        1 => String::new(),
        streams => format!(" on {} connections of {streams}", case.clients / streams),
    };
    // wrk speaks neither HTTP/2 nor HTTP/3, and of the tools that speak HTTP/3 none has every mode.
    let peer = match (case.mode.is_http2(), case.mode.is_http3()) {
        (true, _) => "h2load",
        (_, true) => "floor",
        _ => "wrk",
    };
    let _ = write!(
        text,
        "\n## {} on {}, {} clients{connections}\n\n\
         | tool | requests/s | mean latency, ms | rate × latency / clients | CPU/request, µs | rate to {peer} | latency to {peer} | CPU to {peer} | quartiles | extremes | errors | rounds |\n\
         |---|---:|---:|---:|---:|---:|---:|---:|---|---|---:|---:|\n",
        case.mode.name(),
        case.server.name(),
        case.clients
    );
    for tool in &session.tools {
        let Some(rounds) = Rounds::of_tool(session, case, tool.name) else { continue };
        let to_peer = |quantity| session.ratio(case, tool.name, peer, quantity);
        let cpu = to_peer(Run::cpu_us);
        let _ = writeln!(
            text,
            "| {} | {} | {} | {} | {} | {} | {} | {} | {} | {} | {} | {} |",
            tool.name,
            rounds.median(Run::rate, 0),
            rounds.median(|run| run.latency_s().map(|seconds| seconds * 1e3), 3),
            rounds.median(Run::little, 3),
            rounds.median(Run::cpu_us, 2),
            median(to_peer(Run::rate), 3),
            median(to_peer(Run::latency_s), 3),
            median(cpu, 3),
            quartiles(cpu, 3),
            cpu.map_or("-".to_owned(), |s| format!("{:.3} to {:.3}", s.min, s.max)),
            rounds.errors(),
            rounds.measured(),
        );
    }
}

fn scale(session: &Session, mode: Mode, server: Server, cases: &[Case], text: &mut String) {
    let (few, many) = MEMORY_BETWEEN;
    let _ = write!(
        text,
        "\n## {} on {}\n\n\
         CPU time of the whole process includes connecting; steady is that of the window alone, where the tool tells it.\n\n\
         | tool | clients | requests/s | CPU/request, µs | steady CPU/request, µs | memory, MB | errors | rounds |\n\
         |---|---:|---:|---:|---:|---:|---:|---:|\n",
        mode.name(),
        server.name()
    );
    for tool in &session.tools {
        for case in cases {
            let Some(rounds) = Rounds::of_tool(session, *case, tool.name) else { continue };
            let tells_apart = |run: &Run| run.reading?.window_cpu_s.and(run.steady_cpu_us());
            let memory = |run: &Run| run.memory_bytes_max.map(|bytes| bytes as f64 / 1e6);
            let _ = writeln!(
                text,
                "| {} | {} | {} | {} | {} | {} | {} | {} |",
                tool.name,
                case.clients,
                rounds.median(Run::rate, 0),
                rounds.median(Run::cpu_us, 2),
                rounds.median(tells_apart, 2),
                rounds.median(memory, 2),
                rounds.errors(),
                rounds.measured(),
            );
        }
    }
    let _ = write!(
        text,
        "\n| tool | bytes/connection, {few} to {many} clients | quartiles | CPU/request, dearest to cheapest | quartiles |\n\
         |---|---:|---|---:|---|\n"
    );
    for tool in &session.tools {
        let bytes = session.connection_bytes(mode, server, tool.name);
        let growth = if mode == Mode::Scale { session.cpu_growth(server, tool.name) } else { None };
        if bytes.is_some() || growth.is_some() {
            let _ = writeln!(
                text,
                "| {} | {} | {} | {} | {} |",
                tool.name,
                median(bytes, 0),
                quartiles(bytes, 0),
                median(growth, 3),
                quartiles(growth, 3)
            );
        }
    }
}

fn workers(session: &Session, server: Server, cases: &[Case], text: &mut String) {
    let _ = write!(
        text,
        "\n## workers on {}\n\n\
         The server has an event loop on each of the two CPUs; every worker shares its CPU with one of them.\n\n\
         | tool | workers | clients | requests/s | CPU/request, µs | two workers to this | quartiles | errors | rounds |\n\
         |---|---|---:|---:|---:|---:|---|---:|---:|\n",
        server.name()
    );
    for tool in &session.tools {
        for case in cases {
            let Some(rounds) = Rounds::of_tool(session, *case, tool.name) else { continue };
            let ratio = match case.workers {
                1 => session.second_worker(server, tool.name, case.accompanied),
                _ => None,
            };
            let beside = if case.accompanied { ", beside another process" } else { "" };
            let _ = writeln!(
                text,
                "| {} | {}{beside} | {} | {} | {} | {} | {} | {} | {} |",
                tool.name,
                case.workers,
                case.clients,
                rounds.median(Run::rate, 0),
                rounds.median(Run::cpu_us, 2),
                median(ratio, 3),
                quartiles(ratio, 3),
                rounds.errors(),
                rounds.measured(),
            );
        }
    }
}

fn pacing(session: &Session, case: Case, text: &mut String) {
    let _ = write!(
        text,
        "\n## pacing on {}, {PACE} requests/s over {} clients\n\n\
         | tool | requests/s | lateness p99, µs | quartiles | mean latency, ms | CPU/request, µs | errors | rounds |\n\
         |---|---:|---:|---|---:|---:|---:|---:|\n",
        case.server.name(),
        case.clients
    );
    for tool in &session.tools {
        let Some(rounds) = Rounds::of_tool(session, case, tool.name) else { continue };
        let lateness = Spread::of_values(rounds.0.iter().filter_map(|run| run.lateness_p99_us()));
        let _ = writeln!(
            text,
            "| {} | {} | {} | {} | {} | {} | {} | {} |",
            tool.name,
            rounds.median(Run::rate, 0),
            median(lateness, 2),
            quartiles(lateness, 2),
            rounds.median(|run| run.latency_s().map(|seconds| seconds * 1e3), 3),
            rounds.median(Run::cpu_us, 2),
            rounds.errors(),
            rounds.measured(),
        );
    }
}

fn cost_of_measuring(session: &Session, text: &mut String) {
    let mut rows = String::new();
    for mode in Mode::all() {
        for case in mode.servers().iter().flat_map(|server| mode.cases(*server)) {
            if let Some(ratio) = session.ratio(case, "webstone", "webstone-bare", Run::cpu_us) {
                let (mode, server) = (mode.name(), case.server.name());
                let _ = writeln!(
                    rows,
                    "| {mode} | {server} | {:.3} | {} |",
                    ratio.median,
                    quartiles(Some(ratio), 3)
                );
            }
        }
    }
    if !rows.is_empty() {
        let _ = write!(
            text,
            "\n## Cost of measuring: client CPU per request with statistics, to a build without\n\n\
             | mode | server | ratio | quartiles |\n|---|---|---:|---|\n{rows}"
        );
    }
}

/// What changed since another commit, of the whole process and of its window alone.
fn before(session: &Session, text: &mut String) {
    let mut rows = String::new();
    for mode in Mode::all() {
        for case in mode.servers().iter().flat_map(|server| mode.cases(*server)) {
            let to_before = |quantity| session.ratio(case, "webstone", "webstone-before", quantity);
            let Some(whole) = to_before(Run::cpu_us) else { continue };
            let window = to_before(Run::steady_cpu_us);
            let (mode, server, clients) = (mode.name(), case.server.name(), case.clients);
            let _ = writeln!(
                rows,
                "| {mode} | {server} | {clients} | {:.3} | {} | {} | {} |",
                whole.median,
                quartiles(Some(whole), 3),
                median(window, 3),
                quartiles(window, 3)
            );
        }
    }
    if !rows.is_empty() {
        let _ = write!(
            text,
            "\n## Client CPU per request, webstone to webstone-before\n\n\
             | mode | server | clients | whole process | quartiles | window alone | quartiles |\n\
             |---|---|---:|---:|---|---:|---|\n{rows}"
        );
    }
}

fn bars(session: &Session, judged: &[Judged], text: &mut String) {
    let (listed, left_out): (Vec<&Judged>, Vec<&Judged>) = judged.iter().partition(|judged| {
        judged.outcome == Outcome::Pending
            || session.runs.iter().any(|run| run.case.mode.name() == judged.bar.mode)
    });
    let _ = write!(
        text,
        "\n## Bars\n\n\
         `busy`: shares of a CPU that the tool and the one it is compared with used.\n\n\
         | mode | tool | quantity | against | server | measured | quartiles | floor | busy | at most | aim | |\n\
         |---|---|---|---|---|---:|---|---:|---:|---:|---:|---|\n"
    );
    for Judged { bar, on, measured, floor, busy, outcome } in listed {
        let decimals = bar.quantity.decimals();
        let shown = decimals.min(2);
        let why = bar.pending.as_ref().map(|why| format!(": {why}")).unwrap_or_default();
        let percent = |(tool, against): (f64, f64)| format!("{:.0} % / {:.0} %", tool * 1e2, against * 1e2);
        let _ = writeln!(
            text,
            "| {} | {} | {} | {} | {} | {} | {} | {} | {} | {:.shown$} | {} | {}{why} |",
            bar.mode,
            bar.tool,
            bar.quantity.name(),
            bar.against.as_deref().unwrap_or("-"),
            if measured.is_some() { on } else { "-" },
            median(*measured, decimals),
            quartiles(*measured, decimals),
            median(*floor, decimals),
            busy.map_or("-".to_owned(), percent),
            bar.at_most,
            number(bar.aim, shown),
            outcome.name(),
        );
    }
    if !left_out.is_empty() {
        let mut modes: Vec<&str> = left_out.iter().map(|judged| judged.bar.mode.as_str()).collect();
        modes.dedup();
        let _ = writeln!(text, "\n{} bars of modes that were not run: {}.", left_out.len(), modes.join(", "));
    }
}

/// The runs of one tool in one case.
struct Rounds<'a>(Vec<&'a Run>);

impl<'a> Rounds<'a> {
    fn of_tool(session: &'a Session, case: Case, tool: &str) -> Option<Rounds<'a>> {
        let runs: Vec<&Run> = session.runs_of(case, tool).collect();
        (!runs.is_empty()).then_some(Rounds(runs))
    }

    fn median(&self, quantity: impl Fn(&Run) -> Option<f64>, decimals: usize) -> String {
        median(Spread::of_values(self.0.iter().filter_map(|run| quantity(run))), decimals)
    }

    fn errors(&self) -> u64 {
        self.0.iter().filter_map(|run| run.reading).map(|reading| reading.errors).sum()
    }

    fn measured(&self) -> String {
        format!("{} of {}", self.0.iter().filter(|run| run.reading.is_some()).count(), self.0.len())
    }
}

fn median(spread: Option<Spread>, decimals: usize) -> String {
    number(spread.map(|spread| spread.median), decimals)
}

fn quartiles(spread: Option<Spread>, decimals: usize) -> String {
    spread.map_or("-".to_owned(), |s| format!("{:.decimals$} to {:.decimals$}", s.lower, s.upper))
}

fn number(value: Option<f64>, decimals: usize) -> String {
    value.map_or("-".to_owned(), |value| format!("{value:.decimals$}"))
}
