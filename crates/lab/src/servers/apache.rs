//! Apache httpd with its event or prefork MPM. The stock profile has the modules that Debian enables, with their settings,
//! because each of them has hooks in every request, except those for other sites, CGI or error pages.

use std::fmt::Write as _;
use std::path::Path;

use webstone_model::spec::Software;

use super::interfaces;
use super::media_types;
use super::tls;
use super::{Choice, Disclosure, Driver, ERROR_LOG, Setup, Site, counted};

/// With the event MPM.
pub(super) const DRIVER: Driver = Driver {
    programs: &["apache2", "httpd"],
    install: "Debian: apt-get install apache2",
    version_argument: "-v",
    without: |_| None,
    configure,
};
/// With the prefork MPM.
pub(super) const PREFORK: Driver = Driver { without: prefork_without, ..DRIVER };

/// Modules that Debian enables, besides the MPM.
const STOCK_MODULES: [&str; 19] = [
    "access_compat",
    "alias",
    "auth_basic",
    "authn_core",
    "authn_file",
    "authz_core",
    "authz_host",
    "authz_user",
    "autoindex",
    "deflate",
    "dir",
    "env",
    "filter",
    "mime",
    "negotiation",
    "reqtimeout",
    "setenvif",
    "status",
    "log_config",
];
/// Those of them that serving files needs.
const TUNED_MODULES: [&str; 4] = ["authz_core", "dir", "mime", "log_config"];
/// Modules that Debian compiles in, and Red Hat and others do not.
const BUILT_IN: [&str; 3] = ["log_config", "logio", "unixd"];
/// Where distributions keep modules.
pub(super) const MODULE_PLACES: [&str; 4] =
    ["/usr/lib/apache2/modules", "/usr/lib64/httpd/modules", "/usr/lib/httpd/modules", "/usr/lib/apache2"];

/// Debian's settings of those modules.
const STOCK_SETTINGS: &str = "\
DirectoryIndex index.html index.cgi index.pl index.php index.xhtml index.htm
AddOutputFilterByType DEFLATE text/html text/plain text/xml text/css text/javascript application/javascript application/xml
RequestReadTimeout header=20-40,minrate=500
RequestReadTimeout body=10,minrate=500
BrowserMatch \"Mozilla/2\" nokeepalive
BrowserMatch \"MSIE 4\\.0b2;\" nokeepalive downgrade-1.0 force-response-1.0
BrowserMatch \"RealPlayer 4\\.0\" force-response-1.0
BrowserMatch \"Java/1\\.0\" force-response-1.0
BrowserMatch \"JDK/1\\.0\" force-response-1.0
BrowserMatch \" Konqueror/4\" redirect-carefully
ServerTokens OS
ServerSignature On
TraceEnable Off
";

fn prefork_without(choice: Choice) -> Option<&'static str> {
    match choice {
        Choice::Processes => {
            Some("prefork has one thread per process; server.threads sets the number of processes")
        }
        Choice::Http2 => Some("mod_http2 needs threads, and prefork has one in each process"),
        _ => None,
    }
}

fn is_prefork(site: &Site) -> bool {
    site.spec.software == Software::ApachePrefork
}

