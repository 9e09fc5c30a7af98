//! Values that change with each request: `{{rand 1 100000}}`, `{{seq}}`, `{{feed.column}}`, `{{"text"}}`.
//!
//! A template is parsed once and rendered for each request, into a buffer that the caller keeps: rendering allocates
//! nothing else. Random numbers are those of the client's [`PageSequence`], so the same seed gives the same ones on
//! any machine.

use indexmap::IndexMap;

use super::Feed;
use super::sampler::PageSequence;
use webstone_measure::shown::quoted;

/// A text with placeholders.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Template {
    parts: Vec<Part>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Part {
    Text(Box<str>),
    Rand { low: u64, high: u64 },
    Seq,
    Feed { feed: Box<str>, column: Box<str> },
}

/// Why a text is not a template.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{what}; templates are {{{{rand LOW HIGH}}}}, {{{{seq}}}}, {{{{FEED.COLUMN}}}} and {{{{\"TEXT\"}}}}")]
pub struct TemplateError {
    /// Byte offset of the placeholder in the text.
    pub at: usize,
    /// What was found there.
    pub what: String,
}

/// The values for a template.
#[derive(Debug)]
pub struct RenderContext<'a> {
    /// The client's own random numbers.
    pub random: &'a mut PageSequence,
    /// The value of `{{seq}}`: counts the client's own requests.
    pub sequence: u64,
    /// The workload's feeds.
    pub feeds: &'a IndexMap<String, Feed>,
    /// Row to take from every feed, modulo its number of rows; with the same number for all files of a page, the
    /// values of a row stay together.
    pub row: u64,
}

impl Template {
    /// Parses a text. Everything outside `{{…}}` is literal, including `}}`. Does not check feeds: see
    /// [`Template::feed_columns`].
    pub fn parse(text: &str) -> Result<Template, TemplateError> {
        let mut parts = Vec::new();
        let mut literal = String::new();
        let mut at = 0;
        while let Some(length) = text[at..].find("{{") {
            literal.push_str(&text[at..at + length]);
            let start = at + length;
            let (part, end) = placeholder(text, start)?;
            match part {
                Part::Text(quoted) => literal.push_str(&quoted),
                filled => {
                    push_text(&mut parts, &mut literal);
                    parts.push(filled);
                }
            }
            at = end;
        }
        literal.push_str(&text[at..]);
        push_text(&mut parts, &mut literal);
        Ok(Template { parts })
    }

    /// Whether all renderings are equal, so that one can be kept.
    pub fn is_plain(&self) -> bool {
        self.parts.iter().all(|part| matches!(part, Part::Text(_)))
    }

    /// The (feed, column) pairs in the template, in order, with repetitions.
    pub fn feed_columns(&self) -> impl Iterator<Item = (&str, &str)> {
        self.parts.iter().filter_map(|part| match part {
            Part::Feed { feed, column } => Some((&**feed, &**column)),
            _ => None,
        })
    }

    /// The texts between the placeholders, in order.
    pub fn literals(&self) -> impl Iterator<Item = &str> {
        self.parts.iter().filter_map(|part| match part {
            Part::Text(text) => Some(&**text),
            _ => None,
        })
    }

    /// Appends the text with every placeholder filled in. A feed or column that the context does not have is left
    /// empty; that cannot happen with a workload that was read.
    #[inline]
    pub fn render(&self, out: &mut Vec<u8>, context: &mut RenderContext<'_>) {
        for part in &self.parts {
            match part {
                Part::Text(text) => out.extend_from_slice(text.as_bytes()),
                Part::Rand { low, high } => push_number(out, context.random.between(*low, *high)),
                Part::Seq => push_number(out, context.sequence),
                Part::Feed { feed, column } => {
                    let value = context.feeds.get(&**feed).and_then(|feed| feed.value(context.row, column));
                    out.extend_from_slice(value.unwrap_or_default().as_bytes());
                }
            }
        }
    }
}

impl Feed {
    /// The value of a column in a row, whose number is taken modulo the number of rows.
    #[inline]
    fn value(&self, row: u64, column: &str) -> Option<&str> {
        let column = self.columns.iter().position(|name| name == column)?;
        let row = row.checked_rem(self.rows.len() as u64)?;
        self.rows[row as usize].get(column).map(String::as_str)
    }
}

fn push_text(parts: &mut Vec<Part>, literal: &mut String) {
    if !literal.is_empty() {
        parts.push(Part::Text(std::mem::take(literal).into_boxed_str()));
    }
}

