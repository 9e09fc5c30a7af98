//! One level in a few lines, for the habit of a quick measurement. `Requests/sec:`, `Transfer/sec:` and `Non-2xx responses:`
//! stand where users of wrk look for them, so that a script which greps them goes on working; what they count is said behind
//! the number. wrk's line of the last also promises that 3xx is not in it, which here it is.
//!
//! wrk's megabytes are 2²⁰ bytes; here a megabyte is 10⁶ bytes, as everywhere in webstone, and the line says so.

use webstone_judge::verdict::Verdict;
use webstone_measure::errors::ErrorClass;
use webstone_measure::figures::Value;
use webstone_measure::metrics::{Mean, Moments, Statuses, longest};
use webstone_measure::units::NANOS_PER_SECOND;
use webstone_model::record::RunRecord;

use crate::Options;
use crate::classic;
use crate::layout::{Room, Table, hanging, labelled, push_line};
use crate::numbers::{Scale, bytes, count, counted, decimal, seconds};
use crate::screen::{Screen, Tone};
use crate::summary::{self, Level};
use crate::text::problems::Depth;
use crate::text::{errors, header, problems, tls};
use webstone_measure::figures::PERCENTILES;
use webstone_measure::figures::distributions::{Distribution, Distributions};
use webstone_measure::figures::unanswered::OLDEST_IN_FLIGHT;

/// Bars of the histogram.
const BARS: usize = 8;
/// Length of the longest bar.
const BAR_CELLS_MAX: usize = 40;

/// The whole report, ending in a newline.
pub(crate) fn render(record: &RunRecord, verdict: &Verdict, options: &Options) -> String {
    let screen = Screen::new(options);
    let levels = summary::levels(record);
    let mut out = String::new();
    header::title(&screen, record, &mut out);
    problems::draw(&screen, record, &levels, verdict, Depth::Hit, &mut out);
    if levels.is_empty() {
        hanging(&summary::no_figures(record), screen.width).iter().for_each(|line| push_line(&mut out, line));
        return out;
    }
    for level in &levels {
        out.push('\n');
        asked(&screen, record, level, &mut out);
        times(&screen, level, &mut out);
        distribution(&screen, &level.distributions, &mut out);
        histogram(&screen, level, &mut out);
        statuses(&screen, record, level, &mut out);
        handshakes(&screen, level, &mut out);
        schedule(&screen, level, &mut out);
        outcome(&screen, level, &mut out);
        greppable(record, level, &mut out);
    }
    if record.iterations.iter().any(|run| run.measured.errors.total() > 0)
        && let Some(sheet) = errors::sheet(&screen, record)
    {
        sheet.draw(&screen, &mut out);
    }
    out
}

/// The lines that scripts grep, of one level over all of its iterations.
pub(crate) fn greppable(record: &RunRecord, level: &Level<'_>, out: &mut String) {
    let wrong_status = wrong_status(level);
    if wrong_status > 0 {
        // The workload may expect another status than 2xx.
        let name =
            if expects_2xx(record) { "Non-2xx responses" } else { "Responses with an unexpected status" };
        push_line(out, &format!("  {name}: {wrong_status} (errors)"));
    }
    let clients = level.load();
    push_line(out, &format!("Requests/sec: {:>9.2}  total over {clients}", level.figures.request_rate));
    push_line(
        out,
        &format!(
            "Transfer/sec: {:>9}  total, heads and bodies",
            transfer(level.figures.throughput_bps / 8.0)
        ),
    );
}

/// `103.02MB`: two decimals and no space before the unit, so that the second field of the line is the whole quantity.
fn transfer(bytes_per_second: f64) -> String {
    let units = [("GB", 1e9), ("MB", 1e6), ("KB", 1e3)];
    let (unit, size) = units.into_iter().find(|(_, size)| bytes_per_second >= *size).unwrap_or(("B", 1.0));
    format!("{:.2}{unit}", bytes_per_second / size)
}

fn asked(screen: &Screen, record: &RunRecord, level: &Level<'_>, out: &mut String) {
    let parts = [
        seconds(screen, level.figures.test_time_s),
        level.load(),
        match level.rate {
            Some(_) => format!(
                "{}, {} standing by",
                header::arrivals(record.spec.load.arrivals),
                counted(level.clients.into(), "client", "clients")
            ),
            None => String::new(),
        },
        counted(level.generator.workers as u64, "worker", "workers"),
        match level.runs.len() {
            1 => String::new(),
            several => format!("{several} iterations together"),
        },
        header::policy(record).swap_remove(0),
    ];
    let parts: Vec<&str> = parts.iter().map(String::as_str).filter(|part| !part.is_empty()).collect();
    hanging(&parts.join(screen.dot()), screen.width)
        .iter()
        .for_each(|line| push_line(out, &screen.paint(Tone::Strong, line)));
}

