//! What goes out: packets in datagrams, as many at a time as congestion control, pacing and the kernel allow. Their frames are written
//! by `filling`.

use super::connection::{Connection, Packed, State, record, space};
use super::filling::{FRAME_MAX, write_ack};
use super::frames::kind;
use super::keys::{parts, seal};
use super::mtu::BASE;
use super::packet::{self, Long, TAG_BYTES};
use super::recorder::{FrameRecord, PacketKind, PacketRecord};
use super::sent::{Fate, SentFrame, SentPacket};
use super::space::{SILENT_RUN_MAX, Space, SpaceId};
use super::varint::Writer;

/// A packet that is not sealed yet.
#[derive(Clone, Copy, Debug)]
pub(super) struct Built {
    pub(super) id: SpaceId,
    pub(super) is_early: bool,
    pub(super) start: usize,
    pub(super) number_at: usize,
    pub(super) number_bytes: usize,
    pub(super) number: u64,
    pub(super) payload_at: usize,
    /// End of the payload; a tag follows.
    pub(super) end: usize,
    pub(super) frames_at: u32,
    pub(super) is_eliciting: bool,
    /// It acknowledges packets up to this one.
    pub(super) acks: Option<u64>,
    pub(super) content: u64,
    pub(super) padding: u64,
    /// More would have been sent, had there been room.
    pub(super) is_full: bool,
    pub(super) has_challenge_response: bool,
    /// Its frames among those that a recorder will be told of.
    noted: [usize; 2],
}

impl Connection {
    /// Makes datagrams of what is due and may be sent, all of equal length except the last. Call it until it returns `None`. `out` must
    /// have room for one datagram of the largest size, and should for [`Settings::segments_max`](super::Settings::segments_max).
    pub fn pack(&mut self, now_ns: u64, out: &mut [u8]) -> Option<Packed> {
        match self.state {
            State::Idle | State::Closed => return None,
            State::Closing => return self.pack_close(now_ns, out),
            State::Shaking | State::Agreed => {
                if let Some(packed) = self.pack_handshake(now_ns, out) {
                    return Some(packed);
                }
            }
            State::Confirmed => {}
        }
        if !self.has_keys(SpaceId::Data) {
            return None;
        }
        self.pack_data(now_ns, out)
    }

    /// A datagram with packets of the handshake, and with data if there is room.
    fn pack_handshake(&mut self, now_ns: u64, out: &mut [u8]) -> Option<Packed> {
        let limit = usize::from(BASE).min(out.len());
        let mut built: [Option<Built>; 3] = [None; 3];
        let mut at = 0;
        for (place, id) in built.iter_mut().zip([SpaceId::Initial, SpaceId::Handshake]) {
            if self.has_keys(id) {
                *place = self.build_handshake(now_ns, id, out, at, limit);
                at = place.map_or(at, |built| built.end + TAG_BYTES);
            }
        }
        if at == 0 {
            return None;
        }
        if self.has_keys(SpaceId::Data) {
            let may_elicit = self.may_elicit(now_ns);
            built[2] = self.build_data(now_ns, out, at, limit, may_elicit);
            at = built[2].map_or(at, |built| built.end + TAG_BYTES);
        }
        if built[0].is_some() && at < limit {
            let last = built.iter_mut().flatten().next_back().expect("the first one is there");
            pad(last, out, limit - at);
            at = limit;
        }
        let is_ect = self.is_ect;
        for built in built.into_iter().flatten() {
            self.send(now_ns, built, out);
        }
        if built[1].is_some() {
            self.drop_initial();
        }
        self.count_datagrams(1, at);
        Some(Packed { bytes: at, segment: at, is_ect, is_probe: false })
    }

