//! `webstone agent`: started by a run on another host, to monitor the server here or to make load; with `--idle`,
//! keeps a container alive in which that can be done.

use std::io::{self, IsTerminal};

use webstone_lab::agent::{serve, wait_for_use};
use webstone_measure::units::Nanos;
use webstone_runner::fleet::role;

use crate::args::AgentArgs;
use crate::console;
use crate::failure::{Exit, Failure};
use crate::signals::SignalWatch;
use crate::version;

pub(super) fn execute(args: &AgentArgs) -> Result<Exit, Failure> {
    match args.idle {
        Some(idle) => keep(idle),
        None => serve_one(args),
    }
}

/// Keeps the container alive. The first process of a container is ended by a signal only if it handles it.
fn keep(idle: Nanos) -> Result<Exit, Failure> {
    let signals = SignalWatch::saying("ending, and every agent in this container with it")?;
    console::complain(format!(
        "waiting for agents to be started beside this one; ends after {idle} without any"
    ));
    wait_for_use(idle.as_duration(), &signals.interrupt);
    Ok(signals.exit().unwrap_or(Exit::Done))
}

fn serve_one(args: &AgentArgs) -> Result<Exit, Failure> {
    if io::stdin().is_terminal() || io::stdout().is_terminal() {
        return Err(Failure::usage(
            "`webstone agent` is started by a run on another host, not by hand: its standard input and output must be connected to that run, but this is a terminal",
        )
        .hint(
            "on the host that makes the load: webstone run http://HOST --server-agent 'ssh root@HOST webstone agent' (and \
             without `ssh -t`)",
        ));
    }
    // Not the locked handles: the threads that read and write live longer than this call, until the program ends.
    let tool = version::tool();
    let (version, ports) = (tool.version.clone(), args.port.iter().copied().collect());
    let role = role(tool, super::calibrate::file(), args.allow.clone());
    match serve(io::stdin(), io::stdout(), &version, ports, role) {
        Ok(()) => Ok(Exit::Done),
        Err(error) => {
            let failure = Failure::failed(format!("agent: {error}"));
            Err(error.hint().into_iter().fold(failure, Failure::hint))
        }
    }
}
