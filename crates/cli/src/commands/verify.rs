//! `webstone verify`: is a record unchanged since it was measured, and signed? It needs only the directory or an
//! archive, checks every check sum and the signature, and recomputes every figure. Of a duel, `duel` does so, of a series `series`.

mod duel;
mod series;

use std::ffi::OsStr;
use std::fmt::Write;
use std::io::ErrorKind;
use std::path::Path;

use serde::Serialize;
use webstone_judge::consistency;
use webstone_measure::shown::{self, Shown, shown};
use webstone_measure::strict;
use webstone_model::record::{RunRecord, RunState, Tool};
use webstone_report::{figures, markdown_text};
use webstone_store::certify::signature::{self, Allowed, SignatureError, Signed};
use webstone_store::certify::{Certificate, Differences, archive as packed};
use webstone_store::plain_file::{self, Links};
use webstone_store::{
    CERTIFICATE, ENVIRONMENT, FIGURES, Integrity, MANIFEST, PAGE_ROWS, PAGES, RECORD, REPORT, SIGNATURE,
    Store, StoreError, read_file,
};

use super::{archive, records, run};
use crate::args::{ListFormat, VerifyArgs};
use crate::console::{self, Console};
use crate::failure::{Exit, Failure};
use crate::version;

/// Maximum number of problems listed for a record: one edited sum breaks dozens of comparisons.
const PROBLEMS_MAX: usize = 40;

/// Maximum size of a file of allowed signers, in bytes.
const SIGNERS_BYTES_MAX: u64 = 16 << 20;

/// Environment variable that makes every run verify the record that it has stored. The tests set it: what a test
/// measures must verify, whatever else the machine does.
const EVERY_RECORD: &str = "WEBSTONE_VERIFY_RECORDS";

/// What was found about one record.
#[derive(Debug, Default, Serialize)]
pub(super) struct Found {
    /// The record's identifier, if it could be read.
    run: Option<String>,
    /// Number of cells, of a series.
    #[serde(skip_serializing_if = "Option::is_none")]
    cells: Option<usize>,
    /// Number of files whose check sums were compared.
    files: usize,
    /// Number of values in the record that were compared with others.
    numbers: usize,
    /// Number of figures that were recomputed and compared with the stored ones.
    figures: usize,
    /// The verdict, recomputed.
    verdict: Option<&'static str>,
    /// Whether there is a certificate, and whether it and this version agree that every rule is met.
    certified: Option<bool>,
    /// Who signed.
    #[serde(serialize_with = "fingerprint_of")]
    pub(super) signed: Option<Signed>,
    /// Whether there is a signature, valid or not.
    #[serde(skip)]
    has_signature: bool,
    /// The name of the signer, if one was required and has this key.
    signer: Option<String>,
    /// What is wrong, each with its file.
    pub(super) problems: Vec<Problem>,
    /// What could not be checked, and why that is not damage.
    notes: Vec<String>,
    /// Whether it is a duel, which no run rules are for.
    #[serde(skip)]
    is_duel: bool,
}

/// One problem.
#[derive(Debug, Serialize)]
pub(super) struct Problem {
    file: String,
    what: String,
}

fn fingerprint_of<S: serde::Serializer>(signed: &Option<Signed>, to: S) -> Result<S::Ok, S::Error> {
    signed.as_ref().map(|signed| &signed.fingerprint).serialize(to)
}

impl Found {
    fn problem(&mut self, file: &str, what: impl Into<String>) {
        self.problems
            .push(Problem { file: shown(file).into_owned(), what: shown(&what.into()).into_owned() });
    }

    fn note(&mut self, what: impl Into<String>) {
        self.notes.push(shown(&what.into()).into_owned());
    }

    fn made_by_another(&mut self, tool: &Tool) {
        self.note(format!(
            "{REPORT} was made by another build of {}: its check sum was compared, and it was not made again",
            tool.name
        ));
    }
}

