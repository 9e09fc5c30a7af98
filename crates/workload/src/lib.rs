//! Lists of pages: formats that are read and written, the built-in lists, access logs that become a list, and the contents of
//! generated files. What a workload is stands in [`webstone_model::workload`].
//!
//! Every reader here is a pure function of its bytes and panics on none. Nothing opens a file or a socket.
#![forbid(unsafe_code)]

pub mod aim;
mod builtin;
pub mod content;
mod feed_file;
mod lists;
pub mod mine;
mod problem;
mod read;
mod toml_form;
mod url;
mod webstone1;
mod webstone2;

pub use builtin::{Builtin, builtin, builtins};
pub use problem::{UnwritableError, WorkloadError};
pub use read::{FeedFile, read, read_with};
pub use toml_form::write as to_toml;
pub use url::is_absolute;
pub use webstone1::write as to_webstone1;
pub use webstone2::write as to_webstone2;

use webstone_model::workload::{Feed, FileRequest, Page, RequestDetail, Workload, template};

/// U+FEFF, with which some editors begin a UTF-8 file.
const BYTE_ORDER_MARK: char = '\u{feff}';
