//! Testbed files: whole runs as TOML.

use webstone_model::spec::RunSpec;
use webstone_model::toml_text;

/// A specification can be read, or the error is at a place within it. One that can be read is written and read back
/// the same: what `--dump-spec` prints can be run.
pub(crate) fn specification(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let spec = match toml_text::read::<RunSpec>(text) {
        Ok(spec) => spec,
        Err(error) => {
            assert!(error.start <= text.len() && error.line(text) <= 1 + text.lines().count());
            return;
        }
    };
    // TOML has no integers above 2⁶³ − 1, so a specification may be too large to be written; it may not read back
    // as another.
    let Ok(written) = toml::to_string(&spec) else { return };
    assert_eq!(toml_text::read(&written).as_ref(), Ok(&spec));
}
