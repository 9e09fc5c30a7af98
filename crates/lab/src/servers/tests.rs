//! Configurations as text: what a choice of options must lead to, whichever programs are installed.

use super::*;

fn site(software: Software, profile: Profile, change: impl FnOnce(&mut Site)) -> Site {
    let mut site = Site {
        spec: ServerSpec { software, profile, ..ServerSpec::default() },
        program: "/usr/sbin/x".into(),
        directory: "/d".into(),
        root: "/d/files".into(),
        files: vec!["a.html".into(), "b/c.html".into()],
        address: "127.0.0.1:8080".parse().unwrap(),
        cpus: vec![0],
        connections: 100,
        are_kept: true,
        origin: "127.0.0.1:9".into(),
        tls: None,
        build: String::new(),
    };
    change(&mut site);
    site
}

fn configured(site: &Site) -> Setup {
    (driver(site.spec.software).unwrap().configure)(site)
}

fn text(site: &Site) -> String {
    configured(site).files.iter().map(|(_, text)| text.as_str()).collect()
}

/// Directives of a configuration, without comments and layout.
fn has(site: &Site, directive: &str) -> bool {
    text(site).lines().any(|line| line.trim() == directive)
}

/// Those that a driver configures.
fn own() -> impl Iterator<Item = Software> {
    Software::ALL.into_iter().filter(|software| {
        // The last two have no configuration file.
        !matches!(software, Software::Reference | Software::Nghttpd | Software::Command)
    })
}

#[test]
fn every_server_listens_where_it_is_told_and_stays_in_its_directory() {
    for software in own() {
        for profile in Profile::ALL {
            let site = site(software, profile, |site| site.spec.access_log = Some("on".into()));
            let setup = configured(&site);
            let text = text(&site);
            assert!(text.contains("8080") && text.contains("127.0.0.1"), "{text}");
            assert!(text.starts_with("# ") && text.contains(profile.name()), "{text}");
            for path in text.split_whitespace().filter(|word| word.trim_matches('"').starts_with('/')) {
                let path = path.trim_matches(['"', ';']);
                let known =
                    path.starts_with("/d") || path.starts_with("/usr/lib") || ["/", "/>"].contains(&path);
                assert!(known, "{software:?}: {path} in {text}");
            }
            assert!(!setup.disclosure.processes.is_empty() && !setup.disclosure.dns.is_empty());
            assert!(setup.disclosure.logging.starts_with("access log"), "{:?}", setup.disclosure);
        }
    }
}

#[test]
fn a_tuned_choice_has_its_reason_beside_it() {
    for software in own().filter(|software| *software != Software::Caddy) {
        let site = site(software, Profile::Tuned, |_| ());
        let comments = text(&site).lines().filter(|line| line.trim().starts_with('#')).count();
        assert!(comments >= 3, "{software:?} has {comments} comments: {}", text(&site));
    }
}

#[test]
fn logging_is_switched_in_each_server() {
    for software in own() {
        let off = site(software, Profile::Stock, |site| site.spec.access_log = Some("off".into()));
        let on = site(software, Profile::Stock, |site| site.spec.access_log = Some("on".into()));
        let file = site(software, Profile::Stock, |site| site.spec.access_log = Some("/logs/a".into()));
        let writes = |site: &Site| {
            let setup = configured(site);
            let output = setup.output.map(|path| path.display().to_string()).unwrap_or_default();
            (text(site) + &output).matches("access.log").count()
        };
        assert_eq!((writes(&off), writes(&on)), (0, 1), "{software:?}");
        assert_eq!(configured(&off).disclosure.logging, "no access log");
        let output = configured(&file).output.map(|path| path.display().to_string()).unwrap_or_default();
        assert!((text(&file) + &output).contains("/logs/a"), "{software:?}");
    }
}

/// lighttpd has a place for each file that it may open, and as many connections as it would have by itself.
#[test]
fn lighttpd_never_opens_more_files_than_it_has_places() {
    for (profile, clients, connections) in [
        (Profile::Stock, 100, 1_365),
        (Profile::Stock, 2_000, 5_024),
        (Profile::Stock, 100_000, 32_767),
        (Profile::Tuned, 100, 1_224),
    ] {
        let site = site(Software::Lighttpd, profile, |site| site.connections = clients);
        assert!(has(&site, "server.max-fds = 65535"), "{}", text(&site));
        assert!(has(&site, &format!("server.max-connections = {connections}")), "{}", text(&site));
    }
}

