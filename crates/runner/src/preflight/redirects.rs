//! Where redirects lead, asked before the load. The steps become requests of their page, each with the status that was seen, so that
//! the load looks up nothing and every step is counted, also by hosts elsewhere and in HTTP/2.

use std::collections::HashMap;
use std::time::Duration;

use webstone_engine::Extent;
use webstone_lab::endpoint::TargetError;
use webstone_lab::fetch::{Fetch, asked};
use webstone_lab::interrupt::Interrupt;
use webstone_model::spec::{ClientSpec, RunSpec};
use webstone_workload::aim::Aim;
use webstone_workload::redirect::{becomes_get, is_redirect, resolve};
use webstone_workload::target::{Place, Scheme, Target};
use webstone_workload::{FileRequest, RequestDetail, Workload};

/// Of a body nothing is needed.
const EXTENT: Extent = Extent::Beginning { bytes_max: 1 << 16, time_max: Duration::from_millis(200) };

/// What was found.
#[derive(Debug, Default)]
pub(crate) struct Redirects {
    /// Files that lead elsewhere.
    pub(crate) followed: usize,
    /// Distinct files that were not asked: they may change something on the server, or have many URLs.
    pub(crate) unasked: usize,
}

/// A file and the steps after it; the last one is what it leads to.
#[derive(Clone, Default)]
struct Steps {
    /// Status of the first answer, if it leads elsewhere.
    status: Option<u16>,
    rest: Vec<FileRequest>,
}

/// Puts the steps of every redirect into the pages of the workload, and allows `spec` the other ports of the target's hosts.
pub(crate) fn follow(
    spec: &mut RunSpec,
    workload: &mut Workload,
    targets: &[Target],
    fetch: &dyn Fetch,
    interrupt: &Interrupt,
) -> Result<Redirects, TargetError> {
    let aim = Aim::new(workload, targets).map_err(|(what, hint)| TargetError::usage(what, hint))?;
    let mut found = Redirects::default();
    // By everything that a request has of its own.
    let mut known: HashMap<(String, String), Steps> = HashMap::new();
    // Before redirects add to them.
    let named = spec.client.allow_hosts.clone();
    let mut pages = workload.pages.clone();
    let is_alone = matches!(&*workload.pages, [page] if page.files.len() == 1);
    for page in &mut pages {
        let mut files = Vec::with_capacity(page.files.len());
        for file in &page.files {
            if interrupt.count() > 0 {
                return Ok(found);
            }
            let key = (file.url.to_string(), format!("{:?}", file.detail));
            let steps = match known.get(&key) {
                Some(steps) => steps.clone(),
                None => {
                    let method = file.detail.method.as_ref().unwrap_or(&spec.client.method);
                    let changes_nothing = matches!(&**method, "GET" | "HEAD") && file.detail.body.is_none();
                    let is_one_url = !file.url.contains("{{");
                    let steps = if is_one_url && (changes_nothing || is_alone) && file.detail.status.is_none()
                    {
                        steps(spec, workload, targets, &named, &aim, file, fetch)?
                    } else {
                        found.unasked += usize::from(file.detail.status.is_none());
                        Steps::default()
                    };
                    found.followed += usize::from(steps.status.is_some());
                    known.insert(key, steps.clone());
                    steps
                }
            };
            let mut first = file.clone();
            if steps.status.is_some() {
                first.detail.status = steps.status;
                first.size = None;
            }
            files.push(first);
            files.extend(steps.rest);
        }
        page.files = files;
    }
    workload.pages = pages;
    Ok(found)
}

