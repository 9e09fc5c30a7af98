//! Integers of variable length (RFC 9000 section 16), and a cursor that writes them.

/// Largest value.
pub const MAX: u64 = (1 << 62) - 1;

/// The integer that bytes begin with, and how many bytes it has.
#[inline]
pub fn read(bytes: &[u8]) -> Option<(u64, usize)> {
    let first = *bytes.first()?;
    let length = 1_usize << (first >> 6);
    let mut value = u64::from(first & 0x3f);
    for byte in bytes.get(1..length)? {
        value = value << 8 | u64::from(*byte);
    }
    Some((value, length))
}

/// How many bytes a value has.
#[inline]
pub fn bytes(value: u64) -> usize {
    match value {
        0..0x40 => 1,
        0x40..0x4000 => 2,
        0x4000..0x4000_0000 => 4,
        _ => 8,
    }
}

/// Writes into a slice. The caller checks [`Writer::room`] first.
#[derive(Debug)]
pub(super) struct Writer<'a> {
    out: &'a mut [u8],
    at: usize,
    end: usize,
}

impl<'a> Writer<'a> {
    /// Writes from `at` to `end`.
    #[inline]
    pub(super) fn new(out: &'a mut [u8], at: usize, end: usize) -> Writer<'a> {
        let end = end.min(out.len());
        Writer { out, at, end }
    }

    #[inline]
    pub(super) fn at(&self) -> usize {
        self.at
    }

    #[inline]
    pub(super) fn room(&self) -> usize {
        self.end.saturating_sub(self.at)
    }

    #[inline]
    pub(super) fn byte(&mut self, byte: u8) {
        self.out[self.at] = byte;
        self.at += 1;
    }

    #[inline]
    pub(super) fn bytes(&mut self, bytes: &[u8]) {
        self.out[self.at..self.at + bytes.len()].copy_from_slice(bytes);
        self.at += bytes.len();
    }

    #[inline]
    pub(super) fn varint(&mut self, value: u64) {
        match bytes(value) {
            1 => self.byte(value as u8),
            2 => self.bytes(&(value as u16 | 0x4000).to_be_bytes()),
            4 => self.bytes(&(value as u32 | 0x8000_0000).to_be_bytes()),
            _ => self.bytes(&(value | 0xc000_0000_0000_0000).to_be_bytes()),
        }
    }

    /// A value that is known to be below 16,384, in two bytes.
    #[inline]
    pub(super) fn two_bytes(&mut self, value: usize) {
        self.bytes(&(value as u16 | 0x4000).to_be_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn examples_of_the_standard() {
        for (encoded, value) in [
            (&[0xc2, 0x19, 0x7c, 0x5e, 0xff, 0x14, 0xe8, 0x8c][..], 151_288_809_941_952_652),
            (&[0x9d, 0x7f, 0x3e, 0x7d], 494_878_333),
            (&[0x7b, 0xbd], 15_293),
            (&[0x25], 37),
        ] {
            assert_eq!(read(encoded), Some((value, encoded.len())));
            let mut out = [0; 8];
            let mut writer = Writer::new(&mut out, 0, 8);
            writer.varint(value);
            let at = writer.at();
            assert_eq!(&out[..at], encoded);
            for cut in 0..encoded.len() {
                assert_eq!(read(&encoded[..cut]), None);
            }
        }
        assert_eq!(read(&[0x40, 0x25]), Some((37, 2)));
        for edge in [0x3f, 0x3fff, 0x3fff_ffff, MAX] {
            let mut out = [0; 8];
            Writer::new(&mut out, 0, 8).varint(edge);
            assert_eq!(read(&out), Some((edge, bytes(edge))));
        }
    }
}
