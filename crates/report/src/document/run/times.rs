//! Percentiles of connecting, first byte, response and page. One level has a line for each; several levels have a group for each, so
//! that they can be compared from line to line.

use crate::document::table::{Room, Sheet, Table};
use crate::numbers::{Scale, percentile_name};
use crate::summary::{self, Level};
use webstone_measure::figures::PERCENTILES;
use webstone_measure::figures::distributions::{Distribution, Distributions};

/// Access to one of the four distributions, with its name.
pub(crate) type Kind = (&'static str, fn(&Distributions) -> &Option<Distribution>);

/// The four, and those that only an open loop has.
pub(crate) const KINDS: [Kind; 9] = [
    ("connect", |d| &d.connect),
    ("TLS handshake", |d| &d.tls_handshake),
    ("first byte", |d| &d.first_byte),
    ("response", |d| &d.response),
    ("page", |d| &d.page),
    ("first byte, from actual start", |d| &d.first_byte_uncorrected),
    ("response, from actual start", |d| &d.response_uncorrected),
    ("page, from actual start", |d| &d.page_uncorrected),
    ("schedule lag", |d| &d.schedule_lag),
];

pub(crate) fn sheet(levels: &[Level<'_>]) -> Option<Sheet> {
    let mut present: Vec<Kind> = KINDS
        .into_iter()
        .filter(|(_, of)| levels.iter().any(|level| of(&level.distributions).is_some()))
        .collect();
    // With one file per page, a page takes as long as its response: one group says both.
    if levels.iter().all(|level| level.distributions.page == level.distributions.response) {
        present.retain(|(name, _)| !name.starts_with("page"));
        present
            .iter_mut()
            .filter(|(name, _)| *name == "response")
            .for_each(|kind| kind.0 = "response = page");
    }
    if present.is_empty() {
        return None;
    }
    let several = levels.len() > 1;
    let rows: Vec<(usize, Kind, Scale, &Level<'_>)> = present
        .into_iter()
        .flat_map(|(name, of)| {
            let all = levels.iter().filter_map(|level| of(&level.distributions).as_ref());
            let scale = Scale::seconds(all.flat_map(|d| [d.p50_s, d.p99_s]));
            levels.iter().enumerate().map(move |(place, level)| (place, (name, of), scale, level))
        })
        .collect();
    let mut table = Table::with_rows(&rows);
    if several {
        let (load, unit) = summary::load_column(levels);
        table.number(load, unit, Room::Always, |(.., level)| level.load_cell());
        table.groups(|(place, (name, _), ..)| (*place == 0).then(|| (*name).to_owned()));
    } else {
        table.text("", Room::Always, |(_, (name, _), ..)| *name);
    }
    table.text("unit", Room::Always, |(_, _, scale, _)| scale.unit);
    for (place, percentile) in PERCENTILES.into_iter().chain([100.0]).enumerate() {
        let room = match percentile {
            50.0 | 99.0 | 100.0 => Room::Always,
            90.0 => Room::Optional(21),
            99.9 => Room::Optional(20),
            // Of the others, the highest is left out first.
            _ => Room::Optional((PERCENTILES.len() - place) as u8),
        };
        table.number(percentile_name(percentile), "", room, |(_, (_, of), scale, level)| {
            of(&level.distributions).as_ref().map(|times| scale.percentile(times, percentile))
        });
        table.defined("Percentiles", "");
    }
    let table = table.done();
    Some(Sheet::new("Times", "percentiles of valid responses", table))
}
