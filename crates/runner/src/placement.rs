//! Which CPUs the server under test gets and which the load generator gets. Pure: facts in, decision out.
//!
//! The rule: whole cores are shared out, never the hardware threads of one core, because two threads of a core slow each other down and a
//! generator must not take from the server what it measures. A server on this host gets the lower half of the cores, and the odd one: a
//! reference server spends more CPU on a request than the generator. A remote server leaves every core to the generator. An origin that is
//! started for a proxy gets cores that are left, else the smaller half of the proxy's, else of the generator's, else it shares the proxy's.
//! What the specification says is followed, and only commented on.

use webstone_lab::cpus::{Cpus, cpu_list};
use webstone_model::spec::{GeneratorSpec, ServerSpec, parse_cpu_list};

/// Where the server under test runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ServerPlace {
    /// Started by this program, which pins it.
    Ours,
    /// On this host, but somebody else's: it is left room and not pinned.
    ThisHost,
    /// On another host.
    Elsewhere,
}

impl ServerPlace {
    /// Of a server of this program, or of one that is on this host or not.
    pub(crate) fn seen_from(ours: bool, this_host: bool) -> ServerPlace {
        match (ours, this_host) {
            (true, _) => ServerPlace::Ours,
            (false, true) => ServerPlace::ThisHost,
            (false, false) => ServerPlace::Elsewhere,
        }
    }
}

/// The decision.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Placement {
    /// CPUs of the server; of somebody else's those that it was found on; empty where that is not known.
    pub server: Vec<u32>,
    /// CPUs of the origin that is started for a proxy; empty without one.
    pub origin: Vec<u32>,
    /// CPUs of the generator's workers, in turn.
    pub workers_cpus: Vec<u32>,
    /// Number of workers, at least 1.
    pub workers: u32,
    /// What the user should know about the decision.
    pub warnings: Vec<String>,
}

impl Placement {
    /// Whether each worker has a CPU that neither another one nor the server needs, or its origin.
    pub(crate) fn is_apart(&self) -> bool {
        !self.server.is_empty()
            && self.workers_cpus.len() >= self.workers as usize
            && self.workers_cpus.iter().all(|cpu| !self.server.contains(cpu) && !self.origin.contains(cpu))
    }
}

/// Why a placement that was asked for is not possible.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PlacementError {
    /// A list of CPUs cannot be read.
    #[error("{option}: {detail}")]
    NotAList {
        /// The option.
        option: &'static str,
        /// What is wrong with its value.
        detail: String,
    },
    /// A CPU is named that this process may not use.
    #[error("{option} names CPU {cpu}, but this process may run only on CPUs {allowed}")]
    NotAllowed {
        /// The option.
        option: &'static str,
        /// The CPU.
        cpu: u32,
        /// Those that are allowed, as a list.
        allowed: String,
    },
}

impl PlacementError {
    /// What to do about it.
    pub fn hint(&self) -> String {
        match self {
            PlacementError::NotAList { option, .. } => format!("write {option} as in 0-1,4, or leave it out"),
            PlacementError::NotAllowed { allowed, .. } => {
                format!("choose from {allowed}, or widen the set (taskset, the container's cpuset)")
            }
        }
    }
}

