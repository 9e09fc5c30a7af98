//! Recovery (RFC 9002): what acknowledgements say, which packets are lost, probe timeouts; and the connection's other timers.

use super::connection::{Connection, Events, State, space};
use super::ecn::Echo;
use super::error::{Fault, QuicFailure};
use super::frames::Ack;
use super::mtu::BASE;
use super::recorder::{LossReason, PacketKind};
use super::sent::{Fate, SentFrame, SentPacket};
use super::space::SpaceId;

/// A packet is lost if one sent this many later was acknowledged (RFC 9002 section 6.1.1).
const PACKET_THRESHOLD: u64 = 3;
/// Persistent congestion: this many probe timeouts (RFC 9002 section 7.6.1).
const PERSISTENT: u64 = 3;
/// After this many consecutive probe timeouts, large datagrams may be what is lost.
const BLACK_HOLE_PROBES: u32 = 3;
/// Probe timeouts after which datagrams are no longer marked, if nothing has come back.
const UNMARKED_FROM: u32 = 2;
/// Largest exponent of the backoff.
const BACKOFF_MAX: u32 = 16;
const SPACES: [SpaceId; 3] = [SpaceId::Initial, SpaceId::Handshake, SpaceId::Data];

impl Connection {
    /// An ACK frame. Returns whether it acknowledges something new.
    pub(super) fn hear_ack<E: Events>(
        &mut self,
        now_ns: u64,
        id: SpaceId,
        ack: &Ack<'_>,
        events: &mut E,
    ) -> Result<bool, Fault> {
        let Some(space) = space!(self, id) else { return Ok(false) };
        if ack.largest >= space.next_number {
            return Err(Fault::Protocol("an acknowledgement of a packet that was not sent"));
        }
        let first = space.sent.first;
        let had_largest = space.sent.largest_acked;
        // The packet with the largest number, if it is newly acknowledged.
        let mut newest = None;
        let (mut is_new, mut is_eliciting, mut newly_marked) = (false, false, 0);
        for (low, high) in ack.ranges() {
            if high < first {
                break;
            }
            for number in low.max(first)..=high {
                let Some(space) = space!(self, id) else { break };
                let Some(packet) = space.sent.at_mut(number) else { break };
                let fate = packet.fate;
                if matches!(fate, Fate::Acknowledged | Fate::Discarded) {
                    continue;
                }
                packet.fate = Fate::Acknowledged;
                let packet = *packet;
                match fate {
                    Fate::InFlight => {
                        space.sent.landed(&packet);
                        self.congestion.acked(packet.bytes.into(), packet.sent_ns, now_ns, self.rtt.smoothed);
                        self.counts.packets_acknowledged += 1;
                        self.counts.packets_in_flight -= 1;
                        self.mtu.acked(number, packet.bytes);
                    }
                    Fate::Lost => self.counts.packets_lost_spuriously += 1,
                    _ => {}
                }
                is_new = true;
                is_eliciting |= packet.is_eliciting;
                newly_marked += u64::from(packet.is_ect);
                if number == ack.largest {
                    newest = Some(packet);
                }
                if let (SpaceId::Data, Some(one)) = (id, &mut self.one) {
                    one.acknowledged(number);
                }
                for nth in 0..packet.frames {
                    self.frame_acked(id, &packet, nth, events);
                }
            }
        }
        let Some(space) = space!(self, id) else { return Ok(is_new) };
        space.sent.largest_acked = had_largest.max(Some(ack.largest));
        if !is_new {
            return Ok(false);
        }
        if let Some(newest) = newest.filter(|_| is_eliciting) {
            let delay = if id == SpaceId::Data {
                (ack.delay << self.ack_delay_exponent).saturating_mul(1000)
            } else {
                0
            };
            let delay = delay.min(self.ack_delay_max_ns);
            self.rtt.sample(now_ns.saturating_sub(newest.sent_ns).max(1), delay, now_ns);
        }
        if self.is_ect && had_largest.is_none_or(|had| ack.largest > had) {
            let echo = space.echo.check(ack.ecn, newly_marked);
            if echo == Echo::Broken {
                (self.is_ect, self.has_lost_marks) = (false, true);
            }
            if let (Echo::Marked, Some(newest)) = (echo, newest) {
                self.counts.congestion_events += u64::from(self.congestion.reduce(newest.sent_ns, now_ns));
            }
        }
        if id == SpaceId::Handshake
            && let Some(shaking) = &mut self.shaking
        {
            shaking.is_validated = true;
        }
        // Not for Initial packets: the server may not have validated the client's address yet (RFC 9002 section 6.2.1).
        if id != SpaceId::Initial {
            self.probe_timeouts = 0;
        }
        self.find_lost(now_ns, id);
        let before_ns = now_ns.saturating_sub(self.rtt.probe_timeout() + self.ack_delay_max_ns);
        if let Some(space) = space!(self, id) {
            space.sent.forget(before_ns);
        }
        self.record_recovery(now_ns);
        Ok(true)
    }

