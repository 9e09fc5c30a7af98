//! The per-page table: WebStone's page blocks as rows, over all levels and iterations of the report.

use webstone_measure::metrics::PageTotals;
use webstone_measure::units::NANOS_PER_SECOND;
use webstone_model::record::RunRecord;

use crate::classic;
use crate::layout::{Room, Sheet, Table};
use crate::numbers::{Scale, count};
use crate::screen::{Screen, Tone};
use crate::summary::quotient;

pub(crate) fn sheet(screen: &Screen, record: &RunRecord, pages_max: usize) -> Option<Sheet> {
    let totals = record.page_totals();
    if totals.is_empty() || pages_max == 0 {
        return None;
    }
    let order = shown(&totals, pages_max);
    let cut = order.len() < totals.len();
    let table = table(screen, record, &totals, &order);
    let mut sheet = Sheet::new("Pages", "all levels and iterations together", table);
    if cut {
        let shown: u64 = order.iter().map(|index| totals[*index].hits).sum();
        let all: u64 = totals.iter().map(|page| page.hits).sum();
        let text = format!(
            "{} and {} more pages with {} of {} hits; all of them are in the CSV table of pages",
            screen.ellipsis(),
            count((totals.len() - order.len()) as u64),
            count(all - shown),
            count(all)
        );
        sheet.notes.push((Tone::Faint, text));
    }
    Some(sheet)
}

fn table(screen: &Screen, record: &RunRecord, totals: &[PageTotals], order: &[usize]) -> Table {
    let pages = || order.iter().map(|index| &totals[*index]);
    let time = Scale::seconds(screen, pages().flat_map(|p| [page_mean(p), to_seconds(p.time_ns_max)]));
    let response = Scale::seconds(screen, pages().map(response_mean));
    let connect =
        Scale::seconds(screen, pages().flat_map(|p| [connect_mean(p), to_seconds(p.connect_ns_max)]));
    let data = Scale::bytes(pages().map(|p| p.body_bytes as f64));
    let any_failed = pages().any(|p| p.errors > 0);
    // Connections that were opened before the window are no page's.
    let connected = pages().any(|p| p.connects > 0);
    let several_files = record.workload.pages.iter().any(|page| page.files.len() > 1);

    let mut table = Table::default();
    table.number("#", "", Room::Always);
    table.text("page", Room::Flexible(20));
    table.number("hits", "", Room::Always).defined("Pages", "hits");
    table.number("weight", "%", Room::Optional(1));
    if any_failed {
        table.number("errors", "", Room::Always).defined("Pages", "errors");
    }
    table.number("time", &format!("mean, {}", time.unit), Room::Always).defined("Pages", "time_ns");
    table.number("time", "max", Room::Always).defined("Pages", "time_ns_max");
    if several_files {
        table
            .number("a file", &format!("mean, {}", response.unit), Room::Optional(2))
            .defined("Pages", "response_ns");
    }
    if connected {
        table
            .number("connect", &format!("mean, {}", connect.unit), Room::Optional(11))
            .defined("Pages", "connect_ns");
        table.number("connect", "max", Room::Optional(10)).defined("Pages", "connect_ns_max");
        table.number("connects", "", Room::Optional(3)).defined("Pages", "connects");
    }
    table.number("body data", data.unit, Room::Optional(5)).defined("Pages", "body_bytes");
    table.number("page size", "bytes", Room::Optional(4));

    let weights = record.workload.total_weight() as f64;
    for &index in order {
        let page = &totals[index];
        let weight = record.workload.pages.get(index).map_or(0.0, |page| page.weight as f64);
        let mut cells = vec![
            index.to_string(),
            screen.safe(&name(record, index)),
            count(page.hits),
            format!("{:.2}", quotient(weight * 100.0, weights)),
        ];
        if any_failed {
            cells.push(count(page.errors));
        }
        let or_dash = |count: u64, shown: String| if count > 0 { shown } else { screen.dash().to_owned() };
        cells.push(or_dash(page.hits, time.show(page_mean(page))));
        cells.push(or_dash(page.hits, time.show(to_seconds(page.time_ns_max))));
        if several_files {
            cells.push(or_dash(page.requests, response.show(response_mean(page))));
        }
        if connected {
            cells.push(or_dash(page.connects, connect.show(connect_mean(page))));
            cells.push(or_dash(page.connects, connect.show(to_seconds(page.connect_ns_max))));
            cells.push(count(page.connects));
        }
        cells.push(data.show(page.body_bytes as f64));
        cells.push(classic::page_size(record, index, page).map_or_else(|| screen.dash().to_owned(), count));
        table.row(cells);
    }
    table
}

/// Indices of the pages that are shown. A short workload keeps its order, which the reader knows; of a long one the
/// busiest pages are shown.
pub(crate) fn shown(totals: &[PageTotals], pages_max: usize) -> Vec<usize> {
    let mut order: Vec<usize> = (0..totals.len()).collect();
    if order.len() > pages_max {
        order.sort_by_key(|index| (std::cmp::Reverse(totals[*index].hits), *index));
        order.truncate(pages_max);
    }
    order
}

/// Its first file, and how many follow.
pub(crate) fn name(record: &RunRecord, index: usize) -> String {
    let files = record.workload.pages.get(index).map_or(&[][..], |page| &page.files);
    match files {
        [] => format!("page {index}"),
        [only] => only.shown().into_owned(),
        [first, rest @ ..] => format!("{} +{}", first.shown(), rest.len()),
    }
}

fn page_mean(page: &PageTotals) -> f64 {
    quotient(to_seconds(page.time_ns), page.hits as f64)
}

/// Mean response time of one of its files, in seconds.
pub(crate) fn response_mean(page: &PageTotals) -> f64 {
    page.response_mean().map_or(0.0, |mean| mean.ns / NANOS_PER_SECOND as f64)
}

/// Mean connect time, in seconds.
pub(crate) fn connect_mean(page: &PageTotals) -> f64 {
    quotient(to_seconds(page.connect_ns), page.connects as f64)
}

fn to_seconds(nanos: u64) -> f64 {
    nanos as f64 / NANOS_PER_SECOND as f64
}
