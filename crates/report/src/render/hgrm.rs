//! The percentiles of one distribution as text, in the form that HdrHistogram prints (`outputPercentileDistribution`),
//! wrk2 prints after it, and plotters of HdrHistogram read.
//!
//! A file holds one distribution. Which one, of what and in which unit, stands in comments (`#[…]`), which readers of
//! the format skip. Values are milliseconds, as in wrk2 and as the plotter assumes, with the six decimals that
//! nanoseconds need.

use std::borrow::Cow;
use std::fmt::Write as _;

use webstone_judge::verdict::Standing;
use webstone_measure::metrics::{Histogram, Histograms, Mean, Measured, longest};
use webstone_measure::shown::Shown;
use webstone_model::record::RunRecord;

use crate::judged::Judged;
use crate::summary::{self, Level, TIMES};
use crate::text::{noise, problems};
use crate::{Options, ReportError, classic};

/// Rows until half of the remaining values are passed, as wrk2 and the original have them.
const TICKS_PER_HALF_DISTANCE: f64 = 5.0;
const NANOS_PER_MS: f64 = 1e6;

/// The text. Of several levels the one with the highest request rate is shown, and the first line says so.
pub(crate) fn render(judged: &Judged<'_>, options: &Options) -> Result<String, ReportError> {
    let Judged { record, verdict, .. } = judged;
    let name = options.histogram.as_str();
    let names = Histograms::default().named().map(|(name, _)| name);
    let place = names.iter().position(|known| *known == name).ok_or_else(|| {
        ReportError::NothingSelected { wanted: format!("distribution `{name}`"), held: names.join(", ") }
    })?;
    let levels = summary::levels(record);
    let chosen = levels.get(summary::peak(&levels).unwrap_or(0));
    let merged = chosen.map(|level| summary::merged(&level.runs));
    let mut out = String::new();
    let subject =
        chosen.map_or("nothing was measured".to_owned(), |level| subject(judged.whole, level, levels.len()));
    let _ = writeln!(out, "#[webstone {}: {name} time in milliseconds, {subject}]", Shown(&record.id));
    let why = problems::reasons_in_brief(verdict);
    let parts = [verdict.standing.word(), &why].into_iter().filter(|part| !part.is_empty());
    let _ = writeln!(out, "#[{}]", Shown(&parts.collect::<Vec<_>>().join(": ")));
    let nothing = Measured::default();
    // The line above is on the whole run.
    let is_told = |standing: Standing| standing > Standing::Sound || standing != verdict.standing;
    if let Some(level) = chosen.filter(|level| is_told(verdict.of_level(level.key()))) {
        let _ = writeln!(out, "#[{}: {}]", level.load(), noise::told(verdict, level.key()));
    }
    let measured = merged.as_deref().unwrap_or(&nothing);
    write_out(&Times::of_place(measured, place), &mut out);
    Ok(out)
}

fn subject(whole: &RunRecord, level: &Level<'_>, levels: usize) -> String {
    let iterations = match &level.runs[..] {
        [_] if !summary::is_repeated(whole) => String::new(),
        [only] => format!(", iteration {}", only.iteration),
        several => format!(", {} iterations together", several.len()),
    };
    let chosen =
        if levels > 1 { format!("; of {levels} levels that of the highest rate") } else { String::new() };
    format!("{}{iterations}{chosen}", level.load())
}

/// What is written, with the waits of what was not answered where these make a percentile a lower bound.
struct Times<'a> {
    histogram: Cow<'a, Histogram>,
    mean_ns: f64,
    deviation_ns: f64,
    max_ns: u64,
}

impl Times<'_> {
    fn of_place(measured: &Measured, place: usize) -> Times<'_> {
        let (answered, moments) = TIMES[place].2(measured);
        let unanswered = &measured.unanswered;
        let waits =
            [&unanswered.connect, &unanswered.first_byte, &unanswered.response, &unanswered.page][place];
        let histogram = summary::with_waits(answered, unanswered.histograms.named()[place].1);
        let (max_ns, _) = longest(moments, if answered.is_empty() { moments } else { waits });
        Times {
            mean_ns: Mean::of_moments(moments, waits).unwrap_or_default().ns,
            deviation_ns: classic::standard_deviation(moments),
            max_ns: histogram.max().max(max_ns),
            histogram,
        }
    }
}

