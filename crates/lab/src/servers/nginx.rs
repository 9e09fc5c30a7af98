//! nginx serving files. The stock profile is Debian's `nginx.conf` with its default site; what only TLS, mail or other
//! sites need is left out.
//!
//! nginx's `worker_processes auto` and `worker_cpu_affinity auto` count the CPUs of the machine, not those that it may run
//! on (`ngx_ncpu` is `sysconf(_SC_NPROCESSORS_ONLN)`), so both are always written out.

use webstone_model::spec::Interface;

use super::interfaces;
use super::media_types;
use super::tls;
use super::{Choice, Disclosure, Driver, ERROR_LOG, Setup, Site, counted};

pub(super) const DRIVER: Driver = Driver {
    programs: &["nginx"],
    install: "Debian: apt-get install nginx-light",
    version_argument: "-V",
    without,
    configure,
};

fn configure(site: &Site) -> Setup {
    let keeps_files = site.spec.cache.unwrap_or(site.is_tuned());
    let mut http = files_common(site);
    if keeps_files {
        let most = site.files.len().next_power_of_two().max(1024);
        http += &format!(
            "    # Files and their metadata are kept open, so that requests need no open(), fstat() and close().\n    \
             open_file_cache max={most} inactive=10m;\n    open_file_cache_valid 60s;\n    open_file_cache_min_uses 1;\n    \
             open_file_cache_errors on;\n"
        );
    }
    // Debian's try_files asks for the file once more before it is opened.
    let location = if site.is_tuned() { "" } else { "            try_files $uri $uri/ =404;\n" };
    http += &interfaces::nginx::http(site);
    http += &format!(
        "    server {{\n{}{}        root {};\n        index index.html index.htm;\n        \
         server_name _;\n        location / {{\n{location}        }}\n{}    }}\n",
        tls::nginx_listen(site, &listen_options(site)),
        tls::nginx(site),
        site.root.display(),
        interfaces::nginx::location(site)
    );
    let caching = match keeps_files {
        true => "open files and their metadata (open_file_cache); contents: the kernel's page cache",
        false => "nothing; the kernel's page cache",
    };
    whole(site, &http, caching)
}

fn without(choice: Choice) -> Option<&'static str> {
    match choice {
        Choice::ResolveNames => Some("nginx's log has no host names: nginx does not look up addresses"),
        Choice::Processes => {
            Some("nginx has one thread per process; server.threads sets the number of processes")
        }
        _ => None,
    }
}

/// Backlog, and a listening socket for each worker in the tuned profile.
pub(super) fn listen_options(site: &Site) -> String {
    let mut options = String::new();
    if let Some(backlog) = site.spec.backlog.or(site.is_tuned().then_some(4096)) {
        options += &format!(" backlog={backlog}");
    }
    // With one worker there is nothing to share.
    if site.is_tuned() && site.threads() > 1 {
        options += " reuseport";
    }
    options
}

/// The part of `http` that files and proxying share: sending, logging, kept connections.
pub(super) fn files_common(site: &Site) -> String {
    let mut http = "    sendfile on;\n    tcp_nopush on;\n    types_hash_max_size 2048;\n    default_type application/octet-stream;\n".to_owned();
    http += &format!(
        "    types {{\n{}    }}\n",
        media_types::lines(|ending, media_type| format!("        {media_type} {ending};"))
    );
    if site.is_tuned() {
        http += "    # The load does not ask for compression; off saves the check.\n    gzip off;\n";
    } else {
        http += "    gzip on;\n";
    }
    http += &match (site.log(true), site.is_tuned()) {
        (None, _) => "    access_log off;\n".to_owned(),
        (Some(path), false) => format!("    access_log {path};\n"),
        (Some(path), true) => format!(
            "    # The log stays on, as on production servers, but is written in blocks instead of by request.\n    \
             access_log {path} combined buffer=64k flush=1s;\n"
        ),
    };
    http += match (site.spec.keep_alive, site.is_tuned()) {
        (false, _) => "    keepalive_timeout 0;\n",
        (true, false) => "",
        (true, true) => {
            "    # The default ends a connection after 1,000 requests.\n    keepalive_requests 1000000;\n    keepalive_timeout 75s;\n"
        }
    };
    // Places for temporary files, where the build knows them: by default they are the system's.
    for kind in ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"] {
        if kind == "client_body" || !site.build.contains(&format!("--without-http_{kind}_module")) {
            http += &format!("    {kind}_temp_path {};\n", site.own(&format!("{kind}-temp")));
        }
    }
    http
}