/// Asks for a file, then for what it leads to, until an answer is no redirect.
fn steps(
    spec: &mut RunSpec,
    workload: &Workload,
    targets: &[Target],
    named: &[String],
    aim: &Aim<'_>,
    file: &FileRequest,
    fetch: &dyn Fetch,
) -> Result<Steps, TargetError> {
    let base = aim.base(file);
    let (mut server, mut path) = match asked(base, &file.url) {
        Ok((server, path)) => (server, path.into_owned()),
        // The check of the files reports it.
        Err(_) => return Ok(Steps::default()),
    };
    let run = spec.client.clone();
    let mut steps = Steps::default();
    let mut detail = file.detail.clone();
    let mut shown = vec![format!("{server}{path}")];
    loop {
        let filled = detail.request(&run).filled(&workload.feeds, run.seed);
        let sent = filled.as_ref().unwrap_or(&detail);
        // The check of the files, which asks again, reports what does not answer.
        let Ok(answer) = fetch.fetch_each(&server.to_string(), &path, sent, EXTENT, &mut |_| {}) else {
            break;
        };
        let location = answer.header("location").filter(|_| is_redirect(answer.status));
        let Some(location) = location.filter(|_| !run.expect_status.has(answer.status)) else { break };
        let from = shown.last().cloned().unwrap_or_default();
        let (to, to_path) = resolve(&server, &path, location).map_err(|error| {
            TargetError::target(
                format!("{from} redirects to `{location}`: {}", error.rule),
                format!("--expect-status {} measures the redirect itself", answer.status),
            )
        })?;
        let url = format!("{to}{to_path}");
        allow(spec, targets, &from, &to)?;
        let leaves_tls = server.scheme == Scheme::Https && to.scheme == Scheme::Http;
        if leaves_tls && !targets.contains(&to) && !is_named(named, &to) {
            keep_secret(&run, sent, &from, &to)?;
        }
        let method = detail.method.clone().unwrap_or_else(|| run.method.clone());
        let becomes_get = becomes_get(answer.status, &method);
        if shown.contains(&url) && !becomes_get {
            return Err(TargetError::target(
                format!("redirects in a loop: {} -> {url}", shown.join(" -> ")),
                "a server that expects a cookie does this: give it with -H 'Cookie: …'",
            ));
        }
        if shown.len() > run.follow as usize {
            return Err(TargetError::target(
                format!("more than {} redirects: {} -> {url}", run.follow, shown.join(" -> ")),
                format!("--follow={} follows more", run.follow.saturating_mul(2)),
            ));
        }
        match steps.rest.last_mut() {
            None => steps.status = Some(answer.status),
            Some(step) => step.detail.status = Some(answer.status),
        }
        if becomes_get {
            detail.no_body = true;
            detail.method = Some("GET".to_owned());
            detail.body = None;
        }
        detail.status = None;
        // A path goes to each of several targets in turn.
        let is_path = to == *base && file.url.starts_with('/');
        detail.tls = is_path && file.detail.tls;
        let hop = FileRequest {
            url: if is_path { to_path.as_str().into() } else { url.as_str().into() },
            size: None,
            detail: detail.clone(),
        };
        steps.rest.push(hop);
        shown.push(url);
        (server, path) = (to, to_path);
    }
    if let Some(last) = steps.rest.last_mut() {
        last.size = file.size;
    }
    Ok(steps)
}

/// Lets requests go to a host that a redirect leads to, if it is the target's, or allowed already.
fn allow(spec: &mut RunSpec, targets: &[Target], from: &str, to: &Target) -> Result<(), TargetError> {
    let place = to.place(&to.host);
    let is_allowed = spec.client.allow_hosts.iter().filter_map(|host| host.parse::<Place>().ok());
    if spec.client.unix_socket.is_some() || is_allowed.into_iter().any(|place| place.covers(to)) {
        return Ok(());
    }
    if !targets.iter().any(|target| target.host == to.host) {
        return Err(TargetError::target(
            format!("{from} redirects to another host: {to}"),
            format!("if load may go there, give --allow-hosts {place}"),
        ));
    }
    if !targets.iter().any(|target| (&target.host, target.port) == (&to.host, to.port)) {
        spec.client.allow_hosts.push(Place { port: Some(to.port), ..place }.to_string());
    }
    Ok(())
}

/// Whether the user named a place that requests may go to.
fn is_named(named: &[String], to: &Target) -> bool {
    named.iter().filter_map(|host| host.parse::<Place>().ok()).any(|place| place.covers(to))
}

