//! The HTML report in a real browser: nothing fails, nothing is fetched, everything is there, nothing overlaps, in both themes and at the
//! width of a phone. `WEBSTONE_PICTURES=DIR` keeps screenshots; `WEBSTONE_PAGE=FILE` also checks a report of your own.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on may panic")]

#[allow(dead_code, unreachable_pub, reason = "the tests of the browser front use more of it")]
mod devtools;
#[path = "../records/mod.rs"]
mod records;

use std::path::Path;

use base64::Engine;
use devtools::Browser;
use serde_json::{Value, json};
use webstone_model::record::RunRecord;
use webstone_report::{
    Format, Options, history, like, render_all, render_comparison, render_duel, render_series,
};

/// Widths in pixels: a phone, a tablet, desks.
const WIDTHS: [u32; 4] = [390, 820, 1280, 1440];

fn written(directory: &Path, name: &str, records: &[RunRecord]) -> std::path::PathBuf {
    let path = directory.join(name);
    std::fs::write(&path, render_all(records, Format::Html, &Options::default()).unwrap()).unwrap();
    path
}

#[test]
fn a_report_opens_without_error_and_fetches_nothing() {
    let Some(program) = devtools::installed() else {
        println!("skipped: no chromium is installed");
        return;
    };
    let directory = tempfile::tempdir().unwrap();
    let mut browser = Browser::start(&program);
    let mut pages = vec![
        ("sweep".to_owned(), written(directory.path(), "sweep.html", &[records::small()])),
        ("open".to_owned(), written(directory.path(), "open.html", &[records::open_loop()])),
        ("errors".to_owned(), written(directory.path(), "errors.html", &[records::errors()])),
        ("pages".to_owned(), written(directory.path(), "pages.html", &[records::many_pages()])),
        ("nothing".to_owned(), written(directory.path(), "nothing.html", &[records::nothing()])),
        (
            "several".to_owned(),
            written(
                directory.path(),
                "several.html",
                &[records::small(), records::many_pages(), records::interrupted()],
            ),
        ),
        (
            "hostile".to_owned(),
            written(directory.path(), "hostile.html", &[records::hostile(), records::hostile()]),
        ),
    ];
    for (name, runs) in [("history", vec![]), ("beside", vec![records::small(), records::open_loop()])] {
        let all = history::published();
        let chosen: Vec<_> = all.iter().collect();
        let path = directory.path().join(format!("{name}.html"));
        std::fs::write(&path, history::render(&chosen, &runs, Format::Html, &Options::default()).unwrap())
            .unwrap();
        pages.push((name.to_owned(), path));
    }
    pages.push(("comparison".to_owned(), directory.path().join("comparison.html")));
    let compared = records::before_and_after();
    let comparison = render_comparison(&records::comparison(), &compared, Format::Html, &Options::default());
    std::fs::write(&pages[pages.len() - 1].1, comparison.unwrap()).unwrap();
    pages.push(("series".to_owned(), directory.path().join("series.html")));
    let (series, cells) = records::series();
    let page = render_series(&series, &cells, &[], Format::Html, &Options::default()).unwrap();
    std::fs::write(&pages[pages.len() - 1].1, page).unwrap();
    pages.push(("duel".to_owned(), directory.path().join("duel.html")));
    let duel = webstone_model::fixture::duel("d", &[("old", 10_000), ("new", 10_240)], 12);
    let page = render_duel(&duel, Format::Html, &Options::default()).unwrap();
    std::fs::write(&pages[pages.len() - 1].1, page).unwrap();
    pages.push(("like".to_owned(), directory.path().join("like.html")));
    let sources = vec![like::Source { name: "nginx".to_owned(), records: vec![records::paper::netsite()] }];
    let page = like::render("proliant", sources, &[], Format::Html, &Options::default()).unwrap();
    std::fs::write(&pages[pages.len() - 1].1, page).unwrap();
    if let Some(own) = std::env::var_os("WEBSTONE_PAGE") {
        pages.push(("own".to_owned(), std::fs::canonicalize(own).unwrap()));
    }
    let mut wrong = Vec::new();
    for (name, path) in &pages {
        looks_right(&mut Seen { browser: &mut browser, name, wrong: &mut wrong }, path);
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Of a run with four levels, which is what `webstone run` makes.
#[test]
fn a_run_prints_in_three_pages() {
    let Some(program) = devtools::installed() else {
        println!("skipped: no chromium is installed");
        return;
    };
    let directory = tempfile::tempdir().unwrap();
    let mut browser = Browser::start(&program);
    let path = written(directory.path(), "sweep.html", &[records::small()]);
    browser.open(&path);
    for (paper, width, height) in [("A4", 8.27, 11.69), ("Letter", 8.5, 11.0)] {
        let asked = json!({ "paperWidth": width, "paperHeight": height, "printBackground": true });
        let printed = browser.call("Page.printToPDF", asked);
        let pdf =
            base64::engine::general_purpose::STANDARD.decode(printed["data"].as_str().unwrap()).unwrap();
        let pages =
            pdf.windows(11).filter(|text| *text == b"/Type /Page" || *text == b"/Type/Page\n").count();
        let lists = pdf.windows(12).filter(|text| *text == b"/Type /Pages").count();
        assert!((1..=3).contains(&(pages - lists)), "{paper}: {} pages", pages - lists);
    }
}

#[test]
fn a_keyboard_chooses_levels_switches_lines_and_zooms() {
    let Some(program) = devtools::installed() else {
        println!("skipped: no chromium is installed");
        return;
    };
    let directory = tempfile::tempdir().unwrap();
    let mut browser = Browser::start(&program);
    let path = written(directory.path(), "sweep.html", &[records::small()]);
    browser.show_as(1280, 900, "light");
    browser.open(&path);
    let mut wrong = Vec::new();
    let mut page = Seen { browser: &mut browser, name: "sweep", wrong: &mut wrong };
    levels(&mut page);
    lines(&mut page);
    zoom(&mut page);
    page.expect(
        "(location.hash = '#def-identities', new Promise(done => setTimeout(() => done(document.querySelector('#definitions details').open), 100)))",
        json!(true),
        "a link opens the definitions",
    );
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

fn levels(page: &mut Seen<'_>) {
    let shown = "[...document.querySelectorAll('details.level')].filter(d => d.checkVisibility()).map(d => d.dataset.level)";
    page.expect(shown, json!(["5 clients", "10 clients", "20 clients"]), "at first every level has its part");
    page.browser.evaluate("document.querySelector('#level select').focus()");
    // The options are all, 5, 10 and 20 clients.
    page.browser.press("ArrowDown");
    page.browser.press("ArrowDown");
    page.expect(shown, json!(["10 clients"]), "the chosen level alone is shown");
    page.expect(
        "document.querySelector('details.level:not([hidden])').open",
        json!(true),
        "the chosen level is unfolded",
    );
    let rows =
        "[...new Set([...document.querySelectorAll('tr.chosen')].map(r => r.cells[0].textContent))].join()";
    page.expect(rows, json!("10"), "its rows are marked");
    page.browser.press("Home");
    page.expect(shown, json!(["5 clients", "10 clients", "20 clients"]), "all levels come back");
}

fn lines(page: &mut Seen<'_>) {
    let drawn = "[...document.querySelectorAll('#chart-percentiles-t')][0].parentNode.querySelectorAll('.series:not(.off)').length";
    page.expect(drawn, json!(4), "four percentiles");
    page.browser.evaluate("document.getElementById('chart-percentiles-t').closest('figure').querySelector('.legend button').focus()");
    page.browser.press(" ");
    page.expect(drawn, json!(3), "the legend switches a line off");
    page.expect("document.activeElement.getAttribute('aria-pressed')", json!("false"), "and says so");
    page.browser.press(" ");
    page.expect(drawn, json!(4), "and on");
}

fn zoom(page: &mut Seen<'_>) {
    page.browser.evaluate(
        "window.chart = document.getElementById('chart-requests_per_s-t').parentNode, chart.focus()",
    );
    let path = "chart.querySelector('.line').getAttribute('d')";
    let whole = page.browser.evaluate(path);
    let reset = "chart.parentNode.querySelector('button.reset').hidden";
    page.expect(reset, json!(true), "the whole is shown");
    page.browser.press("End");
    page.expect(
        "document.getElementById('said').textContent.startsWith('20, ') && !document.getElementById('readout').hidden",
        json!(true),
        "the last point is read out",
    );
    page.browser.press("+");
    let zoomed = page.browser.evaluate(path);
    if zoomed == whole {
        page.wrong.push("+ does not zoom".to_owned());
    }
    page.expect(reset, json!(false), "there is a way back");
    let inside = "(f => [...chart.querySelectorAll('g.x text:not(.off)')].every(t => { const b = t.getBoundingClientRect(); return b.right <= f.right + 1 && b.left >= f.left - 1; }))(chart.getBoundingClientRect())";
    page.expect(inside, json!(true), "labels stay in the drawing");
    page.browser.press("0");
    page.expect(path, whole.clone(), "0 shows the whole again");
    page.browser.evaluate("chart.scrollIntoView()");
    let place = |page: &mut Seen<'_>, share: f64| {
        let at = format!(
            "(b => [b.left + b.width * {share}, b.top + b.height / 2])(chart.getBoundingClientRect())"
        );
        let at = page.browser.evaluate(&at);
        (at[0].as_f64().unwrap(), at[1].as_f64().unwrap())
    };
    let (from, to) = (place(page, 0.3), place(page, 0.6));
    page.browser.drag(from, to);
    page.expect(&format!("{path} !== {whole}"), json!(true), "a drag zooms");
    page.browser.evaluate("chart.parentNode.querySelector('button.reset').focus()");
    page.browser.press("Enter");
    page.expect(path, whole, "the button shows the whole again");
}

/// A page in the browser, and all that was found wrong with any page, so that one run shows everything.
struct Seen<'a> {
    browser: &'a mut Browser,
    name: &'a str,
    wrong: &'a mut Vec<String>,
}

impl Seen<'_> {
    /// Compares an expression in the page with what it should be.
    #[track_caller]
    fn expect(&mut self, expression: &str, wanted: Value, what: &str) {
        let found = self.browser.evaluate(expression);
        if found != wanted {
            self.wrong.push(format!("{}: {what}: {found}", self.name));
        }
    }
}

