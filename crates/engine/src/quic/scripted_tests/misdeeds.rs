//! Each violation by a server is exactly one failure, and one code that the server is sent.

use super::*;
use crate::quic::retry;
use crate::quic::{Fault, QuicFailure, alert, code_name};

/// The class of a fault, without its words.
fn class(failure: &QuicFailure) -> std::mem::Discriminant<Fault> {
    let QuicFailure::Fault(fault) = failure else { panic!("{failure:?}") };
    std::mem::discriminant(fault)
}

fn frame(kind: u64, numbers: &[u64], bytes: &[u8]) -> Vec<u8> {
    let mut out = varint(kind);
    for number in numbers {
        out.extend(varint(*number));
    }
    out.extend(bytes);
    out
}

fn stream(id: u64, offset: u64, data: &[u8], is_last: bool) -> Vec<u8> {
    frame(0x0e | u64::from(is_last), &[id, offset, data.len() as u64], data)
}

fn new_id(sequence: u64, retire_prior_to: u64, byte: u8) -> Vec<u8> {
    frame(0x18, &[sequence, retire_prior_to, 6], &[[byte; 6].as_slice(), &[byte; 16]].concat())
}

#[test]
fn frames_that_break_the_protocol_have_one_class_each() {
    const MAX: u64 = varint::MAX;
    let frames_of = |parts: &[Vec<u8>]| parts.concat();
    let long = vec![b'x'; 1000];
    let cases: Vec<(&str, Vec<u8>, Fault)> = vec![
        ("no frames", vec![], Fault::Protocol("")),
        ("unknown type", frame(0x21, &[], b""), Fault::FrameEncoding("")),
        ("DATAGRAM", frame(0x31, &[1], b"x"), Fault::FrameEncoding("")),
        ("long type", vec![0x40, 0x01], Fault::Protocol("")),
        ("cut off", vec![0x10], Fault::FrameEncoding("")),
        ("ACK of an unsent packet", frame(2, &[1000, 0, 0, 0], b""), Fault::Protocol("")),
        ("ACK below zero", frame(2, &[1, 0, 0, 2], b""), Fault::FrameEncoding("")),
        ("past the stream's limit", stream(0, 99_990, &long, false), Fault::FlowControl("")),
        ("past 2^62", stream(0, MAX, b"xx", false), Fault::FrameEncoding("")),
        (
            "past the connection's limit",
            frames_of(&[stream(3, 90_000, b"x", false), stream(7, 90_000, b"x", false)]),
            Fault::FlowControl(""),
        ),
        (
            "data after the end",
            frames_of(&[stream(0, 5, b"", true), stream(0, 5, b"x", false)]),
            Fault::FinalSize,
        ),
        ("two ends", frames_of(&[stream(0, 5, b"", true), stream(0, 6, b"", true)]), Fault::FinalSize),
        (
            "end before data",
            frames_of(&[stream(0, 5, b"x", false), stream(0, 3, b"", true)]),
            Fault::FinalSize,
        ),
        (
            "reset before data",
            frames_of(&[stream(0, 5, b"x", false), frame(4, &[0, 1, 3], b"")]),
            Fault::FinalSize,
        ),
        ("reset past the limit", frame(4, &[0, 1, 100_001], b""), Fault::FlowControl("")),
        ("stream that was not opened", stream(4, 0, b"x", false), Fault::StreamState("")),
        ("the client's unidirectional stream", stream(2, 0, b"x", false), Fault::StreamState("")),
        ("bidirectional stream of the server", stream(1, 0, b"x", false), Fault::StreamLimit),
        ("too many unidirectional streams", stream(3 + 4 * 16, 0, b"x", false), Fault::StreamLimit),
        ("MAX_STREAM_DATA for an unopened stream", frame(0x11, &[4, 9], b""), Fault::StreamState("")),
        ("MAX_STREAM_DATA for the server's stream", frame(0x11, &[3, 9], b""), Fault::StreamState("")),
        ("STOP_SENDING for the server's stream", frame(5, &[3, 9], b""), Fault::StreamState("")),
        ("RESET_STREAM for the client's stream", frame(4, &[2, 0, 0], b""), Fault::StreamState("")),
        ("MAX_STREAMS above 2^60", frame(0x12, &[(1 << 60) + 1], b""), Fault::FrameEncoding("")),
        ("empty NEW_TOKEN", frame(7, &[0], b""), Fault::FrameEncoding("")),
        ("too many connection IDs", frames_of(&[new_id(1, 0, 1), new_id(2, 0, 2)]), Fault::ConnectionIdLimit),
        ("two IDs of one number", frames_of(&[new_id(1, 0, 1), new_id(1, 0, 2)]), Fault::Protocol("")),
        ("an ID of no bytes", frame(0x18, &[1, 0, 0], &[0; 16]), Fault::FrameEncoding("")),
        ("RETIRE_CONNECTION_ID", frame(0x19, &[0], b""), Fault::Protocol("")),
        ("PATH_RESPONSE", frame(0x1b, &[], &[1; 8]), Fault::Protocol("")),
        ("CRYPTO far ahead", frame(6, &[70_000, 1], b"x"), Fault::CryptoBuffer),
    ];
    for (name, frames, fault) in cases {
        let mut pair = Pair::confirmed(Version::V1);
        pair.say_frames(&frames);
        let failure = pair.client.failure().unwrap_or_else(|| panic!("{name}: no failure")).clone();
        assert_eq!(class(&failure), std::mem::discriminant(&fault), "{name}: {failure:?}");
        pair.flush();
        assert_eq!(pair.peer.closes, [(fault.code(), false)], "{name}");
        assert!(pair.client.is_closed(), "{name}");
    }
}

