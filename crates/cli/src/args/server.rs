//! Flags of servers: of the reference server as a separate command, of the server that `run` starts and measures, and
//! of related commands.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use webstone_measure::units::Nanos;
use webstone_model::network_path::PathSpec;
use webstone_model::server_tls::{CertificateKey, ServerTls};
use webstone_model::spec::{Interface, ServerChoice};
use webstone_workload::tls::TlsVersion;

use super::table::flags;
use super::values;

flags! {
/// `webstone serve`.
pub struct ServeArgs {
    /// Address and port to listen on; port 0 means a free one
    ///
    /// Example: --listen 0.0.0.0:8080
    #[arg(long, value_name = "ADDRESS:PORT", value_parser = values::listen)]
    pub listen: Option<String> => (server.listen),

    /// Number of threads; 0 means one per CPU that it may run on
    ///
    /// Example: --threads 2
    #[arg(long, value_name = "N", value_parser = values::number_u32)]
    pub threads: Option<u32> => (server.threads),

    /// CPUs that its threads are pinned to
    ///
    /// Example: --cpus 0-1
    #[arg(long, value_name = "LIST", value_parser = values::cpu_list)]
    pub cpus: Option<String> => (server.cpus = "all that the process may use"),

    /// Serve this workload's generated files from memory
    ///
    /// Example: --workload general-and-media
    #[arg(short, long, value_name = "NAME|FILE", conflicts_with = "root")]
    pub workload: Option<String> => (workload),

    /// Serve the files below this directory instead
    ///
    /// Example: --root /var/www/html
    #[arg(long, value_name = "DIR")]
    pub root: Option<PathBuf> => (server.root = "none"),

    /// Read files from disk for every request
    #[arg(long)]
    pub no_cache: bool => (server.cache, |_, run| run.server.cache = Some(false)),

    /// Close every connection after its first response
    #[arg(long)]
    pub no_keep_alive: bool => (server.keep_alive, |_, run| run.server.keep_alive = false),

    /// Write an access log in Common Log Format
    ///
    /// Example: --access-log access.log
    #[arg(long, value_name = "FILE")]
    pub access_log: Option<PathBuf> => (server.access_log = "none"),

    /// Log clients' host names instead of their addresses
    #[arg(long)]
    pub resolve_names: bool => (server.resolve_names),

    /// With names: a DNS server of webstone's answers after this time, instead of the system's resolver
    ///
    /// The hosts file knows this host at once, so that look-ups seem to cost nothing. Only of the reference server.
    ///
    /// Example: --dns-delay 20ms
    #[arg(long, value_name = "TIME")]
    pub dns_delay: Option<Nanos> => (server.dns_delay = "none"),

    /// Length of the listen queue, in connections
    ///
    /// Example: --backlog 128
    #[arg(long, value_name = "N", value_parser = values::count_u32)]
    pub backlog: Option<u32> => (server.backlog = |run| run.server.reference_backlog().to_string()),

    /// What answers /send: native (the server itself), or a program run through cgi, fastcgi or persistent
    ///
    /// `docs/interfaces.md` describes them.
    ///
    /// Example: --interface fastcgi
    #[arg(long, value_name = "NAME")]
    pub interface: Option<Interface> => (server.interface = "native"),

    /// Program to run through cgi, fastcgi or persistent, with its arguments; webstone's own handler if not given
    ///
    /// Split into words as a shell would; no shell is started.
    ///
    /// Example: --interface cgi --handler /usr/lib/cgi-bin/hello
    #[arg(long, value_name = "COMMAND", requires = "interface")]
    pub handler: Option<String> => (= "webstone's own"),

    /// Number of processes of the handler, each for one request at a time; 0 means two per thread of the server
    ///
    /// Example: --handlers 8
    #[arg(long, value_name = "N", value_parser = values::number_u32)]
    pub handlers: Option<u32> => (server.handlers),

    /// Kill the handler if it sends nothing for this long
    ///
    /// Example: --handler-timeout 5s
    #[arg(long, value_name = "TIME")]
    pub handler_timeout: Option<Nanos> => (= "30s"),

    /// Maximum length of an answer of the handler, in bytes
    ///
    /// Example: --handler-output-max 1g
    #[arg(long, value_name = "BYTES", value_parser = values::count)]
    pub handler_output_max: Option<u64> => (= "1099511627776"),

    /// TLS and HTTP/2.
    #[command(flatten)]
    pub tls: ServeTlsArgs => (..),

    /// Also answer /test, /schedule, /echo, /.webstone/refuse and /.webstone/fault, which let any client stall, break and close
    /// the server
    ///
    /// Only for tests of clients, on a server that nobody else can reach.
    #[arg(long)]
    pub test_handlers: bool,

    /// Exit when standard input is closed, so that the server does not outlive the program that started it
    #[arg(long)]
    pub until_stdin_closes: bool,
}
}

