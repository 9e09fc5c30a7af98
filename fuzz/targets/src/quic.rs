//! What a QUIC server may send to a client whose keys are known here. An input is a list of steps: a kind, a length of two bytes, and
//! that many bytes. Kinds below 128 are frames in an authentic packet; the others are raw datagrams, the client's own actions, and time
//! that passes.

use std::collections::HashMap;

use webstone_engine::quic::{Connection, Events, Stream, frames, fuzzing};

const MS: u64 = 1_000_000;
/// Nothing larger is sent, as no probe of the path is acknowledged here.
const DATAGRAM_BYTES_MAX: usize = 1200;

/// Streams that something was told of, and whether they are over.
#[derive(Default)]
struct Told(HashMap<u64, bool>);

impl Events for Told {
    fn data(&mut self, stream: Stream, bytes: &[u8], is_last: bool) {
        assert!(is_last || !bytes.is_empty());
        self.end(stream, is_last);
    }

    fn reset(&mut self, stream: Stream, _: u64) {
        self.end(stream, true);
    }
}

impl Told {
    /// Nothing is told of a stream after its end.
    fn end(&mut self, stream: Stream, is_over: bool) {
        let was_over = self.0.insert(stream.id, is_over);
        assert_ne!(was_over, Some(true), "{stream:?}");
    }
}

/// Identities of the counts hold after every step, and the client sends no datagram that is too long, and never endlessly.
pub(crate) fn quic(data: &[u8]) {
    read_frames(data);
    let mut client = fuzzing::confirmed();
    let (mut told, mut number, mut now_ns) = (Told::default(), 0, 0);
    let mut rest = data;
    while let [kind, high, low, after @ ..] = rest {
        let length = usize::from(u16::from_be_bytes([*high, *low])).min(after.len());
        let (content, after) = after.split_at(length);
        rest = after;
        match kind {
            0..128 => {
                // Numbers may be left out.
                number += u64::from(kind >> 5);
                let mut packet = fuzzing::packet(number, content);
                number += 1;
                // Too short for a packet's protection.
                if content.len() >= 4 {
                    client.hear(now_ns, &mut packet, kind & 3, &mut told);
                }
            }
            128..160 => client.hear(now_ns, &mut content.to_vec(), kind & 3, &mut told),
            160..192 => {
                if let Some(stream) = client.open_bi(7) {
                    let taken = client.write(stream, content, kind & 1 == 1);
                    assert!(taken == content.len());
                }
            }
            192..208 => client.reset(u64::from(kind & 15) * 4, 1),
            208..216 => _ = client.open_uni(0).map(|stream| client.write(stream, content, false)),
            216..254 => {
                now_ns = client
                    .due_ns()
                    .unwrap_or(0)
                    .clamp(now_ns + u64::from(kind - 216) * MS, now_ns + 60_000 * MS);
                client.timeout(now_ns);
            }
            254.. => client.close(1, "done"),
        }
        fuzzing::check(&client);
        pack(&mut client, now_ns);
    }
}

fn pack(client: &mut Connection, now_ns: u64) {
    let mut out = [0; 4 * DATAGRAM_BYTES_MAX];
    for _ in 0..1000 {
        let Some(packed) = client.pack(now_ns, &mut out) else { return };
        assert!(packed.bytes > 0 && packed.segment <= DATAGRAM_BYTES_MAX && packed.segment <= packed.bytes);
        fuzzing::check(client);
    }
    panic!("a client that does not stop sending");
}

/// Every frame takes bytes; the numbers of an acknowledgement fall.
fn read_frames(data: &[u8]) {
    let mut rest = data;
    while !rest.is_empty() {
        let before = rest.len();
        let Ok(frame) = frames::next(&mut rest) else { return };
        assert!(rest.len() < before);
        if let frames::Frame::Ack(ack) = frame {
            let mut above = u64::MAX;
            for (low, high) in ack.ranges() {
                assert!(low <= high && high < above);
                above = low;
            }
        }
    }
}
