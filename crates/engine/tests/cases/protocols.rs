//! What clients can be configured to do, over TLS, in HTTP/2, and in both: schedules, sockets, addresses, templates,
//! transactions, statuses. What is reported must be what the reference server counted and logged, both encrypted and
//! decrypted.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::mpsc::sync_channel;

use super::peer::{counted, errors, file, one_page, run, spec};
use super::tls_peer::scratch;
use webstone_engine::{Control, LevelJob, LevelOutcome, Plan, TraceKind, Transaction, run_level};
use webstone_measure::identities::{Expectation, check};
use webstone_measure::units::Nanos;
use webstone_model::server_tls::ServerTls;
use webstone_model::spec::ServerSpec;
use webstone_server::{Counters, RunningServer, ServeOptions, Server};
use webstone_workload::load::ConnectionPolicy::{self, KeepAlive, PerPage, PerRequest};
use webstone_workload::load::{GeneratorTask, HttpVersion};
use webstone_workload::{Feed, Workload};

const POLICIES: [ConnectionPolicy; 3] = [PerRequest, PerPage, KeepAlive];

/// How requests are carried.
#[derive(Clone, Copy, Debug)]
pub(super) struct Way {
    pub(super) is_secure: bool,
    pub(super) http: HttpVersion,
}

pub(super) const WAYS: [Way; 3] = [
    Way { is_secure: true, http: HttpVersion::Http11 },
    Way { is_secure: false, http: HttpVersion::Http2 },
    Way { is_secure: true, http: HttpVersion::Http2 },
];

impl Way {
    pub(super) fn server(self, change: impl FnOnce(&mut ServerSpec)) -> RunningServer {
        let mut spec = ServerSpec {
            threads: 1,
            http2: self.http == HttpVersion::Http2,
            tls: self.is_secure.then(ServerTls::default),
            ..ServerSpec::default()
        };
        change(&mut spec);
        Server::start(ServeOptions { test_handlers: true, ..ServeOptions::new(spec) }).unwrap()
    }

    pub(super) fn spec(self, server: &RunningServer, policy: ConnectionPolicy, pages: u64) -> GeneratorTask {
        let mut spec = spec(server.url(), policy, pages);
        spec.client.http = self.http;
        if let Some(certificate) = &server.ready().certificate {
            let path = scratch("server.pem");
            std::fs::write(&path, certificate).unwrap();
            spec.client.tls.cacert = Some(path.to_str().unwrap().to_owned());
        }
        spec
    }

    /// What the server counted is what was reported.
    fn agrees(self, outcome: &LevelOutcome, counted: &Counters) {
        let lifetime = &outcome.measured.lifetime;
        assert_eq!(lifetime.requests, counted.requests, "{self:?}: requests");
        assert_eq!(lifetime.connections, counted.accepted, "{self:?}: connections");
        // Nobody reads the last close_notify on a connection, whichever side sent it: 24 bytes with TLS 1.3.
        let are_close_notify = |unread: u64| {
            let notified = if self.is_secure { unread / 24 } else { 0 };
            unread == 24 * notified && notified <= counted.accepted
        };
        let unread = lifetime.sent_bytes - counted.bytes_received;
        assert!(are_close_notify(unread), "{self:?}: {unread} bytes did not reach the server");
        let unread = counted.bytes_sent - lifetime.received_bytes;
        assert!(are_close_notify(unread), "{self:?}: {unread} bytes of the server did not come");
        let handshakes = outcome.measured.handshakes.as_ref().map(|found| (found.full, found.resumed));
        let expected = self.is_secure.then_some((counted.handshakes_full, counted.handshakes_resumed));
        // Handshakes are counted within the window. Requests that a schedule began there may end after it.
        let are_all_in_window = outcome.measured.counts.ended() == lifetime.requests;
        assert!(
            handshakes == expected || !are_all_in_window && handshakes < expected,
            "{handshakes:?} {counted:?}"
        );
        let over_http2 = if self.http == HttpVersion::Http2 { counted.accepted } else { 0 };
        assert_eq!(counted.http2_connections, over_http2, "{self:?}");
    }
}

