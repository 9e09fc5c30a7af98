//! Which version of HTTP a run has if that is left to the server (`--http auto`): the highest that all hosts offer. HTTP/2 is offered
//! by ALPN, HTTP/3 by the field Alt-Svc (RFC 7838) of an answer over TLS; it is followed once, and must be answered over UDP.
//!
//! It is decided once, before the load: a run whose connections differ in it would measure two things.

use std::time::Duration;

use webstone_engine::{Extent, ProbeError, ProbeResponse};
use webstone_lab::fetch::{ByProbe, Fetch};
use webstone_measure::units::Nanos;
use webstone_model::spec::{ClientSpec, HttpVersion};
use webstone_workload::RequestDetail;
use webstone_workload::alt_svc::{AltSvc, offer_of_h3};
use webstone_workload::route::ConnectTo;
use webstone_workload::target::{Place, Scheme, Target};

use super::target::{TargetError, no_answer};
use crate::check::{self, SpecError};
use crate::run_error::RunError;

/// Of a body nothing is needed.
const EXTENT: Extent = Extent::Beginning { bytes_max: 1 << 16, time_max: Duration::from_millis(200) };
/// How long a server may take to answer a first datagram: UDP may be blocked, and then nothing says so.
const UDP_PATIENCE: Nanos = Nanos::from_secs(3);

/// What was chosen for a run.
#[derive(Debug, PartialEq)]
pub(crate) struct Chosen {
    pub(crate) http: HttpVersion,
    /// Routes to the places that Alt-Svc names.
    pub(crate) connect_to: Vec<ConnectTo>,
    /// Why, in words that begin with the version.
    pub(crate) why: String,
}

/// What one host offers.
struct Offer<'a> {
    host: &'a Target,
    over_tcp: HttpVersion,
    h3: Option<AltSvc>,
}

/// Asks a host for a path as clients like these do. Of the body nothing is needed.
pub(crate) type Ask<'a> = &'a dyn Fn(&ClientSpec, &Target, &str) -> Result<ProbeResponse, ProbeError>;

/// Asks by single requests on connections of their own.
pub(crate) fn by_probe(client: &ClientSpec, host: &Target, path: &str) -> Result<ProbeResponse, ProbeError> {
    let get = RequestDetail { method: Some("GET".to_owned()), ..RequestDetail::default() };
    ByProbe::like(client).fetch_each(&host.to_string(), path, &get, EXTENT, &mut |_| {})
}

/// Asks each host for a path.
///
/// # Errors
/// If a host does not answer, or the clients cannot be as specified in the version that was found.
pub(crate) fn choose<'a>(
    client: &ClientSpec,
    hosts: impl IntoIterator<Item = (&'a Target, String)>,
    ask: Ask<'_>,
) -> Result<Chosen, RunError> {
    if client.proxy.is_some() {
        return decided(client, HttpVersion::Http11, "HTTP/1.1, the only version through a proxy".to_owned());
    }
    let client = &ClientSpec { body: None, body_base64: None, ..client.clone() };
    let mut offers = Vec::new();
    for (host, path) in hosts {
        let offer = offer(client, host, &path, ask)?;
        if offer.over_tcp == HttpVersion::Http11 && host.scheme == Scheme::Http {
            let why = format!("HTTP/1.1, because {host} has no TLS to negotiate another in");
            return decided(client, HttpVersion::Http11, why);
        }
        offers.push((offer, path));
    }
    let Some((lowest, _)) = offers.iter().min_by_key(|(offer, _)| offer.over_tcp == HttpVersion::Http2)
    else {
        return decided(client, HttpVersion::Http11, "HTTP/1.1, because no host is asked".to_owned());
    };
    let (http, host) = (lowest.over_tcp, lowest.host);
    let by_alpn = |but: &str| format!("{}, agreed on by ALPN with {host}; {but}", http.name());
    if let Some((without, _)) = offers.iter().find(|(offer, _)| offer.h3.is_none()) {
        let why = by_alpn(&format!("no Alt-Svc of {} offers HTTP/3", without.host));
        return decided(client, http, why);
    }
    let offered = |offer: &Offer<'_>| {
        let text = offer.h3.as_ref().map_or("", |h3| &h3.text);
        format!("offered by Alt-Svc of {} ({text})", offer.host)
    };
    if let Some((offer, _)) = offers.iter().find(|(offer, _)| leads_to_strangers(client, offer)) {
        let but = format!("HTTP/3 is {}, a host that client.allow_hosts does not name", offered(offer));
        return decided(client, http, by_alpn(&but));
    }
    if let Err(error) = check::with_version(client, HttpVersion::Http3) {
        let why = by_alpn(&format!("HTTP/3 is {}, but {}: {}", offered(&offers[0].0), error.key, error.rule));
        return decided(client, http, why);
    }
    let connect_to: Vec<ConnectTo> =
        offers.iter().filter_map(|(Offer { host, h3, .. }, _)| route(client, host, h3.as_ref()?)).collect();
    let over_udp = over_udp(client, &connect_to);
    for (offer, path) in &offers {
        if let Err(error) = ask(&over_udp, offer.host, path) {
            let why = by_alpn(&format!("HTTP/3 is {}, but {}", offered(offer), error.detail));
            return decided(client, http, why);
        }
    }
    let why = format!("HTTP/3, {}", offered(&offers[0].0));
    Ok(Chosen { http: HttpVersion::Http3, connect_to, why })
}

