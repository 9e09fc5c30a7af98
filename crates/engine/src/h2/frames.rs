//! Frames of HTTP/2 (RFC 9113 sections 4 and 6): read from a stream that comes in pieces, and written.
//!
//! Bodies are passed on as they come, all other frames as a whole. The session decides what frames mean.

/// Length of a frame's header, in bytes.
pub const HEAD_BYTES: usize = 9;
/// Maximum payload of a frame, in bytes, unless SETTINGS_MAX_FRAME_SIZE says otherwise.
pub const FRAME_BYTES_MAX: usize = 16_384;
/// The connection preface of a client.
pub const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
/// Initial flow-control window of a connection, and default of a stream, in bytes.
pub const WINDOW_BYTES: u32 = 65_535;
/// Largest window.
pub const WINDOW_BYTES_MAX: u32 = (1 << 31) - 1;

/// Types of frames.
#[expect(missing_docs, reason = "named as in RFC 9113 section 6")]
pub mod kind {
    pub const DATA: u8 = 0;
    pub const HEADERS: u8 = 1;
    pub const PRIORITY: u8 = 2;
    pub const RST_STREAM: u8 = 3;
    pub const SETTINGS: u8 = 4;
    pub const PUSH_PROMISE: u8 = 5;
    pub const PING: u8 = 6;
    pub const GOAWAY: u8 = 7;
    pub const WINDOW_UPDATE: u8 = 8;
    pub const CONTINUATION: u8 = 9;
}

/// Flags of frames.
#[expect(missing_docs, reason = "named as in RFC 9113 section 6")]
pub mod flag {
    pub const END_STREAM: u8 = 1;
    pub const ACK: u8 = 1;
    pub const END_HEADERS: u8 = 4;
    pub const PADDED: u8 = 8;
    pub const PRIORITY: u8 = 32;
}

/// Identifiers of settings.
#[expect(missing_docs, reason = "named as in RFC 9113 section 6.5.2")]
pub mod setting {
    pub const HEADER_TABLE_SIZE: u16 = 1;
    pub const ENABLE_PUSH: u16 = 2;
    pub const MAX_CONCURRENT_STREAMS: u16 = 3;
    pub const INITIAL_WINDOW_SIZE: u16 = 4;
    pub const MAX_FRAME_SIZE: u16 = 5;
    pub const MAX_HEADER_LIST_SIZE: u16 = 6;
}

/// Error codes.
#[expect(missing_docs, reason = "named as in RFC 9113 section 7")]
pub mod code {
    pub const NO_ERROR: u32 = 0;
    pub const PROTOCOL_ERROR: u32 = 1;
    pub const FLOW_CONTROL_ERROR: u32 = 3;
    pub const FRAME_SIZE_ERROR: u32 = 6;
    pub const REFUSED_STREAM: u32 = 7;
    pub const CANCEL: u32 = 8;
    pub const COMPRESSION_ERROR: u32 = 9;
    pub const ENHANCE_YOUR_CALM: u32 = 11;

    /// The name of a code.
    pub fn name(code: u32) -> &'static str {
        const NAMES: [&str; 14] = [
            "NO_ERROR",
            "PROTOCOL_ERROR",
            "INTERNAL_ERROR",
            "FLOW_CONTROL_ERROR",
            "SETTINGS_TIMEOUT",
            "STREAM_CLOSED",
            "FRAME_SIZE_ERROR",
            "REFUSED_STREAM",
            "CANCEL",
            "COMPRESSION_ERROR",
            "CONNECT_ERROR",
            "ENHANCE_YOUR_CALM",
            "INADEQUATE_SECURITY",
            "HTTP_1_1_REQUIRED",
        ];
        NAMES.get(code as usize).copied().unwrap_or("an unknown error code")
    }
}

/// The header of a frame.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Head {
    /// Bytes after the head.
    pub length: usize,
    /// One of [`kind`], or unknown.
    pub kind: u8,
    /// Bits of [`flag`].
    pub flags: u8,
    /// The stream; 0 for the connection.
    pub stream: u32,
}

impl Head {
    fn read(bytes: &[u8; HEAD_BYTES]) -> Head {
        Head {
            length: usize::from(bytes[0]) << 16 | usize::from(bytes[1]) << 8 | usize::from(bytes[2]),
            kind: bytes[3],
            flags: bytes[4],
            stream: number(&bytes[5..]) & WINDOW_BYTES_MAX,
        }
    }