/// Runs a level with a channel for transactions.
fn run_told(spec: &GeneratorTask, workload: &Workload, clients: u32) -> (LevelOutcome, Vec<Transaction>) {
    let plan = Arc::new(Plan::compile(spec, workload).unwrap());
    let (sender, receiver) = sync_channel(10_000);
    let job = LevelJob { transactions: Some(sender), ..LevelJob::new(plan, clients) };
    let outcome = run_level(&job, &Control::new()).unwrap();
    drop(job);
    (outcome, receiver.iter().flatten().collect())
}

#[test]
fn every_policy_agrees_with_the_servers_counts() {
    for way in WAYS {
        for policy in POLICIES {
            let server = way.server(|_| ());
            let files = vec![file("/test?size=10", Some(10)), file("/test?size=70000", Some(70_000))];
            let outcome = run(&way.spec(&server, policy, 30), &one_page(files), 3);
            let measured = &outcome.measured;
            assert_eq!((errors(&outcome), measured.counts.succeeded), (vec![], 60), "{way:?} {policy:?}");
            assert_eq!(measured.counts.body_bytes, 30 * 70_010);
            let counted = counted(&server);
            way.agrees(&outcome, &counted);
            assert_eq!((counted.responses, counted.body_bytes_sent), (60, 30 * 70_010));
        }
    }
}

#[test]
fn a_schedule_is_kept_to_the_last_arrival() {
    for way in WAYS {
        for (policy, workers) in [(KeepAlive, 1), (KeepAlive, 2), (PerRequest, 1)] {
            let server = way.server(|_| ());
            let mut spec = way.spec(&server, policy, 0);
            spec.load.pages = None;
            spec.load.duration = Nanos::from_secs(1);
            spec.load.drain = Nanos::from_secs(10);
            spec.generator.workers = workers;
            let workload = one_page(vec![file("/test?size=10", Some(10))]);
            let plan = Arc::new(Plan::compile(&spec, &workload).unwrap());
            let rate = Some("200".parse().unwrap());
            let job = LevelJob { rate, ..LevelJob::new(plan, 50) };
            let outcome = run_level(&job, &Control::new()).unwrap();
            let expected = Expectation { clients: 50, one_request_each: true, server_bytes: None };
            for identity in check(&outcome.measured, &expected) {
                assert!(identity.holds, "{way:?} {policy:?}: {identity:?}");
            }
            let schedule = outcome.measured.open_loop.as_ref().unwrap();
            assert_eq!((schedule.planned, schedule.skipped), (200, 0), "{way:?} {policy:?}");
            assert_eq!(errors(&outcome), []);
            // All that were started were answered within the drain, and the server counted no others.
            assert_eq!(outcome.measured.lifetime.cut_off, 0);
            way.agrees(&outcome, &counted(&server));
        }
    }
}

#[test]
fn unix_sockets_carry_every_way() {
    for way in WAYS {
        for policy in POLICIES {
            let path = scratch("socket");
            let _ = std::fs::remove_file(&path);
            let path = path.to_str().unwrap().to_owned();
            let server = way.server(|spec| spec.listen = format!("unix:{path}"));
            let mut spec = way.spec(&server, policy, 20);
            spec.client.unix_socket = Some(path.clone());
            let files = vec![file("/test?size=10", Some(10)), file("/test?size=200000", Some(200_000))];
            let outcome = run(&spec, &one_page(files), 3);
            assert_eq!(
                (errors(&outcome), outcome.measured.counts.succeeded),
                (vec![], 40),
                "{way:?} {policy:?}"
            );
            way.agrees(&outcome, &counted(&server));
        }
    }
}

