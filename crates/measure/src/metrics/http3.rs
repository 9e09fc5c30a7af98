//! Counters of runs in HTTP/3 only: streams, and what QUIC sent and received.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{Moments, add, add_all};

/// Counters of a window, for one worker or all. Obey, exactly:
///
/// - `streams_carried_in + streams = whole + reset + rejected + given_up + streams_in_flight + streams_left_open`;
/// - `packets_carried_in + packets_sent = packets_acknowledged + packets_lost + packets_discarded + packets_in_flight + packets_left_open`;
/// - in each direction, UDP bytes are the sum of their parts.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct Http3Counts {
    /// Streams open when the window opened, or when a part of it that is left out was over.
    pub streams_carried_in: u64,
    /// Streams opened: one each time that a request was sent.
    pub streams: u64,
    /// Requests sent as early data (0-RTT) in handshakes that ended.
    pub early_requests: u64,
    /// Of those: sent again, because the server rejected the early data.
    pub early_repeated: u64,
    /// Streams whose answer was whole.
    pub whole: u64,
    /// Streams that the server reset, by another code than H3_REQUEST_REJECTED.
    pub reset: u64,
    /// Streams that the server did not process (H3_REQUEST_REJECTED).
    pub rejected: u64,
    /// Streams that the client gave up: after a timeout or an invalid answer, with their connection, or after the last that the server
    /// would answer (GOAWAY).
    pub given_up: u64,
    /// Streams open when the window closed.
    pub streams_in_flight: u64,
    /// Streams open where a part of the window began that is left out.
    #[serde(skip_serializing_if = "crate::units::is_zero")]
    pub streams_left_open: u64,
    /// Requests that the server refused without processing them: rejected streams, those after GOAWAY, and early data beyond its limits.
    pub refused: u64,
    /// Refused requests that were sent again.
    pub retried: u64,
    /// Resets by the server, by the name of their code.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub resets: BTreeMap<String, u64>,
    /// Connections that the server ended by GOAWAY.
    pub goaways: u64,
    /// Requests that waited for a stream because their connection had the maximum number.
    pub waited: u64,
    /// Maximum number of concurrent streams on one connection.
    pub concurrent_max: u64,
    /// Datagrams and UDP bytes that were sent.
    pub sent: UdpCounts,
    /// Datagrams and UDP bytes that were received.
    pub received: UdpCounts,
    /// Calls that sent datagrams, and calls that received some.
    pub sends: u64,
    /// See `sends`.
    pub receives: u64,
    /// Calls whose datagrams the socket did not take all: they count as sent, and are lost.
    pub unsent: u64,
    /// Times that a socket dropped datagrams because its receive queue was full, as far as a later datagram told.
    pub receive_drops: u64,
    /// Packets that were neither acknowledged nor lost when the window opened, or when a part of it that is left out was over.
    pub packets_carried_in: u64,
    /// Packets sent that the server has to acknowledge.
    pub packets_sent: u64,
    /// Packets sent that hold acknowledgements alone.
    pub ack_packets_sent: u64,
    /// Packets acknowledged before they were believed to be lost.
    pub packets_acknowledged: u64,
    /// Packets believed to be lost.
    pub packets_lost: u64,
    /// Of those: acknowledged later.
    pub packets_lost_spuriously: u64,
    /// Packets given up with the keys of the handshake, and lost probes of the path MTU.
    pub packets_discarded: u64,
    /// Packets whose fate was unknown when the window closed, or when their connection ended.
    pub packets_in_flight: u64,
    /// Packets whose fate was unknown where a part of the window began that is left out.
    #[serde(skip_serializing_if = "crate::units::is_zero")]
    pub packets_left_open: u64,
    /// Packets received and decrypted, without duplicates.
    pub packets_received: u64,
    /// Packets that could not be decrypted.
    pub packets_undecryptable: u64,
    /// Probe timeouts (PTO).
    pub probe_timeouts: u64,
    /// Times that the congestion window was reduced.
    pub congestion_events: u64,
    /// Connections that began again with a token of the server (Retry).
    pub retries: u64,
    /// Version Negotiation packets.
    pub version_negotiations: u64,
    /// Key updates.
    pub key_updates: u64,
    /// Datagrams received with the mark CE.
    pub ce_received: u64,
    /// Smoothed round-trip times in nanoseconds, one of each connection: when it ended, or when the window closed.
    pub rtt_smoothed: Moments,
    /// Least round-trip times in nanoseconds, one of each connection.
    pub rtt_least: Moments,
    /// Largest datagrams that paths carried, in bytes of UDP payload, one of each connection.
    pub mtu: Moments,
}

/// Datagrams of one direction. All but `datagrams` are bytes of UDP payload.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct UdpCounts {
    /// Datagrams.
    pub datagrams: u64,
    /// All bytes.
    pub bytes: u64,
    /// Content of streams, for the first time.
    pub stream_new: u64,
    /// Content of streams that was sent before.
    pub stream_repeated: u64,
    /// Frames without the content of streams.
    pub other_frames: u64,
    /// Padding.
    pub padding: u64,
    /// Heads of packets and authentication tags.
    pub overhead: u64,
    /// Packets that were not used: received twice, not decrypted, after the end.
    pub ignored: u64,
}

impl UdpCounts {
    /// The sum of its parts, which `bytes` must equal.
    pub fn parts(&self) -> u64 {
        [self.stream_new, self.stream_repeated, self.other_frames, self.padding, self.overhead, self.ignored]
            .into_iter()
            .fold(0, u64::saturating_add)
    }

    /// Adds the counts of another.
    pub fn merge(&mut self, other: &UdpCounts) {
        add_all!(
            self,
            other,
            [datagrams, bytes, stream_new, stream_repeated, other_frames, padding, overhead, ignored]
        );
    }

