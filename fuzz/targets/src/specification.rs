//! Testbed files: whole runs as TOML.

use serde::Deserialize;
use webstone_measure::strict::Strict;
use webstone_model::spec::RunSpec;
use webstone_model::toml_text;

/// A specification is what `toml` reads in its text, or wrong at a place within it; one that reads is written and read again as the
/// same: what `--dump-spec` prints can be run.
pub(crate) fn specification(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let theirs = toml::Deserializer::parse(text).and_then(|from| RunSpec::deserialize(Strict(from)));
    let spec = match toml_text::read::<RunSpec>(text) {
        Ok(spec) => {
            assert_eq!(theirs.as_ref(), Ok(&spec));
            spec
        }
        Err(error) => {
            assert!(error.start <= text.len() && error.line(text) <= 1 + text.lines().count());
            // JSON has neither infinity nor NaN.
            assert!(theirs.is_err() || error.rule == "not a finite number", "{}", error.rule);
            return;
        }
    };
    // TOML has no integers above 2⁶³ − 1, so a specification may be too large to be written; it may not read back
    // as another.
    let Ok(written) = toml::to_string(&spec) else { return };
    assert_eq!(toml_text::read(&written).as_ref(), Ok(&spec));
}