fn write_out(times: &Times<'_>, out: &mut String) {
    let Times { histogram, mean_ns, deviation_ns, max_ns } = times;
    if matches!(histogram, Cow::Owned(_)) {
        out.push_str("#[with the time that those waited that were not answered]\n");
    }
    out.push_str("       Value     Percentile TotalCount 1/(1-Percentile)\n\n");
    for row in rows(histogram, *max_ns) {
        let value_ms = row.value_ns as f64 / NANOS_PER_MS;
        let _ = write!(out, "{value_ms:12.6} {:.12} {:10}", row.quantile, row.count);
        if row.quantile < 1.0 {
            let _ = write!(out, " {:14.2}", 1.0 / (1.0 - row.quantile));
        }
        out.push('\n');
    }
    let [mean_ms, deviation_ms, max_ms] =
        [*mean_ns, *deviation_ns, *max_ns as f64].map(|nanos| nanos / NANOS_PER_MS);
    let _ = writeln!(out, "#[Mean    = {mean_ms:12.6}, StdDeviation   = {deviation_ms:12.6}]");
    let _ = writeln!(out, "#[Max     = {max_ms:12.6}, Total count    = {:12}]", histogram.len());
    // 2,048 sub-buckets hold three digits; 34 octaves of them reach 2⁴⁴ ns.
    let _ = writeln!(out, "#[Buckets = {:12}, SubBuckets     = {:12}]", 34, 2048);
}

/// One row: `count` values, at least the share `quantile`, are at most `value_ns`.
#[derive(Debug, PartialEq)]
struct Row {
    value_ns: u64,
    quantile: f64,
    count: u64,
}

/// The rows of HdrHistogram's percentile iterator: five steps to the half of what is left, then five to the half of
/// that, until all values are counted; then 100 %, at the maximum.
fn rows(histogram: &Histogram, max_ns: u64) -> Vec<Row> {
    let mut rows = Vec::new();
    // In percent, and in the original's order of operations, so that rounding falls as it does there.
    let (total, mut count, mut percent) = (histogram.len(), 0, 0.0);
    for (lowest, width, here) in histogram.buckets() {
        count += here;
        let value_ns = (lowest + width - 1).min(histogram.max());
        while 100.0 * count as f64 / total as f64 >= percent && percent < 100.0 {
            rows.push(Row { value_ns, quantile: percent / 100.0, count });
            let halvings = ((100.0 / (100.0 - percent)).ln() / 2_f64.ln()).floor() + 1.0;
            percent += 100.0 / (TICKS_PER_HALF_DISTANCE * halvings.exp2());
            if count == total {
                break;
            }
        }
    }
    if total > 0 {
        rows.push(Row { value_ns: max_ns, quantile: 1.0, count: total });
    }
    rows
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Ten values 1..=10: the rows that HdrHistogram 2.1.12 prints for them at five ticks.
    #[test]
    fn rows_are_those_of_the_original() {
        let mut histogram = Histogram::new();
        (1..=10).for_each(|value| histogram.record(value));
        let rows: Vec<(u64, f64, u64)> =
            rows(&histogram, 10).iter().map(|row| (row.value_ns, row.quantile, row.count)).collect();
        let begin: Vec<(u64, u64, u64)> = rows
            .iter()
            .map(|(value, quantile, count)| (*value, (quantile * 1e6).round() as u64, *count))
            .collect();
        assert_eq!(
            begin[..9],
            [
                (1, 0, 1),
                (1, 100_000, 1),
                (2, 200_000, 2),
                (3, 300_000, 3),
                (4, 400_000, 4),
                (5, 500_000, 5),
                (6, 550_000, 6),
                (6, 600_000, 6),
                (7, 650_000, 7)
            ]
        );
        assert_eq!(rows.last(), Some(&(10, 1.0, 10)));
    }

    #[test]
    fn nothing_has_no_rows() {
        assert_eq!(rows(&Histogram::new(), 0), []);
    }
}
