//! The verdict, what limits, and what else makes the figures doubtful. It stands above them, because a figure that is
//! read first is believed.

use webstone_judge::statistics::Steadiness;
use webstone_judge::verdict::{
    Cause, DISTURBANCE_NS_MIN, DISTURBED_PERCENT_MAX, LOOP_DELAY_PERCENT_MAX, Loss, RUN_QUEUE_PERCENT_MAX,
    RuleStanding, Standing, Verdict, losses, rules, run_queue_percent,
};
use webstone_model::addresses::AddressRange;
use webstone_model::record::{HostUse, IterationRecord, RunRecord};
use webstone_model::spec::RunSpec;

use crate::layout::{heading, labelled, push_line};
use crate::numbers::{count, counted, decimal, percent, seconds};
use crate::screen::{Screen, Tone};
use crate::summary::{self, Level};

/// Iterations named in one line.
const NAMED_MAX: usize = 8;
/// Void timed runs that are told of: each has a sentence of its own.
const VOIDS_MAX: usize = 3;
/// Share of the local ports, or of the files that may be open, from which on the report warns, in percent.
const PRESSURE_PERCENT: f64 = 80.0;

/// The block; `is_brief` leaves the names of unmet rules to the full report.
pub(crate) fn draw(
    screen: &Screen,
    record: &RunRecord,
    levels: &[Level<'_>],
    verdict: &Verdict,
    is_brief: bool,
    out: &mut String,
) {
    let mut problems = vec![standing(record, verdict, is_brief)];
    if !record.iterations.is_empty() {
        problems.push(Problem {
            tone: Tone::Plain,
            mark: |_| "",
            ..Problem::caution("LIMIT", &verdict.limit.sentence)
        });
    }
    problems.extend(
        cautions(screen, record, levels, verdict).iter().map(|(title, text)| Problem::caution(title, text)),
    );
    out.push('\n');
    for problem in &problems {
        problem.draw(screen, out);
    }
}

/// What makes figures doubtful without condemning them: a title in capitals, and a sentence.
pub(crate) type Caution = (&'static str, String);

/// All cautions of a record, whichever way they are shown.
pub(crate) fn cautions(
    screen: &Screen,
    record: &RunRecord,
    levels: &[Level<'_>],
    verdict: &Verdict,
) -> Vec<Caution> {
    let mut found = Vec::new();
    errors(record, verdict, &mut found);
    voids(record, &mut found);
    kept_off(record, levels, &mut found);
    disturbed(screen, record, &mut found);
    generator_delay(screen, levels, &mut found);
    connect_delay(screen, levels, &mut found);
    iterations(screen, levels, &mut found);
    noise(levels, &mut found);
    host(record, &mut found);
    if !levels.is_empty()
        && levels.iter().all(|level| level.distributions.is_empty() && level.counts.succeeded > 0)
    {
        found.push(("NO DISTRIBUTIONS", "the record came without its histograms: no percentiles".to_owned()));
    } else {
        cut_short(levels, &mut found);
    }
    found.extend(record.warnings.iter().map(|warning| ("WARNING", warning.clone())));
    found
}

/// The table of all run rules, at the end of the full report.
pub(super) fn rules_table(screen: &Screen, record: &RunRecord, out: &mut String) {
    let rules = rules(record);
    let met = rules.iter().filter(|rule| rule.standing == RuleStanding::Met).count() as u64;
    heading(screen, out, "Run rules", &format!("{} of {} met", count(met), count(rules.len() as u64)));
    let width = rules.iter().map(|rule| rule.id.len()).max().unwrap_or(0) + 2;
    for rule in &rules {
        let (word, tone) = match rule.standing {
            RuleStanding::Met => ("met", Tone::Plain),
            RuleStanding::NotMet => ("NOT MET", Tone::Caution),
            RuleStanding::CannotTell => ("CANNOT TELL", Tone::Caution),
        };
        labelled(screen, out, &rule.id, width, &screen.safe(&format!("{word}: {}", rule.evidence)), tone);
    }
}

struct Problem {
    tone: Tone,
    mark: fn(&Screen) -> &'static str,
    text: String,
    details: Vec<String>,
}

impl Problem {
    fn alarm(title: &str, text: &str) -> Problem {
        Problem { tone: Tone::Alarm, mark: Screen::alarm, ..Problem::caution(title, text) }
    }

    fn caution(title: &str, text: &str) -> Problem {
        Problem {
            tone: Tone::Caution,
            mark: Screen::caution,
            text: format!("{title}: {text}"),
            details: Vec::new(),
        }
    }

    fn draw(&self, screen: &Screen, out: &mut String) {
        let mark = (self.mark)(screen);
        // The mark stands in the margin, where tables have their markers: it is the first thing on the line.
        let mut lines = String::new();
        labelled(screen, &mut lines, mark, 3, &screen.safe(&self.text), self.tone);
        for detail in &self.details {
            labelled(screen, &mut lines, "", 3, &screen.safe(detail), Tone::Plain);
        }
        lines.lines().for_each(|line| push_line(out, line));
    }
}

fn standing(record: &RunRecord, verdict: &Verdict, is_brief: bool) -> Problem {
    let word = verdict.standing.word();
    match verdict.standing {
        Standing::Valid => Problem {
            tone: Tone::Good,
            mark: |_| "",
            ..Problem::caution(word, "sound, and every run rule is met")
        },
        Standing::Uncertified => {
            let unmet = verdict.unmet_rules.len() as u64;
            let all = rules(record).len() as u64;
            let ids: Vec<&str> = verdict.unmet_rules.iter().map(|rule| rule.id.as_str()).collect();
            let which = if is_brief { String::new() } else { format!(": {}", ids.join(", ")) };
            let verb = if unmet == 1 { "is" } else { "are" };
            Problem::caution(
                word,
                &format!("sound, but {} of {} run rules {verb} not met{which}", count(unmet), count(all)),
            )
        }
        Standing::Disturbed => in_doubt(Problem::caution, word, "these figures are in doubt", verdict),
        Standing::Invalid => in_doubt(Problem::alarm, word, "do not trust these figures", verdict),
    }
}

fn in_doubt(problem: fn(&str, &str) -> Problem, word: &str, what: &str, verdict: &Verdict) -> Problem {
    let told = verdict.told();
    match &told[..] {
        [only] => problem(word, only),
        _ => {
            let reasons =
                verdict.reasons.len().max(verdict.doubts.len() * usize::from(verdict.reasons.is_empty()));
            let number = counted(reasons as u64, "reason", "reasons");
            Problem { details: told, ..problem(word, &format!("{what}, for {number}")) }
        }
    }
}

/// Errors that are too few to condemn the run.
fn errors(record: &RunRecord, verdict: &Verdict, found: &mut Vec<Caution>) {
    let counts = summary::counts(record);
    let condemned =
        verdict.reasons.iter().any(|r| matches!(r.cause, Cause::Errors | Cause::NothingSucceeded));
    if counts.failed == 0 || condemned {
        return;
    }
    let share = counts.failed as f64 / counts.ended() as f64 * 100.0;
    found.push((
        "ERRORS",
        format!(
            "{} of {} requests failed ({}); they count as errors and as nothing else",
            count(counts.failed),
            count(counts.ended()),
            percent(share)
        ),
    ));
}

/// Timed runs that were void, and what disturbed them.
fn voids(record: &RunRecord, found: &mut Vec<Caution>) {
    if record.voids.is_empty() {
        return;
    }
    let told: Vec<String> = record
        .voids
        .iter()
        .map(|run| {
            let why = losses(record, run).first().map(Loss::sentence).unwrap_or_default();
            format!("iteration {} at {}: {why}", run.iteration, run.level())
        })
        .collect();
    let number = counted(told.len() as u64, "timed run was", "timed runs were");
    let text = format!("{number} void and repeated, and count for no figure: {}", listed(&told, VOIDS_MAX));
    found.push(("VOID", text));
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
        let text = format!(
            "the load generator waited for its CPU while the server or another of its workers had it, for up to {}: that \
             time is in every latency; give it CPUs of its own with --cpus",
            listed(&levels, NAMED_MAX)
        );
        found.push(("KEPT OFF ITS CPU", text));
    }
}

/// CPUs of the generator that others took a good part of before the levels.
fn disturbed(screen: &Screen, record: &RunRecord, found: &mut Vec<Caution>) {
    let seen = summary::disturbance(&record.iterations)
        .filter(|seen| seen.looked_ns >= DISTURBANCE_NS_MIN && seen.taken_percent() >= DISTURBED_PERCENT_MAX);
    if let Some(seen) = seen {
        let text = format!(
            "before the levels, others took {} of the generator's CPU, up to {} at once: other programs, or other virtual \
             machines on the same host. Latencies contain such gaps as well; stop other programs, or use a dedicated machine",
            percent(seen.taken_percent()),
            seconds(screen, seen.longest_ns as f64 / 1e9)
        );
        found.push(("DISTURBED BEFORE LEVELS", text));
    }
}

/// Levels at which the generator itself is a good part of the latency that it shows.
fn generator_delay(screen: &Screen, levels: &[Level<'_>], found: &mut Vec<Caution>) {
    let delayed: Vec<String> = levels
        .iter()
        .filter_map(|level| {
            let (own, latency) =
                (level.generator.loop_delay_p50_s?, *level.figures.latency_percentiles_s.first()?);
            let text = format!("{} of {}", seconds(screen, own), seconds(screen, latency));
            let clients = counted(u64::from(level.clients), "client", "clients");
            (own * 100.0 > latency * LOOP_DELAY_PERCENT_MAX).then(|| format!("{text} at {clients}"))
        })
        .collect();
    if !delayed.is_empty() {
        let text = format!(
            "of the median latency, more than {LOOP_DELAY_PERCENT_MAX} % is the load generator's own delay: {}",
            listed(&delayed, NAMED_MAX)
        );
        found.push(("OWN DELAY", text));
    }
}

/// Levels at which the generator itself is a good part of the connect times that it shows: more than the loop's delay, because
/// a loop that is busy learns late that a connection stands.
fn connect_delay(screen: &Screen, levels: &[Level<'_>], found: &mut Vec<Caution>) {
    let delayed: Vec<String> = levels
        .iter()
        .filter_map(|level| {
            let (own, connect) =
                (level.generator.connect_lag_p50_s?, level.distributions.connect.as_ref()?.p50_s);
            let text = format!("{} of {}", seconds(screen, own), seconds(screen, connect));
            (own * 100.0 > connect * LOOP_DELAY_PERCENT_MAX).then(|| format!("{text} at {}", level.load()))
        })
        .collect();
    if !delayed.is_empty() {
        let text = format!(
            "of the median connect time, more than {LOOP_DELAY_PERCENT_MAX} % is the load generator's own delay: {}; the network and \
             the server took the rest",
            listed(&delayed, NAMED_MAX)
        );
        found.push(("OWN DELAY", text));
    }
}

/// Levels of which the files beside `record.json` hold less than was counted: truncated since, or badly copied.
fn cut_short(levels: &[Level<'_>], found: &mut Vec<Caution>) {
    let lacking: Vec<String> = levels
        .iter()
        .filter_map(|level| {
            let answered = level.counts.succeeded;
            let held = level.distributions.response.as_ref().map_or(0, |response| response.count);
            let seconds = level.runs.iter().flat_map(|run| &run.measured.seconds.0);
            let series = seconds.map(|second| second.requests).fold(0, u64::saturating_add);
            let text =
                format!("{} and {} of {} at {}", count(held), count(series), count(answered), level.load());
            (held != answered || series != answered).then_some(text)
        })
        .collect();
    if !lacking.is_empty() {
        let text = format!(
            "the histograms and the series do not hold every response: {}; percentiles and charts by the second are of \
             a part only, and webstone verify names the damaged file",
            listed(&lacking, NAMED_MAX)
        );
        found.push(("DAMAGED RECORD", text));
    }
}

/// Iterations that stand apart, and those that were not in their steady state.
fn iterations(screen: &Screen, levels: &[Level<'_>], cautions: &mut Vec<Caution>) {
    let named = |run: &IterationRecord| format!("iteration {} at {}", run.iteration, run.level());
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
                    "{} (after {}; the mean rate is {:+.1} % off)",
                    named(run),
                    seconds(screen, steady.truncate as f64),
                    steady.shift_percent
                )),
                Steadiness::Never => never.push(named(run)),
            }
        }
    }
    let mut say = |title: &'static str, text: &str, found: Vec<String>| {
        if !found.is_empty() {
            cautions.push((title, format!("{text}: {}", listed(&found, NAMED_MAX))));
        }
    };
    say(
        "OUTLIERS",
        "apart from the other iterations of their level, and in every figure all the same",
        apart,
    );
    say("WARM-UP TOO SHORT", "by MSER-5 the steady state came later in", later);
    say("NOT STEADY", "by MSER-5 the rate goes on moving through", never);
}

