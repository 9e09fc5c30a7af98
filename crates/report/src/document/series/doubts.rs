//! Which figures of a series are doubtful, and why: one by one, or in brief where there are many.

use webstone_judge::series::CellSummary;
use webstone_judge::verdict::{self, Cause, Standing, Verdict};
use webstone_model::record::RunRecord;

use super::Report;
use crate::document::Tone;
use crate::numbers::{count, counted};
use crate::text::problems;

/// Sentences about cells of one standing that a brief report has room for.
const SENTENCES_MAX: usize = 3;

impl Report<'_> {
    /// Every doubtful cell with its standing. `why` puts the reasons of the cell at a place into words.
    pub(super) fn standings(&self, why: &dyn Fn(usize, &[String]) -> String) -> Vec<(Tone, String)> {
        self.standings_of(&|_| true, why)
    }

    /// The same for chosen cells. Cells with the same standing and reasons share a sentence.
    fn standings_of(
        &self,
        is_chosen: &dyn Fn(&CellSummary) -> bool,
        why: &dyn Fn(usize, &[String]) -> String,
    ) -> Vec<(Tone, String)> {
        let mut groups: Vec<(Tone, Vec<&str>, String)> = Vec::new();
        for (place, cell) in self.doubtful().filter(|(_, cell)| is_chosen(cell)) {
            let word = cell.standing.map_or("", |standing| standing.word());
            let said = format!("{word}: {}", why(place, &cell.reasons));
            match groups.iter_mut().find(|(_, _, of_others)| *of_others == said) {
                Some((_, names, _)) => names.push(&cell.name),
                None => groups.push((tone(cell), vec![&cell.name], said)),
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

    /// Cells with doubtful figures, with their places.
    fn doubtful(&self) -> impl Iterator<Item = (usize, &CellSummary)> {
        self.summary.cells.iter().enumerate().filter(|(_, cell)| !cell.reasons.is_empty())
    }

    /// In a few lines: if many cells have the same standing, how many of them each cause concerns.
    pub(super) fn standings_in_brief(&self, records: &[Option<RunRecord>]) -> Vec<(Tone, String)> {
        let verdicts: Vec<_> = records.iter().map(|record| record.as_ref().map(verdict::of_record)).collect();
        let why = |place: usize, _: &[String]| {
            verdicts[place].as_ref().map(problems::reasons_in_brief).unwrap_or_default()
        };
        let mut standings: Vec<Option<Standing>> = Vec::new();
        for (_, cell) in self.doubtful().filter(|(_, cell)| !cell.counts()).chain(self.doubtful()) {
            if !standings.contains(&cell.standing) {
                standings.push(cell.standing);
            }
        }
        let mut told = Vec::new();
        for standing in standings {
            let each = self.standings_of(&|cell| cell.standing == standing, &why);
            match (&each[..], standing) {
                ([(tone, _), _, ..], Some(standing)) if each.len() > SENTENCES_MAX => {
                    let alike = self.doubtful().filter(|(_, cell)| cell.standing == Some(standing));
                    let causes = alike.filter_map(|(place, _)| verdicts[place].as_ref()).map(causes);
                    told.push((*tone, by_cause(standing, causes, self.summary.cells.len())));
                }
                _ => told.extend(each),
            }
        }
        told
    }

    /// Figures that are not to be used as they stand, one by one.
    pub(super) fn alarms(&self) -> Vec<(Tone, String)> {
        self.summary.alarms.iter().map(|alarm| (Tone::Alarm, format!("{}.", alarm.sentence))).collect()
    }

    /// The first alarm of each kind, and how many more there are.
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

fn tone(cell: &CellSummary) -> Tone {
    if cell.counts() { Tone::Caution } else { Tone::Alarm }
}

fn causes(verdict: &Verdict) -> Vec<Cause> {
    verdict.decisive().chunk_by(|a, b| a.cause == b.cause).map(|reasons| reasons[0].cause).collect()
}

/// Cells of one standing, each by its causes, in a sentence: the most frequent cause first.
fn by_cause(standing: Standing, cells: impl Iterator<Item = Vec<Cause>>, of: usize) -> String {
    let (mut number, mut causes): (u64, Vec<(Cause, u64)>) = (0, Vec::new());
    for cell in cells {
        number += 1;
        for cause in cell {
            match causes.iter_mut().find(|(known, _)| *known == cause) {
                Some((_, times)) => *times += 1,
                None => causes.push((cause, 1)),
            }
        }
    }
    causes.sort_by_key(|(_, times)| std::cmp::Reverse(*times));
    let cause = |(cause, times): &(Cause, u64)| {
        format!("{} ({})", problems::name(*cause), counted(*times, "cell", "cells"))
    };
    let causes: Vec<String> = causes.iter().map(cause).collect();
    let (number, of) = (count(number), counted(of as u64, "cell", "cells"));
    format!("{number} of {of} are {}: {}; --full says which", standing.word(), causes.join("; "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_cells_are_counted_by_cause() {
        let cells = [vec![Cause::Unjudged, Cause::Disturbed], vec![Cause::Disturbed]];
        assert_eq!(
            by_cause(Standing::Noisy, cells.into_iter(), 44),
            "2 of 44 cells are NOISY: other programs or the host took CPU time (2 cells); part of the window was not watched \
             (1 cell); --full says which"
        );
    }
}
