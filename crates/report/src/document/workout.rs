//! A workout as text: the answers first, then what well-behaved clients saw, how the server took each misdeed, and what its processes
//! used.

use webstone_judge::workout::{Answer, Phase, PhaseRecord, Question, Workout};

use crate::Options;
use crate::document::table::{Line, Room, Sheet, Table};
use crate::document::{Document, Tone};
use crate::numbers::{Scale, count, counted, seconds};
use crate::render::text;

/// Width of the answers' words, in columns.
const LABEL: usize = 13;

/// The whole report, ending in a newline.
pub fn render_workout(workout: &Workout, options: &Options) -> String {
    text::render(&document(workout), options)
}

fn document(workout: &Workout) -> Document {
    let mut doc = Document::default();
    let server = workout.software.as_ref().map(|software| format!("{software} at ")).unwrap_or_default();
    doc.text(Tone::Strong, format!("Workout of {server}{}", workout.target));
    doc.gap();
    for answer in workout.answers() {
        let (word, tone) = match answer.is_good {
            Some(true) => ("yes", Tone::Good),
            Some(false) => ("NO", Tone::Alarm),
            None => ("CANNOT TELL", Tone::Caution),
        };
        doc.item(word, LABEL, tone, answer_line(&answer));
    }
    let phases: Vec<Named<'_>> = phase_names(&workout.phases).into_iter().zip(&workout.phases).collect();
    doc.sheets([service(workout, &phases)].into_iter().chain(misdeeds(workout)).chain(states(&phases)));
    doc
}

/// A phase with its name.
type Named<'a> = (String, &'a PhaseRecord);

/// A question in words.
pub fn asked(question: Question) -> &'static str {
    match question {
        Question::Serves => "serves the well-behaved while others misbehave",
        Question::Recovers => "serves as before when they are gone",
        Question::KeepsDescriptors => "closes its files",
        Question::KeepsMemory => "keeps its memory",
        Question::StaysUp => "stays up",
    }
}

/// An answer in a line.
pub fn answer_line(answer: &Answer) -> String {
    format!("{}: {}", asked(answer.question), answer.evidence)
}

/// A phase in a line, as it ends.
pub fn phase_line(record: &PhaseRecord, name: &str) -> String {
    let service = &record.service;
    if let Some(error) = &service.error {
        return format!("{name}: {error}");
    }
    let tried: u64 = record.misdeeds.iter().map(|(_, tally)| tally.tried).sum();
    let others =
        if record.misdeeds.is_empty() { String::new() } else { format!(", {} misdeeds", count(tried)) };
    format!(
        "{name}: {} requests/s, p99 {}, {} failed{others}",
        count(service.request_rate.round() as u64),
        seconds(service.latency_p99_s),
        count(service.failed)
    )
}

/// `before`, `round 1`, `after`.
pub fn phase_names(phases: &[PhaseRecord]) -> Vec<String> {
    let mut round = 0;
    let name = |record: &PhaseRecord| match record.phase {
        Phase::Before => "before".to_owned(),
        Phase::During => {
            round += 1;
            format!("round {round}")
        }
        Phase::After => "after".to_owned(),
    };
    phases.iter().map(name).collect()
}

fn service(workout: &Workout, phases: &[Named<'_>]) -> Sheet {
    let seconds = Scale::seconds(workout.phases.iter().map(|phase| phase.service.latency_p50_s));
    let mut table = Table::with_rows(phases);
    table.text("phase", Room::Always, |(name, _)| name);
    table.number("requests", "/s", Room::Always, |(_, phase)| phase.service.request_rate.round() as u64);
    table.number("failed", "", Room::Always, |(_, phase)| phase.service.failed);
    table.number("starved", "clients", Room::Optional(2), |(_, phase)| phase.service.starved);
    table.number("p50", seconds.unit, Room::Always, |(_, phase)| seconds.cell(phase.service.latency_p50_s));
    table.number("p99", seconds.unit, Room::Always, |(_, phase)| seconds.cell(phase.service.latency_p99_s));
    table.number("max", seconds.unit, Room::Always, |(_, phase)| seconds.cell(phase.service.latency_max_s));
    table.tones(|(_, PhaseRecord { service, .. })| {
        let is_bad = service.failed > 0 || service.starved > 0 || service.error.is_some();
        if is_bad { Tone::Alarm } else { Tone::Plain }
    });
    let clients = counted(workout.clients.into(), "client", "clients");
    let what = format!("what {clients} saw, while up to {} connections misbehave", workout.offenders);
    Sheet::new("Well-behaved clients", what, table.done())
}

fn misdeeds(workout: &Workout) -> Option<Sheet> {
    let sums: Vec<_> = workout.misdeeds().into_iter().collect();
    if sums.is_empty() {
        return None;
    }
    let mut table = Table::with_rows(&sums);
    table.text("misdeed", Room::Always, |(misdeed, _)| misdeed.name());
    table.number("tried", "", Room::Always, |(_, tally)| tally.tried);
    table.number("no connection", "", Room::Optional(1), |(_, tally)| tally.not_connected);
    table.number("answered", "below 400", Room::Always, |(_, tally)| tally.answered);
    table.number("rejected", "400 and up", Room::Always, |(_, tally)| tally.rejected);
    table.number("closed", "by server", Room::Always, |(_, tally)| tally.closed);
    table.number("dropped", "by client", Room::Always, |(_, tally)| tally.dropped);
    let mut table = table.done();
    let left_out = workout.left_out.iter();
    table.lines.extend(left_out.map(|(misdeed, why)| Line::Note(format!("{misdeed} was left out: {why}"))));
    // Records of workouts before TLS do not say it: it was HTTP/1.1.
    let speaks = if workout.speaks.is_empty() { "HTTP/1.1" } else { &workout.speaks };
    Some(Sheet::new("Misdeeds", format!("in {speaks}: how the server took them, over all rounds"), table))
}

fn states(phases: &[Named<'_>]) -> Option<Sheet> {
    let states = || phases.iter().filter_map(|(_, phase)| phase.state.as_ref());
    states().next()?;
    let memory = Scale::bytes(states().map(|state| state.resident_bytes as f64));
    let mut table = Table::with_rows(phases);
    table.text("after", Room::Always, |(name, _)| name);
    table.number("processes", "", Room::Always, |(_, phase)| Some(phase.state.as_ref()?.processes));
    table.number("threads", "", Room::Always, |(_, phase)| Some(phase.state.as_ref()?.threads));
    table.number("open files", "", Room::Always, |(_, phase)| phase.state.as_ref()?.descriptors);
    table.number("resident", memory.unit, Room::Always, |(_, phase)| {
        Some(memory.cell(phase.state.as_ref()?.resident_bytes as f64))
    });
    table.number("first process", "", Room::Optional(1), |(_, phase)| {
        Some(phase.state.as_ref()?.head?.0.to_string())
    });
    let explanation = "its processes after each phase, when open files had settled";
    Some(Sheet::new("Server", explanation, table.done()))
}
