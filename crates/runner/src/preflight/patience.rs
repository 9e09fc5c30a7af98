//! What takes longer than a second before the load is said: a server that does not answer looks like a program that hangs.

use std::sync::mpsc::{RecvTimeoutError, channel};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use webstone_engine::{Extent, ProbeError, ProbeResponse};
use webstone_lab::fetch::Fetch;
use webstone_workload::RequestDetail;

/// How long nothing is said.
pub(crate) const SILENCE_MAX: Duration = Duration::from_secs(1);

/// Does the work on another thread; calls `say` once if it takes longer than `silence`.
pub(crate) fn saying_after<T: Send>(
    silence: Duration,
    work: impl FnOnce() -> T + Send,
    say: impl FnOnce(),
) -> T {
    std::thread::scope(|scope| {
        let (done, wait) = channel::<()>();
        let working = scope.spawn(move || {
            let _done = done;
            work()
        });
        if wait.recv_timeout(silence) == Err(RecvTimeoutError::Timeout) {
            say();
        }
        working.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

/// URL of the newest request.
pub(crate) struct LastAsked(Mutex<String>);

impl LastAsked {
    /// Before anything is requested, `first` is.
    pub(crate) fn new(first: String) -> LastAsked {
        LastAsked(Mutex::new(first))
    }

    /// It, as of now.
    pub(crate) fn url(&self) -> String {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// Requests, of which the last is remembered.
pub(crate) struct Watched<'a> {
    pub(crate) fetch: &'a dyn Fetch,
    pub(crate) last: &'a LastAsked,
}

impl Fetch for Watched<'_> {
    fn fetch_each(
        &self,
        base: &str,
        path: &str,
        detail: &RequestDetail,
        extent: Extent,
        each: &mut dyn FnMut(&[u8]),
    ) -> Result<ProbeResponse, ProbeError> {
        *self.last.0.lock().unwrap_or_else(PoisonError::into_inner) = format!("{base}{path}");
        self.fetch.fetch_each(base, path, detail, extent, each)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_speaks_only_where_the_work_lasts() {
        let mut said = 0;
        assert_eq!(saying_after(Duration::from_secs(60), || 7, || said += 1), 7);
        assert_eq!(said, 0);
        let (go_on, wait) = channel::<()>();
        // The work lasts until something was said.
        let work = move || wait.recv().is_ok();
        assert!(saying_after(Duration::from_millis(1), work, || go_on.send(()).unwrap()));
    }
}