fn looks_right(page: &mut Seen<'_>, path: &Path) {
    page.browser.show_as(1280, 900, "light");
    page.browser.open(path);
    page.expect("document.querySelectorAll('main > section').length > 1", json!(true), "it has its sections");
    let dead = "[...document.querySelectorAll('a')].map(a => a.getAttribute('href'))
        .filter(href => !href.startsWith('#') || !document.getElementById(href.slice(1)))";
    page.expect(dead, json!([]), "links that lead nowhere");
    let twice = "(ids => ids.filter((id, n) => ids.indexOf(id) !== n))([...document.querySelectorAll('[id]')].map(e => e.id))";
    page.expect(twice, json!([]), "identifiers that are not unique");
    for width in WIDTHS {
        page.browser.show_as(width, 900, "light");
        let sideways = "document.documentElement.scrollWidth - innerWidth";
        page.expect(sideways, json!(0), &format!("{width} px: pixels that the page scrolls sideways"));
        page.expect(CLIPPED, json!([]), &format!("{width} px: what is cut off"));
        page.expect(OVERLAPS, json!([]), &format!("{width} px: texts of charts that overlap or stick out"));
        page.browser.picture(&format!("{}-{width}.png", page.name));
    }
    // No place depends on the theme, and no colour on the width, but for what a narrow screen leaves out.
    for (theme, width) in [("light", 1280), ("dark", 1280), ("dark", 390)] {
        page.browser.show_as(width, 900, theme);
        page.expect(FAINT, json!([]), &format!("{width} px, {theme}: text without contrast"));
        page.browser.picture(&format!("{}-{width}-{theme}.png", page.name));
    }
    accessible(page);
    printed(page);
    switch_and_readout(page);
    for event in page.browser.events.iter().filter(|event| is_trouble(event)) {
        page.wrong.push(format!("{}: {event}", page.name));
    }
    let requests: Vec<&str> = page
        .browser
        .events
        .iter()
        .filter(|event| event["method"] == "Network.requestWillBeSent")
        .filter_map(|event| event["params"]["request"]["url"].as_str())
        .filter(|url| !url.starts_with("data:"))
        .collect();
    if requests != [format!("file://{}", path.display())] {
        page.wrong.push(format!("{}: more than the file itself is asked for: {requests:?}", page.name));
    }
}

