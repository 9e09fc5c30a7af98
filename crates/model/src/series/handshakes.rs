//! Whether the connections of a cell use TLS, and the share of their handshakes that resume an earlier session.

use std::fmt;
use std::str::FromStr;

use crate::server_tls::ServerTls;
use crate::spec::RunSpec;
use webstone_workload::tls::Share;

/// TLS of the connections of a cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Handshakes {
    /// Without TLS.
    Off,
    /// Over TLS; this share of new connections resumes an earlier session.
    Resumed(Share),
}

impl Handshakes {
    /// Its name on the command line and in files: `off`, `full`, `resumed`, or a share as in `25%`.
    pub fn name(self) -> String {
        match self {
            Handshakes::Off => "off".to_owned(),
            Handshakes::Resumed(Share::NONE) => "full".to_owned(),
            Handshakes::Resumed(Share::ALL) => "resumed".to_owned(),
            Handshakes::Resumed(share) => share.to_string(),
        }
    }

    /// Among other words, with its subject: `TLS off`, `full handshakes`, `25% resumed handshakes`.
    pub fn in_words(self) -> String {
        match self {
            Handshakes::Off => "TLS off".to_owned(),
            other => format!("{} handshakes", other.name().replace('%', "% resumed")),
        }
    }

    /// As in the name of a cell, which is part of a file name: `tls-off`, `tls-full`, `tls-25`.
    pub(super) fn in_name(self) -> String {
        format!("tls-{}", self.name().trim_end_matches('%'))
    }

    /// Sets this in a specification, for its server and its clients.
    pub(super) fn applied(self, spec: &mut RunSpec) {
        match self {
            Handshakes::Off => spec.server.tls = None,
            Handshakes::Resumed(share) => {
                spec.server.tls.get_or_insert_with(ServerTls::default);
                spec.client.tls.resume = share;
            }
        }
    }
}

impl fmt::Display for Handshakes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name())
    }
}

/// Why a text is not a kind of handshakes.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{0}` is not a kind of handshakes; write off (no TLS), full, resumed, or the share that resumes, as in 25%"
)]
pub struct HandshakesError(String);

impl FromStr for Handshakes {
    type Err = HandshakesError;

    fn from_str(text: &str) -> Result<Handshakes, HandshakesError> {
        match text {
            "off" => Ok(Handshakes::Off),
            "full" => Ok(Handshakes::Resumed(Share::NONE)),
            "resumed" => Ok(Handshakes::Resumed(Share::ALL)),
            share => share.parse().map(Handshakes::Resumed).map_err(|_| HandshakesError(text.to_owned())),
        }
    }
}

webstone_measure::as_text!(
    Handshakes,
    "Handshakes",
    "Whether connections are over TLS, and how handshakes go: off, full, resumed, or the share that resumes, as in 25%"
);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_the_same_in_files_and_options() {
        for (text, shown, words, name) in [
            ("off", "off", "TLS off", "tls-off"),
            ("full", "full", "full handshakes", "tls-full"),
            ("0%", "full", "full handshakes", "tls-full"),
            ("resumed", "resumed", "resumed handshakes", "tls-resumed"),
            ("12.5 %", "12.5%", "12.5% resumed handshakes", "tls-12.5"),
        ] {
            let read: Handshakes = text.parse().unwrap();
            assert_eq!((read.to_string().as_str(), read.in_words().as_str()), (shown, words));
            assert_eq!(read.in_name(), name);
            assert_eq!(serde_json::from_value::<Handshakes>(shown.into()).unwrap(), read);
        }
        assert!(
            "some"
                .parse::<Handshakes>()
                .unwrap_err()
                .to_string()
                .starts_with("`some` is not a kind of handshakes; write off")
        );
    }

    #[test]
    fn server_and_clients_are_both_configured() {
        let told = |text: &str| {
            let mut spec = RunSpec::default();
            text.parse::<Handshakes>().unwrap().applied(&mut spec);
            (spec.server.tls.is_some(), spec.client.tls.resume.percent())
        };
        assert_eq!(told("off"), (false, 0.0));
        assert_eq!(told("full"), (true, 0.0));
        assert_eq!(told("25%"), (true, 25.0));
    }
}
