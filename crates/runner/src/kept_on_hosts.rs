//! What the server used on hosts that agents watch, in those slices of a window that are kept.

use webstone_lab::agent::OnHosts;
use webstone_measure::server_hosts::server_at_once;
use webstone_model::record::{ServerHostUse, ServerUse};

use crate::slice_watch::{limited_host, limited_server};

/// See the module comment.
#[derive(Default)]
pub(crate) struct KeptOnHosts {
    /// Of an only host; otherwise each has its own.
    server: Option<ServerUse>,
    hosts: Vec<ServerHostUse>,
}

impl KeptOnHosts {
    /// Adds a slice that is kept, for which nothing is missing.
    pub(crate) fn append(&mut self, slice: OnHosts) {
        if self.hosts.is_empty() {
            (self.server, self.hosts) = (slice.server, slice.hosts);
            return;
        }
        add(&mut self.server, slice.server.as_ref());
        for there in slice.hosts {
            if let Some(sum) = self.hosts.iter_mut().find(|sum| sum.agent == there.agent) {
                sum.host.append(&there.host);
                add(&mut sum.server, there.server.as_ref());
            }
        }
    }

    /// Limits what was used in the window to these slices. What was missing in the window stays missing.
    pub(crate) fn limit(&self, window: &mut OnHosts) {
        let limited = |whole: Option<ServerUse>, kept: &Option<ServerUse>| {
            whole.zip(kept.as_ref()).map(|(whole, kept)| limited_server(whole, kept))
        };
        for there in &mut window.hosts {
            if let Some(kept) = self.hosts.iter().find(|kept| kept.agent == there.agent) {
                there.host = limited_host(std::mem::take(&mut there.host), &kept.host);
                there.server = limited(there.server.take(), &kept.server);
            }
        }
        window.server = match window.server.take() {
            Some(_) if window.hosts.len() > 1 => server_at_once(&window.hosts),
            whole => limited(whole, &self.server),
        };
    }
}

fn add(sum: &mut Option<ServerUse>, slice: Option<&ServerUse>) {
    if let (Some(sum), Some(slice)) = (sum, slice) {
        sum.append(slice);
    }
}

#[cfg(test)]
mod tests {
    use webstone_model::record::{HostUse, ProcessUse};

    use super::*;

    fn server(user_ns: u64) -> Option<ServerUse> {
        let processes = Some(ProcessUse { run_queue_ns: Some(user_ns / 10), ..ProcessUse::default() });
        Some(ServerUse { user_ns, processes, ..ServerUse::default() })
    }

    fn host(agent: u32, elapsed_ns: u64, server: Option<ServerUse>) -> ServerHostUse {
        let host = HostUse { elapsed_ns, suspended_ns: elapsed_ns / 10, ..HostUse::default() };
        ServerHostUse { agent, host, server, close_delay_ns_max: 7, ..ServerHostUse::default() }
    }

    #[test]
    fn an_only_host_is_limited_to_the_slices_that_are_kept() {
        let slice = |used_ns| OnHosts {
            server: server(used_ns),
            hosts: vec![host(0, 1_000, None)],
            ..OnHosts::default()
        };
        let mut kept = KeptOnHosts::default();
        [100, 110].into_iter().for_each(|used_ns| kept.append(slice(used_ns)));
        let mut window = OnHosts { hosts: vec![host(0, 4_000, None)], ..slice(900) };
        kept.limit(&mut window);
        let used = window.server.unwrap();
        assert_eq!((used.user_ns, used.processes.unwrap().run_queue_ns), (210, Some(21)));
        let there = &window.hosts[0];
        assert_eq!(
            (there.host.elapsed_ns, there.host.suspended_ns, there.close_delay_ns_max),
            (2_000, 200, 7)
        );
    }

    #[test]
    fn several_hosts_are_limited_each_and_add_up() {
        let slice = |first_ns, second_ns| {
            let hosts = vec![host(0, 1_000, server(first_ns)), host(1, 1_001, server(second_ns))];
            OnHosts { server: server_at_once(&hosts), hosts, ..OnHosts::default() }
        };
        let mut kept = KeptOnHosts::default();
        [(10, 20), (11, 21)].into_iter().for_each(|(first, second)| kept.append(slice(first, second)));
        let mut window = slice(100, 200);
        kept.limit(&mut window);
        let used: Vec<u64> = window.hosts.iter().map(|it| it.server.as_ref().unwrap().user_ns).collect();
        assert_eq!((used, window.server.clone()), (vec![21, 41], server_at_once(&window.hosts)));
        assert_eq!(window.server.unwrap().user_ns, 62);
    }

    /// Of a host that did not come back nothing is known, and nothing of the whole.
    #[test]
    fn what_is_missing_stays_missing() {
        let mut kept = KeptOnHosts::default();
        let hosts = vec![host(0, 1_000, server(10)), host(1, 1_000, server(20))];
        kept.append(OnHosts { server: server_at_once(&hosts), hosts: hosts.clone(), ..OnHosts::default() });
        let mut window = OnHosts {
            hosts: hosts[..1].to_vec(),
            missing: Some("server host 2: it ended".to_owned()),
            ..OnHosts::default()
        };
        kept.limit(&mut window);
        assert_eq!((window.server, window.hosts.len()), (None, 1));
    }
}
