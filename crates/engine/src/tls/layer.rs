//! TLS over a link: rustls's connection, fed with bytes of the wire and emptied into buffers that the links of a worker share.
//!
//! A link whose URL is `http` has no connection of rustls's, and passes everything as it is: a run may mix both.

use std::io::{BufRead, Write};
use std::sync::Arc;

use rustls::client::{ClientConnection, Resumption};
use rustls::{ClientConfig, HandshakeKind};
use webstone_model::metrics::Handshake;

use super::config::{TlsPlan, draw_first_keys, named_cipher, named_group, named_version};
use super::failure;
use super::sessions::Sessions;
use super::tunnel::Tunnel;
use crate::layer::Layer;
use crate::plan::Plan;
use crate::session::Failure;

/// See the module comment.
#[derive(Debug, Default)]
pub(crate) struct Tls {
    /// Absent where the link is in the clear.
    connection: Option<Box<ClientConnection>>,
    /// A tunnel through a proxy that does not stand yet.
    tunnel: Option<Box<Tunnel>>,
    /// What was sealed and not yet taken by the socket, where that was not all at once.
    pending: Vec<u8>,
    /// Bytes of the session that are sealed, and not all sent.
    sealed: usize,
    /// Bytes of the session from before the handshake's end, of which so many were sent as early data.
    early: Vec<u8>,
    early_sent: usize,
    /// The session's bytes may pass.
    is_open: bool,
    /// The handshake has ended.
    is_agreed: bool,
    /// That was told.
    is_told: bool,
    was_close_heard: bool,
    /// Bytes of the wire that the socket waits for, beyond the first. It outlives the connection, as the socket may.
    awaited_more: u32,
}

/// What the links of a worker have together.
#[derive(Debug)]
pub(crate) struct Shared {
    plan: Option<TlsPlan>,
    /// Origin by origin; `None` in the clear.
    servers: Vec<Option<Server>>,
    /// Draws which connections resume.
    draws: Draws,
    wire: Vec<u8>,
    plain: Vec<u8>,
}

#[derive(Debug)]
struct Server {
    config: Arc<ClientConfig>,
    sessions: Arc<Sessions>,
}

impl Layer for Tls {
    const IS_PLAIN: bool = false;

    type Shared = Shared;

    fn shared(plan: &Plan, slot: u32) -> Shared {
        let key_log = plan.tls.as_ref().map(TlsPlan::key_log);
        let server = |tls: &TlsPlan| {
            let sessions = Arc::new(Sessions::new(tls.resume.percent() > 0.0));
            let mut config = ClientConfig::clone(&tls.config);
            config.resumption = Resumption::store(sessions.clone());
            if let Some(key_log) = &key_log {
                config.key_log = key_log.clone();
            }
            Server { config: Arc::new(config), sessions }
        };
        if let Some(tls) = &plan.tls {
            draw_first_keys(&tls.config);
        }
        Shared {
            servers: plan
                .origins
                .iter()
                .map(|origin| origin.secure.as_ref().and(plan.tls.as_ref()).map(server))
                .collect(),
            plan: plan.tls.clone(),
            draws: Draws::new(plan.seed, slot.into()),
            wire: Vec::new(),
            plain: Vec::new(),
        }
    }

    fn open(&mut self, origin: u32, plan: &Plan, shared: &mut Shared) {
        let (mut pending, mut early) = (std::mem::take(&mut self.pending), std::mem::take(&mut self.early));
        pending.clear();
        early.clear();
        *self = Tls { pending, early, awaited_more: self.awaited_more, ..Tls::default() };
        let secure = plan.origins[origin as usize].secure.as_ref();
        let Some((secure, server)) = secure.zip(shared.servers[origin as usize].as_ref()) else {
            self.is_open = true;
            return;
        };
        if let Some(tls) = &shared.plan {
            server.sessions.may_resume(tls.resume.has(shared.draws.next_of_10_000()));
        }
        let mut connection = ClientConnection::new(server.config.clone(), secure.name.clone())
            .expect("the configuration made connections before, and the name is one");
        // A request is sealed whole, however long.
        connection.set_buffer_limit(None);
        if let Some(request) = &secure.tunnel {
            self.pending.extend_from_slice(request);
            self.tunnel = Some(Box::default());
        }
        self.is_open = self.tunnel.is_none() && connection.early_data().is_some();
        self.connection = Some(Box::new(connection));
    }

