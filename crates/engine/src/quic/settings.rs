//! What is the same for many connections.

use std::sync::Arc;

use rustls::ClientConfig;

/// A version of QUIC.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Version {
    /// RFC 9000.
    #[default]
    V1,
    /// RFC 9369.
    V2,
}

/// Settings of connections; made once. ALPN, sessions, early data and the key log are those of `tls`.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Must allow TLS 1.3. Early data is sent if it is enabled there and the session allows it.
    pub tls: Arc<ClientConfig>,
    /// The version to speak, the only one offered.
    pub version: Version,
    /// Largest datagram to send and to receive, in bytes of UDP payload: 1,200 to 65,527. Path MTU discovery probes up to it.
    pub udp_payload_bytes_max: u16,
    /// Whether datagrams of more than 1,200 bytes are tried.
    pub probes_mtu: bool,
    /// Idle timeout offered, in ns; 0: none.
    pub idle_timeout_ns: u64,
    /// How many bytes of one stream the server may send ahead of what was delivered.
    pub stream_window: u64,
    /// The same for all streams of a connection.
    pub connection_window: u64,
    /// How many unidirectional streams of the server may exist at a time.
    pub peer_streams_uni: u64,
    /// Whether datagrams are marked ECT(0), until the path proves not to keep marks.
    pub uses_ecn: bool,
    /// Whether sending is spread over the round trip (RFC 9002 section 7.7).
    pub paces: bool,
    /// Maximum number of datagrams that one [`Packed`](super::Packed) holds: what the kernel cuts (GSO).
    pub segments_max: usize,
    /// Number of packets after which this side updates its keys. If it is above the cipher's limit, that limit decides.
    pub key_update_packets: u64,
}

impl Settings {
    /// Settings that suit a load generator.
    pub fn new(tls: Arc<ClientConfig>) -> Settings {
        Settings {
            tls,
            version: Version::V1,
            udp_payload_bytes_max: 1472,
            probes_mtu: true,
            idle_timeout_ns: 30_000_000_000,
            stream_window: 8 << 20,
            connection_window: 16 << 20,
            peer_streams_uni: 16,
            uses_ecn: true,
            paces: true,
            segments_max: 64,
            key_update_packets: u64::MAX,
        }
    }
}
