//! A workout as text: the answers first, then what the well-behaved saw, how each misdeed was taken, and what the server's
//! processes held.

use webstone_judge::workout::{Answer, Phase, PhaseRecord, Question, Workout};

use crate::Options;
use crate::layout::{Room, Sheet, Table, labelled, push_line};
use crate::numbers::{Scale, count};
use crate::screen::{Screen, Tone};

/// Columns of the answers' words.
const LABEL: usize = 13;

/// The whole report, ending in a newline.
pub fn render_workout(workout: &Workout, options: &Options) -> String {
    let screen = Screen::new(options);
    let mut out = String::new();
    let server = workout.software.as_ref().map(|software| format!("{software} at ")).unwrap_or_default();
    let title = format!("Workout of {server}{}", workout.target);
    push_line(&mut out, &screen.paint(Tone::Strong, &screen.safe(&title)));
    out.push('\n');
    for answer in workout.answers() {
        let (word, tone) = match answer.is_good {
            Some(true) => ("yes", Tone::Good),
            Some(false) => ("NO", Tone::Alarm),
            None => ("CANNOT TELL", Tone::Caution),
        };
        let text = screen.safe(&format!("{}: {}", asked(answer.question), answer.evidence));
        labelled(&screen, &mut out, word, LABEL, &text, tone);
    }
    for sheet in [service(&screen, workout), misdeeds(&screen, workout), states(&screen, workout)]
        .into_iter()
        .flatten()
    {
        sheet.draw(&screen, &mut out);
    }
    out
}

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
        Scale::seconds(&Screen::new(&Options::default()), [service.latency_p99_s]).say(service.latency_p99_s),
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

fn service(screen: &Screen, workout: &Workout) -> Option<Sheet> {
    let seconds = Scale::seconds(screen, workout.phases.iter().map(|phase| phase.service.latency_p50_s));
    let mut table = Table::default();
    table.text("phase", Room::Always);
    table.number("requests", "/s", Room::Always);
    table.number("failed", "", Room::Always);
    table.number("starved", "clients", Room::Optional(2));
    for name in ["p50", "p99", "max"] {
        table.number(name, seconds.unit, Room::Always);
    }
    for (name, phase) in phase_names(&workout.phases).into_iter().zip(&workout.phases) {
        let service = &phase.service;
        let is_bad = service.failed > 0 || service.starved > 0 || service.error.is_some();
        let cells = vec![
            name,
            count(service.request_rate.round() as u64),
            count(service.failed),
            count(service.starved),
            seconds.show(service.latency_p50_s),
            seconds.show(service.latency_p99_s),
            seconds.show(service.latency_max_s),
        ];
        table.row_in(cells, if is_bad { Tone::Alarm } else { Tone::Plain }, false);
    }
    let what = format!(
        "what {} saw, while up to {} connections misbehave",
        clients(workout.clients),
        workout.offenders
    );
    Some(Sheet::new("Well-behaved clients", what, table))
}

fn clients(number: u32) -> String {
    format!("{number} {}", if number == 1 { "client" } else { "clients" })
}

fn misdeeds(screen: &Screen, workout: &Workout) -> Option<Sheet> {
    let sums = workout.misdeeds();
    if sums.is_empty() {
        return None;
    }
    let mut table = Table::default();
    table.text("misdeed", Room::Always);
    table.number("tried", "", Room::Always);
    table.number("no connection", "", Room::Optional(1));
    table.number("answered", "below 400", Room::Always);
    table.number("rejected", "400 and up", Room::Always);
    table.number("closed", "by server", Room::Always);
    table.number("dropped", "by client", Room::Always);
    for (misdeed, tally) in sums {
        table.row(vec![
            misdeed.name().to_owned(),
            count(tally.tried),
            count(tally.not_connected),
            count(tally.answered),
            count(tally.rejected),
            count(tally.closed),
            count(tally.dropped),
        ]);
    }
    for (misdeed, why) in &workout.left_out {
        table.note(&screen.safe(&format!("{misdeed} was left out: {why}")));
    }
    // Records of workouts before TLS do not say it: it was HTTP/1.1.
    let speaks = if workout.speaks.is_empty() { "HTTP/1.1" } else { &workout.speaks };
    Some(Sheet::new("Misdeeds", format!("in {speaks}: how the server took them, over all rounds"), table))
}

fn states(screen: &Screen, workout: &Workout) -> Option<Sheet> {
    if workout.phases.iter().all(|phase| phase.state.is_none()) {
        return None;
    }
    let states = || workout.phases.iter().filter_map(|phase| phase.state.as_ref());
    let memory = Scale::bytes(states().map(|state| state.resident_bytes as f64));
    let mut table = Table::default();
    table.text("after", Room::Always);
    table.number("processes", "", Room::Always);
    table.number("threads", "", Room::Always);
    table.number("open files", "", Room::Always);
    table.number("resident", memory.unit, Room::Always);
    table.number("first process", "", Room::Optional(1));
    for (name, phase) in phase_names(&workout.phases).into_iter().zip(&workout.phases) {
        let dash = || screen.dash().to_owned();
        let cells = match &phase.state {
            Some(state) => vec![
                name,
                count(state.processes),
                count(state.threads),
                state.descriptors.map_or_else(dash, count),
                memory.show(state.resident_bytes as f64),
                state.head.map_or_else(dash, |(pid, _)| pid.to_string()),
            ],
            None => [vec![name], (0..5).map(|_| dash()).collect()].concat(),
        };
        table.row(cells);
    }
    Some(Sheet::new("Server", "its processes after each phase, when open files had settled", table))
}