/// Where logio is a module and not loaded, httpd does not know the log's `%O` and does not start.
#[test]
fn modules_that_some_builds_of_apache_have_compiled_in_are_loaded_where_they_are_files() {
    let directory = tempfile::tempdir().unwrap();
    let place = directory.path().to_str().unwrap();
    let site = site(Software::Apache, Profile::Tuned, |_| ());
    let loaded = |name: &str| {
        let text = apache::modules(&site, place);
        text.lines().any(|line| line == format!("LoadModule {name}_module {place}/mod_{name}.so"))
    };
    let compiled_in = ["log_config", "logio", "unixd"];
    assert!(loaded("mpm_event") && loaded("dir"));
    assert_eq!(compiled_in.map(loaded), [false; 3]);
    for name in compiled_in {
        std::fs::write(directory.path().join(format!("mod_{name}.so")), "").unwrap();
    }
    assert_eq!(compiled_in.map(loaded), [true; 3]);
}

#[test]
fn names_are_looked_up_by_apache_alone() {
    let apache = site(Software::Apache, Profile::Stock, |site| site.spec.resolve_names = true);
    assert!(has(&apache, "HostnameLookups On"));
    for software in own().filter(|s| !matches!(s, Software::Apache | Software::ApachePrefork)) {
        let spec = ServerSpec { software, resolve_names: true, ..ServerSpec::default() };
        let refused = check(&spec).unwrap_err();
        assert!(refused.what.starts_with("server.resolve_names: "), "{refused}");
    }
}

#[test]
fn connections_are_kept_or_not() {
    for (software, kept, ended) in [
        (Software::Nginx, "keepalive_requests 1000000;", "keepalive_timeout 0;"),
        (Software::Apache, "KeepAlive On", "KeepAlive Off"),
        (Software::Lighttpd, "server.max-keep-alive-requests = 65535", "server.max-keep-alive-requests = 0"),
        (Software::Caddy, "file_server", "header Connection close"),
        (Software::Haproxy, "option http-keep-alive", "http-after-response set-header Connection close"),
    ] {
        assert!(has(&site(software, Profile::Tuned, |_| ()), kept), "{software:?}");
        assert!(
            has(&site(software, Profile::Tuned, |site| site.spec.keep_alive = false), ended),
            "{software:?}"
        );
    }
    // As long as the other tuned servers keep an idle one.
    assert!(has(&site(Software::Lighttpd, Profile::Tuned, |_| ()), "server.max-keep-alive-idle = 75"));
    let haproxy = site(Software::Haproxy, Profile::Tuned, |site| site.spec.keep_alive = false);
    assert!(has(&haproxy, "option http-keep-alive"), "the origin's connections are kept");
}

#[test]
fn caches_are_switched_on_and_off() {
    let with = |software, profile, cache| site(software, profile, |site| site.spec.cache = Some(cache));
    let has_cache = |site: &Site, word: &str| text(site).contains(word);
    assert!(has_cache(&with(Software::Nginx, Profile::Stock, true), "open_file_cache max=1024"));
    assert!(!has_cache(&with(Software::Nginx, Profile::Tuned, false), "open_file_cache"));
    assert!(has(&with(Software::Apache, Profile::Stock, true), "MMapFile \"/d/files/b/c.html\""));
    assert!(has(&with(Software::Apache, Profile::Tuned, false), "EnableSendfile Off"));
    assert!(has(&with(Software::Lighttpd, Profile::Stock, false), "server.stat-cache-engine = \"disable\""));
    assert!(has(&with(Software::NginxProxy, Profile::Stock, true), "proxy_cache answers;"));
    assert!(has(&with(Software::Haproxy, Profile::Stock, true), "http-request cache-use answers"));
}

