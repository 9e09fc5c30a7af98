//! What datagrams bring: packets are decrypted in place, and their frames acted on.

use super::connection::{Connection, Events, space};
use super::error::{Fault, QuicFailure};
use super::frames::{self, Frame};
use super::keys::{self, Opened, parts};
use super::packet::{Head, Long, head};
use super::recorder::{FrameRecord, PacketKind, PacketRecord};
use super::space::{Received, SpaceId};
use super::varint;

/// Least size of a datagram that is a stateless reset (RFC 9000 section 10.3).
const RESET_MIN: usize = 21;
/// Maximum number of consecutive frames that do nothing. More are a flood.
const VAIN_MAX: u32 = 10_000;

impl Connection {
    /// Takes one datagram, which it decrypts in place. `ecn`: the two bits of the IP header.
    pub fn hear<E: Events>(&mut self, now_ns: u64, datagram: &mut [u8], ecn: u8, events: &mut E) {
        let received = &mut self.counts.received;
        received.datagrams += 1;
        received.udp_bytes += datagram.len() as u64;
        self.counts.ce_received += u64::from(ecn & 3 == 3);
        self.hear_packets(now_ns, datagram, ecn, events);
        if self.shaking.is_some() {
            for (mut packet, ecn) in self.take_waiting() {
                self.counts.received.udp_bytes += packet.len() as u64;
                self.hear_packets(now_ns, &mut packet, ecn, events);
            }
        }
    }

    fn hear_packets<E: Events>(&mut self, now_ns: u64, datagram: &mut [u8], ecn: u8, events: &mut E) {
        // Read now, as decryption in place may overwrite it.
        let token = datagram.last_chunk::<16>().copied().unwrap_or_default();
        let (bytes, refused) = (datagram.len(), self.refused());
        let mut rest = datagram;
        while !rest.is_empty() {
            if !self.is_live() {
                self.counts.received.ignored += rest.len() as u64;
                return;
            }
            let is_first = rest.len() == bytes;
            let taken = self.hear_packet(now_ns, rest, ecn, events);
            rest = &mut rest[taken..];
            // Whatever the packet looks like (RFC 9000 section 10.3.1).
            if is_first && self.refused() > refused && bytes >= RESET_MIN && self.ids.is_reset(&token) {
                return self.fail(QuicFailure::StatelessReset);
            }
        }
    }

    /// Number of packets that are not of this connection, or could not be decrypted.
    #[inline]
    fn refused(&self) -> u64 {
        self.counts.packets_undecryptable + self.counts.packets_late
    }

    /// Takes the packet at the front of `bytes`. Returns its size.
    #[inline]
    fn hear_packet<E: Events>(&mut self, now_ns: u64, bytes: &mut [u8], ecn: u8, events: &mut E) -> usize {
        let whole = bytes.len();
        match head(bytes, self.version) {
            Some(Head::Short) => self.hear_short(now_ns, bytes, ecn, events),
            Some(Head::Long { kind, source, number_at, end }) => {
                let packet = &mut bytes[..end];
                let mut id = [0; 20];
                let id = &mut id[..source.len()];
                id.copy_from_slice(&packet[source]);
                self.hear_long(now_ns, packet, kind, id, number_at, ecn, events);
                return end;
            }
            Some(Head::Retry { source, token }) => {
                self.counts.received.overhead += whole as u64;
                self.hear_retry(now_ns, bytes, &bytes[source], &bytes[token]);
            }
            Some(Head::VersionNegotiation { source, versions }) => {
                self.counts.received.overhead += whole as u64;
                self.hear_versions(now_ns, &bytes[source], &bytes[versions], whole);
            }
            None => self.ignore(whole),
        }
        whole
    }

    /// Bytes that are not a packet of this connection.
    #[cold]
    fn ignore(&mut self, bytes: usize) {
        self.counts.received.ignored += bytes as u64;
        self.counts.packets_undecryptable += 1;
    }

    /// A packet of the handshake whose keys were given up.
    #[cold]
    fn ignore_late(&mut self, bytes: usize) {
        self.counts.received.ignored += bytes as u64;
        self.counts.packets_late += 1;
    }

