//! UDP sockets that are connected to one server: many datagrams of one size together (UDP_SEGMENT, UDP_GRO), several times that per call,
//! and their ECN marks.

use std::io;
use std::mem::MaybeUninit;
use std::net::SocketAddr;
use std::os::fd::{AsFd as _, AsRawFd, BorrowedFd, OwnedFd};

use rustix::io::Errno;
use rustix::net::{self, AddressFamily, SocketFlags, SocketType};

use super::Source;

/// Space for the control messages of a call, aligned as their headers must be.
type Control = [u64; 16];

/// Size to ask for a receive queue: part of what a server may send before it waits for an acknowledgement. The kernel grants no more
/// than `net.core.rmem_max`, and uses memory only for what is queued.
const RECEIVE_BYTES: libc::c_int = 2 << 20;
/// ECT(0) (RFC 3168).
const ECT0: libc::c_int = 2;
/// Reports of datagrams that were too long that are read past in a row. The kernel keeps one at a time.
const REPORTS_MAX: u32 = 16;

/// Maximum number of datagrams, and errors, that are discarded from a socket to use it again.
const LEFT_OVER_MAX: usize = 64;

/// Maximum number of batches that one call receives.
pub(crate) const BATCHES_MAX: usize = 8;
/// The kernel puts no more together than fits one datagram.
const BATCH_BYTES: usize = 64 << 10;

/// What one call received.
pub(super) struct Inbox {
    /// Batch by batch.
    bytes: Box<[u8]>,
    batches: [Datagrams; BATCHES_MAX],
}

/// A batch: datagrams received together, in their part of the buffer one after the other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Datagrams {
    /// Bytes of all.
    pub(crate) bytes: usize,
    /// Bytes of each; the last may be shorter.
    pub(crate) stride: usize,
    /// The two ECN bits of each.
    pub(crate) ecn: u8,
    /// How many times the socket has dropped what arrived so far, because its receive queue was full.
    pub(crate) dropped: u32,
}

/// A socket whose connection has ended. It costs less to connect it again, from another port, than to open one.
#[derive(Debug)]
pub(crate) struct Spare<S> {
    pub(crate) socket: S,
    /// The token of its events.
    pub(crate) index: u32,
    pub(crate) is_v4: bool,
    /// It marks its datagrams ECT(0).
    pub(crate) is_ect: bool,
}

/// Gives a socket's port back, and discards what has arrived.
pub(super) fn disconnect(descriptor: BorrowedFd<'_>) -> io::Result<()> {
    net::connect_unspec(descriptor)?;
    for _ in 0..LEFT_OVER_MAX {
        // A datagram that does not fit is cut off, and an error that was reported is cleared.
        if net::recv(descriptor, &mut [0; 0], net::RecvFlags::DONTWAIT) == Err(Errno::AGAIN) {
            return Ok(());
        }
    }
    Err(io::ErrorKind::WouldBlock.into())
}

/// A socket that is connected to an address; `is_ect`: its datagrams are marked ECT(0).
pub(super) fn open(address: &SocketAddr, source: Option<Source>, is_ect: bool) -> io::Result<OwnedFd> {
    let is_v4 = address.is_ipv4();
    let family = if is_v4 { AddressFamily::INET } else { AddressFamily::INET6 };
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let descriptor = net::socket_with(family, SocketType::DGRAM, flags, None)?;
    if let Some(source) = source {
        source.bind(&descriptor, family)?;
    }
    let (level, marks, discover) = match is_v4 {
        true => (libc::IPPROTO_IP, libc::IP_RECVTOS, libc::IP_MTU_DISCOVER),
        false => (libc::IPPROTO_IPV6, libc::IPV6_RECVTCLASS, libc::IPV6_MTU_DISCOVER),
    };
    // Optional: without it, marks are not seen.
    let _ = set(&descriptor, level, marks, 1);
    // Never cut into fragments; the path's MTU is found by QUIC itself (RFC 9000, section 14).
    let _ = set(&descriptor, level, discover, libc::IP_PMTUDISC_PROBE);
    if is_ect {
        // Before it is connected: the kernel would look for the route once more.
        mark(descriptor.as_fd(), is_v4, true);
    }
    net::connect(&descriptor, address)?;
    Ok(descriptor)
}

