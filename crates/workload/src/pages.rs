//! What is requested: pages with weights, each a list of files fetched one after the other.

use indexmap::IndexMap;
use serde::{Deserialize, Serialize};

use crate::fields::Fields;
use crate::statuses::Statuses;
use webstone_measure::shown;
use webstone_measure::units::Nanos;

/// A list of pages. The order matters: a page's index is its number in every report.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Workload {
    /// Its name.
    pub name: String,
    /// What it represents, and its source.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub description: String,
    /// Tables of values for templates: name of the feed, then its rows.
    #[serde(default, skip_serializing_if = "IndexMap::is_empty")]
    pub feeds: IndexMap<String, Feed>,
    /// The pages.
    pub pages: Vec<Page>,
}

/// Rows of values that templates use, one row per page (in turn for each client).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Feed {
    /// Names of the columns.
    pub columns: Vec<String>,
    /// Rows, each as long as `columns`. Empty in a record, which has `kept` instead.
    pub rows: Vec<Vec<String>>,
    /// In a record: what is kept of the rows, which are often names and passwords.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kept: Option<FeedKept>,
    /// The file that the rows came from, as written in the workload, for messages; absent if they are in the workload
    /// itself.
    #[serde(skip)]
    pub file: Option<Box<str>>,
}

/// What a record keeps of a feed's rows: enough to see whether two runs had the same.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct FeedKept {
    /// Number of rows.
    pub rows: u64,
    /// Their [`Feed::fingerprint`].
    pub fingerprint: String,
}

/// Files that a browser needs to show one document. Its share of all pages is `weight` / Σ weights.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Page {
    /// Its weight, at least 1.
    pub weight: u64,
    /// Its files, fetched in order (the first alone, if files are fetched in parallel).
    pub files: Vec<FileRequest>,
    /// Time that a client waits after the page.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub think: Nanos,
}

/// One request of a page.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct FileRequest {
    /// Path with its query on the target, or a whole `http://host:port/path` for another host. May contain templates.
    pub url: Box<str>,
    /// Length in bytes that the answer's body must have, if known; also the size of the generated file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size: Option<u64>,
    /// What only some requests have; boxed, so that 100,000 plain pages stay small.
    #[serde(default, flatten, skip_serializing_if = "RequestDetail::is_plain")]
    pub detail: Box<RequestDetail>,
}

/// How a request differs from a plain GET that expects 200.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct RequestDetail {
    /// Method; absent: the run's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub method: Option<String>,
    /// Expected status; absent: the run's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
    /// Header fields besides the run's; they replace the run's fields of the same name.
    #[serde(skip_serializing_if = "Fields::is_empty")]
    pub headers: Fields,
    /// Request body. May hold templates.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub body: Option<String>,
    /// Whether it has no body, though the run's requests have one: what a redirect makes of a POST.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub no_body: bool,
    /// Whether it is requested over TLS in a workload that requests others without. Only for URLs that are paths: a
    /// whole URL has its own scheme.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub tls: bool,
}

/// Which requests of a workload are marked to go over TLS.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TlsPages {
    /// None: the target's scheme decides for all.
    None,
    /// Some; the others are requested without TLS.
    Some,
    /// All.
    All,
}

impl FileRequest {
    /// Statuses that count as a success. `run` are the run's.
    pub fn expected_statuses(&self, run: &Statuses) -> Statuses {
        self.detail.status.map_or_else(|| run.clone(), Statuses::one)
    }

    /// Whether an answer of this status has the file's body: another one (304, 404) that counts as a success has a length of its own,
    /// unless the file itself states its status.
    pub fn has_body(&self, status: u16) -> bool {
        self.detail.status.is_some() || (200..300).contains(&status)
    }

    /// Number of bytes that the answer's body must have, if known. `method` is the run's.
    pub fn known_size(&self, method: &str) -> Option<u64> {
        self.size.filter(|_| self.method(method) != "HEAD")
    }

