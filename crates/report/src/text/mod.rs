//! The report for a terminal. What makes the figures doubtful stands above the figures; after that, from the sweep as
//! a whole to its details: levels, times, pages, fairness, machines, errors.

mod cpus;
pub(crate) mod errors;
mod fairness;
pub(crate) mod figures;
pub(crate) mod header;
mod levels;
mod machines;
mod network;
mod open_loop;
mod origin;
pub(crate) mod pages;
pub(crate) mod problems;
mod search;
mod server;
mod times;

use webstone_judge::search::{Finding, of_record};
use webstone_judge::verdict::Verdict;
use webstone_model::record::RunRecord;
use webstone_model::search::Over;

use crate::layout::{Sheet, push_line};
use crate::screen::Screen;
use crate::summary::{self, Level};
use crate::{Options, hit};

/// The whole report, ending in a newline.
pub(crate) fn render(record: &RunRecord, verdict: &Verdict, options: &Options) -> String {
    let screen = Screen::new(options);
    let levels = summary::levels(record);
    let mut out = String::new();
    header::title(&screen, record, &mut out);
    problems::draw(&screen, record, &levels, verdict, false, &mut out);
    header::draw(&screen, record, &mut out);
    if levels.is_empty() {
        out.push('\n');
        push_line(&mut out, "Nothing was measured: the record holds no timed run.");
        return out;
    }
    let sheets = sheets(&screen, record, &levels, options.pages_max);
    let found = sought(record);
    for (place, sheet) in sheets.iter().enumerate() {
        sheet.draw(&screen, &mut out);
        if let Some((over, finding)) = found.as_ref().filter(|_| place == 0) {
            search::curve(&screen, *over, finding, &mut out);
        }
    }
    problems::rules_table(&screen, record, &mut out);
    if let [level] = &levels[..] {
        out.push('\n');
        hit::greppable(level, &mut out);
    }
    out
}

/// What a search found, and what it searched over; `None` of other runs.
fn sought(record: &RunRecord) -> Option<(Over, Finding)> {
    Some((record.spec.find.as_ref()?.over, of_record(record)?))
}

/// The tables of a record in which something was measured: all that a report shows in rows, whatever its format.
pub(crate) fn sheets(
    screen: &Screen,
    record: &RunRecord,
    levels: &[Level<'_>],
    pages_max: usize,
) -> Vec<Sheet> {
    let first = [
        sought(record).map(|(over, finding)| search::sheet(screen, over, &finding)),
        Some(levels::sheet(screen, record, levels)),
        open_loop::sheet(screen, levels),
        times::sheet(screen, levels),
        pages::sheet(screen, record, pages_max),
        fairness::sheet(screen, levels),
        machines::sheet(screen, levels),
        server::sheet(screen, levels),
        origin::sheet(screen, record, levels),
        cpus::sheet(screen, record, levels),
        cpus::elsewhere(screen, record, levels),
        network::sheet(screen, levels),
        network::elsewhere(screen, levels),
        errors::sheet(screen, record),
    ];
    first.into_iter().flatten().collect()
}
