//! The servers that a workload sends requests to: which of its target's URLs each request goes to ([`Aim`]), and
//! which hosts besides. A list of URLs from somewhere else must not put a third party under load, so the user has to
//! name all hosts other than the target.

use crate::target::{Place, Scheme, Target};
use crate::{FileRequest, TlsPages};

use super::{Workload, is_absolute};

/// The targets of requests for paths. If a workload requests some pages over TLS and others without, the run has a
/// target URL for each scheme.
#[derive(Clone, Debug)]
pub struct Aim<'a> {
    targets: &'a [Target],
    tls_pages: TlsPages,
}

impl<'a> Aim<'a> {
    /// Assigns a workload's requests to these targets.
    ///
    /// # Errors
    /// What is wrong and what to do about it: no target; a scheme that pages need and no target has; targets of both
    /// schemes though pages do not say which to use.
    pub fn new(workload: &Workload, targets: &'a [Target]) -> Result<Aim<'a>, (String, String)> {
        let tls_pages = workload.tls_pages();
        let of_scheme = |scheme: Scheme| targets.iter().find(|target| target.scheme == scheme);
        let (http, https) = (of_scheme(Scheme::Http), of_scheme(Scheme::Https));
        let name = &workload.name;
        match (tls_pages, http, https) {
            (_, None, None) => {
                Err(("no target".to_owned(), "give a URL such as http://127.0.0.1:8080".to_owned()))
            }
            (TlsPages::Some | TlsPages::All, Some(http), None) => Err((
                format!("workload {name} requests pages over TLS, and target {http} is without TLS"),
                "name the server's https:// URL too, as a second target".to_owned(),
            )),
            (TlsPages::Some, None, Some(https)) => Err((
                format!("workload {name} requests some pages without TLS, and target {https} is over TLS"),
                "name the server's http:// URL too, as a second target".to_owned(),
            )),
            (TlsPages::None, Some(http), Some(https)) => Err((
                format!(
                    "targets {http} and {https}: workload {name} does not say which pages are requested over TLS"
                ),
                "name URLs of one scheme, or write tls = true for those pages of a TOML workload".to_owned(),
            )),
            _ => Ok(Aim { targets, tls_pages }),
        }
    }

    /// The targets for paths, used in turn: those of one scheme.
    pub fn of_paths(&self, over_tls: bool) -> impl Iterator<Item = &'a Target> + use<'a> {
        let scheme = match (self.tls_pages, over_tls) {
            (TlsPages::None, _) => None,
            (_, true) => Some(Scheme::Https),
            (_, false) => Some(Scheme::Http),
        };
        self.targets.iter().filter(move |target| scheme.is_none_or(|scheme| target.scheme == scheme))
    }

    /// Whether requests for paths go to servers of both schemes.
    pub fn is_mixed(&self) -> bool {
        self.tls_pages == TlsPages::Some
    }

    /// The first target that a request goes to, if its URL is a path.
    pub fn base(&self, file: &FileRequest) -> &'a Target {
        // `new` has found a target for each scheme that is needed.
        self.of_paths(file.detail.tls).next().unwrap_or(&self.targets[0])
    }
}

/// The hosts in a workload's URLs that are neither in `targets` (URLs) nor in `allowed` (`HOST` for any port, or
/// `HOST:PORT`): each once, in the order of the workload. A URL whose host cannot be parsed counts as such a host, as
/// a whole.
pub fn strangers(workload: &Workload, targets: &[String], allowed: &[String]) -> Vec<String> {
    let targets: Vec<Target> =
        targets.iter().filter_map(|url| Target::split(url).ok()).map(|(target, _)| target).collect();
    let allowed: Vec<Place> = allowed.iter().filter_map(|host| host.parse().ok()).collect();
    let is_known = |target: &Target| {
        let is_same = |known: &Target| (&known.host, known.port) == (&target.host, target.port);
        targets.iter().any(is_same) || allowed.iter().any(|place| place.covers(target))
    };
    let mut found: Vec<String> = Vec::new();
    let files = workload.pages.iter().flat_map(|page| &page.files);
    for url in files.map(|file| &*file.url).filter(|url| is_absolute(url) && url.contains("://")) {
        let shown = match Target::split(url) {
            Ok((target, _)) if is_known(&target) => continue,
            Ok((target, _)) => target.place(&target.host).to_string(),
            Err(_) => url.to_owned(),
        };
        if !found.contains(&shown) {
            found.push(shown);
        }
    }
    found
}

