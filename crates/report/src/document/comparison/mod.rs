//! A [`Comparison`] in, a document out.
//!
//! `webstone_judge::comparison` compares and concludes; here are only words. Sentences and tables are in this file.

mod blocks;

use std::collections::BTreeSet;

use webstone_judge::comparison::{
    Candidate, Comparison, FailWhen, Finding, FloorSource, GateOutcome, GateResult, Row, Why,
};
use webstone_judge::statistics::{Interval, Method};
use webstone_measure::figures::table;
use webstone_measure::keys::{LevelKey, levels_named};
use webstone_measure::metric::{Metric, Quantity};
use webstone_model::record::RunRecord;

use crate::document::Tone;
use crate::document::cell::Cell;
use crate::document::table::{Room, Sheet, Table};
use crate::numbers::{DASH, Scale, counted, signed};
use crate::render::drawn;
use crate::text::figures;
use crate::{Format, Options, ReportError, Subject, html, outgoing, thresholds};

pub(crate) use blocks::{Forbidden, document};

/// Makes a report of a comparison. `records` are those that were compared, in order; a page also draws their charts.
///
/// # Errors
/// [`ReportError::NoSuchForm`]; [`ReportError::Json`] if serialising fails, which no comparison of records read from files does.
pub fn render_comparison(
    comparison: &Comparison,
    records: &[RunRecord],
    format: Format,
    options: &Options,
) -> Result<Vec<u8>, ReportError> {
    Ok(match Subject::Comparison.check(format)? {
        Format::Html => outgoing::text(&html::of_comparison(comparison, records, options)),
        Format::Json => outgoing::json(comparison)?,
        _ => drawn(&document(comparison, Forbidden::Forced), format, options),
    })
}

/// The result, a sentence for each candidate, in the words of the other formats.
pub fn comparison_sentences(comparison: &Comparison) -> Vec<String> {
    let several = comparison.candidates.len() > 1;
    let sentence = |candidate: &Candidate| match several {
        true => format!("{}: {}.", comparison.records[candidate.record].id, summary(candidate)),
        false => format!("{}.", summary(candidate)),
    };
    comparison.candidates.iter().map(sentence).collect()
}

/// `A` for the baseline, `B`, `C` and so on; numbers after `Z`.
pub(crate) fn letter(record: usize) -> String {
    match u8::try_from(record) {
        Ok(index) if index < 26 => char::from(b'A' + index).to_string(),
        _ => (record + 1).to_string(),
    }
}

/// The row of a figure at each level of a candidate, with the level.
fn rows(candidate: &Candidate, metric: Metric) -> impl Iterator<Item = (LevelKey, &Row)> {
    candidate
        .levels
        .iter()
        .filter_map(move |level| Some((level.key(), level.rows.iter().find(|row| row.metric == metric)?)))
}

/// A figure that neither record has gets no row.
fn is_known(row: &Row) -> bool {
    row.baseline.mean.is_some() || row.candidate.mean.is_some()
}

/// Every row of a candidate that has values.
fn known(candidate: &Candidate) -> impl Iterator<Item = &Row> {
    candidate.levels.iter().flat_map(|level| &level.rows).filter(|row| is_known(row))
}

/// Whether anything got worse.
fn is_worse(candidate: &Candidate) -> bool {
    candidate.levels.iter().flat_map(|level| &level.rows).any(|row| row.finding == Finding::Worse)
}

/// Levels that only one of the two has: `A has 10, 20 clients`.
fn only(candidate: &Candidate) -> impl Iterator<Item = String> {
    let both =
        [("A".to_owned(), &candidate.only_baseline), (letter(candidate.record), &candidate.only_candidate)];
    let both = both.into_iter().filter(|(_, levels)| !levels.is_empty());
    both.map(|(who, levels)| format!("{who} has {}", levels_named(levels)))
}

/// Where the noise floors of a candidate come from, each once.
fn floor_sources(candidate: &Candidate) -> Vec<&'static str> {
    let sources: BTreeSet<&str> =
        known(candidate).filter_map(|row| Some(floor_source(row.floor?.source))).collect();
    sources.into_iter().collect()
}

/// The word of a finding, with the reasons that a candidate's rows give for it; `None` if no row gives one.
fn reasons(candidate: &Candidate, finding: Finding) -> Option<(&'static str, String)> {
    let rows = || known(candidate).filter(|row| row.finding == finding);
    let reasons: BTreeSet<&str> = rows().filter_map(|row| Some(because(row.why?))).collect();
    let word = rows().next().map(|row| row.finding.word(row.metric)).filter(|_| !reasons.is_empty())?;
    Some((word, reasons.into_iter().collect::<Vec<_>>().join(", or ")))
}

