//! Any server that a command line starts. Its words may contain what the server needs from webstone: `{port}`, `{address}`
//! (without the port), `{root}`, `{directory}` (its own, writable), `{threads}`, with TLS `{cert}` and `{key}`. No shell is
//! involved.

use super::{Choice, Driver, Refusal, Setup, Site};

pub(super) const DRIVER: Driver =
    Driver { programs: &[], install: "", version_argument: "", without, configure };

fn without(choice: Choice) -> Option<&'static str> {
    match choice {
        Choice::TlsListen => Some("a command line is given one address, with TLS or without"),
        Choice::Root | Choice::Threads | Choice::Tls | Choice::Http2 | Choice::Http1 => None,
        _ => Some("it does not apply to a command line of your own; write it there"),
    }
}

fn configure(site: &Site) -> Setup {
    let line = site.spec.command.as_deref().unwrap_or_default();
    let words = words(line).unwrap_or_default();
    Setup {
        arguments: words.iter().skip(1).map(|word| filled(word, site).into()).collect(),
        ..Setup::default()
    }
}

/// The words of a command line, quotes removed as a shell would.
pub(super) fn words(line: &str) -> Result<Vec<String>, Refusal> {
    let refusal = |what: &str| Refusal {
        what: format!("server.command: `{line}`: {what}"),
        hint: "write it as for a shell, as in 'busybox httpd -f -p {address}:{port} -h {root}'".to_owned(),
    };
    let words = shlex::split(line).ok_or_else(|| refusal("a quote is not closed"))?;
    if words.is_empty() {
        return Err(refusal("it is empty"));
    }
    if !words.iter().any(|word| word.contains("{port}")) {
        return Err(refusal("{port} is missing: the server could not know where to listen"));
    }
    Ok(words)
}

fn filled(word: &str, site: &Site) -> String {
    let known = [
        ("{port}", site.address.port().to_string()),
        ("{address}", site.address.ip().to_string()),
        ("{root}", site.root.display().to_string()),
        ("{directory}", site.own("")),
        ("{threads}", site.threads().to_string()),
        ("{cert}", site.tls.as_ref().map(|tls| tls.cert.clone()).unwrap_or_default()),
        ("{key}", site.tls.as_ref().map(|tls| tls.key.clone()).unwrap_or_default()),
    ];
    known.iter().fold(word.to_owned(), |word, (name, value)| word.replace(name, value))
}