    /// Datagrams of 0-RTT or 1-RTT packets.
    fn pack_data(&mut self, now_ns: u64, out: &mut [u8]) -> Option<Packed> {
        if !self.has_something(now_ns) {
            return None;
        }
        if let Some(one) = &mut self.one
            && self.state == State::Confirmed
        {
            if one.update_after(self.key_update_packets) {
                self.fail(super::Fault::AeadLimit.into());
                return self.pack_close(now_ns, out);
            }
            self.counts.key_updates = one.updates();
        }
        if let Some(size) = self.mtu.probe().filter(|size| usize::from(*size) <= out.len())
            && self.state == State::Confirmed
            && self.congestion.has_room()
        {
            return self.pack_mtu_probe(now_ns, out, size.into());
        }
        let mtu = usize::from(self.mtu.current).min(out.len());
        let is_ect = self.is_ect;
        let (mut at, mut segment, mut count) = (0, mtu, 0);
        while count < usize::from(self.segments_max) && at + segment <= out.len() {
            let may_elicit = self.may_elicit(now_ns);
            let Some(mut built) = self.build_data(now_ns, out, at, at + segment, may_elicit) else { break };
            if built.is_full {
                self.mtu.is_filled = true;
            }
            let missing = (at + segment).saturating_sub(built.end + TAG_BYTES);
            if built.is_full || built.has_challenge_response {
                pad(&mut built, out, missing);
            }
            let size = built.end + TAG_BYTES - at;
            self.send(now_ns, built, out);
            at += size;
            count += 1;
            if size < segment {
                segment = if count == 1 { size } else { segment };
                break;
            }
        }
        self.count_datagrams(count, at);
        (count > 0).then_some(Packed { bytes: at, segment, is_ect, is_probe: false })
    }

    /// A datagram of more than the path is known to carry, filled with padding.
    fn pack_mtu_probe(&mut self, now_ns: u64, out: &mut [u8], size: usize) -> Option<Packed> {
        let mut built = self.begin(SpaceId::Data, out, 0, size)?;
        out[built.end] = kind::PING;
        built.end += 1;
        built.is_eliciting = true;
        record!(self.recording, "ping", 0, 0, 0);
        built.noted[1] = self.noted();
        self.data.sent.add_frame(SentFrame::MtuProbe);
        let missing = size - built.end - TAG_BYTES;
        pad(&mut built, out, missing);
        let is_ect = self.is_ect;
        self.mtu.probe_sent(built.padding);
        self.send(now_ns, built, out);
        self.count_datagrams(1, size);
        Some(Packed { bytes: size, segment: size, is_ect, is_probe: true })
    }

    /// The probe that was packed last, of this size, could not be sent: it counts as lost, and not as bytes.
    pub fn take_back(&mut self, size: usize) {
        let (sent, padding) = (&mut self.counts.sent, self.mtu.probe_padding);
        sent.datagrams -= 1;
        sent.udp_bytes -= size as u64;
        // All but its PING and the padding is overhead.
        sent.other_frames -= 1;
        sent.padding -= padding;
        sent.overhead -= size as u64 - 1 - padding;
    }

    /// The datagram that ends the connection.
    fn pack_close(&mut self, now_ns: u64, out: &mut [u8]) -> Option<Packed> {
        self.state = State::Closed;
        let closing = self.closing.take()?;
        let limit = usize::from(BASE).min(out.len());
        let (mut at, mut last, mut has_initial) = (0, None, false);
        for id in [SpaceId::Initial, SpaceId::Handshake, SpaceId::Data] {
            let is_there = self.has_keys(id) && (id != SpaceId::Data || self.one.is_some());
            let Some(mut built) = is_there.then(|| self.begin(id, out, at, limit)).flatten() else {
                continue;
            };
            let mut writer = Writer::new(out, built.end, limit - TAG_BYTES);
            let is_application = closing.is_application && id == SpaceId::Data;
            // RFC 9000 section 10.2.3: APPLICATION_ERROR stands for what the handshake must not reveal.
            let code = if closing.is_application && !is_application { 0x0c } else { closing.code };
            let reason = if closing.is_application && !is_application { "" } else { &*closing.reason };
            let reason = &reason.as_bytes()[..reason.len().min(writer.room().saturating_sub(FRAME_MAX))];
            if writer.room() < FRAME_MAX {
                break;
            }
            writer.byte(if is_application {
                kind::CONNECTION_CLOSE_APPLICATION
            } else {
                kind::CONNECTION_CLOSE
            });
            writer.varint(code);
            if !is_application {
                writer.varint(0);
            }
            writer.varint(reason.len() as u64);
            writer.bytes(reason);
            built.end = writer.at();
            let short = (built.number_at + 4).saturating_sub(built.end);
            pad(&mut built, out, short);
            record!(self.recording, "connection_close", code, 0, reason.len() as u64);
            built.noted[1] = self.noted();
            has_initial |= id == SpaceId::Initial;
            at = built.end + TAG_BYTES;
            if let Some(before) = last.replace(built) {
                self.send(now_ns, before, out);
            }
        }
        let mut last = last?;
        if has_initial && at < limit {
            pad(&mut last, out, limit - at);
            at = limit;
        }
        let is_ect = self.is_ect;
        self.send(now_ns, last, out);
        self.count_datagrams(1, at);
        Some(Packed { bytes: at, segment: at, is_ect, is_probe: false })
    }

