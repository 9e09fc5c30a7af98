//! Which hosts a workload asks besides its target. Load goes only where it was aimed: a list of URLs from somewhere else
//! must not put a third party under load, so hosts that the target does not name have to be named by whoever runs it.

use webstone_model::target::{Place, Target};

use super::{Workload, is_absolute};

/// The hosts that a workload's URLs name, and neither `targets` (URLs) nor `allowed` (`HOST`, which stands for each of its
/// ports, or `HOST:PORT`) do: each once, in the order of the workload. A URL that names no host that can be understood is
/// one of them, whole.
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
            Ok((target, _)) => target.authority(),
            Err(_) => url.to_owned(),
        };
        if !found.contains(&shown) {
            found.push(shown);
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
