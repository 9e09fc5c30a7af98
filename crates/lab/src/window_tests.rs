//! A window: what is counted from where to where, and what is read too late.

use super::*;
use crate::machine::tests::root_with;

fn watched(server: Option<ProcessTree>, links: &BTreeSet<String>) -> Watched<'_> {
    static NO_TARGETS: BTreeSet<SocketAddr> = BTreeSet::new();
    Watched {
        server,
        origin: None,
        from_start: true,
        links,
        cpus: Vec::new(),
        targets: &NO_TARGETS,
        listening: Ports::default(),
        path: None,
        echoes: Vec::new(),
    }
}

/// A process with these ticks of user time, threads and open files.
fn process(root: &std::path::Path, ticks: u64, threads: u64, descriptors: usize) {
    let directory = root.join("proc/9");
    std::fs::write(
        directory.join("stat"),
        format!("9 (x) S 1 2 3 4 5 6 0 0 0 0 {ticks} 0 0 0 20 0 {threads} 0 99"),
    )
    .unwrap();
    let _ = std::fs::remove_dir_all(directory.join("fd"));
    std::fs::create_dir(directory.join("fd")).unwrap();
    (0..descriptors).for_each(|n| std::fs::write(directory.join(format!("fd/{n}")), "").unwrap());
}

#[test]
fn counts_are_between_opening_and_close_and_peaks_of_all_samples() {
    let (keep, root) = root_with(&[("/proc/9/status", "VmHWM: 8 kB\nVmRSS: 4 kB\n")]);
    let links = BTreeSet::new();
    process(keep.path(), 1, 99, 99);
    let server = Some(ProcessTree::below(&root, 9));
    let mut window = Window::before(Watched { from_start: false, ..watched(server, &links) });
    process(keep.path(), 10, 2, 3);
    window.look(Phase::WarmUp);
    window.look(Phase::Measuring);
    process(keep.path(), 12, 7, 2);
    window.look(Phase::Measuring);
    assert_eq!(window.looks, 1, "the next look is a second away");
    window.next_look = Instant::now();
    window.look(Phase::Measuring);
    process(keep.path(), 15, 1, 5);
    window.look(Phase::Draining);
    process(keep.path(), 99, 99, 99);
    window.look(Phase::Done);
    let Used { host, server, origin, server_read_for, .. } = window.used();
    assert!(server_read_for.is_some());
    assert_eq!(origin, None);
    let processes = server.processes.unwrap();
    assert_eq!((server.user_ns, server.system_ns, server.resident_bytes_max), (50_000_000, 0, 8 << 10));
    assert_eq!(
        (processes.threads_max, processes.descriptors_max, processes.resident_bytes),
        (7, Some(5), 4 << 10)
    );
    assert_eq!(host.probes, 3);
    assert!(host.probe_cpu_ns > 0);
}

#[test]
fn what_a_window_counts_from_is_read_before_it_opens() {
    let (keep, root) = root_with(&[("/proc/9/status", "VmHWM: 8 kB\nVmRSS: 4 kB\n")]);
    let links = BTreeSet::new();
    let ticks_from = |from_start: bool, announced: bool| {
        // Those of the level before.
        process(keep.path(), 1, 99, 99);
        let server = Some(ProcessTree::below(&root, 9));
        let mut window = Window::before(Watched { from_start, ..watched(server, &links) });
        if announced {
            let (long, soon) = (Duration::from_secs(9), Duration::from_secs(9) - SOON);
            // Too early.
            window.opens_in(long);
            assert_eq!(window.until_read(long), Some(soon));
            process(keep.path(), 10, 1, 1);
            window.opens_in(SOON);
            // On a busy machine the reading is over too late, and does not count.
            if window.until_read(SOON) == Some(Duration::ZERO) {
                return None;
            }
            assert_eq!(window.until_read(SOON), Some(SOON - SHORTLY));
            process(keep.path(), 20, 1, 1);
            // Only the last moment counts, and none that was over when the reading was.
            window.opens_in(SOON);
            window.opens_in(Duration::from_nanos(1));
        }
        process(keep.path(), 30, 1, 1);
        window.look(Phase::Measuring);
        process(keep.path(), 40, 1, 1);
        window.look(Phase::Draining);
        let server = window.used().server;
        let processes = server.processes.unwrap();
        assert_eq!((processes.threads_max, processes.descriptors_max), (1, Some(1)));
        Some(server.user_ns / 10_000_000)
    };
    assert!((0..50).any(|_| ticks_from(false, true) == Some(30)));
    // Without an announcement, it is what was there before the level, or at the first look.
    assert_eq!(ticks_from(false, false), Some(10));
    let of_start = ticks_from(true, false).unwrap();
    assert!(of_start == 39 || of_start == 10, "{of_start}: on a busy machine, that was too long ago");
}