#[test]
fn workers_and_cpus_are_written_out() {
    let two = |site: &mut Site| site.cpus = vec![1, 3];
    let nginx = site(Software::Nginx, Profile::Tuned, two);
    assert!(has(&nginx, "worker_processes 2;") && has(&nginx, "worker_cpu_affinity 10 1000;"));
    assert!(text(&nginx).contains("backlog=4096 reuseport"));
    assert_eq!(configured(&nginx).cpus_max, Some(2));
    let one = site(Software::Lighttpd, Profile::Stock, two);
    assert!(!text(&one).contains("max-worker"), "Debian's lighttpd has one process");
    assert_eq!(configured(&one).cpus_max, Some(1));
    let event = site(Software::Apache, Profile::Stock, |site| {
        (site.spec.threads, site.spec.processes) = (64, 4);
    });
    assert!(
        has(&event, "StartServers 4")
            && has(&event, "ThreadsPerChild 16")
            && has(&event, "MaxRequestWorkers 64")
    );
    let prefork = site(Software::ApachePrefork, Profile::Stock, |site| site.spec.threads = 7);
    assert!(has(&prefork, "StartServers 7") && has(&prefork, "MaxRequestWorkers 7"));
    assert_eq!(configured(&prefork).warnings.len(), 1, "100 connections cannot be kept by 7 processes");
    let backlog = site(Software::Apache, Profile::Stock, |site| site.spec.backlog = Some(77));
    assert!(has(&backlog, "ListenBacklog 77"));
}

/// A proxy has a connection to its origin for each of a client's, and a stream of HTTP/3 counts as one.
#[test]
fn that_stock_nginx_has_too_few_connections_is_said_before_the_load() {
    let warning = |software, clients, change: fn(&mut ServerSpec)| {
        let site = site(software, Profile::Stock, |site| {
            site.connections = clients;
            change(&mut site.spec);
        });
        configured(&site).warnings
    };
    let as_it_is: fn(&mut ServerSpec) = |_| ();
    assert_eq!(warning(Software::Nginx, 768, as_it_is), [""; 0]);
    assert_eq!(warning(Software::NginxProxy, 384, as_it_is), [""; 0]);
    assert_eq!(warning(Software::Nginx, 128, |spec| spec.http3 = true), [""; 0]);
    for (told, named) in [
        (warning(Software::Nginx, 769, as_it_is), "the load has 769: nginx will refuse some"),
        (
            warning(Software::NginxProxy, 385, as_it_is),
            "the load has 385, each of which takes two with the one to the origin: nginx may",
        ),
        (
            warning(Software::Nginx, 385, |spec| spec.interface = Some(Interface::Fastcgi)),
            "the load has 385, each of which takes two with the one to the handler: nginx may",
        ),
        (
            warning(Software::Nginx, 129, |spec| spec.http3 = true),
            "the load has 129, each of which takes up to six with its streams: nginx may",
        ),
    ] {
        assert!(told.len() == 1 && told[0].contains(named), "{told:?}");
    }
    assert_eq!(warning(Software::Nginx, 768, |spec| spec.interface = Some(Interface::Lua)), [""; 0]);
}

#[test]
fn a_command_line_is_filled_in() {
    let site = site(Software::Command, Profile::Stock, |site| {
        site.spec.command = Some("serve -p {port} 'a b' --root={root} {threads}".into());
    });
    assert_eq!(configured(&site).arguments, ["-p", "8080", "a b", "--root=/d/files", "1"]);
    for (line, rule) in
        [("serve 'x", "a quote is not closed"), ("serve", "{port} is missing"), (" ", "command line")]
    {
        let spec =
            ServerSpec { software: Software::Command, command: Some(line.into()), ..ServerSpec::default() };
        assert!(check(&spec).unwrap_err().what.contains(rule), "{line}");
    }
}

