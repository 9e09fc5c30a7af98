//! Streams and frames of a run in HTTP/2, and what servers refused. Other runs have no such table.

use webstone_measure::figures::Group;

use super::figures;
use crate::document::Tone;
use crate::document::table::Sheet;
use crate::summary::Level;

pub(crate) fn sheet(levels: &[Level<'_>]) -> Option<Sheet> {
    levels.iter().find(|level| level.http2.is_some())?;
    let columns = figures::columns(levels, &[Group::Http2], &|level, figure| level.values.value(figure));
    let table = figures::table(levels, &columns, &|level| {
        let was_refused = level.http2.is_some_and(|counts| counts.refused > 0 || counts.reset > 0);
        if was_refused { Tone::Caution } else { Tone::Plain }
    });
    Some(Sheet::new("HTTP/2", "streams of all connections together, unless stated otherwise", table))
}
