//! URLs as typed: `run` and `checkfiles` want a server, `hit` wants a server and a path.

use http::Uri;

use crate::args::OwnServerArgs;
use crate::failure::Failure;

/// A URL in its two parts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Base {
    /// Scheme, host and port: `http://127.0.0.1:8080`.
    pub(super) base: String,
    /// Path and query, at least `/`.
    pub(super) path: String,
}

/// Takes a URL apart.
pub(super) fn split(typed: &str) -> Result<Base, Failure> {
    let wrong = |rule: &str| Failure::usage(format!("URL `{typed}`: {rule}"));
    const FORM: &str = "write http://HOST:PORT/PATH, as in http://127.0.0.1:8080/index.html";
    const PLAIN: &str = "measure the server's plain address, as in http://HOST:80";
    if typed.starts_with("https://") {
        return Err(wrong("TLS (https) is not supported in this version").hint(PLAIN));
    }
    let Some(rest) = typed.strip_prefix("http://") else {
        let scheme = typed.split_once("://");
        return Err(match scheme {
            Some((scheme, _)) => {
                wrong(&format!("{scheme} is not a protocol that can be measured")).hint(FORM)
            }
            None => wrong("the protocol is missing").hint(format!("write http://{typed}")),
        });
    };
    if rest.is_empty() || rest.starts_with('/') {
        return Err(wrong("the host is missing").hint(FORM));
    }
    if rest.contains('#') {
        return Err(wrong("a fragment (#) is never sent to a server").hint("leave out # and what follows it"));
    }
    let uri: Uri = typed.parse().map_err(|error| wrong(&format!("{error}")).hint(FORM))?;
    let authority = uri.authority().ok_or_else(|| wrong("the host is missing").hint(FORM))?;
    if authority.as_str().contains('@') {
        return Err(wrong("a user name in a URL is not sent")
            .hint("write a header field instead: -H 'Authorization: Basic …'"));
    }
    if authority.host().is_empty() {
        return Err(wrong("the host is missing").hint(FORM));
    }
    // `Authority` takes any digits for a port; `port_u16` tells whether they are one.
    let after_host = &authority.as_str()[authority.host().len()..];
    if !after_host.is_empty() && authority.port_u16().is_none_or(|port| port == 0) {
        return Err(
            wrong(&format!("`{}` is not a port", &after_host[1..])).hint("write a port from 1 to 65535")
        );
    }
    let path = uri.path_and_query().map_or("/", |path| path.as_str());
    let path = if path.starts_with('/') { path.to_owned() } else { format!("/{path}") };
    Ok(Base { base: format!("http://{authority}"), path })
}

/// A URL that names a server and nothing more, for a command that takes the paths from a workload.
pub(crate) fn server_url(typed: &str, command: &str) -> Result<String, Failure> {
    let url = split(typed)?;
    if url.path == "/" {
        return Ok(url.base);
    }
    let base = &url.base;
    Err(Failure::usage(format!(
        "URL `{typed}`: `{command}` takes the paths from a workload (-w), so its URL names a server only, and this one \
         has the path {}",
        url.path
    ))
    .hint(format!("for the workload, `webstone {command} {base}`; for this one URL, `webstone hit {typed}`")))
}

/// Flags of the server that webstone starts make no sense where another is measured. Where the other stands in the testbed
/// file alone, `--server` is the newer word.
pub(super) fn no_own_server(
    args: &OwnServerArgs,
    typed_targets: &[String],
    targets: &mut Vec<String>,
) -> Result<(), Failure> {
    if args.server.is_some() && typed_targets.is_empty() {
        targets.clear();
    }
    let typed = [
        ("--server", args.server.is_some()),
        ("--server-program", args.server_program.is_some()),
        ("--server-command", args.server_command.is_some()),
        ("--server-origin", args.server_origin.is_some()),
        ("--server-origin-cpus", args.server_origin_cpus.is_some()),
        ("--server-listen", args.server_listen.is_some()),
        ("--server-threads", args.server_threads.is_some()),
        ("--server-processes", args.server_processes.is_some()),
        ("--server-cpus", args.server_cpus.is_some()),
        ("--server-root", args.server_root.is_some()),
        ("--server-cache", args.server_cache),
        ("--server-no-cache", args.server_no_cache),
        ("--server-no-keep-alive", args.server_no_keep_alive),
        ("--server-log", args.server_log.is_some()),
        ("--server-resolve-names", args.server_resolve_names),
        ("--server-backlog", args.server_backlog.is_some()),
        ("--server-interface", args.server_interface.is_some()),
        ("--server-handlers", args.server_handlers.is_some()),
    ];
    let Some((option, _)) = typed.iter().find(|(_, typed)| *typed) else { return Ok(()) };
    let Some(url) = targets.first() else { return Ok(()) };
    Err(Failure::usage(format!(
        "{option} is for a server that webstone starts, and the server under test is {url}"
    ))
    .hint(format!("leave out {option}, or name no URL to have a server started")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts(typed: &str) -> (String, String) {
        let url = split(typed).unwrap();
        (url.base, url.path)
    }

    #[test]
    fn a_url_has_a_server_and_a_path() {
        for (typed, base, path) in [
            ("http://a", "http://a", "/"),
            ("http://a/", "http://a", "/"),
            ("http://127.0.0.1:8080/x?y=1", "http://127.0.0.1:8080", "/x?y=1"),
            ("http://[::1]:80/x", "http://[::1]:80", "/x"),
            ("http://a?b", "http://a", "/?b"),
        ] {
            assert_eq!(parts(typed), (base.to_owned(), path.to_owned()), "{typed}");
        }
    }

    fn message(typed: &str) -> String {
        split(typed).unwrap_err().to_string()
    }

    #[test]
    fn wrong_urls_are_explained() {
        for (typed, expected) in [
            (
                "localhost:8080",
                "error: URL `localhost:8080`: the protocol is missing\nhint: write http://localhost:8080",
            ),
            (
                "https://a/",
                "error: URL `https://a/`: TLS (https) is not supported in this version\nhint: measure the server's plain address, as in http://HOST:80",
            ),
            (
                "ftp://a/",
                "error: URL `ftp://a/`: ftp is not a protocol that can be measured\nhint: write http://HOST:PORT/PATH, as in http://127.0.0.1:8080/index.html",
            ),
            (
                "http://a/#top",
                "error: URL `http://a/#top`: a fragment (#) is never sent to a server\nhint: leave out # and what follows it",
            ),
            (
                "http://me:pw@a/",
                "error: URL `http://me:pw@a/`: a user name in a URL is not sent\nhint: write a header field instead: -H 'Authorization: Basic …'",
            ),
            (
                "http://a:0/",
                "error: URL `http://a:0/`: `0` is not a port\nhint: write a port from 1 to 65535",
            ),
            (
                "http://a:99999/",
                "error: URL `http://a:99999/`: `99999` is not a port\nhint: write a port from 1 to 65535",
            ),
        ] {
            assert_eq!(message(typed), expected);
        }
        for typed in ["http://", "http:///x", "http://a b/", ""] {
            assert!(split(typed).is_err(), "{typed:?}");
        }
    }

    #[test]
    fn a_run_wants_a_server_only() {
        assert_eq!(server_url("http://a:1/", "run"), Ok("http://a:1".into()));
        assert_eq!(
            server_url("http://a:1/x", "run").unwrap_err().to_string(),
            "error: URL `http://a:1/x`: `run` takes the paths from a workload (-w), so its URL names a server only, and this one has the path /x\n\
             hint: for the workload, `webstone run http://a:1`; for this one URL, `webstone hit http://a:1/x`"
        );
    }
}