/// What is wrong with such hosts, and what to do about it.
pub fn refusal(name: &str, strangers: &[String]) -> (String, String) {
    const NAMED_MAX: usize = 5;
    let mut named = strangers.iter().take(NAMED_MAX).cloned().collect::<Vec<_>>().join(", ");
    let more = strangers.len().saturating_sub(NAMED_MAX);
    if more > 0 {
        named += &format!(" and {more} more");
    }
    let hosts = if strangers.len() == 1 { "a host" } else { "hosts" };
    let what = format!("workload {name} sends requests to {hosts} other than the target: {named}");
    let list = strangers.iter().take(NAMED_MAX).cloned().collect::<Vec<_>>().join(",");
    (
        what,
        format!(
            "if load may go there, give --allow-hosts {list}; otherwise remove these URLs from the workload"
        ),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Page, RequestDetail};

    fn workload(urls: &[&str]) -> Workload {
        let files =
            urls.iter().map(|url| FileRequest { url: (*url).into(), ..FileRequest::default() }).collect();
        Workload { pages: vec![Page { weight: 1, files, think: Default::default() }], ..Workload::default() }
    }

    fn found(urls: &[&str], targets: &[&str], allowed: &[&str]) -> Vec<String> {
        let owned = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>();
        strangers(&workload(urls), &owned(targets), &owned(allowed))
    }

    #[test]
    fn paths_and_the_targets_own_urls_are_not_other_hosts() {
        let urls = [
            "/a",
            "//victim/x",
            "/r?to=http://victim/",
            "http://web/a",
            "http://WEB:80/b",
            "http://[::1]:81/",
        ];
        assert_eq!(found(&urls, &["http://web", "http://[::1]:81/"], &[]), [""; 0]);
    }

    #[test]
    fn other_hosts_and_ports_are_found_unless_allowed() {
        let urls = [
            "http://victim/a",
            "http://victim/b",
            "http://web:81/",
            "http://other:8080/{{seq}}",
            "https://web/",
        ];
        let targets = ["http://web"];
        assert_eq!(found(&urls, &targets, &[]), ["victim", "web:81", "other:8080", "web"]);
        assert_eq!(found(&urls, &targets, &["victim", "web", "other:8080"]), [""; 0]);
        assert_eq!(
            found(&urls, &targets, &["victim:81", "WEB:81", "other:80", "web:443"]),
            ["victim", "other:8080"]
        );
        // A URL that cannot be parsed belongs to no host.
        assert_eq!(found(&["http://a@web/"], &targets, &["a", "web"]), ["http://a@web/"]);
    }

    #[test]
    fn a_refusal_names_hosts_and_flag() {
        let hosts: Vec<String> = (0..7).map(|n| format!("h{n}")).collect();
        let (what, hint) = refusal("mined", &hosts);
        assert_eq!(
            what,
            "workload mined sends requests to hosts other than the target: h0, h1, h2, h3, h4 and 2 more"
        );
        assert!(hint.contains("--allow-hosts h0,h1,h2,h3,h4;"), "{hint}");
    }

    #[test]
    fn pages_over_tls_and_others_have_a_target_each() {
        let targets = |urls: &[&str]| urls.iter().map(|url| url.parse().unwrap()).collect::<Vec<Target>>();
        let of = |tls: &[bool]| {
            let mut workload = workload(&vec!["/a"; tls.len()]);
            for (file, tls) in workload.pages[0].files.iter_mut().zip(tls) {
                file.detail.tls = *tls;
            }
            workload.name = "w".into();
            workload
        };
        let file = |tls: bool| FileRequest {
            detail: Box::new(RequestDetail { tls, ..RequestDetail::default() }),
            ..FileRequest::default()
        };
        let bases = |tls: &[bool], urls: &[&str]| {
            let targets = targets(urls);
            let aim = Aim::new(&of(tls), &targets).map_err(|(what, _)| what)?;
            Ok::<_, String>((aim.base(&file(false)).to_string(), aim.base(&file(true)).to_string()))
        };
        let both = ["https://h:2", "http://h:1"];
        assert_eq!(bases(&[false, true], &both), Ok(("http://h:1".into(), "https://h:2".into())));
        assert_eq!(bases(&[true], &both).unwrap().1, "https://h:2");
        assert_eq!(bases(&[true], &["https://h:2"]).unwrap().1, "https://h:2");
        assert_eq!(bases(&[false], &["https://h:2"]).unwrap().0, "https://h:2");
        for (tls, urls, what) in [
            (
                &[false, true][..],
                &["http://h"][..],
                "requests pages over TLS, and target http://h is without TLS",
            ),
            (&[true], &["http://h"], "requests pages over TLS, and target http://h is without TLS"),
            (
                &[false, true],
                &["https://h"],
                "requests some pages without TLS, and target https://h is over TLS",
            ),
            (&[false], &["http://h", "https://h"], "does not say which pages are requested over TLS"),
            (&[false], &[], "no target"),
        ] {
            let told = bases(tls, urls).unwrap_err();
            assert!(told.ends_with(what), "{told}");
        }
        let targets = targets(&["http://h:1", "https://h:2", "http://i:1"]);
        let aim = Aim::new(&of(&[false, true]), &targets).unwrap();
        let plain: Vec<String> = aim.of_paths(false).map(Target::to_string).collect();
        assert_eq!(plain, ["http://h:1", "http://i:1"]);
    }
}
