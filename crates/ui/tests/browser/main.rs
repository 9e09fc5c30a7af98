//! The pages in a real browser: each in its states, at two widths and in both themes, without an error, a violation of the policy or a
//! request elsewhere; by keyboard alone; with a record that is hostile; with an accessibility checker and a checker of types, where `cargo
//! xtask test` could install them. `WEBSTONE_PICTURES=DIR` keeps screenshots.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test that cannot go on may panic; a skipped one says why"
)]

#[allow(unreachable_pub, dead_code, reason = "shared with the reports' tests")]
#[path = "../../../report/tests/browser/devtools.rs"]
mod devtools;
mod form;
#[allow(unreachable_pub, reason = "shared by the file above alone")]
mod stand_in;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use devtools::Browser;
use serde_json::{Value, json};
use stand_in::{Real, StandIn};

const RUN: &str = "20261123T181614Z-webstone";

/// The rules of axe that another theme or width can break; the others have the same result everywhere.
const DARK_AND_NARROW_RULES: &str = ", runOnly: { type: 'rule', values: ['aria-hidden-focus', 'button-name', 'color-contrast', 'heading-order', 'link-in-text-block', 'link-name', 'page-has-heading-one', 'region', 'scrollable-region-focusable', 'skip-link'] }";
/// A page in a state: scenes of `answers.json`, its address, and what is true once it is there.
const PAGES: &[(&str, &[&str], &str, &str)] = &[
    ("library", &[], "/library", "main tbody tr"),
    ("library-empty", &["empty"], "/library", "main .empty pre"),
    ("library-search", &["search"], "/library?q=verdikt:valid", "main .verdict"),
    ("library-partial", &["partial"], "/library", "main tbody tr"),
    ("library-down", &["down"], "/library", "main [role=alert]"),
    ("new", &[], "/new", ".plan .facts"),
    ("new-wrong", &["wrong"], "/new", ".field [aria-invalid=true]"),
    ("new-repeat", &[], "/new?from=20261123T181614Z-webstone&change=one", ".plan .changes"),
    ("new-looking", &["looking"], "/new", ".start .note"),
    ("new-down", &["down"], "/new", "main [role=alert]"),
    ("live", &[], "/live", "main tbody tr"),
    ("live-empty", &["empty"], "/live", "main .empty"),
    ("live-unstarted", &["unstarted"], "/live", "main .verdict.invalid li"),
    ("live-running", &[], "/live/on", "main tbody tr"),
    ("live-preparing", &[], "/live/preparing", ".now .phase:not(:empty)"),
    ("live-warming", &[], "/live/warming", ".now .phase:not(:empty)"),
    ("live-open", &[], "/live/open", "main tbody tr"),
    ("live-hosts", &[], "/live/hosts", "main tbody tr th"),
    ("live-series", &[], "/live/series", ".state.failed"),
    ("live-lost", &[], "/live/lost", "main .verdict.noisy"),
    ("live-stopping", &[], "/live/stopping", "main tbody tr"),
    ("live-done", &[], "/live/done", "main .verdict.valid a"),
    ("live-failed", &[], "/live/failed", "main .verdict.invalid"),
    ("live-none", &[], "/live/none", "main [role=alert]"),
    ("run", &[], "/run/20261123T181614Z-webstone", "iframe"),
    ("run-valid", &[], "/run/20261123T194402Z-webstone", "iframe"),
    ("run-invalid", &[], "/run/20261121T070000Z-errors", ".verdict.invalid"),
    ("run-series", &[], "/run/20261119T070000Z-matrix", "iframe"),
    ("run-resume", &["unfinished"], "/run/20261119T070000Z-matrix", "iframe"),
    ("run-looking", &["looking"], "/run/20261123T181614Z-webstone", "iframe"),
    ("run-cut", &[], "/run/20261118T070000Z-cut", "iframe"),
    ("run-damaged", &[], "/run/20261117T070000Z-damaged", "main [role=alert]"),
    ("run-none", &[], "/run/none", "main [role=alert]"),
    ("compare", &[], "/compare?run=a&run=b", ".forest"),
    ("compare-one", &[], "/compare?run=a", "main .empty"),
    ("compare-few", &["few"], "/compare?run=a&run=b", "main details table"),
    ("compare-forbidden", &["forbidden"], "/compare?run=a&run=b", "main [role=alert] table"),
    ("compare-down", &["down"], "/compare?run=a&run=b", "main [role=alert]"),
    ("servers", &[], "/servers", ".plan .facts"),
    ("servers-wrong", &["wrong"], "/servers", ".plan .verdict"),
    ("history", &[], "/history?name=20261123T181614Z-webstone", "svg.plot .step"),
    ("history-empty", &["empty"], "/history?name=20261123T181614Z-webstone", "main .empty"),
    ("trash", &[], "/trash", "main tbody tr"),
    ("trash-empty", &["empty"], "/trash", "main .empty"),
    ("connect", &[], "/connect", "#token"),
    ("nowhere", &[], "/nowhere", "main code"),
];

