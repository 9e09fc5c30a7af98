//! The Huffman code of HPACK and QPACK (RFC 7541, appendix B), decoded only. The code is canonical: codes of one length are
//! consecutive in the order of their symbols, and longer ones follow, so that the lengths say it all.

use std::sync::LazyLock;

/// Longest code, in bits.
const LENGTH_MAX: usize = 30;

/// The length of each byte's code, in bits.
#[rustfmt::skip]
const LENGTHS: [u8; 256] = [
    13, 23, 28, 28, 28, 28, 28, 28, 28, 24, 30, 28, 28, 30, 28, 28, 28, 28, 28, 28, 28, 28, 30, 28, 28, 28, 28, 28, 28, 28, 28, 28,
    6, 10, 10, 12, 13, 6, 8, 11, 10, 10, 8, 11, 8, 6, 6, 6, 5, 5, 5, 6, 6, 6, 6, 6, 6, 6, 7, 8, 15, 6, 12, 10,
    13, 6, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 8, 7, 8, 13, 19, 13, 14, 6,
    15, 5, 6, 5, 6, 5, 6, 6, 6, 5, 7, 7, 6, 6, 6, 5, 6, 7, 6, 5, 5, 6, 7, 7, 7, 7, 7, 15, 11, 14, 13, 28,
    20, 22, 20, 20, 22, 22, 22, 23, 22, 23, 23, 23, 23, 23, 24, 23, 24, 24, 22, 23, 24, 23, 23, 23, 23, 21, 22, 23, 22, 23, 23, 24,
    22, 21, 20, 22, 22, 23, 23, 21, 23, 22, 22, 24, 21, 22, 23, 23, 21, 21, 22, 21, 23, 22, 23, 23, 20, 22, 22, 22, 23, 22, 22, 23,
    26, 26, 20, 19, 22, 23, 22, 25, 26, 26, 26, 27, 27, 26, 24, 25, 19, 21, 26, 27, 27, 26, 27, 24, 21, 21, 26, 26, 28, 27, 27, 27,
    20, 24, 20, 21, 22, 21, 21, 23, 22, 22, 25, 25, 24, 24, 26, 23, 26, 27, 26, 26, 27, 27, 27, 27, 27, 28, 27, 27, 27, 27, 27, 26,
];

/// For each length: its first code, and where its symbols begin in `symbols`.
struct Code {
    first: [u32; LENGTH_MAX + 2],
    begin: [usize; LENGTH_MAX + 2],
    symbols: Vec<u8>,
}

static CODE: LazyLock<Code> = LazyLock::new(|| {
    let mut code = Code { first: [0; LENGTH_MAX + 2], begin: [0; LENGTH_MAX + 2], symbols: Vec::new() };
    let mut next = 0_u32;
    for length in 1..=LENGTH_MAX {
        next <<= 1;
        (code.first[length], code.begin[length]) = (next, code.symbols.len());
        let of_length = (0..=u8::MAX).filter(|symbol| usize::from(LENGTHS[usize::from(*symbol)]) == length);
        code.symbols.extend(of_length);
        next += (code.symbols.len() - code.begin[length]) as u32;
    }
    code.begin[LENGTH_MAX + 1] = code.symbols.len();
    code
});

/// The decoded bytes; `None` if they are not in this code, or are padded with other than up to seven ones.
pub(super) fn decode(bytes: &[u8]) -> Option<Vec<u8>> {
    let mut decoded = Vec::with_capacity(bytes.len() * 8 / 5);
    let (mut code, mut length) = (0_u32, 0);
    for byte in bytes {
        for bit in (0..8).rev() {
            code = code << 1 | u32::from(byte >> bit & 1);
            length += 1;
            if length > LENGTH_MAX {
                return None;
            }
            let count = CODE.begin[length + 1] - CODE.begin[length];
            let offset = code.checked_sub(CODE.first[length])? as usize;
            if offset < count {
                decoded.push(CODE.symbols[CODE.begin[length] + offset]);
                (code, length) = (0, 0);
            }
        }
    }
    (length < 8 && code == (1 << length) - 1).then_some(decoded)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn examples_of_the_standard_are_decoded() {
        let host = [0xf1, 0xe3, 0xc2, 0xe5, 0xf2, 0x3a, 0x6b, 0xa0, 0xab, 0x90, 0xf4, 0xff];
        assert_eq!(decode(&host).unwrap(), b"www.example.com");
        assert_eq!(decode(&[0xa8, 0xeb, 0x10, 0x64, 0x9c, 0xbf]).unwrap(), b"no-cache");
        let date = [
            0xd0, 0x7a, 0xbe, 0x94, 0x10, 0x54, 0xd4, 0x44, 0xa8, 0x20, 0x05, 0x95, 0x04, 0x0b, 0x81, 0x66,
            0xe0, 0x82, 0xa6, 0x2d, 0x1b, 0xff,
        ];
        assert_eq!(decode(&date).unwrap(), b"Mon, 21 Oct 2013 20:13:21 GMT");
        assert_eq!(decode(b""), Some(Vec::new()));
    }

    #[test]
    fn wrong_padding_is_refused() {
        assert_eq!(decode(&[0xff]), None, "eight ones are more than padding");
        assert_eq!(decode(&[0x00]), None, "zeros are no padding");
        assert_eq!(decode(&[0xff, 0xff, 0xff, 0xff]), None, "the end of the string is no symbol");
    }
}
