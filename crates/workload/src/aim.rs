//! Which hosts a workload asks besides its target. Load goes only where it was aimed: a list of URLs from somewhere else
//! must not put a third party under load, so hosts that the target does not name have to be named by whoever runs it.

use super::{Workload, is_absolute};

/// A host, and the port if it matters.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Place {
    /// In small letters, without brackets.
    host: String,
    port: Option<u16>,
}

impl Place {
    /// Reads `HOST` or `HOST:PORT`.
    fn of(text: &str) -> Option<Place> {
        let authority: http::uri::Authority = text.parse().ok()?;
        let port = &text[authority.host().len()..];
        let known = authority.port_u16().filter(|port| *port > 0);
        let is_sound =
            !text.contains('@') && !authority.host().is_empty() && (port.is_empty() || known.is_some());
        let host = authority.host().trim_matches(['[', ']']).to_ascii_lowercase();
        is_sound.then_some(Place { host, port: known })
    }

    /// The place that a whole URL names, with the port of its scheme where it gives none.
    fn of_url(url: &str) -> Option<Place> {
        let (scheme, rest) = url.split_once("://")?;
        let authority = rest.split(['/', '?', '#']).next().unwrap_or(rest);
        let place = Place::of(authority)?;
        let usual = if scheme.eq_ignore_ascii_case("https") { 443 } else { 80 };
        Some(Place { port: Some(place.port.unwrap_or(usual)), ..place })
    }

    fn covers(&self, other: &Place) -> bool {
        self.host == other.host && (self.port.is_none() || self.port == other.port)
    }
}

/// Whether a text is one that [`strangers`] takes for a host: `HOST` or `HOST:PORT`, without a scheme or a path.
pub fn is_host(text: &str) -> bool {
    Place::of(text).is_some()
}

/// The hosts that a workload's URLs name, and neither `targets` (URLs) nor `allowed` (`HOST`, which stands for each of its
/// ports, or `HOST:PORT`) do: each once, as the workload first writes it. A URL that names no host that can be understood is
/// one of them, whole.
pub fn strangers(workload: &Workload, targets: &[String], allowed: &[String]) -> Vec<String> {
    let known: Vec<Place> = targets
        .iter()
        .filter_map(|url| Place::of_url(url))
        .chain(allowed.iter().filter_map(|host| Place::of(host)))
        .collect();
    let mut found: Vec<String> = Vec::new();
    let files = workload.pages.iter().flat_map(|page| &page.files);
    for url in files.map(|file| &*file.url).filter(|url| is_absolute(url) && url.contains("://")) {
        let place = Place::of_url(url);
        if place.as_ref().is_some_and(|place| known.iter().any(|known| known.covers(place))) {
            continue;
        }
        let authority = url.split_once("://").and_then(|(_, rest)| rest.split('/').next());
        let shown = authority.filter(|_| place.is_some()).unwrap_or(url);
        if !found.iter().any(|known| known == shown) {
            found.push(shown.to_owned());
        }
    }
    found
}

/// What to say where there are such hosts, and what to do about it.
pub fn refusal(name: &str, strangers: &[String]) -> (String, String) {
    const NAMED_MAX: usize = 5;
    let mut named = strangers.iter().take(NAMED_MAX).cloned().collect::<Vec<_>>().join(", ");
    let more = strangers.len().saturating_sub(NAMED_MAX);
    if more > 0 {
        named += &format!(" and {more} more");
    }
    let hosts = if strangers.len() == 1 { "a host" } else { "hosts" };
    let what = format!("workload {name} asks {hosts} that the target does not name: {named}");
    let list = strangers.iter().take(NAMED_MAX).cloned().collect::<Vec<_>>().join(",");
    (
        what,
        format!(
            "if load may go there, say so with --allow-hosts {list}; otherwise take these URLs out of the workload"
        ),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use webstone_model::workload::{FileRequest, Page};

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
    fn paths_and_the_targets_own_urls_are_no_strangers() {
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
    fn other_hosts_and_other_ports_are_strangers_unless_they_are_allowed() {
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
        // What cannot be understood is nobody's.
        assert_eq!(found(&["http://a@web/"], &targets, &["a", "web"]), ["http://a@web/"]);
    }

    #[test]
    fn a_host_has_no_scheme_path_or_user() {
        for text in ["victim", "victim:80", "[::1]", "[::1]:8080", "127.0.0.1"] {
            assert!(is_host(text), "{text}");
        }
        for text in
            ["", "http://victim", "victim/", "u@victim", "victim:", "victim:0", "victim:99999", ":80", "a b"]
        {
            assert!(!is_host(text), "{text}");
        }
    }

    #[test]
    fn a_refusal_names_hosts_and_flag() {
        let hosts: Vec<String> = (0..7).map(|n| format!("h{n}")).collect();
        let (what, hint) = refusal("mined", &hosts);
        assert_eq!(
            what,
            "workload mined asks hosts that the target does not name: h0, h1, h2, h3, h4 and 2 more"
        );
        assert!(hint.contains("--allow-hosts h0,h1,h2,h3,h4;"), "{hint}");
    }
}
