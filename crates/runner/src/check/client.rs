//! What each client does: requests that can be written, waits that have an end.

use http::{HeaderName, HeaderValue, Method};
use webstone_measure::units::Nanos;
use webstone_model::spec::{Check, ClientSpec, ConnectionPolicy, HttpVersion};
use webstone_workload::RequestDetail;
use webstone_workload::target::{Place, Scheme};
use webstone_workload::tls::TlsVersion;

use super::{SpecError, server_url};

/// Browsers follow 20.
const REDIRECTS_MAX: u32 = 100;

pub(super) fn check(client: &mut ClientSpec) -> Result<(), SpecError> {
    if client.parallel == 0 {
        return Err(SpecError::zero("client.parallel", "write at least 1"));
    }
    const LIMIT: &str = "client.requests_per_connection";
    match client.requests_per_connection {
        Some(0) => {
            let remedy = "write at least 1, or leave it out for no limit";
            return Err(SpecError::zero(LIMIT, remedy));
        }
        Some(limit) if client.connections != ConnectionPolicy::KeepAlive => {
            return Err(SpecError::new(
                LIMIT,
                format!("`{limit}`, but connections are not kept alive"),
                "set client.connections to keep-alive, or remove the limit",
            ));
        }
        _ => {}
    }
    streams(client)?;
    http3(client)?;
    if Method::from_bytes(client.method.as_bytes()).is_err() {
        let remedy = "write one word, as in GET or POST";
        return Err(SpecError::value("client.method", &client.method, "not a method", remedy));
    }
    if client.method == "CONNECT" {
        let is = "a request for a tunnel, which has no response to measure";
        return Err(SpecError::value("client.method", "CONNECT", is, "use another method"));
    }
    for (name, value) in &client.headers {
        if HeaderName::from_bytes(name.as_bytes()).is_err() || HeaderValue::from_str(value).is_err() {
            let remedy = "write the field's name, a colon and its value, as in 'Accept: */*'";
            let field = format!("{name}: {value}");
            return Err(SpecError::value("client.headers", field, "not a header field", remedy));
        }
    }
    let plain = RequestDetail::default();
    let request = plain.request(client);
    // Without a body here, a Content-Length may be that of the files' own bodies.
    let is_whole = request.body.is_some() || !request.fields.has("Content-Length");
    if let Some((fault, hint)) = request.fault(client.http).filter(|_| is_whole) {
        return Err(SpecError::new("client.headers", fault, hint));
    }
    for (key, value) in [
        ("client.connect_timeout", client.connect_timeout),
        ("client.first_byte_timeout", client.first_byte_timeout),
        ("client.request_timeout", client.request_timeout),
    ] {
        if value == Nanos::ZERO {
            return Err(SpecError::value(key, "0s", "too short", "write how long to wait, as in 10s"));
        }
    }
    for host in &client.allow_hosts {
        if host.parse::<Place>().is_err() {
            let remedy = "write HOST or HOST:PORT, as in images.test or 127.0.0.2:8081";
            return Err(SpecError::value("client.allow_hosts", host, "not a host", remedy));
        }
    }
    follow(client)?;
    codings(client)?;
    pipeline(client)?;
    bandwidth(client)?;
    if let Some(route) = client.connect_to.first() {
        let other =
            [("client.proxy", client.proxy.is_some()), ("client.unix_socket", client.unix_socket.is_some())];
        if let Some((other, _)) = other.into_iter().find(|(_, is_given)| *is_given) {
            return Err(SpecError::new(
                "client.connect_to",
                format!("`{route}` and {other} cannot be used together"),
                "leave out one of them",
            ));
        }
    }
    if let Some(proxy) = &mut client.proxy {
        if client.unix_socket.is_some() {
            return Err(SpecError::new(
                "client.proxy",
                format!("`{proxy}` and client.unix_socket cannot be used together"),
                "leave out one of them",
            ));
        }
        let target = server_url(proxy).map_err(|error| SpecError::of_url("client.proxy", &error))?;
        if target.scheme == Scheme::Https {
            return Err(SpecError::new(
                "client.proxy",
                format!("`{proxy}`, but connections to a proxy cannot use TLS"),
                "write http://HOST:PORT; https:// targets are reached through the proxy with CONNECT",
            ));
        }
        *proxy = target.to_string();
    }
    Ok(())
}

/// What cannot be combined with redirects: they are followed one after the other, and found by a check that asks the server itself.
fn follow(client: &ClientSpec) -> Result<(), SpecError> {
    const FOLLOW: &str = "client.follow";
    let given = client.follow;
    if given > REDIRECTS_MAX {
        let is = &format!("more than {REDIRECTS_MAX}");
        return Err(SpecError::value(
            FOLLOW,
            given,
            is,
            "write how many redirects are followed at most, as in 10",
        ));
    }
    if given > 0 && client.proxy.is_some() {
        let what = format!("`{given}`, but redirects are not followed through a proxy");
        return Err(SpecError::new(FOLLOW, what, "leave out client.follow or client.proxy"));
    }
    if given > 0 && client.parallel > 1 {
        let what = format!(
            "`{given}`, but client.parallel requests files at once, and redirects come one after the other"
        );
        return Err(SpecError::new(FOLLOW, what, "leave out client.follow or client.parallel"));
    }
    Ok(())
}

