//! The reasons of a verdict as people read them: one sentence per cause, then the other levels that it affects.
//! Repeating the sentence for every iteration of every level would hide the other causes.

use super::{Cause, LevelVerdict, Reason, Standing, Verdict};

/// Other iterations that are named, with what was measured in them.
const OTHERS_MAX: usize = 8;
/// Reasons that are reported one by one because each says something else.
const ONE_BY_ONE_MAX: usize = 4;

impl Verdict {
    /// The standing, and what it means or why, in one line.
    pub fn in_a_line(&self) -> String {
        let noise = || self.noise_told().filter(|_| self.reasons.is_empty());
        let why = || self.told().into_iter().next();
        let text = noise().or_else(why).unwrap_or_else(|| self.standing.meaning().to_owned());
        format!("{}: {text}", self.standing.word())
    }

    /// How far noise may have moved the figures, at the level where that is most; `None` without noise that matters.
    pub fn noise_told(&self) -> Option<String> {
        let noisy = || self.levels.iter().filter(|level| level.standing == Standing::Noisy);
        let more = rate_percent_more;
        let inconclusive = self.levels.iter().filter(|level| level.standing == Standing::Inconclusive);
        let inconclusive: Vec<String> = inconclusive.map(|level| level.level().to_string()).collect();
        let bound = self.noisiest().and_then(|level| {
            let (noise, place) = (level.noise?, level.level());
            let place = if self.levels.len() > 1 { format!(" (at {place})") } else { String::new() };
            let was_faster = percent_up(noise.rate_percent_more()?) != percent_up(100.0 * (noise.factor? - 1.0));
            let why = if was_faster { "; this machine was faster in earlier runs" } else { "" };
            Some(format!(
                "undisturbed, request rates may be up to {} higher and mean response times up to {} shorter{place}{why}",
                percent_up(noise.rate_percent_more()?),
                percent_up(noise.latency_percent_less()?)
            ))
        });
        let unbounded: Vec<String> =
            noisy().filter(|level| more(level).is_none()).map(|level| level.level().to_string()).collect();
        let unbounded = match bound {
            _ if unbounded.is_empty() => None,
            None => Some("undisturbed, response times may be shorter".to_owned()),
            Some(_) => Some(format!("no bound is known at {}", unbounded.join(", "))),
        };
        let nothing = (!inconclusive.is_empty())
            .then(|| format!("nothing can be concluded at {}", inconclusive.join(", ")));
        let parts: Vec<String> = bound.into_iter().chain(unbounded).chain(nothing).collect();
        (!parts.is_empty()).then(|| parts.join("; "))
    }

    /// The noisy level with the widest bound.
    fn noisiest(&self) -> Option<&LevelVerdict> {
        let noisy = self.levels.iter().filter(|level| level.standing == Standing::Noisy);
        let bounded = noisy.filter_map(|level| Some((level, rate_percent_more(level)?)));
        Some(bounded.max_by(|a, b| a.1.total_cmp(&b.1))?.0)
    }

    /// What made the noise of which [`Verdict::noise_told`] has the bound: a doubt of the same level, where there is one.
    pub fn doubt_told(&self) -> Option<&Reason> {
        let noisiest = self.noisiest().map(LevelVerdict::level);
        // The line with the bound says that the machine was faster in earlier runs.
        let is_of_run = |doubt: &&Reason| doubt.cause != Cause::SlowerThanEarlier;
        let there = || self.doubts.iter().filter(|doubt| doubt.level() == noisiest);
        there().find(is_of_run).or_else(|| there().next()).or_else(|| self.doubts.first())
    }

    /// Why it is invalid, or else what makes it noisy or inconclusive, in sentences, the gravest first.
    pub fn told(&self) -> Vec<String> {
        told(self.decisive())
    }

    /// Why it is invalid, or else what makes it noisy or inconclusive, grouped by cause.
    pub fn decisive(&self) -> &[Reason] {
        if self.reasons.is_empty() { &self.doubts } else { &self.reasons }
    }
}

fn rate_percent_more(level: &LevelVerdict) -> Option<f64> {
    level.noise?.rate_percent_more()
}

/// Percent without decimals, rounded up; what arithmetic adds to a whole number is not rounded.
pub fn percent_up(percent: f64) -> String {
    format!("{:.0} %", (percent - 1e-9).ceil().max(0.0))
}

fn told(reasons: &[Reason]) -> Vec<String> {
    reasons.chunk_by(|a, b| a.cause == b.cause).flat_map(of_cause).collect()
}

