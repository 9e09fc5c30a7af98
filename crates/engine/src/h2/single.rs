//! One HTTP/2 request on its own connection, for the probe: bytes in, bytes out.

use webstone_measure::errors::ErrorClass;

use super::frames::{self, Reader, Step, code, flag, kind, number};
use super::hpack::decoder::Decoder;
use super::request::{Builder, Variant};
use crate::h1::request::RequestParts;
use crate::plan_error::PlanError;

/// The only stream.
const STREAM: u32 = 1;
/// Maximum length of a header block, in bytes.
const BLOCK_BYTES_MAX: usize = 256 * 1024;

/// See the module comment.
pub(crate) struct Single {
    reader: Reader,
    decoder: Decoder,
    block: Vec<u8>,
    is_block_last: bool,
    has_settings: bool,
    /// The part of the body not sent yet.
    body: Vec<u8>,
    /// Bytes that the server accepts, on the connection and on the stream; negative after it has reduced its windows.
    windows: [i64; 2],
    /// Window that the server's settings give a stream.
    window_initial: i64,
    /// Bytes to send.
    pub(crate) out: Vec<u8>,
    pub(crate) status: u16,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body_bytes: u64,
    pub(crate) wire_bytes: u64,
    pub(crate) is_done: bool,
}

/// Why there is no answer.
pub(crate) type Failed = (ErrorClass, String);

impl Single {
    /// Prepares a request, and as much of its body as the default windows allow.
    pub(crate) fn new(parts: &RequestParts<'_>, scheme: &str) -> Result<Single, PlanError> {
        let mut builder = Builder::default();
        builder.add("a probe", 0, scheme, false, parts)?;
        let requests = builder.finish()?;
        let mut block = Vec::new();
        requests.block(0, Variant::Plain, &[], &mut block);
        let mut out = frames::PREFACE.to_vec();
        let window = frames::WINDOW_BYTES_MAX / 2;
        frames::write_settings(
            [(frames::setting::ENABLE_PUSH, 0), (frames::setting::INITIAL_WINDOW_SIZE, window)],
            &mut out,
        );
        frames::write_numbers(kind::WINDOW_UPDATE, 0, &[window], &mut out);
        let body = requests.body(0, &[]).to_vec();
        let end_stream = if body.is_empty() { flag::END_STREAM } else { 0 };
        let last = block.len().div_ceil(frames::FRAME_BYTES_MAX) - 1;
        for (at, piece) in block.chunks(frames::FRAME_BYTES_MAX).enumerate() {
            let of_kind = if at == 0 { kind::HEADERS } else { kind::CONTINUATION };
            let end = if at == last { flag::END_HEADERS } else { 0 };
            frames::write_head(
                piece.len(),
                of_kind,
                end | if at == 0 { end_stream } else { 0 },
                STREAM,
                &mut out,
            );
            out.extend_from_slice(piece);
        }
        let mut single = Single {
            reader: Reader::default(),
            decoder: Decoder::with_text(),
            block: Vec::new(),
            is_block_last: false,
            has_settings: false,
            body,
            windows: [i64::from(frames::WINDOW_BYTES); 2],
            window_initial: i64::from(frames::WINDOW_BYTES),
            out,
            status: 0,
            headers: Vec::new(),
            body_bytes: 0,
            wire_bytes: 0,
            is_done: false,
        };
        single.send_body();
        Ok(single)
    }

    /// Buffers as much of the body as the server's windows allow (RFC 9113, section 5.2).
    fn send_body(&mut self) {
        while !self.body.is_empty() {
            let room = self.windows[0].min(self.windows[1]).clamp(0, frames::FRAME_BYTES_MAX as i64);
            let piece = self.body.len().min(room as usize);
            if piece == 0 {
                return;
            }
            self.windows = self.windows.map(|window| window - piece as i64);
            let ends = if piece == self.body.len() { flag::END_STREAM } else { 0 };
            frames::write_head(piece, kind::DATA, ends, STREAM, &mut self.out);
            self.out.extend(self.body.drain(..piece));
        }
    }

    /// Takes received bytes, and passes those of the body to `each`.
    pub(crate) fn take(&mut self, input: &[u8], each: &mut dyn FnMut(&[u8])) -> Result<(), Failed> {
        self.wire_bytes += input.len() as u64;
        let mut reader = std::mem::take(&mut self.reader);
        let mut rest = input;
        while !rest.is_empty() && !self.is_done {
            let (used, step) = match reader.step(rest) {
                Ok(step) => step,
                Err(_) if self.has_settings => {
                    return Err((
                        ErrorClass::H2FrameSize,
                        "a frame of a length that its type cannot have".to_owned(),
                    ));
                }
                Err(_) => {
                    let front = if reader.held().is_empty() { rest } else { reader.held() };
                    let how = if front.starts_with(b"HTTP/") {
                        "it answers with HTTP/1"
                    } else {
                        "it sends something else"
                    };
                    let what = format!("the server does not speak HTTP/2 on this port: {how}");
                    return Err((ErrorClass::H2NotSpoken, what));
                }
            };
            match step {
                Step::NeedMore => {}
                Step::Frame(head, payload) => self.frame(&head, payload)?,
                Step::Data { stream: STREAM, piece, counted, ends, .. } => {
                    self.body_bytes += piece.len() as u64;
                    each(piece);
                    if counted > 0 {
                        frames::write_numbers(kind::WINDOW_UPDATE, 0, &[counted], &mut self.out);
                        frames::write_numbers(kind::WINDOW_UPDATE, STREAM, &[counted], &mut self.out);
                    }
                    self.is_done |= ends == Some(true);
                }
                Step::Data { .. } => {}
            }
            rest = &rest[used..];
        }
        self.reader = reader;
        self.send_body();
        Ok(())
    }

