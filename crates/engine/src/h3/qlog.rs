//! qlog of the first connections, for qvis and other tools: a file for each, as JSON text sequences (RFC 7464) in the format of
//! draft-ietf-quic-qlog-main-schema-02 to -04 (`"qlog_version":"0.3"`), which qvis reads. It holds no keys, and no content of streams.
//!
//! An event costs a formatted line; connections without a recorder pay a comparison per packet.

use std::fs::{File, OpenOptions};
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use crate::plan_error::PlanError;
use crate::quic::{FrameRecord, LossReason, PacketKind, PacketRecord, QuicFailure, Recorder, RecoveryRecord};

/// Where connections are logged, and how many of them.
#[derive(Debug)]
pub(crate) struct Qlog {
    directory: PathBuf,
    connections: u32,
    begun: AtomicU32,
}

impl Qlog {
    /// Creates the directory if it is not there.
    ///
    /// # Errors
    /// If that is not possible.
    pub(crate) fn new(directory: &str, connections: u32) -> Result<Qlog, PlanError> {
        std::fs::create_dir_all(directory).map_err(|error| {
            PlanError::new(format!("--qlog {directory}: {error}"), "name a directory that can be written to")
        })?;
        Ok(Qlog { directory: directory.into(), connections, begun: AtomicU32::new(0) })
    }

    /// The recorder of the next connection, if it is one of the first and its file can be created; `id`: its first destination
    /// connection ID.
    #[cold]
    pub(crate) fn next(&self, id: [u8; 8], now_ns: u64) -> Option<Box<dyn Recorder>> {
        if self.begun.load(Relaxed) >= self.connections {
            return None;
        }
        let number = self.begun.fetch_add(1, Relaxed) + 1;
        if number > self.connections {
            return None;
        }
        let id: String = id.iter().map(|byte| format!("{byte:02x}")).collect();
        let writer = Writer::create(&self.directory.join(format!("{number:04}-{id}.sqlog")), &id, now_ns);
        writer.ok().map(|writer| Box::new(writer) as Box<dyn Recorder>)
    }
}

/// The file of a connection. Write errors are ignored: the records are then missing.
struct Writer {
    out: BufWriter<File>,
    began_ns: u64,
    last_ns: u64,
}

impl Writer {
    fn create(path: &Path, id: &str, now_ns: u64) -> std::io::Result<Writer> {
        let file = OpenOptions::new().write(true).create_new(true).open(path)?;
        let mut out = BufWriter::new(file);
        writeln!(
            out,
            "\u{1e}{{\"qlog_version\":\"0.3\",\"qlog_format\":\"JSON-SEQ\",\"title\":\"webstone\",\"trace\":{{\
             \"vantage_point\":{{\"name\":\"webstone\",\"type\":\"client\"}},\"common_fields\":{{\"ODCID\":\"{id}\",\
             \"protocol_type\":[\"QUIC\",\"HTTP3\"],\"time_format\":\"relative\",\"reference_time\":0}}}}}}"
        )?;
        Ok(Writer { out, began_ns: now_ns, last_ns: now_ns })
    }

    /// An event; `data` is the content of a JSON object.
    fn event(&mut self, now_ns: u64, name: &str, data: std::fmt::Arguments<'_>) {
        self.last_ns = now_ns;
        let at = millis(now_ns.saturating_sub(self.began_ns));
        let _ = writeln!(self.out, "\u{1e}{{\"time\":{at},\"name\":\"{name}\",\"data\":{{{data}}}}}");
    }

    fn packet(&mut self, now_ns: u64, name: &str, packet: &PacketRecord<'_>) {
        let (kind, number, bytes) = (type_name(packet.kind), packet.number, packet.bytes);
        let frames = Frames(packet.frames);
        let number = match packet.kind {
            PacketKind::Retry | PacketKind::VersionNegotiation => String::new(),
            _ => format!(",\"packet_number\":{number}"),
        };
        self.event(
            now_ns,
            name,
            format_args!(
                "\"header\":{{\"packet_type\":\"{kind}\"{number}}},\"raw\":{{\"length\":{bytes}}},\"frames\":[{frames}]"
            ),
        );
    }
}

impl Recorder for Writer {
    fn sent(&mut self, now_ns: u64, packet: &PacketRecord<'_>) {
        self.packet(now_ns, "transport:packet_sent", packet);
    }

