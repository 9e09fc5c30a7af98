//! Classes and plain words for the ends of QUIC connections.

use webstone_measure::errors::{ErrorClass, SILENCE_QUESTIONS};

use super::frames::code;
use crate::quic::{Fault, QuicFailure, Version, alert, code_name};
use crate::tls::QuicTls;

/// Class of the error that ended a connection, and what happened in words.
pub(super) fn told(
    failure: &QuicFailure,
    version: Version,
    tls: &QuicTls,
    has_heard: bool,
) -> (ErrorClass, String) {
    let because = |reason: &str| if reason.is_empty() { String::new() } else { format!(": {reason}") };
    match failure {
        QuicFailure::ClosedHere => (ErrorClass::GeneratorIo, "the client closed the connection".to_owned()),
        // Servers that shed load or shut down end connections like this, too.
        QuicFailure::ClosedByPeer(0, _, reason) => {
            let what = format!("the server closed the QUIC connection: NO_ERROR{}", because(reason));
            (ErrorClass::ClosedEarly, what)
        }
        QuicFailure::ClosedByPeer(number, _, reason) => match alert(*number) {
            Some(alert) => tls.told_of_alert(alert),
            None => {
                let what = format!(
                    "the server closed the QUIC connection: {} ({number:#x}){}",
                    code_name(*number),
                    because(reason)
                );
                (ErrorClass::QuicClosed, what)
            }
        },
        QuicFailure::ClosedByApplication(code::NO_ERROR, reason) => {
            let what = format!("the server closed the connection: H3_NO_ERROR{}", because(reason));
            (ErrorClass::ClosedEarly, what)
        }
        QuicFailure::ClosedByApplication(number, reason) => {
            let what =
                format!("the server closed the connection: {}{}", code::name(*number), because(reason));
            (ErrorClass::H3Closed, what)
        }
        QuicFailure::StatelessReset => {
            (ErrorClass::QuicReset, "the server no longer knows the connection (stateless reset)".to_owned())
        }
        QuicFailure::Idle if !has_heard => silence("the idle timeout"),
        QuicFailure::Idle => {
            (ErrorClass::QuicIdle, "nothing came from the server for the idle timeout".to_owned())
        }
        QuicFailure::Version(offered) => {
            // Some are reserved, so that clients learn to ignore unknown ones (RFC 9000 section 15).
            let offered = offered.iter().filter(|number| **number & 0x0f0f_0f0f != 0x0a0a_0a0a);
            let offered: Vec<String> = offered.map(|number| named(*number)).collect();
            let offered = if offered.is_empty() { "none".to_owned() } else { offered.join(", ") };
            let asked = named(version.number());
            let what = format!("the server does not speak version {asked} of QUIC; it offers {offered}");
            (ErrorClass::QuicVersion, what)
        }
        QuicFailure::Tls(error) => tls.told(error),
        QuicFailure::EarlyLimits => {
            let what = "the server rejected early data, and allows less than was sent with it";
            (ErrorClass::ClosedEarly, what.to_owned())
        }
        QuicFailure::Fault(fault) => {
            let class = match fault {
                Fault::FlowControl(_) => ErrorClass::QuicFlowControl,
                Fault::AeadLimit => ErrorClass::QuicKeyLimit,
                Fault::Flood(_) => ErrorClass::QuicFlood,
                _ => ErrorClass::QuicProtocol,
            };
            (class, format!("the server broke QUIC: {fault}"))
        }
    }
}

/// The common name of a version number.
fn named(number: u32) -> String {
    match [Version::V1, Version::V2].iter().position(|known| known.number() == number) {
        Some(place) => (place + 1).to_string(),
        // Drafts of version 1 (RFC 9000 section 15).
        None if number >> 8 == 0xff_0000 => format!("draft-{}", number & 0xff),
        None => format!("{number:#010x}"),
    }
}

/// Nothing came back.
pub(super) fn silence(within: &str) -> (ErrorClass, String) {
    (ErrorClass::QuicSilence, format!("no answer over UDP within {within}{SILENCE_QUESTIONS}"))
}

/// The class of a violation of HTTP/3, by the code that the server is told.
pub(super) fn class_of(violation: u64) -> ErrorClass {
    match violation {
        code::QPACK_DECOMPRESSION_FAILED
        | code::QPACK_ENCODER_STREAM_ERROR
        | code::QPACK_DECODER_STREAM_ERROR => ErrorClass::H3Compression,
        code::EXCESSIVE_LOAD => ErrorClass::H3Flood,
        _ => ErrorClass::H3Protocol,
    }
}
