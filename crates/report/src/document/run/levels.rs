//! The level table: the sweep in one look. The columns are WebStone's, with the interval over iterations beside the
//! figure that it belongs to.

use crate::document::cell::Cell;
use webstone_judge::statistics::{Interval, NoiseFloor};
use webstone_judge::verdict::Standing;
use webstone_measure::figures::Figure;
use webstone_measure::figures::level::{
    CLIENT_THROUGHPUT, CONNECTION_RATE, ERROR_RATE, LATENCY_MEAN, LATENCY_P99, LITTLE, PAGES_PER_MINUTE,
    REQUEST_RATE, THROUGHPUT,
};
use webstone_measure::units::NANOS_PER_SECOND;
use webstone_model::record::RunRecord;

use super::figures;
use super::problems::Depth;
use crate::document::Tone;
use crate::document::table::{Room, Rows, Sheet, Table};
use crate::numbers::{Scale, count, counted, seconds};
use crate::summary::{self, Level};

pub(crate) fn sheet(record: &RunRecord, levels: &[Level<'_>], depth: Depth) -> Sheet {
    let repeated = levels.iter().any(|level| level.runs.len() > 1);
    let explanation = if repeated { "mean over all iterations" } else { "" };
    let notes = notes(record, levels, repeated, depth);
    Sheet { notes, ..Sheet::new("Levels", explanation, table(levels, repeated)) }
}

fn table(levels: &[Level<'_>], repeated: bool) -> Table {
    // The scale of a figure, over several where they are to be compared with each other.
    let scale = |figures: &[&Figure]| {
        let known = levels.iter().flat_map(|level| figures.iter().map(|figure| level.values.value(figure)));
        figures::scale(figures[0], known.flatten().map(|value| value.as_f64()))
    };
    let rate = scale(&[&REQUEST_RATE, &CONNECTION_RATE]);
    let (peak, cut) = (summary::peak(levels), levels.iter().any(Level::interrupted));
    let rows: Vec<(usize, &Level<'_>)> = levels.iter().enumerate().collect();
    let mut table = Table::with_rows(&rows);
    let (load, unit) = summary::load_column(levels);
    table.number(load, unit, Room::Always, |(_, level)| {
        let interrupted = if cut { if level.interrupted() { "*" } else { " " } } else { "" };
        format!("{}{interrupted}", level.load_cell())
    });
    let figure = |table: &mut Rows<'_, (usize, &Level<'_>)>, figure: &Figure, scale: &Scale| {
        figures::column(table, figure, scale, |(_, level)| level.values.value(figure));
    };
    figure(&mut table, &CONNECTION_RATE, &rate);
    figure(&mut table, &REQUEST_RATE, &rate);
    if levels.iter().any(|level| level.noise.and_then(|noise| noise.rate_factor()).is_some()) {
        table.number("up to", "/s", Room::Always, |(_, level)| {
            Some(rate.cell(level.figures.request_rate * level.noise?.rate_factor()?))
        });
        table.defined("The verdict", "");
    }
    if levels.iter().any(|level| level.standing > Standing::Sound) {
        table.text("verdict", Room::Optional(3), |(_, level)| level.standing.word());
        table.defined("The verdict", "");
    }
    if repeated {
        table.number("95%", "±%", Room::Optional(25), |(_, level)| reach(level.statistics.request_rate));
        table.defined("Statistics", "");
        table.number("lowest", "/s", Room::Optional(1), |(_, level)| rate.cell(level.request_rates.0));
        table.defined("Statistics", "");
        table.number("highest", "/s", Room::Optional(1), |(_, level)| rate.cell(level.request_rates.1));
        table.defined("Statistics", "").number("runs", "", Room::Optional(2), |(_, level)| level.runs.len());
    }
    figure(&mut table, &ERROR_RATE, &scale(&[&ERROR_RATE]));
    figure(&mut table, &LATENCY_MEAN, &scale(&[&LATENCY_MEAN]));
    if repeated {
        table.number("95%", "±%", Room::Optional(24), |(_, level)| reach(level.statistics.latency_mean_s));
        table.defined("Statistics", "");
    }
    if levels.iter().any(|level| level.values.value(&LATENCY_P99).is_some()) {
        figure(&mut table, &LATENCY_P99, &scale(&[&LATENCY_P99]));
    }
    for other in [&THROUGHPUT, &CLIENT_THROUGHPUT, &LITTLE, &PAGES_PER_MINUTE] {
        figure(&mut table, other, &scale(&[other]));
    }
    let is_peak = |place: usize| peak == Some(place);
    table.tones(|(place, _)| if is_peak(*place) { Tone::Good } else { Tone::Plain });
    table.marks(|(place, _)| is_peak(*place)).done()
}

/// Half of a 95 % interval in percent of its point.
fn reach(interval: Option<Interval>) -> Option<Cell> {
    let percent = interval?.half_width_percent()?;
    Some(Cell::Decimal(percent, usize::from(percent < 9.95)))
}

fn notes(record: &RunRecord, levels: &[Level<'_>], repeated: bool, depth: Depth) -> Vec<(Tone, String)> {
    let mut notes = Vec::new();
    let mut note = |text: &str| notes.push((Tone::Faint, text.to_owned()));
    // The default report has said it in its headline.
    if let Some(peak) = summary::peak(levels).filter(|_| depth == Depth::Full) {
        let is_counted = |level: &Level<'_>| level.standing.is_conclusive();
        let of = match is_counted(&levels[peak]) && !levels.iter().all(is_counted) {
            true => "of the levels whose figures count",
            false => "of the sweep",
        };
        note(&format!("{} peak: the highest request rate {of}, at {}", "▸", levels[peak].load()));
    }
    if repeated {
        note(&format!("{}95%: half the 95 % interval over iterations, in % of the figure on its left", "±"));
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
            let ran = seconds(run.measured.window_ns as f64 / NANOS_PER_SECOND as f64);
            let load = run.rate.map_or_else(|| run.clients.to_string(), |rate| rate.to_string());
            match summary::is_repeated(record) {
                true => format!("iteration {} at {load} ran {ran}", run.iteration),
                false => format!("{ran} at {}", run.level()),
            }
        })
        .collect();
    if !cut.is_empty() {
        note(&format!("* ended by the user; figures are over the time that it ran: {}", cut.join("; ")));
    }
    let Some(best) = summary::highest(levels, |level| level.figures.pages_per_minute) else { return notes };
    let best = &levels[best];
    let number = format!(
        "WEBSTONE number: {} pages per minute at {} ({} in {})",
        count(best.figures.webstone_number),
        best.load(),
        counted(best.counts.pages_completed, "page", "pages"),
        seconds(best.figures.test_time_s),
    );
    notes.push((Tone::Strong, number));
    notes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_webstone_number_and_the_peak_are_of_levels_whose_figures_count() {
        let mut record = webstone_model::fixture::record("r", &[(10, &[1000.0]), (20, &[2000.0])]);
        record.iterations[0].measured.counts.pages_completed = 100;
        record.iterations[1].measured.counts.pages_completed = 200;
        let notes = |record: &RunRecord| {
            let notes = notes(record, &summary::levels(record), false, Depth::Full);
            notes.into_iter().map(|(_, text)| text).collect::<Vec<_>>().join("\n")
        };
        let said = notes(&record);
        assert!(
            said.contains("of the sweep, at 20 clients") && said.contains("minute at 20 clients"),
            "{said}"
        );
        record.iterations[1].measured.counts.failed = 100_000;
        let said = notes(&record);
        assert!(said.contains("of the levels whose figures count, at 10 clients"), "{said}");
        assert!(said.contains("minute at 10 clients (100 pages"), "{said}");
    }
}