/// Decides. `pinned_to` are the CPUs that somebody else's server on this host was found to run on; empty where that is
/// not known. They are not decided here, only compared.
pub fn place(
    cpus: &Cpus,
    at: ServerPlace,
    generator: &GeneratorSpec,
    server: &ServerSpec,
    pinned_to: &[u32],
) -> Result<Placement, PlacementError> {
    let asked_workers = listed("--cpus", &generator.cpus, cpus)?;
    let asked_server = match at {
        ServerPlace::Ours => listed("--server-cpus", &server.cpus, cpus)?,
        _ => Vec::new(),
    };
    let asked_origin = match at == ServerPlace::Ours && server.starts_origin() {
        true => Some(listed("--server-origin-cpus", &server.origin_cpus, cpus)?),
        false => None,
    };
    let mut placement = Placement::default();
    let cores = within_quota(cpus, &mut placement.warnings);
    let all: Vec<u32> = cores.concat();
    let but = |taken: &[u32]| -> Vec<u32> {
        let left: Vec<u32> = all.iter().copied().filter(|cpu| !taken.contains(cpu)).collect();
        if left.is_empty() { all.clone() } else { left }
    };
    let (for_server, for_workers) = match at {
        ServerPlace::Elsewhere => (Vec::new(), all.clone()),
        _ => halves(&cores, &mut placement.warnings),
    };
    placement.server = match (asked_server.is_empty(), asked_workers.is_empty()) {
        (false, _) => asked_server.clone(),
        (true, false) if at != ServerPlace::Elsewhere => but(&asked_workers),
        (true, _) => for_server,
    };
    placement.workers_cpus = match (asked_workers.is_empty(), asked_server.is_empty()) {
        (false, _) => asked_workers,
        (true, false) => but(&asked_server),
        (true, true) => for_workers,
    };
    if let Some(asked) = asked_origin {
        let decided = [!server.cpus.trim().is_empty(), !generator.cpus.trim().is_empty()];
        give_origin(&mut placement, &cores, asked, decided);
    }
    placement.workers = match generator.workers {
        0 => placement.workers_cpus.len() as u32,
        asked => asked,
    };
    comment(&mut placement, at, generator.pin, pinned_to);
    if at != ServerPlace::Ours {
        placement.server = pinned_to.to_vec();
    }
    Ok(placement)
}

fn listed(option: &'static str, text: &str, cpus: &Cpus) -> Result<Vec<u32>, PlacementError> {
    let list = parse_cpu_list(text).map_err(|detail| PlacementError::NotAList { option, detail })?;
    let allowed = cpus.all();
    match list.iter().find(|cpu| !allowed.contains(cpu)) {
        Some(cpu) => Err(PlacementError::NotAllowed { option, cpu: *cpu, allowed: cpu_list(&allowed) }),
        None => Ok(list),
    }
}

/// The cores that the control group's quota can keep busy: threads on more would be stopped in turn, in the middle of
/// a measurement.
fn within_quota(cpus: &Cpus, warnings: &mut Vec<String>) -> Vec<Vec<u32>> {
    let allowed: usize = cpus.cores.iter().map(Vec::len).sum();
    let Some(quota) = cpus.quota.filter(|quota| *quota < allowed as f64) else { return cpus.cores.clone() };
    let usable = (quota.floor() as usize).max(1);
    warnings.push(format!(
        "the control group grants {quota:.2} CPUs of the {allowed} allowed; {usable} used, and the kernel may still \
         pause the run when the quota is spent"
    ));
    // A quota is of CPU time, wherever it is used: two hardware threads of one core would only slow each other down.
    let mut taken = vec![0; cpus.cores.len()];
    let mut left = usable;
    while left > 0 {
        for (taken, core) in taken.iter_mut().zip(&cpus.cores) {
            if *taken < core.len() && left > 0 {
                (*taken, left) = (*taken + 1, left - 1);
            }
        }
    }
    let cores = taken.into_iter().zip(&cpus.cores).map(|(taken, core)| core[..taken].to_vec());
    cores.filter(|core| !core.is_empty()).collect()
}

/// The server's half and the generator's half.
fn halves(cores: &[Vec<u32>], warnings: &mut Vec<String>) -> (Vec<u32>, Vec<u32>) {
    match cores {
        [] => (Vec::new(), Vec::new()),
        [only] if only.len() > 1 => {
            warnings.push(format!(
                "server and generator share one physical core (CPUs {}): each slows the other down",
                cpu_list(only)
            ));
            let server = only.len().div_ceil(2);
            (only[..server].to_vec(), only[server..].to_vec())
        }
        // The same CPU for both; `comment` says what that means.
        [only] => (only.clone(), only.clone()),
        many => {
            let server = many.len().div_ceil(2);
            let sorted = |part: &[Vec<u32>]| {
                let mut cpus = part.concat();
                cpus.sort_unstable();
                cpus
            };
            (sorted(&many[..server]), sorted(&many[server..]))
        }
    }
}

