//! The error table: each class with whom it blames, how often it happened, and its first example in full.

use std::borrow::Cow;

use webstone_measure::errors::{Blame, ErrorClass, ErrorExample, SILENCE_QUESTIONS};
use webstone_measure::units::NANOS_PER_SECOND;
use webstone_model::record::{IterationRecord, RunRecord};

use crate::document::Tone;
use crate::document::table::{Room, Sheet, Table};
use crate::numbers::{counted, percent, seconds};
use crate::summary;

/// The table of errors, or a line that there were none; `None` if no request ended.
pub(crate) fn sheet(record: &RunRecord) -> Option<Sheet> {
    let classes = classes(record);
    let counts = summary::counts(record);
    if classes.is_empty() {
        let answered = counted(counts.ended(), "request", "requests");
        let none = || Sheet::new("Errors", format!("none in {answered}"), Table::default());
        return (counts.ended() > 0).then(none);
    }
    let mut table = Table::with_rows(&classes);
    table.text("class", Room::Always, |(class, ..)| class.name()).defined("Errors", "");
    table.text("blames", Room::Always, |(class, ..)| blames(class.blame())).defined("Errors", "");
    table.number("requests", "", Room::Always, |(_, errors, _)| *errors);
    table.number("share", "", Room::Always, |(_, errors, _)| {
        percent(summary::quotient(*errors as f64 * 100.0, counts.ended() as f64))
    });
    let described =
        |(class, _, first): &Class<'_>| first.map(|(run, example)| described(record, *class, run, example));
    let table = table.tones(|_| Tone::Caution).notes(described).done();
    Some(Sheet::new("Errors", "by cause, with the first error of each class", table))
}

/// A class, its count, and its first example with the run in which it happened.
type Class<'a> = (ErrorClass, u64, Option<(&'a IterationRecord, &'a ErrorExample)>);

fn classes(record: &RunRecord) -> Vec<Class<'_>> {
    let mut classes: Vec<Class<'_>> = ErrorClass::ALL.into_iter().map(|class| (class, 0, None)).collect();
    for run in &record.iterations {
        for (class, errors, example) in run.measured.errors.iter() {
            let (_, total, first) = &mut classes[class as usize];
            *total += errors;
            if first.is_none() {
                *first = example.map(|example| (run, example));
            }
        }
    }
    classes.retain(|(_, total, _)| *total > 0);
    classes
}

fn described(record: &RunRecord, class: ErrorClass, run: &IterationRecord, example: &ErrorExample) -> String {
    let at = seconds(example.at_ns as f64 / NANOS_PER_SECOND as f64);
    let mut text = format!("first {at} into {}", summary::window(record, run));
    if !example.address.is_empty() {
        text.push_str(&format!(", {}", example.address));
    }
    if !example.request.is_empty() {
        text.push_str(&format!(", {}", example.request));
    }
    if !example.detail.is_empty() {
        text.push_str(&format!(": {}", explained(class, run, &example.detail)));
    }
    text
}

/// What happened, with what the server's kernel counted where that explains silence.
fn explained<'a>(class: ErrorClass, run: &IterationRecord, detail: &'a str) -> Cow<'a, str> {
    let dropped = if class == ErrorClass::QuicSilence { datagram_drops(run) } else { 0 };
    match detail.strip_suffix(SILENCE_QUESTIONS).filter(|_| dropped > 0) {
        None => detail.into(),
        Some(what) => {
            let dropped = counted(dropped, "datagram", "datagrams");
            format!("{what}: the server's UDP sockets dropped {dropped} in this iteration, as their receive queue was full (UDP QUEUE)").into()
        }
    }
}

fn datagram_drops(run: &IterationRecord) -> u64 {
    let here = run.load_makers().into_iter().filter_map(|maker| maker.host);
    let hosts = here.chain(run.server_networks().map(|there| &there.host));
    hosts.filter_map(|host| host.datagram_drops).fold(0, u64::saturating_add)
}

pub(crate) fn blames(blame: Blame) -> &'static str {
    match blame {
        Blame::Target => "target",
        Blame::Network => "network",
        Blame::Generator => "generator",
        Blame::User => "user",
    }
}

#[cfg(test)]
mod tests {
    use webstone_measure::host_use::HostUse;

    use super::*;

    #[test]
    fn silence_is_explained_by_a_full_queue_where_there_was_one() {
        let mut run = webstone_model::fixture::record("a", &[(10, &[1_000.0])]).iterations.remove(0);
        let detail = format!("no answer over UDP within 1 s{SILENCE_QUESTIONS}");
        let of = |run: &IterationRecord, class| explained(class, run, &detail).into_owned();
        run.host = Some(HostUse { datagram_drops: Some(0), ..HostUse::default() });
        assert_eq!(of(&run, ErrorClass::QuicSilence), detail);
        run.host = Some(HostUse { datagram_drops: Some(132), ..HostUse::default() });
        assert_eq!(
            of(&run, ErrorClass::QuicSilence),
            "no answer over UDP within 1 s: the server's UDP sockets dropped 132 datagrams in this iteration, as their receive queue was full (UDP QUEUE)"
        );
        assert_eq!(of(&run, ErrorClass::QuicIdle), detail);
    }
}
