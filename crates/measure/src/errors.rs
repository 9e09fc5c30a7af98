//! What can go wrong with a request, and where the blame lies (`docs/measurement.md`, "Errors").
//!
//! An error is never a response and never counts as throughput. Each class keeps a counter and its first example.

use serde::{Deserialize, Serialize};

/// The end of a `quic-silence` example if nothing is known of the server's host.
pub const SILENCE_QUESTIONS: &str = ": is UDP blocked, or does nobody speak QUIC on this port?";

/// Who has to act to make the error go away.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Blame {
    /// The server under test.
    Target,
    /// The network between the generator and the server.
    Network,
    /// This program or its host.
    Generator,
    /// The user of this program.
    User,
}

crate::named! {
    /// The class of a failed request.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
    #[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
    #[serde(rename_all = "kebab-case")]
    #[repr(u8)]
    ErrorClass:
    /// Nobody listens, or the listen queue refuses (ECONNREFUSED).
    Refused "refused",
    /// The connection was reset (ECONNRESET, EPIPE).
    Reset "reset",
    /// No connection within the connect timeout.
    ConnectTimeout "connect-timeout",
    /// No first byte of a response within its timeout.
    FirstByteTimeout "first-byte-timeout",
    /// The response was not whole within the request timeout.
    RequestTimeout "request-timeout",
    /// The connection ended before the first byte of the response to its first request.
    ClosedEarly "closed-early",
    /// The connection ended inside a response: fewer body bytes than announced.
    ShortBody "short-body",
    /// A status other than the expected one.
    WrongStatus "wrong-status",
    /// A whole response whose body has another length than the workload states.
    WrongLength "wrong-length",
    /// A whole response whose body has another content than the workload states.
    WrongContent "wrong-content",
    /// A whole response that came before the request had been sent completely, so that it cannot answer all of it.
    AnsweredEarly "answered-early",
    /// Bytes that are not an HTTP response, or that contradict themselves.
    Malformed "malformed",
    /// No route, network down (ENETUNREACH, EHOSTUNREACH).
    Unreachable "unreachable",
    /// The host name did not resolve.
    Dns "dns",
    /// No local port available (EADDRNOTAVAIL).
    OutOfPorts "out-of-ports",
    /// No descriptor available (EMFILE, ENFILE).
    OutOfDescriptors "out-of-descriptors",
    /// Any other failure of a system call on this side.
    GeneratorIo "generator-io",
    /// The server does not speak HTTP/2 on this port: it answers in HTTP/1, or with something else.
    H2NotSpoken "h2-not-spoken",
    /// Frames or header fields that HTTP/2 forbids, or a body of another length than announced.
    H2Protocol "h2-protocol",
    /// A frame that is too large, or whose length is not allowed for its type.
    H2FrameSize "h2-frame-size",
    /// More of a body than the window allows, or a window that grows too large.
    H2FlowControl "h2-flow-control",
    /// Header fields that cannot be decoded (HPACK).
    H2Compression "h2-compression",
    /// The server ended the connection with an error code (GOAWAY), or again and again without one.
    H2Goaway "h2-goaway",
    /// The server reset the stream (RST_STREAM).
    H2Reset "h2-reset",
    /// More control frames, or longer header blocks, than a correct server sends.
    H2Flood "h2-flood",
    /// The TLS handshake failed, or the server ended the connection with an alert, which is named.
    TlsHandshake "tls-handshake",
    /// The server's certificate was not accepted: not trusted, expired, for another name, not the pinned one.
    TlsCertificate "tls-certificate",
    /// Client and server have no TLS version, cipher suite or group in common.
    TlsIncompatible "tls-incompatible",
    /// The connection ended within an answer without TLS's close_notify, so that an attacker may have truncated it.
    TlsTruncated "tls-truncated",
    /// Bytes that are not TLS records, or records that cannot be decrypted.
    TlsRecord "tls-record",
    /// The server chose another application protocol (ALPN) than that of the requests, or none of those offered.
    Alpn "alpn",
    /// A connection's keys have protected as many records as they may, and TLS 1.2 cannot renew them.
    TlsKeyLimit "tls-key-limit",
    /// Nothing came back over UDP within the connect timeout: UDP may be blocked, or nobody speaks QUIC there.
    QuicSilence "quic-silence",
    /// The server does not speak the version of QUIC (Version Negotiation).
    QuicVersion "quic-version",
    /// The server closed the connection with an error code of QUIC (CONNECTION_CLOSE), which is named.
    QuicClosed "quic-closed",
    /// Nothing came from the server for the idle timeout.
    QuicIdle "quic-idle",
    /// The server no longer knew the connection (stateless reset).
    QuicReset "quic-reset",
    /// Packets or frames that QUIC forbids.
    QuicProtocol "quic-protocol",
    /// More data than QUIC's windows allow.
    QuicFlowControl "quic-flow-control",
    /// A connection's keys have protected as many packets as they may, or as many could not be decrypted.
    QuicKeyLimit "quic-key-limit",
    /// More frames that do nothing than a correct server sends over QUIC.
    QuicFlood "quic-flood",
    /// The server closed the connection with an error code of HTTP/3, which is named.
    H3Closed "h3-closed",
    /// The server ended the connection again and again (GOAWAY), so that a request was never processed.
    H3Goaway "h3-goaway",
    /// The server reset the stream (RESET_STREAM) with an error code, which is named.
    H3Reset "h3-reset",
    /// Frames, streams or header fields that HTTP/3 forbids, or a body of another length than announced.
    H3Protocol "h3-protocol",
    /// Header fields that cannot be decoded (QPACK).
    H3Compression "h3-compression",
    /// More frames, or longer header sections, than a correct server sends.
    H3Flood "h3-flood",
}

