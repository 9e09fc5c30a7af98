//! Runs of one server over time: a line of history for each set of conditions, with the steps in it.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use webstone_judge::steps::Step;
use webstone_judge::verdict::Standing;
use webstone_model::record::RunState;

use super::noise::{self, Measured};
use super::{Library, LibraryRow, Peak, RowKind};

/// The figure whose history it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum HistoryMetric {
    /// Valid responses per second.
    #[default]
    Rate,
    /// The 99th percentile of the response time, in seconds.
    P99,
}

impl HistoryMetric {
    fn value(self, level: &Peak) -> Option<f64> {
        match self {
            HistoryMetric::Rate => Some(level.rate_per_s),
            HistoryMetric::P99 => level.p99_s,
        }
    }

    fn interval_of(self, level: &Peak) -> Option<[f64; 2]> {
        match self {
            HistoryMetric::Rate => level.rate_interval,
            HistoryMetric::P99 => None,
        }
    }

    /// By which factor noise may have made the figure worse at most: 1 without noise that matters, infinite without a bound.
    fn noise_factor_of(self, level: &Peak) -> f64 {
        level.noise.map_or(1.0, |noise| {
            let factor = match self {
                HistoryMetric::Rate => noise.rate_factor,
                HistoryMetric::P99 => noise.p99_factor,
            };
            factor.unwrap_or(f64::INFINITY)
        })
    }
}

/// Comparable runs of a server, in the order of their time.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct History<'a> {
    /// The digest of what they have in common.
    pub conditions: &'a str,
    /// The figure.
    pub metric: HistoryMetric,
    /// The level whose figure it is: `20 clients`.
    pub level: &'a str,
    /// The newest of the runs, for what is shown of all: server, workload, host.
    #[serde(skip)]
    pub newest: &'a LibraryRow,
    /// The runs.
    pub runs: Vec<HistoryRun<'a>>,
    /// What looks like a step; null with fewer than [`RUNS_MIN`](webstone_judge::steps::RUNS_MIN) runs.
    pub steps: Option<Vec<Step>>,
    /// The first runs after what would look like a step if noise could not have made it, by their places.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub within_noise: Vec<usize>,
}

/// A run of a history.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct HistoryRun<'a> {
    /// Its name; of a cell of a series `SERIES/RUN`.
    pub name: &'a str,
    /// When it began (RFC 3339, UTC).
    pub started: &'a str,
    /// The server's version.
    pub server_version: &'a str,
    /// The figure: responses per second, or seconds.
    pub value: f64,
    /// Both ends of the 95 % interval of its mean over the iterations; absent below two, and of a percentile.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub interval: Option<[f64; 2]>,
    /// By which factor noise may have made the figure worse at most: a rate lower, a time longer. Absent without noise that matters, and
    /// where it has no bound.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub noise_factor: Option<f64>,
    /// Whether noise may have done that without bound.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub noise_is_unbounded: bool,
    /// The verdict in a word.
    pub verdict: &'static str,
}

/// Histories of a server, and how many of its runs are in none.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Histories<'a> {
    /// Those with the most runs first.
    pub lines: Vec<History<'a>>,
    /// Runs of this server that are INVALID or INCONCLUSIVE, did not end as planned, or do not have the figure.
    pub left_out: usize,
}

impl Library {
    /// The histories of a server, by its name (`nginx`) or with its profile (`nginx:tuned`), in any case. Runs of series are in
    /// them as well. Rows that are [unread](LibraryRow::unread) are not.
    pub fn histories(&self, server: &str, metric: HistoryMetric) -> Histories<'_> {
        let (name, profile) = match server.split_once(':') {
            Some((name, profile)) => (name, Some(profile)),
            None => (server, None),
        };
        let is_meant = |row: &&LibraryRow| {
            row.server.eq_ignore_ascii_case(name)
                && profile.is_none_or(|profile| row.profile.eq_ignore_ascii_case(profile))
        };
        self.lines_of(self.runs_and_cells().filter(is_meant), metric)
    }

    /// The history that a run is part of: the runs that were measured under its conditions. `None` where there is no such run, or it
    /// has no conditions, as a series has none.
    pub fn history_of(&self, name: &str, metric: HistoryMetric) -> Option<Histories<'_>> {
        let run = self.row(name).filter(|row| !row.conditions.is_empty())?;
        let alike = self.runs_and_cells().filter(|row| row.conditions == run.conditions);
        Some(self.lines_of(alike, metric))
    }

    /// A line for each set of conditions.
    fn lines_of<'a>(
        &'a self,
        rows: impl Iterator<Item = &'a LibraryRow>,
        metric: HistoryMetric,
    ) -> Histories<'a> {
        let mut found: BTreeMap<&str, Vec<&LibraryRow>> = BTreeMap::new();
        let mut left_out = 0;
        for row in rows {
            match row.state == Some(RunState::Complete)
                && row.standing.is_some_and(Standing::is_conclusive)
                && row.peak.is_some()
            {
                true => found.entry(&row.conditions).or_default().push(row),
                false => left_out += 1,
            }
        }
        let mut lines: Vec<History<'_>> = Vec::new();
        for (conditions, mut rows) in found {
            rows.sort_by(|a, b| (&a.started, &a.name).cmp(&(&b.started, &b.name)));
            let all = rows.len();
            let line = line(conditions, rows, metric);
            left_out += all - line.as_ref().map_or(0, |line| line.runs.len());
            lines.extend(line);
        }
        // Of two with the same number of runs, the one that continues until today.
        lines.sort_by(|a, b| (b.runs.len(), &b.newest.started).cmp(&(a.runs.len(), &a.newest.started)));
        Histories { lines, left_out }
    }

    /// Names of the servers that were measured, each once, in alphabetical order.
    pub fn servers(&self) -> Vec<&str> {
        let mut names: Vec<&str> = self.runs_and_cells().map(|row| row.server.as_str()).collect();
        names.retain(|name| !name.is_empty());
        names.sort_unstable();
        names.dedup();
        names
    }

    /// Every run, those of series among them, without duels.
    fn runs_and_cells(&self) -> impl Iterator<Item = &LibraryRow> {
        self.rows.iter().filter(|row| row.kind != RowKind::Duel).flat_map(|row| match row.cells.as_slice() {
            [] => std::slice::from_ref(row),
            cells => cells,
        })
    }
}

