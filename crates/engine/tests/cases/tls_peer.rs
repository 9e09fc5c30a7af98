//! A TLS server that does what a test says, and its certificates.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, ExtendedKeyUsagePurpose, IsCa, KeyPair,
    date_time_ymd,
};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{HandshakeKind, RootCertStore, ServerConfig, ServerConnection};

/// An authority, and a server's certificate signed by it.
pub(crate) struct Identity {
    /// The authority's certificate as a file, for `cacert`.
    pub(crate) cacert: PathBuf,
    pub(crate) leaf: CertificateDer<'static>,
    key: Vec<u8>,
    root: CertificateDer<'static>,
    pub(crate) leaf_pem: String,
    pub(crate) key_pem: String,
}

impl Identity {
    /// For a name or an address, valid until the end of a year.
    pub(crate) fn for_name(name: &str, last_year: i32) -> Identity {
        let mut authority = CertificateParams::new(Vec::new()).unwrap();
        authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let unique = scratch("authority");
        authority.distinguished_name.push(rcgen::DnType::CommonName, unique.to_str().unwrap());
        let authority = CertifiedIssuer::self_signed(authority, KeyPair::generate().unwrap()).unwrap();
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(vec![name.to_owned()]).unwrap();
        params.not_after = date_time_ymd(last_year, 12, 31);
        params.extended_key_usages =
            vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
        let leaf = params.signed_by(&key, &authority).unwrap();
        let cacert = scratch("ca.pem");
        std::fs::write(&cacert, authority.pem()).unwrap();
        Identity {
            cacert,
            leaf: leaf.der().clone(),
            key: key.serialize_der(),
            root: authority.der().clone(),
            leaf_pem: leaf.pem(),
            key_pem: key.serialize_pem(),
        }
    }

    pub(crate) fn cacert(&self) -> Option<String> {
        Some(self.cacert.to_str().unwrap().to_owned())
    }

    /// The configuration of a server with this identity. `asks_for_client`: the client must show a certificate of the
    /// same authority.
    pub(crate) fn config(&self, asks_for_client: bool) -> ServerConfig {
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let builder = ServerConfig::builder_with_provider(provider.clone())
            .with_safe_default_protocol_versions()
            .unwrap();
        let builder = if asks_for_client {
            let mut roots = RootCertStore::empty();
            roots.add(self.root.clone()).unwrap();
            let verifier =
                WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider).build().unwrap();
            builder.with_client_cert_verifier(verifier)
        } else {
            builder.with_no_client_auth()
        };
        let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(self.key.clone()));
        builder.with_single_cert(vec![self.leaf.clone()], key).unwrap()
    }
}

/// A file that belongs to one test.
pub(crate) fn scratch(name: &str) -> PathBuf {
    static NUMBER: Mutex<u32> = Mutex::new(0);
    let mut number = NUMBER.lock().unwrap();
    *number += 1;
    let directory = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("tls-{}", std::process::id()));
    std::fs::create_dir_all(&directory).unwrap();
    directory.join(format!("{number}-{name}"))
}

/// What the server does, for each connection.
#[derive(Clone, Debug, Default)]
pub(crate) struct Script {
    /// Waits before it answers the client's greeting.
    pub(crate) wait: Duration,
    /// Writes these bytes instead of its handshake, and closes.
    pub(crate) instead: Option<Vec<u8>>,
    /// Writes this many bytes of its handshake, and closes.
    pub(crate) handshake_bytes: Option<usize>,
    /// The answer to each request.
    pub(crate) answer: Vec<u8>,
    /// The answer to requests that come as early data; empty: the same.
    pub(crate) early_answer: Vec<u8>,
    /// Writes these bytes unencrypted after each answer.
    pub(crate) raw: Vec<u8>,
    /// Writes these bytes with the end of its handshake.
    pub(crate) ahead: Vec<u8>,
    /// Ends the connection after each answer.
    pub(crate) ends: Option<End>,
}

