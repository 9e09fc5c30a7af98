//! Tests of the plan: request bytes, origins, and what cannot be compiled.

use super::*;
use webstone_workload::Page;

fn workload(urls: &[&str]) -> Workload {
    let page = |url: &&str| Page {
        weight: 1,
        files: vec![FileRequest { url: (*url).into(), ..FileRequest::default() }],
        think: Nanos::ZERO,
    };
    Workload { name: "w".into(), pages: urls.iter().map(page).collect(), ..Workload::default() }
}

fn spec() -> GeneratorTask {
    GeneratorTask { target: vec!["http://127.0.0.1:8080".into()], ..GeneratorTask::default() }
}

#[test]
fn bodies_are_received_if_they_are_checked_or_cannot_be_discarded() {
    let receives = |change: fn(&mut GeneratorTask)| {
        let mut spec = spec();
        change(&mut spec);
        Plan::compile(&spec, &workload(&["/a"])).unwrap().receives_bodies()
    };
    assert!(!receives(|spec| spec.client.check = Check::Size));
    assert!(receives(|spec| spec.client.check = Check::Content));
    assert!(receives(|spec| spec.client.unix_socket = Some("/run/server.sock".into())));
}

fn text(plan: &Plan, slice: Slice) -> String {
    String::from_utf8(plan.slice(slice).to_vec()).unwrap()
}

#[test]
fn per_request_announces_the_end_in_every_request() {
    let plan = Plan::compile(&spec(), &workload(&["/a", "/b"])).unwrap();
    assert_eq!((plan.pages.len(), plan.request_count()), (2, 2));
    assert!(text(&plan, plan.requests[1].last).starts_with("GET /b HTTP/1.1\r\nHost: 127.0.0.1:8080\r\n"));
    assert!(text(&plan, plan.requests[1].last).contains("Connection: close"));
    assert_eq!(plan.label(1), "GET http://127.0.0.1:8080/b");
}

fn allowing(host: &str) -> GeneratorTask {
    let mut spec = spec();
    spec.client.allow_hosts = vec![host.to_owned()];
    spec
}

#[test]
fn a_host_that_the_target_does_not_name_is_refused() {
    let error = Plan::compile(&spec(), &workload(&["/a", "http://127.0.0.2:81/b"])).unwrap_err();
    assert!(error.what.contains("127.0.0.2:81") && error.hint.unwrap().contains("--allow-hosts"));
    // A URL within a path does not name another host.
    let plan = Plan::compile(&spec(), &workload(&["/go?to=http://127.0.0.2:81/"])).unwrap();
    assert_eq!(
        (plan.origins.len(), plan.label(0)),
        (1, "GET http://127.0.0.1:8080/go?to=http://127.0.0.2:81/".into())
    );
    let mut socket = spec();
    socket.client.unix_socket = Some("/run/server.sock".into());
    assert!(Plan::compile(&socket, &workload(&["http://127.0.0.2:81/b"])).is_ok());
}

#[test]
fn other_hosts_are_origins_of_their_own() {
    let plan = Plan::compile(
        &allowing("127.0.0.2"),
        &workload(&["/a", "http://127.0.0.2:81/b", "http://127.0.0.2:81/c"]),
    )
    .unwrap();
    assert_eq!(plan.origins.len(), 2);
    assert_eq!(plan.requests[2].origin, 1);
    assert!(text(&plan, plan.requests[2].last).contains("GET /c HTTP/1.1\r\nHost: 127.0.0.2:81\r\n"));
}

#[test]
fn pages_over_tls_and_others_are_two_origins_of_one_target() {
    let mut mixed = workload(&["/a", "/a", "/c", "https://127.0.0.1:8443/d"]);
    mixed.pages[1].files[0].detail.tls = true;
    let mut both = spec();
    both.target.push("https://127.0.0.1:8443".into());
    both.client.tls.verify = false;
    let plan = Plan::compile(&both, &mixed).unwrap();
    let origins: Vec<u32> = plan.requests.iter().map(|request| request.origin).collect();
    assert_eq!(origins, [0, 1, 0, 1]);
    assert!(plan.origins[0].secure.is_none() && plan.origins[1].secure.is_some());
    assert!(text(&plan, plan.requests[0].last).contains("\r\nHost: 127.0.0.1:8080\r\n"));
    assert!(text(&plan, plan.requests[1].last).contains("GET /a HTTP/1.1\r\nHost: 127.0.0.1:8443\r\n"));
    assert_eq!(plan.label(1), "GET https://127.0.0.1:8443/a");
    // If all pages are over TLS, the other target has no requests.
    let mut all = workload(&["/a"]);
    all.pages[0].files[0].detail.tls = true;
    let plan = Plan::compile(&both, &all).unwrap();
    assert_eq!((plan.origins.len(), plan.label(0)), (1, "GET https://127.0.0.1:8443/a".to_owned()));
    // An https path with an http target only is refused.
    let error = Plan::compile(&spec(), &all).unwrap_err();
    assert!(
        error.what.contains("requests pages over TLS, and target http://127.0.0.1:8080"),
        "{}",
        error.what
    );
}