pub(super) fn execute(args: &VerifyArgs, console: &Console) -> Result<Exit, Failure> {
    let allowed = allowed(args)?;
    let (mut text_out, mut all) = (String::new(), Vec::new());
    for named in &args.runs {
        let examined = match records::series(named, None) {
            Some(path) => series::examine(&path)?,
            None => {
                let run = records::archive_or_run(named)?;
                let found = examine_path(&run)?;
                vec![(run, found)]
            }
        };
        for (run, mut found) in examined {
            // Of a series, the cells are signed.
            let is_signed = found.cells.is_none();
            let is_asked = is_signed && (!args.signer.is_empty() || args.allowed_signers.is_some());
            judge_signer(&mut found, &allowed, is_asked);
            text_out += &match args.format.unwrap_or_default() {
                ListFormat::Text => text(&run, &found, &allowed),
                ListFormat::Markdown => markdown(&run, &found),
                ListFormat::Json => String::new(),
            };
            all.push(found);
        }
    }
    if args.format == Some(ListFormat::Json) {
        let text = serde_json::to_string_pretty(&all).expect("names and numbers are always JSON") + "\n";
        text_out = shown::json(&text).into_owned();
    }
    console::print(&text_out)?;
    let broken = all.iter().filter(|found| !found.problems.is_empty()).count();
    if broken == 0 {
        return Ok(Exit::Done);
    }
    console.note(format!("{broken} of {} not verified", all.len()));
    Ok(Exit::Unverified)
}

/// Verifies a record that a run has just stored, if the environment asks for it. A partial record is not verified.
pub(super) fn as_stored(directory: &Path) -> Result<(), Failure> {
    if std::env::var_os(EVERY_RECORD).is_none_or(|value| value.is_empty())
        || directory.extension().is_some_and(|end| end == "partial")
    {
        return Ok(());
    }
    let found = examine(directory);
    if found.problems.is_empty() {
        return Ok(());
    }
    Err(Failure {
        exit: Exit::Unverified,
        message: format!(
            "the record that was just stored does not verify: {}",
            text(directory, &found, &[]).trim_end()
        ),
        hint: Some("this is a defect of webstone, please report it".to_owned()),
    })
}

/// Examines a directory, or an archive, which is unpacked for that time.
fn examine_path(run: &Path) -> Result<Found, Failure> {
    let is_record = |name: &OsStr| name == RECORD || name == webstone_store::duel::DUEL;
    if run.is_file() && !run.file_name().is_some_and(is_record) {
        return match packed::read(run) {
            Ok(unpacked) => Ok(examine(&unpacked.directory)),
            Err(packed::ArchiveError::Content { what, .. }) => {
                let mut found = Found::default();
                found.problem(&run.display().to_string(), what);
                Ok(found)
            }
            Err(error) => Err(archive::failure(&error)),
        };
    }
    if let Some(directory) = webstone_store::duel::directory(run) {
        return Ok(examine(&directory));
    }
    match Store::locate(run) {
        Ok(directory) => Ok(examine(&directory)),
        // A directory without its record is examined anyway.
        Err(StoreError::NoRecord { path }) if path.join(MANIFEST).exists() => Ok(examine(&path)),
        Err(error) => Err(error.into()),
    }
}

/// Examines everything in a record's directory.
pub(super) fn examine(directory: &Path) -> Found {
    if webstone_store::duel::is_duel(directory) {
        return duel::examine(directory);
    }
    let mut found = Found::default();
    let record = Store::load_whole(directory);
    if let Ok(record) = &record
        && record.state == RunState::Partial
    {
        found.run = Some(record.id.clone());
        found.problem(
            MANIFEST,
            "is not there yet: the run did not end, and nothing was closed that could be checked",
        );
        return found;
    }
    intact(Store::check(directory), &mut found);
    signature_of(directory, &mut found);
    match record {
        Ok(record) => recompute(directory, &record, &mut found),
        Err(error) => unread(&error, RECORD, &mut found),
    }
    found
}

