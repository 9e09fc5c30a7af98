//! A thousand agents without processes, and with every byte that they would send: what they say is framed as an agent frames it, read as
//! from a pipe, played as a level, and merged. The whole must be what one process would have counted.

use std::io::Write;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{RngCore, SeedableRng};
use webstone_lab::agent::load::{Beat, Ended, HostSlice, LoadAnswer};
use webstone_lab::agent::{Heard, PROTOCOL, Payload, Voice, listen};
use webstone_measure::identities;
use webstone_measure::metrics::{ClientTotals, Counts, Histogram, Measured, Second, Seconds, WorkerUse};
use webstone_model::event::{Live, LivePercentiles};
use webstone_model::generators::ClockOffset;
use webstone_model::record::{HostUse, IterationRecord};

use super::clock::there;
use super::course::{LevelCourse, Stage, Tell, Times};
use super::live::Lives;
use super::member::lock;
use super::merge::{HostResult, merge};
use super::slices::SlicesOfHosts;

const HOSTS: usize = 1_000;
const CLIENTS_EACH: u32 = 10;
/// Answers that each client had.
const ANSWERS_EACH: u64 = 200;
const SECONDS: u64 = 10;
const BEATS: usize = 10;
/// The level begins at this instant of the controller's clock.
const START_NS: u64 = 1 << 60;

/// A stream that stays here.
#[derive(Clone, Default)]
struct Stream(Arc<Mutex<Vec<u8>>>);

