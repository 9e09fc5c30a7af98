//! Counts the tests that nextest ran, from its JUnit file: passed, failed, and skipped with the reason of each.
//!
//! A test that cannot run where it is (no nginx, one CPU) prints a line `skipped: <why>` and returns, which nextest calls passed.

use std::collections::BTreeMap;

/// Counts over all runs of nextest.
#[derive(Debug, Default)]
pub struct Tally {
    run: usize,
    failed: usize,
    /// By test, its binary included.
    skipped: BTreeMap<String, String>,
}

impl Tally {
    /// Adds a JUnit file. It is read line by line: nextest writes each element on a line of its own.
    pub fn add(&mut self, junit: &str) {
        let mut test = String::new();
        for line in junit.lines().map(str::trim_start) {
            let line = line.strip_prefix("<system-out>").unwrap_or(line);
            if line.starts_with("<testcase ") {
                self.run += 1;
                let attribute = |name| line.split_once(name)?.1.split('"').next();
                let parts = [attribute("classname=\""), attribute(" name=\"")].map(Option::unwrap_or_default);
                test = parts.join(" ");
            } else if line.starts_with("<failure") || line.starts_with("<error") {
                self.failed += 1;
            } else if let Some(why) = line.strip_prefix("skipped: ") {
                let why = why.split("</system-out>").next().unwrap_or(why);
                self.skipped.insert(test.clone(), why.to_owned());
            }
        }
    }

    /// The tests that skipped themselves, with their reasons.
    pub fn skipped(&self) -> impl Iterator<Item = String> {
        self.skipped.iter().map(|(test, why)| format!("skipped {test}: {why}"))
    }

    /// `N passed, N failed, N skipped`.
    pub fn closing(&self) -> String {
        let (failed, skipped) = (self.failed, self.skipped.len());
        format!("{} passed, {failed} failed, {skipped} skipped", self.run.saturating_sub(failed + skipped))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tests_that_skipped_themselves_do_not_count_as_passed() {
        let mut tally = Tally::default();
        tally.add(
            "<testsuites name=\"nextest-run\">\n  <testsuite name=\"a::cli\">\n    \
             <testcase name=\"b::one\" classname=\"a::cli\" time=\"0.1\">\n      \
             <system-out>skipped: nginx is not installed</system-out>\n    </testcase>\n    \
             <testcase name=\"b::two\" classname=\"a::cli\" time=\"0.1\">\n      <system-out>\nrunning 1 test\n\
             skipped: one CPU\nskipped: one CPU\ntest b::two ... ok\n</system-out>\n    </testcase>\n    \
             <testcase name=\"b::three\" classname=\"a::cli\">\n      <failure type=\"test failure\">panicked</failure>\n\
             </testcase>\n    <testcase name=\"b::four\" classname=\"a::cli\"/>\n",
        );
        assert_eq!(tally.closing(), "1 passed, 1 failed, 2 skipped");
        let skipped: Vec<String> = tally.skipped().collect();
        assert_eq!(
            skipped,
            ["skipped a::cli b::one: nginx is not installed", "skipped a::cli b::two: one CPU"]
        );
    }
}
