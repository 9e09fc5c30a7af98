//! A process that may not be a child of this one: whether it still is the one that was meant, and how it is told to end.

use std::io;

use rustix::process::{Pid, Signal, kill_process};
use serde::{Deserialize, Serialize};

/// A process; its start time distinguishes it from later ones with the same number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Process {
    /// Its number.
    pub id: u32,
    /// When it began, in clock ticks since the host's start.
    pub began: u64,
}

impl Process {
    /// This one.
    ///
    /// # Errors
    /// If the kernel does not report when it began.
    pub fn own() -> io::Result<Process> {
        Process::by_id(std::process::id())
    }

    /// The one that has this number now, or had it and was not waited for yet.
    ///
    /// # Errors
    /// If there is none.
    pub(crate) fn by_id(id: u32) -> io::Result<Process> {
        Process::look(id).map(|(process, _)| process)
    }

    /// Whether it lives.
    pub(crate) fn is_alive(self) -> bool {
        Process::look(self.id).is_ok_and(|(found, has_ended)| found == self && !has_ended)
    }

    /// The process of a number, and whether it is a zombie.
    fn look(id: u32) -> io::Result<(Process, bool)> {
        let text = std::fs::read_to_string(format!("/proc/{id}/stat"))?;
        // The name may hold anything, brackets and blanks as well. What follows its last bracket begins with field 3; proc(5) numbers
        // the time of the start 22.
        let fields = text.rsplit_once(')').map(|(_, fields)| fields);
        let mut fields = fields.into_iter().flat_map(str::split_whitespace);
        let has_ended = fields.next() == Some("Z");
        let began = fields.nth(18).and_then(|field| field.parse().ok());
        let began = began.ok_or_else(|| io::Error::from(io::ErrorKind::InvalidData))?;
        Ok((Process { id, began }, has_ended))
    }

    /// Interrupts it, as Ctrl-C does.
    ///
    /// # Errors
    /// If it is gone, or somebody else's.
    pub(crate) fn interrupt(self) -> io::Result<()> {
        let id = i32::try_from(self.id).ok().and_then(Pid::from_raw);
        match id.filter(|_| self.is_alive()) {
            Some(id) => Ok(kill_process(id, Signal::INT)?),
            None => Err(io::Error::from(io::ErrorKind::NotFound)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_known_by_its_number_and_its_start() {
        let own = Process::own().unwrap();
        assert!(own.is_alive());
        assert!(!Process { began: own.began + 1, ..own }.is_alive());
        assert!(Process { began: own.began + 1, ..own }.interrupt().is_err());
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let other = Process::by_id(child.id()).unwrap();
        assert!(other.is_alive());
        other.interrupt().unwrap();
        child.wait().unwrap();
        assert!(!other.is_alive());
    }
}