    #[inline]
    fn frame_acked<E: Events>(&mut self, id: SpaceId, packet: &SentPacket, nth: u16, events: &mut E) {
        let Some(space) = space!(self, id) else { return };
        match space.sent.frame(packet, nth) {
            SentFrame::Stream { id, offset, slot, length, is_last } => {
                if let Some(stream) = self.streams.at(slot, id) {
                    stream.send.acked(offset, length.into(), is_last);
                    if stream.is_short && stream.send.room(self.congestion.kept_max()) > 0 {
                        stream.is_short = false;
                        events.writable(stream.named());
                    }
                    self.settle(slot);
                }
            }
            SentFrame::Crypto { offset, length } => space.crypto_out.acked(offset, length.into(), false),
            SentFrame::Ack { largest } => space.reported(largest),
            SentFrame::Reset { id, slot } => {
                if let Some(stream) = self.streams.at(slot, id) {
                    (stream.is_reset_open, stream.owed.reset) = (false, false);
                    self.settle(slot);
                }
            }
            SentFrame::MtuProbe => {
                if self.mtu.probe_acked(packet.bytes) {
                    self.congestion.set_datagram(packet.bytes.into());
                }
            }
            SentFrame::Stop { .. }
            | SentFrame::MaxData
            | SentFrame::MaxStreamData { .. }
            | SentFrame::MaxStreamsUni
            | SentFrame::RetireId(_)
            | SentFrame::PathResponse => {}
        }
    }

    /// Queues what a packet held to be sent again.
    pub(super) fn send_again(&mut self, id: SpaceId, packet: &SentPacket) {
        for nth in 0..packet.frames {
            let Some(space) = space!(self, id) else { return };
            match space.sent.frame(packet, nth) {
                SentFrame::Stream { id, offset, slot, length, is_last } => {
                    if let Some(stream) = self.streams.at(slot, id)
                        && stream.send.lost(offset, length.into(), is_last)
                    {
                        self.streams.queue(slot);
                    }
                }
                SentFrame::Crypto { offset, length } => {
                    space.crypto_out.lost(offset, length.into(), false);
                }
                SentFrame::Reset { id, slot } => {
                    if let Some(stream) = self.streams.at(slot, id) {
                        stream.owed.reset = stream.is_reset_open;
                        self.streams.queue(slot);
                    }
                }
                SentFrame::Stop { id, slot } => {
                    if let Some(stream) = self.streams.at(slot, id) {
                        stream.owed.stop = !stream.receive.is_end_known();
                        self.streams.queue(slot);
                    }
                }
                SentFrame::MaxData => self.flow.is_due = true,
                SentFrame::MaxStreamData { id, slot } => {
                    if let Some(stream) = self.streams.at(slot, id) {
                        stream.owed.window = !stream.receive.is_end_known() && !stream.receive.is_discarding;
                        self.streams.queue(slot);
                    }
                }
                SentFrame::MaxStreamsUni => self.owes_max_streams = true,
                SentFrame::RetireId(sequence) => self.ids.retire_again(sequence),
                // Not sent again: the peer repeats a challenge if it needs a response.
                SentFrame::PathResponse | SentFrame::Ack { .. } | SentFrame::MtuProbe => {}
            }
        }
    }