fn configure(site: &Site) -> Setup {
    let mpm = mpm(site);
    let mut text = format!(
        "# Apache httpd, {} MPM, profile {}, written by webstone.\nServerRoot {}\nServerName localhost\nDefaultRuntimeDir {}\nPidFile {}\nListen {}\n{}",
        mpm_name(site),
        site.spec.profile.name(),
        site.directory.display(),
        site.own(""),
        site.own("apache.pid"),
        site.address,
        site.second().map(|address| format!("Listen {address} https\n")).unwrap_or_default(),
    );
    let place = MODULE_PLACES.into_iter().find(|place| Path::new(place).is_dir()).unwrap_or(MODULE_PLACES[0]);
    text += &modules(site, place);
    text += &mpm.text;
    if let Some(backlog) = site.spec.backlog.or(site.is_tuned().then_some(4096)) {
        let _ = writeln!(text, "ListenBacklog {backlog}");
    }
    let _ = writeln!(text, "Timeout 300\nErrorLog {}\nLogLevel warn", site.own(ERROR_LOG));
    text += &connections(site);
    text += &logging(site);
    text += if site.is_tuned() { "DirectoryIndex index.html\n" } else { STOCK_SETTINGS };
    text += &interfaces::apache::part(site, is_prefork(site));
    text += &tls::apache(site);
    let _ = writeln!(text, "TypesConfig {}", site.at("mime.types"));
    let (sending, caching) = sending(site);
    text += &sending;
    let options = if site.is_tuned() { "FollowSymLinks" } else { "Indexes FollowSymLinks" };
    let _ = writeln!(
        text,
        "DocumentRoot {root}\n<Directory />\n    Options FollowSymLinks\n    AllowOverride None\n    Require all denied\n</Directory>\n<Directory {root}>\n    Options {options}\n    AllowOverride None\n    Require all granted\n</Directory>",
        root = site.root.display()
    );
    let types = media_types::lines(|ending, media_type| format!("{media_type} {ending}"));
    let log = if site.is_tuned() { "combined format, buffered" } else { "combined format" };
    let mut setup = Setup {
        files: vec![("apache.conf".to_owned(), text), ("mime.types".to_owned(), types)],
        arguments: ["-D", "FOREGROUND", "-f", &site.at("apache.conf")].map(Into::into).to_vec(),
        disclosure: Disclosure::new(site.log(true).map(|_| log), mpm.processes, caching),
        ..Setup::default()
    };
    if site.spec.resolve_names {
        setup.disclosure.dns = "looks up host names (HostnameLookups On)".to_owned();
    }
    if is_prefork(site) && u64::from(mpm.workers) < site.connections {
        let why = match site.are_kept && site.spec.keep_alive {
            true => "each kept connection occupies a process, so some are never served",
            false => "the others wait in its listen queue, which is part of their connect and response times",
        };
        setup.warnings.push(format!(
            "prefork has {}, but the load has {} connections at once: {why}; raise the number with --server-threads",
            counted(mpm.workers, "process", "processes"),
            site.connections
        ));
    }
    setup
}

/// The settings of an MPM.
struct Mpm {
    text: String,
    processes: String,
    /// Requests at once.
    workers: u32,
}

fn mpm_name(site: &Site) -> &'static str {
    if is_prefork(site) { "prefork" } else { "event" }
}

fn mpm(site: &Site) -> Mpm {
    let connections = u32::try_from(site.connections).unwrap_or(u32::MAX);
    match (is_prefork(site), site.is_tuned(), site.spec.threads, site.spec.processes) {
        // As Debian's mods-available/mpm_*.conf have them.
        (false, false, 0, 0) => Mpm {
            text:
                "StartServers 2\nMinSpareThreads 25\nMaxSpareThreads 75\nThreadLimit 64\nThreadsPerChild 25\n\
                   MaxRequestWorkers 150\nMaxConnectionsPerChild 0\n"
                    .to_owned(),
            processes: "2 to 6 processes of 25 threads".to_owned(),
            workers: 150,
        },
        (true, false, 0, _) => Mpm {
            text: "StartServers 5\nMinSpareServers 5\nMaxSpareServers 10\nMaxRequestWorkers 150\n\
                   MaxConnectionsPerChild 0\n"
                .to_owned(),
            processes: "5 to 150 processes, 5 to 10 of them spare".to_owned(),
            workers: 150,
        },
        (true, _, asked, _) => {
            let workers = if asked > 0 { asked } else { (connections + 10).clamp(64, 1024) };
            Mpm {
                text: format!(
                    "# All processes from the start: none is forked while the load runs.\nServerLimit {workers}\n\
                     StartServers {workers}\nMinSpareServers {workers}\nMaxSpareServers {workers}\n\
                     MaxRequestWorkers {workers}\nMaxConnectionsPerChild 0\n"
                ),
                processes: counted(workers, "process", "processes"),
                workers,
            }
        }
        (false, tuned, asked, processes) => {
            let processes = match processes {
                0 if tuned => site.cpus.len() as u32,
                0 => asked.div_ceil(25),
                asked => asked,
            };
            let workers = match asked {
                0 if tuned => connections.clamp(64, 1024),
                0 => 25 * processes,
                asked => asked,
            };
            let each = workers.div_ceil(processes).max(1);
            let all = each * processes;
            Mpm {
                text: format!(
                    "# All processes and threads from the start: none is made while the load runs.\nServerLimit {processes}\n\
                     StartServers {processes}\nThreadLimit {each}\nThreadsPerChild {each}\nMaxRequestWorkers {all}\n\
                     MinSpareThreads {all}\nMaxSpareThreads {all}\nMaxConnectionsPerChild 0\n"
                ),
                processes: format!(
                    "{} of {}",
                    counted(processes, "process", "processes"),
                    counted(each, "thread", "threads")
                ),
                workers: all,
            }
        }
    }
}

