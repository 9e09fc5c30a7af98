//! The report for a terminal. What makes the figures doubtful stands above the figures; after that, from the sweep as
//! a whole to its details: levels, times, pages, fairness, machines, errors.

pub(crate) mod cautions;
mod cpus;
pub(crate) mod errors;
mod fairness;
pub(crate) mod figures;
pub(crate) mod generators;
pub(crate) mod header;
pub(crate) mod headline;
mod http2;
mod levels;
mod machines;
mod network;
mod open_loop;
mod origin;
pub(crate) mod pages;
pub(crate) mod problems;
mod remarkable;
pub(crate) mod search;
mod server;
pub(crate) mod server_hosts;
mod times;
pub(crate) mod tls;

use problems::Depth;
use webstone_judge::search::{Finding, of_record};
use webstone_judge::verdict::Verdict;
use webstone_model::record::RunRecord;
use webstone_model::search::Over;

use crate::layout::{Sheet, hanging, push_line};
use crate::screen::{Screen, Tone};
use crate::summary::{self, Level};
use crate::{Options, configuration, hit};

/// A table of the report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    Search,
    Levels,
    OpenLoop,
    Http2,
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

/// The whole report, ending in a newline. The default one fits a screen; what it leaves out it names.
pub(crate) fn render(record: &RunRecord, verdict: &Verdict, options: &Options) -> String {
    let screen = Screen::new(options);
    let levels = summary::levels(record);
    let depth = if options.full { Depth::Full } else { Depth::Brief };
    let mut out = String::new();
    header::title(&screen, record, &mut out);
    if depth != Depth::Full {
        header::brief(&screen, record, &mut out);
    }
    problems::draw(&screen, record, &levels, verdict, depth, &mut out);
    if depth == Depth::Full {
        header::draw(&screen, record, &mut out);
    }
    if levels.is_empty() {
        out.push('\n');
        hanging(&summary::no_figures(record), screen.width).iter().for_each(|line| push_line(&mut out, line));
        return out;
    }
    let mut left_out = Vec::new();
    for (part, sheet) in parts(&screen, record, &levels, options.pages_max, depth) {
        if depth == Depth::Full || is_headline(part, record) || remarkable::is(part, record, &levels) {
            sheet.draw(&screen, &mut out);
            if part == Part::Search
                && depth == Depth::Full
                && let Some((over, finding)) = sought(record)
            {
                search::curve(&screen, over, &finding, &mut out);
            }
        } else if part != Part::Errors {
            left_out.push(in_a_list(sheet.title));
        }
    }
    if depth == Depth::Full {
        configuration::draw(&screen, &configuration::of(record), &mut out);
        problems::rules_table(&screen, record, &mut out);
    } else {
        left_out.push(in_a_list(configuration::TITLE));
        left_out.push("run rules".to_owned());
        rest(&screen, &left_out, options, &mut out);
    }
    if let [level] = &levels[..]
        && depth == Depth::Full
    {
        out.push('\n');
        hit::greppable(record, level, &mut out);
    }
    out
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
pub(crate) fn rest(screen: &Screen, left_out: &[String], options: &Options, out: &mut String) {
    let how = match &options.full_command {
        Some(command) => format!("see `{command}`"),
        None => "see them with --full".to_owned(),
    };
    out.push('\n');
    for line in hanging(&format!("Not shown: {}; {}", left_out.join(", "), screen.safe(&how)), screen.width) {
        push_line(out, &screen.paint(Tone::Faint, &line));
    }
}

/// What a search found, and what it searched over; `None` of other runs.
pub(crate) fn sought(record: &RunRecord) -> Option<(Over, Finding)> {
    Some((record.spec.find.as_ref()?.over, of_record(record)?))
}

/// The tables of a record in which something was measured: all that a report shows in rows, whatever its format.
pub(crate) fn sheets(
    screen: &Screen,
    record: &RunRecord,
    levels: &[Level<'_>],
    pages_max: usize,
) -> Vec<Sheet> {
    parts(screen, record, levels, pages_max, Depth::Full).into_iter().map(|(_, sheet)| sheet).collect()
}

fn parts(
    screen: &Screen,
    record: &RunRecord,
    levels: &[Level<'_>],
    pages_max: usize,
    depth: Depth,
) -> Vec<(Part, Sheet)> {
    let all = [
        (Part::Search, sought(record).map(|(over, finding)| search::sheet(screen, over, &finding))),
        (Part::Levels, Some(levels::sheet(screen, record, levels, depth))),
        (Part::OpenLoop, open_loop::sheet(screen, levels)),
        (Part::Http2, http2::sheet(screen, levels)),
        (Part::Times, times::sheet(screen, levels)),
        (Part::Tls, tls::sheet(screen, levels)),
        (Part::Pages, pages::sheet(screen, record, pages_max)),
        (Part::Fairness, fairness::sheet(screen, levels)),
        (Part::Generators, generators::sheet(screen, record, levels)),
        (Part::Machines, machines::sheet(screen, levels)),
        (Part::Server, server::sheet(screen, levels)),
        (Part::ServerHosts, server_hosts::sheet(screen, record, levels)),
        (Part::Origin, origin::sheet(screen, record, levels)),
        (Part::Cpus, cpus::sheet(screen, record, levels)),
        (Part::CpusThere, cpus::elsewhere(screen, record, levels)),
        (Part::Network, network::sheet(screen, levels)),
        (Part::NetworkThere, network::elsewhere(screen, levels)),
        (Part::Errors, errors::sheet(screen, record)),
    ];
    all.into_iter().filter_map(|(part, sheet)| Some((part, sheet?))).collect()
}
