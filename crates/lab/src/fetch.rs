//! Single requests for checks, made by the engine's probe through a trait, so that tests of checks can give answers that no
//! available server gives.

use std::borrow::Cow;
use std::sync::OnceLock;
use std::time::Duration;

use webstone_engine::{Probe, ProbeError, ProbeResponse, ProbeTls};
use webstone_measure::errors::ErrorClass;
use webstone_model::spec::{ClientSpec, HttpVersion, RunSpec};
use webstone_workload::RequestDetail;
use webstone_workload::target::{Target, UrlError};
use webstone_workload::tls::TlsSpec;

/// Requests one file at a time, and blocks until the answer is there.
pub trait Fetch: Sync {
    /// `GET path` from a base URL such as `http://127.0.0.1:8080`, with the file's own header fields.
    fn fetch(&self, base: &str, path: &str, detail: &RequestDetail) -> Result<ProbeResponse, ProbeError>;

    /// The same; the body is handed over as it comes, up to a limit, and is not in the answer.
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
    /// Where connections go and come from.
    client: ClientSpec,
    version: HttpVersion,
    /// TLS settings, and their prepared form, made when first needed.
    tls: TlsSpec,
    prepared: OnceLock<ProbeTls>,
}

impl ByProbe {
    /// Plain requests. Certificates of https:// servers are not verified.
    pub fn plain(timeout: Duration) -> ByProbe {
        let tls = TlsSpec { verify: false, ..TlsSpec::default() };
        let version = HttpVersion::Http11;
        let client = ClientSpec::default();
        ByProbe { timeout, headers: Vec::new(), client, tls, prepared: OnceLock::new(), version }
    }

    /// The same, with TLS as specified.
    #[must_use]
    pub fn with_tls(self, tls: &TlsSpec) -> ByProbe {
        ByProbe { tls: tls.clone(), prepared: OnceLock::new(), ..self }
    }

    fn probe(&self, base: &str, detail: &RequestDetail) -> Result<Probe, ProbeError> {
        let fields = self.headers.iter().chain(&detail.headers).map(|(name, value)| (name, value));
        let mut probe = Probe::new(base, self.timeout)?.with_version(self.version);
        if base.get(..8).is_some_and(|start| start.eq_ignore_ascii_case("https://")) {
            probe = probe.with_tls(self.prepared(base)?);
        }
        Ok(probe.connecting_like(&self.client).with_headers(fields))
    }

    fn prepared(&self, base: &str) -> Result<ProbeTls, ProbeError> {
        if let Some(tls) = self.prepared.get() {
            return Ok(tls.clone());
        }
        let tls = ProbeTls::new(&self.tls, self.version).map_err(|error| ProbeError {
            class: ErrorClass::GeneratorIo,
            request: format!("GET {base}"),
            detail: error.what,
            hint: error.hint,
        })?;
        Ok(self.prepared.get_or_init(|| tls).clone())
    }

    /// Requests as the run's clients send them.
    pub fn like(spec: &RunSpec) -> ByProbe {
        let timeout = spec.client.request_timeout.as_duration();
        let headers = spec.client.headers.iter().cloned().collect();
        ByProbe {
            timeout,
            headers,
            client: spec.client.clone(),
            tls: spec.client.tls.clone(),
            prepared: OnceLock::new(),
            version: spec.client.http,
        }
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

/// Server and path of a workload's URL; a path alone is of `base`.
///
/// # Errors
/// If it is neither a path nor the URL of a reachable server.
pub fn asked<'a>(base: &Target, url: &'a str) -> Result<(Target, Cow<'a, str>), UrlError> {
    match url.contains("://") && !url.starts_with('/') {
        true => Target::split(url),
        false => Ok((base.clone(), Cow::Borrowed(url))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_asks_the_base_and_a_url_its_own_host() {
        let base: Target = "http://a:1".parse().unwrap();
        for (url, server, path) in [
            ("/x?y", "http://a:1", "/x?y"),
            ("/x?u=http://b/", "http://a:1", "/x?u=http://b/"),
            ("http://b:2/x", "http://b:2", "/x"),
            ("http://b", "http://b", "/"),
        ] {
            let (target, found) = asked(&base, url).unwrap();
            assert_eq!((target.to_string().as_str(), &*found), (server, path));
        }
        assert!(asked(&base, "ftp://b/").is_err());
    }
}
