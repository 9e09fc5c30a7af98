//! The handshake: messages of TLS between rustls and CRYPTO frames, keys as they become known, Retry and Version Negotiation, early
//! data that was accepted or not, confirmation.

use rustls::Side;
use rustls::quic::{KeyChange, Keys, Secrets};

use super::connection::{Connection, State, space};
use super::error::{Fault, QuicFailure};
use super::ids::Id;
use super::keys::{self, OneRtt};
use super::recorder::{PacketKind, PacketRecord};
use super::retry;
use super::sent::Fate;
use super::space::SpaceId;
use super::streams::Slot;
use super::transport_parameters::{self, Parameters};

/// How many bytes ahead of a gap in the handshake are kept.
const CRYPTO_WINDOW: u64 = 64 << 10;
/// Maximum number of packets that are kept until their keys are available.
const WAITING_MAX: usize = 16;

impl Connection {
    /// Begins TLS's handshake, and takes the keys of early data if a session allows it.
    pub(super) fn begin_tls(&mut self) {
        self.drive_tls();
        let (Some(tls), Some(shaking)) = (&self.tls, &mut self.shaking) else { return };
        let Some(keys) = tls.zero_rtt_keys() else { return };
        // What the server allowed on the connection in which it issued the ticket.
        let Some(Ok(remembered)) = tls.quic_transport_parameters().map(transport_parameters::read) else {
            return;
        };
        let remembered = remembered.for_early_data();
        shaking.early_keys = Some(keys);
        self.has_early_keys = true;
        self.allow(&remembered);
        if let Some(shaking) = &mut self.shaking {
            shaking.remembered = Some(remembered);
        }
    }

    /// Moves TLS's messages into CRYPTO frames, and takes keys.
    fn drive_tls(&mut self) {
        loop {
            let (Some(tls), Some(shaking)) = (&mut self.tls, &mut self.shaking) else { return };
            let space = match &shaking.handshake_keys {
                None => &mut shaking.initial,
                Some(_) if self.one.is_none() => &mut shaking.handshake,
                Some(_) => &mut self.data,
            };
            match tls.write_hs(&mut space.crypto_out.buffer) {
                None => return,
                Some(KeyChange::Handshake { keys }) => shaking.handshake_keys = Some(keys),
                Some(KeyChange::OneRtt { keys, next }) => self.agree(keys, next),
            }
            if !self.is_live() {
                return;
            }
        }
    }

    /// A CRYPTO frame.
    pub(super) fn hear_crypto(&mut self, id: SpaceId, offset: u64, data: &[u8]) -> Result<u64, QuicFailure> {
        let Some(space) = space!(self, id) else { return Ok(0) };
        let Some(tls) = &mut self.tls else { return Ok(0) };
        space.crypto_in.limit = space.crypto_in.next + CRYPTO_WINDOW;
        let mut error = None;
        let heard = space.crypto_in.hear(offset, data, false, |bytes, _| {
            if error.is_none() {
                error = tls.read_hs(bytes).err();
            }
        });
        let heard = heard.map_err(|fault| match fault {
            Fault::FlowControl(_) => Fault::CryptoBuffer,
            other => other,
        })?;
        self.counts.tickets = tls.tls13_tickets_received().into();
        if let Some(error) = error {
            return Err(QuicFailure::Tls(error));
        }
        if self.one.is_none() {
            self.drive_tls();
        }
        Ok(heard.new)
    }

    /// The handshake is complete.
    fn agree(&mut self, keys: Keys, secrets: Secrets) {
        match self.agreed_parameters() {
            Ok(parameters) => {
                self.one = Some(Box::new(OneRtt::new(keys, secrets)));
                self.state = State::Agreed;
                self.allow(&parameters);
            }
            Err(failure) => self.fail(failure),
        }
    }

    fn agreed_parameters(&mut self) -> Result<Parameters, QuicFailure> {
        const NONE: Fault = Fault::TransportParameter("no transport parameters");
        let (Some(tls), Some(shaking)) = (&self.tls, &mut self.shaking) else { return Err(NONE.into()) };
        let parameters = transport_parameters::read(tls.quic_transport_parameters().ok_or(NONE)?)?;
        let source = shaking.source.unwrap_or_default();
        parameters.check(self.version, &shaking.original, &source, shaking.retry.as_ref())?;
        if let Some(remembered) = shaking.remembered.take() {
            let is_accepted = tls.is_early_data_accepted();
            self.early_accepted = Some(is_accepted);
            shaking.early_keys = None;
            if is_accepted && !parameters.cover(&remembered) {
                return Err(Fault::Protocol("smaller limits than those of the accepted early data").into());
            }
            if !is_accepted {
                if !self.is_within(&parameters) {
                    return Err(QuicFailure::EarlyLimits);
                }
                self.send_early_again();
            }
        }
        Ok(parameters)
    }