#[test]
fn readings_outside_the_window_are_not_used() {
    let read_for = |millis| Used {
        server: ServerUse { user_ns: 7, ..ServerUse::default() },
        server_read_for: Some(Duration::from_millis(millis)),
        origin: Some(OriginUse { server: Some(ServerUse::default()), counted: None }),
        ..Used::default()
    };
    for millis in [800, 1_000, 1_200] {
        let (used, why) = read_for(millis).on_time(1_000_000_000);
        assert_eq!((used.server.user_ns, why), (7, None), "{millis}");
    }
    for (millis, read) in [(799, "0.80"), (1_201, "1.20"), (4_200, "4.20")] {
        let (used, why) = read_for(millis).on_time(1_000_000_000);
        assert_eq!((used.server, used.origin.unwrap().server), (ServerUse::default(), None));
        let wanted = format!("its counters were read over {read} s, and the window was 1.00 s long");
        assert_eq!(why, Some(wanted));
    }
    let unseen = Used { server_read_for: None, ..read_for(0) };
    assert_eq!(unseen.on_time(1_000_000_000).1, None);
}

/// What its processes used until they ended is not what the server used in the window.
#[test]
fn a_server_that_ended_in_a_window_has_no_figures_and_a_reason() {
    let ended = |end: &dyn Fn(&std::path::Path)| {
        let (keep, root) = root_with(&[("/proc/9/status", "VmHWM: 8 kB\nVmRSS: 4 kB\n")]);
        let links = BTreeSet::new();
        process(keep.path(), 10, 2, 3);
        let mut window = Window::before(watched(Some(ProcessTree::below(&root, 9)), &links));
        window.look(Phase::Measuring);
        end(&keep.path().join("proc/9"));
        window.look(Phase::Draining);
        let used = window.used();
        let window_ns = used.host.elapsed_ns;
        used.on_time(window_ns)
    };
    let gone = |directory: &std::path::Path| std::fs::remove_dir_all(directory).unwrap();
    // Its parent has not waited for it.
    let zombie = |directory: &std::path::Path| {
        let stat = std::fs::read_to_string(directory.join("stat")).unwrap();
        std::fs::write(directory.join("stat"), stat.replace(" S ", " Z ")).unwrap();
    };
    for (used, why) in [ended(&gone), ended(&zombie)] {
        assert_eq!(used.server, ServerUse::default());
        assert_eq!(why.as_deref(), Some(SERVER_ENDED));
    }
    // One that was never seen has no reason.
    let links = BTreeSet::new();
    let used = Window::before(watched(None, &links)).used();
    assert_eq!(used.on_time(1).1, None);
}

#[test]
fn a_look_that_costs_much_is_taken_less_often() {
    assert_eq!(pause_after(Duration::from_micros(20)), PAUSE);
    assert_eq!(pause_after(Duration::from_millis(100)), Duration::from_secs(100));
    let links = BTreeSet::new();
    let window = Window::before(watched(None, &links));
    assert_eq!(window.used().server, ServerUse::default(), "of no server nothing is known");
}