#[test]
fn frames_of_the_handshake_are_few() {
    for frames in
        [stream(0, 0, b"x", false), vec![HANDSHAKE_DONE], frame(0x1d, &[0, 0], b""), frame(0x10, &[9], b"")]
    {
        let mut pair = Pair::new(Version::V1, |_| {});
        pair.flush();
        let packet = pair.peer.packet(SpaceId::Initial, &frames);
        pair.say(&packet);
        assert!(matches!(pair.client.failure(), Some(QuicFailure::Fault(Fault::Protocol(_)))), "{frames:?}");
    }
}

#[test]
fn parameters_must_be_those_of_the_handshake() {
    let set = |id: u64, value: Vec<u8>| {
        move |parameters: &mut Parameters| {
            parameters.retain(|parameter| parameter.0 != id);
            parameters.push((id, value.clone()));
        }
    };
    let fail = |change: &dyn Fn(&mut Parameters)| {
        let mut pair = Pair::new(Version::V1, change);
        pair.shake();
        let failure = pair.client.failure().cloned();
        (failure, pair.peer.closes.first().copied())
    };
    type Change = Box<dyn Fn(&mut Parameters)>;
    let changes: Vec<Change> = vec![
        Box::new(set(0x00, b"other".to_vec())),
        Box::new(|parameters| parameters.retain(|parameter| parameter.0 != 0x00)),
        Box::new(set(0x0f, b"other".to_vec())),
        Box::new(|parameters| parameters.retain(|parameter| parameter.0 != 0x0f)),
        Box::new(set(0x10, ID.to_vec())),
        Box::new(set(0x03, varint(1000))),
        Box::new(set(0x0e, varint(1))),
        Box::new(set(0x02, vec![0; 4])),
        Box::new(|parameters| parameters.push((0x04, varint(1)))),
    ];
    for change in changes {
        let (failure, close) = fail(&*change);
        assert!(matches!(failure, Some(QuicFailure::Fault(Fault::TransportParameter(_)))), "{failure:?}");
        assert_eq!(close, Some((0x8, false)));
    }
    let other_version = set(0x11, [2_u32.to_be_bytes(), 1_u32.to_be_bytes()].concat());
    assert_eq!(
        fail(&other_version),
        (Some(QuicFailure::Fault(Fault::VersionNegotiation)), Some((0x11, false)))
    );
    assert_eq!(fail(&set(0x11, 1_u32.to_be_bytes().to_vec())), (None, None));
}