/// Makes the receive queue longer, and has drops reported from now on, those before included.
pub(super) fn lengthen_queue(descriptor: BorrowedFd<'_>) {
    // Optional: a shorter queue works, too.
    let _ = set(&descriptor, libc::SOL_SOCKET, libc::SO_RCVBUF, RECEIVE_BYTES);
    // Costs nothing until something is dropped; without it, drops are not reported.
    let _ = set(&descriptor, libc::SOL_SOCKET, libc::SO_RXQ_OVFL, 1);
}

/// Has the kernel return many datagrams of one size by one call. Where it cannot, it returns one.
pub(super) fn receive_many(descriptor: BorrowedFd<'_>) {
    let _ = set(&descriptor, libc::SOL_UDP, libc::UDP_GRO, 1);
}

/// A blocking socket that is connected to an address, for single requests.
pub(crate) fn datagrams_to(address: &SocketAddr, source: Option<Source>) -> io::Result<std::net::UdpSocket> {
    let socket = std::net::UdpSocket::from(open(address, source, false)?);
    lengthen_queue(socket.as_fd());
    socket.set_nonblocking(false)?;
    Ok(socket)
}

/// Whether to mark datagrams ECT(0).
pub(super) fn mark(descriptor: BorrowedFd<'_>, is_v4: bool, is_ect: bool) {
    let (level, option) = match is_v4 {
        true => (libc::IPPROTO_IP, libc::IP_TOS),
        false => (libc::IPPROTO_IPV6, libc::IPV6_TCLASS),
    };
    // Optional: unmarked datagrams work, too.
    let _ = set(&descriptor, level, option, if is_ect { ECT0 } else { 0 });
}

