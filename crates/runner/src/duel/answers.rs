//! Whether contestants answer alike: a server that answers something else does other work, so that is said before any figure.
//!
//! What the first contestant and its twin answer differently changes from answer to answer, like a clock in a body, and is not compared; the
//! rest is.

use std::collections::BTreeSet;

use sha2::{Digest, Sha256};
use webstone_engine::Extent;
use webstone_lab::fetch::{ByProbe, Fetch};
use webstone_model::duel::AnswerDifference;
use webstone_store::redaction;
use webstone_workload::{FileRequest, Workload};

use super::sides::Up;

/// Most files that are asked for: the first of a long list.
const FILES_MAX: usize = 50;
/// Longest body that is compared, in bytes.
const BYTES_MAX: u64 = 64 << 20;

/// What matters of an answer.
#[derive(Clone)]
struct Answer {
    status: u16,
    bytes: u64,
    sum: [u8; 32],
    media_type: String,
}

/// The differences between each contestant's answers and the first contestant's, a line for each file.
pub(super) fn compare(up: &[Up], workload: &Workload, twin: Option<usize>) -> Vec<AnswerDifference> {
    let mut seen = BTreeSet::new();
    let files = workload.pages.iter().flat_map(|page| &page.files);
    let mut differences = Vec::new();
    for file in files.filter(|file| seen.insert(file.url.clone())).take(FILES_MAX) {
        let answers: Vec<Result<Answer, String>> = up.iter().map(|up| answer(up, file)).collect();
        let first = &answers[0];
        let compared = twin.map_or(Compared::ALL, |twin| Compared::between(first, &answers[twin]));
        for (number, answer) in answers.iter().enumerate().skip(1) {
            let Some(what) = difference(first, answer, compared).filter(|_| Some(number) != twin) else {
                continue;
            };
            let [url, what] = [&*file.url, &*what].map(|text| redaction::text(text).text);
            differences.push(AnswerDifference { contestant: number as u32, url, what });
        }
    }
    differences
}

fn answer(up: &Up, file: &FileRequest) -> Result<Answer, String> {
    let (url, client) = up.url();
    let mut sum = Sha256::new();
    let mut bytes = 0;
    let fetched = ByProbe::like(client).fetch_each(
        url,
        &file.url,
        &file.detail,
        Extent::Whole { bytes_max: BYTES_MAX },
        &mut |part| {
            bytes += part.len() as u64;
            sum.update(part);
        },
    );
    let response = fetched.map_err(|error| error.detail)?;
    let media_type = response.header("content-type").unwrap_or_default().to_owned();
    Ok(Answer { status: response.status, bytes, sum: sum.finalize().into(), media_type })
}

/// What of an answer does not change from one to the next.
#[derive(Clone, Copy)]
struct Compared {
    status: bool,
    bytes: bool,
    sum: bool,
    media_type: bool,
}

impl Compared {
    const ALL: Compared = Compared { status: true, bytes: true, sum: true, media_type: true };

    /// What is alike in two answers of one program. One that does not always answer is not compared.
    fn between(one: &Result<Answer, String>, again: &Result<Answer, String>) -> Compared {
        match (one, again) {
            (Ok(one), Ok(again)) => Compared {
                status: one.status == again.status,
                bytes: one.bytes == again.bytes,
                sum: one.sum == again.sum,
                media_type: one.media_type == again.media_type,
            },
            (Err(_), Err(_)) => Compared::ALL,
            _ => Compared { status: false, bytes: false, sum: false, media_type: false },
        }
    }
}

fn difference(
    first: &Result<Answer, String>,
    other: &Result<Answer, String>,
    compared: Compared,
) -> Option<String> {
    let (first, other) = match (first, other) {
        (Ok(first), Ok(other)) => (first, other),
        (Err(_), Err(_)) => return None,
        _ if !compared.status => return None,
        (Ok(first), Err(error)) => {
            return Some(format!("status {}, here no answer: {error}", first.status));
        }
        (Err(error), Ok(other)) => {
            return Some(format!("no answer ({error}), here status {}", other.status));
        }
    };
    if compared.status && first.status != other.status {
        return Some(format!("status {}, here {}", first.status, other.status));
    }
    let mut told = Vec::new();
    if compared.bytes && first.bytes != other.bytes {
        told.push(format!("body of {} bytes, here {}", first.bytes, other.bytes));
    } else if compared.sum && first.sum != other.sum {
        told.push("body of other content".to_owned());
    }
    if compared.media_type && first.media_type != other.media_type {
        told.push(format!("type `{}`, here `{}`", first.media_type, other.media_type));
    }
    (!told.is_empty()).then(|| told.join("; "))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(status: u16, bytes: u64, content: u8, media_type: &str) -> Result<Answer, String> {
        Ok(Answer { status, bytes, sum: [content; 32], media_type: media_type.to_owned() })
    }

    #[test]
    fn what_changes_from_answer_to_answer_is_left_out_and_the_rest_compared() {
        let first = answer(200, 10, 1, "html");
        let of = |twin: &Result<Answer, String>, other| {
            difference(&first, &other, Compared::between(&first, twin))
        };
        let clock = answer(200, 10, 2, "html");
        assert_eq!(
            of(&clock, answer(200, 3, 3, "plain")).as_deref(),
            Some("body of 10 bytes, here 3; type `html`, here `plain`")
        );
        assert_eq!(of(&clock, answer(404, 10, 2, "html")).as_deref(), Some("status 200, here 404"));
        assert_eq!(of(&clock, answer(200, 10, 3, "html")), None);
        assert_eq!(of(&first, answer(200, 10, 3, "html")).as_deref(), Some("body of other content"));
        assert_eq!(of(&answer(200, 11, 2, "html"), answer(200, 12, 3, "html")), None);
        let silent = Err("connection refused".to_owned());
        assert!(of(&clock, silent.clone()).unwrap().contains("here no answer: connection refused"));
        assert_eq!(of(&silent, answer(404, 3, 3, "plain")), None);
    }
}
