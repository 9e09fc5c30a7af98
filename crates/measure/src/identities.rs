//! The identities that every result must satisfy (`docs/measurement.md`, "Identities"). They are checked when a level
//! ends, stored in the record and printed if broken: then the figures cannot be trusted.

use serde::{Deserialize, Serialize};

use crate::iteration::IterationRecord;
use crate::metrics::{Counts, Histogram, Measured, Moments, PageTotals};
use crate::parts::GeneratorPart;
use crate::units::sum;

/// One identity, checked.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct IdentityCheck {
    /// Its number in `docs/measurement.md`.
    pub number: u8,
    /// What must hold, in words.
    pub rule: String,
    /// Both sides with their values.
    pub evidence: String,
    /// Whether it holds.
    pub holds: bool,
}

/// What the check must know besides the measurement.
#[derive(Clone, Copy, Debug)]
pub struct Expectation {
    /// Clients of the level.
    pub clients: u64,
    /// Whether every client has at most one request in progress and never pauses by itself: one file at a time. Only
    /// then does identity 2 hold by construction.
    pub one_request_each: bool,
    /// Bytes that the reference server reports to have sent, if it can be asked and nothing was cut off.
    pub server_bytes: Option<u64>,
}

/// Share of the clients by which Little's load factor may differ from their number (identity 2).
const LITTLE_TOLERANCE: f64 = 0.02;
/// Additional time by which each client may differ: in a window of milliseconds the time before the first requests
/// are sent is more than that share.
const LITTLE_TOLERANCE_NS: f64 = 2e6;

/// How many clients a timed run had: those of its level, without those of a lost host.
pub fn clients_there(run: &IterationRecord) -> u64 {
    match run.lost {
        Some(_) => run.measured.clients.len() as u64,
        None => run.clients.into(),
    }
}

/// Checks the first four identities. The fifth is [`of_parts`]; the sixth needs the specification and is in `model`.
/// In open loop the first and the second have their own forms.
pub fn check(measured: &Measured, expected: &Expectation) -> Vec<IdentityCheck> {
    check_with(measured, &measured.pages_together(), expected)
}

/// Times of which a figure is the mean.
fn sums_of_times(measured: &Measured) -> Vec<(&'static str, &Moments)> {
    let waits = &measured.unanswered;
    let mut sums = vec![
        ("connect times", &measured.connect),
        ("times to the first byte", &measured.first_byte),
        ("response times", &measured.response),
        ("page times", &measured.page),
        ("connect times without an answer", &waits.connect),
        ("waits for the first byte without an answer", &waits.first_byte),
        ("waits without an answer", &waits.response),
        ("page times without an answer", &waits.page),
    ];
    if let Some(open_loop) = &measured.open_loop {
        sums.extend([
            ("schedule lags", &open_loop.lag),
            ("uncorrected times to the first byte", &open_loop.first_byte),
            ("uncorrected response times", &open_loop.response),
            ("uncorrected page times", &open_loop.page),
        ]);
    }
    sums
}

