//! Decodes the header blocks of answers: size and meaning of each field (see the module above), and its text on request.

use std::collections::VecDeque;

use super::known_blocks::KnownBlocks;
use super::static_table::FIELDS;
use super::{CompressionError, ENTRY_BYTES, TABLE_BYTES, huffman};

/// What a block says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Fields {
    /// The `:status` field; 0 if it is missing.
    pub status: u16,
    /// Length of the body, if announced.
    pub content_length: Option<u64>,
    /// Size of the list as RFC 9113 section 6.5.2 counts it, in bytes.
    pub list_bytes: u64,
    /// Why this is not a valid answer, though it is valid HPACK (RFC 9113 section 8.2).
    pub problem: Option<&'static str>,
    has_regular: bool,
}

/// What the name of a field means in an answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Name {
    Status,
    ContentLength,
    /// Another pseudo-header field: one of requests, or unknown.
    Pseudo,
    /// A connection-specific field of HTTP/1.
    Connection,
    /// An invalid name, or a field with an invalid value.
    Wrong,
    #[default]
    Other,
}

/// A field, or an entry of the table.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Entry {
    /// The number in a status or length; [`u64::MAX`] if its value is not a number.
    number: u64,
    name_bytes: u32,
    value_bytes: u32,
    pub(crate) name: Name,
}

impl Entry {
    fn size(&self) -> usize {
        self.name_bytes as usize + self.value_bytes as usize + ENTRY_BYTES
    }
}

/// One direction of a connection.
#[derive(Clone, Debug)]
pub struct Decoder {
    /// Newest first.
    entries: VecDeque<Entry>,
    /// Their names and values, if text is kept.
    texts: Option<VecDeque<(Vec<u8>, Vec<u8>)>>,
    bytes: usize,
    bytes_max: usize,
    /// The maximum size to which the peer may set the table.
    allowed: usize,
}

impl Default for Decoder {
    fn default() -> Decoder {
        Decoder {
            entries: VecDeque::new(),
            texts: None,
            bytes: 0,
            bytes_max: TABLE_BYTES,
            allowed: TABLE_BYTES,
        }
    }
}

impl Decoder {
    /// A decoder that keeps the text of fields, for [`Decoder::decode_text`].
    pub fn with_text() -> Decoder {
        Decoder { texts: Some(VecDeque::new()), ..Decoder::default() }
    }

    /// Sets how large the peer may make the table, as our SETTINGS_HEADER_TABLE_SIZE says. The peer announces the
    /// size that it uses.
    pub fn allow(&mut self, bytes: usize) {
        self.allowed = bytes;
    }

    /// A new connection begins.
    pub fn clear(&mut self) {
        self.entries.clear();
        self.texts.iter_mut().for_each(VecDeque::clear);
        self.bytes = 0;
        self.bytes_max = TABLE_BYTES;
    }

    /// Whether text of fields is kept.
    pub fn keeps_text(&self) -> bool {
        self.texts.is_some()
    }

    /// Decodes a whole block.
    ///
    /// # Errors
    /// If it is not valid HPACK. The decoder cannot be used afterwards.
    pub fn decode(&mut self, block: &[u8]) -> Result<Fields, CompressionError> {
        Ok(self.read(block, None)?.fields)
    }

    /// As [`Decoder::decode`], but a known block in an answer to the same request is not parsed again.
    ///
    /// # Errors
    /// As [`Decoder::decode`].
    #[inline]
    pub fn decode_known(
        &mut self,
        block: &[u8],
        known: &mut KnownBlocks,
        request: u32,
    ) -> Result<Fields, CompressionError> {
        if let Some((fields, inserted)) = known.recall(request, block) {
            for entry in inserted {
                self.insert(*entry);
            }
            return Ok(*fields);
        }
        let read = self.read(block, None)?;
        // A block can be replayed only if it does not depend on entries that were in the table before it.
        if read.is_self_contained && read.inserted <= self.entries.len() {
            let inserted = self.entries.range(..read.inserted).rev();
            known.keep(request, block, read.fields, inserted);
        }
        Ok(read.fields)
    }

