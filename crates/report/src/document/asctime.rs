//! Dates in the record (RFC 3339) as people and as the C library's `asctime` write them. All are UTC.

use jiff::{SignedDuration, Timestamp};

/// `Tue Mar  7 01:33:16 1995`, as `asctime` has it, `later_ns` nanoseconds after `instant`. Text that is not a date stays.
pub(crate) fn asctime(instant: &str, later_ns: u64) -> String {
    shown(instant, later_ns, "%a %b %e %H:%M:%S %Y")
}

/// `1995-03-07 01:33:16 UTC`.
pub(crate) fn date_time(instant: &str) -> String {
    shown(instant, 0, "%Y-%m-%d %H:%M:%S UTC")
}

/// Whole seconds from one instant to another; `None` where either is not a date, or the second is earlier.
pub(crate) fn seconds_between(from: &str, to: &str) -> Option<u64> {
    let from: Timestamp = from.parse().ok()?;
    let to: Timestamp = to.parse().ok()?;
    u64::try_from(to.duration_since(from).as_secs()).ok()
}

fn shown(instant: &str, later_ns: u64, form: &str) -> String {
    let moved = instant
        .parse::<Timestamp>()
        .ok()
        .and_then(|t| t.checked_add(SignedDuration::from_nanos(i64::try_from(later_ns).ok()?)).ok());
    match moved {
        Some(timestamp) => timestamp.strftime(form).to_string(),
        None => instant.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The WebStone paper, section 7.
    #[test]
    fn dates_are_written_as_the_paper_has_them() {
        assert_eq!(asctime("1995-03-07T01:33:16Z", 0), "Tue Mar  7 01:33:16 1995");
        assert_eq!(asctime("1995-03-07T01:33:16Z", 625_000_000_000), "Tue Mar  7 01:43:41 1995");
        assert_eq!(asctime("2026-11-21T10:00:00.9Z", 100_000_000), "Sat Nov 21 10:00:01 2026");
        assert_eq!(date_time("2026-11-21T10:00:00.9Z"), "2026-11-21 10:00:00 UTC");
    }

    #[test]
    fn an_invalid_date_is_shown_as_it_is() {
        assert_eq!(asctime("yesterday", 1), "yesterday");
        assert_eq!(asctime("1995-03-07T01:33:16Z", u64::MAX), "1995-03-07T01:33:16Z");
        assert_eq!(seconds_between("1995-03-07T01:33:16Z", "now"), None);
        assert_eq!(seconds_between("1995-03-07T01:33:16Z", "1995-03-07T01:33:15Z"), None);
        assert_eq!(seconds_between("1995-03-07T01:33:16Z", "1995-03-07T01:34:16.5Z"), Some(60));
    }
}