/// How a connection is ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// With close_notify, as it should be.
    Notified,
    /// With close_notify; the TCP connection ends when the client closes it.
    Announced,
    /// With close_notify; the TCP connection ends once the client has sent its own.
    Mutual,
    /// The same, with a close_notify that comes after a while.
    MutualLater,
    /// Without close_notify.
    Cut,
}

/// What the server counted.
#[derive(Clone, Debug, Default)]
pub(crate) struct Seen {
    pub(crate) full: u64,
    pub(crate) resumed: u64,
    /// Requests, in plaintext.
    pub(crate) requests: Vec<String>,
    /// Connections that the client ended with close_notify.
    pub(crate) notified: u64,
    pub(crate) early_bytes: usize,
    pub(crate) names: Vec<Option<String>>,
    /// Bytes on the wire, to and from clients.
    pub(crate) wrote: u64,
    pub(crate) read: u64,
}

pub(crate) struct TlsPeer {
    pub(crate) url: String,
    pub(crate) port: u16,
    pub(crate) seen: Arc<Mutex<Seen>>,
}

impl TlsPeer {
    /// A server whose script depends on the number of the connection; its threads end with the test's process.
    pub(crate) fn start(
        config: ServerConfig,
        script: impl Fn(usize) -> Script + Send + Sync + 'static,
    ) -> TlsPeer {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        // The standard library's queue has 128 places, and the kernel resets some connections if it is full.
        rustix::net::listen(&listener, 1024).unwrap();
        let port = listener.local_addr().unwrap().port();
        let seen = Arc::new(Mutex::new(Seen::default()));
        // Not generic over the script: the threads would be compiled for each test.
        TlsPeer::listen(listener, Arc::new(config), seen.clone(), Box::new(script));
        TlsPeer { url: format!("https://127.0.0.1:{port}"), port, seen }
    }

    fn listen(
        listener: TcpListener,
        config: Arc<ServerConfig>,
        told: Arc<Mutex<Seen>>,
        script: Box<dyn Fn(usize) -> Script + Send>,
    ) {
        std::thread::spawn(move || {
            for (number, stream) in listener.incoming().enumerate() {
                let (stream, config, told, script) =
                    (stream.unwrap(), config.clone(), told.clone(), script(number));
                std::thread::spawn(move || drop(serve(stream, config, &told, &script)));
            }
        });
    }

    pub(crate) fn seen(&self) -> Seen {
        self.seen.lock().unwrap().clone()
    }
}