/// The file around `http`, and how nginx is started with it.
pub(super) fn whole(site: &Site, http: &str, caching: &str) -> Setup {
    let workers = site.threads();
    // Each worker may get all clients at first, and a proxy has two connections for each.
    let sockets = (2 * site.connections + 512).next_power_of_two().clamp(4096, 65_536);
    let connections = match (site.is_tuned(), site.spec.http3) {
        (false, _) => 768,
        (true, false) => sockets,
        // Each stream takes one, too: a client's connection has up to six at a time.
        (true, true) => 4 * sockets,
    };
    let mut text = format!(
        "# nginx, profile {}, written by webstone.\ndaemon off;\npid {};\nerror_log {};\n# Debian: auto, which counts the machine's CPUs instead of those that it may run on.\nworker_processes {workers};\n",
        site.spec.profile.name(),
        site.own("nginx.pid"),
        site.own(ERROR_LOG),
    );
    text += &interfaces::nginx::modules(site);
    if site.is_tuned() {
        text +=
            "# Two open files per connection: the socket and the file; the default is the login's limit.\n";
        text += &format!("worker_rlimit_nofile {};\n", 2 * sockets);
        if workers as usize == site.cpus.len() && workers > 1 {
            text += "# One worker per CPU, so that the scheduler does not move them.\n";
            let masks: Vec<String> =
                site.cpus.iter().map(|cpu| format!("1{}", "0".repeat(*cpu as usize))).collect();
            text += &format!("worker_cpu_affinity {};\n", masks.join(" "));
        }
    }
    text += &format!("events {{\n    worker_connections {connections};\n}}\nhttp {{\n{http}}}\n");
    let log = if site.is_tuned() { "combined format, in blocks of 64 KiB" } else { "combined format" };
    let mut setup = Setup {
        files: vec![("nginx.conf".to_owned(), text)],
        arguments: ["-c", &site.at("nginx.conf"), "-p", &site.at(""), "-e", &site.own(ERROR_LOG)]
            .map(Into::into)
            .to_vec(),
        cpus_max: Some(workers),
        disclosure: Disclosure::new(
            site.log(true).map(|_| log),
            format!("a master and {}", counted(workers, "worker process", "worker processes")),
            caching,
        ),
        ..Setup::default()
    };
    let (each, why) = taken(site);
    if connections * u64::from(workers) < each * site.connections {
        // Perhaps not all at once.
        let will = if each > 1 { "may" } else { "will" };
        let more = match site.is_tuned() {
            true => "; --server-threads allows more".to_owned(),
            false => {
                format!(", as Debian's does; --server {}:tuned allows more", site.spec.software.name())
            }
        };
        setup.warnings.push(format!(
            "nginx's {} profile allows {connections} connections per worker, but the load has {}{why}: nginx {will} \
             refuse some{more}",
            site.spec.profile.name(),
            site.connections
        ));
    }
    setup
}

/// How many connections nginx counts for one of a client, and what they are.
fn taken(site: &Site) -> (u64, &'static str) {
    match site.spec.interface {
        _ if site.spec.http3 => (6, ", each of which takes up to six with its streams"),
        // Lua and njs answer inside nginx.
        None | Some(Interface::Lua | Interface::Njs) if !site.spec.software.is_proxy() => (1, ""),
        None => (2, ", each of which takes two with the one to the origin"),
        Some(_) => (2, ", each of which takes two with the one to the handler"),
    }
}
