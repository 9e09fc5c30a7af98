//! How equally clients were served, level by level. A server that serves some clients well and lets others starve can
//! still show a high rate.

use webstone_measure::figures::Group;

use super::figures;
use crate::document::Tone;
use crate::document::table::Sheet;
use crate::summary::Level;

pub(crate) fn sheet(levels: &[Level<'_>]) -> Option<Sheet> {
    // One client has nobody to be compared with.
    if levels.iter().all(|level| level.clients < 2 || level.fairness.is_none()) {
        return None;
    }
    let columns = figures::columns(levels, &[Group::Fairness], &|level, figure| level.values.value(figure));
    let table = figures::table(levels, &columns, &|level| {
        let starved = level.fairness.as_ref().is_some_and(|fairness| fairness.starved > 0);
        if starved { Tone::Caution } else { Tone::Plain }
    });
    Some(Sheet::new("Fairness", "Jain's index: 1 when all clients are served equally", table))
}
