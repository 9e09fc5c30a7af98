//! One level in a few lines, for a quick measurement. `Requests/sec:`, `Transfer/sec:` and `Non-2xx responses:` are named as in wrk,
//! so that scripts that grep them keep working. wrk's `Non-2xx or 3xx responses` leaves out 3xx; the line here counts them.
//!
//! wrk's megabytes are 2²⁰ bytes; here a megabyte is 10⁶ bytes, as everywhere in webstone, and the line says so.

use crate::document::cell::Cell;
use webstone_measure::errors::ErrorClass;
use webstone_measure::figures::Value;
use webstone_measure::metrics::{Mean, Measured, Moments, Statuses, longest};
use webstone_measure::units::NANOS_PER_SECOND;
use webstone_model::record::RunRecord;

use crate::classic;
use crate::document::table::{Room, Table};
use crate::document::{Block, Document, Tone};
use crate::judged::Judged;
use crate::numbers::{DOT, Scale, bytes, count, counted, decimal, seconds};
use crate::summary::{self, Level};
use crate::text::problems::Depth;
use crate::text::{errors, groups, header, headline, problems};
use webstone_measure::figures::PERCENTILES;
use webstone_measure::figures::distributions::Distributions;
use webstone_measure::figures::unanswered::OLDEST_IN_FLIGHT;

/// Bars of the histogram.
const BARS: usize = 8;

/// The whole report.
pub(crate) fn document(judged: &Judged<'_>) -> Document {
    let record = judged.record;
    let levels = summary::levels(record);
    let mut doc = Document::default();
    header::title(judged, &mut doc);
    problems::begin(judged, &levels, Depth::Hit, &mut doc);
    if levels.is_empty() {
        doc.text(Tone::Plain, summary::no_figures(record));
        return doc;
    }
    for chain in header::redirects(record) {
        doc.text(Tone::Plain, format!("followed: {chain}"));
    }
    if let Some(coded) = header::codings(record) {
        doc.text(Tone::Plain, format!("coded: {coded}"));
    }
    for level in &levels {
        doc.gap();
        doc.text(Tone::Strong, asked(record, level));
        let measured = summary::merged(&level.runs);
        doc.0.extend(times(&measured).map(Block::Table));
        distribution(&level.distributions, &measured, &mut doc);
        statuses(record, level, &mut doc);
        handshakes(&measured, level, &mut doc);
        schedule(level, &mut doc);
        outcome(level, &mut doc);
        greppable(record, level, &mut doc);
    }
    if record.iterations.iter().any(|run| run.measured.errors.total() > 0) {
        doc.sheets(errors::sheet(record));
    }
    doc
}

/// The lines that scripts grep, of one level over all of its iterations.
pub(crate) fn greppable(record: &RunRecord, level: &Level<'_>, doc: &mut Document) {
    let mut line = |text: String| doc.0.push(Block::Line(text));
    let wrong_status = wrong_status(level);
    if wrong_status > 0 {
        // The workload may expect another status than 2xx.
        let name =
            if expects_2xx(record) { "Non-2xx responses" } else { "Responses with an unexpected status" };
        line(format!("  {name}: {wrong_status} (errors)"));
    }
    line(format!("Requests/sec: {:>9.2}  total over {}", level.figures.request_rate, level.load()));
    let transferred = transfer(level.figures.throughput_bps / 8.0);
    line(format!("Transfer/sec: {transferred:>9}  total, heads and bodies"));
}

/// `103.02MB`: two decimals and no space before the unit, so that the second field of the line is the whole quantity.
fn transfer(bytes_per_second: f64) -> String {
    let units = [("GB", 1e9), ("MB", 1e6), ("KB", 1e3)];
    // What would be shown as 1000.00 of a unit is 1.00 of the next.
    let is_reached = |size: f64| (bytes_per_second / size * 1e5).round() >= 1e5;
    let (unit, size) = units.into_iter().find(|(_, size)| is_reached(*size)).unwrap_or(("B", 1.0));
    format!("{:.2}{unit}", bytes_per_second / size)
}

fn asked(record: &RunRecord, level: &Level<'_>) -> String {
    let standing_by = level.rate.map(|_| {
        let clients = counted(level.clients.into(), "client", "clients");
        format!("{}, {clients} standing by", header::arrivals(record.spec.load.arrivals))
    });
    let several = Some(level.runs.len()).filter(|runs| *runs > 1);
    let parts = [
        seconds(level.figures.test_time_s),
        level.load(),
        standing_by.unwrap_or_default(),
        counted(level.generator.workers as u64, "worker", "workers"),
        several.map(|runs| format!("{runs} iterations together")).unwrap_or_default(),
        header::policy(record).swap_remove(0),
        record.target.http.clone().unwrap_or_default(),
    ];
    header::joined(parts.into_iter().chain(header::slowness(record)), DOT)
}

