//! The HTML report as text: no text of a record becomes markup or script, nothing is loaded from outside, what is left
//! out is counted. What a browser makes of it is in `tests/browser`.

use webstone_model::record::{Disturbance, RunRecord};
use webstone_report::{Format, Options, ReportError, render, render_all, render_comparison};

use crate::records;

fn html(record: &RunRecord) -> String {
    String::from_utf8(render(record, Format::Html, &Options::default()).unwrap()).unwrap()
}

fn html_of(records: &[RunRecord]) -> String {
    String::from_utf8(render_all(records, Format::Html, &Options::default()).unwrap()).unwrap()
}

#[test]
fn text_of_a_record_is_never_markup() {
    for page in [html(&records::hostile()), html_of(&[records::hostile(), records::small()])] {
        assert!(page.contains("&lt;script&gt;console.error("), "the text itself is shown");
        assert!(!page.contains("<script>console"), "as text, and not as a script");
        assert!(!page.contains("<img"), "nor as an image");
        assert_eq!(page.matches("<script").count(), 1, "the one script is the report's own");
        assert_eq!(page.matches("</script>").count(), 1);
        // No text can end an attribute: every quote of the record is escaped.
        assert!(!page.contains("\"'&gt;"));
    }
}

#[test]
fn nothing_may_be_fetched_and_nothing_refers_elsewhere() {
    let page = html(&records::small());
    assert!(page.contains("default-src 'none'; style-src 'sha256-"), "{}", &page[..600]);
    assert!(
        !page.contains("'unsafe-inline'") && !page.contains(" style=\""),
        "styles stand in the style sheet"
    );
    for reference in [" src=", "@import", "url(", "<iframe", "<object", "http-equiv=\"refresh\""] {
        assert!(!page.contains(reference), "{reference}");
    }
    for link in page.split("href=\"").skip(1) {
        assert!(link.starts_with('#') || link.starts_with("data:,"), "{}", &link[..40]);
    }
}

#[test]
fn the_verdict_stands_above_the_headline_and_both_above_the_charts() {
    let page = html(&records::small());
    let place = |text: &str| page.find(text).unwrap_or_else(|| panic!("no {text}"));
    let order = [
        "<section id=\"verdict\"",
        "<section id=\"headline\"",
        "<section id=\"notes\"",
        "<section id=\"load\"",
        "<section id=\"tables\"",
        "<section id=\"disclosure\"",
        "<section id=\"definitions\"",
    ];
    assert!(order.map(place).is_sorted());
}

#[test]
fn charts_hold_the_values_of_the_tables() {
    let page = html(&records::small());
    // The level table of tests/golden/small-80.txt: 1,813, 1,803 and 1,818 connections per second at 5, 10, 20 clients.
    assert!(page.contains("data-x=\"5|10|20\" data-y=\"1,813|1,803|1,818\""), "{page}");
}

#[test]
fn pages_that_are_left_out_are_counted() {
    let page = html(&records::many_pages());
    assert!(page.contains("The 20 pages with the most hits; 10 more, with "), "{page}");
}

#[test]
fn a_chart_of_a_single_point_is_left_out() {
    let mut record = records::hit();
    record.iterations.truncate(1);
    record.iterations[0].measured.seconds.0.truncate(1);
    record.iterations[0].measured.window_ns = 1_000_000_000;
    let page = html(&record);
    assert!(!page.contains("chart-requests_per_s"), "one second is no line");
    assert!(
        !page.contains("<section id=\"load\"") && !page.contains("<section id=\"pages\""),
        "nor one level, nor one page"
    );
    assert!(page.contains("The windows are too short to be drawn second by second."));
    assert!(page.contains("id=\"chart-parts-t\""), "parts of a single level add up to something");
    assert!(!page.contains("id=\"level\""), "there is no level to choose");
}

#[test]
fn definitions_are_folded_and_every_figure_leads_to_its_own() {
    let page = html(&records::small());
    let definitions = page.split("<section id=\"definitions\"").nth(1).unwrap();
    assert!(definitions.split("<details>").next().unwrap().len() < 200, "the fold begins at once");
    assert!(page.contains("href=\"#def-figures-of-a-level-request_rate\">Requests/s</a>"));
}

