//! Links from the page of a series to the reports of its cells: relative URLs, so that both can be moved or published
//! together.

use std::path::{Component, Path};

use percent_encoding::percent_encode;
use webstone_store::REPORT;

use crate::curl::RESERVED;

/// For each record of the series in `directory`, by its name there, the URL of its report relative to the file
/// `page`; `None` if there is no report. Empty if no file is written, as the location of the page is then unknown.
pub(super) fn cell_links(
    directory: &Path,
    page: Option<&Path>,
    records: &[Option<&str>],
) -> Vec<Option<String>> {
    let Some(page) = page else { return Vec::new() };
    let folder = page.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let (Ok(folder), Ok(directory)) = (folder.canonicalize(), directory.canonicalize()) else {
        return Vec::new();
    };
    let link = |record: &Option<&str>| {
        let report = directory.join((*record)?).join(REPORT);
        report.is_file().then(|| relative(&folder, &report))
    };
    records.iter().map(link).collect()
}

/// The URL of a file relative to a directory; both are absolute.
fn relative(folder: &Path, file: &Path) -> String {
    let shared = folder.components().zip(file.components()).take_while(|(a, b)| a == b).count();
    let up = folder.components().skip(shared).map(|_| "..".to_owned());
    let down = file.components().skip(shared).map(encoded);
    up.chain(down).collect::<Vec<_>>().join("/")
}

/// A name in a URL: all but RFC 3986's unreserved characters percent-encoded.
fn encoded(name: Component<'_>) -> String {
    percent_encode(name.as_os_str().as_encoded_bytes(), RESERVED).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_is_named_as_seen_from_the_page() {
        let report = Path::new("/srv/runs/series/cell 1/report.html");
        assert_eq!(relative(Path::new("/srv/runs/series"), report), "cell%201/report.html");
        assert_eq!(relative(Path::new("/srv/pages/all"), report), "../../runs/series/cell%201/report.html");
    }

    #[test]
    fn only_reports_that_are_there_are_linked() {
        let directory = tempfile::tempdir().unwrap();
        std::fs::create_dir(directory.path().join("a")).unwrap();
        std::fs::write(directory.path().join("a").join(REPORT), "").unwrap();
        let records = [Some("a"), Some("b"), None];
        let links = cell_links(directory.path(), Some(&directory.path().join("page.html")), &records);
        assert_eq!(links, [Some("a/report.html".to_owned()), None, None]);
        assert!(cell_links(directory.path(), None, &records).is_empty());
    }
}
