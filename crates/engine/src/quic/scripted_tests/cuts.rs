//! Datagrams cut at every byte, and with every bit changed: they are ignored, and the original still works.

use super::*;

/// Delivers a datagram in all its corrupted forms, then as it is.
fn spoil(pair: &mut Pair, datagram: &[u8]) {
    let has_failed = |pair: &Pair, what: &str, at: usize| {
        assert_eq!(pair.client.failure(), None, "{what} {at} of {}", datagram.len());
    };
    for end in 0..datagram.len() {
        pair.client.hear(pair.now_ns, &mut datagram[..end].to_vec(), 0, &mut pair.told);
        has_failed(pair, "cut at", end);
    }
    for bit in 0..8 * datagram.len() {
        let mut changed = datagram.to_vec();
        changed[bit / 8] ^= 1 << (bit % 8);
        pair.client.hear(pair.now_ns, &mut changed, 0, &mut pair.told);
        has_failed(pair, "bit", bit);
    }
    let before = pair.client.counts().packets_received;
    pair.say(datagram);
    assert_eq!(pair.client.counts().packets_received, before + 1);
}

#[test]
fn spoilt_datagrams_are_ignored() {
    for version in [Version::V1, Version::V2] {
        let mut pair = Pair::new(version, |_| {});
        while !pair.client.is_agreed() {
            pair.flush();
            for answer in pair.peer.answers() {
                spoil(&mut pair, &answer);
            }
        }
        pair.shake();
        let done = pair.peer.packet(SpaceId::Data, &[HANDSHAKE_DONE]);
        spoil(&mut pair, &done);
        assert!(pair.client.is_confirmed());
        let stream = pair.client.open_bi(0).unwrap();
        pair.client.write(stream, b"request", true);
        pair.flush();
        let frames = [&[0x0f, 0, 0, 5][..], b"hello"].concat();
        let answer = pair.peer.packet(SpaceId::Data, &frames);
        spoil(&mut pair, &answer);
        assert_eq!(pair.told.0, ["0: hello end"]);
    }
}

/// Frames cut at every byte, in authentic packets.
#[test]
fn frames_cut_at_every_byte_are_read_or_refused() {
    let frames: Vec<u8> = [
        &[0x02, 0, 0, 0, 0][..],
        &[0x0f, 0, 0, 5],
        b"hello",
        &[0x0a, 3, 4],
        b"more",
        &[0x10, 9, 0x12, 20, 0x11, 0, 50, 0x1a, 1, 2, 3, 4, 5, 6, 7, 8],
        &[0x18, 1, 0, 4, 1, 2, 3, 4],
        &[5; 16],
        &[0x07, 2, 1, 2, 0x1e, 0, 0, 0],
    ]
    .concat();
    for end in 1..=frames.len() {
        let mut pair = Pair::confirmed(Version::V1);
        pair.say_frames(&frames[..end]);
        if let Some(failure) = pair.client.failure() {
            assert!(
                matches!(failure, crate::quic::QuicFailure::Fault(crate::quic::Fault::FrameEncoding(_))),
                "{failure:?}"
            );
        }
    }
}
