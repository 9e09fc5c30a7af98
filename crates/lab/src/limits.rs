//! What the machine allows, read from the kernel, and the one limit that this program raises by itself.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::machine::{Root, control_group, kibibytes_after};

/// What the machine has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Limits {
    /// Descriptors of this process, after raising; the embedded server inherits them.
    pub descriptors: u64,
    /// Local ports for connections to one destination: the size of `net.ipv4.ip_local_port_range`, reserved ones
    /// taken off.
    pub ports: u64,
    /// `net.ipv4.tcp_tw_reuse`: 0 never, 1 always, 2 on loopback.
    pub tw_reuse: u64,
    /// `net.core.somaxconn`.
    pub somaxconn: u64,
    /// Available memory without swapping, in bytes: MemAvailable, or what the control group leaves.
    pub memory_bytes: u64,
}

/// Descriptors allowed to this process before and after [`raise_descriptors`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Raised {
    /// The soft limit found.
    pub from: u64,
    /// The soft limit now.
    pub to: u64,
}

/// Lets this process and its children open `needed` files: raises the soft limit as far as the hard one, and the hard one where
/// the kernel lets it. Returns what the limit was and is; it may still be too low, which the runner's preflight tells.
pub fn raise_descriptors(needed: u64) -> Raised {
    let before = getrlimit(Resource::Nofile);
    let from = before.current.unwrap_or(u64::MAX);
    if from >= needed {
        return Raised { from, to: from };
    }
    let hard = before.maximum.unwrap_or(u64::MAX);
    let wishes = [
        // As many as needed; only a privileged process may exceed the hard limit.
        Rlimit { current: Some(needed), maximum: before.maximum.map(|hard| hard.max(needed)) },
        Rlimit { current: Some(needed.min(hard)), maximum: before.maximum },
    ];
    for wish in wishes {
        if setrlimit(Resource::Nofile, wish).is_ok() {
            break;
        }
    }
    Raised { from, to: getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX) }
}

/// The limits as they are now. A limit that the kernel does not report is taken as absent.
pub fn read(root: &Root) -> Limits {
    Limits {
        descriptors: getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX),
        ports: ports(root),
        tw_reuse: root.number("/proc/sys/net/ipv4/tcp_tw_reuse").unwrap_or(0),
        somaxconn: root.number("/proc/sys/net/core/somaxconn").unwrap_or(u64::MAX),
        memory_bytes: memory(root),
    }
}

/// Ports that the kernel picks from.
fn ports(root: &Root) -> u64 {
    let range = root.text("/proc/sys/net/ipv4/ip_local_port_range").unwrap_or_default();
    let mut words = range.split_whitespace().map(|word| word.parse::<u64>().ok());
    let (Some(Some(low)), Some(Some(high))) = (words.next(), words.next()) else { return u16::MAX.into() };
    let reserved = root.text("/proc/sys/net/ipv4/ip_local_reserved_ports").unwrap_or_default();
    let taken: u64 = reserved
        .split(',')
        .filter_map(|part| {
            let (from, to) = part.trim().split_once('-').unwrap_or((part.trim(), part.trim()));
            let (from, to) = (from.parse::<u64>().ok()?.max(low), to.parse::<u64>().ok()?.min(high));
            (from <= to).then(|| to - from + 1)
        })
        .sum();
    (high + 1).saturating_sub(low).saturating_sub(taken)
}

/// Available memory, in bytes.
fn memory(root: &Root) -> u64 {
    let meminfo = root.text("/proc/meminfo").unwrap_or_default();
    let available = kibibytes_after(&meminfo, "MemAvailable:").unwrap_or(u64::MAX);
    let group = control_group(root);
    match group.memory_bytes_max {
        Some(max) => available.min(max.saturating_sub(group.memory_bytes.unwrap_or(0))),
        None => available,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::tests::root_with;

    #[test]
    fn limits_are_what_the_kernel_says() {
        let (_keep, root) = root_with(&[
            ("/proc/sys/net/ipv4/ip_local_port_range", "32768\t60999\n"),
            ("/proc/sys/net/ipv4/ip_local_reserved_ports", "80,40000-40009,60990-61010\n"),
            ("/proc/sys/net/ipv4/tcp_tw_reuse", "2\n"),
            ("/proc/sys/net/core/somaxconn", "4096\n"),
            ("/proc/meminfo", "MemTotal: 100 kB\nMemAvailable:       50 kB\n"),
        ]);
        let limits = read(&root);
        assert_eq!(limits.ports, 28_232 - 20);
        assert_eq!((limits.tw_reuse, limits.somaxconn, limits.memory_bytes), (2, 4096, 50 << 10));
    }

    #[test]
    fn a_control_group_bounds_the_memory() {
        let (_keep, root) = root_with(&[
            ("/proc/meminfo", "MemAvailable:       50 kB\n"),
            ("/proc/self/cgroup", "0::/\n"),
            ("/sys/fs/cgroup/memory.max", "40960\n"),
            ("/sys/fs/cgroup/memory.current", "20480\n"),
        ]);
        assert_eq!(read(&root).memory_bytes, 20_480);
    }

    #[test]
    fn what_cannot_be_read_is_no_limit() {
        let (_keep, root) = root_with(&[]);
        let limits = read(&root);
        assert_eq!((limits.ports, limits.somaxconn, limits.memory_bytes), (65_535, u64::MAX, u64::MAX));
    }

    #[test]
    fn raising_never_lowers_and_reports_what_is() {
        let now = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
        assert_eq!(raise_descriptors(1), Raised { from: now, to: now });
        let hard = getrlimit(Resource::Nofile).maximum.unwrap_or(1 << 20);
        let raised = raise_descriptors(hard);
        assert!(raised.to >= raised.from);
        assert_eq!(raised.to, getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX));
        assert_eq!(raised.to, hard, "the soft limit may always be raised to the hard one");
    }
}
