//! What misbehaving clients send in HTTP/2, and what the first frames of an answer say. Bytes in, bytes out.

use webstone_engine::h2::frames::{
    self, FRAME_BYTES_MAX, Head, Reader, Step, WINDOW_BYTES, code, flag, header_block, kind, number, setting,
};
use webstone_engine::h2::hpack::decoder::Decoder;
use webstone_engine::h2::hpack::encoder::{Literal, field};

use super::misdeeds::Reply;

/// The stream of every request.
const STREAM: u32 = 1;
/// Number of malformed requests.
pub(super) const MALFORMED: u64 = 14;

/// Preface, settings, and a request for a path.
pub(super) fn request(host: &str, path: &str, is_secure: bool) -> Vec<u8> {
    let mut out = begun();
    headers(
        &block(host, path, is_secure, &[("user-agent", "webstone-workout"), ("accept", "*/*")]),
        &mut out,
    );
    out
}

/// A request with a header field of this many bytes, in HEADERS and its CONTINUATION frames, piece by piece.
pub(super) fn oversized(host: &str, is_secure: bool, bytes: usize) -> Vec<Vec<u8>> {
    let value = "a".repeat(bytes);
    let mut fields = block(host, "/", is_secure, &[]);
    // Without Huffman coding, which would make it shorter.
    fields.push(0);
    fields.extend_from_slice(b"\x0bx-oversized");
    webstone_engine::h2::hpack::encoder::integer(0, 7, value.len(), &mut fields);
    fields.extend_from_slice(value.as_bytes());
    let last = fields.len().div_ceil(FRAME_BYTES_MAX) - 1;
    let frame = |(at, piece): (usize, &[u8])| {
        let mut out = if at == 0 { begun() } else { Vec::new() };
        let (of_kind, flags) =
            if at == 0 { (kind::HEADERS, flag::END_STREAM) } else { (kind::CONTINUATION, 0) };
        let end = if at == last { flag::END_HEADERS } else { 0 };
        frames::write_head(piece.len(), of_kind, flags | end, STREAM, &mut out);
        out.extend_from_slice(piece);
        out
    };
    fields.chunks(FRAME_BYTES_MAX).enumerate().map(frame).collect()
}