fn is_trouble(event: &Value) -> bool {
    match event["method"].as_str() {
        Some("Runtime.consoleAPICalled" | "Runtime.exceptionThrown" | "Page.javascriptDialogOpening") => true,
        Some("Log.entryAdded") => event["params"]["entry"]["level"] != "verbose",
        Some("Audits.issueAdded") => event["params"]["issue"]["code"] == "ContentSecurityPolicyIssue",
        _ => false,
    }
}

fn accessible(page: &mut Seen<'_>) {
    let unnamed = "[...document.querySelectorAll('svg.plot')].filter(svg => svg.getAttribute('role') !== 'img'
        || !svg.getAttribute('aria-labelledby').split(' ').every(id => document.getElementById(id)?.textContent)).length";
    page.expect(unnamed, json!(0), "charts without a name");
    let bare = "[...document.querySelectorAll('figure')].filter(f => !f.querySelector('table caption') && !f.querySelector('.changes, .lab')).length";
    page.expect(bare, json!(0), "charts without their data");
    let captions = "[...document.querySelectorAll('main table')].filter(t => !t.closest('#definitions') && !t.caption).length";
    page.expect(captions, json!(0), "tables without a caption");
    let headings = "[...document.querySelectorAll('h1,h2,h3,h4')].map(h => +h.tagName[1])
        .filter((level, n, all) => n && level > all[n - 1] + 1).length";
    page.expect(headings, json!(0), "headings that leave out a level");
    page.expect("document.querySelectorAll('header,main,nav,footer').length", json!(4), "landmarks");
    let folded =
        "document.querySelector('#definitions') && document.querySelector('#definitions details').open";
    if page.browser.evaluate(folded) == json!(true) {
        page.wrong.push(format!("{}: the definitions stand open", page.name));
    }
    let unreachable = "[...document.querySelectorAll('.scroll, pre')].filter(e => e.tabIndex !== 0).length";
    page.expect(unreachable, json!(0), "what scrolls and a keyboard cannot reach");
}