    /// Size of the generated file that it requests, whose content is known (`webstone_workload::content`); `None` for
    /// anything else: with a query, a template or another method than GET, or without a stated size. `method` is the
    /// run's.
    pub fn generated_size(&self, method: &str) -> Option<u64> {
        let is_file = !self.url.contains('?') && !self.url.contains("{{");
        self.size.filter(|_| is_file && self.method(method) == "GET")
    }

    fn method<'a>(&'a self, run: &'a str) -> &'a str {
        self.detail.method.as_deref().unwrap_or(run)
    }
}

impl Workload {
    /// Gives files of unstated size the one that their name says, as WebStone's own files had: a server of webstone's, and
    /// `genfiles`, make them so. A server elsewhere may have files of any size.
    pub fn take_sizes_of_names(&mut self) {
        for file in self.pages.iter_mut().flat_map(|page| &mut page.files) {
            file.size = file.size.or_else(|| size_of_name(&file.url));
        }
    }
}

/// The size that a file's name says: `/file3k.html` has 3 × 1,024 bytes, `/file5m.html` 5 × 1,048,576, `/file500.html` 500. The
/// WebStone paper's list prints no sizes; its run has 12,288 bytes for a page of 3k + 4k + 5k, and 6,291,456 for one of 5m + 1m.
pub(crate) fn size_of_name(url: &str) -> Option<u64> {
    let name = url.rsplit('/').next()?.strip_prefix("file")?;
    let stem = name.split_once('.').map_or(name, |(stem, _)| stem);
    let digits = stem.trim_end_matches(['k', 'm']);
    let unit: u64 = match &stem[digits.len()..] {
        "" => 1,
        "k" => 1 << 10,
        "m" => 1 << 20,
        _ => return None,
    };
    let is_number = digits.bytes().all(|byte| byte.is_ascii_digit());
    digits.parse::<u64>().ok().filter(|_| is_number)?.checked_mul(unit)
}

impl FileRequest {
    /// Its URL, and whether it goes over TLS if it is marked so: `/a over TLS`.
    pub fn shown(&self) -> std::borrow::Cow<'_, str> {
        match self.detail.tls {
            true => format!("{} over TLS", self.url).into(),
            false => (&*self.url).into(),
        }
    }
}

impl RequestDetail {
    /// Whether it is a plain request of the run's method that expects success.
    pub fn is_plain(&self) -> bool {
        *self == RequestDetail::default()
    }
}

fn is_zero(span: &Nanos) -> bool {
    *span == Nanos::ZERO
}

impl Feed {
    /// Without its rows, as in a record.
    pub fn sealed(&self) -> Feed {
        let kept = FeedKept { rows: self.rows.len() as u64, fingerprint: self.fingerprint() };
        Feed { columns: self.columns.clone(), kept: Some(kept), ..Feed::default() }
    }

    /// The feed with its name and file, as in messages: `` `users` (users.csv) ``.
    pub fn named(&self, name: &str) -> String {
        match &self.file {
            Some(file) => format!("{} ({})", shown::quoted(name), shown::printable(file)),
            None => shown::quoted(name),
        }
    }

    /// SHA-256 of the rows' canonical form (see [`Workload::sha256`]), hashed 100,000 times more, in lower-case hex:
    /// somebody who guesses passwords has this cost for each.
    pub fn fingerprint(&self) -> String {
        crate::canonical::fingerprint(&self.rows)
    }
}

impl Workload {
    /// Sum of the pages' weights.
    pub fn total_weight(&self) -> u64 {
        self.pages.iter().map(|page| page.weight).sum()
    }

    /// Which requests are marked to go over TLS. Whole URLs do not count: they have their own scheme.
    pub fn tls_pages(&self) -> TlsPages {
        let files = self.pages.iter().flat_map(|page| &page.files).filter(|file| file.url.starts_with('/'));
        let (mut over_tls, mut others) = (false, false);
        for file in files {
            match file.detail.tls {
                true => over_tls = true,
                false => others = true,
            }
        }
        match (over_tls, others) {
            (false, _) => TlsPages::None,
            (true, true) => TlsPages::Some,
            (true, false) => TlsPages::All,
        }
    }

