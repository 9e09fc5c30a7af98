//! TLS and HTTP/2 of servers: how each is configured with its certificate, versions, and what lets clients resume sessions.
//! The lines of each server's configuration are here; its driver puts them in their place.
//!
//! Versions are always written out: the defaults of a server's build or the system's OpenSSL are nobody's choice. Tuned profiles take
//! the cipher suite that the client prefers, because a suite's price must not decide a rank; stock profiles take what the package does.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use webstone_model::server_tls::ServerTls;
use webstone_model::spec::{ServerSpec, Software};
use webstone_server::Certificate;
use webstone_store::plain_file::{self, Links};
use webstone_workload::tls::TlsVersion;

use super::{Choice, Refusal, Site, driver};

/// The TLS settings of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SiteTls {
    /// The options.
    pub spec: ServerTls,
    /// Where TLS is spoken, if the server also listens without.
    pub listen: Option<SocketAddr>,
    /// File with the certificate, as PEM.
    pub cert: String,
    /// File with its private key.
    pub key: String,
    /// File with both.
    pub both: String,
}

/// Names of those files in a server's directory.
pub(super) const CERT: &str = "tls.crt";
pub(super) const KEY: &str = "tls.key";
const BOTH: &str = "tls.pem";

impl SiteTls {
    /// In a server's directory.
    pub(super) fn at(spec: &ServerTls, listen: Option<SocketAddr>, directory: &Path) -> SiteTls {
        let path = |name: &str| directory.join(name).display().to_string();
        SiteTls { spec: spec.clone(), listen, cert: path(CERT), key: path(KEY), both: path(BOTH) }
    }

    fn has(&self, version: TlsVersion) -> bool {
        self.spec.has(version)
    }

    fn lowest(&self) -> &'static str {
        if self.has(TlsVersion::Tls12) { "TLSv1.2" } else { "TLSv1.3" }
    }

    fn highest(&self) -> &'static str {
        if self.has(TlsVersion::Tls13) { "TLSv1.3" } else { "TLSv1.2" }
    }

    /// `TLSv1.2 TLSv1.3`, with something before each.
    fn versions(&self, before: &str) -> String {
        let names = [(TlsVersion::Tls12, "TLSv1.2"), (TlsVersion::Tls13, "TLSv1.3")];
        let names = names.into_iter().filter(|(version, _)| self.has(*version));
        names.map(|(_, name)| format!("{before}{name}")).collect::<Vec<_>>().join(" ")
    }
}

/// Largest file of a certificate with those above it, in bytes.
const FILE_BYTES_MAX: u64 = 16 << 20;

/// The certificate and key that a specification asks for: those that it names, or new ones.
///
/// # Errors
/// If a file cannot be read, or keys cannot be made.
pub fn certificate(spec: &ServerTls, listen: std::net::IpAddr) -> Result<Certificate, Refusal> {
    let read = |key: &str, path: &str| {
        plain_file::read_text(Path::new(path), Links::Followed, FILE_BYTES_MAX).map_err(|error| Refusal {
            what: format!("{key}: cannot read `{path}`: {error}"),
            hint: "name a readable file in PEM format".to_owned(),
        })
    };
    match (&spec.cert, &spec.key) {
        (Some(cert), Some(key)) => Ok(Certificate {
            cert_pem: read("server.tls.cert", cert)?,
            key_pem: read("server.tls.key", key)?,
        }),
        _ => Certificate::make(spec.certificate, &[listen])
            .map_err(|what| Refusal { what, hint: "give a certificate and its key instead".to_owned() }),
    }
}

