//! Splits a TOML text at its `[[pages]]` headers, so that a long workload is parsed in pieces.
//!
//! Only texts of the usual structure are split: a preamble, then pages up to the end. Any other text is left whole
//! for the parser.

/// A text in pieces.
pub(super) struct Pieces<'a> {
    /// Everything before the first page.
    pub(super) preamble: &'a str,
    /// Some pages each, with the piece's offset in the text.
    pub(super) pages: Vec<(usize, &'a str)>,
}

impl<'a> Pieces<'a> {
    /// Splits a text into pieces with a given number of pages; `None` if it must be parsed as a whole.
    pub(super) fn of_text(text: &'a str, pages_per_piece: usize) -> Option<Pieces<'a>> {
        let mut cuts = Vec::new();
        let mut pages = 0;
        let mut scanner = Scanner { bytes: text.as_bytes(), at: 0 };
        while let Some(start) = scanner.next_header()? {
            let line = text[start..].lines().next().unwrap_or_default();
            match header(line)? {
                Header::Page => {
                    if pages % pages_per_piece == 0 {
                        cuts.push(start);
                    }
                    pages += 1;
                }
                Header::BelowPage if pages > 0 => {}
                Header::Other if pages == 0 => {}
                _ => return None,
            }
        }
        let first = *cuts.first()?;
        let ends = cuts.iter().skip(1).copied().chain([text.len()]);
        let pages = cuts.iter().zip(ends).map(|(start, end)| (*start, &text[*start..end])).collect();
        Some(Pieces { preamble: &text[..first], pages })
    }
}

enum Header {
    Page,
    BelowPage,
    Other,
}

/// What a header line opens; `None` if its name is quoted or otherwise unusual.
fn header(line: &str) -> Option<Header> {
    let inner = line.trim_start_matches('[');
    let name = &inner[..inner.find(']')?];
    if name.is_empty() || !name.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-' | b'.'))
    {
        return None;
    }
    let brackets = line.len() - inner.len();
    match name.split_once('.') {
        None if name == "pages" => (brackets == 2).then_some(Header::Page),
        Some(("pages", _)) => Some(Header::BelowPage),
        _ => Some(Header::Other),
    }
}

/// Finds lines that begin with a bracket, outside strings and comments.
struct Scanner<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl Scanner<'_> {
    /// Offset of the next header; `Some(None)` at the end, `None` if a string does not end or a bracket is open (a
    /// line within an array may begin with one, too).
    fn next_header(&mut self) -> Option<Option<usize>> {
        let mut fresh_line = self.at == 0;
        let mut depth = 0_usize;
        while let Some(byte) = self.bytes.get(self.at) {
            match byte {
                b'\n' => {
                    fresh_line = true;
                    self.at += 1;
                    continue;
                }
                b' ' | b'\t' | b'\r' => {
                    self.at += 1;
                    continue;
                }
                b'#' => {
                    self.skip_line();
                    continue;
                }
                b'[' if fresh_line && depth == 0 => {
                    let start = self.at;
                    self.skip_line();
                    return Some(Some(start));
                }
                b'"' | b'\'' => self.skip_string(*byte)?,
                b'[' | b'{' => {
                    depth += 1;
                    self.at += 1;
                }
                b']' | b'}' => {
                    depth = depth.checked_sub(1)?;
                    self.at += 1;
                }
                _ => self.at += 1,
            }
            fresh_line = false;
        }
        (depth == 0).then_some(None)
    }

    fn skip_line(&mut self) {
        let rest = &self.bytes[self.at..];
        self.at += memchr::memchr(b'\n', rest).unwrap_or(rest.len());
    }

    fn skip_string(&mut self, quote: u8) -> Option<()> {
        let rest = &self.bytes[self.at..];
        let triple = [quote; 3];
        if rest.starts_with(&triple) {
            let mut at = 3;
            loop {
                at += memchr::memchr2(quote, b'\\', &rest[at..])?;
                match rest[at] {
                    b'\\' => at += if quote == b'"' { 2 } else { 1 },
                    _ if rest[at..].starts_with(&triple) => break,
                    _ => at += 1,
                }
                if at > rest.len() {
                    return None;
                }
            }
            at += 3;
            // Up to two more quotes belong to the string.
            while rest.get(at) == Some(&quote) {
                at += 1;
            }
            self.at += at;
            return Some(());
        }
        let mut at = 1;
        loop {
            match rest.get(at)? {
                b'\n' => return None,
                b'\\' if quote == b'"' => at += 2,
                byte if *byte == quote => break,
                _ => at += 1,
            }
        }
        self.at += at + 1;
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cut(text: &str) -> Option<(&str, Vec<&str>)> {
        let pieces = Pieces::of_text(text, 2)?;
        pieces.pages.iter().for_each(|(at, piece)| assert!(text[*at..].starts_with(piece)));
        Some((pieces.preamble, pieces.pages.iter().map(|(_, piece)| *piece).collect()))
    }

    #[test]
    fn texts_are_cut_at_page_headers() {
        let page = "[[pages]]\nurl = \"/\"\n";
        let text = format!("name = \"x\"\n[feeds.a]\n{page}{page}  {page}");
        assert_eq!(cut(&text), Some(("name = \"x\"\n[feeds.a]\n", vec![&*format!("{page}{page}  "), page])));
    }

    #[test]
    fn headers_inside_strings_arrays_and_comments_are_ignored() {
        for inside in [
            "body = \"\"\"\n[[pages]]\n\\\"\"\"\"\n",
            "body = '''\n[[pages]]\n\\'''\n",
            "a = '[[pages]]'\n",
            "a = \"\\\"\\n[[pages]]\"\n",
            "# [[pages]]\n",
            "#'\n",
            "a = [\n[[pages]]\n]\n",
            "a = {\nb = [\n[1], [2]\n]\n}\n",
        ] {
            let text = format!("{inside}[[pages]]\n");
            assert_eq!(cut(&text), Some((inside, vec!["[[pages]]\n"])), "{inside}");
        }
    }

    #[test]
    fn unusual_texts_are_left_whole() {
        for text in [
            "",
            "pages = []\n",
            "[[pages]]\n[feeds.x]\n",
            "[[\"pages\"]]\n",
            "[[ pages ]]\n",
            "[pages]\n",
            "[pages.x]\n[[pages]]\n",
            "a = \"\n[[pages]]\n",
            "a = \"\"\"\n[[pages]]\n",
            "a = ]\n[[pages]]\n",
            "[[pages]]\na = [\n",
            "a = \"\"\"\\",
            "a = \"\\",
        ] {
            assert_eq!(cut(text), None, "{text:?}");
        }
    }
}