/// A line of rows that are in order; `None` where no run has the figure.
fn line<'a>(conditions: &'a str, rows: Vec<&'a LibraryRow>, metric: HistoryMetric) -> Option<History<'a>> {
    let level = usual_peak(&rows)?;
    // A NOISY run may have levels that are not conclusive.
    let level_of = |row: &'a LibraryRow| row.level(level).filter(|level| level.standing.is_conclusive());
    let with_figure = rows.into_iter().filter_map(|row| {
        let level = level_of(row)?;
        Some((row, level, metric.value(level)?))
    });
    let with_figure: Vec<(&LibraryRow, &Peak, f64)> = with_figure.collect();
    let measured: Vec<Measured<'_>> = (with_figure.iter())
        .map(|(row, level, value)| Measured {
            value: *value,
            noise_factor: metric.noise_factor_of(level),
            surroundings: &row.environment,
        })
        .collect();
    let run = |((row, level, value), measured): (&(&'a LibraryRow, &Peak, f64), &Measured<'_>)| HistoryRun {
        name: &row.name,
        started: &row.started,
        server_version: &row.server_version,
        value: *value,
        interval: metric.interval_of(level),
        noise_factor: Some(measured.noise_factor).filter(|factor| *factor > 1.0 && factor.is_finite()),
        noise_is_unbounded: measured.noise_factor.is_infinite(),
        verdict: row.verdict(),
    };
    let found = noise::steps(&measured, metric == HistoryMetric::Rate);
    let (steps, within_noise) =
        found.map_or((None, Vec::new()), |found| (Some(found.steps), found.within_noise));
    Some(History {
        conditions,
        metric,
        level,
        newest: with_figure.last()?.0,
        runs: with_figure.iter().zip(&measured).map(run).collect(),
        steps,
        within_noise,
    })
}

/// The level that most of the runs have their peak at: one level for all, because a peak that moves from one level to the next
/// would look like a step. Of equally frequent ones, the last run's.
fn usual_peak<'a>(rows: &[&'a LibraryRow]) -> Option<&'a str> {
    let mut counts: Vec<(&str, usize)> = Vec::new();
    for peak in rows.iter().filter_map(|row| row.peak.as_ref()) {
        let at = counts.iter().position(|(level, _)| *level == peak.level);
        let (_, count) = at.map_or((peak.level.as_str(), 0), |at| counts.remove(at));
        counts.push((&peak.level, count + 1));
    }
    counts.into_iter().max_by_key(|(_, count)| *count).map(|(level, _)| level)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::library::LevelNoise;
    use std::collections::BTreeMap;
    use std::path::PathBuf;
    use std::sync::Arc;

    fn level(level: &str, rate_per_s: f64, p99_s: Option<f64>) -> Peak {
        let rate_interval = Some([rate_per_s - 1.0, rate_per_s + 1.0]);
        let (level, standing) = (level.to_owned(), Standing::Sound);
        Peak { level, clients: 1, rate_per_s, rate_interval, p99_s, standing, noise: None }
    }

    /// A run whose peak is at 20 clients for an even day, at 40 for an odd one.
    fn run(day: usize, rate: f64) -> LibraryRow {
        let levels = vec![
            level("20 clients", rate, Some(1.0 / rate)),
            level("40 clients", rate + (day % 2) as f64 - 0.5, None),
        ];
        LibraryRow {
            name: format!("202601{day:02}T000000Z-night"),
            started: format!("2026-01-{day:02}T00:00:00.000Z"),
            server: "nginx".to_owned(),
            profile: "tuned".to_owned(),
            standing: Some(Standing::Sound),
            state: Some(RunState::Complete),
            peak: levels.iter().max_by(|a, b| a.rate_per_s.total_cmp(&b.rate_per_s)).cloned(),
            levels,
            conditions: "aa".to_owned(),
            environment: Arc::new(BTreeMap::from([(
                "kernel".to_owned(),
                if day < 13 { "6.1" } else { "6.2" }.to_owned(),
            )])),
            ..LibraryRow::default()
        }
    }

    fn library(rows: Vec<LibraryRow>) -> Library {
        let stamps = vec![None; rows.len()];
        let (runs_dir, notes) = (PathBuf::new(), BTreeMap::new());
        Library { runs_dir, rows, stamps, notes, begun: None, written: None, is_unwritten: false }
    }

    #[test]
    fn comparable_runs_are_a_line_with_its_steps() {
        let noise = [0.0, 0.3, -0.2, 0.1, -0.3, 0.2];
        let mut rows: Vec<LibraryRow> = (1..=21)
            .map(|day| run(day, if day < 13 { 100.0 } else { 90.0 } + noise[day % noise.len()]))
            .rev()
            .collect();
        // Some are cells of a series, and count like any other run.
        let cells = rows.split_off(18);
        rows.push(LibraryRow {
            kind: RowKind::Series,
            server: "nginx".to_owned(),
            cells,
            ..LibraryRow::default()
        });
        let odd = |day, change: fn(&mut LibraryRow)| {
            let mut row = run(day, 5.0);
            change(&mut row);
            row
        };
        rows.push(odd(22, |row| row.standing = Some(Standing::Invalid)));
        rows.push(odd(23, |row| row.state = Some(RunState::Interrupted)));
        rows.push(odd(24, |row| row.peak = None));
        rows.push(odd(25, |row| row.conditions = "bb".to_owned()));
        rows.push(odd(26, |row| row.server = "apache".to_owned()));
        rows.push(odd(27, |row| row.profile = "stock".to_owned()));
        rows.push(odd(28, |row| (row.kind, row.peak) = (RowKind::Duel, None)));
        let library = library(rows);
        assert_eq!(library.servers(), ["apache", "nginx"]);
        let found = library.histories("Nginx:tuned", HistoryMetric::Rate);
        assert_eq!(found.left_out, 3);
        let [line, other] = found.lines.as_slice() else { panic!("{found:?}") };
        assert_eq!((line.conditions, other.conditions, other.steps.as_ref()), ("aa", "bb", None));
        // Eleven odd days, ten even ones.
        assert_eq!((line.runs.len(), line.level), (21, "40 clients"));
        assert!(line.runs.is_sorted_by_key(|run| run.started));
        assert!(line.runs.iter().all(|run| run.interval == Some([run.value - 1.0, run.value + 1.0])));
        let steps = line.steps.as_ref().unwrap();
        let [step] = steps.as_slice() else { panic!("{steps:?}") };
        assert_eq!(
            (step.index, step.changed[0].what.as_str(), step.changed[0].throughout),
            (12, "kernel", true)
        );
        assert!((step.change.unwrap().point + 10.0).abs() < 0.5);
        let latency = library.histories("nginx:tuned", HistoryMetric::P99);
        assert_eq!((latency.lines.len(), latency.left_out), (0, 25), "that level has none");
        assert_eq!(line.within_noise, Vec::<usize>::new());
        assert_eq!(
            library.histories("caddy", HistoryMetric::Rate),
            Histories { lines: Vec::new(), left_out: 0 }
        );
    }

    #[test]
    fn what_noise_may_have_made_is_no_step() {
        let noisy = |day, rate_factor: Option<f64>| {
            let mut row = run(day, if day < 13 { 100.0 } else { 60.0 });
            let noise = (day >= 13).then_some(LevelNoise { rate_factor, p99_factor: None });
            row.levels.iter_mut().for_each(|level| level.noise = noise);
            row
        };
        let of = |rate_factor| library((1..=20).map(|day| noisy(day, rate_factor)).collect());
        let (bounded, unbounded, small) = (of(Some(2.4)), of(None), of(Some(1.05)));
        let line = |library: &Library, metric| {
            let found = library.histories("nginx", metric);
            let line = &found.lines[0];
            let last = line.runs.last().unwrap();
            let steps = line.steps.as_ref().map(Vec::len);
            (steps, line.within_noise.clone(), last.noise_factor, last.noise_is_unbounded)
        };
        assert_eq!(line(&bounded, HistoryMetric::Rate), (Some(0), vec![12], Some(2.4), false));
        assert_eq!(line(&unbounded, HistoryMetric::Rate), (Some(0), vec![12], None, true));
        assert_eq!(line(&small, HistoryMetric::Rate), (Some(1), vec![], Some(1.05), false));
    }

    #[test]
    fn a_level_that_is_not_conclusive_is_left_out() {
        let mut rows: Vec<LibraryRow> = (1..=20).map(|day| run(day, 100.0)).collect();
        for row in &mut rows[..3] {
            row.standing = Some(Standing::Noisy);
            row.levels.iter_mut().for_each(|level| level.standing = Standing::Inconclusive);
        }
        rows[3].standing = Some(Standing::Inconclusive);
        let library = library(rows);
        let found = library.histories("nginx", HistoryMetric::Rate);
        assert_eq!((found.lines[0].runs.len(), found.left_out), (16, 4));
    }
}
