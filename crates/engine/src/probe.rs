//! One request at a time, blocking: for checks before and after a run, never for load.

use std::time::Duration;

/// A blocking client for single requests, which uses the run's own request settings and response parser.
#[derive(Debug)]
pub struct Probe {}

/// A whole answer to a probe.
#[derive(Clone, Debug)]
pub struct ProbeResponse {
    /// Status code.
    pub status: u16,
    /// Header fields in order, names as sent.
    pub headers: Vec<(String, String)>,
    /// The body, decoded from its framing.
    pub body: Vec<u8>,
    /// Bytes that the whole answer took on the wire.
    pub wire_bytes: u64,
}

/// Why a probe got no answer.
#[derive(Debug, thiserror::Error)]
#[error("{request}: {detail}")]
pub struct ProbeError {
    /// Class, as load would count it.
    pub class: webstone_model::errors::ErrorClass,
    /// Method and URL.
    pub request: String,
    /// What happened, in words.
    pub detail: String,
    /// What to do about it, where there is something.
    pub hint: Option<String>,
}

impl Probe {
    /// A probe of a base URL such as `http://127.0.0.1:8080`.
    pub fn new(_base_url: &str, _timeout: Duration) -> Result<Probe, ProbeError> {
        unreachable!("placeholder of the first commit")
    }

    /// `GET path` on a connection of its own.
    pub fn fetch(&self, _path: &str) -> Result<ProbeResponse, ProbeError> {
        unreachable!("placeholder of the first commit")
    }
}
