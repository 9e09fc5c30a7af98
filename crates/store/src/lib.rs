//! Records on disk: their directory ([`record`]), archives and signatures ([`certify`]), redaction of secrets ([`redaction`]),
//! a directory of records as a library ([`library`]), and how files are opened that a stranger may have made ([`plain_file`]).
//!
//! Nothing measured is lost if writing is interrupted, and everything that is read may be hostile.
#![forbid(unsafe_code)]

pub mod certify;
pub mod clock;
pub mod duel;
pub mod library;
pub mod plain_file;
pub mod record;
pub mod redaction;
pub mod scratch;

pub use record::*;