    #[inline]
    fn hear_short<E: Events>(&mut self, now_ns: u64, packet: &mut [u8], ecn: u8, events: &mut E) {
        let Some(one) = &mut self.one else { return self.wait_for_keys(packet, ecn) };
        let size = packet.len();
        match one.open(packet, self.data.expected()) {
            Opened::Whole { number, start, end } => {
                self.counts.key_updates = one.updates();
                self.hear_payload(now_ns, SpaceId::Data, number, &packet[start..end], size, ecn, events);
            }
            Opened::NotAuthentic => {
                self.ignore(size);
                let failures_max = self.one.as_ref().map_or(u64::MAX, |one| one.failures_max());
                if self.counts.packets_undecryptable >= failures_max {
                    self.fail(Fault::AeadLimit.into());
                }
            }
            Opened::TooEarly => {
                self.ignore(size);
                self.fail(Fault::KeyUpdate.into());
            }
            Opened::Reserved => {
                self.ignore(size);
                self.fail(Fault::Protocol("a packet with reserved bits set").into());
            }
        }
    }

    #[allow(clippy::too_many_arguments, reason = "parts of one packet")]
    fn hear_long<E: Events>(
        &mut self,
        now_ns: u64,
        packet: &mut [u8],
        kind: Long,
        source: &[u8],
        number_at: usize,
        ecn: u8,
        events: &mut E,
    ) {
        let size = packet.len();
        let id = match kind {
            Long::Initial => SpaceId::Initial,
            Long::Handshake => SpaceId::Handshake,
            Long::ZeroRtt | Long::Retry => return self.ignore(size),
        };
        let Some(shaking) = &mut self.shaking else { return self.ignore_late(size) };
        let (keys, space) = match id {
            SpaceId::Initial => (&shaking.initial_keys, &shaking.initial),
            _ => (&shaking.handshake_keys, &shaking.handshake),
        };
        let Some(keys) = keys else {
            return match id {
                SpaceId::Handshake => self.wait_for_keys(packet, ecn),
                _ => self.ignore_late(size),
            };
        };
        let (header, key) = parts(&keys.remote);
        let expected = space.expected();
        let opened = keys::bare(header, packet, number_at, expected)
            .and_then(|bared| Some((bared, keys::open(key, packet, number_at, &bared)?.len())));
        let Some((bared, plain)) = opened else { return self.ignore(size) };
        if !self.is_from_server(source) {
            return self.ignore(size);
        }
        if bared.first & 0x0c != 0 {
            self.ignore(size);
            return self.fail(Fault::Protocol("a packet with reserved bits set").into());
        }
        let start = number_at + bared.number_bytes;
        self.hear_payload(now_ns, id, bared.number, &packet[start..start + plain], size, ecn, events);
    }

    /// The frames of a packet of `size` bytes.
    #[allow(clippy::too_many_arguments, reason = "parts of one packet")]
    #[inline]
    fn hear_payload<E: Events>(
        &mut self,
        now_ns: u64,
        id: SpaceId,
        number: u64,
        payload: &[u8],
        size: usize,
        ecn: u8,
        events: &mut E,
    ) {
        let Some(space) = space!(self, id) else { return self.ignore(size) };
        let expected = space.expected();
        if !space.hear(number, now_ns, ecn) {
            self.counts.received.ignored += size as u64;
            self.counts.packets_duplicate += 1;
            return;
        }
        self.counts.packets_received += 1;
        (self.active_ns, self.has_sent_since) = (now_ns, false);
        let before = self.counts.received.stream_new
            + self.counts.received.stream_repeated
            + self.counts.received.padding;
        let mut rest = payload;
        let mut is_eliciting = false;
        let mut outcome = match rest.is_empty() {
            true => Err(Fault::Protocol("a packet without frames").into()),
            false => Ok(()),
        };
        while outcome.is_ok() && !rest.is_empty() && self.is_live() {
            outcome = match frames::next(&mut rest) {
                Ok(frame) => {
                    is_eliciting |= frame.is_eliciting();
                    self.hear_frame(now_ns, id, &frame, events)
                }
                Err(fault) => Err(fault.into()),
            };
        }
        let received = &mut self.counts.received;
        let told = received.stream_new + received.stream_repeated + received.padding - before;
        received.other_frames += payload.len() as u64 - told;
        received.overhead += (size - payload.len()) as u64;
        if let Some(recording) = &mut self.recording {
            let kind = match id {
                SpaceId::Initial => PacketKind::Initial,
                SpaceId::Handshake => PacketKind::Handshake,
                SpaceId::Data => PacketKind::OneRtt,
            };
            recording
                .recorder
                .received(now_ns, &PacketRecord { kind, number, bytes: size, frames: &recording.frames });
            recording.frames.clear();
            recording.keys(now_ns, self.counts.key_updates);
        }
        if let Err(failure) = outcome {
            return self.fail(failure);
        }
        if is_eliciting && let Some(space) = space!(self, id) {
            if id == SpaceId::Data {
                let received = Received { number, expected, ecn };
                space.owe(received, now_ns, self.streams.awaits_more(), self.rtt.min);
            } else {
                space.owe_now();
            }
        }
    }

