//! The report for a terminal. First what makes the figures doubtful, then the figures from the sweep as a whole to its details:
//! levels, times, pages, fairness, machines, errors.

pub(crate) mod cautions;
mod cpus;
pub(crate) mod errors;
pub(crate) mod figures;
pub(crate) mod generators;
pub(crate) mod groups;
pub(crate) mod header;
pub(crate) mod headline;
mod levels;
mod machines;
pub(crate) mod noise;
pub(crate) mod pages;
pub(crate) mod problems;
mod remarkable;
pub(crate) mod search;
mod server;
pub(crate) mod server_hosts;
pub(crate) mod short;
pub(crate) mod times;

use problems::Depth;

use crate::document::table::Sheet;
use crate::document::{Document, Tone};
use crate::judged::Judged;
use crate::summary::{self, Level};
use crate::{Options, configuration, hit};

/// The whole report. The default one fits a screen and names what it leaves out.
pub(crate) fn document(judged: &Judged<'_>, options: &Options) -> Document {
    let record = judged.record;
    let levels = summary::levels(record);
    let depth = if options.full { Depth::Full } else { Depth::Brief };
    let mut doc = Document::default();
    header::title(judged, &mut doc);
    if depth != Depth::Full {
        header::brief(record, &mut doc);
    }
    problems::begin(judged, &levels, depth, &mut doc);
    if depth == Depth::Full {
        header::whole(record, &mut doc);
    }
    if levels.is_empty() {
        doc.gap();
        doc.text(Tone::Plain, summary::no_figures(record));
        return doc;
    }
    let mut left_out = Vec::new();
    for (place, section) in sections(judged, &levels, options.pages_max, depth).into_iter().enumerate() {
        match depth == Depth::Full || section.is_seen {
            true => doc.sheets([section.sheet]),
            false => left_out.push(in_a_list(&section.sheet.title)),
        }
        // In a search, the first table is that of the search, and its curve follows.
        if depth == Depth::Full && place == 0 {
            doc.sheets(judged.found.as_ref().and_then(|(over, finding)| search::curve(*over, finding)));
        }
    }
    if depth == Depth::Full {
        configuration::list(&configuration::groups(record), &mut doc);
        problems::rules_table(record, &mut doc);
    } else {
        left_out.push(in_a_list(configuration::TITLE));
        left_out.push("run rules".to_owned());
        rest(&left_out, options, &mut doc);
    }
    if let [level] = &levels[..]
        && depth == Depth::Full
    {
        doc.gap();
        hit::greppable(record, level, &mut doc);
    }
    doc
}

/// A title inside a sentence: `Times` is `times`, `CPUs` stays.
pub(crate) fn in_a_list(title: &str) -> String {
    match title.chars().nth(1) {
        Some(second) if second.is_uppercase() => title.to_owned(),
        _ => title.to_lowercase(),
    }
}

/// What the default report leaves out, and how to see it.
pub(crate) fn rest(left_out: &[String], options: &Options, doc: &mut Document) {
    let how = match &options.full_command {
        Some(command) => format!("see `{command}`"),
        None => "see them with --full".to_owned(),
    };
    doc.gap();
    doc.text(Tone::Faint, format!("Not shown: {}; {how}", left_out.join(", ")));
}

/// The level of the highest load that a search found to keep its SLO.
pub(crate) fn answer<'l, 'r>(judged: &Judged<'_>, levels: &'l [Level<'r>]) -> Option<&'l Level<'r>> {
    let (over, finding) = judged.found.as_ref()?;
    let kept = finding.kept?;
    levels.iter().find(|level| level.runs.first().is_some_and(|run| over.load(run) == kept))
}

/// The tables of a record in which something was measured: all that a report shows in rows, whatever its format.
pub(crate) fn sheets(judged: &Judged<'_>, levels: &[Level<'_>], pages_max: usize) -> Vec<Sheet> {
    let sections = sections(judged, levels, pages_max, Depth::Full);
    sections.into_iter().map(|section| section.sheet).collect()
}

/// A table of a run; full reports show all.
struct Section {
    sheet: Sheet,
    /// Whether the default report has it: it holds something that a reader has to see.
    is_seen: bool,
    /// Whether the short report has it.
    is_short: bool,
}

/// Every table, a line each: what it shows, whether it has to be seen, and whether it is in the short report. The bounds of what has
/// to be seen are the verdict's.
fn sections(judged: &Judged<'_>, levels: &[Level<'_>], pages_max: usize, depth: Depth) -> Vec<Section> {
    let record = judged.record;
    let search = judged.found.as_ref().map(|(over, finding)| search::sheet(*over, finding));
    let is_search = record.spec.find.is_some();
    let has_errors = summary::counts(record).failed > 0;
    let any = |is: fn(&Level<'_>) -> bool| levels.iter().any(is);
    let all = [
        (search, is_search, true),
        (Some(levels::sheet(record, levels, depth)), !is_search, false),
        (groups::open_loop(levels), any(remarkable::is_late), false),
        (groups::http2(levels), any(remarkable::was_refused_streams), false),
        // What QUIC did is in no counter of TCP.
        (groups::http3(levels), true, false),
        // Shows whether the path was as configured.
        (groups::path(record, levels), true, false),
        (times::sheet(levels), false, false),
        // Figures cannot be read without knowing whether certificates were verified and sessions resumed.
        (groups::tls(levels), true, false),
        (pages::sheet(record, pages_max), false, false),
        (groups::fairness(levels), any(remarkable::is_unfair), false),
        // The hosts that made the load, and those of a server that has several, are part of what was measured.
        (generators::sheet(record, levels), true, true),
        (machines::sheet(levels), any(remarkable::is_near_its_limit), false),
        (server::sheet(levels), false, false),
        (server_hosts::sheet(record, levels), true, true),
        (groups::origin(record, levels), false, false),
        (cpus::sheet(record, levels), remarkable::is_disturbed(record), false),
        (cpus::elsewhere(record, levels), false, false),
        (groups::network(levels), any(|level| groups::loses(level.host.as_ref())), false),
        (groups::network_there(levels), any(|level| groups::loses(level.server_host.as_ref())), false),
        // Only the full report says that there were none.
        (errors::sheet(record).filter(|_| has_errors || depth == Depth::Full), true, false),
    ];
    let section = |(sheet, is_seen, is_short): (Option<Sheet>, bool, bool)| {
        Some(Section { sheet: sheet?, is_seen, is_short })
    };
    all.into_iter().filter_map(section).collect()
}
