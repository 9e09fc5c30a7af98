//! What is requested, and how: lists of pages ([`Workload`]), how much load is made and by which clients ([`load`]),
//! when arrivals of an open loop are due ([`arrivals`]). Also the formats of lists, the built-in lists, lists mined
//! from access logs, and the contents of generated files.
//!
//! Every reader here is a pure function of its bytes and never panics. Nothing opens a file or a socket.
#![forbid(unsafe_code)]

pub mod addresses;
pub mod aim;
pub mod alt_svc;
pub mod arrivals;
mod body;
mod builtin;
mod canonical;
pub mod codings;
pub mod content;
mod feed_file;
mod fields;
pub mod http2_settings;
mod lists;
pub mod load;
pub mod mine;
mod pages;
mod problem;
mod read;
pub mod redirect;
pub mod request;
pub mod route;
mod sampler;
mod statuses;
pub mod target;
pub mod template;
pub mod tls;
mod toml_form;
mod url;
mod webstone1;
mod webstone2;

pub use body::{Base64, Base64Error, Body};
pub use builtin::{Builtin, builtin, builtins};
pub use fields::Fields;
pub use pages::{Feed, FeedKept, FileRequest, Page, RequestDetail, TlsPages, Workload};
pub use problem::{UnwritableError, WorkloadError};
pub use read::{FeedFile, read, read_with};
pub use sampler::{PageSequence, Sampler};
pub use statuses::{Statuses, StatusesError};
pub use toml_form::write as to_toml;
pub use url::is_absolute;
pub use webstone1::write as to_webstone1;
pub use webstone2::write as to_webstone2;

/// U+FEFF, which some editors put at the beginning of a UTF-8 file.
const BYTE_ORDER_MARK: char = '\u{feff}';
