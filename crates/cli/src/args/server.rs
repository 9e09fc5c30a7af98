//! Flags of servers: of the reference server as a command of its own, of the server that `run` starts and measures, and of
//! the commands around them.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use webstone_model::server_tls::CertificateKey;
use webstone_model::spec::{Interface, ServerChoice};
use webstone_model::tls::TlsVersion;
use webstone_model::units::Nanos;

use super::values;

/// `webstone serve`.
#[derive(Args, Debug)]
pub struct ServeArgs {
    /// Address and port to listen on; port 0 takes a free one
    ///
    /// Example: --listen 0.0.0.0:8080
    #[arg(long, value_name = "ADDRESS:PORT", value_parser = values::listen)]
    pub listen: Option<String>,

    /// Threads; 0: one for each CPU it may run on
    ///
    /// Example: --threads 2
    #[arg(long, value_name = "N", value_parser = values::number_u32)]
    pub threads: Option<u32>,

    /// CPUs to run on
    ///
    /// Example: --cpus 0-1
    #[arg(long, value_name = "LIST", value_parser = values::cpu_list)]
    pub cpus: Option<String>,

    /// Serve this workload's generated files from memory
    ///
    /// Example: --workload general-and-media
    #[arg(short, long, value_name = "NAME|FILE", conflicts_with = "root")]
    pub workload: Option<String>,

    /// Serve the files below this directory instead
    ///
    /// Example: --root /var/www/html
    #[arg(long, value_name = "DIR")]
    pub root: Option<PathBuf>,

    /// Read files from disk for every request
    #[arg(long)]
    pub no_cache: bool,

    /// End every connection after its first response
    #[arg(long)]
    pub no_keep_alive: bool,

    /// Write an access log in Common Log Format
    ///
    /// Example: --access-log access.log
    #[arg(long, value_name = "FILE")]
    pub access_log: Option<PathBuf>,

    /// Name clients in the access log instead of giving their addresses
    #[arg(long)]
    pub resolve_names: bool,

    /// Length of the listen queue, in connections
    ///
    /// Example: --backlog 128
    #[arg(long, value_name = "N", value_parser = values::count_u32)]
    pub backlog: Option<u32>,

    /// Who answers /send: native (the server itself), or a program, through cgi, fastcgi or persistent
    ///
    /// `docs/interfaces.md` describes them.
    ///
    /// Example: --interface fastcgi
    #[arg(long, value_name = "NAME", value_parser = values::interface)]
    pub interface: Option<Interface>,

    /// The program behind cgi, fastcgi or persistent, and its arguments; without it, webstone's own handler
    ///
    /// Split into words as a shell would; no shell is started.
    ///
    /// Example: --interface cgi --handler /usr/lib/cgi-bin/hello
    #[arg(long, value_name = "COMMAND", requires = "interface")]
    pub handler: Option<String>,

    /// Requests that the handler serves at once, and so its processes; 0: two for each thread of the server
    ///
    /// Example: --handlers 8
    #[arg(long, value_name = "N", value_parser = values::number_u32)]
    pub handlers: Option<u32>,

    /// How long the handler may be silent before it is killed
    ///
    /// Example: --handler-timeout 5s
    #[arg(long, value_name = "TIME")]
    pub handler_timeout: Option<Nanos>,

    /// Longest answer of the handler, in bytes
    ///
    /// Example: --handler-output-max 1g
    #[arg(long, value_name = "BYTES", value_parser = values::count)]
    pub handler_output_max: Option<u64>,

    /// TLS and HTTP/2.
    #[command(flatten)]
    pub tls: ServeTlsArgs,

    /// Also answer /test, /schedule, /echo, /.webstone/refuse and /.webstone/fault, with which any client can stall, break and close
    /// the server
    ///
    /// For tests of clients, where nobody else reaches the server.
    #[arg(long)]
    pub test_handlers: bool,

    /// End when standard input is closed, so that the server never outlives the program that started it
    #[arg(long)]
    pub until_stdin_closes: bool,
}

/// TLS and HTTP/2 of `webstone serve`.
#[derive(Args, Debug)]
pub struct ServeTlsArgs {
    /// Speak TLS, with a certificate made at start unless --cert names one
    #[arg(long)]
    pub tls: bool,

    /// The certificate, and those above it, as PEM
    ///
    /// Example: --cert server.crt --key server.key
    #[arg(long, value_name = "FILE", requires_all = ["tls", "key"])]
    pub cert: Option<PathBuf>,

    /// The certificate's private key, as PEM
    ///
    /// Example: --cert server.crt --key server.key
    #[arg(long, value_name = "FILE", requires_all = ["tls", "cert"])]
    pub key: Option<PathBuf>,

