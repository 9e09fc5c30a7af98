//! Values of feeds in requests. A value may be any text, but not every text may stand in a request line or header field.
//!
//! In a request target, bytes that are not allowed are percent-encoded (`%0D`), once, before the run. Header fields
//! have no such encoding, so their values are refused: a line end would begin another field, or a whole request that
//! nobody asked for. Bodies may hold any bytes.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use indexmap::IndexMap;
use webstone_measure::shown::quoted;
use webstone_workload::Feed;
use webstone_workload::template::Template;

use crate::h1::request::is_field_value;
use crate::plan_error::PlanError;

/// Copies of the feeds that request lines use, encoded; `None` if they need no encoding.
pub(crate) fn for_targets<'a>(
    lines: impl Iterator<Item = &'a Template>,
    feeds: &IndexMap<String, Feed>,
) -> Option<IndexMap<String, Feed>> {
    let named: BTreeSet<(&str, &str)> = lines.flat_map(Template::feed_columns).collect();
    let must_change = named.iter().any(|(name, column)| {
        values(feeds, name, column).any(|(_, value)| !value.bytes().all(stands_in_target))
    });
    must_change.then(|| {
        let mut changed: IndexMap<String, Feed> = IndexMap::new();
        for (name, column) in named {
            let Some(feed) = feeds.get(name) else { continue };
            let copy = changed.entry(name.to_owned()).or_insert_with(|| feed.clone());
            let Some(place) = feed.columns.iter().position(|known| known == column) else { continue };
            for value in copy.rows.iter_mut().filter_map(|row| row.get_mut(place)) {
                *value = encoded(value);
            }
        }
        changed
    })
}

/// Refuses feeds and columns that do not exist, and values that a header field cannot hold. `fields` are all fields
/// of a request, as one template.
pub(crate) fn check_fields(
    what: &str,
    fields: &Template,
    feeds: &IndexMap<String, Feed>,
) -> Result<(), PlanError> {
    for (name, column) in fields.feed_columns() {
        let feed = feeds.get(name);
        let named = feed.map_or_else(|| quoted(name), |feed| feed.named(name));
        let quoted_column = quoted(column);
        if !feed.is_some_and(|feed| feed.columns.iter().any(|known| known == column)) {
            return Err(PlanError::new(
                format!(
                    "{what}: a header field uses the column {quoted_column} of the feed {named}, which does not exist"
                ),
                "define the feed and its columns in a TOML workload, under [feeds.NAME]",
            ));
        }
        if let Some((row, _)) = values(feeds, name, column).find(|(_, value)| !is_field_value(value)) {
            return Err(PlanError::new(
                format!(
                    "{what}: feed {named}, row {row}, column {quoted_column}: a header field uses the value, which \
                     has a line end or another control character"
                ),
                "remove the character; rows count from 1, without the line of column names",
            ));
        }
    }
    Ok(())
}

/// The values of a column with the numbers of their rows, from 1.
fn values<'a>(
    feeds: &'a IndexMap<String, Feed>,
    name: &str,
    column: &str,
) -> impl Iterator<Item = (usize, &'a str)> {
    let feed = feeds.get(name);
    let place = feed.and_then(|feed| feed.columns.iter().position(|known| known == column));
    let rows = feed.zip(place).into_iter().flat_map(|(feed, place)| {
        feed.rows.iter().enumerate().filter_map(move |(row, values)| Some((row + 1, values.get(place)?)))
    });
    rows.map(|(row, value)| (row, value.as_str()))
}

/// Whether a byte of a value needs no encoding in a target: visible ASCII, but not `#`, as a fragment is never sent.
fn stands_in_target(byte: u8) -> bool {
    byte.is_ascii_graphic() && byte != b'#'
}

fn encoded(value: &str) -> String {
    value.bytes().fold(String::with_capacity(value.len()), |mut text, byte| {
        if stands_in_target(byte) {
            text.push(char::from(byte));
        } else {
            let _ = write!(text, "%{byte:02X}");
        }
        text
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn feeds(values: &[&str]) -> IndexMap<String, Feed> {
        let rows = values.iter().map(|value| vec!["1".to_owned(), (*value).to_owned()]).collect();
        IndexMap::from([(
            "u".to_owned(),
            Feed { columns: vec!["id".into(), "name".into()], rows, ..Feed::default() },
        )])
    }

    fn template(text: &str) -> Template {
        Template::parse(text).unwrap()
    }

    #[test]
    fn bytes_not_allowed_in_targets_are_encoded() {
        let line = [template("/u/{{u.name}}")];
        let changed = for_targets(line.iter(), &feeds(&["ann", "a b", "x\r\nEvil: y", "\0é#", "100%25"]));
        let names: Vec<String> = changed.unwrap()["u"].rows.iter().map(|row| row[1].clone()).collect();
        assert_eq!(names, ["ann", "a%20b", "x%0D%0AEvil:%20y", "%00%C3%A9%23", "100%25"]);
        assert_eq!(for_targets(line.iter(), &feeds(&["ann", "b?c=d&e"])), None);
        assert_eq!(for_targets([template("/u/{{u.id}}")].iter(), &feeds(&["\r\n"])), None, "not in a target");
    }

    #[test]
    fn bytes_not_allowed_in_fields_are_refused_with_row_and_column() {
        let fields = template("X: {{u.name}}\r\n");
        assert!(check_fields("page 0", &fields, &feeds(&["ann", "a b\té"])).is_ok());
        for bad in ["a\nb", "a\rb", "a\0b", "\u{7f}"] {
            let error = check_fields("page 0", &fields, &feeds(&["ann", bad])).unwrap_err();
            assert!(error.what.contains("feed `u`, row 2, column `name`"), "{}", error.what);
        }
        let missing = template("X: {{u.age}}{{v.name}}\r\n");
        assert!(check_fields("page 0", &missing, &feeds(&["ann"])).is_err());
    }
}
