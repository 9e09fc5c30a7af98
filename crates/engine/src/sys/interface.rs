//! The number of a network interface, which the zone of an address names.

use std::io;

use rustix::net::{AddressFamily, SocketType, netdevice, socket};

/// The number of an interface of this host, from its name or from the number as text.
pub(crate) fn interface_number(zone: &str) -> io::Result<u32> {
    // Some interfaces have a number for a name.
    let any = socket(AddressFamily::INET6, SocketType::DGRAM, None)
        .or_else(|_| socket(AddressFamily::UNIX, SocketType::DGRAM, None))?;
    match netdevice::name_to_index(&any, zone) {
        Ok(number) => Ok(number),
        Err(error) => zone.parse().map_err(|_| error.into()),
    }
}