fn noise(levels: &[Level<'_>], found: &mut Vec<Caution>) {
    let parted: Vec<String> = levels
        .iter()
        .filter_map(|level| {
            let noise = level.statistics.noise.filter(|noise| !noise.alike)?;
            let off = 100.0 * (noise.ratio.point - 1.0);
            Some(format!("{} ({off:+.2} %)", level.load()))
        })
        .collect();
    if !parted.is_empty() {
        let text = format!(
            "both arms measure the same, and more than chance parts them at {}: the machine or the server changed \
             meanwhile",
            listed(&parted, NAMED_MAX)
        );
        found.push(("A/A ARMS DIFFER", text));
    }
}

/// What the kernel counted that should not happen, and what was nearly used up.
fn host(record: &RunRecord, found: &mut Vec<Caution>) {
    let uses = || record.iterations.iter().filter_map(|run| Some((run, run.host.as_ref()?)));
    let overflows: u64 =
        uses().filter_map(|(_, host)| Some(host.tcp?.listen_overflows)).fold(0, u64::saturating_add);
    if overflows > 0 {
        let text = format!(
            "connections found the listen queue full {} on this host: each waits a second or more for its next SYN",
            counted(overflows, "time", "times")
        );
        found.push(("LISTEN QUEUE", text));
    }
    let there = record.iterations.iter().filter_map(|run| run.server_host.as_ref()?.host.tcp);
    let there = there.map(|tcp| tcp.listen_overflows).fold(0, u64::saturating_add);
    if there > 0 {
        let text = format!(
            "connections found the listen queue full {} on the server's host: each waits a second or more for its next SYN",
            counted(there, "time", "times")
        );
        found.push(("LISTEN QUEUE", text));
    }
    let syn: u64 =
        uses().filter_map(|(_, host)| Some(host.tcp?.syn_retransmitted)).fold(0, u64::saturating_add);
    if syn > 0 && overflows == 0 {
        let text = format!(
            "{} sent again on this host: packets are lost, or a queue is full elsewhere",
            counted(syn, "SYN was", "SYNs were")
        );
        found.push(("RETRANSMISSIONS", text));
    }
    pressure(&record.spec, &record.iterations, found);
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
        let uses = runs.iter().filter_map(|run| Some((run, of(spec, run.host.as_ref()?)?)));
        let worst = uses.max_by(|a, b| a.1.percent().total_cmp(&b.1.percent()));
        let Some((run, worst)) = worst.filter(|(_, worst)| worst.percent() >= PRESSURE_PERCENT) else {
            continue;
        };
        let text = format!(
            "{} {} at {}, and {} {}",
            count(worst.used),
            worst.what,
            run.level(),
            count(worst.limit),
            worst.allowed
        );
        found.push(("PRESSURE", text));
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

/// Local ports that connections have, and how many there are: of the pair of addresses that has most, where the kernel told, or
/// else of the whole host, which is the most that one pair can have.
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

fn listed(names: &[String], most: usize) -> String {
    let shown = names.iter().take(most).cloned().collect::<Vec<_>>().join(", ");
    match names.len().saturating_sub(most) {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
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
        assert_eq!(said(host(24_000, 23_000)), [("PRESSURE", expected.to_owned())]);
    }
}