    /// Finds packets that are lost, and when the next will be.
    fn find_lost(&mut self, now_ns: u64, id: SpaceId) {
        let delay = self.rtt.loss_delay();
        let Some(space) = space!(self, id) else { return };
        space.sent.loss_ns = u64::MAX;
        let Some(largest) = space.sent.largest_acked else { return };
        let mut number = space.sent.settled_to.max(space.sent.first);
        let (mut is_first_run, mut newest_lost) = (true, None);
        // Lost packets without an acknowledged one in between, all sent after the first RTT sample.
        let (mut run, mut longest_run) = (None, 0);
        while number < largest {
            let Some(space) = space!(self, id) else { return };
            let Some(packet) = space.sent.at_mut(number) else { break };
            if packet.fate != Fate::InFlight {
                if packet.fate == Fate::Acknowledged {
                    run = None;
                }
                if is_first_run {
                    space.sent.settled_to = number + 1;
                }
                number += 1;
                continue;
            }
            let by = match largest - number {
                PACKET_THRESHOLD.. => LossReason::Reordering,
                _ if packet.sent_ns + delay <= now_ns => LossReason::Time,
                _ => {
                    let at = packet.sent_ns + delay;
                    space.sent.loss_ns = space.sent.loss_ns.min(at);
                    is_first_run = false;
                    number += 1;
                    continue;
                }
            };
            let packet = *packet;
            let is_probe =
                packet.frames > 0 && space.sent.frame(&packet, packet.frames - 1) == SentFrame::MtuProbe;
            if let Some(packet) = space.sent.at_mut(number) {
                packet.fate = if is_probe { Fate::Discarded } else { Fate::Lost };
            }
            if is_first_run {
                space.sent.settled_to = number + 1;
            }
            space.sent.landed(&packet);
            self.congestion.discarded(packet.bytes.into());
            // The loss of a probe says something of its size, not of the path's load (RFC 9000 section 14.4).
            self.counts.packets_lost += u64::from(!is_probe);
            self.counts.packets_discarded += u64::from(is_probe);
            self.counts.packets_in_flight -= 1;
            if let Some(recording) = &mut self.recording {
                let kind = match id {
                    SpaceId::Initial => PacketKind::Initial,
                    SpaceId::Handshake => PacketKind::Handshake,
                    SpaceId::Data if packet.is_early => PacketKind::ZeroRtt,
                    SpaceId::Data => PacketKind::OneRtt,
                };
                recording.recorder.lost(now_ns, kind, number, by);
            }
            if is_probe {
                self.mtu.probe_lost();
            } else {
                newest_lost = newest_lost.max(Some(packet.sent_ns));
                if self.mtu.lost(number, packet.bytes) {
                    self.congestion.set_datagram(BASE.into());
                }
                if self.rtt.first_sample_at.is_some_and(|at| packet.sent_ns > at) && packet.is_eliciting {
                    let began = *run.get_or_insert(packet.sent_ns);
                    longest_run = longest_run.max(packet.sent_ns - began);
                }
            }
            self.send_again(id, &packet);
            number += 1;
        }
        if let Some(sent_ns) = newest_lost {
            self.counts.congestion_events += u64::from(self.congestion.reduce(sent_ns, now_ns));
            if longest_run > PERSISTENT * (self.rtt.probe_timeout() + self.ack_delay_max_ns) {
                self.counts.persistent_congestions += 1;
                self.congestion.collapse();
            }
        }
    }

    /// The space whose packets may be lost next, and when.
    fn loss_due(&self) -> Option<(u64, SpaceId)> {
        let shaking = self.shaking.iter().flat_map(|shaking| {
            [
                (shaking.initial.sent.loss_ns, SpaceId::Initial),
                (shaking.handshake.sent.loss_ns, SpaceId::Handshake),
            ]
        });
        let all = shaking.chain([(self.data.sent.loss_ns, SpaceId::Data)]);
        all.filter(|(at, _)| *at != u64::MAX).min_by_key(|(at, _)| *at)
    }

    /// When a probe timeout is due, and in which space (RFC 9002 section 6.2).
    fn probe_due(&self) -> Option<(u64, SpaceId)> {
        let backoff = self.probe_timeouts.min(BACKOFF_MAX);
        let after = |timeout: u64| timeout << backoff;
        let timeout = self.rtt.probe_timeout();
        let Some(shaking) = &self.shaking else {
            let due = self.data.sent.last_eliciting_ns + after(timeout + self.ack_delay_max_ns);
            return (self.data.sent.eliciting > 0).then_some((due, SpaceId::Data));
        };
        let of =
            |sent: &super::sent::Sent| (sent.eliciting > 0).then(|| sent.last_eliciting_ns + after(timeout));
        let initial = of(&shaking.initial.sent).map(|at| (at, SpaceId::Initial));
        let handshake = of(&shaking.handshake.sent).map(|at| (at, SpaceId::Handshake));
        if let Some(due) = [initial, handshake].into_iter().flatten().min_by_key(|(at, _)| *at) {
            return Some(due);
        }
        // The server may be at its anti-amplification limit, and need more bytes before it may send (RFC 9002 section 6.2.2.1).
        let id = if shaking.handshake_keys.is_some() { SpaceId::Handshake } else { SpaceId::Initial };
        (!shaking.is_validated).then(|| (shaking.sent_ns + after(timeout), id))
    }

