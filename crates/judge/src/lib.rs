//! What follows from records: statistics, the verdict and the run rules, comparison and ranks, scaling and efficiency, the search
//! for an SLO, and whether a stored record agrees with itself. A record in, a judgement out.
//!
//! Nothing here performs I/O or reads a clock, so that every judgement can be made again from a stored record.
#![forbid(unsafe_code)]

pub mod calibration;
pub mod comparison;
pub mod consistency;
pub mod duel;
#[cfg(test)]
mod noisy;
pub mod plausible;
pub mod search;
pub mod series;
pub mod statistics;
pub mod steps;
pub mod verdict;
pub mod workout;