#[test]
fn one_server_is_one_origin_however_its_url_is_written() {
    let urls = ["/a", "http://127.0.0.1:8080/b", "http://LOCALHOST:80/{{rand 1 9}}", "http://localhost/d"];
    let plan = Plan::compile(&allowing("localhost"), &workload(&urls)).unwrap();
    let origins: Vec<u32> = plan.requests.iter().map(|request| request.origin).collect();
    assert_eq!(origins, [0, 0, 1, 1]);
    assert!(text(&plan, plan.requests[3].last).contains("\r\nHost: localhost\r\n"));
}

#[test]
fn a_proxy_gets_absolute_urls_and_all_connections() {
    let mut spec = spec();
    spec.client.proxy = Some("http://127.0.0.9:3128".into());
    spec.client.allow_hosts = vec!["no-such-host.invalid".into()];
    let plan = Plan::compile(&spec, &workload(&["/a", "http://no-such-host.invalid/b"])).unwrap();
    assert_eq!(plan.origins[0].addresses[0].to_string(), "127.0.0.9:3128");
    assert!(text(&plan, plan.requests[0].last).starts_with("GET http://127.0.0.1:8080/a HTTP/1.1\r\n"));
    assert!(text(&plan, plan.requests[1].last).starts_with("GET http://no-such-host.invalid/b HTTP/1.1\r\n"));
}

#[test]
fn early_data_is_refused_for_requests_that_may_change_something() {
    let mut early =
        GeneratorTask { target: vec!["https://127.0.0.1:8443".into()], ..GeneratorTask::default() };
    early.client.tls.early_data = true;
    let mut orders = workload(&["/order"]);
    assert!(Plan::compile(&early, &orders).is_ok());
    // Early data can be replayed by others, so that even idempotent methods are refused unless they are safe.
    for method in ["POST", "PUT"] {
        orders.pages[0].files[0].detail.method = Some(method.into());
        let error = Plan::compile(&early, &orders).unwrap_err();
        assert!(error.what.starts_with("--early-data: page 0"), "{}", error.what);
    }
}

#[test]
fn an_unsendable_request_is_an_error_that_names_the_place() {
    for (url, found) in [("a", "page 0, file 0: `a`"), ("/a b", "not a path")] {
        let error = Plan::compile(&allowing("h"), &workload(&[url])).unwrap_err();
        assert!(error.what.contains(found), "{}", error.what);
    }
    let mut bad = spec();
    bad.client.headers.add("X", "a\r\nEvil: b");
    assert!(Plan::compile(&bad, &workload(&["/a"])).unwrap_err().what.contains("not a header field"));
    let mut cut = spec();
    cut.client.headers.add("Content-Length", "3");
    cut.client.body = Some("abcdef".into());
    let error = Plan::compile(&cut, &workload(&["/a"])).unwrap_err();
    assert!(error.what.ends_with("`Content-Length: 3`, but the body has 6 bytes"), "{}", error.what);
    // A correct Content-Length from the user appears once, also if the request is filled in later.
    cut.client.body = Some("abc".into());
    let plan = Plan::compile(&cut, &workload(&["/a", "/{{seq}}"])).unwrap();
    assert_eq!(text(&plan, plan.requests[0].last).matches("Content-Length: 3").count(), 1);
    let (mut client, mut out) = (Client::new(1, 0), Vec::new());
    client.pages = 1;
    plan.render(1, false, &mut client, &mut out);
    assert_eq!(String::from_utf8(out).unwrap().matches("Content-Length: 3").count(), 1);
    let mut endless = spec();
    endless.load.duration = Nanos::ZERO;
    assert!(Plan::compile(&endless, &workload(&["/a"])).unwrap_err().what.contains("would never end"));
}

#[test]
fn a_file_that_its_line_cannot_bring_in_time_is_refused() {
    let mut spec = spec();
    spec.client.bandwidth = Some("14.4k".parse().unwrap());
    let mut list = workload(&["/a"]);
    // 108,000 bytes take 60 s, which is the time-out.
    list.pages[0].files[0].size = Some(108_000);
    assert!(Plan::compile(&spec, &list).is_ok());
    list.pages[0].files[0].size = Some(110_000);
    let error = Plan::compile(&spec, &list).unwrap_err();
    assert!(error.what.starts_with("--bandwidth 14.4k: /a of page 0 has 110000 bytes"), "{error}");
    assert_eq!(error.hint.unwrap(), "give --timeout 121s or more, or a workload with smaller files");
    spec.client.request_timeout = Nanos::from_secs(121);
    assert!(Plan::compile(&spec, &list).is_ok());
}
