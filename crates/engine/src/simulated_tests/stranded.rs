//! Requests that wait on a link which takes no more: they begin on another one at once.

use std::cell::Cell;

use webstone_measure::metrics::Handshake;
use webstone_workload::load::ConnectionPolicy::KeepAlive;
use webstone_workload::load::HttpVersion;

use super::shared_links::Framed;
use super::*;
use crate::h1::pipeline::Pipelined;
use crate::h2::session::Http2;
use crate::session::AnswerError;

/// Four clients with up to two requests each share a pipeline of four. Their first answers come at 14, 24, 34 and 44 ms, and the next
/// takes longer than its request may: it times out at 74 ms. The three after it are answered in time. Four more wait for their turn.
#[test]
fn requests_that_wait_for_a_pipeline_that_is_given_up_go_elsewhere() {
    let mut level = Level::new(KeepAlive, &["/a", "/b", "/c"], 150 * MS);
    level.spec.client.pipeline = 4;
    level.spec.client.parallel = 2;
    level.spec.client.first_byte_timeout = Nanos(60 * MS);
    level.clients = 4;
    level.wire.latency_ns = MS;
    // Answers come in order.
    let (mut asked, free_ns) = (0, Cell::new(0));
    let peer = server(2 * MS, move |now_ns, _| {
        asked += 1;
        let takes_ns = match asked {
            ..=4 => 10 * MS,
            5 => 33 * MS,
            _ => MS,
        };
        free_ns.set(free_ns.get().max(now_ns) + takes_ns);
        vec![Act::Wait(free_ns.get() - now_ns), Act::Write(response(10))]
    });
    let measured = level.run_over::<Plain, Pipelined>(peer, None);
    assert_eq!(errors(&measured), [(ErrorClass::FirstByteTimeout, 1)]);
    assert_eq!((measured.counts.connections, measured.counts.stale_retries), (2, 0));
}

/// A layer that passes everything on from the start. Its handshake ends with the first byte of the server.
#[derive(Default)]
struct Eager {
    is_agreed: bool,
}

impl Layer for Eager {
    const IS_PLAIN: bool = false;

    type Shared = ();

    fn shared(_: &Plan, _: u32) {}

    fn open(&mut self, _: u32, _: &Plan, (): &mut ()) {
        self.is_agreed = false;
    }

    fn is_open(&self) -> bool {
        true
    }

    fn is_agreed(&self) -> bool {
        self.is_agreed
    }

    fn hold_early_data(&mut self) {
        self.is_agreed = true;
    }

    fn handshake(&mut self, _: &[u8], (): &mut ()) -> Result<usize, AnswerError> {
        Ok(0)
    }

    fn take_agreed(&mut self, (): &()) -> Option<Handshake> {
        None
    }

    fn seal<'a>(&'a mut self, plain: &'a [u8], (): &'a mut ()) -> &'a [u8] {
        plain
    }

    fn sent(&mut self, n: usize, (): &mut ()) -> usize {
        n
    }

    fn must_send(&self) -> bool {
        false
    }

    fn unseal(&mut self, wire: &[u8], (): &mut ()) -> Result<usize, AnswerError> {
        self.is_agreed = true;
        Ok(wire.len())
    }

    fn plain<'a>(&'a self, wire: &'a [u8], (): &'a ()) -> &'a [u8] {
        wire
    }

    fn close(&mut self) {}

    fn may_end(&self) -> bool {
        true
    }
}

/// Two clients share connections of HTTP/2 with one stream at a time and two requests each. The first request is early data, and too
/// early; the second, which has waited for it, is the last that the connection may carry.
#[test]
fn a_request_that_was_too_early_does_not_wait_for_a_connection_that_takes_no_more() {
    let mut level = Level::new(KeepAlive, &["/"], 100 * MS);
    level.spec.client.http = HttpVersion::Http2;
    (level.spec.client.clients_per_connection, level.spec.client.streams) = (2, Some(1));
    level.spec.client.requests_per_connection = Some(2);
    level.clients = 2;
    level.wire.latency_ns = MS;
    let mut is_first = true;
    let status = move |_| if std::mem::take(&mut is_first) { "425" } else { "200" };
    let peer = Framed { handshake_ns: 2 * MS, streams_max: 100, delay_ns: |_| 3 * MS, status };
    let (sender, receiver) = sync_channel(1024);
    let measured = level.run_over::<Eager, Http2>(peer, Some(sender));
    assert_eq!(errors(&measured), []);
    assert_eq!(measured.handshakes.as_ref().unwrap().too_early, 1);
    for client in &measured.clients {
        assert!(client.requests > 5, "{:?}", measured.clients);
    }
    // Each is on its way for 5 ms from when it was sent last.
    for told in receiver.try_iter().flatten() {
        assert_eq!(
            told.first_byte_ns.zip(told.sent_ns).map(|(first, sent)| first - sent),
            Some(5 * MS as i64)
        );
    }
}
