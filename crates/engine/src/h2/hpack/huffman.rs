//! The Huffman code of HPACK (RFC 7541 section 5.2 and appendix B). It is canonical: codes of the same length follow
//! each other in the order of their symbols, so the lengths are enough to compute it.

use super::CompressionError;

/// Length of each byte's code, in bits.
const LENGTHS: [u8; 256] = [
    13, 23, 28, 28, 28, 28, 28, 28, 28, 24, 30, 28, 28, 30, 28, 28, 28, 28, 28, 28, 28, 28, 30, 28, 28, 28,
    28, 28, 28, 28, 28, 28, 6, 10, 10, 12, 13, 6, 8, 11, 10, 10, 8, 11, 8, 6, 6, 6, 5, 5, 5, 6, 6, 6, 6, 6,
    6, 6, 7, 8, 15, 6, 12, 10, 13, 6, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 8, 7,
    8, 13, 19, 13, 14, 6, 15, 5, 6, 5, 6, 5, 6, 6, 6, 5, 7, 7, 6, 6, 6, 5, 6, 7, 6, 5, 5, 6, 7, 7, 7, 7, 7,
    15, 11, 14, 13, 28, 20, 22, 20, 20, 22, 22, 22, 23, 22, 23, 23, 23, 23, 23, 24, 23, 24, 24, 22, 23, 24,
    23, 23, 23, 23, 21, 22, 23, 22, 23, 23, 24, 22, 21, 20, 22, 22, 23, 23, 21, 23, 22, 22, 24, 21, 22, 23,
    23, 21, 21, 22, 21, 23, 22, 23, 23, 20, 22, 22, 22, 23, 22, 22, 23, 26, 26, 20, 19, 22, 23, 22, 25, 26,
    26, 26, 27, 27, 26, 24, 25, 19, 21, 26, 27, 27, 26, 27, 24, 21, 21, 26, 26, 28, 27, 27, 27, 20, 24, 20,
    21, 22, 21, 21, 23, 22, 22, 25, 25, 24, 24, 26, 23, 26, 27, 26, 26, 27, 27, 27, 27, 27, 28, 27, 27, 27,
    27, 27, 26,
];
const LENGTH_MIN: usize = 5;
const LENGTH_MAX: usize = 30;
/// Number of bits that are looked up at once: only a few printable characters have longer codes.
const LOOKED_UP: usize = 9;

static CODE: Code = Code::new();

struct Code {
    /// Code of each byte, in the lowest bits.
    codes: [u32; 256],
    /// Bytes in the order of their codes.
    order: [u8; 256],
    /// For each length, the first code after those of this length, shifted to the left end of 32 bits.
    limits: [u64; LENGTH_MAX + 1],
    /// For each length, its first code, and the position in `order` of that code's byte.
    first: [(u32, u32); LENGTH_MAX + 1],
    /// For each value of [`LOOKED_UP`] bits, the byte whose code they begin with, and the length of the code; 0 if it
    /// is longer.
    begins: [(u8, u8); 1 << LOOKED_UP],
}

impl Code {
    const fn new() -> Code {
        let mut code = Code {
            codes: [0; 256],
            order: [0; 256],
            limits: [0; LENGTH_MAX + 1],
            first: [(0, 0); LENGTH_MAX + 1],
            begins: [(0, 0); 1 << LOOKED_UP],
        };
        let (mut next, mut placed) = (0_u32, 0_usize);
        let mut length = LENGTH_MIN;
        while length <= LENGTH_MAX {
            code.first[length] = (next, placed as u32);
            let mut byte = 0;
            while byte < 256 {
                if LENGTHS[byte] as usize == length {
                    code.codes[byte] = next;
                    code.order[placed] = byte as u8;
                    if length <= LOOKED_UP {
                        let from = (next as usize) << (LOOKED_UP - length);
                        let mut at = from;
                        while at < from + (1 << (LOOKED_UP - length)) {
                            code.begins[at] = (byte as u8, length as u8);
                            at += 1;
                        }
                    }
                    next += 1;
                    placed += 1;
                }
                byte += 1;
            }
            code.limits[length] = (next as u64) << (32 - length);
            next <<= 1;
            length += 1;
        }
        code
    }
}

