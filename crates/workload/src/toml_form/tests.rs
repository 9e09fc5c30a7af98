//! Tests of the TOML form: what it can express, what it refuses and where, and that it reads back what it writes.

use indexmap::IndexMap;
use proptest::prelude::*;

use super::super::Page;
use super::super::{FeedFile, FileRequest, RequestDetail, read as read_workload, read_with};
use super::*;
use webstone_measure::units::Nanos;

const SHOP: &str = r#"
name = "shop"
description = "log in, look, leave"
think = "2s"

[feeds.users]
columns = ["name", "number"]
rows = [["ann", 1], ["bob", 2.5]]

[[pages]]
weight = 40
think = "500ms"
files = ["/", { url = "/logo.gif", size = 1200 }]

[[pages]]
url = "/login?u={{users.name}}"
method = "POST"
headers = { Content-Type = "text/plain", X-Y = "z" }
body = "n={{users.number}}&r={{rand 1 10}}"
status = 302

[[pages]]
dynamic = { size = 6250, writes = 4 }

[[pages]]
files = [{ dynamic = { path = "/cgi-bin/send", fill = "pattern" } }, "/x", { dynamic = { size = 7, head = "ready" } }]

[[pages]]
weight = 2

[[pages.files]]
url = "/y"

[[pages.files]]
url = "http://other:8080/z"
"#;

#[test]
fn everything_can_be_expressed() {
    let shop = read_workload(SHOP, "x.toml").unwrap();
    assert_eq!((shop.name.as_str(), shop.description.as_str()), ("shop", "log in, look, leave"));
    assert_eq!(shop.feeds["users"].rows, [["ann", "1"], ["bob", "2.5"]]);
    let weights: Vec<u64> = shop.pages.iter().map(|page| page.weight).collect();
    assert_eq!(weights, [40, 1, 1, 1, 2]);
    let pauses: Vec<u64> = shop.pages.iter().map(|page| page.think.0 / 1_000_000).collect();
    assert_eq!(pauses, [500, 2000, 2000, 2000, 2000]);
    assert_eq!(shop.pages[0].files[1].size, Some(1200));
    let login = &shop.pages[1].files[0];
    assert_eq!(login.detail.method.as_deref(), Some("POST"));
    assert_eq!(login.detail.status, Some(302));
    assert!(login.detail.headers.iter().any(|(name, value)| name == "X-Y" && value == "z"));
    assert_eq!(login.detail.body.as_deref(), Some("n={{users.number}}&r={{rand 1 10}}"));
    let send = &shop.pages[2].files[0];
    assert_eq!((&*send.url, send.size), ("/send?size=6250&writes=4", Some(6250)));
    let cgi = &shop.pages[3].files[0];
    assert_eq!((&*cgi.url, cgi.size), ("/cgi-bin/send?size=10240&fill=pattern", Some(10_240)));
    assert_eq!(&*shop.pages[3].files[2].url, "/send?size=7&head=ready");
    assert_eq!(&*shop.pages[4].files[1].url, "http://other:8080/z");
    assert_eq!(read_workload(crate::to_toml(&shop), "x.toml").unwrap(), shop);
    assert_eq!(read_workload(format!("\u{feff}{}", SHOP.replace('\n', "\r\n")), "x.toml").unwrap(), shop);
}

#[test]
fn the_records_own_form_keeps_everything_too() {
    let shop = read_workload(SHOP, "x.toml").unwrap();
    let json = serde_json::to_string(&shop).unwrap();
    assert_eq!(serde_json::from_str::<Workload>(&json).unwrap(), shop);
    let wrong = json.replacen("\"status\"", "\"state\"", 1);
    assert!(serde_json::from_str::<Workload>(&wrong).unwrap_err().to_string().contains("state"));
}