/// What the check sums say.
fn intact(checked: Result<Integrity, StoreError>, found: &mut Found) {
    match checked {
        Ok(integrity) => {
            found.files = integrity.files;
            integrity.damage.into_iter().for_each(|damage| found.problem(&damage.file, damage.what));
        }
        Err(error) => found.problem(".", error.to_string()),
    }
}

/// A record that cannot be read.
fn unread(error: &StoreError, record: &str, found: &mut Found) {
    let file = match error {
        StoreError::Content { file, .. } | StoreError::Newer { file, .. } => file.file_name(),
        StoreError::Io { path, .. } => path.file_name(),
        StoreError::PageRows(_) => Some(PAGE_ROWS.as_ref()),
        StoreError::NoRecord { .. } => None,
    };
    let file = file.map_or(record.into(), |name| name.to_string_lossy());
    let hint = if matches!(error, StoreError::Newer { .. }) {
        "; read it with the version that wrote it"
    } else {
        ""
    };
    found.problem(&file, format!("cannot be read, so no figure was recomputed: {error}{hint}"));
}

fn signature_of(directory: &Path, found: &mut Found) {
    let signature = match read_file(directory, SIGNATURE) {
        Ok(signature) => signature,
        Err(error) if error.kind() == ErrorKind::NotFound => return,
        Err(error) => return found.problem(SIGNATURE, format!("cannot be read: {error}")),
    };
    found.has_signature = true;
    match signature::check(&signature, &read_file(directory, MANIFEST).unwrap_or_default()) {
        Ok(signed) => found.signed = Some(signed),
        // If every file has its check sum, the manifest is unchanged.
        Err(error @ SignatureError::Other(_)) if !found.problems.is_empty() => {
            found.problem(MANIFEST, format!("was changed since it was signed: {error}"));
        }
        Err(error) => found.problem(SIGNATURE, error.to_string()),
    }
}

/// Files that every version of webstone stores with a finished run; rows of pages only if a page was requested.
fn missing(directory: &Path, record: &RunRecord, found: &mut Found) {
    let rows = record.iterations.iter().any(|iteration| iteration.pages_at.is_some());
    let of_pages = [PAGES, PAGE_ROWS].into_iter().filter(|_| rows);
    for name in [FIGURES, REPORT].into_iter().chain(of_pages) {
        let is_told = found.problems.iter().any(|problem| problem.file == name);
        if !is_told && directory.join(name).symlink_metadata().is_err() {
            found.problem(name, "is missing: every finished run is stored with it");
        }
    }
}

/// Files in which a table has two entries of one name: this program takes one of them, another program may take the other.
fn ambiguous(directory: &Path, names: &[&str], found: &mut Found) {
    for name in names {
        let checked = read_file(directory, name).ok().map(|bytes| strict::unique(&bytes));
        // What is no JSON is a problem of its own.
        if let Some(error) = checked.and_then(Result::err).filter(serde_json::Error::is_data) {
            found.problem(name, error.to_string());
        }
    }
}

/// Recomputes everything that can be recomputed.
fn recompute(directory: &Path, record: &RunRecord, found: &mut Found) {
    found.run = Some(record.id.clone());
    found.verdict = Some(webstone_judge::verdict::of_record(record).standing.word());
    let consistency = consistency::check(record);
    missing(directory, record, found);
    ambiguous(directory, &[RECORD, ENVIRONMENT, FIGURES, CERTIFICATE], found);
    found.numbers = consistency.checked;
    for wrong in consistency.contradictions {
        found.problem("record.json", format!("{}: {}: {}", wrong.place, wrong.rule, wrong.evidence));
    }
    match read_file(directory, ENVIRONMENT).ok().map(|bytes| serde_json::from_slice(&bytes).ok()) {
        Some(Some(environment)) if record.environment == environment => {}
        Some(_) => found.problem(ENVIRONMENT, "is not the environment that record.json holds"),
        None => {}
    }
    // A file that cannot be read is reported with the check sums.
    if let Ok(stored) = read_file(directory, FIGURES) {
        compare(&stored, record, found);
    }
    if let Ok(page) = read_file(directory, REPORT) {
        if record.tool != version::tool() {
            found.made_by_another(&record.tool);
        } else if run::page(record).is_ok_and(|again| again != page) {
            found.problem(REPORT, "is not the report that the record gives");
        }
    }
    let Ok(bytes) = read_file(directory, CERTIFICATE) else { return };
    match strict::json::<Certificate>(&bytes) {
        Ok(certificate) => compare_certificate(&certificate, record, found),
        Err(error) => found.problem(CERTIFICATE, format!("cannot be read: {error}")),
    }
}

