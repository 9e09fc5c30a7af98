//! What is needed to repeat or check the run: what ran where, the specification, the workload, the environment, and the
//! identities.

use serde_json::Value;
use webstone_judge::verdict::{self, RuleStanding};

use crate::configuration;
use crate::document::table::{Room, Table};
use crate::numbers::{count, counted};
use crate::text::header;
use crate::text::problems::is_met;

use super::markup::Html;
use super::{Run, definitions, lab};

/// Lines of a workload that are shown.
const WORKLOAD_LINES_MAX: usize = 200;
/// Broken identities that are shown one by one.
const IDENTITIES_MAX: usize = 20;

pub(super) fn draw(html: &mut Html, runs: &[Run<'_>]) {
    html.section("disclosure", "Disclosure");
    if runs.len() > 1 {
        differing(html, runs);
    }
    if let Some(run) = runs.iter().find(|run| run.best().is_some()) {
        lab::draw(html, run);
    }
    let named: Vec<_> = runs.iter().map(|run| (run.name.as_str(), run.record)).collect();
    html.sheet(&configuration::sheet(&configuration::of_all(&named)));
    for (number, run) in runs.iter().enumerate() {
        if runs.len() > 1 {
            html.element("h3", &run.name);
        }
        facts(html, run);
        checks(html, run);
        rules(html, run);
        environment(html, run, number);
        listing(html, "Specification, as a testbed file (TOML)", &specification(run));
        workload(html, run);
    }
    html.raw("</section>");
}

/// Settings in which the records differ.
fn differing(html: &mut Html, runs: &[Run<'_>]) {
    let rows = super::differences(runs);
    if rows.is_empty() {
        html.element("p", "Settings and targets of the records are the same.");
        return;
    }
    let number = counted(rows.len() as u64, "setting differs", "settings differ");
    let mut table = Table::with_rows(&rows);
    let names = std::iter::once("setting").chain(runs.iter().map(|run| &*run.name));
    for (place, name) in names.enumerate() {
        table.number(name, "", Room::Always, |row| &row[place]);
    }
    html.fold(&number, |html| html.table("Settings that differ", table.done()));
}

fn facts(html: &mut Html, run: &Run<'_>) {
    let tool = &run.record.tool;
    let commit = tool.commit.as_ref().map_or_else(String::new, |commit| format!(", commit {commit}"));
    let made = ("measured by", format!("{} {}{commit}", tool.name, tool.version));
    html.facts(std::iter::once(made).chain(header::facts(run.record)));
}

/// The identities: how many hold, and those that do not.
fn checks(html: &mut Html, run: &Run<'_>) {
    let checks =
        || run.record.iterations.iter().flat_map(|run| run.identities.iter().map(move |check| (run, check)));
    let total = checks().count() as u64;
    if total == 0 {
        return;
    }
    let broken: Vec<_> = checks().filter(|(_, check)| !check.holds).collect();
    html.raw("<p>").defined("Identities", Some(definitions::IDENTITIES));
    let hold = total - broken.len() as u64;
    html.text(&format!(" between the counters: {} of {} hold.", count(hold), count(total))).raw("</p>");
    if broken.is_empty() {
        return;
    }
    let told = broken.iter().take(IDENTITIES_MAX).map(|(iteration, check)| {
        let (at, number) = (iteration.level(), iteration.iteration);
        format!("{at}, iteration {number}, identity {}: {}: {}", check.number, check.rule, check.evidence)
    });
    let more = broken.len().saturating_sub(IDENTITIES_MAX) as u64;
    html.list(told.chain((more > 0).then(|| format!("and {} more", count(more)))));
}

/// Every run rule, met or not.
fn rules(html: &mut Html, run: &Run<'_>) {
    let rules = verdict::rules(run.record);
    let met = rules.iter().filter(|rule| rule.standing == RuleStanding::Met).count() as u64;
    let title = format!("Run rules: {} of {} met", count(met), count(rules.len() as u64));
    let mut table = Table::with_rows(&rules);
    table.number("rule", "", Room::Always, |rule| &rule.text);
    table.number("standing", "", Room::Always, is_met);
    table.number("found", "", Room::Always, |rule| &rule.evidence);
    html.fold(&title, |html| html.table(&title, table.done()));
}

/// All facts about the machine, by name; texts of several lines (configuration files) as they are.
fn environment(html: &mut Html, run: &Run<'_>, number: usize) {
    let mut facts = Vec::new();
    for (name, value) in &run.record.environment {
        flatten(name, value, &mut facts);
    }
    let (listings, rows): (Vec<_>, Vec<_>) = facts.into_iter().partition(|(_, text)| text.contains('\n'));
    if !rows.is_empty() {
        let title = format!("Environment, {}", counted(rows.len() as u64, "fact", "facts"));
        let caption =
            if number == 0 { "Environment".to_owned() } else { format!("Environment {}", number + 1) };
        let mut table = Table::with_rows(&rows);
        table.number("name", "", Room::Always, |(name, _)| name);
        table.number("value", "", Room::Always, |(_, text)| text);
        html.fold(&title, |html| html.table(&caption, table.done()));
    }
    for (name, text) in &listings {
        listing(html, &format!("Environment: {name}"), text);
    }
}

pub(super) fn flatten(name: &str, value: &Value, facts: &mut Vec<(String, String)>) {
    match value {
        Value::Object(fields) => {
            fields.iter().for_each(|(key, value)| flatten(&format!("{name}.{key}"), value, facts))
        }
        Value::Array(items) if items.iter().any(Value::is_object) => {
            items.iter().enumerate().for_each(|(n, item)| flatten(&format!("{name}.{n}"), item, facts));
        }
        Value::Array(items) => {
            let items: Vec<String> = items.iter().map(plain).collect();
            facts.push((name.to_owned(), items.join(", ")));
        }
        other => facts.push((name.to_owned(), plain(other))),
    }
}

fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

fn specification(run: &Run<'_>) -> String {
    toml::to_string(&run.record.spec).unwrap_or_else(|error| format!("cannot be written as TOML: {error}"))
}

fn workload(html: &mut Html, run: &Run<'_>) {
    let workload = &run.record.workload;
    // A page has at least two lines, and there may be a hundred thousand pages.
    let pages_shown = workload.pages.len().min(WORKLOAD_LINES_MAX);
    let mut cut = webstone_workload::Workload {
        name: workload.name.clone(),
        description: workload.description.clone(),
        ..Default::default()
    };
    cut.pages.extend(workload.pages.iter().take(pages_shown).cloned());
    let text = webstone_workload::to_toml(&cut);
    let lines = text.lines().count();
    let mut shown: String = text.lines().take(WORKLOAD_LINES_MAX).map(|line| format!("{line}\n")).collect();
    if pages_shown < workload.pages.len() || lines > WORKLOAD_LINES_MAX {
        shown.push_str(&format!(
            "# cut after {WORKLOAD_LINES_MAX} lines; the workload has {}\n",
            counted(workload.pages.len() as u64, "page", "pages")
        ));
    }
    let title = format!("Workload {}, sha256 {}", workload.name, run.record.workload_sha256);
    listing(html, &title, &shown);
}

fn listing(html: &mut Html, title: &str, text: &str) {
    html.fold(title, |html| html.raw("<pre tabindex=\"0\">").text(text).raw("</pre>"));
}