fn times(screen: &Screen, level: &Level<'_>, out: &mut String) {
    let measured = summary::merged(&level.runs);
    // With one file a page, the page's time says nothing new.
    let pages_differ =
        measured.page.count != measured.response.count || measured.page.sum != measured.response.sum;
    let none = Moments::default();
    let handshake = measured.handshakes.as_ref().map_or(&none, |handshakes| &handshakes.time);
    let waits = &measured.unanswered;
    let rows: [(&str, &Moments, &Moments, bool); 5] = [
        ("connect", &measured.connect, &waits.connect, true),
        ("TLS handshake", handshake, &none, true),
        ("first byte", &measured.first_byte, &waits.first_byte, true),
        ("response", &measured.response, &waits.response, true),
        ("page", &measured.page, &waits.page, pages_differ),
    ];
    let rows = rows.into_iter().filter(|(_, times, _, differs)| times.count > 0 && *differs);
    let rows: Vec<_> = rows.collect();
    if rows.is_empty() {
        return;
    }
    let mut table = Table::default();
    table.text("", Room::Always).text("unit", Room::Always);
    for name in ["mean", "std dev", "min", "max"] {
        table.number(name, "", Room::Always);
    }
    for (name, moments, waits, _) in rows {
        let mean = Mean::of_moments(moments, waits).unwrap_or_default();
        let (longest_ns, is_at_least) = longest(moments, waits);
        let values = [
            (mean.ns, mean.is_at_least),
            (classic::standard_deviation(moments), false),
            (moments.min_or_zero() as f64, false),
            (longest_ns as f64, is_at_least),
        ]
        .map(|(ns, is_at_least)| Value::bounded(ns / NANOS_PER_SECOND as f64, is_at_least));
        // Of answers: one client that waits for seconds would leave nothing of microseconds to see.
        let scale = Scale::seconds(screen, [moments.mean() / NANOS_PER_SECOND as f64]);
        let mut cells = vec![name.to_owned(), scale.unit.to_owned()];
        cells.extend(values.map(|value| scale.show_value(screen, value)));
        table.row(cells);
    }
    table.draw(screen, out);
}

/// In open loop two columns: from the intended start, which is the latency, and from the actual one.
fn distribution(screen: &Screen, distributions: &Distributions, out: &mut String) {
    let Some(d) = &distributions.response else { return };
    let actual = distributions.response_uncorrected.as_ref();
    let title = match actual {
        Some(_) => "  Response time distribution: from the intended start, from the actual start",
        None => "  Response time distribution",
    };
    push_line(out, &screen.paint(Tone::Strong, title));
    let column = |d: &Distribution| {
        let scale = Scale::seconds(screen, [d.p50_s]);
        (scale.unit, scale.show_percentiles(screen, d)[..PERCENTILES.len()].to_vec())
    };
    let ((unit, shown), (other_unit, beside)) = (column(d), actual.map(column).unwrap_or_default());
    let width = |column: &[String]| column.iter().map(|cell| cell.chars().count()).max().unwrap_or(0);
    let (first, second) = (width(&shown), width(&beside));
    for (index, percentile) in PERCENTILES.into_iter().enumerate() {
        let name = percentile.to_string();
        let beside =
            beside.get(index).map(|value| format!("  {value:>second$} {other_unit}")).unwrap_or_default();
        push_line(out, &format!("    {name:>5}%  {:>first$} {unit}{beside}", shown[index]));
    }
}

fn wrong_status(level: &Level<'_>) -> u64 {
    level.runs.iter().map(|run| run.measured.errors.count(ErrorClass::WrongStatus)).sum()
}

fn expects_2xx(record: &RunRecord) -> bool {
    record.workload.pages.iter().flat_map(|page| &page.files).all(|file| file.detail.status.is_none())
}

