//! Where a TLS connection begins and ends: the client acts on close_notify, and on bytes that nobody asked for.

use super::peer::{errors, file, one_page, run, spec};
use super::tls_peer::{End, Identity, Script, TlsPeer};
use webstone_measure::errors::ErrorClass;
use webstone_measure::units::Nanos;
use webstone_workload::load::ConnectionPolicy::{self, KeepAlive, PerRequest};
use webstone_workload::load::GeneratorTask;

const ANSWER: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello";

fn here() -> Identity {
    Identity::for_name("127.0.0.1", 2090)
}

fn trusting(peer: &TlsPeer, identity: &Identity, policy: ConnectionPolicy, pages: u64) -> GeneratorTask {
    let mut spec = spec(&peer.url, policy, pages);
    spec.client.tls.cacert = identity.cacert();
    spec
}

/// Like Jetty, a server may wait for the client's close_notify before it sends FIN (RFC 5246, section 7.2.1): it gets one at
/// once, and nobody waits for two seconds.
#[test]
fn a_close_notify_is_answered_by_one() {
    for ends in [End::Mutual, End::MutualLater] {
        let identity = here();
        let script = Script { answer: ANSWER.into(), ends: Some(ends), ..Script::default() };
        let peer = TlsPeer::start(identity.config(false), move |_| script.clone());
        let mut spec = trusting(&peer, &identity, PerRequest, 3);
        spec.load.drain = Nanos::from_secs(20);
        let outcome = run(&spec, &one_page(vec![file("/x", Some(5))]), 1);
        assert_eq!((errors(&outcome), outcome.measured.counts.succeeded), (vec![], 3), "{ends:?}");
        assert_eq!((outcome.measured.counts.lingered, peer.seen().notified), (0, 3), "{ends:?}");
    }
}

/// An idle connection that the server has ended carries no further request, though its FIN waits for the client's
/// close_notify (RFC 9112, section 9.8). A POST would not be sent again.
#[test]
fn a_kept_connection_that_the_server_has_ended_is_not_used() {
    for ends in [End::Mutual, End::MutualLater] {
        let identity = here();
        let script = Script { answer: ANSWER.into(), ends: Some(ends), ..Script::default() };
        let peer = TlsPeer::start(identity.config(false), move |_| script.clone());
        let mut spec = trusting(&peer, &identity, KeepAlive, 3);
        // A POST that is sent after the end is never answered.
        spec.client.first_byte_timeout = Nanos::from_secs(30);
        spec.client.method = "POST".into();
        let mut workload = one_page(vec![file("/x", Some(5))]);
        workload.pages[0].think = Nanos::from_secs(3);
        let outcome = run(&spec, &workload, 1);
        let counts = &outcome.measured.counts;
        assert_eq!((errors(&outcome), counts.succeeded), (vec![], 3), "{ends:?}");
        assert_eq!((counts.connections, counts.stale_retries, counts.surplus), (3, 0, 0), "{ends:?}");
        assert!(peer.seen().notified >= 2, "{ends:?}: {:?}", peer.seen());
    }
}

/// An answer that comes before its request answers nothing.
#[test]
fn bytes_with_the_end_of_the_handshake_are_malformed() {
    let identity = here();
    let mut config = identity.config(false);
    config.send_half_rtt_data = true;
    let script = Script { answer: ANSWER.into(), ahead: ANSWER.into(), ..Script::default() };
    let peer = TlsPeer::start(config, move |_| script.clone());
    let outcome = run(&trusting(&peer, &identity, KeepAlive, 3), &one_page(vec![file("/x", Some(5))]), 1);
    assert_eq!(errors(&outcome), [(ErrorClass::Malformed, 3)], "{:?}", outcome.measured.errors);
    assert!(peer.seen().requests.is_empty());
}
