//! Whether an open loop's schedule was kept: what was asked for, offered and achieved, what became of arrivals that found
//! no client free, and how late the generator itself was. In closed loop there is no such table.

use webstone_measure::figures::Group;

use super::figures;
use crate::document::Tone;
use crate::document::table::Sheet;
use crate::summary::Level;

pub(crate) fn sheet(levels: &[Level<'_>]) -> Option<Sheet> {
    levels.iter().find(|level| level.open_loop.is_some())?;
    let columns = figures::columns(levels, &[Group::OpenLoop], &|level, figure| level.values.value(figure));
    let table = figures::table(levels, &columns, &|level| {
        let missed = level.open_loop.as_ref().is_some_and(|it| it.skipped > 0 || it.queued > 0);
        if missed { Tone::Caution } else { Tone::Plain }
    });
    let note = "latency counts from the intended start; lag is the generator's own lateness";
    Some(Sheet::new("Open loop", note, table))
}
