//! When a duel may conclude something: at looks, whose number is bounded, so that looking again and again does not raise the error.
//!
//! Looks come after 5, 6, 8, 10, 12, 15 … starts, each a quarter more than the one before. At each, the interval has the same confidence,
//! chosen so that all intervals of the duel together contain the truth with 95 % (S. J. Pocock, *Group sequential methods in the design and
//! analysis of clinical trials*, Biometrika 64, 1977; unequal looks by the recursion of P. Armitage, C. K. McPherson, B. C. Rowe, JRSS A
//! 132, 1969). The levels are computed by `tests/reference/looks.py`. As Pocock does where the variance is unknown, Student's t is used at
//! that level.

/// Starts after which there is a look, ascending.
const LOOKS: [u32; 28] = [
    5, 6, 8, 10, 12, 15, 19, 24, 30, 38, 48, 60, 75, 94, 118, 148, 185, 231, 289, 361, 451, 564, 705, 881,
    1101, 1376, 1720, 2150,
];

/// Most starts of a contestant.
pub const STARTS_MAX: u32 = LOOKS[LOOKS.len() - 1];

/// By the number of looks: the two-sided level of each, if all together are to err in 5 %.
const LEVELS_95: [f64; 28] = [
    0.05, 0.03572, 0.02684, 0.02204, 0.01902, 0.01651, 0.0145, 0.01291, 0.01165, 0.01058, 0.00968, 0.00893,
    0.00829, 0.00772, 0.00722, 0.00678, 0.00639, 0.00604, 0.00573, 0.00494, 0.00494, 0.00494, 0.00434,
    0.00434, 0.00434, 0.00386, 0.00386, 0.00386,
];
/// The same for 1 %.
const LEVELS_99: [f64; 28] = [
    0.01, 0.00676, 0.00491, 0.00395, 0.00336, 0.00288, 0.00251, 0.00222, 0.00199, 0.0018, 0.00165, 0.00151,
    0.0014, 0.0013, 0.00122, 0.00114, 0.00108, 0.00102, 0.00096, 0.00083, 0.00083, 0.00083, 0.0007, 0.0007,
    0.0007, 0.0006, 0.0006, 0.0006,
];

/// The looks of a duel that has at most a known number of starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Looks {
    first: usize,
    count: usize,
}

impl Looks {
    /// At least `starts_min` starts before the first look, at most `starts_max` in all. There is always one look.
    pub fn new(starts_min: u32, starts_max: u32) -> Looks {
        let first = LOOKS.iter().position(|look| *look >= starts_min).unwrap_or(LOOKS.len() - 1);
        let count = LOOKS[first..].iter().take_while(|look| **look <= starts_max).count().max(1);
        Looks { first, count }
    }

    /// Whether something may be concluded after this many starts.
    pub fn is_look(&self, starts: usize) -> bool {
        LOOKS[self.first..self.first + self.count].iter().any(|look| *look as usize == starts)
    }

    /// The confidence of each interval, with which all of them hold together with 95 %.
    pub fn confidence(&self) -> f64 {
        1.0 - LEVELS_95[self.count - 1]
    }

    /// The same for 99 %, which this many figures hold with together. Between the levels of 5 and 1 % of a duel, and on below them, the
    /// logarithm of the level of a look is nearly linear in that of the duel's.
    pub fn strict_confidence(&self, figures: usize) -> f64 {
        let (of_5, of_1) = (LEVELS_95[self.count - 1], LEVELS_99[self.count - 1]);
        let slope = f64::ln(of_5 / of_1) / f64::ln(5.0);
        1.0 - of_1 * (figures.max(1) as f64).powf(-slope)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::statistics::student_mean_at;

    #[test]
    fn more_looks_cost_confidence() {
        let of = |starts_max| Looks::new(5, starts_max);
        assert_eq!((of(1).confidence(), of(5).confidence(), of(9).confidence()), (0.95, 0.95, 1.0 - 0.02684));
        assert!(of(75).strict_confidence(1) > of(75).confidence());
        assert!(of(75).strict_confidence(2) > of(75).strict_confidence(1));
        assert!((of(5).strict_confidence(4) - 0.9975).abs() < 1e-9, "one look: a quarter of 1 %");
        assert!(
            (0..75)
                .filter(|starts| of(75).is_look(*starts))
                .eq([5, 6, 8, 10, 12, 15, 19, 24, 30, 38, 48, 60])
        );
        assert!(!Looks::new(8, 75).is_look(6) && Looks::new(8, 75).is_look(8));
    }

    /// A thousand duels of equals that are looked at until something is claimed, with noise of heavy tails: no more than 5 % claim
    /// something.
    #[test]
    fn looking_again_and_again_does_not_raise_the_error() {
        let mut seed = 1_u64;
        let mut uniform = || {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            ((seed >> 11) as f64 + 0.5) / (1_u64 << 53) as f64
        };
        // Sum of uniforms: nearly normal; one in twenty is five times as far off.
        let mut noise = || {
            let near: f64 = (0..12).map(|_| uniform()).sum::<f64>() - 6.0;
            if uniform() < 0.05 { 5.0 * near } else { near }
        };
        let looks = Looks::new(5, 75);
        let claims = |noise: &mut dyn FnMut() -> f64, shift: f64| {
            let mut values = Vec::new();
            (1..=75).any(|starts| {
                values.push(noise() + shift);
                looks.is_look(starts)
                    && student_mean_at(&values, looks.confidence())
                        .is_some_and(|it| it.low > 0.0 || it.high < 0.0)
            })
        };
        let alarms = (0..1000).filter(|_| claims(&mut noise, 0.0)).count();
        assert!(alarms <= 50, "{alarms} of 1000");
        let told = (0..200).filter(|_| claims(&mut noise, 1.0)).count();
        assert!(told >= 190, "{told} of 200");
    }
}
