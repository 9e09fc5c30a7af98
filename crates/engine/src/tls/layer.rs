//! TLS on a link: a handshake by rustls, then records of our own, which are sealed and opened in buffers that the
//! links of a worker share. If early data may be sent, rustls does everything.
//!
//! A link whose URL is `http` has no TLS and passes all bytes unchanged: a run may mix both.

use std::sync::Arc;

use rustls::client::Resumption;
use rustls::{ClientConfig, CommonState, HandshakeKind};
use webstone_measure::errors::ErrorClass;
use webstone_measure::metrics::Handshake;

use super::buffered::Buffered;
use super::config::{TlsPlan, draw_first_keys, named_cipher, named_group, named_version};
use super::failure;
use super::records::Scratch;
use super::sessions::Sessions;
use super::shaking::Shaking;
use super::traffic::Traffic;
use super::tunnel::Tunnel;
use crate::draws::Draws;
use crate::layer::Layer;
use crate::plan::Plan;
use crate::session::AnswerError;

/// See the module comment.
#[derive(Debug, Default)]
pub(crate) struct Tls {
    connection: Connection,
    /// A tunnel through a proxy that is not established yet.
    tunnel: Option<Box<Tunnel>>,
    /// Sealed bytes that the socket has not taken; empty if it took all at once.
    pending: Vec<u8>,
    /// Bytes of the session that came with the end of the handshake.
    ahead: Vec<u8>,
    /// Number of the session's bytes that are sealed but not all sent.
    sealed: usize,
    /// The session's bytes may pass.
    is_open: bool,
    /// The handshake has ended.
    is_agreed: bool,
    /// What it agreed on, until that is taken.
    agreed: Option<Handshake>,
    /// How many bytes of the wire the socket waits for, less one. Outlives the connection, as the socket may.
    awaited_more: u32,
}

#[derive(Debug, Default)]
enum Connection {
    /// Without TLS.
    #[default]
    Plain,
    Shaking(Shaking),
    Traffic(Box<Traffic>),
    Buffered(Box<Buffered>),
}

/// What the links of a worker share.
#[derive(Debug)]
pub(crate) struct Shared {
    plan: Option<TlsPlan>,
    /// By origin; `None` without TLS.
    servers: Vec<Option<Server>>,
    /// Draws which connections resume.
    draws: Shares,
    wire: Vec<u8>,
    scratch: Scratch,
}

#[derive(Debug)]
pub(super) struct Server {
    pub(super) config: Arc<ClientConfig>,
    pub(super) sessions: Arc<Sessions>,
}

impl Layer for Tls {
    const IS_PLAIN: bool = false;

    type Shared = Shared;

    fn shared(plan: &Plan, slot: u32) -> Shared {
        Shared {
            servers: servers(plan),
            plan: plan.tls.clone(),
            draws: Shares::new(plan.seed, slot.into()),
            wire: Vec::new(),
            scratch: Scratch::default(),
        }
    }

    fn open(&mut self, origin: u32, plan: &Plan, shared: &mut Shared) {
        shared.scratch.give_back(&mut self.pending);
        *self = Tls { awaited_more: self.awaited_more, ..Tls::default() };
        let secure = plan.origins[origin as usize].secure.as_ref();
        let Some((secure, server)) = secure.zip(shared.servers[origin as usize].as_ref()) else {
            self.is_open = true;
            return;
        };
        if let Some(tls) = &shared.plan {
            server.sessions.may_resume(tls.resume.has(shared.draws.next_of_10_000()));
        }
        let why = "the configuration made connections before, and the name is one";
        let (config, name) = (server.config.clone(), secure.name.clone());
        self.pending = shared.scratch.take_spare();
        if let Some(request) = &secure.tunnel {
            self.pending.extend_from_slice(request);
            self.tunnel = Some(Box::default());
        }
        if config.enable_early_data {
            let mut buffered = Buffered::new(config, name).expect(why);
            self.is_open = self.tunnel.is_none() && buffered.sends_early();
            self.connection = Connection::Buffered(Box::new(buffered));
            return;
        }
        let mut shaking = Shaking::new(config, name).expect(why);
        if self.tunnel.is_none() {
            // The ClientHello: nothing has been received that could be wrong.
            let _ = shaking.step(&[], &mut self.pending, &mut self.ahead);
        }
        self.connection = Connection::Shaking(shaking);
    }

    #[inline]
    fn is_open(&self) -> bool {
        self.is_open
    }

    #[inline]
    fn is_agreed(&self) -> bool {
        self.is_agreed || matches!(self.connection, Connection::Plain)
    }

    fn hold_early_data(&mut self) {
        self.is_open &= self.is_agreed();
    }

