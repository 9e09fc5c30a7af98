//! Faults of connections before the first request: in the TLS handshake, and with the first frame of HTTP/2. A request comes too late to
//! ask for them, so `/.webstone/fault` orders them for connections that are accepted after its answer.
//!
//! | parameter | meaning |
//! |---|---|
//! | `fault=alert`, `alert=handshake-failure` | the alert of that name answers the client's hello, then a FIN |
//! | `fault=close`, `after=hello` | a FIN instead of a handshake: before anything is read (`start`), or after the client's hello |
//! | `fault=reset`, `after=hello` | the same with a reset |
//! | `fault=garbage` | bytes that are not TLS answer the client's hello, then a FIN |
//! | `fault=delay`, `for=100ms` | the client's hello is answered later by this time |
//! | `fault=late-settings`, `for=100ms` | in HTTP/2, the server's SETTINGS and everything after them come later by this time |
//! | `fault=retry` | over QUIC, a Retry answers the first packet |
//! | `fault=silence` | over QUIC, nothing answers |
//! | `fault=reject-early-data` | over QUIC, the session is resumed, and its early data (0-RTT) rejected |
//! | `fault=too-early` | over QUIC, requests that come as early data are answered with status 425 |
//! | `fault=none` | no more of them |
//! | `times=1` | number of connections that have the fault; 0: all |
//! | `every=1` | which of the connections that come: each, each second … |
//!
//! Over QUIC, which has neither FIN nor reset, `close`, `reset` and `garbage` are CONNECTION_REFUSED, and so is `alert`, except
//! `no-application-protocol`. The faults of QUIC alone leave connections of TCP as they are.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::io::AsyncWriteExt as _;

use crate::delay;
use crate::query::{Query, QueryError};
use crate::wire::Socket;

/// Names of alerts, as TLS's registry has them with hyphens, and their numbers.
const ALERTS: [(&str, u8); 28] = [
    ("close-notify", 0),
    ("unexpected-message", 10),
    ("bad-record-mac", 20),
    ("record-overflow", 22),
    ("handshake-failure", 40),
    ("bad-certificate", 42),
    ("unsupported-certificate", 43),
    ("certificate-revoked", 44),
    ("certificate-expired", 45),
    ("certificate-unknown", 46),
    ("illegal-parameter", 47),
    ("unknown-ca", 48),
    ("access-denied", 49),
    ("decode-error", 50),
    ("decrypt-error", 51),
    ("too-many-cids-requested", 52),
    ("protocol-version", 70),
    ("insufficient-security", 71),
    ("internal-error", 80),
    ("inappropriate-fallback", 86),
    ("user-canceled", 90),
    ("missing-extension", 109),
    ("unsupported-extension", 110),
    ("unrecognized-name", 112),
    ("bad-certificate-status-response", 113),
    ("unknown-psk-identity", 115),
    ("certificate-required", 116),
    ("no-application-protocol", 120),
];
/// The answer instead of a ServerHello: plain HTTP, as from a wrong port.
const GARBAGE: &[u8] = b"HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";
const KNOWN: &str = "fault, alert, after, for, times, every";
/// Longest delay.
const DELAY_MAX: Duration = Duration::from_secs(3600);

/// The fault of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ConnectionFault {
    /// In the TLS handshake.
    Handshake(Misdeed),
    /// The server's SETTINGS of HTTP/2 or HTTP/3 come late.
    LateSettings(Duration),
    /// A fault of QUIC alone.
    Quic(QuicFault),
}

/// What goes wrong with QUIC alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum QuicFault {
    /// The client has to prove its address.
    Retry,
    /// Nothing is answered.
    Silence,
    /// The session is resumed without its early data.
    RejectEarlyData,
    /// Requests that come as early data are answered with status 425 (Too Early).
    TooEarly,
}

/// What goes wrong with a handshake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Misdeed {
    Alert(u8),
    Close(When),
    Reset(When),
    Garbage,
    Delay(Duration),
}

/// How far a handshake gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum When {
    /// Nothing is read.
    Start,
    /// The client's hello was read.
    Hello,
}

/// The faults of the next connections.
#[derive(Debug, Default)]
pub(crate) struct ConnectionFaults(Mutex<Option<Schedule>>);

#[derive(Debug)]
struct Schedule {
    fault: ConnectionFault,
    every: u64,
    /// `None`: without end.
    left: Option<u64>,
    seen: u64,
}

impl ConnectionFaults {
    /// The fault of the connection that was just accepted.
    pub(crate) fn next(&self) -> Option<ConnectionFault> {
        let mut schedule = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let due = schedule.as_mut()?;
        due.seen += 1;
        if !due.seen.is_multiple_of(due.every) {
            return None;
        }
        let fault = due.fault;
        if let Some(left) = &mut due.left {
            *left -= 1;
            if *left == 0 {
                *schedule = None;
            }
        }
        Some(fault)
    }