    /// Number of frames noted for the recorder so far.
    #[inline]
    fn noted(&self) -> usize {
        self.recording.as_ref().map_or(0, |recording| recording.frames.len())
    }

    fn count_datagrams(&mut self, count: usize, bytes: usize) {
        self.counts.sent.datagrams += count as u64;
        self.counts.sent.udp_bytes += bytes as u64;
    }

    /// Whether there may be something to send in a packet of data. False positives are possible.
    #[inline]
    fn has_something(&self, now_ns: u64) -> bool {
        !self.streams.pending.is_empty()
            || self.data.probes > 0
            || self.one.is_some() && self.data.ack_due_ns() <= now_ns
            || self.has_control()
    }

    #[inline]
    fn has_control(&self) -> bool {
        self.flow.is_due || self.owes_max_streams || self.path_response.is_some() || self.ids.has_retired()
    }

    /// Whether something that must be acknowledged may be sent now.
    #[inline]
    fn may_elicit(&mut self, now_ns: u64) -> bool {
        self.paced_until_ns = u64::MAX;
        if self.data.probes > 0 {
            return true;
        }
        let is_data_due = !self.streams.pending.is_empty();
        if !self.congestion.has_room() {
            self.congestion.is_limited |= is_data_due;
            return false;
        }
        if self.paces
            && is_data_due
            && let Some(until) = self.congestion.paced_until(now_ns, self.rtt.smoothed)
        {
            self.paced_until_ns = until;
            self.congestion.waits_for_pace();
            return false;
        }
        true
    }

    /// Begins a packet: its head, without content. `None`: no room.
    #[inline]
    fn begin(&mut self, id: SpaceId, out: &mut [u8], start: usize, limit: usize) -> Option<Built> {
        let space = space!(self, id)?;
        let number = space.next_number;
        let number_bytes = packet::number_bytes(number, space.sent.largest_acked);
        let frames_at = space.sent.frames_end();
        let mut writer = Writer::new(out, start, limit.saturating_sub(TAG_BYTES));
        let is_early = id == SpaceId::Data && self.one.is_none();
        let destination = self.ids.current();
        let fits = match (&self.one, &self.shaking) {
            (Some(one), _) if id == SpaceId::Data => {
                packet::write_short(&mut writer, one.phase, number_bytes, destination)
            }
            (_, Some(shaking)) => {
                let (kind, token): (_, &[u8]) = match id {
                    SpaceId::Initial => (Long::Initial, &shaking.token),
                    SpaceId::Handshake => (Long::Handshake, &[]),
                    SpaceId::Data => (Long::ZeroRtt, &[]),
                };
                packet::write_long(&mut writer, self.version, kind, number_bytes, destination, token)
            }
            _ => false,
        };
        if !fits {
            return None;
        }
        let number_at = writer.at();
        writer.bytes(&number.to_be_bytes()[8 - number_bytes..]);
        let payload_at = writer.at();
        Some(Built {
            id,
            is_early,
            start,
            number_at,
            number_bytes,
            number,
            payload_at,
            end: payload_at,
            frames_at,
            is_eliciting: false,
            acks: None,
            content: 0,
            padding: 0,
            is_full: false,
            has_challenge_response: false,
            noted: [self.noted(); 2],
        })
    }

