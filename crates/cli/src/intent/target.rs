//! Which server is meant: the URL of `hit`, and whether the command line or a file decides.

use webstone_measure::shown::quoted;
use webstone_model::spec::{RunSpec, ServerSpec};
use webstone_workload::target::{Target, UrlError};

use crate::args::OwnServerArgs;
use crate::failure::Failure;

/// Splits a URL into a server that can be requested, and a path with its query.
pub(super) fn split(typed: &str) -> Result<(Target, String), Failure> {
    let (target, path) = Target::split(typed).map_err(failure)?;
    let wrong = |rule: String| Failure::usage(format!("URL `{typed}`: {rule}"));
    match path.chars().find(|c| *c == '#' || !c.is_ascii_graphic()) {
        None => Ok((target, path.into_owned())),
        Some('#') => Err(wrong("a fragment (#) is never sent to a server".to_owned())
            .hint("leave out # and what follows it")),
        Some(other) => Err(wrong(format!("a URL cannot contain {}", quoted(&other.to_string())))
            .hint("write white space as %20, and other characters in the same way")),
    }
}

fn failure(error: UrlError) -> Failure {
    Failure::usage(error.to_string()).hint(error.remedy)
}

/// If a testbed file has a server elsewhere and the command line one that webstone starts, or the other way round,
/// the command line decides.
pub(super) fn newest(urls: &[String], own: &OwnServerArgs, spec: &mut RunSpec) {
    if !urls.is_empty() {
        spec.target = urls.to_vec();
        spec.server = ServerSpec { agents: std::mem::take(&mut spec.server.agents), ..ServerSpec::default() };
    } else if own.server.is_some() {
        spec.target.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_has_a_server_and_a_path() {
        let (target, path) = split("http://[::1]:81/x?y=1").unwrap();
        assert_eq!((target.to_string().as_str(), path.as_str()), ("http://[::1]:81", "/x?y=1"));
    }

    #[test]
    fn wrong_urls_are_explained() {
        for (typed, expected) in [
            ("localhost:8080", "the protocol is missing\nhint: write http://localhost:8080"),
            (
                "ftp://a/",
                "`ftp` is not a protocol that can be measured\n\
                 hint: write http://HOST:PORT/PATH, as in http://127.0.0.1:8080/index.html",
            ),
            (
                "http://a/#top",
                "a fragment (#) is never sent to a server\nhint: leave out # and what follows it",
            ),
            (
                "http://a/b c",
                "a URL cannot contain ` `\nhint: write white space as %20, and other characters in the same way",
            ),
        ] {
            assert_eq!(split(typed).unwrap_err().to_string(), format!("error: URL `{typed}`: {expected}"));
        }
    }
}
