//! QUIC for the least client (RFC 9000, RFC 9001): packets with rustls's keys, acknowledgements, and requests on streams. There is
//! no congestion control, as requests are shorter than any first window, and nothing is measured. What the server acknowledges is
//! not read: an answer acknowledges its request, and the end of the handshake its last message. What is not acknowledged in this
//! way within two ticks is sent again. A server that says anything out of the ordinary ends the program.

use std::io;
use std::sync::Arc;

use rustls::crypto::aws_lc_rs::cipher_suite::TLS13_AES_128_GCM_SHA256;
use rustls::pki_types::ServerName;
use rustls::quic::{ClientConnection, DirectionalKeys, KeyChange, Keys, PacketKeySet, Secrets, Version};
use rustls::{ClientConfig, Side, SupportedCipherSuite};

use super::datagrams::DATAGRAM_BYTES;
use super::quic_ranges::{Received, Slots};
use super::quic_wire::{Frame, Frames, Part, Unread, varint};

/// Least length of a client's first datagram.
const FIRST_DATAGRAM_BYTES: usize = 1200;
const TAG_BYTES: usize = 16;
/// Length of the packet number in each packet that is sent.
const NUMBER_BYTES: usize = 2;
const SAMPLE_BYTES: usize = 16;
/// Maximum length of a connection ID.
const ID_BYTES: usize = 20;

/// Bits of a packet's first byte.
const LONG: u8 = 0x80;
const FIXED: u8 = 0x40;
const PHASE: u8 = 0x04;
/// Types of long packets.
const INITIAL: u8 = 0;
const HANDSHAKE: u8 = 2;

/// Types of frames.
const CRYPTO: u8 = 0x06;
/// With an end and a length, at offset 0.
const STREAM_WHOLE: u8 = 0x0b;
/// The same without an end.
const STREAM_PART: u8 = 0x0a;
const CLOSE: u8 = 0x1d;

/// What every connection sends.
#[derive(Debug)]
pub(crate) struct Said {
    pub(crate) request: Vec<u8>,
    /// On the first unidirectional stream.
    pub(crate) control: Vec<u8>,
    /// The code with which a connection ends.
    pub(crate) farewell: u64,
    /// Whether an answer with this beginning is one of those that are counted.
    pub(crate) is_good: fn(&[u8]) -> bool,
}

/// One connection, without its socket.
pub(crate) struct Connection {
    /// Until the server confirms it.
    handshake: Option<Box<Handshake>>,
    /// Of 1-RTT packets.
    traffic: Option<Traffic>,
    /// The server's connection ID, to which packets go.
    id: [u8; ID_BYTES],
    id_bytes: usize,
    /// The number of the next 1-RTT packet.
    number: u64,
    received: Received,
    owes_ack: bool,
    has_control: bool,
    slots: Slots,
    /// Requests that may still begin.
    left: u64,
    /// Streams that the server allows.
    streams_max: u64,
    /// Requests that are to be sent, by their streams.
    due: Vec<u64>,
}

/// A handshake that is not confirmed.
struct Handshake {
    tls: ClientConnection,
    initial: Keys,
    keys: Option<Keys>,
    /// TLS's first message, and its last.
    hello: Vec<u8>,
    finished: Vec<u8>,
    /// Bytes of TLS that were read from Initial and from Handshake packets.
    read: [u64; 2],
    /// Numbers of the next packets.
    numbers: [u64; 2],
    has_id: bool,
    is_due: bool,
    /// Whether a tick has passed since it was sent.
    is_late: bool,
}

struct Traffic {
    keys: Keys,
    /// The next keys, and what the keys after those are made from.
    next: PacketKeySet,
    secrets: Secrets,
    phase: bool,
}