/// Mean, deviation and ends of each kind of time, in a unit of its own.
fn times(measured: &Measured) -> Option<Table> {
    // With one file a page, the page's time says nothing new.
    let pages_differ =
        measured.page.count != measured.response.count || measured.page.sum != measured.response.sum;
    let none = Moments::default();
    let handshake = measured.handshakes.as_ref().map_or(&none, |handshakes| &handshakes.time);
    let waits = &measured.unanswered;
    let mut rows: Vec<(&str, &Moments, &Moments)> = vec![
        ("connect", &measured.connect, &waits.connect),
        ("TLS handshake", handshake, &none),
        ("first byte", &measured.first_byte, &waits.first_byte),
        ("response", &measured.response, &waits.response),
        ("page", &measured.page, &waits.page),
    ];
    // A small answer comes in one piece.
    let first_differs = measured.first_byte.sum != measured.response.sum;
    rows.retain(|(name, times, _)| {
        times.count > 0 && (*name != "page" || pages_differ) && (*name != "first byte" || first_differs)
    });
    // Answered requests only: one client that waits for seconds would hide bars of microseconds.
    let scale = |moments: &Moments| Scale::seconds([moments.mean() / NANOS_PER_SECOND as f64]);
    let cell = |moments: &Moments, (ns, is_at_least): (f64, bool)| {
        scale(moments).cell(Value::bounded(ns / NANOS_PER_SECOND as f64, is_at_least))
    };
    let mut table = Table::with_rows(&rows);
    table.text("", Room::Always, |row| row.0).text("unit", Room::Always, |row| scale(row.1).unit);
    table.number("mean", "", Room::Always, |(_, moments, waits)| {
        let mean = Mean::of_moments(moments, waits).unwrap_or_default();
        cell(moments, (mean.ns, mean.is_at_least))
    });
    table.number("std dev", "", Room::Always, |row| cell(row.1, (classic::standard_deviation(row.1), false)));
    table.number("min", "", Room::Always, |row| cell(row.1, (row.1.min_or_zero() as f64, false)));
    table.number("max", "", Room::Always, |(_, moments, waits)| {
        let (longest_ns, is_at_least) = longest(moments, waits);
        cell(moments, (longest_ns as f64, is_at_least))
    });
    (!rows.is_empty()).then(|| table.done())
}

/// Percentiles, and beside them a histogram of the same number of lines. In open loop percentiles have two columns: from the intended
/// start, which is the latency, and from the actual start.
fn distribution(distributions: &Distributions, measured: &Measured, doc: &mut Document) {
    let Some(d) = &distributions.response else { return };
    let actual = distributions.response_uncorrected.as_ref();
    doc.0.push(Block::Group(match actual {
        Some(_) => "Response times: from the intended start, from the actual start; histogram".to_owned(),
        None => "Response times: percentiles and histogram".to_owned(),
    }));
    let histogram = histogram(measured);
    let bars = histogram.as_ref().map_or(&[][..], |(bars, _)| bars);
    let rows: Vec<_> =
        (0..PERCENTILES.len().max(bars.len())).map(|row| (PERCENTILES.get(row), bars.get(row))).collect();
    let mut table = Table::with_rows(&rows);
    table.number("", "", Room::Always, |(percentile, _)| {
        percentile.map_or(String::new(), |percentile| format!("  {percentile}%"))
    });
    for times in std::iter::once(d).chain(actual) {
        let scale = Scale::seconds([times.p50_s]);
        table.number("", "", Room::Always, |(percentile, _)| {
            percentile.map_or(String::new(), |percentile| {
                format!("{} {}", scale.percentile(times, *percentile).shown(), scale.unit)
            })
        });
    }
    if let Some((bars, scale)) = &histogram {
        let most = bars.iter().map(|(_, answers)| *answers).max().unwrap_or(0);
        let ends = bars.iter().map(|(end, _)| scale.show(*end).len()).max().unwrap_or(0);
        table.text("", Room::Always, |(_, bar)| {
            bar.map_or(String::new(), |(end, _)| format!("  to {:>ends$} {}", scale.show(*end), scale.unit))
        });
        table.number("", "", Room::Always, |(_, bar)| {
            bar.map_or(Cell::from(String::new()), |(_, answers)| Cell::from(*answers))
        });
        table.text("", Room::Always, |(_, bar)| Cell::Bar {
            length: bar.map_or(0.0, |(_, answers)| *answers as f64 / most as f64),
            limit: None,
        });
    }
    doc.0.push(Block::Table(table.done()));
}

