//! The speed of a network interface, and not the one that a virtual one claims.

use crate::machine::Root;

/// In Mbit/s; `None` if the kernel reports none, or for an interface without hardware: a veth, which joins containers and network
/// namespaces, claims 10,000 and carries as much as the CPUs copy.
pub(crate) fn link_speed_mbps(root: &Root, name: &str) -> Option<u64> {
    // Virtual interfaces report an error, or -1.
    let claimed = root.number(&format!("/sys/class/net/{name}/speed")).filter(|speed| *speed > 0)?;
    has_hardware(root, name).then_some(claimed)
}

/// Whether an interface is hardware, or consists of it, as a bond and a VLAN do.
fn has_hardware(root: &Root, name: &str) -> bool {
    let parts = root.names(&format!("/sys/class/net/{name}"));
    parts.iter().any(|part| {
        part == "device" || part.strip_prefix("lower_").is_some_and(|below| has_hardware(root, below))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::tests::root_with;

    #[test]
    fn only_what_has_hardware_has_a_speed() {
        let (_keep, root) = root_with(&[
            ("/sys/class/net/eth0/speed", "25000\n"),
            ("/sys/class/net/eth0/device/vendor", "0x15b3\n"),
            ("/sys/class/net/eth1/speed", "-1\n"),
            ("/sys/class/net/eth1/device/vendor", "0x1af4\n"),
            ("/sys/class/net/bond0/speed", "25000\n"),
            ("/sys/class/net/bond0/lower_eth0/ifindex", "2\n"),
            ("/sys/class/net/bond0.7/speed", "25000\n"),
            ("/sys/class/net/bond0.7/lower_bond0/ifindex", "3\n"),
            ("/sys/class/net/veth0/speed", "10000\n"),
            ("/sys/class/net/br0/speed", "10000\n"),
            ("/sys/class/net/br0/lower_veth0/ifindex", "5\n"),
            ("/sys/class/net/tun0/speed", "10\n"),
        ]);
        let speed = |name: &str| link_speed_mbps(&root, name);
        assert_eq!([speed("eth0"), speed("bond0"), speed("bond0.7")], [Some(25_000); 3]);
        assert_eq!(["eth1", "veth0", "br0", "tun0", "gone"].map(speed), [None; 5]);
    }
}
