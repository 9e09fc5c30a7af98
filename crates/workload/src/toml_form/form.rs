//! The structure of the TOML text, key by key, and its conversion to pages and feeds.
//!
//! The types of the workload itself are not used for this: they are what a record contains, while this is what people
//! write, with short forms, and with a place for every error.

use std::fmt;

use indexmap::IndexMap;
use serde::Deserialize;
use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserializer, Error, MapAccess, Visitor};
use toml::Spanned;

use super::super::fields::{Fields, Values};
use super::super::problem::Fault;
use super::super::read::FeedFile;
use super::super::{Feed, FileRequest, Page, RequestDetail, template::Template, url};
use super::{check_columns, feed_file};
use webstone_measure::shown::quoted;
use webstone_measure::units::Nanos;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Document {
    pub(super) name: Option<String>,
    pub(super) description: Option<String>,
    /// For all pages that do not have this key.
    think: Option<Spanned<String>>,
    #[serde(default)]
    pub(super) feeds: IndexMap<String, Spanned<FeedForm>>,
    pub(super) pages: Option<Vec<Spanned<PageForm>>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct FeedForm {
    columns: Option<Spanned<Vec<String>>>,
    rows: Option<Vec<Spanned<Vec<Cell>>>>,
    file: Option<Spanned<String>>,
}

/// A value of a feed: any scalar, as text.
struct Cell(String);

/// A page: `files`, or the keys of its only file.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct PageForm {
    weight: Option<Spanned<Whole>>,
    think: Option<Spanned<String>>,
    files: Option<Spanned<Vec<Spanned<FileForm>>>>,
    url: Option<Spanned<String>>,
    dynamic: Option<Spanned<DynamicForm>>,
    size: Option<Spanned<Whole>>,
    method: Option<Spanned<String>>,
    status: Option<Spanned<Whole>>,
    headers: Option<Headers>,
    body: Option<Spanned<String>>,
    /// For all files of the page that do not have this key.
    tls: Option<Spanned<bool>>,
}

type Headers = Spanned<IndexMap<Spanned<String>, Spanned<Values>>>;

/// A file: only a URL, or a table.
pub(super) struct FileForm(FileTable);

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct FileTable {
    url: Option<Spanned<String>>,
    dynamic: Option<Spanned<DynamicForm>>,
    size: Option<Spanned<Whole>>,
    method: Option<Spanned<String>>,
    status: Option<Spanned<Whole>>,
    headers: Option<Headers>,
    body: Option<Spanned<String>>,
    tls: Option<Spanned<bool>>,
}

/// The `send` handler's parameters.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct DynamicForm {
    path: Option<Spanned<String>>,
    size: Option<Spanned<Whole>>,
    fill: Option<Spanned<String>>,
    writes: Option<Spanned<Whole>>,
    head: Option<Spanned<String>>,
}

/// A whole number. Its range is checked where it is used, so that the message can say what it is.
#[derive(Clone, Copy)]
struct Whole(i64);

/// Size of a `send` answer if none is stated, as in WebStone's `nsapi-send` and `cgi-send`.
const SEND_SIZE_BYTES: u64 = 10_240;

impl Document {
    /// The pause after pages that state none.
    pub(super) fn think(&self) -> Result<Nanos, Fault> {
        self.think.as_ref().map_or(Ok(Nanos::ZERO), duration)
    }
}

fn duration(text: &Spanned<String>) -> Result<Nanos, Fault> {
    let parsed = text.get_ref().parse::<Nanos>();
    parsed.map_err(|error| Fault::new(text.span().start, error.to_string()))
}