#[test]
fn a_wrong_text_names_place_and_expectation() {
    let users = "[feeds.u]\ncolumns = [\"a\"]\nrows = [[\"1\"]]\n";
    for (text, place, what, hint) in [
        ("[[pages]]\nurl = \"/\"\nwieght = 3\n".to_owned(), "3:1", "unknown field `wieght`", ""),
        ("[[pages]]\nfiles = [\"/a\", { ulr = \"/b\" }]\n".into(), "2:18", "unknown field `ulr`", ""),
        ("[page]\nurl = \"/\"\n".into(), "1:2", "unknown field `page`", ""),
        ("[[pages]]\nurl = \"/\"\nweight = -5\n".into(), "3:10", "found -5, expected the weight", ""),
        ("[[pages]]\nurl = \"/\"\nweight = 0\n".into(), "3:10", "found 0, expected the weight", ""),
        ("[[pages]]\nurl = \"/\"\nweight = 1.5\n".into(), "3:10", "expected a whole number", ""),
        ("[[pages]]\nurl = \"/\"\nweight = 99999999999999999999\n".into(), "3:10", "", ""),
        ("[[pages]]\nurl = \"/\"\nthink = \"soon\"\n".into(), "3:9", "`soon` is not a duration", ""),
        ("think = \"soon\"\n[[pages]]\nurl = \"/\"\n".into(), "1:9", "is not a duration", ""),
        ("[[pages]]\nurl = \"a.html\"\n".into(), "2:8", "`a.html` is not a URL", "slash"),
        ("[[pages]]\nurl = \"/a b\"\n".into(), "2:10", "` `", "%20"),
        ("[[pages]]\nfiles = [\"/a\",\n \"b\"]\n".into(), "3:3", "`b` is not a URL", "slash"),
        ("[[pages]]\nfiles = []\n".into(), "2:9", "without files", ""),
        ("[[pages]]\nfiles = [3]\n".into(), "2:10", "a file: \"/path\"", ""),
        ("[[pages]]\nweight = 3\n".into(), "1:1", "found no `url`", "{ url"),
        ("[[pages]]\nfiles = [\"/\"]\nsize = 3\n".into(), "3:8", "`size` beside `files`", "move"),
        ("[[pages]]\nurl = \"/\"\nmethod = \"get\"\n".into(), "3:10", "case-sensitive", "GET"),
        ("[[pages]]\nurl = \"/\"\nmethod = \"G T\"\n".into(), "3:10", "found `G T`", ""),
        (
            "[[pages]]\nurl = \"/\"\nstatus = 99\n".into(),
            "3:10",
            "found 99, expected the expected status",
            "",
        ),
        ("[[pages]]\nurl = \"/\"\nstatus = 600\n".into(), "3:10", "200 to 599", ""),
        ("[[pages]]\nurl = \"/\"\nheaders = { \"a b\" = \"c\" }\n".into(), "3:13", "name of a header", ""),
        ("[[pages]]\nurl = \"/\"\nheaders = { a = \"b\\n\" }\n".into(), "3:17", "value of a header", ""),
        ("[[pages]]\nurl = \"/\"\nbody = \"{{x\"\n".into(), "3:8", "no closing braces", "{{\"{{\"}}"),
        ("[[pages]]\nurl = \"/{{u.a}}\"\n".into(), "2:7", "there is no feed `u`", "[feeds.u]"),
        (
            "[[pages]]\nfiles = [{ dynamic = { path = \"/{{u.a}}\" } }]\n".into(),
            "2:31",
            "there is no feed `u`",
            "[feeds.u]",
        ),
        (
            format!("{users}[[pages]]\nurl = \"/{{{{v.a}}}}\"\n"),
            "5:7",
            "there is no feed `v`",
            "feeds are: u",
        ),
        (format!("{users}[[pages]]\nurl = \"/{{{{u.b}}}}\"\n"), "5:7", "no column `b`", "columns are: a"),
        ("[[pages]]\ndynamic = { fill = \"noise\" }\n".into(), "2:20", "expected a fill", ""),
        ("[[pages]]\ndynamic = { head = \"none\" }\n".into(), "2:20", "expected a head: built or ready", ""),
        ("[[pages]]\ndynamic = { writes = 0 }\n".into(), "2:22", "number of writes", ""),
        ("[[pages]]\ndynamic = { path = \"/s?x\" }\n".into(), "2:20", "holds a query", "`url`"),
        ("[[pages]]\nurl = \"/\"\ndynamic = {}\n".into(), "3:11", "`dynamic` beside `url`", "path"),
        (
            "[[pages]]\nurl = \"/a\"\nsize = 1\n[[pages]]\nurl = \"/a\"\nsize = 2\n".into(),
            "5:7",
            "size 2 here and 1 before",
            "",
        ),
        ("[feeds.u]\ncolumns = [\"a\"]\n".into(), "2:11", "`u` has no rows", "rows ="),
        ("[feeds.u]\nrows = [[1]]\n".into(), "2:9", "`u` has no columns", "columns ="),
        (
            "[feeds.u]\ncolumns = [\"a\"]\nrows = [[1],\n[1, 2]]\n".into(),
            "4:1",
            "a row of 2 values, expected 1",
            "",
        ),
        ("[feeds.u]\ncolumns = [\"a\", \"a\"]\nrows = [[1, 2]]\n".into(), "2:11", "two columns `a`", ""),
        ("[feeds.u]\ncolumns = [\"a\"]\nrows = []\n".into(), "2:11", "`u` is empty", ""),
        ("[feeds.u]\nfile = \"u.csv\"\n".into(), "2:8", "not available here", ""),
        ("name = \"x\"\n".into(), "2:1", "found no pages", "[[pages]]"),
        ("name = \"x\n".into(), "1:", "", ""),
        ("[[pages]]\nurl = \"/\"\nurl = \"/\"\n".into(), "3:1", "duplicate key", ""),
    ] {
        let error = read_workload(&text, "w.toml").unwrap_err();
        let shown = error.to_string();
        assert!(shown.starts_with(&format!("w.toml:{place}")), "{text:?}: {shown}");
        assert!(shown.contains(what), "{text:?}: {shown}");
        assert!(error.hint.clone().unwrap_or_default().contains(hint), "{text:?}: {:?}", error.hint);
        assert!(!shown.contains('\n'), "{shown}");
    }
}