struct Scene {
    browser: Browser,
    front: StandIn,
    wrong: Vec<String>,
    _runs: tempfile::TempDir,
}

impl Scene {
    fn start() -> Option<Scene> {
        let Some(program) = devtools::installed() else {
            println!("skipped: no chromium is installed");
            return None;
        };
        let runs = tempfile::tempdir().unwrap();
        let front = StandIn::start(Arc::new(Real::start(runs.path())));
        let mut browser = Browser::start(&program);
        browser.show_as(1280, 900, "light");
        browser.open_url(&format!("http://127.0.0.1:{}/#token={}", front.port, front.token));
        browser.until("document.querySelector('main h1') !== null");
        Some(Scene { browser, front, wrong: Vec::new(), _runs: runs })
    }

    fn open(&mut self, scenes: &[&str], path: &str, ready: &str) {
        self.front.set(scenes);
        self.browser.open_url(&format!("http://127.0.0.1:{}{path}", self.front.port));
        self.until_there(ready);
    }

    fn until_there(&mut self, selector: &str) {
        self.browser.until(&format!("document.querySelector({}) !== null", json!(selector)));
    }

    fn expect(&mut self, name: &str, expression: &str, wanted: &Value, what: &str) {
        let found = self.browser.evaluate(expression);
        if found != *wanted {
            self.wrong.push(format!("{name}: {what}: {found}"));
        }
    }

    /// What the browser complained of, and what it requested elsewhere.
    fn complaints(&mut self, name: &str) {
        let own = format!("http://127.0.0.1:{}/", self.front.port);
        for event in &self.browser.events {
            let params = &event["params"];
            let is_trouble = match event["method"].as_str() {
                Some(
                    "Runtime.consoleAPICalled" | "Runtime.exceptionThrown" | "Page.javascriptDialogOpening",
                ) => true,
                // The browser, too, logs an answer that is an error; only the page's own messages count.
                Some("Log.entryAdded") => {
                    params["entry"]["level"] != "verbose" && params["entry"]["source"] != "network"
                }
                Some("Audits.issueAdded") => params["issue"]["code"] == "ContentSecurityPolicyIssue",
                Some("Network.requestWillBeSent") => {
                    params["request"]["url"].as_str().is_none_or(|url| !url.starts_with(&own))
                }
                _ => false,
            };
            if is_trouble {
                self.wrong.push(format!("{name}: {event}"));
            }
        }
    }

    fn finish(self) {
        assert!(self.wrong.is_empty(), "{}", self.wrong.join("\n"));
    }
}

/// A file of what npm installed for tests.
fn module(file: &str) -> Option<PathBuf> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/axe/node_modules").join(file);
    if !path.is_file() {
        println!(
            "skipped: {} is not installed; `cargo xtask test` installs it by npm",
            file.split('/').next().unwrap()
        );
    }
    path.is_file().then_some(path)
}

#[test]
fn every_page_is_whole_in_every_state_on_a_wide_screen() {
    pages_are_whole(1280, "light", "");
}

#[test]
fn every_page_is_whole_in_every_state_on_a_narrow_screen() {
    pages_are_whole(390, "dark", DARK_AND_NARROW_RULES);
}

