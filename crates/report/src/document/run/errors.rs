//! The error table: each class with whom it blames, how often it happened, and its first example in full.

use webstone_measure::errors::{Blame, ErrorClass, ErrorExample};
use webstone_measure::units::NANOS_PER_SECOND;
use webstone_model::record::{IterationRecord, RunRecord};

use crate::document::Tone;
use crate::document::table::{Room, Sheet, Table};
use crate::numbers::{counted, percent, seconds};
use crate::summary;

/// Draws the table where there are errors, and says so where there are none.
pub(crate) fn sheet(record: &RunRecord) -> Option<Sheet> {
    let classes = classes(record);
    let counts = summary::counts(record);
    if classes.is_empty() {
        let answered = counted(counts.ended(), "request", "requests");
        let none = || Sheet::new("Errors", format!("none in {answered}"), Table::default());
        return (counts.ended() > 0).then(none);
    }
    let mut table = Table::of(&classes);
    table.text("class", Room::Always, |(class, ..)| class.name()).defined("Errors", "");
    table.text("blames", Room::Always, |(class, ..)| blames(class.blame())).defined("Errors", "");
    table.number("requests", "", Room::Always, |(_, errors, _)| *errors);
    table.number("share", "", Room::Always, |(_, errors, _)| {
        percent(summary::quotient(*errors as f64 * 100.0, counts.ended() as f64))
    });
    let described = |(.., first): &Class<'_>| first.map(|(run, example)| described(run, example));
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

fn described(run: &IterationRecord, example: &ErrorExample) -> String {
    let at = seconds(example.at_ns as f64 / NANOS_PER_SECOND as f64);
    let clients = run.level();
    let mut text = format!("first {at} into iteration {} at {clients}", run.iteration);
    if !example.address.is_empty() {
        text.push_str(&format!(", {}", example.address));
    }
    if !example.request.is_empty() {
        text.push_str(&format!(", {}", example.request));
    }
    if !example.detail.is_empty() {
        text.push_str(&format!(": {}", example.detail));
    }
    text
}

pub(crate) fn blames(blame: Blame) -> &'static str {
    match blame {
        Blame::Target => "target",
        Blame::Network => "network",
        Blame::Generator => "generator",
        Blame::User => "user",
    }
}
