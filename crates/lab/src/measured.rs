//! What a sweep asks of a server under test that this process monitors.

use std::rc::Rc;

use webstone_server::Counters;

use crate::path::Path;
use crate::process_tree::ProcessTree;

/// The server under test, if this process can monitor it.
pub trait MeasuredServer {
    /// How it ended, in words, if it did.
    fn exit(&mut self) -> Option<String>;
    /// A level starts now: earlier counts do not belong to it.
    fn level_starts(&mut self);
    /// Its processes.
    fn processes(&self) -> ProcessTree;
    /// What it counted since the level started.
    fn counted(&self) -> Option<Counters>;
    /// The path between clients and it, if webstone made one.
    fn path(&self) -> Option<Rc<Path>> {
        None
    }
}
