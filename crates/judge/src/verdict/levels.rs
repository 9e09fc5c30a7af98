//! What each level's figures are worth, and how far noise may have moved them.
//!
//! Noise does not make a figure wrong. It makes it less certain, and to one side only: rates become lower and response times longer. In
//! closed loop the rate is bounded by what server and load generator lost and by how much more a request cost, all multiplied;
//! response times follow, because rate × response time is the number of clients. In open loop the rate is given, and a queue lengthens
//! waits by more than what was taken: there is no such bound. CPU time per request grows by what the kernel counts as the process's own:
//! a slow CPU, a crowded one, a hypervisor that stops it. Definitions: `docs/measurement.md`, "How far noise may have moved a figure".

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::bounds::{EFFECT_OF_SLOWNESS, NOISE_FACTOR_MAX, SLOWER_PERCENT_CLEAN};
use super::disturbance::{Loss, LossKind, Worth, losses};
use super::earlier::{self, Drift};
use super::undisturbed::{self, Undisturbed};
use super::{Cause, Reason, Standing};
use webstone_measure::keys::LevelKey;
use webstone_measure::rate::RateProfile;
use webstone_model::record::{EarlierSpeed, IterationRecord, RunRecord};

/// What the figures of a level are worth.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LevelVerdict {
    /// The level, by its number of clients.
    pub clients: u32,
    /// Its rate, in open loop.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate: Option<RateProfile>,
    /// In one word.
    pub standing: Standing,
    /// How far noise may have moved them; absent where there was none that matters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub noise: Option<NoiseBound>,
}

impl NoiseBound {
    /// The undisturbed request rate on the machine at its best is at most this times the measured one. `None` where there is no bound.
    pub fn rate_factor(&self) -> Option<f64> {
        self.at_best.map_or(self.factor, |best| best.factor)
    }

    /// The undisturbed CPU time per request on the machine at its best is at least the measured one divided by this.
    pub fn cpu_time_factor(&self) -> Option<f64> {
        self.at_best.map_or(self.cpu_factor, |best| best.cpu_factor)
    }

    /// How much higher that request rate may be, in percent.
    pub fn rate_percent_more(&self) -> Option<f64> {
        Some(100.0 * (self.rate_factor()? - 1.0))
    }

    /// How much shorter response times may then be, in percent.
    pub fn latency_percent_less(&self) -> Option<f64> {
        Some(100.0 * (1.0 - 1.0 / self.rate_factor()?))
    }
}

impl LevelVerdict {
    /// The level.
    pub fn level(&self) -> LevelKey {
        LevelKey::new(self.clients, self.rate)
    }
}

/// How far noise may have moved the figures of a level.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct NoiseBound {
    /// For how much of the time server or load generator may have been held up, in percent.
    pub held_up_percent: f64,
    /// Closed loop: the undisturbed request rate is at most this times the measured one, and the undisturbed mean response time at
    /// least the measured one divided by it. Absent where there is no bound.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub factor: Option<f64>,
    /// The undisturbed CPU time per request, of the server and of the load generator, is at least the measured one divided by this.
    /// Absent where there is no bound.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu_factor: Option<f64>,
    /// The same for the machine at its best, where it was faster in earlier runs. Ranks use the above: what is measured side by side is
    /// slow alike.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at_best: Option<AtBest>,
    /// What the request rate would have been without noise, estimated from how its slices differ; absent where they do not tell.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub undisturbed: Option<Undisturbed>,
}

/// How far noise, and a machine that was slower than in earlier runs, may have moved the figures of a level.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct AtBest {
    /// As in [`NoiseBound`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub factor: Option<f64>,
    /// As in [`NoiseBound`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu_factor: Option<f64>,
}

/// What each level of a record is worth, in ascending order of load.
pub fn levels(record: &RunRecord) -> Vec<LevelVerdict> {
    let (reasons, doubts) = super::reasons::reasons(record);
    judged(record, &reasons, &doubts, Standing::Sound)
}

