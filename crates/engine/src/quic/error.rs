//! Why a connection ended: one variant for each cause, so that each can be a class of errors of its own.

use std::fmt;

/// Why a connection cannot be used any more.
#[derive(Clone, Debug, PartialEq)]
pub enum QuicFailure {
    /// This side was asked to close.
    ClosedHere,
    /// CONNECTION_CLOSE of the transport (0x1c): the code of RFC 9000 section 20.1, the type of the frame that is to blame (0: unknown),
    /// and the reason. Codes from 0x100 on are alerts of TLS: [`alert`].
    ClosedByPeer(u64, u64, Box<str>),
    /// CONNECTION_CLOSE of the application (0x1d): its code, and the reason.
    ClosedByApplication(u64, Box<str>),
    /// The server no longer knows the connection.
    StatelessReset,
    /// Nothing was heard for the idle timeout.
    Idle,
    /// The server does not speak the version; it offers these.
    Version(Box<[u32]>),
    /// TLS found an error in what the server sent.
    Tls(rustls::Error),
    /// The server broke the protocol.
    Fault(Fault),
    /// The server rejected early data, and allows less now than was sent with it. It may, and processed nothing.
    EarlyLimits,
}

/// How a server broke the protocol. The text names what it sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// More data than allowed.
    FlowControl(&'static str),
    /// More streams than allowed.
    StreamLimit,
    /// A frame for a stream that cannot have it.
    StreamState(&'static str),
    /// Data past the end of a stream, or another end than before.
    FinalSize,
    /// A frame that cannot be read.
    FrameEncoding(&'static str),
    /// An invalid or missing transport parameter.
    TransportParameter(&'static str),
    /// More connection IDs than allowed.
    ConnectionIdLimit,
    /// Anything else that the protocol forbids.
    Protocol(&'static str),
    /// More of the handshake out of order than is kept.
    CryptoBuffer,
    /// Keys changed too early.
    KeyUpdate,
    /// The limit of a key was reached: of packets protected with it, or of packets that could not be decrypted.
    AeadLimit,
    /// The version that the handshake confirms is not the one in use.
    VersionNegotiation,
    /// Too many frames that have no effect.
    Flood(&'static str),
}

impl QuicFailure {
    /// The code of the CONNECTION_CLOSE to be sent; `None` if the server is not told.
    pub(super) fn code(&self) -> Option<u64> {
        match self {
            QuicFailure::Tls(_) => Some(ALERT + 80), // internal_error, unless TLS named one
            QuicFailure::Fault(fault) => Some(fault.code()),
            QuicFailure::EarlyLimits => Some(0), // NO_ERROR
            _ => None,
        }
    }
}

impl Fault {
    /// Its code (RFC 9000 section 20.1, RFC 9368 section 4).
    pub fn code(self) -> u64 {
        match self {
            Fault::FlowControl(_) => 0x3,
            Fault::StreamLimit => 0x4,
            Fault::StreamState(_) => 0x5,
            Fault::FinalSize => 0x6,
            Fault::FrameEncoding(_) => 0x7,
            Fault::TransportParameter(_) => 0x8,
            Fault::ConnectionIdLimit => 0x9,
            Fault::Protocol(_) => 0xa,
            Fault::CryptoBuffer => 0xd,
            Fault::KeyUpdate => 0xe,
            Fault::AeadLimit => 0xf,
            Fault::VersionNegotiation => 0x11,
            Fault::Flood(_) => 0x1,
        }
    }
}

impl From<Fault> for QuicFailure {
    fn from(fault: Fault) -> QuicFailure {
        QuicFailure::Fault(fault)
    }
}

/// First code of TLS's alerts.
const ALERT: u64 = 0x100;

/// The TLS alert that a transport code stands for.
pub fn alert(code: u64) -> Option<u8> {
    code.checked_sub(ALERT).and_then(|alert| u8::try_from(alert).ok())
}

/// The name of a transport code (RFC 9000 section 20.1).
pub fn code_name(code: u64) -> &'static str {
    const NAMES: [&str; 18] = [
        "NO_ERROR",
        "INTERNAL_ERROR",
        "CONNECTION_REFUSED",
        "FLOW_CONTROL_ERROR",
        "STREAM_LIMIT_ERROR",
        "STREAM_STATE_ERROR",
        "FINAL_SIZE_ERROR",
        "FRAME_ENCODING_ERROR",
        "TRANSPORT_PARAMETER_ERROR",
        "CONNECTION_ID_LIMIT_ERROR",
        "PROTOCOL_VIOLATION",
        "INVALID_TOKEN",
        "APPLICATION_ERROR",
        "CRYPTO_BUFFER_EXCEEDED",
        "KEY_UPDATE_ERROR",
        "AEAD_LIMIT_REACHED",
        "NO_VIABLE_PATH",
        "VERSION_NEGOTIATION_ERROR",
    ];
    match alert(code) {
        Some(_) => "CRYPTO_ERROR",
        None => NAMES.get(code as usize).copied().unwrap_or("an unknown error code"),
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Fault::FlowControl(what)
            | Fault::StreamState(what)
            | Fault::FrameEncoding(what)
            | Fault::TransportParameter(what)
            | Fault::Protocol(what)
            | Fault::Flood(what) => f.write_str(what),
            Fault::StreamLimit => f.write_str("more streams than allowed"),
            Fault::FinalSize => f.write_str("data past the end of a stream, or two ends of one stream"),
            Fault::ConnectionIdLimit => f.write_str("more connection IDs than allowed"),
            Fault::CryptoBuffer => f.write_str("too much of the TLS handshake out of order"),
            Fault::KeyUpdate => f.write_str("a key update before the last one was acknowledged"),
            Fault::AeadLimit => f.write_str("as many packets as keys may protect, or as may fail to decrypt"),
            Fault::VersionNegotiation => {
                f.write_str("version_information with another version than the one in use")
            }
        }
    }
}
