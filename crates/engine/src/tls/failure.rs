//! Classes and plain words for rustls's errors.

use rustls::pki_types::{ServerName, UnixTime};
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
    const SKIP: &str = "skip verification with -k";
    let (what, remedy) = match error {
        CertificateError::UnknownIssuer => {
            ("is not signed by a trusted certificate".to_owned(), "trust its issuer with --cacert FILE")
        }
        CertificateError::ExpiredContext { not_after, .. } => {
            (format!("or that of its issuer expired on {}", date(*not_after)), "renew it")
        }
        CertificateError::Expired => ("has expired".to_owned(), "renew it"),
        CertificateError::NotValidYetContext { not_before, .. } => (
            format!("or that of its issuer is not valid before {}", date(*not_before)),
            "check this host's clock",
        ),
        CertificateError::NotValidYet => ("is not valid yet".to_owned(), "check this host's clock"),
        CertificateError::NotValidForNameContext { expected, presented } if presented.is_empty() => {
            return format!(
                "the server's certificate names no host (it has no subjectAltName), and you asked for {asked}; make one with \
                 subjectAltName={kind}:{asked}, or {SKIP}",
                asked = expected.to_str(),
                kind = if matches!(expected, ServerName::IpAddress(_)) { "IP" } else { "DNS" },
            );
        }
        CertificateError::NotValidForNameContext { expected, presented } => (
            format!("is for {}; you asked for {}", names(presented), expected.to_str()),
            "give one of its names with --sni",
        ),
        CertificateError::NotValidForName => {
            ("is for another host name".to_owned(), "give that name with --sni")
        }
        CertificateError::BadSignature => (
            "was not signed with the key of the trusted certificate of that name".to_owned(),
            "trust its issuer with --cacert FILE",
        ),
        CertificateError::Revoked => ("was revoked".to_owned(), "renew it"),
        CertificateError::InvalidPurpose | CertificateError::InvalidPurposeContext { .. } => (
            "is not for servers (extended key usage)".to_owned(),
            "make one with extendedKeyUsage=serverAuth",
        ),
        CertificateError::Other(other) if other.0.is::<NotPinned>() => {
            return format!(
                "the server is not the one expected: {}; correct --tls-pin, or leave it out",
                other.0
            );
        }
        CertificateError::Other(other) => match other.0.downcast_ref::<webpki::Error>() {
            Some(webpki::Error::CaUsedAsEndEntity) => (
                "is a CA's, used as a server's".to_owned(),
                "trust this very certificate with --cacert FILE (--tls-pin SHA256 besides -k accepts no other)",
            ),
            Some(webpki::Error::EndEntityUsedAsCa) => (
                "is signed by a certificate that is not a CA's".to_owned(),
                "have a CA sign it (basicConstraints=CA:TRUE)",
            ),
            Some(webpki::Error::NameConstraintViolation) => {
                ("has a name that its CA may not sign for".to_owned(), "have another CA sign it")
            }
            Some(webpki::Error::UnsupportedCertVersion) => {
                ("is not of X.509 version 3".to_owned(), "make one with extensions, such as subjectAltName")
            }
            _ => (format!("was not accepted: {}", other.0), "trust its issuer with --cacert FILE"),
        },
        other => (format!("was not accepted: {other}"), "trust its issuer with --cacert FILE"),
    };
    format!("the server's certificate {what}; {remedy}, or {SKIP}")
}

/// The names of a certificate: `a.example, b.example`.
fn names(presented: &[String]) -> String {
    const NAMED_MAX: usize = 5;
    // As webpki prints them: `DnsName("a.example")`, `IpAddress(127.0.0.1)`.
    let bare = |name: &String| {
        let inner = name.split_once('(').and_then(|(_, rest)| rest.strip_suffix(')')).unwrap_or(name);
        inner.trim_matches('"').to_owned()
    };
    let mut named = presented.iter().take(NAMED_MAX).map(bare).collect::<Vec<_>>().join(", ");
    if presented.len() > NAMED_MAX {
        named += &format!(" and {} more", presented.len() - NAMED_MAX);
    }
    named
}

/// The day of an instant in UTC: `2026-03-01`. Years begin in March, so that a leap day is the last (Howard Hinnant,
/// "chrono-Compatible Low-Level Date Algorithms", `civil_from_days`).
fn date(time: UnixTime) -> String {
    let days = time.as_secs() / 86_400 + 719_468;
    let (era, of_era) = (days / 146_097, days % 146_097);
    let year = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    let year = era * 400 + year + u64::from(month <= 2);
    format!("{year}-{month:02}-{day:02}")
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
    use std::sync::Arc;

    use rustls::OtherError;

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
    fn certificates_are_told_by_name_and_date() {
        let day = |secs| UnixTime::since_unix_epoch(std::time::Duration::from_secs(secs));
        for (secs, text) in [
            (0, "1970-01-01"),
            (951_782_399, "2000-02-28"),
            (951_782_400, "2000-02-29"),
            (1_772_323_199, "2026-02-28"),
            (1_772_323_200, "2026-03-01"),
            (4_102_444_799, "2099-12-31"),
        ] {
            assert_eq!(date(day(secs)), text);
        }
        let time = day(1_800_000_000);
        let name = |text: &str| ServerName::try_from(text.to_owned()).unwrap();
        let many: Vec<String> = (0..7).map(|n| format!("DnsName(\"{n}.example\")")).collect();
        let other = |error: webpki::Error| CertificateError::Other(OtherError(Arc::new(error)));
        for (error, what, remedy) in [
            (
                CertificateError::ExpiredContext { time, not_after: day(1_772_323_200) },
                "expired on 2026-03-01",
                "renew it",
            ),
            (
                CertificateError::NotValidYetContext { time, not_before: day(1_900_000_000) },
                "is not valid before 2030-03-17",
                "clock",
            ),
            (
                CertificateError::NotValidForNameContext {
                    expected: name("localhost"),
                    presented: many[..2].to_vec(),
                },
                "is for 0.example, 1.example; you asked for localhost",
                "--sni",
            ),
            (
                CertificateError::NotValidForNameContext { expected: name("localhost"), presented: many },
                "4.example and 2 more; you asked",
                "--sni",
            ),
            (
                CertificateError::NotValidForNameContext {
                    expected: name("127.0.0.1"),
                    presented: Vec::new(),
                },
                "names no host (it has no subjectAltName), and you asked for 127.0.0.1",
                "subjectAltName=IP:127.0.0.1",
            ),
            (other(webpki::Error::CaUsedAsEndEntity), "is a CA's, used as a server's", "--cacert FILE"),
            (other(webpki::Error::EmptyEkuExtension), "was not accepted: EmptyEkuExtension", "--cacert"),
        ] {
            let (class, text) = told(&error.into(), "", None);
            // What a check shows as its hint.
            let (found, hint) = text.rsplit_once("; ").unwrap();
            assert_eq!(class, ErrorClass::TlsCertificate);
            assert!(found.contains(what) && hint.contains(remedy) && hint.contains("-k"), "{text}");
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
