//! Classes and plain words for rustls's errors.

use rustls::{AlertDescription, CertificateError, Error, InvalidMessage};
use webstone_measure::errors::ErrorClass;

use super::traffic::Fault;
use super::verifier::NotPinned;

/// The class of an error, and what happened in words. `offered`: what the client offered. `began_with`: the first
/// bytes received, unless something was already negotiated.
pub(super) fn told(error: &Error, offered: &str, began_with: Option<&[u8]>) -> (ErrorClass, String) {
    match error {
        Error::AlertReceived(alert) => by_alert(*alert, offered),
        Error::InvalidCertificate(error) => (ErrorClass::TlsCertificate, certificate(error)),
        Error::PeerIncompatible(why) => {
            let what =
                format!("client and server share no version, cipher suite or group ({why:?}); {offered}");
            (ErrorClass::TlsIncompatible, what)
        }
        Error::NoApplicationProtocol => (ErrorClass::Alpn, no_protocol()),
        Error::PeerMisbehaved(_) | Error::InappropriateHandshakeMessage { .. } => {
            (ErrorClass::TlsHandshake, format!("the server violates the TLS protocol: {error}"))
        }
        _ if began_with.is_some_and(is_text) => {
            let what = "the server does not speak TLS on this port".to_owned();
            (ErrorClass::TlsRecord, what)
        }
        // A probe's error: its first bytes are not kept.
        Error::InvalidMessage(InvalidMessage::InvalidContentType) if began_with.is_none() => {
            let what = "the server's answer is not TLS; write http:// instead of https:// if this port does not use TLS";
            (ErrorClass::TlsRecord, what.to_owned())
        }
        Error::InvalidMessage(_)
        | Error::InappropriateMessage { .. }
        | Error::DecryptError
        | Error::PeerSentOversizedRecord => {
            (ErrorClass::TlsRecord, format!("the server sent an invalid TLS record: {error}"))
        }
        _ => (ErrorClass::TlsHandshake, error.to_string()),
    }
}

/// The same for an error after the handshake.
pub(super) fn of_traffic(fault: &Fault, offered: &str) -> (ErrorClass, String) {
    match fault {
        Fault::Tls(error) => told(error, offered, None),
        Fault::Record(error) => {
            (ErrorClass::TlsRecord, format!("the server sent an invalid TLS record: {error}"))
        }
    }
}

/// The server chose another protocol than that of the requests, or none.
pub(super) fn other_protocol(chosen: Option<&[u8]>, wanted: &str) -> (ErrorClass, String) {
    let what = match chosen {
        Some(chosen) => {
            format!(
                "the server chose the protocol {} (ALPN), but the requests are {wanted}",
                String::from_utf8_lossy(chosen)
            )
        }
        None => format!("the server chose no protocol (ALPN), but the requests are {wanted}"),
    };
    (ErrorClass::Alpn, what)
}

fn by_alert(alert: AlertDescription, offered: &str) -> (ErrorClass, String) {
    let name = name(alert);
    match alert {
        AlertDescription::ProtocolVersion
        | AlertDescription::HandshakeFailure
        | AlertDescription::InsufficientSecurity => {
            let what = format!(
                "the server ended the handshake with the alert {name}: it may require another version, cipher suite \
                 or group, or a client certificate; {offered}"
            );
            (ErrorClass::TlsIncompatible, what)
        }
        AlertDescription::NoApplicationProtocol => (ErrorClass::Alpn, no_protocol()),
        AlertDescription::CertificateRequired => {
            let what = format!(
                "the server ended the connection with the alert {name}: it requires a client certificate; give one \
                 with --cert and --key"
            );
            (ErrorClass::TlsHandshake, what)
        }
        _ => (ErrorClass::TlsHandshake, format!("the server ended the connection with the alert {name}")),
    }
}

fn no_protocol() -> String {
    "the server supports none of the offered protocols (alert no_application_protocol); run with another --http version, or offer others with --alpn"
        .to_owned()
}

