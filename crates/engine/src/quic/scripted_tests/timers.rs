//! What the client does when datagrams are lost, or late.

use super::*;

/// A server that hears nothing of the client's Finished is asked ever more rarely (RFC 9002 section 6.2.1).
#[test]
fn probes_of_the_handshake_back_off() {
    let mut pair = Pair::agreed(Version::V1);
    assert!(pair.lose() > 0);
    let mut sent_at = vec![pair.now_ns];
    while sent_at.len() < 8 {
        pair.wait();
        if pair.lose() > 0 {
            sent_at.push(pair.now_ns);
        }
    }
    let waits: Vec<u64> = sent_at.windows(2).map(|pair| pair[1] - pair[0]).collect();
    assert!(waits.windows(2).all(|pair| pair[1] == 2 * pair[0]), "{waits:?}");
    assert_eq!(pair.client.counts().probe_timeouts, 7);
}
