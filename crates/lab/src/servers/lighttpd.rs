//! lighttpd. The stock profile is Debian's `lighttpd.conf`, which writes no access log.

use super::interfaces;
use super::media_types;
use super::tls;
use super::{Choice, Disclosure, Driver, ERROR_LOG, Setup, Site, counted};

pub(super) const DRIVER: Driver = Driver {
    programs: &["lighttpd"],
    install: "Debian: apt-get install lighttpd",
    version_argument: "-v",
    without,
    configure,
};

/// Debian's choice of checks of requests.
const PARSE_OPTIONS: &str = "\
server.http-parseopts = (
    \"header-strict\" => \"enable\",
    \"host-strict\" => \"enable\",
    \"host-normalize\" => \"enable\",
    \"url-normalize-unreserved\" => \"enable\",
    \"url-normalize-required\" => \"enable\",
    \"url-ctrls-reject\" => \"enable\",
    \"url-path-2f-decode\" => \"enable\",
    \"url-path-dotseg-remove\" => \"enable\",
)
";

/// The largest `server.max-fds` that lighttpd takes, a place short of the limit that started servers have.
const FILES_MAX: u16 = 65_535;
/// Connections that lighttpd takes by default: a third of its 4,096 files.
const STOCK_CONNECTIONS: u64 = 1_365;

fn without(choice: Choice) -> Option<&'static str> {
    match choice {
        Choice::ResolveNames => Some("lighttpd's log has no host names: lighttpd does not look up addresses"),
        Choice::Processes => {
            Some("lighttpd has one thread per process; server.threads sets the number of processes")
        }
        Choice::SessionCache => Some("lighttpd keeps no sessions; clients resume with tickets"),
        _ => None,
    }
}

fn configure(site: &Site) -> Setup {
    // Debian: one process. More share the listening socket and nothing else.
    let workers = if site.is_tuned() { site.threads() } else { site.spec.threads.max(1) };
    let log = site.log(false);
    let mut modules: Vec<&str> = match site.is_tuned() {
        false => vec!["indexfile", "access", "alias", "redirect", "dirlisting", "staticfile"],
        true => vec!["indexfile", "staticfile"],
    };
    let more = interfaces::lighttpd::modules(site).iter().copied();
    // Handlers before files: the first that takes a request has it.
    let more: Vec<&str> = more.filter(|name| !modules.contains(name)).collect();
    modules.splice(1..1, more);
    let modules: Vec<String> = modules
        .into_iter()
        .chain(log.as_ref().map(|_| "accesslog"))
        .chain(site.tls.as_ref().map(|_| "openssl"))
        .map(|name| format!("\"mod_{name}\""))
        .collect();
    let mut text = format!(
        "# lighttpd, profile {}, written by webstone.\nserver.modules = ( {} )\nserver.document-root = \"{}\"\nserver.bind = \"{}\"\nserver.port = {}\nserver.pid-file = \"{}\"\nserver.errorlog = \"{}\"\nserver.upload-dirs = ( \"{}\" )\n",
        site.spec.profile.name(),
        modules.join(", "),
        site.root.display(),
        bind(site),
        site.address.port(),
        site.own("lighttpd.pid"),
        site.own(ERROR_LOG),
        site.own(""),
    );
    text += PARSE_OPTIONS;
    text += &tls::lighttpd(site);
    text += &interfaces::lighttpd::part(site);
    text += "index-file.names = ( \"index.html\" )\n";
    if !site.is_tuned() {
        text += "url.access-deny = ( \"~\", \".inc\" )\nstatic-file.exclude-extensions = ( \".php\", \".pl\", \".fcgi\" )\n";
    }
    let types = media_types::lines(|ending, media_type| format!("    \".{ending}\" => \"{media_type}\","));
    text += &format!("mimetype.assign = (\n{types})\n");
    if workers > 1 {
        text += "# One process per CPU: a process uses one CPU.\n";
        text += &format!("server.max-worker = {workers}\n");
    }
    if let Some(backlog) = site.spec.backlog.or(site.is_tuned().then_some(4096)) {
        text += &format!("server.listen-backlog = {backlog}\n");
    }
    let connections = (2 * site.connections + 1024).min(u64::from(FILES_MAX) / 2);
    let connections = if site.is_tuned() || connections > 4096 { connections } else { STOCK_CONNECTIONS };
    text += &format!(
        "# Files stay open for seconds after they were sent. Without a number lighttpd 1.4.69 counts on 4,096 and, where the limit of\n\
         # open files is higher, writes beyond its table; where it is not, it answers 403.\n\
         server.max-fds = {FILES_MAX}\nserver.max-connections = {connections}\n"
    );
    text += match (site.spec.keep_alive, site.is_tuned()) {
        (false, _) => "server.max-keep-alive-requests = 0\n",
        (true, true) => {
            "# By default a connection ends after 1,000 requests, and after five seconds without one.\n\
             server.max-keep-alive-requests = 65535\nserver.max-keep-alive-idle = 75\n"
        }
        (true, false) => "",
    };
    let caching = match site.spec.cache {
        None => "file metadata for a second (stat cache, simple)",
        Some(true) => {
            text += "# File metadata is kept until the kernel reports a change.\nserver.stat-cache-engine = \"inotify\"\n";
            "file metadata until the file changes (stat cache, inotify)"
        }
        Some(false) => {
            text += "server.stat-cache-engine = \"disable\"\n";
            "nothing; the kernel's page cache"
        }
    };
    if let Some(path) = &log {
        text += &format!("accesslog.filename = \"{path}\"\n");
    }
    Setup {
        files: vec![("lighttpd.conf".to_owned(), text)],
        arguments: ["-D", "-f", &site.at("lighttpd.conf")].map(Into::into).to_vec(),
        cpus_max: Some(workers),
        disclosure: Disclosure::new(
            log.is_some().then_some("combined format, buffered"),
            counted(workers, "process", "worker processes"),
            caching,
        ),
        ..Setup::default()
    }
}

/// An address as `server.bind` takes it: version 6 in brackets.
fn bind(site: &Site) -> String {
    match site.address.ip() {
        std::net::IpAddr::V4(address) => address.to_string(),
        std::net::IpAddr::V6(address) => format!("[{address}]"),
    }
}