    /// Takes an order; returns in words what will happen.
    pub(crate) fn order(&self, query: Option<&str>) -> Result<String, QueryError> {
        let ordered = parse(query)?;
        let words = match &ordered {
            None => "no faults: connections are served normally\n".to_owned(),
            Some(Schedule { fault, left: None, .. }) => {
                format!("every connection gets the fault {fault:?}\n")
            }
            Some(Schedule { fault, left: Some(left), .. }) => {
                format!("the next {left} connections get the fault {fault:?}\n")
            }
        };
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = ordered;
        Ok(words)
    }
}

impl Misdeed {
    /// Whether it happens before the client's hello is read.
    pub(crate) fn is_at_start(self) -> bool {
        matches!(self, Misdeed::Close(When::Start) | Misdeed::Reset(When::Start))
    }

    /// Whether the connection ends with a FIN.
    pub(crate) fn ends_in_order(self) -> bool {
        !matches!(self, Misdeed::Reset(_))
    }

    /// Plays the fault, after the client's hello. Returns whether the handshake continues.
    pub(crate) async fn perform(self, socket: &mut Socket) -> bool {
        match self {
            Misdeed::Delay(span) => {
                delay::pause(span).await;
                return true;
            }
            // A record of version 1.2, as all are, with one fatal alert. If writing fails, the client has gone.
            Misdeed::Alert(number) => drop(socket.write_all(&[21, 3, 3, 0, 2, 2, number]).await),
            Misdeed::Garbage => drop(socket.write_all(GARBAGE).await),
            Misdeed::Reset(_) => socket.reset(),
            Misdeed::Close(_) => {}
        }
        false
    }
}

fn parse(query: Option<&str>) -> Result<Option<Schedule>, QueryError> {
    let query = Query::parse(query)?;
    let span = query.duration("for")?.unwrap_or(Duration::from_millis(100));
    if span > DELAY_MAX {
        return Err(QueryError("for: at most 1h".to_owned()));
    }
    let when = match query.text("after") {
        None | Some("hello") => When::Hello,
        Some("start") => When::Start,
        Some(other) => return Err(QueryError(format!("after={other}: write start or hello"))),
    };
    let alert = query.text("alert").unwrap_or("handshake-failure");
    let fault = match query.text("fault") {
        Some("alert") => match ALERTS.iter().find(|(name, _)| *name == alert) {
            Some((_, number)) => Some(ConnectionFault::Handshake(Misdeed::Alert(*number))),
            None => {
                let names: Vec<&str> = ALERTS.iter().map(|(name, _)| *name).collect();
                return Err(QueryError(format!("alert={alert}: write one of {}", names.join(", "))));
            }
        },
        Some("close") => Some(ConnectionFault::Handshake(Misdeed::Close(when))),
        Some("reset") => Some(ConnectionFault::Handshake(Misdeed::Reset(when))),
        Some("garbage") => Some(ConnectionFault::Handshake(Misdeed::Garbage)),
        Some("delay") => Some(ConnectionFault::Handshake(Misdeed::Delay(span))),
        Some("late-settings") => Some(ConnectionFault::LateSettings(span)),
        Some("retry") => Some(ConnectionFault::Quic(QuicFault::Retry)),
        Some("silence") => Some(ConnectionFault::Quic(QuicFault::Silence)),
        Some("reject-early-data") => Some(ConnectionFault::Quic(QuicFault::RejectEarlyData)),
        Some("too-early") => Some(ConnectionFault::Quic(QuicFault::TooEarly)),
        Some("none") => None,
        other => {
            return Err(QueryError(format!(
                "fault={}: write one of alert, close, reset, garbage, delay, late-settings, retry, silence, \
                 reject-early-data, too-early and none",
                other.unwrap_or_default()
            )));
        }
    };
    let left = query.count("times", 0, u64::MAX)?.unwrap_or(1);
    let every = query.count("every", 1, u64::MAX)?.unwrap_or(1);
    query.finish(KNOWN)?;
    Ok(fault.map(|fault| Schedule { fault, every, left: (left > 0).then_some(left), seen: 0 }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn orders_are_carried_out_in_turn_and_end() {
        let faults = ConnectionFaults::default();
        assert_eq!(faults.next(), None);
        faults.order(Some("fault=alert&alert=unknown-ca&every=2&times=2")).unwrap();
        let met: Vec<bool> = (0..6).map(|_| faults.next().is_some()).collect();
        assert_eq!(met, [false, true, false, true, false, false]);
        faults.order(Some("fault=delay&for=5ms&times=0")).unwrap();
        let delay = ConnectionFault::Handshake(Misdeed::Delay(Duration::from_millis(5)));
        assert_eq!([faults.next(), faults.next()], [Some(delay); 2]);
        faults.order(Some("fault=none")).unwrap();
        assert_eq!(faults.next(), None);
    }

    #[test]
    fn what_would_test_nothing_is_refused() {
        for (query, expected) in [
            ("", "fault="),
            ("fault=alert&alert=oops", "alert=oops"),
            ("fault=close&after=finished", "after=finished"),
            ("fault=delay&for=2h", "at most 1h"),
            ("fault=garbage&evry=2", "evry"),
        ] {
            let error = ConnectionFaults::default().order(Some(query)).unwrap_err();
            assert!(error.0.contains(expected), "{query}: {error}");
        }
    }
}