fn decided(client: &ClientSpec, http: HttpVersion, why: String) -> Result<Chosen, RunError> {
    check::with_version(client, http).map_err(|error| {
        let rule = format!("{}; client.http `auto` is {why}", error.rule);
        SpecError { rule, ..error }
    })?;
    Ok(Chosen { http, connect_to: Vec::new(), why })
}

/// Asks a host over TCP.
fn offer<'a>(
    client: &ClientSpec,
    host: &'a Target,
    path: &str,
    ask: Ask<'_>,
) -> Result<Offer<'a>, TargetError> {
    if host.scheme == Scheme::Http {
        return Ok(Offer { host, over_tcp: HttpVersion::Http11, h3: None });
    }
    let answer = ask(client, host, path).map_err(|error| no_answer(host, client, error))?;
    Ok(Offer { host, over_tcp: answer.http, h3: offered_by(&answer) })
}

/// What an answer over TLS offers in its fields Alt-Svc.
pub(super) fn offered_by(answer: &ProbeResponse) -> Option<AltSvc> {
    let fields = answer.headers.iter().filter(|(name, _)| name.eq_ignore_ascii_case("alt-svc"));
    offer_of_h3(fields.map(|(_, value)| &**value))
}

/// Whether load would go to a host that the user has neither named nor allowed: a server may name any.
fn leads_to_strangers(client: &ClientSpec, Offer { host, h3, .. }: &Offer<'_>) -> bool {
    let Some(AltSvc { host: Some(other), port, .. }) = h3 else { return false };
    let there = Target { host: other.clone(), port: *port, ..(*host).clone() };
    let allowed = client.allow_hosts.iter().filter_map(|place| place.parse::<Place>().ok());
    *other != host.host && !allowed.into_iter().any(|place| place.covers(&there))
}

/// Routes connections for a host to the place that its Alt-Svc names, if they do not go there anyway.
fn route(client: &ClientSpec, host: &Target, h3: &AltSvc) -> Option<ConnectTo> {
    let now = client.connected_to(host);
    let place = |host: &str, port: u16| Place { host: host.to_owned(), port: Some(port) };
    let to = place(h3.host.as_ref().unwrap_or(&now.host), h3.port);
    let from = place(&host.host, host.port);
    (to != place(&now.host, now.port)).then(|| format!("{from}:{to}").parse().ok()).flatten()
}