/// Opens every page and checks it, by all or some of axe's rules.
fn pages_are_whole(width: u32, theme: &str, rules: &str) {
    let Some(mut scene) = Scene::start() else { return };
    let axe = module("axe-core/axe.min.js").map(|path| std::fs::read_to_string(path).unwrap());
    for (name, scenes, path, ready) in PAGES {
        scene.browser.show_as(width, 900, theme);
        scene.open(scenes, path, ready);
        if let Some(axe) = &axe {
            scene.browser.evaluate(&format!("{axe};0"));
        }
        let at = format!("{name}, {width} px, {theme}");
        let dark = "matchMedia('(prefers-color-scheme: dark)').matches";
        scene.expect(&at, dark, &json!(theme == "dark"), "the dark theme");
        let sideways = "document.documentElement.scrollWidth - innerWidth";
        scene.expect(&at, sideways, &json!(0), "pixels that it scrolls sideways");
        let named =
            "document.querySelectorAll('main h1').length === 1 && document.title.endsWith(' – webstone')";
        scene.expect(&at, named, &json!(true), "its name");
        let headings = "[...document.querySelectorAll('h1,h2,h3,h4')].map(h => +h.tagName[1]).filter((level, n, all) => n && level > all[n - 1] + 1).length";
        scene.expect(&at, headings, &json!(0), "headings that leave out a level");
        if axe.is_some() {
            let run = format!(
                "axe.run(document, {{ iframes: false, resultTypes: ['violations']{rules} }}).then(r => r.violations.map(v => v.id + ': ' + v.nodes.map(n => n.target.join(' ')).slice(0, 3).join(', ')))"
            );
            scene.expect(&at, &run, &json!([]), "accessibility");
        }
        scene.complaints(&at);
        scene.browser.picture(&format!("ui-{name}-{width}-{theme}.png"));
    }
    scene.finish();
}

#[test]
fn a_hostile_record_is_text_in_every_page() {
    let Some(mut scene) = Scene::start() else { return };
    for (name, scenes, path, _) in PAGES {
        let scenes: Vec<&str> = [scenes, &["hostile"][..]].concat();
        // With hostile texts, what a page waits for may never come. It is ready once it has a title, and content or an alert.
        scene.open(&scenes, path, "main h1:not(:empty)");
        scene.browser.until("document.readyState === 'complete' && (document.querySelector('main .page').childElementCount > 0 || document.querySelector('main [role=alert]') !== null)");
        scene.browser.evaluate(
            "new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => done(0))))",
        );
        scene.expect(name, "window.broken ?? null", &Value::Null, "a script of the record ran");
        let made = "document.querySelectorAll('main img, main script, main [onerror], main [href^=javascript]').length";
        scene.expect(name, made, &json!(0), "elements of the record");
        let reversed = "document.body.textContent.includes('\\u202e')";
        scene.expect(name, reversed, &json!(false), "text that runs the other way");
        let frames = "[...document.querySelectorAll('iframe')].filter(f => f.getAttribute('sandbox') !== 'allow-scripts' || (f.src && new URL(f.src).origin !== location.origin)).length";
        scene.expect(name, frames, &json!(0), "frames that are not shut in");
        scene.complaints(name);
    }
    scene.finish();
}

