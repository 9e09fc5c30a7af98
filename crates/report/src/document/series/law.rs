//! The Universal Scalability Law in words.

use webstone_judge::series::Scalability;

use super::sheets::rate;

/// The law with its highest throughput, and how well it fits.
pub(super) fn in_words(law: &Scalability) -> [String; 2] {
    let peak = match law.peak_n {
        Some(1.0) => "most at 1 CPU, falling with more".to_owned(),
        Some(n) => format!("most at {n:.1} CPUs, {} requests/s", rate(law.at(n))),
        None if law.alpha > 0.0 => {
            format!("rising towards {} requests/s, never falling", rate(law.lambda / law.alpha))
        }
        None => "rising without limit".to_owned(),
    };
    let law_itself = format!(
        "Universal Scalability Law: one CPU {} requests/s, contention {:.4}, coherency {:.6}; {peak}.",
        rate(law.lambda),
        law.alpha,
        law.beta
    );
    let fit = match law.degrees_of_freedom {
        0 => "Three points determine three coefficients: a perfect fit shows nothing.".to_owned(),
        _ => format!("Largest residual {:.1} %.", law.residual_percent_max()),
    };
    [law_itself, fit]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_law_says_where_it_is_highest_and_whether_its_fit_shows_anything() {
        let words = |points: &[(f64, f64)]| in_words(&Scalability::fit(points).unwrap());
        let [law, fit] = words(&[(1.0, 100.0), (2.0, 80.0), (4.0, 70.0)]);
        assert!(law.ends_with("; most at 1 CPU, falling with more.") && !fit.contains("%"), "{law} {fit}");
        let [law, fit] = words(&[(1.0, 10.0), (2.0, 30.0), (4.0, 90.0)]);
        assert!(
            law.ends_with("; rising without limit.") && fit.starts_with("Largest residual "),
            "{law} {fit}"
        );
    }
}
