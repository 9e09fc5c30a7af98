//! The sessions that a worker may resume with one server. rustls's default store is shared by all threads and holds
//! eight tickets per name, too few for a worker's clients.

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};

use rustls::NamedGroup;
use rustls::client::{ClientSessionStore, Tls12ClientSessionValue, Tls13ClientSessionValue};
use rustls::pki_types::ServerName;

/// Maximum number of tickets kept for one server. Each can be used once; the oldest is dropped first.
const TICKETS_MAX: usize = 4096;

/// See the module comment. Only one worker uses the lock, so it is always free; rustls requires a type that threads
/// may share.
#[derive(Default)]
pub(super) struct Sessions(Mutex<Kept>);

#[derive(Default)]
struct Kept {
    /// Whether the next connection may resume.
    may_resume: bool,
    /// Whether any connection ever may, so that it is worth keeping tickets.
    keeps: bool,
    group: Option<NamedGroup>,
    tls12: Option<Tls12ClientSessionValue>,
    tls13: VecDeque<Tls13ClientSessionValue>,
}

impl Sessions {
    pub(super) fn new(keeps: bool) -> Sessions {
        Sessions(Mutex::new(Kept { keeps, ..Kept::default() }))
    }

    /// Sets whether connections from now on may resume.
    pub(super) fn may_resume(&self, may: bool) {
        self.kept().may_resume = may;
    }

    /// How many tickets of TLS 1.3 are kept.
    #[cfg(test)]
    pub(super) fn tickets(&self) -> usize {
        self.kept().tls13.len()
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Sessions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sessions").finish_non_exhaustive()
    }
}

/// Each store is for one server, so names are ignored.
impl ClientSessionStore for Sessions {
    fn set_kx_hint(&self, _: ServerName<'static>, group: NamedGroup) {
        self.kept().group = Some(group);
    }

    // A new visitor does not know which group the server prefers.
    fn kx_hint(&self, _: &ServerName<'_>) -> Option<NamedGroup> {
        let kept = self.kept();
        kept.group.filter(|_| kept.may_resume)
    }

    fn set_tls12_session(&self, _: ServerName<'static>, session: Tls12ClientSessionValue) {
        let mut kept = self.kept();
        if kept.keeps {
            kept.tls12 = Some(session);
        }
    }

    fn tls12_session(&self, _: &ServerName<'_>) -> Option<Tls12ClientSessionValue> {
        let kept = self.kept();
        kept.tls12.clone().filter(|_| kept.may_resume)
    }

    fn remove_tls12_session(&self, _: &ServerName<'static>) {
        self.kept().tls12 = None;
    }

    fn insert_tls13_ticket(&self, _: ServerName<'static>, ticket: Tls13ClientSessionValue) {
        let mut kept = self.kept();
        if !kept.keeps {
            return;
        }
        if kept.tls13.len() == TICKETS_MAX {
            kept.tls13.pop_front();
        }
        kept.tls13.push_back(ticket);
    }

    fn take_tls13_ticket(&self, _: &ServerName<'static>) -> Option<Tls13ClientSessionValue> {
        let mut kept = self.kept();
        if kept.may_resume { kept.tls13.pop_back() } else { None }
    }
}