    /// Whether what was sent so far is within these limits. After a rejection they may be smaller than those remembered, which count no
    /// more (RFC 9000 section 7.4.1).
    fn is_within(&self, parameters: &Parameters) -> bool {
        let streams = &self.streams;
        let is_within = |stream: &Slot| match stream.id & 3 {
            0 => stream.send.sent() <= parameters.stream_data_bi,
            2 => stream.send.sent() <= parameters.stream_data_uni,
            _ => true,
        };
        streams.next_bi <= parameters.streams_bi
            && streams.next_uni <= parameters.streams_uni
            && self.flow.sent <= parameters.data
            && streams.slots.iter().filter(|stream| stream.is_used).all(is_within)
    }

    /// Takes the server's limits.
    fn allow(&mut self, parameters: &Parameters) {
        self.flow.max = parameters.data;
        (self.streams.max_bi, self.streams.max_uni) = (parameters.streams_bi, parameters.streams_uni);
        (self.stream_data_bi, self.stream_data_uni) = (parameters.stream_data_bi, parameters.stream_data_uni);
        for slot in 0..self.streams.slots.len() {
            let stream = &mut self.streams.slots[slot];
            if stream.is_used && stream.id & 1 == 0 {
                stream.send.max = if stream.id & 2 == 0 { self.stream_data_bi } else { self.stream_data_uni };
                self.streams.queue(slot as u32);
            }
        }
        self.ack_delay_exponent = parameters.ack_delay_exponent;
        self.ack_delay_max_ns = parameters.ack_delay_max_ns;
        self.mtu.limit(self.udp_payload_max.min(parameters.udp_payload_max));
        if parameters.idle_timeout_ns > 0 {
            let own = self.idle_timeout_ns;
            self.idle_timeout_ns =
                if own == 0 { parameters.idle_timeout_ns } else { own.min(parameters.idle_timeout_ns) };
        }
        if let Some(token) = parameters.reset_token() {
            self.ids.set_token(token);
        }
        if let Some((id, token)) = parameters.preferred() {
            self.ids.set_preferred(id, token);
        }
    }

    /// Early data was rejected: sends again what was sent so far.
    fn send_early_again(&mut self) {
        for index in 0..self.data.sent.packets.len() {
            if self.data.sent.packets[index].is_early {
                self.give_up(SpaceId::Data, index, true);
            }
        }
    }

    /// Gives up a packet whose fate will never be known; `is_sent_again`: sends its frames again.
    pub(super) fn give_up(&mut self, id: SpaceId, index: usize, is_sent_again: bool) {
        let Some(space) = space!(self, id) else { return };
        let packet = space.sent.packets[index];
        if packet.fate == Fate::InFlight {
            space.sent.packets[index].fate = Fate::Discarded;
            space.sent.landed(&packet);
            self.congestion.discarded(packet.bytes.into());
            self.counts.packets_in_flight -= 1;
            self.counts.packets_discarded += 1;
            if is_sent_again {
                self.send_again(id, &packet);
            }
        }
    }

    fn give_up_all(&mut self, id: SpaceId, is_sent_again: bool) {
        let count = space!(self, id).map_or(0, |space| space.sent.packets.len());
        for index in 0..count {
            self.give_up(id, index, is_sent_again);
        }
    }

    /// Drops the Initial keys and packets once a Handshake packet is sent (RFC 9001 section 4.9.1). Later ones must not undo the backoff
    /// of probe timeouts (RFC 9002 section 6.2.2).
    pub(super) fn drop_initial(&mut self) {
        if !self.has_keys(SpaceId::Initial) {
            return;
        }
        self.give_up_all(SpaceId::Initial, false);
        if let Some(shaking) = &mut self.shaking {
            shaking.initial_keys = None;
            shaking.initial.clear();
        }
        self.probe_timeouts = 0;
    }

    /// HANDSHAKE_DONE.
    pub(super) fn confirm(&mut self) {
        if self.state != State::Agreed {
            return;
        }
        self.give_up_all(SpaceId::Initial, false);
        self.give_up_all(SpaceId::Handshake, false);
        self.state = State::Confirmed;
        self.ignore_waiting();
        self.shaking = None;
        self.probe_timeouts = 0;
    }