/// Clients of HTTP/3 that wait for at most [`UDP_PATIENCE`] to connect.
fn over_udp(client: &ClientSpec, routes: &[ConnectTo]) -> ClientSpec {
    ClientSpec {
        http: HttpVersion::Http3,
        connect_to: [routes, &client.connect_to[..]].concat(),
        connect_timeout: client.connect_timeout.min(UDP_PATIENCE),
        ..client.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use webstone_engine::ReadTo;
    use webstone_measure::errors::ErrorClass;
    use webstone_measure::units::Bandwidth;

    /// What is chosen for clients if hosts answer over TCP in a version, with an Alt-Svc field; `over_udp`: what happens then.
    fn chosen(
        client: &ClientSpec,
        hosts: &[(&str, HttpVersion, &str)],
        over_udp: Result<(), &str>,
    ) -> Result<(HttpVersion, String, Vec<String>), String> {
        let targets: Vec<Target> = hosts.iter().map(|host| host.0.parse().unwrap()).collect();
        let ask = |client: &ClientSpec, host: &Target, path: &str| {
            assert_eq!(path, "/x");
            let (_, http, field) = hosts.iter().find(|known| known.0 == host.to_string()).unwrap();
            let (http, refused) = match client.http {
                HttpVersion::Http3 => (HttpVersion::Http3, over_udp.err()),
                asked => {
                    assert_eq!(asked, HttpVersion::Auto);
                    (*http, None)
                }
            };
            if let Some(detail) = refused {
                assert!(client.connect_timeout <= UDP_PATIENCE);
                let class = ErrorClass::QuicSilence;
                let detail = format!("{}: {detail}", client.connected_to(host));
                return Err(ProbeError { class, request: String::new(), detail, hint: None });
            }
            let headers = vec![("Alt-Svc".to_owned(), (*field).to_owned())];
            let (status, body, wire_bytes, read) = (404, Vec::new(), 0, ReadTo::End);
            Ok(ProbeResponse { http, status, headers, body, wire_bytes, read })
        };
        let client = ClientSpec { http: HttpVersion::Auto, ..client.clone() };
        let found = choose(&client, targets.iter().map(|host| (host, "/x".to_owned())), &ask);
        let Chosen { http, connect_to, why } = found.map_err(|error| error.to_string())?;
        Ok((http, why, connect_to.iter().map(ConnectTo::to_string).collect()))
    }

    const A: &str = "https://a.test";
    const B: &str = "https://b.test";
    const H3: &str = "h3=\":443\"; ma=60";

    #[test]
    fn the_highest_version_that_all_hosts_offer_is_chosen() {
        use HttpVersion::{Http2, Http3, Http11};
        let plain = ClientSpec::default();
        let of = |hosts: &[(&str, HttpVersion, &str)]| chosen(&plain, hosts, Ok(())).unwrap();
        let with = |http: HttpVersion, why: &str| (http, why.to_owned(), Vec::new());
        assert_eq!(
            of(&[(A, Http2, H3)]),
            with(Http3, "HTTP/3, offered by Alt-Svc of https://a.test (h3=\":443\")")
        );
        assert_eq!(of(&[(A, Http11, H3), (B, Http2, H3)]).0, Http3);
        assert_eq!(
            of(&[(A, Http2, H3), (B, Http2, "clear")]),
            with(
                Http2,
                "HTTP/2, agreed on by ALPN with https://a.test; no Alt-Svc of https://b.test offers HTTP/3"
            )
        );
        assert_eq!(
            of(&[(A, Http2, ""), (B, Http11, H3)]),
            with(
                Http11,
                "HTTP/1.1, agreed on by ALPN with https://b.test; no Alt-Svc of https://a.test offers HTTP/3"
            )
        );
        assert_eq!(
            of(&[(A, Http2, H3), ("http://c.test", Http11, "")]),
            with(Http11, "HTTP/1.1, because http://c.test has no TLS to negotiate another in")
        );
    }

    #[test]
    fn connections_go_where_alt_svc_leads() {
        let hosts = [(A, HttpVersion::Http2, "h3=\":8443\"")];
        let (http, _, routes) = chosen(&ClientSpec::default(), &hosts, Ok(())).unwrap();
        assert_eq!((http, routes), (HttpVersion::Http3, vec!["a.test:443:a.test:8443".to_owned()]));
        let led = ClientSpec { connect_to: vec!["::127.0.0.1:9".parse().unwrap()], ..ClientSpec::default() };
        assert_eq!(chosen(&led, &hosts, Ok(())).unwrap().2, ["a.test:443:127.0.0.1:8443"]);
        let named = [(A, HttpVersion::Http2, "h3=\"[::1]:9\"")];
        let (http, why, _) = chosen(&led, &named, Ok(())).unwrap();
        assert!(
            http == HttpVersion::Http2 && why.ends_with("a host that client.allow_hosts does not name"),
            "{why}"
        );
        let allowed = ClientSpec { allow_hosts: vec!["[::1]".to_owned()], ..led };
        assert_eq!(chosen(&allowed, &named, Ok(())).unwrap().2, ["a.test:443:[::1]:9"]);
    }

    #[test]
    fn what_is_not_possible_over_udp_falls_back_in_words() {
        let hosts = [(A, HttpVersion::Http2, "h3=\":8443\"")];
        let (http, why, routes) = chosen(&ClientSpec::default(), &hosts, Err("no answer over UDP")).unwrap();
        let expected = "HTTP/2, agreed on by ALPN with https://a.test; HTTP/3 is offered by Alt-Svc of https://a.test (h3=\":8443\"), \
                        but https://a.test:8443: no answer over UDP";
        assert_eq!((http, &*why, routes), (HttpVersion::Http2, expected, Vec::new()));
        let slow =
            ClientSpec { bandwidth: Some("1m".parse::<Bandwidth>().unwrap()), ..ClientSpec::default() };
        let (http, why, _) = chosen(&slow, &hosts, Ok(())).unwrap();
        assert!(http == HttpVersion::Http2 && why.contains("but client.bandwidth: `"), "{why}");
        let shared = ClientSpec {
            clients_per_connection: 2,
            connections: webstone_model::spec::ConnectionPolicy::KeepAlive,
            ..ClientSpec::default()
        };
        let told = chosen(&shared, &[(A, HttpVersion::Http11, "")], Ok(())).unwrap_err();
        assert!(told.ends_with("client.http `auto` is HTTP/1.1, agreed on by ALPN with https://a.test; no Alt-Svc of https://a.test offers HTTP/3"), "{told}");
    }
}
