//! The filelist of WebStone 1.x: the number of pages, then for each page its weight, its number of files, and their
//! paths.
//!
//! Blanks and line ends both separate words, and `#` begins a comment up to the end of its line. The WebStone paper
//! prints a list on a single line, comment first; such a text can be read, too. Weights are percentages in the
//! original; here a page's share is its weight over the sum of weights, which is the same if they sum to 100. The
//! format has no sizes: they are unknown after reading, and left out in writing.

use std::fmt::Write;

use super::problem::{Fault, UnwritableError, whole_number};
use super::{FileRequest, Page, RequestDetail, Workload, url};
use webstone_measure::shown::quoted;

/// Reads the pages of a list.
pub(super) fn read(text: &str) -> Result<Vec<Page>, Fault> {
    let mut tokens = Tokens::of_text(text);
    let (announced_at, word) = tokens.expect("the number of pages")?;
    let announced = whole_number(announced_at, word, 1, "the number of pages")?;
    // The announced number does not decide how much is allocated: the shortest page takes six bytes.
    let mut pages = Vec::with_capacity((announced as usize).min(text.len() / 6 + 1));
    for number in 1..=announced {
        pages.push(read_page(&mut tokens, number, announced)?);
    }
    if let Some((offset, word)) = tokens.next() {
        let expected = format!("the end of the list after its {announced} announced pages");
        let hint = if word.starts_with('/') {
            format!("page {announced} lists more files than it announces, or the number of pages is too low")
        } else {
            "raise the number of pages that the list begins with".to_owned()
        };
        return Err(Fault::found(offset, word, &expected).hint(hint));
    }
    Ok(pages)
}

/// The offset of the list in a comment, if everything is on one line.
pub(super) fn run_together(text: &str) -> Option<usize> {
    let is_number = |token: &(usize, &str)| token.1.bytes().all(|byte| byte.is_ascii_digit());
    let tokens: Vec<(usize, &str)> = Tokens { text, at: 0, comments: false }.collect();
    let starts = |w: &&[(usize, &str)]| w[..3].iter().all(is_number) && w[3].1.starts_with('/');
    tokens.windows(4).find(starts).map(|window| window[0].0)
}

/// Writes a list, or says what it cannot express. Weights become percentages.
pub fn write(workload: &Workload) -> Result<String, UnwritableError> {
    super::lists::expressible(workload, "a WebStone 1.x filelist")?;
    let total = u128::from(workload.total_weight());
    let mut text = super::lists::comment(workload);
    // Writing to a String cannot fail.
    let _ = writeln!(text, "{}", workload.pages.len());
    for (index, page) in workload.pages.iter().enumerate() {
        let hundredfold = u128::from(page.weight) * 100;
        if !hundredfold.is_multiple_of(total) {
            return Err(UnwritableError {
                what: format!(
                    "page {index}: a WebStone 1.x filelist has weights in whole percent, and {} of {total} is not",
                    page.weight
                ),
                hint: Some("write a WebStone 2.x filelist or a TOML workload".to_owned()),
            });
        }
        let _ = write!(text, "{} {}", hundredfold / total, page.files.len());
        for file in &page.files {
            let _ = write!(text, " {}", file.url);
        }
        text.push('\n');
    }
    Ok(text)
}

