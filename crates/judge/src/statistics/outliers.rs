//! Iterations that stand apart from the others. They are flagged and never dropped: what made them so may be the
//! server.
//!
//! B. Iglewicz, D. Hoaglin: *How to Detect and Handle Outliers*, ASQC 1993: the modified z-score, 0.6745 (x − median) /
//! MAD, above 3.5. Where the MAD is 0 because more than half of the values are alike, the mean absolute deviation takes
//! its place, times √(π/2).

use super::{mean, median};

/// Modified z-score above which a value stands apart.
pub const OUTLIER_Z: f64 = 3.5;
/// Fewest values of which one can stand apart.
pub const OUTLIER_SAMPLES_MIN: usize = 3;
/// Least distance from the median, as a share of it. The score alone flags one of three values in 29 of 100 sound
/// runs, because three values tell little of their spread; with this, 3 of 100 where the noise is 2 %, and none where it
/// is less (simulated, normal noise).
pub const OUTLIER_SHARE_MIN: f64 = 0.05;

/// Φ⁻¹(3/4): the median absolute deviation of a normal distribution with deviation 1.
const NORMAL_MAD: f64 = 0.674_489_750_196_081_7;

/// Indices of the values that stand apart, ascending. None below [`OUTLIER_SAMPLES_MIN`] values.
pub fn outliers(samples: &[f64]) -> Vec<usize> {
    if samples.len() < OUTLIER_SAMPLES_MIN {
        return Vec::new();
    }
    let Some(centre) = median(samples) else { return Vec::new() };
    let scores = modified_z(samples);
    let apart = |index: &usize| {
        scores[*index].abs() > OUTLIER_Z
            && (samples[*index] - centre).abs() > OUTLIER_SHARE_MIN * centre.abs()
    };
    (0..samples.len()).filter(apart).collect()
}

/// The modified z-score of each value; all 0 where all values are alike.
pub fn modified_z(samples: &[f64]) -> Vec<f64> {
    let Some(centre) = median(samples) else { return Vec::new() };
    let distances: Vec<f64> = samples.iter().map(|value| (value - centre).abs()).collect();
    let deviation = match median(&distances) {
        Some(mad) if mad > 0.0 => mad / NORMAL_MAD,
        _ => mean(&distances) * std::f64::consts::FRAC_PI_2.sqrt(),
    };
    samples.iter().map(|value| if deviation > 0.0 { (value - centre) / deviation } else { 0.0 }).collect()
}