    /// Key of the certificate that is made: ecdsa (P-256) or rsa (2,048 bits)
    ///
    /// Example: --tls-key rsa
    #[arg(long, value_name = "ecdsa|rsa", value_parser = values::certificate_key, requires = "tls", conflicts_with = "cert")]
    pub tls_key: Option<CertificateKey>,

    /// File that receives the certificate that is made, for clients to trust
    ///
    /// Example: --tls-certificate-to server.crt, and webstone hit --cacert server.crt https://localhost:8443/
    #[arg(long, value_name = "FILE", requires = "tls", conflicts_with = "cert")]
    pub tls_certificate_to: Option<PathBuf>,

    /// Versions of TLS, separated by commas
    ///
    /// Example: --tls-versions 1.3
    #[arg(long, value_name = "LIST", value_delimiter = ',', requires = "tls")]
    pub tls_versions: Vec<TlsVersion>,

    /// Session tickets, by which clients resume sessions
    ///
    /// Example: --tls-tickets off
    #[arg(long, value_name = "on|off", value_parser = values::on_off, requires = "tls")]
    pub tls_tickets: Option<bool>,

    /// Keep sessions, to be resumed by their identifiers
    ///
    /// Example: --tls-session-cache on
    #[arg(long, value_name = "on|off", value_parser = values::on_off, requires = "tls")]
    pub tls_session_cache: Option<bool>,

    /// Highest version of HTTP: 1.1, or 2, by negotiation (ALPN) over TLS and with prior knowledge in the clear
    ///
    /// Example: --http 2
    #[arg(long, value_name = "1.1|2", value_parser = values::server_http)]
    pub http: Option<bool>,
}

/// TLS and HTTP/2 of the server that `run` starts.
#[derive(Args, Debug)]
pub struct OwnTlsArgs {
    /// Measure over TLS: the server gets a certificate made for the run, which clients trust
    ///
    /// Where a URL names the server, its scheme says whether TLS is spoken: https.
    #[arg(long = "tls")]
    pub server_tls: bool,

    /// Key of the certificate that is made: ecdsa (P-256) or rsa (2,048 bits)
    ///
    /// Example: --tls --server-tls-key rsa
    #[arg(long, value_name = "ecdsa|rsa", value_parser = values::certificate_key, conflicts_with = "server_tls_cert")]
    pub server_tls_key: Option<CertificateKey>,

    /// The server's certificate as PEM, with its private key behind a comma, instead of one that is made
    ///
    /// Example: --tls --server-tls-cert server.crt,server.key
    #[arg(long, value_name = "CERT,KEY", value_parser = values::certificate_and_key)]
    pub server_tls_cert: Option<(String, String)>,

    /// Versions of TLS that the server speaks, separated by commas
    ///
    /// Example: --tls --server-tls-versions 1.3
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    pub server_tls_versions: Vec<TlsVersion>,

    /// Session tickets, by which clients resume sessions
    ///
    /// Example: --tls --server-tls-tickets off
    #[arg(long, value_name = "on|off", value_parser = values::on_off)]
    pub server_tls_tickets: Option<bool>,

    /// Keep sessions in the server, to be resumed by their identifiers
    ///
    /// Example: --tls --server-tls-session-cache on
    #[arg(long, value_name = "on|off", value_parser = values::on_off)]
    pub server_tls_session_cache: Option<bool>,

    /// Let the server speak HTTP/2 too: by negotiation (ALPN) over TLS, with prior knowledge in the clear
    #[arg(long)]
    pub server_http2: bool,
}

/// The server that `run` starts.
#[derive(Args, Debug)]
#[command(next_help_heading = "Server under test, where webstone starts it")]
pub struct OwnServerArgs {
    /// The server to start and measure, with its profile: stock, as Debian ships it, or tuned
    ///
    /// `webstone servers` lists them, with their versions where they are installed. Each runs in a directory of its own,
    /// as an unprivileged user where possible, and is stopped with everything it started, however the run ends.
    ///
    /// Example: --server nginx, or --server apache-prefork:tuned
    #[arg(long, value_name = "SERVER[:PROFILE]", value_parser = values::server)]
    pub server: Option<ServerChoice>,

    /// Path of the server's program
    ///
    /// Example: --server-program /opt/nginx/sbin/nginx
    #[arg(long, value_name = "PATH")]
    pub server_program: Option<PathBuf>,

    /// The command line of --server command, with {port}, {address}, {root}, {directory} and {threads} where they belong
    ///
    /// Split into words as a shell would; no shell is started.
    ///
    /// Example: --server-command 'busybox httpd -f -p {address}:{port} -h {root}'
    #[arg(long, value_name = "COMMAND")]
    pub server_command: Option<String>,