/// Bars whose ends grow by a factor, from the fastest answer to the slowest: of equal ranges, one slow answer would leave a single
/// bar.
fn histogram(screen: &Screen, level: &Level<'_>, out: &mut String) {
    let measured = summary::merged(&level.runs);
    let answers = &measured.histograms.response;
    if answers.is_empty() {
        return;
    }
    let low = measured.response.min_or_zero() as f64 / NANOS_PER_SECOND as f64;
    let [median, high] =
        [answers.value_at_percentile(50.0), answers.max()].map(|ns| ns as f64 / NANOS_PER_SECOND as f64);
    let bars = bars(answers.buckets(), low, high);
    let scale = Scale::seconds(screen, [median]);
    let most = bars.iter().map(|(_, answers)| *answers).max().unwrap_or(0);
    if most == 0 {
        return;
    }
    push_line(out, &screen.paint(Tone::Strong, "  Response time histogram"));
    let rows: Vec<(String, String, u64)> =
        bars.into_iter().map(|(end, answers)| (scale.show(end), count(answers), answers)).collect();
    let width =
        |of: fn(&(String, String, u64)) -> &String| rows.iter().map(|row| of(row).len()).max().unwrap_or(0);
    let (ends, counts) = (width(|row| &row.0), width(|row| &row.1));
    let before = "    to ".len() + ends + 1 + scale.unit.chars().count() + 2 + counts + 2;
    let room = screen.width.saturating_sub(before).min(BAR_CELLS_MAX);
    for (end, shown, answers) in &rows {
        let length = (*answers as f64 / most as f64 * room as f64).ceil() as usize;
        let bar = screen.bar().repeat(length);
        push_line(out, &format!("    to {end:>ends$} {}  {shown:>counts$}  {bar}", scale.unit));
    }
}

/// Numbers of answers up to each end, in seconds. A bucket (lowest value, width, count) counts where it begins.
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
fn handshakes(screen: &Screen, level: &Level<'_>, out: &mut String) {
    let measured = summary::merged(&level.runs);
    let Some((handshakes, agreed)) =
        measured.handshakes.as_ref().zip(tls::in_words(screen, std::slice::from_ref(level)))
    else {
        return;
    };
    let counts = [(handshakes.full, "full"), (handshakes.resumed, "resumed"), (handshakes.failed, "failed")];
    let counts = counts.map(|(number, what)| format!("{} {what}", count(number))).join(", ");
    let tone = if handshakes.failed > 0 { Tone::Caution } else { Tone::Plain };
    labelled(screen, out, "", 0, &format!("TLS handshakes: {counts}; {agreed}"), tone);
}

/// How many responses had which status, and the first that was not expected. Records of older versions know the latter only.
fn statuses(screen: &Screen, record: &RunRecord, level: &Level<'_>, out: &mut String) {
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
        let first =
            first.map_or(String::new(), |first| format!(" (the first: {})", screen.safe(&first.detail)));
        match each.is_empty() {
            true => text.push_str(&format!(", {} other{first}", count(wrong))),
            false => text.push_str(&first),
        }
    }
    labelled(screen, out, "", 0, &text, if wrong > 0 { Tone::Caution } else { Tone::Plain });
}

/// In open loop: whether the schedule was kept, and how late the generator itself was.
fn schedule(screen: &Screen, level: &Level<'_>, out: &mut String) {
    let Some(open_loop) = &level.open_loop else { return };
    let mut line = |text: &str| labelled(screen, out, "", 0, text, Tone::Plain);
    let kept = open_loop.kept;
    let at = |nanos: u64| seconds(screen, nanos as f64 / NANOS_PER_SECOND as f64);
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

fn outcome(screen: &Screen, level: &Level<'_>, out: &mut String) {
    let counts = &level.counts;
    let mut line = |text: &str| labelled(screen, out, "", 0, text, Tone::Plain);
    line(&format!(
        "{} in {}, {} received",
        counted(counts.succeeded, "valid response", "valid responses"),
        seconds(screen, level.figures.test_time_s),
        bytes(counts.received_bytes())
    ));
    line(&format!(
        "{} failed, {} in flight at the end{}",
        counted(counts.failed, "request", "requests"),
        count(counts.in_flight),
        level.values.value(&OLDEST_IN_FLIGHT).map_or(String::new(), |oldest| {
            format!(", the oldest for {}", seconds(screen, oldest.as_f64()))
        })
    ));
    let mut connections = format!(
        "{} opened, {} failed",
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
    if share.workers > 0 {
        line(&format!(
            "generator: {:.0} % of its CPUs, {} per request",
            share.cpu_percent,
            seconds(screen, share.cpu_per_request_s)
        ));
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
    }
}
