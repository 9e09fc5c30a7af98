//! What is searched for in the library: words, which match anywhere, and `key:value`, which match where the key says. All of it
//! must match.

use serde::Serialize;

use webstone_judge::verdict::LimitingResource;
use webstone_model::record::RunState;

use super::notes::Notes;
use super::row::{LibraryRow, RowKind};

/// A search.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Query(Vec<Term>);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Term {
    /// In small letters.
    Word(String),
    /// The value is in small letters.
    Key(Key, String),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Key {
    Name,
    Kind,
    State,
    Verdict,
    Tag,
    Workload,
    Server,
    Host,
    Target,
    Command,
    Protocol,
    Limit,
    Tool,
    Since,
    Until,
}

/// The keys, as they are typed.
const KEYS: [(&str, Key); 15] = [
    ("name", Key::Name),
    ("kind", Key::Kind),
    ("state", Key::State),
    ("verdict", Key::Verdict),
    ("tag", Key::Tag),
    ("workload", Key::Workload),
    ("server", Key::Server),
    ("host", Key::Host),
    ("target", Key::Target),
    ("command", Key::Command),
    ("protocol", Key::Protocol),
    ("limit", Key::Limit),
    ("tool", Key::Tool),
    ("since", Key::Since),
    ("until", Key::Until),
];
const KINDS: [&str; 3] = ["run", "series", "duel"];
const STATES: [&str; 4] = ["complete", "partial", "interrupted", "failed"];
const VERDICTS: [&str; 7] = ["certified", "valid", "sound", "noisy", "inconclusive", "invalid", "unreadable"];

/// Why a text is not a search.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{term}`: {rule}")]
pub struct QueryError {
    /// The part that is wrong.
    pub term: String,
    /// What is wrong with it.
    pub rule: String,
    /// What to write instead.
    pub hint: String,
}

impl Query {
    /// Reads `nginx verdict:valid tag:baseline "two words" workload:"with a space"`. An empty text finds everything.
    ///
    /// # Errors
    /// [`QueryError`] for an unknown key, and for a value that its key cannot have.
    pub fn parse(text: &str) -> Result<Query, QueryError> {
        terms(text).into_iter().map(|(key, value)| term(key, value)).collect::<Result<_, _>>().map(Query)
    }

    /// Whether it finds everything.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether a run or a series matches. A series also matches if one of its runs does.
    pub fn matches(&self, row: &LibraryRow, notes: Option<&Notes>) -> bool {
        self.0.iter().all(|term| match term {
            Term::Word(word) => {
                in_any(row, notes, word) || row.cells.iter().any(|cell| in_any(cell, None, word))
            }
            Term::Key(key, value) => {
                is(*key, value, row, notes) || row.cells.iter().any(|cell| is(*key, value, cell, None))
            }
        })
    }
}

/// Parts of the text: a key, where one stands before a colon that is not quoted, and a value.
fn terms(text: &str) -> Vec<(Option<String>, String)> {
    let mut terms = Vec::new();
    let mut chars = text.chars().peekable();
    loop {
        while chars.next_if(|c| c.is_whitespace()).is_some() {}
        if chars.peek().is_none() {
            return terms;
        }
        let (mut key, mut value, mut quoted, mut was_quoted) = (None, String::new(), false, false);
        while let Some(c) = chars.next_if(|c| quoted || !c.is_whitespace()) {
            match c {
                '"' => (quoted, was_quoted) = (!quoted, true),
                // The colon of a URL does not end a key.
                ':' if key.is_none() && !was_quoted && chars.peek() != Some(&'/') => {
                    key = Some(std::mem::take(&mut value));
                }
                c => value.push(c),
            }
        }
        terms.push((key, value));
    }
}

fn term(key: Option<String>, value: String) -> Result<Term, QueryError> {
    let lower = value.to_lowercase();
    let Some(name) = key else { return Ok(Term::Word(lower)) };
    let whole = format!("{name}:{value}");
    let wrong = |rule: String, hint: String| QueryError { term: whole.clone(), rule, hint };
    let names = KEYS.map(|(name, _)| name);
    let Some((_, key)) = KEYS.into_iter().find(|(known, _)| *known == name.to_lowercase()) else {
        let quote = format!("write \"{whole}\" in quotes to search for it as it is");
        let hint = match nearest(&name, &names) {
            Some(near) => format!("did you mean {near}:? Or {quote}"),
            None => format!("the keys are {}; {quote}", names.join(", ")),
        };
        return Err(wrong(format!("there is no key `{name}`"), hint));
    };
    if value.is_empty() {
        return Err(wrong("the value is missing".to_owned(), format!("write {name}:VALUE without a space")));
    }
    let of = |known: &[&str]| match known.contains(&lower.as_str()) {
        true => Ok(()),
        false => {
            let near = nearest(&lower, known)
                .map(|near| format!("did you mean {name}:{near}? "))
                .unwrap_or_default();
            let hint = format!("{near}{name}: takes {}", known.join(", "));
            Err(wrong(format!("there is no {name} `{value}`"), hint))
        }
    };
    match key {
        Key::Kind => of(&KINDS)?,
        Key::State => of(&STATES)?,
        Key::Verdict => of(&VERDICTS)?,
        Key::Since | Key::Until if !is_date(&value) => {
            return Err(wrong(
                "it is not a date".to_owned(),
                format!("write a date or the begin of one: {name}:2026-01-31"),
            ));
        }
        _ => {}
    }
    Ok(Term::Key(key, lower))
}

