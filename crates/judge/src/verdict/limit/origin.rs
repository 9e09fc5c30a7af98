//! Whether the origin behind a proxy limits: its own CPUs or one of its threads are at their ceiling, or those CPUs that it
//! shares with the proxy are and it has the larger part of them.

use super::limit;
use super::server::Server;
use crate::verdict::bounds::SERVER_CPU_PERCENT_MAX;
use crate::verdict::{Limit, LimitingResource};
use webstone_model::record::RunRecord;

pub(super) fn limits(record: &RunRecord, origin: &Server, proxy: Option<&Server>, at: &str) -> Option<Limit> {
    let behind = record.target.origin.as_ref()?;
    let shares = behind.cpus.iter().any(|cpu| record.target.cpus.contains(cpu));
    let proxy = proxy.map(|proxy| (proxy.used(), proxy.text()));
    let beyond = "What the proxy can do beyond that is unknown.";
    if shares && let Some((by_proxy, proxy_text)) = &proxy {
        if origin.used() + by_proxy < SERVER_CPU_PERCENT_MAX {
            return None;
        }
        let both = format!("they share CPUs, {} and {proxy_text}", origin.text());
        return Some(match origin.used() >= *by_proxy {
            true => limit(
                LimitingResource::Origin,
                format!("The origin, more than the proxy, is the bottleneck at {at}: {both}. {beyond}"),
            ),
            false => limit(
                LimitingResource::Server,
                format!("The proxy's CPU, more than the origin's, is the bottleneck at {at}: {both}."),
            ),
        });
    }
    let besides = proxy.map_or(String::new(), |(_, text)| format!(" ({text})"));
    let found = origin.at_ceiling(at, &besides)?;
    Some(limit(LimitingResource::Origin, format!("{} {beyond}", found.sentence)))
}