    /// A packet of the handshake, if there is something to send in one.
    fn build_handshake(
        &mut self,
        now_ns: u64,
        id: SpaceId,
        out: &mut [u8],
        start: usize,
        limit: usize,
    ) -> Option<Built> {
        let space = space!(self, id)?;
        if !space.owes() && !space.crypto_out.wants() && space.probes == 0 {
            return None;
        }
        let mut built = self.begin(id, out, start, limit)?;
        let space = space!(self, id)?;
        let mut writer = Writer::new(out, built.end, limit - TAG_BYTES);
        if space.owes() {
            built.acks = write_ack(&mut writer, space, now_ns);
        }
        record_ack(&mut self.recording, space, built.acks);
        let had = writer.at();
        while writer.room() > FRAME_MAX
            && let Some(chunk) = space.crypto_out.next_chunk(writer.room() - FRAME_MAX, u64::MAX)
        {
            writer.byte(kind::CRYPTO);
            writer.varint(chunk.offset);
            writer.varint(chunk.length as u64);
            writer.bytes(space.crypto_out.bytes(chunk.offset, chunk.length));
            space.sent.add_frame(SentFrame::Crypto { offset: chunk.offset, length: chunk.length as u16 });
            record!(self.recording, "crypto", 0, chunk.offset, chunk.length as u64);
        }
        if space.probes > 0 && writer.at() == had && writer.room() > 0 {
            writer.byte(kind::PING);
            record!(self.recording, "ping", 0, 0, 0);
        }
        built.is_eliciting = writer.at() > had;
        built.end = writer.at();
        if built.end == built.payload_at {
            return None;
        }
        let short = (built.number_at + 4).saturating_sub(built.end);
        pad(&mut built, out, short);
        built.noted[1] = self.noted();
        Some(built)
    }

    /// A 0-RTT or 1-RTT packet, if there is something to send in one.
    fn build_data(
        &mut self,
        now_ns: u64,
        out: &mut [u8],
        start: usize,
        limit: usize,
        may_elicit: bool,
    ) -> Option<Built> {
        let mut built = self.begin(SpaceId::Data, out, start, limit)?;
        let mut writer = Writer::new(out, built.end, limit - TAG_BYTES);
        if self.data.owes() && !built.is_early {
            built.acks = write_ack(&mut writer, &self.data, now_ns);
            record_ack(&mut self.recording, &self.data, built.acks);
        }
        let had = writer.at();
        if may_elicit {
            if self.has_control() {
                self.write_control(&mut writer, &mut built);
            }
            self.write_streams(&mut writer, &mut built);
        }
        let is_ack_due = built.acks.is_some() && self.data.ack_due_ns() <= now_ns;
        let asks = writer.at() == had
            && writer.room() > 0
            && (self.data.probes > 0 || is_ack_due && self.data.silent_run >= SILENT_RUN_MAX);
        if asks {
            writer.byte(kind::PING);
            record!(self.recording, "ping", 0, 0, 0);
        }
        built.is_eliciting = writer.at() > had;
        built.end = writer.at();
        if !built.is_eliciting && !is_ack_due {
            self.data.sent.truncate_frames(built.frames_at);
            if let Some(recording) = &mut self.recording {
                recording.frames.truncate(built.noted[0]);
            }
            return None;
        }
        let short = (built.number_at + 4).saturating_sub(built.end);
        pad(&mut built, out, short);
        built.noted[1] = self.noted();
        Some(built)
    }

