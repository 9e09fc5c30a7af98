//! How much higher a request rate of a series may be without noise.

use webstone_judge::series::LevelSummary;

use super::sheets::rate;
use crate::document::Tone;
use crate::document::table::Sheet;

/// Whether noise may have lowered any of these rates.
pub(super) fn any<'a>(levels: impl IntoIterator<Item = &'a LevelSummary>) -> bool {
    levels.into_iter().any(|level| level.noise_factor.is_some())
}

/// The request rate that a level may have without noise; nothing where there was none that matters.
pub(super) fn up_to(level: &LevelSummary) -> Option<String> {
    let most = level.request_rate * level.noise_factor?;
    Some(if most.is_finite() { rate(most) } else { "∞".to_owned() })
}

/// A table with what its column of bounds holds.
pub(super) fn explained(mut sheet: Sheet) -> Sheet {
    let text = "Up to: what the rate may be without the noise of its level. A machine that was faster in earlier runs is not in it, \
                because all cells are slow alike.";
    sheet.note(Tone::Faint, text);
    sheet
}
