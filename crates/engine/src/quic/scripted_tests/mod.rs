//! A server that has the keys and says what a test wants: packets of any frames, at any level.

mod cuts;
mod misdeeds;
mod timers;

use rustls::Side;
use rustls::pki_types::ServerName;
use rustls::quic::{KeyChange, Keys, Secrets, ServerConnection};

use super::frames::{self, Frame};
use super::keys;
use super::packet::TAG_BYTES;
use super::simulated_tests::server::{client_tls, server_tls};
use super::space::SpaceId;
use super::varint::{self, Writer};
use super::{Connection, Events, Settings, Stream, Version, fuzzing};

const MS: u64 = 1_000_000;
/// The server's connection ID.
const ID: [u8; 6] = [0xaa; 6];
const RESET_TOKEN: [u8; 16] = [7; 16];
const HANDSHAKE_DONE: u8 = 0x1e;

/// What streams brought, in words.
#[derive(Debug, Default)]
struct Told(Vec<String>);

impl Events for Told {
    fn data(&mut self, stream: Stream, bytes: &[u8], is_last: bool) {
        let end = if is_last { " end" } else { "" };
        self.0.push(format!("{}: {}{end}", stream.id, String::from_utf8_lossy(bytes)));
    }

    fn reset(&mut self, stream: Stream, code: u64) {
        self.0.push(format!("{}: reset {code}", stream.id));
    }

    fn stopped(&mut self, stream: Stream, code: u64) {
        self.0.push(format!("{}: stopped {code}", stream.id));
    }
}

fn varint(value: u64) -> Vec<u8> {
    let mut out = [0; 8];
    let mut writer = Writer::new(&mut out, 0, 8);
    writer.varint(value);
    let at = writer.at();
    out[..at].to_vec()
}

/// Transport parameters, in order.
type Parameters = Vec<(u64, Vec<u8>)>;

/// See the module comment.
struct Peer {
    version: Version,
    tls: ServerConnection,
    keys: [Option<Keys>; 3],
    secrets: Option<Secrets>,
    phase: bool,
    /// Numbers of the next packets.
    numbers: [u64; 3],
    /// Numbers of the last packets heard.
    heard_numbers: [Option<u64>; 3],
    crypto_sent: [u64; 3],
    crypto_heard: [u64; 3],
    /// Frames heard, in the words of `Debug`, without PADDING.
    heard: Vec<String>,
    /// Codes of CONNECTION_CLOSE, and whether of the application.
    closes: Vec<(u64, bool)>,
    /// Added to the first byte of packets before they are sealed.
    first_byte: u8,
    /// Whether the last datagram heard was filled to 1,200 bytes.
    was_full: bool,
}

impl Peer {
    /// For a client whose first destination is `original`; `change` may spoil the parameters.
    fn new(version: Version, original: &[u8], change: impl Fn(&mut Parameters)) -> Peer {
        let mut parameters: Parameters = vec![
            (0x00, original.to_vec()),
            (0x02, RESET_TOKEN.to_vec()),
            (0x04, varint(1 << 20)),
            (0x06, varint(1 << 18)),
            (0x07, varint(1 << 18)),
            (0x08, varint(10)),
            (0x09, varint(3)),
            (0x0f, ID.to_vec()),
        ];
        change(&mut parameters);
        let mut bytes = Vec::new();
        for (id, value) in parameters {
            bytes.extend(varint(id));
            bytes.extend(varint(value.len() as u64));
            bytes.extend(value);
        }
        Peer {
            version,
            tls: ServerConnection::new(server_tls(), version.of_rustls(), bytes).unwrap(),
            keys: [Some(keys::initial(version, original, Side::Server)), None, None],
            secrets: None,
            phase: false,
            numbers: [0; 3],
            heard_numbers: [None; 3],
            crypto_sent: [0; 3],
            crypto_heard: [0; 3],
            heard: Vec::new(),
            closes: Vec::new(),
            first_byte: 0,
            was_full: false,
        }
    }