/// Gives the origin its CPUs. Server and workers leave it those that were asked for it, unless they have no others;
/// `decided` says whether theirs were asked for: those stay as they are.
fn give_origin(placement: &mut Placement, cores: &[Vec<u32>], asked: Vec<u32>, decided: [bool; 2]) {
    let Placement { server, workers_cpus, origin, .. } = placement;
    let leave = |cpus: &mut Vec<u32>, taken: &[u32], decided: bool| {
        let left: Vec<u32> = cpus.iter().copied().filter(|cpu| !taken.contains(cpu)).collect();
        if !decided && !left.is_empty() {
            *cpus = left;
        }
    };
    *origin = asked;
    if origin.is_empty() {
        // Whole cores only: those of which neither has a thread, then half of those that one has whole.
        let whole = |of: &dyn Fn(&u32) -> bool| -> Vec<&Vec<u32>> {
            cores.iter().filter(|core| core.iter().all(of)).collect()
        };
        let free = whole(&|cpu| !server.contains(cpu) && !workers_cpus.contains(cpu));
        let halves = [(&*server, decided[0]), (&*workers_cpus, decided[1])].map(|(cpus, decided)| {
            let own = if decided { Vec::new() } else { whole(&|cpu| cpus.contains(cpu)) };
            own[own.len().div_ceil(2)..].to_vec()
        });
        let given = std::iter::once(free).chain(halves).find(|given| !given.is_empty());
        *origin =
            given.map_or_else(|| server.clone(), |given| given.into_iter().flatten().copied().collect());
        origin.sort_unstable();
    }
    leave(server, origin, decided[0]);
    leave(workers_cpus, origin, decided[1]);
}