/// Refuses to send without TLS what was given for a server over TLS.
fn keep_secret(
    client: &ClientSpec,
    sent: &RequestDetail,
    from: &str,
    to: &Target,
) -> Result<(), TargetError> {
    let has = |name: &&str| client.headers.has(name) || sent.headers.has(name);
    match ["Authorization", "Cookie"].into_iter().find(has) {
        Some(name) => Err(TargetError::target(
            format!("{from} redirects to {to}, which would get the header field {name} without TLS"),
            format!("give the URL that it leads to; --allow-hosts {} sends it", to.place(&to.host)),
        )),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Mutex;
    use webstone_engine::{ProbeError, ProbeResponse, ReadTo};
    use webstone_measure::errors::ErrorClass;
    use webstone_workload::Page;
    use webstone_workload::load::HttpVersion;

    /// URL to status and location; keeps what it was asked.
    struct Site(Vec<(&'static str, u16, &'static str)>, Mutex<Vec<String>>);

    impl Fetch for Site {
        fn fetch_at(
            &self,
            _: Option<&Target>,
            base: &str,
            path: &str,
            detail: &RequestDetail,
            _: Extent,
            _: &mut dyn FnMut(&[u8]),
        ) -> Result<ProbeResponse, ProbeError> {
            let url = format!("{base}{path}");
            let method = detail.method.as_deref().unwrap_or("GET");
            self.1.lock().unwrap().push(format!("{method} {url}"));
            let Some((_, status, location)) = self.0.iter().find(|(known, ..)| *known == url) else {
                return Err(ProbeError {
                    class: ErrorClass::Refused,
                    request: url,
                    detail: "connection refused".into(),
                    hint: None,
                });
            };
            let location = Some(*location).filter(|location| !location.is_empty());
            let headers = location.map(|to| ("Location".to_owned(), to.to_owned())).into_iter().collect();
            Ok(ProbeResponse {
                http: HttpVersion::Http11,
                status: *status,
                headers,
                body: vec![],
                wire_bytes: 0,
                read: ReadTo::End,
            })
        }
    }

    fn site(answers: &[(&'static str, u16, &'static str)]) -> Site {
        Site(answers.to_vec(), Mutex::default())
    }

    fn workload(pages: &[&[&str]]) -> Workload {
        let file = |url: &&str| FileRequest { url: (*url).into(), size: Some(5), ..FileRequest::default() };
        let page = |urls: &&[&str]| Page {
            weight: 1,
            files: urls.iter().map(file).collect(),
            think: Default::default(),
        };
        Workload { pages: pages.iter().map(page).collect(), ..Workload::default() }
    }

    fn spec(follow: u32) -> RunSpec {
        let mut spec = RunSpec { target: vec!["http://a".to_owned()], ..RunSpec::default() };
        spec.client.follow = follow;
        spec
    }

    fn followed(site: &Site, spec: &mut RunSpec, files: &mut Workload) -> Result<Redirects, TargetError> {
        let targets: Vec<Target> = spec.target.iter().map(|url| url.parse().unwrap()).collect();
        follow(spec, files, &targets, site, &Interrupt::default())
    }

    fn shown(workload: &Workload) -> Vec<Vec<String>> {
        let file = |file: &FileRequest| {
            let FileRequest { url, size, detail } = file;
            format!("{} {url} {:?} {size:?}", detail.method.as_deref().unwrap_or("-"), detail.status)
        };
        workload.pages.iter().map(|page| page.files.iter().map(file).collect()).collect()
    }

    #[test]
    fn each_step_is_a_request_of_its_page_and_asked_once() {
        let site = site(&[
            ("http://a/old", 301, "new/"),
            ("http://a/new/", 302, "https://a/new/"),
            ("https://a/new/", 307, "/end?x"),
            ("https://a/end?x", 200, ""),
            ("http://a/b", 200, ""),
            ("http://a/n", 304, "/ignored"),
        ]);
        let (mut spec, mut files) = (spec(10), workload(&[&["/old", "/b"], &["/old"], &["/n"]]));
        let found = followed(&site, &mut spec, &mut files).unwrap();
        assert_eq!((found.followed, found.unasked), (1, 0));
        let steps = [
            "- /old Some(301) None",
            "- /new/ Some(302) None",
            "- https://a/new/ Some(307) None",
            "- https://a/end?x None Some(5)",
        ];
        assert_eq!(
            shown(&files),
            [[&steps[..], &["- /b None Some(5)"]].concat(), steps.to_vec(), vec!["- /n None Some(5)"]]
        );
        assert_eq!(spec.client.allow_hosts, ["a:443"]);
        assert_eq!(site.1.lock().unwrap().len(), 6);
    }

    #[test]
    fn requests_of_one_url_that_differ_are_asked_each() {
        let site = site(&[("http://a/x", 302, "/y"), ("http://a/y", 200, "")]);
        let (mut spec, mut files) = (spec(10), workload(&[&["/x", "/x", "/x"]]));
        files.pages[0].files[1].detail.headers.add("Accept-Language", "de");
        files.pages[0].files[2].detail.status = Some(302);
        let found = followed(&site, &mut spec, &mut files).unwrap();
        assert_eq!((found.followed, site.1.lock().unwrap().len()), (2, 4));
        let [page] = &files.pages[..] else { panic!() };
        let languages: Vec<bool> =
            page.files.iter().map(|file| file.detail.headers.has("Accept-Language")).collect();
        assert_eq!(languages, [false, false, true, true, false], "each step has its file's fields");
    }

    #[test]
    fn credentials_do_not_leave_tls_unless_the_user_says_so() {
        let site = site(&[("https://a/x", 302, "http://a:8080/y"), ("http://a:8080/y", 200, "")]);
        for field in ["Authorization", "cookie"] {
            let mut spec = spec(10);
            spec.target = vec!["https://a".to_owned()];
            spec.client.headers.add(field, "secret");
            let error = followed(&site, &mut spec, &mut workload(&[&["/x"]])).err().unwrap();
            assert!(error.what.ends_with("without TLS") && error.what.contains("http://a:8080"), "{error}");
            spec.client.allow_hosts = vec!["a:8080".to_owned()];
            assert_eq!(followed(&site, &mut spec, &mut workload(&[&["/x"]])).unwrap().followed, 1);
        }
        // What another file has allowed is not the user's word.
        let mut other = spec(10);
        other.target = vec!["https://a".to_owned()];
        let mut files = workload(&[&["/x", "/x"]]);
        files.pages[0].files[1].detail.headers.add("Authorization", "secret");
        assert!(followed(&site, &mut other, &mut files).is_err());
        let mut plain = spec(10);
        plain.target = vec!["https://a".to_owned()];
        assert_eq!(followed(&site, &mut plain, &mut workload(&[&["/x"]])).unwrap().followed, 1);
    }

    #[test]
    fn loops_limits_other_hosts_and_other_protocols_are_said() {
        let site = site(&[
            ("http://a/1", 302, "/2"),
            ("http://a/2", 302, "/3"),
            ("http://a/3", 302, "/1"),
            ("http://a/far", 302, "http://b:81/x"),
            ("http://b:81/x", 200, ""),
            ("http://a/mail", 302, "mailto:x@a"),
        ]);
        let told = |spec: &mut RunSpec, url: &str| {
            followed(&site, spec, &mut workload(&[&[url]])).map(|_| ()).map_err(|error| {
                assert!(!error.is_usage);
                format!("{}; {}", error.what, error.hint)
            })
        };
        for (follow, url, what) in [
            (
                10,
                "/1",
                "redirects in a loop: http://a/1 -> http://a/2 -> http://a/3 -> http://a/1; a server that",
            ),
            (1, "/1", "more than 1 redirects: http://a/1 -> http://a/2 -> http://a/3; --follow=2 follows"),
            (
                10,
                "/far",
                "http://a/far redirects to another host: http://b:81; if load may go there, give --allow-hosts b:81",
            ),
            (
                10,
                "/mail",
                "http://a/mail redirects to `mailto:x@a`: the protocol is missing; --expect-status 302",
            ),
        ] {
            let error = told(&mut spec(follow), url).unwrap_err();
            assert!(error.starts_with(what), "{error}");
        }
        let mut allowed = spec(10);
        allowed.client.allow_hosts = vec!["b".to_owned()];
        assert_eq!(told(&mut allowed, "/far"), Ok(()));
        assert_eq!(allowed.client.allow_hosts, ["b"]);
    }

    #[test]
    fn a_post_becomes_a_get_without_the_runs_body() {
        let site = site(&[("http://a/form", 303, "/done"), ("http://a/done", 200, "")]);
        let (mut spec, mut files) = (spec(10), workload(&[&["/form"]]));
        spec.client.method = "POST".to_owned();
        spec.client.body = Some("a=1".to_owned());
        followed(&site, &mut spec, &mut files).unwrap();
        assert_eq!(shown(&files), [["- /form Some(303) None", "GET /done None Some(5)"]]);
        assert!(!files.pages[0].files[0].detail.no_body && files.pages[0].files[1].detail.no_body);
    }

    #[test]
    fn what_changes_the_server_or_has_many_urls_is_not_asked() {
        let site = site(&[("http://a/x", 302, "/y"), ("http://a/y", 200, "")]);
        let mut files = workload(&[&["/x", "/p?{{seq}}"], &["/post"]]);
        files.pages[1].files[0].detail.method = Some("POST".to_owned());
        let found = followed(&site, &mut spec(10), &mut files).unwrap();
        assert_eq!((found.followed, found.unasked), (1, 2));
        // A redirect that is expected is not followed.
        let mut expects = spec(10);
        expects.client.expect_status = "302".parse().unwrap();
        assert_eq!(followed(&site, &mut expects, &mut workload(&[&["/x"]])).unwrap().followed, 0);
    }
}