#[test]
fn several_records_carry_the_judgement_of_the_comparison() {
    let page = html_of(&records::before_and_after());
    let comparison = records::comparison();
    let judged = comparison.candidates[0].levels[0].rows.iter().filter(|row| row.finding.is_difference());
    let part = page.split("<section id=\"comparison\"").nth(1).unwrap().split("</section>").next().unwrap();
    let mut count = 0;
    for row in judged {
        count += 1;
        assert!(
            part.contains(&format!("<td class=\"left\">{}</td>", row.finding.word(row.metric))),
            "{row:?}"
        );
    }
    assert!(count > 0, "the second is slower");
    assert!(
        part.contains("id=\"chart-changes-1-10-t\"") && part.contains("data-level=\"10 clients\""),
        "{part}"
    );
    assert!(page.find("id=\"verdict\"") < page.find("id=\"comparison\""));
}

#[test]
fn figures_that_were_not_measured_alike_are_compared_only_when_that_is_asked_for() {
    let [a, mut b] = records::before_and_after();
    b.spec.client.http = webstone_model::spec::HttpVersion::Http10;
    let records = [a, b];
    let page = html_of(&records);
    assert!(page.contains("not compared, because the two runs were not measured alike"));
    assert!(page.contains("<dt>not comparable</dt>") && !page.contains("id=\"chart-changes-1-10-t\""));
    let forced = webstone_judge::comparison::compare(&[&records[0], &records[1]], &Default::default());
    let page = render_comparison(&forced, &records, Format::Html, &Options::default()).unwrap();
    let page = String::from_utf8(page).unwrap();
    assert!(page.contains("not comparable") && page.contains("id=\"chart-changes-1-10-t\""));
}

#[test]
fn several_records_share_a_chart_and_say_in_what_they_differ() {
    let mut quick = records::small();
    quick.spec.name = "quick".to_owned();
    quick.spec.client.parallel = 4;
    let page = html_of(&[records::small(), quick]);
    let chart = page.split("id=\"chart-latency_mean_s-t\"").nth(1).unwrap().split("</svg>").next().unwrap();
    assert!(chart.contains("data-name=\"webstone\"") && chart.contains("data-name=\"quick\""), "{chart}");
    assert!(chart.contains("series s0") && chart.contains("series s1"));
    assert!(page.contains("<th scope=\"row\">client.parallel</th><td>1</td><td>4</td>"), "{page}");
    assert!(!page.contains("<th scope=\"row\">client.http</th>"), "what is the same is not listed");
}

#[test]
fn records_of_one_name_go_by_their_runs() {
    let mut later = records::small();
    later.id = "20261122-080000-webstone".to_owned();
    let page = html_of(&[records::small(), later]);
    assert!(
        page.contains("data-name=\"20261121-100405-webstone\"")
            && page.contains("data-name=\"20261122-080000-webstone\"")
    );
    let page = html_of(&[records::small(), records::small()]);
    assert!(page.contains("data-name=\"20261121-100405-webstone (2)\""));
}

#[test]
fn a_selection_that_holds_nothing_names_its_record() {
    let options = Options { clients: Some(64), ..Options::default() };
    let error = render_all(&[records::hit(), records::small()], Format::Html, &options).unwrap_err();
    assert!(matches!(error, (1, ReportError::NothingSelected { .. })), "{error:?}");
}

#[test]
fn what_holds_nothing_says_so() {
    assert!(html(&records::nothing()).contains("Nothing was measured: the record holds no timed run."));
    let void = html(&records::void_only());
    assert!(void.contains("Only void windows were measured: the record holds 1 void timed run"));
    assert!(void.contains(": 10 clients: worker 0 of the load generator"));
    assert!(
        html(&records::refused()).contains("0 of 600 requests")
            || html(&records::refused()).contains("600 of 600 requests")
    );
    assert!(!html(&records::refused()).contains("NaN"));
    assert!(!html(&records::without_histograms()).contains("id=\"chart-distribution-t\""));
}

#[test]
fn a_cause_is_told_once_with_the_iterations_that_share_it() {
    let mut record = records::small();
    for run in &mut record.iterations {
        run.measured.generator.workers[0].user_ns = run.measured.window_ns;
        run.measured.generator.workers[0].system_ns = 0;
    }
    let page = html(&record);
    let verdict = page.split("id=\"load\"").next().unwrap();
    assert_eq!(verdict.matches("of the load generator used 100.0 % of its CPU").count(), 1, "{verdict}");
    assert_eq!(verdict.matches("iteration 2 (100.0 %)").count(), 3, "of 3 levels of 2 iterations: {verdict}");
}

#[test]
fn cautions_stand_in_the_verdict_and_in_markdown() {
    let mut record = records::small();
    record.iterations[0].measured.generator.workers[0].run_queue_ns = Some(600_000_000);
    record.iterations[1].measured.seconds.0.pop();
    let markdown =
        String::from_utf8(render(&record, Format::Markdown, &Options::default()).unwrap()).unwrap();
    for text in [html(&record).split("id=\"load\"").next().unwrap(), &markdown] {
        assert!(text.contains("on CPU 1 lost 10.0 % of its CPU time: other programs used it"), "{text}");
        assert!(text.contains("the histograms and the series lack responses"), "{text}");
    }
}