    /// Whether it has a flag.
    #[inline]
    pub fn has(&self, flag: u8) -> bool {
        self.flags & flag != 0
    }

    fn length_fits(&self, bytes_max: usize) -> Result<(), FrameError> {
        let fits = match self.kind {
            kind::PING => self.length == 8,
            kind::RST_STREAM | kind::WINDOW_UPDATE => self.length == 4,
            kind::PRIORITY => self.length == 5,
            kind::SETTINGS if self.has(flag::ACK) => self.length == 0,
            kind::SETTINGS => self.length.is_multiple_of(6),
            kind::GOAWAY => self.length >= 8,
            _ => true,
        };
        if self.length > bytes_max {
            return Err(FrameError::Size(match bytes_max {
                FRAME_BYTES_MAX => "a frame of more than 16,384 bytes",
                _ => "a frame of more than our SETTINGS_MAX_FRAME_SIZE",
            }));
        }
        if fits { Ok(()) } else { Err(FrameError::Size("a frame of a length that its type cannot have")) }
    }
}

/// Why bytes are not a valid frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FrameError {
    /// An invalid length.
    Size(&'static str),
    /// Invalid padding.
    Padding,
}

/// What is next in a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step<'a> {
    /// Less than a frame; all of the input was taken.
    NeedMore,
    /// A whole frame other than DATA, with its padding.
    Frame(Head, &'a [u8]),
    /// A piece of a DATA frame.
    Data {
        /// The stream.
        stream: u32,
        /// Bytes of the body; may be empty.
        piece: &'a [u8],
        /// Bytes that this piece takes from the flow-control windows, including padding.
        counted: u32,
        /// Whether the frame begins with this piece.
        is_first: bool,
        /// Set if the frame ends with this piece: whether the body ends, too.
        ends: Option<bool>,
    },
}

/// One direction of a connection.
#[derive(Debug)]
pub struct Reader {
    /// Maximum payload of a frame.
    bytes_max: usize,
    /// The beginning of an incomplete frame.
    held: Vec<u8>,
    /// The held bytes were returned as a frame; the next step drops them.
    is_spent: bool,
    data: Option<Data>,
}

/// A DATA frame that has not arrived completely.
#[derive(Clone, Copy, Debug)]
struct Data {
    stream: u32,
    left: usize,
    padding: usize,
    /// The length of the field that gives the padding's length, unless it was already counted.
    pad_length_bytes: usize,
    ends_stream: bool,
}

impl Default for Reader {
    fn default() -> Reader {
        Reader { bytes_max: FRAME_BYTES_MAX, held: Vec::new(), is_spent: false, data: None }
    }
}

impl Reader {
    /// Sets the maximum payload of a frame, as our SETTINGS_MAX_FRAME_SIZE says.
    pub fn allow(&mut self, bytes_max: usize) {
        self.bytes_max = bytes_max;
    }

    /// A new connection begins.
    pub fn clear(&mut self) {
        self.held.clear();
        self.is_spent = false;
        self.data = None;
    }

    /// The beginning of an incomplete frame.
    pub fn held(&self) -> &[u8] {
        &self.held
    }

