//! The tables of the sweep: one row per run, level, iteration or distribution; and the curves of percentiles.

use webstone_judge::statistics::Interval;
use webstone_judge::verdict::Verdict;
use webstone_measure::figures::level::{CONNECTION_RATE, LATENCY_MEAN, REQUEST_RATE, THROUGHPUT};
use webstone_measure::figures::table::{self, Rank};
use webstone_measure::figures::{Figure, Group, Value};
use webstone_measure::metrics::Histogram;
use webstone_measure::units::NANOS_PER_SECOND;
use webstone_model::record::{IterationRecord, RunRecord};

use super::book::{COLUMNS_MAX, Sheet};
use crate::csv::{LevelTable, Row};
use crate::judged::Judged;
use crate::numbers::percentile_name;
use crate::summary::{self, Level};
use crate::text::times::KINDS;
use webstone_measure::figures::distributions::Distribution;

/// A record with what every sheet needs of it.
pub(super) struct BookRun<'a> {
    pub(super) judged: &'a Judged<'a>,
    /// What is shown.
    pub(super) record: &'a RunRecord,
    /// On the whole run, whatever part of it is shown.
    pub(super) verdict: &'a Verdict,
    pub(super) levels: Vec<Level<'a>>,
}

impl<'a> BookRun<'a> {
    pub(super) fn of_record(judged: &'a Judged<'a>) -> BookRun<'a> {
        let Judged { record, verdict, .. } = judged;
        BookRun { judged, record, verdict, levels: summary::levels(record) }
    }
}

pub(super) const MS: f64 = 1e3;

