//! HTTP/2 settings of clients with a peer of raw frames: the exact bytes with which a connection begins, and that the
//! client enforces its limits.

use super::frame_peer::{Act, Peer, answer, data, frame, h2, headers, settings};
use super::peer::{errors, file, impatient, one_page, run};
use webstone_engine::LevelOutcome;
use webstone_engine::h2::frames::{flag, kind};
use webstone_engine::h2::hpack::encoder::{self, Literal};
use webstone_measure::errors::ErrorClass;
use webstone_workload::load::ConnectionPolicy::{KeepAlive, PerRequest};

/// What a frame peer received on a connection: type, stream, payload.
type Told = Vec<(u8, u32, Vec<u8>)>;

/// SETTINGS (type 4) with identifiers of 16 bits and values of 32, and WINDOW_UPDATE (type 8) for the connection.
fn opening(settings: &[(u16, u32)], increment: Option<u32>) -> Told {
    let payload =
        settings.iter().flat_map(|(id, value)| [&id.to_be_bytes()[..], &value.to_be_bytes()].concat());
    let window = increment.map(|bytes| (8, 0, bytes.to_be_bytes().to_vec()));
    std::iter::once((4, 0, payload.collect())).chain(window).collect()
}

/// Fetches a page of one file with these settings, from a peer that answers with these bytes. Errors must be of this
/// class.
fn fetched(
    settings_text: &str,
    size: u64,
    class: ErrorClass,
    bytes: impl Fn(u32) -> Vec<u8> + Send + Sync + 'static,
) -> LevelOutcome {
    let peer = Peer::start(settings(&[]), move |seen| vec![Act::Write(bytes(seen.stream))]);
    let mut spec = impatient(h2(&peer.url, KeepAlive, 1), class);
    spec.client.http2_settings = settings_text.parse().unwrap();
    run(&spec, &one_page(vec![file("/x", Some(size))]), 1)
}

fn head(stream: u32) -> Vec<u8> {
    headers(stream, 0, &[(":status", "200")])
}

#[test]
fn a_connection_begins_with_the_settings_that_were_asked_for() {
    for (text, settings_sent, increment) in [
        (None, &[(2, 0), (4, 1_073_741_823)][..], Some(1_073_676_288)),
        (Some("chrome"), &[(1, 65_536), (2, 0), (4, 6_291_456), (6, 262_144)], Some(15_663_105)),
        (Some("firefox"), &[(1, 65_536), (2, 0), (4, 131_072), (5, 16_384)], Some(12_517_377)),
        (Some("window=7,connection-window=65535"), &[(2, 0), (4, 7)], None),
    ] {
        let peer = Peer::start(settings(&[]), |seen| vec![Act::Write(answer(seen.stream))]);
        let mut spec = h2(&peer.url, PerRequest, 2);
        if let Some(text) = text {
            spec.client.http2_settings = text.parse().unwrap();
        }
        let outcome = run(&spec, &one_page(vec![file("/x", Some(2))]), 1);
        assert_eq!((errors(&outcome), outcome.measured.counts.succeeded), (vec![], 2), "{text:?}");
        let expected = opening(settings_sent, increment);
        // Both connections begin in this way.
        assert_eq!(peer.log.lock().unwrap().told, [expected.clone(), expected].concat(), "{text:?}");
    }
}

#[test]
fn windows_are_raised_when_half_is_used() {
    // A stream's window is raised after 600 of 1,000 bytes; the rest then fits.
    let peer = Peer::start(settings(&[]), |seen| {
        let begin = [head(seen.stream), data(seen.stream, 0, &[b'x'; 600])].concat();
        vec![Act::Write(begin), Act::Write(data(seen.stream, flag::END_STREAM, &[b'x'; 1_000]))]
    });
    let mut spec = h2(&peer.url, KeepAlive, 2);
    spec.client.http2_settings = "window=1000,connection-window=65535".parse().unwrap();
    let outcome = run(&spec, &one_page(vec![file("/x", Some(1_600))]), 1);
    assert_eq!((errors(&outcome), outcome.measured.counts.succeeded), (vec![], 2));
    // Those for the first answer come before the second request.
    let told: Told = peer.log.lock().unwrap().told.clone();
    let raised: Vec<_> =
        told.into_iter().filter(|frame| frame.0 == kind::WINDOW_UPDATE && frame.1 == 1).collect();
    assert_eq!(raised, [(8, 1, 600_u32.to_be_bytes().to_vec())]);
}

#[test]
fn a_server_is_held_to_the_windows() {
    let class = ErrorClass::H2FlowControl;
    for (text, sent, fits) in [
        ("window=1000,connection-window=65535", 1_000, true),
        ("window=1000,connection-window=65535", 1_001, false),
        // The connection's window is raised only by what has been read.
        ("window=1000000,connection-window=65535", 16_384, true),
        ("firefox", 16_384, true),
        ("window=1", 2, false),
    ] {
        let bytes = vec![b'x'; sent];
        let outcome = fetched(text, sent as u64, class, move |stream| {
            [head(stream), data(stream, flag::END_STREAM, &bytes)].concat()
        });
        let expected = if fits { vec![] } else { vec![(class, 1)] };
        assert_eq!(errors(&outcome), expected, "{text} {sent}");
    }
}

#[test]
fn frames_may_be_as_large_as_the_server_was_told() {
    let class = ErrorClass::H2FrameSize;
    for (text, fits) in [("frame=20000", true), ("frame=19999", false), ("window=100000", false)] {
        let outcome = fetched(text, 20_000, class, |stream| {
            [head(stream), data(stream, flag::END_STREAM, &[b'x'; 20_000])].concat()
        });
        let expected = if fits { vec![] } else { vec![(class, 1)] };
        assert_eq!(errors(&outcome), expected, "{text}");
    }
}

#[test]
fn the_table_of_header_fields_may_be_as_large_as_the_server_was_told() {
    let class = ErrorClass::H2Compression;
    for (text, fits) in
        [("header-table=8192", true), ("chrome", true), ("header-table=8191", false), ("window=10", false)]
    {
        let outcome = fetched(text, 0, class, |stream| {
            let mut block = Vec::new();
            encoder::table_size(8192, &mut block);
            encoder::field(":status", b"200", Literal::Plain, &mut block);
            frame(kind::HEADERS, flag::END_HEADERS | flag::END_STREAM, stream, &block)
        });
        let expected = if fits { vec![] } else { vec![(class, 1)] };
        assert_eq!(errors(&outcome), expected, "{text}");
    }
}