#[test]
fn places_are_right_after_many_pages() {
    let mut text = String::from("name = \"é\"\n");
    for number in 0..1000 {
        text += &format!("[[pages]]\nurl = \"/{number}\"\n");
    }
    assert_eq!(read_workload(&text, "w.toml").unwrap().pages.len(), 1000);
    let error = read_workload(format!("{text}[[pages]]\nulr = 1\n"), "w.toml").unwrap_err();
    assert!(error.to_string().starts_with("w.toml:2003:1: unknown field `ulr`"), "{error}");
    let error = read_workload(format!("{text}[[pages]]\nurl = \"x\"\n"), "w.toml").unwrap_err();
    assert!(error.to_string().starts_with("w.toml:2003:8: `x` is not"), "{error}");
    // Feeds after the pages are read, too, but not in pieces.
    let text =
        format!("{text}[[pages]]\nurl = \"/{{{{u.a}}}}\"\n[feeds.u]\ncolumns = [\"a\"]\nrows = [[1]]\n");
    assert_eq!(read_workload(&text, "w.toml").unwrap().pages.len(), 1001);
}

#[test]
fn feeds_come_from_files() {
    let text = "[feeds.u]\nfile = \"u.csv\"\n[[pages]]\nurl = \"/{{u.b}}\"\n";
    let file = |bytes: &'static [u8]| {
        move |path: &str| -> FeedFile {
            assert_eq!(path, "u.csv");
            Ok(bytes.to_vec())
        }
    };
    let workload = read_with(text, "w.toml", file(b"a,b\n1,2\n")).unwrap();
    let (columns, rows) = (vec!["a".into(), "b".into()], vec![vec!["1".into(), "2".into()]]);
    assert_eq!(workload.feeds["u"], Feed { columns, rows, file: Some("u.csv".into()), ..Feed::default() });
    let error = read_with(text, "w.toml", file(b"a,b\n1\n")).unwrap_err();
    assert_eq!(error.to_string(), "w.toml:2:8: feed `u`: u.csv:2: found 1 values, expected 2");
    let error = read_with(text, "w.toml", file(b"")).unwrap_err();
    assert!(error.to_string().contains("`u` (u.csv) is empty"), "{error}");
    let error = read_with(text, "w.toml", file(b"a,a\n1,2\n")).unwrap_err();
    assert!(error.to_string().contains("`u` (u.csv) has two columns `a`"), "{error}");
    let error = read_with(text, "w.toml", file(b"a\n1\n")).unwrap_err();
    assert!(error.to_string().contains("`u` (u.csv) has no column `b`"), "{error}");
}

#[test]
fn a_page_or_a_file_says_that_it_is_asked_over_tls() {
    let text = "[[pages]]\nurl = \"/a\"\n[[pages]]\nurl = \"/a\"\ntls = true\n\
                [[pages]]\ntls = true\nfiles = [\"/b\", { url = \"/c\", tls = false }]\n\
                [[pages]]\ndynamic = { size = 5 }\ntls = true\n";
    let workload = read_workload(text, "w.toml").unwrap();
    let files = workload.pages.iter().flat_map(|page| &page.files);
    let told: Vec<(&str, bool)> = files.map(|file| (&*file.url, file.detail.tls)).collect();
    let expected = [("/a", false), ("/a", true), ("/b", true), ("/c", false), ("/send?size=5", true)];
    assert_eq!(told, expected);
    let error = read_workload("[[pages]]\nurl = \"http://h/a\"\ntls = true\n", "w.toml").unwrap_err();
    assert_eq!(error.to_string(), "w.toml:3:7: found `tls` beside `http://h/a`, a whole URL");
    assert!(error.hint.unwrap().contains("https://"));
    let refused = crate::to_webstone2(&workload).unwrap_err();
    assert!(refused.what.contains("which pages are asked over TLS"), "{}", refused.what);
}