#[test]
fn a_keyboard_walks_through_all_of_it() {
    let Some(mut scene) = Scene::start() else { return };
    scene.open(&[], "/library", "main tbody tr");
    // The skip link comes first, and leads past the bar.
    scene.browser.press("Tab");
    scene.expect("skip", "document.activeElement.className", &json!("skip"), "the first stop");
    scene.browser.press("Enter");
    scene.browser.press("Tab");
    scene.expect(
        "skip",
        "document.querySelector('main').contains(document.activeElement)",
        &json!(true),
        "the stop after it",
    );
    scene.expect(
        "skip",
        "document.querySelectorAll('main tbody tr').length",
        &json!(8),
        "the page is still there",
    );
    scene.browser.evaluate("document.activeElement.blur()");
    scene.browser.press("?");
    scene.expect("help", "document.querySelector('dialog').open", &json!(true), "? shows the keys");
    scene.browser.press("Escape");
    scene.expect("help", "document.querySelector('dialog').open", &json!(false), "Escape closes them");
    // Rows, marks, comparison.
    for key in ["j", "x", "j", "x"] {
        scene.browser.press(key);
    }
    scene.expect(
        "marks",
        "[...document.querySelectorAll('tbody input:checked')].length",
        &json!(2),
        "marked rows",
    );
    scene.browser.press("k");
    scene.expect("rows", "document.activeElement.textContent", &json!(RUN), "the row before");
    scene.browser.press("c");
    scene.until_there(".forest");
    scene.expect(
        "compare",
        "location.pathname + document.activeElement.tagName",
        &json!("/compareH1"),
        "c compares, and the focus is at the title",
    );
    assert_eq!(
        scene.front.sent("POST /api/compare").unwrap()["runs"],
        json!([RUN, "20261123T194402Z-webstone"])
    );
    // In a text field, these keys are letters.
    scene.browser.press("/");
    scene.until_there("main tbody tr");
    scene.browser.until("document.activeElement.id === 'search'");
    for key in ["n", "l", "x"] {
        scene.browser.press(key);
    }
    scene.expect(
        "search",
        "location.pathname + document.activeElement.value",
        &json!("/librarynlx"),
        "letters are letters",
    );
    scene.browser.until("location.search === '?q=nlx'");
    scene.browser.evaluate("document.activeElement.blur()");
    scene.browser.press("n");
    scene.until_there(".plan .facts");
    scene.browser.press("l");
    scene.until_there("main table.library");
    scene.browser.evaluate("history.back()");
    scene.until_there(".plan .facts");
    scene.complaints("keyboard");
    scene.finish();
}

#[test]
fn a_form_says_what_was_typed_and_where_it_is_wrong() {
    let Some(mut scene) = Scene::start() else { return };
    scene.open(&[], "/new", ".plan .facts");
    let filled = "document.querySelector('[name=\"load.clients\"]').value + document.querySelector('[name=\"server.software\"]').value";
    scene.expect("new", filled, &json!("5,10,20,40nginx"), "the form has what the testbed has");
    scene.browser.evaluate("document.querySelector('[name=\"load.clients\"]').select(), document.querySelector('[name=\"load.clients\"]').focus()");
    scene.browser.type_text("64,128");
    let asked = |scene: &Scene| {
        scene.front.sent("POST /api/check").and_then(|sent| sent.pointer("/spec/load/clients").cloned())
    };
    for _ in 0..2000 {
        if asked(&scene) == Some(json!("64,128")) {
            break;
        }
        std::thread::sleep(std::time::Duration::from_millis(30));
    }
    assert_eq!(asked(&scene), Some(json!("64,128")), "what was typed is checked");
    // Wrong: the message is at the field, and the focus goes there.
    scene.open(&["wrong"], "/new", ".field [aria-invalid=true]");
    scene.browser.evaluate("document.querySelector('.start .primary').focus()");
    scene.browser.press("Enter");
    scene.browser.until("document.activeElement.name === 'load.duration'");
    let told = "document.getElementById(document.activeElement.getAttribute('aria-describedby').split(' ')[1]).textContent.includes('6 parsecs')";
    scene.expect("wrong", told, &json!(true), "the message at the field");
    // Busy: it can wait for its turn.
    scene.open(&["busy"], "/new", ".plan .facts");
    scene.browser.evaluate("document.querySelector('.start .primary').click()");
    scene.until_there(".start [role=alert] button");
    scene.front.set(&[]);
    scene.browser.evaluate("document.querySelector('.start [role=alert] button').click()");
    scene.browser.until("location.pathname === '/live/on'");
    assert_eq!(scene.front.sent("POST /api/runs").unwrap()["queue"], json!(true));
    scene.complaints("form");
    scene.finish();
}

