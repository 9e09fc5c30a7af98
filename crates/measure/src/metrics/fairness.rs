//! How equally clients are served (`docs/measurement.md`, "Fairness").

use serde::{Deserialize, Serialize};

use super::ClientTotals;

/// How equally clients were served.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Fairness {
    /// Jain's index over completed pages: (Σx)²/(n·Σx²), 1 when all are equal, 1/n when one client gets all.
    /// R. Jain, D. Chiu, W. Hawe: A Quantitative Measure of Fairness, DEC TR-301, 1984.
    pub jain_pages: f64,
    /// Jain's index over mean response times of clients that completed a request.
    pub jain_latency: f64,
    /// Minimum and maximum number of pages that a client completed.
    pub pages: (u64, u64),
    /// Minimum and maximum of the clients' mean response times, in nanoseconds.
    pub latency_ns: (f64, f64),
    /// Clients that completed no page at all.
    pub starved: u64,
}

/// Fairness over all clients of a level. `None` without clients or if none completed a page.
pub fn fairness(clients: &[ClientTotals]) -> Option<Fairness> {
    let pages = |client: &ClientTotals| client.pages as f64;
    let latencies: Vec<f64> = clients.iter().filter_map(|client| Some(client.response_mean()?.ns)).collect();
    if latencies.is_empty() || clients.iter().all(|c| c.pages == 0) {
        return None;
    }
    Some(Fairness {
        jain_pages: jain(clients.iter().map(pages)),
        jain_latency: jain(latencies.iter().copied()),
        pages: (clients.iter().map(|c| c.pages).min()?, clients.iter().map(|c| c.pages).max()?),
        latency_ns: (
            latencies.iter().copied().fold(f64::INFINITY, f64::min),
            latencies.iter().copied().fold(0.0, f64::max),
        ),
        starved: clients.iter().filter(|c| c.pages == 0).count() as u64,
    })
}

fn jain(values: impl Iterator<Item = f64>) -> f64 {
    let (mut n, mut sum, mut squares) = (0.0, 0.0, 0.0);
    for value in values {
        n += 1.0;
        sum += value;
        squares += value * value;
    }
    if squares == 0.0 { 0.0 } else { sum * sum / (n * squares) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn client(pages: u64, latency: u64) -> ClientTotals {
        ClientTotals { pages, requests: pages, response_ns: pages * latency, ..ClientTotals::default() }
    }

    #[test]
    fn equal_service_is_one_and_a_monopoly_is_one_over_n() {
        let equal = fairness(&[client(10, 5), client(10, 5)]).unwrap();
        assert_eq!((equal.jain_pages, equal.jain_latency, equal.starved), (1.0, 1.0, 0));
        let monopoly = fairness(&[client(10, 5), client(0, 0), client(0, 0), client(0, 0)]).unwrap();
        assert_eq!((monopoly.jain_pages, monopoly.starved, monopoly.pages), (0.25, 3, (0, 10)));
    }

    #[test]
    fn jain_matches_a_value_worked_by_hand() {
        // (1+2+3)² / (3 · (1+4+9)) = 36/42
        let f = fairness(&[client(1, 1), client(2, 1), client(3, 1)]).unwrap();
        assert!((f.jain_pages - 36.0 / 42.0).abs() < 1e-15);
    }

    #[test]
    fn without_completed_pages_there_is_no_fairness() {
        assert_eq!(fairness(&[]), None);
        assert_eq!(fairness(&[client(0, 0)]), None);
    }
}