flags! {
/// TLS, HTTP/2 and HTTP/3 of `webstone serve`.
pub struct ServeTlsArgs {
    /// Speak TLS, with a certificate made at start unless --cert is given
    #[arg(long)]
    pub tls: bool => (server.tls, |_, run| run.server.tls = Some(ServerTls::default())),

    /// Address and port of a second listener with TLS; that of --listen is then without TLS. Port 0 takes a free one
    ///
    /// Default: TLS at the address of --listen. Example: --tls --tls-listen 127.0.0.1:8443
    #[arg(long, value_name = "ADDRESS:PORT", value_parser = values::listen, requires = "tls")]
    pub tls_listen: Option<String> => (server.tls?.listen),

    /// Certificate and its chain, in PEM format
    ///
    /// Example: --cert server.crt --key server.key
    #[arg(long, value_name = "FILE", requires_all = ["tls", "key"])]
    pub cert: Option<PathBuf> => (server.tls?.cert = "none: one is made"),

    /// Private key of the certificate, in PEM format
    ///
    /// Example: --cert server.crt --key server.key
    #[arg(long, value_name = "FILE", requires_all = ["tls", "cert"])]
    pub key: Option<PathBuf> => (server.tls?.key = "none: one is made"),

    /// Key type of the certificate that webstone makes: ecdsa (P-256) or rsa (2,048 bits)
    ///
    /// Example: --tls-key rsa
    #[arg(long, value_name = "ecdsa|rsa", requires = "tls", conflicts_with = "cert")]
    pub tls_key: Option<CertificateKey> => (server.tls?.certificate = |_| CertificateKey::default().name().to_owned()),

    /// Write the certificate that webstone makes to this file, for clients to trust
    ///
    /// Example: --tls-certificate-to server.crt, and webstone hit --cacert server.crt https://localhost:8443/
    #[arg(long, value_name = "FILE", requires = "tls", conflicts_with = "cert")]
    pub tls_certificate_to: Option<PathBuf> => (= "none"),

    /// TLS versions to support, separated by commas
    ///
    /// Example: --tls-versions 1.3
    #[arg(long, value_name = "LIST", value_delimiter = ',', requires = "tls")]
    pub tls_versions: Vec<TlsVersion> => (server.tls?.versions = "1.2,1.3"),

    /// Send session tickets, with which clients resume sessions
    ///
    /// Example: --tls-tickets off
    #[arg(long, value_name = "on|off", value_parser = values::on_off, requires = "tls")]
    pub tls_tickets: Option<bool> => (server.tls?.tickets = "on"),

    /// Keep a session cache, so that clients can resume sessions by session ID
    ///
    /// Example: --tls-session-cache on
    #[arg(long, value_name = "on|off", value_parser = values::on_off, requires = "tls")]
    pub tls_session_cache: Option<bool> => (server.tls?.session_cache = "off"),

    /// Highest HTTP version: 1.1, 2 or 3
    ///
    /// HTTP/2 is negotiated (ALPN) over TLS, and needs prior knowledge without TLS. HTTP/3 needs --tls, and is spoken at the UDP
    /// port of the same number, with the same certificate; answers over TLS name it in Alt-Svc.
    ///
    /// Example: --tls --http 3
    #[arg(long, value_name = "1.1|2|3", value_parser = values::server_http)]
    pub http: Option<u8> => (
        server.http2 & server.http3 = "1.1",
        |args, run| if let Some(version) = args.http {
            (run.server.http2, run.server.http3) = (version >= 2, version >= 3);
        }
    ),
}
}

