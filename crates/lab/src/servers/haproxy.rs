//! HAProxy before an origin. The stock profile is Debian's `haproxy.cfg`, with a frontend and a backend, which Debian's has not. Its log
//! goes to standard output instead of syslog, and from there into a file: no syslog is needed, and none is flooded.

use std::path::PathBuf;

use super::tls;
use super::{Choice, Disclosure, Driver, Setup, Site, counted};

pub(super) const DRIVER: Driver = Driver {
    programs: &["haproxy"],
    install: "Debian: apt-get install haproxy",
    version_argument: "-v",
    without,
    configure,
};

fn without(choice: Choice) -> Option<&'static str> {
    match choice {
        Choice::ResolveNames => Some("HAProxy's log has no host names: HAProxy does not look up addresses"),
        Choice::Processes => Some("HAProxy has one process; server.threads sets the number of its threads"),
        _ => None,
    }
}

fn configure(site: &Site) -> Setup {
    let (threads, caches) = (site.threads(), site.spec.cache == Some(true));
    let log = site.log(true);
    let mut text = format!(
        "# HAProxy, profile {}, written by webstone.\nglobal\n    nbthread {threads}\n",
        site.spec.profile.name()
    );
    if site.is_tuned() {
        let connections = (2 * site.connections + 512).next_power_of_two().clamp(4096, 65_536);
        text += &format!(
            "    # More than the load has; the default depends on the limit of open files.\n    maxconn {connections}\n"
        );
    }
    text += &tls::haproxy_global(site);
    if log.is_some() {
        text += "    log stdout format raw local0\n";
    }
    text += "defaults\n    mode http\n    timeout connect 5000\n    timeout client 50000\n    timeout server 50000\n";
    if log.is_some() {
        text += "    log global\n    option httplog\n    option dontlognull\n";
    }
    text += "    option http-keep-alive\n";
    if site.is_tuned() {
        text += "    # Any request may use an idle connection to the origin, even the first one of a client.\n    http-reuse always\n";
    }
    let backlog = site.spec.backlog.map_or_else(String::new, |backlog| format!(" backlog {backlog}"));
    text += &format!("frontend load\n{}", tls::haproxy_binds(site, &backlog));
    if !site.spec.keep_alive {
        text += "    # `option httpclose` would also close the connections to the origin.\n    \
                 http-after-response set-header Connection close\n";
    }
    if caches {
        text += "    http-request cache-use answers\n    # Answers without Cache-Control would not be cached.\n    \
                 http-response set-header Cache-Control max-age=600\n    http-response cache-store answers\n";
    }
    text += &format!("    default_backend origin\nbackend origin\n    server origin {}\n", site.origin);
    if caches {
        text += "cache answers\n    total-max-size 256\n    max-object-size 16777216\n    max-age 600\n";
    }
    Setup {
        files: vec![("haproxy.cfg".to_owned(), text)],
        arguments: ["-db", "-f", &site.at("haproxy.cfg")].map(Into::into).to_vec(),
        output: log.as_ref().map(PathBuf::from),
        cpus_max: Some(threads),
        disclosure: Disclosure::new(
            log.is_some().then_some("HAProxy's HTTP format, piped to a file"),
            format!("one process, {}", counted(threads, "thread", "threads")),
            if caches { "answers of the origin, in memory" } else { "nothing" },
        ),
        ..Setup::default()
    }
}
