//! The roles of webstone's own executable when webstone starts it: one line of JSON on standard input, and the single word
//! [`CHILD`] on the command line. So options of the command line need not mean the same on both sides, and no list of processes
//! shows paths and commands. Standard input stays open: it ends when the parent ends.

use std::ffi::OsString;
use std::io::{self, BufRead, Write};

use serde::{Deserialize, Serialize};
use webstone_measure::strict;
use webstone_model::spec::ServerSpec;
use webstone_server::NullOptions;

use crate::path::Relay;
use crate::supervisor::Supervision;

/// The argument that starts the executable in this role.
pub const CHILD: &str = "child";

/// What it is to be.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Child {
    /// The reference server.
    Server {
        /// Its settings.
        server: Box<ServerSpec>,
        /// The workload whose files it serves, if the options name no directory.
        workload: String,
    },
    /// The null server.
    NullServer(NullOptions),
    /// The relay of a path between clients and a server.
    Relay(Relay),
    /// The process between a run and another server.
    Supervisor(Supervision),
    /// That server, a child of the supervisor with this process identifier.
    Supervised {
        /// The supervisor.
        supervisor: u32,
        /// Program and arguments.
        words: Vec<OsString>,
        /// CPUs to run on; empty: all.
        cpus: Vec<u32>,
    },
}

impl Child {
    /// Sends its role to a child, started with [`CHILD`] and a pipe as its standard input. If it has already ended, its exit
    /// says why.
    pub(crate) fn tell(&self, stdin: &mut impl Write) -> io::Result<()> {
        let line = serde_json::to_string(self)? + "\n";
        match stdin.write_all(line.as_bytes()) {
            Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(error),
            _ => Ok(()),
        }
    }

    /// The role of this process; waits for it.
    ///
    /// # Errors
    /// If standard input ends or contains anything else.
    pub fn told() -> io::Result<Child> {
        let mut line = String::new();
        io::stdin().lock().read_line(&mut line)?;
        Ok(strict::json(line.as_bytes())?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::ffi::OsStringExt;

    #[test]
    fn what_is_told_is_one_line_that_reads_back() {
        let words = vec![OsString::from("a b\n"), OsString::from_vec(vec![0xff, b'x'])];
        let supervision =
            Supervision { words: words.clone(), output: Some("/x".into()), ..Supervision::default() };
        for child in [
            Child::Server { server: Box::default(), workload: "w".into() },
            Child::NullServer(NullOptions::default()),
            Child::Supervisor(supervision),
            Child::Supervised { supervisor: 7, words, cpus: vec![1] },
        ] {
            let mut told = Vec::new();
            child.tell(&mut told).unwrap();
            assert_eq!(told.iter().filter(|byte| **byte == b'\n').count(), 1);
            assert_eq!(serde_json::from_slice::<Child>(&told).unwrap(), child);
        }
    }
}
