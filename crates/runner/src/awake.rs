//! The default of whether the load generator stays awake while it waits (`docs/decisions/0071-awake-in-runs.md`).

use webstone_lab::environment::is_virtual;
use webstone_lab::machine::{Root, cpus};
use webstone_lab::priority;
use webstone_model::spec::RunSpec;

use crate::placement::{Placement, ServerPlace};

/// It does on a virtual machine, where waking it would cost the server much; not where a quota counts its CPU time, or where it
/// keeps the normal priority to leave other programs their CPU time.
pub(crate) fn by_default(spec: &RunSpec, at: ServerPlace, placement: &Placement, root: &Root) -> bool {
    let may = is_virtual(root) && cpus(root).quota.is_none() && !priority::stays_normal();
    may && suits(spec, at, placement)
}

/// In closed loop, where the server is webstone's own and has other CPUs. Not where the relay of a path needs a CPU, clients think, or
/// other hosts make the load.
fn suits(spec: &RunSpec, at: ServerPlace, placement: &Placement) -> bool {
    let is_busy = spec.load.rate.is_none() && spec.client.think.is_none();
    let makes_it_here = spec.generators.is_empty() && spec.server.path.is_none();
    at == ServerPlace::Ours && is_busy && makes_it_here && placement.is_apart()
}

#[cfg(test)]
mod tests {
    use webstone_measure::units::Nanos;

    use super::*;

    #[test]
    fn it_waits_awake_beside_its_own_server_alone() {
        let apart = Placement { server: vec![0], workers_cpus: vec![1], workers: 1, ..Placement::default() };
        let spec = RunSpec::default();
        assert!(suits(&spec, ServerPlace::Ours, &apart));
        for at in [ServerPlace::ThisHost, ServerPlace::Elsewhere] {
            assert!(!suits(&spec, at, &apart), "{at:?}");
        }
        let together = Placement { workers_cpus: vec![0], ..apart.clone() };
        let too_many = Placement { workers: 2, ..apart.clone() };
        let with_origin = Placement { origin: vec![1], ..apart.clone() };
        for placement in [together, too_many, with_origin, Placement::default()] {
            assert!(!suits(&spec, ServerPlace::Ours, &placement), "{placement:?}");
        }
        let mut open_loop = spec.clone();
        open_loop.load.rate = Some("100".parse().unwrap());
        let mut thinking = spec.clone();
        thinking.client.think = Some(Nanos::from_millis(1));
        let mut over_a_path = spec.clone();
        over_a_path.server.path = Some("rtt=1ms".parse().unwrap());
        for spec in [open_loop, thinking, over_a_path] {
            assert!(!suits(&spec, ServerPlace::Ours, &apart));
        }
    }
}