    #[inline]
    fn hear_frame<E: Events>(
        &mut self,
        now_ns: u64,
        id: SpaceId,
        frame: &Frame<'_>,
        events: &mut E,
    ) -> Result<(), QuicFailure> {
        if let Some(recording) = &mut self.recording {
            let (name, subject, offset, length) = frame.summary();
            recording.frames.push(FrameRecord { name, subject, offset, length });
            if let Frame::Ack(ack) = frame {
                let more = ack.ranges().skip(1);
                let more =
                    more.map(|(low, high)| FrameRecord { name, subject: high, offset: low, length: 0 });
                recording.frames.extend(more);
            }
        }
        if id != SpaceId::Data && !frame.is_of_handshake() {
            return Err(Fault::Protocol("a frame that handshake packets must not have").into());
        }
        match *frame {
            Frame::Stream { stream, offset, data, fin } => {
                self.hear_stream(stream, offset, data, fin, events)?
            }
            Frame::Ack(ack) => {
                if self.hear_ack(now_ns, id, &ack, events)? {
                    self.vain_frames = 0;
                }
            }
            Frame::Padding(count) => self.counts.received.padding += count as u64,
            Frame::Crypto { offset, data } => {
                if self.hear_crypto(id, offset, data)? == 0 {
                    self.in_vain()?;
                }
            }
            _ => self.hear_other(frame, events)?,
        }
        Ok(())
    }

    fn hear_other<E: Events>(&mut self, frame: &Frame<'_>, events: &mut E) -> Result<(), QuicFailure> {
        match *frame {
            Frame::ResetStream { stream, code, final_size } => {
                self.hear_reset(stream, code, final_size, events)?
            }
            Frame::StopSending { stream, code } => {
                if let Some(slot) = self.streams.told(stream)? {
                    let stopped = &mut self.streams.slots[slot as usize];
                    if !stopped.send.is_acknowledged() && !stopped.is_reset_open {
                        // Answered by RESET_STREAM with the same code (RFC 9000 section 3.5).
                        stopped.send.abandon();
                        (stopped.owed.reset, stopped.is_reset_open, stopped.code) = (true, true, code);
                        stopped.is_short = false;
                        let (named, is_silent) = (stopped.named(), stopped.is_silent);
                        self.streams.queue(slot);
                        if !is_silent {
                            events.stopped(named, code);
                        }
                    }
                }
            }
            Frame::MaxData(max) => self.flow.max = self.flow.max.max(max),
            Frame::MaxStreamData { stream, max } => {
                if let Some(slot) = self.streams.told(stream)? {
                    let send = &mut self.streams.slots[slot as usize].send;
                    send.max = send.max.max(max);
                    self.streams.queue(slot);
                }
            }
            Frame::MaxStreams { is_uni: false, max } => self.streams.max_bi = self.streams.max_bi.max(max),
            Frame::MaxStreams { is_uni: true, max } => self.streams.max_uni = self.streams.max_uni.max(max),
            Frame::StreamDataBlocked { stream, .. } => {
                self.streams.heard(stream, self.flow.stream_window)?;
                self.in_vain()?;
            }
            Frame::Ping | Frame::NewToken(_) | Frame::DataBlocked(_) | Frame::StreamsBlocked { .. } => {
                self.in_vain()?
            }
            Frame::NewConnectionId { sequence, retire_prior_to, id, token } => {
                self.ids.issue(sequence, retire_prior_to, id, token)?;
                self.in_vain()?;
            }
            Frame::RetireConnectionId(_) => {
                return Err(
                    Fault::Protocol("RETIRE_CONNECTION_ID, but the client has no connection IDs").into()
                );
            }
            Frame::PathChallenge(data) => {
                self.path_response = Some(data);
                self.in_vain()?;
            }
            Frame::PathResponse(_) => {
                return Err(Fault::Protocol("PATH_RESPONSE without a PATH_CHALLENGE").into());
            }
            Frame::Close { is_application, code, frame, reason } => {
                let reason = String::from_utf8_lossy(reason).into();
                self.fail(match is_application {
                    true => QuicFailure::ClosedByApplication(code, reason),
                    false => QuicFailure::ClosedByPeer(code, frame, reason),
                });
            }
            Frame::HandshakeDone => self.confirm(),
            Frame::Stream { .. } | Frame::Ack(_) | Frame::Padding(_) | Frame::Crypto { .. } => {}
        }
        Ok(())
    }

