//! The most important figures in one line: those of the peak, or what a search found.

use webstone_judge::search::Answer;
use webstone_judge::verdict::STALLED_PERCENT_MAX;
use webstone_measure::figures::level::{LATENCY_MAX, LATENCY_MEAN, LATENCY_P99};
use webstone_measure::figures::unanswered::{OLDEST_IN_FLIGHT, STALLED};
use webstone_measure::figures::{Figure, Value};
use webstone_measure::server_figures::CPU_PER_REQUEST;
use webstone_model::record::RunRecord;

use crate::document::Tone;
use crate::judged::Judged;
use crate::numbers::{DOT, Scale, counted, percent};
use crate::summary::{self, Level};

/// The lines, each in its tone; none where nothing was measured.
pub(super) fn lines(judged: &Judged<'_>, levels: &[Level<'_>]) -> Vec<(Tone, String)> {
    let record = judged.record;
    if let Some(finding) = judged.finding() {
        let tone = match finding.answer {
            Answer::Between | Answer::Always => Tone::Strong,
            Answer::Never => Tone::Alarm,
            Answer::Unclear | Answer::Unfinished => Tone::Caution,
        };
        let level = super::answer(judged, levels).map(|level| {
            let (rate, rest) = parts(record, level);
            (Tone::Plain, [vec![rate], rest].concat().join(DOT))
        });
        return [(tone, finding.sentence.clone())].into_iter().chain(level).collect();
    }
    let Some(level) = levels.get(summary::peak(levels).unwrap_or(0)) else { return Vec::new() };
    let (rate, rest) = parts(record, level);
    let line = (Tone::Strong, [vec![rate], rest].concat().join(DOT));
    [line].into_iter().chain(without_noise(level).map(|estimate| (Tone::Plain, estimate))).collect()
}

/// `Estimate without noise: 83,951 requests/s (82,279 to 85,656), from 41 slices that lost 0.3 to 18 %`.
pub(crate) fn without_noise(level: &Level<'_>) -> Option<String> {
    let noise = level.noise?;
    let estimate = noise.undisturbed?;
    // The slices of a run do not show that the machine can be faster.
    let was_faster = noise.rate_factor() > noise.factor;
    let at = if was_faster { " at the machine's speed in this run" } else { "" };
    let scale = Scale::plain(0, [estimate.rate]);
    let lost = |lost: f64| if lost < 10.0 { format!("{lost:.1}") } else { format!("{lost:.0}") };
    Some(format!(
        "Estimate without noise{at}: {} requests/s ({} to {}), from {} slices that lost {} to {} %",
        scale.say(estimate.rate),
        scale.say(estimate.low),
        scale.say(estimate.high),
        estimate.slices,
        lost(estimate.lost_percent_min),
        lost(estimate.lost_percent_max)
    ))
}

/// The request rate at a level, and what else is worth a line: throughput, latency, errors of the whole run.
pub(crate) fn parts(record: &RunRecord, level: &Level<'_>) -> (String, Vec<String>) {
    let figures = &level.figures;
    let rate = Scale::plain(1, [figures.request_rate]).say(figures.request_rate);
    let mut parts = vec![format!(
        "{} Mbit/s",
        Scale::plain(1, [figures.throughput_bps / 1e6]).say(figures.throughput_bps / 1e6)
    )];
    if level.counts.succeeded > 0 {
        let said = |figure: &Figure| {
            let value = level.values.value(figure)?;
            Some(Scale::seconds([value.as_f64()]).say_value(value))
        };
        let tail = said(&LATENCY_P99).zip(said(&LATENCY_MAX));
        let tail = tail.map(|(p99, max)| format!(", p99 {p99}, max {max}"));
        let mean = said(&LATENCY_MEAN).unwrap_or_default();
        parts.push(format!("latency mean {mean}{}", tail.unwrap_or_default()));
    }
    // A few requests are always in progress, so only those that have waited much longer than others are named.
    let stalled = level.values.value(&STALLED).map_or(0.0, Value::as_f64);
    if let Some(oldest) = level.values.value(&OLDEST_IN_FLIGHT).filter(|_| stalled > STALLED_PERCENT_MAX) {
        parts.push(format!(
            "{} in flight at the end, the oldest for {}",
            counted(level.counts.in_flight, "request", "requests"),
            crate::numbers::seconds(oldest.as_f64())
        ));
    }
    let counts = summary::counts(record);
    let share = summary::quotient(counts.failed as f64 * 100.0, counts.ended() as f64);
    parts.push(match counts.failed {
        0 => "no errors".to_owned(),
        failed => format!("{} ({})", counted(failed, "error", "errors"), percent(share)),
    });
    parts.extend(server_cpu(level));
    (format!("{rate} requests/s at {}", level.load()), parts)
}

/// `server CPU 37.1 µs/request ± 2 % (undisturbed at least 35.2)`: noise changes it least, unless others crowd the server's CPU.
pub(crate) fn server_cpu(level: &Level<'_>) -> Option<String> {
    let cpu = level.values.value(&CPU_PER_REQUEST)?;
    let scale = Scale::seconds([cpu.as_f64()]);
    let said = scale.say_value(cpu);
    let interval = level.statistics.server_cpu_per_request_s.and_then(|it| it.half_width_percent());
    let interval = interval.map(|half| format!(" ± {}", percent(half))).unwrap_or_default();
    let bound =
        cpu_bound(level, cpu.as_f64()).map(|least| format!(" (undisturbed at least {})", scale.say(least)));
    Some(format!("server CPU {said}/request{interval}{}", bound.unwrap_or_default()))
}

/// What a CPU time per request would be at least without noise, where noise may have raised it.
pub(crate) fn cpu_bound(level: &Level<'_>, cpu: f64) -> Option<f64> {
    let factor = level.noise?.cpu_time_factor().filter(|factor| *factor > 1.0)?;
    Some(cpu / factor)
}

#[cfg(test)]
mod tests {
    use super::*;
    use webstone_judge::verdict::{AtBest, NoiseBound, Undisturbed};

    #[test]
    fn an_estimate_says_that_it_is_of_the_machine_as_it_was() {
        let record = webstone_model::fixture::record("r", &[(10, &[1000.0])]);
        let mut level = summary::levels(&record).remove(0);
        let (rate, low, high) = (1100.0, 1050.0, 1150.0);
        let undisturbed =
            Undisturbed { rate, low, high, slices: 12, lost_percent_min: 1.0, lost_percent_max: 8.0 };
        let mut noise = NoiseBound {
            held_up_percent: 10.0,
            factor: Some(1.2),
            cpu_factor: Some(1.1),
            at_best: None,
            undisturbed: Some(undisturbed),
        };
        level.noise = Some(noise);
        assert!(
            without_noise(&level).unwrap().starts_with("Estimate without noise: 1,100 requests/s (1,050 to")
        );
        noise.at_best = Some(AtBest { factor: Some(1.5), cpu_factor: Some(1.5) });
        level.noise = Some(noise);
        let said = without_noise(&level).unwrap();
        assert!(
            said.starts_with("Estimate without noise at the machine's speed in this run: 1,100"),
            "{said}"
        );
    }
}
