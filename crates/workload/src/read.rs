//! Reads a text as a workload: detects its format, and makes the checks that all formats share.

use std::borrow::Cow;

use super::problem::{Fault, WorkloadError};
use super::{Page, Workload, toml_form, webstone1, webstone2};

/// Contents of a file that a workload refers to, or why it cannot be read.
pub type FeedFile = Result<Vec<u8>, String>;

/// Reads a workload of any of the three formats: WebStone 1.x, WebStone 2.x, TOML.
///
/// `file` is the name of the text in errors, and gives the workload's name if the text does not; a name that ends in
/// `.toml` means that format. Feeds in separate files are an error here: see [`read_with`].
pub fn read(text: impl AsRef<[u8]>, file: &str) -> Result<Workload, WorkloadError> {
    read_with(text, file, |_| Err("feeds from files are not available here".to_owned()))
}

/// As [`read`]; calls `feed_file` for the contents of each file of a feed, with the path as written.
pub fn read_with(
    text: impl AsRef<[u8]>,
    file: &str,
    mut feed_file: impl FnMut(&str) -> FeedFile,
) -> Result<Workload, WorkloadError> {
    let bytes = text.as_ref();
    read_bytes(bytes, file, &mut feed_file).map_err(|fault| fault.locate(file, bytes))
}

fn read_bytes(
    bytes: &[u8],
    file: &str,
    feed_file: &mut dyn FnMut(&str) -> FeedFile,
) -> Result<Workload, Fault> {
    let text = std::str::from_utf8(bytes).map_err(|error| {
        let at = error.valid_up_to();
        Fault::new(at, format!("found byte 0x{:02x}, expected UTF-8 text", bytes[at])).hint(
            if bytes.starts_with(&[0x1f, 0x8b]) {
                "this is a gzip file: unpack it first"
            } else {
                "save the file as UTF-8; in URLs, write such bytes as percent escapes"
            },
        )
    })?;
    let name = stem(file);
    let mut workload = match detect(text, file)? {
        Format::Toml => toml_form::read(text, feed_file)?,
        Format::WebStone1(at) => from_pages(webstone1::read(&text[at..]).map_err(|fault| fault.after(at))?),
        Format::WebStone2 => from_pages(webstone2::read(text)?),
    };
    if workload.name.is_empty() {
        workload.name = name.into_owned();
    }
    check_total(&workload.pages, text)?;
    Ok(workload)
}

enum Format {
    Toml,
    /// The list begins at this offset.
    WebStone1(usize),
    WebStone2,
}

fn detect(text: &str, file: &str) -> Result<Format, Fault> {
    if file.len() >= 5
        && file.is_char_boundary(file.len() - 5)
        && file[file.len() - 5..].eq_ignore_ascii_case(".toml")
    {
        return Ok(Format::Toml);
    }
    let Some((offset, word)) = webstone1::first_word(text) else {
        return match webstone1::run_together(text) {
            Some(at) => Ok(Format::WebStone1(at)),
            None => Err(Fault::new(text.len(), "found nothing but blanks and comments, expected a workload")
                .hint("the shortest workload is one line with a path, such as /index.html")),
        };
    };
    let line = text[offset..].lines().next().unwrap_or_default();
    let is_url = |word: &str| word.starts_with('/') || word.contains("://");
    match word.as_bytes()[0] {
        _ if is_url(word) => Ok(Format::WebStone2),
        b'[' => Ok(Format::Toml),
        _ if is_toml_key(line) => Ok(Format::Toml),
        b'0'..=b'9' | b'-' | b'+' => Ok(Format::WebStone1(0)),
        // A list of paths without leading slashes: the reader of lists has the better message.
        _ if word.contains('.')
            || line.split_ascii_whitespace().nth(1).is_some_and(|w| w.parse::<u64>().is_ok()) =>
        {
            Ok(Format::WebStone2)
        }
        _ => Err(webstone1::unknown_format(offset, word)),
    }
}

/// Whether a line is `key = …`, with a bare, quoted or dotted key.
fn is_toml_key(line: &str) -> bool {
    line.split_once('=').is_some_and(|(key, _)| {
        let key = key.trim();
        !key.is_empty()
            && key
                .bytes()
                .all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-' | b'.' | b'"' | b'\'' | b' '))
    })
}

fn from_pages(pages: Vec<Page>) -> Workload {
    Workload { pages, ..Workload::default() }
}

/// The sampler's limit, so that no workload that was read is refused later.
fn check_total(pages: &[Page], text: &str) -> Result<(), Fault> {
    let total: u128 = pages.iter().map(|page| u128::from(page.weight)).sum();
    if total * pages.len() as u128 > 1 << 63 || u32::try_from(pages.len()).is_err() {
        // The limit was exceeded at the last page; its weight is the last thing to point at.
        let last_line = text.trim_end().rfind(['\n', '\r']).map_or(0, |at| at + 1);
        return Err(Fault::new(
            last_line,
            format!(
                "the weights of all {} pages sum to {total}, expected number of pages × sum to be at most 2^63",
                pages.len()
            ),
        )
        .hint("divide all weights by the same number"));
    }
    Ok(())
}

