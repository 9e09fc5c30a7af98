//! A second opinion from independent programs: nginx, Apache and lighttpd serve the generated filesets, and wrk, ab and
//! h2load drive the reference server. All without an error, with every byte accounted for.
#![allow(clippy::print_stdout, reason = "a skipped test says why")]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on must fail")]

mod clients;
mod program;
mod servers;
