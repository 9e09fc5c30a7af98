//! Our records compared with rustls's: the same keys and bytes give the same records, and each side reads the
//! other's, however they are cut, also while keys change.

use std::io::{Read, Write};
use std::sync::Arc;

use rustls::client::Resumption;
use rustls::crypto::CryptoProvider;
use rustls::crypto::aws_lc_rs::{cipher_suite, default_provider};
use rustls::crypto::cipher::{AeadKey, Iv, MessageEncrypter, OutboundPlainMessage};
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer, ServerName};
use rustls::{
    ClientConfig, ConnectionTrafficSecrets, ContentType, ProtocolVersion, RootCertStore, ServerConfig,
    ServerConnection, SupportedCipherSuite,
};

use super::records::{ALERT, DATA, HANDSHAKE, PLAIN_BYTES_MAX, Scratch};
use super::sessions::Sessions;
use super::shaking::Shaking;
use super::traffic::Traffic;

/// Each cipher in each version.
const SUITES: [SupportedCipherSuite; 6] = [
    cipher_suite::TLS13_AES_128_GCM_SHA256,
    cipher_suite::TLS13_AES_256_GCM_SHA384,
    cipher_suite::TLS13_CHACHA20_POLY1305_SHA256,
    cipher_suite::TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256,
    cipher_suite::TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384,
    cipher_suite::TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256,
];

fn is_tls13(suite: SupportedCipherSuite) -> bool {
    suite.version().version == ProtocolVersion::TLSv1_3
}

/// Both sides after a handshake, and the client's sessions. In TLS 1.3 the server sends `tickets` tickets.
fn pair(suite: SupportedCipherSuite, tickets: usize) -> (Traffic, ServerConnection, Arc<Sessions>) {
    let made = rcgen::generate_simple_self_signed(vec!["peer.test".to_owned()]).unwrap();
    let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(made.signing_key.serialize_der()));
    let provider = Arc::new(CryptoProvider { cipher_suites: vec![suite], ..default_provider() });
    let mut server = ServerConfig::builder_with_provider(provider.clone())
        .with_protocol_versions(&[suite.version()])
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![made.cert.der().clone()], key)
        .unwrap();
    server.enable_secret_extraction = true;
    server.send_tls13_tickets = tickets;
    let mut roots = RootCertStore::empty();
    roots.add(made.cert.der().clone()).unwrap();
    let mut client = ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&[suite.version()])
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    client.enable_secret_extraction = true;
    let sessions = Arc::new(Sessions::new(true));
    client.resumption = Resumption::store(sessions.clone());
    let mut server = ServerConnection::new(Arc::new(server)).unwrap();
    server.set_buffer_limit(None);
    let name = ServerName::try_from("peer.test").unwrap();
    let mut shaking = Shaking::new(Arc::new(client), name).unwrap();
    let (mut to_client, mut ahead) = (Vec::new(), Vec::new());
    while !shaking.is_over() {
        let mut to_server = Vec::new();
        // One byte at a time: the handshake may be cut anywhere.
        for byte in to_client.drain(..) {
            shaking.step(&[byte], &mut to_server, &mut ahead).unwrap();
        }
        if to_server.is_empty() {
            shaking.step(&[], &mut to_server, &mut ahead).unwrap();
        }
        feed(&mut server, &to_server);
        // What follows the handshake is read by the record layer.
        if !shaking.is_over() || to_client.is_empty() && server.is_handshaking() {
            to_client = wire_of(&mut server);
        }
    }
    assert!(ahead.is_empty());
    (shaking.traffic().unwrap(), server, sessions)
}

/// Makes a server read bytes of the wire; returns their content.
fn feed(server: &mut ServerConnection, mut wire: &[u8]) -> Vec<u8> {
    let mut plain = Vec::new();
    while !wire.is_empty() {
        server.read_tls(&mut wire).unwrap();
        let state = server.process_new_packets().unwrap();
        let before = plain.len();
        plain.resize(before + state.plaintext_bytes_to_read(), 0);
        server.reader().read_exact(&mut plain[before..]).unwrap();
    }
    plain
}