    fn since(&self, earlier: &UdpCounts) -> UdpCounts {
        UdpCounts {
            datagrams: self.datagrams - earlier.datagrams,
            bytes: self.bytes - earlier.bytes,
            stream_new: self.stream_new - earlier.stream_new,
            stream_repeated: self.stream_repeated - earlier.stream_repeated,
            other_frames: self.other_frames - earlier.other_frames,
            padding: self.padding - earlier.padding,
            overhead: self.overhead - earlier.overhead,
            ignored: self.ignored - earlier.ignored,
        }
    }
}

/// Every sum, so that none is forgotten.
macro_rules! each_sum {
    ($call:ident) => {
        $call!(
            streams,
            early_requests,
            early_repeated,
            whole,
            reset,
            rejected,
            given_up,
            refused,
            retried,
            goaways,
            waited,
            sends,
            receives,
            unsent,
            receive_drops,
            packets_sent,
            ack_packets_sent,
            packets_acknowledged,
            packets_lost,
            packets_lost_spuriously,
            packets_discarded,
            packets_received,
            packets_undecryptable,
            probe_timeouts,
            congestion_events,
            retries,
            version_negotiations,
            key_updates,
            ce_received
        )
    };
}

impl Http3Counts {
    /// Adds those of another worker, or of another iteration.
    pub fn merge(&mut self, other: &Http3Counts) {
        macro_rules! sums {
            ($($field:ident),*) => { add_all!(self, other, [$($field),*]) };
        }
        each_sum!(sums);
        add_all!(self, other, [streams_carried_in, streams_in_flight, streams_left_open]);
        add_all!(self, other, [packets_carried_in, packets_in_flight, packets_left_open]);
        for (code, count) in &other.resets {
            add(self.resets.entry(code.clone()).or_default(), *count);
        }
        self.sent.merge(&other.sent);
        self.received.merge(&other.received);
        self.concurrent_max = self.concurrent_max.max(other.concurrent_max);
        self.rtt_smoothed.merge(&other.rtt_smoothed);
        self.rtt_least.merge(&other.rtt_least);
        self.mtu.merge(&other.mtu);
    }

    /// What was counted since an earlier state of the same counters: what was in flight then was carried in.
    pub fn since(&self, earlier: &Http3Counts) -> Http3Counts {
        let mut since = self.clone();
        macro_rules! sums {
            ($($field:ident),*) => { $(since.$field -= earlier.$field;)* };
        }
        each_sum!(sums);
        since.streams_carried_in = earlier.streams_in_flight;
        since.packets_carried_in = earlier.packets_in_flight;
        for (code, count) in &earlier.resets {
            if let Some(all) = since.resets.get_mut(code) {
                *all -= count;
            }
        }
        since.resets.retain(|_, count| *count > 0);
        since.sent = self.sent.since(&earlier.sent);
        since.received = self.received.since(&earlier.received);
        since
    }

    /// Both sides of each identity, and its rule.
    pub fn identities(&self) -> [(&'static str, u64, u64); 4] {
        let sum = |parts: &[u64]| parts.iter().copied().fold(0, u64::saturating_add);
        [
            (
                "streams: carried in + opened = whole + reset + rejected + given up + in flight + left open",
                sum(&[self.streams_carried_in, self.streams]),
                sum(&[
                    self.whole,
                    self.reset,
                    self.rejected,
                    self.given_up,
                    self.streams_in_flight,
                    self.streams_left_open,
                ]),
            ),
            (
                "packets: carried in + sent = acknowledged + lost + discarded + in flight + left open",
                sum(&[self.packets_carried_in, self.packets_sent]),
                sum(&[
                    self.packets_acknowledged,
                    self.packets_lost,
                    self.packets_discarded,
                    self.packets_in_flight,
                    self.packets_left_open,
                ]),
            ),
            ("UDP bytes sent = the sum of their parts", self.sent.bytes, self.sent.parts()),
            ("UDP bytes received = the sum of their parts", self.received.bytes, self.received.parts()),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_is_what_was_counted_since_it_opened() {
        let at_open = Http3Counts {
            streams: 5,
            whole: 3,
            reset: 1,
            streams_in_flight: 1,
            packets_sent: 7,
            packets_acknowledged: 5,
            packets_in_flight: 2,
            resets: [("A".to_owned(), 1)].into(),
            sent: UdpCounts { datagrams: 7, bytes: 100, stream_new: 100, ..UdpCounts::default() },
            ..Http3Counts::default()
        };
        let at_close = Http3Counts {
            streams: 9,
            whole: 6,
            reset: 3,
            streams_in_flight: 0,
            packets_sent: 10,
            packets_acknowledged: 8,
            packets_lost: 1,
            packets_in_flight: 1,
            resets: [("A".to_owned(), 1), ("B".to_owned(), 2)].into(),
            sent: UdpCounts {
                datagrams: 10,
                bytes: 130,
                stream_new: 110,
                padding: 20,
                ..UdpCounts::default()
            },
            ..Http3Counts::default()
        };
        let mut window = at_close.since(&at_open);
        assert_eq!((window.streams, window.streams_carried_in, window.whole, window.reset), (4, 1, 3, 2));
        assert_eq!(window.resets, [("B".to_owned(), 2)].into());
        for (rule, left, right) in window.identities() {
            assert_eq!(left, right, "{rule}");
        }
        window.merge(&window.clone());
        assert_eq!((window.sent.bytes, window.packets_sent, window.resets["B"]), (60, 6, 4));
        window.packets_lost += 1;
        assert!(window.identities().iter().any(|(_, left, right)| left != right));
    }
}