/// What cannot go over QUIC.
fn http3(client: &ClientSpec) -> Result<(), SpecError> {
    const VERSION: &str = "client.quic_version";
    if !matches!(client.http, HttpVersion::Http3 | HttpVersion::Auto) && !client.quic_version.is_default() {
        let remedy = "set client.http to 3, or remove it";
        return Err(SpecError::new(VERSION, "`2`, but only HTTP/3 goes over QUIC", remedy));
    }
    if client.http != HttpVersion::Http3 {
        return Ok(());
    }
    const REMEDY: &str = "leave it out, or set client.http to 1.1 or 2";
    let refused = |key: &'static str, what: &str| Err(SpecError::new(key, what.to_owned(), REMEDY));
    if client.proxy_protocol.is_some() {
        return refused(
            "client.proxy_protocol",
            "HTTP/3 has no TCP connection that such a header could begin",
        );
    }
    if let Some(path) = &client.unix_socket {
        return refused("client.unix_socket", &format!("`{path}`, but HTTP/3 goes over UDP"));
    }
    if let Some(given) = client.bandwidth {
        return refused("client.bandwidth", &format!("`{given}`, but it cannot limit HTTP/3's datagrams"));
    }
    if client.reset {
        return refused("client.reset", "`true`, but connections of HTTP/3 have no TCP reset");
    }
    let tls = &client.tls;
    if !tls.versions.contains(&TlsVersion::Tls13) {
        return refused("client.tls.versions", "without 1.3, but HTTP/3 needs TLS 1.3");
    }
    Ok(())
}

/// Only HTTP/1.1 on kept connections has pipelines.
fn pipeline(client: &ClientSpec) -> Result<(), SpecError> {
    const PIPELINE: &str = "client.pipeline";
    let given = client.pipeline;
    if given < 2 {
        return Ok(());
    }
    if client.http != HttpVersion::Http11 {
        let what = format!("`{given}`, but only HTTP/1.1 has pipelines");
        return Err(SpecError::new(PIPELINE, what, "leave out client.pipeline or client.http"));
    }
    if client.connections != ConnectionPolicy::KeepAlive {
        let what = format!("`{given}`, but connections are not kept alive");
        return Err(SpecError::new(PIPELINE, what, "set client.connections to keep-alive, or leave it out"));
    }
    Ok(())
}

/// A line belongs to a client, and so does all that it brings.
fn bandwidth(client: &ClientSpec) -> Result<(), SpecError> {
    const BANDWIDTH: &str = "client.bandwidth";
    let Some(given) = client.bandwidth.filter(|_| client.clients_per_link() > 1) else { return Ok(()) };
    let sharing = if client.pipeline > 1 { "client.pipeline" } else { "client.clients_per_connection" };
    let what = format!("`{given}`, but with {sharing} a connection is not of one client");
    Err(SpecError::new(BANDWIDTH, what, format!("leave out client.bandwidth or {sharing}")))
}

/// What excludes content codings: a header field that states them too, and a check of bodies byte by byte.
fn codings(client: &ClientSpec) -> Result<(), SpecError> {
    const CODINGS: &str = "client.accept_encoding";
    let given = &client.accept_encoding;
    if !given.is_empty() && client.headers.has("Accept-Encoding") {
        let what = format!("`{given}`, but client.headers has Accept-Encoding, too");
        return Err(SpecError::new(CODINGS, what, "leave out one of them"));
    }
    if !given.is_empty() && client.check == Check::Content {
        let what =
            format!("`{given}`, but client.check compares bodies with the generated files, byte by byte");
        return Err(SpecError::new(
            CODINGS,
            what,
            "set client.check to size, or leave out client.accept_encoding",
        ));
    }
    Ok(())
}

/// What only HTTP/2 and HTTP/3 have, and what they do not have.
fn streams(client: &ClientSpec) -> Result<(), SpecError> {
    const SHARED: &str = "client.clients_per_connection";
    const STREAMS: &str = "client.streams";
    if client.clients_per_connection == 0 {
        return Err(SpecError::zero(SHARED, "write at least 1"));
    }
    if client.streams == Some(0) {
        let remedy = "write at least 1, or leave it out for no limit";
        return Err(SpecError::zero(STREAMS, remedy));
    }
    let remedy = "set client.http to 2, or remove it";
    if client.http != HttpVersion::Http2 && !client.http2_settings.is_default() {
        let what = format!("`{}`, but only HTTP/2 has settings", client.http2_settings);
        return Err(SpecError::new("client.http2_settings", what, remedy));
    }
    if client.http == HttpVersion::Auto {
        // Once the version is known, these rules are checked again.
        return Ok(());
    }
    if !client.http.has_streams() {
        let remedy = "set client.http to 2 or 3, or remove it";
        if client.clients_per_connection > 1 {
            let given = client.clients_per_connection;
            let what = format!("`{given}`, but only connections of HTTP/2 and HTTP/3 can be shared");
            return Err(SpecError::new(SHARED, what, remedy));
        }
        if let Some(given) = client.streams {
            return Err(SpecError::new(
                STREAMS,
                format!("`{given}`, but only HTTP/2 and HTTP/3 have streams"),
                remedy,
            ));
        }
        return Ok(());
    }
    if client.clients_per_connection > 1 && client.connections != ConnectionPolicy::KeepAlive {
        let given = client.clients_per_connection;
        return Err(SpecError::new(
            SHARED,
            format!("`{given}`, but each request or page has a connection of its own"),
            "set client.connections to keep-alive, or remove it",
        ));
    }
    if let Some(proxy) = &client.proxy {
        return Err(SpecError::new(
            "client.proxy",
            format!("`{proxy}`, but only HTTP/1 works through a proxy"),
            "set client.http to 1.1, or measure the proxy as the server",
        ));
    }
    Ok(())
}
