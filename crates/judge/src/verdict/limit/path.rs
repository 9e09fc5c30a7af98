//! The relay of a path between clients and server.

use webstone_model::record::{IterationRecord, PathUse};

/// What it did over all iterations of a level; `None` without a path.
pub(super) fn relay(runs: &[&IterationRecord]) -> Option<PathUse> {
    let used = runs.iter().filter_map(|run| run.host.as_ref()?.path);
    used.reduce(PathUse::plus)
}

/// The same in words.
pub(super) fn text(used: PathUse) -> String {
    let packets = used.both().packets as f64 * 1e9 / used.elapsed_ns.max(1) as f64;
    format!("the path's relay used {:.0} % of a CPU for {packets:.0} packets/s", used.cpu_percent())
}