    /// The first packet that was decrypted names the server's ID. Returns whether a packet may come from `source`.
    pub(super) fn is_from_server(&mut self, source: &[u8]) -> bool {
        let (Some(shaking), Some(id)) = (&mut self.shaking, Id::new(source)) else { return false };
        if shaking.source.is_none() {
            shaking.source = Some(id);
            self.ids.replace(id);
        }
        shaking.source == Some(id)
    }

    /// A Retry packet: everything is sent again, with its token, to its ID.
    pub(super) fn hear_retry(&mut self, now_ns: u64, packet: &[u8], source: &[u8], token: &[u8]) {
        let version = self.version;
        let Some(shaking) = &mut self.shaking else {
            self.counts.retries_refused += 1;
            return;
        };
        let is_first = shaking.retry.is_none() && shaking.source.is_none();
        let id = Id::new(source).filter(|id| *id != shaking.original);
        let is_valid = !token.is_empty() && retry::is_authentic(version, shaking.original.bytes(), packet);
        let Some(id) = id.filter(|_| is_first && is_valid) else {
            self.counts.retries_refused += 1;
            return;
        };
        shaking.retry = Some(id);
        shaking.token = token.to_vec();
        shaking.initial_keys = Some(keys::initial(version, source, Side::Client));
        self.ids.replace(id);
        self.counts.retries += 1;
        self.active_ns = now_ns;
        self.record_whole(now_ns, PacketKind::Retry, packet.len());
        self.give_up_all(SpaceId::Initial, true);
        self.give_up_all(SpaceId::Data, true);
        self.probe_timeouts = 0;
    }

    /// A Version Negotiation packet.
    pub(super) fn hear_versions(&mut self, now_ns: u64, source: &[u8], versions: &[u8], bytes: usize) {
        self.counts.version_negotiations += 1;
        self.record_whole(now_ns, PacketKind::VersionNegotiation, bytes);
        let Some(shaking) = &self.shaking else { return };
        let is_expected =
            shaking.source.is_none() && shaking.retry.is_none() && source == shaking.original.bytes();
        let offered: Box<[u32]> =
            versions.as_chunks::<4>().0.iter().map(|version| u32::from_be_bytes(*version)).collect();
        // A packet that offers the version in use is discarded (RFC 9000 section 6.2).
        if is_expected && !offered.contains(&self.version.number()) {
            self.fail(QuicFailure::Version(offered));
        }
    }

    fn record_whole(&mut self, now_ns: u64, kind: PacketKind, bytes: usize) {
        if let Some(recording) = &mut self.recording {
            recording.recorder.received(now_ns, &PacketRecord { kind, number: 0, bytes, frames: &[] });
        }
    }

    /// Keeps a packet until its keys are available. Its bytes are counted only then, so that the sums of `Counts` hold at any time.
    pub(super) fn wait_for_keys(&mut self, packet: &[u8], ecn: u8) {
        let received = &mut self.counts.received;
        match &mut self.shaking {
            Some(shaking) if self.one.is_none() && shaking.waiting.len() < WAITING_MAX => {
                received.udp_bytes -= packet.len() as u64;
                shaking.waiting.push((packet.to_vec(), ecn));
            }
            _ => {
                received.ignored += packet.len() as u64;
                self.counts.packets_undecryptable += 1;
            }
        }
    }

    /// Ignores kept packets, whose keys will never be available.
    pub(super) fn ignore_waiting(&mut self) {
        let Some(shaking) = &mut self.shaking else { return };
        let bytes: usize = shaking.waiting.drain(..).map(|(packet, _)| packet.len()).sum();
        self.counts.received.udp_bytes += bytes as u64;
        self.counts.received.ignored += bytes as u64;
    }

    /// Kept packets whose keys have become available.
    pub(super) fn take_waiting(&mut self) -> Vec<(Vec<u8>, u8)> {
        let Some(shaking) = &mut self.shaking else { return Vec::new() };
        // Before there are Handshake keys, none of them can be read.
        if shaking.waiting.is_empty() || shaking.handshake_keys.is_none() {
            return Vec::new();
        }
        let waiting = std::mem::take(&mut shaking.waiting);
        let is_due = |packet: &(Vec<u8>, u8)| self.one.is_some() || packet.0[0] & 0x80 != 0;
        let (due, later) = waiting.into_iter().partition(is_due);
        shaking.waiting = later;
        due
    }
}