    /// When the idle timeout ends the connection.
    fn idle_due(&self) -> Option<u64> {
        let least = 3 * (self.rtt.probe_timeout() + self.ack_delay_max_ns);
        (self.idle_timeout_ns > 0).then(|| self.active_ns + self.idle_timeout_ns.max(least))
    }

    /// When to send a PING, halfway to the idle timeout: while an answer is awaited, and nothing is in flight that the server must
    /// acknowledge (RFC 9000 section 10.1.2). Servers may take longer for an answer than they keep silent connections.
    fn ping_due(&self) -> Option<u64> {
        let is_quiet = self.one.is_some() && self.streams.awaited > 0 && self.data.sent.eliciting == 0;
        (is_quiet && self.idle_timeout_ns > 0).then(|| self.active_ns + self.idle_timeout_ns / 2)
    }

    /// When [`Connection::timeout`] must be called, on the clock of `now_ns`. May be in the past.
    pub fn due_ns(&self) -> Option<u64> {
        match self.state {
            State::Idle | State::Closed => return None,
            State::Closing => return Some(0),
            State::Shaking | State::Agreed | State::Confirmed => {}
        }
        let recovery = self.loss_due().or_else(|| self.probe_due()).map_or(u64::MAX, |(at, _)| at);
        let idle = self.idle_due().unwrap_or(u64::MAX).min(self.ping_due().unwrap_or(u64::MAX));
        let acks = match &self.shaking {
            None => self.data.ack_due_ns(),
            Some(shaking) => {
                let of = |id, space: &super::space::Space| {
                    if self.has_keys(id) { space.ack_due_ns() } else { u64::MAX }
                };
                let data = if self.one.is_some() { self.data.ack_due_ns() } else { u64::MAX };
                of(SpaceId::Initial, &shaking.initial)
                    .min(of(SpaceId::Handshake, &shaking.handshake))
                    .min(data)
            }
        };
        let due = recovery.min(idle).min(acks).min(self.paced_until_ns);
        (due != u64::MAX).then_some(due)
    }

    /// Acts on what is due; early calls do nothing. `pack` may have something to send afterwards.
    pub fn timeout(&mut self, now_ns: u64) {
        if !self.is_live() {
            return;
        }
        if self.idle_due().is_some_and(|due| due <= now_ns) {
            return self.fail(QuicFailure::Idle);
        }
        if self.ping_due().is_some_and(|due| due <= now_ns) {
            self.data.probes = self.data.probes.max(1);
        }
        if let Some((due, id)) = self.loss_due() {
            if due <= now_ns {
                self.find_lost(now_ns, id);
                self.record_recovery(now_ns);
            }
        } else if let Some((due, id)) = self.probe_due()
            && due <= now_ns
        {
            self.probe(id);
            self.record_recovery(now_ns);
        }
    }

    /// A probe timeout: up to two packets are sent regardless of the congestion window, with the content of the oldest in flight.
    fn probe(&mut self, id: SpaceId) {
        self.probe_timeouts += 1;
        self.counts.probe_timeouts += 1;
        if self.probe_timeouts == BLACK_HOLE_PROBES && self.mtu.fall_back() {
            self.congestion.set_datagram(BASE.into());
        }
        if self.probe_timeouts == UNMARKED_FROM && self.rtt.first_sample_at.is_none() {
            // A path may drop what is marked (RFC 9000 section 13.4.2).
            self.is_ect = false;
        }
        for of in SPACES {
            // What other spaces have in flight goes into the same datagrams where there is room (RFC 9002 section 6.2.4).
            if self.has_keys(of) {
                self.probe_space(of, of == id);
            }
        }
    }

    fn probe_space(&mut self, id: SpaceId, must: bool) {
        let Some(space) = space!(self, id) else { return };
        let in_flight = |packet: &&SentPacket| packet.fate == Fate::InFlight && packet.is_eliciting;
        let mut first = [None; 2];
        for (place, packet) in first.iter_mut().zip(space.sent.packets.iter().filter(in_flight)) {
            *place = Some(*packet);
        }
        let count = first.iter().flatten().count() as u8;
        if must || count > 0 {
            space.probes = space.probes.max(count.max(1));
        }
        for packet in first.iter().flatten() {
            self.send_again(id, packet);
        }
    }
}
