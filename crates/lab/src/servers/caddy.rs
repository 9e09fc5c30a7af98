//! Caddy. The stock profile is Debian's Caddyfile: a site without a name, thus without TLS, and a file server. What would
//! write outside the run's directory (certificates, the admin socket) is switched off; the configuration that it saves by
//! itself goes where `XDG_CONFIG_HOME` says.

use std::net::SocketAddr;

use super::tls;
use super::{Choice, Disclosure, Driver, Setup, Site, counted};

pub(super) const DRIVER: Driver = Driver {
    programs: &["caddy"],
    install: "Debian: apt-get install caddy",
    version_argument: "version",
    without,
    configure,
};

fn without(choice: Choice) -> Option<&'static str> {
    match choice {
        Choice::ResolveNames => Some("Caddy's log has no host names: Caddy does not look up addresses"),
        Choice::Processes => Some("Caddy has one process; server.threads sets the number of its CPUs"),
        Choice::Cache | Choice::NoCache => Some("Caddy's file server has no cache"),
        Choice::NoTickets => Some("a Caddyfile cannot switch session tickets off"),
        Choice::SessionCache => Some("Caddy keeps no sessions; clients resume with tickets"),
        Choice::Backlog => {
            Some("Caddy always uses the longest listen queue that the kernel allows (net.core.somaxconn)")
        }
        _ => None,
    }
}

fn configure(site: &Site) -> Setup {
    let log = site.log(false);
    let mut text = format!(
        "# Caddy, profile {}, written by webstone.\n{{\n    admin off\n    auto_https off\n    grace_period 1s\n    storage file_system {}\n",
        site.spec.profile.name(),
        site.own("storage"),
    );
    if let Some(protocols) = tls::caddy_protocols(site) {
        text += &format!(
            "    servers {{\n        # Only the protocols that are measured.\n        protocols {protocols}\n    }}\n"
        );
    }
    text += "}\n";
    let mut inner = String::new();
    if !site.spec.keep_alive {
        inner += "    header Connection close\n";
    }
    if let Some(path) = &log {
        inner += &format!(
            "    log {{\n        output file {path} {{\n            roll_disabled\n        }}\n    }}\n"
        );
    }
    inner += &format!("    root * {}\n    file_server\n", site.root.display());
    let block = |at: SocketAddr, over_tls: bool| {
        let (scheme, tls) = if over_tls { ("https", tls::caddy(site)) } else { ("http", String::new()) };
        format!("{scheme}://:{} {{\n    bind {}\n{tls}{inner}}}\n", at.port(), at.ip())
    };
    text += &block(site.address, site.is_secure());
    text += &site.second().map(|second| block(second, true)).unwrap_or_default();
    let mut environment = vec![
        ("HOME".to_owned(), site.own("")),
        ("XDG_CONFIG_HOME".to_owned(), site.own("config")),
        ("XDG_DATA_HOME".to_owned(), site.own("data")),
        // Go counts the CPUs that it may run on by itself; set anyway, so that the record has it.
        ("GOMAXPROCS".to_owned(), site.threads().to_string()),
    ];
    if site.is_tuned() {
        // Four times the garbage between two collections: memory for time.
        environment.push(("GOGC".to_owned(), "400".to_owned()));
    }
    Setup {
        files: vec![("Caddyfile".to_owned(), text)],
        arguments: ["run", "--config", &site.at("Caddyfile"), "--adapter", "caddyfile"]
            .map(Into::into)
            .to_vec(),
        environment,
        cpus_max: Some(site.threads()),
        disclosure: Disclosure::new(
            log.is_some().then_some("JSON"),
            format!("one process on {} (GOMAXPROCS)", counted(site.threads(), "CPU", "CPUs")),
            "nothing; the kernel's page cache",
        ),
        ..Setup::default()
    }
}