    #[inline]
    fn is_open(&self) -> bool {
        self.is_open
    }

    #[inline]
    fn is_agreed(&self) -> bool {
        self.is_agreed || self.connection.is_none()
    }

    fn handshake(&mut self, wire: &[u8], shared: &mut Shared) -> Result<usize, Failure> {
        let mut taken = 0;
        if let Some(tunnel) = &mut self.tunnel {
            let (bytes, stands) = tunnel.take(wire)?;
            if !stands {
                return Ok(bytes);
            }
            taken = bytes;
            self.tunnel = None;
        }
        self.read(&wire[taken..], shared, None)?;
        Ok(wire.len())
    }

    fn take_agreed(&mut self, shared: &Shared) -> Option<Handshake> {
        if !self.is_agreed || std::mem::replace(&mut self.is_told, true) {
            return None;
        }
        let connection = self.connection.as_ref()?;
        let cipher = connection.negotiated_cipher_suite()?;
        let alpn = connection.alpn_protocol().map(|name| match name {
            b"http/1.1" => "http/1.1",
            b"h2" => "h2",
            b"http/1.0" => "http/1.0",
            _ => "other",
        });
        Some(Handshake {
            is_resumed: connection.handshake_kind() == Some(HandshakeKind::Resumed),
            took_early_data: (self.early_sent > 0).then(|| connection.is_early_data_accepted()),
            version: named_version(connection.protocol_version()?),
            cipher: named_cipher(cipher.suite()),
            group: connection.negotiated_key_exchange_group().and_then(|group| named_group(group.name())),
            alpn,
            is_verified: shared.plan.as_ref().is_some_and(|tls| tls.is_verified),
        })
    }

    fn seal<'a>(&'a mut self, plain: &'a [u8], shared: &'a mut Shared) -> &'a [u8] {
        let Some(connection) = &mut self.connection else { return plain };
        if self.tunnel.is_some() {
            return &self.pending;
        }
        if plain.len() > self.sealed {
            let new = &plain[self.sealed..];
            if self.is_agreed {
                // Into memory without a limit: it is taken whole.
                let _ = connection.writer().write_all(new);
            } else {
                // What goes beyond the server's limit waits for the handshake's end.
                let taken = connection.early_data().and_then(|mut early| early.write(new).ok());
                self.early_sent += taken.unwrap_or(0);
                self.early.extend_from_slice(new);
            }
            self.sealed = plain.len();
        }
        let out = if self.pending.is_empty() {
            shared.wire.clear();
            &mut shared.wire
        } else {
            &mut self.pending
        };
        while connection.wants_write() {
            // Into memory, which takes it all.
            if connection.write_tls(out).is_err() {
                break;
            }
        }
        if self.pending.is_empty() { &shared.wire } else { &self.pending }
    }

    fn sent(&mut self, n: usize, shared: &mut Shared) -> usize {
        if self.connection.is_none() {
            return n;
        }
        if !self.pending.is_empty() {
            self.pending.drain(..n);
        } else if n < shared.wire.len() {
            self.pending.extend_from_slice(&shared.wire[n..]);
        }
        if self.pending.is_empty() { std::mem::take(&mut self.sealed) } else { 0 }
    }

    #[inline]
    fn must_send(&self) -> bool {
        self.connection.as_ref().is_some_and(|connection| connection.wants_write())
    }

    fn unseal(&mut self, wire: &[u8], shared: &mut Shared) -> Result<usize, Failure> {
        if self.connection.is_none() {
            return Ok(wire.len());
        }
        let mut plain = std::mem::take(&mut shared.plain);
        plain.clear();
        let result = self.read(wire, shared, Some(&mut plain));
        shared.plain = plain;
        result.map(|()| shared.plain.len())
    }

    #[inline]
    fn plain<'a>(&'a self, wire: &'a [u8], shared: &'a Shared) -> &'a [u8] {
        if self.connection.is_none() { wire } else { &shared.plain }
    }

    #[inline]
    fn awaits(&mut self, bytes: u32) -> bool {
        if self.connection.is_none() && bytes > 1 {
            return false;
        }
        std::mem::replace(&mut self.awaited_more, bytes - 1) != bytes - 1
    }

    fn close(&mut self) {
        if let Some(connection) = &mut self.connection {
            connection.send_close_notify();
        }
    }

    #[inline]
    fn is_ended(&self) -> bool {
        self.was_close_heard
    }

    fn may_end(&self) -> bool {
        self.connection.is_none() || self.was_close_heard
    }
}