    /// As [`Decoder::decode`]; also appends `name: value` and a line end for each field to `out`.
    ///
    /// # Errors
    /// As [`Decoder::decode`].
    pub fn decode_text(&mut self, block: &[u8], out: &mut Vec<u8>) -> Result<Fields, CompressionError> {
        Ok(self.read(block, Some(out))?.fields)
    }

    fn read(&mut self, block: &[u8], mut out: Option<&mut Vec<u8>>) -> Result<Read, CompressionError> {
        let mut read = Read::default();
        let mut rest = block;
        let mut is_first = true;
        while let Some(first) = rest.first().copied() {
            if first & 0xe0 == 0x20 {
                let size = integer(&mut rest, 5)?;
                if !is_first {
                    return Err(CompressionError("a dynamic table size update after a field"));
                }
                if size > self.allowed {
                    return Err(CompressionError("a dynamic table larger than allowed"));
                }
                self.bytes_max = size;
                self.evict(0);
                read.is_self_contained = false;
                continue;
            }
            is_first = false;
            if first & 0x80 != 0 {
                let index = integer(&mut rest, 7)?;
                read.is_self_contained &= index <= FIELDS.len();
                read.fields.take(&self.entry(index)?);
                if let Some(out) = &mut out {
                    let (name, value) = self.text(index);
                    show(out, name, value);
                }
                continue;
            }
            let is_inserted = first & 0x40 != 0;
            let index = integer(&mut rest, if is_inserted { 6 } else { 4 })?;
            read.is_self_contained &= index <= FIELDS.len();
            let mut name_text = Vec::new();
            let named = match index {
                0 => {
                    let name = string(&mut rest)?;
                    if self.texts.is_some() {
                        name_text = name.text()?;
                    }
                    name.name()?
                }
                _ => {
                    if self.texts.is_some() {
                        name_text = self.text(index).0.to_vec();
                    }
                    self.entry(index)?
                }
            };
            let value = string(&mut rest)?;
            let entry = value.value_of(named)?;
            read.fields.take(&entry);
            let value_text = if self.texts.is_some() { value.text()? } else { Vec::new() };
            if let Some(out) = &mut out {
                show(out, &name_text, &value_text);
            }
            if is_inserted {
                read.inserted += 1;
                self.insert(entry);
                // An entry larger than the table is not inserted.
                if let Some(texts) = self.texts.as_mut().filter(|_| !self.entries.is_empty()) {
                    texts.push_front((name_text, value_text));
                    texts.truncate(self.entries.len());
                }
            }
        }
        Ok(read)
    }

    fn entry(&self, index: usize) -> Result<Entry, CompressionError> {
        if index <= FIELDS.len() {
            return STATIC
                .get(index.wrapping_sub(1))
                .copied()
                .ok_or(CompressionError("the index 0, which no table has"));
        }
        let found = self.entries.get(index - FIELDS.len() - 1).copied();
        found.ok_or(CompressionError("an index beyond the end of the table"))
    }

    fn text(&self, index: usize) -> (&[u8], &[u8]) {
        if let Some((name, value)) = FIELDS.get(index.wrapping_sub(1)) {
            return (name.as_bytes(), value.as_bytes());
        }
        let found = self.texts.as_ref().and_then(|texts| texts.get(index.wrapping_sub(FIELDS.len() + 1)));
        found.map_or((b"", b""), |(name, value)| (name, value))
    }

    #[inline]
    fn insert(&mut self, entry: Entry) {
        let size = entry.size();
        self.evict(size);
        if size <= self.bytes_max {
            self.entries.push_front(entry);
            self.bytes += size;
        }
    }

    /// Evicts entries to make space for this many bytes.
    #[inline]
    fn evict(&mut self, size: usize) {
        while self.bytes + size > self.bytes_max {
            let Some(entry) = self.entries.pop_back() else { return };
            self.bytes -= entry.size();
        }
        if let Some(texts) = &mut self.texts {
            texts.truncate(self.entries.len());
        }
    }
}