    #[inline]
    fn hear_stream<E: Events>(
        &mut self,
        id: u64,
        offset: u64,
        data: &[u8],
        fin: bool,
        events: &mut E,
    ) -> Result<(), Fault> {
        let length = data.len() as u64;
        let Some(slot) = self.streams.heard(id, self.flow.stream_window.min(varint::MAX))? else {
            // The stream was over before, or given up.
            self.counts.received.stream_repeated += length;
            return self.in_vain();
        };
        let stream = &mut self.streams.slots[slot as usize];
        let (named, is_silent) = (stream.named(), stream.is_silent);
        let (was_sent, sent) = (stream.send.was_sent(), stream.send.sent());
        let receive = &mut stream.receive;
        let before = receive.next;
        let heard = receive.hear(offset, data, fin, |bytes, is_last| {
            if is_silent {
                return;
            }
            if is_last && !was_sent {
                events.unsent(named, sent);
            }
            events.data(named, bytes, is_last);
        })?;
        let is_over = receive.is_over();
        self.flow.delivered += if receive.is_discarding { heard.advanced } else { receive.next - before };
        let window = self.flow.stream_window;
        if !receive.is_end_known() && !receive.is_discarding && receive.limit - receive.next < window / 2 {
            receive.limit = (receive.next + window).min(varint::MAX);
            stream.owed.window = true;
            self.streams.queue(slot);
        }
        self.counts.received.stream_new += heard.new;
        self.counts.received.stream_repeated += length - heard.new;
        self.counts.frames_out_of_order += u64::from(heard.is_early);
        self.streams.is_last_open = !is_over;
        self.received(heard.advanced)?;
        if heard.new == 0 && !is_over {
            self.in_vain()?;
        } else {
            self.vain_frames = 0;
        }
        if is_over {
            self.settle(slot);
        }
        Ok(())
    }

    /// Streams advanced by this many bytes in all.
    #[inline]
    fn received(&mut self, advanced: u64) -> Result<(), Fault> {
        let flow = &mut self.flow;
        flow.received += advanced;
        if flow.received > flow.limit {
            return Err(Fault::FlowControl("more data on a connection than allowed"));
        }
        if flow.limit - flow.delivered < flow.window / 2 {
            flow.limit = (flow.delivered + flow.window).min(varint::MAX);
            flow.is_due = true;
        }
        Ok(())
    }

    fn hear_reset<E: Events>(&mut self, id: u64, code: u64, end: u64, events: &mut E) -> Result<(), Fault> {
        let Some(slot) = self.streams.heard(id, self.flow.stream_window.min(varint::MAX))? else {
            return self.in_vain();
        };
        let stream = &mut self.streams.slots[slot as usize];
        if stream.receive.is_over() {
            return self.in_vain();
        }
        let before = stream.receive.next;
        let advanced = stream.receive.reset(end)?;
        self.flow.delivered += if stream.receive.is_discarding { advanced } else { end - before };
        stream.owed.window = false;
        stream.owed.stop = false;
        let (named, is_silent) = (stream.named(), stream.is_silent);
        self.received(advanced)?;
        if !is_silent {
            events.reset(named, code);
        }
        self.settle(slot);
        Ok(())
    }

    /// A frame that does nothing for the connection.
    fn in_vain(&mut self) -> Result<(), Fault> {
        self.vain_frames += 1;
        if self.vain_frames < VAIN_MAX {
            Ok(())
        } else {
            Err(Fault::Flood("10,000 frames in a row that do nothing"))
        }
    }
}
