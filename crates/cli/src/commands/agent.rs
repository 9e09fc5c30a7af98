//! `webstone agent`: what a run elsewhere starts on the server's host, to look at the server there.

use std::io::{self, IsTerminal};

use webstone_lab::agent::serve;
use webstone_runner::fleet::role;

use crate::failure::{Exit, Failure};
use crate::version;

pub(super) fn execute() -> Result<Exit, Failure> {
    if io::stdin().is_terminal() || io::stdout().is_terminal() {
        return Err(Failure::usage(
            "`webstone agent` is started by a run on another host, not by hand: its standard input and output must be connected to that run, but this is a terminal",
        )
        .hint(
            "on the host that makes the load: webstone run http://HOST --server-agent 'ssh root@HOST webstone agent' (and \
             without `ssh -t`)",
        ));
    }
    // Not the locked handles: the threads that hear and answer outlive this call until the program ends.
    let tool = version::tool();
    match serve(io::stdin(), io::stdout(), &tool.version.clone(), role(tool, super::calibrate::file())) {
        Ok(()) => Ok(Exit::Done),
        Err(error) => {
            let failure = Failure::failed(format!("agent: {error}"));
            Err(error.hint().into_iter().fold(failure, Failure::hint))
        }
    }
}