/// The result of reading a block.
#[derive(Debug)]
struct Read {
    fields: Fields,
    /// It does not refer to the dynamic table.
    is_self_contained: bool,
    inserted: usize,
}

impl Default for Read {
    fn default() -> Read {
        Read { fields: Fields::default(), is_self_contained: true, inserted: 0 }
    }
}

impl Fields {
    #[inline]
    pub(crate) fn take(&mut self, entry: &Entry) {
        self.list_bytes += entry.size() as u64;
        let problem = match entry.name {
            Name::Status if self.has_regular => "`:status` after a regular field",
            Name::Status if self.status != 0 => "`:status` twice",
            Name::Status if !(100..1000).contains(&entry.number) || entry.value_bytes != 3 => {
                "a `:status` that is not three digits"
            }
            Name::Status => {
                self.status = entry.number as u16;
                return;
            }
            Name::ContentLength if entry.number == u64::MAX => "a content-length that is not a number",
            Name::ContentLength if self.content_length.is_some_and(|known| known != entry.number) => {
                "two content-length values that differ"
            }
            Name::ContentLength => {
                self.content_length = Some(entry.number);
                self.has_regular = true;
                return;
            }
            Name::Other => {
                self.has_regular = true;
                return;
            }
            Name::Pseudo => "a pseudo-header field that responses do not have",
            Name::Connection => "a connection-specific header field of HTTP/1",
            Name::Wrong => {
                "an invalid header field: capital letters, control characters, or white space around the value"
            }
        };
        self.problem = self.problem.or(Some(problem));
    }
}

/// A string as encoded in a block.
pub(crate) struct Coded<'a> {
    pub(crate) bytes: &'a [u8],
    pub(crate) is_huffman: bool,
}

impl Coded<'_> {
    #[inline]
    fn each(&self, mut each: impl FnMut(u8)) -> Result<(), CompressionError> {
        if self.is_huffman {
            return huffman::decode(self.bytes, each);
        }
        self.bytes.iter().for_each(|byte| each(*byte));
        Ok(())
    }

    pub(crate) fn text(&self) -> Result<Vec<u8>, CompressionError> {
        let mut text = Vec::with_capacity(self.bytes.len() * 2);
        self.each(|byte| text.push(byte))?;
        Ok(text)
    }

    /// Decodes it as a name.
    pub(crate) fn name(&self) -> Result<Entry, CompressionError> {
        let (mut front, mut length, mut is_wrong) = ([0_u8; 20], 0_usize, false);
        self.each(|byte| {
            if let Some(place) = front.get_mut(length) {
                *place = byte;
            }
            is_wrong |=
                !(0x21..0x7f).contains(&byte) || byte.is_ascii_uppercase() || (byte == b':' && length > 0);
            length += 1;
        })?;
        let name = match front.get(..length) {
            _ if is_wrong || length == 0 => Name::Wrong,
            Some(b":status") => Name::Status,
            Some(b"content-length") => Name::ContentLength,
            Some(b"connection" | b"keep-alive" | b"proxy-connection" | b"transfer-encoding" | b"upgrade") => {
                Name::Connection
            }
            _ if front[0] == b':' => Name::Pseudo,
            _ => Name::Other,
        };
        Ok(Entry { name, name_bytes: length as u32, ..Entry::default() })
    }

    /// Decodes it as the value of a field with this name.
    pub(crate) fn value_of(&self, name: Entry) -> Result<Entry, CompressionError> {
        let (mut length, mut is_wrong) = (0_u32, false);
        let mut number = 0_u64;
        if matches!(name.name, Name::Status | Name::ContentLength) {
            let mut digits = Some(0_u64);
            self.each(|byte| {
                let digit = byte.is_ascii_digit().then(|| u64::from(byte - b'0'));
                digits = digits.zip(digit).and_then(|(sum, digit)| sum.checked_mul(10)?.checked_add(digit));
                length += 1;
            })?;
            number = digits.filter(|_| length > 0).unwrap_or(u64::MAX);
        } else if self.is_huffman {
            let mut last = b'\0';
            self.each(|byte| {
                is_wrong |= matches!(byte, b'\0' | b'\r' | b'\n') || (length == 0 && is_blank(byte));
                length += 1;
                last = byte;
            })?;
            is_wrong |= is_blank(last);
        } else {
            let ends = [self.bytes.first(), self.bytes.last()];
            is_wrong = memchr::memchr3(b'\0', b'\r', b'\n', self.bytes).is_some()
                || ends.into_iter().flatten().any(|byte| is_blank(*byte));
            length = self.bytes.len() as u32;
        }
        let kind = if is_wrong { Name::Wrong } else { name.name };
        Ok(Entry { number, name: kind, value_bytes: length, name_bytes: name.name_bytes })
    }
}

