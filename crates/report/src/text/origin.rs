//! What the server behind a proxy did in each level: what the proxy asked of it for what clients asked of the proxy, and what
//! that took of its CPUs. The figures are the model's.

use webstone_model::origin_figures::{AskedFigures, OriginFigures};
use webstone_model::record::RunRecord;
use webstone_model::server_figures::ServerFigures;

use super::server::{self, Column};
use crate::layout::{Room, Sheet};
use crate::numbers::{Scale, decimal};
use crate::screen::{Screen, Tone};
use crate::summary::Level;

pub(crate) fn sheet(screen: &Screen, record: &RunRecord, levels: &[Level<'_>]) -> Option<Sheet> {
    let behind = record.target.origin.as_ref()?;
    let origins: Vec<Option<OriginFigures>> = levels.iter().map(|level| level.origin).collect();
    let mut columns = asked(&origins);
    let servers: Vec<Option<ServerFigures>> = origins.iter().map(|origin| origin.as_ref()?.server).collect();
    columns.extend(server::cpu(screen, &servers));
    // Few caches ask whether what they have is still good while a test lasts.
    columns.retain(|column| {
        column.name != "unchanged" || column.cells.iter().flatten().any(|cell| cell != NEVER)
    });
    let who = if behind.ours { "webstone's own behind it" } else { behind.url.as_str() };
    let explanation = format!("what the proxy asked of {who}, and what that took");
    let mut sheet = Sheet::new("Origin", explanation, server::table(screen, levels, &columns));
    sheet.notes.extend(behind.unseen.iter().map(|why| (Tone::Caution, format!("{why}."))));
    Some(sheet)
}

/// A share of nothing.
const NEVER: &str = "0.0";

fn asked(origins: &[Option<OriginFigures>]) -> Vec<Column> {
    let seen = || origins.iter().map(|origin| origin.as_ref()?.asked);
    type Value = fn(&AskedFigures) -> Option<f64>;
    let column = |name, unit: &str, room, show: &dyn Fn(f64) -> String, of: Value| Column {
        name,
        unit: unit.to_owned(),
        room,
        cells: seen().map(|it| Some(show(of(&it?)?))).collect(),
    };
    let rates = Scale::plain(1, seen().flatten().map(|it| it.origin_request_rate));
    let bodies = Scale::bits_per_second(seen().flatten().map(|it| it.origin_body_bps));
    let percent = |value: f64| decimal(value, 1);
    let share = |value: f64| decimal(value, 4);
    vec![
        column("requests", "1/s", Room::Always, &|rate| rates.show(rate), |it| Some(it.origin_request_rate)),
        column("asked", "a request", Room::Always, &share, |it| it.origin_requests_per_request),
        column("hits", "%", Room::Always, &percent, |it| it.hit_percent),
        column("unchanged", "304, %", Room::Optional(4), &percent, |it| it.revalidated_percent),
        column("saved", "bytes, %", Room::Always, &percent, |it| it.saved_percent),
        column("bodies", bodies.unit, Room::Optional(5), &|bits| bodies.show(bits), |it| {
            Some(it.origin_body_bps)
        }),
        column("connects", "each asked", Room::Optional(6), &share, |it| it.origin_connections_per_request),
    ]
}
