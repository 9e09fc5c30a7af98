//! How equally clients were served, level by level. A server that serves some clients well and lets others starve can
//! still show a high rate.

use webstone_model::units::NANOS_PER_SECOND;

use crate::layout::{Room, Sheet, Table};
use crate::numbers::{Scale, count};
use crate::screen::{Screen, Tone};
use crate::summary::{self, Level};

pub(crate) fn sheet(screen: &Screen, levels: &[Level<'_>]) -> Option<Sheet> {
    // One client has nobody to be compared with.
    if levels.iter().all(|level| level.clients < 2 || level.fairness.is_none()) {
        return None;
    }
    let to_seconds = |nanos: f64| nanos / NANOS_PER_SECOND as f64;
    let latency = Scale::seconds(
        screen,
        levels
            .iter()
            .filter_map(|l| l.fairness.as_ref())
            .flat_map(|f| [f.latency_ns.0, f.latency_ns.1])
            .map(to_seconds),
    );
    let mut table = Table::default();
    let (load, unit) = summary::load_column(levels);
    table.number(load, unit, Room::Always);
    table.number("Jain", "pages", Room::Always).number("Jain", "latency", Room::Optional(2));
    table.number("pages", "fewest", Room::Always).number("pages", "most", Room::Always);
    let unit = latency.unit;
    table.number("latency", &format!("lowest, {unit}"), Room::Optional(0));
    table.number("latency", &format!("highest, {unit}"), Room::Optional(1));
    table.number("starved", "clients", Room::Always);
    for level in levels {
        let mut cells = vec![level.load_cell()];
        match &level.fairness {
            Some(f) => cells.extend([
                format!("{:.4}", f.jain_pages),
                format!("{:.4}", f.jain_latency),
                count(f.pages.0),
                count(f.pages.1),
                latency.show(to_seconds(f.latency_ns.0)),
                latency.show(to_seconds(f.latency_ns.1)),
                count(f.starved),
            ]),
            None => cells.extend([screen.dash(); 7].map(str::to_owned)),
        }
        let starved = level.fairness.as_ref().is_some_and(|f| f.starved > 0);
        table.row_in(cells, if starved { Tone::Caution } else { Tone::Plain }, false);
    }
    Some(Sheet::new("Fairness", "Jain's index: 1 when all clients are served equally", table))
}
