//! Reads what `cargo test` prints and counts it: passed, failed, and skipped with the reason of each.
//!
//! A test that cannot run where it is (no nginx, one CPU) prints a line `skipped: <why>` and returns. The test runner
//! calls that passed and swallows the line; with `--show-output` it prints it in a section of its own, which is read
//! here and kept from the screen.

use std::collections::BTreeSet;

/// Counts over all test programs of a run.
#[derive(Debug, Default)]
pub struct Tally {
    passed: u64,
    failed: u64,
    ignored: u64,
    programs: u64,
    failures: Vec<String>,
    skips: BTreeSet<(String, String)>,
    /// Tests that skipped themselves, by number of the program and name: one may say so twice.
    skipped_tests: BTreeSet<(u64, String)>,
    section: Section,
    current: String,
    /// What each failed test said, shortened.
    said: Vec<(String, Vec<String>)>,
}

/// Part of what a test program prints behind its list of tests.
#[derive(Debug, Default, PartialEq)]
enum Section {
    #[default]
    Tests,
    Successes,
    Failures,
}

/// Lines of a failed test that are shown once more at the end: the message stands first, behind it the stack.
const SAID_LINES: usize = 20;

impl Tally {
    /// Takes one line of output; tells whether it should be shown.
    pub fn line(&mut self, line: &str) -> bool {
        if let Some(result) = line.strip_prefix("test result: ") {
            self.section = Section::Tests;
            self.programs += 1;
            for part in result.split(['.', ';']) {
                let Some((number, what)) = part.trim().split_once(' ') else { continue };
                let Ok(number) = number.parse::<u64>() else { continue };
                match what {
                    "passed" => self.passed += number,
                    "failed" => self.failed += number,
                    "ignored" => self.ignored += number,
                    _ => {}
                }
            }
            return true;
        }
        match line {
            "successes:" => self.section = Section::Successes,
            // Their names follow under the same word.
            "failures:" if self.section == Section::Failures => self.section = Section::Tests,
            "failures:" => self.section = Section::Failures,
            _ => {}
        }
        let heading = line.strip_prefix("---- ").and_then(|rest| rest.strip_suffix(" stdout ----"));
        if self.section == Section::Failures {
            match (heading, self.said.last_mut()) {
                (Some(name), _) => self.said.push((name.to_owned(), Vec::new())),
                (None, Some((_, lines))) if lines.len() < SAID_LINES && is_said(line) => {
                    lines.push(line.to_owned());
                }
                _ => {}
            }
        }
        if self.section == Section::Successes {
            if let Some(name) = heading {
                self.current = name.to_owned();
            } else if let Some(why) = line.trim().strip_prefix("skipped: ") {
                self.skips.insert((self.current.clone(), why.to_owned()));
                self.skipped_tests.insert((self.programs, self.current.clone()));
            }
            return false;
        }
        if let Some((name, outcome)) = line.strip_prefix("test ").and_then(|rest| rest.rsplit_once(" ... ")) {
            if outcome == "FAILED" {
                self.failures.push(name.to_owned());
            } else if let Some(why) = outcome.strip_prefix("ignored") {
                let why = why.trim_start_matches([',', ' ']);
                let why = if why.is_empty() { "marked as not to be run" } else { why };
                self.skips.insert((name.to_owned(), why.to_owned()));
            }
        }
        true
    }

    /// Whether any test failed.
    pub fn has_failures(&self) -> bool {
        self.failed > 0
    }

    /// Whether no test program ran to its end.
    pub fn is_empty(&self) -> bool {
        self.programs == 0
    }

    /// What was skipped and why, a line each, and what failed with the first lines that it said: a log of which only the end
    /// is kept must show them.
    pub fn details(&self) -> Vec<String> {
        let mut details: Vec<String> =
            self.skips.iter().map(|(name, why)| format!("skipped {name}: {why}")).collect();
        for name in &self.failures {
            details.push(format!("FAILED  {name}"));
            let said = self.said.iter().filter(|(failed, _)| failed == name);
            details.extend(said.flat_map(|(_, lines)| lines).map(|line| format!("        {line}")));
        }
        details
    }

    /// The closing line: `N passed, N failed, N skipped`.
    pub fn closing(&self) -> String {
        let skipped_inside = self.skipped_tests.len() as u64;
        let passed = self.passed.saturating_sub(skipped_inside);
        format!("{passed} passed, {} failed, {} skipped", self.failed, self.ignored + skipped_inside)
    }
}

fn is_said(line: &str) -> bool {
    !line.trim().is_empty() && line != "stack backtrace:"
}

#[cfg(test)]
mod tests {
    use super::*;

    const OUTPUT: &str = "
running 4 tests
test a::b ... ok
test a::c ... ok
test slow ... ignored, a benchmark
test wrong ... FAILED

successes:

---- a::b stdout ----
skipped: nginx is not installed
skipped: nginx is not installed

successes:
    a::b
    a::c

failures:

---- wrong stdout ----
thread panicked: skipped: not this one
stack backtrace:
   0: one
   1: two
   2: three
   3: four
   4: five
   5: six
   6: seven
   7: eight
   8: nine
   9: ten

failures:
    wrong

test result: FAILED. 2 passed; 1 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.00s

running 1 test
test a::b ... ok

successes:

---- a::b stdout ----
plain output

successes:
    a::b

test result: ok. 1 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 1.25s
";

    #[test]
    fn counts_are_summed_and_reasons_kept() {
        let mut tally = Tally::default();
        let shown: Vec<&str> = OUTPUT.lines().filter(|line| tally.line(line)).collect();
        assert_eq!(tally.closing(), "2 passed, 1 failed, 2 skipped");
        let details = tally.details();
        assert_eq!(
            details[..5],
            [
                "skipped a::b: nginx is not installed",
                "skipped slow: a benchmark",
                "FAILED  wrong",
                "        thread panicked: skipped: not this one",
                "           0: one",
            ]
        );
        assert_eq!((details.len(), details[13].trim()), (14, "9: ten"));
        assert!(tally.has_failures() && !tally.is_empty());
        assert!(shown.contains(&"thread panicked: skipped: not this one"));
        assert!(!shown.contains(&"plain output") && !shown.contains(&"    a::c"));
    }

    #[test]
    fn nothing_run_is_empty() {
        let mut tally = Tally::default();
        assert!(tally.line("error: could not compile `webstone-model`"));
        assert!(tally.is_empty());
    }
}
