//! A record of a window from which slices were left out.

use webstone_measure::metrics::{LeftOut, Second};
use webstone_measure::window_slices::WindowSlice;
use webstone_model::record::RunRecord;

use super::{SECOND, hit, identities};

/// [`hit`] with another second that was disturbed and is in no figure but the seconds.
pub fn sliced() -> RunRecord {
    let mut record = hit();
    record.id = "20261127-100000-sliced".to_owned();
    let run = &mut record.iterations[0];
    let disturbed = Second {
        requests: 900,
        response_ns: 900 * 60_000_000,
        response_ns_max: 90_000_000,
        ..Second::default()
    };
    run.measured.seconds.0.insert(2, disturbed);
    let total = Second { response_ns_max: 0, ..disturbed };
    run.measured.left_out = LeftOut { ns: SECOND, slices: 2, total };
    let slice = |number: u64| WindowSlice {
        ns: SECOND / 2,
        lost_percent: if number == 4 { 37.5 } else { 0.4 },
        left_out: match number {
            4 => Some(
                "the server lost 37.5 % of its CPU time: other programs used it, mostly cc (process 7)"
                    .to_owned(),
            ),
            5 => Some("the slice before was disturbed".to_owned()),
            _ => None,
        },
        ..WindowSlice::default()
    };
    run.slices = (0..14).map(slice).collect();
    run.identities = identities(&run.measured, 64);
    record
}