fn certificate(error: &CertificateError) -> String {
    const REMEDY: &str = "trust its issuer with --cacert FILE, or skip verification with -k";
    let what = match error {
        CertificateError::UnknownIssuer => "is not signed by a trusted certificate".to_owned(),
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => "has expired".to_owned(),
        CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
            "is not valid yet".to_owned()
        }
        CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
            return "the server's certificate is for another host name; give that name with --sni, or skip \
                verification with -k"
                .to_owned();
        }
        CertificateError::BadSignature => {
            "was not signed with the key of the trusted certificate of that name".to_owned()
        }
        CertificateError::Revoked => "was revoked".to_owned(),
        CertificateError::Other(other) if other.0.is::<NotPinned>() => {
            return format!("the server is not the one expected: {}", other.0);
        }
        CertificateError::Other(other) => format!("was not accepted: {}", other.0),
        other => format!("was not accepted: {other}"),
    };
    format!("the server's certificate {what}; {REMEDY}")
}

/// The standard's name of an alert: `handshake_failure`.
fn name(alert: AlertDescription) -> String {
    let camel: Vec<char> = match alert {
        AlertDescription::Unknown(number) => return format!("number {number}"),
        AlertDescription::UnrecognisedName => return "unrecognized_name".to_owned(),
        known => format!("{known:?}").chars().collect(),
    };
    let mut name = String::new();
    for (at, letter) in camel.iter().enumerate() {
        let follows_small = at > 0 && camel[at - 1].is_lowercase();
        let begins_word = at > 0 && camel.get(at + 1).is_some_and(|next| next.is_lowercase());
        if letter.is_uppercase() && (follows_small || begins_word) {
            name.push('_');
        }
        name.push(letter.to_ascii_lowercase());
    }
    name
}

/// Whether bytes are text, such as the answer of a server without TLS.
fn is_text(bytes: &[u8]) -> bool {
    bytes.len() >= 4
        && bytes.iter().take(16).all(|byte| byte.is_ascii_graphic() || byte.is_ascii_whitespace())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn alerts_have_the_standards_names() {
        for (alert, expected) in [
            (AlertDescription::HandshakeFailure, "handshake_failure"),
            (AlertDescription::UnknownCA, "unknown_ca"),
            (AlertDescription::UnknownPSKIdentity, "unknown_psk_identity"),
            (AlertDescription::BadRecordMac, "bad_record_mac"),
            (AlertDescription::UnrecognisedName, "unrecognized_name"),
            (AlertDescription::Unknown(200), "number 200"),
        ] {
            assert_eq!(name(alert), expected);
        }
    }

    #[test]
    fn each_error_has_its_class() {
        for (error, class, part) in [
            (
                Error::AlertReceived(AlertDescription::InternalError),
                ErrorClass::TlsHandshake,
                "internal_error",
            ),
            (
                Error::AlertReceived(AlertDescription::ProtocolVersion),
                ErrorClass::TlsIncompatible,
                "offered were X",
            ),
            (Error::AlertReceived(AlertDescription::NoApplicationProtocol), ErrorClass::Alpn, "--alpn"),
            (CertificateError::UnknownIssuer.into(), ErrorClass::TlsCertificate, "--cacert"),
            (CertificateError::Expired.into(), ErrorClass::TlsCertificate, "has expired"),
            (Error::PeerSentOversizedRecord, ErrorClass::TlsRecord, "invalid TLS record"),
            (Error::DecryptError, ErrorClass::TlsRecord, "invalid TLS record"),
            (InvalidMessage::InvalidContentType.into(), ErrorClass::TlsRecord, "http://"),
        ] {
            let (found, text) = told(&error, "offered were X", None);
            assert!(found == class && text.contains(part), "{error:?}: {found:?}, {text}");
        }
        let plain = told(&Error::DecryptError, "", Some(b"HTTP/1.1 400 Bad Request"));
        assert!(plain.1.contains("does not speak TLS"), "{plain:?}");
    }
}