/// The lines that load modules from a directory.
pub(super) fn modules(site: &Site, place: &str) -> String {
    let mut names: Vec<String> = vec![format!("mpm_{}", mpm_name(site))];
    names.extend(
        if site.is_tuned() { TUNED_MODULES.as_slice() } else { STOCK_MODULES.as_slice() }
            .iter()
            .map(|name| (*name).to_owned()),
    );
    let more = interfaces::apache::modules(site, is_prefork(site)).iter().copied();
    for name in more.chain(tls::apache_modules(site)) {
        if !names.iter().any(|known| known == name) {
            names.push(name.to_owned());
        }
    }
    if site.spec.cache == Some(true) {
        names.push("file_cache".to_owned());
    }
    // The log's %O is logio's.
    names.extend(["logio", "unixd"].map(str::to_owned));
    let mut text = String::new();
    for name in names {
        let file = format!("{place}/mod_{name}.so");
        if !BUILT_IN.contains(&name.as_str()) || Path::new(&file).exists() {
            let _ = writeln!(text, "LoadModule {name}_module {file}");
        }
    }
    text
}

fn connections(site: &Site) -> String {
    match (site.spec.keep_alive, site.is_tuned()) {
        (false, _) => "KeepAlive Off\n".to_owned(),
        (true, false) => "KeepAlive On\nMaxKeepAliveRequests 100\nKeepAliveTimeout 5\n".to_owned(),
        (true, true) => {
            "# By default a connection ends after 100 requests.\nKeepAlive On\nMaxKeepAliveRequests 0\nKeepAliveTimeout 75\n"
                .to_owned()
        }
    }
}

fn logging(site: &Site) -> String {
    let mut text = format!("HostnameLookups {}\n", if site.spec.resolve_names { "On" } else { "Off" });
    text +=
        "LogFormat \"%h %l %u %t \\\"%r\\\" %>s %O \\\"%{Referer}i\\\" \\\"%{User-Agent}i\\\"\" combined\n";
    if let Some(path) = site.log(true) {
        if site.is_tuned() {
            text += "# The log stays on, as on production servers, but is written in blocks instead of by request.\nBufferedLogs On\n";
        }
        let _ = writeln!(text, "CustomLog {path} combined");
    }
    text
}

/// How files are read, and what is kept of them.
fn sending(site: &Site) -> (String, &'static str) {
    match (site.spec.cache, site.is_tuned()) {
        (Some(true), _) => {
            let mut text = "# Every file of the workload, mapped once.\n".to_owned();
            for file in &site.files {
                let _ = writeln!(text, "MMapFile \"{}\"", site.root.join(file).display());
            }
            (text, "files mapped into memory (mod_file_cache)")
        }
        (Some(false), _) => (
            "# Files are read for each request.\nEnableMMAP Off\nEnableSendfile Off\n".to_owned(),
            "nothing; the kernel's page cache",
        ),
        (None, true) => (
            "# The kernel sends files by itself.\nEnableSendfile On\n".to_owned(),
            "nothing; the kernel's page cache",
        ),
        (None, false) => (String::new(), "nothing; the kernel's page cache"),
    }
}