fn printed(page: &mut Seen<'_>) {
    page.browser.show_printed();
    page.browser.evaluate("dispatchEvent(new Event('beforeprint'))");
    let left = "['nav', '#definitions', '#theme', '#keys'].filter(part => document.querySelector(part)?.checkVisibility())";
    page.expect(left, json!([]), "what is of no use on paper");
    let folded =
        "[...document.querySelectorAll('details.printed, details.level')].filter(d => !d.open).length";
    page.expect(folded, json!(0), "folds that paper cannot open");
    let sideways = "document.documentElement.scrollWidth - innerWidth";
    page.expect(sideways, json!(0), "printed: pixels beyond the paper");
    page.browser.picture(&format!("{}-printed.png", page.name));
    page.browser.evaluate("dispatchEvent(new Event('afterprint'))");
}

fn switch_and_readout(page: &mut Seen<'_>) {
    page.browser.show_as(1280, 900, "light");
    let paper = "getComputedStyle(document.body).backgroundColor";
    let light = page.browser.evaluate(paper);
    // The order is automatic, light, dark.
    page.browser
        .evaluate("document.getElementById('theme').click(); document.getElementById('theme').click()");
    let dark = page.browser.evaluate(paper);
    if dark == light {
        page.wrong.push(format!("{}: the switch does not make it dark", page.name));
    }
    page.browser.evaluate("document.getElementById('theme').click()");
    page.expect(paper, light, "the third press makes it as the system has it");
    let shown = "(() => { const line = document.querySelector('svg.plot .line'); if (!line) return true;
        const svg = line.closest('svg'), box = svg.getBoundingClientRect();
        svg.dispatchEvent(new PointerEvent('pointermove', { bubbles: true, clientX: box.left + box.width / 2, clientY: box.top + 50 }));
        const out = document.getElementById('readout'); return !out.hidden && [...svg.querySelectorAll('.series')].some(s => out.textContent.includes(s.dataset.name)); })()";
    page.expect(shown, json!(true), "the read-out shows the values under the pointer");
}

