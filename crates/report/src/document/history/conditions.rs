//! Under which conditions a result was measured, and whether a run was measured under the same: its workload, how answers are made,
//! protocol, TLS, connections, CPUs of the server, its cache, look-up of names. A row of a table is compared with a level of a run only
//! where all of them agree, so that a ratio compares two machines and not two different measurements.

use serde::{Deserialize, Serialize};
use webstone_model::interfaces::Interface;
use webstone_model::record::RunRecord;
use webstone_model::series::Delivery;
use webstone_model::spec::{ConnectionPolicy, HttpVersion, Software};
use webstone_workload::TlsPages;

/// How a published row was measured. A run need not meet a condition that the document does not state.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Conditions {
    /// Our workloads that make the same requests, by name; empty: any.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub workloads: Vec<String>,
    /// What answers: files, or a program through one of these interfaces; empty: any.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub interfaces: Vec<Delivery>,
    /// How the handler fills its answers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fill: Option<String>,
    /// Whether the head of an answer is made for each request (`built`) or in advance (`ready`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub head: Option<String>,
    /// Version that requests name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub http: Option<HttpVersion>,
    /// Which pages were asked over TLS.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tls: Option<TlsPages>,
    /// When connections end.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub connections: Option<ConnectionPolicy>,
    /// CPUs of the server.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpus: Option<u32>,
    /// Whether the server caches files.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cache: Option<bool>,
    /// Whether the server looks up the names of its clients.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resolve_names: Option<bool>,
    /// Clients, where the table has no column of them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub clients: Option<u32>,
    /// Accesses of a batch, where the source counts them instead of time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub batch: Option<u64>,
}

/// The condition that a run does not meet, in the order in which they are checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Other {
    /// It makes other requests.
    Workload,
    /// Its answers are made in another way.
    Interface,
    /// Its handler fills answers in another way.
    Fill,
    /// Its handler makes heads in another way.
    Head,
    /// Another version of HTTP.
    Http,
    /// Other pages are asked over TLS, or none.
    Tls,
    /// Connections end at other times.
    Connections,
    /// Another number of CPUs.
    Cpus,
    /// The server caches, or does not.
    Cache,
    /// The server looks up names, or does not.
    ResolveNames,
    /// It has no level with this number of clients.
    Clients,
}

impl Other {
    /// What it is, for a sentence.
    pub fn name(self) -> &'static str {
        match self {
            Other::Workload => "workload",
            Other::Interface => "interface",
            Other::Fill => "fill of the handler",
            Other::Head => "head of the handler's answers",
            Other::Http => "version of HTTP",
            Other::Tls => "TLS",
            Other::Connections => "connections",
            Other::Cpus => "CPUs of the server",
            Other::Cache => "cache of the server",
            Other::ResolveNames => "look-up of names",
            Other::Clients => "numbers of clients",
        }
    }
}

impl Conditions {
    /// These conditions; those of `outer` where they state nothing.
    pub(super) fn within(self, outer: &Conditions) -> Conditions {
        let or =
            |inner: Vec<String>, outer: &Vec<String>| if inner.is_empty() { outer.clone() } else { inner };
        Conditions {
            workloads: or(self.workloads, &outer.workloads),
            interfaces: match self.interfaces.is_empty() {
                true => outer.interfaces.clone(),
                false => self.interfaces,
            },
            fill: self.fill.or_else(|| outer.fill.clone()),
            head: self.head.or_else(|| outer.head.clone()),
            http: self.http.or(outer.http),
            tls: self.tls.or(outer.tls),
            connections: self.connections.or(outer.connections),
            cpus: self.cpus.or(outer.cpus),
            cache: self.cache.or(outer.cache),
            resolve_names: self.resolve_names.or(outer.resolve_names),
            clients: self.clients.or(outer.clients),
            batch: self.batch.or(outer.batch),
        }
    }