#[test]
fn tls_errors_are_alerts() {
    let mut pair = Pair::new(Version::V1, |_| {});
    pair.flush();
    // A message that a server must not send.
    let packet = pair.peer.packet(SpaceId::Initial, &frame(6, &[0, 4], &[1, 0, 0, 0]));
    pair.say(&packet);
    assert!(matches!(pair.client.failure(), Some(QuicFailure::Tls(_))), "{:?}", pair.client.failure());
    pair.flush();
    let code = pair.peer.closes[0].0;
    assert!(alert(code).is_some() && code_name(code) == "CRYPTO_ERROR", "{code:#x}");
}

#[test]
fn closes_are_told_with_code_and_reason() {
    let mut pair = Pair::confirmed(Version::V1);
    pair.say_frames(&frame(0x1d, &[0x101, 4], b"gone"));
    assert_eq!(pair.client.failure(), Some(&QuicFailure::ClosedByApplication(0x101, "gone".into())));
    let mut pair = Pair::confirmed(Version::V1);
    pair.say_frames(&frame(0x1c, &[0x3, 0x0f, 2], b"no"));
    assert_eq!(pair.client.failure(), Some(&QuicFailure::ClosedByPeer(0x3, 0x0f, "no".into())));
    assert_eq!(code_name(0x3), "FLOW_CONTROL_ERROR");
    // The client answers nothing to a close.
    pair.flush();
    assert!(pair.client.is_closed() && pair.peer.closes.is_empty());
    // During the handshake, a close of the application is sent as one of the transport.
    let mut pair = Pair::new(Version::V1, |_| {});
    pair.flush();
    pair.client.close(0x100, "bye");
    pair.flush();
    assert_eq!(pair.peer.closes, [(0x0c, false)]);
    let mut pair = Pair::confirmed(Version::V1);
    pair.client.close(0x100, "bye");
    pair.flush();
    assert_eq!(
        (&*pair.peer.closes, pair.client.failure()),
        (&[(0x100, true)][..], Some(&QuicFailure::ClosedHere))
    );
}

#[test]
fn a_stateless_reset_needs_the_token() {
    let mut pair = Pair::confirmed(Version::V1);
    let with = |token: [u8; 16]| [[0x5a; 30].as_slice(), &token].concat();
    pair.say(&with([8; 16]));
    assert_eq!(pair.client.failure(), None);
    pair.say(&with(RESET_TOKEN));
    assert_eq!(pair.client.failure(), Some(&QuicFailure::StatelessReset));
    pair.flush();
    assert!(pair.client.is_closed() && pair.peer.closes.is_empty());
}

/// Any datagram may be one: with the fixed bit cleared, or like a long head of this version, another, or none.
#[test]
fn a_stateless_reset_may_look_like_anything() {
    let long = [&[0xe3, 0, 0, 0, 1, 0, 0][..], &[0x40, 30], &[0x5a; 14]].concat();
    for (front, is_reset) in [
        (vec![0x5a; 5], true),
        (vec![0x5a; 4], false),
        (vec![0x1a; 20], true),
        (vec![0x9a; 20], true),
        (vec![0xc0; 20], true),
        (long, true),
    ] {
        let mut pair = Pair::confirmed(Version::V1);
        pair.say(&[&front[..], &RESET_TOKEN].concat());
        let failure = is_reset.then_some(&QuicFailure::StatelessReset);
        assert_eq!(pair.client.failure(), failure, "{front:x?}");
    }
    // A packet that could be decrypted comes first.
    let mut pair = Pair::new(Version::V1, |_| {});
    pair.shake();
    let packet = pair.peer.packet(SpaceId::Handshake, &[1]);
    pair.say(&[&packet[..], &[0x1a; 20], &RESET_TOKEN].concat());
    assert_eq!(pair.client.failure(), None);
}

#[test]
fn reserved_bits_must_be_zero() {
    let mut pair = Pair::confirmed(Version::V1);
    pair.peer.first_byte = 0x18;
    pair.say_frames(&[1]);
    assert!(matches!(pair.client.failure(), Some(QuicFailure::Fault(Fault::Protocol(_)))));
    let mut pair = Pair::new(Version::V1, |_| {});
    pair.flush();
    pair.peer.first_byte = 0x0c;
    let packet = pair.peer.packet(SpaceId::Initial, &[1]);
    pair.say(&packet);
    assert!(matches!(pair.client.failure(), Some(QuicFailure::Fault(Fault::Protocol(_)))));
}

