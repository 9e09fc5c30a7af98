//! Network namespaces and TUN devices, with which `crates/lab/src/path` puts a path between clients and a server.

use std::ffi::c_void;
use std::io;
use std::os::fd::OwnedFd;

use rustix::fs::{Mode, OFlags};
use rustix::ioctl::{Ioctl, IoctlOutput, Opcode, ioctl, opcode};
use rustix::thread::{UnshareFlags, unshare_unsafe};

/// Puts the calling thread into a new network namespace, with every thread and process that it starts from then on. The
/// namespace is gone when the last of them is.
///
/// # Errors
/// Without `CAP_SYS_ADMIN`, or where the kernel has no network namespaces.
pub fn own_network() -> io::Result<()> {
    // SAFETY: neither open files nor memory are unshared, only the network that sockets opened from now on belong to.
    unsafe { unshare_unsafe(UnshareFlags::NEWNET) }?;
    Ok(())
}

/// Opens a new TUN device in the calling thread's network namespace: each read takes an IP packet that was routed to it, each
/// write delivers one. It does not block, and the device is gone when it is closed.
///
/// # Errors
/// Without `/dev/net/tun` or `CAP_NET_ADMIN`, or if the name is taken or longer than 15 bytes.
pub fn tun_device(name: &str) -> io::Result<OwnedFd> {
    let mut asked = Asked { name: [0; NAME_BYTES], flags: IFF_TUN | IFF_NO_PI, _rest: [0; 22] };
    let (bytes, most) = (name.as_bytes(), NAME_BYTES - 1);
    if bytes.is_empty() || bytes.len() > most {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    asked.name[..bytes.len()].copy_from_slice(bytes);
    let flags = OFlags::RDWR | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let device = rustix::fs::open("/dev/net/tun", flags, Mode::empty())?;
    // SAFETY: `Asked` has the layout of the kernel's `ifreq`, which the call reads and writes.
    unsafe { ioctl(&device, asked) }?;
    Ok(device)
}

const NAME_BYTES: usize = 16;
const IFF_TUN: u16 = 0x0001;
/// Without four bytes before each packet.
const IFF_NO_PI: u16 = 0x1000;

/// `ifreq` with `ifr_flags` (`netdevice(7)`), the argument of `TUNSETIFF`.
#[repr(C)]
struct Asked {
    name: [u8; NAME_BYTES],
    flags: u16,
    _rest: [u8; 22],
}

// SAFETY: the opcode is that of `TUNSETIFF`, `_IOW('T', 202, int)`, whose argument is a pointer to an `ifreq`, here to this value.
unsafe impl Ioctl for Asked {
    type Output = ();

    const IS_MUTATING: bool = true;

    fn opcode(&self) -> Opcode {
        opcode::write::<std::ffi::c_int>(b'T', 202)
    }

    fn as_ptr(&mut self) -> *mut c_void {
        std::ptr::from_mut(self).cast()
    }

    unsafe fn output_from_ptr(_: IoctlOutput, _: *mut c_void) -> rustix::io::Result<()> {
        Ok(())
    }
}