fn wrong_status(level: &Level<'_>) -> u64 {
    level.runs.iter().map(|run| run.measured.errors.count(ErrorClass::WrongStatus)).sum()
}

fn expects_2xx(record: &RunRecord) -> bool {
    record.spec.client.expect_status.is_default()
        && record.workload.pages.iter().flat_map(|page| &page.files).all(|file| file.detail.status.is_none())
}

/// Bars whose ends grow by a factor, from the fastest answer to the slowest, and the unit of the ends. With ranges of equal width one
/// slow answer would leave a single bar.
fn histogram(measured: &Measured) -> Option<(Vec<(f64, u64)>, Scale)> {
    let answers = &measured.histograms.response;
    if answers.is_empty() {
        return None;
    }
    let low = measured.response.min_or_zero() as f64 / NANOS_PER_SECOND as f64;
    let [median, high] =
        [answers.value_at_percentile(50.0), answers.max()].map(|ns| ns as f64 / NANOS_PER_SECOND as f64);
    let bars = bars(answers.buckets(), low, high);
    bars.iter().any(|(_, answers)| *answers > 0).then(|| (bars, Scale::seconds([median])))
}

/// Numbers of answers up to each end, in seconds. A bucket (lowest value, width, count) is counted at its lowest value.
fn bars(buckets: impl Iterator<Item = (u64, u64, u64)>, low: f64, high: f64) -> Vec<(f64, u64)> {
    let factor = (high / low.max(1.0 / NANOS_PER_SECOND as f64)).powf(1.0 / BARS as f64);
    let end = |place: usize| if place == BARS { high } else { low * factor.powf(place as f64) };
    let mut bars: Vec<(f64, u64)> = (1..=BARS).map(|place| (end(place), 0)).collect();
    for (lowest, _, answers) in buckets {
        let fits = |end: &f64| lowest as f64 <= (end * NANOS_PER_SECOND as f64).round();
        let place = bars.iter().position(|(end, _)| fits(end)).unwrap_or(BARS - 1);
        bars[place].1 += answers;
    }
    if low >= high {
        bars.retain(|(_, answers)| *answers > 0);
    }
    bars
}

/// TLS handshakes, and what they agreed on.
fn handshakes(measured: &Measured, level: &Level<'_>, doc: &mut Document) {
    let agreed = groups::in_words(std::slice::from_ref(level));
    let Some((handshakes, agreed)) = measured.handshakes.as_ref().zip(agreed) else { return };
    let counts = [(handshakes.full, "full"), (handshakes.resumed, "resumed"), (handshakes.failed, "failed")];
    let early = [
        (handshakes.early_data_accepted, "early data accepted"),
        (handshakes.early_data_rejected, "early data rejected"),
        (handshakes.too_early, "sent again after 425 (Too Early)"),
    ];
    let counts = counts.into_iter().chain(early.into_iter().filter(|(number, _)| *number > 0));
    let counts: Vec<String> = counts.map(|(number, what)| format!("{} {what}", count(number))).collect();
    let counts = counts.join(", ");
    let tone = if handshakes.failed > 0 { Tone::Caution } else { Tone::Plain };
    doc.note(tone, format!("TLS handshakes: {counts}; {agreed}"));
}

/// How many responses had which status, and the first unexpected one. Without any, the number of valid responses.
fn statuses(record: &RunRecord, level: &Level<'_>, doc: &mut Document) {
    let wrong = wrong_status(level);
    let expected = if expects_2xx(record) { "2xx" } else { "as expected" };
    let mut statuses = Statuses::default();
    level.runs.iter().for_each(|run| statuses.merge(&run.measured.statuses));
    let each: Vec<String> =
        statuses.0.iter().map(|(status, responses)| format!("{status} ({})", count(*responses))).collect();
    let mut text = match each.is_empty() {
        true => format!("status: {} {expected}", count(level.counts.succeeded)),
        false => format!("status: {}", each.join(", ")),
    };
    if wrong > 0 {
        let errors = || level.runs.iter().flat_map(|run| run.measured.errors.iter());
        let first =
            errors().find(|(class, ..)| *class == ErrorClass::WrongStatus).and_then(|(.., first)| first);
        let first = first.map_or(String::new(), |first| format!(" (the first: {})", first.detail));
        match each.is_empty() {
            true => text.push_str(&format!(", {} other{first}", count(wrong))),
            false => text.push_str(&first),
        }
    }
    doc.note(if wrong > 0 { Tone::Caution } else { Tone::Plain }, text);
}

