//! Which program this is: its version, and the commit it was built from where that is known.

use webstone_model::record::Tool;

/// What `webstone --version` prints after the program's name: the version, and the commit in brackets.
pub(crate) const LINE: &str = env!("WEBSTONE_VERSION_LINE");

/// This program, as a record names it.
pub(crate) fn tool() -> Tool {
    Tool {
        name: "webstone".to_owned(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        // Set by the build script; a source archive has no commit.
        commit: option_env!("WEBSTONE_COMMIT").map(str::to_owned),
    }
}