fn nearest<'a>(word: &str, known: &[&'a str]) -> Option<&'a str> {
    // Clipped, so that a long word costs no more than a sensible one.
    let word: String = word.to_lowercase().chars().take(40).collect();
    let near = known.iter().map(|known| (strsim::damerau_levenshtein(&word, known), *known));
    near.min_by_key(|(distance, _)| *distance)
        .filter(|(distance, near)| *distance <= 1 + near.len() / 4)
        .map(|it| it.1)
}

/// `2026`, `2026-01`, `2026-01-31`, or an instant of that day.
fn is_date(text: &str) -> bool {
    let pattern = b"0000-00-00";
    text.len() >= 4
        && ![5, 6, 8, 9].contains(&text.len())
        && text.bytes().zip(pattern).all(|(byte, place)| match place {
            b'0' => byte.is_ascii_digit(),
            separator => byte == *separator,
        })
}

/// Whether a word, in small letters, stands in any text of the row.
fn in_any(row: &LibraryRow, notes: Option<&Notes>, word: &str) -> bool {
    let texts = [
        &row.name,
        &row.server,
        &row.profile,
        &row.server_version,
        &row.target,
        &row.workload,
        &row.command,
        &row.protocol,
        &row.host,
        &row.tool,
    ];
    texts.into_iter().any(|text| has(text, word))
        || has(row.verdict(), word)
        || (row.kind != RowKind::Run && has(row.kind.word(), word))
        || row.planned.iter().chain(&row.contestants).any(|text| has(text, word))
        || row.problem.as_ref().is_some_and(|text| has(text, word))
        || notes.is_some_and(|notes| has(&notes.text, word) || notes.tags.iter().any(|tag| has(tag, word)))
}

fn is(key: Key, value: &str, row: &LibraryRow, notes: Option<&Notes>) -> bool {
    match key {
        Key::Name => has(&row.name, value),
        Key::Kind => value == row.kind.word(),
        Key::State => row.state.is_some_and(|state| value == state_word(state)),
        Key::Verdict if value == "unreadable" => row.problem.is_some(),
        // What is certified is valid.
        Key::Verdict if value == "valid" => matches!(row.verdict(), "VALID" | "CERTIFIED"),
        Key::Verdict => row.verdict().eq_ignore_ascii_case(value),
        Key::Tag => notes.is_some_and(|notes| notes.tags.contains(value)),
        Key::Workload => has(&row.workload, value),
        Key::Server => {
            has(&row.server, value)
                || row.planned.iter().chain(&row.contestants).any(|name| has(name, value))
                // As pages show it, and so search for it: with its profile, or by its address.
                || (row.kind == RowKind::Run && has(&row.server_or_target(), value))
        }
        Key::Host => has(&row.host, value),
        Key::Target => has(&row.target, value),
        Key::Command => has(&row.command, value),
        Key::Protocol => has(&row.protocol, value) || (value == "tls" && row.tls),
        Key::Limit => row.limit.is_some_and(|limit| limit_word(limit) == value),
        Key::Tool => has(&row.tool, value),
        Key::Since => !row.started.is_empty() && row.started.to_lowercase().as_str() >= value,
        // The whole of a day, month or year is meant.
        Key::Until => {
            let started = row.started.to_lowercase();
            !started.is_empty() && (started.as_str() <= value || started.starts_with(value))
        }
    }
}

/// Whether a text holds a word that is in small letters.
fn has(text: &str, word: &str) -> bool {
    match text.is_ascii() {
        // Without a copy: called a hundred thousand times per keystroke.
        true => {
            let (text, word) = (text.as_bytes(), word.as_bytes());
            word.is_empty() || text.windows(word.len()).any(|part| part.eq_ignore_ascii_case(word))
        }
        false => text.to_lowercase().contains(word),
    }
}

/// As files write it: `server-thread`.
fn limit_word(limit: LimitingResource) -> String {
    word_of(&limit)
}

fn state_word(state: RunState) -> String {
    word_of(&state)
}

