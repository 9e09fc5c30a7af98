//! The Universal Scalability Law, fitted to throughput over a number of processors.
//!
//! N. J. Gunther, *Guerrilla Capacity Planning*, Springer 2007, chapters 4 and 5:
//! `X(N) = λN / (1 + α(N − 1) + βN(N − 1))`, with λ what one processor does, α the share that is serialised
//! (contention) and β what keeping processors consistent costs (coherency). Neither can be negative. The fit is the least
//! squares of X, not of the linearised `N/X`, which would weigh small throughputs most.

use serde::Serialize;

/// Distinct numbers of processors below which there is no fit: the law has three coefficients.
pub const POINTS_MIN: usize = 3;

/// Rounds of Gauss and Newton's method; it needs some five from where it starts.
const ROUNDS_MAX: usize = 200;
/// Relative improvement of the sum of squares below which a fit has arrived.
const ARRIVED: f64 = 1e-15;

/// The law, fitted.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Scalability {
    /// λ: what one processor does, in the unit of the throughput.
    pub lambda: f64,
    /// α: contention, without unit, from 0.
    pub alpha: f64,
    /// β: coherency, without unit, from 0.
    pub beta: f64,
    /// Number of processors at which the law has its highest throughput, √((1 − α)/β), and at least 1; null where it never falls.
    pub peak_n: Option<f64>,
    /// Points and how far the law is from each.
    pub points: Vec<FittedPoint>,
    /// Points less coefficients, without those that are 0 because they would be negative. 0: the law goes through every point whatever the truth is, and residuals tell nothing.
    pub degrees_of_freedom: usize,
}

/// A point of a fit.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct FittedPoint {
    /// Processors.
    pub n: f64,
    /// What was measured.
    pub measured: f64,
    /// What the law says.
    pub fitted: f64,
    /// (measured − fitted) / fitted, in percent.
    pub residual_percent: f64,
}

/// Why there is no fit.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum NoFit {
    /// The law has three coefficients.
    #[error(
        "the Universal Scalability Law has three coefficients: it needs the throughput at {POINTS_MIN} numbers of CPUs or more"
    )]
    TooFewPoints {
        /// Distinct numbers of processors.
        known: usize,
    },
    /// No law has it.
    #[error("{n} CPUs with a throughput of {throughput} cannot be fitted")]
    NoThroughput {
        /// Processors.
        n: f64,
        /// Throughput.
        throughput: f64,
    },
}

impl Scalability {
    /// Fits the law to pairs of processors (1 or more) and throughput (above 0).
    ///
    /// # Errors
    /// With fewer than [`POINTS_MIN`] distinct numbers of processors, and with values that nothing scales to.
    pub fn fit(points: &[(f64, f64)]) -> Result<Scalability, NoFit> {
        let odd = |&&(n, x): &&(f64, f64)| !(n >= 1.0 && n.is_finite() && x > 0.0 && x.is_finite());
        if let Some(&(n, throughput)) = points.iter().find(odd) {
            return Err(NoFit::NoThroughput { n, throughput });
        }
        let mut distinct: Vec<f64> = points.iter().map(|(n, _)| *n).collect();
        distinct.sort_by(f64::total_cmp);
        distinct.dedup();
        if distinct.len() < POINTS_MIN {
            return Err(NoFit::TooFewPoints { known: distinct.len() });
        }
        // Coefficients that would be negative are 0: of all choices of those that may be above 0, the best fit counts.
        let choices: [&[usize]; 4] = [&[0, 1, 2], &[0, 1], &[0, 2], &[0]];
        let possible = choices.iter().filter_map(|free| Some((least_squares(points, free)?, free.len())));
        let best = possible
            .filter(|(terms, _)| terms[0] > 0.0 && terms[1] >= 0.0 && terms[2] >= 0.0)
            .min_by(|(a, _), (b, _)| squares(points, a).total_cmp(&squares(points, b)));
        let (terms, free) =
            best.expect("a straight line through the origin fits positive points with a positive slope");
        let [one, contention, coherency] = terms;
        let (lambda, alpha, beta) = (1.0 / one, contention / one, coherency / one);
        let fitted = |&(n, measured): &(f64, f64)| {
            let fitted = law(&terms, n);
            FittedPoint { n, measured, fitted, residual_percent: 100.0 * (measured - fitted) / fitted }
        };
        Ok(Scalability {
            lambda,
            alpha,
            beta,
            peak_n: peak_n(alpha, beta),
            points: points.iter().map(fitted).collect(),
            degrees_of_freedom: points.len() - free,
        })
    }

    /// What the law says of a number of processors.
    pub fn at(&self, n: f64) -> f64 {
        self.lambda * n / (1.0 + self.alpha * (n - 1.0) + self.beta * n * (n - 1.0))
    }