fn read_page(tokens: &mut Tokens<'_>, number: u64, announced: u64) -> Result<Page, Fault> {
    let complete = |fault: Fault| match fault.hint {
        None => fault.hint(format!("the list announces {announced} pages; {} are complete", number - 1)),
        Some(_) => fault,
    };
    let expected = format!("the weight of page {number} of {announced}");
    let (offset, word) = tokens.expect(&expected).map_err(complete)?;
    if word.starts_with('/') {
        let fault = Fault::found(offset, word, &expected);
        let hint = match number {
            1 => "each page begins with its weight and its number of files".to_owned(),
            _ => format!("page {} lists more files than it announces", number - 1),
        };
        return Err(fault.hint(hint));
    }
    let weight = whole_number(offset, word, 1, &expected)?;
    let expected = format!("the number of files of page {number}");
    let (offset, word) = tokens.expect(&expected).map_err(complete)?;
    let count = whole_number(offset, word, 1, &expected).map_err(|fault| match word.starts_with('/') {
        true => fault.hint("each page begins with its weight and its number of files"),
        false => fault,
    })?;
    let mut files = Vec::with_capacity((count as usize).min(64));
    for file in 1..=count {
        let expected = format!("file {file} of {count} of page {number}");
        let (offset, word) = tokens.expect(&expected).map_err(complete)?;
        if word.bytes().all(|byte| byte.is_ascii_digit()) {
            let hint = format!("page {number} announces {count} files and lists {}", file - 1);
            return Err(Fault::found(offset, word, &expected).hint(hint));
        }
        url::check_in_list(word).map_err(|fault| Fault {
            what: format!("{} where {expected} is expected", fault.what),
            ..fault.after(offset)
        })?;
        files.push(FileRequest { url: word.into(), size: None, detail: Box::<RequestDetail>::default() });
    }
    files.shrink_to_fit();
    Ok(Page { weight, files, think: Default::default() })
}

/// Words with their byte offsets, without comments.
struct Tokens<'a> {
    text: &'a str,
    at: usize,
    /// Whether `#` begins a comment; otherwise it is a blank.
    comments: bool,
}

impl<'a> Tokens<'a> {
    fn of_text(text: &'a str) -> Tokens<'a> {
        Tokens { text, at: 0, comments: true }
    }

    fn expect(&mut self, expected: &str) -> Result<(usize, &'a str), Fault> {
        self.next().ok_or_else(|| {
            Fault::new(self.text.len(), format!("found the end of the list, expected {expected}"))
        })
    }
}

impl<'a> Iterator for Tokens<'a> {
    type Item = (usize, &'a str);

    fn next(&mut self) -> Option<(usize, &'a str)> {
        loop {
            let rest = self.text[self.at..].trim_start_matches(|c: char| {
                c.is_ascii_whitespace() || (c == '#' && !self.comments) || c == super::BYTE_ORDER_MARK
            });
            self.at = self.text.len() - rest.len();
            if rest.is_empty() {
                return None;
            }
            if rest.starts_with('#') {
                self.at += rest.find(['\n', '\r']).unwrap_or(rest.len());
                continue;
            }
            let length = rest.find(|c: char| c.is_ascii_whitespace()).unwrap_or(rest.len());
            let offset = self.at;
            self.at += length;
            return Some((offset, &rest[..length]));
        }
    }
}

/// The first word that is not a comment, to detect the format.
pub(super) fn first_word(text: &str) -> Option<(usize, &str)> {
    Tokens::of_text(text).next()
}

/// What the first word should have been, for a text in no known format.
pub(super) fn unknown_format(offset: usize, word: &str) -> Fault {
    Fault::new(
        offset,
        format!(
            "found {}, expected a number of pages (WebStone 1.x), a URL (WebStone 2.x) or a TOML key",
            quoted(word)
        ),
    )
    .hint("paths begin with a slash; a TOML workload is best named *.toml")
}

#[cfg(test)]
mod tests {
    use super::super::read as read_workload;
    use super::super::read::assert_refused;

    /// Section 7 of the WebStone paper, as it is printed there.
    const PAPER: &str = "#This file is used to configure the pages and files to be tested for. 6 40 3 \
        /file3k.html /file4k.html /file5k.html 5 3 /file10k.html /file17k.html /file20k.html 5 2 /file5m.html \
        /file1m.html 20 3 /file6k.html /file7k.html /file200k.html 20 2 /file3m.html /file21k.html 10 2 \
        /file500k.html /file13k.html ";

    const LINES: &str = "# a comment\n6\n40 3 /file3k.html /file4k.html /file5k.html\n5 3 /file10k.html # one\n\
        /file17k.html /file20k.html\n5 2 /file5m.html /file1m.html\n20\t3 /file6k.html /file7k.html /file200k.html\n\
        20 2 /file3m.html /file21k.html\n10 2 /file500k.html /file13k.html\n";

