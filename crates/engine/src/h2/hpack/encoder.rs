//! Encodes header fields. Which table entries a block may refer to is decided in `h2::request`.

use super::{huffman, static_table};

/// How to write a field that is in no table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Literal {
    /// It is added to the dynamic table.
    Inserted,
    /// It is not added.
    Plain,
}

/// An integer with a prefix of `prefix` bits in the first byte; `first` has that byte's other bits (section 5.1).
pub fn integer(first: u8, prefix: u32, value: usize, out: &mut Vec<u8>) {
    let most = (1 << prefix) - 1;
    if value < most {
        return out.push(first | value as u8);
    }
    out.push(first | most as u8);
    let mut rest = value - most;
    while rest >= 128 {
        out.push(rest as u8 | 128);
        rest >>= 7;
    }
    out.push(rest as u8);
}

/// A string, in whichever form is shorter (section 5.2).
pub fn text(text: &[u8], out: &mut Vec<u8>) {
    text_after(0, 7, text, out);
}

/// A string whose length has a prefix of `prefix` bits. The bit above the prefix says whether it is Huffman-coded; `first` has the others.
pub(crate) fn text_after(first: u8, prefix: u32, text: &[u8], out: &mut Vec<u8>) {
    let coded = huffman::coded_length(text);
    if coded < text.len() {
        integer(first | 1 << prefix, prefix, coded, out);
        huffman::encode(text, out);
    } else {
        integer(first, prefix, text.len(), out);
        out.extend_from_slice(text);
    }
}

/// A field that is in a table, by its index.
pub fn indexed(index: usize, out: &mut Vec<u8>) {
    integer(0x80, 7, index, out);
}

/// The name of a field; its value must follow, by [`text`].
pub fn name(name: &str, literal: Literal, out: &mut Vec<u8>) {
    let index = static_table::find(name, "").map_or(0, |(index, _)| index);
    match literal {
        Literal::Inserted => integer(0x40, 6, index, out),
        Literal::Plain => integer(0, 4, index, out),
    }
    if index == 0 {
        text(name.as_bytes(), out);
    }
}

/// A field by its index if the static table has it, otherwise as a literal; returns whether it was a literal.
pub fn field(field_name: &str, value: &[u8], literal: Literal, out: &mut Vec<u8>) -> bool {
    let found = std::str::from_utf8(value).ok().and_then(|value| static_table::find(field_name, value));
    if let Some((index, true)) = found {
        indexed(index, out);
        return false;
    }
    name(field_name, literal, out);
    text(value, out);
    true
}

/// Changes the size of the dynamic table from here on; belongs at the beginning of a block.
pub fn table_size(bytes: usize, out: &mut Vec<u8>) {
    integer(0x20, 5, bytes, out);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_of_the_standard() {
        // RFC 7541 appendix C.1.
        let written = |first, prefix, value| {
            let mut out = Vec::new();
            integer(first, prefix, value, &mut out);
            out
        };
        assert_eq!(written(0, 5, 10), [0b01010]);
        assert_eq!(written(0, 5, 1337), [0b11111, 0b1001_1010, 0b0000_1010]);
        assert_eq!(written(0, 8, 42), [42]);
        assert_eq!(written(0x80, 7, 127), [0xff, 0]);
    }
}
