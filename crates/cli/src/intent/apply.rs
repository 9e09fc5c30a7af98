//! Lays typed flags over a specification: only what was typed changes anything.

use std::path::Path;

use webstone_measure::units::Nanos;
use webstone_model::generators::GeneratorHost;
use webstone_model::server_tls::ServerTls;
use webstone_model::spec::{ClientSpec, ConnectionPolicy, GeneratorSpec, LoadSpec, RunSpec, ServerSpec};
use webstone_workload::tls::TlsSpec;

use super::body;
use crate::args::{
    ClientArgs, GeneratorArgs, HitLoadArgs, OwnServerArgs, OwnTlsArgs, RunLoadArgs, ServeArgs,
    ServerElsewhereArgs, TlsArgs,
};
use crate::failure::Failure;

pub(super) fn load(args: &RunLoadArgs, spec: &mut LoadSpec) {
    set(&args.clients, &mut spec.clients);
    set(&args.duration, &mut spec.duration);
    set(&args.iterations, &mut spec.iterations);
    set(&args.warmup, &mut spec.warmup);
    set(&args.drain, &mut spec.drain);
    set(&args.order, &mut spec.order);
    set(&args.retry.retries, &mut spec.retries);
    spec.aa |= args.aa;
    spec.repetitions = args.repetitions.or(spec.repetitions);
    if args.pages.is_some() {
        spec.pages = args.pages;
    }
    spec.rate = args.rate.clone().or(spec.rate.take());
    set(&args.open_loop.arrivals, &mut spec.arrivals);
    set(&args.open_loop.when_busy, &mut spec.when_busy);
}

pub(super) fn hit_load(args: &HitLoadArgs, spec: &mut LoadSpec) {
    set(&args.clients, &mut spec.clients);
    set(&args.duration, &mut spec.duration);
    set(&args.iterations, &mut spec.iterations);
    set(&args.warmup, &mut spec.warmup);
    set(&args.retry.retries, &mut spec.retries);
    spec.repetitions = args.repetitions;
    if args.requests.is_some() {
        spec.pages = args.requests;
        if args.duration.is_none() {
            spec.duration = Nanos::ZERO;
        }
    }
    spec.rate = args.rate.clone();
    set(&args.open_loop.arrivals, &mut spec.arrivals);
    set(&args.open_loop.when_busy, &mut spec.when_busy);
}

pub(super) fn client(args: &ClientArgs, spec: &mut ClientSpec) -> Result<(), Failure> {
    set(&args.connections, &mut spec.connections);
    if args.keep_alive {
        spec.connections = ConnectionPolicy::KeepAlive;
    }
    if args.requests_per_connection.is_some() {
        spec.requests_per_connection = args.requests_per_connection;
    }
    set(&args.parallel, &mut spec.parallel);
    set(&args.http, &mut spec.http);
    if args.streams.is_some() {
        spec.streams = args.streams;
    }
    set(&args.http2_settings, &mut spec.http2_settings);
    set(&args.clients_per_connection, &mut spec.clients_per_connection);
    if let Some(text) = &args.body {
        spec.body = Some(body::read(text)?);
        // As curl does: who sends a body wants to post it, unless a method was named.
        if args.method.is_none() && spec.method == ClientSpec::default().method {
            spec.method = "POST".to_owned();
        }
    }
    set(&args.method, &mut spec.method);
    for (name, value) in &args.headers {
        spec.headers.retain(|known, _| !known.eq_ignore_ascii_case(name));
        spec.headers.insert(name.clone(), value.clone());
    }
    set(&args.seed, &mut spec.seed);
    set(&args.resolve, &mut spec.resolve);
    if let Some(path) = &args.unix_socket {
        spec.unix_socket = Some(text(path));
    }
    if !args.source.is_empty() {
        spec.source.clone_from(&args.source);
    }
    if args.proxy.is_some() {
        spec.proxy.clone_from(&args.proxy);
    }
    if !args.allow_hosts.is_empty() {
        spec.allow_hosts.clone_from(&args.allow_hosts);
    }
    spec.allow_feeds |= args.allow_feeds;
    set(&args.connect_timeout, &mut spec.connect_timeout);
    set(&args.first_byte_timeout, &mut spec.first_byte_timeout);
    set(&args.request_timeout, &mut spec.request_timeout);
    set(&args.check, &mut spec.check);
    spec.reset |= args.reset;
    tls(&args.tls, &mut spec.tls);
    Ok(())
}

pub(super) fn tls(args: &TlsArgs, spec: &mut TlsSpec) {
    fn list<T: Clone>(typed: &[T], field: &mut Vec<T>) {
        if !typed.is_empty() {
            *field = typed.to_vec();
        }
    }
    spec.verify &= !args.insecure;
    list(&args.tls_version, &mut spec.versions);
    list(&args.tls_ciphers, &mut spec.ciphers);
    list(&args.tls_groups, &mut spec.groups);
    list(&args.alpn, &mut spec.alpn);
    // Whose suites were typed means the versions that they are of.
    if !args.tls_ciphers.is_empty() && args.tls_version.is_empty() {
        spec.versions.retain(|version| spec.ciphers.iter().any(|cipher| cipher.version() == *version));
    }
    for (path, field) in [
        (&args.cacert, &mut spec.cacert),
        (&args.cert, &mut spec.cert),
        (&args.key, &mut spec.key),
        (&args.tls_key_log, &mut spec.key_log),
    ] {
        if let Some(path) = path {
            *field = Some(text(path));
        }
    }
    if spec.key_log.is_none() {
        // As browsers and curl heed it.
        spec.key_log = std::env::var("SSLKEYLOGFILE").ok().filter(|path| !path.is_empty());
    }
    spec.pin = args.tls_pin.clone().or(spec.pin.take());
    spec.sni = args.sni.clone().or(spec.sni.take());
    set(&args.tls_resume, &mut spec.resume);
    spec.early_data |= args.early_data;
}