fn wire_of(server: &mut ServerConnection) -> Vec<u8> {
    let mut wire = Vec::new();
    while server.wants_write() {
        server.write_tls(&mut wire).unwrap();
    }
    wire
}

/// rustls's own records in one direction.
struct Reference {
    encrypter: Box<dyn MessageEncrypter>,
    sequence: u64,
}

impl Reference {
    fn new(suite: SupportedCipherSuite, secrets: (u64, ConnectionTrafficSecrets)) -> Reference {
        let (key, iv): (AeadKey, Iv) = match secrets.1 {
            ConnectionTrafficSecrets::Aes128Gcm { key, iv }
            | ConnectionTrafficSecrets::Aes256Gcm { key, iv }
            | ConnectionTrafficSecrets::Chacha20Poly1305 { key, iv } => (key, iv),
            _ => panic!("another cipher"),
        };
        let encrypter = match suite {
            SupportedCipherSuite::Tls13(suite) => suite.aead_alg.encrypter(key, iv),
            SupportedCipherSuite::Tls12(suite) => {
                let (fixed, explicit) = iv.as_ref().split_at(suite.aead_alg.key_block_shape().fixed_iv_len);
                suite.aead_alg.encrypter(key, fixed, explicit)
            }
        };
        let mut reference = Reference { encrypter, sequence: 0 };
        // The key counts its records itself, so it must make those of the handshake, too.
        while reference.sequence < secrets.0 {
            reference.seal(DATA, b"of the handshake");
        }
        reference
    }

    fn seal(&mut self, kind: u8, plain: &[u8]) -> Vec<u8> {
        let mut wire = Vec::new();
        for piece in plain.chunks(PLAIN_BYTES_MAX) {
            let message = OutboundPlainMessage {
                typ: ContentType::from(kind),
                version: ProtocolVersion::TLSv1_2,
                payload: piece.into(),
            };
            wire.extend(self.encrypter.encrypt(message, self.sequence).unwrap().encode());
            self.sequence += 1;
        }
        wire
    }
}

/// Pseudo-random numbers.
struct Draws(u64);

impl Draws {
    fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((u128::from(self.0) * end as u128) >> 64) as usize
    }

    /// A few hundred bytes, or a few records of them.
    fn bytes(&mut self) -> Vec<u8> {
        let most = if self.below(8) == 0 { 60_000 } else { 900 };
        (0..1 + self.below(most)).map(|_| self.below(256) as u8).collect()
    }
}

#[test]
fn the_same_keys_and_bytes_give_the_same_records() {
    for suite in SUITES {
        let (mut traffic, server, _) = pair(suite, 0);
        let secrets = server.dangerous_extract_secrets().unwrap();
        let mut theirs = Reference::new(suite, secrets.rx);
        let mut from_server = Reference::new(suite, secrets.tx);
        let mut draws = Draws(1995);
        let mut scratch = Scratch::default();
        let sizes =
            [1, 2, 15, 16, 17, 100, 500, PLAIN_BYTES_MAX - 1, PLAIN_BYTES_MAX, 3 * PLAIN_BYTES_MAX + 1];
        for (number, size) in sizes.into_iter().enumerate() {
            let plain: Vec<u8> = (0..size).map(|_| draws.below(256) as u8).collect();
            for kind in [DATA, ALERT, HANDSHAKE] {
                let mut ours = Vec::new();
                traffic.sender_mut().seal(kind, &plain, &mut ours);
                assert!(ours == theirs.seal(kind, &plain), "{suite:?} {number} {kind} {size}");
            }
            let wire = from_server.seal(DATA, &plain);
            scratch.clear();
            traffic.unseal(&wire, &mut scratch).unwrap();
            assert!(scratch.plain() == plain, "{suite:?} {size}");
        }
    }
}