    /// Of a proxy: the server behind it; without it, a reference server is started for the run
    ///
    /// Example: --server-origin http://192.0.2.7:8080
    #[arg(long, value_name = "URL")]
    pub server_origin: Option<String>,

    /// CPUs of the origin that is started for a proxy
    ///
    /// Default: some of its own where there are enough, otherwise the proxy's. Example: --server-origin-cpus 1
    #[arg(long, value_name = "LIST", value_parser = values::cpu_list)]
    pub server_origin_cpus: Option<String>,

    /// Address and port of the server; port 0 takes a free one
    ///
    /// Example: --server-listen 127.0.0.1:8080
    #[arg(long, value_name = "ADDRESS:PORT", value_parser = values::listen)]
    pub server_listen: Option<String>,

    /// Degree of parallelism: threads of the reference server and HAProxy, worker processes of nginx and lighttpd, request
    /// workers of Apache, CPUs of Caddy; 0: one for each CPU it may run on, or what the profile says
    ///
    /// Example: --server-threads 1
    #[arg(long, value_name = "N", visible_alias = "server-workers", value_parser = values::number_u32)]
    pub server_threads: Option<u32>,

    /// Apache's event MPM: number of processes for its threads; 0: what the profile says
    ///
    /// Example: --server-processes 4
    #[arg(long, value_name = "N", value_parser = values::number_u32)]
    pub server_processes: Option<u32>,

    /// CPUs that it is pinned to
    ///
    /// Example: --server-cpus 0
    #[arg(long, value_name = "LIST", value_parser = values::cpu_list)]
    pub server_cpus: Option<String>,

    /// Serve the files below this directory instead of the workload's
    ///
    /// Example: --server-root ./files
    #[arg(long, value_name = "DIR")]
    pub server_root: Option<PathBuf>,

    /// Cache files (a proxy: answers) where the profile does not: open_file_cache of nginx, MMapFile of Apache,
    /// proxy_cache, and so on
    #[arg(long, conflicts_with = "server_no_cache")]
    pub server_cache: bool,

    /// Cache nothing: files are read, or opened, for every request
    #[arg(long, visible_alias = "no-cache")]
    pub server_no_cache: bool,

    /// End every connection after its first response
    #[arg(long)]
    pub server_no_keep_alive: bool,

    /// The access log: on (in the server's directory, gone with it), off, or a file to keep
    ///
    /// The reference server has no directory: it takes a file, or off.
    ///
    /// Example: --server-log off, or --server-log access.log
    #[arg(long, value_name = "on|off|FILE")]
    pub server_log: Option<PathBuf>,

    /// Name clients in the access log instead of giving their addresses
    #[arg(long)]
    pub server_resolve_names: bool,

    /// What answers /send: native, cgi, fastcgi, php-fpm and so on; `webstone servers` lists which server has which
    ///
    /// What it needs (processes, modules, sources) is started, built and ended with the server. `docs/interfaces.md`
    /// describes each.
    ///
    /// Example: --server nginx --server-interface fastcgi
    #[arg(long, value_name = "NAME", value_parser = values::interface)]
    pub server_interface: Option<Interface>,

    /// Processes of the handler; 0: what the profile says
    ///
    /// Example: --server-handlers 8
    #[arg(long, value_name = "N", value_parser = values::number_u32)]
    pub server_handlers: Option<u32>,

    /// Length of its listen queue, in connections
    ///
    /// Example: --server-backlog 128
    #[arg(long, value_name = "N", value_parser = values::count_u32)]
    pub server_backlog: Option<u32>,

    /// TLS and HTTP/2.
    #[command(flatten)]
    pub tls: OwnTlsArgs,
}

/// A server on another host.
#[derive(Args, Debug)]
#[command(next_help_heading = "Server under test, elsewhere")]
pub struct ServerElsewhereArgs {
    /// The command that runs `webstone agent` on the server's host: what the server and its host do is measured through it
    ///
    /// Split into words as a shell would; no shell is started. It must ask for no password. The same version of webstone has to
    /// be installed there; as root, or as the server's user, it sees the server's processes. `docs/servers.md` has more.
    ///
    /// Example: --server-agent 'ssh root@web1 webstone agent'
    #[arg(long, value_name = "COMMAND")]
    pub server_agent: Option<String>,
}

/// What `webstone respond` speaks.
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
    /// What is spoken
    #[arg(value_enum)]
    pub protocol: RespondProtocol,

    /// Where to listen; {slot} in it gives each process an address of its own
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

/// `webstone supervise`: what removes a directory when its user is gone.
#[derive(Args, Debug)]
pub struct SuperviseArgs {
    /// Directory to remove when standard input ends
    ///
    /// Default: none, it has to be said. Example: --remove /tmp/webstone-server-1
    #[arg(long, value_name = "DIR")]
    pub remove: PathBuf,
}