#[test]
fn keys_follow_the_peer_but_not_too_early() {
    let mut pair = Pair::confirmed(Version::V1);
    pair.peer.update_keys();
    pair.say_frames(&stream(0, 0, b"one", false));
    // Two packets in a row are acknowledged at once, with the new keys.
    pair.say_frames(&stream(0, 3, b"two", false));
    pair.flush();
    assert_eq!(pair.client.counts().key_updates, 1);
    pair.peer.update_keys();
    pair.say_frames(&stream(0, 6, b"three", true));
    assert_eq!(pair.told.0, ["0: one", "0: two", "0: three end"]);
    assert_eq!((pair.client.counts().key_updates, pair.client.failure()), (2, None));
    // Nothing of this phase was acknowledged.
    pair.peer.update_keys();
    pair.say_frames(&[1]);
    assert_eq!(pair.client.failure(), Some(&QuicFailure::Fault(Fault::KeyUpdate)));
}

#[test]
fn handshake_packets_that_come_again_are_late() {
    let mut pair = Pair::new(Version::V1, |_| {});
    pair.flush();
    let answers = pair.peer.answers();
    answers.iter().for_each(|answer| pair.say(answer));
    pair.flush();
    // The Initial keys are gone, so those packets are late. The Handshake keys are not, so those packets are duplicates.
    let before = *pair.client.counts();
    answers.iter().for_each(|answer| pair.say(answer));
    let after = *pair.client.counts();
    assert_eq!(after.packets_late + after.packets_duplicate, answers.len() as u64);
    assert!(after.packets_late > 0 && after.packets_undecryptable == 0);
    let bytes: usize = answers.iter().map(Vec::len).sum();
    assert_eq!(after.received.ignored - before.received.ignored, bytes as u64);
}

#[test]
fn late_packets_of_old_keys_are_read() {
    let mut pair = Pair::confirmed(Version::V1);
    let late = pair.peer.packet(SpaceId::Data, &stream(0, 0, b"one", false));
    pair.peer.update_keys();
    pair.say_frames(&stream(0, 3, b"two", true));
    pair.say(&late);
    pair.say(&late);
    assert_eq!(pair.told.0, ["0: one", "0: two end"]);
    assert_eq!((pair.client.counts().packets_duplicate, pair.client.counts().frames_out_of_order), (1, 1));
}

#[test]
fn a_retry_is_obeyed_once_and_only_if_authentic() {
    let retry = |token: &[u8], id: &[u8]| {
        let mut packet = vec![0xf0, 0, 0, 0, 1, 0, id.len() as u8];
        packet.extend(id);
        packet.extend(token);
        let tag = retry::tag(Version::V1, b"original", &packet);
        packet.extend(tag);
        packet
    };
    let mut pair = Pair::new(Version::V1, |_| {});
    pair.flush();
    let mut forged = retry(b"token", b"retry");
    *forged.last_mut().unwrap() ^= 1;
    pair.say(&forged);
    pair.say(&retry(b"", b"retry"));
    pair.say(&retry(b"token", b"original"));
    assert_eq!((pair.client.counts().retries, pair.client.counts().retries_refused), (0, 3));
    pair.say(&retry(b"token", b"retry"));
    pair.say(&retry(b"other", b"second"));
    assert_eq!((pair.client.counts().retries, pair.client.counts().retries_refused), (1, 4));
    assert_eq!(pair.client.counts().packets_discarded, 1);
    // The ClientHello is sent again, to the new ID and with the token.
    let mut out = vec![0; 2000];
    let packed = pair.client.pack(pair.now_ns, &mut out).unwrap();
    assert_eq!(packed.bytes, 1200);
    assert_eq!(out[5..11], *b"\x05retry");
    assert_eq!(out[12..18], *b"\x05token");
    let mut peer =
        Peer::new(Version::V1, b"original", |parameters| parameters.push((0x10, b"retry".to_vec())));
    peer.keys[0] = Some(keys::initial(Version::V1, b"retry", Side::Server));
    peer.hear(&out[..packed.bytes]);
    pair.peer = peer;
    for answer in pair.peer.answers() {
        pair.say(&answer);
    }
    pair.shake();
    assert!(pair.client.is_agreed(), "{:?}", pair.client.failure());
}

