//! Several hosts in the line of a running level: what is remarkable about one of them, or all of them in short form
//! if there is space.

use webstone_model::event::LiveHost;

use super::numbers::rate;

/// A host that has been silent for this long, in nanoseconds, is named: it reports once per second.
const SILENT_NS: u64 = 3_000_000_000;
/// A worker that uses this share of a CPU limits its host.
const BUSY: f64 = 0.95;
/// A host is named if it has this share fewer requests per client than the median host, once that has this many.
const FEWER: f64 = 0.1;
const FEWER_FROM: u64 = 100;

/// The one thing about a host that the user should see now; `None` if they are all alike.
pub(super) fn remark(hosts: &[LiveHost]) -> Option<String> {
    let most = |of: &dyn Fn(&LiveHost) -> f64| hosts.iter().max_by(|a, b| of(a).total_cmp(&of(b)));
    let silent = most(&|host| host.silent_ns as f64).filter(|host| host.silent_ns >= SILENT_NS);
    if let Some(host) = silent {
        return Some(format!("{} silent for {} s", named(host), host.silent_ns / 1_000_000_000));
    }
    let busy = |host: &LiveHost| host.busiest_worker.unwrap_or_default();
    if let Some(host) = most(&busy).filter(|host| busy(host) >= BUSY) {
        return Some(format!("{} at {:.0} % of a CPU", named(host), busy(host) * 100.0));
    }
    let slowest = most(&|host| -per_client(host))?;
    let mut all: Vec<f64> = hosts.iter().map(per_client).collect();
    all.sort_unstable_by(f64::total_cmp);
    let fewer = 1.0 - per_client(slowest) / all[all.len() / 2];
    (fewer >= FEWER && hosts.iter().all(|host| host.requests >= FEWER_FROM))
        .then(|| format!("{} has {:.0} % fewer requests per client", named(slowest), fewer * 100.0))
}

/// Each host's rate and busiest worker; `None` for a single host, whose rate is in the line.
pub(super) fn each(hosts: &[LiveHost]) -> Option<String> {
    let one = |host: &LiveHost| {
        let busy = host.busiest_worker.map(|share| format!(" {:.0} %", share * 100.0)).unwrap_or_default();
        format!("{}: {}/s{busy}", host.generator.saturating_add(1), rate(host.request_rate))
    };
    (hosts.len() > 1).then(|| hosts.iter().map(one).collect::<Vec<_>>().join("  "))
}

/// Since the window opened, which is steadier than the last second.
fn per_client(host: &LiveHost) -> f64 {
    host.requests as f64 / host.elapsed_ns.max(1) as f64 / f64::from(host.clients.max(1))
}

fn named(host: &LiveHost) -> String {
    format!("generator {}", host.generator.saturating_add(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn three() -> Vec<LiveHost> {
        let host = |generator| LiveHost {
            generator,
            clients: 10,
            elapsed_ns: 2_000_000_000,
            requests: 20_000,
            request_rate: 10_000.0,
            busiest_worker: Some(0.5),
            ..LiveHost::default()
        };
        (0..3).map(host).collect()
    }

    #[test]
    fn only_remarkable_hosts_are_mentioned() {
        let said = |change: fn(&mut LiveHost)| {
            let mut hosts = three();
            change(&mut hosts[1]);
            remark(&hosts)
        };
        assert_eq!(said(|_| ()), None);
        assert_eq!(remark(&[]), None);
        assert_eq!(remark(&three()[..1]), None);
        assert_eq!(said(|host| host.silent_ns = 4_500_000_000).unwrap(), "generator 2 silent for 4 s");
        assert_eq!(said(|host| host.busiest_worker = Some(0.97)).unwrap(), "generator 2 at 97 % of a CPU");
        assert_eq!(
            said(|host| host.requests = 15_000).unwrap(),
            "generator 2 has 25 % fewer requests per client"
        );
        // Half the clients have half the requests, and one second is no reason for a remark.
        assert_eq!(said(|host| (host.requests, host.clients) = (10_000, 5)), None);
        assert_eq!(said(|host| host.requests = 20), None);
    }

    #[test]
    fn all_in_short() {
        assert_eq!(each(&three()).unwrap(), "1: 10,000/s 50 %  2: 10,000/s 50 %  3: 10,000/s 50 %");
        assert_eq!(each(&three()[..1]), None);
    }
}