/// The placeholder that begins at `start`, and the offset after it.
fn placeholder(text: &str, start: usize) -> Result<(Part, usize), TemplateError> {
    let inner_start = start + 2;
    let error = |what: String| TemplateError { at: start, what };
    let inner = &text[inner_start..];
    if let Some(after_quote) = inner.trim_start().strip_prefix('"') {
        let quote_start = text.len() - after_quote.len();
        if let Some(length) = after_quote.find('"') {
            let rest = after_quote[length + 1..].trim_start();
            if rest.starts_with("}}") {
                let quoted = text[quote_start..quote_start + length].into();
                return Ok((Part::Text(quoted), text.len() - rest.len() + 2));
            }
        }
        return Err(error(format!("{} has no closing quote and braces", quoted(&text[start..]))));
    }
    let Some(length) = inner.find("}}") else {
        return Err(error(format!("{} has no closing braces", quoted(&text[start..]))));
    };
    let end = inner_start + length + 2;
    let shown = quoted(&text[start..end]);
    let mut words = inner[..length].split_ascii_whitespace();
    let part = match (words.next(), words.next(), words.next(), words.next()) {
        (Some("seq"), None, ..) => Part::Seq,
        (Some("rand"), Some(low), Some(high), None) => {
            let bound = |word: &str| {
                word.parse::<u64>()
                    .map_err(|_| error(format!("{shown}: {} is not a whole number", quoted(word))))
            };
            let (low, high) = (bound(low)?, bound(high)?);
            if low > high {
                return Err(error(format!("{shown}: {low} is larger than {high}")));
            }
            Part::Rand { low, high }
        }
        (Some("rand"), ..) => return Err(error(format!("{shown} needs a lowest and a highest number"))),
        (Some(name), None, ..) => match name.split_once('.') {
            Some((feed, column)) if !feed.is_empty() && !column.is_empty() => {
                Part::Feed { feed: feed.into(), column: column.into() }
            }
            _ => return Err(error(format!("{shown} is not a template"))),
        },
        _ => return Err(error(format!("{shown} is not a template"))),
    };
    Ok((part, end))
}

#[inline]
fn push_number(out: &mut Vec<u8>, mut number: u64) {
    let mut digits = [0_u8; 20];
    let mut at = digits.len();
    loop {
        at -= 1;
        digits[at] = b'0' + (number % 10) as u8;
        number /= 10;
        if number == 0 {
            break;
        }
    }
    out.extend_from_slice(&digits[at..]);
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn feeds() -> IndexMap<String, Feed> {
        let row = |a: &str, b: &str| vec![a.to_owned(), b.to_owned()];
        let feed = Feed {
            columns: row("name", "id"),
            rows: vec![row("ann", "1"), row("bob", "2")],
            ..Feed::default()
        };
        IndexMap::from([("users".to_owned(), feed)])
    }

    fn rendered(text: &str, sequence: u64, row: u64) -> String {
        let mut out = Vec::new();
        let (feeds, mut random) = (feeds(), PageSequence::new(1, 2));
        let mut context = RenderContext { random: &mut random, sequence, feeds: &feeds, row };
        Template::parse(text).unwrap().render(&mut out, &mut context);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn every_kind_of_place_is_filled() {
        assert_eq!(rendered("/a?n={{seq}}", 0, 0), "/a?n=0");
        assert_eq!(rendered("{{ seq }}{{seq}}", u64::MAX, 0), "1844674407370955161518446744073709551615");
        assert_eq!(rendered("{{users.name}}={{users.id}}", 0, 3), "bob=2");
        assert_eq!(rendered("{{rand 7 7}}", 0, 0), "7");
        assert_eq!(rendered("a{{\"{{\"}}b}}", 0, 0), "a{{b}}");
        assert_eq!(rendered("{{nobody.name}}{{users.age}}", 0, 0), "");
    }

    #[test]
    fn random_numbers_are_the_clients_own() {
        let mut expected = PageSequence::new(1, 2);
        let (a, b) = (expected.between(1, 100_000), expected.between(5, 9));
        assert_eq!(rendered("{{rand 1 100000}}-{{rand 5 9}}", 0, 0), format!("{a}-{b}"));
    }

    #[test]
    fn texts_without_placeholders_are_recognized() {
        assert!(Template::parse("/a?b={c}").unwrap().is_plain());
        assert!(Template::parse("{{\"{{\"}}").unwrap().is_plain());
        assert!(Template::parse("").unwrap().is_plain());
        assert!(!Template::parse("/{{seq}}").unwrap().is_plain());
    }

    #[test]
    fn a_wrong_placeholder_has_its_offset() {
        for (text, at, word) in [
            ("/a{{seq", 2, "closing"),
            ("{{\"x}}", 0, "quote"),
            ("x{{rand 1}}", 1, "lowest"),
            ("{{rand 9 1}}", 0, "larger"),
            ("{{rand 1 x}}", 0, "`x`"),
            ("{{rand 1 99999999999999999999}}", 0, "whole number"),
            ("{{}}", 0, "not a template"),
            ("{{seq 1}}", 0, "not a template"),
            ("{{.x}}", 0, "not a template"),
        ] {
            let error = Template::parse(text).unwrap_err();
            assert_eq!(error.at, at, "{text}");
            assert!(error.to_string().contains(word) && error.to_string().contains("{{seq}}"), "{error}");
        }
    }

    proptest! {
        #[test]
        fn no_text_makes_it_panic(text in ".*|(\\{\\{|\\}\\}|seq|rand 1 2|\"| |é|a\\.b)*") {
            if let Ok(template) = Template::parse(&text) {
                let (feeds, mut random) = (feeds(), PageSequence::new(1, 2));
                let mut context = RenderContext { random: &mut random, sequence: 1, feeds: &feeds, row: 1 };
                template.render(&mut Vec::new(), &mut context);
                if !text.contains("{{") {
                    prop_assert!(template.is_plain());
                }
            }
        }
    }
}