/// Why some intervals have no end; `None` if all have both.
fn open_ends(candidate: &Candidate) -> Option<&'static str> {
    let is_open = |row: &Row| row.baseline.noise_is_unbounded || row.candidate.noise_is_unbounded;
    let why =
        "An interval from -100 or to ∞: noise of a NOISY run may have made the figure worse by any factor.";
    known(candidate).any(is_open).then_some(why)
}

/// The changes of figures, a row each, with the heading before it, if there is one.
fn changes(comparison: &Comparison, candidate: &Candidate, rows: &[(Option<String>, &Row)]) -> Table {
    let mut table = Table::with_rows(rows);
    table.groups(|(title, _)| title.clone());
    table.text("figure", Room::Always, |(_, row)| Cell::Named {
        short: compared_name(row.metric),
        long: title(row.metric),
    });
    table.text("unit", Room::Always, |(_, row)| match scaled(row).0 {
        // The long name has it.
        rate if matches!(&*rate, "1/s" | "1/min") => Cell::Named { short: rate, long: String::new() },
        unit => unit.into(),
    });
    table.number("A", "", Room::Always, |(_, row)| scaled(row).1[0].clone());
    table.number(letter(candidate.record), "", Room::Always, |(_, row)| scaled(row).1[1].clone());
    table.number("change", "%", Room::Always, |(_, row)| row.point().map(|point| signed(point, digits(row))));
    let interval = format!("{:.0} % interval", comparison.confidence * 100.0);
    table.number(interval, "%", Room::Always, |(_, row)| {
        row.change.as_ref().map(|change| ends(row.ends(change), digits(row)))
    });
    table.number("noise", "± %", Room::Optional(1), |(_, row)| {
        row.floor.map(|floor| Cell::Decimal(floor.value, 2))
    });
    table.text("verdict", Room::Always, |(_, row)| {
        let word = Cell::from(row.finding.word(row.metric));
        match row.finding {
            Finding::Better => word.signed("🟢"),
            Finding::Worse => word.signed("🔴"),
            _ => word,
        }
    });
    table.tones(|(_, row)| tone_of(row.finding)).done()
}

/// The name of a figure in the table of figures; a percentile without an entry there has its name in conditions.
fn title(metric: Metric) -> String {
    match metric {
        Metric::Of(figure) => figures::title(figure),
        Metric::Percentile(percentile) => {
            let key = format!("latency_p{}_s", percentile.to_string().replace('.', "_"));
            table::figure(&key).map_or_else(|| metric.to_string(), figures::title)
        }
    }
}

/// The outcome of every condition and threshold: one table for each kind that occurs.
fn gates(comparison: &Comparison) -> Vec<Sheet> {
    let mut conditions = Table::with_rows(&comparison.fail_if);
    conditions.text("", Room::Always, |gate| gate_cell(gate.result));
    conditions.text("fail if", Room::Flexible(12), |gate| Cell::from(&gate.condition).toned(Tone::Code));
    conditions.text("", Room::Always, |gate| letter(gate.record));
    conditions.number("level", "", Room::Always, |gate| gate.level.to_string());
    conditions.text("change", Room::Always, gate_change).tones(|gate| match gate.result {
        GateResult::Passed => Tone::Good,
        GateResult::Failed => Tone::Alarm,
        GateResult::CannotTell => Tone::Caution,
    });
    let thresholds = comparison.thresholds.iter().map(|one| (Some(letter(one.record)), &one.outcome));
    let conditions = Sheet::new("Conditions", fail_when(comparison.fail_when), conditions.done());
    let mut sheets = vec![conditions, thresholds::sheet(&thresholds.collect::<Vec<_>>())];
    sheets.retain(|sheet| !sheet.table.lines.is_empty());
    sheets
}

/// The tone of a row.
fn tone_of(finding: Finding) -> Tone {
    match finding {
        Finding::Better => Tone::Good,
        Finding::Worse => Tone::Caution,
        Finding::NoDifferenceShown => Tone::Plain,
        Finding::CannotTell => Tone::Faint,
    }
}

/// The figure that answers what a comparison asks.
fn leading(candidate: &Candidate) -> Metric {
    webstone_judge::comparison::leading(candidate.levels.first().is_some_and(|level| level.rate.is_some()))
}