#[test]
fn version_negotiation_counts_before_anything_else_alone() {
    let packet = |source: &[u8], versions: &[u32]| {
        let mut packet = vec![0x80, 0, 0, 0, 0, 0, source.len() as u8];
        packet.extend(source);
        versions.iter().for_each(|version| packet.extend(version.to_be_bytes()));
        packet
    };
    let mut pair = Pair::new(Version::V1, |_| {});
    pair.flush();
    pair.say(&packet(b"other", &[2]));
    pair.say(&packet(b"original", &[2, 1]));
    assert_eq!((pair.client.failure(), pair.client.counts().version_negotiations), (None, 2));
    pair.say(&packet(b"original", &[2, 3]));
    assert_eq!(pair.client.failure(), Some(&QuicFailure::Version([2, 3].into())));
    let mut late = Pair::confirmed(Version::V1);
    late.say(&packet(b"original", &[2]));
    assert_eq!(late.client.failure(), None);
}

#[test]
fn floods_end() {
    let mut pair = Pair::confirmed(Version::V1);
    for _ in 0..9 {
        pair.say_frames(&[1; 1100]);
    }
    assert_eq!(pair.client.failure(), None);
    pair.say_frames(&[1; 1100]);
    assert!(matches!(pair.client.failure(), Some(QuicFailure::Fault(Fault::Flood(_)))));
    let mut pieces = Pair::confirmed(Version::V1);
    for nth in 0..90 {
        let frames: Vec<u8> =
            (0..50_u64).flat_map(|at| stream(0, 1 + 2 * (50 * nth + at), b"x", false)).collect();
        pieces.say_frames(&frames);
    }
    assert!(matches!(pieces.client.failure(), Some(QuicFailure::Fault(Fault::Flood(_)))));
}

#[test]
fn streams_end_as_the_server_says() {
    let mut pair = Pair::confirmed(Version::V2);
    pair.say_frames(&[stream(3, 0, b"control", false), stream(0, 0, b"he", false)].concat());
    pair.say_frames(&[frame(5, &[0, 9], b""), frame(4, &[0, 8, 40], b"")].concat());
    pair.say_frames(&stream(0, 2, b"late", false));
    // The request was sent, but not acknowledged: it is reset in turn.
    assert_eq!(pair.told.0, ["3: control", "0: he", "0: stopped 9", "0: reset 8"]);
    pair.flush();
    assert!(
        pair.peer.heard.contains(&"ResetStream { stream: 0, code: 9, final_size: 7 }".to_owned()),
        "{:?}",
        pair.peer.heard
    );
    // A path challenge is answered in a full datagram.
    pair.say_frames(&frame(0x1a, &[], b"12345678"));
    pair.flush();
    assert!(pair.peer.heard.iter().any(|frame| frame.starts_with("PathResponse")) && pair.peer.was_full);
    // An ID is retired.
    pair.say_frames(&new_id(1, 1, ID[0]));
    assert!(
        matches!(pair.client.failure(), Some(QuicFailure::Fault(Fault::Protocol(_)))),
        "two numbers for one ID"
    );
}

#[test]
fn windows_are_extended_as_data_is_delivered() {
    let mut pair = Pair::confirmed(Version::V1);
    let chunk = vec![b'x'; 1000];
    for nth in 0..300 {
        pair.say_frames(&stream(0, 1000 * nth, &chunk, false));
        pair.flush();
        assert_eq!(pair.client.failure(), None, "chunk {nth}");
    }
    assert!(pair.peer.heard.iter().filter(|frame| frame.starts_with("MaxStreamData")).count() >= 4);
    assert!(pair.peer.heard.iter().filter(|frame| frame.starts_with("MaxData")).count() >= 3);
    assert_eq!(pair.client.counts().received.stream_new, 300_000);
}
