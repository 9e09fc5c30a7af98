//! A connection as its owner sees it.

use rustls::pki_types::ServerName;
use rustls::quic::ClientConnection;

use super::counts::Counts;
use super::error::Failure;
use super::recorder::Recorder;
use super::settings::Settings;

/// A stream as events name it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stream {
    /// Its ID (RFC 9000 section 2.1): 0, 4, 8 … bidirectional, 2, 6, 10 … unidirectional, 3, 7, 11 … of the server.
    pub id: u64,
    /// What the owner gave when it opened the stream; 0 for the server's.
    pub tag: u32,
}

/// What happens to streams. Called from within [`Connection::hear`]. Nothing is told of a stream after [`Connection::reset`], or
/// after its last data or its reset.
pub trait Events {
    /// The next bytes of a stream. Empty only with `is_last`: the stream ends after them.
    fn data(&mut self, stream: Stream, bytes: &[u8], is_last: bool);
    /// The server gave up sending on a stream (RESET_STREAM), with an error code of the application.
    fn reset(&mut self, stream: Stream, code: u64);
    /// The server does not want more of a stream (STOP_SENDING); what was not sent is dropped.
    fn stopped(&mut self, _stream: Stream, _code: u64) {}
    /// [`Connection::write`] may be called again after it took less than it was given.
    fn writable(&mut self, _stream: Stream) {}
}

/// Datagrams made by [`Connection::pack`], one after the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packed {
    /// Bytes of all.
    pub bytes: usize,
    /// Bytes of each; the last may be shorter.
    pub segment: usize,
    /// Whether they are to be marked ECT(0). The same for all connections of a path until it proves not to keep marks.
    pub is_ect: bool,
    /// They probe the path MTU: the kernel must not fragment them, and may refuse them as too long, which is no error.
    pub is_probe: bool,
}

/// A connection. Reuse the value for the next one: its buffers stay.
#[derive(Default)]
pub struct Connection {
    counts: Counts,
    failure: Option<Failure>,
}

impl Connection {
    /// Begins a connection and forgets the last one. `initial_id`: random bytes, which become the first destination connection ID.
    ///
    /// # Errors
    /// If rustls cannot use the settings.
    pub fn open(
        &mut self,
        settings: &Settings,
        name: ServerName<'static>,
        initial_id: [u8; 8],
        now_ns: u64,
    ) -> Result<(), rustls::Error> {
        let _ = (settings, name, initial_id, now_ns);
        Ok(())
    }

    /// Has a recorder told of everything from now on, until the next [`Connection::open`].
    pub fn record(&mut self, recorder: Box<dyn Recorder>) {
        let _ = recorder;
    }

    /// Takes one datagram, which it decrypts in place. `ecn`: the two bits of the IP header.
    pub fn hear(&mut self, now_ns: u64, datagram: &mut [u8], ecn: u8, events: &mut impl Events) {
        let _ = (now_ns, datagram, ecn, events);
    }

    /// Makes datagrams of what is to be sent and may be: all of equal length but the last. Call it until it returns `None`. `out` must
    /// hold one datagram of the largest size, and should hold [`Settings::segments_max`].
    pub fn pack(&mut self, now_ns: u64, out: &mut [u8]) -> Option<Packed> {
        let _ = (now_ns, out);
        None
    }

    /// When [`Connection::timeout`] must be called, on the clock of `now_ns`. May be in the past.
    pub fn due_ns(&self) -> Option<u64> {
        None
    }

    /// Acts on what is due; early calls do nothing. `pack` may have something to send afterwards.
    pub fn timeout(&mut self, now_ns: u64) {
        let _ = now_ns;
    }

    /// Ends the connection with an error code of the application (HTTP/3: 0x100 is H3_NO_ERROR). `pack` makes the datagram that
    /// says so.
    pub fn close(&mut self, code: u64, reason: &str) {
        let _ = (code, reason);
    }

    /// Opens a bidirectional stream and returns its ID, unless the server's limit is reached.
    pub fn open_bi(&mut self, tag: u32) -> Option<u64> {
        let _ = tag;
        None
    }

    /// The same, unidirectional.
    pub fn open_uni(&mut self, tag: u32) -> Option<u64> {
        let _ = tag;
        None
    }

    /// How many more bidirectional streams may be opened now.
    pub fn capacity_bi(&self) -> u64 {
        0
    }

    /// Appends to a stream; returns how many bytes were taken. It takes fewer than all only when a lot is unacknowledged: then
    /// [`Events::writable`] follows. `is_last` counts only if all were taken.
    pub fn write(&mut self, stream: u64, bytes: &[u8], is_last: bool) -> usize {
        let _ = (stream, is_last);
        bytes.len()
    }

    /// Gives up a stream in both directions, with an error code of the application.
    pub fn reset(&mut self, stream: u64, code: u64) {
        let _ = (stream, code);
    }

    /// Whether streams may be opened: keys of early data, or of the connection, are there.
    pub fn is_open(&self) -> bool {
        false
    }

    /// Whether the handshake is complete; ALPN is known then.
    pub fn is_agreed(&self) -> bool {
        false
    }

    /// Whether the server has confirmed that it is (HANDSHAKE_DONE).
    pub fn is_confirmed(&self) -> bool {
        false
    }

    /// Whether the connection has ended, and has nothing more to say.
    pub fn is_closed(&self) -> bool {
        self.failure.is_some()
    }

    /// Why it has ended, or is about to.
    pub fn failure(&self) -> Option<&Failure> {
        self.failure.as_ref()
    }

    /// Whether it sent early data (until the handshake is complete: whether it may), and whether the server took it, once that is
    /// known. What was rejected is sent again.
    pub fn early_data(&self) -> (bool, Option<bool>) {
        (false, None)
    }

    /// What TLS agreed on.
    pub fn tls(&self) -> Option<&ClientConnection> {
        None
    }

    /// What was counted since [`Connection::open`].
    pub fn counts(&self) -> &Counts {
        &self.counts
    }

    /// Least and smoothed round-trip time in ns, once measured.
    pub fn rtt_ns(&self) -> Option<(u64, u64)> {
        None
    }

    /// Largest datagram that the path is known to carry, in bytes of UDP payload.
    pub fn mtu(&self) -> u16 {
        1200
    }
}
