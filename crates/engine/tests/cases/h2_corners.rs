//! What HTTP/2 servers may do, and what they may not, besides single frames: with a peer that speaks frame by frame.

use super::frame_peer::{Act, Peer, answer, get, h2, numbers, settings, succeeds};
use super::peer::{one_page, run};
use webstone_engine::h2::frames::{kind, setting};
use webstone_workload::load::ConnectionPolicy::KeepAlive;

/// The window of a connection before its first WINDOW_UPDATE, in bytes.
const WINDOW: usize = 65_535;

/// Go's server raises both windows by what it has read, a few KiB at a time.
#[test]
fn an_upload_may_take_any_number_of_window_updates() {
    const UPDATES: usize = 5_100;
    let raised = [numbers(kind::WINDOW_UPDATE, 0, &[10]), numbers(kind::WINDOW_UPDATE, 1, &[10])].concat();
    let greeting = [settings(&[(setting::INITIAL_WINDOW_SIZE, WINDOW as u32)]), raised.repeat(UPDATES)];
    let peer = Peer::start(greeting.concat(), |seen| vec![Act::Write(answer(seen.stream))]);
    let mut spec = h2(&peer.url, KeepAlive, 1);
    spec.client.method = "POST".into();
    spec.client.body = Some("x".repeat(WINDOW + 10 * UPDATES));
    let outcome = run(&spec, &one_page(get(Some(2))), 1);
    succeeds(&outcome, 1);
    assert_eq!(peer.log.lock().unwrap().seen[0].body.len(), WINDOW + 10 * UPDATES);
}
