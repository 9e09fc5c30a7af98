//! QPACK (RFC 9204) without the dynamic table: SETTINGS give it a capacity of 0.

use super::huffman;
use super::static_table::FIELDS;

/// Longest decoded block of fields; the same bound as for the buffers of the other versions.
const DECODED_BYTES_MAX: usize = 128 * 1024;

/// Why a block of fields cannot be decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the block of fields {0}")]
pub(super) struct Malformed(pub(super) &'static str);

/// Name and value.
pub(super) type Field = (Vec<u8>, Vec<u8>);

/// Decodes a whole block of fields.
pub(super) fn decode(block: &[u8]) -> Result<Vec<Field>, Malformed> {
    let mut input = Input(block);
    let (_, required) = input.integer(8)?;
    let (_, base) = input.integer(7)?;
    if required != 0 || base != 0 {
        return Err(Malformed("refers to the dynamic table, whose capacity is 0"));
    }
    let mut fields = Vec::new();
    let mut decoded = 0;
    while let Some(first) = input.0.first() {
        let field = match first {
            // An indexed field.
            0x80.. => {
                let (flags, index) = input.integer(6)?;
                let (name, value) = entry(flags & 0x40 != 0, index)?;
                (name.into(), value.into())
            }
            // A literal value with a name of the table.
            0x40..0x80 => {
                let (flags, index) = input.integer(4)?;
                (entry(flags & 0x10 != 0, index)?.0.into(), input.string(7)?)
            }
            // A literal name and value.
            0x20..0x40 => (input.string(3)?, input.string(7)?),
            _ => return Err(Malformed("refers to the dynamic table, whose capacity is 0")),
        };
        decoded += field.0.len() + field.1.len();
        if decoded > DECODED_BYTES_MAX {
            return Err(Malformed("is too long"));
        }
        fields.push(field);
    }
    Ok(fields)
}

fn entry(is_static: bool, index: u64) -> Result<(&'static str, &'static str), Malformed> {
    if !is_static {
        return Err(Malformed("refers to the dynamic table, whose capacity is 0"));
    }
    let field = usize::try_from(index).ok().and_then(|index| FIELDS.get(index));
    field.copied().ok_or(Malformed("has an index after the end of the static table"))
}

struct Input<'a>(&'a [u8]);

impl Input<'_> {
    fn byte(&mut self) -> Result<u8, Malformed> {
        let (first, rest) = self.0.split_first().ok_or(Malformed("ends in the middle of a field"))?;
        self.0 = rest;
        Ok(*first)
    }

    /// An integer with a prefix of `bits` bits, and the bits before it.
    fn integer(&mut self, bits: u32) -> Result<(u8, u64), Malformed> {
        let first = self.byte()?;
        let mask = (0xFF_u16 >> (8 - bits)) as u8;
        let mut value = u64::from(first & mask);
        if value < u64::from(mask) {
            return Ok((first & !mask, value));
        }
        for shift in (0..=56).step_by(7) {
            let byte = self.byte()?;
            value += u64::from(byte & 0x7F) << shift;
            if byte < 0x80 {
                return Ok((first & !mask, value));
            }
        }
        Err(Malformed("has an integer above 2⁶²"))
    }

    /// A string whose length has a prefix of `bits` bits, after the bit that says whether Huffman's code is used.
    fn string(&mut self, bits: u32) -> Result<Vec<u8>, Malformed> {
        let (flags, length) = self.integer(bits)?;
        let length = usize::try_from(length).ok().filter(|length| *length <= self.0.len());
        let (string, rest) = self.0.split_at(length.ok_or(Malformed("ends in the middle of a string"))?);
        self.0 = rest;
        if flags & 1 << bits == 0 {
            return Ok(string.to_vec());
        }
        huffman::decode(string).ok_or(Malformed("has a string that is not Huffman's code"))
    }
}

/// Begins a block of fields.
pub(super) fn begin() -> Vec<u8> {
    vec![0, 0]
}

/// Appends a field: as an index of the static table if it is there; otherwise its value literally, and its name too if that is not there.
pub(super) fn encode(block: &mut Vec<u8>, name: &str, value: &[u8]) {
    let mut of_name = FIELDS.iter().enumerate().filter(|(_, field)| field.0 == name).peekable();
    let first = of_name.peek().map(|(index, _)| *index as u64);
    if let Some((index, _)) = of_name.find(|(_, field)| field.1.as_bytes() == value) {
        return integer(block, 0xC0, 6, index as u64);
    }
    match first {
        Some(index) => integer(block, 0x50, 4, index),
        None => {
            integer(block, 0x20, 3, name.len() as u64);
            block.extend_from_slice(name.as_bytes());
        }
    }
    integer(block, 0, 7, value.len() as u64);
    block.extend_from_slice(value);
}

fn integer(block: &mut Vec<u8>, flags: u8, bits: u32, mut value: u64) {
    let mask = (0xFF_u16 >> (8 - bits)) as u8;
    if value < u64::from(mask) {
        return block.push(flags | value as u8);
    }
    block.push(flags | mask);
    value -= u64::from(mask);
    while value >= 0x80 {
        block.push(value as u8 | 0x80);
        value >>= 7;
    }
    block.push(value as u8);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_encoded_is_decoded() {
        let long = "x".repeat(5000);
        let fields = [
            (":status", "200"),
            (":status", "418"),
            ("content-type", "text/plain"),
            ("content-length", "12"),
            ("x-frame-options", "sameorigin"),
            ("x-filler", long.as_str()),
            ("x-a-name-of-its-own", ""),
        ];
        let mut block = begin();
        fields.iter().for_each(|(name, value)| encode(&mut block, name, value.as_bytes()));
        let expected: Vec<Field> =
            fields.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect();
        assert_eq!(decode(&block).unwrap(), expected);
        for end in 2..block.len() {
            // Cut anywhere, it is an error or fewer fields.
            assert!(
                decode(&block[..end]).is_ok_and(|fields| fields.len() < expected.len())
                    || decode(&block[..end]).is_err()
            );
        }
    }

    #[test]
    fn the_standards_example_is_decoded() {
        // RFC 9204, B.1: a literal value with a name of the static table.
        let block =
            [0x00, 0x00, 0x51, 0x0b, 0x2f, 0x69, 0x6e, 0x64, 0x65, 0x78, 0x2e, 0x68, 0x74, 0x6d, 0x6c];
        assert_eq!(decode(&block).unwrap(), [(b":path".to_vec(), b"/index.html".to_vec())]);
    }

    #[test]
    fn what_is_not_there_is_refused() {
        for (block, what) in [
            (&[0x02, 0x00][..], "dynamic table"),
            (&[0, 0, 0x80], "dynamic table"),
            (&[0, 0, 0x10], "dynamic table"),
            (&[0, 0, 0xFF, 36], "after the end"),
            (&[0, 0, 0x51, 5, b'a'], "middle of a string"),
            (&[0], "middle of a field"),
            (&[0, 0, 0x51, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 1], "2⁶²"),
        ] {
            let error = decode(block).unwrap_err().to_string();
            assert!(error.contains(what), "{block:?}: {error}");
        }
    }
}
