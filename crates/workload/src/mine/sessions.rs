//! Groups the files of a log into pages: a document, and what the same client fetched within a second of it.
//!
//! Memory is limited in three ways: documents are closed when their second is over, and the numbers of open documents
//! and of distinct pages are limited.

use std::collections::{HashMap, VecDeque};
use std::hash::BuildHasher;

use foldhash::fast::FixedState;
use hashbrown::HashTable;

/// Maximum number of files of a page besides the document; a browser's page of 1995 had five, today's have a hundred.
const FILES_MAX: usize = 256;
/// Maximum number of open documents.
const OPEN_MAX: usize = 65_536;
/// Maximum number of file numbers in all distinct pages: 64 MiB.
const NUMBERS_MAX: usize = 16 << 20;
/// Seconds from a document to the last file of its page.
const PAGE_SECONDS: i64 = 1;
/// Seconds by which a log may be out of order: servers write a line when the answer ends, not when the request comes.
const SLACK_SECONDS: i64 = 5;
/// Seconds by which a log that goes back begins again: more than a download takes, whose line is written when it ends. The time
/// before was wrong, or is that of another log.
const BACK_SECONDS: i64 = 3600;

/// Pages as they were fetched: each a list of file numbers with the document first, and how often it was fetched.
#[derive(Debug, Default)]
pub(super) struct Sessions {
    open: HashMap<u64, OpenPage, FixedState>,
    /// Open pages in order of appearance: time, client, serial.
    queue: VecDeque<(i64, u64, u64)>,
    serial: u64,
    latest: i64,
    /// Whether no time of the current log is known yet.
    at_beginning: bool,
    index: HashTable<u32>,
    pages: Vec<(Box<[u32]>, u64)>,
    numbers: usize,
    /// Files of pages that exceeded the limits.
    pub(super) overflow: u64,
    hasher: FixedState,
}

#[derive(Debug)]
struct OpenPage {
    serial: u64,
    time: i64,
    files: Vec<u32>,
}

impl Sessions {
    /// Begins another log: pages may go on in it if it is later, and have ended if it is earlier.
    pub(super) fn begin(&mut self) {
        self.at_beginning = true;
    }

    /// Takes a hit: client, time, file. Without a time it is unknown what a file belongs to: it is a page of its own.
    pub(super) fn hit(
        &mut self,
        client: &[u8],
        time: Option<i64>,
        file: u32,
        is_document: bool,
        pages_max: usize,
    ) {
        let Some(time) = time else { return self.count(&[file], pages_max) };
        let client = self.hasher.hash_one(client);
        let back = self.latest.saturating_sub(time);
        if back > BACK_SECONDS || (self.at_beginning && back > 0) {
            self.close_all(pages_max);
            self.latest = time;
        }
        self.at_beginning = false;
        self.latest = self.latest.max(time);
        self.close_old(pages_max);
        if is_document {
            self.serial += 1;
            let page = OpenPage { serial: self.serial, time, files: vec![file] };
            self.queue.push_back((time, client, self.serial));
            if let Some(before) = self.open.insert(client, page) {
                self.close(before, pages_max);
            }
            return;
        }
        match self.open.get_mut(&client) {
            Some(page)
                if (0..=PAGE_SECONDS).contains(&(time - page.time)) && page.files.len() <= FILES_MAX =>
            {
                if !page.files.contains(&file) {
                    page.files.push(file);
                }
            }
            _ => self.count(&[file], pages_max),
        }
    }

    /// Closes all open documents, and returns every page with its number of fetches.
    pub(super) fn finish(&mut self, pages_max: usize) -> Vec<(Box<[u32]>, u64)> {
        self.close_all(pages_max);
        std::mem::take(&mut self.pages)
    }

    fn close_all(&mut self, pages_max: usize) {
        while let Some((_, client, serial)) = self.queue.pop_front() {
            self.close_if_same(client, serial, pages_max);
        }
    }

    fn close_old(&mut self, pages_max: usize) {
        while let Some((time, client, serial)) = self.queue.front().copied() {
            let is_over = time + PAGE_SECONDS + SLACK_SECONDS < self.latest;
            if !is_over && self.queue.len() < OPEN_MAX {
                break;
            }
            self.queue.pop_front();
            self.close_if_same(client, serial, pages_max);
        }
    }