/// In open loop: whether the schedule was kept, and how late the generator itself was.
fn schedule(level: &Level<'_>, doc: &mut Document) {
    let Some(open_loop) = &level.open_loop else { return };
    let mut line = |text: &str| doc.note(Tone::Plain, text);
    let kept = open_loop.kept;
    let at = |nanos: u64| seconds(nanos as f64 / NANOS_PER_SECOND as f64);
    line(&format!(
        "offered {} arrivals/s of {} asked for, achieved {}; {} skipped, {} waited for a client, {} still waiting at the end",
        decimal(kept.offered_rate, 2),
        decimal(kept.asked_rate, 2),
        decimal(open_loop.achieved_rate, 2),
        count(open_loop.skipped),
        count(open_loop.waited),
        count(open_loop.queued),
    ));
    line(&format!(
        "schedule lag, the generator's own lateness: p50 {}, p99 {}, max {} (waited awake for {:.0} % of the time)",
        at(kept.lag_p50_ns),
        at(kept.lag_p99_ns),
        at(kept.lag_max_ns),
        open_loop.awake_percent,
    ));
}

fn outcome(level: &Level<'_>, doc: &mut Document) {
    let counts = &level.counts;
    let mut line = |text: &str| doc.note(Tone::Plain, text);
    line(&format!(
        "{}, {} failed, {} in flight at the end{}",
        counted(counts.succeeded, "valid response", "valid responses"),
        count(counts.failed),
        count(counts.in_flight),
        level
            .values
            .value(&OLDEST_IN_FLIGHT)
            .map_or(String::new(), |oldest| { format!(", the oldest for {}", seconds(oldest.as_f64())) })
    ));
    let mut connections = format!(
        "{} received, {} opened, {} failed",
        bytes(counts.received_bytes()),
        counted(counts.connections, "connection", "connections"),
        count(counts.connections_failed)
    );
    if level.lifetime.connections > counts.connections {
        connections.push_str(&format!(" ({} with warm-up)", count(level.lifetime.connections)));
    }
    if counts.stale_retries > 0 {
        connections.push_str(&format!(
            ", {} retried after the server had closed a kept connection",
            counted(counts.stale_retries, "request", "requests")
        ));
    }
    line(&connections);
    let share = &level.generator;
    let generator = (share.workers > 0).then(|| {
        format!(
            "generator: {:.0} % of its CPUs, {} per request",
            share.cpu_percent,
            seconds(share.cpu_per_request_s)
        )
    });
    let costs: Vec<String> = generator.into_iter().chain(headline::server_cpu(level)).collect();
    if !costs.is_empty() {
        line(&costs.join(DOT));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_hold_every_answer_once() {
        let ms = |value: u64| value * 1_000_000;
        let buckets = [(ms(1), 1, 5), (ms(2), 1, 3), (ms(9), 1, 1), (ms(100), 1, 1)];
        let drawn = bars(buckets.into_iter(), 0.001, 0.256);
        let counts: Vec<u64> = drawn.iter().map(|(_, answers)| *answers).collect();
        // Each end is twice the one before: 2, 4, 8, 16 ms …
        assert_eq!(counts, [8, 0, 0, 1, 0, 0, 1, 0]);
        // All alike: one bar.
        assert_eq!(bars([(ms(3), 1, 7)].into_iter(), 0.003, 0.003), [(0.003, 7)]);
    }

    #[test]
    fn transfer_is_one_field_with_its_unit() {
        for (value, text) in
            [(0.0, "0.00B"), (999.0, "999.00B"), (1.5e3, "1.50KB"), (103.02e6, "103.02MB"), (7e9, "7.00GB")]
        {
            assert_eq!(transfer(value), text);
        }
        for (value, text) in [
            (999.99, "999.99B"),
            (999.996, "1.00KB"),
            (999_994.0, "999.99KB"),
            (999_996.0, "1.00MB"),
            (999_999_999.0, "1.00GB"),
        ] {
            assert_eq!(transfer(value), text);
        }
    }
}