/// The files that hold them, by name. Not part of what a record keeps.
pub(super) fn files(certificate: &Certificate) -> [(&'static str, String); 3] {
    [
        (CERT, certificate.cert_pem.clone()),
        (KEY, certificate.key_pem.clone()),
        (BOTH, format!("{}{}", certificate.cert_pem, certificate.key_pem)),
    ]
}

/// TLS, HTTP/2 and HTTP/3 of a server, in words, with the packages that are not installed.
pub fn summary(software: Software) -> String {
    let asked = |tls: bool, http2: bool| {
        let tls = tls.then(ServerTls::default);
        let http2 = http2 || software == Software::Nghttpd;
        ServerSpec { software, tls, http2, ..ServerSpec::default() }
    };
    let part = |name: &str, spec: ServerSpec, choice: Choice| {
        if driver(software).is_some_and(|driver| (driver.without)(choice).is_some()) {
            return None;
        }
        Some(match missing(&spec) {
            Some((_, package)) => format!("{name} ({package})"),
            None => name.to_owned(),
        })
    };
    let alone = if software == Software::Nghttpd { " only" } else { "" };
    let parts = [
        part("TLS", asked(true, false), Choice::Tls),
        part("HTTP/2", asked(false, true), Choice::Http2).map(|part| part + alone),
        http3(software).then(|| "HTTP/3".to_owned()),
    ];
    parts.into_iter().flatten().collect::<Vec<_>>().join(", ")
}

/// Whether a server speaks HTTP/3, as it is installed.
fn http3(software: Software) -> bool {
    let spec = ServerSpec { software, tls: Some(ServerTls::default()), http3: true, ..ServerSpec::default() };
    let build = super::find(&spec).ok().map(|installed| installed.build);
    speaks_http3(&spec, build.as_deref()).is_ok()
}

/// The module that a server needs for TLS or HTTP/2 and its package, if it is not installed.
pub fn missing(spec: &ServerSpec) -> Option<(&'static str, &'static str)> {
    let has_any =
        |places: &[&str], name: &str| places.iter().any(|place| Path::new(place).join(name).exists());
    let needed: &[(&[&str], &str, &str, bool)] = match spec.software {
        Software::Lighttpd => &[(&LIGHTTPD_PLACES, "mod_openssl.so", "lighttpd-mod-openssl", false)],
        Software::Apache | Software::ApachePrefork => &[
            (&super::apache::MODULE_PLACES, "mod_ssl.so", "apache2 (mod_ssl)", false),
            (&super::apache::MODULE_PLACES, "mod_http2.so", "apache2 (mod_http2)", true),
        ],
        _ => &[],
    };
    let wanted = |http2: bool| if http2 { spec.http2 } else { spec.tls.is_some() };
    needed
        .iter()
        .find(|(places, name, _, http2)| wanted(*http2) && !has_any(places, name))
        .map(|(_, name, package, _)| (*name, *package))
}

const LIGHTTPD_PLACES: [&str; 3] = ["/usr/lib/lighttpd", "/usr/lib64/lighttpd", "/usr/local/lib/lighttpd"];

/// What nginx has in `server`, after `listen`.
pub(super) fn nginx(site: &Site) -> String {
    let Some(tls) = &site.tls else { return String::new() };
    let mut text = format!(
        "        ssl_certificate {};\n        ssl_certificate_key {};\n        ssl_protocols {};\n",
        tls.cert,
        tls.key,
        tls.versions("")
    );
    text += match site.is_tuned() {
        // Debian's nginx.conf.
        false => "        ssl_prefer_server_ciphers on;\n",
        true => {
            "        # The client knows best which cipher is fast: OpenSSL's order begins with AES-256.\n        \
             ssl_prefer_server_ciphers off;\n"
        }
    };
    match (tls.spec.session_cache, site.is_tuned()) {
        (Some(false), _) => text += "        ssl_session_cache off;\n",
        (Some(true), false) => text += "        ssl_session_cache shared:sessions:10m;\n",
        (_, true) => {
            text += "        # One session cache for all workers: a returning client saves a signature.\n        \
                     ssl_session_cache shared:sessions:50m;\n        ssl_session_timeout 1h;\n";
        }
        // nginx's own default: no sessions are kept, and clients are not told.
        (None, false) => {}
    }
    if let Some(tickets) = tls.spec.tickets {
        text += &format!("        ssl_session_tickets {};\n", if tickets { "on" } else { "off" });
    }
    text
}

/// The lines of nginx that say where it listens. `options` are those of each.
pub(super) fn nginx_listen(site: &Site, options: &str) -> String {
    // Newer ones have a directive instead.
    let (http2, directive) = match (site.spec.http2, nginx_has_directive(&site.build)) {
        (false, _) => ("", ""),
        (true, true) => ("", "        http2 on;\n"),
        (true, false) => (" http2", ""),
    };
    let line = |address: SocketAddr, over_tls: bool| {
        let ssl = if over_tls { " ssl" } else { "" };
        format!("        listen {address}{options}{ssl}{http2} default_server;\n")
    };
    let second = site.second().map(|address| line(address, true)).unwrap_or_default();
    let secure = site.second().or_else(|| site.is_secure().then_some(site.address));
    let http3 = secure.filter(|_| site.spec.http3).map(|address| {
        let port = address.port();
        // Of several workers each has a socket of its own, or only the first would serve.
        format!(
            "        listen {address} quic reuseport;\n        add_header Alt-Svc 'h3=\":{port}\"; ma=86400' always;\n"
        )
    });
    line(site.address, site.is_secure()) + &second + directive + &http3.unwrap_or_default()
}

/// Checks that a server can speak HTTP/3 if it should; `build` is what its program says of itself, once that is known.
pub(super) fn speaks_http3(spec: &ServerSpec, build: Option<&str>) -> Result<(), Refusal> {
    let (what, hint) = match spec.software {
        _ if !spec.http3 => return Ok(()),
        _ if spec.tls.is_none() => ("HTTP/3 is always over TLS".to_owned(), "switch TLS on: --tls"),
        _ if spec.tls.as_ref().is_some_and(|tls| !tls.has(TlsVersion::Tls13)) => {
            ("HTTP/3 needs TLS 1.3".to_owned(), "add 1.3 to --server-tls-versions")
        }
        Software::Reference | Software::Caddy | Software::Envoy => return Ok(()),
        Software::Nginx if build.is_none_or(|build| build.contains("http_v3_module")) => return Ok(()),
        Software::Nginx => (
            "this nginx was built without ngx_http_v3_module".to_owned(),
            "install nginx 1.25 or later with it, as in Debian 13, and name it with --server-program",
        ),
        software => (
            format!("webstone cannot configure it for {}", software.name()),
            "choose reference, nginx, caddy or envoy, or measure a server that is up, by its URL",
        ),
    };
    Err(Refusal { what: format!("server.http3: {what}"), hint: hint.to_owned() })
}

/// From 1.25.1 on HTTP/2 is a directive, and one address without TLS has both versions.
fn nginx_has_directive(build: &str) -> bool {
    let version = build.split("nginx/").nth(1).unwrap_or_default();
    let number = |part: &str| part.chars().take_while(char::is_ascii_digit).collect::<String>().parse().ok();
    let numbers: Vec<u32> = version.split('.').take(3).map_while(number).collect();
    numbers.as_slice() >= [1, 25, 1].as_slice()
}

/// Whether a server speaks nothing but HTTP/2 where it listens first.
pub(super) fn is_http2_alone(site: &Site) -> bool {
    match site.spec.software {
        Software::Nghttpd => true,
        Software::Nginx | Software::NginxProxy => {
            site.spec.http2 && !site.is_secure() && !nginx_has_directive(&site.build)
        }
        _ => false,
    }
}

/// Modules of Apache.
pub(super) fn apache_modules(site: &Site) -> Vec<&'static str> {
    let mut modules = Vec::new();
    if site.tls.is_some() {
        modules.extend(["socache_shmcb", "ssl"]);
    }
    if site.spec.http2 {
        modules.push("http2");
    }
    modules
}

