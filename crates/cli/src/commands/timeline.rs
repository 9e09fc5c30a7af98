//! `webstone history --server`: stored runs of a server over time, and possible steps.

use std::path::Path;

use webstone_report::{Format, Subject, Timeline, TimelineRun, TimelineUnit, render_timelines};
use webstone_store::library::{Histories, History, HistoryMetric, Library};

use crate::args::HistoryArgs;
use crate::console::{self, Console};
use crate::failure::{Exit, Failure};
use crate::intent::{RUNS_DIR, form_of};

pub(super) fn execute(server: &str, args: &HistoryArgs, console: &Console) -> Result<Exit, Failure> {
    let format = form_of(Subject::Timeline, args.format, args.output.as_deref())?;
    let runs_dir = args.runs_dir.as_deref().unwrap_or(Path::new(RUNS_DIR));
    let library = Library::open(runs_dir)?;
    let metric = args.metric.unwrap_or_default();
    let histories = library.histories(server, metric);
    if histories.lines.is_empty() && histories.left_out == 0 {
        return Err(none_of(server, runs_dir, &library.servers()));
    }
    let bytes = match format {
        Format::Json => json(server, &histories)?,
        _ => {
            let timelines: Vec<Timeline<'_>> = histories.lines.iter().map(timeline).collect();
            render_timelines(&timelines, &console.report_options(args.output.is_some())).into_bytes()
        }
    };
    console::deliver(&bytes, args.output.as_deref())?;
    if histories.left_out > 0 {
        let runs =
            if histories.left_out == 1 { "1 run".to_owned() } else { format!("{} runs", histories.left_out) };
        console.note(format!(
            "{runs} left out: INVALID, INCONCLUSIVE, did not end as planned, or without the figure"
        ));
    }
    Ok(Exit::Done)
}

fn none_of(server: &str, runs_dir: &Path, known: &[&str]) -> Failure {
    let failure = Failure::usage(format!("--server: {} has no run of `{server}`", runs_dir.display()));
    match known {
        [] => failure.hint("`webstone run --server NAME` makes one; --runs-dir names another directory"),
        known => failure.hint(format!("it has runs of {}", known.join(", "))),
    }
}

fn timeline<'a>(history: &'a History<'a>) -> Timeline<'a> {
    let newest = history.newest;
    let what = if newest.embedded { "webstone, embedded".to_owned() } else { newest.server_or_target() };
    let tls = if newest.tls { " over TLS" } else { "" };
    let (figure, unit) = match history.metric {
        HistoryMetric::Rate => ("request rate", TimelineUnit::PerSecond),
        HistoryMetric::P99 => ("99th percentile of response times", TimelineUnit::Seconds),
    };
    let run = |run: &webstone_store::library::HistoryRun<'a>| TimelineRun {
        name: run.name,
        started: run.started,
        version: run.server_version,
        value: run.value,
        interval: run.interval,
        undisturbed: match history.metric {
            _ if run.noise_factor.is_none() && !run.noise_is_unbounded => None,
            HistoryMetric::Rate => Some(run.value * run.noise_factor.unwrap_or(f64::INFINITY)),
            HistoryMetric::P99 => Some(run.value / run.noise_factor.unwrap_or(f64::INFINITY)),
        },
        verdict: run.verdict,
    };
    Timeline {
        title: format!("{what}, {}, {}{tls}, on {}", newest.workload, newest.protocol, newest.host),
        figure: format!("{figure} at {}", history.level),
        unit,
        runs: history.runs.iter().map(run).collect(),
        steps: history.steps.as_deref(),
        within_noise: &history.within_noise,
    }
}

fn json(server: &str, histories: &Histories<'_>) -> Result<Vec<u8>, Failure> {
    #[derive(serde::Serialize)]
    struct Report<'a> {
        server: &'a str,
        #[serde(flatten)]
        histories: &'a Histories<'a>,
    }
    let text = serde_json::to_string_pretty(&Report { server, histories })
        .map_err(|error| Failure::failed(format!("the history cannot be written as JSON: {error}")))?;
    Ok((webstone_measure::shown::json(&text).into_owned() + "\n").into_bytes())
}