/// Hosts on the command line are instead of those in a file.
pub(super) fn hosts(commands: &[String], hosts: &mut Vec<GeneratorHost>) {
    if !commands.is_empty() {
        *hosts = commands.iter().map(GeneratorHost::reached_by).collect();
    }
}

pub(super) fn generators(args: &GeneratorArgs, spec: &mut RunSpec) {
    hosts(&args.generator, &mut spec.generators);
    generator(args, &mut spec.generator);
}

fn generator(args: &GeneratorArgs, spec: &mut GeneratorSpec) {
    set(&args.workers, &mut spec.workers);
    set(&args.cpus, &mut spec.cpus);
    if args.no_pin {
        spec.pin = false;
        spec.cpus.clear();
    }
    spec.spin |= args.spin;
    set(&args.page_histograms, &mut spec.page_histograms);
    set(&args.trace, &mut spec.trace);
    if let Some(path) = &args.record_all {
        spec.record_all = Some(text(path));
    }
}

pub(super) fn own_server(args: &OwnServerArgs, spec: &mut ServerSpec) {
    if let Some(choice) = args.server {
        (spec.software, spec.profile) = (choice.software, choice.profile);
    }
    if let Some(path) = &args.server_program {
        spec.program = Some(text(path));
    }
    spec.command = args.server_command.clone().or(spec.command.take());
    spec.origin = args.server_origin.clone().or(spec.origin.take());
    set(&args.server_origin_cpus, &mut spec.origin_cpus);
    set(&args.server_processes, &mut spec.processes);
    set(&args.server_listen, &mut spec.listen);
    set(&args.server_threads, &mut spec.threads);
    set(&args.server_cpus, &mut spec.cpus);
    spec.backlog = args.server_backlog.or(spec.backlog);
    spec.interface = args.server_interface.or(spec.interface);
    set(&args.server_handlers, &mut spec.handlers);
    if let Some(path) = &args.server_root {
        spec.root = Some(text(path));
    }
    if let Some(path) = &args.server_log {
        spec.access_log = Some(text(path));
    }
    if args.server_cache || args.server_no_cache {
        spec.cache = Some(args.server_cache);
    }
    spec.keep_alive &= !args.server_no_keep_alive;
    spec.resolve_names |= args.server_resolve_names;
    own_tls(&args.tls, spec);
}

fn own_tls(args: &OwnTlsArgs, spec: &mut ServerSpec) {
    spec.http2 |= args.server_http2;
    if !given_tls(args) {
        return;
    }
    let tls = spec.tls.get_or_insert_default();
    tls.listen = args.server_tls_listen.clone().or(tls.listen.take());
    set(&args.server_tls_key, &mut tls.certificate);
    if let Some((cert, key)) = &args.server_tls_cert {
        (tls.cert, tls.key) = (Some(cert.clone()), Some(key.clone()));
    }
    if !args.server_tls_versions.is_empty() {
        tls.versions.clone_from(&args.server_tls_versions);
    }
    tls.tickets = args.server_tls_tickets.or(tls.tickets);
    tls.session_cache = args.server_tls_session_cache.or(tls.session_cache);
}

/// Whether anything of the server's TLS was typed, which says that it is spoken.
pub(super) fn given_tls(args: &OwnTlsArgs) -> bool {
    args.server_tls
        || args.server_tls_listen.is_some()
        || args.server_tls_key.is_some()
        || args.server_tls_cert.is_some()
        || !args.server_tls_versions.is_empty()
        || args.server_tls_tickets.is_some()
        || args.server_tls_session_cache.is_some()
}

pub(super) fn elsewhere(args: &ServerElsewhereArgs, spec: &mut ServerSpec) {
    if !args.server_agent.is_empty() {
        spec.agents.clone_from(&args.server_agent);
    }
}

pub(super) fn server_alone(args: &ServeArgs, spec: &mut ServerSpec) {
    set(&args.listen, &mut spec.listen);
    set(&args.threads, &mut spec.threads);
    set(&args.cpus, &mut spec.cpus);
    spec.backlog = args.backlog.or(spec.backlog);
    spec.interface = args.interface.or(spec.interface);
    set(&args.handlers, &mut spec.handlers);
    if let Some(path) = &args.root {
        spec.root = Some(text(path));
    }
    if let Some(path) = &args.access_log {
        spec.access_log = Some(text(path));
    }
    if args.no_cache {
        spec.cache = Some(false);
    }
    spec.keep_alive &= !args.no_keep_alive;
    spec.resolve_names |= args.resolve_names;
    let args = &args.tls;
    set(&args.http, &mut spec.http2);
    if args.tls {
        spec.tls = Some(ServerTls {
            listen: args.tls_listen.clone(),
            certificate: args.tls_key.unwrap_or_default(),
            cert: args.cert.as_deref().map(text),
            key: args.key.as_deref().map(text),
            versions: match args.tls_versions.is_empty() {
                true => ServerTls::default().versions,
                false => args.tls_versions.clone(),
            },
            tickets: args.tls_tickets,
            session_cache: args.tls_session_cache,
        });
    }
}

fn set<T: Clone>(typed: &Option<T>, field: &mut T) {
    if let Some(value) = typed {
        field.clone_from(value);
    }
}

/// A path as the specification keeps it. It is a text file, so a path that is not UTF-8 cannot stand in it exactly.
fn text(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}