/// [`check`] with the sum of all pages, if the pages were read from elsewhere.
pub fn check_with(measured: &Measured, pages: &PageTotals, expected: &Expectation) -> Vec<IdentityCheck> {
    let counts = &measured.counts;
    let mut checks = Vec::new();
    let mut equal = |number: u8, rule: &str, left: u64, right: u64| {
        checks.push(IdentityCheck {
            number,
            rule: rule.to_owned(),
            evidence: format!("{left} and {right}"),
            holds: left == right,
        });
    };

    equal(1, "planned = started + skipped", counts.planned, sum([counts.started, counts.skipped]));
    equal(
        1,
        "carried in + started = succeeded + failed + in flight",
        sum([counts.carried_in, counts.started]),
        sum([counts.succeeded, counts.failed, counts.in_flight, counts.left_open]),
    );
    equal(1, "errors by class = failed", measured.errors.total(), counts.failed);
    if let Some(open_loop) = &measured.open_loop {
        equal(
            1,
            "arrivals: carried in + planned = started + skipped + queued",
            sum([open_loop.carried_in, open_loop.planned]),
            sum([open_loop.started, open_loop.skipped, open_loop.queued, open_loop.left_open]),
        );
        equal(1, "skipped arrivals = skipped requests", open_loop.skipped, counts.skipped);
    }

    let clients = |field: fn(&crate::metrics::ClientTotals) -> u64| sum(measured.clients.iter().map(field));
    let seconds = measured.seconds.total();
    let span = measured.span_total();
    equal(3, "requests: pages = total", pages.requests, counts.succeeded);
    equal(3, "requests: clients = total", clients(|c| c.requests), counts.succeeded);
    equal(3, "requests: intervals = total", seconds.requests, span.requests);
    equal(3, "errors: pages = total", pages.errors, counts.failed);
    equal(3, "errors: clients = total", clients(|c| c.errors), counts.failed);
    equal(3, "errors: intervals = total", seconds.errors, span.errors);
    equal(3, "connections: pages = total", pages.connects, counts.connections);
    equal(3, "connections: clients = total", clients(|c| c.connects), counts.connections);
    equal(3, "connections: intervals = total", seconds.connections, span.connections);
    equal(3, "pages: pages = total", pages.hits, counts.pages_completed);
    equal(3, "pages: clients = total", clients(|c| c.pages), counts.pages_completed);
    equal(3, "pages: intervals = total", seconds.pages, span.pages);
    let bytes = measured.response_bytes.sum;
    equal(3, "bytes: pages = total", pages.body_bytes.saturating_add(pages.head_bytes), bytes);
    equal(3, "bytes: clients = total", clients(|c| c.bytes), bytes);
    equal(3, "bytes: intervals = total", seconds.bytes, span.bytes);
    let waits = &measured.unanswered;
    let without_answer = counts.failed.saturating_add(counts.in_flight);
    let queued = measured.open_loop.as_ref().map_or(0, |open_loop| open_loop.queued);
    equal(
        3,
        "waits without an answer = failed + in flight + queued",
        waits.response.count,
        without_answer.saturating_add(queued),
    );
    equal(
        3,
        "waits in flight = in flight + queued",
        waits.in_flight.count,
        counts.in_flight.saturating_add(queued),
    );
    equal(
        3,
        "waits without an answer: histogram = total",
        waits.histograms.response.len(),
        waits.response.count,
    );
    equal(3, "requests without an answer: clients = total", clients(|c| c.unanswered), without_answer);
    equal(3, "requests without an answer: pages = total", pages.unanswered, without_answer);
    equal(3, "time without an answer: clients = pages", clients(|c| c.unanswered_ns), pages.unanswered_ns);
    equal(3, "response times: histogram = total", measured.histograms.response.len(), counts.succeeded);
    if let Some(open_loop) = &measured.open_loop {
        let uncorrected = open_loop.uncorrected.response.len();
        equal(3, "uncorrected response times: histogram = total", uncorrected, counts.succeeded);
        equal(3, "schedule lags: histogram = total", open_loop.lag_histogram.len(), open_loop.lag.count);
    }

    if let Some(handshakes) = &measured.handshakes {
        let agreed = handshakes.agreed.iter().fold(0_u64, |sum, agreed| sum.saturating_add(agreed.count));
        equal(3, "TLS handshakes: agreed on = full + resumed", agreed, handshakes.ended());
        equal(3, "TLS handshakes: histogram = total", handshakes.histogram.len(), handshakes.time.count);
        equal(3, "TLS handshakes: times = full + resumed", handshakes.time.count, handshakes.ended());
    }

    if let Some(http3) = &measured.http3 {
        for (rule, left, right) in http3.identities() {
            equal(3, rule, left, right);
        }
    }

    let received = measured.lifetime.received_bytes;
    match expected.server_bytes {
        // Datagrams may be lost, and some come after the last connection has ended.
        Some(server) if measured.http3.is_some() => checks.push(IdentityCheck {
            number: 4,
            rule: "bytes received in datagrams <= bytes the server says it sent".to_owned(),
            evidence: format!("{received} and {server}"),
            holds: received <= server,
        }),
        Some(server) => equal(4, "bytes received = bytes the server says it sent", received, server),
        None => {}
    }
    for (what, _) in sums_of_times(measured).into_iter().filter(|(_, moments)| moments.is_full()) {
        checks.push(IdentityCheck {
            number: 3,
            rule: format!("{what}: their sum fits 64 bits"),
            evidence: "more than 584 years, so that their mean is too low".to_owned(),
            holds: false,
        });
    }

    if expected.one_request_each && measured.window_ns > 0 {
        let free_ns = measured.open_loop.as_ref().map_or(0, |open_loop| open_loop.free_ns);
        let client_ns = counts.busy_ns.saturating_add(counts.idle_ns).saturating_add(free_ns);
        let in_progress = client_ns as f64 / measured.window_ns as f64;
        let clients = expected.clients as f64;
        checks.push(IdentityCheck {
            number: 2,
            rule: match measured.open_loop {
                None => "closed loop: requests in progress, plus clients waiting on purpose, = clients, within 2 %",
                Some(_) => {
                    "open loop: requests in progress, plus clients waiting on purpose, plus clients free, = clients, within 2 %"
                }
            }
            .to_owned(),
            evidence: format!("{in_progress:.3} and {clients}"),
            holds: (in_progress - clients).abs()
                <= clients * LITTLE_TOLERANCE.max(LITTLE_TOLERANCE_NS / measured.window_ns as f64),
        });
    }
    checks.sort_by_key(|check| check.number);
    checks
}

