//! Seeded changes to inputs: a small mutator without coverage, for runs with any compiler. The same seed gives the
//! same inputs on any machine, so a failure in continuous integration can be reproduced anywhere.

use rand_core::{RngCore, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

/// Pieces on which parsers base decisions.
const TOKENS: [&[u8]; 38] = [
    b"\r\n",
    b"\n",
    b"\r",
    b"\r\n\r\n",
    b" ",
    b"\t",
    b"\0",
    b"#",
    b"\"",
    b"'",
    b"\\",
    b":",
    b";",
    b",",
    b"=",
    b"[",
    b"]",
    b"{",
    b"}",
    b"{{",
    b"}}",
    b"..",
    b"%",
    b"%00",
    b"-",
    b"+",
    b"*",
    b"null",
    b"0",
    b"-1",
    b"1e308",
    b"0.1",
    b"HTTP/1.1 200 OK\r\n",
    b"Content-Length: ",
    b"Transfer-Encoding: chunked\r\n",
    b"0\r\n\r\n",
    b"\xc3\xa9",
    b"\xff",
];
/// Numbers at which arithmetic breaks.
const NUMBERS: [&[u8]; 14] = [
    b"0",
    b"1",
    b"127",
    b"255",
    b"65535",
    b"65536",
    b"2147483647",
    b"4294967295",
    b"4294967296",
    b"9223372036854775807",
    b"9223372036854775808",
    b"18446744073709551615",
    b"18446744073709551616",
    b"99999999999999999999999999999999999999",
];

/// Makes new inputs out of a corpus.
#[derive(Clone, Debug)]
pub struct Mutator {
    random: Xoshiro256PlusPlus,
}

impl Mutator {
    /// A mutator with a sequence of its own.
    pub fn new(seed: u64) -> Mutator {
        Mutator { random: Xoshiro256PlusPlus::seed_from_u64(seed) }
    }

    /// An input of at most `bytes_max` bytes: one of the corpus, changed one to eight times.
    pub fn next(&mut self, corpus: &[Vec<u8>], bytes_max: usize) -> Vec<u8> {
        let mut input = if corpus.is_empty() { Vec::new() } else { corpus[self.below(corpus.len())].clone() };
        for _ in 0..=self.below(8) {
            self.change(&mut input, corpus);
        }
        input.truncate(bytes_max);
        input
    }

    fn change(&mut self, input: &mut Vec<u8>, corpus: &[Vec<u8>]) {
        let at = self.below(input.len() + 1);
        let to = (at + self.below(16)).min(input.len());
        match self.below(10) {
            0 if at < input.len() => input[at] ^= 1 << self.below(8),
            1 if at < input.len() => input[at] = self.random.next_u32() as u8,
            2 => drop(input.drain(at..to)),
            3 => input.truncate(at),
            4 => {
                let token = TOKENS[self.below(TOKENS.len())];
                input.splice(at..at, token.iter().copied());
            }
            5 => {
                let token = TOKENS[self.below(TOKENS.len())];
                input.splice(at..to, token.iter().copied());
            }
            6 => {
                let copy = input[at..to].to_vec();
                let times = 1 + self.below(64);
                input.splice(at..at, copy.repeat(times));
            }
            7 if !corpus.is_empty() => {
                let other = &corpus[self.below(corpus.len())];
                let from = self.below(other.len() + 1);
                let length = self.below(64).min(other.len() - from);
                input.splice(at..to, other[from..from + length].iter().copied());
            }
            8 => self.change_number(input, at),
            _ => input.insert(at, self.random.next_u32() as u8),
        }
    }

    /// Replaces the first run of digits from `at` on.
    fn change_number(&mut self, input: &mut Vec<u8>, at: usize) {
        let Some(from) = input[at..].iter().position(u8::is_ascii_digit).map(|found| at + found) else {
            return;
        };
        let length = input[from..].iter().take_while(|byte| byte.is_ascii_digit()).count();
        let number = NUMBERS[self.below(NUMBERS.len())];
        input.splice(from..from + length, number.iter().copied());
    }

    fn below(&mut self, bound: usize) -> usize {
        // The slight bias of a remainder is of no interest here.
        (self.random.next_u64() % bound.max(1) as u64) as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_gives_the_same_inputs() {
        let corpus = [b"one two 3".to_vec(), Vec::new()];
        let inputs = |seed| {
            let mut mutator = Mutator::new(seed);
            (0..200).map(|_| mutator.next(&corpus, 20)).collect::<Vec<_>>()
        };
        assert_eq!(inputs(1), inputs(1));
        assert_ne!(inputs(1), inputs(2));
        assert!(inputs(1).iter().all(|input| input.len() <= 20));
        let different: std::collections::BTreeSet<_> = inputs(1).into_iter().collect();
        assert!(different.len() > 150, "{}", different.len());
    }

    #[test]
    fn an_empty_corpus_is_enough() {
        let mut mutator = Mutator::new(7);
        assert!((0..100).any(|_| !mutator.next(&[], 64).is_empty()));
    }
}
