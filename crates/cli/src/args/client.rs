//! Flags of the simulated clients: connections, requests, addresses, time limits, checks.

use std::path::PathBuf;

use webstone_measure::units::{Bandwidth, Nanos};
use webstone_model::spec::{Check, ClientSpec, ConnectionPolicy, HttpVersion, QuicVersion, Resolve, RunSpec};
use webstone_workload::addresses::{AddressRange, PortRange};
use webstone_workload::codings::Codings;
use webstone_workload::http2_settings::Http2Settings;
use webstone_workload::route::{ConnectTo, ProxyProtocol};
use webstone_workload::{Base64, Statuses};

use super::table::flags;
use super::{TlsArgs, values};
use crate::failure::Failure;
use crate::intent::{body, form};

flags! {
/// How each client behaves.
#[command(next_help_heading = "Clients")]
pub struct ClientArgs {
    /// When a client's connections end
    ///
    /// WebStone's run rules require per-request.
    ///
    /// Example: --connections per-request
    #[arg(long, value_name = "POLICY", value_parser = values::connection_policy())]
    pub connections: Option<ConnectionPolicy> => (client.connections),

    /// Short for --connections keep-alive
    #[arg(short = 'K', long, conflicts_with = "connections")]
    pub keep_alive: bool => (client.connections, |_, run| run.client.connections = ConnectionPolicy::KeepAlive),

    /// With keep-alive: requests per connection, after which the client closes it
    ///
    /// Example: --requests-per-connection 100
    #[arg(long, value_name = "N", value_parser = values::count_u32)]
    pub requests_per_connection: Option<u32> => (client.requests_per_connection = "no limit"),

    /// Parallel requests for the files of a page, after its first; WebStone has 1, browsers have 6
    ///
    /// Example: --parallel 6
    #[arg(long, value_name = "N", value_parser = values::count_u32)]
    pub parallel: Option<u32> => (client.parallel),

    /// HTTP version
    ///
    /// HTTP/2 is negotiated for https:// URLs (ALPN), and used with prior knowledge for http:// URLs. The files
    /// that --parallel requests at a time are then streams of one connection. HTTP/3 goes over QUIC, to https:// URLs
    /// alone. With auto, the check before the load asks by ALPN, follows Alt-Svc once, and the whole run has the version found.
    ///
    /// Example: --http 2
    #[arg(long, value_name = "VERSION", value_parser = values::http_version())]
    pub http: Option<HttpVersion> => (client.http),

    /// HTTP/2, HTTP/3: maximum number of concurrent streams per connection; other requests wait
    ///
    /// The server's own limit applies, too.
    ///
    /// Example: --streams 32
    #[arg(long, value_name = "N", value_parser = values::count_u32)]
    pub streams: Option<u32> => (client.streams = "no limit of its own"),

    /// HTTP/2: SETTINGS of the clients and window of their connections: chrome, firefox, or values in bytes
    ///
    /// Values are header-table, window (of each stream), frame, header-list and connection-window. Those not given
    /// are not sent, or have their defaults: windows so large that no answer waits for them. Browsers' windows delay
    /// large answers over long distances.
    ///
    /// Example: --http2-settings chrome, or --http2-settings window=65535,connection-window=65535
    #[arg(long, value_name = "BROWSER|VALUES")]
    pub http2_settings: Option<Http2Settings> => (client.http2_settings),

    /// HTTP/3: version of QUIC, 1 (RFC 9000) or 2 (RFC 9369); it is not negotiated
    ///
    /// Example: --quic-version 2
    #[arg(long, value_name = "1|2", value_parser = values::quic_version())]
    pub quic_version: Option<QuicVersion> => (client.quic_version),

    /// HTTP/2 or HTTP/3 with keep-alive: clients that share each connection
    ///
    /// h2load's -c 8 -m 10 is -c 80 -K --clients-per-connection 10.
    ///
    /// Example: --clients-per-connection 10
    #[arg(long, value_name = "N", value_parser = values::count_u32)]
    pub clients_per_connection: Option<u32> => (client.clients_per_connection),

    /// HTTP/1.1 with keep-alive: requests in progress on a connection, without waiting for answers (pipelining)
    ///
    /// N clients share each connection, and each of them waits for its own answer: wrk's -c 16 with a script that sends 8 at a time is
    /// -c 128 --pipeline 8. Answers come in order, so that a slow one delays those after it. Browsers do not do this.
    ///
    /// Example: --pipeline 8
    #[arg(long, value_name = "N", value_parser = values::count_u32)]
    pub pipeline: Option<u32> => (client.pipeline = "1"),

    /// HTTP method; with --body the default is POST
    ///
    /// Example: -m HEAD
    #[arg(short, long, value_name = "METHOD")]
    pub method: Option<String> => (client.method),

    /// Header field added to every request; may be given several times
    ///
    /// Several fields of one name are all sent. They replace those of that name in the testbed file. With 'Transfer-Encoding:
    /// chunked' the body is sent in chunks; a Content-Length other than the body's is refused.
    ///
    /// Example: -H 'Accept-Encoding: gzip'
    #[arg(short = 'H', long = "header", value_name = "NAME: VALUE", value_parser = values::header)]
    pub headers: Vec<(String, String)> => (
        client.headers = "none",
        |args, run| {
            args.headers.iter().for_each(|(name, _)| run.client.headers.remove(name));
            args.headers.iter().for_each(|(name, value)| run.client.headers.add(name, &**value));
        }
    ),

    /// Content codings that clients accept: br, gzip, deflate, zstd, or several in order of preference
    ///
    /// Sent as Accept-Encoding. The check before the load decodes each answer that it gets, up to 4 MiB, and compares its decoded
    /// length with the workload's; the report has the bytes on the wire and decoded. Under load bodies are counted as they come, and
    /// their length is not checked.
    ///
    /// Example: --accept-encoding br,gzip,zstd
    #[arg(long, value_name = "CODINGS")]
    pub accept_encoding: Option<Codings> => (client.accept_encoding = "none"),

    /// Request body: text, or @FILE
    ///
    /// Example: --body 'a=1&b=2', or --body @order.json
    #[arg(long, value_name = "TEXT|@FILE")]
    pub body: Option<String> => (
        client.body = "none",
        |args, run| {
            (run.client.body, run.client.body_base64) = (None, None);
            match args.body.as_deref().map(body::read).transpose()? {
                Some(Ok(text)) => run.client.body = Some(text),
                Some(Err(bytes)) => run.client.body_base64 = Some(Base64(bytes)),
                None => {}
            }
            args.post(run);
        }
    ),

    /// Request body in base64, for bytes that are not text; sent as it is, without templates
    ///
    /// Example: --body-base64 AAEC/w==
    #[arg(long, value_name = "BASE64", conflicts_with = "body")]
    pub body_base64: Option<Base64> => (
        client.body_base64 = "none",
        |args, run| {
            run.client.body = None;
            run.client.body_base64.clone_from(&args.body_base64);
            args.post(run);
        }
    ),

    /// Field of a form, as curl's -F sends it; may be given several times
    ///
    /// Text, or @FILE for an upload, or <FILE for a text from a file; `;type=TYPE` and `;filename=NAME` may follow. The body
    /// (multipart/form-data) is computed once, before the load.
    ///
    /// Example: --form name=ann --form 'photo=@me.jpg;type=image/jpeg'
    #[arg(short = 'F', long, value_name = "NAME=TEXT|@FILE", conflicts_with_all = ["body", "body_base64"])]
    pub form: Vec<String> => (
        client.body_base64 = "none",
        |args, run| {
            if run.client.headers.has("Content-Type") {
                return Err(Failure::usage("--form: a header field Content-Type is given, too")
                    .hint("leave it out: a form has its own, which names what is between its parts"));
            }
            let form = form::read(&args.form)?;
            run.client.headers.add("Content-Type", form.content_type);
            run.client.body = None;
            run.client.body_base64 = Some(Base64(form.body));
            args.post(run);
        }
    ),

    /// Seed of the page sequences: the same seed gives each client the same pages on any machine
    ///
    /// Example: --seed 7
    #[arg(long, value_name = "N", value_parser = values::seed)]
    pub seed: Option<u64> => (client.seed),

    /// When host names are resolved
    ///
    /// Before the load, every address of a name is tried. Those that accept connections are used in turn, all of the first such one's
    /// family; the report names the others.
    ///
    /// Example: --resolve per-connection
    #[arg(long, value_name = "WHEN", value_parser = values::resolve())]
    pub resolve: Option<Resolve> => (client.resolve),

    /// Connect to this Unix socket instead of the URL's address
    ///
    /// Example: --unix-socket /run/nginx.sock
    #[arg(long, value_name = "PATH")]
    pub unix_socket: Option<PathBuf> => (client.unix_socket = "none"),

    /// Connect to another place than the URL's host and port, as curl does; may be given several times
    ///
    /// HOST:PORT:HOST:PORT: connections to the first go to the second. Requests and TLS still name the URL's host. An empty host or port
    /// in front stands for any, at the end for the URL's own. The first that fits counts.
    ///
    /// Example: --connect-to www.example.org:443:127.0.0.1:8443
    #[arg(long, value_name = "HOST:PORT:HOST:PORT", conflicts_with_all = ["unix_socket", "proxy"])]
    pub connect_to: Vec<ConnectTo> => (client.connect_to = "none"),

    /// Begin each connection with the PROXY protocol, as a load balancer does: for servers that expect it
    ///
    /// It names the connection's own addresses, and comes before TLS.
    ///
    /// Example: --proxy-protocol v2
    #[arg(long, value_name = "VERSION", value_parser = values::proxy_protocol())]
    pub proxy_protocol: Option<ProxyProtocol> => (client.proxy_protocol = "none"),

    /// Local addresses of connections, used in turn: single ones, ranges, networks
    ///
    /// Each pair of a local and a target address has its own ephemeral ports, some 28,000: more pairs allow more
    /// connections at a time, and more per second. All pairs are used equally.
    ///
    /// Example: --source 127.0.0.2-127.0.0.9, or --source 10.0.1.0/28,10.0.2.7
    #[arg(long, value_name = "ADDRESSES", value_delimiter = ',')]
    pub source: Vec<AddressRange> => (client.source = "the operating system's choice"),

    /// Local ports of connections, for firewalls that let only some through
    ///
    /// A connection gets a free one of them. The kernel chooses it if all are within net.ipv4.ip_local_port_range
    /// (Linux 6.3 or later). Otherwise webstone does: a port then has one connection at a time, whatever its
    /// destination, and cannot be used for a minute after a connection that this side closed. Several generators
    /// (--generator) have a part each.
    ///
    /// Example: --source-port-range 40000-50000
    #[arg(long = "source-port-range", value_name = "FIRST-LAST", conflicts_with = "unix_socket")]
    pub source_ports: Option<PortRange> => (client.source_ports = "the operating system's choice"),

    /// Send requests through this proxy, with absolute URLs
    ///
    /// Example: --proxy http://127.0.0.1:3128
    #[arg(long, value_name = "URL", conflicts_with = "unix_socket")]
    pub proxy: Option<String> => (client.proxy = "none"),

    /// Hosts besides the target that the workload may put under load
    ///
    /// A workload may name URLs of other hosts. A run sends them no request unless they are listed here: HOST stands for all its
    /// ports, HOST:PORT for one.
    ///
    /// Example: --allow-hosts images.test,127.0.0.2:8081
    #[arg(long, value_name = "HOSTS", value_delimiter = ',', value_parser = values::host)]
    pub allow_hosts: Vec<String> => (client.allow_hosts = "none"),

    /// Let feeds of the workload be files outside of its own directory
    ///
    /// Rows of a feed are sent to the server. Without this, files of feeds lie below the workload's directory, are named by relative
    /// paths and are not hidden, so that a workload from somebody else cannot name files of yours.
    #[arg(long)]
    pub allow_feeds: bool => (client.allow_feeds),

    /// Receive at most this many bits per second, each client: 14.4k and 56k are modems
    ///
    /// All connections of a client share its line, and handshakes and heads count, too. What the line has not brought
    /// yet waits at the server. k, m and g stand for thousands, millions and billions.
    ///
    /// Example: --bandwidth 14.4k
    #[arg(long, value_name = "BITS")]
    pub bandwidth: Option<Bandwidth> => (client.bandwidth = "what the network does"),

    /// Closed loop: pause of a client after each page, instead of those that the workload states
    ///
    /// Example: --think 5s
    #[arg(long, value_name = "TIME")]
    pub think: Option<Nanos> => (client.think = "the workload's, mostly none"),

    /// Maximum time to establish a connection
    ///
    /// Example: --connect-timeout 3s
    #[arg(long, value_name = "TIME")]
    pub connect_timeout: Option<Nanos> => (client.connect_timeout),

    /// Maximum time from the request to the first byte of its answer
    ///
    /// Example: --first-byte-timeout 5s
    #[arg(long, value_name = "TIME")]
    pub first_byte_timeout: Option<Nanos> => (client.first_byte_timeout),

    /// Maximum time of a request, from its start to the last byte
    ///
    /// Example: --timeout 10s
    #[arg(long = "timeout", value_name = "TIME")]
    pub request_timeout: Option<Nanos> => (client.request_timeout),

    /// What to check in each response, besides being complete and well-formed
    ///
    /// Example: --check content
    #[arg(long, value_name = "WHAT", value_parser = values::check())]
    pub check: Option<Check> => (client.check),

    /// Statuses of responses that count as a success, of requests whose file states none
    ///
    /// A status, or a class such as 3xx. A redirect that is expected here is measured as it is, with --follow, too. The length
    /// that a workload states is checked of responses with 2xx alone.
    ///
    /// Example: --expect-status 304, or --expect-status 200,304,404
    #[arg(long, value_name = "LIST")]
    pub expect_status: Option<Statuses> => (client.expect_status),

    /// Follow redirects, at most N for a file; without N, 10
    ///
    /// The check before the load finds where each file leads. The load then requests every step, in order and as part of the page,
    /// and counts each as a request of its own that must answer as it did in the check. Other ports and schemes of the target's
    /// host may follow, other hosts with --allow-hosts. As in browsers, a POST that is answered with 301, 302 or 303 becomes a
    /// GET. Cookies are not kept.
    ///
    /// Example: --follow, or --follow=3
    #[arg(
        long,
        value_name = "N",
        value_parser = values::count_u32,
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "10",
        conflicts_with_all = ["proxy", "no_check", "parallel"]
    )]
    pub follow: Option<u32> => (client.follow = "not followed"),

    /// Do not check before the load that the server answers as the workload expects
    ///
    /// The check sends each host one request, as the clients will send it, or one for each file of a small workload. Without
    /// it, responses with an unexpected status or length count as errors.
    #[arg(long)]
    pub no_check: bool,

    /// Close connections with a TCP reset after the response
    ///
    /// Avoids TIME_WAIT. Browsers do not do this, so the report discloses it.
    #[arg(long)]
    pub reset: bool => (client.reset),

    /// TLS.
    #[command(flatten)]
    pub tls: TlsArgs => (..),
}
}

impl ClientArgs {
    /// As with curl, a body is posted unless a method is given.
    fn post(&self, run: &mut RunSpec) {
        if self.method.is_none() && run.client.method == ClientSpec::default().method {
            run.client.method = "POST".to_owned();
        }
    }
}