/// Sends datagrams of `segment` bytes each in one call; the last may be shorter.
pub(super) fn send_segments(descriptor: BorrowedFd<'_>, bytes: &[u8], segment: u16) -> io::Result<()> {
    let mut part = libc::iovec { iov_base: bytes.as_ptr().cast_mut().cast(), iov_len: bytes.len() };
    let mut control: Control = [0; 16];
    // SAFETY: all-zero is a valid `msghdr`: null pointers with lengths of 0.
    let mut message = unsafe { MaybeUninit::<libc::msghdr>::zeroed().assume_init() };
    message.msg_iov = &raw mut part;
    message.msg_iovlen = 1;
    message.msg_control = (&raw mut control).cast();
    // SAFETY: plain arithmetic.
    message.msg_controllen = unsafe { libc::CMSG_SPACE(size_of::<u16>() as u32) } as _;
    // SAFETY: `control` has room for one header and a `u16`, is aligned for the header, and is borrowed by nothing else; the macro
    // gives a header at its beginning.
    unsafe {
        let header = libc::CMSG_FIRSTHDR(&raw const message);
        (*header).cmsg_level = libc::SOL_UDP;
        (*header).cmsg_type = libc::UDP_SEGMENT;
        (*header).cmsg_len = libc::CMSG_LEN(size_of::<u16>() as u32) as _;
        libc::CMSG_DATA(header).cast::<u16>().write_unaligned(segment);
    }
    // SAFETY: the descriptor is open; `message` points to one part, which is all of `bytes` and is only read, and to `control`, each
    // with its length; all exist until the call returns.
    let n = unsafe { libc::sendmsg(descriptor.as_raw_fd(), &raw const message, libc::MSG_NOSIGNAL) };
    if n >= 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

impl Inbox {
    pub(super) fn new() -> Inbox {
        let bytes = vec![0; BATCHES_MAX * BATCH_BYTES].into_boxed_slice();
        Inbox { bytes, batches: [Datagrams::default(); BATCHES_MAX] }
    }

    /// Receives batches of datagrams in place of those before, `most` or fewer; returns their number, 0 for nothing now.
    pub(super) fn receive(&mut self, descriptor: BorrowedFd<'_>, most: usize) -> io::Result<usize> {
        Ok(read_past_reports(|| self.receive_once(descriptor, most))?.unwrap_or(0))
    }

    /// A batch that was received last, and its bytes.
    pub(super) fn batch(&mut self, number: usize) -> (Datagrams, &mut [u8]) {
        let batch = self.batches[number];
        let begin = number * BATCH_BYTES;
        (batch, &mut self.bytes[begin..begin + batch.bytes])
    }

    fn receive_once(&mut self, descriptor: BorrowedFd<'_>, most: usize) -> io::Result<usize> {
        let most = most.clamp(1, BATCHES_MAX);
        let mut controls: [MaybeUninit<Control>; BATCHES_MAX] =
            [const { MaybeUninit::uninit() }; BATCHES_MAX];
        let mut parts = [libc::iovec { iov_base: std::ptr::null_mut(), iov_len: 0 }; BATCHES_MAX];
        // Mostly one is received, and clearing eight would cost more than it.
        let mut messages: [MaybeUninit<libc::mmsghdr>; BATCHES_MAX] =
            [const { MaybeUninit::uninit() }; BATCHES_MAX];
        let slots = self.bytes.chunks_exact_mut(BATCH_BYTES);
        for (((message, part), control), slot) in
            messages.iter_mut().zip(&mut parts).zip(&mut controls).zip(slots).take(most)
        {
            *part = libc::iovec { iov_base: slot.as_mut_ptr().cast(), iov_len: slot.len() };
            *message = MaybeUninit::zeroed();
            // SAFETY: all-zero is a valid `mmsghdr`: null pointers with lengths of 0.
            let header = unsafe { &mut message.assume_init_mut().msg_hdr };
            header.msg_iov = part;
            header.msg_iovlen = 1;
            header.msg_control = control.as_mut_ptr().cast();
            header.msg_controllen = size_of::<Control>() as _;
        }
        // SAFETY: the descriptor is open; each of the first `most` messages points to one part, which is a slot of `bytes`, and to a
        // control of its own, each with its length; all exist, and are borrowed nowhere else, until the call returns.
        let count = unsafe {
            if most == 1 {
                // A list of one costs the kernel more.
                let message = messages[0].assume_init_mut();
                let bytes = libc::recvmsg(descriptor.as_raw_fd(), &raw mut message.msg_hdr, 0);
                message.msg_len = u32::try_from(bytes).unwrap_or_default();
                if bytes < 0 { -1 } else { 1 }
            } else {
                libc::recvmmsg(
                    descriptor.as_raw_fd(),
                    messages.as_mut_ptr().cast(),
                    most as libc::c_uint,
                    0,
                    std::ptr::null_mut(),
                )
            }
        };
        if count < 0 {
            return Err(io::Error::last_os_error());
        }
        let count = count as usize;
        for (message, batch) in messages[..count].iter().zip(&mut self.batches) {
            // SAFETY: no more are received than the first `most`, which were set above.
            let message = unsafe { message.assume_init_ref() };
            let bytes = message.msg_len as usize;
            *batch = Datagrams { bytes, stride: bytes.max(1), ecn: 0, dropped: 0 };
            note(&message.msg_hdr, batch);
        }
        Ok(count)
    }
}

/// Reads again while the error is a report of a router that a datagram was too long. Reading has cleared the report, and what was
/// reported is found out by losses (RFC 9000 sections 14.2.1 and 14.4).
fn read_past_reports<T>(mut read: impl FnMut() -> io::Result<T>) -> io::Result<Option<T>> {
    for _ in 0..REPORTS_MAX {
        match read() {
            Ok(received) => return Ok(Some(received)),
            Err(error) if is_too_long(&error) => {}
            Err(error) => {
                return match error.kind() {
                    io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted => Ok(None),
                    _ => Err(error),
                };
            }
        }
    }
    Ok(None)
}

/// Sends, and once more if the error may be such a report: it came instead of sending.
pub(super) fn send_past_report<T>(mut send: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    match send() {
        Err(error) if is_too_long(&error) => send(),
        sent => sent,
    }
}

/// Whether an error of a socket says only that a datagram sent before was too long for the path.
pub(crate) fn is_too_long(error: &io::Error) -> bool {
    error.raw_os_error() == Some(libc::EMSGSIZE)
}

/// Reads, from the control messages that a successful `recvmmsg` wrote: the size of each datagram if there are several, their ECN bits,
/// and the number of drops.
fn note(message: &libc::msghdr, received: &mut Datagrams) {
    // SAFETY: `msg_control` and `msg_controllen` describe the part of `control` that the kernel filled, which is aligned for
    // a header; the macro gives null or a header that lies within it.
    let mut header = unsafe { libc::CMSG_FIRSTHDR(message) };
    while !header.is_null() {
        // SAFETY: not null, so a whole header within `control`, as the macros guarantee; nothing writes it.
        let (level, kind, length) =
            unsafe { ((*header).cmsg_level, (*header).cmsg_type, (*header).cmsg_len as usize) };
        // SAFETY: plain arithmetic.
        let has = |bytes: usize| length >= unsafe { libc::CMSG_LEN(bytes as u32) } as usize;
        // SAFETY: not null, so a whole header; the macro points after it.
        let content = unsafe { libc::CMSG_DATA(header) };
        match (level, kind) {
            (libc::SOL_UDP, libc::UDP_GRO) if has(size_of::<libc::c_int>()) => {
                // SAFETY: the message is long enough for an int; the read does not rely on alignment.
                let stride = unsafe { content.cast::<libc::c_int>().read_unaligned() };
                received.stride = usize::try_from(stride).unwrap_or(0).max(1);
            }
            (libc::IPPROTO_IPV6, libc::IPV6_TCLASS) if has(size_of::<libc::c_int>()) => {
                // SAFETY: as above.
                received.ecn = unsafe { content.cast::<libc::c_int>().read_unaligned() } as u8 & 3;
            }
            (libc::IPPROTO_IP, libc::IP_TOS) if has(1) => {
                // SAFETY: the message is long enough for a byte.
                received.ecn = unsafe { content.read() } & 3;
            }
            (libc::SOL_SOCKET, libc::SO_RXQ_OVFL) if has(size_of::<u32>()) => {
                // SAFETY: the message is long enough for a `u32`; the read does not rely on alignment.
                received.dropped = unsafe { content.cast::<u32>().read_unaligned() };
            }
            _ => {}
        }
        // SAFETY: as for the first.
        header = unsafe { libc::CMSG_NXTHDR(message, header) };
    }
}

fn set(
    descriptor: &impl AsRawFd,
    level: libc::c_int,
    option: libc::c_int,
    value: libc::c_int,
) -> io::Result<()> {
    // SAFETY: the descriptor is open; the option's value is an int that lives until the call returns, with its size.
    let result = unsafe {
        libc::setsockopt(
            descriptor.as_raw_fd(),
            level,
            option,
            (&raw const value).cast(),
            size_of::<libc::c_int>() as libc::socklen_t,
        )
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

#[cfg(test)]
mod tests {
    use std::net::UdpSocket;
    use std::time::{Duration, Instant};

    use super::*;
    use crate::sys::{Backend, Epoll};

    fn receive_all(backend: &mut Epoll, socket: &crate::sys::Socket, count: usize) -> Vec<(Vec<u8>, u8)> {
        let mut found = Vec::new();
        let until = Instant::now() + Duration::from_secs(20);
        while found.len() < count && Instant::now() < until {
            for number in 0..backend.receive_datagrams(socket, BATCHES_MAX).unwrap() {
                let (batch, bytes) = backend.batch(number);
                found.extend(bytes.chunks(batch.stride).map(|datagram| (datagram.to_vec(), batch.ecn)));
            }
        }
        found
    }

    /// Datagrams go out in one call and in several, and come back with their sizes and marks.
    #[test]
    fn datagrams_keep_their_borders_and_marks() {
        for address in ["127.0.0.1:0", "[::1]:0"] {
            let Ok(server) = UdpSocket::bind(address) else { continue };
            server.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
            let mut backend = Epoll::new(true).unwrap();
            for cuts in [true, false] {
                backend.cuts_datagrams(cuts);
                let socket = backend.open_datagrams(0, &server.local_addr().unwrap(), None, false).unwrap();
                let content: Vec<u8> = (0..25_u8).collect();
                assert!(backend.send_datagrams(&socket, &content, 10).unwrap());
                let mut sizes = Vec::new();
                let mut buffer = [0; 100];
                let mut from = None;
                for start in [0, 10, 20] {
                    let (n, peer) = server.recv_from(&mut buffer).unwrap();
                    assert_eq!(buffer[..n], content[start..start + n]);
                    sizes.push(n);
                    from = Some(peer);
                }
                assert_eq!(sizes, [10, 10, 5], "{address}, {cuts}");
                // The kernel marks what the server sends.
                let is_v4 = address.starts_with('1');
                mark(std::os::fd::AsFd::as_fd(&server), is_v4, cuts);
                for size in [7, 7, 3] {
                    server.send_to(&content[..size], from.unwrap()).unwrap();
                }
                let found = receive_all(&mut backend, &socket, 3);
                let expected = [7, 7, 3].map(|size| (content[..size].to_vec(), if cuts { 2 } else { 0 }));
                assert_eq!(found, expected, "{address}");
                backend.close(socket);
            }
        }
    }

    /// A socket that is used again has another port and its marks, and nothing that arrived for its last connection.
    #[test]
    fn a_spare_socket_is_as_a_new_one() {
        for address in ["127.0.0.1:0", "[::1]:0"] {
            let Ok(server) = UdpSocket::bind(address) else { continue };
            server.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
            let to = server.local_addr().unwrap();
            let mut backend = Epoll::new(true).unwrap();
            let mut ports = std::collections::BTreeSet::new();
            for (index, is_ect) in [(0, true), (0, true), (3, false), (4, true)] {
                let socket = backend.open_datagrams(index, &to, None, is_ect).unwrap();
                assert_eq!(backend.receive_datagrams(&socket, BATCHES_MAX).unwrap(), 0);
                backend.send_datagrams(&socket, b"hello", 5).unwrap();
                let (_, from) = server.recv_from(&mut [0; 9]).unwrap();
                ports.insert(from.port());
                // One is received and the other is left.
                for answer in [b"first", b"other"] {
                    server.send_to(answer, from).unwrap();
                }
                let until = Instant::now() + Duration::from_secs(20);
                while backend.wait(1_000_000_000).unwrap() == 0 && Instant::now() < until {}
                assert_eq!((backend.event(0).token, backend.event(0).readable), (u64::from(index), true));
                assert_eq!(backend.receive_datagrams(&socket, 1).unwrap(), 1);
                assert_eq!(backend.batch(0).1, b"first");
                let is_v4 = to.is_ipv4();
                let (level, option) = match is_v4 {
                    true => (libc::IPPROTO_IP, libc::IP_TOS),
                    false => (libc::IPPROTO_IPV6, libc::IPV6_TCLASS),
                };
                assert_eq!(get(&socket, level, option), if is_ect { ECT0 } else { 0 }, "{address} {index}");
                backend.spare_datagrams(Spare { socket, index, is_v4, is_ect });
            }
            assert!(ports.len() > 1, "{ports:?}");
        }
    }

    fn get(socket: &crate::sys::Socket, level: libc::c_int, option: libc::c_int) -> libc::c_int {
        let (mut value, mut length) = (-1, size_of::<libc::c_int>() as libc::socklen_t);
        let descriptor = std::os::fd::AsFd::as_fd(socket).as_raw_fd();
        // SAFETY: the descriptor is open; the value is an int that lives until the call returns, with its size.
        unsafe { libc::getsockopt(descriptor, level, option, (&raw mut value).cast(), &raw mut length) };
        value
    }

    #[test]
    fn one_call_receives_what_the_kernel_does_not_put_together() {
        let server = UdpSocket::bind("127.0.0.1:0").unwrap();
        let mut backend = Epoll::new(true).unwrap();
        let socket = backend.open_datagrams(0, &server.local_addr().unwrap(), None, false).unwrap();
        assert!(backend.send_datagrams(&socket, b"x", 1).unwrap());
        let (_, client) = server.recv_from(&mut [0]).unwrap();
        for size in 1..=BATCHES_MAX + 2 {
            server.send_to(&vec![size as u8; size], client).unwrap();
        }
        assert_eq!(backend.receive_datagrams(&socket, BATCHES_MAX).unwrap(), BATCHES_MAX);
        for number in 0..BATCHES_MAX {
            let (batch, bytes) = backend.batch(number);
            assert_eq!((bytes.to_vec(), batch.stride), (vec![number as u8 + 1; number + 1], number + 1));
        }
        assert_eq!(backend.receive_datagrams(&socket, BATCHES_MAX).unwrap(), 2);
        assert_eq!(backend.receive_datagrams(&socket, BATCHES_MAX).unwrap(), 0);
        for most in 1..=2 {
            (0..3).for_each(|_| assert_eq!(server.send_to(b"z", client).unwrap(), 1));
            assert_eq!(backend.receive_datagrams(&socket, most).unwrap(), most);
            assert_eq!(backend.receive_datagrams(&socket, BATCHES_MAX).unwrap(), 3 - most);
        }
        backend.close(socket);
    }

    /// Drops are reported with the first datagram that has room in the queue again.
    #[test]
    fn a_full_queue_is_told() {
        let server = UdpSocket::bind("127.0.0.1:0").unwrap();
        let mut backend = Epoll::new(true).unwrap();
        let socket = backend.open_datagrams(0, &server.local_addr().unwrap(), None, false).unwrap();
        rustix::net::sockopt::set_socket_recv_buffer_size(&socket, 1).unwrap();
        assert!(backend.send_datagrams(&socket, b"x", 1).unwrap());
        let (_, client) = server.recv_from(&mut [0]).unwrap();
        for _ in 0..200 {
            server.send_to(&[0; 1200], client).unwrap();
        }
        let mut came = 0;
        while let batches @ 1.. = backend.receive_datagrams(&socket, BATCHES_MAX).unwrap() {
            for number in 0..batches {
                let (batch, _) = backend.batch(number);
                assert_eq!(batch.dropped, 0, "those that came had room");
                came += batch.bytes.div_ceil(batch.stride);
            }
        }
        // It tells of those before, too.
        backend.lengthen_queue(&socket);
        server.send_to(b"y", client).unwrap();
        assert_eq!(backend.receive_datagrams(&socket, BATCHES_MAX).unwrap(), 1);
        let (batch, bytes) = backend.batch(0);
        assert_eq!((&*bytes, batch.dropped as usize), (&b"y"[..], 200 - came));
    }

    /// The kernel returns what ICMP reports ("fragmentation needed", "packet too big") from the next read of the socket.
    #[test]
    fn reports_of_datagrams_that_were_too_long_are_read_past() {
        let read = |errors: &[i32]| {
            let mut errors = errors.iter();
            let outcome = read_past_reports(|| match errors.next() {
                Some(number) => Err(io::Error::from_raw_os_error(*number)),
                None => Ok(7),
            });
            outcome.map_err(|error| error.raw_os_error().unwrap())
        };
        assert_eq!(read(&[]), Ok(Some(7)));
        assert_eq!(read(&[libc::EMSGSIZE, libc::EMSGSIZE]), Ok(Some(7)));
        assert_eq!(read(&[libc::EMSGSIZE, libc::EAGAIN]), Ok(None));
        assert_eq!(read(&[libc::EMSGSIZE, libc::ECONNREFUSED]), Err(libc::ECONNREFUSED));
        assert_eq!(read(&[libc::EMSGSIZE; 100]), Ok(None));
    }

    /// It may return that from the next send as well.
    #[test]
    fn what_a_report_kept_from_being_sent_is_sent_again() {
        let send = |errors: &[i32]| {
            let mut errors = errors.iter();
            let outcome = send_past_report(|| match errors.next() {
                Some(number) => Err(io::Error::from_raw_os_error(*number)),
                None => Ok(7),
            });
            outcome.map_err(|error| error.raw_os_error().unwrap())
        };
        assert_eq!(send(&[]), Ok(7));
        assert_eq!(send(&[libc::EMSGSIZE]), Ok(7));
        assert_eq!(
            send(&[libc::EMSGSIZE, libc::EMSGSIZE]),
            Err(libc::EMSGSIZE),
            "longer than its own network takes"
        );
        assert_eq!(send(&[libc::ECONNREFUSED]), Err(libc::ECONNREFUSED));
    }

    #[test]
    fn a_closed_port_is_refused() {
        let address = UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let mut backend = Epoll::new(true).unwrap();
        let socket = backend.open_datagrams(0, &address, None, false).unwrap();
        assert!(backend.send_datagrams(&socket, b"x", 1).unwrap());
        let until = Instant::now() + Duration::from_secs(20);
        let error = loop {
            match backend.receive_datagrams(&socket, BATCHES_MAX) {
                Err(error) => break error,
                Ok(_) => assert!(Instant::now() < until, "no ICMP message within 20 s"),
            }
        };
        assert_eq!(error.kind(), io::ErrorKind::ConnectionRefused);
    }
}
