//! The servers of a plan: the target with its addresses, a proxy or Unix socket in its place, and other hosts that a
//! workload names.

use std::collections::HashMap;

use webstone_model::spec::RunSpec;
use webstone_model::target::Target;

use crate::origin::{Origin, is_name, resolve, split};
use crate::plan::PlanError;
use crate::sys::Address;

/// Which of so many destinations and sources a client's connection of a number uses. Every pair has its turn before one has
/// its second, so that the local ports of all pairs are used alike.
#[inline]
pub(crate) fn pair(number: u32, destinations: usize, sources: usize) -> (usize, usize) {
    // Two divisions are dear where there is nothing to choose.
    if destinations == 1 && sources <= 1 {
        return (0, 0);
    }
    let number = number as usize;
    (number % destinations, number / destinations % sources.max(1))
}

/// The servers that requests go to, each resolved once.
pub(crate) struct Origins {
    pub(crate) list: Vec<Origin>,
    by_target: HashMap<Target, u32>,
    /// Everything goes to one place: a proxy or a Unix socket.
    fixed: bool,
    pub(crate) proxied: bool,
    first: Target,
}

impl Origins {
    pub(crate) fn new(spec: &RunSpec) -> Result<Origins, PlanError> {
        let mut addresses = Vec::new();
        let mut first: Option<Target> = None;
        for url in &spec.target {
            let (target, _) = split("target", url)?;
            if spec.client.proxy.is_none() && spec.client.unix_socket.is_none() {
                let found = resolve("target", &target.host, target.port)?;
                addresses.extend(found.into_iter().map(Address::Internet));
            }
            first.get_or_insert(target);
        }
        let first =
            first.ok_or_else(|| PlanError::new("no target", "give a URL such as http://127.0.0.1:8080"))?;
        let mut origin = Origin {
            is_named: is_name(&first.host),
            authority: first.authority(),
            target: first.clone(),
            addresses,
        };
        if let Some(path) = &spec.client.unix_socket {
            origin.addresses = vec![Address::Unix(path.into())];
            origin.is_named = false;
        } else if let Some(proxy) = &spec.client.proxy {
            let (proxy, _) = split("--proxy", proxy)?;
            let found = resolve("--proxy", &proxy.host, proxy.port)?;
            origin.addresses = found.into_iter().map(Address::Internet).collect();
            origin.is_named = is_name(&proxy.host);
            origin.target = proxy;
        }
        for range in &spec.client.source {
            let Some(source) = range.addresses().next() else { continue };
            let fits = |address: &Address| matches!(address, Address::Internet(a) if a.is_ipv6() == source.is_ipv6());
            if let Some(other) = origin.addresses.iter().find(|address| !fits(address)) {
                return Err(PlanError::new(
                    format!(
                        "--source: connections from {source} cannot reach {other}: another address family"
                    ),
                    "give source and target addresses of one family",
                ));
            }
        }
        Ok(Origins {
            by_target: HashMap::from([(first.clone(), 0)]),
            list: vec![origin],
            fixed: spec.client.unix_socket.is_some() || spec.client.proxy.is_some(),
            proxied: spec.client.proxy.is_some(),
            first,
        })
    }

    /// Whom a request names; `None`: the run's target.
    pub(crate) fn authority(&self, target: Option<&Target>) -> String {
        target.unwrap_or(&self.first).authority()
    }

    /// The scheme of a request's URL; `None`: of the run's target.
    pub(crate) fn scheme(&self, target: Option<&Target>) -> &'static str {
        target.unwrap_or(&self.first).scheme.name()
    }

    pub(crate) fn of(&mut self, what: &str, target: Option<&Target>) -> Result<u32, PlanError> {
        let Some(target) = target.filter(|_| !self.fixed) else { return Ok(0) };
        if let Some(index) = self.by_target.get(target) {
            return Ok(*index);
        }
        let found = resolve(what, &target.host, target.port)?;
        let index = self.list.len() as u32;
        self.list.push(Origin {
            authority: target.authority(),
            is_named: is_name(&target.host),
            addresses: found.into_iter().map(Address::Internet).collect(),
            target: target.clone(),
        });
        self.by_target.insert(target.clone(), index);
        Ok(index)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_pair_has_its_turn() {
        for (destinations, sources) in [(1, 1), (8, 8), (2, 4), (3, 5), (4, 1), (6, 4)] {
            let pairs = destinations * sources;
            let mut uses = vec![0; pairs];
            // Whether each of many clients has one connection, or one client many.
            for number in 0..(pairs * 7) as u32 {
                let (destination, source) = pair(number, destinations, sources);
                uses[destination * sources + source] += 1;
            }
            assert_eq!(uses, vec![7; pairs], "{destinations} × {sources}");
        }
        assert_eq!(pair(5, 2, 0), (1, 0), "no source is given");
    }
}
