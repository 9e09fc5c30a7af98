//! Records that a server sends after a handshake, with keys that are known here. The first two bytes of an input choose version, cipher
//! and how the stream is cut; the rest is a list of records: a type, a length of two bytes, and the content. The content of a type from
//! 128 on is sent as it is.

use webstone_engine::tls::records::{Cipher, Direction, Scratch};
use webstone_engine::tls::traffic::{Fault, Schedule, Traffic};

/// Keys of both sides, which are the same generation by generation.
struct Keys {
    cipher: Cipher,
    is_tls13: bool,
    sent: u8,
    heard: u8,
}

impl Keys {
    fn direction(&self, generation: u8) -> Direction {
        let key = [generation; 32];
        let key = if self.cipher == Cipher::Aes128Gcm { &key[..16] } else { &key[..] };
        Direction::new(self.cipher, self.is_tls13, key, &[generation; 12], 0).expect("lengths of the cipher")
    }
}

impl Schedule for Keys {
    fn next_sender(&mut self) -> Option<Direction> {
        self.sent = self.sent.wrapping_add(1);
        Some(self.direction(self.sent))
    }

    fn next_receiver(&mut self) -> Option<Direction> {
        self.heard = self.heard.wrapping_add(1);
        Some(self.direction(self.heard))
    }

    fn take_ticket(&mut self, _: &[u8]) -> Result<(), Fault> {
        Ok(())
    }
}

/// Any split of the stream brings the same bytes and the same end.
pub(crate) fn tls(data: &[u8]) {
    let [choice, cut, list @ ..] = data else { return };
    let cipher = match choice >> 1 & 3 {
        0 => Cipher::Aes128Gcm,
        1 => Cipher::Aes256Gcm,
        _ => Cipher::ChaCha20Poly1305,
    };
    let keys = || Keys { cipher, is_tls13: choice & 1 == 0, sent: 0, heard: 0 };
    let wire = wire(&keys(), list);
    let whole = read(keys(), &wire, wire.len().max(1));
    let piece = 1 + usize::from(*cut);
    assert_eq!(whole, read(keys(), &wire, piece), "cut into pieces of {piece}");
}

/// The records of a list. The server changes its keys after each key update that is a record of its own.
fn wire(keys: &Keys, mut list: &[u8]) -> Vec<u8> {
    let mut generation = 0_u8;
    let mut server = keys.direction(generation);
    let mut wire = Vec::new();
    while let [kind, high, low, rest @ ..] = list {
        let length = usize::from(u16::from_be_bytes([*high, *low])).min(rest.len());
        let (content, rest) = rest.split_at(length);
        list = rest;
        if *kind >= 128 {
            wire.extend_from_slice(content);
            continue;
        }
        server.seal(*kind, content, &mut wire);
        if keys.is_tls13 && *kind == 22 && matches!(content, [24, 0, 0, 1, 0 | 1]) {
            generation = generation.wrapping_add(1);
            server = keys.direction(generation);
        }
    }
    wire
}

/// What a client hears of a stream in pieces, whether its end was announced, and how it ended.
fn read(keys: Keys, wire: &[u8], piece: usize) -> (Vec<u8>, bool, Option<String>) {
    let (sender, receiver) = (keys.direction(0), keys.direction(0));
    let schedule = keys.is_tls13.then_some(keys);
    let mut client = Traffic::with(sender, receiver, 4, schedule);
    let (mut scratch, mut heard) = (Scratch::default(), Vec::new());
    let mut error = None;
    for piece in wire.chunks(piece) {
        scratch.clear();
        if let Err(fault) = client.unseal(piece, &mut scratch) {
            error = Some(fault.to_string());
            break;
        }
        heard.extend_from_slice(scratch.plain());
    }
    if error.is_some() {
        // How much was heard before an error depends on how the stream was cut: what arrives together with the error is given up.
        heard.clear();
    }
    client.close();
    let mut sent = Vec::new();
    client.seal(b"GET / HTTP/1.1\r\n\r\n", &mut sent);
    assert!(!client.must_send());
    (heard, client.was_close_heard(), error)
}