/// Apache's settings.
pub(super) fn apache(site: &Site) -> String {
    let http2 = |over_tls: bool| match (site.spec.http2, over_tls) {
        (false, false) => "",
        (false, true) => "Protocols http/1.1\n",
        (true, false) => "Protocols h2c http/1.1\n",
        (true, true) => "Protocols h2 http/1.1\n",
    };
    let mut text = http2(site.is_secure()).to_owned();
    let Some(tls) = &site.tls else { return text };
    let mut engine = format!(
        "SSLEngine on\nSSLCertificateFile {}\nSSLCertificateKeyFile {}\nSSLProtocol -all {}\nSSLCipherSuite HIGH:!aNULL\n",
        tls.cert,
        tls.key,
        tls.versions("+")
    );
    text += &match (tls.spec.session_cache, site.is_tuned()) {
        (Some(false), _) => "SSLSessionCache none\n".to_owned(),
        // Debian's ssl.conf.
        (_, false) => {
            format!("SSLSessionCache shmcb:{}(512000)\nSSLSessionCacheTimeout 300\n", site.own("ssl_scache"))
        }
        (_, true) => format!(
            "# Sessions are kept for an hour: a returning client saves a signature.\nSSLSessionCache shmcb:{}(33554432)\nSSLSessionCacheTimeout 3600\n",
            site.own("ssl_scache")
        ),
    };
    match (tls.spec.tickets, site.is_tuned()) {
        (Some(true), _) => engine += "SSLSessionTickets on\n",
        // Debian's ssl.conf switches them off.
        (Some(false), _) | (None, false) => engine += "SSLSessionTickets off\n",
        (None, true) => {
            engine += "# With tickets, the state of a session is kept by the client, not the server.\nSSLSessionTickets on\n"
        }
    }
    match site.second() {
        None => text + &engine,
        // A virtual host inherits the rest of the server's configuration.
        Some(address) => text + &format!("<VirtualHost {address}>\n{}{engine}</VirtualHost>\n", http2(true)),
    }
}

