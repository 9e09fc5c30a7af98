//! Single requests for checks: the engine's probe behind a seam, so that checks can be tested against answers that no
//! server at hand gives.

use std::time::Duration;

use webstone_engine::{Probe, ProbeError, ProbeResponse};
use webstone_model::spec::RunSpec;
use webstone_model::workload::RequestDetail;

/// Asks for one file at a time, blocking.
pub trait Fetch: Sync {
    /// `GET path` from a base URL such as `http://127.0.0.1:8080`, with the file's own header fields.
    fn fetch(&self, base: &str, path: &str, detail: &RequestDetail) -> Result<ProbeResponse, ProbeError>;

    /// The same; the body is handed over as it comes, at most so many bytes of it, and is not in the answer.
    fn fetch_each(
        &self,
        base: &str,
        path: &str,
        detail: &RequestDetail,
        body_bytes_max: u64,
        each: &mut dyn FnMut(&[u8]),
    ) -> Result<ProbeResponse, ProbeError>;
}

/// The engine's probe.
#[derive(Clone, Debug)]
pub struct ByProbe {
    /// Longest time for one answer.
    timeout: Duration,
    /// Header fields of every request.
    headers: Vec<(String, String)>,
    /// Where connections go instead of the base URL's address.
    unix_socket: Option<String>,
}

impl ByProbe {
    /// Plain requests.
    pub fn plain(timeout: Duration) -> ByProbe {
        ByProbe { timeout, headers: Vec::new(), unix_socket: None }
    }

    fn probe(&self, base: &str, detail: &RequestDetail) -> Result<Probe, ProbeError> {
        let run = self.headers.iter().map(|(name, value)| (name, value));
        Ok(Probe::new(base, self.timeout)?
            .with_unix_socket(self.unix_socket.as_deref())
            .with_headers(run.chain(&detail.headers)))
    }

    /// Requests as the run's clients send them.
    pub fn like(spec: &RunSpec) -> ByProbe {
        let timeout = spec.client.request_timeout.as_duration();
        let headers = spec.client.headers.iter().map(|(name, value)| (name.clone(), value.clone())).collect();
        ByProbe { timeout, headers, unix_socket: spec.client.unix_socket.clone() }
    }
}

impl Fetch for ByProbe {
    fn fetch(&self, base: &str, path: &str, detail: &RequestDetail) -> Result<ProbeResponse, ProbeError> {
        self.probe(base, detail)?.fetch(path)
    }

    fn fetch_each(
        &self,
        base: &str,
        path: &str,
        detail: &RequestDetail,
        body_bytes_max: u64,
        each: &mut dyn FnMut(&[u8]),
    ) -> Result<ProbeResponse, ProbeError> {
        self.probe(base, detail)?.fetch_each(path, body_bytes_max, each)
    }
}

/// Scheme and authority of an absolute URL, and the rest; a path goes to `base`.
pub fn split_url<'a>(base: &'a str, url: &'a str) -> (&'a str, &'a str) {
    if url.starts_with('/') {
        return (base, url);
    }
    let Some(after_scheme) = url.find("://").map(|at| at + 3) else { return (base, url) };
    match url[after_scheme..].find('/') {
        Some(slash) => url.split_at(after_scheme + slash),
        None => (url, "/"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_split_into_base_and_path() {
        let base = "http://a:1";
        assert_eq!(split_url(base, "/x?y"), (base, "/x?y"));
        assert_eq!(split_url(base, "http://b:2/x"), ("http://b:2", "/x"));
        assert_eq!(split_url(base, "http://b"), ("http://b", "/"));
        assert_eq!(split_url(base, "/x?u=http://b/"), (base, "/x?u=http://b/"));
    }
}
