//! Identity 6: connections, requests and TLS handshakes of a window must match what clients were told to do with
//! connections.
//!
//! A connection is counted when it is established and a request when it ends, so those in progress at either end of
//! the window may be counted on one side only: the two sides may differ by their number, but not by more. The same is
//! true where slices are left out: each gap is two more ends. Every connection is begun for a request that waits for it,
//! and that ends, or moves to another one, before the connection does.

use crate::record::RunRecord;
use crate::spec::{ClientSpec, ConnectionPolicy, RunSpec};
use webstone_measure::identities::IdentityCheck;
use webstone_measure::metrics::{Handshakes, Measured};
use webstone_workload::tls::Share;

/// What is known of the connections of a run in addition to the counters.
#[derive(Clone, Copy, Debug)]
pub struct ConnectionRules<'a> {
    client: &'a ClientSpec,
    /// Whether some connections use TLS, and whether all do.
    any_tls: bool,
    all_tls: bool,
}

impl<'a> ConnectionRules<'a> {
    /// For a specification whose target is known.
    pub fn of_run(spec: &'a RunSpec, record: &RunRecord) -> ConnectionRules<'a> {
        let is_secure = |url: &str| url.get(..8).is_some_and(|start| start.eq_ignore_ascii_case("https://"));
        let mut targets = record.target.url.split(' ').peekable();
        let files = record.workload.pages.iter().flat_map(|page| &page.files);
        let all_tls = targets.peek().is_some() && targets.clone().all(is_secure);
        let any_tls = targets.any(is_secure) || files.map(|file| &*file.url).any(is_secure);
        ConnectionRules { client: &spec.client, any_tls, all_tls }
    }

    /// Maximum number of requests per connection, if there is a limit.
    fn requests_max(&self) -> Option<u64> {
        match (self.client.connections, self.client.requests_per_connection) {
            (ConnectionPolicy::PerRequest, _) => Some(1),
            (_, limit) => limit.map(u64::from),
        }
    }
}

/// Checks a window of a level with this number of clients.
pub fn of_connections(measured: &Measured, clients: u64, rules: &ConnectionRules<'_>) -> Vec<IdentityCheck> {
    let counts = &measured.counts;
    let mut checks = Vec::new();
    let mut at_most = |rule: &str, least: u64, most: u64| {
        checks.push(IdentityCheck {
            number: 6,
            rule: rule.to_owned(),
            evidence: format!("{least} and {most}"),
            holds: least <= most,
        });
    };
    // Connects that ended in the window, successful or not.
    let connects = counts.connections.saturating_add(counts.connections_failed);
    let begun = counts.carried_in.saturating_add(counts.started);
    let open = in_progress_at_an_end(measured);
    if rules.requests_max() == Some(1) {
        at_most(
            "a connection for each request: started − in flight ≤ connections + failed connects",
            counts.started,
            connects.saturating_add(open),
        );
    }
    if rules.client.connections == ConnectionPolicy::PerPage {
        // A page in progress when the window opened, or a gap ended, at most one per client, already had its connection.
        let beginnings = measured.left_out.slices.saturating_add(1);
        at_most(
            "connections for each page: pages ended − clients ≤ connections + failed connects",
            counts.pages_completed.saturating_add(counts.pages_failed),
            connects.saturating_add(clients.saturating_mul(beginnings)),
        );
    }
    if !rules.client.http.has_streams() {
        let too_early = measured.handshakes.as_ref().map_or(0, |handshakes| handshakes.too_early);
        at_most(
            "no connection without a request: connections + failed connects ≤ carried in + started + retried",
            connects,
            begun.saturating_add(counts.stale_retries).saturating_add(too_early),
        );
    }
    // Early data that the server rejects is sent again.
    if let Some(limit) = rules.requests_max().filter(|_| !rules.client.tls.early_data) {
        let whole = &measured.lifetime;
        at_most(
            "requests of the level ≤ connections of the level × requests that each may carry",
            whole.requests,
            whole.connections.saturating_mul(limit),
        );
    }
    match &measured.handshakes {
        Some(handshakes) => of_handshakes(handshakes, measured, rules, &mut at_most),
        None if rules.all_tls => {
            at_most("connections over TLS ≤ handshakes + in flight", counts.connections, open);
        }
        None => {}
    }
    checks
}

/// Requests in progress when the window closed, or where a gap began. Their connections may have been established, and their
/// handshakes have ended, in no part that counts.
fn in_progress_at_an_end(measured: &Measured) -> u64 {
    measured.counts.in_flight.saturating_add(measured.counts.left_open)
}

fn of_handshakes(
    handshakes: &Handshakes,
    measured: &Measured,
    rules: &ConnectionRules<'_>,
    at_most: &mut impl FnMut(&str, u64, u64),
) {
    let counts = &measured.counts;
    let ended = handshakes.ended().saturating_add(handshakes.failed);
    at_most(
        "handshakes (full + resumed + failed) + connections without TLS ≤ connections + carried in",
        ended.saturating_add(handshakes.in_the_clear),
        counts.connections.saturating_add(counts.carried_in),
    );
    at_most(
        "connections ≤ handshakes (full + resumed + failed) + connections without TLS + in flight",
        counts.connections,
        ended.saturating_add(handshakes.in_the_clear).saturating_add(in_progress_at_an_end(measured)),
    );
    if !rules.any_tls {
        at_most("without an https URL there are no handshakes", ended, 0);
    }
    if rules.client.tls.resume == Share::NONE {
        at_most("no session is resumed where none may be", handshakes.resumed, 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::HttpVersion;
    use webstone_measure::metrics::Counts;

    /// A window with two clients: one request was carried in, 100 began, 99 ended, two are in flight.
    fn per_request() -> (Measured, RunSpec) {
        let counts = Counts {
            carried_in: 1,
            started: 100,
            succeeded: 95,
            failed: 4,
            in_flight: 2,
            connections: 97,
            connections_failed: 2,
            pages_completed: 95,
            pages_failed: 4,
            ..Counts::default()
        };
        let mut measured = Measured { counts, ..Measured::default() };
        (measured.lifetime.connections, measured.lifetime.requests) = (130, 128);
        (measured, RunSpec::default())
    }

    fn broken(change: impl FnOnce(&mut Measured, &mut RunSpec)) -> Vec<String> {
        broken_at("http://127.0.0.1:1", change)
    }

    fn broken_at(url: &str, change: impl FnOnce(&mut Measured, &mut RunSpec)) -> Vec<String> {
        let (mut measured, mut spec) = per_request();
        spec.client.connections = ConnectionPolicy::PerRequest;
        change(&mut measured, &mut spec);
        let mut record = crate::fixture::record("a", &[]);
        record.target.url = url.to_owned();
        let checks = of_connections(&measured, 2, &ConnectionRules::of_run(&spec, &record));
        assert!(checks.iter().all(|check| check.number == 6));
        let broken = checks.into_iter().filter(|check| !check.holds);
        broken
            .map(|check| check.rule.split([':', '(']).next().unwrap_or_default().trim().to_owned())
            .collect()
    }

    const EACH: &str = "a connection for each request";
    const NONE_WITHOUT: &str = "no connection without a request";
    const OF_LEVEL: &str = "requests of the level ≤ connections of the level × requests that each may carry";

    #[test]
    fn each_request_has_a_connection() {
        assert_eq!(broken(|_, _| ()), [""; 0]);
        // Both in flight wait for their connections; or one was carried in without its own.
        assert_eq!(broken(|m, _| m.counts.connections = 96), [""; 0]);
        assert_eq!(broken(|m, _| m.counts.connections = 99), [""; 0]);
        assert_eq!(broken(|m, _| m.counts.connections = 95), [EACH]);
        assert_eq!(broken(|m, _| m.counts.connections = 100), [NONE_WITHOUT]);
        assert_eq!(broken(|m, _| m.lifetime.requests = 131), [OF_LEVEL]);
        // As in a run with kept connections.
        let kept = |m: &mut Measured, _: &mut RunSpec| {
            (m.counts.connections, m.counts.connections_failed) = (0, 0);
            m.lifetime.connections = 2;
        };
        assert_eq!(broken(kept), [EACH, OF_LEVEL]);
    }

    #[test]
    fn kept_connections_may_be_few_within_their_limits() {
        let keep_alive = |limit: Option<u32>, connections: u64| {
            broken(move |m, spec| {
                spec.client.connections = ConnectionPolicy::KeepAlive;
                spec.client.requests_per_connection = limit;
                (m.counts.connections, m.counts.connections_failed) = (0, 0);
                m.lifetime.connections = connections;
            })
        };
        assert_eq!(keep_alive(None, 2), [""; 0]);
        assert_eq!(keep_alive(Some(10), 13), [""; 0]);
        assert_eq!(keep_alive(Some(10), 12), [OF_LEVEL]);
        assert_eq!(keep_alive(Some(1), 128), [EACH], "the same as a connection for each");
        // The server closes connections: each request may be sent again once.
        let closes = |retries| {
            broken(move |m, spec| {
                spec.client.connections = ConnectionPolicy::KeepAlive;
                (m.counts.connections, m.counts.stale_retries) = (149, retries);
            })
        };
        assert_eq!((closes(50), closes(49)), (vec![], vec![NONE_WITHOUT.to_owned()]));
        let h2 = |m: &mut Measured, spec: &mut RunSpec| {
            spec.client.http = HttpVersion::Http2;
            m.counts.connections = 149;
        };
        assert_eq!(broken(h2), [""; 0], "moved from link to link");
    }

    #[test]
    fn each_page_has_connections_of_its_own() {
        let pages = |completed| {
            broken(move |m, spec| {
                spec.client.connections = ConnectionPolicy::PerPage;
                (m.counts.connections, m.counts.pages_completed) = (40, completed);
            })
        };
        assert_eq!(pages(40), [""; 0]);
        assert_eq!(pages(41), ["connections for each page"]);
    }

    /// Of those that began, or were connected, one more is in progress at each gap; and a page per client may have begun in it.
    #[test]
    fn gaps_have_ends_too() {
        let with_gaps = |gaps: u64, more: fn(&mut Measured, &mut RunSpec)| {
            broken_at("https://127.0.0.1:1", move |m, spec| {
                (m.counts.left_open, m.left_out.slices) = (gaps, gaps);
                m.handshakes = Some(Handshakes { full: 92, failed: 3, ..Handshakes::default() });
                more(m, spec);
            })
        };
        assert_eq!(with_gaps(2, |m, _| m.counts.started = 103), [""; 0]);
        assert_eq!(with_gaps(2, |m, _| m.counts.started = 104), [EACH]);
        assert_eq!(with_gaps(2, |m, _| m.handshakes.as_mut().unwrap().full = 90), [""; 0]);
        assert_eq!(
            with_gaps(2, |m, _| m.handshakes.as_mut().unwrap().full = 89),
            ["connections ≤ handshakes"]
        );
        assert_eq!(with_gaps(95, |m, _| m.handshakes = None), [""; 0]);
        assert_eq!(
            with_gaps(94, |m, _| m.handshakes = None),
            ["connections over TLS ≤ handshakes + in flight"]
        );
        let pages = |m: &mut Measured, spec: &mut RunSpec| {
            spec.client.connections = ConnectionPolicy::PerPage;
            (m.counts.pages_completed, m.counts.pages_failed) = (105, 0);
        };
        assert_eq!(with_gaps(2, pages), [""; 0]);
        assert_eq!(with_gaps(1, pages), ["connections for each page"]);
    }

    #[test]
    fn handshakes_are_those_of_connections() {
        let shaken = |full, failed, in_the_clear| {
            broken_at("https://127.0.0.1:1", move |m, _| {
                m.handshakes = Some(Handshakes { full, failed, in_the_clear, ..Handshakes::default() });
            })
        };
        let more = "handshakes";
        let fewer = "connections ≤ handshakes";
        assert_eq!(shaken(94, 3, 0), [""; 0]);
        assert_eq!(shaken(92, 3, 0), [""; 0], "two are in flight");
        assert_eq!(shaken(91, 3, 0), [fewer]);
        assert_eq!(shaken(95, 3, 0), [""; 0], "one was carried in");
        assert_eq!(shaken(96, 3, 0), [more]);
        assert_eq!(shaken(40, 0, 57), [""; 0]);
        assert_eq!(shaken(40, 0, 59), [more]);
        assert_eq!(
            broken_at("https://127.0.0.1:1", |_, _| ()),
            ["connections over TLS ≤ handshakes + in flight"]
        );
        let resumed = |share: Share| {
            broken_at("https://127.0.0.1:1", move |m, spec| {
                spec.client.tls.resume = share;
                m.handshakes = Some(Handshakes { full: 60, resumed: 37, ..Handshakes::default() });
            })
        };
        assert_eq!(resumed(Share::NONE), ["no session is resumed where none may be"]);
        assert_eq!(resumed("50%".parse().unwrap()), [""; 0]);
        let plain = broken(|m, _| {
            m.handshakes = Some(Handshakes { full: 97, ..Handshakes::default() });
        });
        assert_eq!(plain, ["without an https URL there are no handshakes"]);
    }
}
