//! How long a TCP handshake took in the kernel. The rest of the connect time was added by the event loop.
//!
//! The kernel measures the round trip of every SYN for its own use, and reports it (`TCP_INFO`, tcp(7)).
//! SO_TIMESTAMPING stamps neither the SYN nor its answer. Asking is a system call, so only a few connections are
//! asked.

use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, BorrowedFd};

/// From SYN to SYN-ACK, in nanoseconds; see [`super::Socket::handshake_ns`].
pub(super) fn time_ns(descriptor: BorrowedFd<'_>) -> Option<u64> {
    // SAFETY: all-zero is a valid `tcp_info`: it holds nothing but integers.
    let mut info = unsafe { MaybeUninit::<libc::tcp_info>::zeroed().assume_init() };
    let mut length = size_of::<libc::tcp_info>() as libc::socklen_t;
    // SAFETY: the descriptor is open; `info` lives until the call returns, which writes no more than `length` bytes of it.
    let result = unsafe {
        libc::getsockopt(
            descriptor.as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_INFO,
            (&raw mut info).cast(),
            &raw mut length,
        )
    };
    // A kernel that returns fewer fields than are read here leaves zeros.
    let told = result == 0 && info.tcpi_rtt > 0 && info.tcpi_total_retrans == 0;
    told.then(|| u64::from(info.tcpi_rtt) * 1000)
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};
    use std::os::fd::AsFd;
    use std::os::unix::net::UnixStream;
    use std::time::Instant;

    use super::*;

    #[test]
    fn a_handshake_took_no_longer_than_the_call_that_made_it() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let began = Instant::now();
        let stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let took_ns = began.elapsed().as_nanos() as u64;
        let handshake_ns = time_ns(stream.as_fd()).unwrap();
        // The kernel counts whole microseconds of its own clock; both the first and the last may be partial.
        assert!((1_000..=took_ns + 2_000).contains(&handshake_ns), "{handshake_ns} of {took_ns}");
    }

    #[test]
    fn other_sockets_have_no_handshake_time() {
        let (one, _other) = UnixStream::pair().unwrap();
        assert_eq!(time_ns(one.as_fd()), None);
    }
}