    /// The residual that is farthest from 0, in percent.
    pub fn residual_percent_max(&self) -> f64 {
        self.points.iter().map(|point| point.residual_percent.abs()).fold(0.0, f64::max)
    }
}

/// Where the law is highest. There is no throughput of less than one processor.
fn peak_n(alpha: f64, beta: f64) -> Option<f64> {
    if beta > 0.0 {
        return Some(((1.0 - alpha).max(0.0) / beta).sqrt().max(1.0));
    }
    (alpha > 1.0).then_some(1.0)
}

/// The terms 1/λ, α/λ and β/λ: `X(N) = N / (t₀ + t₁(N − 1) + t₂N(N − 1))`.
type Terms = [f64; 3];

fn basis(n: f64) -> Terms {
    [1.0, n - 1.0, n * (n - 1.0)]
}

fn law(terms: &Terms, n: f64) -> f64 {
    n / terms.iter().zip(basis(n)).map(|(term, base)| term * base).sum::<f64>()
}

fn squares(points: &[(f64, f64)], terms: &Terms) -> f64 {
    points.iter().map(|&(n, x)| (x - law(terms, n)).powi(2)).sum()
}

/// The least squares of X over the terms that are free, the others being 0: Gauss and Newton's method, with steps halved
/// while they do not improve, from the solution of the linearised law.
fn least_squares(points: &[(f64, f64)], free: &[usize]) -> Option<Terms> {
    // N/X = t₀ + t₁(N − 1) + t₂N(N − 1); weighed by dX/d(N/X) = −X²/N it is the first step of the method.
    let weighed = points.iter().map(|&(n, x)| {
        let weight = x * x / n;
        (basis(n).map(|base| base * weight), n / x * weight)
    });
    let mut terms = solve(weighed, free)?;
    let mut error = squares(points, &terms);
    for _ in 0..ROUNDS_MAX {
        let slopes = points.iter().map(|&(n, x)| {
            let fitted = law(&terms, n);
            (basis(n).map(|base| -base * fitted * fitted / n), x - fitted)
        });
        let step = solve(slopes, free)?;
        let mut share = 1.0;
        let better = loop {
            let tried: Terms = std::array::from_fn(|index| terms[index] + share * step[index]);
            let of_tried = squares(points, &tried);
            if of_tried < error && points.iter().all(|(n, _)| law(&tried, *n) > 0.0) {
                break Some((tried, of_tried));
            }
            share /= 2.0;
            if share < 1e-9 {
                break None;
            }
        };
        let Some((tried, of_tried)) = better else { break };
        let gain = error - of_tried;
        (terms, error) = (tried, of_tried);
        if gain <= ARRIVED * error {
            break;
        }
    }
    terms.iter().all(|term| term.is_finite()).then_some(terms)
}

/// Solves a linear least-squares problem of up to three unknowns by its normal equations, columns scaled to one length.
fn solve(rows: impl Iterator<Item = (Terms, f64)>, free: &[usize]) -> Option<Terms> {
    let size = free.len();
    let rows: Vec<(Vec<f64>, f64)> =
        rows.map(|(row, right)| (free.iter().map(|index| row[*index]).collect(), right)).collect();
    let lengths: Vec<f64> =
        (0..size).map(|column| rows.iter().map(|(row, _)| row[column].powi(2)).sum::<f64>().sqrt()).collect();
    if lengths.iter().any(|length| !(*length > 0.0 && length.is_finite())) {
        return None;
    }
    let mut matrix = vec![vec![0.0; size + 1]; size];
    for (row, right) in &rows {
        for line in 0..size {
            let scaled = row[line] / lengths[line];
            for column in 0..size {
                matrix[line][column] += scaled * row[column] / lengths[column];
            }
            matrix[line][size] += scaled * right;
        }
    }
    for pivot in 0..size {
        let largest =
            (pivot..size).max_by(|a, b| matrix[*a][pivot].abs().total_cmp(&matrix[*b][pivot].abs()))?;
        matrix.swap(pivot, largest);
        if matrix[pivot][pivot].abs() < 1e-14 {
            return None;
        }
        for line in (0..size).filter(|line| *line != pivot) {
            let factor = matrix[line][pivot] / matrix[pivot][pivot];
            let of_pivot = matrix[pivot].clone();
            matrix[line].iter_mut().zip(of_pivot).for_each(|(cell, above)| *cell -= factor * above);
        }
    }
    let mut terms = [0.0; 3];
    for (line, index) in free.iter().enumerate() {
        terms[*index] = matrix[line][size] / matrix[line][line] / lengths[line];
    }
    Some(terms)
}
