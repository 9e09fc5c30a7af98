//! What makes figures doubtful, but not invalid. Every format shows it; the default text report has a line for each, without the
//! explanation and with the first place only.

mod blocked;
mod left_out;
mod waking;

use std::collections::BTreeMap;

use webstone_judge::plausible;
use webstone_judge::statistics::Steadiness;
use webstone_judge::verdict::{
    Cause, DISTURBANCE_NS_MIN, DISTURBED_PERCENT_MAX, LOOP_DELAY_PERCENT_MAX, RUN_QUEUE_PERCENT_MAX, Verdict,
    losses, run_queue_percent,
};
use webstone_model::record::{HostUse, IterationRecord, RunRecord, TcpUse};
use webstone_model::spec::RunSpec;
use webstone_workload::addresses::AddressRange;

use crate::generators;
use crate::judged::Judged;
use crate::numbers::{DOT, count, counted, decimal, listed_by, percent, seconds, signed};
use crate::summary::{self, Level};

/// Levels and iterations named in one line.
const NAMED_MAX: usize = 8;
/// Share of the local ports, or of the files that may be open, from which on the report warns, in percent.
const PRESSURE_PERCENT: f64 = 80.0;

/// Title of the caution that says how many requests failed, which a headline says as well.
pub(crate) const ERRORS: &str = "ERRORS";
/// Title of what the run said when it began.
pub(crate) const WARNING: &str = "WARNING";
/// Title of the caution about CPU time that other programs took before the levels; left out where the verdict is about what they took
/// during the levels.
pub(crate) const DISTURBED_BEFORE: &str = "DISTURBED BEFORE LEVELS";

/// One of them.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Caution {
    /// In capitals: `OUTLIERS`.
    pub(crate) title: &'static str,
    /// What was found.
    what: String,
    /// Where: levels, iterations.
    places: Vec<String>,
    /// Whether each place is a sentence of its own, with commas in it.
    are_sentences: bool,
    /// Places that are named, in full.
    places_max: usize,
    /// Places that are named, in brief.
    places_max_brief: usize,
    /// What it means.
    meaning: String,
    /// What to do.
    remedy: String,
}

impl Caution {
    fn new(title: &'static str, what: impl Into<String>) -> Caution {
        Caution { title, what: what.into(), places_max: NAMED_MAX, places_max_brief: 1, ..Caution::default() }
    }

    fn at(self, places: Vec<String>) -> Caution {
        Caution { places, ..self }
    }

    fn meaning(self, meaning: &str) -> Caution {
        Caution { meaning: meaning.to_owned(), ..self }
    }

    fn remedy(self, remedy: &str) -> Caution {
        Caution { remedy: remedy.to_owned(), ..self }
    }

    /// The whole sentence.
    pub(crate) fn whole(&self) -> String {
        self.said(self.places_max, &self.meaning)
    }

    /// The same in lines: where several places are sentences, each has one of its own after the first.
    pub(crate) fn lines(&self) -> Vec<String> {
        let named = self.places.len().min(self.places_max);
        if !self.are_sentences || named < 2 {
            return vec![self.whole()];
        }
        let more = self.places.len() - named;
        let more = (more > 0).then(|| format!("and {} more", count(more as u64)));
        let places = self.places[..named].iter().cloned();
        [self.said(0, &self.meaning)].into_iter().chain(places).chain(more).collect()
    }

    /// The first place alone, and no explanation.
    pub(crate) fn brief(&self) -> String {
        self.said(self.places_max_brief, "")
    }

    /// What the whole sentence has besides the brief one: the other places, and the explanation.
    pub(crate) fn rest(&self) -> Option<String> {
        let places = Some(self.listed(self.places_max));
        let places = places.filter(|_| self.places.len() > self.places_max_brief && self.places_max > 0);
        let meaning = Some(self.meaning.clone()).filter(|meaning| !meaning.is_empty());
        let rest: Vec<String> = places.into_iter().chain(meaning).collect();
        (!rest.is_empty()).then(|| rest.join("; "))
    }

    fn listed(&self, places_max: usize) -> String {
        let separator = if self.are_sentences { DOT } else { ", " };
        listed_by(separator, &self.places, places_max)
    }

