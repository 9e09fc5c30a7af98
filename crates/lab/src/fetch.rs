//! Single requests for checks, made by the engine's probe through a trait, so that tests of checks can give answers that no
//! available server gives.

use std::borrow::Cow;
use std::sync::OnceLock;
use std::time::Duration;

use webstone_engine::{Extent, Probe, ProbeError, ProbeResponse, ProbeTls};
use webstone_measure::errors::ErrorClass;
use webstone_measure::units::Nanos;
use webstone_model::spec::{ClientSpec, HttpVersion};
use webstone_workload::RequestDetail;
use webstone_workload::target::{Target, UrlError};
use webstone_workload::tls::TlsSpec;

/// Requests one file at a time, and blocks until the answer is there.
pub trait Fetch: Sync {
    /// Asks for a path of a base URL such as `http://127.0.0.1:8080`, with what the file has of its own. The body is handed over as
    /// it comes, as much of it as is asked for, and is not in the answer.
    fn fetch_each(
        &self,
        base: &str,
        path: &str,
        detail: &RequestDetail,
        extent: Extent,
        each: &mut dyn FnMut(&[u8]),
    ) -> Result<ProbeResponse, ProbeError> {
        self.fetch_at(None, base, path, detail, extent, each)
    }

    /// As [`Fetch::fetch_each`], but connects to `at` if given. `Host` and SNI stay the base URL's.
    fn fetch_at(
        &self,
        at: Option<&Target>,
        base: &str,
        path: &str,
        detail: &RequestDetail,
        extent: Extent,
        each: &mut dyn FnMut(&[u8]),
    ) -> Result<ProbeResponse, ProbeError>;
}

/// The engine's probe.
#[derive(Clone, Debug)]
pub struct ByProbe {
    /// How requests are made.
    client: ClientSpec,
    /// TLS settings in their prepared form, made when first needed.
    prepared: OnceLock<ProbeTls>,
}

impl ByProbe {
    /// Plain requests. Certificates of https:// servers are not verified.
    pub fn plain(timeout: Duration) -> ByProbe {
        let timeout = Nanos(u64::try_from(timeout.as_nanos()).unwrap_or(u64::MAX));
        ByProbe::like(&ClientSpec {
            connect_timeout: timeout,
            first_byte_timeout: timeout,
            request_timeout: timeout,
            tls: TlsSpec { verify: false, ..TlsSpec::default() },
            ..ClientSpec::default()
        })
    }

    /// The same, with TLS as specified.
    #[must_use]
    pub fn with_tls(self, tls: &TlsSpec) -> ByProbe {
        ByProbe::like(&ClientSpec { tls: tls.clone(), ..self.client })
    }

    /// The same, in a version of HTTP.
    #[must_use]
    pub fn with_http(self, http: HttpVersion) -> ByProbe {
        ByProbe::like(&ClientSpec { http, ..self.client })
    }

    /// Requests as the run's clients send them.
    pub fn like(client: &ClientSpec) -> ByProbe {
        ByProbe { client: client.clone(), prepared: OnceLock::new() }
    }

    /// A whole answer, with its body.
    ///
    /// # Errors
    /// If it does not come, or its body is longer than what is held in memory.
    pub fn fetch(&self, base: &str, path: &str) -> Result<ProbeResponse, ProbeError> {
        self.probe(base, None)?.fetch(path, &RequestDetail::default())
    }

    fn probe(&self, base: &str, at: Option<&Target>) -> Result<Probe, ProbeError> {
        let led = at.and_then(|at| Some(self.client.leading(&base.parse().ok()?, at)));
        let probe = Probe::new(base, led.as_ref().unwrap_or(&self.client))?;
        match base.get(..8).is_some_and(|start| start.eq_ignore_ascii_case("https://")) {
            true => Ok(probe.with_tls(self.prepared(base)?)),
            false => Ok(probe),
        }
    }

    fn prepared(&self, base: &str) -> Result<ProbeTls, ProbeError> {
        if let Some(tls) = self.prepared.get() {
            return Ok(tls.clone());
        }
        let tls = ProbeTls::new(&self.client.tls, self.client.http).map_err(|error| ProbeError {
            class: ErrorClass::GeneratorIo,
            request: format!("{} {base}", self.client.method),
            detail: error.what,
            hint: error.hint,
        })?;
        Ok(self.prepared.get_or_init(|| tls).clone())
    }
}

impl Fetch for ByProbe {
    fn fetch_at(
        &self,
        at: Option<&Target>,
        base: &str,
        path: &str,
        detail: &RequestDetail,
        extent: Extent,
        each: &mut dyn FnMut(&[u8]),
    ) -> Result<ProbeResponse, ProbeError> {
        self.probe(base, at)?.fetch_each(path, detail, extent, each)
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
    use std::io::{Read, Write};
    use std::net::TcpListener;

    use super::*;

    #[test]
    fn a_request_by_another_server_names_the_first() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let at: Target = format!("http://{}", listener.local_addr().unwrap()).parse().unwrap();
        let heard = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut head = [0; 1024];
            let length = stream.read(&mut head).unwrap();
            stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n").unwrap();
            String::from_utf8_lossy(&head[..length]).into_owned()
        });
        let fetch = ByProbe::plain(Duration::from_secs(5));
        let extent = Extent::Whole { bytes_max: 10 };
        let detail = RequestDetail::default();
        let answer =
            fetch.fetch_at(Some(&at), "http://web1.example:81", "/x", &detail, extent, &mut |_| {}).unwrap();
        assert_eq!(answer.status, 200);
        let head = heard.join().unwrap();
        assert!(head.starts_with("GET /x ") && head.contains("\r\nHost: web1.example:81\r\n"), "{head}");
    }

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