/// lighttpd's settings.
pub(super) fn lighttpd(site: &Site) -> String {
    // On by default over TLS.
    let http2 = match site.spec.http2 {
        false => "server.feature-flags = ( \"server.h2proto\" => \"disable\" )\n",
        true => "",
    };
    let Some(tls) = &site.tls else { return String::new() };
    let mut text =
        format!("ssl.engine = \"enable\"\nssl.pemfile = \"{}\"\nssl.privkey = \"{}\"\n", tls.cert, tls.key);
    text += &format!(
        "ssl.openssl.ssl-conf-cmd = (\n    \"MinProtocol\" => \"{}\",\n    \"MaxProtocol\" => \"{}\",\n",
        tls.lowest(),
        tls.highest()
    );
    let tickets = tls.spec.tickets.map(|tickets| if tickets { "SessionTicket" } else { "-SessionTicket" });
    let order = site.is_tuned().then_some("-ServerPreference");
    if order.is_some() {
        text +=
            "    # The client knows best which cipher is fast. Older versions have an order of their own.\n";
    }
    let options: Vec<&str> = tickets.into_iter().chain(order).collect();
    if !options.is_empty() {
        text += &format!("    \"Options\" => \"{}\",\n", options.join(","));
    }
    text += ")\n";
    match site.second() {
        None => text + http2,
        Some(address) => format!("{http2}$SERVER[\"socket\"] == \"{address}\" {{\n{text}}}\n"),
    }
}

/// What Caddy has in its site.
pub(super) fn caddy(site: &Site) -> String {
    let Some(tls) = &site.tls else { return String::new() };
    let name = |name: &str| name.replace("TLSv", "tls");
    format!(
        "    tls {} {} {{\n        protocols {} {}\n    }}\n",
        tls.cert,
        tls.key,
        name(tls.lowest()),
        name(tls.highest())
    )
}