    fn received(&mut self, now_ns: u64, packet: &PacketRecord<'_>) {
        self.packet(now_ns, "transport:packet_received", packet);
    }

    fn lost(&mut self, now_ns: u64, space: PacketKind, number: u64, by: LossReason) {
        let trigger = match by {
            LossReason::Reordering => "reordering_threshold",
            LossReason::Time => "time_threshold",
        };
        let kind = type_name(space);
        self.event(
            now_ns,
            "recovery:packet_lost",
            format_args!(
                "\"header\":{{\"packet_type\":\"{kind}\",\"packet_number\":{number}}},\"trigger\":\"{trigger}\""
            ),
        );
    }

    fn recovery(&mut self, now_ns: u64, state: &RecoveryRecord) {
        let RecoveryRecord { congestion_window, bytes_in_flight, pto_count, .. } = state;
        let rtt = match state.latest_rtt_ns {
            0 => String::new(),
            latest => format!(
                "\"min_rtt\":{},\"smoothed_rtt\":{},\"latest_rtt\":{},",
                millis(state.min_rtt_ns),
                millis(state.smoothed_rtt_ns),
                millis(latest)
            ),
        };
        self.event(
            now_ns,
            "recovery:metrics_updated",
            format_args!(
                "{rtt}\"congestion_window\":{congestion_window},\"bytes_in_flight\":{bytes_in_flight},\
                 \"pto_count\":{pto_count}"
            ),
        );
    }

    fn keys_updated(&mut self, now_ns: u64, generation: u64) {
        for side in ["client", "server"] {
            self.event(
                now_ns,
                "security:key_updated",
                format_args!("\"key_type\":\"{side}_1rtt_secret\",\"generation\":{generation}"),
            );
        }
    }

    fn closed(&mut self, failure: &QuicFailure) {
        let (owner, trigger, code) = match failure {
            QuicFailure::ClosedHere => ("local", "clean", String::new()),
            QuicFailure::ClosedByPeer(code, ..) => {
                ("remote", "error", format!(",\"connection_code\":{code}"))
            }
            QuicFailure::ClosedByApplication(code, _) => {
                ("remote", "application", format!(",\"application_code\":{code}"))
            }
            QuicFailure::StatelessReset => ("remote", "stateless_reset", String::new()),
            QuicFailure::Idle => ("local", "idle_timeout", String::new()),
            QuicFailure::Version(_) => ("remote", "version_mismatch", String::new()),
            QuicFailure::Fault(fault) => ("local", "error", format!(",\"connection_code\":{}", fault.code())),
            QuicFailure::Tls(_) | QuicFailure::EarlyLimits => ("local", "error", String::new()),
        };
        self.event(
            self.last_ns,
            "connectivity:connection_closed",
            format_args!("\"owner\":\"{owner}\",\"trigger\":\"{trigger}\"{code}"),
        );
    }
}

/// As JSON, in milliseconds.
fn millis(ns: u64) -> String {
    format!("{}.{:06}", ns / 1_000_000, ns % 1_000_000)
}

fn type_name(kind: PacketKind) -> &'static str {
    match kind {
        PacketKind::Initial => "initial",
        PacketKind::ZeroRtt => "0RTT",
        PacketKind::Handshake => "handshake",
        PacketKind::Retry => "retry",
        PacketKind::VersionNegotiation => "version_negotiation",
        PacketKind::OneRtt => "1RTT",
    }
}

/// Frames of a packet, as the elements of an array. The ranges of an ACK frame follow each other.
struct Frames<'a>(&'a [FrameRecord]);