    fn said(&self, places_max: usize, meaning: &str) -> String {
        let mut text = self.what.clone();
        if !self.places.is_empty() && places_max > 0 {
            text.push_str(&format!(": {}", self.listed(places_max)));
        }
        for more in [meaning, &self.remedy].into_iter().filter(|more| !more.is_empty()) {
            text.push_str(&format!("; {more}"));
        }
        text
    }
}

/// All cautions of a record.
pub(crate) fn of_levels(judged: &Judged<'_>, levels: &[Level<'_>]) -> Vec<Caution> {
    let (record, verdict) = (judged.record, &judged.verdict);
    let mut found = Vec::new();
    errors(record, verdict, &mut found);
    left_out::voids(judged, &mut found);
    left_out::slices(record, &mut found);
    kept_off(record, levels, &mut found);
    disturbed(record, &mut found);
    generator_delay(levels, &mut found);
    connect_delay(levels, &mut found);
    blocked::find(record, &mut found);
    waking::find(record, levels, &mut found);
    iterations(record, levels, &mut found);
    noise(levels, &mut found);
    differing(record, &mut found);
    host(record, &mut found);
    monitored(record, &mut found);
    if !levels.is_empty()
        && levels.iter().all(|level| level.distributions.is_empty() && level.counts.succeeded > 0)
    {
        found
            .push(Caution::new("NO DISTRIBUTIONS", "the record came without its histograms: no percentiles"));
    } else {
        cut_short(levels, &mut found);
    }
    found.extend(record.warnings.iter().map(|warning| Caution::new(WARNING, warning)));
    found
}

/// Errors that are too few to make the run invalid.
fn errors(record: &RunRecord, verdict: &Verdict, found: &mut Vec<Caution>) {
    let counts = summary::counts(record);
    let condemned =
        verdict.reasons.iter().any(|r| matches!(r.cause, Cause::Errors | Cause::NothingSucceeded));
    if counts.failed == 0 || condemned {
        return;
    }
    let share = counts.failed as f64 / counts.ended() as f64 * 100.0;
    let what = format!(
        "{} of {} requests failed ({}); they count as errors only",
        count(counts.failed),
        count(counts.ended()),
        percent(share)
    );
    found.push(Caution::new(ERRORS, what));
}

/// Levels at which workers waited for their CPU while another worker or the server had it. What other programs took is in the
/// verdict.
fn kept_off(record: &RunRecord, levels: &[Level<'_>], found: &mut Vec<Caution>) {
    let is_told = |run: &&&IterationRecord| losses(record, run).is_empty();
    let waited = |level: &Level<'_>| {
        let shares = level.runs.iter().filter(is_told).flat_map(|run| {
            let workers = run.measured.generator.workers.iter();
            workers.map(|worker| run_queue_percent(worker, run.measured.window_ns))
        });
        shares.reduce(f64::max).filter(|share| *share > RUN_QUEUE_PERCENT_MAX)
    };
    let levels: Vec<String> = levels
        .iter()
        .filter_map(|level| Some(format!("{:.0} % of a window at {}", waited(level)?, level.load())))
        .collect();
    if !levels.is_empty() {
        let what = "the load generator waited for its CPU while the server or another of its workers used it";
        let caution = Caution::new("WAITED FOR CPU", what).at(levels);
        found.push(
            caution.meaning("every latency contains that time").remedy("give it CPUs of its own with --cpus"),
        );
    }
}

/// CPUs of the generator of which other programs took a large part before the levels.
fn disturbed(record: &RunRecord, found: &mut Vec<Caution>) {
    let seen = summary::disturbance(&record.iterations)
        .filter(|seen| seen.looked_ns >= DISTURBANCE_NS_MIN && seen.taken_percent() >= DISTURBED_PERCENT_MAX);
    if let Some(seen) = seen {
        let what = format!(
            "other programs or virtual machines took {} of the generator's CPU before the levels, up to {} at once",
            percent(seen.taken_percent()),
            seconds(seen.longest_ns as f64 / 1e9)
        );
        let caution = Caution::new(DISTURBED_BEFORE, what).meaning("latencies contain such gaps, too");
        found.push(caution.remedy("stop other programs, or use a dedicated machine"));
    }
}

