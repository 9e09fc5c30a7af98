//! The canonical form of a workload: what its SHA-256 is computed from.
//!
//! The form is independent of any file format; [`Workload::sha256`] describes it.
//!
//! Name and description are left out: the sum says what is requested, so a list and its copy under another name have
//! the same one.

use sha2::{Digest, Sha256};

use super::Workload;

/// How often the sum of a feed's rows is hashed again: takes some 10 ms.
const FINGERPRINT_ROUNDS: u32 = 100_000;

/// The sum of a feed's rows, made expensive to guess.
pub(super) fn fingerprint(rows: &[Vec<String>]) -> String {
    let mut form = Form(Sha256::new());
    form.list(rows, |form, row| form.list(row, |form, value| form.text(value)));
    let mut sum = form.0.finalize();
    for _ in 0..FINGERPRINT_ROUNDS {
        sum = Sha256::digest(sum);
    }
    format!("{sum:x}")
}

/// SHA-256 over the canonical form, in lower-case hex.
pub(super) fn sha256(workload: &Workload) -> String {
    let mut form = Form(Sha256::new());
    form.text("webstone workload 1");
    form.list(&workload.feeds, |form, (name, feed)| {
        form.text(name);
        form.list(&feed.columns, |form, column| form.text(column));
        form.list(&feed.rows, |form, row| form.list(row, |form, value| form.text(value)));
        if let Some(kept) = &feed.kept {
            form.text("kept");
            form.integer(kept.rows);
            form.text(&kept.fingerprint);
        }
    });
    form.list(&workload.pages, |form, page| {
        form.integer(page.weight);
        form.integer(page.think.0);
        form.list(&page.files, |form, file| {
            form.text(&file.url);
            form.option(file.size, Form::integer);
            form.option(file.detail.method.as_deref(), Form::text);
            form.option(file.detail.status, |form, status| form.integer(u64::from(status)));
            form.list(file.detail.headers.iter(), |form, (name, value)| {
                form.text(name);
                form.text(value);
            });
            form.option(file.detail.body.as_deref(), Form::text);
            if file.detail.no_body {
                form.text("no body");
            }
            // Only if set, so that the sums of older lists do not change.
            if file.detail.tls {
                form.text("tls");
            }
        });
    });
    form.0.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
}

struct Form(Sha256);

impl Form {
    fn integer(&mut self, value: u64) {
        self.0.update(value.to_le_bytes());
    }

    fn text(&mut self, value: &str) {
        self.integer(value.len() as u64);
        self.0.update(value);
    }

    fn list<I>(&mut self, items: I, mut item: impl FnMut(&mut Form, I::Item))
    where
        I: IntoIterator<IntoIter: ExactSizeIterator>,
    {
        let items = items.into_iter();
        self.integer(items.len() as u64);
        items.for_each(|value| item(self, value));
    }

    fn option<T>(&mut self, value: Option<T>, some: impl FnOnce(&mut Form, T)) {
        self.0.update([u8::from(value.is_some())]);
        if let Some(value) = value {
            some(self, value);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{FileRequest, Page};
    use webstone_measure::units::Nanos;

    #[test]
    fn the_form_is_the_documented_one() {
        let file = FileRequest { url: "/a".into(), size: Some(5), ..FileRequest::default() };
        let page = Page { weight: 3, files: vec![file], think: Nanos::ZERO };
        let workload = Workload { name: "x".to_owned(), pages: vec![page], ..Workload::default() };
        let integer = |value: u64| value.to_le_bytes().to_vec();
        let text = |value: &str| [integer(value.len() as u64), value.as_bytes().to_vec()].concat();
        let bytes = [
            text("webstone workload 1"),
            integer(0),
            integer(1),
            integer(3),
            integer(0),
            integer(1),
            text("/a"),
            vec![1],
            integer(5),
            vec![0, 0],
            integer(0),
            vec![0],
        ]
        .concat();
        let expected: String = Sha256::digest(&bytes).iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(workload.sha256(), expected);
    }

    #[test]
    fn names_do_not_count_and_everything_else_does() {
        let plain = Workload {
            pages: vec![Page {
                weight: 1,
                files: vec![FileRequest { url: "/a".into(), ..Default::default() }],
                think: Default::default(),
            }],
            ..Default::default()
        };
        let mut named = plain.clone();
        named.name = "n".into();
        named.description = "d".into();
        assert_eq!(named.sha256(), plain.sha256());
        type Change = fn(&mut Workload);
        let changes: [Change; 10] = [
            |w| w.pages[0].weight = 2,
            |w| w.pages[0].think.0 = 1,
            |w| w.pages[0].files[0].url = "/b".into(),
            |w| w.pages[0].files[0].size = Some(0),
            |w| w.pages[0].files[0].detail.method = Some("PUT".into()),
            |w| w.pages[0].files[0].detail.status = Some(200),
            |w| w.pages[0].files[0].detail.body = Some(String::new()),
            |w| w.pages[0].files[0].detail.tls = true,
            |w| w.pages[0].files[0].detail.headers.add("A", "b"),
            |w| drop(w.feeds.insert("f".into(), Default::default())),
        ];
        let mut sums = vec![plain.sha256()];
        for change in changes {
            let mut changed = plain.clone();
            change(&mut changed);
            sums.push(changed.sha256());
        }
        sums.sort();
        sums.dedup();
        assert_eq!(sums.len(), 11);
    }
}
