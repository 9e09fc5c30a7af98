//! Testbed files: whole runs as TOML.

use webstone_model::spec::RunSpec;

/// A specification that reads is written and read again as the same: what `--dump-spec` prints can be run.
pub(crate) fn specification(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let Ok(spec) = toml::from_str::<RunSpec>(text) else { return };
    // TOML has no integers above 2⁶³ − 1, so a specification may be too large to be written; it may not read back
    // as another.
    let Ok(written) = toml::to_string(&spec) else { return };
    let again: RunSpec = toml::from_str(&written).expect("what was written can be read");
    assert_eq!(again, spec);
}