/// What came out, in one line: the leading figure, and what else differs.
fn summary(candidate: &Candidate) -> String {
    let levels = candidate.levels.len();
    if levels == 0 {
        return "cannot tell: no level is in both".to_owned();
    }
    let found = |metric: Metric, finding: Finding| {
        rows(candidate, metric).filter(|(_, row)| row.finding == finding).count()
    };
    let metric = leading(candidate);
    let name = if metric == Metric::RATE { "request rate" } else { "mean response time" };
    let too_wide = rows(candidate, metric).filter(|(_, row)| row.why == Some(Why::TooWide)).count();
    let mut line = match (found(metric, Finding::Better), found(metric, Finding::Worse)) {
        (0, 0) if found(metric, Finding::CannotTell) == levels && too_wide > 0 => {
            format!("nothing can be concluded: the interval of the {name} is wider than its value")
        }
        (0, 0) if found(metric, Finding::CannotTell) == levels => "cannot tell".to_owned(),
        (0, 0) => "no difference shown".to_owned(),
        (_, 0) => "faster".to_owned(),
        (0, _) => "slower".to_owned(),
        (better, worse) => {
            format!("faster at {} and slower at {worse}", counted(better as u64, "level", "levels"))
        }
    };
    line.push_str("; ");
    // The level that changed most among those that were shown to change, or among all.
    let shown = |row: &Row| row.finding.is_difference();
    let size = |row: &Row| row.point().unwrap_or(0.0).abs();
    let most = rows(candidate, metric).max_by(|(_, a), (_, b)| {
        (shown(a), size(a)).partial_cmp(&(shown(b), size(b))).unwrap_or(std::cmp::Ordering::Equal)
    });
    if let Some((level, row)) = most {
        let of = if levels > 1 { format!(" at {level}") } else { String::new() };
        match (&row.change, row.point()) {
            (Some(change), _) => {
                let at =
                    if change.method == Method::Covariance { " at one speed of the machine" } else { "" };
                line.push_str(&format!("{name} {}{of}{at}", with_interval(change, row.ends(change), metric)));
            }
            (None, Some(point)) => {
                line.push_str(&format!("{name} {} %{of}, without an interval", signed(point, 1)));
            }
            (None, None) => line.push_str(&format!("no {name} in both")),
        }
        if levels > 1 {
            let differing = found(metric, Finding::Better) + found(metric, Finding::Worse);
            line.push_str(&format!("; shown at {differing} of {levels} levels"));
            if too_wide > 0 && too_wide < levels {
                line.push_str(&format!(", nothing can be concluded at {too_wide}"));
            }
        }
        if let (Finding::NoDifferenceShown, Some(from)) = (row.finding, row.shows_from) {
            line.push_str(&format!("; a change of {from:.1} % would have been shown"));
        }
    }
    // CPU time per request shows a higher cost before the rate does: it varies less, and the server need not be the bottleneck.
    let rates_differ = found(metric, Finding::Better) + found(metric, Finding::Worse) > 0;
    let costs = rows(candidate, Metric::SERVER_CPU)
        .filter(|(_, row)| row.finding.is_difference() && !rates_differ)
        .max_by(|(_, a), (_, b)| size(a).total_cmp(&size(b)));
    if let Some((level, row)) = costs
        && let Some(change) = &row.change
    {
        let of = if levels > 1 { format!(" at {level}") } else { String::new() };
        line.push_str(&format!(
            "; but server CPU per request {}{of}",
            with_interval(change, row.ends(change), Metric::SERVER_CPU)
        ));
    }
    let others: Vec<String> = candidate
        .levels
        .first()
        .map_or(&[][..], |level| &level.rows)
        .iter()
        .map(|row| row.metric)
        .filter(|other| {
            *other != metric && !other.grows_with_load() && (*other != Metric::SERVER_CPU || costs.is_none())
        })
        .filter_map(|other| {
            let worse = found(other, Finding::Worse);
            let of = if levels > 1 { format!(" at {worse} of {levels} levels") } else { String::new() };
            (worse > 0).then(|| format!("{} {}{of}", compared_name(other), Finding::Worse.word(other)))
        })
        .collect();
    // In a closed loop these follow from the rate, so they are left out where the rate is named.
    if !others.is_empty() && !line.starts_with("slower") {
        let joined = if costs.is_some() { "," } else { "; but" };
        line.push_str(&format!("{joined} {}", others.join(", ")));
    }
    line
}

/// What a figure is called in tables: `rate`, `p99`.
pub fn compared_name(metric: Metric) -> String {
    match metric {
        Metric::Percentile(percentile) if percentile != 50.0 => format!("p{percentile}"),
        other => other.to_string(),
    }
}