impl FeedForm {
    pub(super) fn into_feed(self, name: &str, load: &mut dyn FnMut(&str) -> FeedFile) -> Result<Feed, Fault> {
        let columns_at = self.columns.as_ref().map_or(0, |columns| columns.span().start);
        let columns = self.columns.map(Spanned::into_inner);
        let feed = match (self.rows, self.file) {
            (Some(_), Some(file)) => {
                let what = format!("feed {} has rows and a file, expected one of the two", quoted(name));
                return Err(Fault::new(file.span().start, what).hint("remove `rows` or `file`"));
            }
            (None, None) => {
                let what = format!("feed {} has no rows", quoted(name));
                return Err(Fault::new(columns_at, what)
                    .hint("write `rows = [[\"value\", …], …]`, or `file = \"values.csv\"`"));
            }
            (None, Some(file)) => {
                let (at, path) = taken(file);
                let bytes = load(&path).map_err(|why| {
                    Fault::new(at, format!("feed {}: {}: {why}", quoted(name), quoted(&path)))
                })?;
                let feed = feed_file::parse(&bytes, columns).map_err(|what| {
                    Fault::new(at, format!("feed {}: {path}:{what}", quoted(name)))
                        .hint("expected comma-separated values, with the columns' names on the first line")
                })?;
                Feed { file: Some(path.into()), ..feed }
            }
            (Some(rows), None) => {
                let Some(columns) = columns else {
                    let at = rows.first().map_or(0, |row| row.span().start);
                    return Err(Fault::new(at, format!("feed {} has no columns", quoted(name)))
                        .hint("name them: `columns = [\"name\", …]`"));
                };
                let mut feed = Feed { columns, rows: Vec::with_capacity(rows.len()), ..Feed::default() };
                for row in rows {
                    let (at, row) = taken(row);
                    let row: Vec<String> = row.into_iter().map(|cell| cell.0).collect();
                    if row.len() != feed.columns.len() {
                        let (found, expected) = (row.len(), feed.columns.len());
                        let what =
                            format!("found a row of {found} values, expected {expected}, one per column");
                        return Err(Fault::new(at, what));
                    }
                    feed.rows.push(row);
                }
                feed
            }
        };
        if feed.rows.is_empty() || feed.columns.is_empty() {
            return Err(Fault::new(columns_at, format!("feed {} is empty", feed.named(name)))
                .hint("a feed needs at least one column and one row"));
        }
        let twice = |column: &&String| feed.columns.iter().filter(|other| other == column).count() > 1;
        if let Some(column) = feed.columns.iter().find(twice) {
            let what = format!("feed {} has two columns {}", feed.named(name), quoted(column));
            return Err(Fault::new(columns_at, what));
        }
        Ok(feed)
    }
}

impl PageForm {
    /// The page, and the offset of each file. `think`: the pause after pages that state none.
    pub(super) fn into_page(
        self,
        at: usize,
        feeds: &IndexMap<String, Feed>,
        think: Nanos,
    ) -> Result<(Page, Vec<usize>), Fault> {
        let weight = self.weight.map_or(Ok(1), |weight| number(weight, 1, "the weight"))?;
        let think = self.think.as_ref().map_or(Ok(think), duration)?;
        let own = FileTable {
            url: self.url,
            dynamic: self.dynamic,
            size: self.size,
            method: self.method,
            status: self.status,
            headers: self.headers,
            body: self.body,
            tls: None,
        };
        let mut files = Vec::new();
        let mut places = Vec::new();
        match (self.files, own.first_key()) {
            (None, _) => {
                places.push(own.url.as_ref().map_or(at, |url| url.span().start));
                files.push(FileTable { tls: self.tls, ..own }.into_file(at, feeds)?);
            }
            (Some(list), None) => {
                if list.get_ref().is_empty() {
                    let what = "found a page without files, expected at least one";
                    return Err(Fault::new(list.span().start, what));
                }
                for file in list.into_inner() {
                    let span = file.span();
                    let at = span.start;
                    let mut table = file.into_inner().at(span);
                    table.tls = table.tls.or_else(|| self.tls.clone());
                    places.push(table.url.as_ref().map_or(at, |url| url.span().start));
                    files.push(table.into_file(at, feeds)?);
                }
            }
            (Some(_), Some((key, offset))) => {
                return Err(Fault::new(
                    offset,
                    format!("found `{key}` beside `files`, expected one of the two"),
                )
                .hint(format!("move `{key}` into the file that it belongs to: {{ url = …, {key} = … }}")));
            }
        }
        files.shrink_to_fit();
        Ok((Page { weight, files, think }, places))
    }
}

impl FileTable {
    fn first_key(&self) -> Option<(&'static str, usize)> {
        fn at<T>(field: &Option<Spanned<T>>) -> Option<usize> {
            field.as_ref().map(|value| value.span().start)
        }
        let keys = [
            ("url", at(&self.url)),
            ("dynamic", at(&self.dynamic)),
            ("size", at(&self.size)),
            ("method", at(&self.method)),
            ("status", at(&self.status)),
            ("headers", at(&self.headers)),
            ("body", at(&self.body)),
        ];
        keys.into_iter().find_map(|(key, offset)| Some((key, offset?)))
    }