    /// The first of them that a run does not meet. A condition that is unknown of the run is not met.
    pub(super) fn unmet(&self, run: &RunConditions<'_>) -> Option<Other> {
        let listed = |listed: bool, other: Other| (!listed).then_some(other);
        let asked = self.workloads.is_empty() || self.workloads.iter().any(|name| name == run.workload);
        let through = self.interfaces.is_empty()
            || run.interface.is_some_and(|interface| self.interfaces.contains(&interface));
        let same = |same: bool, other: Other| listed(same, other);
        same(asked, Other::Workload)
            .or_else(|| same(through, Other::Interface))
            .or_else(|| same(self.fill.as_deref().is_none_or(|fill| run.fill == Some(fill)), Other::Fill))
            .or_else(|| same(self.head.as_deref().is_none_or(|head| run.head == Some(head)), Other::Head))
            .or_else(|| same(self.http.is_none_or(|http| http == run.http), Other::Http))
            .or_else(|| same(self.tls.is_none_or(|tls| tls == run.tls), Other::Tls))
            .or_else(|| same(self.connections.is_none_or(|it| it == run.connections), Other::Connections))
            .or_else(|| same(self.cpus.is_none() || self.cpus == run.cpus, Other::Cpus))
            .or_else(|| same(self.cache.is_none() || self.cache == run.cache, Other::Cache))
            .or_else(|| {
                let same_names = self.resolve_names.is_none() || self.resolve_names == run.resolve_names;
                same(same_names, Other::ResolveNames)
            })
    }
}

/// The conditions of a run, as far as its record has them.
pub(super) struct RunConditions<'a> {
    workload: &'a str,
    interface: Option<Delivery>,
    fill: Option<&'a str>,
    head: Option<&'a str>,
    http: HttpVersion,
    tls: TlsPages,
    connections: ConnectionPolicy,
    cpus: Option<u32>,
    cache: Option<bool>,
    resolve_names: Option<bool>,
    /// Pages that each level fetched in all, where pages ended it.
    pub(super) batch: Option<u64>,
}

impl RunConditions<'_> {
    pub(super) fn of_record(record: &RunRecord) -> RunConditions<'_> {
        let (spec, target) = (&record.spec, &record.target);
        let ours = target.embedded || target.software.is_some();
        let sent = record.workload.pages.iter().flat_map(|page| &page.files);
        let asked = sent.clone().find_map(|file| Some(file.url.split_once('?')?.1));
        // A parameter of the handler, or what it does where none is given.
        let parameter = |name: &str, otherwise: &'static str| {
            let mut words = asked.unwrap_or_default().split('&').filter_map(|word| word.split_once('='));
            words.find(|(key, _)| *key == name).map_or(otherwise, |(_, value)| value)
        };
        let is_static = sent.clone().all(|file| !file.url.contains('?'));
        // The server's own configuration may keep fewer CPUs busy than it is pinned to.
        let most = target.software.as_ref().and_then(|software| software.cpus_max).unwrap_or(u32::MAX);
        let of_list = |cpus: &[u32]| (!cpus.is_empty()).then(|| (cpus.len() as u32).min(most));
        let own_cache =
            ours && spec.server.software == Software::Reference && spec.server.interface.is_none();
        RunConditions {
            workload: &record.workload.name,
            interface: match (is_static, ours) {
                (true, _) => Some(Delivery::Static),
                (false, true) => Some(Delivery::Dynamic(spec.server.interface.unwrap_or(Interface::Native))),
                (false, false) => None,
            },
            fill: (!is_static).then(|| parameter("fill", "random")),
            head: (!is_static).then(|| parameter("head", "built")),
            http: spec.client.http,
            // With an https target, pages that do not say otherwise are requested over TLS.
            tls: match record.workload.tls_pages() {
                TlsPages::None if target.url.starts_with("https:") => TlsPages::All,
                pages => pages,
            },
            connections: spec.client.connections,
            cpus: of_list(&target.cpus).or_else(|| {
                of_list(&target.agents.iter().flat_map(|agent| agent.cpus.clone()).collect::<Vec<_>>())
            }),
            cache: spec.server.cache.or_else(|| own_cache.then(|| spec.server.reference_caches())),
            resolve_names: ours.then_some(spec.server.resolve_names),
            batch: spec.load.pages.filter(|_| spec.load.duration.0 == 0),
        }
    }
}
