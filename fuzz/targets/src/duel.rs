//! Stored duels, as another version, another program or a bad disk may have left them.

use webstone_judge::duel::{consistency, course, of_record};
use webstone_model::duel::DuelFigure;
use webstone_store::duel::{parse_record, with_slices};

/// Any duel that can be read is judged, and its contradictions are found. The input is `duel.json`, then a zero byte and the slices.
pub(crate) fn duel(data: &[u8]) {
    let (json, slices) = match data.iter().position(|byte| *byte == 0) {
        Some(at) => (&data[..at], &data[at + 1..]),
        None => (data, &[][..]),
    };
    let Ok(record) = parse_record(json) else { return };
    let Ok(record) = with_slices(record, std::str::from_utf8(slices).unwrap_or_default()) else { return };
    for of in of_record(&record).comparisons {
        for ratio in &of.ratios {
            assert!(ratio.low.is_nan() || ratio.low <= ratio.high, "{ratio:?}");
        }
        for figure in DuelFigure::ALL {
            course(&record, of.contestant, figure);
        }
    }
    consistency::check(&record);
}
