//! Which differences of the load forbid a comparison.

use super::*;
use webstone_measure::metrics::Handshakes;
use webstone_measure::rate::{Rate, RateProfile, Rates};
use webstone_model::fixture::{record, timed};
use webstone_model::spec::QuicVersion;
use webstone_workload::tls::{Share, TlsCipher, TlsGroup, TlsVersion};

/// Differences as `what: baseline against candidate`.
fn forbidden(a: &RunRecord, b: &RunRecord) -> Vec<String> {
    let forbids = differences(a, b).into_iter().filter(|one| one.weight == Weight::Forbids);
    forbids.map(|one| format!("{}: {} against {}", one.what, one.baseline, one.candidate)).collect()
}

#[test]
fn how_tls_is_spoken_forbids_a_comparison_where_it_is() {
    let mut a = record("a", &[(1, &[1.0])]);
    a.target.url = "https://127.0.0.1:1".to_owned();
    type Change = fn(&mut TlsSpec);
    let changes: [(Change, &str); 8] = [
        (|tls| tls.resume = Share::ALL, "resumed handshakes: 0% against 100%"),
        (|tls| tls.versions = vec![TlsVersion::Tls13], "TLS versions: 1.2, 1.3 against 1.3"),
        (
            |tls| tls.groups = vec![TlsGroup::X25519],
            "TLS groups: X25519, secp256r1, secp384r1 against X25519",
        ),
        (|tls| tls.verify = false, "certificates are verified: yes against no"),
        (|tls| tls.early_data = true, "early data: no against yes"),
        (|tls| tls.alpn = vec!["h2".to_owned()], "protocols offered (ALPN): that of HTTP against h2"),
        (|tls| tls.cert = Some("a.pem".to_owned()), "client's certificate: no against yes"),
        (|tls| tls.ciphers.truncate(1), "TLS cipher suites: TLS_AES_128_GCM_SHA256, "),
    ];
    for (change, told) in changes {
        let mut b = a.clone();
        change(&mut b.spec.client.tls);
        let found = forbidden(&a, &b);
        assert!(found.len() == 1 && found[0].starts_with(told), "{found:?}");
    }
    assert_eq!(a.spec.client.tls.ciphers, TlsCipher::ALL);
    // Where files are is no difference of the load.
    let mut b = a.clone();
    b.spec.client.tls.cacert = Some("elsewhere/ca.pem".to_owned());
    b.spec.client.tls.key_log = Some("keys".to_owned());
    assert_eq!(forbidden(&a, &b), [""; 0]);
    // Nor what TLS would be like where none is spoken.
    let [mut plain, mut other] = [a.clone(), a.clone()];
    plain.target.url = "http://127.0.0.1:1".to_owned();
    other.target.url.clone_from(&plain.target.url);
    other.spec.client.tls.verify = false;
    assert_eq!(forbidden(&plain, &other), [""; 0]);
    // A page over TLS is enough.
    other.iterations[0].measured.handshakes = Some(Handshakes::default());
    assert_eq!(forbidden(&plain, &other), ["certificates are verified: yes against no"]);
}

#[test]
fn with_tls_and_without_it_forbids_a_comparison() {
    let a = record("a", &[(1, &[1.0])]);
    let mut b = a.clone();
    b.target.url = "https://127.0.0.1:1".to_owned();
    b.spec.server.tls = Some(Default::default());
    assert_eq!(forbidden(&a, &b), ["scheme of the target: http against https"]);
    // TLS at a second listener, for some of the pages.
    b.target.url.clone_from(&a.target.url);
    assert_eq!(forbidden(&a, &b), ["the server that webstone starts has TLS: no against yes"]);
    // Another server is what a comparison is made for, one that webstone does not start, too.
    let mut a = b.clone();
    a.spec.target = vec!["http://127.0.0.1:1".to_owned()];
    a.spec.server.tls = None;
    assert_eq!(forbidden(&a, &b), [""; 0]);
}

