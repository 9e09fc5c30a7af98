//! What a machine can have done in a window, and what no machine can: figures that come from an agent on another host, or from a
//! record from somebody else, are compared with the time in which they were counted.

use webstone_model::record::{CpuUse, HostUse, ProcessUse, ServerUse};

/// CPUs of one host: the kernel's own limit is 8,192.
const CPUS_MAX: usize = 8_192;
/// Most network interfaces of one host through which packets to a target go.
const LINKS_MAX: usize = 1_024;
/// The kernel counts CPU time in ticks, and reads CPUs one after the other: times may be off by this share, and this much besides.
const SLACK_SHARE: u64 = 10;
const SLACK_NS: u64 = 250_000_000;

/// Readings may lie further apart than a window's ends, or closer together, by this share of the window and this much besides.
const READ_APART_SHARE: u64 = 10;
const READ_APART_NS: u64 = 100_000_000;

/// Whether what was counted between two readings can be taken for a window's: on a very busy machine the kernel may be read so late
/// that they lie far outside its ends. A window that never opened has no times to compare.
pub fn is_of_window(read_for_ns: u64, window_ns: u64) -> bool {
    window_ns == 0 || read_for_ns.abs_diff(window_ns) <= window_ns / READ_APART_SHARE + READ_APART_NS
}

/// Whether CPUs were busy no longer than there was time.
///
/// # Errors
/// The first CPU that was busy for longer, in words.
pub fn of_host(host: &HostUse) -> Result<(), String> {
    if host.cpus.len() > CPUS_MAX || host.links.len() > LINKS_MAX {
        return Err(format!(
            "it reported {} CPUs and {} network interfaces; no host has more than {CPUS_MAX} and {LINKS_MAX}",
            host.cpus.len(),
            host.links.len()
        ));
    }
    let most_ns = most_ns(host.elapsed_ns);
    for CpuUse { cpu, busy_ns, user_ns, system_ns, interrupt_ns, idle_ns, stolen_ns, .. } in &host.cpus {
        // Not their sum: the kernel books idle time only when it ends, so that a second of it may be of before the window.
        let all_ns = busy_ns.saturating_add(*stolen_ns).max(*idle_ns);
        let parts_ns = user_ns.saturating_add(*system_ns).saturating_add(*interrupt_ns);
        if all_ns > most_ns || parts_ns > busy_ns.saturating_add(SLACK_NS) {
            return Err(format!(
                "CPU {cpu} cannot have been busy for {} (its parts: {}), idle for {} and stolen for {} within {}",
                seconds(*busy_ns),
                seconds(parts_ns),
                seconds(*idle_ns),
                seconds(*stolen_ns),
                seconds(host.elapsed_ns)
            ));
        }
    }
    Ok(())
}

/// Whether a server's processes used no more CPU time than the host's CPUs had in a time, in nanoseconds, and were blocked at no more
/// readings than were taken.
///
/// # Errors
/// What cannot be, in words.
pub fn of_server(server: Option<&ServerUse>, host: &HostUse, elapsed_ns: u64) -> Result<(), String> {
    let Some(server) = server else { return Ok(()) };
    if let Some(ProcessUse { readings, readings_blocked, .. }) = server.processes
        && readings_blocked > readings
    {
        return Err(format!(
            "the server cannot have been blocked at {readings_blocked} of {readings} readings"
        ));
    }
    of_cpu_time(server.user_ns.saturating_add(server.system_ns), host.cpus.len(), elapsed_ns)
}

/// Whether a server's processes used no more CPU time than this many CPUs had in a time; 0: their number is unknown.
pub(crate) fn of_cpu_time(used_ns: u64, cpus: usize, elapsed_ns: u64) -> Result<(), String> {
    let cpus = if cpus == 0 { CPUS_MAX } else { cpus };
    if used_ns <= most_ns(elapsed_ns).saturating_mul(cpus as u64) {
        return Ok(());
    }
    Err(format!(
        "the server cannot have used {} of CPU time within {} on at most {cpus} CPUs",
        seconds(used_ns),
        seconds(elapsed_ns)
    ))
}

fn most_ns(elapsed_ns: u64) -> u64 {
    elapsed_ns.saturating_add(elapsed_ns / SLACK_SHARE).saturating_add(SLACK_NS)
}

fn seconds(nanos: u64) -> String {
    format!("{:.3} s", nanos as f64 / 1e9)
}

#[cfg(test)]
mod tests {
    use super::*;
    use webstone_model::record::LinkUse;

    fn host(busy_ns: u64, idle_ns: u64) -> HostUse {
        let cpu = CpuUse { busy_ns, user_ns: busy_ns, idle_ns, ..CpuUse::default() };
        HostUse { elapsed_ns: 10_000_000_000, cpus: vec![cpu; 2], ..HostUse::default() }
    }

    #[test]
    fn a_cpu_cannot_have_more_time_than_there_was() {
        assert_eq!(of_host(&host(4_000_000_000, 6_010_000_000)), Ok(()));
        assert_eq!(of_host(&host(10_000_000_000, 3_000_000_000)), Ok(()), "idle before the window");
        let error = of_host(&host(12_000_000_000, 9_000_000_000)).unwrap_err();
        assert_eq!(
            error,
            "CPU 0 cannot have been busy for 12.000 s (its parts: 12.000 s), idle for 9.000 s and stolen for 0.000 s within 10.000 s"
        );
        assert!(of_host(&host(0, 12_000_000_000)).is_err());
        assert!(of_host(&host(u64::MAX, u64::MAX)).is_err());
        let mut parts = host(4_000_000_000, 6_000_000_000);
        parts.cpus[1].system_ns = 4_000_000_000;
        assert!(of_host(&parts).is_err());
        let many = HostUse { links: vec![LinkUse::default(); 1_025], ..host(0, 0) };
        assert!(of_host(&many).is_err());
    }

    #[test]
    fn a_server_cannot_use_more_cpus_than_there_are() {
        let used = |user_ns| Some(ServerUse { user_ns, ..ServerUse::default() });
        let host = host(0, 0);
        assert_eq!(of_server(used(20_000_000_000).as_ref(), &host, host.elapsed_ns), Ok(()));
        assert_eq!(of_server(None, &host, host.elapsed_ns), Ok(()));
        for user_ns in [25_000_000_000, u64::MAX] {
            let error = of_server(used(user_ns).as_ref(), &host, host.elapsed_ns).unwrap_err();
            assert!(error.ends_with("of CPU time within 10.000 s on at most 2 CPUs"), "{error}");
        }
    }

    #[test]
    fn a_server_cannot_be_blocked_more_often_than_it_was_read() {
        let read = |readings, readings_blocked| {
            let processes = ProcessUse { readings, readings_blocked, ..ProcessUse::default() };
            of_server(Some(&ServerUse { processes: Some(processes), ..ServerUse::default() }), &host(0, 0), 0)
        };
        assert_eq!(read(4, 4), Ok(()));
        assert_eq!(read(4, 5).unwrap_err(), "the server cannot have been blocked at 5 of 4 readings");
    }
}
