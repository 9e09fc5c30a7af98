//! Which figures of a series are doubtful, and why: one by one, or in brief where there are many.

use webstone_judge::verdict::{self, Cause};
use webstone_model::record::RunRecord;

use super::Report;
use crate::document::Tone;
use crate::numbers::{count, counted};
use crate::text::problems;

/// Sentences about cells that a brief report has room for.
const SENTENCES_MAX: usize = 4;

impl Report<'_> {
    /// Each cell by its name. `why` puts a cell's reasons, by its place, into words; what several cells have is said once.
    pub(super) fn standings(&self, why: &dyn Fn(usize, &[String]) -> String) -> Vec<(Tone, String)> {
        let mut groups: Vec<(Tone, Vec<&str>, String)> = Vec::new();
        for (place, cell) in
            self.summary.cells.iter().enumerate().filter(|(_, cell)| !cell.reasons.is_empty())
        {
            let word = cell.standing.map_or("", |standing| standing.word());
            let tone = if cell.counts() { Tone::Caution } else { Tone::Alarm };
            let said = format!("{word}: {}", why(place, &cell.reasons));
            match groups.iter_mut().find(|(_, _, of_others)| *of_others == said) {
                Some((_, names, _)) => names.push(&cell.name),
                None => groups.push((tone, vec![&cell.name], said)),
            }
        }
        let sentence = |(tone, names, said): (Tone, Vec<&str>, String)| match names.split_last() {
            Some((last, others)) if !others.is_empty() => {
                (tone, format!("{} and {last} are {said}", others.join(", ")))
            }
            _ => (tone, format!("{} is {said}", names.concat())),
        };
        groups.into_iter().map(sentence).collect()
    }

    /// In a few lines: of many cells, how many each cause concerns.
    pub(super) fn standings_in_brief(&self, records: &[Option<RunRecord>]) -> Vec<(Tone, String)> {
        let verdicts: Vec<_> = records.iter().map(|record| record.as_ref().map(verdict::of)).collect();
        let each = self.standings(&|place, _| {
            verdicts[place].as_ref().map(problems::reasons_in_brief).unwrap_or_default()
        });
        if each.len() <= SENTENCES_MAX {
            return each;
        }
        let cells = self.summary.cells.iter().zip(&verdicts);
        let doubtful = cells.filter(|(cell, _)| !cell.reasons.is_empty()).filter_map(|(cell, verdict)| {
            let tone = if cell.counts() { Tone::Caution } else { Tone::Alarm };
            Some(Doubtful { tone, word: cell.standing?.word(), causes: causes(verdict.as_ref()?) })
        });
        by_cause(doubtful, self.summary.cells.len())
    }

    /// Figures that are not to be used as they stand, one by one.
    pub(super) fn alarms(&self) -> Vec<(Tone, String)> {
        self.summary.alarms.iter().map(|alarm| (Tone::Alarm, format!("{}.", alarm.sentence))).collect()
    }

    /// One of each kind.
    pub(super) fn alarms_in_brief(&self) -> Vec<(Tone, String)> {
        let alarms = &self.summary.alarms;
        let is_first = |place: usize| alarms[..place].iter().all(|before| before.kind != alarms[place].kind);
        let sentence = |place: usize| {
            let same = alarms[place + 1..].iter().filter(|later| later.kind == alarms[place].kind).count();
            let more = match same {
                0 => String::new(),
                _ => format!(
                    " The same holds for {}: --full.",
                    counted(same as u64, "more figure", "more figures")
                ),
            };
            (Tone::Alarm, format!("{}.{more}", alarms[place].sentence))
        };
        (0..alarms.len()).filter(|place| is_first(*place)).map(sentence).collect()
    }
}

/// A cell with doubtful figures.
struct Doubtful {
    tone: Tone,
    word: &'static str,
    causes: Vec<Cause>,
}

fn causes(verdict: &verdict::Verdict) -> Vec<Cause> {
    let reasons = if verdict.reasons.is_empty() { &verdict.doubts } else { &verdict.reasons };
    let mut causes: Vec<Cause> = Vec::new();
    for reason in reasons {
        if !causes.contains(&reason.cause) {
            causes.push(reason.cause);
        }
    }
    causes
}

/// Cells of one standing.
struct Alike {
    tone: Tone,
    word: &'static str,
    cells: u64,
    causes: Vec<(Cause, u64)>,
}

/// A sentence for each standing, the most frequent cause first.
fn by_cause(doubtful: impl Iterator<Item = Doubtful>, of: usize) -> Vec<(Tone, String)> {
    let mut groups: Vec<Alike> = Vec::new();
    for cell in doubtful {
        let place = groups.iter().position(|alike| alike.word == cell.word).unwrap_or_else(|| {
            groups.push(Alike { tone: cell.tone, word: cell.word, cells: 0, causes: Vec::new() });
            groups.len() - 1
        });
        let alike = &mut groups[place];
        alike.cells += 1;
        for cause in cell.causes {
            match alike.causes.iter_mut().find(|(known, _)| *known == cause) {
                Some((_, times)) => *times += 1,
                None => alike.causes.push((cause, 1)),
            }
        }
    }
    let sentence = |mut alike: Alike| {
        alike.causes.sort_by_key(|(_, times)| std::cmp::Reverse(*times));
        let cause = |(cause, times): &(Cause, u64)| {
            format!("{} ({})", problems::name(*cause), counted(*times, "cell", "cells"))
        };
        let causes: Vec<String> = alike.causes.iter().map(cause).collect();
        let verb = if alike.cells == 1 { "is" } else { "are" };
        let (cells, of) = (count(alike.cells), counted(of as u64, "cell", "cells"));
        (
            alike.tone,
            format!("{cells} of {of} {verb} {}: {}; --full says which", alike.word, causes.join("; ")),
        )
    };
    groups.into_iter().map(sentence).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_cells_are_counted_by_cause() {
        let cell = |word, tone, causes: &[Cause]| Doubtful { tone, word, causes: causes.to_vec() };
        let doubtful = [
            cell("NOISY", Tone::Caution, &[Cause::Unjudged, Cause::Disturbed]),
            cell("INVALID", Tone::Alarm, &[Cause::Errors]),
            cell("NOISY", Tone::Caution, &[Cause::Disturbed]),
        ];
        assert_eq!(
            by_cause(doubtful.into_iter(), 44),
            [
                (
                    Tone::Caution,
                    "2 of 44 cells are NOISY: other programs or the host took CPU time (2 cells); part of the window was not \
                     watched (1 cell); --full says which"
                        .to_owned()
                ),
                (
                    Tone::Alarm,
                    "1 of 44 cells is INVALID: too many requests failed (1 cell); --full says which".to_owned()
                ),
            ]
        );
    }
}
