//! Single requests for checks: the engine's probe behind a seam, so that checks can be tested against answers that no
//! server at hand gives.

use std::time::Duration;

use webstone_engine::{Probe, ProbeError, ProbeResponse};
use webstone_model::spec::RunSpec;
use webstone_model::workload::RequestDetail;

/// Asks for one file at a time, blocking.
pub(crate) trait Fetch: Sync {
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
pub(crate) struct ByProbe {
    /// Longest time for one answer.
    timeout: Duration,
    /// Header fields of every request.
    headers: Vec<(String, String)>,
    /// Where connections go instead of the base URL's address.
    unix_socket: Option<String>,
}

impl ByProbe {
    /// Plain requests.
    pub(crate) fn plain(timeout: Duration) -> ByProbe {
        ByProbe { timeout, headers: Vec::new(), unix_socket: None }
    }

    fn probe(&self, base: &str, detail: &RequestDetail) -> Result<Probe, ProbeError> {
        let run = self.headers.iter().map(|(name, value)| (name, value));
        Ok(Probe::new(base, self.timeout)?
            .with_unix_socket(self.unix_socket.as_deref())
            .with_headers(run.chain(&detail.headers)))
    }

    /// Requests as the run's clients send them.
    pub(crate) fn like(spec: &RunSpec) -> ByProbe {
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
pub(crate) fn split_url<'a>(base: &'a str, url: &'a str) -> (&'a str, &'a str) {
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
pub(crate) mod tests {
    use super::*;
    use std::collections::HashMap;
    use webstone_model::errors::ErrorClass;

    /// Answers from a table: URL to status and body; anything else is refused.
    #[derive(Default)]
    pub(crate) struct Table(pub(crate) HashMap<String, (u16, Vec<u8>)>);

    impl Fetch for Table {
        fn fetch(&self, base: &str, path: &str, _: &RequestDetail) -> Result<ProbeResponse, ProbeError> {
            let url = format!("{base}{path}");
            match self.0.get(&url) {
                Some((status, body)) => Ok(ProbeResponse {
                    status: *status,
                    headers: vec![("server".into(), "Table/1".into())],
                    body: body.clone(),
                    wire_bytes: body.len() as u64,
                }),
                None => Err(ProbeError {
                    class: ErrorClass::Refused,
                    request: format!("GET {url}"),
                    detail: "connection refused".into(),
                    hint: None,
                }),
            }
        }

        fn fetch_each(
            &self,
            base: &str,
            path: &str,
            detail: &RequestDetail,
            body_bytes_max: u64,
            each: &mut dyn FnMut(&[u8]),
        ) -> Result<ProbeResponse, ProbeError> {
            let mut answer = self.fetch(base, path, detail)?;
            let body = std::mem::take(&mut answer.body);
            assert!(body.len() as u64 <= body_bytes_max);
            body.chunks(1_000).for_each(each);
            Ok(answer)
        }
    }

    #[test]
    fn urls_split_into_base_and_path() {
        let base = "http://a:1";
        assert_eq!(split_url(base, "/x?y"), (base, "/x?y"));
        assert_eq!(split_url(base, "http://b:2/x"), ("http://b:2", "/x"));
        assert_eq!(split_url(base, "http://b"), ("http://b", "/"));
        assert_eq!(split_url(base, "/x?u=http://b/"), (base, "/x?u=http://b/"));
    }
}
