//! Why the server cannot start: the option, its value, the rule, and the remedy; why bytes of a handler cannot be read.

use std::io;

use rustix::io::Errno;

/// Why the server cannot start. The text names the option, its value and the rule.
#[derive(Debug, thiserror::Error)]
#[error("{what}")]
pub struct ServeError {
    /// The option, its value, and what is wrong with it.
    pub what: String,
    /// What to do about it.
    pub hint: Option<String>,
}

/// Why bytes are not of a handler's protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub(crate) struct Malformed(pub(crate) &'static str);

impl ServeError {
    /// An option whose value cannot be used.
    pub(crate) fn option(option: &str, value: &str, rule: &str, hint: &str) -> ServeError {
        ServeError { what: format!("{option} {value}: {rule}"), hint: Some(hint.to_owned()) }
    }

    /// A system call of the start-up that failed, independent of options.
    pub(crate) fn system(what: &str, source: &io::Error) -> ServeError {
        ServeError { what: format!("{what} failed: {source}"), hint: None }
    }

    /// A listening address that the operating system refuses.
    pub(crate) fn listen(address: &str, source: io::Error) -> ServeError {
        let (rule, hint) = match Errno::from_io_error(&source) {
            Some(Errno::ADDRINUSE) => (
                "the address is in use by another process",
                "stop that process (`ss -ltnp` shows it), or use port 0 for a free one",
            ),
            Some(Errno::ACCESS | Errno::PERM) => (
                "permission denied",
                "ports below 1024 need root or CAP_NET_BIND_SERVICE; a Unix socket needs a writable directory",
            ),
            Some(Errno::ADDRNOTAVAIL) => (
                "no network interface of this host has this address",
                "`ip address` lists the addresses of this host; 0.0.0.0 and [::] stand for all of them",
            ),
            Some(Errno::NOENT) => ("the directory of the Unix socket does not exist", "create it first"),
            _ => return ServeError { what: format!("--listen {address}: {source}"), hint: None },
        };
        ServeError::option("--listen", address, rule, hint)
    }
}
