//! The filelist of WebStone 2.x: one URL per line, then a weight (1 if absent), then optionally `#SIZE`.
//!
//! In the original everything from `#` on is a comment, and the size is a convention within it. So `#` before a digit
//! or a sign is a size and must be a whole number; any other `#` begins a comment.

use std::collections::HashMap;
use std::fmt::Write;

use super::problem::{Fault, UnwritableError, whole_number};
use super::{FileRequest, Page, RequestDetail, Workload, url};
use webstone_measure::shown::quoted;

/// Reads the pages of a list.
pub(super) fn read(text: &str) -> Result<Vec<Page>, Fault> {
    let mut pages = Vec::new();
    let mut first_seen: HashMap<&str, u64> = HashMap::new();
    let mut at = 0;
    let mut number = 0;
    for line in text.split_inclusive(['\n', '\r']) {
        // A carriage return and a line feed together end one line.
        if line != "\n" || !text[..at].ends_with('\r') {
            number += 1;
        }
        if let Some((place, page)) = read_line(line, at)? {
            let name = &text[place..place + page.files[0].url.len()];
            if let Some(line) = first_seen.insert(name, number) {
                let what = format!("found {} again, expected each URL once", quoted(name));
                return Err(Fault::new(place, what)
                    .hint(format!("it stands on line {line} already: add the weights there")));
            }
            pages.push(page);
        }
        at += line.len();
    }
    pages.shrink_to_fit();
    Ok(pages)
}

/// Writes a list, or says what it cannot express.
pub fn write(workload: &Workload) -> Result<String, UnwritableError> {
    super::lists::expressible(workload, "a WebStone 2.x filelist")?;
    let mut seen = HashMap::new();
    let mut text = super::lists::comment(workload);
    for (index, page) in workload.pages.iter().enumerate() {
        let refuse = |what: String| UnwritableError {
            what: format!("page {index}: {what}"),
            hint: Some("write a TOML workload".to_owned()),
        };
        let [file] = &page.files[..] else {
            let count = page.files.len();
            return Err(refuse(format!(
                "a WebStone 2.x filelist has one file per page, this one has {count}"
            )));
        };
        if let Some(first) = seen.insert(&*file.url, index) {
            return Err(refuse(format!(
                "a WebStone 2.x filelist has each URL once, page {first} has it too"
            )));
        }
        // Writing to a String cannot fail.
        let _ = write!(text, "{} {}", file.url, page.weight);
        if let Some(size) = file.size {
            let _ = write!(text, " #{size}");
        }
        text.push('\n');
    }
    Ok(text)
}

/// The page of one line and the offset of its URL; `None` if the line has none.
fn read_line(line: &str, line_at: usize) -> Result<Option<(usize, Page)>, Fault> {
    let trimmed = line.trim_start_matches(super::BYTE_ORDER_MARK);
    let mut words = trimmed.split_ascii_whitespace().map(|word| {
        // Words are slices of the line, so their distance from its start is their offset.
        let offset = line_at + (word.as_ptr() as usize - line.as_ptr() as usize);
        (offset, word)
    });
    let Some((url_at, name)) = words.next().filter(|(_, word)| !word.starts_with('#')) else {
        return Ok(None);
    };
    url::check_in_list(name).map_err(|fault| fault.after(url_at))?;
    let mut next = words.next();
    let mut weight = 1;
    if let Some((offset, word)) = next.filter(|(_, word)| !word.starts_with('#')) {
        weight = whole_number(offset, word, 1, "a weight").map_err(|fault| {
            let runs_on = word.starts_with('/') || word.starts_with("http");
            if runs_on { fault.hint("a WebStone 2.x filelist has one URL per line") } else { fault }
        })?;
        next = words.next();
    }
    let mut size = None;
    if let Some((offset, word)) = next {
        let Some(digits) = word.strip_prefix('#') else {
            let fault = Fault::found(offset, word, "`#SIZE`, a comment or the end of the line");
            let is_number = word.bytes().all(|byte| byte.is_ascii_digit());
            let hint =
                if is_number { format!("a size is written #{word}") } else { format!("write # {word}") };
            return Err(fault.hint(hint));
        };
        if digits.starts_with(|c: char| c.is_ascii_digit() || c == '-' || c == '+') {
            let wrong = |_| {
                Fault::found(offset, word, "`#SIZE`, the body's length in bytes (a whole number from 0)")
                    .hint("sizes have no units: 5k is #5120; a comment needs a blank after #")
            };
            size = Some(whole_number(offset + 1, digits, 0, "a size").map_err(wrong)?);
        }
    }
    let file = FileRequest { url: name.into(), size, detail: Box::<RequestDetail>::default() };
    Ok(Some((url_at, Page { weight, files: vec![file], think: Default::default() })))
}

