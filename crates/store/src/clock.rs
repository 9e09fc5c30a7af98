//! Wall-clock time as records print it: RFC 3339 in UTC, and the compact form that names directories.
//!
//! Instants that a person reads come from here, and a thread's own CPU time. Intervals are measured by the engine on the
//! monotonic clock.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use jiff::Timestamp;

/// A wall-clock instant in RFC 3339, UTC, to the millisecond: `2026-01-31T12:30:05.250Z`.
pub fn rfc3339(time: SystemTime) -> String {
    format!("{:.3}", timestamp(time))
}

/// The same instant as part of a file name, to the second and in ISO 8601's basic format, which sorts by time and has no
/// character that a shell or a file system treats specially: `20260131T123005Z`.
pub fn file_name_stamp(time: SystemTime) -> String {
    timestamp(time).strftime("%Y%m%dT%H%M%SZ").to_string()
}

/// Whether the text has the form that [`file_name_stamp`] writes.
pub fn is_file_name_stamp(text: &str) -> bool {
    let is_digit = |at: usize, byte: u8| match at {
        8 => byte == b'T',
        15 => byte == b'Z',
        _ => byte.is_ascii_digit(),
    };
    text.len() == 16 && text.bytes().enumerate().all(|(at, byte)| is_digit(at, byte))
}

/// Reads what [`rfc3339`] wrote. `None` for anything else.
pub fn parse_rfc3339(text: &str) -> Option<SystemTime> {
    text.parse::<Timestamp>().ok().map(SystemTime::from)
}

/// Time since the Unix epoch; zero for a clock set before 1970.
pub fn since_epoch(time: SystemTime) -> Duration {
    time.duration_since(UNIX_EPOCH).unwrap_or_default()
}

/// CPU time that the calling thread has used so far.
pub fn own_cpu_time() -> Duration {
    let used = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::new(used.tv_sec.unsigned_abs(), used.tv_nsec.unsigned_abs() as u32)
}

fn timestamp(time: SystemTime) -> Timestamp {
    // A clock beyond the year 9999 is broken; the epoch makes that visible, and the run continues.
    Timestamp::try_from(time).unwrap_or(Timestamp::UNIX_EPOCH)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_forms_are_utc() {
        let time = UNIX_EPOCH + Duration::from_millis(1_769_862_605_250);
        assert_eq!(rfc3339(time), "2026-01-31T12:30:05.250Z");
        assert_eq!(file_name_stamp(time), "20260131T123005Z");
        assert!(is_file_name_stamp("20260131T123005Z"));
        for text in ["", "20260131T123005", "20260131-123005Z", "2026013xT123005Z", "20260131T123005ZZ"] {
            assert!(!is_file_name_stamp(text), "{text}");
        }
        assert_eq!(parse_rfc3339(&rfc3339(time)), Some(time));
        assert_eq!(parse_rfc3339("yesterday"), None);
    }
}
