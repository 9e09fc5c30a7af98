//! What is wrong with a workload's text, and where: all readers report errors with these types.
//!
//! A reader works with byte offsets, which cost nothing if there is no error; lines and columns are counted only for
//! an error.

use webstone_measure::shown::quoted;

/// Why a text is not a workload, or why a workload cannot be written in some format.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{file}:{line}:{column}: {what}")]
pub struct WorkloadError {
    /// Name of the text, as the caller gave it.
    pub file: String,
    /// Line, from 1.
    pub line: u64,
    /// Column in characters, from 1.
    pub column: u64,
    /// What was found and what was expected.
    pub what: String,
    /// What to do about it.
    pub hint: Option<String>,
}

/// Why a workload cannot be written in a format: the format cannot express something in it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{what}")]
pub struct UnwritableError {
    /// What the format cannot express, and on which page.
    pub what: String,
    /// Which format can.
    pub hint: Option<String>,
}

/// A problem at a byte offset of a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Fault {
    pub(super) offset: usize,
    pub(super) what: String,
    pub(super) hint: Option<String>,
}

impl Fault {
    pub(super) fn new(offset: usize, what: impl Into<String>) -> Fault {
        Fault { offset, what: what.into(), hint: None }
    }

    pub(super) fn found(offset: usize, found: &str, expected: &str) -> Fault {
        Fault::new(offset, format!("found {}, expected {expected}", quoted(found)))
    }

    pub(super) fn hint(mut self, hint: impl Into<String>) -> Fault {
        self.hint = Some(hint.into());
        self
    }

    /// The same fault in a longer text that contains the original from `start` on.
    pub(super) fn after(self, start: usize) -> Fault {
        Fault { offset: start + self.offset, ..self }
    }

    /// The error for this fault in a text of the given name.
    pub(super) fn locate(self, file: &str, text: &[u8]) -> WorkloadError {
        let before = &text[..self.offset.min(text.len())];
        // A carriage return without a line feed also ends a line: some of these lists come from old Macs.
        let mut line = 1;
        let mut start = 0;
        for (index, byte) in before.iter().enumerate() {
            if *byte == b'\n' || (*byte == b'\r' && text.get(index + 1) != Some(&b'\n')) {
                line += 1;
                start = index + 1;
            }
        }
        let on_line = before[start..].strip_prefix(b"\xef\xbb\xbf".as_slice()).unwrap_or(&before[start..]);
        let column = 1 + on_line.iter().filter(|byte| *byte & 0xc0 != 0x80).count() as u64;
        WorkloadError { file: file.to_owned(), line, column, what: self.what, hint: self.hint }
    }
}

/// Reads a whole number from `low` to `i64::MAX` (the maximum of TOML); `expected` says what it is.
pub(super) fn whole_number(offset: usize, token: &str, low: u64, expected: &str) -> Result<u64, Fault> {
    let rule = format!("{expected} (a whole number from {low})");
    let fault = || Fault::found(offset, token, &rule);
    let digits = token.strip_prefix(['-', '+']).unwrap_or(token);
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(match token.parse::<f64>() {
            Ok(number) if number.is_finite() => {
                fault().hint("multiply all weights by the same factor until they are whole numbers")
            }
            _ => fault(),
        });
    }
    if token.starts_with('-') {
        return Err(fault().hint("a negative number has no meaning here"));
    }
    match digits.parse::<u64>() {
        Ok(number) if number > i64::MAX as u64 => Err(fault().hint(too_large())),
        Ok(number) if number < low => Err(fault()),
        Ok(number) => Ok(number),
        Err(_) => Err(fault().hint(too_large())),
    }
}

fn too_large() -> String {
    format!("the largest number that a workload can hold is {}", i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_count_characters_and_every_kind_of_line_end() {
        let text = "\u{feff}a\r\nb\rcé x\n";
        let at = |offset| {
            let error = Fault::new(offset, "").locate("f", text.as_bytes());
            (error.line, error.column)
        };
        assert_eq!(at(3), (1, 1), "a byte order mark is no column");
        assert_eq!(at(text.find('b').unwrap()), (2, 1));
        assert_eq!(at(text.find('x').unwrap()), (3, 4));
        assert_eq!(at(text.len()), (4, 1));
        assert_eq!(at(1000), (4, 1));
    }

    #[test]
    fn numbers_outside_the_rule_are_distinguished() {
        let hint = |token: &str| whole_number(0, token, 1, "a weight").unwrap_err().hint;
        assert_eq!(whole_number(0, "7", 1, "a weight"), Ok(7));
        assert!(hint("-5").unwrap().contains("negative"));
        assert!(hint("0.5").unwrap().contains("multiply"));
        assert!(hint("99999999999999999999").unwrap().contains("largest"));
        assert!(hint("9223372036854775808").unwrap().contains("largest"));
        assert_eq!(hint("0"), None);
        assert_eq!(hint("x"), None);
    }
}
