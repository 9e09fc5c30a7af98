//! The level table: the sweep in one look. The columns are WebStone's, with the interval over iterations beside the
//! figure that it belongs to.

use webstone_judge::statistics::{Interval, NoiseFloor};
use webstone_measure::figures::Figure;
use webstone_measure::figures::level::{
    CLIENT_THROUGHPUT, CONNECTION_RATE, ERROR_RATE, LATENCY_MEAN, LATENCY_P99, LITTLE, PAGES_PER_MINUTE,
    REQUEST_RATE, THROUGHPUT,
};
use webstone_measure::units::NANOS_PER_SECOND;
use webstone_model::record::RunRecord;

use super::figures;
use super::problems::Depth;
use crate::layout::{Room, Sheet, Table};
use crate::numbers::{Scale, count, counted, seconds};
use crate::screen::{Screen, Tone};
use crate::summary::{self, Level};

pub(crate) fn sheet(screen: &Screen, record: &RunRecord, levels: &[Level<'_>], depth: Depth) -> Sheet {
    let repeated = levels.iter().any(|level| level.runs.len() > 1);
    let explanation = if repeated { "mean over all iterations" } else { "" };
    let notes = notes(screen, record, levels, repeated, depth);
    Sheet { notes, ..Sheet::new("Levels", explanation, table(screen, levels, repeated)) }
}

fn table(screen: &Screen, levels: &[Level<'_>], repeated: bool) -> Table {
    // The scale of a figure, over several where they are to be compared with each other.
    let scale = |figures: &[&Figure]| {
        let known = levels.iter().flat_map(|level| figures.iter().map(|figure| level.values.value(figure)));
        figures::scale(screen, figures[0], known.flatten().map(|value| value.as_f64()))
    };
    let rate = scale(&[&REQUEST_RATE, &CONNECTION_RATE]);
    let [error, latency, tail, throughput, single, little, pages] =
        [ERROR_RATE, LATENCY_MEAN, LATENCY_P99, THROUGHPUT, CLIENT_THROUGHPUT, LITTLE, PAGES_PER_MINUTE]
            .map(|figure| scale(&[&figure]));

    let interval = format!("{}%", screen.plus_minus());
    let mut table = Table::default();
    let (load, unit) = summary::load_column(levels);
    table.number(load, unit, Room::Always);
    figures::head(&mut table, &CONNECTION_RATE, &rate);
    figures::head(&mut table, &REQUEST_RATE, &rate);
    if repeated {
        table.number("95%", &interval, Room::Optional(25)).defined("Statistics", "");
        table.number("lowest", "/s", Room::Optional(1)).defined("Statistics", "");
        table.number("highest", "/s", Room::Optional(1)).defined("Statistics", "");
        table.number("runs", "", Room::Optional(2));
    }
    figures::head(&mut table, &ERROR_RATE, &error);
    figures::head(&mut table, &LATENCY_MEAN, &latency);
    if repeated {
        table.number("95%", &interval, Room::Optional(24)).defined("Statistics", "");
    }
    let tails = levels.iter().any(|level| level.values.value(&LATENCY_P99).is_some());
    if tails {
        figures::head(&mut table, &LATENCY_P99, &tail);
    }
    figures::head(&mut table, &THROUGHPUT, &throughput);
    figures::head(&mut table, &CLIENT_THROUGHPUT, &single);
    figures::head(&mut table, &LITTLE, &little);
    figures::head(&mut table, &PAGES_PER_MINUTE, &pages);

    let peak = summary::peak(levels);
    let cut = levels.iter().any(Level::interrupted);
    for (index, level) in levels.iter().enumerate() {
        let show = |figure: &Figure, scale: &Scale| {
            let value = level.values.value(figure);
            value.map_or_else(|| screen.dash().to_owned(), |value| scale.show_value(screen, value))
        };
        let interrupted = match (cut, level.interrupted()) {
            (false, _) => "",
            (true, true) => "*",
            (true, false) => " ",
        };
        let mut cells = vec![
            format!("{}{interrupted}", level.load_cell()),
            show(&CONNECTION_RATE, &rate),
            show(&REQUEST_RATE, &rate),
        ];
        if repeated {
            cells.push(reach(screen, level.statistics.request_rate));
            cells.push(rate.show(level.request_rates.0));
            cells.push(rate.show(level.request_rates.1));
            cells.push(level.runs.len().to_string());
        }
        cells.push(show(&ERROR_RATE, &error));
        cells.push(show(&LATENCY_MEAN, &latency));
        if repeated {
            cells.push(reach(screen, level.statistics.latency_mean_s));
        }
        if tails {
            cells.push(show(&LATENCY_P99, &tail));
        }
        cells.push(show(&THROUGHPUT, &throughput));
        cells.push(show(&CLIENT_THROUGHPUT, &single));
        cells.push(show(&LITTLE, &little));
        cells.push(show(&PAGES_PER_MINUTE, &pages));
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

fn notes(
    screen: &Screen,
    record: &RunRecord,
    levels: &[Level<'_>],
    repeated: bool,
    depth: Depth,
) -> Vec<(Tone, String)> {
    let mut notes = Vec::new();
    let mut note = |text: &str| notes.push((Tone::Faint, text.to_owned()));
    // The default report has said it in its headline.
    if let Some(peak) = summary::peak(levels).filter(|_| depth == Depth::Full) {
        note(&format!(
            "{} peak: the highest request rate of the sweep, at {}",
            screen.marker(),
            levels[peak].load()
        ));
    }
    if repeated {
        note(&format!(
            "{}95%: half the 95 % interval over iterations, in % of the figure on its left",
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
        note(&format!("noise floor (A/A), below which no change can be detected: {}", floors.join(", ")));
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
        "WEBSTONE number: {} pages per minute at {} ({} in {})",
        count(best.figures.webstone_number),
        best.load(),
        counted(best.counts.pages_completed, "page", "pages"),
        seconds(screen, best.figures.test_time_s),
    );
    notes.push((Tone::Strong, number));
    notes
}
