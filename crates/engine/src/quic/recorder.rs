//! What qlog records of a connection. Without a recorder it costs a comparison per packet.

use super::error::QuicFailure;

/// Takes what happens, in order. Called from within `hear`, `pack` and `timeout`.
pub trait Recorder: Send {
    /// A packet was sent.
    fn sent(&mut self, now_ns: u64, packet: &PacketRecord<'_>);
    /// A packet was received and decrypted. Frames after an invalid one are missing.
    fn received(&mut self, now_ns: u64, packet: &PacketRecord<'_>);
    /// A packet is believed to be lost.
    fn lost(&mut self, now_ns: u64, space: PacketKind, number: u64, by: LossReason);
    /// State of recovery after a change, in ns and bytes.
    fn recovery(&mut self, now_ns: u64, state: &RecoveryRecord);
    /// Both sides use new keys; `generation` counts the updates.
    fn keys_updated(&mut self, now_ns: u64, generation: u64);
    /// The connection ends, at the time of the last event.
    fn closed(&mut self, failure: &QuicFailure);
}

/// A packet.
#[derive(Clone, Copy, Debug)]
pub struct PacketRecord<'a> {
    /// Its type.
    pub kind: PacketKind,
    /// Its number; 0 for Retry and Version Negotiation.
    pub number: u64,
    /// Its size in bytes.
    pub bytes: usize,
    /// Its frames. A run of PADDING is one.
    pub frames: &'a [FrameRecord],
}

/// A frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameRecord {
    /// Its name in qlog: `stream`, `ack`, `max_data`.
    pub name: &'static str,
    /// Stream, if it has one; for `ack` the largest number of a range, each of which is a record; for
    /// `connection_close` the code; otherwise its first number.
    pub subject: u64,
    /// Offset in the stream, the smallest number of the range, or its second number.
    pub offset: u64,
    /// Content in bytes.
    pub length: u64,
}

/// Types of packets.
#[expect(missing_docs, reason = "named as in RFC 9000 section 17")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PacketKind {
    Initial,
    ZeroRtt,
    Handshake,
    Retry,
    VersionNegotiation,
    OneRtt,
}

/// Why a packet is believed to be lost (RFC 9002 section 6.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LossReason {
    /// A packet sent three later was acknowledged.
    Reordering,
    /// A later packet was acknowledged, and this one was sent too long ago.
    Time,
}

/// See [`Recorder::recovery`].
#[expect(missing_docs, reason = "named as in qlog")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecoveryRecord {
    pub min_rtt_ns: u64,
    pub smoothed_rtt_ns: u64,
    pub latest_rtt_ns: u64,
    pub congestion_window: u64,
    pub bytes_in_flight: u64,
    pub pto_count: u32,
}
