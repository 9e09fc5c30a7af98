//! TLS on the simulated network: handshakes last as long as the network and the server make them, to the nanosecond, wherever
//! records are cut. The server's side is rustls's own.

use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::{ServerConfig, ServerConnection};
use std::io::{Read, Write};
use webstone_model::tls::{TlsGroup, TlsVersion};

use super::*;
use crate::sys::simulated::take_http1_request;
use crate::tls::Tls;

/// A server over TLS for one connection, which stands after 1 ms. Its first flight takes 3 ms, an answer 2 ms.
struct Server {
    config: Arc<ServerConfig>,
    tls: Option<ServerConnection>,
    plain: Vec<u8>,
}

impl Server {
    fn new() -> Server {
        let made = rcgen::generate_simple_self_signed(vec!["192.0.2.1".to_owned()]).unwrap();
        let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(made.signing_key.serialize_der()));
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![made.cert.der().clone()], key)
            .unwrap();
        Server { config: Arc::new(config), tls: None, plain: Vec::new() }
    }

    fn flight(&mut self) -> Vec<u8> {
        let tls = self.tls.as_mut().expect("it is connected");
        let mut wire = Vec::new();
        while tls.wants_write() {
            tls.write_tls(&mut wire).unwrap();
        }
        wire
    }
}

impl Peer for &mut Server {
    fn connect(&mut self, _: u64, _: &Address) -> Attempt {
        self.tls = Some(ServerConnection::new(self.config.clone()).unwrap());
        Attempt::Stands { handshake_ns: MS, served_ns: MS }
    }

    fn take_request(&mut self, at_server: &mut Vec<u8>) -> Option<Vec<u8>> {
        (!at_server.is_empty()).then(|| std::mem::take(at_server))
    }

    fn answer(&mut self, _: u64, wire: &[u8]) -> Vec<Act> {
        let tls = self.tls.as_mut().expect("it is connected");
        let mut rest = wire;
        while !rest.is_empty() && tls.read_tls(&mut rest).unwrap() > 0 {
            let state = tls.process_new_packets().unwrap();
            let mut piece = vec![0; state.plaintext_bytes_to_read()];
            tls.reader().read_exact(&mut piece).unwrap();
            self.plain.extend(piece);
        }
        let is_first_flight = tls.is_handshaking();
        let mut acts = Vec::new();
        // The first flight, or tickets.
        let own = self.flight();
        if !own.is_empty() {
            acts.extend([Act::Wait(if is_first_flight { 3 * MS } else { 0 }), Act::Write(own)]);
        }
        while take_http1_request(&mut self.plain).is_some() {
            self.tls.as_mut().expect("as above").writer().write_all(&response(10)).unwrap();
            let wire = self.flight();
            acts.extend([Act::Wait(2 * MS), Act::Write(wire)]);
        }
        acts
    }
}

fn level(version: TlsVersion) -> Level {
    let mut level = Level::new(ConnectionPolicy::KeepAlive, &["/"], 61 * MS);
    level.spec.target = vec!["https://192.0.2.1".into()];
    level.spec.client.tls.verify = false;
    level.spec.client.tls.versions = vec![version];
    level.wire.latency_ns = MS;
    level
}

#[test]
fn a_handshake_lasts_as_long_as_its_flights() {
    for segment_bytes in [usize::MAX, 1000, 7, 1] {
        for (version, handshake_ns) in [(TlsVersion::Tls13, 5 * MS), (TlsVersion::Tls12, 7 * MS)] {
            let mut level = level(version);
            level.wire.segment_bytes = segment_bytes;
            let measured = level.run_over::<Tls, Http1>(&mut Server::new(), None);
            assert_eq!(errors(&measured), [], "{version} {segment_bytes}");
            are("connect", &measured.connect, &measured.histograms.connect, &[(MS, 1)]);
            let found = measured.handshakes.as_ref().unwrap();
            are("handshake", &found.time, &found.histogram, &[(handshake_ns, 1)]);
            assert_eq!((found.full, found.agreed[0].version), (1, version));
            assert_eq!((found.agreed[0].group, found.agreed[0].verified), (Some(TlsGroup::X25519), false));
            // A millisecond there, two at the server, one back; the first behind connect and handshake.
            let later = (61 * MS - MS - handshake_ns) / (4 * MS) - 1;
            let expected = [(4 * MS, later), (MS + handshake_ns + 4 * MS, 1)];
            are("response", &measured.response, &measured.histograms.response, &expected);
            assert_eq!(measured.response_bytes.sum, (later + 1) * response(10).len() as u64);
            assert_eq!(measured.counts.surplus, 0);
        }
    }
}

/// A socket that takes a few bytes at a time gets every record whole.
#[test]
fn a_request_is_sent_in_parts() {
    let mut level = level(TlsVersion::Tls13);
    level.spec.load.duration = Nanos(4 * SECOND);
    level.wire.send_room = 50;
    let measured = level.run_over::<Tls, Http1>(&mut Server::new(), None);
    assert_eq!((errors(&measured), measured.counts.connections), (vec![], 1));
    assert!(measured.counts.succeeded > 100, "{}", measured.counts.succeeded);
}