#[test]
fn connect_times_that_are_the_event_loops_are_a_caution() {
    let said = |lag_ns: u64| {
        let mut record = records::small();
        for run in &mut record.iterations {
            let lag = &mut run.measured.generator.connect_lag;
            *lag = Default::default();
            lag.record(lag_ns);
        }
        let text = String::from_utf8(render(&record, Format::Text, &Options::default()).unwrap()).unwrap();
        text.split_whitespace().collect::<Vec<_>>().join(" ")
    };
    // Connects take from 40 to 70 µs.
    let warned = said(30_000);
    assert!(warned.contains("OWN DELAY: more than 10 % of the median connect time is"), "{warned}");
    assert!(warned.contains("30.0 µs of "), "{warned}");
    assert!(!said(3_000).contains("of the median connect time is"));
}

#[test]
fn others_on_the_generators_cpu_are_a_caution_from_one_percent_on() {
    let said = |looked_ns: u64, taken_ns: u64| {
        let mut record = records::small();
        for run in &mut record.iterations {
            let seen = Disturbance { looked_ns, taken_ns, longest_ns: 2_000_000 };
            run.host.get_or_insert_default().disturbance = Some(seen);
        }
        let text = String::from_utf8(render(&record, Format::Text, &Options::default()).unwrap()).unwrap();
        text.split_whitespace().collect::<Vec<_>>().join(" ")
    };
    let warned = said(100_000_000, 2_500_000);
    assert!(
        warned.contains("DISTURBED") && warned.contains("took 2.50 % of the generator's CPU"),
        "{warned}"
    );
    assert!(warned.contains("up to 2.00 ms at once"), "{warned}");
    assert!(!said(100_000_000, 900_000).contains("DISTURBED"));
    // Monitored for less than 50 ms in all: one tick could be all of it.
    assert!(!said(1_000_000, 900_000).contains("DISTURBED"));
}

#[test]
fn nothing_is_shown_below_zero() {
    let mut record = records::small();
    // One of two iterations of the level of 5 clients had almost no requests.
    record.iterations.iter_mut().find(|run| run.clients == 5).unwrap().measured.counts.succeeded = 10;
    let page = html(&record);
    assert!(page.contains("<td>0</td>"), "{page}");
    assert!(!page.contains("<td>-"), "{page}");
}

#[test]
fn on_a_logarithmic_axis_the_line_of_the_identity_runs_through_every_level() {
    let mut record = records::small();
    for run in &mut record.iterations {
        run.clients = match run.clients {
            5 => 1,
            10 => 10,
            _ => 100,
        };
    }
    let page = html(&record);
    let chart =
        page.split("id=\"chart-little_load_factor-t\"").nth(1).unwrap().split("</svg>").next().unwrap();
    let reference = chart.split("class=\"reference\" d=\"").nth(1).unwrap().split('"').next().unwrap();
    assert_eq!(reference.matches('L').count(), 2, "{reference}");
    assert!(chart.contains("clients, logarithmic scale"), "{chart}");
}

#[test]
fn an_open_loop_is_drawn_over_its_rates_with_both_latencies() {
    let page = html(&records::open_loop());
    let chart = |id: &str| {
        let chart = page.split(&format!("id=\"{id}-t\"")).nth(1).unwrap_or_else(|| panic!("no {id}"));
        chart.split("</svg>").next().unwrap().to_owned()
    };
    let pages = chart("chart-pages_per_minute");
    assert!(pages.contains("data-x=\"500|1,000|1,500\"") && pages.contains("class=\"reference\""), "{pages}");
    let parts = chart("chart-times-1500");
    for name in
        ["data-name=\"latency\"", "data-name=\"latency from the actual start\"", "data-name=\"schedule lag\""]
    {
        assert!(parts.contains(name), "{name}: {parts}");
    }
    assert!(page.contains("href=\"#def-open-loop-lag\""), "columns lead to their definitions");
}

#[test]
fn the_origin_behind_a_proxy_has_a_table_whose_columns_are_defined() {
    let page = html(&records::proxied());
    assert!(page.contains("requests to webstone"));
    let links: Vec<&str> = page.split("href=\"#").skip(1).filter_map(|rest| rest.split('"').next()).collect();
    assert!(links.contains(&"def-the-origin-behind-a-proxy-hit_percent"));
    for link in links {
        assert!(page.contains(&format!("id=\"{link}\"")), "#{link} leads nowhere");
    }
}