/// Rules and limits change between versions. This build can neither confirm nor refute what another build judged: it
/// is accepted if it is signed, and otherwise does not count.
fn compare_certificate(certificate: &Certificate, record: &RunRecord, found: &mut Found) {
    let Differences { identity, judgement } = certificate.differences(record);
    found.certified = Some(certificate.certified && judgement.is_empty());
    identity.into_iter().for_each(|what| found.problem(CERTIFICATE, what));
    let tool = &certificate.tool;
    if *tool == version::tool() || found.signed.is_none() {
        return judgement.into_iter().for_each(|what| found.problem(CERTIFICATE, what));
    }
    for what in judgement {
        found.note(format!("{CERTIFICATE} was made by {} {}: {what}", tool.name, build_of(tool)));
    }
}

fn build_of(tool: &Tool) -> String {
    let commit = tool.commit.as_ref().map(|commit| format!(" ({commit})")).unwrap_or_default();
    format!("{}{commit}", tool.version)
}

fn compare(stored: &[u8], record: &RunRecord, found: &mut Found) {
    let comparison = match figures::compare(stored, record) {
        Ok(comparison) => comparison,
        Err(error) => return found.problem(FIGURES, format!("cannot be read: {error}")),
    };
    found.figures = comparison.compared;
    for wrong in comparison.differences {
        // Limits and rules change between versions; figures do not.
        if record.tool != version::tool() && wrong.path.starts_with("verdict.") {
            found.note(format!(
                "{FIGURES}: {} is {}, as {} {} judged; this version gives {}",
                wrong.path,
                wrong.stored,
                record.tool.name,
                build_of(&record.tool),
                wrong.computed
            ));
            continue;
        }
        found.problem(
            FIGURES,
            format!("{} is {}, and the record gives {}", wrong.path, wrong.stored, wrong.computed),
        );
    }
    let own = env!("CARGO_PKG_VERSION") == record.tool.version;
    for (paths, what) in [(comparison.not_stored, "not stored"), (comparison.unknown, "not known here")] {
        match (paths.is_empty(), own) {
            (true, _) => {}
            (false, true) => found.problem(FIGURES, format!("figures {what}: {}", paths.join(", "))),
            (false, false) => found.note(format!(
                "figures {what}, because {} {} measured: {}",
                record.tool.name,
                record.tool.version,
                paths.join(", ")
            )),
        }
    }
}

fn allowed(args: &VerifyArgs) -> Result<Vec<Allowed>, Failure> {
    let mut allowed = Vec::new();
    for typed in &args.signer {
        let signer = signature::signer(typed);
        allowed.push(signer.map_err(|what| {
            Failure::usage(format!("--signer {typed}: {what}"))
                .hint("give a fingerprint (SHA256:…), a public key (ssh-ed25519 …) or the file with it")
        })?);
    }
    if let Some(path) = &args.allowed_signers {
        let text = plain_file::read_text(path, Links::Followed, SIGNERS_BYTES_MAX)
            .map_err(|error| Failure { exit: Exit::Usage, ..Failure::file("read", path, &error) })?;
        let wrong = |what| Failure::usage(format!("--allowed-signers {}: {what}", path.display()));
        allowed.extend(signature::allowed_signers(&text).map_err(wrong)?);
    }
    Ok(allowed)
}