impl ErrorClass {
    /// Where the blame for this class lies.
    pub fn blame(self) -> Blame {
        match self {
            ErrorClass::Unreachable | ErrorClass::Dns | ErrorClass::QuicSilence => Blame::Network,
            ErrorClass::OutOfPorts
            | ErrorClass::OutOfDescriptors
            | ErrorClass::GeneratorIo
            | ErrorClass::TlsKeyLimit
            | ErrorClass::QuicKeyLimit => Blame::Generator,
            _ => Blame::Target,
        }
    }

    /// Whether it can only occur with HTTP/2.
    pub fn is_of_http2(self) -> bool {
        (ErrorClass::H2NotSpoken..=ErrorClass::H2Flood).contains(&self)
    }

    /// Whether it can only occur with HTTP/3.
    pub fn is_of_http3(self) -> bool {
        (ErrorClass::QuicSilence..=ErrorClass::H3Flood).contains(&self)
    }

    /// Whether it can only occur with TLS.
    pub fn is_of_tls(self) -> bool {
        (ErrorClass::TlsHandshake..=ErrorClass::TlsKeyLimit).contains(&self)
    }
}

/// The first occurrence of a class: enough to reproduce it by hand.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ErrorExample {
    /// When it happened, in nanoseconds since the measured window began.
    pub at_ns: u64,
    /// The peer's address.
    pub address: String,
    /// Method and URL of the request.
    pub request: String,
    /// What was seen, in words: the status, the lengths, the operating system's message.
    pub detail: String,
}

/// One class with its count and first example, as in a record.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ErrorCount {
    /// The class.
    pub class: ErrorClass,
    /// Where the blame lies.
    pub blame: Blame,
    /// Number of requests that failed in this way within the measured window.
    pub count: u64,
    /// The first of them.
    pub first: Option<ErrorExample>,
}

/// Counters and first examples of every class. Adding is a plain increment; only a class's first error allocates.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(from = "Vec<ErrorCount>", into = "Vec<ErrorCount>")]
#[cfg_attr(feature = "schema", schemars(with = "Vec<ErrorCount>"))]
pub struct ErrorTable {
    counts: [u64; ErrorClass::ALL.len()],
    first: [Option<Box<ErrorExample>>; ErrorClass::ALL.len()],
}

