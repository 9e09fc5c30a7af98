//! Whether contestants answer alike: a server that answers something else does other work, so that is said before any figure.
//!
//! What the first contestant and its twin answer differently changes from answer to answer, like a clock, and is not compared.

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
#[derive(Clone, PartialEq, Eq)]
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
        let changes = twin.is_some_and(|twin| difference(first, &answers[twin]).is_some());
        for (number, answer) in answers.iter().enumerate().skip(1) {
            let Some(what) = difference(first, answer).filter(|_| !changes && Some(number) != twin) else {
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

fn difference(first: &Result<Answer, String>, other: &Result<Answer, String>) -> Option<String> {
    match (first, other) {
        (Ok(first), Ok(other)) if first == other => None,
        (Ok(first), Ok(other)) if first.status != other.status => {
            Some(format!("status {}, here {}", first.status, other.status))
        }
        (Ok(first), Ok(other)) if first.bytes != other.bytes => {
            Some(format!("body of {} bytes, here {}", first.bytes, other.bytes))
        }
        (Ok(first), Ok(other)) if first.sum != other.sum => Some("body of other content".to_owned()),
        (Ok(first), Ok(other)) => Some(format!("type `{}`, here `{}`", first.media_type, other.media_type)),
        (Err(_), Err(_)) => None,
        (Ok(first), Err(error)) => Some(format!("status {}, here no answer: {error}", first.status)),
        (Err(error), Ok(other)) => Some(format!("no answer ({error}), here status {}", other.status)),
    }
}