impl Connection {
    /// A connection for `requests` in all, `streams` of them at a time.
    pub(crate) fn new(
        config: &Arc<ClientConfig>,
        name: ServerName<'static>,
        streams: usize,
        requests: u64,
    ) -> io::Result<Connection> {
        let mut id = [0; ID_BYTES];
        let provider = config.crypto_provider();
        // The server's own follows; this one makes the first keys.
        provider.secure_random.fill(&mut id[..8]).map_err(|_| io::Error::other("no random bytes"))?;
        let SupportedCipherSuite::Tls13(suite) = TLS13_AES_128_GCM_SHA256 else { return Err(unlike()) };
        let quic = suite.quic.ok_or_else(unlike)?;
        let mut tls = ClientConnection::new(config.clone(), Version::V1, name, parameters())
            .map_err(io::Error::other)?;
        let mut hello = Vec::new();
        tls.write_hs(&mut hello);
        let handshake = Handshake {
            tls,
            initial: Keys::initial(Version::V1, suite, quic, &id[..8], Side::Client),
            keys: None,
            hello,
            finished: Vec::new(),
            read: [0; 2],
            numbers: [0; 2],
            has_id: false,
            is_due: true,
            is_late: false,
        };
        Ok(Connection {
            handshake: Some(Box::new(handshake)),
            traffic: None,
            id,
            id_bytes: 8,
            number: 0,
            received: Received::default(),
            owes_ack: false,
            has_control: false,
            slots: Slots::new(streams),
            left: requests,
            streams_max: 0,
            due: Vec::new(),
        })
    }

    /// Whether requests can be sent.
    pub(crate) fn stands(&self) -> bool {
        self.traffic.is_some()
    }

    /// Whether every request was answered.
    pub(crate) fn is_over(&self) -> bool {
        self.left == 0 && self.slots.are_free()
    }

    /// Takes a datagram; returns how many answers it completed.
    pub(crate) fn receive(&mut self, mut datagram: &mut [u8], said: &Said) -> io::Result<usize> {
        while let [first, ..] = datagram {
            if *first & LONG == 0 {
                return self.receive_short(datagram, said);
            }
            let (packet, rest) = self.receive_long(datagram)?;
            if let Some((kind, payload)) = packet {
                self.shake(kind, payload)?;
            }
            datagram = rest;
        }
        Ok(0)
    }

