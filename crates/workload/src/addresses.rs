//! The sources of connections: ranges of IP addresses, as in `--source`, and of ports, as in `--source-port-range`.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

/// Maximum number of addresses in a range. Each brings some 28,000 local ports, so this is far more than a host can
/// use.
pub const ADDRESSES_MAX: u128 = 65_536;

/// Addresses of one family from the first to the last, both included; at most [`ADDRESSES_MAX`]. Displayed as it was
/// written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AddressRange {
    first: IpAddr,
    last: IpAddr,
    text: String,
}

/// Local ports from the first to the last, both included: `40000-50000`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PortRange {
    /// The first; at least 1.
    pub first: u16,
    /// The last.
    pub last: u16,
}

impl PortRange {
    /// Number of ports.
    pub fn count(self) -> u64 {
        u64::from(self.last - self.first) + 1
    }

    /// One of `parts` equal parts, with index from 0. `None` if there are more parts than ports.
    pub fn part(self, index: usize, parts: usize) -> Option<PortRange> {
        let before = |index: usize| (self.count() * index as u64 / parts as u64) as u16;
        let (first, last) = (self.first + before(index), self.first - 1 + before(index + 1));
        (first <= last).then_some(PortRange { first, last })
    }
}

impl FromStr for PortRange {
    type Err = String;

    fn from_str(text: &str) -> Result<PortRange, String> {
        let wrong = |rule| format!("`{text}` is not a range of ports: {rule}; write it as in 40000-50000");
        let port = |word: &str| word.trim().parse().ok().filter(|port| *port > 0);
        let (first, last) = text.split_once('-').ok_or_else(|| wrong("it has no end"))?;
        match (port(first), port(last)) {
            (Some(first), Some(last)) if first <= last => Ok(PortRange { first, last }),
            (Some(_), Some(_)) => Err(wrong("it ends before it begins")),
            _ => Err(wrong("a port is a number from 1 to 65535")),
        }
    }
}

impl fmt::Display for PortRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.first, self.last)
    }
}

/// Why a text is not a range of addresses.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{text}` is not a list of IP addresses: {rule}; write one (127.0.0.2), a range (127.0.0.2-127.0.0.9) or a network (10.0.0.0/24)"
)]
pub struct AddressRangeError {
    text: String,
    rule: String,
}

impl AddressRange {
    /// Number of addresses.
    pub fn count(&self) -> u64 {
        (number(self.last) - number(self.first)) as u64 + 1
    }

    /// The addresses, ascending.
    pub fn addresses(&self) -> impl Iterator<Item = IpAddr> + use<> {
        let is_v6 = self.first.is_ipv6();
        (number(self.first)..=number(self.last)).map(move |number| address(number, is_v6))
    }
}

impl FromStr for AddressRange {
    type Err = AddressRangeError;

    /// A network of more than two IPv4 addresses means its hosts: all but the first, which is the network's, and the
    /// last, which is for broadcasts.
    fn from_str(text: &str) -> Result<AddressRange, AddressRangeError> {
        let text = text.trim();
        let error = |rule: String| AddressRangeError { text: text.to_owned(), rule };
        let one = |word: &str| -> Result<IpAddr, AddressRangeError> {
            let word = word.trim();
            word.parse().map_err(|_| error(format!("`{word}` is not an IP address")))
        };
        let (first, last) = if let Some((network, prefix)) = text.split_once('/') {
            let network = one(network)?;
            let bits = if network.is_ipv6() { 128 } else { 32 };
            let prefix = prefix.parse::<u32>().ok().filter(|prefix| *prefix <= bits);
            let host_bits =
                bits - prefix.ok_or_else(|| error(format!("a network's prefix is from 0 to {bits} bits")))?;
            let mask = 1_u128.checked_shl(host_bits).map_or(u128::MAX, |size| size - 1);
            let (low, high) = (number(network) & !mask, number(network) | mask);
            let reserved = u128::from(bits == 32 && host_bits > 1);
            (address(low + reserved, bits == 128), address(high - reserved, bits == 128))
        } else if let Some((first, last)) = text.split_once('-') {
            (one(first)?, one(last)?)
        } else {
            let only = one(text)?;
            (only, only)
        };
        if first.is_ipv6() != last.is_ipv6() {
            return Err(error("its ends are of two families".to_owned()));
        }
        if first > last {
            return Err(error("it ends before it begins".to_owned()));
        }
        if number(last) - number(first) >= ADDRESSES_MAX {
            return Err(error(format!("they are more than {ADDRESSES_MAX}")));
        }
        Ok(AddressRange { first, last, text: text.to_owned() })
    }
}

impl From<IpAddr> for AddressRange {
    fn from(address: IpAddr) -> AddressRange {
        AddressRange { first: address, last: address, text: address.to_string() }
    }
}