flags! {
/// TLS and HTTP/2 of the server that `run` starts.
pub struct OwnTlsArgs {
    /// Measure over TLS: the server gets a certificate made for the run, which the clients trust
    ///
    /// With a URL, TLS is used if the URL begins with https://.
    #[arg(long = "tls")]
    pub server_tls: bool => (server.tls, |_, run| _ = run.server.tls.get_or_insert_default()),

    /// Address and port of a second listener with TLS; the server's own address is then without TLS. Port 0 takes a free one
    ///
    /// Default: a free port where the workload requests some pages over TLS and others without it; otherwise the server's own
    /// address. Example: --server-tls-listen 127.0.0.1:8443
    #[arg(long, value_name = "ADDRESS:PORT", value_parser = values::listen)]
    pub server_tls_listen: Option<String> => (server.tls?.listen),

    /// Key type of the certificate that webstone makes: ecdsa (P-256) or rsa (2,048 bits)
    ///
    /// Example: --tls --server-tls-key rsa
    #[arg(long, value_name = "ecdsa|rsa", conflicts_with = "server_tls_cert")]
    pub server_tls_key: Option<CertificateKey> => (server.tls?.certificate = |_| CertificateKey::default().name().to_owned()),

    /// Certificate and private key of the server in PEM format, instead of ones made for the run
    ///
    /// Example: --tls --server-tls-cert server.crt,server.key
    #[arg(long, value_name = "CERT,KEY", value_parser = values::certificate_and_key)]
    pub server_tls_cert: Option<(String, String)> => (
        server.tls.cert & server.tls.key = "none: one is made for the run",
        |args, run| {
            let tls = run.server.tls.get_or_insert_default();
            (tls.cert, tls.key) = args.server_tls_cert.clone().unzip();
        }
    ),

    /// TLS versions that the server supports, separated by commas
    ///
    /// Example: --tls --server-tls-versions 1.3
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    pub server_tls_versions: Vec<TlsVersion> => (server.tls?.versions = "1.2,1.3"),

    /// Send session tickets, with which clients resume sessions
    ///
    /// Example: --tls --server-tls-tickets off
    #[arg(long, value_name = "on|off", value_parser = values::on_off)]
    pub server_tls_tickets: Option<bool> => (
        server.tls?.tickets = "what the profile says; on for the reference server"
    ),

    /// Keep a session cache in the server, so that clients can resume sessions by session ID
    ///
    /// Example: --tls --server-tls-session-cache on
    #[arg(long, value_name = "on|off", value_parser = values::on_off)]
    pub server_tls_session_cache: Option<bool> => (
        server.tls?.session_cache = "what the profile says; off for the reference server"
    ),

    /// Let the server speak HTTP/2, too: negotiated (ALPN) over TLS, with prior knowledge without TLS; implied by --http 2
    #[arg(long)]
    pub server_http2: bool => (server.http2),

    /// Let the server speak HTTP/3, too, at the UDP port of the same number; needs --tls
    #[arg(long)]
    pub server_http3: bool => (server.http3),
}
}

