//! The report for a terminal. What makes the figures doubtful stands above the figures; after that, from the sweep as
//! a whole to its details: levels, times, pages, fairness, machines, errors.

pub(crate) mod errors;
mod fairness;
pub(crate) mod header;
mod levels;
mod machines;
mod pages;
pub(crate) mod problems;
mod times;

use webstone_model::record::RunRecord;
use webstone_model::verdict::Verdict;

use crate::Options;
use crate::layout::push_line;
use crate::screen::Screen;
use crate::{hit, summary};

/// The whole report, ending in a newline.
pub(crate) fn render(record: &RunRecord, verdict: &Verdict, options: &Options) -> String {
    let screen = Screen::new(options);
    let levels = summary::levels(record);
    let mut out = String::new();
    header::title(&screen, record, &mut out);
    problems::draw(&screen, record, &levels, verdict, false, &mut out);
    header::facts(&screen, record, &mut out);
    if levels.is_empty() {
        out.push('\n');
        push_line(&mut out, "Nothing was measured: the record holds no timed run.");
        return out;
    }
    levels::draw(&screen, record, &levels, &mut out);
    times::draw(&screen, &levels, &mut out);
    pages::draw(&screen, record, options.pages_max, &mut out);
    fairness::draw(&screen, &levels, &mut out);
    machines::draw(&screen, &levels, &mut out);
    errors::draw(&screen, record, &mut out);
    problems::rules_table(&screen, record, &mut out);
    if let [level] = &levels[..] {
        out.push('\n');
        hit::greppable(level, &mut out);
    }
    out
}