#[test]
fn options_of_another_server_are_refused() {
    let refused = |change: fn(&mut ServerSpec)| {
        let mut spec = ServerSpec { software: Software::Caddy, ..ServerSpec::default() };
        change(&mut spec);
        check(&spec).unwrap_err().what
    };
    assert!(refused(|spec| spec.backlog = Some(5)).contains("server.backlog"));
    assert!(refused(|spec| spec.cache = Some(true)).contains("server.cache"));
    assert!(refused(|spec| spec.origin = Some("http://x".into())).contains("server.origin"));
    assert!(refused(|spec| spec.command = Some("x".into())).contains("server.command"));
    assert!(
        refused(|spec| *spec = ServerSpec { access_log: Some("on".into()), ..ServerSpec::default() })
            .contains("reference")
    );
    let threads = |software, threads| check(&ServerSpec { software, threads, ..ServerSpec::default() });
    assert!(threads(Software::Lighttpd, 1_025).unwrap_err().what.contains("`1025` is more than 1024"));
    assert_eq!((threads(Software::Lighttpd, 1_024), threads(Software::Apache, 1_025)), (Ok(()), Ok(())));
    let processes =
        |processes| check(&ServerSpec { software: Software::Apache, processes, ..ServerSpec::default() });
    let refused = processes(1_025).unwrap_err();
    assert_eq!(refused.what, "server.processes: `1025` is more than 1024, the limit");
    assert_eq!(processes(1_024), Ok(()));
    assert_eq!(check(&ServerSpec::default()), Ok(()));
}

#[test]
fn tls_is_refused_where_a_server_has_no_words_for_it() {
    use webstone_model::server_tls::ServerTls;
    use webstone_workload::tls::TlsVersion;
    let refused = |software, change: fn(&mut ServerTls)| {
        let mut tls = ServerTls::default();
        change(&mut tls);
        let spec = ServerSpec {
            software,
            http2: software == Software::Nghttpd,
            tls: Some(tls),
            ..ServerSpec::default()
        };
        check(&spec).err().map(|refused| refused.what).unwrap_or_default()
    };
    assert!(refused(Software::Caddy, |tls| tls.tickets = Some(false)).starts_with("server.tls.tickets: "));
    assert!(
        refused(Software::Caddy, |tls| tls.session_cache = Some(true)).contains("server.tls.session_cache")
    );
    assert!(refused(Software::Nghttpd, |tls| tls.tickets = Some(true)).contains("server.tls.tickets"));
    assert!(refused(Software::Nghttpd, |tls| tls.versions = vec![TlsVersion::Tls13]).contains("versions"));
    assert_eq!(
        refused(Software::Nginx, |tls| (tls.tickets, tls.session_cache) = (Some(false), Some(true))),
        ""
    );
    assert_eq!(refused(Software::Haproxy, |tls| tls.versions = vec![TlsVersion::Tls12]), "");
}

#[test]
fn tls_stands_in_the_configuration_with_what_was_asked_for() {
    use webstone_model::server_tls::ServerTls;
    use webstone_workload::tls::TlsVersion;
    let with = |software, change: fn(&mut ServerTls)| {
        let mut spec = ServerTls { versions: vec![TlsVersion::Tls13], ..ServerTls::default() };
        change(&mut spec);
        site(software, Profile::Stock, |site| {
            site.tls = Some(tls::SiteTls::at(&spec, None, &site.directory));
            site.spec.tls = Some(spec);
        })
    };
    let off = |tls: &mut ServerTls| (tls.tickets, tls.session_cache) = (Some(false), Some(false));
    for (software, directives) in [
        (
            Software::Nginx,
            &["ssl_protocols TLSv1.3;", "ssl_session_tickets off;", "ssl_session_cache off;"][..],
        ),
        (
            Software::Apache,
            &[
                "SSLProtocol -all +TLSv1.3",
                "SSLSessionTickets off",
                "SSLSessionCache none",
                "Protocols http/1.1",
            ],
        ),
        (Software::Lighttpd, &["\"MinProtocol\" => \"TLSv1.3\",", "\"Options\" => \"-SessionTicket\","]),
        (Software::Haproxy, &["tune.ssl.cachesize 0"]),
        (Software::Caddy, &["protocols tls1.3 tls1.3"]),
    ] {
        let site = with(software, off);
        for directive in directives {
            assert!(has(&site, directive), "{directive} is not in {}", text(&site));
        }
        let names_it = text(&site).replace("\"server.h2proto\" => \"disable\"", "").contains("h2");
        assert!(!names_it, "HTTP/2 is not asked for: {}", text(&site));
    }
    let debian = with(Software::Apache, |_| ());
    assert!(
        has(&debian, "SSLSessionTickets off") && text(&debian).contains("shmcb:/d/own/ssl_scache(512000)")
    );
    assert!(
        !text(&with(Software::Nginx, |_| ())).contains("ssl_session"),
        "Debian's nginx says nothing of sessions"
    );
}

