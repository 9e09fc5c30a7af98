//! The level table: the sweep in one look. The columns are WebStone's, with the interval over iterations beside the
//! figure that it belongs to.

use webstone_judge::statistics::{Interval, NoiseFloor};
use webstone_model::record::RunRecord;
use webstone_model::units::NANOS_PER_SECOND;

use crate::layout::{Room, Sheet, Table};
use crate::numbers::{Scale, counted, seconds};
use crate::screen::{Screen, Tone};
use crate::summary::{self, Level};

pub(crate) fn sheet(screen: &Screen, record: &RunRecord, levels: &[Level<'_>]) -> Sheet {
    let repeated = levels.iter().any(|level| level.runs.len() > 1);
    let explanation = if repeated { "mean over all iterations" } else { "" };
    let notes = notes(screen, record, levels, repeated);
    Sheet { notes, ..Sheet::new("Levels", explanation, table(screen, levels, repeated)) }
}

fn table(screen: &Screen, levels: &[Level<'_>], repeated: bool) -> Table {
    let figures = || levels.iter().map(|level| &level.figures);
    let rate = Scale::plain(2, figures().flat_map(|f| [f.connection_rate, f.request_rate]));
    let error = Scale::plain(2, figures().map(|f| f.error_rate));
    let latency = Scale::seconds(screen, figures().map(|f| f.latency_mean_s));
    let tail = Scale::seconds(screen, levels.iter().filter_map(p99));
    let throughput = Scale::plain(2, figures().map(|f| f.throughput_bps / 1e6));
    let pages = Scale::plain(1, figures().map(|f| f.pages_per_minute));
    let single = Scale::plain(2, figures().map(|f| f.client_throughput_bps / 1e6));

    let interval = format!("{}%", screen.plus_minus());
    let mut table = Table::default();
    let (load, unit) = summary::load_column(levels);
    table.number(load, unit, Room::Always);
    table.number("connects", "/s", Room::Optional(22));
    table.number("requests", "/s", Room::Always);
    if repeated {
        table.number("95%", &interval, Room::Optional(25));
        table.number("lowest", "/s", Room::Optional(1)).number("highest", "/s", Room::Optional(1));
        table.number("runs", "", Room::Optional(2));
    }
    table.number("errors", "/s", Room::Always);
    table.number("latency", &format!("mean, {}", latency.unit), Room::Always);
    if repeated {
        table.number("95%", &interval, Room::Optional(24));
    }
    let tails = levels.iter().any(|level| p99(level).is_some());
    if tails {
        table.number("latency", &format!("p99, {}", tail.unit), Room::Optional(4));
    }
    table.number("throughput", "Mbit/s", Room::Always);
    table.number("a client", "Mbit/s", Room::Optional(0));
    table.number("Little's", "load", Room::Optional(21));
    table.number("pages", "/min", Room::Optional(3));

    let peak = summary::peak(levels);
    let cut = levels.iter().any(Level::interrupted);
    for (index, level) in levels.iter().enumerate() {
        let f = &level.figures;
        let interrupted = match (cut, level.interrupted()) {
            (false, _) => "",
            (true, true) => "*",
            (true, false) => " ",
        };
        let mut cells = vec![
            format!("{}{interrupted}", level.load_cell()),
            rate.show(f.connection_rate),
            rate.show(f.request_rate),
        ];
        if repeated {
            cells.push(reach(screen, level.statistics.request_rate));
            cells.push(rate.show(level.request_rates.0));
            cells.push(rate.show(level.request_rates.1));
            cells.push(level.runs.len().to_string());
        }
        cells.push(error.show(f.error_rate));
        cells.push(match level.counts.succeeded {
            0 => screen.dash().to_owned(),
            _ => latency.show(f.latency_mean_s),
        });
        if repeated {
            cells.push(reach(screen, level.statistics.latency_mean_s));
        }
        if tails {
            cells.push(p99(level).map_or_else(|| screen.dash().to_owned(), |value| tail.show(value)));
        }
        cells.push(throughput.show(f.throughput_bps / 1e6));
        cells.push(single.show(f.client_throughput_bps / 1e6));
        cells.push(format!("{:.2}", f.little));
        cells.push(pages.show(f.pages_per_minute));
        let is_peak = peak == Some(index);
        table.row_in(cells, if is_peak { Tone::Good } else { Tone::Plain }, is_peak);
    }
    table
}

/// Half of a 95 % interval in percent of its point.
fn reach(screen: &Screen, interval: Option<Interval>) -> String {
    match interval.and_then(|interval| interval.half_width_percent()) {
        Some(percent) if percent < 9.95 => format!("{percent:.1}"),
        Some(percent) => format!("{percent:.0}"),
        None => screen.dash().to_owned(),
    }
}

fn p99(level: &Level<'_>) -> Option<f64> {
    level.distributions.response.as_ref().map(|d| d.p99_s)
}

fn notes(screen: &Screen, record: &RunRecord, levels: &[Level<'_>], repeated: bool) -> Vec<(Tone, String)> {
    let mut notes = Vec::new();
    let mut note = |text: &str| notes.push((Tone::Faint, text.to_owned()));
    if let Some(peak) = summary::peak(levels) {
        note(&format!(
            "{} peak: the highest request rate of the sweep, at {}",
            screen.marker(),
            levels[peak].load()
        ));
    }
    if repeated {
        note(&format!(
            "{}95%: half of the 95 % interval over iterations, of the figure on its left, in % of it",
            screen.plus_minus()
        ));
    }
    let floors: Vec<String> = levels
        .iter()
        .filter_map(|level| {
            let percent = level.statistics.noise?.percent;
            Some(format!("{} at {}", NoiseFloor::in_words(percent), level.load()))
        })
        .collect();
    if !floors.is_empty() {
        note(&format!(
            "noise floor (A/A): a difference of less cannot be told from none: {}",
            floors.join(", ")
        ));
    }
    let cut: Vec<String> = record
        .iterations
        .iter()
        .filter(|run| run.interrupted)
        .map(|run| {
            let ran = run.measured.window_ns as f64 / NANOS_PER_SECOND as f64;
            {
                let load = run.rate.map_or_else(|| run.clients.to_string(), |rate| rate.to_string());
                format!("iteration {} at {load} ran {}", run.iteration, seconds(screen, ran))
            }
        })
        .collect();
    if !cut.is_empty() {
        note(&format!("* ended by the user; figures are over the time that it ran: {}", cut.join("; ")));
    }
    let Some(best) =
        levels.iter().max_by(|a, b| a.figures.pages_per_minute.total_cmp(&b.figures.pages_per_minute))
    else {
        return notes;
    };
    let number = format!(
        "WEBSTONE number: {} pages a minute at {} ({} in {})",
        best.figures.webstone_number,
        best.load(),
        counted(best.counts.pages_completed, "page", "pages"),
        seconds(screen, best.figures.test_time_s),
    );
    notes.push((Tone::Strong, number));
    notes
}
