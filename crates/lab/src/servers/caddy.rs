//! Caddy. The stock profile is Debian's Caddyfile: a site without a name, thus without TLS, and a file server. What would
//! write outside the run's directory (certificates, the admin socket) is switched off; the configuration that it saves by
//! itself goes where `XDG_CONFIG_HOME` says.

use webstone_model::spec::Software;

use super::tls;
use super::{Choice, Disclosure, Driver, Setup, Site, counted};

pub(super) struct Caddy;

impl Driver for Caddy {
    fn software(&self) -> Software {
        Software::Caddy
    }

    fn programs(&self) -> &'static [&'static str] {
        &["caddy"]
    }

    fn package(&self) -> &'static str {
        "caddy"
    }

    fn version_argument(&self) -> &'static str {
        "version"
    }

    fn without(&self, choice: Choice) -> Option<&'static str> {
        match choice {
            Choice::ResolveNames => Some("Caddy's log cannot name clients: Caddy looks no address up"),
            Choice::Processes => Some("Caddy has one process; its CPUs are server.threads"),
            Choice::Cache | Choice::NoCache => {
                Some("Caddy's file server keeps nothing, and cannot be told to")
            }
            Choice::NoTickets => Some("a Caddyfile cannot switch session tickets off"),
            Choice::SessionCache => Some("Caddy keeps no sessions; clients resume by tickets"),
            Choice::Backlog => Some(
                "Caddy takes the kernel's longest listen queue (net.core.somaxconn), and cannot be told another",
            ),
            _ => None,
        }
    }

    fn configure(&self, site: &Site) -> Setup {
        let log = site.log(false);
        let mut text = format!(
            "# Caddy, profile {}, written by webstone.\n{{\n    admin off\n    auto_https off\n    grace_period 1s\n    storage file_system {}\n",
            site.spec.profile.name(),
            site.own("storage"),
        );
        if let Some(protocols) = tls::caddy_protocols(site) {
            text += &format!(
                "    servers {{\n        # What is measured, and no more.\n        protocols {protocols}\n    }}\n"
            );
        }
        let scheme = if site.tls.is_some() { "https" } else { "http" };
        text += &format!("}}\n{scheme}://:{} {{\n    bind {}\n", site.address.port(), site.address.ip());
        text += &tls::caddy(site);
        if !site.spec.keep_alive {
            text += "    header Connection close\n";
        }
        if let Some(path) = &log {
            text += &format!(
                "    log {{\n        output file {path} {{\n            roll_disabled\n        }}\n    }}\n"
            );
        }
        text += &format!("    root * {}\n    file_server\n}}\n", site.root.display());
        let mut environment = vec![
            ("HOME".to_owned(), site.own("")),
            ("XDG_CONFIG_HOME".to_owned(), site.own("config")),
            ("XDG_DATA_HOME".to_owned(), site.own("data")),
            // Go counts the CPUs that it may run on; told all the same, so that it is in the record.
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
            disclosure: Disclosure {
                logging: if log.is_some() { "access log, JSON" } else { "no access log" }.to_owned(),
                dns: "looks no name up".to_owned(),
                processes: format!("one process on {} (GOMAXPROCS)", counted(site.threads(), "CPU", "CPUs")),
                caching: "nothing; the kernel's page cache".to_owned(),
                ..Disclosure::default()
            },
            ..Setup::default()
        }
    }
}