    fn into_file(self, at: usize, feeds: &IndexMap<String, Feed>) -> Result<FileRequest, Fault> {
        let (url, mut size) = match (self.url, self.dynamic) {
            (Some(url), None) => {
                let (at, url) = taken(url);
                check_url(&url, feeds, at)?;
                (url.into_boxed_str(), None)
            }
            (None, Some(form)) => form.into_inner().into_url(feeds)?,
            (Some(_), Some(form)) => {
                return Err(Fault::new(
                    form.span().start,
                    "found `dynamic` beside `url`, expected one of the two",
                )
                .hint("the handler's path is written dynamic = { path = \"/send\" }"));
            }
            (None, None) => {
                return Err(Fault::new(at, "found no `url`, expected one")
                    .hint("a file is written \"/path\" or { url = \"/path\", … }"));
            }
        };
        if let Some(stated) = self.size {
            size = Some(number(stated, 0, "the size in bytes")?);
        }
        let method = self.method.map(check_method).transpose()?;
        let status = match self.status {
            None => None,
            Some(status) => {
                let at = status.span().start;
                let code = number(status, 200, "the expected status")?;
                if code > 599 {
                    return Err(Fault::new(at, format!("found {code}, expected a status from 200 to 599")));
                }
                Some(code as u16)
            }
        };
        let headers = self.headers.map(|headers| check_headers(headers.into_inner())).transpose()?;
        let body = match self.body {
            None => None,
            Some(body) => {
                let (at, body) = taken(body);
                let template = Template::parse(&body).map_err(|error| {
                    Fault::new(at, error.to_string()).hint("a literal `{{` is written {{\"{{\"}}")
                })?;
                check_columns(&template, feeds, at)?;
                Some(body)
            }
        };
        if let Some(tls) = self.tls.as_ref().filter(|_| !url.starts_with('/')) {
            let what = format!("found `tls` beside {}, a whole URL", quoted(&url));
            return Err(Fault::new(tls.span().start, what)
                .hint("its scheme says it: write https:// or http://, and leave `tls` out"));
        }
        let tls = self.tls.is_some_and(Spanned::into_inner);
        let detail =
            RequestDetail { method, status, headers: headers.unwrap_or_default(), body, no_body: false, tls };
        Ok(FileRequest { url, size, detail: Box::new(detail) })
    }
}

impl DynamicForm {
    fn into_url(self, feeds: &IndexMap<String, Feed>) -> Result<(Box<str>, Option<u64>), Fault> {
        let mut path = "/send".to_owned();
        if let Some(stated) = self.path {
            let at;
            (at, path) = taken(stated);
            check_url(&path, feeds, at)?;
            if path.contains('?') {
                return Err(Fault::new(at, format!("{} holds a query, expected a path", quoted(&path)))
                    .hint("write the whole address as `url` instead of `dynamic`"));
            }
        }
        let size = self.size.map_or(Ok(SEND_SIZE_BYTES), |size| number(size, 0, "the size in bytes"))?;
        let mut url = format!("{path}?size={size}");
        if let Some(fill) = self.fill {
            let fill = one_of(fill, &["random", "pattern", "none"], "a fill: random, pattern or none")?;
            url += &format!("&fill={fill}");
        }
        if let Some(writes) = self.writes {
            url += &format!("&writes={}", number(writes, 1, "the number of writes")?);
        }
        if let Some(head) = self.head {
            let head = one_of(head, &["built", "ready"], "a head: built or ready")?;
            url += &format!("&head={head}");
        }
        Ok((url.into_boxed_str(), Some(size)))
    }
}

/// A value and its offset.
fn taken<T>(value: Spanned<T>) -> (usize, T) {
    (value.span().start, value.into_inner())
}

/// Checks a URL in a string that begins at `at`.
fn check_url(url: &str, feeds: &IndexMap<String, Feed>, at: usize) -> Result<(), Fault> {
    // The string begins after its quote; escapes in it may shift the place, but hardly to another line.
    let template = url::check(url).map_err(|fault| fault.after(at + 1))?;
    check_columns(&template, feeds, at)
}