impl Default for ErrorTable {
    fn default() -> ErrorTable {
        ErrorTable { counts: [0; ErrorClass::ALL.len()], first: std::array::from_fn(|_| None) }
    }
}

impl ErrorTable {
    /// Counts one error; `example` is called only for the first of its class.
    pub fn add(&mut self, class: ErrorClass, example: impl FnOnce() -> ErrorExample) {
        let slot = class as usize;
        self.counts[slot] += 1;
        if self.first[slot].is_none() {
            self.first[slot] = Some(Box::new(example()));
        }
    }

    /// Number of errors of a class.
    pub fn count(&self, class: ErrorClass) -> u64 {
        self.counts[class as usize]
    }

    /// All errors of all classes.
    pub fn total(&self) -> u64 {
        self.counts.iter().fold(0, |total, count| total.saturating_add(*count))
    }

    /// The classes that occurred, in the order of [`ErrorClass::ALL`].
    pub fn iter(&self) -> impl Iterator<Item = (ErrorClass, u64, Option<&ErrorExample>)> {
        ErrorClass::ALL
            .into_iter()
            .map(|class| (class, self.counts[class as usize], self.first[class as usize].as_deref()))
            .filter(|(_, count, _)| *count > 0)
    }

    /// Adds another worker's, host's or iteration's table to this one; the earlier example stays.
    pub fn merge(&mut self, other: &ErrorTable) {
        for class in ErrorClass::ALL {
            let slot = class as usize;
            self.counts[slot] = self.counts[slot].saturating_add(other.counts[slot]);
            let earlier = match (&self.first[slot], &other.first[slot]) {
                (Some(mine), Some(theirs)) => theirs.at_ns < mine.at_ns,
                (None, Some(_)) => true,
                _ => false,
            };
            if earlier {
                self.first[slot].clone_from(&other.first[slot]);
            }
        }
    }
}

impl From<Vec<ErrorCount>> for ErrorTable {
    fn from(list: Vec<ErrorCount>) -> ErrorTable {
        let mut table = ErrorTable::default();
        for item in list {
            let count = &mut table.counts[item.class as usize];
            *count = count.saturating_add(item.count);
            table.first[item.class as usize] = item.first.map(Box::new);
        }
        table
    }
}

impl From<ErrorTable> for Vec<ErrorCount> {
    fn from(table: ErrorTable) -> Vec<ErrorCount> {
        let row = |(class, count, first): (ErrorClass, u64, Option<&ErrorExample>)| ErrorCount {
            class,
            blame: class.blame(),
            count,
            first: first.cloned(),
        };
        table.iter().map(row).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn example(at_ns: u64) -> ErrorExample {
        ErrorExample {
            at_ns,
            address: "127.0.0.1:80".into(),
            request: "GET /".into(),
            detail: at_ns.to_string(),
        }
    }

    #[test]
    fn classes_are_at_their_own_index() {
        for (index, class) in ErrorClass::ALL.into_iter().enumerate() {
            assert_eq!(class as usize, index);
            assert_eq!(serde_json::to_value(class).unwrap(), class.name());
        }
    }

    #[test]
    fn merging_adds_counts_and_keeps_the_earliest_example() {
        let mut a = ErrorTable::default();
        let mut b = ErrorTable::default();
        a.add(ErrorClass::Reset, || example(20));
        b.add(ErrorClass::Reset, || example(10));
        b.add(ErrorClass::Dns, || example(30));
        a.merge(&b);
        assert_eq!((a.count(ErrorClass::Reset), a.count(ErrorClass::Dns), a.total()), (2, 1, 3));
        assert_eq!(a.iter().next().unwrap().2.unwrap().at_ns, 10);
        let json = serde_json::to_string(&a).unwrap();
        assert_eq!(serde_json::from_str::<ErrorTable>(&json).unwrap(), a);
    }
}
