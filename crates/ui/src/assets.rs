//! The pages' own files, held in the program: nothing is fetched from anywhere else.

use hyper::StatusCode;

use crate::answer::{self, Answer};

/// One page for all addresses: its script shows what the address names.
const PAGE: &str = include_str!("../assets/index.html");
/// Files of `assets/`, listed by the build script.
const FILES: &[(&str, &[u8])] = include!(concat!(env!("OUT_DIR"), "/files.rs"));
/// The reports' own style sheet.
const REPORT_STYLE: (&str, &[u8]) = ("report.css", webstone_report::STYLE.as_bytes());

/// A file of the front, or its page where the address is one of a page.
pub(crate) fn answer(path: &str) -> Answer {
    let Some(name) = path.strip_prefix("/assets/") else {
        return answer::bytes(StatusCode::OK, "text/html; charset=utf-8", PAGE);
    };
    match FILES.iter().chain([&REPORT_STYLE]).find(|(known, _)| *known == name) {
        Some((_, bytes)) => answer::bytes(StatusCode::OK, kind(name), *bytes),
        None => answer::failure(StatusCode::NOT_FOUND, "there is no such file", None),
    }
}

/// The media type of a file by the ending of its name.
fn kind(name: &str) -> &'static str {
    match name.rsplit('.').next() {
        Some("css") => "text/css; charset=utf-8",
        Some("js") => "text/javascript; charset=utf-8",
        Some("svg") => "image/svg+xml",
        _ => "application/octet-stream",
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::io::Write;

    use super::*;

    /// Bytes after gzip, as a server behind a proxy would send them.
    fn compressed(bytes: &[u8]) -> usize {
        let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
        gzip.write_all(bytes).unwrap();
        gzip.finish().unwrap().len()
    }

    fn file(name: &str) -> &'static [u8] {
        FILES.iter().find(|(known, _)| *known == name).unwrap_or_else(|| panic!("{name} is imported")).1
    }

    /// Adds a script and those that it imports before it runs.
    fn imported(name: &str, all: &mut BTreeSet<String>) {
        if !all.insert(name.to_owned()) {
            return;
        }
        let text = std::str::from_utf8(file(name)).unwrap();
        for line in text.lines().filter(|line| line.starts_with("import ")) {
            imported(line.split("\"./").nth(1).unwrap().trim_end_matches("\";"), all);
        }
    }

    #[test]
    fn the_pages_stay_small() {
        let pages: Vec<&str> =
            FILES.iter().map(|(name, _)| *name).filter(|name| name.starts_with("page-")).collect();
        assert!(pages.len() > 5, "{pages:?}");
        for page in pages {
            let mut scripts = BTreeSet::from(["theme.js".to_owned()]);
            imported("main.js", &mut scripts);
            imported(page, &mut scripts);
            let bytes: usize = scripts.iter().map(|name| compressed(file(name))).sum();
            assert!(bytes <= 25_000, "{page}: {bytes} bytes of scripts");
        }
        let all: usize = FILES.iter().chain([&REPORT_STYLE]).map(|(_, bytes)| compressed(bytes)).sum();
        assert!(all + compressed(PAGE.as_bytes()) <= 60_000, "{all} bytes");
    }

    #[test]
    fn nothing_is_named_that_is_not_here() {
        for (name, _) in FILES {
            assert_ne!(kind(name), "application/octet-stream", "{name}");
        }
        for reference in PAGE.split("/assets/").skip(1) {
            let name = reference.split(['"', '\'']).next().unwrap();
            assert!(FILES.iter().chain([&REPORT_STYLE]).any(|(known, _)| *known == name), "{name}");
        }
    }
}
