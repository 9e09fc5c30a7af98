//! The chunked transfer coding, decoded as it arrives (RFC 9112 section 7.1).
//!
//! A few words of state and no buffer: chunk sizes, extensions and trailers are read byte by byte, data is skipped in
//! whole slices. Any split of the stream gives the same result.

/// Most bytes of one chunk-size line, extensions included. No server needs more; an endless line must end somewhere.
const LINE_BYTES_MAX: u32 = 4096;
/// Most bytes of all trailer fields together, the limit of a head.
const TRAILER_BYTES_MAX: u32 = 65_536;

/// Where a decoder is in the coding.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Position {
    /// Before the first hex digit of a size.
    #[default]
    SizeStart,
    /// Within the digits.
    Size,
    /// After them: white space, which may come before an extension, and with which some servers fill up the line.
    SizeBlank,
    /// Within an extension, up to the end of the line.
    Extension,
    /// After the carriage return of a chunk-size line.
    SizeEnd,
    /// Within data; `remaining` bytes are still to come.
    Data,
    /// After data: at the line end that closes it.
    DataEnd,
    /// After the last chunk, at the start of a trailer line.
    TrailerStart,
    /// Within the name of a trailer field.
    TrailerName,
    /// Within its value, or in a folded line.
    Trailer,
    /// After the carriage return of the empty line that ends the body.
    TrailerEnd,
    /// After the end of the body.
    Done,
}

/// A chunked body being read.
#[derive(Clone, Copy, Debug, Default)]
pub struct Chunked {
    position: Position,
    remaining: u64,
    line_bytes: u32,
}

/// What the next bytes are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Piece {
    /// Framing: sizes, line ends, trailers.
    Framing,
    /// Body data.
    Data,
    /// The end; nothing more was consumed.
    End,
}