    #[test]
    fn the_papers_list_is_read_on_one_line_and_on_many() {
        let paper = read_workload(PAPER, "filelist").unwrap();
        let weights: Vec<u64> = paper.pages.iter().map(|page| page.weight).collect();
        assert_eq!(weights, [40, 5, 5, 20, 20, 10]);
        assert_eq!(paper.pages[3].files[2].url.as_ref(), "/file200k.html");
        assert_eq!(paper.pages.iter().map(|page| page.files.len()).sum::<usize>(), 15);
        assert_eq!(read_workload(LINES, "filelist").unwrap(), paper);
        assert_eq!(read_workload(LINES.replace('\n', "\r\n"), "filelist").unwrap(), paper);
        assert_eq!(read_workload(format!("\u{feff}{LINES}"), "filelist").unwrap(), paper);
        assert_eq!(read_workload(LINES.replace('\n', "\r"), "filelist").unwrap(), paper);
    }

    #[test]
    fn a_wrong_list_names_place_and_expectation() {
        for (text, place, what, hint) in [
            ("2\n1 1 /a\n", "3:1", "end of the list, expected the weight of page 2 of 2", "1 are complete"),
            (
                "1\n1 1 /a\n1 1 /b\n",
                "3:1",
                "found `1`, expected the end of the list",
                "raise the number of pages",
            ),
            ("1\n1 1 /a /b\n", "2:8", "found `/b`, expected the end", "more files than it announces"),
            (
                "2\n1 1 /a /b\n1 1 /c\n",
                "2:8",
                "found `/b`, expected the weight of page 2",
                "page 1 lists more files",
            ),
            (
                "2\n1 3 /a /b\n1 1 /c\n",
                "3:1",
                "found `1`, expected file 3 of 3 of page 1",
                "announces 3 files and lists 2",
            ),
            ("1\n1 3 /a /b\n", "3:1", "end of the list, expected file 3 of 3", "announces 1 pages"),
            ("1\n-4 1 /a\n", "2:1", "found `-4`, expected the weight of page 1", "negative"),
            (
                "1\n0 1 /a\n",
                "2:1",
                "found `0`, expected the weight of page 1 of 1 (a whole number from 1)",
                "",
            ),
            ("1\n1 0 /a\n", "2:3", "found `0`, expected the number of files of page 1", ""),
            ("1\n2.5 1 /a\n", "2:1", "found `2.5`", "multiply"),
            ("1\n99999999999999999999 1 /a\n", "2:1", "found `9999", "largest"),
            (
                "1\n1 1 a.html\n",
                "2:5",
                "`a.html` is not a URL or a path where file 1 of 1 of page 1",
                "slash",
            ),
            ("1\n1 1 /{{u.a}}\n", "2:5", "names the feed `u`, and a filelist has none", "[feeds.u]"),
            ("1\n1 /a\n", "2:3", "found `/a`, expected the number of files", "begins with its weight"),
            ("0\n", "1:1", "found `0`, expected the number of pages", ""),
            ("2\n9000000000000000000 1 /a\n9000000000000000000 1 /b", "3:1", "weights", "divide"),
        ] {
            assert_refused(text, place, what, hint);
        }
    }

    #[test]
    fn announcing_billions_of_pages_costs_no_memory() {
        let error = read_workload("9000000000000000000\n1 1 /a\n", "list").unwrap_err();
        assert!(error.to_string().contains("page 2 of 9000000000000000000"), "{error}");
        let error = read_workload("1 1 9000000000000000000 /a\n", "list").unwrap_err();
        assert!(error.to_string().contains("file 2 of 9000000000000000000"), "{error}");
    }

    #[test]
    fn weights_are_written_in_percent() {
        let mut workload = read_workload("2\n2 1 /a\n3 2 /b /c\n", "list").unwrap();
        assert_eq!(crate::to_webstone1(&workload).unwrap(), "# list\n2\n40 1 /a\n60 2 /b /c\n");
        workload.pages[0].weight = 1;
        workload.pages[1].weight = 2;
        let error = crate::to_webstone1(&workload).unwrap_err();
        assert!(error.to_string().contains("page 0") && error.to_string().contains("1 of 3"), "{error}");
    }
}
