//! Whether an open loop's schedule was kept: what was asked for, offered and achieved, what became of arrivals that found
//! no client free, and how late the generator itself was. In closed loop there is no such table.

use webstone_model::units::NANOS_PER_SECOND;

use crate::layout::{Room, Sheet, Table};
use crate::numbers::{Scale, count};
use crate::screen::{Screen, Tone};
use crate::summary::{self, Level};

pub(crate) fn sheet(screen: &Screen, levels: &[Level<'_>]) -> Option<Sheet> {
    let all = || levels.iter().filter_map(|level| level.open_loop.as_ref());
    all().next()?;
    let to_seconds = |nanos: u64| nanos as f64 / NANOS_PER_SECOND as f64;
    let rate = Scale::plain(2, all().flat_map(|o| [o.kept.asked_rate, o.kept.offered_rate, o.achieved_rate]));
    let lag = Scale::seconds(screen, all().map(|o| to_seconds(o.kept.lag_p99_ns)));
    let mut table = Table::default();
    let (load, unit) = summary::load_column(levels);
    table.number(load, unit, Room::Always);
    table.number("clients", "stand by", Room::Optional(3));
    table.number("asked", "/s", Room::Optional(4));
    table.number("offered", "/s", Room::Always).number("achieved", "pages/s", Room::Always);
    table.number("skipped", "", Room::Always);
    table.number("waited", "for a client", Room::Optional(2));
    table.number("queued", "at the end", Room::Optional(5));
    table.number("lag", &format!("p50, {}", lag.unit), Room::Optional(6));
    table.number("lag", &format!("p99, {}", lag.unit), Room::Always);
    table.number("lag", &format!("max, {}", lag.unit), Room::Optional(7));
    table.number("awake", "% of a CPU", Room::Optional(1));
    for level in levels {
        let Some(open_loop) = &level.open_loop else { continue };
        let kept = open_loop.kept;
        let cells = vec![
            level.load_cell(),
            count(u64::from(level.clients)),
            rate.show(kept.asked_rate),
            rate.show(kept.offered_rate),
            rate.show(open_loop.achieved_rate),
            count(open_loop.skipped),
            count(open_loop.waited),
            count(open_loop.queued),
            lag.show(to_seconds(kept.lag_p50_ns)),
            lag.show(to_seconds(kept.lag_p99_ns)),
            lag.show(to_seconds(kept.lag_max_ns)),
            format!("{:.0}", open_loop.awake_percent),
        ];
        let missed = open_loop.skipped > 0 || open_loop.queued > 0;
        table.row_in(cells, if missed { Tone::Caution } else { Tone::Plain }, false);
    }
    let note = "latency counts from the intended start; lag is the generator's own lateness";
    Some(Sheet::new("Open loop", note, table))
}