    fn close_if_same(&mut self, client: u64, serial: u64, pages_max: usize) {
        // The client may have opened another page since; that one has its own entry in the queue.
        if self.open.get(&client).is_some_and(|page| page.serial == serial)
            && let Some(page) = self.open.remove(&client)
        {
            self.close(page, pages_max);
        }
    }

    fn close(&mut self, mut page: OpenPage, pages_max: usize) {
        // The order in which a browser's parallel fetches end is random, so pages are compared without it.
        page.files[1..].sort_unstable();
        self.count(&page.files, pages_max);
    }

    fn count(&mut self, files: &[u32], pages_max: usize) {
        let hash = self.hasher.hash_one(files);
        let pages = &self.pages;
        if let Some(number) = self.index.find(hash, |number| *pages[*number as usize].0 == *files) {
            self.pages[*number as usize].1 += 1;
            return;
        }
        if self.pages.len() >= pages_max || self.numbers + files.len() > NUMBERS_MAX {
            self.overflow += files.len() as u64;
            return;
        }
        self.numbers += files.len();
        self.pages.push((files.into(), 1));
        let (pages, hasher) = (&self.pages, &self.hasher);
        let number = self.pages.len() as u32 - 1;
        self.index.insert_unique(hash, number, |other| hasher.hash_one(&*pages[*other as usize].0));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// (client, time, file, document)
    fn pages(hits: &[(&str, i64, u32, bool)]) -> Vec<(Vec<u32>, u64)> {
        let mut sessions = Sessions::default();
        for (client, time, file, is_document) in hits {
            sessions.hit(client.as_bytes(), Some(*time), *file, *is_document, 100);
        }
        let mut pages: Vec<(Vec<u32>, u64)> =
            sessions.finish(100).into_iter().map(|(files, hits)| (files.to_vec(), hits)).collect();
        pages.sort();
        pages
    }

    #[test]
    fn files_within_a_second_belong_to_the_clients_document() {
        let hits = [
            ("a", 10, 0, true),
            ("b", 10, 5, true),
            ("a", 10, 2, false),
            ("b", 11, 6, false),
            ("a", 11, 1, false),
            ("a", 11, 1, false),
            ("a", 12, 3, false),
            ("c", 12, 3, false),
        ];
        assert_eq!(pages(&hits), [(vec![0, 1, 2], 1), (vec![3], 2), (vec![5, 6], 1)]);
    }

    #[test]
    fn the_same_files_in_another_order_are_the_same_page() {
        let hits = [
            ("a", 10, 0, true),
            ("a", 10, 1, false),
            ("a", 10, 2, false),
            ("a", 30, 0, true),
            ("a", 30, 2, false),
            ("a", 30, 1, false),
            ("b", 31, 0, true),
        ];
        assert_eq!(pages(&hits), [(vec![0], 1), (vec![0, 1, 2], 2)]);
    }

    #[test]
    fn a_log_may_run_backwards_a_little() {
        let hits = [("a", 10, 0, true), ("b", 13, 9, true), ("a", 11, 1, false), ("a", 9, 2, false)];
        assert_eq!(pages(&hits), [(vec![0, 1], 1), (vec![2], 1), (vec![9], 1)]);
    }

    #[test]
    fn a_time_far_ahead_ends_pages_but_not_their_grouping() {
        let hits = [
            ("a", 10, 0, true),
            ("b", 2_000_000_000, 9, true),
            ("a", 11, 0, true),
            ("a", 11, 1, false),
            ("a", 12, 0, true),
            ("a", 12, 1, false),
        ];
        assert_eq!(pages(&hits), [(vec![0], 1), (vec![0, 1], 2), (vec![9], 1)]);
    }

    #[test]
    fn without_a_time_every_file_is_a_page() {
        let mut sessions = Sessions::default();
        sessions.hit(b"a", None, 0, true, 100);
        sessions.hit(b"a", None, 1, false, 100);
        assert_eq!(sessions.finish(100), [(Box::from([0]), 1), (Box::from([1]), 1)]);
    }

    #[test]
    fn limits_hold_and_what_is_dropped_is_counted() {
        let mut sessions = Sessions::default();
        for client in 0..100_000_u32 {
            sessions.hit(&client.to_le_bytes(), Some(10), client, true, 50_000);
        }
        assert!(sessions.open.len() <= OPEN_MAX && sessions.queue.len() <= OPEN_MAX);
        assert_eq!(sessions.finish(50_000).len(), 50_000);
        assert_eq!(sessions.overflow, 50_000);
        assert!(sessions.open.is_empty());
    }
}