    /// Takes from the front of `input`; returns how many bytes, and what they are. Takes at least one byte if there
    /// is one.
    ///
    /// # Errors
    /// If it is not a valid frame. Nothing after it can be read.
    #[inline]
    pub fn step<'a>(&'a mut self, input: &'a [u8]) -> Result<(usize, Step<'a>), FrameError> {
        if self.is_spent {
            self.held.clear();
            self.is_spent = false;
        }
        if self.data.is_some() {
            return Ok(self.body(input, 0, false));
        }
        if !self.held.is_empty() {
            return self.complete(input);
        }
        let Some(bytes) = input.first_chunk::<HEAD_BYTES>() else {
            self.held.extend_from_slice(input);
            return Ok((input.len(), Step::NeedMore));
        };
        let head = Head::read(bytes);
        head.length_fits(self.bytes_max)?;
        if head.kind == kind::DATA {
            let pad_bytes = usize::from(head.has(flag::PADDED));
            if input.len() < HEAD_BYTES + pad_bytes {
                self.held.extend_from_slice(input);
                return Ok((input.len(), Step::NeedMore));
            }
            self.data = Some(data(&head, input.get(HEAD_BYTES).copied())?);
            return Ok(self.body(input, HEAD_BYTES + pad_bytes, true));
        }
        let end = HEAD_BYTES + head.length;
        if input.len() < end {
            self.held.extend_from_slice(input);
            return Ok((input.len(), Step::NeedMore));
        }
        Ok((end, Step::Frame(head, &input[HEAD_BYTES..end])))
    }

    /// Continues a frame of which a part was held.
    #[cold]
    fn complete<'a>(&'a mut self, input: &'a [u8]) -> Result<(usize, Step<'a>), FrameError> {
        let mut used = 0;
        loop {
            let mut due = HEAD_BYTES;
            if let Some(bytes) = self.held.first_chunk::<HEAD_BYTES>() {
                let head = Head::read(bytes);
                head.length_fits(self.bytes_max)?;
                if head.kind == kind::DATA {
                    due += usize::from(head.has(flag::PADDED));
                    if self.held.len() == due {
                        self.data = Some(data(&head, self.held.get(HEAD_BYTES).copied())?);
                        self.held.clear();
                        return Ok(self.body(input, used, true));
                    }
                } else {
                    due += head.length;
                    if self.held.len() == due {
                        self.is_spent = true;
                        return Ok((used, Step::Frame(head, &self.held[HEAD_BYTES..])));
                    }
                }
            }
            let taken = (due - self.held.len()).min(input.len() - used);
            if taken == 0 {
                return Ok((used, Step::NeedMore));
            }
            self.held.extend_from_slice(&input[used..used + taken]);
            used += taken;
        }
    }

    /// Takes a piece of a body, `from` bytes into the input.
    #[inline]
    fn body<'a>(&mut self, input: &'a [u8], from: usize, is_first: bool) -> (usize, Step<'a>) {
        let data = self.data.as_mut().expect("called within a DATA frame");
        let there = input.len() - from;
        let piece = &input[from..from + data.left.min(there)];
        let padding = data.padding.min(there - piece.len());
        data.left -= piece.len();
        data.padding -= padding;
        let counted = piece.len() + padding + std::mem::take(&mut data.pad_length_bytes);
        let is_over = data.left == 0 && data.padding == 0;
        let (stream, ends) = (data.stream, is_over.then_some(data.ends_stream));
        if is_over {
            self.data = None;
        }
        (from + piece.len() + padding, Step::Data { stream, piece, counted: counted as u32, is_first, ends })
    }
}

fn data(head: &Head, pad_length: Option<u8>) -> Result<Data, FrameError> {
    let mut data = Data {
        stream: head.stream,
        left: head.length,
        padding: 0,
        pad_length_bytes: 0,
        ends_stream: head.has(flag::END_STREAM),
    };
    if head.has(flag::PADDED) {
        let padding = usize::from(pad_length.unwrap_or(0));
        data.left = head.length.checked_sub(1 + padding).ok_or(FrameError::Padding)?;
        data.padding = padding;
        data.pad_length_bytes = 1;
    }
    Ok(data)
}

/// The header block in the payload of a HEADERS frame, without padding and priority.
///
/// # Errors
/// If padding and priority would be longer than the payload.
#[inline]
pub fn header_block<'a>(head: &Head, payload: &'a [u8]) -> Result<&'a [u8], FrameError> {
    let mut block = payload;
    if head.has(flag::PADDED) {
        let (padding, rest) = block.split_first().ok_or(FrameError::Padding)?;
        let end = rest.len().checked_sub(usize::from(*padding)).ok_or(FrameError::Padding)?;
        block = &rest[..end];
    }
    if head.has(flag::PRIORITY) {
        block = block.get(5..).ok_or(FrameError::Padding)?;
    }
    Ok(block)
}

/// The 32-bit number at the front of a payload.
///
/// # Panics
/// If the payload is shorter; its length was checked when the frame was read.
#[inline]
pub fn number(payload: &[u8]) -> u32 {
    u32::from_be_bytes([payload[0], payload[1], payload[2], payload[3]])
}

/// Appends the head of a frame.
#[inline]
pub fn write_head(length: usize, kind: u8, flags: u8, stream: u32, out: &mut Vec<u8>) {
    let [_, high, middle, low] = (length as u32).to_be_bytes();
    let [a, b, c, d] = stream.to_be_bytes();
    out.extend_from_slice(&[high, middle, low, kind, flags, a, b, c, d]);
}