/// A malformed request, by its number below [`MALFORMED`].
pub(super) fn malformed(number: u64, host: &str, is_secure: bool) -> Vec<u8> {
    let mut out = if number == 0 { Vec::new() } else { begun() };
    let good = || block(host, "/", is_secure, &[]);
    let with = |name: &str, value: &str| block(host, "/", is_secure, &[(name, value)]);
    match number {
        // No preface, and no frame either.
        0 => out.extend_from_slice(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\nnothing of HTTP/2"),
        // Frames on the connection that belong to a stream, and the other way round.
        1 => frame(kind::DATA, flag::END_STREAM, 0, b"hello", &mut out),
        2 => frame(kind::HEADERS, flag::END_HEADERS | flag::END_STREAM, 0, &good(), &mut out),
        3 => frame(kind::PING, 0, STREAM, &[0; 8], &mut out),
        // A stream that only the server may begin.
        4 => frame(kind::HEADERS, flag::END_HEADERS | flag::END_STREAM, 2, &good(), &mut out),
        // Lengths that the types cannot have.
        5 => frame(kind::SETTINGS, 0, 0, &[0; 5], &mut out),
        6 => frame(kind::WINDOW_UPDATE, 0, 0, &[0; 3], &mut out),
        // Longer than the server has allowed.
        7 => frame(kind::HEADERS, flag::END_HEADERS, STREAM, &vec![0; 1 << 20], &mut out),
        // A window that grows by nothing, and one that grows too large.
        8 => frames::write_numbers(kind::WINDOW_UPDATE, 0, &[0], &mut out),
        9 => {
            frames::write_numbers(kind::WINDOW_UPDATE, 0, &[frames::WINDOW_BYTES_MAX], &mut out);
            frames::write_numbers(kind::WINDOW_UPDATE, 0, &[frames::WINDOW_BYTES_MAX], &mut out);
        }
        // The rest of a header block that never began.
        10 => frame(kind::CONTINUATION, flag::END_HEADERS, STREAM, &good(), &mut out),
        // An entry of a table that is empty.
        11 => headers(&[0xff, 0x80, 0x01], &mut out),
        // Fields that HTTP/2 does not allow.
        12 => headers(&with("connection", "keep-alive"), &mut out),
        _ => headers(&with("X-Upper", "case"), &mut out),
    }
    out
}

/// Preface and settings.
fn begun() -> Vec<u8> {
    let mut out = frames::PREFACE.to_vec();
    frames::write_settings(
        [(setting::ENABLE_PUSH, 0), (setting::INITIAL_WINDOW_SIZE, WINDOW_BYTES)],
        &mut out,
    );
    out
}

fn block(host: &str, path: &str, is_secure: bool, more: &[(&str, &str)]) -> Vec<u8> {
    let mut out = Vec::new();
    let scheme = if is_secure { "https" } else { "http" };
    let fields = [(":method", "GET"), (":scheme", scheme), (":authority", host), (":path", path)];
    for (name, value) in fields.iter().chain(more) {
        field(name, value.as_bytes(), Literal::Plain, &mut out);
    }
    out
}

fn headers(block: &[u8], out: &mut Vec<u8>) {
    frame(kind::HEADERS, flag::END_HEADERS | flag::END_STREAM, STREAM, block, out);
}

fn frame(of_kind: u8, flags: u8, stream: u32, payload: &[u8], out: &mut Vec<u8>) {
    frames::write_head(payload.len(), of_kind, flags, stream, out);
    out.extend_from_slice(payload);
}

/// What a server sends on a connection, as far as it shows whether it answered.
pub(super) struct Answer {
    reader: Reader,
    decoder: Decoder,
    /// Its first reply to the request.
    pub(super) reply: Option<Reply>,
    /// Nothing more of the answer comes.
    pub(super) is_whole: bool,
}

impl Answer {
    pub(super) fn new() -> Answer {
        Answer { reader: Reader::default(), decoder: Decoder::default(), reply: None, is_whole: false }
    }

    /// Takes bytes that came.
    pub(super) fn take(&mut self, input: &[u8]) {
        let mut rest = input;
        while !rest.is_empty() && !self.is_whole {
            let Ok((used, step)) = self.reader.step(rest) else {
                // Such as HTTP/1 in reply to a wrong preface.
                self.reply.get_or_insert(Reply::Closed);
                self.is_whole = true;
                return;
            };
            match step {
                Step::Frame(head, payload) => {
                    if self.reply.is_none() {
                        self.reply = reply(&mut self.decoder, &head, payload);
                    }
                    let is_last = head.kind == kind::HEADERS && head.has(flag::END_STREAM);
                    self.is_whole = is_last || self.reply == Some(Reply::Closed);
                }
                Step::Data { ends, .. } => self.is_whole = ends == Some(true),
                Step::NeedMore => {}
            }
            rest = &rest[used..];
        }
    }
}

fn reply(decoder: &mut Decoder, head: &Head, payload: &[u8]) -> Option<Reply> {
    match head.kind {
        // Heads longer than a frame show nothing more.
        kind::HEADERS => {
            let fields = decoder.decode(header_block(head, payload).ok()?).ok()?;
            (fields.status >= 200).then_some(Reply::Status(fields.status))
        }
        kind::RST_STREAM => Some(Reply::Closed),
        kind::GOAWAY if number(&payload[4..]) != code::NO_ERROR => Some(Reply::Closed),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use webstone_engine::h2::frames::HEAD_BYTES;

    /// The frames after the preface: type, flags, stream, payload.
    fn frames_of(bytes: &[u8]) -> Vec<(u8, u8, u32, Vec<u8>)> {
        let mut rest = bytes.strip_prefix(frames::PREFACE).unwrap();
        let mut found = Vec::new();
        while rest.len() >= HEAD_BYTES {
            let length = number(&[0, rest[0], rest[1], rest[2]]) as usize;
            let payload = rest[HEAD_BYTES..HEAD_BYTES + length].to_vec();
            found.push((rest[3], rest[4], number(&rest[5..9]), payload));
            rest = &rest[HEAD_BYTES + length..];
        }
        assert!(rest.is_empty());
        found
    }

    fn text_of(block: &[u8]) -> String {
        let mut text = Vec::new();
        Decoder::with_text().decode_text(block, &mut text).unwrap();
        String::from_utf8(text).unwrap().replace('\r', "")
    }

    #[test]
    fn a_request_names_host_path_and_scheme() {
        for (is_secure, scheme) in [(false, "http"), (true, "https")] {
            let found = frames_of(&request("example:1", "/file", is_secure));
            assert_eq!(found.len(), 2);
            assert_eq!((found[0].0, found[0].2), (kind::SETTINGS, 0));
            assert_eq!(
                (found[1].0, found[1].1, found[1].2),
                (kind::HEADERS, flag::END_HEADERS | flag::END_STREAM, 1)
            );
            let text = text_of(&found[1].3);
            let expected = format!(":method: GET\n:scheme: {scheme}\n:authority: example:1\n:path: /file\n");
            assert!(text.starts_with(&expected), "{text}");
        }
    }

    #[test]
    fn an_oversized_field_comes_in_frames_of_the_usual_length() {
        let pieces = oversized("h", false, 1 << 20);
        let found = frames_of(&pieces.concat());
        let (settings, block) = found.split_first().unwrap();
        assert_eq!((settings.0, block[0].0, block.len()), (kind::SETTINGS, kind::HEADERS, 65));
        assert!(block[1..].iter().all(|frame| frame.0 == kind::CONTINUATION));
        let ends: Vec<bool> = block.iter().map(|frame| frame.1 & flag::END_HEADERS > 0).collect();
        assert!(ends[64] && !ends[..64].contains(&true));
        let whole: Vec<u8> = block.iter().flat_map(|frame| frame.3.clone()).collect();
        assert_eq!(
            text_of(&whole).len(),
            text_of(&block_of_nothing()).len() + "x-oversized: \n".len() + (1 << 20)
        );
    }

    fn block_of_nothing() -> Vec<u8> {
        block("h", "/", false, &[])
    }

    #[test]
    fn each_malformed_one_is_another_and_none_a_request() {
        let all: Vec<Vec<u8>> = (0..MALFORMED).map(|kind| malformed(kind, "h", false)).collect();
        for (at, one) in all.iter().enumerate() {
            assert!(!all[..at].contains(one), "{at}");
            assert_ne!(*one, request("h", "/", false));
        }
        assert!(!all[0].starts_with(&frames::PREFACE[..1]));
        assert!(all[1..].iter().all(|one| one.starts_with(&begun()) && one.len() > begun().len()));
    }

    #[test]
    fn what_a_server_says_is_told() {
        let said = |frames: &[(u8, u32, &[u8])]| {
            let mut bytes = Vec::new();
            frames::write_settings([], &mut bytes);
            for (of_kind, stream, payload) in frames {
                frame(*of_kind, flag::END_HEADERS, *stream, payload, &mut bytes);
            }
            // However it is cut.
            let replies = [1, 7, bytes.len()].map(|piece| {
                let mut answer = Answer::new();
                bytes.chunks(piece).for_each(|piece| answer.take(piece));
                answer.reply
            });
            assert!(replies[0] == replies[1] && replies[1] == replies[2], "{replies:?}");
            replies[0]
        };
        let status = |status: &str| {
            let mut block = Vec::new();
            field(":status", status.as_bytes(), Literal::Plain, &mut block);
            block
        };
        assert_eq!(said(&[(kind::HEADERS, 1, &status("200"))]), Some(Reply::Status(200)));
        assert_eq!(said(&[(kind::HEADERS, 1, &status("431"))]), Some(Reply::Status(431)));
        let interim = said(&[(kind::HEADERS, 1, &status("103")), (kind::HEADERS, 1, &status("404"))]);
        assert_eq!(interim, Some(Reply::Status(404)));
        assert_eq!(said(&[(kind::RST_STREAM, 1, &[0, 0, 0, 1])]), Some(Reply::Closed));
        assert_eq!(said(&[(kind::GOAWAY, 0, &[0, 0, 0, 0, 0, 0, 0, 1])]), Some(Reply::Closed));
        assert_eq!(said(&[(kind::GOAWAY, 0, &[0; 8])]), None);
        assert_eq!(said(&[(kind::PING, 0, &[0; 8])]), None);
        let (mut whole, mut bytes) = (Answer::new(), Vec::new());
        frames::write_settings([], &mut bytes);
        frame(kind::HEADERS, flag::END_HEADERS, 1, &status("200"), &mut bytes);
        whole.take(&bytes);
        assert!(!whole.is_whole && whole.reply == Some(Reply::Status(200)));
        let mut body = Vec::new();
        frame(kind::DATA, flag::END_STREAM, 1, b"hello", &mut body);
        body.chunks(3).for_each(|piece| whole.take(piece));
        assert!(whole.is_whole);
        let mut plain = Answer::new();
        plain.take(b"HTTP/1.1 400 Bad Request\r\n\r\n");
        assert_eq!(plain.reply, Some(Reply::Closed));
    }
}