/// What is wider than its place: tables on a desktop (a narrow screen scrolls them), and everything else anywhere.
const CLIPPED: &str = "[...document.querySelectorAll('main *, header *')].filter(e => e.clientWidth && e.checkVisibility())
    .filter(e => e.scrollWidth > e.clientWidth + 1 && !['visible'].includes(getComputedStyle(e).overflowX))
    .filter(e => innerWidth >= 1280 || !e.matches('.scroll, pre')).filter(e => !e.matches('pre, h2, caption'))
    .map(e => e.className + ' ' + (e.getAttribute('aria-label') || e.textContent).slice(0, 60) + ' ' + (e.scrollWidth - e.clientWidth))";

/// Texts of a chart that lie over one another, or outside of their drawing.
const OVERLAPS: &str = "[...document.querySelectorAll('svg.plot')].flatMap(svg => {
    const frame = svg.getBoundingClientRect();
    if (!svg.checkVisibility()) return [];
    const texts = [...svg.querySelectorAll('text')].map(t => ({ t: t.textContent, b: t.getBoundingClientRect() }));
    const found = texts.filter(({ b }) => b.left < frame.left - 1 || b.right > frame.right + 1 || b.top < frame.top - 2 || b.bottom > frame.bottom + 2).map(x => svg.id + ' out: ' + x.t);
    texts.forEach((a, i) => texts.slice(i + 1).forEach(c => {
        if (a.b.left < c.b.right - .5 && c.b.left < a.b.right - .5 && a.b.top < c.b.bottom - 2 && c.b.top < a.b.bottom - 2) found.push(a.t + ' / ' + c.t);
    }));
    return found; })";

/// Texts whose contrast against their background is below 4.5 : 1 (WCAG 2.2, 1.4.3).
const FAINT: &str = "(() => {
    const rgb = text => text.match(/[\\d.]+/g).map(Number);
    const light = c => { const [r, g, b] = c.slice(0, 3).map(v => (v /= 255) <= .04045 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4); return .2126 * r + .7152 * g + .0722 * b; };
    const behind = e => { for (; e; e = e.parentElement) { const c = rgb(getComputedStyle(e).backgroundColor); if (c.length < 4 || c[3] > 0) return c; } return [255, 255, 255]; };
    const found = new Set();
    for (const e of document.querySelectorAll('p,h1,h2,h3,h4,td,th,li,dt,dd,a,summary,figcaption,caption,button,strong,text')) {
        const style = getComputedStyle(e), front = rgb(e.tagName === 'text' ? style.fill : style.color);
        const a = light(front), b = light(behind(e)), ratio = (Math.max(a, b) + .05) / (Math.min(a, b) + .05);
        if (ratio < 4.5) found.add(e.tagName + '.' + e.className.baseVal + e.className + ' ' + ratio.toFixed(2));
    }
    return [...found]; })()";