/// Every level, in ascending order of load. `reasons` make a level invalid, `doubts` noisy or inconclusive.
pub(super) fn judged(
    record: &RunRecord,
    reasons: &[Reason],
    doubts: &[Reason],
    best: Standing,
) -> Vec<LevelVerdict> {
    let of = |(key, runs): (LevelKey, Vec<&IterationRecord>)| {
        let concerns = |reason: &&Reason| match reason.level() {
            Some(level) => level == key,
            // What was measured before a run ended is worth as much as without its end.
            None if reason.cause == Cause::Incomplete => !is_whole(record, &runs),
            None => true,
        };
        let doubts = || doubts.iter().filter(concerns);
        let noise = Noise::of_level(record, &runs, &record.earlier_speeds);
        let standing = match () {
            () if reasons.iter().any(|reason| concerns(&reason)) => Standing::Invalid,
            () if doubts().any(|doubt| doubt.cause == Cause::Imprecise) => Standing::Inconclusive,
            () if doubts().next().is_none() => best,
            () if noise.is_inconclusive(runs[0].rate.is_some()) => Standing::Inconclusive,
            () => Standing::Noisy,
        };
        // A wrong figure has no bound.
        let is_noisy = matches!(standing, Standing::Noisy | Standing::Inconclusive);
        let bound = is_noisy.then(|| noise.bound(runs[0].rate.is_some())).flatten();
        let bound =
            bound.map(|bound| NoiseBound { undisturbed: undisturbed::of_level(record, &runs), ..bound });
        LevelVerdict { clients: runs[0].clients, rate: runs[0].rate, standing, noise: bound }
    };
    record.levels().into_iter().map(of).collect()
}

/// Whether a level has all its iterations. The load of a search follows from all that came before, so its levels are not by themselves.
fn is_whole(record: &RunRecord, runs: &[&IterationRecord]) -> bool {
    let whole = runs.iter().filter(|run| !run.interrupted).count();
    record.spec.find.is_none() && whole as u64 >= u64::from(record.spec.load.iterations)
}

/// What each level of a record is worth beside another record of the same machine. Where the speed of the server's CPUs is known in every
/// window of both, in closed loop, only what parts the two counts: by how much more one lost than the other, kind by kind, and the difference of
/// the average speeds, if that is more than a clean window has, in the bound `at_best`. The rest makes the windows of both scatter, which their
/// interval has. In open loop a queue multiplies what was lost, so all of it counts. Where speeds are unknown, `at_best` is absent.
pub(crate) fn beside(record: &RunRecord, other: &RunRecord) -> Vec<LevelVerdict> {
    let theirs = other.levels();
    let runs = record.levels();
    let mut levels = levels(record);
    for level in &mut levels {
        let of = |levels: &[(LevelKey, Vec<&IterationRecord>)]| {
            levels.iter().position(|(key, _)| *key == level.level())
        };
        let (Some(ours), Some(others)) = (of(&runs), of(&theirs)) else { continue };
        let (ours, others) = (&runs[ours].1, &theirs[others].1);
        let is_open_loop = level.rate.is_some();
        // What an echo tells of the speed is taken out of both.
        let echoes_of = |record, runs| earlier::echoes(record, runs).is_some();
        let is_at_one_speed = !is_open_loop && echoes_of(record, ours) && echoes_of(other, others);
        let slower = earlier::slower_than(record, ours, (other, others)).or(is_at_one_speed.then_some(0.0));
        level.noise = match (level.standing, slower) {
            (Standing::Invalid, _) => None,
            (_, Some(percent)) => {
                let both = [Losses::of_level(record, ours), Losses::of_level(other, others)];
                let noise = Noise::beside(&both, percent, is_open_loop);
                let is_counted = |loss: &Loss| is_open_loop || loss.kind != LossKind::Slow;
                let held_up_percent = held_up_percent(both[0].factor(&is_counted));
                let bound = NoiseBound { held_up_percent, ..noise.factors(is_open_loop) };
                (held_up_percent > 0.0 || noise.at_best.is_some()).then_some(bound)
            }
            (_, None) => level.noise.map(|noise| NoiseBound { at_best: None, ..noise }),
        };
    }
    levels
}