/// The unit in which two values of a metric are shown, and the values.
fn scaled(row: &Row) -> (String, [String; 2]) {
    let values = [row.baseline.mean, row.candidate.mean];
    let known = values.into_iter().flatten();
    let quantity = row.metric.quantity();
    let usual = quantity.usual();
    let (unit, factor, scale) = match quantity {
        Quantity::Seconds | Quantity::Duration => {
            let scale = Scale::seconds(known);
            (scale.unit, 1.0, scale)
        }
        Quantity::PerSecond => (usual.name, 1.0, Scale::plain(1, known)),
        Quantity::Percent => (usual.name, 1.0, Scale::plain(3, known)),
        Quantity::Share => ("", 1.0, Scale::plain(4, known)),
        _ => (usual.name, usual.factor, Scale::plain(2, known.map(|value| value * usual.factor))),
    };
    let shown = |value: Option<f64>| {
        value.map_or_else(|| DASH.to_owned(), |value| scale.show(value * factor).trim_end().to_owned())
    };
    (unit.to_owned(), values.map(shown))
}

/// Decimals that an interval deserves: one for each digit that its width leaves.
fn decimals(change: &Interval) -> usize {
    match change.half_width() {
        wide if wide >= 0.2 => 1,
        _ => 2,
    }
}

/// Decimals of a row's change.
fn digits(row: &Row) -> usize {
    row.change.as_ref().map_or(1, decimals)
}

/// `-3.6 to -2.6`, or `-100 to ∞`.
fn ends((low, high): (f64, f64), digits: usize) -> String {
    let low = if low > -100.0 { signed(low, digits) } else { "-100".to_owned() };
    let high = if high.is_finite() { signed(high, digits) } else { "∞".to_owned() };
    format!("{low} to {high}")
}

/// `-3.1 % (-3.6 to -2.6 %)`.
fn with_interval(change: &Interval, between: (f64, f64), metric: Metric) -> String {
    let (decimals, unit) = (decimals(change), metric.unit_of_change());
    let point = signed(change.point, decimals);
    if change.method == Method::None {
        return format!("{point} {unit}");
    }
    format!("{point} {unit} ({} {unit})", ends(between, decimals))
}

fn because(why: Why) -> &'static str {
    match why {
        Why::NotMeasured => "not measured in both",
        Why::Invalid => "one of the two is INVALID at this level, so nothing can be concluded",
        Why::TooFewIterations => "too few iterations; three of each are the least",
        Why::NoRatio => "one of the two is 0",
        Why::TooWide => "the interval of one of the two is wider than its value, so nothing can be concluded",
        Why::WithinInterval => "the interval contains no change",
        Why::WithinNoise => "not beyond the noise floor",
        Why::Unbounded => "noise may have made it, and has no bound for this figure",
        Why::Corrected => "among this many figures and levels it may be chance",
    }
}

fn floor_source(source: FloorSource) -> &'static str {
    match source {
        FloorSource::Given => "as given",
        FloorSource::Arms => "from an A/A run",
        FloorSource::Iterations => "the standard error of the iterations",
        FloorSource::Histogram => "the resolution of the histograms",
    }
}

fn gate_cell(result: GateResult) -> Cell {
    match result {
        GateResult::Passed => Cell::from("pass").signed("✅"),
        GateResult::Failed => Cell::from("FAIL").signed("❌"),
        GateResult::CannotTell => Cell::from("cannot tell").signed("❔"),
    }
}

fn gate_change(gate: &GateOutcome) -> String {
    gate.change.as_ref().map_or_else(
        || "not measured".to_owned(),
        |change| with_interval(change, (change.low, change.high), gate.metric),
    )
}

fn fail_when(when: FailWhen) -> &'static str {
    match when {
        FailWhen::Shown => "fails when the whole interval meets the condition, beyond the noise floor",
        FailWhen::Measured => "fails when the measured change meets the condition",
        FailWhen::Possible => "fails unless the interval excludes the condition",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_ratio_is_told_of_either_side() {
        let of = |id: &str, rate: f64| webstone_model::fixture::record(id, &[(1, &[rate; 3])]);
        for (baseline, candidate) in [(0.0, 50.0), (50.0, 0.0)] {
            let records = [of("a", baseline), of("b", candidate)];
            let compared =
                webstone_judge::comparison::compare(&[&records[0], &records[1]], &Default::default());
            let (word, why) = reasons(&compared.candidates[0], Finding::CannotTell).unwrap();
            assert!(word == "cannot tell" && why.contains("one of the two is 0"), "{why}");
        }
    }

    #[test]
    fn an_end_that_noise_leaves_open_is_no_figure() {
        assert_eq!(ends((-3.62, 2.6), 1), "-3.6 to +2.6");
        assert_eq!(ends((-100.0, 2.6), 1), "-100 to +2.6");
        assert_eq!(ends((-3.62, f64::INFINITY), 2), "-3.62 to ∞");
    }
}
