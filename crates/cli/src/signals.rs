//! SIGINT, SIGTERM and SIGHUP → [`Interrupt`]. The first ends the running level and keeps what was measured; the
//! second stops at once; the third ends the process, in case something hangs.
//!
//! A run gets SIGHUP when its terminal or SSH connection is closed. If it was ignored when the program started, as
//! with `nohup`, it stays ignored. SIGQUIT (Ctrl-\) keeps its default: the program ends at once with a core dump, for
//! debugging; supervisors still end every server.

use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering};

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGXFSZ};
use signal_hook::iterator::Signals;
use webstone_lab::Interrupt;

use crate::console;
use crate::failure::{Exit, Failure};

/// The signals received so far.
#[derive(Clone, Debug)]
pub(crate) struct SignalWatch {
    /// Shared with the sweep.
    pub(crate) interrupt: Arc<Interrupt>,
    last: Arc<AtomicI32>,
    /// The message after the first signal.
    ending: &'static str,
}

impl SignalWatch {
    /// Begins to watch signals. To be called once.
    pub(crate) fn start() -> Result<SignalWatch, Failure> {
        SignalWatch::saying("ending this level; what was measured is kept (interrupt again to stop at once)")
    }

    /// The same, with another message after the first signal.
    pub(crate) fn saying(ending: &'static str) -> Result<SignalWatch, Failure> {
        let watch = SignalWatch { interrupt: Interrupt::new(), last: Arc::default(), ending };
        let watched = [SIGINT, SIGTERM, SIGHUP];
        let watched = watched.into_iter().filter(|signal| *signal != SIGHUP || !is_ignored(SIGHUP));
        let mut signals = Signals::new(watched)
            .map_err(|error| Failure::failed(format!("cannot listen for signals: {error}")))?;
        let mine = watch.clone();
        std::thread::Builder::new()
            .name("signals".to_owned())
            .spawn(move || signals.forever().for_each(|signal| mine.receive(signal)))
            .map_err(|error| Failure::failed(format!("cannot start a thread for signals: {error}")))?;
        Ok(watch)
    }

    /// How the program ends if it was interrupted.
    pub(crate) fn exit(&self) -> Option<Exit> {
        match u8::try_from(self.last.load(Ordering::Acquire)) {
            Ok(0) | Err(_) => None,
            Ok(signal) => Some(Exit::Signal(signal)),
        }
    }

    fn receive(&self, signal: i32) {
        self.last.store(signal, Ordering::Release);
        self.interrupt.raise();
        // On a new line, because the terminal has just shown ^C.
        match self.interrupt.count() {
            1 => console::complain(format!("\n{}", self.ending)),
            2 => console::complain("\nstopping at once"),
            _ => {
                // What has not ended after two requests will not end after a third: the signal ends it.
                let _ = signal_hook::low_level::emulate_default_handler(signal);
            }
        }
    }
}

/// Makes a write beyond `ulimit -f` fail like one to a full disk. By default SIGXFSZ ends the program without a
/// message. Programs that are started get the signal's original setting.
pub(crate) fn survive_file_size_limit() {
    // The flag itself is not used. If it cannot be registered, the signal keeps its default.
    let _ = signal_hook::flag::register(SIGXFSZ, Arc::default());
}

/// Whether a signal was ignored when the program started. If the kernel does not report it, it was not.
fn is_ignored(signal: i32) -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0);
    mask >> (signal - 1) & 1 == 1
}