/// The run's standing: that of its worst level, but NOISY where fewer than half of its levels are INCONCLUSIVE.
pub(super) fn together(levels: &[LevelVerdict], reasons: &[Reason], best: Standing) -> Standing {
    if !reasons.is_empty() {
        return Standing::Invalid;
    }
    let worst = levels.iter().map(|level| level.standing).max().unwrap_or(best);
    let inconclusive = levels.iter().filter(|level| level.standing == Standing::Inconclusive).count();
    match worst {
        Standing::Inconclusive if 2 * inconclusive < levels.len() => Standing::Noisy,
        worst => worst,
    }
}

/// How much the timed runs of a level lost.
struct Noise {
    /// By which factor the rate may be too low: of all losses, and of those that make a window void.
    factor: f64,
    factor_of_void: f64,
    /// By which factor the CPU time per request may be too high.
    cpu_factor: f64,
    /// The same two where the machine was faster in earlier runs.
    at_best: Option<(f64, f64)>,
    is_void: bool,
}

impl Noise {
    /// `best`: how fast the server's CPUs are at their best.
    fn of_level(record: &RunRecord, runs: &[&IterationRecord], best: &[EarlierSpeed]) -> Noise {
        let losses = Losses::of_level(record, runs);
        let drifts: Vec<f64> =
            runs.iter().map(|run| earlier::of_window(record, run, best).map_or(1.0, Drift::factor)).collect();
        // A window that is slower than others of its level is slower than earlier ones for the same reason.
        let at_best = |counts: Counts<'_>| {
            let others = |loss: &Loss| counts(loss) && loss.kind != LossKind::Slow;
            let (all, others) = (losses.factors(counts), losses.factors(&others));
            let of_run = |((all, others), drift): ((f64, f64), &f64)| all.max(others * drift);
            losses.together(all.into_iter().zip(others).zip(&drifts).map(of_run).collect())
        };
        let is_slower = drifts.iter().any(|drift| *drift > 1.0);
        Noise {
            at_best: is_slower.then(|| (at_best(&|_| true), at_best(&costs))),
            factor: losses.factor(&|_| true),
            factor_of_void: losses.factor(&is_void),
            cpu_factor: losses.factor(&costs),
            is_void: losses.any(&is_void),
        }
    }

    /// Of the first of two records, with how much slower the CPU was than in the second, in percent.
    fn beside([ours, theirs]: &[Losses; 2], slower_percent: f64, is_open_loop: bool) -> Noise {
        let factor = |counts: Counts<'_>| match is_open_loop {
            true => ours.factor(counts),
            false => ours.factor_beyond(theirs, &|loss| loss.kind != LossKind::Slow && counts(loss)),
        };
        let (factor, cpu_factor) = (factor(&|_| true), factor(&costs));
        let slowness = 1.0 + EFFECT_OF_SLOWNESS * slower_percent / 100.0;
        let is_slower = slower_percent >= SLOWER_PERCENT_CLEAN;
        Noise {
            at_best: is_slower.then_some((factor * slowness, cpu_factor * slowness)),
            factor,
            factor_of_void: ours.factor(&is_void),
            cpu_factor,
            is_void: ours.any(&is_void),
        }
    }

    fn is_inconclusive(&self, is_open_loop: bool) -> bool {
        // Where nothing was observed it is infinite.
        if is_open_loop {
            self.is_void
        } else {
            self.factor_of_void.is_nan() || self.factor_of_void > NOISE_FACTOR_MAX
        }
    }

    fn bound(&self, is_open_loop: bool) -> Option<NoiseBound> {
        // A bound without a factor says that nothing is known. In open loop, a slow machine alone is no reason to say so.
        let is_moved = self.factor > 1.0 || (self.at_best.is_some() && !is_open_loop);
        is_moved.then(|| self.factors(is_open_loop))
    }

    fn factors(&self, is_open_loop: bool) -> NoiseBound {
        let held_up_percent = held_up_percent(self.factor);
        let factor = Some(self.factor).filter(|factor| !is_open_loop && factor.is_finite());
        let cpu_factor = Some(self.cpu_factor).filter(|factor| factor.is_finite());
        let at_best = self.at_best.map(|(factor, cpu_factor)| AtBest {
            factor: Some(factor).filter(|factor| !is_open_loop && factor.is_finite()),
            cpu_factor: Some(cpu_factor).filter(|factor| factor.is_finite()),
        });
        NoiseBound { held_up_percent, factor, cpu_factor, at_best, undisturbed: None }
    }
}

