//! Attempts to begin header fields or requests with values of a feed.

use crate::peer::Peer;
use crate::program::webstone_in;

const SHORT: [&str; 10] = ["-c", "1", "-n", "4", "-d", "0s", "--warmup", "0s", "--connections", "keep-alive"];
const EVIL: &str = "a b\r\nEvil: yes\r\n\r\nDELETE /all HTTP/1.1\r\nHost: x";

fn feed(dir: &std::path::Path, page: &str) {
    std::fs::write(dir.join("users.csv"), format!("name\nann\n\"{EVIL}\"\n")).unwrap();
    std::fs::write(dir.join("w.toml"), format!("[feeds.u]\nfile = \"users.csv\"\n[[pages]]\n{page}\n"))
        .unwrap();
}

#[test]
fn a_line_end_in_a_value_for_a_url_is_a_request_of_its_own() {
    let target = Peer::polite();
    let dir = tempfile::tempdir().unwrap();
    feed(dir.path(), "url = \"/u?n={{u.name}}\"");
    webstone_in(dir.path(), &[&["run", &target.url(), "-w", "w.toml"][..], &SHORT].concat());
    let requests = target.requests();
    let asked = requests.iter().find(|head| head.contains("Evil")).expect("the second row was asked for");
    let line = asked.lines().next().unwrap();
    assert!(line.starts_with("GET /u?n=a%20b%0D%0AEvil:%20yes%0D%0A%0D%0ADELETE%20/all"), "{line}");
    assert!(requests.iter().all(|head| head.is_empty() || head.starts_with("GET /")), "{requests:?}");
    assert!(requests.iter().all(|head| !head.contains("\nEvil")), "{requests:?}");
}

#[test]
fn a_line_end_in_a_value_for_a_header_is_a_field_of_its_own() {
    let target = Peer::polite();
    let dir = tempfile::tempdir().unwrap();
    let url = target.url();
    let by_page = "url = \"/\"\nheaders = { X-Name = \"{{u.name}}\" }";
    for (page, flag) in [(by_page, "X-Other: {{seq}}"), ("url = \"/\"", "X-Name: {{u.name}}")] {
        feed(dir.path(), page);
        let said = webstone_in(
            dir.path(),
            &[&["run", &url, "-w", "w.toml", "--no-check", "-H", flag][..], &SHORT].concat(),
        );
        assert_eq!(said.code, 2, "{}", said.err);
        assert!(said.err.contains("feed `u` (users.csv), row 2, column `name`"), "{}", said.err);
    }
    assert!(target.requests().iter().all(String::is_empty), "{:?}", target.requests());
}