fn comment(placement: &mut Placement, at: ServerPlace, pinned: bool, pinned_to: &[u32]) {
    let Placement { server, workers_cpus, workers, warnings, .. } = placement;
    if workers_cpus.is_empty() {
        *workers = (*workers).max(1);
    }
    // A server that somebody pinned away from the workers needs no advice.
    let is_apart = !pinned_to.is_empty() && !pinned_to.iter().any(|cpu| workers_cpus.contains(cpu));
    let shared: Vec<u32> = workers_cpus.iter().copied().filter(|cpu| server.contains(cpu)).collect();
    if at != ServerPlace::Elsewhere && !shared.is_empty() && !is_apart {
        warnings.push(format!(
            "server and generator share CPU {}: the rate is that of both together, not the server's alone",
            cpu_list(&shared)
        ));
    } else if at == ServerPlace::ThisHost && !is_apart {
        warnings.push(format!(
            "the server is on this host: the generator keeps to CPU {}; pin the server to CPU {} \
             (taskset -c), or measure from another host",
            cpu_list(workers_cpus),
            cpu_list(server)
        ));
    }
    if pinned && *workers as usize > workers_cpus.len() && !workers_cpus.is_empty() {
        warnings.push(format!("{workers} workers share CPU {}", cpu_list(workers_cpus)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use webstone_model::spec::Software;

    fn cpus(cores: &[&[u32]]) -> Cpus {
        Cpus { cores: cores.iter().map(|core| core.to_vec()).collect(), quota: None }
    }

    fn placed(cpus: &Cpus, at: ServerPlace, workers: u32, generator: &str, server: &str) -> Placement {
        let generator = GeneratorSpec { workers, cpus: generator.into(), ..GeneratorSpec::default() };
        let server = ServerSpec { cpus: server.into(), ..ServerSpec::default() };
        place(cpus, at, &generator, &server, &[]).unwrap()
    }

    #[test]
    fn an_embedded_server_gets_the_larger_half_of_the_cores() {
        let single = |n: u32| Cpus { cores: (0..n).map(|cpu| vec![cpu]).collect(), quota: None };
        for (n, server, workers) in
            [(2, "0", "1"), (3, "0-1", "2"), (4, "0-1", "2-3"), (7, "0-3", "4-6"), (64, "0-31", "32-63")]
        {
            let placement = placed(&single(n), ServerPlace::Ours, 0, "", "");
            assert_eq!(cpu_list(&placement.server), server, "{n} CPUs");
            assert_eq!(cpu_list(&placement.workers_cpus), workers, "{n} CPUs");
            assert_eq!(placement.workers as usize, placement.workers_cpus.len());
            assert_eq!(placement.warnings, Vec::<String>::new());
        }
    }

    #[test]
    fn one_cpu_is_shared_with_a_warning() {
        let placement = placed(&cpus(&[&[3]]), ServerPlace::Ours, 0, "", "");
        assert_eq!((placement.server, placement.workers_cpus, placement.workers), (vec![3], vec![3], 1));
        assert_eq!(placement.warnings.len(), 1);
        assert!(placement.warnings[0].contains("share CPU 3"), "{:?}", placement.warnings);
    }

    #[test]
    fn hardware_threads_of_a_core_stay_together() {
        let placement = placed(&cpus(&[&[0, 4], &[1, 5], &[2, 6], &[3, 7]]), ServerPlace::Ours, 0, "", "");
        assert_eq!(cpu_list(&placement.server), "0-1,4-5");
        assert_eq!(cpu_list(&placement.workers_cpus), "2-3,6-7");
    }

    #[test]
    fn two_threads_of_one_core_are_split_with_a_warning() {
        let placement = placed(&cpus(&[&[0, 1]]), ServerPlace::Ours, 0, "", "");
        assert_eq!((placement.server, placement.workers_cpus), (vec![0], vec![1]));
        assert!(placement.warnings[0].contains("one physical core"), "{:?}", placement.warnings);
    }

    #[test]
    fn a_remote_server_leaves_every_cpu_to_the_generator() {
        let placement = placed(&cpus(&[&[0], &[1], &[2]]), ServerPlace::Elsewhere, 0, "", "");
        assert_eq!((cpu_list(&placement.workers_cpus).as_str(), placement.workers), ("0-2", 3));
        assert_eq!((placement.server, placement.warnings), (vec![], vec![]));
    }

    #[test]
    fn somebody_elses_server_on_this_host_is_left_its_half() {
        let placement = placed(&cpus(&[&[0], &[1]]), ServerPlace::ThisHost, 0, "", "");
        assert_eq!((placement.server, placement.workers_cpus), (vec![], vec![1]));
        assert!(placement.warnings[0].contains("pin the server to CPU 0"), "{:?}", placement.warnings);
    }

    #[test]
    fn a_server_that_is_pinned_already_is_not_advised_to_be() {
        let (generator, server) = (GeneratorSpec::default(), ServerSpec::default());
        let at = |pinned_to: &[u32]| {
            place(&cpus(&[&[0], &[1]]), ServerPlace::ThisHost, &generator, &server, pinned_to).unwrap()
        };
        assert_eq!((at(&[0]).server, at(&[0]).warnings), (vec![0], vec![]));
        assert_eq!(at(&[0, 1]).warnings.len(), 1, "it may run beside the generator");
    }

    #[test]
    fn an_origin_has_cores_of_its_own_where_there_are_enough() {
        let single = |n: u32| Cpus { cores: (0..n).map(|cpu| vec![cpu]).collect(), quota: None };
        let placed = |cpus: &Cpus, generator: &str, server: &str, origin: &str| {
            let generator = GeneratorSpec { cpus: generator.into(), ..GeneratorSpec::default() };
            let server = ServerSpec {
                software: Software::Haproxy,
                cpus: server.into(),
                origin_cpus: origin.into(),
                ..ServerSpec::default()
            };
            let placed = place(cpus, ServerPlace::Ours, &generator, &server, &[]).unwrap();
            assert_eq!(placed.workers as usize, placed.workers_cpus.len());
            [placed.server, placed.origin, placed.workers_cpus].map(|cpus| cpu_list(&cpus)).join(" ")
        };
        // Proxy, origin, generator.
        for (n, expected) in [(1, "0 0 0"), (2, "0 0 1"), (3, "0 1 2"), (4, "0 1 2-3"), (8, "0-1 2-3 4-7")] {
            assert_eq!(placed(&single(n), "", "", ""), expected, "{n} CPUs");
        }
        let eight = single(8);
        assert_eq!(placed(&eight, "7", "0-1", ""), "0-1 2-6 7", "what is left");
        assert_eq!(placed(&eight, "", "0-1", ""), "0-1 5-7 2-4", "of the generator's");
        assert_eq!(placed(&eight, "4-7", "0-3", ""), "0-3 0-3 4-7", "all were given away: the proxy's");
        assert_eq!(placed(&eight, "", "", "7"), "0-3 7 4-6");
        assert_eq!(placed(&eight, "", "", "0-3"), "0-3 0-3 4-7", "the proxy needs some");
        assert_eq!(placed(&single(2), "", "", "1"), "0 1 1");
        let threads = cpus(&[&[0, 4], &[1, 5], &[2, 6], &[3, 7]]);
        assert_eq!(placed(&threads, "", "", ""), "0,4 1,5 2-3,6-7", "threads of a core stay together");
        let without = ServerSpec { origin: Some("http://a:1".into()), ..ServerSpec::default() };
        let server = ServerSpec { software: Software::Haproxy, ..without };
        let placed = place(&eight, ServerPlace::Ours, &GeneratorSpec::default(), &server, &[]).unwrap();
        assert_eq!((cpu_list(&placed.server).as_str(), placed.origin), ("0-3", vec![]));
    }

    #[test]
    fn what_is_asked_for_is_done() {
        let four = cpus(&[&[0], &[1], &[2], &[3]]);
        let by_workers = placed(&four, ServerPlace::Ours, 0, "0", "");
        assert_eq!((cpu_list(&by_workers.server).as_str(), by_workers.workers_cpus), ("1-3", vec![0]));
        let by_server = placed(&four, ServerPlace::Ours, 2, "", "3");
        assert_eq!((by_server.server, cpu_list(&by_server.workers_cpus).as_str()), (vec![3], "0-2"));
        assert_eq!(by_server.workers, 2);
        let overlap = placed(&four, ServerPlace::Ours, 0, "1-2", "2-3");
        assert!(overlap.warnings[0].contains("share CPU 2"), "{:?}", overlap.warnings);
        let crowded = placed(&four, ServerPlace::Elsewhere, 8, "1", "");
        assert_eq!((crowded.workers, crowded.workers_cpus), (8, vec![1]));
        assert!(crowded.warnings[0].contains("8 workers share CPU 1"), "{:?}", crowded.warnings);
    }

    #[test]
    fn a_quota_bounds_the_cpus_used() {
        let limited = Cpus { quota: Some(2.5), ..cpus(&[&[0], &[1], &[2], &[3]]) };
        let placement = placed(&limited, ServerPlace::Ours, 0, "", "");
        assert_eq!((placement.server, placement.workers_cpus), (vec![0], vec![1]));
        assert!(placement.warnings[0].contains("2.50 CPUs of the 4"), "{:?}", placement.warnings);
        let threads = cpus(&[&[0, 4], &[1, 5], &[2, 6], &[3, 7]]);
        for (quota, server, workers) in [(2.9, "0", "1"), (4.0, "0-1", "2-3"), (6.0, "0-1,4-5", "2-3")] {
            let placement =
                placed(&Cpus { quota: Some(quota), ..threads.clone() }, ServerPlace::Ours, 0, "", "");
            assert_eq!(cpu_list(&placement.server), server, "of {quota} CPUs");
            assert_eq!(cpu_list(&placement.workers_cpus), workers, "of {quota} CPUs");
        }
        let starved = Cpus { quota: Some(0.5), ..cpus(&[&[0], &[1]]) };
        assert_eq!(placed(&starved, ServerPlace::Ours, 0, "", "").workers_cpus, [0]);
    }

    #[test]
    fn impossible_wishes_name_the_option_and_the_allowed_set() {
        let wish = |text: &str| {
            let generator = GeneratorSpec { cpus: text.into(), ..GeneratorSpec::default() };
            let two = cpus(&[&[0], &[1]]);
            place(&two, ServerPlace::Elsewhere, &generator, &ServerSpec::default(), &[]).unwrap_err()
        };
        assert_eq!(wish("1-2").to_string(), "--cpus names CPU 2, but this process may run only on CPUs 0-1");
        assert!(wish("one").to_string().starts_with("--cpus: `one` is not a list"));
    }

    #[test]
    fn lists_are_written_as_linux_writes_them() {
        for text in ["", "0", "0-1", "0,2-4,9"] {
            assert_eq!(cpu_list(&parse_cpu_list(text).unwrap()), text);
        }
        assert_eq!(cpu_list(&[3, 3, 1]), "3,3,1");
    }
}