fn any_file() -> impl Strategy<Value = FileRequest> {
    let url = "(http://h:80)?/[a-zA-Z0-9._~?=&%|'\"\\\\-]{0,12}(\\{\\{(seq|rand 1 9|f\\.c)\\}\\})?";
    let headers = proptest::collection::vec(("[A-Za-z-]{1,6}", "[ -~]{0,8}"), 0..3);
    let method = proptest::option::of("[A-Z]{1,5}");
    let status = proptest::option::of(200_u16..600);
    let body = proptest::option::of("[^{]{0,20}");
    let sized = proptest::option::of(0..=i64::MAX as u64);
    (url, sized, method, status, headers, body, any::<bool>()).prop_map(
        |(url, size, method, status, headers, body, tls)| {
            let tls = tls && url.starts_with('/');
            let headers = headers.into_iter().collect();
            let detail = Box::new(RequestDetail { method, status, headers, body, no_body: false, tls });
            FileRequest { url: url.into(), size, detail }
        },
    )
}

fn any_workload() -> impl Strategy<Value = Workload> {
    let page = (1_u64..1 << 40, proptest::collection::vec(any_file(), 1..4), any::<u32>())
        .prop_map(|(weight, files, think)| Page { weight, files, think: Nanos(u64::from(think)) });
    let feed = Feed { columns: vec!["c".into()], rows: vec![vec!["v\"\n".into()]], ..Feed::default() };
    ("[^\0]{1,10}", ".{0,10}", proptest::collection::vec(page, 1..5), ".{0,5}").prop_map(
        move |(name, description, pages, other)| {
            let mut feeds = IndexMap::from([("f".to_owned(), feed.clone())]);
            feeds.insert(format!("o{other}"), feed.clone());
            Workload { name, description, feeds, pages }
        },
    )
}

proptest! {
    #[test]
    fn what_is_written_reads_back(workload in any_workload()) {
        let text = crate::to_toml(&workload);
        match read_workload(&text, "w.toml") {
            Ok(read) => {
                prop_assert_eq!(read.sha256(), workload.sha256());
                prop_assert_eq!(read, workload);
            }
            // The only contradiction that such workloads can have.
            Err(error) => prop_assert!(error.to_string().contains("expected one size"), "{}\n{}", error, text),
        }
    }

    #[test]
    fn lists_read_back_too(
        files in proptest::collection::btree_map("/[a-z0-9.]{0,8}", (1_u64..1 << 40, proptest::option::of(0_u64..1 << 40)), 1..20),
    ) {
        let page = |(url, (weight, size)): (String, (u64, Option<u64>))| Page {
            weight,
            files: vec![FileRequest { url: url.into(), size, ..FileRequest::default() }],
            think: Nanos::ZERO,
        };
        let mut workload =
            Workload { name: "list".into(), pages: files.into_iter().map(page).collect(), ..Workload::default() };
        prop_assert_eq!(&read_workload(crate::to_webstone2(&workload).unwrap(), "list").unwrap(), &workload);
        // A list of 1.x: no sizes, weights in percent, several files per page.
        let count = workload.pages.len() as u64;
        for (index, page) in workload.pages.iter_mut().enumerate() {
            page.weight = if index == 0 { 100 - (count - 1) } else { 1 };
            page.files[0].size = None;
            page.files.extend((0..index % 3).map(|n| FileRequest { url: format!("/{n}").into(), ..Default::default() }));
        }
        prop_assert_eq!(&read_workload(crate::to_webstone1(&workload).unwrap(), "list").unwrap(), &workload);
    }
}

#[test]
fn a_list_of_values_is_neither_a_page_nor_a_feed_nor_a_file() {
    for (text, struct_name) in [
        ("pages = [[1, \"1s\", [\"/a\"]]]", "PageForm"),
        ("[feeds]\nf = [[\"c\"], [[\"v\"]]]\n[[pages]]\nurl = \"/a\"", "FeedForm"),
        ("[[pages]]\nurl = \"/a\"\ndynamic = [1, 2]", "DynamicForm"),
    ] {
        let error = read_workload(text, "w.toml").unwrap_err().to_string();
        assert!(error.contains(&format!("sequence, expected struct {struct_name}")), "{text}: {error}");
    }
    assert!(read_workload("[[pages]]\nfiles = [[\"/a\"]]", "w.toml").is_err());
}
