//! What the check before the load waits for. After a second it is printed, because a silent server looks like a program that hangs.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use webstone_engine::{Extent, ProbeError, ProbeResponse};
use webstone_lab::fetch::Fetch;
use webstone_workload::RequestDetail;
use webstone_workload::target::Target;

/// How long a check may take before a message says what it waits for.
pub(crate) const SILENCE_MAX: Duration = Duration::from_secs(1);

/// URL of the newest request.
pub(crate) struct LastAsked(Mutex<String>);

impl LastAsked {
    /// With the URL that is reported until a request is sent.
    pub(crate) fn new(first: String) -> LastAsked {
        LastAsked(Mutex::new(first))
    }

    /// The URL so far.
    pub(crate) fn url(&self) -> String {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// Requests as `fetch` makes them; `last` remembers the newest URL.
pub(crate) struct Watched<'a> {
    pub(crate) fetch: &'a dyn Fetch,
    pub(crate) last: &'a LastAsked,
}

impl Fetch for Watched<'_> {
    fn fetch_at(
        &self,
        at: Option<&Target>,
        base: &str,
        path: &str,
        detail: &RequestDetail,
        extent: Extent,
        each: &mut dyn FnMut(&[u8]),
    ) -> Result<ProbeResponse, ProbeError> {
        *self.last.0.lock().unwrap_or_else(PoisonError::into_inner) = match at {
            Some(at) => format!("{at}{path}"),
            None => format!("{base}{path}"),
        };
        self.fetch.fetch_at(at, base, path, detail, extent, each)
    }
}
