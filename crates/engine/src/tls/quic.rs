//! TLS as QUIC uses it: which configuration a connection has, what its handshake agreed on, and words for its errors. Packets are
//! protected in `quic`.

use rustls::client::Resumption;
use rustls::pki_types::ServerName;
use rustls::quic::ClientConnection;
use rustls::{AlertDescription, ClientConfig, Error};
use webstone_measure::errors::ErrorClass;
use webstone_measure::metrics::Handshake;
use webstone_workload::load::QuicVersion;

use super::config::{Secure, TlsPlan};
use super::failure;
use super::layer::{Server, Shares, agreed, servers};
use crate::plan::Plan;
use crate::quic::{Settings, Version};
use crate::sys::Address;

/// Largest datagram in bytes of UDP payload that an Ethernet frame carries, over IPv4 and IPv6. Loopback would take larger ones, but
/// servers do not get those from real clients.
const PAYLOAD_BYTES_MAX: [u16; 2] = [1472, 1452];

/// What the connections of a worker share.
#[derive(Debug, Default)]
pub(crate) struct QuicTls {
    plan: Option<TlsPlan>,
    /// By origin; `None` where its URL is not `https`.
    servers: Vec<Option<(Settings, Server)>>,
    /// Draws which connections resume.
    draws: Option<Shares>,
}

impl QuicTls {
    /// To be called by the worker's thread, before its clock starts. `slot` is the worker's first slot among those of all hosts.
    pub(crate) fn new(plan: &Plan, slot: u32) -> QuicTls {
        let servers = servers(plan).into_iter().zip(&plan.origins).map(|(server, origin)| {
            let is_v6 =
                matches!(origin.addresses.first(), Some(Address::Internet(address)) if address.is_ipv6());
            server.map(|server| {
                let mut settings = settings(server.config.clone(), is_v6, plan.quic_version);
                // Only the connect timeout limits how long connecting may take.
                settings.idle_timeout_ns = settings.idle_timeout_ns.max(plan.connect_timeout_ns);
                (settings, server)
            })
        });
        QuicTls {
            servers: servers.collect(),
            plan: plan.tls.clone(),
            draws: Some(Shares::new(plan.seed, slot.into())),
        }
    }

    /// For a single connection of a check.
    pub(crate) fn single(tls: &TlsPlan, is_v6: bool, version: QuicVersion) -> (QuicTls, Settings) {
        let mut config = ClientConfig::clone(&tls.config);
        config.resumption = Resumption::disabled();
        config.enable_early_data = false;
        let shared = QuicTls { plan: Some(tls.clone()), ..QuicTls::default() };
        (shared, settings(config.into(), is_v6, version))
    }

    /// Settings of the next connection to an origin; `None` where its URL is not `https`.
    pub(crate) fn next(&mut self, origin: u32) -> Option<&Settings> {
        let (settings, server) = self.servers[origin as usize].as_ref()?;
        if let Some((tls, draws)) = self.plan.as_ref().zip(self.draws.as_mut()) {
            server.sessions.may_resume(tls.resume.has(draws.next_of_10_000()));
        }
        Some(settings)
    }

    /// Whether datagrams to an origin are marked ECT(0) at first.
    pub(crate) fn uses_ecn(&self, origin: u32) -> bool {
        self.servers[origin as usize].as_ref().is_some_and(|(settings, _)| settings.uses_ecn)
    }

    /// Has no further connection to an origin mark its datagrams: marks get lost, or the server does not report them.
    pub(crate) fn avoid_ecn(&mut self, origin: u32) {
        if let Some((settings, _)) = &mut self.servers[origin as usize] {
            settings.uses_ecn = false;
        }
    }

    /// What a handshake agreed on.
    pub(crate) fn agreed(
        &self,
        connection: &ClientConnection,
        took_early_data: Option<bool>,
    ) -> Result<Option<Handshake>, (ErrorClass, String)> {
        match &self.plan {
            Some(tls) => agreed(connection, took_early_data, tls),
            None => Ok(None),
        }
    }

    /// Class and words of an error of TLS.
    pub(crate) fn told(&self, error: &Error) -> (ErrorClass, String) {
        // Without first bytes: those are of a stream, and `told` would look for text in them.
        failure::told(error, self.plan.as_ref().map_or("", |tls| &tls.offered), Some(&[]))
    }

    /// The same for an alert that the server sent.
    pub(crate) fn told_of_alert(&self, alert: u8) -> (ErrorClass, String) {
        self.told(&Error::AlertReceived(AlertDescription::from(alert)))
    }
}

impl Secure {
    /// The name that the server's certificate must have.
    pub(crate) fn name(&self) -> ServerName<'static> {
        self.name.clone()
    }
}

fn settings(config: std::sync::Arc<ClientConfig>, is_v6: bool, version: QuicVersion) -> Settings {
    Settings {
        version: match version {
            QuicVersion::V1 => Version::V1,
            QuicVersion::V2 => Version::V2,
        },
        udp_payload_bytes_max: PAYLOAD_BYTES_MAX[usize::from(is_v6)],
        ..Settings::new(config)
    }
}

/// Random bytes for the first destination of a connection.
pub(crate) fn random_id(settings: &Settings) -> [u8; 8] {
    let mut id = [0; 8];
    // Optional: a predictable ID works, too.
    let _ = settings.tls.crypto_provider().secure_random.fill(&mut id);
    id
}