#[test]
fn source_addresses_are_used_in_turn() {
    for way in WAYS {
        let log = scratch("log");
        let _ = std::fs::remove_file(&log);
        let server = way.server(|spec| spec.access_log = Some(log.to_str().unwrap().to_owned()));
        let mut spec = way.spec(&server, PerRequest, 40);
        spec.client.source = vec!["127.0.0.2-127.0.0.5".parse().unwrap()];
        let outcome = run(&spec, &one_page(vec![file("/test?size=10", Some(10))]), 1);
        assert_eq!(errors(&outcome), [], "{way:?}");
        way.agrees(&outcome, &counted(&server));
        server.stop();
        let text = std::fs::read_to_string(&log).unwrap();
        let mut by_source = BTreeMap::new();
        for source in text.lines().filter_map(|line| line.split(' ').next()) {
            *by_source.entry(source.to_owned()).or_insert(0) += 1;
        }
        let expected = (2..=5).map(|last| (format!("127.0.0.{last}"), 10)).collect();
        assert_eq!(by_source, expected, "{way:?}");
    }
}

#[test]
fn templates_differ_from_request_to_request() {
    for way in WAYS {
        let log = scratch("log");
        let _ = std::fs::remove_file(&log);
        let server = way.server(|spec| spec.access_log = Some(log.to_str().unwrap().to_owned()));
        let mut workload = one_page(vec![file("/test?header=1{{seq}}&size={{files.bytes}}", None)]);
        let rows = vec![vec!["40".to_owned()], vec!["70".to_owned()]];
        workload
            .feeds
            .insert("files".into(), Feed { columns: vec!["bytes".into()], rows, ..Feed::default() });
        let outcome = run(&way.spec(&server, KeepAlive, 30), &workload, 1);
        assert_eq!((errors(&outcome), outcome.measured.counts.succeeded), (vec![], 30), "{way:?}");
        way.agrees(&outcome, &counted(&server));
        server.stop();
        let text = std::fs::read_to_string(&log).unwrap();
        let asked: BTreeSet<&str> = text.lines().filter_map(|line| line.split(' ').nth(6)).collect();
        assert_eq!(asked.len(), 30, "{way:?}: {text}");
        for number in 0..30 {
            let start = format!("/test?header=1{number}&size=");
            assert_eq!(asked.iter().filter(|path| path.starts_with(&start)).count(), 1, "{way:?}: {text}");
        }
        for size in ["size=40", "size=70"] {
            assert_eq!(asked.iter().filter(|path| path.ends_with(size)).count(), 15, "{way:?}: {text}");
        }
        assert_eq!(outcome.measured.counts.body_bytes, 15 * (40 + 70), "{way:?}");
    }
}

/// What `--record-all` writes: a line for each request that the server answered, whose sums are the level's.
#[test]
fn each_transaction_is_reported_once() {
    for way in WAYS {
        for policy in POLICIES {
            let server = way.server(|_| ());
            let workload =
                one_page(vec![file("/test?size=10", Some(10)), file("/test?size=5000", Some(5_000))]);
            let (outcome, told) = run_told(&way.spec(&server, policy, 25), &workload, 2);
            let counted = counted(&server);
            way.agrees(&outcome, &counted);
            let what = format!("{way:?} {policy:?}");
            assert_eq!((told.len() as u64, counted.responses), (50, 50), "{what}");
            let measured = &outcome.measured;
            let sum = |of: fn(&Transaction) -> u64| told.iter().map(of).sum::<u64>();
            assert_eq!(sum(|told| told.body_bytes), counted.body_bytes_sent, "{what}");
            assert_eq!(
                sum(|told| told.head_bytes + told.body_bytes),
                measured.response_bytes.sum,
                "{what}: in plaintext"
            );
            assert_eq!(sum(|told| (told.end_ns - told.start_ns) as u64), measured.response.sum, "{what}");
            let connected = told.iter().filter(|told| told.connected_ns.is_some()).count() as u64;
            // Several may have waited for the same connection; each is reported with the time when it was
            // established.
            assert!(connected >= counted.accepted, "{what}: {connected} of {}", counted.accepted);
            for told in &told {
                let instants = [told.connected_ns, told.sent_ns, told.first_byte_ns, told.headers_done_ns];
                let instants: Vec<i64> = [Some(told.start_ns)]
                    .into_iter()
                    .chain(instants)
                    .chain([Some(told.end_ns)])
                    .flatten()
                    .collect();
                assert!(instants.is_sorted() && told.status == 200, "{what}: {told:?}");
            }
        }
    }
}

