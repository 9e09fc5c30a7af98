//! Truth, requests and the corners of HTTP by readiness: the same cases as on the other back ends.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on must fail")]
#![allow(clippy::print_stdout, reason = "a skipped test says why")]

mod cases;

use webstone_model::spec::Backend;

/// The back end of every run in this file.
const BACKEND: Backend = Backend::Epoll;