#[cfg(test)]
mod tests {
    use super::super::read as read_workload;
    use super::super::read::assert_refused;

    const STANDARD: &str = "# the standard list\n/file500.html 350 #500\n/file5k.html\t500\t#5125\n\n\
        /file50k.html 140 #51250 # fifty\n  /file500k.html 9 #512500\n/file5m.html #5248000\n";

    #[test]
    fn urls_weights_and_sizes_are_read() {
        let workload = read_workload(STANDARD, "dir/filelist.standard").unwrap();
        assert_eq!(workload.name, "filelist.standard");
        let rows: Vec<(u64, Option<u64>)> =
            workload.pages.iter().map(|page| (page.weight, page.files[0].size)).collect();
        assert_eq!(
            rows,
            [
                (350, Some(500)),
                (500, Some(5125)),
                (140, Some(51250)),
                (9, Some(512_500)),
                (1, Some(5_248_000))
            ]
        );
        for other in
            [STANDARD.replace('\n', "\r\n"), format!("\u{feff}{STANDARD}"), STANDARD.replace('\n', "\r")]
        {
            assert_eq!(read_workload(other, "filelist.standard").unwrap(), workload);
        }
    }

    #[test]
    fn weight_and_size_may_be_absent_and_hosts_present() {
        let text = "/a\n/b 2\n/c # three\n/d 4 #page of the house\nhttp://h:8080/e 5 #6 bytes\n/f 7 #0";
        let workload = read_workload(text, "f").unwrap();
        let rows: Vec<(&str, u64, Option<u64>)> =
            workload.pages.iter().map(|p| (&*p.files[0].url, p.weight, p.files[0].size)).collect();
        let expected = [
            ("/a", 1, None),
            ("/b", 2, None),
            ("/c", 1, None),
            ("/d", 4, None),
            ("http://h:8080/e", 5, Some(6)),
            ("/f", 7, Some(0)),
        ];
        assert_eq!(rows, expected);
    }

    #[test]
    fn a_wrong_line_names_place_and_expectation() {
        for (text, place, what, hint) in [
            ("/a 1\n/b -5\n", "2:4", "found `-5`, expected a weight (a whole number from 1)", "negative"),
            ("/a 0\n", "1:4", "found `0`, expected a weight", ""),
            ("/a 0.5\n", "1:4", "found `0.5`", "multiply"),
            ("/a 18446744073709551616\n", "1:4", "found `18446744073709551616`", "largest"),
            ("/a 1 500\n", "1:6", "found `500`, expected `#SIZE`", "#500"),
            ("/a 1 #5k\n", "1:6", "found `#5k`, expected `#SIZE`", "#5120"),
            ("/a 1 #-5\n", "1:6", "found `#-5`, expected `#SIZE`", "units"),
            ("/a 1 home\n", "1:6", "found `home`", "# home"),
            ("/a\nb.html 1\n", "2:1", "`b.html` is not a URL or a path", "slash"),
            ("/a /b /c\n", "1:4", "found `/b`, expected a weight", "one URL per line"),
            ("/a 1\r\n\r\n/b 1\r\n/a 2\r\n", "4:1", "found `/a` again", "line 1 already"),
            ("/a 1\n/é 1\n", "2:2", "`é`", "%C3%A9"),
            ("/a#top 1\n", "1:3", "`#`", "never sent"),
            ("http://h 1\n", "1:9", "no path", "slash"),
            ("/a 1\n/{{u.name}} 1\n", "2:1", "names the feed `u`, and a filelist has none", "[feeds.u]"),
        ] {
            assert_refused(text, place, what, hint);
        }
    }

    #[test]
    fn what_a_list_cannot_express_is_refused() {
        let pages = read_workload("1\n1 2 /a /b\n", "list").unwrap();
        assert!(crate::to_webstone2(&pages).unwrap_err().to_string().contains("one file per page"));
        let mut workload = read_workload("/a\n/b\n", "list").unwrap();
        workload.pages[1].files[0].url = "/a".into();
        assert!(crate::to_webstone2(&workload).unwrap_err().to_string().contains("page 0 has it too"));
        workload.pages[1].files[0].url = "/{{rand 1 2}}".into();
        assert!(crate::to_webstone2(&workload).unwrap_err().to_string().contains("template"));
        workload.pages[1].files[0].url = "/b".into();
        workload.pages[1].files[0].detail.method = Some("POST".to_owned());
        let error = crate::to_webstone2(&workload).unwrap_err();
        assert!(error.to_string().contains("page 1") && error.to_string().contains("method"), "{error}");
        assert!(error.hint.unwrap().contains("TOML"));
    }
}