#[test]
fn each_side_reads_the_other_wherever_records_are_cut() {
    for suite in SUITES {
        for seed in 0..4 {
            let mut draws = Draws(seed * 977 + 13);
            let (mut traffic, mut server, sessions) = pair(suite, 3);
            let mut scratch = Scratch::default();
            let mut to_client = wire_of(&mut server);
            let (mut sent, mut updates) = (Vec::new(), 0);
            for round in 0..60 {
                let bytes = draws.bytes();
                let mut wire = Vec::new();
                traffic.seal(&bytes, &mut wire);
                let mut read = Vec::new();
                while !wire.is_empty() {
                    let cut = 1 + draws.below(wire.len());
                    read.extend(feed(&mut server, &wire[..cut]));
                    wire.drain(..cut);
                }
                assert!(read == bytes, "{suite:?} {seed} {round}");
                if is_tls13(suite) && draws.below(5) == 0 {
                    // This also asks the client for new keys, which it uses from its next records on.
                    server.refresh_traffic_keys().unwrap();
                    updates += 1;
                }
                let bytes = draws.bytes();
                server.writer().write_all(&bytes).unwrap();
                sent.extend(bytes);
                to_client.extend(wire_of(&mut server));
                let mut heard = Vec::new();
                // The rest follows in the next round.
                let until = draws.below(to_client.len() + 1);
                while to_client.len() > until {
                    let cut = 1 + draws.below(to_client.len() - until);
                    scratch.clear();
                    traffic.unseal(&to_client[..cut], &mut scratch).unwrap();
                    heard.extend_from_slice(scratch.plain());
                    to_client.drain(..cut);
                }
                assert!(sent.starts_with(&heard), "{suite:?} {seed} {round}");
                sent.drain(..heard.len());
            }
            server.send_close_notify();
            to_client.extend(wire_of(&mut server));
            scratch.clear();
            traffic.unseal(&to_client, &mut scratch).unwrap();
            assert!(scratch.plain() == sent && traffic.was_close_heard(), "{suite:?} {seed}");
            let mut last = Vec::new();
            traffic.close();
            traffic.close();
            traffic.seal(&[], &mut last);
            feed(&mut server, &last);
            assert!(server.process_new_packets().unwrap().peer_has_closed() && !traffic.must_send());
            let tickets = if is_tls13(suite) { 3 } else { 0 };
            assert_eq!(sessions.tickets(), tickets, "{suite:?}");
            assert_eq!(updates > 0, is_tls13(suite), "{suite:?} {seed}");
        }
    }
}

/// Each key makes as many records as allowed, the last of which announces the next key. TLS 1.2 has no next key.
#[test]
fn keys_make_no_more_records_than_they_may() {
    for suite in SUITES {
        let (mut traffic, mut server, _) = pair(suite, 0);
        let first = traffic.sender_mut().sequence();
        traffic.set_records_max(first + 5);
        let (mut most, mut read) = (0, 0);
        for _ in 0..40 {
            let mut wire = Vec::new();
            traffic.seal(b"GET /", &mut wire);
            if traffic.is_spent() {
                assert!(wire.is_empty());
                break;
            }
            read += feed(&mut server, &wire).len() / 5;
            most = most.max(traffic.sender_mut().sequence());
        }
        if is_tls13(suite) {
            assert_eq!((read, most, traffic.is_spent()), (40, first + 4, false), "{suite:?}");
        } else {
            // The end can still be announced.
            assert_eq!((read, most, traffic.is_spent()), (4, first + 4, true), "{suite:?}");
            let mut wire = Vec::new();
            traffic.close();
            traffic.seal(&[], &mut wire);
            feed(&mut server, &wire);
            assert!(server.process_new_packets().unwrap().peer_has_closed());
        }
    }
}