/// If signers are given, the record must be signed by one of them.
fn judge_signer(found: &mut Found, allowed: &[Allowed], asked: bool) {
    if !asked {
        return;
    }
    let Some(signed) = &found.signed else {
        if !found.has_signature && !found.problems.iter().any(|problem| problem.file == SIGNATURE) {
            found.problem(SIGNATURE, "is missing: the record is not signed, and a signer was asked for");
        }
        return;
    };
    match allowed.iter().find(|allowed| allowed.fingerprint == signed.fingerprint) {
        Some(allowed) => found.signer = Some(allowed.who.clone()).filter(|who| !who.is_empty()),
        None => {
            let what = format!("is by {}, not by a signer that was asked for", signed.fingerprint);
            found.problem(SIGNATURE, what);
        }
    }
}

/// The lines above the list of problems.
fn facts(found: &Found, pinned: bool) -> Vec<String> {
    if let Some(cells) = found.cells {
        return vec![match cells {
            1 => "its cell is stored, verified, and measured as planned".to_owned(),
            _ => format!("all {cells} cells are stored, verified, and measured as planned"),
        }];
    }
    let mut lines = vec![format!("{} files have the check sums of {MANIFEST}", found.files)];
    if found.verdict.is_some() {
        lines.push(format!("{} numbers of the record agree with each other", found.numbers));
    }
    if found.figures > 0 {
        lines.push(format!("{} figures are as they were stored", found.figures));
    }
    lines.extend(found.verdict.map(|word| format!("verdict, recomputed: {word}")));
    lines.extend(match found.certified {
        Some(true) => Some("certified: every run rule is met".to_owned()),
        Some(false) => {
            Some("certificate: not every run rule is met, or not by this version's rules".to_owned())
        }
        None => (!found.is_duel).then(|| "no certificate".to_owned()),
    });
    lines.push(match (&found.signed, &found.signer) {
        (Some(signed), Some(who)) => format!("signed by {who}, {}", signed.fingerprint),
        (Some(signed), None) if pinned => format!("signed by {}", signed.fingerprint),
        (Some(signed), None) => format!(
            "signed by {}; check whose key that is with --signer or --allowed-signers",
            signed.fingerprint
        ),
        (None, _) => {
            "not signed: the record is consistent with itself, and anyone could have made it".to_owned()
        }
    });
    lines
}

fn named(run: &Path, found: &Found) -> String {
    let name = found.run.clone().unwrap_or_else(|| run.display().to_string());
    shown(&name).into_owned()
}

pub(super) fn text(run: &Path, found: &Found, allowed: &[Allowed]) -> String {
    let word = if found.problems.is_empty() { "VERIFIED" } else { "NOT VERIFIED" };
    let mut out = format!("{word}  {}\n", named(run, found));
    // What is right is listed only if everything is: a partial list could be taken for the whole.
    if found.problems.is_empty() {
        facts(found, !allowed.is_empty()).iter().for_each(|line| {
            // Writing to a String cannot fail.
            let _ = writeln!(out, "  {}", Shown(line));
        });
    }
    for problem in found.problems.iter().take(PROBLEMS_MAX) {
        let _ = writeln!(out, "  {}: {}", problem.file, problem.what);
    }
    if found.problems.len() > PROBLEMS_MAX {
        let _ = writeln!(out, "  and {} more", found.problems.len() - PROBLEMS_MAX);
    }
    for note in &found.notes {
        let _ = writeln!(out, "  note: {}", Shown(note));
    }
    out
}

fn markdown(run: &Path, found: &Found) -> String {
    let word = if found.problems.is_empty() { "VERIFIED" } else { "NOT VERIFIED" };
    let mut out = format!("**{word}** · {}\n\n", markdown_text(&named(run, found)));
    let problems = found.problems.iter().map(|problem| format!("{}: {}", problem.file, problem.what));
    let lines: Vec<String> =
        if found.problems.is_empty() { facts(found, found.signer.is_some()) } else { problems.collect() };
    for line in lines.iter().chain(&found.notes) {
        let _ = writeln!(out, "- {}", markdown_text(line));
    }
    out.push('\n');
    out
}