    /// Takes the first packet of a datagram: its type and its frames if they could be decrypted, and what follows it.
    #[allow(clippy::type_complexity, reason = "one caller, which takes it apart")]
    fn receive_long<'a>(
        &mut self,
        datagram: &'a mut [u8],
    ) -> io::Result<(Option<(u8, &'a [u8])>, &'a mut [u8])> {
        let mut head = Unread(&datagram[1..]);
        let kind = datagram[0] >> 4 & 3;
        if head.take(4)? != [0, 0, 0, 1] || ![INITIAL, HANDSHAKE].contains(&kind) {
            return Err(io::Error::other("the server wants another version, or a Retry"));
        }
        let destination = usize::from(head.take(1)?[0]);
        head.take(destination)?;
        let source = usize::from(head.take(1)?[0]);
        let source = head.take(source)?;
        if kind == INITIAL {
            let token = head.varint()? as usize;
            head.take(token)?;
        }
        let bytes = head.varint()? as usize;
        let number_at = datagram.len() - head.0.len();
        head.take(bytes)?;
        let Some(handshake) = self.handshake.as_deref_mut() else { return Ok((None, &mut [])) };
        let mut id = [0; ID_BYTES];
        let id_bytes = source.len();
        id.get_mut(..id_bytes).ok_or_else(unlike)?.copy_from_slice(source);
        let (packet, rest) = datagram.split_at_mut(number_at + bytes);
        let keys = if kind == INITIAL { Some(&handshake.initial) } else { handshake.keys.as_ref() };
        let Some(keys) = keys.map(|keys| &keys.remote) else { return Ok((None, rest)) };
        // Numbers of a handshake's packets are small. What cannot be decrypted is lost.
        let Some(bared) = bare(keys, packet, number_at, 0) else { return Ok((None, rest)) };
        let (head, payload) = packet.split_at_mut(number_at + bared.number_bytes);
        let payload = keys.packet.decrypt_in_place(bared.number, head, payload).ok();
        if payload.is_some() && !handshake.has_id {
            (handshake.has_id, self.id, self.id_bytes) = (true, id, id_bytes);
        }
        Ok((payload.map(|payload| (kind, payload)), rest))
    }

    /// Takes frames of the handshake, of which only TLS's count: all is sent again until the server hears the last message.
    fn shake(&mut self, kind: u8, payload: &[u8]) -> io::Result<()> {
        let Some(handshake) = self.handshake.as_deref_mut() else { return Ok(()) };
        let read = &mut handshake.read[usize::from(kind == HANDSHAKE)];
        for frame in Frames(Unread(payload)) {
            let Frame::Tls(offset, data) = frame? else { continue };
            let known = read.checked_sub(offset).filter(|known| *known < data.len() as u64);
            // A part is missing before it, which the server sends again together with it.
            let Some(known) = known else { continue };
            *read = offset + data.len() as u64;
            handshake.tls.read_hs(&data[known as usize..]).map_err(io::Error::other)?;
        }
        while let Some(change) = handshake.tls.write_hs(&mut handshake.finished) {
            match change {
                KeyChange::Handshake { keys } => handshake.keys = Some(keys),
                KeyChange::OneRtt { keys, next: mut secrets } => {
                    let next = secrets.next_packet_keys();
                    self.traffic = Some(Traffic { keys, next, secrets, phase: false });
                    self.streams_max = streams_max(handshake.tls.quic_transport_parameters())?;
                    handshake.is_due = true;
                    handshake.hello.clear();
                }
            }
        }
        Ok(())
    }

    fn receive_short(&mut self, packet: &mut [u8], said: &Said) -> io::Result<usize> {
        // This side's ID has no bytes, so the number comes first.
        let number_at = 1;
        let Some(traffic) = &mut self.traffic else { return Ok(0) };
        let remote = &traffic.keys.remote;
        let Some(bared) = bare(remote, packet, number_at, self.received.next()) else { return Ok(0) };
        let turns = bared.has_phase != traffic.phase;
        let key = if turns { &traffic.next.remote } else { &remote.packet };
        let (head, payload) = packet.split_at_mut(number_at + bared.number_bytes);
        // What cannot be decrypted is lost, such as packets of the keys before.
        let Ok(payload) = key.decrypt_in_place(bared.number, head, payload) else { return Ok(0) };
        if turns {
            traffic.turn();
        }
        self.received.insert(bared.number);
        let mut answers = 0;
        for frame in Frames(Unread(payload)) {
            let frame = frame?;
            self.owes_ack |= frame != Frame::Quiet;
            match frame {
                // All others are as the first.
                Frame::Answer(Part { stream: 0, begin: 0, data, .. }) if !(said.is_good)(data) => {
                    return Err(io::Error::other("the server does not answer with status 200"));
                }
                Frame::Answer(part) => answers += usize::from(self.slots.hear(part)),
                Frame::Streams(streams) => self.streams_max = self.streams_max.max(streams),
                Frame::Done => self.handshake = None,
                Frame::Quiet | Frame::Tls(..) | Frame::Other => {}
            }
        }
        Ok(answers)
    }

    /// Begins as many requests as may be in progress, and appends what is to be sent.
    pub(crate) fn fill(&mut self, said: &Said, out: &mut Vec<u8>) -> io::Result<()> {
        let mut begin = out.len();
        if let Some(handshake) = self.handshake.as_deref_mut().filter(|handshake| handshake.is_due) {
            (handshake.is_due, handshake.is_late) = (false, false);
            handshake.write(&self.id[..self.id_bytes], out)?;
        }
        let Some(traffic) = &self.traffic else { return Ok(()) };
        while self.left > 0
            && let Some(stream) = self.slots.begin(self.streams_max)
        {
            self.left -= 1;
            self.due.push(stream);
        }
        let mut due = self.due.drain(..).peekable();
        while self.owes_ack || due.peek().is_some() {
            let packet = out.len();
            let limit = begin + DATAGRAM_BYTES - TAG_BYTES;
            out.push(FIXED | if traffic.phase { PHASE } else { 0 } | (NUMBER_BYTES - 1) as u8);
            out.extend_from_slice(&self.id[..self.id_bytes]);
            let number_at = out.len();
            out.extend_from_slice(&(self.number as u16).to_be_bytes());
            if self.owes_ack {
                self.received.write_ack(out);
                self.owes_ack = false;
            }
            if !self.has_control {
                self.has_control = true;
                stream(STREAM_PART, 2, &said.control, out);
            }
            // Type, number and length of a stream take at most 13 bytes.
            while out.len() + said.request.len() + 13 <= limit
                && let Some(number) = due.next()
            {
                stream(STREAM_WHOLE, number, &said.request, out);
            }
            if due.peek().is_some() {
                out.resize(limit, 0);
            }
            seal(&traffic.keys.local, out, packet, number_at, self.number)?;
            self.number += 1;
            begin = out.len();
        }
        Ok(())
    }

    /// Time has passed: what was sent before the last tick and has no answer is sent again.
    pub(crate) fn tick(&mut self) {
        if let Some(handshake) = &mut self.handshake {
            handshake.is_due |= std::mem::replace(&mut handshake.is_late, true);
        }
        let before = self.due.len();
        self.slots.late(&mut self.due);
        // The control stream went with the first request.
        self.has_control &= self.due.len() == before;
    }

    /// Appends the end of the connection.
    pub(crate) fn close(&mut self, said: &Said, out: &mut Vec<u8>) -> io::Result<()> {
        let Some(traffic) = &self.traffic else { return Ok(()) };
        let packet = out.len();
        out.push(FIXED | if traffic.phase { PHASE } else { 0 } | (NUMBER_BYTES - 1) as u8);
        out.extend_from_slice(&self.id[..self.id_bytes]);
        let number_at = out.len();
        out.extend_from_slice(&(self.number as u16).to_be_bytes());
        out.push(CLOSE);
        varint(out, said.farewell);
        out.push(0);
        seal(&traffic.keys.local, out, packet, number_at, self.number)
    }
}