fn held_up_percent(factor: f64) -> f64 {
    100.0 * (1.0 - 1.0 / factor)
}

/// Which losses count.
type Counts<'a> = &'a dyn Fn(&Loss) -> bool;

/// What makes a window void.
fn is_void(loss: &Loss) -> bool {
    loss.worth == Worth::Void
}

/// What is in CPU time per request. Time that other programs used is not, unless they crowd the CPU.
fn costs(loss: &Loss) -> bool {
    match loss.kind {
        LossKind::Taken => !loss.by_programs,
        LossKind::Slow | LossKind::Crowded | LossKind::LeftOut => true,
        LossKind::Gone | LossKind::Apart | LossKind::Unseen => false,
    }
}

/// What each timed run of a level lost, and how many requests succeeded in it.
struct Losses(Vec<(Vec<Loss>, f64)>);

impl Losses {
    fn of_level(record: &RunRecord, runs: &[&IterationRecord]) -> Losses {
        let of_run = |run: &&IterationRecord| (losses(record, run), run.measured.counts.succeeded as f64);
        Losses(runs.iter().map(of_run).collect())
    }

    fn any(&self, counts: Counts<'_>) -> bool {
        self.0.iter().flat_map(|(losses, _)| losses).any(counts)
    }

    /// By which factor each run may have been faster.
    fn factors(&self, counts: Counts<'_>) -> Vec<f64> {
        let kept = |losses: &[Loss]| kept(losses.iter().filter(|loss| counts(loss)));
        self.0.iter().map(|(losses, _)| 1.0 / kept(losses)).collect()
    }

    /// By which factor all of them together may have been faster.
    fn factor(&self, counts: Counts<'_>) -> f64 {
        self.together(self.factors(counts))
    }

    /// By which factor all of them together may have been faster beyond those of another record: what was lost of one kind, to the load
    /// generator or to the server, costs both alike.
    fn factor_beyond(&self, other: &Losses, counts: Counts<'_>) -> f64 {
        let kinds: BTreeSet<(bool, u8)> = self
            .0
            .iter()
            .flat_map(|(losses, _)| losses)
            .map(|loss| (loss.is_generator, loss.kind as u8))
            .collect();
        let beyond = |(is_generator, kind): (bool, u8)| {
            let is_it =
                |loss: &Loss| loss.is_generator == is_generator && loss.kind as u8 == kind && counts(loss);
            let is_known = |of: LossKind| of as u8 == kind;
            let of_other =
                match [LossKind::Taken, LossKind::Crowded, LossKind::LeftOut].into_iter().any(is_known) {
                    true => other.factor(&is_it),
                    // Nobody knows how much it was.
                    false => 1.0,
                };
            let factor = self.factor(&is_it) / of_other;
            // Where both lost everything there is no bound.
            if factor.is_nan() { f64::INFINITY } else { factor.max(1.0) }
        };
        kinds.into_iter().map(beyond).product()
    }

