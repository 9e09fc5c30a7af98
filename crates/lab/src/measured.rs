//! What a sweep asks of a server under test that is ours to watch.

use webstone_server::Counters;

use crate::process_tree::ProcessTree;

/// The server under test, if this process can monitor it.
pub trait MeasuredServer {
    /// How it ended, in words, if it did.
    fn exit(&mut self) -> Option<String>;
    /// A level starts now: what it counted before is not the level's.
    fn level_starts(&mut self);
    /// Its processes.
    fn processes(&self) -> ProcessTree;
    /// What it counted since the level started.
    fn counted(&self) -> Option<Counters>;
}
