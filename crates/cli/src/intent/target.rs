//! URLs as typed: `run` and `checkfiles` want a server, `hit` wants a server and a path.

use webstone_model::shown::quoted;
use webstone_model::target::{Target, UrlError};

use crate::args::OwnServerArgs;
use crate::failure::Failure;

/// Takes a URL apart: a server that can be asked, and a path with its query.
pub(super) fn split(typed: &str) -> Result<(Target, String), Failure> {
    let (target, path) = Target::plain(typed).map_err(failure)?;
    let wrong = |rule: String| Failure::usage(format!("URL `{typed}`: {rule}"));
    match path.chars().find(|c| *c == '#' || !c.is_ascii_graphic()) {
        None => Ok((target, path.into_owned())),
        Some('#') => Err(wrong("a fragment (#) is never sent to a server".to_owned())
            .hint("leave out # and what follows it")),
        Some(other) => Err(wrong(format!("{} cannot stand in a URL", quoted(&other.to_string())))
            .hint("write white space as %20, and other characters in the same way")),
    }
}

/// A URL that names a server and nothing more, for a command that takes the paths from a workload.
pub(crate) fn server_url(typed: &str, command: &str) -> Result<Target, Failure> {
    let (target, path) = split(typed)?;
    if path == "/" {
        return Ok(target);
    }
    Err(Failure::usage(format!(
        "URL `{typed}`: `{command}` takes the paths from a workload (-w), so its URL names a server only, and this one \
         has the path {path}"
    ))
    .hint(format!("for the workload, `webstone {command} {target}`; for this one URL, `webstone hit {typed}`")))
}

fn failure(error: UrlError) -> Failure {
    Failure::usage(error.to_string()).hint(error.remedy)
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
                "https://a/",
                "TLS (https) is not supported in this version\n\
                 hint: measure the server's plain address, as in http://HOST:80",
            ),
            (
                "http://a/#top",
                "a fragment (#) is never sent to a server\nhint: leave out # and what follows it",
            ),
            (
                "http://a/b c",
                "` ` cannot stand in a URL\nhint: write white space as %20, and other characters in the same way",
            ),
        ] {
            assert_eq!(split(typed).unwrap_err().to_string(), format!("error: URL `{typed}`: {expected}"));
        }
    }

    #[test]
    fn a_run_wants_a_server_only() {
        assert_eq!(server_url("http://a:1/", "run"), Ok("http://a:1".parse().unwrap()));
        assert_eq!(
            server_url("http://a:1/x", "run").unwrap_err().to_string(),
            "error: URL `http://a:1/x`: `run` takes the paths from a workload (-w), so its URL names a server only, and this one has the path /x\n\
             hint: for the workload, `webstone run http://a:1`; for this one URL, `webstone hit http://a:1/x`"
        );
    }
}