impl Chunked {
    /// Consumes a run of bytes of one kind from the front of `input`; returns how many, and of what kind. `input`
    /// must not be empty unless the end was reached.
    pub fn advance(&mut self, input: &[u8]) -> Result<(usize, Piece), &'static str> {
        match self.position {
            Position::Done => return Ok((0, Piece::End)),
            Position::Data => {
                let taken = usize::try_from(self.remaining).unwrap_or(usize::MAX).min(input.len());
                self.remaining -= taken as u64;
                if self.remaining == 0 {
                    self.position = Position::DataEnd;
                    self.line_bytes = 0;
                }
                return Ok((taken, Piece::Data));
            }
            _ => {}
        }
        for (index, byte) in input.iter().enumerate() {
            self.framing_byte(*byte)?;
            if matches!(self.position, Position::Data | Position::Done) {
                return Ok((index + 1, Piece::Framing));
            }
        }
        Ok((input.len(), Piece::Framing))
    }

    fn framing_byte(&mut self, byte: u8) -> Result<(), &'static str> {
        self.line_bytes += 1;
        let in_trailer = matches!(
            self.position,
            Position::TrailerStart | Position::TrailerName | Position::Trailer | Position::TrailerEnd
        );
        if self.line_bytes > if in_trailer { TRAILER_BYTES_MAX } else { LINE_BYTES_MAX } {
            return Err(if in_trailer {
                "trailers longer than 64 KiB"
            } else {
                "a chunk-size line longer than 4 KiB"
            });
        }
        self.position = match (self.position, byte) {
            (Position::SizeStart | Position::Size, b'0'..=b'9' | b'a'..=b'f' | b'A'..=b'F') => {
                let digit = (byte as char).to_digit(16).expect("the pattern allows hex digits only");
                if self.remaining >> 60 != 0 {
                    return Err("a chunk size beyond 64 bits");
                }
                self.remaining = self.remaining << 4 | u64::from(digit);
                Position::Size
            }
            (Position::SizeStart, _) => return Err("a chunk size that is not hexadecimal"),
            (Position::Size | Position::SizeBlank | Position::Extension | Position::SizeEnd, b'\n') => {
                self.line_bytes = 0;
                if self.remaining == 0 { Position::TrailerStart } else { Position::Data }
            }
            (Position::SizeEnd, _) => return Err("a bare carriage return in a chunk-size line"),
            (Position::Size | Position::SizeBlank | Position::Extension, b'\r') => Position::SizeEnd,
            (Position::Size | Position::SizeBlank, b' ' | b'\t') => Position::SizeBlank,
            (Position::Size | Position::SizeBlank, b';') => Position::Extension,
            (Position::Size | Position::SizeBlank, _) => return Err("a chunk size that is not hexadecimal"),
            (Position::Extension, _) => Position::Extension,
            // The carriage return may be missing, as RFC 9112 section 2.2 lets a recipient accept a bare line feed.
            (Position::DataEnd, b'\r') if self.line_bytes == 1 => Position::DataEnd,
            (Position::DataEnd, b'\n') => {
                self.line_bytes = 0;
                Position::SizeStart
            }
            (Position::DataEnd, _) => return Err("a chunk longer than its size"),
            (Position::TrailerStart, b'\n') => Position::Done,
            (Position::TrailerStart, b'\r') => Position::TrailerEnd,
            (Position::TrailerStart, b' ' | b'\t') if self.line_bytes > 1 => Position::Trailer,
            (Position::TrailerStart, b':' | b' ' | b'\t') => return Err("a trailer without a name"),
            (Position::TrailerStart, _) => Position::TrailerName,
            (Position::TrailerName, b':') => Position::Trailer,
            (Position::TrailerName, b' ' | b'\t') => return Err("white space in the name of a trailer"),
            (Position::TrailerName, b'\n') => return Err("a trailer without a colon"),
            (Position::TrailerName, _) => Position::TrailerName,
            (Position::Trailer, b'\n') => Position::TrailerStart,
            (Position::Trailer, _) => Position::Trailer,
            (Position::TrailerEnd, b'\n') => Position::Done,
            (Position::TrailerEnd, _) => return Err("a bare carriage return at the end of the trailers"),
            (Position::Data | Position::Done, _) => unreachable!("both are handled by the caller"),
        };
        Ok(())
    }

    /// Whether the whole coding was read.
    pub fn is_done(&self) -> bool {
        self.position == Position::Done
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Decodes with the input cut into pieces of `step` bytes: data, framing bytes, bytes left over.
    fn decode(input: &[u8], step: usize) -> Result<(Vec<u8>, usize, usize), &'static str> {
        let (mut chunked, mut data, mut framing, mut used) = (Chunked::default(), Vec::new(), 0, 0);
        for piece in input.chunks(step) {
            let mut rest = piece;
            while !rest.is_empty() && !chunked.is_done() {
                let (n, kind) = chunked.advance(rest)?;
                match kind {
                    Piece::Data => data.extend_from_slice(&rest[..n]),
                    _ => framing += n,
                }
                used += n;
                rest = &rest[n..];
            }
        }
        assert!(chunked.is_done(), "not at the end");
        Ok((data, framing, input.len() - used))
    }

    #[test]
    fn any_split_gives_the_same_body() {
        let input = b"5\r\nhello\r\nA;name=value\r\n, world!!!\r\n0\r\nTrailer: x\r\n\r\nnext";
        for step in 1..=input.len() {
            assert_eq!(
                decode(input, step),
                Ok((b"hello, world!!!".to_vec(), input.len() - 15 - 4, 4)),
                "{step}"
            );
        }
    }

    #[test]
    fn bare_line_feeds_are_accepted() {
        assert_eq!(decode(b"3\nabc\n0\n\n", 1).unwrap().0, b"abc");
        assert_eq!(decode(b"3 ;x\nabc\n0\nT: x\n\n", 1).unwrap().0, b"abc");
    }

    #[test]
    fn white_space_and_folded_lines_are_accepted_where_servers_send_them() {
        for input in [
            &b"3  \r\nabc\r\n0\t\r\n\r\n"[..],
            b"3 ; name = \"value\"\r\nabc\r\n0\r\n\r\n",
            b"3\r\nabc\r\n0\r\nT: x\r\n\tfolded\r\nU:\r\n\r\n",
        ] {
            assert_eq!(decode(input, 1).unwrap().0, b"abc", "{:?}", String::from_utf8_lossy(input));
        }
    }

    #[test]
    fn wrong_codings_are_errors() {
        for input in [
            &b"\r\n"[..],
            b"g\r\n",
            b"-1\r\n",
            b"0x5\r\n",
            b"5\r\nhelloX",
            b"5\r\nhello\r\r\n",
            b"10000000000000000\r\n",
            b"0\r\n\rX",
            b"5 5\r\nhello\r\n0\r\n\r\n",
            b"5\rjunk\n",
            b"5\r\rX\n",
            b"5 x\r\n",
            b"5;a\rb\r\n",
            b"0\r\nno colon\r\n\r\n",
            b"0\r\nT\r\n\r\n",
            b"0\r\n: x\r\n\r\n",
            b"0\r\nT : x\r\n\r\n",
            b"0\r\n folded first\r\n\r\n",
        ] {
            assert!(decode(input, 1).is_err(), "{:?}", String::from_utf8_lossy(input));
        }
        assert!(decode(&[b"1;".as_slice(), &[b'x'; 5000]].concat(), 100).is_err());
        assert!(decode(&[b"0\r\n".as_slice(), &[b'x'; 70_000]].concat(), 100).is_err());
    }
}
