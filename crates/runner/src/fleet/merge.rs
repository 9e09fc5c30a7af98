//! What several hosts measured, as one window; and what each had of it.

use webstone_lab::agent::load::Ended;
use webstone_measure::metrics::{Histogram, Measured};
use webstone_model::generators::{ClockOffset, DISTRIBUTIONS_OF_HOSTS_MAX, GeneratorPart};

/// What came from one host.
pub(super) struct HostResult {
    pub(super) generator: usize,
    pub(super) ended: Ended,
    pub(super) measured: Measured,
    pub(super) clock: ClockOffset,
}

/// Adds up the windows in the order of the hosts, as the workers of one host are added up: the result is that of a single
/// host. `open_ns` is the agreed instant, `hosts` how many the fleet has.
pub(super) fn merge(
    results: Vec<HostResult>,
    open_ns: Option<u64>,
    hosts: usize,
) -> (Measured, Vec<GeneratorPart>) {
    let has_distribution = hosts <= DISTRIBUTIONS_OF_HOSTS_MAX;
    let (mut whole, mut parts) = (Measured::default(), Vec::new());
    for HostResult { generator, ended, measured, clock } in results {
        let response = &measured.histograms.response;
        // The host's engine reports the agreed instant, each worker how much later it opened; with the last one, all were open.
        let delays = measured.generator.workers.iter().map(|worker| worker.opening_delay_ns);
        let delay_ns = delays.max().unwrap_or(0);
        let opened_ns = (ended.opened_ns > 0).then(|| super::clock::here(clock, ended.opened_ns) + delay_ns);
        let skew = opened_ns.zip(open_ns).map(|(opened_ns, open_ns)| opened_ns.wrapping_sub(open_ns) as i64);
        let mut distribution = Histogram::default();
        if has_distribution {
            distribution.clone_from(response);
            distribution.pack();
        }
        parts.push(GeneratorPart {
            generator: generator as u32,
            first_client: ended.first_client,
            clients: measured.clients.len() as u32,
            workers: measured.generator.workers.len() as u32,
            counts: measured.counts,
            response: measured.response.clone(),
            unanswered: measured.unanswered.response.clone(),
            response_p50_ns: response.value_at_percentile(50.0),
            response_p99_ns: response.value_at_percentile(99.0),
            has_distribution,
            distribution,
            host: Some(ended.host),
            clock,
            opening_skew_ns: skew.unwrap_or_default(),
        });
        whole.merge_parallel(measured);
    }
    (whole, parts)
}
