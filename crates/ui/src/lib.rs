//! `webstone ui`: a front for a browser on the same host. It starts runs as processes of their own, which continue when it ends, shows them
//! while they run, and what is stored of them.
//!
//! Nothing of a measurement happens here. Live figures are those that a run reports (`--events`); reports are rendered by `webstone-report`
//! from records; the command line decides whether a testbed is right ([`Desk`]). Who may ask: `guard`.
#![forbid(unsafe_code)]

mod answer;
mod assets;
mod desk;
mod detail;
mod form;
mod guard;
mod launch;
mod library;
mod live;
mod manners;
mod pages;
mod permission;
mod places;
mod process;
mod program;
pub mod registry;
mod routes;
mod runs;
mod server;
mod stored;
mod tickets;
mod usage;

use std::io;
use std::net::{Ipv4Addr, TcpListener};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

pub use desk::{Desk, KnownServer, Planned, Problem};
pub use process::Process;

use guard::{Guard, Token};
use launch::Launcher;
use routes::Front;
use runs::Runs;

/// How often the front looks at the runs that are on.
const LOOK: Duration = Duration::from_millis(500);
/// A front that ends by itself does so after this time without a request.
const IDLE: Duration = Duration::from_secs(60);

/// What a front is to be.
#[derive(Clone, Debug)]
pub struct Options {
    /// Port of 127.0.0.1; 0: a free one.
    pub port: u16,
    /// Directory of records.
    pub runs_dir: PathBuf,
    /// The program that runs are started with.
    pub program: PathBuf,
    /// Whether pages may only look.
    pub read_only: bool,
    /// Whether testbeds may name commands, and archives may be written.
    pub allow_commands: bool,
    /// Whether it ends by itself when no run is on and nobody has asked for anything for a minute.
    pub until_idle: bool,
}

/// A front that listens.
pub struct Bound {
    listener: TcpListener,
    front: Arc<Front>,
    url: String,
    cpus: Vec<usize>,
}

impl std::fmt::Debug for Bound {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Bound").field("listener", &self.listener).finish_non_exhaustive()
    }
}

/// Why there is no front.
#[derive(Debug, thiserror::Error)]
pub enum UiError {
    /// The port is not available.
    #[error("cannot listen on 127.0.0.1:{port}: {}", webstone_store::without_number(error))]
    Listen {
        /// The port.
        port: u16,
        /// Why.
        error: io::Error,
    },
    /// Anything else of the operating system.
    #[error("{what}: {}", webstone_store::without_number(error))]
    System {
        /// What was tried.
        what: &'static str,
        /// Why it failed.
        error: io::Error,
    },
}

impl Bound {
    /// Listens. Runs are started with the priority and the CPUs that the caller has now.
    ///
    /// # Errors
    /// If it cannot listen, or has no random bytes.
    pub fn new(options: Options, desk: Arc<dyn Desk>) -> Result<Bound, UiError> {
        let failed = |what| move |error| UiError::System { what, error };
        let port = options.port;
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port));
        let listener = listener.map_err(|error| UiError::Listen { port, error })?;
        listener.set_nonblocking(true).map_err(failed("cannot listen"))?;
        let port = listener.local_addr().map_err(failed("cannot tell the port"))?.port();
        let token = Token::random().map_err(failed("no random bytes for a token"))?;
        let url = format!("http://127.0.0.1:{port}/#token={}", token.text());
        let launcher = Launcher::start(options.program.clone(), options.runs_dir.clone());
        let launcher = launcher.map_err(failed("cannot start a thread"))?;
        let runs = Runs::new(options.runs_dir.clone(), launcher);
        let cpus = manners::own_cpus();
        let front = Arc::new(Front::new(options, Guard::new(port, token), runs, desk, cpus.len()));
        Ok(Bound { listener, front, url, cpus })
    }

    /// The address to open, with the token in its fragment, which browsers send to nobody.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Serves until `is_over` says so. Runs in progress continue.
    ///
    /// # Errors
    /// If the listening socket fails.
    pub fn serve(self, is_over: impl Fn() -> bool) -> Result<(), UiError> {
        manners::step_back();
        let failed = |error| UiError::System { what: "the front ended", error };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(failed)?;
        runtime.block_on(async {
            let listener = tokio::net::TcpListener::from_std(self.listener).map_err(failed)?;
            tokio::select! {
                served = server::serve(listener, Arc::clone(&self.front)) => served.map_err(failed),
                () = look_after(&self.front, &self.cpus, &is_over) => Ok(()),
            }
        })
    }
}

/// Looks at the runs twice a second, until it is told to stop.
async fn look_after(front: &Front, cpus: &[usize], is_over: &impl Fn() -> bool) {
    let mut looks = 0_u64;
    while !is_over() {
        let processes = front.refresh();
        if processes.is_empty() && front.is_idle_for(IDLE) {
            return;
        }
        // Where a run's workers are pinned shows some time after its start, and changes seldom.
        if looks.is_multiple_of(10) {
            manners::keep_off(&processes, cpus);
        }
        looks += 1;
        tokio::time::sleep(LOOK).await;
    }
}
