//! `webstone certify`: a record checked against the run rules, its certificate and its signature; of a duel the signature alone.

use std::fmt::Write;
use std::io::{self, IsTerminal};
use std::path::Path;

use webstone_judge::verdict::{RuleSource, RuleStanding};
use webstone_measure::shown::{self, Shown};
use webstone_report::markdown_text;
use webstone_store::certify::{Certificate, key, signature, standing_words};
use webstone_store::clock;
use webstone_store::{MANIFEST, SIGNATURE, Store, duel, read_file};

use super::{archive, records, verify};
use crate::args::{CertifyArgs, ListFormat};
use crate::console::{self, Console};
use crate::failure::{Exit, Failure};
use crate::version;

pub(super) fn execute(args: &CertifyArgs, console: &Console) -> Result<Exit, Failure> {
    if let Some(path) = &args.archive {
        archive::form_of(path)?;
    }
    let directory = records::locate(&args.run, None)?;
    let is_duel = duel::is_duel(&directory);
    if is_duel && args.key.is_none() {
        return Err(Failure::usage(format!("{} is a duel, and run rules are for runs", args.run.display()))
            .hint("--key KEY signs it without a certificate; `webstone verify` checks it"));
    }
    // The key first: if it is wrong, no certificate must be written without its signature.
    let key = args.key.as_deref().map(load).transpose()?;
    let found = verify::examine(&directory);
    if !found.problems.is_empty() {
        console::print(&verify::text(&args.run, &found, &[]))?;
        return Err(Failure {
            exit: Exit::Unverified,
            ..Failure::failed(format!("{} does not verify, so it cannot be certified", args.run.display()))
        });
    }
    if found.signed.is_some() && !args.force {
        let by = found.signed.map(|signed| signed.fingerprint).unwrap_or_default();
        return Err(Failure::failed(format!("{} is signed already, by {by}", args.run.display()))
            .hint("--force writes a new certificate and replaces the signature"));
    }
    if let (true, Some(key)) = (is_duel, &key) {
        sign(&directory, key, "signed", console)?;
        return archived(args, &directory, console);
    }
    let record = Store::load(&directory)?;
    let made_at = clock::rfc3339(std::time::SystemTime::now());
    let certificate = Certificate::of_record(&record, version::tool(), made_at);
    let list = match args.format.unwrap_or_default() {
        ListFormat::Text => text(&certificate),
        ListFormat::Markdown => markdown(&certificate),
        ListFormat::Json => shown::json(&String::from_utf8_lossy(&certificate.to_json())).into_owned(),
    };
    console::print(&list)?;
    if !certificate.certified && !args.uncertified {
        console
            .note("nothing was written: not every rule is met (--uncertified writes and signs the certificate anyway, labelled as uncertified)");
        return Ok(Exit::Uncertified);
    }
    Store::certify(&directory, &certificate.to_json())?;
    match key {
        Some(key) => sign(&directory, &key, label(&certificate), console)?,
        None => console.note(format!(
            "not signed; with a key of your own: ssh-keygen -Y sign -n {} -f KEY {}",
            signature::NAMESPACE,
            directory.join(MANIFEST).display()
        )),
    }
    archived(args, &directory, console)
}

fn archived(args: &CertifyArgs, directory: &Path, console: &Console) -> Result<Exit, Failure> {
    if let Some(path) = &args.archive {
        archive::make(directory, path, console)?;
    }
    Ok(Exit::Done)
}

fn load(path: &Path) -> Result<webstone_store::certify::key::PrivateKey, Failure> {
    let mut ask = || {
        (io::stdin().is_terminal() && io::stderr().is_terminal())
            .then(|| rpassword::prompt_password(format!("passphrase of {}: ", path.display())).ok())
            .flatten()
    };
    key::load(path, &mut ask).map_err(|error| {
        Failure { exit: Exit::Usage, ..Failure::failed(error.to_string()) }.hint(error.hint())
    })
}

fn sign(directory: &Path, key: &key::PrivateKey, label: &str, console: &Console) -> Result<(), Failure> {
    let manifest = directory.join(MANIFEST);
    let bytes = read_file(directory, MANIFEST).map_err(|error| Failure::file("read", &manifest, &error))?;
    let signed =
        signature::sign(key, &bytes).map_err(|what| Failure::failed(format!("cannot sign: {what}")))?;
    Store::sign(directory, signed.as_bytes())?;
    console.note(format!(
        "{label} by {}: {}",
        signature::fingerprint_of(key),
        directory.join(SIGNATURE).display()
    ));
    Ok(())
}

fn label(certificate: &Certificate) -> &'static str {
    if certificate.certified { "signed as certified" } else { "signed as uncertified" }
}

fn headline(certificate: &Certificate) -> String {
    let count = |standing| certificate.count(standing);
    format!(
        "{}: {} of {} run rules met, {} not met, {} unknown from the record",
        if certificate.certified { "CERTIFIED" } else { certificate.standing.word() },
        count(RuleStanding::Met),
        certificate.rules.len(),
        count(RuleStanding::NotMet),
        count(RuleStanding::CannotTell),
    )
}

fn text(certificate: &Certificate) -> String {
    let mut out = format!("{}\n{}\n", Shown(&certificate.run), headline(certificate));
    for reason in &certificate.reasons {
        // Writing to a String cannot fail.
        let _ = writeln!(out, "  invalid: {}", Shown(reason));
    }
    for (source, title) in [(RuleSource::WebStone2, "WebStone 2.0"), (RuleSource::Webstone, "webstone")] {
        let _ = writeln!(out, "\nRun rules of {title}");
        for rule in certificate.rules.iter().filter(|rule| rule.source == source) {
            let _ = writeln!(
                out,
                "  {:<11} {}\n              {}",
                standing_words(rule.standing),
                Shown(&rule.text),
                Shown(&rule.evidence)
            );
        }
    }
    out
}

fn markdown(certificate: &Certificate) -> String {
    let mut out = format!("**{}** · {}\n\n", headline(certificate), markdown_text(&certificate.run));
    for reason in &certificate.reasons {
        let _ = writeln!(out, "- invalid: {}", markdown_text(reason));
    }
    let _ = writeln!(out, "| | rule | evidence | of |\n|---|---|---|---|");
    for rule in &certificate.rules {
        let of = if rule.source == RuleSource::WebStone2 { "WebStone 2.0" } else { "webstone" };
        let _ = writeln!(
            out,
            "| {} | {} | {} | {of} |",
            standing_words(rule.standing),
            markdown_text(&rule.text),
            markdown_text(&rule.evidence)
        );
    }
    out
}
