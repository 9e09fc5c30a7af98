//! Reports of records with known content, in every format. One program, because each would be linked with everything.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test that cannot go on may panic; a skipped one says why"
)]

#[path = "../records/mod.rs"]
mod records;

mod documentation;
mod examples;
mod formats;
mod golden;
mod html;
mod junit;
mod open_loop;
mod otel;
mod paper;
#[cfg(feature = "schema")] // which `webstone-ui` asks for in tests
mod schema;
mod selection;
mod series;
mod standing;
mod unanswered;
mod wscollect;