/// What `--trace` shows: decrypted requests and answers, each from its first byte to its end.
#[test]
fn traces_are_in_plaintext() {
    const TRACED: usize = 3;
    for way in WAYS {
        for policy in POLICIES {
            let server = way.server(|_| ());
            let mut spec = way.spec(&server, policy, 10);
            spec.generator.trace = TRACED as u32;
            let workload = one_page(vec![file("/test?size=40&header=100", Some(40))]);
            let plan = Arc::new(Plan::compile(&spec, &workload).unwrap());
            let (sender, receiver) = sync_channel(10_000);
            let job = LevelJob { trace: Some(sender), ..LevelJob::new(plan, 1) };
            let outcome = run_level(&job, &Control::new()).unwrap();
            drop(job);
            let what = format!("{way:?} {policy:?}");
            assert_eq!((errors(&outcome), outcome.measured.counts.succeeded), (vec![], 10), "{what}");
            let mut shown = vec![(String::new(), String::new(), 0, 0); TRACED];
            for event in receiver.iter() {
                let (sent, received, handshakes, ends) = &mut shown[event.exchange as usize - 1];
                match event.kind {
                    TraceKind::Sent(bytes) => *sent += &String::from_utf8_lossy(&bytes),
                    TraceKind::Received(bytes) => *received += &String::from_utf8_lossy(&bytes),
                    TraceKind::Secured(_) => *handshakes += 1,
                    TraceKind::Ended(how) => {
                        assert!(how.starts_with("whole: status 200, "), "{what}: {how}");
                        *ends += 1;
                    }
                }
            }
            for (number, (sent, received, handshakes, ends)) in shown.iter().enumerate() {
                assert!(sent.contains("/test?size=40&header=100"), "{what}: {sent}");
                assert!(
                    received.contains("200") && received.contains("content-length"),
                    "{what}: {received}"
                );
                let is_new = policy != KeepAlive || number == 0;
                assert!(!received.contains('\0'), "{what}: no text: {received:?}");
                assert_eq!((*handshakes, *ends), (u32::from(way.is_secure && is_new), 1), "{what}");
            }
        }
    }
}

#[test]
fn responses_are_counted_by_their_status() {
    for way in WAYS {
        for policy in POLICIES {
            let server = way.server(|_| ());
            let workload = one_page(vec![file("/test?size=10&fault=status&status=503&every=4", Some(10))]);
            let outcome = run(&way.spec(&server, policy, 40), &workload, 1);
            let counted = counted(&server);
            let statuses = &outcome.measured.statuses.0;
            let of = |status| statuses.get(&status).copied().unwrap_or_default();
            assert_eq!((of(200), of(503), statuses.len()), (30, 10, 2), "{way:?} {policy:?}: {statuses:?}");
            assert_eq!((counted.status.success, counted.status.server_error), (30, 10), "{way:?} {policy:?}");
            assert_eq!((outcome.measured.counts.succeeded, outcome.measured.counts.failed), (30, 10));
        }
    }
}

/// A body of many records, of which the client waits for many at a time, in pieces of any size.
#[test]
fn large_bodies_over_tls_come_whole_and_in_time() {
    let way = WAYS[0];
    for query in [
        "size=3000000",
        "drip=20ms&bytes=100000&size=1000000",
        "chunked=1&size=1000000",
        "until_close=1&size=1000000",
    ] {
        for policy in [PerRequest, KeepAlive] {
            let server = way.server(|_| ());
            let size = if query.starts_with("size=3") { 3_000_000 } else { 1_000_000 };
            let workload = one_page(vec![file(&format!("/test?{query}"), Some(size))]);
            let outcome = run(&way.spec(&server, policy, 4), &workload, 2);
            assert_eq!(
                (errors(&outcome), outcome.measured.counts.succeeded),
                (vec![], 4),
                "{query} {policy:?}"
            );
            assert_eq!(outcome.measured.counts.body_bytes, 4 * size);
            way.agrees(&outcome, &counted(&server));
        }
    }
}