flags! {
/// The server that `run` starts.
#[command(next_help_heading = "Server under test, where webstone starts it")]
pub struct OwnServerArgs {
    /// The server to start and measure, with its profile: stock, as Debian ships it, or tuned
    ///
    /// `webstone servers` lists them, with their versions where they are installed. Each runs in a directory of its own,
    /// as an unprivileged user where possible, and is stopped with everything it started, however the run ends.
    ///
    /// Example: --server nginx, or --server apache-prefork:tuned
    #[arg(long, value_name = "SERVER[:PROFILE]")]
    pub server: Option<ServerChoice> => (
        server.software,
        |args, run| if let Some(choice) = args.server {
            (run.server.software, run.server.profile) = (choice.software, choice.profile);
        }
    ),

    /// Path of the server's program
    ///
    /// Example: --server-program /opt/nginx/sbin/nginx
    #[arg(long, value_name = "PATH")]
    pub server_program: Option<PathBuf> => (server.program = "found by its name"),

    /// Command line for --server command; {port}, {address}, {root}, {directory}, {threads}, {cert} and {key} are filled in
    ///
    /// Split into words as a shell would; no shell is started.
    ///
    /// Example: --server-command 'busybox httpd -f -p {address}:{port} -h {root}'
    #[arg(long, value_name = "COMMAND")]
    pub server_command: Option<String> => (server.command = "none"),

    /// URL of the server behind a proxy; without it, a reference server is started
    ///
    /// Example: --server-origin http://192.0.2.7:8080
    #[arg(long, value_name = "URL")]
    pub server_origin: Option<String> => (server.origin = "a reference server"),

    /// CPUs of the origin that webstone starts behind a proxy
    ///
    /// Default: CPUs of its own if there are enough, otherwise the proxy's. Example: --server-origin-cpus 1
    #[arg(long, value_name = "LIST", value_parser = values::cpu_list)]
    pub server_origin_cpus: Option<String> => (server.origin_cpus),

    /// Address and port of the server; port 0 means a free one
    ///
    /// Example: --server-listen 127.0.0.1:8080
    #[arg(long, value_name = "ADDRESS:PORT", value_parser = values::listen)]
    pub server_listen: Option<String> => (server.listen),

    /// Number of threads (reference server, HAProxy), worker processes (nginx, lighttpd), request workers (Apache) or CPUs
    /// (Caddy); 0 means one per CPU that it may run on, or what the profile says
    ///
    /// Example: --server-threads 1
    #[arg(long, value_name = "N", visible_alias = "server-workers", value_parser = values::number_u32)]
    pub server_threads: Option<u32> => (server.threads),

    /// Number of processes of Apache's event MPM; 0 means what the profile says
    ///
    /// Example: --server-processes 4
    #[arg(long, value_name = "N", value_parser = values::number_u32)]
    pub server_processes: Option<u32> => (server.processes),

    /// CPUs that the server is pinned to
    ///
    /// Example: --server-cpus 0
    #[arg(long, value_name = "LIST", value_parser = values::cpu_list)]
    pub server_cpus: Option<String> => (server.cpus = "chosen by webstone"),

    /// Serve the files below this directory instead of the workload's
    ///
    /// Example: --server-root ./files
    #[arg(long, value_name = "DIR")]
    pub server_root: Option<PathBuf> => (server.root = "none"),

    /// Cache files, or answers in a proxy, even if the profile does not: nginx's open_file_cache, Apache's MMapFile,
    /// proxy_cache and so on
    #[arg(long, conflicts_with = "server_no_cache")]
    pub server_cache: bool => (server.cache, |_, run| run.server.cache = Some(true)),

    /// Cache nothing: the server opens or reads files for every request
    #[arg(long, visible_alias = "no-cache")]
    pub server_no_cache: bool => (server.cache, |_, run| run.server.cache = Some(false)),

    /// Close every connection after its first response
    #[arg(long)]
    pub server_no_keep_alive: bool => (server.keep_alive, |_, run| run.server.keep_alive = false),

    /// Access log: on (in the server's temporary directory), off, or a file to keep
    ///
    /// The reference server has no such directory: give a file, or off.
    ///
    /// Example: --server-log off, or --server-log access.log
    #[arg(long, value_name = "on|off|FILE")]
    pub server_log: Option<PathBuf> => (server.access_log = "what the profile says; off for the reference server"),

    /// Log clients' host names instead of their addresses
    #[arg(long)]
    pub server_resolve_names: bool => (server.resolve_names),

    /// With names: a DNS server of webstone's answers after this time, instead of the system's resolver
    ///
    /// The hosts file knows this host at once, so that look-ups seem to cost nothing. Only of the reference server.
    ///
    /// Example: --server-dns-delay 20ms
    #[arg(long, value_name = "TIME")]
    pub server_dns_delay: Option<Nanos> => (server.dns_delay = "none"),

    /// What answers /send: native, cgi, fastcgi, php-fpm and so on; `webstone servers` lists which server has which
    ///
    /// webstone starts, builds and stops what it needs (processes, modules, sources) with the server. `docs/interfaces.md`
    /// describes each.
    ///
    /// Example: --server nginx --server-interface fastcgi
    #[arg(long, value_name = "NAME")]
    pub server_interface: Option<Interface> => (server.interface = "none; native for the reference server"),

    /// Number of processes of the handler; 0 means what the profile says
    ///
    /// Example: --server-handlers 8
    #[arg(long, value_name = "N", value_parser = values::number_u32)]
    pub server_handlers: Option<u32> => (server.handlers),

    /// Length of the server's listen queue, in connections
    ///
    /// Example: --server-backlog 128
    #[arg(long, value_name = "N", value_parser = values::count_u32)]
    pub server_backlog: Option<u32> => (
        server.backlog = |run| {
            format!("what the profile says; {} for the reference server", run.server.reference_backlog())
        }
    ),

    /// TLS and HTTP/2.
    #[command(flatten)]
    pub tls: OwnTlsArgs => (..),
}
}

