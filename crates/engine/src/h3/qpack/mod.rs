//! QPACK, the compression of header fields (RFC 9204), without a dynamic table: we allow the server none, and use none ourselves.
//! Bytes in, bytes out.
//!
//! Strings, the Huffman code and the meaning of fields are those of HPACK.

pub mod static_table;

use std::sync::LazyLock;

use self::static_table::FIELDS;
use crate::h2::hpack::CompressionError;
use crate::h2::hpack::decoder::{Coded, Entry, Fields, integer, show, string_after};
use crate::h2::hpack::encoder;

/// What every section begins with: it needs no entry of the dynamic table.
pub const PREFIX: [u8; 2] = [0, 0];

/// Appends a field: by its index if the static table has it, otherwise as a literal.
pub fn write_field(name: &str, value: &[u8], out: &mut Vec<u8>) {
    let found = static_table::find(name, std::str::from_utf8(value).unwrap_or_default());
    match found {
        Some((index, true)) => return encoder::integer(0xc0, 6, index, out),
        Some((index, false)) => encoder::integer(0x50, 4, index, out),
        None => encoder::text_after(0x20, 3, name.as_bytes(), out),
    }
    encoder::text(value, out);
}

/// Decodes a whole field section of an answer; `out` receives `name: value` and a line end for each field.
///
/// # Errors
/// If it is not valid QPACK, or refers to a dynamic table.
pub fn decode(section: &[u8], mut out: Option<&mut Vec<u8>>) -> Result<Fields, CompressionError> {
    const DYNAMIC: CompressionError =
        CompressionError("a reference to the dynamic table, which the client does not allow");
    let mut rest = section;
    if integer(&mut rest, 8)? != 0 {
        return Err(DYNAMIC);
    }
    // The base: only references to the dynamic table count from it. With a required insert count of 0 it cannot be below that (RFC 9204
    // section 4.5.1.2).
    let is_negative = rest.first().is_some_and(|byte| byte & 0x80 != 0);
    integer(&mut rest, 7)?;
    if is_negative {
        return Err(CompressionError("a base below zero"));
    }
    let mut fields = Fields::default();
    while let Some(first) = rest.first().copied() {
        let (index, name) = match first {
            0xc0.. => {
                let index = integer(&mut rest, 6)?;
                fields.take(&entry(index)?);
                if let Some(out) = &mut out {
                    let (name, value) = FIELDS[index];
                    show(out, name.as_bytes(), value.as_bytes());
                }
                continue;
            }
            0x80.. => return Err(DYNAMIC),
            0x50..0x60 | 0x70..0x80 => (Some(integer(&mut rest, 4)?), None),
            0x40.. => return Err(DYNAMIC),
            0x20.. => (None, Some(string_after(&mut rest, 3)?)),
            _ => return Err(DYNAMIC),
        };
        let named = match &name {
            Some(name) => name.name()?,
            None => entry(index.unwrap_or(usize::MAX))?,
        };
        let value = string_after(&mut rest, 7)?;
        fields.take(&value.value_of(named)?);
        if let Some(out) = &mut out {
            let text = match (&name, index) {
                (Some(name), _) => name.text()?,
                (None, index) => FIELDS[index.unwrap_or_default()].0.as_bytes().to_vec(),
            };
            show(out, &text, &value.text()?);
        }
    }
    Ok(fields)
}

/// What the fields of the static table mean.
static ENTRIES: LazyLock<[Entry; FIELDS.len()]> = LazyLock::new(|| {
    let plain = |text: &'static str| Coded { bytes: text.as_bytes(), is_huffman: false };
    // None has a Huffman code that could be wrong.
    let entry = |(name, value)| plain(name).name().and_then(|name| plain(value).value_of(name));
    FIELDS.map(|field| entry(field).unwrap_or_default())
});

#[inline]
fn entry(index: usize) -> Result<Entry, CompressionError> {
    ENTRIES.get(index).copied().ok_or(CompressionError("an index beyond the end of the static table"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decoded(section: &[u8]) -> Result<(Fields, String), CompressionError> {
        let mut out = Vec::new();
        let fields = decode(section, Some(&mut out))?;
        Ok((fields, String::from_utf8(out).unwrap()))
    }

    #[test]
    fn fields_come_back() {
        let mut section = PREFIX.to_vec();
        let given: &[(&str, &str)] = &[
            (":status", "200"),
            ("content-length", "12"),
            ("server", "x"),
            ("x-own", "a b"),
            ("a-name-of-more-than-seven-bytes", "\u{1}\u{2}\u{3}"),
            ("vary", "origin"),
            ("x-frame-options", "sameorigin"),
        ];
        for (name, value) in given {
            write_field(name, value.as_bytes(), &mut section);
        }
        let (fields, text) = decoded(&section).unwrap();
        assert_eq!((fields.status, fields.content_length, fields.problem), (200, Some(12), None));
        let expected: String = given.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
        assert_eq!(text, expected);
    }

    #[test]
    fn sections_of_the_standard() {
        // RFC 9204 appendix B.1: a literal with a name of the static table.
        let (_, text) =
            decoded(&[0, 0, 0x51, 0x0b, 0x2f, 0x69, 0x6e, 0x64, 0x65, 0x78, 0x2e, 0x68, 0x74, 0x6d, 0x6c])
                .unwrap();
        assert_eq!(text, ":path: /index.html\r\n");
    }

    #[test]
    fn the_static_table_is_that_of_the_standard() {
        for (index, field) in [
            (0, (":authority", "")),
            (25, (":status", "200")),
            (63, (":status", "100")),
            (71, (":status", "500")),
            (98, ("x-frame-options", "sameorigin")),
        ] {
            assert_eq!(FIELDS[index], field);
        }
    }

    #[test]
    fn what_needs_a_dynamic_table_is_refused() {
        for section in [
            &[1, 0][..],
            &[0, 0x80],
            &[0, 0x81, 0xd9],
            &[0, 0, 0x80],
            &[0, 0, 0x40, 0],
            &[0, 0, 0x10],
            &[0, 0, 0x00, 0],
            &[0, 0, 0xff, 0x24],
            &[0],
            &[],
            &[0, 0, 0x51, 5, b'a'],
        ] {
            assert!(decoded(section).is_err(), "{section:?}");
        }
    }
}