#[test]
fn the_version_of_quic_and_the_choice_of_pages_forbid_a_comparison() {
    let a = record("a", &[(1, &[1.0])]);
    let mut b = a.clone();
    b.spec.client.quic_version = QuicVersion::V2;
    b.spec.load.repetitions = Some(10);
    assert_eq!(
        forbidden(&a, &b),
        ["choice of pages: drawn by weight against each 10 times", "version of QUIC: 1 against 2"]
    );
}

/// Clients stand by in open loop, and a level of it is found by its rate: with more of them, more arrivals are served at once.
#[test]
fn the_clients_of_a_rate_that_both_have_forbid_a_comparison() {
    let of = |levels: &[(u32, u32)]| {
        let rates: Vec<(u32, &[f64])> = levels.iter().map(|(clients, _)| (*clients, &[10.0][..])).collect();
        let mut record = record("a", &rates);
        let profile = |rate: u32| RateProfile::constant(Rate::per_second(rate));
        for (run, (_, rate)) in record.iterations.iter_mut().zip(levels) {
            run.rate = Some(profile(*rate));
        }
        record.spec.load.rate = Some(Rates(levels.iter().map(|(_, rate)| profile(*rate)).collect()));
        record
    };
    let (one, two) = (of(&[(50, 1000)]), of(&[(500, 1000), (500, 10_000)]));
    assert_eq!(forbidden(&one, &two), ["clients at 1,000 arrivals/s: 50 against 500"]);
    assert_eq!(forbidden(&one, &of(&[(50, 1000), (500, 10_000)])), [""; 0]);
    let three = of(&[(50, 1000), (50, 10_000)]);
    assert_eq!(forbidden(&three, &two), ["clients at 1,000, 10,000 arrivals/s: 50 against 500"]);
    // In closed loop the clients are the level.
    let (a, b) = (record("a", &[(1, &[1.0])]), record("b", &[(2, &[1.0])]));
    assert_eq!(forbidden(&a, &b), [""; 0]);
}

#[test]
fn a_machine_that_was_slower_in_one_of_both_is_noted() {
    let a = timed("box", &[5_000, 5_200]);
    let noted = |b: &RunRecord| {
        let speeds = differences(&a, b).into_iter().filter(|one| one.what.starts_with("speed"));
        let told = |one: Difference| format!("{}: {} against {}", one.what, one.baseline, one.candidate);
        speeds.inspect(|one| assert_eq!(one.weight, Weight::Noted)).map(told).collect::<Vec<_>>()
    };
    let slower = "speed of CPU 0: 5.10 µs for the fixed work against 5.61 µs for the fixed work (10 % more)";
    assert_eq!(noted(&timed("box", &[5_610; 3])), [slower]);
    let faster = "speed of CPU 0: 5.10 µs for the fixed work (20 % more) against 4.25 µs for the fixed work";
    assert_eq!(noted(&timed("box", &[4_250])), [faster]);
    assert_eq!(noted(&timed("box", &[5_200])), [""; 0], "as runs differ that follow each other");
    assert_eq!(noted(&timed("another", &[9_000])), [""; 0]);
}

#[test]
fn a_first_level_of_fewer_clients_than_workers_is_no_other_load() {
    let worker = |cpu| WorkerUse { cpu: Some(cpu), ..WorkerUse::default() };
    let mut a = record("a", &[(1, &[1.0]), (8, &[1.0])]);
    a.iterations[0].measured.generator.workers = vec![worker(2)];
    a.iterations[1].measured.generator.workers = vec![worker(2), worker(3)];
    // A void window is made again at the end.
    let mut b = a.clone();
    b.iterations.reverse();
    assert_eq!(forbidden(&a, &b), [""; 0]);
    b.iterations[0].measured.generator.workers.pop();
    assert_eq!(forbidden(&a, &b), ["generator's workers: 2 on CPU 2,3 against 1 on CPU 2"]);
}