#[test]
fn a_live_page_stops_in_two_steps_and_comes_back_after_a_loss() {
    let Some(mut scene) = Scene::start() else { return };
    scene.open(&[], "/live/on", "main tbody tr:nth-child(2)");
    let hidden = "[...document.querySelectorAll('.now button')].filter(b => b.checkVisibility()).map(b => b.textContent)";
    scene.expect("live", hidden, &json!(["Stop"]), "one button at first");
    scene.browser.evaluate("document.querySelector('.now button').click()");
    scene.browser.until("document.querySelector('.now button.danger').checkVisibility()");
    assert_eq!(scene.front.sent("POST /api/live/on/stop").unwrap(), json!({ "now": false }));
    scene.browser.evaluate("document.querySelector('.now button.danger').click()");
    scene.browser.until("document.querySelector('.now button.danger').disabled");
    scene.browser.until("document.querySelector('.now').textContent.includes('Stopping at once')");
    assert_eq!(scene.front.sent("POST /api/live/on/stop").unwrap(), json!({ "now": true }));
    let rate = "document.querySelector('.tiles.live .value').textContent";
    let p99s = "['.tiles.live > :nth-child(3) .value', 'table.percentiles td:nth-child(3)'].map(it => document.querySelector(it).textContent)";
    scene.expect("live", p99s, &json!(["7.20 ms", "7.20 ms"]), "one value of one figure");
    // Another level's charts do not change what is shown of the level that runs.
    scene.browser.until(&format!("{rate} !== '–'"));
    let now = scene.browser.evaluate(rate);
    scene.browser.evaluate("(() => { const pick = document.querySelector('select[name=level]'); pick.value = '0'; pick.dispatchEvent(new Event('change')); })()");
    scene
        .browser
        .until("[...document.querySelectorAll('figure')].some(it => it.innerHTML.includes('5 clients: '))");
    scene.expect("another level", rate, &now, "the rate of the level that runs");
    // The next level warms up: the figures of the one before are not its own.
    scene.expect("measuring", &format!("{rate} !== '–'"), &json!(true), "a rate");
    scene.open(&[], "/live/warming", ".now .phase:not(:empty)");
    scene.expect("warming", rate, &json!("–"), "the rate before there is one");
    // The stream breaks, is requested again, and the page continues with what comes then.
    scene.open(&[], "/live/lost", "main .verdict.noisy");
    scene.expect(
        "lost",
        "document.querySelector('main .verdict').textContent.startsWith('Connection lost; trying again')",
        &json!(true),
        "it says so",
    );
    scene.open(&[], "/live/done", "main .verdict.valid a");
    scene.expect(
        "done",
        "document.querySelector('main .verdict a').getAttribute('href')",
        &json!(format!("/run/{RUN}")),
        "the way to the report",
    );
    scene.complaints("live");
    scene.finish();
}

#[test]
fn figures_are_told_as_what_they_are() {
    let Some(mut scene) = Scene::start() else { return };
    // A run that was stopped is incomplete, not complete and INVALID.
    scene.open(&["stopped"], "/live/done", "main .verdict a");
    let told = "document.querySelector('main .verdict').className + ': ' + document.querySelector('main .verdict').textContent";
    let wanted = json!("verdict noisy: Interrupted; what was measured is keptOpen the report");
    scene.expect("stopped", told, &wanted, "how it ended");
    scene.open(&["unbounded"], "/compare?run=a&run=b", ".forest");
    let ends = "document.querySelector('td.interval small').textContent";
    scene.expect("unbounded", ends, &json!("+4.1 % to ∞"), "an interval with an open end");
    let drawn = "document.querySelector('.forest .error').getAttribute('d').includes('H196.0')";
    scene.expect("unbounded", drawn, &json!(true), "that it reaches the edge");
    scene.open(&[], "/run/20261120T070000Z-find", "iframe");
    let kept = "document.querySelector('main .verdict').textContent.includes('SLO kept at 32,000 arrivals/s, p99 12.6 ms.')";
    scene.expect("kept", kept, &json!(true), "the load that keeps the SLO");
    let peak = "document.querySelector('main .verdict').textContent.includes('Peak')";
    scene.expect("kept", peak, &json!(false), "a load is no peak");
    // Two cells of a series, both with one level of one load, and a level of another load.
    let levels = "import('/assets/points.js').then(({ add_point }) => { const levels = []; \
        for (const [label, at] of [['5', 1], ['5', 2], ['5', 1], ['9', 2]]) add_point(levels, 1, label, [at]); \
        return levels.map(one => one.points.length); })";
    scene.expect("points", levels, &json!([2, 1, 1]), "points of each level");
    let spans = "import('/assets/format.js').then(({ span }) => [3599, 3600, 5400, 7199].map(span))";
    scene.expect("spans", spans, &json!(["59 min", "1 h", "1 h 30 min", "2 h"]), "spans of time");
    scene.complaints("figures");
    scene.finish();
}