    /// The mean of the runs' factors, weighed by requests; the highest where none succeeded.
    fn together(&self, factors: Vec<f64>) -> f64 {
        let all: f64 = self.0.iter().map(|(_, requests)| requests).sum();
        let weighed = || factors.iter().zip(&self.0).map(|(factor, (_, requests))| factor * requests);
        match all > 0.0 {
            true => weighed().sum::<f64>() / all,
            false => factors.iter().copied().fold(1.0, f64::max),
        }
    }
}

/// The part of a window without any loss, from 0 to 1, as if no two losses had coincided: those of load generator and server are
/// multiplied. Of several workers, or several hosts of a server, the one that lost most counts.
pub(super) fn kept<'a>(losses: impl Iterator<Item = &'a Loss>) -> f64 {
    let mut least: BTreeMap<(bool, u8), f64> = BTreeMap::new();
    let mut of_slices = 1.0_f64;
    for loss in losses {
        let share = loss.percent_max / 100.0;
        if loss.kind == LossKind::LeftOut {
            // This contains the losses of kept slices, too, so it is not multiplied with them.
            of_slices = of_slices.min(1.0 - share);
            continue;
        }
        // What costs more by a share takes that much longer; requests suffer twice as much as the fixed work does.
        let kept = match loss.kind {
            LossKind::Slow => 1.0 / (1.0 + EFFECT_OF_SLOWNESS * share),
            LossKind::Crowded => 1.0 / (1.0 + share),
            _ => (1.0 - share).max(0.0),
        };
        let least = least.entry((loss.is_generator, loss.kind as u8)).or_insert(1.0);
        *least = least.min(kept);
    }
    least.values().product::<f64>().min(of_slices)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn loss(is_generator: bool, kind: LossKind, percent: f64) -> Loss {
        let loss = Loss::new(kind, Worth::Void, String::new(), percent, String::new());
        Loss { is_generator, by_programs: true, ..loss }
    }

    #[test]
    fn what_is_kept_is_the_product_of_what_each_side_kept() {
        let of = |losses: &[Loss]| kept(losses.iter());
        assert_eq!(of(&[]), 1.0);
        // Two workers: the one that lost most.
        let workers = [loss(true, LossKind::Taken, 10.0), loss(true, LossKind::Taken, 20.0)];
        assert!((of(&workers) - 0.8).abs() < 1e-12);
        let server = [&workers[..], &[loss(false, LossKind::Taken, 50.0)]].concat();
        assert!((of(&server) - 0.4).abs() < 1e-12);
        let slow = [&server[..], &[loss(false, LossKind::Slow, 25.0)]].concat();
        assert!((of(&slow) - 0.4 / 1.5).abs() < 1e-12);
        let crowded = [&server[..], &[loss(false, LossKind::Crowded, 25.0)]].concat();
        assert!((of(&crowded) - 0.32).abs() < 1e-12);
        assert_eq!(of(&[loss(false, LossKind::Unseen, 100.0)]), 0.0);
    }

    #[test]
    fn most_levels_decide_whether_a_run_is_inconclusive() {
        let of = |standings: &[Standing]| {
            let level = |standing: &Standing| LevelVerdict {
                clients: 1,
                rate: None,
                standing: *standing,
                noise: None,
            };
            together(&standings.iter().map(level).collect::<Vec<_>>(), &[], Standing::Sound)
        };
        use Standing::{Inconclusive, Noisy, Sound};
        assert_eq!(of(&[]), Sound);
        assert_eq!(of(&[Sound, Noisy, Sound]), Noisy);
        assert_eq!(of(&[Sound, Inconclusive, Sound]), Noisy);
        assert_eq!(of(&[Sound, Inconclusive]), Inconclusive);
        assert_eq!(of(&[Inconclusive]), Inconclusive);
    }
}