    fn frame(&mut self, head: &frames::Head, payload: &[u8]) -> Result<(), Failed> {
        match head.kind {
            kind::SETTINGS if !head.has(flag::ACK) => {
                self.has_settings = true;
                for setting in payload.chunks_exact(6) {
                    if u16::from_be_bytes([setting[0], setting[1]]) == frames::setting::INITIAL_WINDOW_SIZE {
                        let window = i64::from(number(&setting[2..]));
                        self.windows[1] += window - self.window_initial;
                        self.window_initial = window;
                    }
                }
                frames::write_head(0, kind::SETTINGS, flag::ACK, 0, &mut self.out);
            }
            kind::PING if !head.has(flag::ACK) => {
                frames::write_head(8, kind::PING, flag::ACK, 0, &mut self.out);
                self.out.extend_from_slice(payload);
            }
            kind::GOAWAY if number(&payload[4..]) != code::NO_ERROR => {
                let why = code::name(number(&payload[4..]));
                return Err((
                    ErrorClass::H2Goaway,
                    format!("the server ended the connection (GOAWAY): {why}"),
                ));
            }
            kind::WINDOW_UPDATE if head.stream <= STREAM => {
                self.windows[head.stream as usize] += i64::from(number(payload) & frames::WINDOW_BYTES_MAX);
            }
            // A whole answer may come before the body was sent (RFC 9113, section 8.1).
            kind::RST_STREAM if head.stream == STREAM && self.is_done => {}
            kind::RST_STREAM if head.stream == STREAM => {
                let why = code::name(number(payload));
                return Err((
                    ErrorClass::H2Reset,
                    format!("the server reset the stream (RST_STREAM): {why}"),
                ));
            }
            kind::HEADERS if head.stream == STREAM => {
                let block = frames::header_block(head, payload).map_err(|_| {
                    (ErrorClass::H2Protocol, "a frame with more padding than payload".to_owned())
                })?;
                self.block.extend_from_slice(block);
                self.is_block_last = head.has(flag::END_STREAM);
                if head.has(flag::END_HEADERS) {
                    self.decode()?;
                }
            }
            kind::CONTINUATION => {
                self.block.extend_from_slice(payload);
                if self.block.len() > BLOCK_BYTES_MAX {
                    return Err((ErrorClass::H2Flood, "a header block of more than 256 KiB".to_owned()));
                }
                if head.has(flag::END_HEADERS) {
                    self.decode()?;
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn decode(&mut self) -> Result<(), Failed> {
        let block = std::mem::take(&mut self.block);
        let mut text = Vec::new();
        let fields = self
            .decoder
            .decode_text(&block, &mut text)
            .map_err(|error| (ErrorClass::H2Compression, error.0.to_owned()))?;
        if let Some(problem) = fields.problem {
            return Err((ErrorClass::H2Protocol, problem.to_owned()));
        }
        // Interim heads are ignored; trailers have no status.
        if fields.status >= 200 {
            self.status = fields.status;
            let text = String::from_utf8_lossy(&text);
            let pairs = text.lines().filter_map(|line| line.split_once(": "));
            self.headers = pairs.skip(1).map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
        }
        self.is_done |= self.is_block_last && fields.status != 100;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use webstone_workload::load::HttpVersion;

    /// Bytes of the body in the frames to send, and whether the last frame ends the stream.
    fn data(out: &[u8]) -> (usize, bool) {
        let (mut at, mut bytes, mut ends) = (0, 0, false);
        while at < out.len() {
            let length = u32::from_be_bytes([0, out[at], out[at + 1], out[at + 2]]) as usize;
            if out[at + 3] == kind::DATA {
                bytes += length;
                ends = out[at + 4] & flag::END_STREAM != 0;
            }
            at += frames::HEAD_BYTES + length;
        }
        (bytes, ends)
    }

    #[test]
    fn a_body_is_sent_as_the_windows_have_room() {
        let body = vec![b'x'; 100_000];
        let parts = RequestParts {
            method: "POST",
            target: "/",
            host: "h",
            version: HttpVersion::Http2,
            headers: &[],
            body: Some(&body),
            last: true,
            body_later: false,
        };
        let mut single = Single::new(&parts, "http").unwrap();
        assert_eq!(data(&single.out[frames::PREFACE.len()..]), (65_535, false));
        let mut told = |input: &[u8]| {
            single.out.clear();
            single.take(input, &mut |_| {}).unwrap();
            data(&single.out)
        };
        let mut update = Vec::new();
        frames::write_settings([(frames::setting::INITIAL_WINDOW_SIZE, 60_000)], &mut update);
        frames::write_numbers(kind::WINDOW_UPDATE, 0, &[1 << 20], &mut update);
        // The stream's window was made smaller than what was sent already.
        assert_eq!(told(&update), (0, false));
        update.clear();
        frames::write_numbers(kind::WINDOW_UPDATE, STREAM, &[5_535 + 1_000], &mut update);
        assert_eq!(told(&update), (1_000, false));
        update.clear();
        frames::write_numbers(kind::WINDOW_UPDATE, STREAM, &[1 << 20], &mut update);
        assert_eq!(told(&update), (100_000 - 66_535, true));
    }
}
