//! A connection after its handshake, with a made-up peer: each violation has its own error, and it does not matter
//! where the stream is cut.

use webstone_measure::errors::ErrorClass;

use super::failure;
use super::records::{
    ALERT, CHANGE_CIPHER_SPEC, Cipher, DATA, Direction, HANDSHAKE, PLAIN_BYTES_MAX, Scratch,
};
use super::traffic::{Fault, Schedule, Traffic};

/// Keys that both sides derive in the same way.
#[derive(Default)]
struct Made {
    senders: u8,
    receivers: u8,
    tickets: Vec<Vec<u8>>,
}

/// The keys of one side in a generation.
fn keys(is_tls13: bool, side: u8, generation: u8) -> Direction {
    let key = [side ^ generation; 16];
    Direction::new(Cipher::Aes128Gcm, is_tls13, &key, &[side; 12], 0).unwrap()
}

const CLIENT: u8 = 1;
const SERVER: u8 = 2;

impl Schedule for Made {
    fn next_sender(&mut self) -> Option<Direction> {
        self.senders += 4;
        Some(keys(true, CLIENT, self.senders))
    }

    fn next_receiver(&mut self) -> Option<Direction> {
        self.receivers += 4;
        Some(keys(true, SERVER, self.receivers))
    }

    fn take_ticket(&mut self, ticket: &[u8]) -> Result<(), Fault> {
        self.tickets.push(ticket.to_vec());
        Ok(())
    }
}

fn client(is_tls13: bool) -> Traffic<Made> {
    let schedule = is_tls13.then(Made::default);
    Traffic::with(keys(is_tls13, CLIENT, 0), keys(is_tls13, SERVER, 0), u64::MAX, schedule)
}

/// Records of a server, given as type and content.
fn from_server(is_tls13: bool, records: &[(u8, &[u8])]) -> Vec<u8> {
    let mut server = keys(is_tls13, SERVER, 0);
    let mut wire = Vec::new();
    records.iter().for_each(|(kind, content)| server.seal(*kind, content, &mut wire));
    wire
}

/// What a client reads from a stream given in two pieces.
fn hear(client: &mut Traffic<Made>, wire: &[u8], cut: usize) -> Result<Vec<u8>, Fault> {
    let (mut scratch, mut heard) = (Scratch::default(), Vec::new());
    for piece in [&wire[..cut], &wire[cut..]] {
        scratch.clear();
        client.unseal(piece, &mut scratch)?;
        heard.extend_from_slice(scratch.plain());
    }
    Ok(heard)
}

#[test]
fn a_stream_may_be_cut_at_every_byte() {
    let mut server = keys(true, SERVER, 0);
    let mut wire = Vec::new();
    server.seal(DATA, b"one", &mut wire);
    // Two tickets in three records, then an update of keys.
    server.seal(HANDSHAKE, &[4, 0, 0, 3, b'a', b'b'], &mut wire);
    server.seal(HANDSHAKE, &[b'c', 4, 0, 0], &mut wire);
    server.seal(HANDSHAKE, &[1, b'd'], &mut wire);
    server.seal(HANDSHAKE, &[24, 0, 0, 1, 1], &mut wire);
    let mut server = keys(true, SERVER, 4);
    server.seal(DATA, b"two", &mut wire);
    server.seal(ALERT, &[1, 0], &mut wire);
    let end = wire.len();
    server.seal(DATA, b"what comes too late", &mut wire);
    for cut in 0..wire.len() {
        let mut client = client(true);
        assert_eq!(hear(&mut client, &wire, cut).unwrap(), b"onetwo", "{cut} of {end}");
        assert!(client.was_close_heard() && !client.must_send());
        // The answer to the server's new keys comes before the next data, which is sealed with new keys.
        let (mut sent, mut scratch) = (Vec::new(), Scratch::default());
        client.seal(b"GET /", &mut sent);
        let mut reader = keys(true, CLIENT, 0);
        let first = 5 + 5 + 1 + 16;
        assert_eq!(reader.open(&sent[..first], &mut scratch), Ok((HANDSHAKE, 5)));
        assert_eq!(scratch.opened(5), [24, 0, 0, 1, 0]);
        let mut reader = keys(true, CLIENT, 4);
        assert_eq!(reader.open(&sent[first..], &mut scratch), Ok((DATA, 5)));
        assert_eq!(client.schedule().unwrap().tickets, [&b"abc"[..], b"d"]);
    }
}

#[test]
fn padding_of_tls_13_is_not_content() {
    // A record with padding: its content includes the type and zeros, and it is sealed as type 0.
    let mut wire = Vec::new();
    keys(true, SERVER, 0).seal(0, b"padded\x17\0\0\0", &mut wire);
    assert_eq!(hear(&mut client(true), &wire, 7).unwrap(), b"padded");
}

