//! A connection as its owner sees it, and its state.

use rustls::Side;
use rustls::pki_types::ServerName;
use rustls::quic::{ClientConnection, DirectionalKeys, Keys};

use super::congestion::Congestion;
use super::counts::Counts;
use super::error::QuicFailure;
use super::ids::{Id, PeerIds};
use super::keys::{self, OneRtt};
use super::mtu::{BASE, Mtu};
use super::recorder::{FrameRecord, Recorder, RecoveryRecord};
use super::rtt::Rtt;
use super::settings::{Settings, Version};
use super::space::{Space, SpaceId};
use super::streams::Streams;
use super::transport_parameters::{self, Parameters};
use super::varint;

/// A stream as events name it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stream {
    /// Its ID (RFC 9000 section 2.1): 0, 4, 8 … bidirectional, 2, 6, 10 … unidirectional, 3, 7, 11 … of the server.
    pub id: u64,
    /// What the owner gave when it opened the stream; 0 for the server's.
    pub tag: u32,
}

/// What happens to streams. Called from within [`Connection::hear`]. A stream has no more events after [`Connection::reset`], and no more
/// data after its last data or its reset.
pub trait Events {
    /// The next bytes of a stream. Empty only with `is_last`: the stream ends after them.
    fn data(&mut self, stream: Stream, bytes: &[u8], is_last: bool);
    /// The next data is the last, but only this many bytes of the request were sent.
    fn unsent(&mut self, _stream: Stream, _sent: u64) {}
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
    /// Whether they are to be marked ECT(0). The same for all datagrams of a connection until the path proves not to keep marks.
    pub is_ect: bool,
    /// They probe the path MTU: the kernel must not fragment them, and may refuse them as too long, which is no error.
    pub is_probe: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum State {
    /// Not opened.
    #[default]
    Idle,
    Shaking,
    /// The handshake is complete.
    Agreed,
    /// The server confirmed that.
    Confirmed,
    /// CONNECTION_CLOSE is to be sent.
    Closing,
    Closed,
}

/// What is needed until the handshake is confirmed.
pub(super) struct Shaking {
    pub(super) initial: Space,
    pub(super) handshake: Space,
    pub(super) initial_keys: Option<Keys>,
    pub(super) handshake_keys: Option<Keys>,
    pub(super) early_keys: Option<DirectionalKeys>,
    /// The token of a Retry, to be sent back.
    pub(super) token: Vec<u8>,
    /// The first destination connection ID.
    pub(super) original: Id,
    /// The server's own ID.
    pub(super) source: Option<Id>,
    /// The server's ID in a Retry.
    pub(super) retry: Option<Id>,
    /// Packets whose keys are not available yet, and their ECN bits.
    pub(super) waiting: Vec<(Vec<u8>, u8)>,
    /// Limits that early data relies on.
    pub(super) remembered: Option<Parameters>,
    /// The server has acknowledged a Handshake packet: it has validated this address.
    pub(super) is_validated: bool,
    /// When something was sent last.
    pub(super) sent_ns: u64,
}

/// Flow control of the connection (RFC 9000 section 4).
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Flow {
    /// New bytes of streams sent, and the server's limit.
    pub(super) sent: u64,
    pub(super) max: u64,
    /// Bytes of streams received and delivered, and the limit that the server knows.
    pub(super) received: u64,
    pub(super) delivered: u64,
    pub(super) limit: u64,
    pub(super) window: u64,
    pub(super) stream_window: u64,
    /// MAX_DATA is to be sent.
    pub(super) is_due: bool,
}

/// What CONNECTION_CLOSE will say.
#[derive(Clone, Debug)]
pub(super) struct Closing {
    pub(super) is_application: bool,
    pub(super) code: u64,
    pub(super) reason: Box<str>,
}

/// A recorder, and the frames of the packet in progress.
pub(super) struct Recording {
    pub(super) recorder: Box<dyn Recorder>,
    pub(super) frames: Vec<FrameRecord>,
    /// Number of key updates that were recorded.
    pub(super) generation: u64,
}

impl Recording {
    pub(super) fn keys(&mut self, now_ns: u64, updates: u64) {
        if updates != self.generation {
            self.generation = updates;
            self.recorder.keys_updated(now_ns, updates);
        }
    }
}

/// A connection. Reuse the value for the next one: its buffers stay.
pub struct Connection {
    pub(super) state: State,
    pub(super) version: Version,
    pub(super) tls: Option<Box<ClientConnection>>,
    pub(super) shaking: Option<Box<Shaking>>,
    pub(super) one: Option<Box<OneRtt>>,
    pub(super) data: Space,
    pub(super) streams: Streams,
    pub(super) ids: PeerIds,
    pub(super) flow: Flow,
    pub(super) rtt: Rtt,
    pub(super) congestion: Congestion,
    pub(super) mtu: Mtu,
    pub(super) probe_timeouts: u32,
    /// MAX_STREAMS for the server's unidirectional streams is to be sent.
    pub(super) owes_max_streams: bool,
    pub(super) path_response: Option<[u8; 8]>,
    pub(super) is_ect: bool,
    /// Acknowledgements did not report marks that were sent.
    pub(super) has_lost_marks: bool,
    pub(super) paces: bool,
    /// When pacing allows more to be sent; `u64::MAX`: it does now.
    pub(super) paced_until_ns: u64,
    pub(super) segments_max: u16,
    pub(super) key_update_packets: u64,
    pub(super) udp_payload_max: u16,
    pub(super) idle_timeout_ns: u64,
    /// When something was received, or was first sent after that.
    pub(super) active_ns: u64,
    pub(super) has_sent_since: bool,
    pub(super) ack_delay_exponent: u8,
    pub(super) ack_delay_max_ns: u64,
    /// Initial limits of what streams may send.
    pub(super) stream_data_bi: u64,
    pub(super) stream_data_uni: u64,
    /// Frames received in a row that did nothing.
    pub(super) vain_frames: u32,
    pub(super) early_accepted: Option<bool>,
    pub(super) has_early_keys: bool,
    pub(super) closing: Option<Closing>,
    pub(super) failure: Option<QuicFailure>,
    pub(super) counts: Counts,
    /// Streams of which all was sent since [`Connection::take_completed`].
    pub(super) completed: u32,
    pub(super) recording: Option<Box<Recording>>,
}

impl Default for Connection {
    fn default() -> Connection {
        Connection {
            state: State::Idle,
            version: Version::V1,
            tls: None,
            shaking: None,
            one: None,
            data: Space::new(),
            streams: Streams::default(),
            ids: PeerIds::default(),
            flow: Flow::default(),
            rtt: Rtt::default(),
            congestion: Congestion::new(BASE.into(), 0),
            mtu: Mtu::new(BASE, false),
            probe_timeouts: 0,
            owes_max_streams: false,
            path_response: None,
            is_ect: false,
            has_lost_marks: false,
            paces: false,
            paced_until_ns: u64::MAX,
            segments_max: 1,
            key_update_packets: u64::MAX,
            udp_payload_max: BASE,
            idle_timeout_ns: 0,
            active_ns: 0,
            has_sent_since: false,
            ack_delay_exponent: 3,
            ack_delay_max_ns: 0,
            stream_data_bi: 0,
            stream_data_uni: 0,
            vain_frames: 0,
            early_accepted: None,
            has_early_keys: false,
            closing: None,
            failure: None,
            counts: Counts::default(),
            completed: 0,
            recording: None,
        }
    }
}

impl std::fmt::Debug for Connection {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Connection")
            .field("state", &self.state)
            .field("failure", &self.failure)
            .finish_non_exhaustive()
    }
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
        let version = settings.version;
        let parameters = transport_parameters::write(settings);
        let tls = ClientConnection::new(settings.tls.clone(), version.of_rustls(), name, parameters)?;
        let (mut data, mut streams) = (std::mem::take(&mut self.data), std::mem::take(&mut self.streams));
        data.clear();
        streams.clear(settings.peer_streams_uni);
        let original = Id::new(&initial_id).unwrap_or_default();
        let payload_max = settings.udp_payload_bytes_max.max(BASE);
        let shaking = Shaking {
            initial: Space::new(),
            handshake: Space::new(),
            initial_keys: Some(keys::initial(version, &initial_id, Side::Client)),
            handshake_keys: None,
            early_keys: None,
            token: Vec::new(),
            original,
            source: None,
            retry: None,
            waiting: Vec::new(),
            remembered: None,
            is_validated: false,
            sent_ns: now_ns,
        };
        *self = Connection {
            state: State::Shaking,
            version,
            tls: Some(Box::new(tls)),
            shaking: Some(Box::new(shaking)),
            data,
            streams,
            ids: PeerIds::new(original),
            flow: Flow {
                limit: settings.connection_window.min(varint::MAX),
                window: settings.connection_window,
                stream_window: settings.stream_window,
                ..Flow::default()
            },
            congestion: Congestion::new(BASE.into(), now_ns),
            mtu: Mtu::new(payload_max, settings.probes_mtu),
            is_ect: settings.uses_ecn,
            paces: settings.paces,
            segments_max: settings.segments_max.clamp(1, u16::MAX.into()) as u16,
            key_update_packets: settings.key_update_packets,
            udp_payload_max: payload_max,
            idle_timeout_ns: settings.idle_timeout_ns,
            active_ns: now_ns,
            ..Connection::default()
        };
        self.begin_tls();
        Ok(())
    }

    /// Whether the path, or the server, has proved not to keep marks (RFC 9000 section 13.4.2).
    pub fn has_lost_marks(&self) -> bool {
        self.has_lost_marks
    }

    /// How many streams were sent to their end since the last call: for the first time, whether it arrived or not.
    #[inline]
    pub fn take_completed(&mut self) -> u32 {
        std::mem::take(&mut self.completed)
    }

    /// Whether a stream was sent to its end. One that is over counts as sent.
    pub fn was_sent(&self, stream: u64) -> bool {
        let slot = self.streams.find(stream);
        slot.is_none_or(|slot| self.streams.slots[slot as usize].send.was_sent())
    }

    /// Whether what arrived last was not the end of its stream.
    #[inline]
    pub fn is_amid_stream(&self) -> bool {
        self.streams.is_last_open
    }

    /// Bytes of UDP payload received.
    #[inline]
    pub fn received_udp_bytes(&self) -> u64 {
        self.counts.received.udp_bytes
    }

    /// Tells a recorder everything from now on, until the next [`Connection::open`].
    pub fn record(&mut self, recorder: Box<dyn Recorder>) {
        self.recording = Some(Box::new(Recording { recorder, frames: Vec::new(), generation: 0 }));
    }

    /// Acknowledges with the next datagrams what would be acknowledged soon: nobody will look at the timer.
    pub fn acknowledge_now(&mut self) {
        self.data.hurry();
    }

    /// Ends the connection with an error code of the application (HTTP/3: 0x100 is H3_NO_ERROR). `pack` makes the datagram that
    /// says so.
    pub fn close(&mut self, code: u64, reason: &str) {
        if self.is_live() {
            self.ended(QuicFailure::ClosedHere);
            self.closing = Some(Closing { is_application: true, code, reason: reason.into() });
            self.state = State::Closing;
        }
    }

    /// Opens a bidirectional stream and returns its ID, unless the server's limit is reached.
    #[inline]
    pub fn open_bi(&mut self, tag: u32) -> Option<u64> {
        if !self.is_open() {
            return None;
        }
        self.streams.open_bi(tag, self.stream_data_bi, self.flow.stream_window.min(varint::MAX))
    }

    /// The same, unidirectional.
    pub fn open_uni(&mut self, tag: u32) -> Option<u64> {
        if !self.is_open() {
            return None;
        }
        self.streams.open_uni(tag, self.stream_data_uni)
    }

    /// How many more bidirectional streams may be opened now.
    #[inline]
    pub fn capacity_bi(&self) -> u64 {
        if self.is_open() { self.streams.max_bi.saturating_sub(self.streams.next_bi) } else { 0 }
    }

    /// Appends to a stream; returns how many bytes were taken. It takes fewer than all only when a lot is unacknowledged: then
    /// [`Events::writable`] follows. `is_last` counts only if all were taken. A stream that is over, or was stopped, takes all and
    /// sends nothing.
    #[inline]
    pub fn write(&mut self, stream: u64, bytes: &[u8], is_last: bool) -> usize {
        let Some(slot) = self.streams.find(stream) else { return bytes.len() };
        let found = &mut self.streams.slots[slot as usize];
        if !found.send.is_writable() {
            return bytes.len();
        }
        let taken = found.send.room(self.congestion.kept_max()).min(bytes.len());
        found.send.write(&bytes[..taken]);
        found.is_short = taken < bytes.len();
        if is_last && !found.is_short {
            found.send.finish();
        }
        self.streams.queue(slot);
        taken
    }

    /// Gives up a stream in both directions, with an error code of the application.
    pub fn reset(&mut self, stream: u64, code: u64) {
        let Some(slot) = self.streams.find(stream) else { return };
        let found = &mut self.streams.slots[slot as usize];
        (found.is_silent, found.is_short, found.code) = (true, false, code);
        if !found.send.is_acknowledged() {
            found.send.abandon();
            (found.owed.reset, found.is_reset_open) = (true, true);
        }
        if !found.receive.is_over() && !found.receive.is_discarding {
            found.owed.stop = !found.receive.is_end_known();
            self.flow.delivered += found.receive.highest - found.receive.next;
            found.receive.discard();
        }
        self.streams.queue(slot);
        self.settle(slot);
    }

    /// Whether streams may be opened: there are keys of early data, or of the connection.
    #[inline]
    pub fn is_open(&self) -> bool {
        match self.state {
            State::Agreed | State::Confirmed => true,
            State::Shaking => self.has_early_keys,
            _ => false,
        }
    }

    /// Whether the handshake is complete; ALPN is known then.
    #[inline]
    pub fn is_agreed(&self) -> bool {
        self.one.is_some()
    }

    /// Whether the server has confirmed that the handshake is complete (HANDSHAKE_DONE).
    #[cfg(test)]
    pub fn is_confirmed(&self) -> bool {
        self.one.is_some() && self.shaking.is_none()
    }

    /// Whether the connection has ended, and has nothing more to say.
    #[inline]
    pub fn is_closed(&self) -> bool {
        matches!(self.state, State::Closed | State::Idle)
    }

    /// Why it has ended, or is about to.
    #[inline]
    pub fn failure(&self) -> Option<&QuicFailure> {
        self.failure.as_ref()
    }

    /// Whether there are keys to send early data with, and whether the server accepted it, once that is known. Rejected data is sent again.
    pub fn early_data(&self) -> (bool, Option<bool>) {
        (self.has_early_keys, self.early_accepted)
    }

    /// The version of QUIC.
    pub fn version(&self) -> Version {
        self.version
    }

    /// What TLS agreed on.
    pub fn tls(&self) -> Option<&ClientConnection> {
        self.tls.as_deref()
    }

    /// What was counted since [`Connection::open`].
    #[inline]
    pub fn counts(&self) -> &Counts {
        &self.counts
    }

    /// Least and smoothed round-trip time in ns, once measured.
    pub fn rtt_ns(&self) -> Option<(u64, u64)> {
        self.rtt.first_sample_at.map(|_| (self.rtt.min, self.rtt.smoothed))
    }

    /// Largest datagram that the path is known to carry, in bytes of UDP payload.
    pub fn mtu(&self) -> u16 {
        self.mtu.current
    }

    /// Neither ended nor ending.
    #[inline]
    pub(super) fn is_live(&self) -> bool {
        matches!(self.state, State::Shaking | State::Agreed | State::Confirmed)
    }

    /// Ends the connection, telling the server why if it should hear it.
    #[cold]
    pub(super) fn fail(&mut self, failure: QuicFailure) {
        if !self.is_live() {
            return;
        }
        self.state = State::Closed;
        if let Some(mut code) = failure.code() {
            if let QuicFailure::Tls(_) = failure
                && let Some(alert) = self.tls.as_ref().and_then(|tls| tls.alert())
            {
                code = 0x100 + u64::from(u8::from(alert));
            }
            self.closing = Some(Closing { is_application: false, code, reason: "".into() });
            self.state = State::Closing;
        }
        self.ended(failure);
    }

    fn ended(&mut self, failure: QuicFailure) {
        self.ignore_waiting();
        if let Some(recording) = &mut self.recording {
            recording.recorder.closed(&failure);
        }
        self.failure = Some(failure);
    }

    /// Frees the slot of a stream if it is over.
    #[inline]
    pub(super) fn settle(&mut self, slot: u32) {
        self.owes_max_streams |= self.streams.settle(slot);
    }

    /// Whether packets of a space are sent and received.
    #[inline]
    pub(super) fn has_keys(&self, id: SpaceId) -> bool {
        match (id, &self.shaking) {
            (SpaceId::Data, _) => self.one.is_some() || self.has_early_keys,
            (SpaceId::Initial, Some(shaking)) => shaking.initial_keys.is_some(),
            (SpaceId::Handshake, Some(shaking)) => shaking.handshake_keys.is_some(),
            (_, None) => false,
        }
    }

    pub(super) fn record_recovery(&mut self, now_ns: u64) {
        let Some(recording) = &mut self.recording else { return };
        recording.recorder.recovery(
            now_ns,
            &RecoveryRecord {
                min_rtt_ns: self.rtt.min,
                smoothed_rtt_ns: self.rtt.smoothed,
                latest_rtt_ns: self.rtt.latest,
                congestion_window: self.congestion.window,
                bytes_in_flight: self.congestion.in_flight,
                pto_count: self.probe_timeouts,
            },
        );
    }

    /// Bytes kept on the heap, without those of keys and of TLS.
    #[cfg(test)]
    pub(super) fn heap_bytes(&self) -> usize {
        self.data.sent.heap_bytes() + self.streams.heap_bytes()
    }
}

/// The space of an ID, borrowed from its field alone; `None`: its keys are gone.
macro_rules! space {
    ($connection:expr, $id:expr) => {
        match $id {
            SpaceId::Data => Some(&mut $connection.data),
            SpaceId::Initial => $connection.shaking.as_mut().map(|shaking| &mut shaking.initial),
            SpaceId::Handshake => $connection.shaking.as_mut().map(|shaking| &mut shaking.handshake),
        }
    };
}
pub(super) use space;

/// Notes a frame that is sent, if there is a recorder.
macro_rules! record {
    ($recording:expr, $name:expr, $subject:expr, $offset:expr, $length:expr) => {
        if let Some(recording) = &mut $recording {
            let frame = FrameRecord { name: $name, subject: $subject, offset: $offset, length: $length };
            recording.frames.push(frame);
        }
    };
}
pub(super) use record;
