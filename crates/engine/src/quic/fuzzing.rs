//! A connection whose 1-RTT keys anybody can compute, so that a fuzzer's bytes pass for packets of the server.

use rustls::Side;

use super::connection::{Connection, State};
use super::keys::{self, OneRtt};
use super::packet::TAG_BYTES;
use super::settings::Version;
use super::space::SpaceId;
use super::{Counts, varint};

const ID: [u8; 8] = *b"original";

/// A connection as after its handshake, without TLS. The server allows 16 streams of 64 KiB each way.
pub fn confirmed() -> Connection {
    let keys = keys::initial(Version::V1, &ID, Side::Client);
    let mut connection = Connection {
        state: State::Confirmed,
        one: Some(Box::new(OneRtt::without_updates(keys))),
        idle_timeout_ns: 30_000_000_000,
        ack_delay_max_ns: 25_000_000,
        stream_data_bi: 1 << 16,
        stream_data_uni: 1 << 16,
        segments_max: 64,
        is_ect: true,
        paces: true,
        ..Connection::default()
    };
    connection.streams.clear(16);
    (connection.streams.max_bi, connection.streams.max_uni) = (16, 3);
    (connection.flow.max, connection.flow.limit, connection.flow.window) = (1 << 18, 1 << 18, 1 << 18);
    connection.flow.stream_window = 1 << 16;
    connection
}

/// A packet of the server with this number and these frames.
pub fn packet(number: u64, frames: &[u8]) -> Vec<u8> {
    let keys = keys::initial(Version::V1, &ID, Side::Server);
    let mut packet = vec![0x43];
    packet.extend((number as u32).to_be_bytes());
    packet.extend(frames);
    packet.extend([0; TAG_BYTES]);
    keys::seal(&*keys.local.header, &*keys.local.packet, &mut packet, 1, 4, number);
    packet
}

/// Panics unless the identities that [`Counts`] states hold, and what is in flight is what recovery believes.
pub fn check(connection: &Connection) {
    let counts: &Counts = connection.counts();
    assert_eq!(counts.sent.udp_bytes, counts.sent.parts(), "{counts:?}");
    assert_eq!(counts.received.udp_bytes, counts.received.parts(), "{counts:?}");
    let fates = counts.packets_acknowledged
        + counts.packets_lost
        + counts.packets_in_flight
        + counts.packets_discarded;
    assert_eq!(counts.packets_sent, fates, "{counts:?}");
    assert!(counts.packets_lost_spuriously <= counts.packets_lost);
    let flow = &connection.flow;
    assert!(flow.delivered <= flow.received && flow.sent <= flow.max && flow.limit <= varint::MAX);
    if connection.has_keys(SpaceId::Data) && connection.shaking.is_none() {
        assert!(connection.data.sent.eliciting as u64 <= counts.packets_in_flight);
    }
}
