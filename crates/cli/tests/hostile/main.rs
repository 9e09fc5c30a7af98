//! Attacks: each test has the name of what was tried, and fails if it succeeds. `docs/security.md` promises what they
//! check.
#![allow(clippy::unwrap_used, reason = "helpers of tests are tests: a panic is how they fail")]

mod agents;
mod aim;
mod archives;
#[path = "../../../ui/tests/http/asker.rs"]
#[allow(dead_code, reason = "the front's own tests use the rest")]
mod asker;
mod display;
mod feeds;
mod files;
mod floods;
mod forged;
mod host;
mod kills;
mod limits;
mod links;
mod peer;
mod powers;
#[path = "../cli/program.rs"]
#[allow(dead_code, reason = "the other tests of the program use the rest")]
mod program;
mod records;
mod secrets;
mod servers;
