//! What a level's connections took, and what went over the network, in the few figures by which cells are compared.

use serde::Serialize;
use webstone_measure::figures::table;
use webstone_measure::metric::Reading;

/// The network of a level, over all of its iterations.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct LevelNetwork {
    /// Mean time to make a connection, in seconds: of TCP without TLS, of QUIC with its handshake. Absent where none was made.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub connect_mean_s: Option<f64>,
    /// Bytes of IP packets towards the server and back, per request.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bytes_per_request: Option<f64>,
    /// Bytes of IP packets that clients received over a path, per request. Absent without a path.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path_received_bytes_per_request: Option<f64>,
    /// Packets that the path lost, in percent. Absent without a path.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path_lost_percent: Option<f64>,
}

impl LevelNetwork {
    pub(super) fn of_reading(reading: &Reading<'_>) -> LevelNetwork {
        let figure = |key: &str| Some(table::figure(key)?.value(reading)?.as_f64());
        LevelNetwork {
            connect_mean_s: figure("connect_mean_s"),
            bytes_per_request: figure("network_bytes_per_request"),
            path_received_bytes_per_request: figure("path_received_bytes_per_request"),
            path_lost_percent: figure("path_lost_percent"),
        }
    }
}