impl fmt::Display for AddressRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

webstone_measure::as_text!(PortRange, "PortRange", "Local ports, from the first to the last: 40000-50000.");

webstone_measure::as_text!(
    AddressRange,
    "AddressRange",
    "An IP address, a range of them (127.0.0.2-127.0.0.9) or a network (10.0.0.0/24)."
);

fn number(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(address) => u128::from(address.to_bits()),
        IpAddr::V6(address) => address.to_bits(),
    }
}

fn address(number: u128, is_v6: bool) -> IpAddr {
    match is_v6 {
        true => Ipv6Addr::from_bits(number).into(),
        false => Ipv4Addr::from_bits(number as u32).into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_are_a_range_that_can_be_split() {
        let range: PortRange = " 40000-40009".parse().unwrap();
        assert_eq!((range.count(), range.to_string().as_str()), (10, "40000-40009"));
        assert_eq!(serde_json::from_str::<PortRange>("\"40000-40009\"").unwrap(), range);
        let parts =
            |n: usize| (0..n).map(|index| range.part(index, n).unwrap().to_string()).collect::<Vec<_>>();
        assert_eq!(parts(1), ["40000-40009"]);
        assert_eq!(parts(3), ["40000-40002", "40003-40005", "40006-40009"]);
        assert_eq!(parts(10).len(), 10);
        assert!((0..11).any(|index| range.part(index, 11).is_none()), "more parts than ports");
        let all = PortRange { first: 1, last: 65535 };
        assert_eq!((all.count(), all.part(1, 2)), (65535, Some(PortRange { first: 32768, last: 65535 })));
        for (wrong, rule) in [
            ("50000-40000", "it ends before it begins"),
            ("0-10", "a port is a number from 1 to 65535"),
            ("40000-70000", "a port is a number from 1 to 65535"),
            ("a-b", "a port is a number from 1 to 65535"),
            ("40000", "it has no end"),
        ] {
            let error = wrong.parse::<PortRange>().unwrap_err();
            assert_eq!(
                error,
                format!("`{wrong}` is not a range of ports: {rule}; write it as in 40000-50000")
            );
        }
    }

    #[test]
    fn ranges_name_their_addresses() {
        for (text, count, first, last) in [
            ("127.0.0.2", 1, "127.0.0.2", "127.0.0.2"),
            (" 127.0.0.2 - 127.0.0.9 ", 8, "127.0.0.2", "127.0.0.9"),
            ("10.0.0.250-10.0.1.5", 12, "10.0.0.250", "10.0.1.5"),
            ("10.0.0.77/24", 254, "10.0.0.1", "10.0.0.254"),
            ("10.0.0.77/30", 2, "10.0.0.77", "10.0.0.78"),
            ("10.0.0.76/31", 2, "10.0.0.76", "10.0.0.77"),
            ("10.0.0.77/32", 1, "10.0.0.77", "10.0.0.77"),
            ("10.0.0.0/16", 65_534, "10.0.0.1", "10.0.255.254"),
            ("fd00::10-fd00::1f", 16, "fd00::10", "fd00::1f"),
            ("fd00::/112", 65_536, "fd00::", "fd00::ffff"),
            ("::1/128", 1, "::1", "::1"),
        ] {
            let range: AddressRange = text.parse().unwrap();
            let all: Vec<IpAddr> = range.addresses().collect();
            assert_eq!((range.count(), all.len() as u64), (count, count), "{text}");
            assert_eq!(all.first().unwrap().to_string(), first, "{text}");
            assert_eq!(all.last().unwrap().to_string(), last, "{text}");
            assert_eq!(range.to_string(), text.trim());
            let again: AddressRange = serde_json::from_str(&serde_json::to_string(&range).unwrap()).unwrap();
            assert_eq!(again, range);
        }
    }

    #[test]
    fn wrong_ranges_name_the_rule() {
        for (text, rule) in [
            ("", "`` is not an IP address"),
            ("localhost", "`localhost` is not an IP address"),
            ("127.0.0.2-", "`` is not an IP address"),
            ("127.0.0.2-9", "`9` is not an IP address"),
            ("127.0.0.9-127.0.0.2", "ends before it begins"),
            ("127.0.0.2-::1", "two families"),
            ("10.0.0.0/33", "prefix is from 0 to 32 bits"),
            ("10.0.0.0/x", "prefix is from 0 to 32 bits"),
            ("::/129", "prefix is from 0 to 128 bits"),
            ("127.0.0.0/8", "more than 65536"),
            ("::/0", "more than 65536"),
            ("0.0.0.0/0", "more than 65536"),
        ] {
            let message = text.parse::<AddressRange>().unwrap_err().to_string();
            assert!(message.contains(rule) && message.contains("127.0.0.2-127.0.0.9"), "{text}: {message}");
        }
    }
}