impl std::fmt::Display for Frames<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut rest = self.0;
        let mut comma = "";
        while let [FrameRecord { name, subject, offset, length }, after @ ..] = rest {
            rest = after;
            write!(f, "{comma}{{\"frame_type\":\"{name}\"")?;
            comma = ",";
            match *name {
                "stream" => {
                    write!(f, ",\"stream_id\":{subject},\"offset\":{offset},\"length\":{length}")?;
                }
                "crypto" => write!(f, ",\"offset\":{offset},\"length\":{length}")?,
                "padding" | "new_token" => write!(f, ",\"length\":{length}")?,
                "ack" => {
                    write!(f, ",\"acked_ranges\":[[{offset},{subject}]")?;
                    while let [FrameRecord { name: "ack", subject, offset, .. }, after @ ..] = rest {
                        rest = after;
                        write!(f, ",[{offset},{subject}]")?;
                    }
                    f.write_str("]")?;
                }
                "reset_stream" => {
                    write!(f, ",\"stream_id\":{subject},\"error_code\":{offset},\"final_size\":{length}")?;
                }
                "stop_sending" => write!(f, ",\"stream_id\":{subject},\"error_code\":{offset}")?,
                "max_data" | "max_streams" => write!(f, ",\"maximum\":{subject}")?,
                "max_stream_data" => write!(f, ",\"stream_id\":{subject},\"maximum\":{offset}")?,
                "data_blocked" | "streams_blocked" => write!(f, ",\"limit\":{subject}")?,
                "stream_data_blocked" => write!(f, ",\"stream_id\":{subject},\"limit\":{offset}")?,
                "new_connection_id" | "retire_connection_id" => write!(f, ",\"sequence_number\":{subject}")?,
                "connection_close" => write!(f, ",\"raw_error_code\":{subject}")?,
                _ => {}
            }
            f.write_str("}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value;

    /// The records of a file.
    fn read(path: &Path) -> Vec<Value> {
        let text = std::fs::read_to_string(path).unwrap();
        let records = text.strip_prefix('\u{1e}').unwrap().split('\u{1e}');
        records.map(|record| serde_json::from_str(record.strip_suffix('\n').unwrap()).unwrap()).collect()
    }

    #[test]
    fn events_are_json_and_the_first_connections_have_files() {
        let directory = tempfile::tempdir().unwrap();
        let qlog = Qlog::new(&directory.path().join("a/b").to_string_lossy(), 1).unwrap();
        let mut recorder = qlog.next([0xab; 8], 5_000_000).unwrap();
        assert!(qlog.next([0xcd; 8], 0).is_none() && qlog.next([0xcd; 8], 0).is_none());
        let frame = |name, subject, offset, length| FrameRecord { name, subject, offset, length };
        let frames = [
            frame("ack", 9, 8, 0),
            frame("ack", 3, 1, 0),
            frame("stream", 4, 10, 20),
            frame("reset_stream", 8, 256, 7),
            frame("padding", 0, 0, 3),
            frame("ping", 0, 0, 0),
        ];
        let packet = |kind| PacketRecord { kind, number: 7, bytes: 99, frames: &frames };
        recorder.sent(5_000_000, &packet(PacketKind::ZeroRtt));
        recorder.received(6_500_000, &packet(PacketKind::OneRtt));
        recorder.lost(7_000_000, PacketKind::OneRtt, 7, LossReason::Time);
        let state = RecoveryRecord {
            min_rtt_ns: 1,
            smoothed_rtt_ns: 2_000_000,
            latest_rtt_ns: 3,
            congestion_window: 4,
            bytes_in_flight: 5,
            pto_count: 6,
        };
        recorder.recovery(8_000_000, &state);
        recorder.keys_updated(9_000_000, 1);
        recorder.closed(&QuicFailure::ClosedByApplication(0x102, "hidden".into()));
        drop(recorder);
        let file = directory.path().join("a/b/0001-abababababababab.sqlog");
        let records = read(&file);
        assert_eq!(records[0]["trace"]["common_fields"]["ODCID"], "abababababababab");
        assert_eq!(records[0]["qlog_format"], "JSON-SEQ");
        let names: Vec<&str> = records[1..].iter().map(|event| event["name"].as_str().unwrap()).collect();
        let expected = [
            "transport:packet_sent",
            "transport:packet_received",
            "recovery:packet_lost",
            "recovery:metrics_updated",
            "security:key_updated",
            "security:key_updated",
            "connectivity:connection_closed",
        ];
        assert_eq!(names, expected);
        let sent = &records[1]["data"];
        assert_eq!((&records[1]["time"], &records[2]["time"]), (&0.0.into(), &1.5.into()));
        assert_eq!((&sent["header"]["packet_type"], &sent["raw"]["length"]), (&"0RTT".into(), &99.into()));
        assert_eq!(sent["frames"][0]["acked_ranges"], serde_json::json!([[8, 9], [1, 3]]));
        assert_eq!(sent["frames"].as_array().unwrap().len(), 5);
        assert_eq!(records[4]["data"]["smoothed_rtt"], 2.0);
        assert_eq!(records[7]["data"]["application_code"], 0x102);
        assert!(!std::fs::read_to_string(file).unwrap().contains("hidden"), "reasons may hold anything");
    }
}
