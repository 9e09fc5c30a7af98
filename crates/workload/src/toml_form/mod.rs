//! Reads the TOML form of a workload, which can express everything:
//!
//! ```toml
//! name = "shop"
//! think = "2s"                       # pause after each page that states none
//!
//! [feeds.users]                      # values for templates: rows here, or a CSV file with `file = "users.csv"`
//! columns = ["name", "password"]
//! rows = [["ann", "a1"], ["bob", "b2"]]
//!
//! [[pages]]                          # several files, fetched in order
//! weight = 40
//! think = "500ms"
//! files = ["/", { url = "/logo.gif", size = 1200 }]
//!
//! [[pages]]                          # one file: its keys may stand in the page
//! weight = 5
//! url = "/login"
//! method = "POST"
//! headers = { Content-Type = "application/x-www-form-urlencoded" }
//! body = "user={{users.name}}&password={{users.password}}"
//! status = 302
//!
//! [[pages]]                          # the `send` handler: /send?size=6250&writes=4
//! dynamic = { size = 6250, writes = 4 }
//! ```
//!
//! A parsed TOML document takes a hundred times the memory of its pages. So a long text is read in pieces of a few
//! hundred pages; the result, and every error with its place, is the same.

mod form;
mod pieces;
mod write;

use std::hash::BuildHasher;

use foldhash::fast::FixedState;
use hashbrown::HashTable;
use indexmap::IndexMap;
use serde::de::DeserializeOwned;

use super::problem::Fault;
use super::read::FeedFile;
use super::{Feed, Workload, feed_file};
use form::{Document, PageForm};
use pieces::Pieces;
use webstone_measure::shown::quoted;
use webstone_measure::strict::Strict;
use webstone_measure::units::Nanos;

pub use write::write;

/// Pages parsed at once: enough that setting up the parser costs little per page.
const PAGES_PER_PIECE: usize = 256;

/// Reads a workload.
pub(super) fn read(text: &str, load: &mut dyn FnMut(&str) -> FeedFile) -> Result<Workload, Fault> {
    // The parser accepts no byte order mark; blanks in its place keep all offsets.
    let blanked;
    let text = match text.strip_prefix(super::BYTE_ORDER_MARK) {
        Some(rest) => {
            blanked = format!("   {rest}");
            &blanked[..]
        }
        None => text,
    };
    let mut reader = Reader::default();
    match Pieces::of_text(text, PAGES_PER_PIECE) {
        Some(pieces) => {
            let document: Document = parse(pieces.preamble, 0)?;
            if document.pages.is_some() {
                // Both ways of writing pages are used: the parser reports that best, for the whole text.
                return reader.whole(text, load);
            }
            reader.document(document, load)?;
            for (offset, piece) in pieces.pages {
                let document: PagesOnly = parse(piece, offset)?;
                reader.pages(document.pages, offset)?;
            }
            reader.finish(text)
        }
        None => reader.whole(text, load),
    }
}

#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct PagesOnly {
    pages: Vec<toml::Spanned<PageForm>>,
}

#[derive(Default)]
struct Reader {
    workload: Workload,
    /// The pause after pages that state none.
    think: Nanos,
    /// The first file with a size for each URL, as indices of page and file, by the URL's hash.
    sized: HashTable<(u32, u32)>,
    hasher: FixedState,
}

impl Reader {
    fn whole(mut self, text: &str, load: &mut dyn FnMut(&str) -> FeedFile) -> Result<Workload, Fault> {
        let mut document: Document = parse(text, 0)?;
        let pages = document.pages.take().unwrap_or_default();
        self.document(document, load)?;
        self.pages(pages, 0)?;
        self.finish(text)
    }

    fn document(&mut self, document: Document, load: &mut dyn FnMut(&str) -> FeedFile) -> Result<(), Fault> {
        self.think = document.think()?;
        self.workload.name = document.name.unwrap_or_default();
        self.workload.description = document.description.unwrap_or_default();
        for (name, form) in document.feeds {
            let feed = form.into_inner().into_feed(&name, load)?;
            self.workload.feeds.insert(name, feed);
        }
        Ok(())
    }

    fn pages(&mut self, forms: Vec<toml::Spanned<PageForm>>, base: usize) -> Result<(), Fault> {
        for form in forms {
            let at = form.span().start;
            let page = form.into_inner().into_page(at, &self.workload.feeds, self.think);
            let (page, places) = page.map_err(|fault| fault.after(base))?;
            self.workload.pages.push(page);
            for (number, place) in places.into_iter().enumerate() {
                self.check_size(number, base + place)?;
            }
        }
        Ok(())
    }

    /// Checks that a file of the last page does not contradict an earlier size. (Other methods, statuses or templates
    /// may well have answers of other sizes.)
    fn check_size(&mut self, number: usize, offset: usize) -> Result<(), Fault> {
        let pages = &self.workload.pages;
        let file = |(page, file): &(u32, u32)| &pages[*page as usize].files[*file as usize];
        let here = (pages.len() as u32 - 1, number as u32);
        let this = file(&here);
        let (Some(size), true) = (this.size, this.detail.is_plain()) else { return Ok(()) };
        if this.url.contains("{{") {
            return Ok(());
        }
        let hash = self.hasher.hash_one(&*this.url);
        match self.sized.find(hash, |other| file(other).url == this.url).and_then(|other| file(other).size) {
            Some(other) if other != size => Err(Fault::new(
                offset,
                format!("{} has size {size} here and {other} before, expected one size", quoted(&this.url)),
            )
            .hint("correct one of them, or leave both out")),
            Some(_) => Ok(()),
            None => {
                let hasher = &self.hasher;
                self.sized.insert_unique(hash, here, |other| hasher.hash_one(&*file(other).url));
                Ok(())
            }
        }
    }

    fn finish(mut self, text: &str) -> Result<Workload, Fault> {
        if self.workload.pages.is_empty() {
            return Err(Fault::new(text.len(), "found no pages, expected at least one")
                .hint("a page is written\n\n    [[pages]]\n    url = \"/index.html\"\n"));
        }
        self.workload.pages.shrink_to_fit();
        Ok(self.workload)
    }
}

fn parse<T: DeserializeOwned>(text: &str, base: usize) -> Result<T, Fault> {
    toml::Deserializer::parse(text).and_then(|from| T::deserialize(Strict(from))).map_err(|error| {
        let offset = error.span().map_or(0, |span| span.start);
        Fault::new(base + offset, error.message().trim_end().replace('\n', ": "))
    })
}

/// Checks that the feeds and columns in a template exist.
fn check_columns(
    template: &super::template::Template,
    feeds: &IndexMap<String, Feed>,
    offset: usize,
) -> Result<(), Fault> {
    for (name, column) in template.feed_columns() {
        let Some(feed) = feeds.get(name) else {
            let known: Vec<&str> = feeds.keys().map(String::as_str).collect();
            return Err(Fault::new(offset, format!("there is no feed {}", quoted(name))).hint(
                match &known[..] {
                    [] => format!("add it before the pages, under [feeds.{name}]"),
                    known => format!("the feeds are: {}", known.join(", ")),
                },
            ));
        };
        if !feed.columns.iter().any(|known| known == column) {
            let what = format!("the feed {} has no column {}", feed.named(name), quoted(column));
            return Err(
                Fault::new(offset, what).hint(format!("its columns are: {}", feed.columns.join(", ")))
            );
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
