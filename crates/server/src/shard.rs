//! What one thread owns, and what all threads share.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Instant;

use hyper::header::HeaderValue;

use crate::accept::Acceptor;
use crate::access_log::ThreadLog;
use crate::connection_faults::ConnectionFaults;
use crate::counters::{Counters, ThreadCounters, ThreadTally};
use crate::files::{FileTable, Files};
use crate::gateway::{Gateway, Slots};
use crate::h3::Quic;
use crate::names::NameServer;
use crate::tls::Tls;
use crate::wire::READ_BYTES;

/// What all threads share; a plain request writes to none of it.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) files: Files,
    pub(crate) counters: Arc<[ThreadCounters]>,
    pub(crate) accept_errors: AtomicU64,
    pub(crate) log_lines_dropped: Arc<AtomicU64>,
    pub(crate) keep_alive: bool,
    pub(crate) resolve_names: bool,
    /// The name server that answers instead of the system's resolver.
    pub(crate) names: Option<NameServer>,
    pub(crate) test_handlers: bool,
    /// TLS, where it is spoken.
    pub(crate) tls: Option<Tls>,
    /// Whether HTTP/2 is spoken too.
    pub(crate) http2: bool,
    /// HTTP/3, where it is spoken.
    pub(crate) quic: Option<Quic>,
    /// The Alt-Svc field of answers over TLS, which names HTTP/3.
    pub(crate) alternative: Option<HeaderValue>,
    /// The Date field, if it is not the time.
    pub(crate) date: Option<HeaderValue>,
    /// The faults of the next connections.
    pub(crate) connection_faults: ConnectionFaults,
    /// The external handler, where `/send` has one.
    pub(crate) gateway: Option<Gateway>,
    pub(crate) started: Instant,
    /// How often each path of a test handler, query included, was asked for.
    pub(crate) test_counts: Mutex<HashMap<Box<str>, u64>>,
    /// When `/test` was first asked for, for each spelling with `freeze`.
    pub(crate) test_firsts: Mutex<HashMap<Box<str>, Instant>>,
    /// Sends orders to the accepting thread.
    pub(crate) acceptor: Acceptor,
}

impl Shared {
    /// Sums over all threads.
    pub(crate) fn count(&self) -> Counters {
        let mut sum = Counters {
            accept_errors: self.accept_errors.load(Ordering::Relaxed),
            log_lines_dropped: self.log_lines_dropped.load(Ordering::Relaxed),
            uptime_ns: u64::try_from(self.started.elapsed().as_nanos()).unwrap_or(u64::MAX),
            threads: self.counters.len() as u64,
            pid: std::process::id(),
            ..Counters::default()
        };
        for thread in self.counters.iter() {
            thread.add_to(&mut sum);
        }
        sum
    }
}

/// What one thread owns.
#[derive(Debug)]
pub(crate) struct Shard {
    pub(crate) shared: Arc<Shared>,
    pub(crate) tally: Rc<ThreadTally>,
    pub(crate) log: ThreadLog,
    /// Files that this thread has answered with from memory.
    pub(crate) table: FileTable,
    /// The buffer of every read of this thread.
    pub(crate) scratch: RefCell<Box<[u8]>>,
    /// State of the generator of `fill=random`.
    pub(crate) random: Cell<u64>,
    /// This thread's share of the external handler.
    pub(crate) slots: Slots,
}

impl Shard {
    pub(crate) fn new(shared: Arc<Shared>, index: usize, log: ThreadLog) -> Shard {
        let tally = Rc::new(ThreadTally { all: Arc::clone(&shared.counters), index });
        let slots = Slots::new(shared.gateway.as_ref(), shared.counters.len());
        Shard {
            shared,
            slots,
            tally,
            log,
            table: FileTable::default(),
            scratch: RefCell::new(vec![0; READ_BYTES].into()),
            // Any seed but zero; each thread has its own sequence.
            random: Cell::new(0x9E37_79B9_7F4A_7C15 ^ (index as u64 + 1)),
        }
    }
}