    /// A packet of frames.
    fn packet(&mut self, id: SpaceId, frames: &[u8]) -> Vec<u8> {
        let level = id as usize;
        let number = self.numbers[level];
        self.numbers[level] += 1;
        let mut packet = Vec::new();
        if id == SpaceId::Data {
            packet.push(0x43 | u8::from(self.phase) << 2);
        } else {
            let kind = if id == SpaceId::Initial { 0 } else { 2 };
            let kind = (kind + u8::from(self.version == Version::V2)) & 3;
            packet.push(0xc3 | kind << 4);
            packet.extend(self.version.number().to_be_bytes());
            packet.extend([0, ID.len() as u8]);
            packet.extend(ID);
            if id == SpaceId::Initial {
                packet.push(0);
            }
            packet.extend(((4 + frames.len() + TAG_BYTES) as u16 | 0x4000).to_be_bytes());
        }
        packet[0] |= self.first_byte;
        let number_at = packet.len();
        packet.extend((number as u32).to_be_bytes());
        packet.extend(frames);
        packet.extend([0; TAG_BYTES]);
        let keys = &self.keys[level].as_ref().unwrap().local;
        keys::seal(&*keys.header, &*keys.packet, &mut packet, number_at, 4, number);
        packet
    }

    /// Takes a datagram of the client.
    fn hear(&mut self, datagram: &[u8]) {
        self.was_full = datagram.len() >= 1200;
        let mut rest = datagram;
        while !rest.is_empty() {
            let is_long = rest[0] & 0x80 != 0;
            let (id, number_at, end) = if is_long {
                assert_eq!(rest[1..5], self.version.number().to_be_bytes());
                let mut at = 6 + usize::from(rest[5]);
                assert_eq!(rest[at], 0, "the client's ID is empty");
                at += 1;
                let kind = ((rest[0] >> 4 & 3) + 4 - u8::from(self.version == Version::V2)) & 3;
                let id = if kind == 0 { SpaceId::Initial } else { SpaceId::Handshake };
                assert!(kind == 0 || kind == 2);
                if kind == 0 {
                    let (bytes, length) = varint::read(&rest[at..]).unwrap();
                    at += bytes as usize + length;
                    assert!(self.was_full, "an Initial packet in {} bytes", datagram.len());
                }
                let (bytes, length) = varint::read(&rest[at..]).unwrap();
                (id, at + length, at + length + bytes as usize)
            } else {
                (
                    SpaceId::Data,
                    1 + rest[1..].iter().zip(ID).take_while(|(a, b)| **a == *b).count(),
                    rest.len(),
                )
            };
            let mut packet = rest[..end].to_vec();
            rest = &rest[end..];
            let level = id as usize;
            let expected = self.heard_numbers[level].map_or(0, |number| number + 1);
            let keys = &self.keys[level].as_ref().unwrap().remote;
            let number_at = if is_long { number_at } else { 1 + ID.len() };
            let bared = keys::bare(&*keys.header, &mut packet, number_at, expected).unwrap();
            let plain =
                keys::open(&*keys.packet, &mut packet, number_at, &bared).expect("authentic").to_vec();
            self.heard_numbers[level] = Some(bared.number);
            let mut rest = &plain[..];
            while !rest.is_empty() {
                match frames::next(&mut rest).unwrap() {
                    Frame::Padding(_) => {}
                    Frame::Crypto { offset, data } => {
                        let skipped = (self.crypto_heard[level] - offset) as usize;
                        if data.len() > skipped {
                            self.crypto_heard[level] += (data.len() - skipped) as u64;
                            self.tls.read_hs(&data[skipped..]).unwrap();
                        }
                    }
                    Frame::Close { is_application, code, .. } => self.closes.push((code, is_application)),
                    frame => self.heard.push(format!("{frame:?}")),
                }
            }
        }
    }