fn serve(
    mut stream: TcpStream,
    config: Arc<ServerConfig>,
    seen: &Mutex<Seen>,
    script: &Script,
) -> std::io::Result<()> {
    stream.set_nodelay(true)?;
    let mut tls = ServerConnection::new(config).unwrap();
    let mut buffer = [0; 16_384];
    let (mut plain, mut early, mut is_counted) = (Vec::new(), 0, false);
    loop {
        let n = stream.read(&mut buffer)?;
        if n == 0 {
            return Ok(());
        }
        seen.lock().unwrap().read += n as u64;
        let was_handshaking = tls.is_handshaking();
        let mut wire = &buffer[..n];
        while !wire.is_empty() && tls.read_tls(&mut wire)? > 0 {
            let Ok(state) = tls.process_new_packets() else {
                // Sends an alert with the reason.
                flush(&mut tls, &mut stream, seen)?;
                return end(&mut stream);
            };
            if let Some(mut reader) = tls.early_data() {
                let before = plain.len();
                reader.read_to_end(&mut plain)?;
                early += plain.len() - before;
                seen.lock().unwrap().early_bytes += plain.len() - before;
            }
            let mut piece = vec![0; state.plaintext_bytes_to_read()];
            tls.reader().read_exact(&mut piece)?;
            plain.extend(piece);
            if state.peer_has_closed() {
                seen.lock().unwrap().notified += 1;
                return Ok(());
            }
        }
        if was_handshaking && tls.wants_write() {
            std::thread::sleep(script.wait);
            if let Some(bytes) = &script.instead {
                stream.write_all(bytes)?;
                return end(&mut stream);
            }
            if let Some(bytes) = script.handshake_bytes {
                let mut flight = Vec::new();
                while tls.wants_write() {
                    tls.write_tls(&mut flight)?;
                }
                stream.write_all(&flight[..bytes.min(flight.len())])?;
                return end(&mut stream);
            }
        }
        if was_handshaking && tls.wants_write() {
            tls.writer().write_all(&script.ahead)?;
        }
        if !tls.is_handshaking() && !std::mem::replace(&mut is_counted, true) {
            let mut seen = seen.lock().unwrap();
            match tls.handshake_kind() {
                Some(HandshakeKind::Resumed) => seen.resumed += 1,
                _ => seen.full += 1,
            }
            seen.names.push(tls.server_name().map(str::to_owned));
        }
        flush(&mut tls, &mut stream, seen)?;
        if tls.is_handshaking() {
            continue;
        }
        while let Some(at) = plain.windows(4).position(|end| end == b"\r\n\r\n") {
            let head = String::from_utf8(plain.drain(..at + 4).collect()).unwrap();
            let is_last = head.contains("Connection: close");
            seen.lock().unwrap().requests.push(head);
            let is_early = std::mem::take(&mut early) > 0 && !script.early_answer.is_empty();
            tls.writer().write_all(if is_early { &script.early_answer } else { &script.answer })?;
            let ends = script.ends.or(is_last.then_some(End::Notified));
            let says_so = matches!(ends, Some(End::Notified | End::Announced | End::Mutual));
            // In one write with the answer: a client that has everything that it waits for closes, and reads nothing
            // more.
            if says_so && script.raw.is_empty() {
                tls.send_close_notify();
            }
            flush(&mut tls, &mut stream, seen)?;
            stream.write_all(&script.raw)?;
            if says_so && !script.raw.is_empty() {
                tls.send_close_notify();
                flush(&mut tls, &mut stream, seen)?;
            }
            if ends == Some(End::MutualLater) {
                std::thread::sleep(Duration::from_millis(50));
                tls.send_close_notify();
                flush(&mut tls, &mut stream, seen)?;
            }
            if matches!(ends, Some(End::Mutual | End::MutualLater)) {
                return end_with_client(&mut tls, &mut stream, seen);
            }
            if ends == Some(End::Announced) {
                // Until the client closes, too.
                let mut sink = [0; 4096];
                while stream.read(&mut sink)? > 0 {}
                return Ok(());
            }
            if ends.is_some() {
                return end(&mut stream);
            }
        }
    }
}

fn flush(tls: &mut ServerConnection, stream: &mut TcpStream, seen: &Mutex<Seen>) -> std::io::Result<()> {
    let mut wire = Vec::new();
    while tls.wants_write() {
        tls.write_tls(&mut wire)?;
    }
    seen.lock().unwrap().wrote += wire.len() as u64;
    stream.write_all(&wire)
}

/// Waits for the client's close_notify before it ends the connection.
fn end_with_client(
    tls: &mut ServerConnection,
    stream: &mut TcpStream,
    seen: &Mutex<Seen>,
) -> std::io::Result<()> {
    while tls.read_tls(stream)? > 0 {
        if tls.process_new_packets().is_ok_and(|state| state.peer_has_closed()) {
            seen.lock().unwrap().notified += 1;
            return end(stream);
        }
    }
    Ok(())
}

/// Closes its sending side, and reads on until the client has closed.
fn end(stream: &mut TcpStream) -> std::io::Result<()> {
    stream.shutdown(Shutdown::Write)?;
    let mut sink = [0; 4096];
    while matches!(stream.read(&mut sink), Ok(n) if n > 0) {}
    Ok(())
}