/// One of the allowed words for a parameter of the handler.
fn one_of(found: Spanned<String>, words: &[&str], expected: &str) -> Result<String, Fault> {
    let (at, found) = taken(found);
    match words.contains(&found.as_str()) {
        true => Ok(found),
        false => Err(Fault::new(at, format!("found {}, expected {expected}", quoted(&found)))),
    }
}

fn number(value: Spanned<Whole>, low: u64, what: &str) -> Result<u64, Fault> {
    let Whole(found) = *value.get_ref();
    u64::try_from(found).ok().filter(|number| *number >= low).ok_or_else(|| {
        Fault::new(value.span().start, format!("found {found}, expected {what} (a whole number from {low})"))
    })
}

fn check_method(method: Spanned<String>) -> Result<String, Fault> {
    let (at, method) = taken(method);
    match http::Method::from_bytes(method.as_bytes()) {
        Ok(_) if method.bytes().any(|byte| byte.is_ascii_lowercase()) => {
            Err(Fault::found(at, &method, "a method; methods are case-sensitive and upper-case")
                .hint(format!("write {}", method.to_ascii_uppercase())))
        }
        Ok(_) => Ok(method),
        Err(_) => Err(Fault::found(at, &method, "a method such as GET, HEAD, POST, PUT or DELETE")),
    }
}

fn check_headers(headers: IndexMap<Spanned<String>, Spanned<Values>>) -> Result<Fields, Fault> {
    let mut checked = Fields::default();
    for (name, values) in headers {
        let ((name_at, name), (value_at, Values(values))) = (taken(name), taken(values));
        if http::HeaderName::from_bytes(name.as_bytes()).is_err() {
            return Err(Fault::found(name_at, &name, "the name of a header field"));
        }
        for value in values {
            if http::HeaderValue::from_str(&value).is_err() {
                let expected = "the value of a header field: no line ends or controls";
                return Err(Fault::found(value_at, &value, expected));
            }
            checked.add(&name, value);
        }
    }
    Ok(checked)
}

impl<'de> Deserialize<'de> for Whole {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Whole, D::Error> {
        struct WholeVisitor;
        impl Visitor<'_> for WholeVisitor {
            type Value = Whole;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a whole number")
            }
            fn visit_i64<E: Error>(self, number: i64) -> Result<Whole, E> {
                Ok(Whole(number))
            }
        }
        deserializer.deserialize_i64(WholeVisitor)
    }
}

impl<'de> Deserialize<'de> for Cell {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Cell, D::Error> {
        struct CellVisitor;
        impl Visitor<'_> for CellVisitor {
            type Value = Cell;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a text or a number")
            }
            fn visit_str<E: Error>(self, text: &str) -> Result<Cell, E> {
                Ok(Cell(text.to_owned()))
            }
            fn visit_i64<E: Error>(self, number: i64) -> Result<Cell, E> {
                Ok(Cell(number.to_string()))
            }
            fn visit_f64<E: Error>(self, number: f64) -> Result<Cell, E> {
                Ok(Cell(number.to_string()))
            }
            fn visit_bool<E: Error>(self, value: bool) -> Result<Cell, E> {
                Ok(Cell(value.to_string()))
            }
        }
        deserializer.deserialize_any(CellVisitor)
    }
}

impl<'de> Deserialize<'de> for FileForm {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<FileForm, D::Error> {
        struct FileVisitor;
        impl<'de> Visitor<'de> for FileVisitor {
            type Value = FileForm;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a file: \"/path\" or { url = \"/path\", … }")
            }
            fn visit_str<E: Error>(self, url: &str) -> Result<FileForm, E> {
                // Only the caller knows the place: see `FileForm::at`.
                let url = Some(Spanned::new(0..0, url.to_owned()));
                Ok(FileForm(FileTable { url, ..FileTable::default() }))
            }
            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<FileForm, A::Error> {
                FileTable::deserialize(MapAccessDeserializer::new(map)).map(FileForm)
            }
        }
        deserializer.deserialize_any(FileVisitor)
    }
}

impl FileForm {
    /// The table; if it was only a URL, with the place of that.
    fn at(self, span: std::ops::Range<usize>) -> FileTable {
        let mut table = self.0;
        if let Some(url) = table.url.take() {
            let own = url.span();
            table.url = Some(Spanned::new(if own.is_empty() { span } else { own }, url.into_inner()));
        }
        table
    }
}