impl Tls {
    /// Has rustls read bytes of the wire. The session's go to `plain`, or stay with rustls until they are asked for.
    fn read(
        &mut self,
        mut wire: &[u8],
        shared: &Shared,
        mut plain: Option<&mut Vec<u8>>,
    ) -> Result<(), Failure> {
        let whole = wire;
        let Some(connection) = &mut self.connection else { return Ok(()) };
        let was_agreed = self.is_agreed;
        loop {
            let tls = shared.plan.as_ref().expect("a link over TLS has a plan of it");
            let failed = |failure: (_, _)| Failure::Layer(Box::new(failure));
            let n = if wire.is_empty() { 0 } else { connection.read_tls(&mut wire).unwrap_or(0) };
            let state = connection.process_new_packets().map_err(|error| {
                let began_with = (!was_agreed).then_some(whole);
                failed(failure::told(&error, &tls.offered, began_with))
            })?;
            if !self.is_agreed && !connection.is_handshaking() {
                let chosen = connection.alpn_protocol();
                let needs_one = tls.speaks == "h2";
                if chosen.map_or(needs_one, |chosen| chosen != tls.speaks.as_bytes()) {
                    return Err(failed(failure::other_protocol(chosen, tls.speaks)));
                }
                self.is_agreed = true;
                self.is_open = true;
                // What the server did not look at is sent again.
                let seen = if connection.is_early_data_accepted() { self.early_sent } else { 0 };
                let _ = connection.writer().write_all(&self.early[seen..]);
            }
            self.was_close_heard |= state.peer_has_closed();
            if let Some(plain) = &mut plain {
                let mut reader = connection.reader();
                while let Ok(piece) = reader.fill_buf() {
                    let n = piece.len();
                    if n == 0 {
                        break;
                    }
                    plain.extend_from_slice(piece);
                    reader.consume(n);
                }
            }
            if n == 0 || wire.is_empty() {
                return Ok(());
            }
        }
    }
}

/// A generator of numbers that depend on the seed and the worker's first slot alone (splitmix64).
#[derive(Debug)]
struct Draws(u64);

impl Draws {
    fn new(seed: u64, slot: u64) -> Draws {
        Draws(seed ^ slot.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(17))
    }

    fn next_of_10_000(&mut self) -> u16 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^= mixed >> 31;
        ((u128::from(mixed) * 10_000) >> 64) as u16
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn draws_are_even_and_the_same_for_a_seed() {
        let mut draws = Draws::new(1995, 3);
        let first: Vec<u16> = (0..10_000).map(|_| draws.next_of_10_000()).collect();
        let mut again = Draws::new(1995, 3);
        assert!(first.iter().all(|drawn| *drawn == again.next_of_10_000() && *drawn < 10_000));
        let low = first.iter().filter(|drawn| **drawn < 2_500).count();
        assert!((2_300..2_700).contains(&low), "{low}");
    }
}
