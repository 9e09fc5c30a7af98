//! TLS on real sockets: each violation by a server is exactly one class of error, and our counts are the server's.

use std::time::Duration;

use super::peer::{errors, file, one_page, run, spec};
use super::tls_peer::{End, Identity, Script, TlsPeer, scratch};
use webstone_engine::LevelOutcome;
use webstone_measure::errors::ErrorClass;
use webstone_measure::metrics::Handshakes;
use webstone_workload::load::ConnectionPolicy::{KeepAlive, PerRequest};
use webstone_workload::load::{ConnectionPolicy, GeneratorTask};
use webstone_workload::tls::{Share, TlsCipher, TlsGroup, TlsVersion};

const ANSWER: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello";
const LAST_YEAR: i32 = 2090;

fn answering(answer: &[u8]) -> Script {
    Script { answer: answer.to_vec(), ..Script::default() }
}

/// A run of this many pages that trusts an authority.
fn trusting(peer: &TlsPeer, identity: &Identity, policy: ConnectionPolicy, pages: u64) -> GeneratorTask {
    let mut spec = spec(&peer.url, policy, pages);
    spec.client.tls.cacert = identity.cacert();
    spec
}

fn handshakes(outcome: &LevelOutcome) -> &Handshakes {
    outcome.measured.handshakes.as_ref().expect("handshakes were counted")
}

fn first_error(outcome: &LevelOutcome) -> String {
    outcome.measured.errors.iter().next().and_then(|(_, _, first)| first).expect("an error").detail.clone()
}

fn here() -> Identity {
    Identity::for_name("127.0.0.1", LAST_YEAR)
}

#[test]
fn each_connection_is_a_full_handshake_and_bytes_agree() {
    let identity = here();
    for version in TlsVersion::ALL {
        let peer = TlsPeer::start(identity.config(false), |_| answering(ANSWER));
        let mut spec = trusting(&peer, &identity, PerRequest, 20);
        spec.client.tls.versions = vec![version];
        let outcome = run(&spec, &one_page(vec![file("/x", Some(5))]), 2);
        assert_eq!((errors(&outcome), outcome.measured.counts.succeeded), (vec![], 20));
        let seen = peer.seen();
        let found = handshakes(&outcome);
        assert_eq!((found.full, found.resumed, found.failed), (20, 0, 0));
        assert!(seen.full >= 20 && seen.resumed == 0);
        let agreed = &found.agreed[0];
        assert_eq!((agreed.version, agreed.group, agreed.verified), (version, Some(TlsGroup::X25519), true));
        assert_eq!(agreed.alpn, None, "the server offers none");
        let cipher =
            if version == TlsVersion::Tls13 { TlsCipher::Tls13Aes128 } else { TlsCipher::EcdsaAes128 };
        // Including tickets: what the server wrote is what was received, and it read what was sent.
        assert_eq!((agreed.cipher, found.agreed.len()), (cipher, 1));
        assert_eq!(outcome.measured.lifetime.received_bytes, seen.wrote, "{version}");
        // The length of answers is that without TLS.
        assert_eq!(outcome.measured.response_bytes.sum, 20 * ANSWER.len() as u64);
        assert!(outcome.measured.lifetime.received_bytes > 20 * ANSWER.len() as u64);
    }
}

#[test]
fn kept_connections_shake_hands_once_and_take_tickets_meanwhile() {
    let identity = here();
    let peer = TlsPeer::start(identity.config(false), |_| answering(ANSWER));
    let outcome = run(&trusting(&peer, &identity, KeepAlive, 50), &one_page(vec![file("/x", Some(5))]), 5);
    assert_eq!((errors(&outcome), outcome.measured.counts.succeeded), (vec![], 50));
    assert_eq!((handshakes(&outcome).full, outcome.measured.counts.connections), (5, 5));
    assert_eq!((peer.seen().full, peer.seen().requests.len()), (5, 50));
    assert_eq!(outcome.measured.counts.surplus, 0);
}