fn word_of(variant: &impl Serialize) -> String {
    let value = serde_json::to_value(variant).unwrap_or_default();
    value.as_str().unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use webstone_judge::verdict::Standing;

    fn row() -> LibraryRow {
        LibraryRow {
            name: "20260131T123005Z-night".to_owned(),
            started: "2026-01-31T12:30:05.250Z".to_owned(),
            server: "nginx".to_owned(),
            server_version: "1.24.0".to_owned(),
            target: "http://web1:8080/".to_owned(),
            workload: "standard mix".to_owned(),
            host: "VM2".to_owned(),
            protocol: "h2".to_owned(),
            tls: true,
            standing: Some(Standing::Valid),
            state: Some(RunState::Complete),
            limit: Some(LimitingResource::ServerThread),
            ..LibraryRow::default()
        }
    }

    #[test]
    fn words_match_anywhere_and_keys_where_they_say() {
        let tags = ["baseline".to_owned()].into();
        let notes = Notes { text: "Vor dem Ärger".to_owned(), tags, updated: String::new() };
        let finds = |text: &str| Query::parse(text).unwrap().matches(&row(), Some(&notes));
        for text in [
            "",
            "NGINX",
            "night 1.24",
            "verdict:valid tag:baseline workload:standard host:vm2",
            "workload:\"standard mix\"",
            "\"standard mix\"",
            "http://web1",
            "target:http://web1:8080",
            "protocol:tls protocol:h2",
            "limit:server-thread",
            "ärger",
            "since:2026-01 until:2026-01",
            "until:2026-01-31 since:2026-01-31",
            "Kind:run state:Complete",
            "basel",
        ] {
            assert!(finds(text), "{text}");
        }
        for text in [
            "apache",
            "nginx apache",
            "verdict:invalid",
            "verdict:certified",
            "verdict:unreadable",
            "tag:base",
            "server:standard",
            "since:2026-02",
            "until:2025",
            "kind:series",
        ] {
            assert!(!finds(text), "{text}");
        }
        let finds = |row: LibraryRow, text: &str| Query::parse(text).unwrap().matches(&row, None);
        assert!(finds(row(), "server:\"http://web1:8080/\""));
        let own = || LibraryRow { own: true, profile: "stock".to_owned(), ..row() };
        assert!(finds(own(), "server:\"nginx (stock)\"") && !finds(own(), "server:\"nginx (tuned)\""));
        let series = LibraryRow { kind: RowKind::Series, cells: vec![row()], ..LibraryRow::default() };
        let found = |text: &str| Query::parse(text).unwrap().matches(&series, None);
        assert!(found("nginx verdict:valid kind:series") && !found("apache"));
        let contestants = vec!["main".to_owned(), "HEAD".to_owned()];
        let standing = Some(Standing::Sound);
        let duel = LibraryRow { kind: RowKind::Duel, contestants, standing, ..LibraryRow::default() };
        let found = |text: &str| Query::parse(text).unwrap().matches(&duel, None);
        for text in ["duel", "head", "kind:duel main", "server:head", "verdict:sound"] {
            assert!(found(text), "{text}");
        }
        assert!(!found("kind:run") && !found("verdict:valid") && !found("kind:series"));
    }

    #[test]
    fn every_verdict_can_be_searched_for() {
        for standing in Standing::ALL {
            let row = LibraryRow { standing: Some(standing), ..LibraryRow::default() };
            let query = Query::parse(&format!("verdict:{}", standing.word())).unwrap();
            assert!(query.matches(&row, None), "{standing:?}");
        }
    }

    #[test]
    fn an_invalid_search_is_refused_with_a_remedy() {
        let said = |text: &str| {
            let error = Query::parse(text).unwrap_err();
            (error.to_string(), error.hint)
        };
        let (message, hint) = said("servr:nginx");
        assert_eq!(message, "`servr:nginx`: there is no key `servr`");
        assert!(hint.starts_with("did you mean server:? Or write \"servr:nginx\" in quotes"), "{hint}");
        let (_, hint) = said("12:30");
        assert!(hint.starts_with("the keys are name, kind,"), "{hint}");
        assert!(Query::parse("\"12:30\"").is_ok());
        let (message, hint) = said("verdict:vaild");
        assert_eq!(message, "`verdict:vaild`: there is no verdict `vaild`");
        assert!(
            hint.starts_with("did you mean verdict:valid? verdict: takes certified, valid, sound,"),
            "{hint}"
        );
        assert_eq!(said("tag:").0, "`tag:`: the value is missing");
        assert_eq!(said("since:yesterday").0, "`since:yesterday`: it is not a date");
        assert_eq!(said("since:2026-1").0, "`since:2026-1`: it is not a date");
    }
}