flags! {
/// The path to the server that webstone starts.
#[command(next_help_heading = "Server under test, where webstone starts it")]
pub struct PathArgs {
    /// Path between clients and server: its round-trip time, and each way jitter, the share of packets that is lost, a rate
    ///
    /// A relay of webstone's on this host carries the IP packets of TCP and UDP between two network namespaces, delays each by half of
    /// the RTT and up to the jitter, and loses some, drawn by --seed. Its own lateness, CPU time and packets are in the report. Linux, as
    /// root. See `docs/path.md`.
    ///
    /// Example: --path rtt=20ms,loss=1%, or --path rtt=50ms,jitter=5ms,rate=10m
    #[arg(long, value_name = "PATH")]
    pub path: Option<PathSpec> => (server.path = "none: this host's loopback"),
}
}

flags! {
/// A server on another host.
#[command(next_help_heading = "Server under test, elsewhere")]
pub struct ServerElsewhereArgs {
    /// Command that runs `webstone agent` on the server's host, to measure the server and its host; repeat it for each host
    ///
    /// Several, up to 64, watch the hosts of one server behind a load balancer: its figures are then those of all hosts together, and
    /// reports show each. `webstone agent --port` names the server's port on a host where it is not the target's. Split into words
    /// as a shell would; no shell is started. It must not ask for a password. The same version of webstone must be installed
    /// there. To see the server's processes, run it as root or as the server's user. See `docs/servers.md`.
    ///
    /// Example: --server-agent 'ssh root@web1 webstone agent'
    #[arg(long, value_name = "COMMAND")]
    pub server_agent: Vec<String> => (
        server.agent = "none: only the answers of a server elsewhere are measured",
        |args, run| run.server.agents.clone_from(&args.server_agent)
    ),
}
}

/// Protocol of `webstone respond`.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum RespondProtocol {
    /// One request, described by the environment.
    Cgi,
    /// FastCGI 1.0.
    Fastcgi,
    /// SCGI.
    Scgi,
    /// The protocol of uwsgi.
    Uwsgi,
    /// The persistent protocol of the reference server.
    Persistent,
}

/// `webstone respond`: the handler `send` for another server.
#[derive(Args, Debug)]
pub struct RespondArgs {
    /// The protocol
    #[arg(value_enum)]
    pub protocol: RespondProtocol,

    /// Address to listen on; with {slot} in it, each process gets an address of its own
    ///
    /// Default: standard input is a listening socket. Example: --listen unix:/run/send.socket
    #[arg(long, value_name = "ADDRESS")]
    pub listen: Option<String>,

    /// Processes, each for one request at a time
    ///
    /// Default: 1. Example: --processes 4
    #[arg(long, value_name = "N", value_parser = values::count_u32, requires = "listen")]
    pub processes: Option<u32>,

    /// End with this process
    ///
    /// Default: do not. Example: --beneath 123
    #[arg(long, value_name = "PID", conflicts_with = "listen")]
    pub beneath: Option<u32>,
}

/// `webstone supervise`: removes a directory when its user is gone.
#[derive(Args, Debug)]
pub struct SuperviseArgs {
    /// Directory to remove when standard input ends
    ///
    /// Default: none, it has to be said. Example: --remove /tmp/webstone-server-1
    #[arg(long, value_name = "DIR")]
    pub remove: PathBuf,
}