    fn handshake(&mut self, wire: &[u8], shared: &mut Shared) -> Result<usize, AnswerError> {
        let mut taken = 0;
        if let Some(tunnel) = &mut self.tunnel {
            let (bytes, stands) = tunnel.take(wire)?;
            if !stands {
                return Ok(bytes);
            }
            taken = bytes;
            self.tunnel = None;
        }
        self.read(&wire[taken..], true, shared)?;
        Ok(wire.len())
    }

    fn take_agreed(&mut self, _: &Shared) -> Option<Handshake> {
        self.agreed.take()
    }

    fn seal<'a>(&'a mut self, plain: &'a [u8], shared: &'a mut Shared) -> &'a [u8] {
        if matches!(self.connection, Connection::Plain) {
            return plain;
        }
        if self.tunnel.is_some() {
            return &self.pending;
        }
        let out = if self.pending.is_empty() {
            shared.wire.clear();
            &mut shared.wire
        } else {
            &mut self.pending
        };
        let new = plain.get(self.sealed..).unwrap_or_default();
        match &mut self.connection {
            // A handshake's messages are sealed when something is received, and wait in `pending`.
            Connection::Plain | Connection::Shaking(_) => {}
            Connection::Traffic(traffic) => traffic.seal(new, out),
            Connection::Buffered(buffered) => buffered.seal(new, out),
        }
        self.sealed += new.len();
        out
    }

    #[inline]
    fn is_spent(&self) -> bool {
        matches!(&self.connection, Connection::Traffic(traffic) if traffic.is_spent())
    }

    fn sent(&mut self, n: usize, shared: &mut Shared) -> usize {
        if matches!(self.connection, Connection::Plain) {
            return n;
        }
        if !self.pending.is_empty() {
            self.pending.drain(..n);
            if self.pending.is_empty() {
                shared.scratch.give_back(&mut self.pending);
            }
        } else if n < shared.wire.len() {
            self.pending = shared.scratch.take_spare();
            self.pending.extend_from_slice(&shared.wire[n..]);
        }
        // Records are longer than what is in them, so at least this much of the session's bytes has gone.
        let gone = self.sealed.saturating_sub(self.pending.len());
        self.sealed -= gone;
        gone
    }

    #[inline]
    fn must_send(&self) -> bool {
        match &self.connection {
            Connection::Plain => false,
            Connection::Shaking(_) => !self.pending.is_empty(),
            Connection::Traffic(traffic) => traffic.must_send(),
            Connection::Buffered(buffered) => buffered.must_send(),
        }
    }

    fn unseal(&mut self, wire: &[u8], shared: &mut Shared) -> Result<usize, AnswerError> {
        if matches!(self.connection, Connection::Plain) {
            return Ok(wire.len());
        }
        shared.scratch.clear();
        if !self.ahead.is_empty() {
            shared.scratch.append(&std::mem::take(&mut self.ahead));
        }
        self.read(wire, false, shared)?;
        Ok(shared.scratch.plain().len())
    }

    #[inline]
    fn plain<'a>(&'a self, wire: &'a [u8], shared: &'a Shared) -> &'a [u8] {
        if matches!(self.connection, Connection::Plain) { wire } else { shared.scratch.plain() }
    }

    #[inline]
    fn awaits(&mut self, bytes: u32) -> bool {
        if matches!(self.connection, Connection::Plain) && bytes > 1 {
            return false;
        }
        std::mem::replace(&mut self.awaited_more, bytes - 1) != bytes - 1
    }

    fn close(&mut self) {
        match &mut self.connection {
            // An unfinished handshake has nothing to close.
            Connection::Plain | Connection::Shaking(_) => {}
            Connection::Traffic(traffic) => traffic.close(),
            Connection::Buffered(buffered) => buffered.close(),
        }
    }

    #[inline]
    fn is_ended(&self) -> bool {
        match &self.connection {
            Connection::Plain | Connection::Shaking(_) => false,
            Connection::Traffic(traffic) => traffic.was_close_heard(),
            Connection::Buffered(buffered) => buffered.was_close_heard(),
        }
    }

    fn may_end(&self) -> bool {
        matches!(self.connection, Connection::Plain) || self.is_ended()
    }
}

impl Tls {
    /// Reads bytes of the wire. The session's bytes go to the shared buffer; with `keeps`, those that come with the
    /// end of the handshake are kept for later.
    #[inline]
    fn read(&mut self, wire: &[u8], keeps: bool, shared: &mut Shared) -> Result<(), AnswerError> {
        if let Connection::Traffic(traffic) = &mut self.connection {
            return traffic.unseal(wire, &mut shared.scratch).map_err(|fault| {
                let offered = shared.plan.as_ref().map_or("", |tls| &tls.offered);
                AnswerError::Layer(Box::new(failure::of_traffic(&fault, offered)))
            });
        }
        self.read_by_rustls(wire, keeps, shared)
    }