#[test]
fn sessions_are_resumed_by_their_share() {
    let identity = here();
    for version in TlsVersion::ALL {
        for (share, least, most) in [("0%", 0, 0), ("50%", 60, 140), ("100%", 199, 199)] {
            let peer = TlsPeer::start(identity.config(false), |_| answering(ANSWER));
            let mut spec = trusting(&peer, &identity, PerRequest, 200);
            spec.client.tls.versions = vec![version];
            spec.client.tls.resume = share.parse().unwrap();
            let counts = || {
                let outcome = run(&spec, &one_page(vec![file("/x", Some(5))]), 1);
                assert_eq!(errors(&outcome), []);
                let found = handshakes(&outcome);
                assert_eq!(found.full + found.resumed, 200);
                (found.full, found.resumed)
            };
            let (full, resumed) = counts();
            assert!((least..=most).contains(&resumed), "{version} {share}: {resumed}");
            assert_eq!((peer.seen().full, peer.seen().resumed), (full, resumed), "{version} {share}");
            // The seed draws the same connections each time.
            assert_eq!(counts(), (full, resumed));
        }
    }
}

#[test]
fn early_data_is_taken_or_sent_again() {
    let identity = here();
    for limit in [16_384, 0] {
        let mut config = identity.config(false);
        config.max_early_data_size = limit;
        config.send_half_rtt_data = false;
        let peer = TlsPeer::start(config, |_| answering(ANSWER));
        let mut spec = trusting(&peer, &identity, PerRequest, 10);
        spec.client.tls.resume = Share::ALL;
        spec.client.tls.early_data = true;
        let outcome = run(&spec, &one_page(vec![file("/x", Some(5))]), 1);
        assert_eq!((errors(&outcome), outcome.measured.counts.succeeded), (vec![], 10), "{limit}");
        let found = handshakes(&outcome);
        let early = if limit > 0 { 9 } else { 0 };
        assert_eq!((found.resumed, found.early_data_accepted, found.early_data_rejected), (9, early, 0));
        assert_eq!(peer.seen().early_bytes > 0, limit > 0);
        assert_eq!(peer.seen().requests.len(), 10);
    }
}

/// A request that is too early is retried after the handshake: on its connection if that stays open, otherwise on a new one without
/// early data. It counts once.
#[test]
fn requests_that_are_too_early_are_sent_again_after_the_handshake() {
    const TOO_EARLY: &[u8] = b"HTTP/1.1 425 Too Early\r\nContent-Length: 3\r\n\r\nno\n";
    let identity = here();
    for (policy, per_connection, sent_again, resumed) in
        [(PerRequest, None, 9, 18), (KeepAlive, Some(2), 8, 8)]
    {
        let mut config = identity.config(false);
        config.max_early_data_size = 16_384;
        config.send_half_rtt_data = false;
        let script = Script { early_answer: TOO_EARLY.to_vec(), ..answering(ANSWER) };
        let peer = TlsPeer::start(config, move |_| script.clone());
        let mut spec = trusting(&peer, &identity, policy, 10);
        spec.client.requests_per_connection = per_connection;
        spec.client.tls.resume = Share::ALL;
        spec.client.tls.early_data = true;
        let outcome = run(&spec, &one_page(vec![file("/x", Some(5))]), 1);
        let measured = &outcome.measured;
        assert_eq!((errors(&outcome), measured.counts.succeeded), (vec![], 10), "{}", policy as u8);
        let found = handshakes(&outcome);
        assert_eq!((found.full, found.resumed, found.too_early), (1, resumed, sent_again));
        assert_eq!((found.early_data_accepted, found.early_data_rejected), (sent_again, 0));
        assert_eq!(peer.seen().requests.len() as u64, 10 + sent_again);
        assert_eq!(
            (measured.lifetime.requests, measured.lifetime.connections),
            (10 + sent_again, 1 + resumed)
        );
        assert_eq!(measured.lifetime.received_bytes, peer.seen().wrote);
        assert_eq!(measured.response_bytes.sum, 10 * ANSWER.len() as u64, "the answer that counts");
    }
    // Without early data, the status is like any other.
    let peer = TlsPeer::start(identity.config(false), |_| answering(TOO_EARLY));
    let outcome = run(&trusting(&peer, &identity, PerRequest, 3), &one_page(vec![file("/x", Some(5))]), 1);
    assert_eq!((errors(&outcome), peer.seen().requests.len()), (vec![(ErrorClass::WrongStatus, 3)], 3));
}