/// `Levels`: one row per run and level, its iterations together.
pub(super) fn levels<'a>(runs: &'a [BookRun<'a>]) -> Sheet<'a> {
    let nothing = IterationRecord::default();
    let blank = level_line("", runs[0].verdict, &summary::level(vec![&nothing]));
    Sheet {
        name: "Levels",
        blank,
        count: runs.iter().map(|run| run.levels.len()).sum(),
        lines: Box::new(
            runs.iter().flat_map(|run| {
                run.levels.iter().map(|level| level_line(&run.record.id, run.verdict, level))
            }),
        ),
        frozen: 2,
    }
}

/// What stands in `Levels`, in its order; raw numbers are in `Iterations`.
const GROUPS: [Group; 18] = [
    Group::Rates,
    Group::Latency,
    Group::Parts,
    Group::Volume,
    Group::Fairness,
    Group::Generator,
    Group::Machine,
    Group::Server,
    Group::ServerUse,
    Group::OpenLoop,
    Group::Http2,
    Group::Http3,
    Group::Network,
    Group::OriginUse,
    Group::Origin,
    Group::Tls,
    Group::Unanswered,
    Group::Path,
];

/// Figures whose 95 % intervals over iterations have columns, in the order of the charts.
pub(super) const WITH_INTERVALS: [&Figure; 4] = [&CONNECTION_RATE, &REQUEST_RATE, &THROUGHPUT, &LATENCY_MEAN];

/// The interval of one of [`WITH_INTERVALS`], in the unit of its column.
pub(super) fn interval(level: &Level<'_>, figure: &Figure) -> Option<Interval> {
    let statistics = &level.statistics;
    let interval = match figure {
        _ if figure == &CONNECTION_RATE => statistics.connection_rate,
        _ if figure == &REQUEST_RATE => statistics.request_rate,
        _ if figure == &THROUGHPUT => statistics.throughput_bps,
        _ => statistics.latency_mean_s,
    }?;
    let factor = figure.quantity.usual().factor;
    Some(Interval {
        point: interval.point * factor,
        low: interval.low * factor,
        high: interval.high * factor,
        ..interval
    })
}

/// Headings of the columns that hold how far an interval reaches below and above the figure.
pub(super) fn reaches(figure: &Figure) -> [String; 2] {
    ["lower", "upper"].map(|end| format!("{} to {end} end of 95 % interval", figure.long))
}

/// A cell of a figure of the table, under its name, in its usual unit.
pub(super) fn put(line: &mut Row, figure: &'static Figure, level: Option<&Level<'_>>) {
    let unit = figure.quantity.usual();
    let value = level.and_then(|level| level.values.value(figure)).map(|value| match value {
        Value::Number(number) | Value::AtLeast(number) => Value::Number(number * unit.factor),
        count => count,
    });
    line.cell(figure.long, unit.name, value);
}

fn level_line(run: &str, verdict: &Verdict, level: &Level<'_>) -> Row {
    let mut line = Row::default();
    line.cell("Run", "", run);
    line.cell("Clients", "", level.clients);
    line.cell("Iterations", "", level.runs.len());
    for group in GROUPS {
        for figure in table::of_group(group).filter(|figure| figure.rank <= Rank::Overview) {
            put(&mut line, figure, Some(level));
        }
    }
    let f = &level.figures;
    line.cell("Throughput as WebBench gives it", "bytes/s", f.throughput_bps / 8.0);
    line.cell("Requests in the lowest iteration", "1/s", level.request_rates.0);
    line.cell("Requests in the highest iteration", "1/s", level.request_rates.1);
    line.cell("Rate", "1/s", level.rate.map(|rate| rate.to_string()));
    // As distances, because that is what error bars are drawn from.
    for figure in WITH_INTERVALS {
        let unit = figure.quantity.usual();
        let shown = level.values.value(figure).map_or(0.0, |value| value.as_f64() * unit.factor);
        let interval = interval(level, figure);
        let [below, above] = reaches(figure);
        // An interval of few iterations may reach below zero, but no figure can.
        line.cell(below, unit.name, interval.map(|interval| (shown - interval.low.max(0.0)).max(0.0)));
        line.cell(above, unit.name, interval.map(|interval| (interval.high - shown).max(0.0)));
    }
    let noise = verdict.noise_of(level.key());
    line.cell("Verdict on the level", "", verdict.of_level(level.key()).word());
    line.cell("Noise factor of the request rate", "", noise.and_then(|noise| noise.rate_factor()));
    line.cell("Noise factor of CPU time", "", noise.and_then(|noise| noise.cpu_time_factor()));
    line
}

/// `Iterations`: everything that the CSV table of levels has, one row per timed run.
pub(super) fn iterations<'a>(runs: &'a [BookRun<'a>]) -> Sheet<'a> {
    Sheet {
        name: "Iterations",
        blank: LevelTable::of_record(runs[0].record, runs[0].verdict)
            .row(runs[0].record, &IterationRecord::default()),
        count: runs.iter().map(|run| run.record.iterations.len()).sum(),
        lines: Box::new(runs.iter().flat_map(|run| {
            let table = LevelTable::of_record(run.record, run.verdict);
            run.record.iterations.iter().map(move |it| table.row(run.record, it))
        })),
        frozen: 3,
    }
}

/// `Percentiles`: one row per run, level and distribution.
pub(super) fn percentiles<'a>(runs: &'a [BookRun<'a>]) -> Sheet<'a> {
    let levels = runs.iter().flat_map(|run| run.levels.iter().map(move |level| (run, level)));
    let rows = levels.flat_map(|(run, level)| {
        let known = KINDS.iter().filter_map(|(name, of)| Some((name, of(&level.distributions).as_ref()?)));
        known.map(|(name, times)| percentile_line(&run.record.id, level, name, times)).collect::<Vec<_>>()
    });
    let nothing = IterationRecord::default();
    let blank = percentile_line("", &summary::level(vec![&nothing]), "", &Distribution::default());
    Sheet::new("Percentiles", blank, rows.collect(), 3)
}

fn percentile_line(run: &str, level: &Level<'_>, name: &str, d: &Distribution) -> Row {
    let mut line = Row::default();
    line.cell("Run", "", run);
    line.cell("Clients", "", level.clients);
    line.cell("Time of", "", name);
    line.cell("Values", "", d.count);
    for (percentile, time_s) in d.each() {
        let name = percentile_name(percentile);
        line.cell(if percentile == 100.0 { "Max".to_owned() } else { name }, "ms", time_s * MS);
    }
    line.cell("Rate", "1/s", level.rate.map(|rate| rate.to_string()));
    line
}

/// The columns before the curves in `Percentile Curves`.
pub(super) const CURVES_FROM: u16 = 2;

/// `Percentile Curves`: response times of each run and level over 1/(1 − p), the axis on which the rare ones show. A
/// column has a cell as long as at least one value lies beyond that percentile.
pub(super) fn curves(runs: &[BookRun<'_>]) -> Sheet<'static> {
    let room = COLUMNS_MAX + 1 - usize::from(CURVES_FROM);
    let several = runs.len() > 1;
    let mut curves: Vec<(String, Vec<f64>)> = Vec::new();
    for run in runs {
        for level in run.levels.iter().take(room.saturating_sub(curves.len())) {
            let of = if several { format!(" · {}", run.record.id) } else { String::new() };
            let times = summary::response_times(level);
            curves.push((format!("{}{of}", level.load()), curve(&times)));
        }
    }
    let rows = curves.iter().map(|(_, values)| values.len()).max().unwrap_or(0);
    let line = move |row: usize| {
        let beyond = STEPS[row % STEPS.len()] * 10_f64.powi((row / STEPS.len()) as i32);
        let mut line = Row::default();
        line.cell("Percentile", "%ile", 100.0 - 100.0 / beyond);
        line.cell("1/(1 − p)", "", beyond);
        for (name, values) in &curves {
            line.cell(name.clone(), "ms", values.get(row).map(|value| value * MS));
        }
        line
    };
    Sheet {
        name: "Percentile Curves",
        blank: line(0),
        count: rows,
        lines: Box::new((0..rows).map(line)),
        frozen: CURVES_FROM,
    }
}

/// Steps of a decade of 1/(1 − p): about even on a logarithmic axis, with 50, 80, 90, 95, 99 % among them.
const STEPS: [f64; 8] = [1.0, 1.25, 1.6, 2.0, 2.5, 4.0, 5.0, 8.0];

/// Response times in seconds at 1/(1 − p) = 1, 1.25, … as far as there are values.
fn curve(histogram: &Histogram) -> Vec<f64> {
    let decades = (0..).map(|exponent| 10_f64.powi(exponent));
    let quantiles: Vec<f64> = decades
        .flat_map(|decade| STEPS.map(|step| step * decade))
        .take_while(|beyond| *beyond <= histogram.len() as f64)
        .map(|beyond| 1.0 - 1.0 / beyond)
        .collect();
    let values = histogram.values_at_quantiles(&quantiles);
    values.into_iter().map(|nanos| nanos as f64 / NANOS_PER_SECOND as f64).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_curve_ends_where_no_value_lies_beyond() {
        let mut histogram = Histogram::new();
        (1..=10).for_each(|value| histogram.record(value * 100));
        let curve: Vec<f64> = curve(&histogram).iter().map(|value| (value * 1e9).round()).collect();
        // 1/(1 − p) = 1, 1.25, 1.6, 2, 2.5, 4, 5, 8, 10: p = 0, 20, 37.5, 50, 60, 75, 80, 87.5, 90 %.
        assert_eq!(curve, [100.0, 200.0, 400.0, 500.0, 600.0, 800.0, 800.0, 900.0, 900.0]);
        assert_eq!(super::curve(&Histogram::new()), Vec::<f64>::new());
    }
}