fn of_cause(reasons: &[Reason]) -> Vec<String> {
    match reasons {
        [] => Vec::new(),
        [only] => vec![only.sentence.clone()],
        // The evidence of each is its own.
        [first, ..] if matches!(first.cause, Cause::Incomplete | Cause::IdentityBroken) => {
            one_by_one(reasons)
        }
        [first, others @ ..] => vec![together(first, others)],
    }
}

fn one_by_one(reasons: &[Reason]) -> Vec<String> {
    // One more is as short as saying that there is one more.
    let shown = if reasons.len() == ONE_BY_ONE_MAX + 1 { reasons.len() } else { ONE_BY_ONE_MAX };
    let told = reasons.iter().take(shown).map(|reason| reason.sentence.clone());
    let more = reasons.len().saturating_sub(shown);
    told.chain((more > 0).then(|| format!("and {more} more of this kind"))).collect()
}

fn together(first: &Reason, others: &[Reason]) -> String {
    let repeated =
        others.iter().chain([first]).any(|reason| reason.iteration.is_some_and(|number| number > 1));
    let mut level = first.level();
    let mut named = Vec::new();
    for reason in others.iter().take(OTHERS_MAX) {
        // A level is named with its first iteration only.
        let before = std::mem::replace(&mut level, reason.level());
        let place = level.filter(|_| level != before || !repeated).map(|level| level.to_string());
        let iteration = reason.iteration.filter(|_| repeated).map(|number| format!("iteration {number}"));
        let place: Vec<String> = place.into_iter().chain(iteration).collect();
        named.push(format!("{} ({})", place.join(", "), reason.measured));
    }
    let more = match others.len() - named.len() {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    format!("{}; likewise {}{more}", first.sentence, named.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::verdict::NoiseBound;

    fn reason(cause: Cause, clients: u32, iteration: u32) -> Reason {
        Reason {
            cause,
            clients: Some(clients),
            rate: None,
            iteration: Some(iteration),
            measured: format!("{clients}{iteration} %"),
            limit: "90 %".to_owned(),
            sentence: format!("{clients} clients, iteration {iteration}: broken"),
        }
    }

    #[test]
    fn a_level_without_a_bound_is_named_beside_one_with_a_bound() {
        let mut verdict = crate::verdict::of_record(&crate::verdict::tests::valid());
        verdict.levels.truncate(2);
        for (level, factor) in verdict.levels.iter_mut().zip([Some(1.25), None]) {
            let (cpu_factor, at_best, undisturbed) = (None, None, None);
            level.standing = Standing::Noisy;
            level.noise =
                Some(NoiseBound { held_up_percent: 20.0, factor, cpu_factor, at_best, undisturbed });
        }
        assert_eq!(
            verdict.noise_told().unwrap(),
            "undisturbed, request rates may be up to 25 % higher and mean response times up to 20 % shorter (at 20 clients); no \
             bound is known at 30 clients"
        );
        // What is told of it is of the level with the bound.
        verdict.doubts = vec![
            reason(Cause::SlowerThanEarlier, 20, 1),
            reason(Cause::Slowed, 30, 1),
            reason(Cause::Crowded, 20, 1),
        ];
        assert_eq!(verdict.doubt_told(), Some(&verdict.doubts[2]));
        verdict.doubts.truncate(2);
        assert_eq!(verdict.doubt_told(), Some(&verdict.doubts[0]));
    }

    #[test]
    fn a_cause_is_told_once_with_its_other_places() {
        let of = |places: &[(u32, u32)]| -> Vec<Reason> {
            places.iter().map(|(clients, i)| reason(Cause::GeneratorSaturated, *clients, *i)).collect()
        };
        assert_eq!(told(&of(&[(5, 1)])), ["5 clients, iteration 1: broken"]);
        assert_eq!(
            told(&of(&[(5, 1), (10, 1)])),
            ["5 clients, iteration 1: broken; likewise 10 clients (101 %)"]
        );
        assert_eq!(
            told(&of(&[(5, 1), (5, 2), (10, 1), (10, 2)])),
            [
                "5 clients, iteration 1: broken; likewise iteration 2 (52 %), 10 clients, iteration 1 (101 %), iteration 2 \
              (102 %)"
            ]
        );
        let many: Vec<(u32, u32)> = (1..=12).map(|clients| (clients, 1)).collect();
        assert!(told(&of(&many))[0].ends_with("9 clients (91 %) and 3 more"));
    }

    #[test]
    fn broken_identities_are_told_one_by_one_up_to_a_few() {
        let broken = |n: u32| (1..=n).map(|i| reason(Cause::IdentityBroken, i, 1)).collect::<Vec<_>>();
        assert_eq!(told(&broken(5)).len(), 5);
        assert_eq!(told(&broken(6))[3..], ["4 clients, iteration 1: broken", "and 2 more of this kind"]);
    }
}