/// A file's name without its directories and without `.toml`, `.txt` or `.lst`.
fn stem(file: &str) -> Cow<'_, str> {
    let name = file.rsplit(['/', '\\']).next().unwrap_or(file);
    let stem = [".toml", ".txt", ".lst"].iter().find_map(|ending| name.strip_suffix(ending)).unwrap_or(name);
    if stem.is_empty() { Cow::Borrowed("workload") } else { Cow::Borrowed(stem) }
}

/// Checks that a list is refused at `place` (line:column), for a reason that contains `what`, with a hint that
/// contains `hint`.
#[cfg(test)]
pub(super) fn assert_refused(text: &str, place: &str, what: &str, hint: &str) {
    let error = read(text, "list").expect_err(text);
    let shown = error.to_string();
    assert!(shown.starts_with(&format!("list:{place}: ")), "{text:?}: {shown}");
    assert!(shown.contains(what), "{text:?}: {shown}");
    assert!(error.hint.clone().unwrap_or_default().contains(hint), "{text:?}: {:?}", error.hint);
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_format_is_detected_from_the_text() {
        assert_eq!(read("/a 1\n", "x/list.txt").unwrap().name, "list");
        assert_eq!(read("1 1 1 /a", "x").unwrap().pages.len(), 1);
        assert_eq!(read("name = \"n\"\n[[pages]]\nurl = \"/a\"", "x").unwrap().name, "n");
        assert_eq!(read("# c\n[[pages]]\nurl = \"/a\"", "x").unwrap().name, "x");
        assert_eq!(read("[[pages]]\nurl = \"/a\"", "b.toml").unwrap().name, "b");
    }

    #[test]
    fn texts_of_no_format_say_what_was_expected() {
        for (text, file, place, what) in [
            ("", "list", "1:1", "nothing but blanks"),
            ("# only a comment\n\n", "list", "3:1", "nothing but blanks"),
            ("hello world\n", "list", "1:1", "a number of pages (WebStone 1.x), a URL"),
            ("index.html 3\n", "list", "1:1", "`index.html` is not a URL or a path"),
            ("/a 1\n", "list.toml", "1:4", "key with no value"),
            ("<html>", "list", "1:1", "TOML key"),
        ] {
            let error = read(text, file).unwrap_err();
            assert!(error.to_string().starts_with(&format!("{file}:{place}: ")), "{text:?}: {error}");
            assert!(error.to_string().contains(what), "{text:?}: {error}");
        }
    }

    #[test]
    fn bytes_that_are_not_text_have_a_place() {
        let error = read(b"/a 1\n/b\xff 2\n", "list").unwrap_err();
        assert_eq!(error.to_string(), "list:2:3: found byte 0xff, expected UTF-8 text");
        let error = read([0x1f, 0x8b, 8, 0], "list").unwrap_err();
        assert!(error.hint.unwrap().contains("gzip"));
    }

    /// Pieces of all three formats, so that random texts get beyond the first word.
    fn pieces() -> impl Strategy<Value = String> {
        let piece = prop_oneof![
            Just("/a".to_owned()),
            Just(" ".to_owned()),
            Just("\n".to_owned()),
            Just("\r".to_owned()),
            Just("#".to_owned()),
            Just("5".to_owned()),
            Just("-1".to_owned()),
            Just("1 2 /a /b\n".to_owned()),
            Just("[[pages]]\n".to_owned()),
            Just("url = ".to_owned()),
            Just("\"/x\"\n".to_owned()),
            Just("files = [\"/x\", {url=\"/y\", size=3}]\n".to_owned()),
            Just("weight = 3\n".to_owned()),
            Just("[feeds.a]\n".to_owned()),
            Just("columns = [\"c\"]\nrows = [[1]]\n".to_owned()),
            Just("body = \"\"\"".to_owned()),
            Just("'''".to_owned()),
            Just("{{a.c}}".to_owned()),
            Just("{{rand 1 5}}".to_owned()),
            Just("think = \"5ms\"\n".to_owned()),
            Just("http://h/".to_owned()),
            Just("dynamic = {}\n".to_owned()),
            Just("\u{feff}".to_owned()),
            Just("file = \"f.csv\"\n".to_owned()),
            ".",
        ];
        proptest::collection::vec(piece, 0..30).prop_map(|pieces| pieces.concat())
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2000))]

        #[test]
        fn no_text_makes_it_panic(text in pieces(), toml in any::<bool>()) {
            let name = if toml { "x.toml" } else { "x" };
            let file = |_: &str| Ok(b"c,d\n1,2\n".to_vec());
            match read_with(&text, name, file) {
                Ok(workload) => {
                    let weights: Vec<u64> = workload.pages.iter().map(|page| page.weight).collect();
                    prop_assert!(crate::Sampler::new(weights.into_iter()).is_some());
                }
                Err(error) => {
                    prop_assert!(error.line >= 1 && error.column >= 1);
                    prop_assert!(error.line <= 1 + text.matches(['\n', '\r']).count() as u64);
                }
            }
        }

        #[test]
        fn no_bytes_make_it_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = read(&bytes, "x");
            let _ = read(&bytes, "x.toml");
        }
    }
}
