//! Facts as they are gathered: each with its value and its source, or the reason why it is unknown.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use crate::machine::Root;

/// What has been gathered so far.
#[derive(Debug)]
pub(super) struct Facts<'a> {
    pub(super) root: &'a Root,
    values: BTreeMap<String, Value>,
    sources: Map<String, Value>,
    unknown: Map<String, Value>,
}

impl<'a> Facts<'a> {
    pub(super) fn below(root: &'a Root) -> Facts<'a> {
        Facts { root, values: BTreeMap::new(), sources: Map::new(), unknown: Map::new() }
    }

    /// Adds a fact, or notes that `source` does not have it.
    pub(super) fn add(&mut self, name: &str, source: &str, value: Option<impl Into<Value>>) {
        match value {
            Some(value) => {
                self.values.insert(name.to_owned(), value.into());
                self.sources.insert(name.to_owned(), source.into());
            }
            None => self.unknown(name, &format!("{source} does not say")),
        }
    }

    /// A fact that nothing tells, with the reason.
    pub(super) fn unknown(&mut self, name: &str, reason: &str) {
        self.unknown.insert(name.to_owned(), reason.into());
    }

    /// The text of a file; an empty one says something, too: no CPU is isolated.
    pub(super) fn text(&mut self, name: &str, path: &str) {
        let text = self.root.text(path);
        self.add(name, path, text);
    }

    /// All facts by name, their sources under `sources`, and what is not available under `unknown`.
    pub(super) fn finish(mut self) -> BTreeMap<String, Value> {
        self.values.insert("sources".to_owned(), Value::Object(self.sources));
        self.values.insert("unknown".to_owned(), Value::Object(self.unknown));
        self.values
    }
}

/// An object of the entries that are known; `None` without any.
pub(super) fn object<'a>(entries: impl IntoIterator<Item = (&'a str, Option<Value>)>) -> Option<Value> {
    let known: Map<String, Value> =
        entries.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))).collect();
    (!known.is_empty()).then_some(Value::Object(known))
}

/// The files of a directory whose names begin with one of `prefixes`, with their texts.
pub(super) fn directory(root: &Root, path: &str, prefixes: &[&str]) -> Option<Map<String, Value>> {
    // `tcp_fastopen_key` and `netdev_rss_key` are secrets of the host: no result needs them.
    let wanted =
        |name: &String| !name.ends_with("_key") && prefixes.iter().any(|prefix| name.starts_with(prefix));
    let entry =
        |name: String| Some((name.clone(), Value::from(words(&root.text(&format!("{path}/{name}"))?))));
    let entries: Map<String, Value> = root.names(path).into_iter().filter(wanted).filter_map(entry).collect();
    (!entries.is_empty()).then_some(entries)
}

/// Tabs between numbers are the kernel's layout, not part of the value.
pub(super) fn words(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}