    /// Seals a packet and records it as sent.
    #[inline]
    fn send(&mut self, now_ns: u64, built: Built, out: &mut [u8]) {
        let end = built.end + TAG_BYTES;
        let packet = &mut out[built.start..end];
        let (number_at, number_bytes) = (built.number_at - built.start, built.number_bytes);
        let is_short = built.id == SpaceId::Data && !built.is_early;
        if !is_short {
            let length = (end - built.number_at) as u16 | 0x4000;
            packet[number_at - 2..number_at].copy_from_slice(&length.to_be_bytes());
        }
        match (&mut self.one, &self.shaking) {
            (Some(one), _) if is_short => {
                seal(&*one.header, &*one.local, packet, number_at, number_bytes, built.number);
                one.sent(built.number, built.acks);
            }
            (_, Some(shaking)) => {
                let keys = match built.id {
                    SpaceId::Initial => shaking.initial_keys.as_ref().map(|keys| &keys.local),
                    SpaceId::Handshake => shaking.handshake_keys.as_ref().map(|keys| &keys.local),
                    SpaceId::Data => shaking.early_keys.as_ref(),
                };
                if let Some((header, key)) = keys.map(parts) {
                    seal(header, key, packet, number_at, number_bytes, built.number);
                }
            }
            _ => {}
        }
        let bytes = end - built.start;
        let sent = &mut self.counts.sent;
        sent.padding += built.padding;
        sent.other_frames += (built.end - built.payload_at) as u64 - built.content - built.padding;
        sent.overhead += (built.payload_at - built.start + TAG_BYTES) as u64;
        // Padded packets count as in flight (RFC 9002 section 2). A close is never acknowledged.
        let is_in_flight = (built.is_eliciting || built.padding > 0) && self.state != State::Closed;
        if is_in_flight {
            self.counts.packets_sent += 1;
            self.counts.packets_in_flight += 1;
            self.congestion.sent(bytes as u64);
        } else {
            self.counts.ack_packets_sent += 1;
        }
        if built.is_eliciting && !self.has_sent_since {
            (self.active_ns, self.has_sent_since) = (now_ns, true);
        }
        if let Some(shaking) = &mut self.shaking {
            shaking.sent_ns = now_ns;
        }
        let is_ect = self.is_ect;
        if let Some(space) = space!(self, built.id) {
            space.next_number += 1;
            if built.acks.is_some() {
                space.acknowledged();
            }
            space.silent_run = if built.is_eliciting { 0 } else { space.silent_run + 1 };
            if built.is_eliciting {
                space.probes = space.probes.saturating_sub(1);
            }
            if let Some(largest) = built.acks {
                space.sent.add_frame(SentFrame::Ack { largest });
            }
            space.sent.push(SentPacket {
                sent_ns: now_ns,
                frames_at: built.frames_at,
                frames: space.sent.frames_end().wrapping_sub(built.frames_at) as u16,
                bytes: bytes as u16,
                fate: if is_in_flight { Fate::InFlight } else { Fate::Silent },
                is_ect,
                is_early: built.is_early,
                is_eliciting: built.is_eliciting,
            });
        }
        self.record_sent(now_ns, &built, bytes);
    }

    fn record_sent(&mut self, now_ns: u64, built: &Built, bytes: usize) {
        let Some(recording) = &mut self.recording else { return };
        recording.keys(now_ns, self.counts.key_updates);
        // The frames of later packets in the datagram follow.
        let mut count = built.noted[1] - built.noted[0];
        if built.padding > 0 {
            let padding = FrameRecord { name: "padding", subject: 0, offset: 0, length: built.padding };
            recording.frames.insert(count, padding);
            count += 1;
        }
        let kind = match built.id {
            SpaceId::Initial => PacketKind::Initial,
            SpaceId::Handshake => PacketKind::Handshake,
            SpaceId::Data if built.is_early => PacketKind::ZeroRtt,
            SpaceId::Data => PacketKind::OneRtt,
        };
        recording.recorder.sent(
            now_ns,
            &PacketRecord { kind, number: built.number, bytes, frames: &recording.frames[..count] },
        );
        recording.frames.drain(..count);
    }
}

/// Adds PADDING to the last packet of a datagram.
#[inline]
fn pad(built: &mut Built, out: &mut [u8], bytes: usize) {
    out[built.end..built.end + bytes].fill(0);
    built.end += bytes;
    built.padding += bytes as u64;
}

fn record_ack(recording: &mut Option<Box<super::connection::Recording>>, space: &Space, acks: Option<u64>) {
    if let (Some(recording), Some(_)) = (recording, acks) {
        let ranges = space.to_acknowledge(0).0;
        let frames =
            ranges.map(|(low, end)| FrameRecord { name: "ack", subject: end - 1, offset: low, length: 0 });
        recording.frames.extend(frames);
    }
}