/// A suite of AES-256 costs a server more than one of AES-128, and must not decide a rank.
#[test]
fn tuned_servers_take_the_suite_that_the_client_prefers() {
    use webstone_model::server_tls::ServerTls;
    let with = |software, profile, tickets| {
        let spec = ServerTls { tickets, ..ServerTls::default() };
        site(software, profile, |site| {
            site.tls = Some(tls::SiteTls::at(&spec, None, &site.directory));
            site.spec.tls = Some(spec);
        })
    };
    for (software, stock, tuned) in [
        (Software::Nginx, "ssl_prefer_server_ciphers on;", "ssl_prefer_server_ciphers off;"),
        (Software::NginxProxy, "ssl_prefer_server_ciphers on;", "ssl_prefer_server_ciphers off;"),
        (
            Software::Haproxy,
            "ssl-default-bind-options ssl-min-ver TLSv1.2 no-tls-tickets",
            "ssl-default-bind-options prefer-client-ciphers",
        ),
        (Software::Lighttpd, "ssl.openssl.ssl-conf-cmd = (", "\"Options\" => \"-ServerPreference\","),
    ] {
        assert!(has(&with(software, Profile::Stock, None), stock), "{software:?}");
        assert!(has(&with(software, Profile::Tuned, None), tuned), "{software:?}");
    }
    let lighttpd = with(Software::Lighttpd, Profile::Tuned, Some(false));
    assert!(has(&lighttpd, "\"Options\" => \"-SessionTicket,-ServerPreference\","), "{}", text(&lighttpd));
    let haproxy = text(&with(Software::Haproxy, Profile::Stock, Some(true)));
    assert!(!haproxy.contains("no-tls-tickets"), "{haproxy}");
    assert!(haproxy.contains("    ssl-default-bind-ciphersuites TLS_AES_128_GCM_SHA256:"), "{haproxy}");
}

#[test]
fn a_server_listens_with_and_without_tls() {
    use webstone_model::server_tls::ServerTls;
    let both = |software, http2| {
        let spec = ServerTls { listen: Some("127.0.0.1:8443".into()), ..ServerTls::default() };
        site(software, Profile::Stock, |site| {
            site.tls = Some(tls::SiteTls::at(&spec, "127.0.0.1:8443".parse().ok(), &site.directory));
            site.spec.tls = Some(spec);
            site.spec.http2 = http2;
        })
    };
    let plain = site(Software::Nginx, Profile::Stock, |_| ()).address;
    for (software, directives) in [
        (
            Software::Nginx,
            &[format!("listen {plain} default_server;"), "listen 127.0.0.1:8443 ssl default_server;".into()]
                [..],
        ),
        (Software::NginxProxy, &["listen 127.0.0.1:8443 ssl default_server;".into()]),
        (
            Software::Apache,
            &[
                format!("Listen {plain}"),
                "Listen 127.0.0.1:8443 https".into(),
                "<VirtualHost 127.0.0.1:8443>".into(),
            ],
        ),
        (Software::Lighttpd, &["$SERVER[\"socket\"] == \"127.0.0.1:8443\" {".into()]),
        (Software::Haproxy, &[format!("bind {plain}")]),
        (Software::Caddy, &[format!("http://:{} {{", plain.port()), "https://:8443 {".into()]),
    ] {
        let site = both(software, false);
        for directive in directives {
            assert!(has(&site, directive), "{directive} is not in {}", text(&site));
        }
    }
    // The engine of TLS is the second listener's alone.
    let apache = text(&both(Software::Apache, false));
    assert!(apache.find("<VirtualHost").unwrap() < apache.find("SSLEngine on").unwrap(), "{apache}");
    assert!(apache.find("SSLSessionCache ").unwrap() < apache.find("<VirtualHost").unwrap(), "{apache}");
    let refused = check(&ServerSpec {
        software: Software::Nghttpd,
        http2: true,
        tls: Some(ServerTls { listen: Some("127.0.0.1:0".into()), ..ServerTls::default() }),
        ..ServerSpec::default()
    });
    let refused = refused.unwrap_err();
    assert!(
        refused.what.starts_with("server.tls.listen: nghttpd listens at one address"),
        "{}",
        refused.what
    );
}