/// Levels at which the generator's own delay is a large part of the latency.
fn generator_delay(levels: &[Level<'_>], found: &mut Vec<Caution>) {
    let delayed: Vec<String> = levels
        .iter()
        .filter_map(|level| {
            let (own, latency) =
                (level.generator.loop_delay_p50_s?, *level.figures.latency_percentiles_s.first()?);
            let text = format!("{} of {}", seconds(own), seconds(latency));
            let is_told = level.counts.succeeded > 0 && own * 100.0 > latency * LOOP_DELAY_PERCENT_MAX;
            is_told.then(|| format!("{text} at {}", level.load()))
        })
        .collect();
    if !delayed.is_empty() {
        let what = format!(
            "more than {LOOP_DELAY_PERCENT_MAX} % of the median latency is the load generator's own delay"
        );
        found.push(Caution::new("OWN DELAY", what).at(delayed));
    }
}

/// Levels at which the generator's own delay is a large part of connect times. It is more than the event loop's delay, because a busy
/// loop learns late that a connection is established.
fn connect_delay(levels: &[Level<'_>], found: &mut Vec<Caution>) {
    let delayed: Vec<String> = levels
        .iter()
        .filter_map(|level| {
            let (own, connect) =
                (level.generator.connect_lag_p50_s?, level.distributions.connect.as_ref()?.p50_s);
            let text = format!("{} of {}", seconds(own), seconds(connect));
            (own * 100.0 > connect * LOOP_DELAY_PERCENT_MAX).then(|| format!("{text} at {}", level.load()))
        })
        .collect();
    if !delayed.is_empty() {
        let what = format!(
            "more than {LOOP_DELAY_PERCENT_MAX} % of the median connect time is the load generator's own delay"
        );
        found.push(Caution::new("OWN DELAY", what).at(delayed).meaning("network and server took the rest"));
    }
}

/// Levels whose files beside `record.json` hold less than was counted: they were truncated later, or badly copied.
fn cut_short(levels: &[Level<'_>], found: &mut Vec<Caution>) {
    let lacking: Vec<String> = levels
        .iter()
        .filter_map(|level| {
            let answered = level.counts.succeeded;
            // Seconds also cover slices that were left out.
            let span = level.runs.iter().map(|run| run.measured.span_total().requests).sum::<u64>();
            let held = level.distributions.response.as_ref().map_or(0, |response| response.count);
            let seconds = level.runs.iter().flat_map(|run| &run.measured.seconds.0);
            let series = seconds.map(|second| second.requests).fold(0, u64::saturating_add);
            let text =
                format!("{} and {} of {} at {}", count(held), count(series), count(answered), level.load());
            (held != answered || series != span).then_some(text)
        })
        .collect();
    if !lacking.is_empty() {
        let caution =
            Caution::new("DAMAGED RECORD", "the histograms and the series lack responses").at(lacking);
        let meaning = "percentiles and charts by the second show a part only";
        found.push(caution.meaning(meaning).remedy("`webstone verify` names the damaged file"));
    }
}

/// Iterations that stand apart, and those that were not in their steady state.
fn iterations(record: &RunRecord, levels: &[Level<'_>], cautions: &mut Vec<Caution>) {
    let named = |run: &IterationRecord| summary::place(record, run);
    let mut apart = Vec::new();
    let (mut later, mut never) = (Vec::new(), Vec::new());
    for level in levels {
        for place in &level.statistics.outliers {
            let run = level.runs[*place];
            let rate = summary::request_rate(&run.measured);
            apart.push(format!("{} ({} requests/s)", named(run), decimal(rate, 0)));
        }
        for (run, steady) in level.runs.iter().zip(&level.statistics.steady) {
            let Some(steady) = steady else { continue };
            match steady.steadiness {
                Steadiness::FromTheStart => {}
                Steadiness::Later => later.push(format!(
                    "{} (after {}; the mean rate is {} % off)",
                    named(run),
                    seconds(steady.truncate as f64),
                    signed(steady.shift_percent, 1)
                )),
                Steadiness::Never => never.push(named(run)),
            }
        }
    }
    let mut say = |title: &'static str, text: &str, found: Vec<String>| {
        if !found.is_empty() {
            cautions.push(Caution::new(title, text).at(found));
        }
    };
    say(
        "OUTLIERS",
        "these iterations differ from the others of their level; every figure includes them",
        apart,
    );
    say("WARM-UP TOO SHORT", "the steady state (MSER-5) began after the warm-up", later);
    say("NOT STEADY", "the request rate (MSER-5) never settled", never);
}

fn noise(levels: &[Level<'_>], found: &mut Vec<Caution>) {
    let parted: Vec<String> = levels
        .iter()
        .filter_map(|level| {
            let noise = level.statistics.noise.filter(|noise| !noise.alike)?;
            let off = 100.0 * (noise.ratio.point - 1.0);
            Some(format!("{} ({} %)", level.load(), signed(off, 2)))
        })
        .collect();
    if !parted.is_empty() {
        let caution = Caution::new("A/A ARMS DIFFER", "the two arms differ by more than chance").at(parted);
        found.push(
            caution.meaning("both measure the same, so the machine or the server changed between them"),
        );
    }
}

/// Hosts that differ from the others of the load.
fn differing(record: &RunRecord, found: &mut Vec<Caution>) {
    let told = generators::told(record, &generators::differing(record));
    if told.is_empty() {
        return;
    }
    let number = counted(told.len() as u64, "load generator differs", "load generators differ");
    let caution = Caution::new("HOST DIFFERS", format!("{number} from the others")).at(told);
    // The table of the hosts says it in full.
    let caution = Caution { places_max_brief: 0, ..caution };
    found.push(caution.meaning("its share is in all figures").remedy("look at its CPUs, link and path"));
}

/// What the kernel counted that should not happen, and what was nearly used up.
fn host(record: &RunRecord, found: &mut Vec<Caution>) {
    let mut hosts: BTreeMap<Option<u32>, Vec<&HostUse>> = BTreeMap::new();
    for maker in record.iterations.iter().flat_map(IterationRecord::load_makers) {
        hosts.entry(maker.generator).or_default().extend(maker.host);
    }
    let sum = |hosts: &[&HostUse], of: fn(&TcpUse) -> u64| {
        hosts.iter().filter_map(|host| host.tcp.as_ref().map(of)).fold(0, u64::saturating_add)
    };
    let named = |generator: &Option<u32>| {
        generator.map_or_else(|| "this host".to_owned(), |number| format!("generator {}", number + 1))
    };
    for (generator, hosts) in &hosts {
        found.extend(listen_queue(hosts, &named(generator)));
    }
    for agent in 0..record.target.agents.len() as u32 {
        let there = record.iterations.iter().flat_map(|run| run.server_networks());
        let there: Vec<&HostUse> =
            there.filter(|there| there.agent == agent).map(|there| &there.host).collect();
        found.extend(listen_queue(&there, &record.server_host_named(agent)));
    }
    for (generator, hosts) in &hosts {
        let syn = sum(hosts, |tcp| tcp.syn_retransmitted);
        if syn > 0 && sum(hosts, |tcp| tcp.listen_overflows) == 0 {
            let what = format!("{} retransmitted {}", named(generator), counted(syn, "SYN", "SYNs"));
            let caution = Caution::new("RETRANSMISSIONS", what);
            found.push(caution.meaning("packets were lost, or a queue was full elsewhere"));
        }
    }
    found.extend(receive_queues(&record.iterations));
    pressure(&record.spec, &record.iterations, found);
}

/// Datagrams that the load generator's own UDP sockets dropped.
fn receive_queues(iterations: &[IterationRecord]) -> Option<Caution> {
    let of_run = |run: &IterationRecord| run.measured.http3.as_ref().map_or(0, |http3| http3.receive_drops);
    let times = iterations.iter().map(of_run).fold(0, u64::saturating_add);
    let full = counted(times, "time", "times");
    let caution = Caution::new("UDP QUEUE", format!("receive queues of the load generator were full {full}"));
    let meaning = "the server takes the datagrams for lost on the way, and sends more slowly";
    let remedy = "use more workers, or sysctl -w net.core.rmem_max=4194304";
    (times > 0).then(|| caution.meaning(meaning).remedy(remedy))
}

/// What the server's listening sockets dropped; where the kernel did not report it, what those of all programs of the host dropped.
fn listen_queue(hosts: &[&HostUse], host: &str) -> Option<Caution> {
    let sum = |of: fn(&HostUse) -> u64| hosts.iter().map(|host| of(host)).fold(0, u64::saturating_add);
    let datagrams = sum(|host| host.datagram_drops.unwrap_or(0));
    if datagrams > 0 {
        let dropped = counted(datagrams, "datagram", "datagrams");
        let caution = Caution::new("UDP QUEUE", format!("the server's UDP sockets dropped {dropped}"));
        let meaning =
            "what is lost is sent again: after a round trip, or a second where it begins a connection";
        let remedy = "give the server a larger one (SO_RCVBUF, or sysctl net.core.rmem_default)";
        return Some(caution.meaning(meaning).remedy(remedy));
    }
    let (count, what) = match hosts.iter().all(|host| host.listener_drops.is_some()) {
        true => {
            let dropped = sum(|host| host.listener_drops.unwrap_or(0));
            let requests = counted(dropped, "connection request", "connection requests");
            (dropped, format!("the server's listening sockets dropped {requests}"))
        }
        false => {
            let overflows = sum(|host| host.tcp.map_or(0, |tcp| tcp.listen_overflows));
            let times = counted(overflows, "time", "times");
            (
                overflows,
                format!("listen queues of {host}, the server's or another program's, were full {times}"),
            )
        }
    };
    let caution = Caution::new("LISTEN QUEUE", what);
    (count > 0).then(|| caution.meaning("each such connection waits a second or more for its next SYN"))
}

/// Timed runs in which this host's counters were read too late to be those of the window.
fn monitored(record: &RunRecord, found: &mut Vec<Caution>) {
    let late = record.iterations.iter().filter_map(|run| {
        let (host, window_ns) = (run.host.as_ref()?, run.measured.window_ns);
        let is_late = host.elapsed_ns > 0 && !plausible::is_of_window(host.elapsed_ns, window_ns);
        let of = |nanos: u64| seconds(nanos as f64 / 1e9);
        let key = || match summary::is_repeated(record) {
            true => run.key().to_string(),
            false => run.level().to_string(),
        };
        is_late.then(|| format!("{} over {} of {}", key(), of(host.elapsed_ns), of(window_ns)))
    });
    let places: Vec<String> = late.collect();
    if !places.is_empty() {
        let caution = Caution::new("MONITORED LATE", "this host's counters are not of the window alone");
        let caution =
            caution.at(places).meaning("the machine was too busy to read them when it opened and closed");
        found.push(caution.remedy("stop other programs, or use longer windows"));
    }
}

/// Local ports and open files that were nearly used up.
fn pressure(spec: &RunSpec, runs: &[IterationRecord], found: &mut Vec<Caution>) {
    type Of = fn(&RunSpec, &HostUse) -> Option<Pressure>;
    let kinds: [Of; 2] = [ports, |_, host| {
        Some(Pressure {
            used: host.descriptors?,
            limit: host.descriptors_max?,
            what: "files were open".to_owned(),
            allowed: "are allowed",
        })
    }];
    for of in kinds {
        let makers = runs.iter().flat_map(|run| run.load_makers().into_iter().map(move |maker| (run, maker)));
        let uses = makers.filter_map(|(run, maker)| Some((run, maker.generator, of(spec, maker.host?)?)));
        let worst = uses.max_by(|a, b| a.2.percent().total_cmp(&b.2.percent()));
        let Some((run, generator, worst)) = worst.filter(|(.., worst)| worst.percent() >= PRESSURE_PERCENT)
        else {
            continue;
        };
        let on = generator.map(|number| format!(" on generator {}", number + 1)).unwrap_or_default();
        let text = format!(
            "{} {}{on} at {}, and {} {}",
            count(worst.used),
            worst.what,
            run.level(),
            count(worst.limit),
            worst.allowed
        );
        found.push(Caution::new("PRESSURE", text));
    }
}

/// How much of something is used.
#[derive(Debug, PartialEq)]
struct Pressure {
    used: u64,
    limit: u64,
    /// What is used, with its verb.
    what: String,
    allowed: &'static str,
}

impl Pressure {
    fn percent(&self) -> f64 {
        summary::quotient(self.used as f64 * 100.0, self.limit as f64)
    }
}

/// Local ports in use and available: of the pair of addresses that uses most, where the kernel reported it, otherwise of the whole
/// host, which is the most that one pair can use.
fn ports(spec: &RunSpec, host: &HostUse) -> Option<Pressure> {
    let (allowed, ports) = ("may be used", host.ports?);
    if let Some(pair) = &host.pair_ports {
        let what = format!(
            "local ports were taken from {} to {} ({} in TIME_WAIT)",
            pair.source,
            pair.target,
            count(pair.time_wait)
        );
        return Some(Pressure { used: pair.used, limit: ports, what, allowed });
    }
    let tcp = host.tcp?;
    let sources = spec.client.source.iter().map(AddressRange::count).sum::<u64>().max(1);
    // On loopback both ends are this host's, and one of them has the target's port.
    let on_loopback = host.links.iter().any(|link| link.loopback);
    let in_use = if on_loopback { tcp.in_use / 2 } else { tcp.in_use };
    Some(Pressure {
        used: tcp.time_wait + in_use,
        limit: ports.saturating_mul(sources),
        what: "local ports were in use or in TIME_WAIT on this host, for this target or another".to_owned(),
        allowed,
    })
}

#[cfg(test)]
mod tests {
    use webstone_model::record::{LinkUse, PairPorts, TcpUse};

    use super::*;

    fn used(spec: &RunSpec, host: &HostUse) -> (u64, u64) {
        let ports = ports(spec, host).unwrap();
        (ports.used, ports.limit)
    }

    #[test]
    fn in_brief_a_caution_names_one_place_and_what_to_do() {
        let places = || ["a", "b", "c"].map(str::to_owned).to_vec();
        let caution = Caution::new("X", "slow").at(places()).meaning("it is late").remedy("wait");
        assert_eq!(caution.whole(), "slow: a, b, c; it is late; wait");
        assert_eq!(caution.brief(), "slow: a and 2 more; wait");
        assert_eq!(caution.rest().as_deref(), Some("a, b, c; it is late"));
        assert_eq!(Caution::new("X", "slow").at(vec!["a".to_owned()]).rest(), None, "all is said");
    }

    #[test]
    fn places_that_are_sentences_have_dots_or_lines_between_them() {
        let places = ["a: 2 %, long; it is", "b: 3 %", "c"].map(str::to_owned).to_vec();
        let caution = Caution {
            are_sentences: true,
            places_max: 2,
            ..Caution::new("X", "slow").at(places).meaning("it is late")
        };
        assert_eq!(caution.whole(), "slow: a: 2 %, long; it is · b: 3 % and 1 more; it is late");
        assert_eq!(caution.lines(), ["slow; it is late", "a: 2 %, long; it is", "b: 3 %", "and 1 more"]);
        let alone = Caution { are_sentences: true, ..Caution::new("X", "slow").at(vec!["a, b".to_owned()]) };
        assert_eq!(alone.lines(), ["slow: a, b"]);
    }

    #[test]
    fn without_pairs_ports_are_counted_by_where_connections_come_from() {
        let mut spec = RunSpec::default();
        let mut host = HostUse {
            ports: Some(28_000),
            tcp: Some(TcpUse { in_use: 40_000, time_wait: 5_000, ..TcpUse::default() }),
            ..HostUse::default()
        };
        assert_eq!(used(&spec, &host), (45_000, 28_000));
        host.links = vec![LinkUse { loopback: true, ..LinkUse::default() }];
        assert_eq!(used(&spec, &host), (25_000, 28_000), "both ends are here");
        spec.client.source = vec!["127.0.0.2-127.0.0.9".parse().unwrap()];
        assert_eq!(used(&spec, &host), (25_000, 224_000), "each address has them all");
    }

    #[test]
    fn what_others_have_in_time_wait_is_no_pressure() {
        let host = |used, time_wait| HostUse {
            ports: Some(28_000),
            tcp: Some(TcpUse { in_use: 10, time_wait: 50_000, ..TcpUse::default() }),
            pair_ports: Some(PairPorts {
                source: "10.0.0.1".to_owned(),
                target: "10.0.0.2:80".to_owned(),
                used,
                time_wait,
            }),
            ..HostUse::default()
        };
        let said = |host| {
            let run = IterationRecord { clients: 3, host: Some(host), ..IterationRecord::default() };
            let mut found = Vec::new();
            pressure(&RunSpec::default(), &[run], &mut found);
            found
        };
        assert_eq!(said(host(2_000, 1_000)), []);
        let expected = "24,000 local ports were taken from 10.0.0.1 to 10.0.0.2:80 (23,000 in TIME_WAIT) at 3 clients, and 28,000 \
                        may be used";
        assert_eq!(said(host(24_000, 23_000)), [Caution::new("PRESSURE", expected)]);
    }
}