    /// Makes rustls read bytes of the wire.
    #[cold]
    fn read_by_rustls(&mut self, wire: &[u8], keeps: bool, shared: &mut Shared) -> Result<(), AnswerError> {
        let tls = shared.plan.as_ref().expect("a link over TLS has TLS settings");
        let failed = |failure: (_, _)| AnswerError::Layer(Box::new(failure));
        let began_with = (!self.is_agreed).then_some(wire);
        let told = |error: &rustls::Error| failed(failure::told(error, &tls.offered, began_with));
        match &mut self.connection {
            Connection::Plain | Connection::Traffic(_) => {}
            Connection::Buffered(buffered) => {
                buffered.read(wire, keeps, &mut shared.scratch).map_err(|error| told(&error))?;
                if !self.is_agreed && buffered.is_over() {
                    let took_early_data = buffered.took_early_data();
                    self.agreed = agreed(buffered.connection(), took_early_data, tls).map_err(failed)?;
                    (self.is_agreed, self.is_open) = (true, true);
                }
            }
            Connection::Shaking(shaking) => {
                if self.pending.capacity() == 0 {
                    self.pending = shared.scratch.take_spare();
                }
                let stepped = shaking.step(wire, &mut self.pending, &mut self.ahead);
                if self.pending.is_empty() {
                    shared.scratch.give_back(&mut self.pending);
                }
                stepped.map_err(|error| told(&error))?;
                if shaking.is_over() {
                    self.agreed = agreed(shaking.connection(), None, tls).map_err(failed)?;
                    (self.is_agreed, self.is_open) = (true, true);
                    if let Connection::Shaking(shaking) = std::mem::take(&mut self.connection) {
                        let traffic = shaking.traffic().map_err(|error| told(&error))?;
                        self.connection = Connection::Traffic(Box::new(traffic));
                    }
                }
            }
        }
        Ok(())
    }
}

/// A worker's configurations and sessions, by origin; `None` without TLS. To be called by the worker's thread, before its clock starts.
pub(super) fn servers(plan: &Plan) -> Vec<Option<Server>> {
    let key_log = plan.tls.as_ref().map(TlsPlan::key_log);
    let server = |tls: &TlsPlan| {
        let sessions = Arc::new(Sessions::new(tls.resume.percent() > 0.0));
        let mut config = ClientConfig::clone(&tls.config);
        config.resumption = Resumption::store(sessions.clone());
        config.enable_secret_extraction = true;
        if let Some(key_log) = &key_log {
            config.key_log = key_log.clone();
        }
        Server { config: Arc::new(config), sessions }
    };
    if let Some(tls) = &plan.tls {
        draw_first_keys(&tls.config);
    }
    plan.origins.iter().map(|origin| origin.secure.as_ref().and(plan.tls.as_ref()).map(server)).collect()
}

/// What a handshake agreed on.
pub(super) fn agreed(
    connection: &CommonState,
    took_early_data: Option<bool>,
    tls: &TlsPlan,
) -> Result<Option<Handshake>, (ErrorClass, String)> {
    let alpn = connection.alpn_protocol();
    let needs_one = matches!(tls.speaks, "h2" | "h3");
    if alpn.map_or(needs_one, |chosen| chosen != tls.speaks.as_bytes()) {
        return Err(failure::other_protocol(alpn, tls.speaks));
    }
    let agreed = connection.negotiated_cipher_suite().zip(connection.protocol_version());
    Ok(agreed.map(|(cipher, version)| Handshake {
        is_resumed: connection.handshake_kind() == Some(HandshakeKind::Resumed),
        took_early_data,
        version: named_version(version),
        cipher: named_cipher(cipher.suite()),
        group: connection.negotiated_key_exchange_group().and_then(|group| named_group(group.name())),
        alpn: alpn.map(|name| match name {
            b"http/1.1" => "http/1.1",
            b"h2" => "h2",
            b"h3" => "h3",
            b"http/1.0" => "http/1.0",
            _ => "other",
        }),
        is_verified: tls.is_verified,
    }))
}

/// Numbers that depend only on the seed and the worker's first slot.
#[derive(Debug)]
pub(super) struct Shares(Draws);

impl Shares {
    pub(super) fn new(seed: u64, slot: u64) -> Shares {
        Shares(Draws(seed ^ slot.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(17)))
    }

    pub(super) fn next_of_10_000(&mut self) -> u16 {
        ((u128::from(self.0.next()) * 10_000) >> 64) as u16
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn draws_are_even_and_the_same_for_a_seed() {
        let mut draws = Shares::new(1995, 3);
        let first: Vec<u16> = (0..10_000).map(|_| draws.next_of_10_000()).collect();
        let mut again = Shares::new(1995, 3);
        assert!(first.iter().all(|drawn| *drawn == again.next_of_10_000() && *drawn < 10_000));
        let low = first.iter().filter(|drawn| **drawn < 2_500).count();
        assert!((2_300..2_700).contains(&low), "{low}");
    }
}