/// Identity 5, for a load that several hosts made: the parts of the hosts add up to the whole. Empty if a single host
/// made it.
pub fn of_parts(run: &IterationRecord) -> Vec<IdentityCheck> {
    let (parts, measured) = (&run.parts, &run.measured);
    if parts.is_empty() {
        return Vec::new();
    }
    let sum = |of: fn(&GeneratorPart) -> u64| sum(parts.iter().map(of));
    let mut checks = Vec::new();
    let mut holds = |rule: &str, holds: bool, evidence: String| {
        checks.push(IdentityCheck { number: 5, rule: rule.to_owned(), evidence, holds });
    };
    let clients = sum(|part| part.clients.into());
    // The clients of a lost host are missing.
    let are_all = clients == u64::from(run.clients) || run.lost.is_some() && clients < u64::from(run.clients);
    holds("clients: hosts = total", are_all, format!("{clients} and {}", run.clients));
    let (workers, all) = (sum(|part| part.workers.into()), measured.generator.workers.len() as u64);
    holds("workers: hosts = total", workers == all, format!("{workers} and {all}"));
    let follow = parts.windows(2).all(|pair| {
        let end = pair[0].first_client.saturating_add(pair[0].clients);
        pair[0].generator < pair[1].generator
            && (pair[1].first_client == end || run.lost.is_some() && pair[1].first_client > end)
    });
    let numbers = parts.iter().map(|part| format!("{} from {}", part.clients, part.first_client));
    let numbers: Vec<String> = numbers.collect();
    holds("clients of each host follow those of the one before", follow, numbers.join(", "));
    let mut counts = Counts::default();
    let mut response = Moments::default();
    let mut unanswered = Moments::default();
    for part in parts {
        counts.merge(&part.counts);
        response.merge(&part.response);
        unanswered.merge(&part.unanswered);
    }
    let differs = differing(&counts, &measured.counts);
    holds(
        "counters: hosts = total",
        differs.is_none(),
        differs.unwrap_or_else(|| format!("{} and {} requests", counts.ended(), measured.counts.ended())),
    );
    for (rule, hosts, total) in [
        ("response times: hosts = total", response.count, measured.response.count),
        ("sum of response times: hosts = total", response.sum, measured.response.sum),
        ("longest response: hosts = total", response.max, measured.response.max),
        ("waits without an answer: hosts = total", unanswered.count, measured.unanswered.response.count),
        ("sum of waits without an answer: hosts = total", unanswered.sum, measured.unanswered.response.sum),
        ("shortest response: hosts = total", response.min_or_zero(), measured.response.min_or_zero()),
    ] {
        holds(rule, hosts == total, format!("{hosts} and {total}"));
    }
    let (squares, all) = (response.sum_of_squares, measured.response.sum_of_squares);
    holds("squares of response times: hosts = total", squares == all, format!("{squares} and {all}"));
    // A record of many hosts has no distributions of each.
    if parts.iter().all(|part| part.has_distribution) {
        let mut together = Histogram::default();
        parts.iter().for_each(|part| together.merge(&part.distribution));
        let total = &measured.histograms.response;
        let evidence = match together.first_difference(total) {
            None => format!("{} and {} values", together.len(), total.len()),
            Some((value, hosts, total)) => format!("at {value} ns {hosts} and {total} values"),
        };
        holds("distribution of response times: hosts = total", together == *total, evidence);
    }
    checks
}