/// No value begins or ends with one (RFC 9113, section 8.2.1; RFC 9110, section 5.5).
fn is_blank(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t')
}

/// Takes an integer whose prefix is in the lowest bits of the first byte.
#[inline]
pub(crate) fn integer(rest: &mut &[u8], prefix: u32) -> Result<usize, CompressionError> {
    const CUT: CompressionError = CompressionError("a header block that ends in the middle of a number");
    let mask = 0xff_u8 >> (8 - prefix);
    let (first, behind) = rest.split_first().ok_or(CUT)?;
    *rest = behind;
    let mut value = usize::from(first & mask);
    if value < usize::from(mask) {
        return Ok(value);
    }
    for shift in [0, 7, 14, 21] {
        let (byte, behind) = rest.split_first().ok_or(CUT)?;
        *rest = behind;
        value += usize::from(byte & 127) << shift;
        if byte & 128 == 0 {
            return Ok(value);
        }
    }
    Err(CompressionError("a number that is too long"))
}

#[inline]
fn string<'a>(rest: &mut &'a [u8]) -> Result<Coded<'a>, CompressionError> {
    string_after(rest, 7)
}

/// A string whose length has this prefix; the bit above the prefix says whether the string is Huffman-coded.
#[inline]
pub(crate) fn string_after<'a>(rest: &mut &'a [u8], prefix: u32) -> Result<Coded<'a>, CompressionError> {
    let is_huffman = rest.first().is_some_and(|first| first & (1 << prefix) != 0);
    let length = integer(rest, prefix)?;
    let (bytes, behind) = rest
        .split_at_checked(length)
        .ok_or(CompressionError("a header block that ends in the middle of a string"))?;
    *rest = behind;
    Ok(Coded { bytes, is_huffman })
}

pub(crate) fn show(out: &mut Vec<u8>, name: &[u8], value: &[u8]) {
    [name, b": ", value, b"\r\n"].iter().for_each(|piece| out.extend_from_slice(piece));
}

static STATIC: [Entry; FIELDS.len()] = {
    let mut entries = [Entry { number: 0, name_bytes: 0, value_bytes: 0, name: Name::Other }; FIELDS.len()];
    let mut at = 0;
    while at < FIELDS.len() {
        let (name, value) = FIELDS[at];
        entries[at].name_bytes = name.len() as u32;
        entries[at].value_bytes = value.len() as u32;
        entries[at].name = match at + 1 {
            8..=14 => Name::Status,
            1..=7 => Name::Pseudo,
            28 => Name::ContentLength,
            57 => Name::Connection,
            _ => Name::Other,
        };
        entries[at].number = match at + 1 {
            8..=14 => {
                let digits = value.as_bytes();
                (digits[0] - b'0') as u64 * 100 + (digits[1] - b'0') as u64 * 10 + (digits[2] - b'0') as u64
            }
            28 => u64::MAX,
            _ => 0,
        };
        at += 1;
    }
    entries
};

#[cfg(test)]
#[path = "decoder_tests.rs"]
mod tests;