#[test]
fn without_the_token_there_is_one_page_and_the_token_does_not_stay_in_the_address() {
    let Some(mut scene) = Scene::start() else { return };
    scene.expect("token", "location.hash", &json!(""), "the token is out of the address");
    scene.browser.evaluate("sessionStorage.clear()");
    scene.open(&[], "/trash", "#token");
    scene.expect("connect", "location.pathname", &json!("/connect"), "where one is led");
    scene.browser.evaluate("document.getElementById('token').focus()");
    scene.browser.type_text("nonsense");
    scene.browser.press("Enter");
    scene.until_there("main [role=alert]");
    scene.browser.evaluate("document.getElementById('token').value = ''");
    let address = format!("http://127.0.0.1:{}/#token={}", scene.front.port, scene.front.token);
    scene.browser.type_text(&address);
    scene.browser.press("Enter");
    scene.browser.until("location.pathname === '/trash'");
    scene.until_there("main tbody tr");
    // A token that is no longer valid.
    scene.browser.evaluate("sessionStorage.setItem('webstone-token', 'b'.repeat(64))");
    scene.open(&[], "/trash", "#token");
    scene.complaints("connect");
    scene.finish();
}

#[test]
fn notes_are_kept_and_a_run_goes_to_the_trash_and_back() {
    let Some(mut scene) = Scene::start() else { return };
    scene.open(&[], "/library", "main tbody tr");
    scene.browser.evaluate("document.querySelector('button.note-button').focus()");
    scene.browser.press("Enter");
    scene.until_there(".drawer textarea");
    scene.browser.until("document.activeElement.name === 'notes'");
    scene.browser.type_text("X");
    scene.browser.evaluate(
        "[...document.querySelectorAll('.drawer button')].find(b => b.textContent === 'Save').click()",
    );
    scene
        .browser
        .until("document.querySelector('button.note-button').textContent === 'kept #baseline #kept'");
    let sent = scene.front.sent(&format!("POST /api/runs/{RUN}/notes")).unwrap();
    assert!(sent["text"].as_str().unwrap().contains('X') && sent["tags"] == json!(["baseline"]), "{sent}");
    scene.browser.evaluate("document.querySelector('.drawer .danger').click()");
    scene.browser.until("document.querySelectorAll('main tbody tr').length === 7 && document.activeElement.textContent === 'Restore'");
    scene.browser.press("Enter");
    scene.browser.until("document.querySelectorAll('main tbody tr').length === 8");
    scene.complaints("library");
    scene.finish();
}

#[test]
fn the_scripts_have_the_types_that_their_comments_say() {
    let Some(compiler) = module("typescript/bin/tsc") else { return };
    let assets = Path::new(env!("CARGO_MANIFEST_DIR")).join("assets");
    let mut files: Vec<PathBuf> =
        std::fs::read_dir(assets).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.retain(|path| path.extension().is_some_and(|ending| ending == "js"));
    files.sort();
    let checked = Command::new("node")
        .arg(compiler)
        .args(["--noEmit", "--checkJs", "--allowJs", "--strict", "--target", "es2023"])
        .args(["--lib", "es2023,dom,dom.iterable,dom.asynciterable", "--module", "esnext"])
        .args(["--moduleResolution", "bundler"])
        .args(&files)
        .output()
        .unwrap();
    assert!(files.len() > 10 && checked.status.success(), "{}", String::from_utf8_lossy(&checked.stdout));
}
