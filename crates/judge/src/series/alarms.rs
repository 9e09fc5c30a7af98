//! Figures of a series that cannot be true, or that nothing can be concluded from. A report shows them before anything else:
//! an efficiency of 3,265 % means that the base was measured wrongly.

use serde::Serialize;

use super::{CellSummary, Scaling, ScalingRow, Spice, SpiceRow, Summary};
use crate::statistics::{Interval, Method};

/// Highest efficiency, in percent, that passes for 100 where one iteration leaves it without an interval.
pub const EFFICIENCY_BARE_PERCENT_MAX: f64 = 110.0;

/// What is wrong with a figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum AlarmKind {
    /// Its interval is wider than its value.
    Inconclusive,
    /// More CPUs do more than their number times the work of one.
    Superlinear,
    /// A program answers faster than files of the same size are served.
    FasterThanFiles,
}

/// A figure that is not to be used as it stands.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Alarm {
    /// The cell, by its place.
    pub cell: usize,
    /// What is wrong.
    pub kind: AlarmKind,
    /// The same in words, with the figure and the likely causes.
    pub sentence: String,
}

/// All alarms of a series.
pub(super) fn of_series(summary: &Summary) -> Vec<Alarm> {
    let cells = &summary.cells;
    let mut alarms = Vec::new();
    for scaling in &summary.scaling {
        alarms.extend(scaling.rows.iter().filter_map(|row| scaled(cells, scaling, row)));
    }
    for spice in &summary.spice {
        alarms.extend(spice.rows.iter().filter_map(|row| spiced(cells, spice, row)));
    }
    alarms
}

/// What is to be said of an efficiency.
enum Judged {
    Inconclusive,
    TooHigh,
}

fn judged(efficiency: &Interval) -> Option<Judged> {
    let too_high = match efficiency.method {
        Method::None => efficiency.point > EFFICIENCY_BARE_PERCENT_MAX,
        _ => efficiency.low > 100.0,
    };
    match (too_high, efficiency.is_wider_than_its_value()) {
        (true, _) => Some(Judged::TooHigh),
        (false, true) => Some(Judged::Inconclusive),
        (false, false) => None,
    }
}

/// `3265 % (2900 to 3630 %)`.
fn said(efficiency: &Interval) -> String {
    match efficiency.method {
        Method::None => format!("{:.0} % (one iteration)", efficiency.point),
        _ => format!("{:.0} % ({:.0} to {:.0} %)", efficiency.point, efficiency.low, efficiency.high),
    }
}

fn scaled(cells: &[CellSummary], scaling: &Scaling, row: &ScalingRow) -> Option<Alarm> {
    let base = scaling.rows.first().filter(|base| base.cell != row.cell)?;
    let efficiency = row.efficiency_percent?;
    let (kind, sentence) = match judged(&efficiency)? {
        Judged::Inconclusive => {
            (AlarmKind::Inconclusive, inconclusive(cells, row.cell, base.cell, "scaling", &efficiency)?)
        }
        Judged::TooHigh => (
            AlarmKind::Superlinear,
            format!(
                "{}: an efficiency of {} is impossible with {} CPUs. Most likely its baseline, {}, came out too low: other programs \
                 used its CPU, it started cold, or it shares CPUs with the load generator. Caches that \
                 grow with the CPUs explain a few percent at most. Do not use this figure; stop other programs and measure both again",
                cells[row.cell].name,
                said(&efficiency),
                row.cpus,
                cells[base.cell].name
            ),
        ),
    };
    Some(Alarm { cell: row.cell, kind, sentence })
}

fn spiced(cells: &[CellSummary], spice: &Spice, row: &SpiceRow) -> Option<Alarm> {
    let files = spice.rows.first().filter(|files| files.cell != row.cell)?;
    let efficiencies = || [row.efficiency_percent, row.efficiency_told_percent].into_iter().flatten();
    let too_high = efficiencies().find(|one| matches!(judged(one), Some(Judged::TooHigh)));
    if let Some(efficiency) = too_high {
        let sentence = format!(
            "{}: an efficiency of {} says that a program answers faster than files of the same size are read. Most likely its \
             baseline, {}, came out too low: other programs used its CPU, it started cold (files not yet in memory), or \
             something other than the server was the bottleneck; or the program's answers are smaller. Do not use this figure; \
             stop other programs and measure both again",
            cells[row.cell].name,
            said(&efficiency),
            cells[files.cell].name
        );
        return Some(Alarm { cell: row.cell, kind: AlarmKind::FasterThanFiles, sentence });
    }
    let unclear = efficiencies().find(|one| judged(one).is_some())?;
    let sentence = inconclusive(cells, row.cell, files.cell, "efficiency", &unclear)?;
    Some(Alarm { cell: row.cell, kind: AlarmKind::Inconclusive, sentence })
}

/// `None` if the figures of either cell are in doubt, which its verdict says already.
fn inconclusive(
    cells: &[CellSummary],
    cell: usize,
    base: usize,
    of: &str,
    efficiency: &Interval,
) -> Option<String> {
    if [cell, base].into_iter().any(|place| !cells[place].is_sound()) {
        return None;
    }
    Some(format!(
        "{}: nothing can be concluded about its {of}: {}, an interval that is wider than the value",
        cells[cell].name,
        said(efficiency)
    ))
}