    /// Weighted mean size of bodies, in bytes; `None` unless every file states its size.
    pub fn mean_size(&self) -> Option<f64> {
        let (mut bytes, mut requests) = (0.0, 0.0);
        for page in &self.pages {
            for file in &page.files {
                bytes += page.weight as f64 * file.size? as f64;
                requests += page.weight as f64;
            }
        }
        (requests > 0.0).then(|| bytes / requests)
    }

    /// SHA-256 of the canonical form, in lower-case hex: it identifies what is requested, whatever file it came from.
    /// Name and description do not count.
    ///
    /// The form is a byte string. An integer is 8 bytes, little-endian; a text is its length in bytes, then its UTF-8
    /// bytes; a list is its length, then its items; an optional value is the byte 0, or the byte 1 and the value. In
    /// order: the text `webstone workload 1`; the list of feeds (name, columns, rows as lists of texts; in a record,
    /// the text `kept`, the number of rows and their fingerprint instead of the rows); the list of pages (weight,
    /// think time in nanoseconds, list of files); for each file its URL, optional size, optional method, optional
    /// status, list of header fields (name, value), optional body, and the text `tls` if it is requested over TLS.
    pub fn sha256(&self) -> String {
        crate::canonical::sha256(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_may_have_its_size_in_its_name() {
        for (url, size) in [
            ("/file3k.html", Some(3_072)),
            ("/a/file5m.mpg", Some(5 << 20)),
            ("/file500.html", Some(500)),
            ("/file0k", Some(0)),
            ("/file.html", None),
            ("/file3g.html", None),
            ("/file3kk.html", None),
            ("/file+3k.html", None),
            ("/page3k.html", None),
            ("/file99999999999999999999m.html", None),
            ("/send?file=file3k", None),
        ] {
            assert_eq!(size_of_name(url), size, "{url}");
        }
    }

    #[test]
    fn only_paths_are_marked_to_go_over_tls() {
        let of = |files: &[(&str, bool)]| {
            let file = |(url, tls): &(&str, bool)| FileRequest {
                url: (*url).into(),
                size: None,
                detail: Box::new(RequestDetail { tls: *tls, ..RequestDetail::default() }),
            };
            let files = files.iter().map(file).collect();
            let page = Page { weight: 1, files, think: Nanos::ZERO };
            Workload { pages: vec![page], ..Workload::default() }.tls_pages()
        };
        assert_eq!(of(&[("/a", false)]), TlsPages::None);
        assert_eq!(of(&[("/a", false), ("/a", true)]), TlsPages::Some);
        assert_eq!(of(&[("/a", true), ("http://b/", false)]), TlsPages::All);
        assert_eq!(of(&[]), TlsPages::None);
    }

    #[test]
    fn only_what_the_workload_states_is_known_of_an_answer() {
        let file = |url: &str, size: Option<u64>, method: Option<&str>| {
            let detail = RequestDetail { method: method.map(str::to_owned), ..RequestDetail::default() };
            FileRequest { url: url.into(), size, detail: Box::new(detail) }
        };
        let known = |file: FileRequest, run: &str| (file.known_size(run), file.generated_size(run));
        assert_eq!(known(file("/a", Some(7), None), "GET"), (Some(7), Some(7)));
        assert_eq!(known(file("/a", None, None), "GET"), (None, None));
        assert_eq!(known(file("/a?b", Some(7), None), "GET"), (Some(7), None));
        assert_eq!(known(file("/{{seq}}", Some(7), None), "GET"), (Some(7), None));
        assert_eq!(known(file("/a", Some(7), None), "HEAD"), (None, None));
        assert_eq!(known(file("/a", Some(7), Some("GET")), "HEAD"), (Some(7), Some(7)));
        assert_eq!(known(file("/a", Some(7), Some("POST")), "GET"), (Some(7), None));
    }
}