/// The first counter that differs, with both of its values.
fn differing(a: &Counts, b: &Counts) -> Option<String> {
    let fields = |counts: &Counts| serde_json::to_value(counts).ok();
    let (a, b) = (fields(a)?, fields(b)?);
    let mut pairs = a.as_object()?.iter().zip(b.as_object()?.values());
    pairs.find(|((_, a), b)| a != b).map(|((name, a), b)| format!("{name}: {a} and {b}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::{ClientTotals, Counts, OpenLoop, PageTotals, Second, Seconds, Unanswered};

    fn sound() -> Measured {
        let mut measured = Measured {
            window_ns: 1_000_000_000,
            counts: Counts {
                planned: 3,
                started: 3,
                succeeded: 2,
                in_flight: 1,
                connections: 3,
                pages_completed: 2,
                busy_ns: 990_000_000,
                ..Counts::default()
            },
            pages: vec![PageTotals {
                hits: 2,
                requests: 2,
                connects: 3,
                body_bytes: 20,
                head_bytes: 4,
                unanswered: 1,
                unanswered_ns: 10,
                unanswered_ns_max: 10,
                ..Default::default()
            }],
            clients: vec![ClientTotals {
                pages: 2,
                requests: 2,
                connects: 3,
                bytes: 24,
                unanswered: 1,
                unanswered_ns: 10,
                ..Default::default()
            }],
            seconds: Seconds(vec![Second {
                requests: 2,
                connections: 3,
                pages: 2,
                bytes: 24,
                ..Default::default()
            }]),
            ..Measured::default()
        };
        for _ in 0..2 {
            measured.response_bytes.record(12);
            measured.histograms.response.record(400);
        }
        measured.unanswered.request_in_flight(10, false);
        measured.lifetime.received_bytes = 24;
        measured
    }

    #[test]
    fn forged_counters_that_overflow_break_identities() {
        let most = |text: String| {
            let mut tree: serde_json::Value = serde_json::from_str(&text).unwrap();
            let fields = tree.as_object_mut().unwrap().values_mut().filter(|value| value.is_u64());
            fields.for_each(|value| *value = u64::MAX.into());
            tree
        };
        let mut measured = sound_open_loop();
        let text = |value: serde_json::Result<String>| most(value.unwrap());
        let counts = serde_json::to_string(&measured.counts);
        measured.counts = serde_json::from_value(text(counts)).unwrap();
        let client = serde_json::to_string(&measured.clients[0]);
        measured.clients = vec![serde_json::from_value(text(client)).unwrap(); 2];
        let page = serde_json::to_string(&measured.pages[0]);
        measured.pages = vec![serde_json::from_value(text(page)).unwrap(); 2];
        let open_loop = serde_json::to_string(&measured.open_loop);
        measured.open_loop = serde_json::from_value(text(open_loop)).unwrap();
        let checks =
            check(&measured, &Expectation { clients: 1, one_request_each: true, server_bytes: None });
        assert!(checks.iter().any(|check| !check.holds));
    }

    /// The same as an open loop: one more arrival than was started, which was skipped; the client was free for 10 ms.
    fn sound_open_loop() -> Measured {
        let mut measured = sound();
        measured.counts.planned += 1;
        measured.counts.skipped += 1;
        measured.counts.busy_ns = 300_000_000;
        let mut open_loop = OpenLoop {
            carried_in: 1,
            planned: 4,
            started: 3,
            skipped: 1,
            queued: 1,
            free_ns: 695_000_000,
            ..OpenLoop::default()
        };
        (0..2).for_each(|_| open_loop.uncorrected.response.record(400));
        measured.open_loop = Some(open_loop);
        // For the waiting arrival.
        measured.unanswered.request_in_flight(20, false);
        measured
    }

    #[test]
    fn an_open_loop_has_its_own_forms() {
        assert_eq!(broken(&sound_open_loop()), Vec::<u8>::new());
        type Lie = fn(&mut OpenLoop);
        let lies: [(Lie, u8); 3] = [
            (|o| o.free_ns = 600_000_000, 2),
            (|o| o.uncorrected.response.record(1), 3),
            (|o| o.lag.record(1), 3),
        ];
        for (lie, number) in lies {
            let mut measured = sound_open_loop();
            lie(measured.open_loop.as_mut().unwrap());
            assert_eq!(broken(&measured), [number]);
        }
        let mut forgotten = sound_open_loop();
        forgotten.open_loop.as_mut().unwrap().queued = 0;
        assert_eq!(broken(&forgotten), [1, 3, 3]);
        let mut skipped = sound_open_loop();
        skipped.open_loop.as_mut().unwrap().skipped = 2;
        assert_eq!(broken(&skipped), [1, 1]);
    }

    fn broken(measured: &Measured) -> Vec<u8> {
        let expected = Expectation { clients: 1, one_request_each: true, server_bytes: Some(24) };
        check(measured, &expected).into_iter().filter(|c| !c.holds).map(|c| c.number).collect()
    }

    #[test]
    fn a_sound_result_breaks_none() {
        assert_eq!(broken(&sound()), Vec::<u8>::new());
    }

    #[test]
    fn a_sum_of_times_that_is_too_large_breaks_one() {
        let broken_by = |measured: &Measured| {
            let expected = Expectation { clients: 1, one_request_each: true, server_bytes: Some(24) };
            let broken = check(measured, &expected).into_iter().find(|check| !check.holds);
            broken.map(|check| check.rule)
        };
        let mut measured = sound();
        measured.unanswered.page.sum = u64::MAX;
        assert_eq!(
            broken_by(&measured).as_deref(),
            Some("page times without an answer: their sum fits 64 bits")
        );
        let mut measured = sound_open_loop();
        measured.open_loop.as_mut().unwrap().lag.sum = u64::MAX - 1;
        assert_eq!(broken_by(&measured), None);
        measured.open_loop.as_mut().unwrap().lag.sum = u64::MAX;
        assert_eq!(broken_by(&measured).as_deref(), Some("schedule lags: their sum fits 64 bits"));
    }

    #[test]
    fn the_parts_of_several_hosts_add_up_to_the_whole() {
        let mut runs = crate::fixture::runs(&[(10, &[1000.0])]);
        assert_eq!(of_parts(&runs[0]), [], "one host made the load");
        crate::fixture::split(&mut runs, 3);
        let sound = runs.remove(0);
        let broken = |change: &dyn Fn(&mut IterationRecord)| {
            let mut run = sound.clone();
            change(&mut run);
            let checks = of_parts(&run);
            assert!(checks.iter().all(|check| check.number == 5));
            checks.into_iter().filter(|check| !check.holds).map(|check| check.rule).collect::<Vec<_>>()
        };
        assert_eq!(broken(&|_| ()), Vec::<String>::new());
        let clients = "clients of each host follow those of the one before";
        let of_times = |words: &str| format!("{words}: hosts = total");
        assert_eq!(broken(&|run| run.parts[2].clients -= 1), [of_times("clients")]);
        assert_eq!(broken(&|run| run.parts[1].first_client -= 1), [clients]);
        assert_eq!(broken(&|run| run.parts.swap(0, 1)), [clients]);
        assert_eq!(broken(&|run| run.parts[0].workers += 1), [of_times("workers")]);
        assert_eq!(broken(&|run| run.parts[1].counts.succeeded += 1), [of_times("counters")]);
        assert_eq!(broken(&|run| run.parts[1].counts.busy_ns += 1), [of_times("counters")]);
        assert_eq!(broken(&|run| run.parts[1].response.sum += 1), [of_times("sum of response times")]);
        assert_eq!(broken(&|run| run.parts[1].response.count -= 1), [of_times("response times")]);
        assert_eq!(broken(&|run| run.parts[1].response.max += 1), [of_times("longest response")]);
        assert_eq!(broken(&|run| run.parts[1].response.min -= 1), [of_times("shortest response")]);
        assert_eq!(
            broken(&|run| run.parts[1].response.sum_of_squares += 1),
            [of_times("squares of response times")]
        );
        // If the record has the distribution of each host.
        let distributed = |change: &dyn Fn(&mut IterationRecord)| {
            broken(&|run| {
                let mut whole = Histogram::default();
                for (part, value) in run.parts.iter_mut().zip([7_000_u64, 7_000, 90_000]) {
                    part.has_distribution = true;
                    part.distribution.record(value);
                    part.distribution.pack();
                    whole.merge(&part.distribution);
                }
                run.measured.histograms.response = whole;
                change(run);
            })
        };
        let distribution = [of_times("distribution of response times")];
        assert_eq!(distributed(&|_| ()), Vec::<String>::new());
        assert_eq!(distributed(&|run| run.parts[1].distribution.record(7_000)), distribution);
        assert_eq!(distributed(&|run| run.parts[2].distribution = Histogram::default()), distribution);
        // Equally many values, but different ones: no sum needs to differ.
        assert_eq!(
            distributed(&|run| {
                run.parts[0].distribution = Histogram::default();
                run.parts[0].distribution.record(8_000);
            }),
            distribution
        );
        assert_eq!(
            distributed(&|run| {
                run.parts[2].forget_distribution();
                run.parts[0].distribution.record(1);
            }),
            Vec::<String>::new(),
            "they cannot be compared where one is missing"
        );
        // In a run that lost a host there are the other hosts' clients, and no more.
        let lost = |run: &mut IterationRecord| {
            run.lost = Some(crate::parts::GeneratorLoss { generator: 1, why: "ended".to_owned() });
            run.parts.remove(1);
        };
        assert!(!broken(&lost).contains(&of_times("clients")));
        assert!(!broken(&lost).iter().any(|rule| rule == clients));
    }

    #[test]
    fn each_wrong_count_breaks_its_own_identity() {
        let mut lost = sound();
        lost.counts.carried_in = 1;
        assert_eq!(broken(&lost), [1]);

        let mut never_waited = sound();
        never_waited.unanswered = Unanswered::default();
        assert_eq!(broken(&never_waited), [3, 3]);

        let mut shorter_wait = sound();
        shorter_wait.clients[0].unanswered_ns -= 1;
        assert_eq!(broken(&shorter_wait), [3]);

        let mut unmeasured_time = sound();
        unmeasured_time.counts.busy_ns = 970_000_000;
        assert_eq!(broken(&unmeasured_time), [2]);

        let mut page_missing = sound();
        page_missing.pages[0].requests = 1;
        assert_eq!(broken(&page_missing), [3]);

        let mut bytes_lost = sound();
        bytes_lost.lifetime.received_bytes = 23;
        assert_eq!(broken(&bytes_lost), [4]);
    }
}