impl Handshake {
    /// Appends the message that the server has not heard yet.
    fn write(&mut self, id: &[u8], out: &mut Vec<u8>) -> io::Result<()> {
        let (kind, message, keys) = match (self.finished.is_empty(), &self.keys) {
            (true, _) => (INITIAL, &self.hello, &self.initial),
            (false, Some(keys)) => (HANDSHAKE, &self.finished, keys),
            (false, None) => return Err(io::Error::other("the server wants another group")),
        };
        let packet = out.len();
        out.push(LONG | FIXED | kind << 4 | (NUMBER_BYTES - 1) as u8);
        out.extend_from_slice(&[0, 0, 0, 1, id.len() as u8]);
        out.extend_from_slice(id);
        // This side's ID has no bytes, and there is no token.
        out.extend_from_slice(if kind == INITIAL { &[0, 0] } else { &[0] });
        let length_at = out.len();
        out.extend_from_slice(&[0; 2]);
        let number = &mut self.numbers[usize::from(kind == HANDSHAKE)];
        let number_at = out.len();
        out.extend_from_slice(&(*number as u16).to_be_bytes());
        out.extend_from_slice(&[CRYPTO, 0]);
        varint(out, message.len() as u64);
        out.extend_from_slice(message);
        if kind == INITIAL {
            out.resize(out.len().max(packet + FIRST_DATAGRAM_BYTES - TAG_BYTES), 0);
        }
        let length = (out.len() + TAG_BYTES - number_at) as u16 | 0x4000;
        out[length_at..number_at].copy_from_slice(&length.to_be_bytes());
        seal(&keys.local, out, packet, number_at, *number)?;
        *number += 1;
        Ok(())
    }
}

impl Traffic {
    /// Follows the server to its next keys.
    #[cold]
    fn turn(&mut self) {
        let next = std::mem::replace(&mut self.next, self.secrets.next_packet_keys());
        self.keys.remote.packet = next.remote;
        self.keys.local.packet = next.local;
        self.phase = !self.phase;
    }
}

