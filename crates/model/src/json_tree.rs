//! Reads a type from a tree of JSON values.

use serde::de::DeserializeOwned;
use serde_json::Value;

use webstone_measure::strict;

/// Reads a value as its text is read. serde compiles the reading of a type once for each kind of reader, so that with
/// `serde_json::from_value` that of a record would be in the program twice.
///
/// # Errors
/// If the value is not what `T` describes.
pub fn read<T: DeserializeOwned>(value: &Value) -> serde_json::Result<T> {
    strict::json(&serde_json::to_vec(value)?)
}
