//! Clients with lines of their own: a body of known size takes a known time, to the nanosecond. A line of 14.4 kbit/s
//! brings 1,800 bytes per second, in pieces of 90 bytes, each of which takes 50 ms.

use webstone_workload::load::ConnectionPolicy::{self, KeepAlive, PerPage, PerRequest};

use super::*;

/// An answer of this many bytes, its head included.
fn answer(bytes: usize) -> Vec<u8> {
    let head = response(0).len() - 1;
    let answer = (1..6).map(|digits| response(bytes - head - digits)).find(|answer| answer.len() == bytes);
    answer.expect("its length has some digits")
}

fn level(policy: ConnectionPolicy, urls: &[&str], duration_ns: u64) -> Level {
    let mut level = Level::new(policy, urls, duration_ns);
    level.spec.client.bandwidth = Some("14.4k".parse().unwrap());
    level
}

/// A connection takes 400 µs, the server 1 ms, the answer a second.
#[test]
fn an_answer_takes_as_long_as_the_line_needs() {
    for (policy, connects) in [(PerRequest, 3), (PerPage, 3), (KeepAlive, 1)] {
        for segment_bytes in [usize::MAX, 100, 7, 1] {
            let mut level = level(policy, &["/"], 3_003 * MS + connects * 400 * US + 1);
            level.wire.segment_bytes = segment_bytes;
            let whole = answer(1800);
            let measured = level.run(server(400 * US, |_, _| vec![Act::Wait(MS), Act::Write(whole.clone())]));
            assert_eq!((errors(&measured), measured.counts.connections), (vec![], connects), "{policy:?}");
            let with = |ns: u64| [(ns + 400 * US, connects), (ns, 3 - connects)];
            are("response", &measured.response, &measured.histograms.response, &with(1_001 * MS));
            are("first byte", &measured.first_byte, &measured.histograms.first_byte, &with(51 * MS));
            assert_eq!(measured.counts.body_bytes + measured.counts.head_bytes, 5400);
        }
    }
}

/// Where the network is slower than the line, the line adds the time of the last segment alone.
#[test]
fn a_line_that_is_not_full_adds_what_its_last_piece_takes() {
    let mut level = level(KeepAlive, &["/"], 2 * SECOND);
    level.wire.segment_bytes = 100;
    level.wire.bytes_per_s = Some(1000);
    // The request, too, takes its time.
    let mut asked_ns = 0;
    let measured = level.run(server(0, |now_ns, _| {
        asked_ns = now_ns;
        vec![Act::Write(answer(1800))]
    }));
    assert_eq!(measured.counts.succeeded, 1);
    // 90 bytes, then 10.
    assert_eq!(measured.response.min, asked_ns + 1_800 * MS + 50 * MS + 5_555_555);
}

/// A page's first file, then two at once: each has half of the line, which brings one piece after the other.
#[test]
fn the_connections_of_a_client_share_its_line() {
    let mut level = level(KeepAlive, &["/a", "/b", "/c"], 1_102_400 * US + 1);
    level.spec.client.parallel = 2;
    let measured = level.run(server(400 * US, |_, request| {
        let bytes = if request.starts_with("GET /a") { 180 } else { 900 };
        vec![Act::Wait(MS), Act::Write(answer(bytes))]
    }));
    let times = [(101_400 * US, 1), (951 * MS, 1), (1_001 * MS, 1)];
    are("response", &measured.response, &measured.histograms.response, &times);
    are("page", &measured.page, &measured.histograms.page, &[(1_102_400 * US, 1)]);
}

#[test]
fn each_client_has_a_line_in_open_loop_too() {
    let mut level = level(KeepAlive, &["/"], 10 * SECOND);
    (level.rate, level.clients) = (Some("4".into()), 8);
    let measured = level.run(server(0, |_, _| vec![Act::Wait(MS), Act::Write(answer(1800))]));
    let open_loop = measured.open_loop.as_ref().unwrap();
    assert_eq!((open_loop.planned, open_loop.waited), (40, 0));
    // Every 250 ms one begins; those that take longer than the window are cut.
    are("response", &measured.response, &measured.histograms.response, &[(1_001 * MS, 36)]);
}

/// What a server sends beyond its answer, or a connection that it resets, is noticed at once.
#[test]
fn trouble_on_a_line_is_noticed() {
    let surplus = || [answer(90), b"surplus".to_vec()].concat();
    let measured = level(KeepAlive, &["/"], SECOND).run(server(0, |_, _| vec![Act::Write(surplus())]));
    assert!(
        measured.counts.surplus + measured.errors.count(ErrorClass::Malformed) > 5,
        "{:?}",
        measured.counts
    );
    let cut = || vec![Act::Write(answer(1800)[..500].to_vec()), Act::Finish];
    let measured = level(KeepAlive, &["/"], SECOND).run(server(0, |_, _| cut()));
    assert_eq!(
        errors(&measured).iter().map(|(class, _)| *class).collect::<Vec<_>>(),
        [ErrorClass::ShortBody]
    );
}
