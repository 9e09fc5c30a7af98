//! Bodies made on the spot, as the WebStone `send` programs made theirs.
//!
//! The fill matters: at one server, connections per second differed by two thirds between the slowest and the fastest way to
//! fill the same buffer.

use std::cell::Cell;
use std::sync::LazyLock;

use bytes::Bytes;

/// First character of a fill; with [`CHARACTERS`] that gives `?` to `X`, as `rand() % 26 + 63` does.
const FIRST: u8 = 63;
const CHARACTERS: u8 = 26;
/// Constant bodies are slices of this, without any copy. Made when first asked for, so that the program's file need not hold it.
static CONSTANT: LazyLock<Vec<u8>> = LazyLock::new(|| vec![FIRST; FRAME_BYTES]);
/// Content that no fill makes.
static WRONG: LazyLock<Vec<u8>> = LazyLock::new(|| vec![b'!'; FRAME_BYTES]);

/// Most bytes made at once.
pub(crate) const FRAME_BYTES: usize = 256 * 1024;

/// How a body is filled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BodyFill {
    /// One call of a random number generator for each byte.
    Random,
    /// Index modulo 26.
    Pattern,
    /// A constant buffer.
    Constant,
    /// A constant buffer of a character that the other fills never make.
    Wrong,
}

impl BodyFill {
    /// Makes `length` (at most [`FRAME_BYTES`]) bytes of a body from `offset` on.
    pub(crate) fn make(self, offset: u64, length: usize, random: &Cell<u64>) -> Bytes {
        let length = length.min(FRAME_BYTES);
        match self {
            BodyFill::Random => {
                let mut state = random.get();
                let bytes: Vec<u8> = (0..length).map(|_| FIRST + (next(&mut state) % 26) as u8).collect();
                random.set(state);
                bytes.into()
            }
            BodyFill::Pattern => {
                let start = offset % u64::from(CHARACTERS);
                let character =
                    |index: usize| FIRST + ((start as usize + index) % usize::from(CHARACTERS)) as u8;
                (0..length).map(character).collect::<Vec<u8>>().into()
            }
            BodyFill::Constant => Bytes::from_static(&CONSTANT[..length]),
            BodyFill::Wrong => Bytes::from_static(&WRONG[..length]),
        }
    }
}

/// Marsaglia's xorshift64* (Vigna, "An experimental exploration of Marsaglia's xorshift generators", 2016).
fn next(state: &mut u64) -> u32 {
    *state ^= *state >> 12;
    *state ^= *state << 25;
    *state ^= *state >> 27;
    (state.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 32) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fills_use_the_characters_of_the_original() {
        let random = Cell::new(1);
        let bytes = BodyFill::Random.make(0, 10_000, &random);
        assert_eq!(bytes.len(), 10_000);
        let mut seen = [0_u32; 256];
        bytes.iter().for_each(|byte| seen[usize::from(*byte)] += 1);
        assert!((63..89).all(|character| seen[character] > 250), "{seen:?}");
        assert_eq!(seen.iter().sum::<u32>(), seen[63..89].iter().sum::<u32>());
        assert_ne!(BodyFill::Random.make(0, 100, &random), BodyFill::Random.make(0, 100, &random));
    }

    #[test]
    fn a_pattern_continues_over_frames() {
        let random = Cell::new(1);
        let whole = BodyFill::Pattern.make(0, 100, &random);
        assert_eq!(&whole[..3], b"?@A");
        assert_eq!(whole[26], b'?');
        assert_eq!(BodyFill::Pattern.make(30, 70, &random), whole[30..]);
    }

    #[test]
    fn constants_are_constant() {
        let random = Cell::new(1);
        assert_eq!(BodyFill::Constant.make(5, 3, &random), "???");
        assert_eq!(BodyFill::Wrong.make(5, 3, &random), "!!!");
    }
}
