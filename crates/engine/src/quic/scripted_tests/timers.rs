//! What the client does when datagrams are lost, or late.

use super::*;

/// Answers a stream of requests in one packet, which also acknowledges all that the client has sent.
fn answer(pair: &mut Pair, stream: u64) {
    let largest = pair.peer.heard_numbers[SpaceId::Data as usize].unwrap();
    let ack = [&[2][..], &varint(largest), &[0, 0], &varint(largest)].concat();
    let data = [&[0x0b][..], &varint(stream), &[2], b"ok"].concat();
    pair.say_frames(&[ack, data].concat());
}

fn ask(pair: &mut Pair) {
    let stream = pair.client.open_bi(0).unwrap();
    pair.client.write(stream, b"request", true);
}

/// A pair with as many requests in progress, of which more may follow.
fn asking(count: usize) -> Pair {
    let mut pair = Pair::confirmed(Version::V1);
    pair.say_frames(&[&[0x12][..], &varint(10_000)].concat());
    (1..count).for_each(|_| ask(&mut pair));
    pair.flush();
    pair
}

/// While other answers are awaited, the end of one is acknowledged like the middle of a body, as the server may wait for that.
#[test]
fn ends_of_answers_are_acknowledged_soon_while_others_are_awaited() {
    let mut pair = asking(3);
    answer(&mut pair, 0);
    assert_eq!(pair.client.due_ns(), Some(pair.now_ns + 23 * MS));
    answer(&mut pair, 4);
    assert_eq!(pair.client.due_ns(), Some(0));
    pair.flush();
    // Nothing more is awaited: the next request carries the acknowledgement.
    answer(&mut pair, 8);
    pair.say_frames(&[1]);
    assert_eq!(pair.client.due_ns(), Some(pair.now_ns - MS + 23 * MS));
}

/// In closed loop each answer causes a request, which carries the acknowledgement.
#[test]
fn requests_that_follow_answers_carry_the_acknowledgements() {
    for streams in [1, 2, 3, 8] {
        let mut pair = asking(streams);
        let before = pair.client.counts().ack_packets_sent;
        let mut first = 0;
        for round in 0..100 {
            // In one flush, up to as many answers as are awaited.
            let answered = 1 + round % streams;
            for _ in 0..answered {
                answer(&mut pair, 4 * first);
                ask(&mut pair);
                first += 1;
            }
            let packets = pair.client.counts().packets_sent;
            pair.flush();
            assert_eq!(pair.client.counts().packets_sent, packets + 1);
        }
        assert_eq!(pair.client.counts().ack_packets_sent, before, "{streams} streams");
    }
}

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

/// The client's Finished and a request are lost together, and repaired by one probe timeout (RFC 9002 section 6.2.4).
#[test]
fn probes_of_the_handshake_bring_requests_along() {
    let mut pair = Pair::agreed(Version::V1);
    ask(&mut pair);
    assert_eq!(pair.lose(), 1);
    while pair.client.counts().probe_timeouts == 0 {
        pair.wait();
    }
    pair.flush();
    assert!(pair.peer.crypto_heard[SpaceId::Handshake as usize] > 0);
    assert!(
        pair.peer.heard.iter().any(|frame| frame.starts_with("Stream { stream: 0")),
        "{:?}",
        pair.peer.heard
    );
    assert_eq!(pair.client.counts().probe_timeouts, 1);
}
