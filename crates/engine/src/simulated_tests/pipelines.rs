//! Pipelines: clients that share connections of HTTP/1.1, with a server whose delays are all known.

use webstone_workload::load::ConnectionPolicy::KeepAlive;

use super::*;
use crate::h1::pipeline::Pipelined;

fn level(clients: u32, depth: u32, duration_ns: u64) -> Level {
    let mut level = Level::new(KeepAlive, &["/"], duration_ns);
    level.spec.client.pipeline = depth;
    level.clients = clients;
    level.wire.latency_ns = MS;
    level
}

/// Ten clients wait 2 ms for their connection; then each request takes 3 ms and the round trip, whatever the others do.
#[test]
fn requests_do_not_wait_for_answers_to_others() {
    let chunked = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n".to_vec();
    let empty = b"HTTP/1.1 103 Early\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n".to_vec();
    for answer in [response(10), chunked, empty] {
        for segment_bytes in [usize::MAX, 7, 1] {
            let mut level = level(10, 10, 58 * MS);
            level.wire.segment_bytes = segment_bytes;
            let answer = answer.clone();
            let peer = server(2 * MS, move |_, _| vec![Act::Wait(3 * MS), Act::Write(answer.clone())]);
            let measured = level.run_over::<Plain, Pipelined>(peer, None);
            assert_eq!((errors(&measured), measured.counts.connections), (vec![], 1));
            are(
                "response",
                &measured.response,
                &measured.histograms.response,
                &[(7 * MS, 10), (5 * MS, 100)],
            );
        }
    }
}

#[test]
fn clients_are_dealt_to_pipelines_in_order() {
    let measured = level(10, 4, 20 * MS).run_over::<Plain, Pipelined>(steady(2 * MS, 3 * MS, 10), None);
    assert_eq!((errors(&measured), measured.counts.connections), (vec![], 3));
    let connects: Vec<u64> = measured.clients.iter().map(|client| client.connects).collect();
    assert_eq!(connects, [1, 0, 0, 0, 1, 0, 0, 0, 1, 0]);
}

/// A server that closes with its third answer answers none of the others: they are asked for again on another connection.
#[test]
fn requests_after_the_last_answer_are_sent_again() {
    for ends in ["Content-Length: 10\r\n\r\n0123456789", "Content-Length: 0\r\n\r\n", "\r\nto the end"] {
        let mut answered = 0;
        let peer = server(2 * MS, move |_, _| {
            answered += 1;
            match answered % 3 {
                0 => {
                    let answer = format!("HTTP/1.1 200 OK\r\nConnection: close\r\n{ends}");
                    vec![Act::Wait(MS), Act::Write(answer.into_bytes()), Act::Finish]
                }
                _ => vec![Act::Wait(MS), Act::Write(response(10))],
            }
        });
        let measured = level(4, 4, 200 * MS).run_over::<Plain, Pipelined>(peer, None);
        assert_eq!(errors(&measured), [], "{ends}");
        assert!(measured.counts.succeeded > 60, "{ends}: {:?}", measured.counts);
        assert!(measured.counts.stale_retries > 0 && measured.counts.connections > 10, "{ends}");
    }
}

/// Answers come in order, so that the others wait for the first, and each has its own time limit.
#[test]
fn an_answer_that_does_not_come_times_out_with_those_after_it() {
    let mut level = level(3, 3, 100 * MS);
    level.spec.client.first_byte_timeout = Nanos(30 * MS);
    let peer = server(2 * MS, |_, _| vec![]);
    let measured = level.run_over::<Plain, Pipelined>(peer, None);
    let found = errors(&measured);
    assert_eq!((found.len(), found[0].0), (1, ErrorClass::FirstByteTimeout));
    assert!(found[0].1 >= 6 && measured.counts.connections >= 2, "{found:?}");
}

#[test]
fn bytes_that_nobody_asked_for_end_the_connection() {
    let peer = server(2 * MS, |_, _| {
        let twice = [response(10), response(10), response(10)].concat();
        vec![Act::Wait(MS), Act::Write(twice)]
    });
    let measured = level(2, 2, 50 * MS).run_over::<Plain, Pipelined>(peer, None);
    assert!(measured.counts.connections > 3, "{:?}", measured.counts);
}

/// As without pipelining: bytes that come with the end of the last answer spoil it. They must not be taken for the answer to
/// the request that follows, which has not been sent.
#[test]
fn bytes_after_the_last_answer_are_malformed() {
    for (clients, extra) in [(1, 1), (2, 1), (2, 2), (3, 5)] {
        let peer = server(2 * MS, move |_, _| {
            vec![Act::Wait(MS), Act::Write([response(10), response(10).repeat(extra)].concat())]
        });
        let measured = level(clients, clients, 50 * MS).run_over::<Plain, Pipelined>(peer, None);
        let (found, what) = (errors(&measured), format!("{clients} clients, {extra} more"));
        assert_eq!((found.len(), found[0].0), (1, ErrorClass::Malformed), "{what}");
        assert!(found[0].1 > 5 && measured.counts.succeeded < measured.lifetime.requests, "{what}");
    }
}

#[test]
fn bytes_that_come_between_requests_are_surplus() {
    let mut level = level(1, 1, 95 * MS);
    level.workload.pages[0].think = Nanos(5 * MS);
    let peer = server(2 * MS, |_, _| {
        vec![Act::Wait(MS), Act::Write(response(10)), Act::Wait(MS), Act::Write(b"more".to_vec())]
    });
    let measured = level.run_over::<Plain, Pipelined>(peer, None);
    assert_eq!(errors(&measured), []);
    // Connect, answer and think: 2, 3 and 5 ms; the latency of the connect is in its 2 ms.
    let counts = measured.counts;
    assert!(counts.surplus >= 8 && counts.connections - counts.surplus <= 2, "{counts:?}");
}

/// The answer that ends with its connection is the last of it, also where the generator would reset the connection.
#[test]
fn a_pipeline_that_is_reset_may_end_with_its_server() {
    for ends in ["\r\nto the end", "Connection: close\r\nContent-Length: 0\r\n\r\n"] {
        let mut level = level(4, 4, 100 * MS);
        level.spec.client.reset = true;
        let peer = server(2 * MS, move |_, _| {
            let answer = format!("HTTP/1.1 200 OK\r\n{ends}");
            vec![Act::Wait(MS), Act::Write(answer.into_bytes()), Act::Finish]
        });
        let measured = level.run_over::<Plain, Pipelined>(peer, None);
        assert_eq!(errors(&measured), [], "{ends}");
        assert!(measured.counts.succeeded > 10, "{ends}: {:?}", measured.counts);
    }
}

/// Requests that are longer than a socket takes are all answered, although some bytes of the pipeline always wait to be sent.
#[test]
fn a_pipeline_that_never_runs_dry_forgets_what_it_sent() {
    let mut level = level(4, 4, 400 * MS);
    level.spec.client.method = "PUT".to_owned();
    level.spec.client.body = Some("x".repeat(100_000));
    level.wire.send_room = 50_000;
    let measured = level.run_over::<Plain, Pipelined>(steady(2 * MS, MS, 10), None);
    assert_eq!((errors(&measured), measured.counts.connections), (vec![], 1));
    assert!(measured.counts.succeeded > 40, "{:?}", measured.counts);
}
