//! Values for templates from a CSV file (RFC 4180): commas, quotes that are doubled inside quotes, either line end.

use super::Feed;

/// Reads a feed. The first line has the names of columns, unless `columns` is given. An error begins with line and
/// column.
pub(super) fn parse(bytes: &[u8], columns: Option<Vec<String>>) -> Result<Feed, String> {
    let text = std::str::from_utf8(bytes).map_err(|error| {
        let line = 1 + bytes[..error.valid_up_to()].iter().filter(|byte| **byte == b'\n').count();
        format!("{line}: found bytes that are not UTF-8 text")
    })?;
    let mut rest = text.strip_prefix(super::BYTE_ORDER_MARK).unwrap_or(text);
    let mut feed = Feed { columns: columns.unwrap_or_default(), ..Feed::default() };
    let mut line = 1;
    while !rest.is_empty() {
        // A blank line is no value, not even in a file of one column: there an empty one is `""`.
        let (first, after) = rest.split_once('\n').unwrap_or((rest, ""));
        if first.trim_end_matches('\r').is_empty() {
            (rest, line) = (after, line + 1);
            continue;
        }
        let (row, lines, after) = record(rest).map_err(|what| format!("{line}: {what}"))?;
        rest = after;
        if feed.columns.is_empty() {
            feed.columns = row;
        } else if row.len() == feed.columns.len() {
            feed.rows.push(row);
        } else {
            return Err(format!("{line}: found {} values, expected {}", row.len(), feed.columns.len()));
        }
        line += lines;
    }
    Ok(feed)
}

/// One record, the number of its lines, and the rest.
fn record(text: &str) -> Result<(Vec<String>, usize, &str), String> {
    let mut values = Vec::new();
    let mut at = 0;
    let mut lines = 1;
    loop {
        let mut value = String::new();
        if text[at..].starts_with('"') {
            at += 1;
            loop {
                let length = text[at..].find('"').ok_or("found a quote that is never closed")?;
                value.push_str(&text[at..at + length]);
                at += length + 1;
                if !text[at..].starts_with('"') {
                    break;
                }
                value.push('"');
                at += 1;
            }
            lines += value.matches('\n').count();
        }
        let length = text[at..].find([',', '\n']).unwrap_or(text.len() - at);
        let plain = text[at..at + length].trim_end_matches('\r');
        if !value.is_empty() && !plain.is_empty() {
            return Err(format!("found {} after a closing quote", webstone_measure::shown::quoted(plain)));
        }
        value.push_str(plain);
        values.push(value);
        at += length;
        match text.as_bytes().get(at) {
            Some(b',') => at += 1,
            Some(_) => return Ok((values, lines, &text[at + 1..])),
            None => return Ok((values, lines, "")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn quotes_line_ends_and_blank_lines_are_understood() {
        let text = "\u{feff}name,quote\r\nann,\"a \"\"b\"\", c\"\r\n\r\nbob,\"two\nlines\"\r\n,\n";
        let feed = parse(text.as_bytes(), None).unwrap();
        assert_eq!(feed.columns, ["name", "quote"]);
        assert_eq!(feed.rows, [["ann", "a \"b\", c"], ["bob", "two\nlines"], ["", ""]]);
        let named = parse(b"1,2\n3,4", Some(vec!["a".into(), "b".into()])).unwrap();
        assert_eq!(named.rows, [["1", "2"], ["3", "4"]]);
    }

    #[test]
    fn a_blank_line_is_no_value_of_a_single_column() {
        let rows = |text: &str| {
            let feed = parse(text.as_bytes(), None).unwrap();
            assert_eq!(feed.columns, ["name"], "{text:?}");
            feed.rows.into_iter().flatten().collect::<Vec<_>>()
        };
        assert_eq!(rows("name\nann\n\nbob\n\n"), ["ann", "bob"]);
        assert_eq!(rows("\r\nname\r\nann\r\n\r\n\r\nbob\r\n\r"), ["ann", "bob"]);
        assert_eq!(rows("name\nann\n\"\"\nbob"), ["ann", "", "bob"]);
        assert_eq!(rows("name\n\"a\n\nb\"\n"), ["a\n\nb"]);
        let error = parse(b"name\n\n\nann,1\n", None).unwrap_err();
        assert!(error.starts_with("4: found 2 values"), "{error}");
    }

    #[test]
    fn wrong_files_name_the_line() {
        for (text, what) in [
            (&b"a,b\n1,2\n1\n"[..], "3: found 1 values, expected 2"),
            (b"a,b\n\"x\ny\",2\n1,2,3\n", "4: found 3 values"),
            (b"a\n\"x\n", "2: found a quote that is never closed"),
            (b"a\n\"x\"y\n", "2: found `y` after"),
            (b"a\n1\n\xff\n", "3: found bytes"),
        ] {
            let error = parse(text, None).unwrap_err();
            assert!(error.starts_with(what), "{error}");
        }
    }

    proptest! {
        #[test]
        fn no_text_makes_it_panic(text in "[\",\r\na-cé]*") {
            let _ = parse(text.as_bytes(), None);
        }
    }
}