/// A head that claims `length` bytes, followed by `bytes` zeros.
fn raw(kind: u8, version: [u8; 2], length: u16, bytes: usize) -> Vec<u8> {
    let [high, low] = length.to_be_bytes();
    [vec![kind, version[0], version[1], high, low], vec![0; bytes]].concat()
}

#[test]
fn each_violation_has_its_own_error() {
    let data: &[(u8, &[u8])] = &[(DATA, b"x")];
    let mut changed = from_server(true, data);
    *changed.last_mut().unwrap() ^= 1;
    let mut changed12 = from_server(false, data);
    changed12[2] = 1;
    let too_much = vec![b'x'; PLAIN_BYTES_MAX + 2];
    let many = |record: (u8, &'static [u8]), times| vec![record; times];
    let cases: Vec<(bool, Vec<u8>, ErrorClass, &str)> = vec![
        (true, raw(19, [3, 3], 40, 40), ErrorClass::TlsRecord, "its type is 19"),
        (true, raw(24, [3, 3], 40, 40), ErrorClass::TlsRecord, "its type is 24"),
        (true, raw(DATA, [4, 3], 40, 40), ErrorClass::TlsRecord, "its version is 0x0403"),
        (true, raw(DATA, [3, 3], 18_432, 0), ErrorClass::TlsRecord, "its length is 18432 bytes, but"),
        (true, raw(DATA, [3, 3], 15, 15), ErrorClass::TlsRecord, "its length is 15 bytes, too few"),
        (true, raw(DATA, [3, 3], 0, 0), ErrorClass::TlsRecord, "its length is 0 bytes, too few"),
        (false, raw(DATA, [3, 3], 23, 23), ErrorClass::TlsRecord, "its length is 23 bytes, too few"),
        (true, raw(DATA, [3, 3], 40, 40), ErrorClass::TlsRecord, "cannot be decrypted"),
        (true, changed, ErrorClass::TlsRecord, "cannot be decrypted"),
        (false, changed12, ErrorClass::TlsRecord, "cannot be decrypted"),
        (true, from_server(false, data), ErrorClass::TlsRecord, "cannot be decrypted"),
        (true, raw(ALERT, [3, 3], 2, 2), ErrorClass::TlsRecord, "of type 21 and not protected"),
        (true, raw(CHANGE_CIPHER_SPEC, [3, 3], 1, 1), ErrorClass::TlsRecord, "of type 20 and not protected"),
        (false, raw(CHANGE_CIPHER_SPEC, [3, 3], 1, 1), ErrorClass::TlsRecord, "of type 20 and not protected"),
        (true, from_server(true, &[(0, &[0; 9])]), ErrorClass::TlsRecord, "padding and no type"),
        (
            true,
            from_server(true, &[(CHANGE_CIPHER_SPEC, &[1])]),
            ErrorClass::TlsRecord,
            "unexpected message of type 20",
        ),
        (true, oversized(true, &too_much), ErrorClass::TlsRecord, "holds 16387 bytes"),
        (false, oversized(false, &too_much[1..]), ErrorClass::TlsRecord, "holds 16385 bytes"),
        (true, from_server(true, &[(ALERT, &[2, 40])]), ErrorClass::TlsIncompatible, "handshake_failure"),
        (true, from_server(true, &[(ALERT, &[1, 80])]), ErrorClass::TlsHandshake, "internal_error"),
        (true, from_server(true, &[(ALERT, &[9, 80])]), ErrorClass::TlsHandshake, "internal_error"),
        (true, from_server(true, &[(ALERT, &[2])]), ErrorClass::TlsRecord, "AlertMessagePayload"),
        (
            false,
            from_server(false, &many((ALERT, &[1, 80]), 5)),
            ErrorClass::TlsHandshake,
            "TooManyWarningAlerts",
        ),
        (
            true,
            from_server(true, &[(HANDSHAKE, &[24, 0, 0, 1, 2])]),
            ErrorClass::TlsRecord,
            "InvalidKeyUpdate",
        ),
        (
            true,
            from_server(true, &[(HANDSHAKE, &[24, 0, 0, 2, 1, 1])]),
            ErrorClass::TlsRecord,
            "InvalidKeyUpdate",
        ),
        (true, from_server(true, &[(HANDSHAKE, &[24, 0, 0, 1, 0, 4])]), ErrorClass::TlsHandshake, "KeyEpoch"),
        (
            true,
            from_server(true, &[(HANDSHAKE, &[13, 0, 0, 0])]),
            ErrorClass::TlsHandshake,
            "CertificateRequest",
        ),
        (
            true,
            from_server(true, &[(HANDSHAKE, &[4, 1, 0, 0])]),
            ErrorClass::TlsRecord,
            "HandshakePayloadTooLarge",
        ),
        (
            true,
            from_server(true, &[(HANDSHAKE, &[4, 0]), (DATA, b"x")]),
            ErrorClass::TlsHandshake,
            "Interleaved",
        ),
        (
            true,
            from_server(true, &[(HANDSHAKE, &[4, 0]), (ALERT, &[1, 0])]),
            ErrorClass::TlsHandshake,
            "Interleaved",
        ),
        (
            false,
            from_server(false, &[(HANDSHAKE, &[4, 0, 0, 0])]),
            ErrorClass::TlsHandshake,
            "NewSessionTicket",
        ),
        (false, from_server(false, &[(HANDSHAKE, &[24, 0, 0, 1, 0])]), ErrorClass::TlsHandshake, "KeyUpdate"),
        (
            false,
            from_server(false, &many((HANDSHAKE, &[0, 0, 0, 0]), 2)),
            ErrorClass::TlsHandshake,
            "TooManyRenegotiation",
        ),
        (true, key_updates(33), ErrorClass::TlsHandshake, "TooManyKeyUpdate"),
        (true, empty(33), ErrorClass::TlsHandshake, "TooManyEmpty"),
    ];
    for (is_tls13, wire, class, part) in cases {
        let head = wire.len().min(5);
        for cut in [0, 1, head, wire.len() / 2, wire.len()] {
            let fault = hear(&mut client(is_tls13), &wire, cut).expect_err(part);
            let (found, text) = failure::of_traffic(&fault, "the client offered X");
            assert!(found == class && text.contains(part), "{part} {cut}: {found:?}, {text}");
        }
    }
}

/// A record that holds more than it may.
fn oversized(is_tls13: bool, plain: &[u8]) -> Vec<u8> {
    let mut wire = Vec::new();
    keys(is_tls13, SERVER, 0).seal_any(DATA, plain, &mut wire);
    wire
}

/// Records without content.
fn empty(times: usize) -> Vec<u8> {
    let mut server = keys(true, SERVER, 0);
    let mut wire = Vec::new();
    (0..times).for_each(|_| server.seal_any(DATA, &[], &mut wire));
    wire
}

/// New keys again and again, each asking for an answer.
fn key_updates(times: u8) -> Vec<u8> {
    let mut wire = Vec::new();
    (0..times)
        .for_each(|number| keys(true, SERVER, 4 * number).seal(HANDSHAKE, &[24, 0, 0, 1, 1], &mut wire));
    wire
}

#[test]
fn allowed_behaviour_is_no_error() {
    for (is_tls13, wire) in [
        (true, key_updates(32)),
        (true, empty(32)),
        (true, from_server(true, &[(ALERT, &[1, 90]), (ALERT, &[1, 90])])),
        (false, from_server(false, &[(ALERT, &[1, 80]), (ALERT, &[1, 90])])),
    ] {
        let mut client = client(is_tls13);
        assert_eq!(hear(&mut client, &wire, 3).unwrap(), b"");
        assert!(!client.must_send() && !client.was_close_heard());
    }
}

/// TLS 1.2: a server that asks for another handshake is refused.
#[test]
fn a_renegotiation_is_refused_once() {
    let mut client = client(false);
    hear(&mut client, &from_server(false, &[(HANDSHAKE, &[0, 0, 0, 0])]), 0).unwrap();
    assert!(client.must_send());
    let (mut wire, mut scratch) = (Vec::new(), Scratch::default());
    client.seal(&[], &mut wire);
    assert_eq!(keys(false, CLIENT, 0).open(&wire, &mut scratch), Ok((ALERT, 2)));
    assert_eq!((scratch.opened(2), client.must_send()), (&[1, 100][..], false));
}

/// Buffers of incomplete records are shared: a connection keeps none between records.
#[test]
fn buffers_are_shared() {
    let wire = from_server(true, &[(DATA, &[b'x'; 5000])]);
    let mut scratch = Scratch::default();
    let mut clients: Vec<Traffic<Made>> = (0..3).map(|_| client(true)).collect();
    for client in &mut clients {
        client.unseal(&wire[..4000], &mut scratch).unwrap();
        client.unseal(&wire[4000..], &mut scratch).unwrap();
    }
    assert_eq!(scratch.plain().len(), 15_000);
    assert_eq!(scratch.spares(), 1);
}
