//! The pages of the workload as bars: how often each was fetched, how long a response and a connection took.

use std::borrow::Cow;

use webstone_measure::metrics::PageTotals;

use crate::numbers::{Scale, count, counted};
use crate::text::pages::{connect_mean, name, response_mean, shown};

use super::markup::Html;
use super::{Run, definitions};
use crate::document::chart::BarChart;

/// Records of which pages are drawn; those of the others are in their tables.
const RECORDS_MAX: usize = 4;

pub(super) fn draw(html: &mut Html, runs: &[Run<'_>], pages_max: usize) {
    let totals: Vec<_> = runs.iter().take(RECORDS_MAX).map(|run| run.record.page_totals()).collect();
    if pages_max == 0 || totals.iter().all(|totals| totals.is_empty()) {
        return;
    }
    html.section_of("pages", "Page by page", |html| draw_each(html, runs, &totals, pages_max));
}

fn draw_each(html: &mut Html, runs: &[Run<'_>], totals: &[Cow<'_, [PageTotals]>], pages_max: usize) {
    for (number, (run, totals)) in runs.iter().zip(totals).enumerate() {
        let order = shown(totals, pages_max);
        // A single page is a row of its table.
        if order.len() < 2 {
            continue;
        }
        if runs.len() > 1 {
            html.element("h3", &run.name);
        }
        let mut note = "All levels and iterations together.".to_owned();
        if order.len() < totals.len() {
            let all: u64 = totals.iter().map(|page| page.hits).sum();
            let drawn: u64 = order.iter().map(|index| totals[*index].hits).sum();
            let left_out = (totals.len() - order.len()) as u64;
            note.push_str(&format!(
                " The {} pages with the most hits; {} more, with {} of {} hits, {} left out.",
                count(order.len() as u64),
                count(left_out),
                count(all - drawn),
                count(all),
                if left_out == 1 { "is" } else { "are" }
            ));
        }
        html.element("p class=\"note\"", &note);
        html.charts(|html| of_record(html, run, number, totals, &order));
    }
    if runs.len() > RECORDS_MAX && totals.iter().any(|totals| shown(totals, pages_max).len() > 1) {
        let more = counted((runs.len() - RECORDS_MAX) as u64, "more record", "more records");
        let text = format!("The pages of {more} are in the tables.");
        html.element("p class=\"note\"", &text);
    }
}

fn of_record(html: &mut Html, run: &Run<'_>, number: usize, totals: &[PageTotals], order: &[usize]) {
    let bars = |title: &str, definition: &str, scale, of: fn(&PageTotals) -> f64| BarChart {
        id: format!("chart-pages-{number}-{}", title.split(' ').next().unwrap_or_default().to_lowercase()),
        title: title.to_owned(),
        definition: Some(definition.to_owned()),
        caption: "",
        names: "page",
        style: number,
        scale,
        rows: order.iter().map(|index| (name(run.record, *index), of(&totals[*index]), None)).collect(),
    };
    let values =
        |of: fn(&PageTotals) -> f64| order.iter().map(|index| of(&totals[*index])).collect::<Vec<_>>();
    bars("Hits", definitions::HITS, Scale::plain(0, []), |page| page.hits as f64).draw(html);
    let scale = Scale::seconds(values(response_mean));
    // Without values there is no mean, and a bar of length zero would say that it took no time.
    let mean = |page: &PageTotals| if page.requests > 0 { response_mean(page) } else { f64::NAN };
    bars("Response time, mean", definitions::PAGE_RESPONSE, scale, mean).draw(html);
    if order.iter().any(|index| totals[*index].connects > 0) {
        let scale = Scale::seconds(values(connect_mean));
        let mean = |page: &PageTotals| if page.connects > 0 { connect_mean(page) } else { f64::NAN };
        bars("Connect time, mean", definitions::PAGE_CONNECT, scale, mean).draw(html);
    }
}