    /// Packets with what TLS has to say, each in a datagram of its own.
    fn answers(&mut self) -> Vec<Vec<u8>> {
        let mut datagrams = Vec::new();
        loop {
            let level = self.keys.iter().rposition(Option::is_some).unwrap();
            let id = [SpaceId::Initial, SpaceId::Handshake, SpaceId::Data][level];
            let mut bytes = Vec::new();
            let change = self.tls.write_hs(&mut bytes);
            for piece in bytes.chunks(1000) {
                let mut frames = Vec::new();
                if let Some(number) = self.heard_numbers[level] {
                    frames.extend([2]);
                    frames.extend(varint(number));
                    frames.extend([0, 0, 0]);
                }
                frames.push(6);
                frames.extend(varint(self.crypto_sent[level]));
                frames.extend(varint(piece.len() as u64));
                frames.extend(piece);
                self.crypto_sent[level] += piece.len() as u64;
                datagrams.push(self.packet(id, &frames));
            }
            match change {
                None => return datagrams,
                Some(KeyChange::Handshake { keys }) => self.keys[1] = Some(keys),
                Some(KeyChange::OneRtt { keys, next }) => {
                    self.keys[2] = Some(keys);
                    self.secrets = Some(next);
                }
            }
        }
    }

    /// Changes to the next keys.
    fn update_keys(&mut self) {
        let next = self.secrets.as_mut().unwrap().next_packet_keys();
        let keys = self.keys[2].as_mut().unwrap();
        (keys.local.packet, keys.remote.packet) = (next.local, next.remote);
        self.phase = !self.phase;
    }
}

/// A client and its peer.
struct Pair {
    client: Connection,
    peer: Peer,
    told: Told,
    now_ns: u64,
}

impl Pair {
    fn new(version: Version, change: impl Fn(&mut Parameters)) -> Pair {
        let mut settings = Settings::new(client_tls(false));
        settings.version = version;
        settings.stream_window = 100_000;
        settings.connection_window = 150_000;
        settings.probes_mtu = false;
        let mut client = Connection::default();
        client.open(&settings, ServerName::try_from("localhost").unwrap(), *b"original", MS).unwrap();
        Pair { client, peer: Peer::new(version, b"original", change), told: Told::default(), now_ns: MS }
    }

    /// A pair whose handshake is confirmed, with a request on stream 0.
    fn confirmed(version: Version) -> Pair {
        let mut pair = Pair::new(version, |_| {});
        pair.shake();
        let done = pair.peer.packet(SpaceId::Data, &[HANDSHAKE_DONE]);
        pair.say(&done);
        assert!(pair.client.is_confirmed());
        let stream = pair.client.open_bi(0).unwrap();
        assert_eq!(pair.client.write(stream, b"request", true), 7);
        pair.flush();
        pair
    }

    /// A pair whose client has the server's whole flight, and has not answered it.
    fn agreed(version: Version) -> Pair {
        let mut pair = Pair::new(version, |_| {});
        pair.flush();
        for answer in pair.peer.answers() {
            pair.say(&answer);
        }
        assert!(pair.client.is_agreed() && !pair.client.is_confirmed());
        pair
    }

    /// What the client has to send reaches the peer.
    fn flush(&mut self) {
        let mut out = vec![0; 65_536];
        while let Some(packed) = self.client.pack(self.now_ns, &mut out) {
            for datagram in out[..packed.bytes].chunks(packed.segment) {
                self.peer.hear(datagram);
            }
        }
        fuzzing::check(&self.client);
    }

    /// What the client has to send is lost. Returns how many datagrams.
    fn lose(&mut self) -> usize {
        let mut out = vec![0; 65_536];
        let packed = std::iter::from_fn(|| self.client.pack(self.now_ns, &mut out));
        packed.map(|packed| packed.bytes.div_ceil(packed.segment)).sum()
    }

    /// Lets time pass until the client's next timer.
    fn wait(&mut self) {
        self.now_ns = self.client.due_ns().expect("a timer").max(self.now_ns);
        self.client.timeout(self.now_ns);
        fuzzing::check(&self.client);
    }

    fn say(&mut self, datagram: &[u8]) {
        self.now_ns += MS;
        self.client.hear(self.now_ns, &mut datagram.to_vec(), 0, &mut self.told);
        fuzzing::check(&self.client);
    }

    fn say_frames(&mut self, frames: &[u8]) {
        let packet = self.peer.packet(SpaceId::Data, frames);
        self.say(&packet);
    }

    /// Datagrams go back and forth until both have nothing to say.
    fn shake(&mut self) {
        loop {
            self.flush();
            let answers = self.peer.answers();
            if answers.is_empty() {
                return;
            }
            for answer in answers {
                self.say(&answer);
            }
        }
    }
}