/// The setting of Caddy's protocols, if it needs one.
pub(super) fn caddy_protocols(site: &Site) -> Option<&'static str> {
    match (site.tls.is_some(), site.spec.http2) {
        (true, _) if site.spec.http3 && site.second().is_some() => Some("h1 h2 h2c h3"),
        (true, _) if site.spec.http3 => Some("h1 h2 h3"),
        (true, true) if site.second().is_some() => Some("h1 h2 h2c"),
        (true, true) => Some("h1 h2"),
        // HTTP/3 would also take a UDP port.
        (true, false) => Some("h1"),
        (false, true) => Some("h1 h2c"),
        (false, false) => site.is_tuned().then_some("h1"),
    }
}

/// The lines of HAProxy that say where it listens. `options` are those of each.
pub(super) fn haproxy_binds(site: &Site, options: &str) -> String {
    let line = |address: SocketAddr, tls: &str| format!("    bind {address}{tls}{options}\n");
    let over_tls = haproxy_tls(site);
    match site.second() {
        None => line(site.address, &over_tls),
        Some(second) => line(site.address, "") + &line(second, &over_tls),
    }
}

/// What follows HAProxy's `bind`. Without TLS it detects HTTP/2 by its preface.
fn haproxy_tls(site: &Site) -> String {
    let Some(tls) = &site.tls else { return String::new() };
    let mut text = format!(
        " ssl crt {} alpn {} ssl-min-ver {} ssl-max-ver {}",
        tls.both,
        if site.spec.http2 { "h2,http/1.1" } else { "http/1.1" },
        tls.lowest(),
        tls.highest()
    );
    if tls.spec.tickets == Some(false) {
        text += " no-tls-tickets";
    }
    text
}

/// Debian's choice of cipher suites in `haproxy.cfg`, from Mozilla's "intermediate".
const HAPROXY_CIPHERS: &str = "\
    ssl-default-bind-ciphers ECDHE-ECDSA-AES128-GCM-SHA256:ECDHE-RSA-AES128-GCM-SHA256:ECDHE-ECDSA-AES256-GCM-SHA384:ECDHE-RSA-AES256-GCM-SHA384:ECDHE-ECDSA-CHACHA20-POLY1305:ECDHE-RSA-CHACHA20-POLY1305:DHE-RSA-AES128-GCM-SHA256:DHE-RSA-AES256-GCM-SHA384
    ssl-default-bind-ciphersuites TLS_AES_128_GCM_SHA256:TLS_AES_256_GCM_SHA384:TLS_CHACHA20_POLY1305_SHA256
";

/// What HAProxy has in `global`.
pub(super) fn haproxy_global(site: &Site) -> String {
    let Some(tls) = &site.tls else { return String::new() };
    let order = match site.is_tuned() {
        true => "    # The client knows best which cipher is fast.\n    ssl-default-bind-options prefer-client-ciphers\n".to_owned(),
        false => {
            // Debian switches tickets off; HAProxy 2.6 has no word that switches them on again.
            let tickets = if tls.spec.tickets == Some(true) { "" } else { " no-tls-tickets" };
            format!("{HAPROXY_CIPHERS}    ssl-default-bind-options ssl-min-ver TLSv1.2{tickets}\n")
        }
    };
    order + haproxy_sessions(site, tls)
}

fn haproxy_sessions(site: &Site, tls: &SiteTls) -> &'static str {
    match (tls.spec.session_cache, site.is_tuned()) {
        (Some(false), _) => "    tune.ssl.cachesize 0\n",
        (_, true) => {
            "    # Sessions are kept for an hour; the default is 20,000 sessions for five minutes.\n    \
             tune.ssl.cachesize 100000\n    tune.ssl.lifetime 3600\n"
        }
        _ => "",
    }
}

