//! Command lines of curl as those of `hit`.

use super::*;

fn said(text: &str) -> Vec<String> {
    words(text).unwrap()
}

fn refused(text: &str) -> String {
    let failure = words(text).unwrap_err();
    assert!(failure.hint.is_some(), "{}", failure.message);
    failure.message
}

#[test]
fn options_become_webstones() {
    for (typed, words) in [
        ("curl http://a/", &["http://a/"][..]),
        ("/usr/bin/curl -sSvo /dev/null -w '%{http_code}' a:81/x", &["http://a:81/x"]),
        ("curl -XPUT -H 'A: b c' -H'X;' http://a/", &["http://a/", "-m", "PUT", "-H", "A: b c", "-H", "X: "]),
        (
            "curl 'https://a/?x=1' \\\n  -H 'accept: */*' --compressed -kL",
            &[
                "https://a/?x=1",
                "-H",
                "accept: */*",
                "--follow=50",
                "--accept-encoding",
                "deflate,gzip,br,zstd",
                "--insecure",
            ],
        ),
        (
            "curl -u ann:x -b 'a=1; b=2' -A me -e http://r/ http://a/",
            &[
                "http://a/",
                "-H",
                "Authorization: Basic YW5uOng=",
                "-H",
                "Cookie: a=1; b=2",
                "-H",
                "User-Agent: me",
                "-H",
                "Referer: http://r/",
            ],
        ),
        (
            "curl -d a=1 --data-raw @b http://a/",
            &["http://a/", "-H", "Content-Type: application/x-www-form-urlencoded", "--body", "a=1&@b"],
        ),
        ("curl -G -d a=1 --data-urlencode 'q=b c&' http://a/?z", &["http://a/?z&a=1&q=b%20c%26"]),
        (
            "curl --json '{\"a\":1}' -H 'Accept: x' http://a/",
            &["http://a/", "-H", "Accept: x", "-H", "Content-Type: application/json", "--body", "{\"a\":1}"],
        ),
        (
            "curl --data-raw '{{x}}' -H 'Content-Type: t' -H 'A: {{y' http://a/",
            &["http://a/", "-H", "Content-Type: t", "-H", "A: {{\"{{\"}}y", "--body-base64", "e3t4fX0="],
        ),
        ("curl -F a=1 -F f=@x http://a/", &["http://a/", "--form", "a=1", "--form", "f=@x"]),
        (
            "curl --resolve b:443:127.0.0.1 --resolve c:1:::1 --connect-to a::b: https://b/ --http2 -m 2.5",
            &[
                "https://b/",
                "--connect-to",
                "b:443:127.0.0.1:443",
                "--connect-to",
                "c:1:[::1]:1",
                "--connect-to",
                "a::b:",
                "--http",
                "2",
                "--timeout",
                "2.5s",
            ],
        ),
        ("curl -L --max-redirs 3 -I http://a/", &["http://a/", "-m", "HEAD", "--follow=3"]),
        ("curl -g 'http://[::1]:80/{{x}}'", &["http://[::1]:80/%7B%7Bx%7D%7D"]),
    ] {
        assert_eq!(said(typed), words, "{typed}");
    }
}

#[test]
fn what_cannot_be_done_is_refused_by_name() {
    for (typed, message) in [
        ("curl", "--curl: the URL is missing"),
        ("curl --http3 http://a/", "--curl: --http3 is not an option of curl that webstone knows"),
        ("curl -sK x http://a/", "--curl: -K is not an option of curl that webstone knows"),
        ("curl http://a/ -H", "--curl: -H: a value is missing"),
        ("curl http://a/ http://b/", "--curl: `http://b/` is a second URL, after `http://a/`"),
        ("curl 'http://a/[1-3]'", "--curl: `http://a/[1-3]`: to curl, `[` begins or ends a list of URLs"),
        ("curl -H 'Accept:' http://a/", "--curl: -H `Accept:`: a default field cannot be removed"),
        ("curl -u ann http://a/", "--curl: -u: the password is missing, and nobody is asked for it"),
        ("curl -b jar http://a/", "--curl: -b `jar`: cookies are not read from a file"),
        (
            "curl -d @/no/such http://a/",
            "--curl: -d @/no/such: cannot read the file: No such file or directory",
        ),
        ("curl 'http://a/", "--curl: a quotation mark is not closed"),
        ("curl $'a' http://a/", "--curl: `$'…'` is a quotation of bash's own"),
    ] {
        assert_eq!(refused(typed), message, "{typed}");
    }
}

#[test]
fn the_words_take_the_place_of_the_option() {
    let of = |line: &[&str]| {
        let line: Vec<OsString> = line.iter().map(OsString::from).collect();
        let found = command(&line).unwrap_or_else(|failure| panic!("{}", failure.message));
        found.map(|words| words.join(std::ffi::OsStr::new(" ")).into_string().unwrap())
    };
    assert_eq!(
        of(&["webstone", "hit", "-c", "3", "--curl", "curl -k a", "-q"]).unwrap(),
        "webstone hit -c 3 http://a --insecure -q"
    );
    assert_eq!(of(&["webstone", "--curl=curl a"]).unwrap(), "webstone hit http://a");
    assert_eq!(of(&["webstone", "run", "--curl", "curl a"]), None);
    assert_eq!(of(&["webstone", "hit", "--curl"]), None);
}
