//! Random numbers for simulations in tests, from the project's own seeded sequence.

use webstone_workload::PageSequence;

/// A seeded sequence of them.
pub(crate) struct Noisy(PageSequence);

impl Noisy {
    pub(crate) fn new(seed: u64) -> Noisy {
        Noisy(PageSequence::new(seed, 0))
    }

    /// Between 0 and 1, never either of them.
    pub(crate) fn uniform(&mut self) -> f64 {
        (self.0.between(0, u64::from(u32::MAX)) as f64 + 0.5) / (f64::from(u32::MAX) + 1.0)
    }

    /// Of mean 0 and deviation 1: G. E. P. Box and M. E. Muller, Annals of Mathematical Statistics 29(2), 1958.
    pub(crate) fn normal(&mut self) -> f64 {
        (-2.0 * self.uniform().ln()).sqrt() * (std::f64::consts::TAU * self.uniform()).cos()
    }

    /// Rates of iterations that scatter by a share of their mean.
    pub(crate) fn rates(&mut self, mean: f64, deviation: f64, iterations: usize) -> Vec<f64> {
        (0..iterations).map(|_| mean * (1.0 + deviation * self.normal())).collect()
    }
}