/// Envoy's context of TLS, without protocols.
pub(super) fn envoy(site: &Site) -> Option<serde_json::Value> {
    let tls = site.tls.as_ref()?;
    let version = |name: &str| name.replace("TLSv1.", "TLSv1_");
    let mut context = serde_json::json!({
        "common_tls_context": {
            "tls_params": {
                "tls_minimum_protocol_version": version(tls.lowest()),
                "tls_maximum_protocol_version": version(tls.highest())
            },
            "tls_certificates": [{
                "certificate_chain": { "filename": tls.cert },
                "private_key": { "filename": tls.key }
            }]
        }
    });
    // Both are on by default.
    for (choice, key) in [
        (tls.spec.tickets, "disable_stateless_session_resumption"),
        (tls.spec.session_cache, "disable_stateful_session_resumption"),
    ] {
        if choice == Some(false) {
            context[key] = true.into();
        }
    }
    Some(context)
}

/// What the run rules require to be disclosed of it; empty without TLS and HTTP/2.
pub fn disclosed(server: &ServerSpec) -> String {
    let protocol = match (server.http2, server.http3) {
        (true, true) => ", HTTP/2, HTTP/3",
        (false, true) => ", HTTP/3",
        (true, false) => ", HTTP/2",
        (false, false) => "",
    };
    let Some(tls) = &server.tls else { return protocol.trim_start_matches(", ").to_owned() };
    let versions: Vec<String> = tls.versions.iter().map(|version| format!("TLS {version}")).collect();
    let beside = if tls.listen.is_some() { " at one address, without TLS at another" } else { "" };
    let certificate = match tls.is_made() {
        true => format!("certificate {} made for the run", tls.certificate.name()),
        false => "certificate given by the user".to_owned(),
    };
    let switch = |name: &str, choice: Option<bool>| {
        let how = match choice {
            Some(true) => "on",
            Some(false) => "off",
            None => "as in the profile",
        };
        format!("{name} {how}")
    };
    format!(
        "{}{beside}; {certificate}; {}; {}{protocol}",
        versions.join(", "),
        switch("tickets", tls.tickets),
        switch("session cache", tls.session_cache)
    )
}

/// The path of a certificate that clients must be told to trust, unless they do already.
pub(super) fn trusted(site: &Site) -> Option<PathBuf> {
    site.tls.as_ref().filter(|tls| tls.spec.is_made()).map(|tls| PathBuf::from(&tls.cert))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_speak_http3_says_why() {
        let of = |software, tls: bool, build| {
            let tls = tls.then(ServerTls::default);
            let spec = ServerSpec { software, tls, http3: true, ..ServerSpec::default() };
            speaks_http3(&spec, build).err().map(|refusal| refusal.what)
        };
        assert_eq!(of(Software::Reference, true, None), None);
        assert_eq!(of(Software::Caddy, true, Some("2.6.2")), None);
        assert_eq!(of(Software::Nginx, true, Some("nginx/1.26.3 --with-http_v3_module")), None);
        let found = of(Software::Nginx, true, Some("nginx/1.22.1 --with-http_v2_module")).unwrap();
        assert!(found.contains("without ngx_http_v3_module"), "{found}");
        assert!(of(Software::Apache, true, None).unwrap().contains("cannot configure it for apache"));
        assert!(of(Software::Caddy, false, None).unwrap().contains("always over TLS"));
        let old = ServerTls { versions: vec![TlsVersion::Tls12], ..ServerTls::default() };
        let spec =
            ServerSpec { software: Software::Caddy, tls: Some(old), http3: true, ..ServerSpec::default() };
        assert!(speaks_http3(&spec, None).unwrap_err().what.contains("needs TLS 1.3"));
        assert_eq!(speaks_http3(&ServerSpec::default(), None), Ok(()));
    }

    #[test]
    fn http2_of_nginx_is_a_directive_from_1_25_1_on() {
        for (version, has) in
            [("1.22.1", false), ("1.25.0", false), ("1.25.1", true), ("1.26.3", true), ("1.9", false)]
        {
            assert_eq!(
                nginx_has_directive(&format!("nginx version: nginx/{version} (Ubuntu)\nbuilt")),
                has,
                "{version}"
            );
        }
        assert!(!nginx_has_directive(""));
    }
}