impl Write for Stream {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        lock(&self.0).extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// What one host counted: each its own.
fn measured(host: usize) -> Measured {
    let mut random = Xoshiro256PlusPlus::seed_from_u64(host as u64);
    let requests = u64::from(CLIENTS_EACH) * ANSWERS_EACH;
    let mut measured = Measured { window_ns: SECONDS * 1_000_000_000, ..Measured::default() };
    measured.counts = Counts {
        planned: requests,
        started: requests,
        succeeded: requests,
        pages_completed: requests,
        ..Counts::default()
    };
    measured.seconds = Seconds(vec![Second::default(); SECONDS as usize]);
    for client in 0..CLIENTS_EACH {
        let mut totals = ClientTotals::default();
        for answer in 0..ANSWERS_EACH {
            let nanos = 200_000 + random.next_u64() % 3_000_000;
            measured.response.record(nanos);
            measured.histograms.response.record(nanos);
            totals.requests += 1;
            totals.response_ns += nanos;
            let second = &mut measured.seconds.0[((answer + u64::from(client)) % SECONDS) as usize];
            second.requests += 1;
        }
        measured.clients.push(totals);
    }
    // One of its workers opened later than the other; the host's engine says what was agreed.
    let opened = |opening_delay_ns| WorkerUse { opening_delay_ns, ..WorkerUse::default() };
    let worker = WorkerUse { user_ns: 1_000_000 * host as u64, ..opened(skew_of(host)) };
    measured.generator.workers = vec![worker, opened(skew_of(host) / 2)];
    measured
}

fn clock_of(host: usize) -> ClockOffset {
    ClockOffset { offset_ns: (host as i64 - 500) * 3_600_000_000_000, bound_ns: 50_000 + host as u64 }
}

/// How much later than agreed a host opens.
fn skew_of(host: usize) -> u64 {
    host as u64 % 700 * 1_000
}

/// The last message of a host, for the whole window.
fn ended(host: usize, wire: &[u8], open_ns: u64) -> LoadAnswer {
    LoadAnswer::Ended(Box::new(Ended {
        measured: Payload::from_bytes(wire),
        opened_ns: there(clock_of(host), open_ns),
        first_client: host as u32 * CLIENTS_EACH,
        host: HostUse { elapsed_ns: SECONDS * 1_000_000_000, ..HostUse::default() },
        ..Ended::default()
    }))
}

/// Every byte that a host sends in a level whose window opens then.
fn said_by(host: usize, measured: &Measured, open_ns: u64) -> Vec<u8> {
    let stream = Stream::default();
    stream.clone().write_all(format!("WEBSTONE-AGENT {PROTOCOL} 1\n").as_bytes()).unwrap();
    let voice = Voice::new(stream.clone());
    voice.say(3, LoadAnswer::Armed, &[]).unwrap();
    voice.say(3, LoadAnswer::Warm, &[]).unwrap();
    let response = &measured.histograms.response;
    for slice in 0..BEATS as u32 {
        let beat = u64::from(slice) + 1;
        let live = Live {
            elapsed_ns: beat * 1_000_000_000,
            requests: measured.counts.succeeded * beat / BEATS as u64,
            response: LivePercentiles::of_histogram(response),
            ..Live::default()
        };
        let response = Some(response.to_base64_within(1_200));
        let beat = Beat { live, response, busiest_worker: Some(0.25) };
        voice.say(3, LoadAnswer::Beat(Box::new(beat)), &[]).unwrap();
        let host = Some(HostUse { elapsed_ns: 1_000_000_000, ..HostUse::default() });
        let workers = measured.generator.workers.clone();
        let slice = HostSlice { number: slice, ns: 1_000_000_000, workers, host, ..HostSlice::default() };
        voice.say(3, LoadAnswer::Slice(Box::new(slice)), &[]).unwrap();
    }
    let wire = measured.clone().to_wire();
    voice.say(3, ended(host, &wire, open_ns), &wire).unwrap();
    std::mem::take(&mut *lock(&stream.0))
}

#[test]
fn a_thousand_agents_that_send_every_byte_are_one_load() {
    let windows: Vec<Measured> = (0..HOSTS).map(measured).collect();
    let since = Instant::now();
    let open_ns = START_NS + 2_000_000_000;
    let streams: Vec<Vec<u8>> =
        windows.iter().enumerate().map(|(host, window)| said_by(host, window, open_ns)).collect();
    let bytes: usize = streams.iter().map(Vec::len).sum();

    let mut heard: Vec<std::vec::IntoIter<(LoadAnswer, Vec<u8>)>> = Vec::new();
    for stream in &streams {
        let (mut said, mut greeted, mut ended) = (Vec::new(), 0, 0);
        listen(&stream[..], |what| {
            match what {
                Heard::Greeted(_) => greeted += 1,
                Heard::Said { number: 3, answer, payload } => said.push((answer, payload)),
                Heard::Broken(_) => ended += 1,
                other => panic!("{other:?}"),
            }
            true
        });
        assert_eq!((greeted, ended, said.len()), (1, 1, 3 + 2 * BEATS));
        heard.push(said.into_iter());
    }

    let times = Times {
        warmup: Duration::from_millis(500),
        duration: Duration::from_secs(SECONDS),
        drain: Duration::ZERO,
    };
    let mut course = LevelCourse::new(&[true; HOSTS], times, START_NS);
    let slices = SlicesOfHosts::default();
    slices.begin([2; HOSTS].into_iter());
    let mut lives = Lives::default();
    lives.begin((0..HOSTS).map(|host| (format!("gen{host}"), CLIENTS_EACH, clock_of(host))));
    let (mut told, mut results, mut now_ns) = (Vec::new(), Vec::new(), START_NS);
    // Round by round, as if all said their next thing together.
    for _ in 0..3 + 2 * BEATS {
        now_ns += 500_000_000;
        for (host, said) in heard.iter_mut().enumerate() {
            let (answer, payload) = said.next().unwrap();
            match &answer {
                LoadAnswer::Beat(beat) => lives.said(host, beat),
                LoadAnswer::Slice(slice) => slices.said(host, slice).unwrap(),
                LoadAnswer::Ended(ended) => {
                    let wire = ended.measured.check("a result", payload).unwrap();
                    let measured = Measured::from_wire(&wire).unwrap();
                    results.push(HostResult {
                        generator: host,
                        ended: (**ended).clone(),
                        measured,
                        clock: clock_of(host),
                    });
                }
                _ => {}
            }
            told.extend(course.said(host, &answer, now_ns));
        }
    }
    assert_eq!((course.stage(), course.lost()), (Stage::Done, None));
    assert_eq!(course.open_ns(), Some(open_ns));
    let opened = told.iter().filter(|(_, tell)| *tell == Tell::Open(open_ns)).count();
    assert_eq!((opened, told.len()), (HOSTS, 2 * HOSTS), "go and open, once each: {:?}", &told[..2]);
    let requests = HOSTS as u64 * u64::from(CLIENTS_EACH) * ANSWERS_EACH;
    let live = lives.sum(now_ns);
    assert_eq!((live.requests, live.response.unwrap().count > 0), (requests, true));

    assert_eq!(slices.reports().len(), HOSTS * BEATS);
    let (whole, parts) = merge(results, course.open_ns(), HOSTS);
    let took = since.elapsed();
    println!("{HOSTS} agents, {bytes} bytes framed, read and merged in {took:.2?}");

    // Bit for bit what one process gets by merging its workers.
    let mut together = Measured::default();
    windows.into_iter().for_each(|window| together.merge_parallel(window));
    assert_eq!(whole, together);
    assert_eq!((parts.len(), whole.counts.succeeded), (HOSTS, requests));
    for (host, part) in parts.iter().enumerate() {
        assert_eq!((part.clock, part.opening_skew_ns), (clock_of(host), skew_of(host) as i64));
        assert!(
            !part.has_distribution && part.distribution == Histogram::default(),
            "with this many hosts none sends it"
        );
    }
    let run = IterationRecord {
        clients: HOSTS as u32 * CLIENTS_EACH,
        measured: whole,
        parts,
        ..IterationRecord::default()
    };
    let broken: Vec<_> = identities::of_parts(&run).into_iter().filter(|check| !check.holds).collect();
    assert!(broken.is_empty(), "{broken:?}");
}

#[test]
fn of_a_few_hosts_the_record_has_the_distribution_of_each() {
    let results = (0..3).map(|host| HostResult {
        generator: host,
        ended: Ended::default(),
        measured: measured(host),
        clock: clock_of(host),
    });
    let (whole, parts) = merge(results.collect(), None, 64);
    for (host, part) in parts.iter().enumerate() {
        assert!(part.has_distribution && part.distribution == measured(host).histograms.response, "{host}");
        assert_eq!(part.response_p99_ns, part.distribution.value_at_percentile(99.0));
    }
    let mut together = Histogram::default();
    parts.iter().for_each(|part| together.merge(&part.distribution));
    assert_eq!(together, whole.histograms.response);
    // A fleet of 65 hosts, one more than a record keeps, has no distributions of single hosts, even if most were lost.
    let results = (0..2).map(|host| HostResult {
        generator: host,
        ended: Ended::default(),
        measured: measured(host),
        clock: clock_of(host),
    });
    let (_, parts) = merge(results.collect(), None, 65);
    assert!(parts.iter().all(|part| !part.has_distribution && part.distribution.is_empty()));
}