/// A packet whose head is no longer protected.
struct Bared {
    number: u64,
    number_bytes: usize,
    has_phase: bool,
}

fn bare(keys: &DirectionalKeys, packet: &mut [u8], number_at: usize, expected: u64) -> Option<Bared> {
    let (head, sample) = packet.split_at_mut_checked(number_at + 4)?;
    let (first, digits) = head.split_first_mut()?;
    let digits = &mut digits[number_at - 1..];
    keys.header.decrypt_in_place(sample.get(..SAMPLE_BYTES)?, first, digits).ok()?;
    let number_bytes = usize::from(*first & 3) + 1;
    let low = digits[..number_bytes].iter().fold(0, |number, digit| number << 8 | u64::from(*digit));
    Some(Bared { number: whole(low, number_bytes, expected), number_bytes, has_phase: *first & PHASE != 0 })
}

/// The number with these low bytes that is nearest to the expected one.
fn whole(low: u64, bytes: usize, expected: u64) -> u64 {
    let window = 1 << (8 * bytes);
    let number = expected & !(window - 1) | low;
    if number + window / 2 <= expected {
        number + window
    } else if number > expected + window / 2 && number >= window {
        number - window
    } else {
        number
    }
}

/// Encrypts a packet that ends with `out`.
fn seal(
    keys: &DirectionalKeys,
    out: &mut Vec<u8>,
    packet: usize,
    number_at: usize,
    number: u64,
) -> io::Result<()> {
    let payload_at = number_at + NUMBER_BYTES;
    // The sample of header protection begins four bytes after the beginning of the number.
    out.resize(out.len().max(number_at + 4), 0);
    let (head, payload) = out.split_at_mut(payload_at);
    let tag = keys.packet.encrypt_in_place(number, &head[packet..], payload).map_err(io::Error::other)?;
    out.extend_from_slice(tag.as_ref());
    let (head, payload) = out.split_at_mut(payload_at);
    let (first, digits) = head[packet..].split_at_mut(number_at - packet);
    let sample = &payload[4 - NUMBER_BYTES..][..SAMPLE_BYTES];
    keys.header.encrypt_in_place(sample, &mut first[0], digits).map_err(io::Error::other)
}

fn stream(kind: u8, number: u64, data: &[u8], out: &mut Vec<u8>) {
    out.push(kind);
    varint(out, number);
    varint(out, data.len() as u64);
    out.extend_from_slice(data);
}

/// The transport parameters of this side. Windows are as large as they can be, so that none is ever raised.
fn parameters() -> Vec<u8> {
    const WINDOW: u64 = 1 << 60;
    let mut out = Vec::new();
    // max_idle_timeout in ms, max_udp_payload_size, initial_max_data, initial_max_stream_data_bidi_local and _uni,
    // initial_max_streams_uni: HTTP/3 has three.
    let numbers = [(1, 30_000), (3, 1472), (4, WINDOW), (5, WINDOW), (7, WINDOW), (9, 16)];
    for (name, value) in numbers {
        let mut bytes = Vec::new();
        varint(&mut bytes, value);
        out.extend([name, bytes.len() as u8]);
        out.extend(bytes);
    }
    // initial_source_connection_id, which has no bytes.
    out.extend([0x0f, 0]);
    out
}

/// How many streams the server's transport parameters allow.
fn streams_max(parameters: Option<&[u8]>) -> io::Result<u64> {
    let mut parameters = Unread(parameters.ok_or_else(unlike)?);
    let mut streams = 0;
    while !parameters.0.is_empty() {
        let (name, length) = (parameters.varint()?, parameters.varint()? as usize);
        let mut value = Unread(parameters.take(length)?);
        match name {
            3 if value.varint()? < DATAGRAM_BYTES as u64 => return Err(unlike()),
            8 => streams = value.varint()?,
            _ => {}
        }
    }
    Ok(streams)
}

pub(crate) fn unlike() -> io::Error {
    io::Error::other("the server said what the least client does not read")
}
