//! The report for a terminal. What makes the figures doubtful stands above the figures; after that, from the sweep as
//! a whole to its details: levels, times, pages, fairness, machines, errors.

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
pub(crate) mod pages;
pub(crate) mod problems;
mod remarkable;
pub(crate) mod search;
mod server;
pub(crate) mod server_hosts;
pub(crate) mod short;
mod times;

use problems::Depth;
use webstone_judge::search::{Finding, of_record};
use webstone_judge::verdict::Verdict;
use webstone_model::record::RunRecord;
use webstone_model::search::Over;

use crate::document::table::Sheet;
use crate::document::{Document, Tone};
use crate::summary::{self, Level};
use crate::{Options, configuration, hit};

/// A table of the report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    Search,
    Levels,
    OpenLoop,
    Http2,
    Http3,
    Times,
    Tls,
    Pages,
    Fairness,
    Generators,
    Machines,
    Server,
    ServerHosts,
    Origin,
    Cpus,
    CpusThere,
    Network,
    NetworkThere,
    Errors,
}

/// The whole report. The default one fits a screen; what it leaves out it names.
pub(crate) fn document(record: &RunRecord, verdict: &Verdict, options: &Options) -> Document {
    let levels = summary::levels(record);
    let depth = if options.full { Depth::Full } else { Depth::Brief };
    let mut doc = Document::default();
    header::title(record, &mut doc);
    if depth != Depth::Full {
        header::brief(record, &mut doc);
    }
    problems::begin(record, &levels, verdict, depth, &mut doc);
    if depth == Depth::Full {
        header::whole(record, &mut doc);
    }
    if levels.is_empty() {
        doc.gap();
        doc.text(Tone::Plain, summary::no_figures(record));
        return doc;
    }
    let mut left_out = Vec::new();
    for (part, sheet) in parts(record, &levels, options.pages_max, depth) {
        if depth == Depth::Full || is_headline(part, record) || remarkable::is(part, record, &levels) {
            doc.sheets([sheet]);
            if part == Part::Search
                && depth == Depth::Full
                && let Some((over, finding)) = sought(record)
            {
                doc.sheets(search::curve(over, &finding));
            }
        } else if part != Part::Errors {
            left_out.push(in_a_list(&sheet.title));
        }
    }
    if depth == Depth::Full {
        configuration::list(&configuration::of(record), &mut doc);
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

/// Whether the default report always shows it.
fn is_headline(part: Part, record: &RunRecord) -> bool {
    part == if record.spec.find.is_some() { Part::Search } else { Part::Levels }
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

/// What a search found, and what it searched over; `None` of other runs.
pub(crate) fn sought(record: &RunRecord) -> Option<(Over, Finding)> {
    Some((record.spec.find.as_ref()?.over, of_record(record)?))
}

/// The level of the highest load that a search found to keep its SLO.
pub(crate) fn answer<'l, 'r>(record: &RunRecord, levels: &'l [Level<'r>]) -> Option<&'l Level<'r>> {
    let (over, finding) = sought(record)?;
    let kept = finding.kept?;
    levels.iter().find(|level| level.runs.first().is_some_and(|run| over.of(run) == kept))
}

/// The tables of a record in which something was measured: all that a report shows in rows, whatever its format.
pub(crate) fn sheets(record: &RunRecord, levels: &[Level<'_>], pages_max: usize) -> Vec<Sheet> {
    parts(record, levels, pages_max, Depth::Full).into_iter().map(|(_, sheet)| sheet).collect()
}

fn parts(record: &RunRecord, levels: &[Level<'_>], pages_max: usize, depth: Depth) -> Vec<(Part, Sheet)> {
    let all = [
        (Part::Search, sought(record).map(|(over, finding)| search::sheet(over, &finding))),
        (Part::Levels, Some(levels::sheet(record, levels, depth))),
        (Part::OpenLoop, groups::open_loop(levels)),
        (Part::Http2, groups::http2(levels)),
        (Part::Http3, groups::http3(levels)),
        (Part::Times, times::sheet(levels)),
        (Part::Tls, groups::tls(levels)),
        (Part::Pages, pages::sheet(record, pages_max)),
        (Part::Fairness, groups::fairness(levels)),
        (Part::Generators, generators::sheet(record, levels)),
        (Part::Machines, machines::sheet(levels)),
        (Part::Server, server::sheet(levels)),
        (Part::ServerHosts, server_hosts::sheet(record, levels)),
        (Part::Origin, groups::origin(record, levels)),
        (Part::Cpus, cpus::sheet(record, levels)),
        (Part::CpusThere, cpus::elsewhere(record, levels)),
        (Part::Network, groups::network(levels)),
        (Part::NetworkThere, groups::network_there(levels)),
        (Part::Errors, errors::sheet(record)),
    ];
    all.into_iter().filter_map(|(part, sheet)| Some((part, sheet?))).collect()
}