/// A request is in progress before the handshake has ended. If the handshake then fails, it is counted as failed.
#[test]
fn a_handshake_with_early_data_may_fail() {
    let identity = here();
    let cut = Script { handshake_bytes: Some(20), ..answering(ANSWER) };
    let alert = Script { instead: Some(vec![0x15, 3, 3, 0, 2, 2, 40]), ..answering(ANSWER) };
    for (script, class) in [(cut, ErrorClass::TlsHandshake), (alert, ErrorClass::TlsIncompatible)] {
        let mut config = identity.config(false);
        config.max_early_data_size = 16_384;
        // The first connection leaves a ticket, and the second is the one that fails.
        let peer = TlsPeer::start(config, move |number| match number {
            0 => answering(ANSWER),
            _ => script.clone(),
        });
        let mut spec = trusting(&peer, &identity, PerRequest, 2);
        spec.client.tls.resume = Share::ALL;
        spec.client.tls.early_data = true;
        let outcome = run(&spec, &one_page(vec![file("/x", Some(5))]), 1);
        assert_eq!(errors(&outcome), [(class, 1)], "{}", first_error(&outcome));
        assert!(peer.seen().early_bytes > 0, "it failed before its early data was sent");
        let found = handshakes(&outcome);
        assert_eq!((found.full, found.resumed, found.failed), (1, 0, 1));
    }
}

