//! What the figures of a level are worth, in a line: the standing, how far noise may have moved them, and to which side.

use webstone_judge::verdict::{NoiseBound, Standing, Verdict, percent_up};
use webstone_measure::keys::LevelKey;

/// `NOISY: undisturbed, the request rate may be up to 24 % higher, mean response times up to 20 % shorter, and CPU time per request up to
/// 5 % less`; of a level without noise that matters the standing alone.
pub(crate) fn told(verdict: &Verdict, level: LevelKey) -> String {
    let standing = verdict.of_level(level);
    let bound = verdict.noise_of(level).map(|noise| bound(&noise, matches!(level, LevelKey::Rate(_))));
    let said = match (standing, bound) {
        (Standing::Noisy, bound) => bound.unwrap_or_else(|| standing.meaning().to_owned()),
        (Standing::Inconclusive, Some(bound)) => format!("nothing can be concluded: {bound}"),
        (Standing::Inconclusive, None) => "nothing can be concluded".to_owned(),
        _ => return standing.word().to_owned(),
    };
    format!("{}: {said}", standing.word())
}

fn bound(noise: &NoiseBound, is_open_loop: bool) -> String {
    let mut parts = match (noise.rate_percent_more().zip(noise.latency_percent_less()), is_open_loop) {
        (Some((more, less)), _) => vec![
            format!("the request rate may be up to {} higher", percent_up(more)),
            format!("mean response times up to {} shorter", percent_up(less)),
        ],
        // The rate is that of the arrivals.
        (None, true) => vec!["response times may be shorter".to_owned()],
        (None, false) => {
            vec!["the request rate may be higher and response times shorter, without bound".to_owned()]
        }
    };
    if let Some(factor) = noise.cpu_time_factor().filter(|factor| *factor > 1.0) {
        let more = if parts.len() == 1 { "may be up to" } else { "up to" };
        parts.push(format!("CPU time per request {more} {} less", percent_up(100.0 * (1.0 - 1.0 / factor))));
    }
    let said = match &parts[..] {
        [first, second, third] => format!("{first}, {second}, and {third}"),
        parts => parts.join(" and "),
    };
    format!("undisturbed, {said}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use webstone_judge::verdict::AtBest;

    const NOISE: NoiseBound = NoiseBound {
        held_up_percent: 10.0,
        factor: Some(1.25),
        cpu_factor: Some(1.0),
        at_best: None,
        undisturbed: None,
    };

    #[test]
    fn a_bound_says_how_far_and_to_which_side() {
        assert_eq!(
            bound(&NOISE, false),
            "undisturbed, the request rate may be up to 25 % higher and mean response times up to 20 % shorter"
        );
        let best = AtBest { factor: Some(2.4), cpu_factor: Some(2.0) };
        assert_eq!(
            bound(&NoiseBound { at_best: Some(best), ..NOISE }, false),
            "undisturbed, the request rate may be up to 140 % higher, mean response times up to 59 % shorter, and CPU time per request \
             up to 50 % less"
        );
        let unbounded = NoiseBound { factor: None, cpu_factor: Some(1.25), ..NOISE };
        assert_eq!(
            bound(&unbounded, true),
            "undisturbed, response times may be shorter and CPU time per request may be up to 20 % less"
        );
        assert_eq!(
            bound(&NoiseBound { cpu_factor: None, ..unbounded }, false),
            "undisturbed, the request rate may be higher and response times shorter, without bound"
        );
    }
}
