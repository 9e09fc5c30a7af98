//! Runs in another protocol than that of calibrations.

use webstone_model::record::RunRecord;

use super::stored;

/// Why the share of a run is unknown even if its generator was calibrated: the null server speaks HTTP/1 without TLS. `None` for a run
/// like that.
pub(super) fn other_protocol(record: &RunRecord) -> Option<String> {
    let http = record.spec.client.http;
    let over_tls = record.iterations.iter().any(|run| run.measured.handshakes.is_some());
    let spoken = match (http.has_streams(), over_tls) {
        (true, _) => format!("in {}", http.name()),
        (false, true) => "over TLS".to_owned(),
        (false, false) => return None,
    };
    Some(format!("a calibration is of HTTP/1 without TLS, and the run was {spoken}"))
}

/// Whether the generator was calibrated, on every host, though in another protocol than the run's.
pub fn is_of_another_protocol(record: &RunRecord) -> bool {
    let is_stored = match record.generators.is_empty() {
        true => stored(&record.environment, &record.tool, None).is_ok(),
        false => (0..record.generators.len())
            .all(|place| stored(&record.generators[place].environment, &record.tool, Some(place)).is_ok()),
    };
    is_stored && other_protocol(record).is_some()
}
