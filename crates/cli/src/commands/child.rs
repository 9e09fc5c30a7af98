//! `webstone child`: processes that a run starts from this executable, instructed by standard input (`lab::child`).
//! Not for people.

use std::ffi::OsString;

use webstone_lab::child::Child;
use webstone_lab::path::relay;
use webstone_lab::supervisor::{become_server, supervise};

use super::{calibrate, serve};
use crate::console::{self, Console};
use crate::failure::{Exit, Failure};

pub(super) fn execute(console: &Console) -> Result<Exit, Failure> {
    let told = Child::told().map_err(|error| {
        Failure::usage(format!("standard input does not say what to be: {error}"))
            .hint("webstone starts this by itself; the reference server is `webstone serve`")
    })?;
    match told {
        Child::Server { server, workload } => serve::as_child(*server, &workload, console),
        Child::NullServer(options) => calibrate::serve_null_server(&options),
        Child::Relay(orders) => {
            let served = relay(&orders, &mut |line| {
                let _ = console::print(&format!("{line}\n"));
            });
            served.map(|()| Exit::Done).map_err(|error| Failure::failed(error.to_string()))
        }
        Child::Supervisor(supervision) => {
            let told = supervise(&supervision, &mut |line| {
                // The run reads this; if it has ended, nobody does.
                let _ = console::print(&format!("{line}\n"));
            });
            told.map(|()| Exit::Done).map_err(|error| not_started(&supervision.words, &error))
        }
        Child::Supervised { supervisor, words, cpus } => {
            Err(not_started(&words, &become_server(&words, &cpus, supervisor)))
        }
    }
}

fn not_started(words: &[OsString], error: &std::io::Error) -> Failure {
    let program = words.first().map(|word| word.to_string_lossy()).unwrap_or_default();
    Failure::failed(format!("cannot start {program}: {error}"))
}
