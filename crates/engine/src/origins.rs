//! The servers of a plan: the target with its addresses, a proxy or Unix socket in its place, and other hosts that a
//! workload names.

use std::collections::HashMap;

use webstone_model::spec::RunSpec;

use crate::origin::{Origin, Url, is_name, parse_url, resolve};
use crate::plan::PlanError;
use crate::sys::Address;

/// Which of so many destinations and sources a client's connection of a number uses. Every pair has its turn before one has
/// its second, so that the local ports of all pairs are used alike.
#[inline]
pub(crate) fn pair(number: u32, destinations: usize, sources: usize) -> (usize, usize) {
    let number = number as usize;
    (number % destinations, number / destinations % sources.max(1))
}

/// The servers that requests go to, each resolved once.
pub(crate) struct Origins {
    pub(crate) list: Vec<Origin>,
    by_authority: HashMap<String, u32>,
    /// Everything goes to one place: a proxy or a Unix socket.
    fixed: bool,
    pub(crate) proxied: bool,
    first_authority: String,
}

impl Origins {
    pub(crate) fn new(spec: &RunSpec) -> Result<Origins, PlanError> {
        let mut addresses = Vec::new();
        let mut first: Option<Url> = None;
        for text in &spec.target {
            let url = parse_url("target", text)?;
            if spec.client.proxy.is_none() && spec.client.unix_socket.is_none() {
                addresses.extend(resolve("target", &url.host, url.port)?.into_iter().map(Address::Internet));
            }
            first.get_or_insert(url);
        }
        let first =
            first.ok_or_else(|| PlanError::new("no target", "give a URL such as http://127.0.0.1:8080"))?;
        let mut origin = Origin {
            is_named: is_name(&first.host),
            authority: first.authority.clone(),
            host: first.host,
            port: first.port,
            addresses,
        };
        if let Some(path) = &spec.client.unix_socket {
            origin.addresses = vec![Address::Unix(path.into())];
            origin.is_named = false;
        } else if let Some(proxy) = &spec.client.proxy {
            let url = parse_url("--proxy", proxy)?;
            let found = resolve("--proxy", &url.host, url.port)?;
            origin.addresses = found.into_iter().map(Address::Internet).collect();
            origin.is_named = is_name(&url.host);
            origin.host = url.host;
            origin.port = url.port;
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
            by_authority: HashMap::from([(origin.authority.clone(), 0)]),
            list: vec![origin],
            fixed: spec.client.unix_socket.is_some() || spec.client.proxy.is_some(),
            proxied: spec.client.proxy.is_some(),
            first_authority: first.authority,
        })
    }

    pub(crate) fn authority(&self, url: Option<&Url>) -> String {
        url.map_or_else(|| self.first_authority.clone(), |url| url.authority.clone())
    }

    pub(crate) fn of(&mut self, what: &str, url: Option<&Url>) -> Result<u32, PlanError> {
        let Some(url) = url.filter(|_| !self.fixed) else { return Ok(0) };
        if let Some(index) = self.by_authority.get(&url.authority) {
            return Ok(*index);
        }
        let addresses = resolve(what, &url.host, url.port)?.into_iter().map(Address::Internet).collect();
        let index = self.list.len() as u32;
        self.list.push(Origin {
            authority: url.authority.clone(),
            is_named: is_name(&url.host),
            host: url.host.clone(),
            port: url.port,
            addresses,
        });
        self.by_authority.insert(url.authority.clone(), index);
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
