//! The per-page table: WebStone's page blocks as rows, over all levels and iterations of the report.

use crate::document::cell::Cell;
use webstone_measure::metrics::PageTotals;
use webstone_measure::units::NANOS_PER_SECOND;
use webstone_model::record::RunRecord;

use crate::classic;
use crate::document::Tone;
use crate::document::table::{Room, Sheet, Table};
use crate::numbers::{Scale, count, counted, in_seconds};
use crate::summary::quotient;

pub(crate) fn sheet(record: &RunRecord, pages_max: usize) -> Option<Sheet> {
    let totals = record.page_totals();
    if totals.is_empty() || pages_max == 0 {
        return None;
    }
    let order = shown(&totals, pages_max);
    let cut = order.len() < totals.len();
    let table = table(record, &totals, &order);
    let mut sheet = Sheet::new("Pages", "all levels and iterations together", table);
    if cut {
        let shown: u64 = order.iter().map(|index| totals[*index].hits).sum();
        let all: u64 = totals.iter().map(|page| page.hits).sum();
        let text = format!(
            "{} and {} with {} of {} hits; all of them are in the CSV table of pages",
            "…",
            counted((totals.len() - order.len()) as u64, "more page", "more pages"),
            count(all - shown),
            count(all)
        );
        sheet.notes.push((Tone::Faint, text));
    }
    Some(sheet)
}

fn table(record: &RunRecord, totals: &[PageTotals], order: &[usize]) -> Table {
    let pages = || order.iter().map(|index| &totals[*index]);
    let time = Scale::seconds(pages().flat_map(|p| [page_mean(p), in_seconds(p.time_ns_max)]));
    let response = Scale::seconds(pages().map(response_mean));
    let connect = Scale::seconds(pages().flat_map(|p| [connect_mean(p), in_seconds(p.connect_ns_max)]));
    let data = Scale::bytes(pages().map(|p| p.body_bytes as f64));

    let of = |count: u64, scale: &Scale, value: f64| (count > 0).then(|| scale.cell(value));
    let rows: Vec<(usize, &PageTotals)> = order.iter().map(|index| (*index, &totals[*index])).collect();
    let weights = record.workload.total_weight() as f64;
    let mut table = Table::with_rows(&rows);
    table.number("#", "", Room::Always, |(index, _)| index.to_string());
    table.text("page", Room::Flexible(20), |(index, _)| name(record, *index));
    table.number("hits", "", Room::Always, |(_, page)| page.hits).defined("Pages", "hits");
    table.number("weight", "%", Room::Optional(1), |(index, _)| {
        let weight = record.workload.pages.get(*index).map_or(0.0, |page| page.weight as f64);
        Cell::Decimal(quotient(weight * 100.0, weights), 2)
    });
    if pages().any(|page| page.errors > 0) {
        table.number("errors", "", Room::Always, |(_, page)| page.errors).defined("Pages", "errors");
    }
    let mean = |scale: &Scale| format!("mean, {}", scale.unit);
    table.number("time", mean(&time), Room::Always, |(_, page)| of(page.hits, &time, page_mean(page)));
    table.defined("Pages", "time_ns");
    table.number("time", "max", Room::Always, |(_, page)| of(page.hits, &time, in_seconds(page.time_ns_max)));
    table.defined("Pages", "time_ns_max");
    if record.workload.pages.iter().any(|page| page.files.len() > 1) {
        table.number("a file", mean(&response), Room::Optional(2), |(_, page)| {
            of(page.requests, &response, response_mean(page))
        });
        table.defined("Pages", "response_ns");
    }
    // Connections that were opened before the window are no page's.
    if pages().any(|page| page.connects > 0) {
        table.number("connect", mean(&connect), Room::Optional(11), |(_, page)| {
            of(page.connects, &connect, connect_mean(page))
        });
        table.defined("Pages", "connect_ns").number("connect", "max", Room::Optional(10), |(_, page)| {
            of(page.connects, &connect, in_seconds(page.connect_ns_max))
        });
        table.defined("Pages", "connect_ns_max");
        table
            .number("connects", "", Room::Optional(3), |(_, page)| page.connects)
            .defined("Pages", "connects");
    }
    table.number("body data", data.unit, Room::Optional(5), |(_, page)| data.cell(page.body_bytes as f64));
    table.defined("Pages", "body_bytes").number("page size", "bytes", Room::Optional(4), |(index, page)| {
        classic::page_size(record, *index, page)
    });
    table.done()
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

/// A page's first file, and how many follow.
pub(crate) fn name(record: &RunRecord, index: usize) -> String {
    let files = record.workload.pages.get(index).map_or(&[][..], |page| &page.files);
    match files {
        [] => format!("page {index}"),
        [only] => only.shown().into_owned(),
        [first, rest @ ..] => format!("{} +{}", first.shown(), rest.len()),
    }
}

fn page_mean(page: &PageTotals) -> f64 {
    quotient(in_seconds(page.time_ns), page.hits as f64)
}

/// Mean response time of a page's files, in seconds.
pub(crate) fn response_mean(page: &PageTotals) -> f64 {
    page.response_mean().map_or(0.0, |mean| mean.ns / NANOS_PER_SECOND as f64)
}

/// Mean connect time, in seconds.
pub(crate) fn connect_mean(page: &PageTotals) -> f64 {
    quotient(in_seconds(page.connect_ns), page.connects as f64)
}
