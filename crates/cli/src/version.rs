//! The version of this program, and the commit that it was built from, if known.

use webstone_model::record::Tool;

/// Printed by `webstone --version` after the program's name: the version, and the commit in brackets.
pub(crate) const LINE: &str = env!("WEBSTONE_VERSION_LINE");

/// This program, as in a record.
pub(crate) fn tool() -> Tool {
    Tool {
        name: "webstone".to_owned(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        // Set by the build script; a source archive has no commit.
        commit: option_env!("WEBSTONE_COMMIT").map(str::to_owned),
    }
}
