//! The servers of a plan: the target with its addresses (one without TLS and one with, if a workload requests both),
//! a proxy or Unix socket in its place, and other hosts that a workload names.

use std::collections::HashMap;

use webstone_workload::aim::Aim;
use webstone_workload::load::{ClientSpec, GeneratorTask};
use webstone_workload::target::{Scheme, Target};
use webstone_workload::{TlsPages, Workload};

use crate::origin::{Origin, is_name, resolve, split};
use crate::plan_error::PlanError;
use crate::sys::Address;
use crate::tls::TlsPlan;

/// Which destination and source the n-th connection of a client uses. Every pair is used once before any is used
/// again, so that all pairs use up their local ports evenly.
#[inline]
pub(crate) fn pair(number: u32, destinations: usize, sources: usize) -> (usize, usize) {
    // Two divisions are expensive; skip them if there is no choice.
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
    /// The one destination of all connections: a proxy or a Unix socket.
    fixed: Option<Fixed>,
    first: Target,
    /// The target for pages over TLS, if others are requested without.
    secure: Option<Target>,
    tls: Option<TlsPlan>,
    client: ClientSpec,
}

/// The one destination of all connections, whatever host a request names.
#[derive(Clone)]
struct Fixed {
    /// The proxy.
    proxy: Option<Target>,
    addresses: Vec<Address>,
}

impl Origins {
    pub(crate) fn new(
        spec: &GeneratorTask,
        workload: &Workload,
        tls: Option<TlsPlan>,
    ) -> Result<Origins, PlanError> {
        let targets = spec.target.iter().map(|url| split("target", url).map(|(target, _)| target));
        let targets = targets.collect::<Result<Vec<Target>, PlanError>>()?;
        let aim = Aim::new(workload, &targets).map_err(|(what, hint)| PlanError::new(what, hint))?;
        let of_paths = |over_tls: bool| {
            let mut addresses = Vec::new();
            for target in aim.of_paths(over_tls) {
                if spec.client.proxy.is_none() && spec.client.unix_socket.is_none() {
                    let found = resolve("target", &spec.client, target)?;
                    addresses.extend(found.into_iter().map(Address::Internet));
                }
            }
            Ok::<_, PlanError>((aim.of_paths(over_tls).next().cloned(), addresses))
        };
        let (first, addresses) = of_paths(workload.tls_pages() == TlsPages::All)?;
        let first =
            first.ok_or_else(|| PlanError::new("no target", "give a URL such as http://127.0.0.1:8080"))?;
        let (secure, secure_addresses) = if aim.is_mixed() { of_paths(true)? } else { (None, Vec::new()) };
        let mut fixed = None;
        if let Some(path) = &spec.client.unix_socket {
            fixed = Some(Fixed { proxy: None, addresses: vec![Address::Unix(path.into())] });
        } else if let Some(proxy) = &spec.client.proxy {
            let (proxy, _) = split("--proxy", proxy)?;
            if proxy.scheme == Scheme::Https {
                return Err(PlanError::new(
                    format!("--proxy: {proxy}: connections to a proxy cannot use TLS"),
                    "give the proxy as http://HOST:PORT; https:// targets are reached through it with CONNECT",
                ));
            }
            let found = resolve("--proxy", &spec.client, &proxy)?;
            let addresses = found.into_iter().map(Address::Internet).collect();
            fixed = Some(Fixed { proxy: Some(proxy), addresses });
        }
        let mut origins = Origins {
            list: Vec::new(),
            by_target: HashMap::new(),
            fixed,
            first: first.clone(),
            secure: secure.clone(),
            tls,
            client: spec.client.clone(),
        };
        origins.add(&first, addresses)?;
        if let Some(secure) = &secure {
            origins.add(secure, secure_addresses)?;
        }
        for range in &spec.client.source {
            let Some(source) = range.addresses().next() else { continue };
            let fits = |address: &Address| matches!(address, Address::Internet(a) if a.is_ipv6() == source.is_ipv6());
            let mut addresses = origins.list.iter().flat_map(|origin| &origin.addresses);
            if let Some(other) = addresses.find(|address| !fits(address)) {
                return Err(PlanError::new(
                    format!(
                        "--source: connections from {source} cannot reach {other}, which has another address family"
                    ),
                    "give source addresses of the target's family: IPv4 or IPv6",
                ));
            }
        }
        Ok(origins)
    }

    /// The target for paths over TLS, if it is not the run's first target.
    pub(crate) fn secure(&self) -> Option<&Target> {
        self.secure.as_ref()
    }

    /// The server that a request goes to; for `None`, the run's target.
    pub(crate) fn target<'a>(&'a self, target: Option<&'a Target>) -> &'a Target {
        target.unwrap_or(&self.first)
    }

    /// Whether a request line to this target has an absolute URL: through a proxy, without TLS.
    pub(crate) fn names_url(&self, target: &Target) -> bool {
        let is_proxied = self.fixed.as_ref().is_some_and(|fixed| fixed.proxy.is_some());
        is_proxied && target.scheme == Scheme::Http
    }

    /// The scheme of a request's URL; for `None`, that of the run's target.
    pub(crate) fn scheme(&self, target: Option<&Target>) -> &'static str {
        target.unwrap_or(&self.first).scheme.name()
    }

    pub(crate) fn index(&mut self, what: &str, target: Option<&Target>) -> Result<u32, PlanError> {
        let Some(target) = target else { return Ok(0) };
        // Without TLS, a connection to a proxy or a socket serves every host.
        if self.fixed.is_some()
            && target.scheme == Scheme::Http
            && let Some(index) = self.list.iter().position(|origin| origin.secure.is_none())
        {
            return Ok(index as u32);
        }
        if let Some(index) = self.by_target.get(target) {
            return Ok(*index);
        }
        let found = match self.fixed {
            Some(_) => Vec::new(),
            None => resolve(what, &self.client, target)?,
        };
        self.add(target, found.into_iter().map(Address::Internet).collect())
    }

    /// Adds a server at these addresses, unless everything goes to one place.
    fn add(&mut self, target: &Target, addresses: Vec<Address>) -> Result<u32, PlanError> {
        let proxy = self.fixed.as_ref().and_then(|fixed| fixed.proxy.clone());
        let secure = match &self.tls {
            Some(tls) => tls.secure(target, proxy.is_some())?,
            None => None,
        };
        let is_unix = self.fixed.is_some() && proxy.is_none();
        let connected_to = proxy.unwrap_or_else(|| self.client.connected_to(target));
        self.list.push(Origin {
            authority: target.authority(),
            scheme: target.scheme,
            is_named: !is_unix && is_name(&connected_to.host),
            addresses: self.fixed.as_ref().map_or(addresses, |fixed| fixed.addresses.clone()),
            target: connected_to,
            secure,
        });
        let index = self.list.len() as u32 - 1;
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
            // Many clients with one connection each, or one client with many.
            for number in 0..(pairs * 7) as u32 {
                let (destination, source) = pair(number, destinations, sources);
                uses[destination * sources + source] += 1;
            }
            assert_eq!(uses, vec![7; pairs], "{destinations} × {sources}");
        }
        assert_eq!(pair(5, 2, 0), (1, 0), "no source is given");
    }
}