/// Appends a frame whose payload is 32-bit numbers: RST_STREAM, WINDOW_UPDATE, GOAWAY.
pub fn write_numbers(kind: u8, stream: u32, numbers: &[u32], out: &mut Vec<u8>) {
    write_head(4 * numbers.len(), kind, 0, stream, out);
    numbers.iter().for_each(|number| out.extend_from_slice(&number.to_be_bytes()));
}

/// Appends SETTINGS.
pub fn write_settings(settings: impl IntoIterator<Item = (u16, u32)>, out: &mut Vec<u8>) {
    let begin = out.len();
    write_head(0, kind::SETTINGS, 0, 0, out);
    for (id, value) in settings {
        out.extend_from_slice(&id.to_be_bytes());
        out.extend_from_slice(&value.to_be_bytes());
    }
    let [_, high, middle, low] = ((out.len() - begin - HEAD_BYTES) as u32).to_be_bytes();
    out[begin..begin + 3].copy_from_slice(&[high, middle, low]);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn padded(mut length: usize) -> Vec<u8> {
        let mut out = Vec::new();
        length += 3;
        write_head(length, kind::DATA, flag::PADDED | flag::END_STREAM, 3, &mut out);
        out.push(2);
        out.resize(HEAD_BYTES + length - 2, b'x');
        out.extend_from_slice(&[0, 0]);
        out
    }

    /// The frames in words, with the pieces of bodies joined, for a stream cut into pieces.
    fn read(stream: &[u8], piece: usize) -> Result<Vec<String>, FrameError> {
        let (mut reader, mut told, mut body) = (Reader::default(), Vec::new(), 0);
        for bytes in stream.chunks(piece) {
            let mut rest = bytes;
            while !rest.is_empty() {
                let (used, step) = reader.step(rest)?;
                assert!(used > 0);
                match step {
                    Step::NeedMore => {}
                    Step::Frame(head, payload) => {
                        told.push(format!("{} {} {payload:?}", head.kind, head.stream))
                    }
                    Step::Data { stream, piece, ends, .. } => {
                        body += piece.len();
                        if let Some(is_last) = ends {
                            told.push(format!("body {stream} {} {is_last}", std::mem::take(&mut body)));
                        }
                    }
                }
                rest = &rest[used..];
            }
        }
        Ok(told)
    }

    #[test]
    fn frames_are_the_same_however_they_are_cut() {
        let mut stream = Vec::new();
        write_settings([(setting::ENABLE_PUSH, 0)], &mut stream);
        write_head(5, kind::DATA, 0, 1, &mut stream);
        stream.extend_from_slice(b"hello");
        stream.extend(padded(7));
        stream.extend(padded(0));
        write_head(0, kind::DATA, flag::END_STREAM, 5, &mut stream);
        write_numbers(kind::GOAWAY, 0, &[7, 0], &mut stream);
        let expected = [
            "4 0 [0, 2, 0, 0, 0, 0]",
            "body 1 5 false",
            "body 3 7 true",
            "body 3 0 true",
            "body 5 0 true",
            "7 0 [0, 0, 0, 7, 0, 0, 0, 0]",
        ];
        for piece in 1..=stream.len() {
            assert_eq!(read(&stream, piece).unwrap(), expected, "cut into pieces of {piece}");
        }
    }

    #[test]
    fn invalid_lengths_are_refused() {
        for (length, of_kind, flags) in [
            (16_385, kind::DATA, 0),
            (16_385, kind::HEADERS, 0),
            (7, kind::PING, 0),
            (5, kind::SETTINGS, 0),
            (6, kind::SETTINGS, flag::ACK),
            (3, kind::WINDOW_UPDATE, 0),
            (4, kind::GOAWAY, 0),
        ] {
            let mut frame = Vec::new();
            write_head(length, of_kind, flags, 0, &mut frame);
            assert!(matches!(read(&frame, 1), Err(FrameError::Size(_))), "{of_kind} of {length}");
        }
        let mut frame = Vec::new();
        write_head(2, kind::DATA, flag::PADDED, 1, &mut frame);
        frame.extend_from_slice(&[2, 0]);
        assert_eq!(read(&frame, 3), Err(FrameError::Padding));
    }
}
