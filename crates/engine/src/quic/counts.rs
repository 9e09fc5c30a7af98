//! What a connection counts, from [`Connection::open`](super::Connection::open) on.

/// See the module comment. `sent` and `received` obey, at any time:
///
/// `udp_bytes = stream_new + stream_repeated + other_frames + padding + overhead + ignored`
///
/// and packets: `packets_sent = packets_acknowledged + packets_lost + packets_in_flight + packets_discarded`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// What was sent; `ignored` is 0.
    pub sent: DirectionCounts,
    /// What was received. `ignored`: packets that could not be decrypted, came twice or too late, and everything after the
    /// end.
    pub received: DirectionCounts,
    /// Packets sent that the server has to acknowledge, or that were padded.
    pub packets_sent: u64,
    /// Packets sent that hold acknowledgements or a close only. They are in no other count.
    pub ack_packets_sent: u64,
    /// Of `packets_sent`: acknowledged before they were believed to be lost.
    pub packets_acknowledged: u64,
    /// Believed to be lost.
    pub packets_lost: u64,
    /// Of those lost: acknowledged later.
    pub packets_lost_spuriously: u64,
    /// Neither acknowledged nor lost yet; at the end, those whose fate is unknown.
    pub packets_in_flight: u64,
    /// Given up together with the keys of the handshake or of early data, their fate unknown; and lost probes of the path MTU.
    pub packets_discarded: u64,
    /// Packets received and decrypted, without duplicates.
    pub packets_received: u64,
    /// Packets that came twice.
    pub packets_duplicate: u64,
    /// Packets that could not be decrypted, or are not QUIC.
    pub packets_undecryptable: u64,
    /// Packets of the handshake that came after its keys were given up: mostly ones that the server sent again.
    pub packets_late: u64,
    /// Probe timeouts.
    pub probe_timeouts: u64,
    /// Times that the congestion window was reduced, by loss or by CE marks.
    pub congestion_events: u64,
    /// Of those: persistent congestion.
    pub persistent_congestions: u64,
    /// Retry packets accepted: 0 or 1.
    pub retries: u64,
    /// Retry packets ignored: a second one, or an invalid integrity tag.
    pub retries_refused: u64,
    /// Version Negotiation packets.
    pub version_negotiations: u64,
    /// Key updates, begun by either side.
    pub key_updates: u64,
    /// Tickets for resumption.
    pub tickets: u64,
    /// Datagrams received with a CE mark.
    pub ce_received: u64,
    /// STREAM frames that came before earlier data of their stream.
    pub frames_out_of_order: u64,
}

/// Of one direction. All are bytes of UDP payload unless named otherwise.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DirectionCounts {
    /// Datagrams.
    pub datagrams: u64,
    /// Payload of UDP.
    pub udp_bytes: u64,
    /// Content of streams, for the first time.
    pub stream_new: u64,
    /// Content of streams that was sent before.
    pub stream_repeated: u64,
    /// Frames without the content of streams, which includes the heads of STREAM frames.
    pub other_frames: u64,
    /// PADDING.
    pub padding: u64,
    /// Heads of packets and their authentication tags; whole Retry and Version Negotiation packets.
    pub overhead: u64,
    /// See [`Counts::received`].
    pub ignored: u64,
}

impl DirectionCounts {
    /// What `udp_bytes` must be.
    pub fn parts(&self) -> u64 {
        self.stream_new
            + self.stream_repeated
            + self.other_frames
            + self.padding
            + self.overhead
            + self.ignored
    }
}