/// Encoded length of `text` in bytes.
pub fn coded_length(text: &[u8]) -> usize {
    text.iter().map(|byte| usize::from(LENGTHS[usize::from(*byte)])).sum::<usize>().div_ceil(8)
}

/// Appends the encoded `text` to `out`.
pub fn encode(text: &[u8], out: &mut Vec<u8>) {
    let (mut bits, mut count) = (0_u64, 0);
    for byte in text {
        let length = u32::from(LENGTHS[usize::from(*byte)]);
        bits = bits << length | u64::from(CODE.codes[usize::from(*byte)]);
        count += length;
        while count >= 8 {
            count -= 8;
            out.push((bits >> count) as u8);
        }
    }
    if count > 0 {
        // Padded with the beginning of the end-of-string code: ones.
        out.push((bits << (8 - count)) as u8 | (0xff >> count));
    }
}

/// Passes each byte of an encoded string to `each`.
///
/// # Errors
/// If the string contains the end-of-string code, or its padding is anything but fewer than eight ones.
#[inline]
pub fn decode(coded: &[u8], mut each: impl FnMut(u8)) -> Result<(), CompressionError> {
    let (mut bits, mut count) = (0_u64, 0_usize);
    let mut rest = coded.iter();
    loop {
        while count <= 56 {
            let Some(byte) = rest.next() else { break };
            bits |= u64::from(*byte) << (56 - count);
            count += 8;
        }
        if count < LENGTH_MIN {
            break;
        }
        let (byte, length) = CODE.begins[(bits >> (64 - LOOKED_UP)) as usize];
        let (byte, length) = if length > 0 {
            (byte, usize::from(length))
        } else {
            match long(bits) {
                Some(found) => found,
                None if count >= LENGTH_MAX => {
                    return Err(CompressionError("the Huffman code EOS, which must not occur"));
                }
                None => break,
            }
        };
        if length > count {
            break;
        }
        each(byte);
        bits <<= length;
        count -= length;
    }
    if count >= 8 || (count > 0 && bits >> (64 - count) != (1 << count) - 1) {
        return Err(CompressionError("Huffman padding that is not all ones"));
    }
    Ok(())
}

/// The byte, and the length of its code, for a code of more than [`LOOKED_UP`] bits at the front of `bits`.
#[cold]
fn long(bits: u64) -> Option<(u8, usize)> {
    let front = bits >> 32;
    let length = (LOOKED_UP + 1..=LENGTH_MAX).find(|length| front < CODE.limits[*length])?;
    let (first, place) = CODE.first[length];
    let code = (front >> (32 - length)) as u32;
    Some((CODE.order[(place + code - first) as usize], length))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decoded(coded: &[u8]) -> Result<Vec<u8>, CompressionError> {
        let mut text = Vec::new();
        decode(coded, |byte| text.push(byte))?;
        Ok(text)
    }

    #[test]
    fn texts_of_the_standard() {
        // RFC 7541 appendix C.4 and C.6.
        for (text, code) in [
            ("www.example.com", "f1e3c2e5f23a6ba0ab90f4ff"),
            ("no-cache", "a8eb10649cbf"),
            ("302", "6402"),
            ("Mon, 21 Oct 2013 20:13:21 GMT", "d07abe941054d444a8200595040b8166e082a62d1bff"),
        ] {
            let mut out = Vec::new();
            encode(text.as_bytes(), &mut out);
            let hex: String = out.iter().map(|byte| format!("{byte:02x}")).collect();
            assert_eq!(hex, code);
            assert_eq!((decoded(&out).unwrap(), coded_length(text.as_bytes())), (text.into(), out.len()));
        }
    }

    #[test]
    fn every_byte_comes_back() {
        let all: Vec<u8> = (0..=255).chain((0..=255).rev()).collect();
        let mut out = Vec::new();
        encode(&all, &mut out);
        assert_eq!(decoded(&out).unwrap(), all);
    }

    #[test]
    fn wrong_padding_is_refused() {
        assert_eq!(decoded(b"").unwrap(), b"");
        for wrong in [&[0xff][..], &[0xff; 4], &[0xff; 40], &[0x00, 0x00], &[0x1f, 0xff], &[0x1c]] {
            assert!(decoded(wrong).is_err(), "{wrong:?}");
        }
        // `a`, followed by three ones.
        assert_eq!(decoded(&[0x1f]).unwrap(), b"a");
    }
}