/// One violation, exactly one class, under every policy.
#[test]
fn each_violation_has_its_class() {
    const UNTIL_THE_END: &[u8] = b"HTTP/1.1 200 OK\r\n\r\nhello";
    let script = Script::default;
    let alert = |number: u8| Script { instead: Some(vec![0x15, 3, 3, 0, 2, 2, number]), ..script() };
    let raw = |bytes: &[u8]| Script {
        raw: bytes.to_vec(),
        ..answering(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhello")
    };
    for (what, script, class) in [
        ("handshake_failure", alert(40), ErrorClass::TlsIncompatible),
        ("protocol_version", alert(70), ErrorClass::TlsIncompatible),
        ("internal_error", alert(80), ErrorClass::TlsHandshake),
        ("--alpn", alert(120), ErrorClass::Alpn),
        (
            "does not speak TLS",
            Script { instead: Some(b"HTTP/1.1 400 Bad Request\r\n\r\n".to_vec()), ..script() },
            ErrorClass::TlsRecord,
        ),
        ("invalid TLS record", Script { instead: Some(vec![0xff; 40]), ..script() }, ErrorClass::TlsRecord),
        (
            "close_notify",
            Script { ends: Some(End::Cut), ..answering(UNTIL_THE_END) },
            ErrorClass::TlsTruncated,
        ),
        (
            "close_notify",
            Script {
                ends: Some(End::Cut),
                ..answering(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhello")
            },
            ErrorClass::TlsTruncated,
        ),
        (
            "4 bytes before the end",
            Script {
                ends: Some(End::Notified),
                ..answering(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhello")
            },
            ErrorClass::ShortBody,
        ),
        ("invalid TLS record", raw(&[0x17, 3, 3, 0xff, 0xff, 0]), ErrorClass::TlsRecord),
        (
            "invalid TLS record",
            raw(&[0x17, 3, 3, 0, 40].into_iter().chain([7; 40]).collect::<Vec<u8>>()),
            ErrorClass::TlsRecord,
        ),
    ] {
        let identity = here();
        for policy in [PerRequest, KeepAlive] {
            let script = script.clone();
            let peer = TlsPeer::start(identity.config(false), move |_| script.clone());
            let outcome = run(&trusting(&peer, &identity, policy, 3), &one_page(vec![file("/x", None)]), 1);
            assert_eq!(errors(&outcome), [(class, 3)], "{what} {policy:?}: {}", first_error(&outcome));
            assert!(first_error(&outcome).contains(what), "{what}: {}", first_error(&outcome));
            assert_eq!(outcome.measured.counts.succeeded, 0);
        }
    }
}

#[test]
fn a_body_until_the_end_is_whole_where_that_is_announced() {
    let identity = here();
    // Like OpenSSL's s_server, a server may leave the TCP connection open until the client closes it.
    for ends in [End::Notified, End::Announced] {
        let script = Script { ends: Some(ends), ..answering(b"HTTP/1.1 200 OK\r\n\r\nhello") };
        let peer = TlsPeer::start(identity.config(false), move |_| script.clone());
        let spec = trusting(&peer, &identity, PerRequest, 3);
        let outcome = run(&spec, &one_page(vec![file("/x", Some(5))]), 1);
        assert_eq!((errors(&outcome), outcome.measured.counts.succeeded), (vec![], 3), "{ends:?}");
    }
}

/// A server that closes at any point of its handshake causes one error of one class, and one failed handshake.
#[test]
fn a_handshake_may_be_cut_at_every_byte() {
    let identity = here();
    let config = identity.config(false);
    let pages = 1_200;
    let peer =
        TlsPeer::start(config, |number| Script { handshake_bytes: Some(number % 600), ..Script::default() });
    let mut spec = trusting(&peer, &identity, PerRequest, pages);
    spec.client.tls.versions = vec![TlsVersion::Tls13];
    let outcome = run(&spec, &one_page(vec![file("/x", None)]), 300);
    assert_eq!(errors(&outcome), [(ErrorClass::TlsHandshake, pages)], "{:?}", outcome.measured.errors);
    assert_eq!((handshakes(&outcome).failed, handshakes(&outcome).ended()), (pages, 0));
}

#[test]
fn a_certificate_is_verified_unless_told_not_to() {
    let (good, other) = (here(), here());
    let expired = Identity::for_name("127.0.0.1", 2020);
    let elsewhere = Identity::for_name("elsewhere.test", LAST_YEAR);
    for (shown, trusted, part) in [
        (&good, &good, None),
        (&good, &other, Some("not signed by a trusted certificate")),
        (&expired, &expired, Some("expired on 20")),
        (
            &elsewhere,
            &elsewhere,
            Some("is for elsewhere.test; you asked for 127.0.0.1; give one of its names with --sni"),
        ),
    ] {
        let peer = TlsPeer::start(shown.config(false), |_| answering(ANSWER));
        let workload = one_page(vec![file("/x", Some(5))]);
        let mut spec = trusting(&peer, trusted, PerRequest, 3);
        let outcome = run(&spec, &workload, 1);
        match part {
            None => assert_eq!(errors(&outcome), []),
            Some(part) => {
                assert_eq!(errors(&outcome), [(ErrorClass::TlsCertificate, 3)]);
                assert!(first_error(&outcome).contains(part), "{}", first_error(&outcome));
                assert_eq!(handshakes(&outcome).failed, 3);
            }
        }
        spec.client.tls.verify = false;
        let outcome = run(&spec, &workload, 1);
        assert_eq!(errors(&outcome), []);
        assert!(!handshakes(&outcome).agreed[0].verified);
    }
    // A certificate that the user names is trusted, no matter who signed it, for the names in it.
    for (identity, class) in [(&good, vec![]), (&elsewhere, vec![(ErrorClass::TlsCertificate, 1)])] {
        let itself = scratch("leaf.pem");
        std::fs::write(&itself, &identity.leaf_pem).unwrap();
        let peer = TlsPeer::start(identity.config(false), |_| answering(ANSWER));
        let mut spec = spec(&peer.url, PerRequest, 1);
        spec.client.tls.cacert = Some(itself.to_str().unwrap().to_owned());
        assert_eq!(errors(&run(&spec, &one_page(vec![file("/x", Some(5))]), 1)), class);
    }
    // By the name that it was issued for.
    let peer = TlsPeer::start(elsewhere.config(false), |_| answering(ANSWER));
    let mut spec = trusting(&peer, &elsewhere, PerRequest, 1);
    spec.client.tls.sni = Some("elsewhere.test".into());
    assert_eq!(errors(&run(&spec, &one_page(vec![file("/x", Some(5))]), 1)), []);
    assert_eq!(peer.seen().names[0].as_deref(), Some("elsewhere.test"));
}

#[test]
fn a_pinned_certificate_is_the_only_one_accepted() {
    use sha2::Digest;
    let identity = here();
    let peer = TlsPeer::start(identity.config(false), |_| answering(ANSWER));
    let mut spec = spec(&peer.url, PerRequest, 2);
    spec.client.tls.verify = false;
    let digest = sha2::Sha256::digest(&identity.leaf);
    let pin: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
    for (pin, class) in [(pin, vec![]), ("00".repeat(32), vec![(ErrorClass::TlsCertificate, 2)])] {
        spec.client.tls.pin = Some(pin);
        assert_eq!(errors(&run(&spec, &one_page(vec![file("/x", Some(5))]), 1)), class);
    }
}

#[test]
fn a_client_may_have_a_certificate() {
    let identity = here();
    for version in TlsVersion::ALL {
        let peer = TlsPeer::start(identity.config(true), |_| answering(ANSWER));
        let mut spec = trusting(&peer, &identity, PerRequest, 2);
        spec.client.tls.versions = vec![version];
        let workload = one_page(vec![file("/x", Some(5))]);
        let without = run(&spec, &workload, 1);
        let class = errors(&without)[0].0;
        assert!([ErrorClass::TlsHandshake, ErrorClass::TlsIncompatible].contains(&class), "{class:?}");
        let both = scratch("client.pem");
        std::fs::write(&both, format!("{}{}", identity.leaf_pem, identity.key_pem)).unwrap();
        spec.client.tls.cert = Some(both.to_str().unwrap().to_owned());
        assert_eq!(errors(&run(&spec, &workload, 1)), []);
    }
}

#[test]
fn an_offer_without_anything_in_common_is_reported() {
    let identity = here();
    let mut config = identity.config(false);
    config.alpn_protocols = vec![b"h2".to_vec()];
    let peer = TlsPeer::start(config, |_| answering(ANSWER));
    let workload = one_page(vec![file("/x", Some(5))]);
    let mut spec = trusting(&peer, &identity, PerRequest, 2);
    assert_eq!(errors(&run(&spec, &workload, 1)), [(ErrorClass::Alpn, 2)]);
    // The server agrees on a protocol that is not that of the requests.
    spec.client.tls.alpn = vec!["h2".into(), "http/1.1".into()];
    let outcome = run(&spec, &workload, 1);
    assert_eq!(errors(&outcome), [(ErrorClass::Alpn, 2)]);
    assert!(first_error(&outcome).contains("chose the protocol h2"), "{}", first_error(&outcome));
    spec.client.tls.alpn.clear();
    spec.client.tls.ciphers = vec![TlsCipher::RsaAes128];
    spec.client.tls.versions = vec![TlsVersion::Tls12];
    let outcome = run(&spec, &workload, 1);
    assert_eq!(errors(&outcome), [(ErrorClass::TlsIncompatible, 2)]);
    assert!(
        first_error(&outcome).contains("the client offered TLS 1.2; TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256")
    );
}

#[test]
fn a_handshake_takes_as_long_as_the_server() {
    let identity = here();
    let wait = Duration::from_millis(30);
    let script = Script { wait, ..answering(ANSWER) };
    let peer = TlsPeer::start(identity.config(false), move |_| script.clone());
    let outcome = run(&trusting(&peer, &identity, PerRequest, 5), &one_page(vec![file("/x", Some(5))]), 1);
    let found = handshakes(&outcome);
    assert_eq!((errors(&outcome), found.time.count, found.histogram.len()), (vec![], 5, 5));
    assert!(found.time.min >= wait.as_nanos() as u64, "{}", found.time.min);
    // A request starts before its connection does.
    assert!(outcome.measured.response.min > found.time.min);
}

#[test]
fn keys_are_logged_for_wireshark() {
    let identity = here();
    let peer = TlsPeer::start(identity.config(false), |_| answering(ANSWER));
    let path = scratch("keys");
    let mut spec = trusting(&peer, &identity, PerRequest, 1);
    spec.client.tls.key_log = Some(path.to_str().unwrap().to_owned());
    assert_eq!(errors(&run(&spec, &one_page(vec![file("/x", Some(5))]), 1)), []);
    let text = std::fs::read_to_string(&path).unwrap();
    assert!(text.contains("CLIENT_HANDSHAKE_TRAFFIC_SECRET ") && text.contains("\nSERVER_TRAFFIC_SECRET_0 "));

    // Two workers, two origins: each secret once, and nothing but lines of keys.
    let path = scratch("keys");
    let other = TlsPeer::start(identity.config(false), |_| answering(ANSWER));
    let mut spec = trusting(&peer, &identity, PerRequest, 10);
    spec.client.tls.key_log = Some(path.to_str().unwrap().to_owned());
    spec.client.allow_hosts = vec!["127.0.0.1".into()];
    spec.generator.workers = 2;
    let files = vec![file("/x", Some(5)), file(&format!("{}/y", other.url), Some(5))];
    assert_eq!(errors(&run(&spec, &one_page(files), 4)), []);
    let text = std::fs::read_to_string(&path).unwrap();
    let count = |label: &str| text.lines().filter(|line| line.starts_with(label)).count();
    assert_eq!(count("CLIENT_TRAFFIC_SECRET_0 "), 20);
    assert!(text.lines().all(|line| line.split(' ').count() == 3), "{text}");
}

#[test]
fn a_workload_may_mix_both() {
    let identity = here();
    let tls = TlsPeer::start(identity.config(false), |_| answering(ANSWER));
    let plain = super::peer::Peer::start(vec![super::peer::Act::Write(ANSWER.to_vec())]);
    let mut spec = trusting(&tls, &identity, KeepAlive, 10);
    spec.client.allow_hosts = vec!["127.0.0.1".into()];
    let files = vec![file("/secret", Some(5)), file(&format!("{}/open", plain.url), Some(5))];
    let outcome = run(&spec, &one_page(files), 1);
    assert_eq!((errors(&outcome), outcome.measured.counts.succeeded), (vec![], 20));
    assert_eq!((tls.seen().requests.len(), plain.requests.lock().unwrap().len()), (10, 10));
    assert_eq!(handshakes(&outcome).full, 1);
}

/// Pages with and without TLS: each goes to its own address, as often as the workload says, and the counts of
/// handshakes are those of the TLS server.
#[test]
fn pages_with_and_without_tls_go_to_an_address_each() {
    use super::peer::{Act, Peer};
    let identity = here();
    for (policy, share, full, resumed) in
        [(PerRequest, "0%", 20, 0), (PerRequest, "100%", 1, 19), (KeepAlive, "0%", 1, 0)]
    {
        let tls = TlsPeer::start(identity.config(false), |_| answering(ANSWER));
        let mut script = vec![Act::Write(ANSWER.to_vec())];
        script.extend((policy == PerRequest).then_some(Act::Finish));
        let plain = Peer::start(script);
        let mut spec = trusting(&tls, &identity, policy, 20);
        spec.target.insert(0, plain.url.clone());
        spec.client.tls.resume = share.parse().unwrap();
        let mut secret = file("/b", Some(5));
        secret.detail.tls = true;
        let workload = one_page(vec![file("/a", Some(5)), secret, file("/c", Some(5))]);
        let outcome = run(&spec, &workload, 1);
        assert_eq!((errors(&outcome), outcome.measured.counts.succeeded), (vec![], 60));
        let paths = |heads: &[String]| {
            let mut paths: Vec<String> =
                heads.iter().map(|head| head.split(' ').nth(1).unwrap().to_owned()).collect();
            paths.sort();
            (paths.len(), paths.first().cloned().unwrap(), paths.last().cloned().unwrap())
        };
        assert_eq!(paths(&plain.requests.lock().unwrap()), (40, "/a".into(), "/c".into()), "{policy:?}");
        assert_eq!(tls.seen().requests.len(), 20, "{policy:?}");
        let found = handshakes(&outcome);
        assert_eq!((found.full, found.resumed, found.failed), (full, resumed, 0), "{policy:?} {share}");
        assert_eq!((tls.seen().full, tls.seen().resumed), (full, resumed), "{policy:?} {share}");
        let connections = if policy == PerRequest { 60 } else { 2 };
        assert_eq!(outcome.measured.counts.connections, connections, "{policy:?}");
    }
}

/// A proxy that connects clients to the host that they ask for.
#[test]
fn a_proxy_is_asked_for_a_tunnel() {
    use std::io::{Read, Write};
    let identity = here();
    let peer = TlsPeer::start(identity.config(false), |_| answering(ANSWER));
    let proxy = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = proxy.local_addr().unwrap();
    let (port, asked) = (peer.port, std::sync::Arc::new(std::sync::Mutex::new(Vec::new())));
    let told = asked.clone();
    std::thread::spawn(move || {
        for client in proxy.incoming() {
            let (mut client, told) = (client.unwrap(), told.clone());
            std::thread::spawn(move || {
                let (mut head, mut byte) = (Vec::new(), [0]);
                while !head.ends_with(b"\r\n\r\n") && client.read(&mut byte).unwrap() == 1 {
                    head.push(byte[0]);
                }
                told.lock().unwrap().push(String::from_utf8(head).unwrap());
                let server = std::net::TcpStream::connect(("127.0.0.1", port)).unwrap();
                client.write_all(b"HTTP/1.1 200 Connection established\r\n\r\n").unwrap();
                let (mut up, mut down) = (client.try_clone().unwrap(), server.try_clone().unwrap());
                std::thread::spawn(move || {
                    let _ = std::io::copy(&mut up, &mut down);
                    let _ = down.shutdown(std::net::Shutdown::Write);
                });
                let (mut from, mut to) = (server, client);
                let _ = std::io::copy(&mut from, &mut to);
                let _ = to.shutdown(std::net::Shutdown::Write);
            });
        }
    });
    let mut spec = trusting(&peer, &identity, KeepAlive, 6);
    spec.client.proxy = Some(format!("http://{address}"));
    let outcome = run(&spec, &one_page(vec![file("/x", Some(5))]), 2);
    assert_eq!((errors(&outcome), outcome.measured.counts.succeeded), (vec![], 6));
    assert!(peer.seen().requests.iter().all(|head| head.starts_with("GET /x HTTP/1.1\r\n")));
    let asked = asked.lock().unwrap();
    assert_eq!(asked.len(), 2);
    // One tunnel per connection, a handshake in each, and each request once.
    let seen = peer.seen();
    assert_eq!((seen.full, seen.resumed, seen.requests.len()), (2, 0, 6));
    assert_eq!((handshakes(&outcome).full, outcome.measured.lifetime.connections), (2, 2));
    // The bytes through the tunnel, and those that ask for it.
    let answers = 2 * b"HTTP/1.1 200 Connection established\r\n\r\n".len() as u64;
    assert_eq!(outcome.measured.lifetime.received_bytes, seen.wrote + answers);
    let questions = asked.iter().map(String::len).sum::<usize>() as u64;
    assert_eq!(outcome.measured.response_bytes.sum, 6 * ANSWER.len() as u64);
    assert!(outcome.measured.lifetime.sent_bytes >= seen.read + questions);
    assert!(
        asked[0].starts_with(&format!("CONNECT 127.0.0.1:{port} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n"))
    );
}
