//! When bytes arrived according to the kernel, and so how long they lay in a socket's queue before they were read.
//!
//! The kernel stamps every incoming packet while any socket of the machine asks for stamps, which costs about one
//! clock reading per packet; sockets that asked need a longer system call to get the stamp. So one connection of a
//! worker asks, and the others do not. Stamps are of the wall clock, because the kernel has no others; if that clock
//! is set while bytes lie in a queue, their lag is off by as much.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, BorrowedFd};

use rustix::time::{ClockId, clock_gettime};

use super::Received;

/// Space for one control message with a stamp (`CMSG_SPACE(16)` is 32 bytes), aligned as its header must be.
type Control = [u64; 8];

/// Asks for stamps on what a socket receives from now on.
pub(super) fn ask(descriptor: BorrowedFd<'_>) -> io::Result<()> {
    let on: libc::c_int = 1;
    // SAFETY: the descriptor is open; the option's value is an int that lives until the call returns, with its size.
    let result = unsafe {
        libc::setsockopt(
            descriptor.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_TIMESTAMPNS,
            (&raw const on).cast(),
            size_of::<libc::c_int>() as libc::socklen_t,
        )
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Reads into `buffer`, which must not be empty. Also returns how long the last of these bytes had been in the
/// kernel, in nanoseconds, if it was stamped.
pub(super) fn receive(descriptor: BorrowedFd<'_>, buffer: &mut [u8]) -> io::Result<(Received, Option<u64>)> {
    let mut part = libc::iovec { iov_base: buffer.as_mut_ptr().cast(), iov_len: buffer.len() };
    let mut control: Control = [0; 8];
    // SAFETY: all-zero is a valid `msghdr`: null pointers with lengths of 0.
    let mut message = unsafe { MaybeUninit::<libc::msghdr>::zeroed().assume_init() };
    message.msg_iov = &raw mut part;
    message.msg_iovlen = 1;
    message.msg_control = (&raw mut control).cast();
    message.msg_controllen = size_of::<Control>() as _;
    let now_ns = wall_clock_ns();
    // SAFETY: the descriptor is open; `message` points to one part, which is all of `buffer`, and to `control`, each
    // with its length; all three exist, and are borrowed nowhere else, until the call returns.
    let n = unsafe { libc::recvmsg(descriptor.as_raw_fd(), &raw mut message, 0) };
    match n {
        0 => return Ok((Received::End, None)),
        1.. => {}
        _ => {
            let error = io::Error::last_os_error();
            return match error.kind() {
                io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted => Ok((Received::WouldBlock, None)),
                _ => Err(error),
            };
        }
    }
    let received = Received::Bytes(n as usize);
    Ok((received, stamp_ns(&message).map(|stamp_ns| now_ns.saturating_sub(stamp_ns))))
}

/// The stamp among the control messages that a successful `recvmsg` wrote.
fn stamp_ns(message: &libc::msghdr) -> Option<u64> {
    // SAFETY: `msg_control` and `msg_controllen` describe the part of `control` that the kernel filled, which is aligned for
    // a header; the macro gives null or a header that lies within it.
    let mut header = unsafe { libc::CMSG_FIRSTHDR(message) };
    while !header.is_null() {
        // SAFETY: not null, so a whole header within `control`, as the macros guarantee; nothing writes it.
        let (level, kind, length) =
            unsafe { ((*header).cmsg_level, (*header).cmsg_type, (*header).cmsg_len as usize) };
        // SAFETY: plain arithmetic.
        let whole = unsafe { libc::CMSG_LEN(size_of::<libc::timespec>() as u32) } as usize;
        if (level, kind) == (libc::SOL_SOCKET, libc::SCM_TIMESTAMPNS) && length >= whole {
            // SAFETY: the message is long enough for a `timespec`, of which any bytes are valid; the read does not
            // rely on alignment.
            let stamp = unsafe { libc::CMSG_DATA(header).cast::<libc::timespec>().read_unaligned() };
            return Some(stamp.tv_sec as u64 * 1_000_000_000 + stamp.tv_nsec as u64);
        }
        // SAFETY: as for the first.
        header = unsafe { libc::CMSG_NXTHDR(message, header) };
    }
    None
}

fn wall_clock_ns() -> u64 {
    let now = clock_gettime(ClockId::Realtime);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::net::{TcpListener, TcpStream};
    use std::os::fd::AsFd;
    use std::time::Duration;

    use super::*;

    #[test]
    fn the_lag_is_the_time_spent_in_the_queue() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (far, _) = listener.accept().unwrap();
        far.set_nonblocking(true).unwrap();
        ask(far.as_fd()).unwrap();
        let mut buffer = [0; 100];
        assert_eq!(receive(far.as_fd(), &mut buffer).unwrap(), (Received::WouldBlock, None));
        // The kernel begins to stamp a moment after the first socket asked; on a busy machine, much later.
        let lag = (0..50).find_map(|_| {
            std::thread::sleep(Duration::from_millis(200));
            near.write_all(b"hello").unwrap();
            std::thread::sleep(Duration::from_millis(300));
            let (received, lag) = receive(far.as_fd(), &mut buffer).unwrap();
            assert_eq!((received, &buffer[..5]), (Received::Bytes(5), &b"hello"[..]));
            lag
        });
        let lag = lag.expect("TCP on Linux stamps");
        assert!((290_000_000..5_000_000_000).contains(&lag), "{lag} ns where 300 ms were slept");
        drop(near);
        std::thread::sleep(Duration::from_millis(50));
        assert_eq!(receive(far.as_fd(), &mut buffer).unwrap(), (Received::End, None));
    }
}
