//! The file of session keys, in the format that Wireshark reads (`SSLKEYLOGFILE`).

use std::fmt;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::sync::{Mutex, PoisonError};

use rustls::KeyLog;

/// See the module comment. It slows handshakes down: each writes several lines.
pub(super) struct KeyFile(Mutex<File>);

impl KeyFile {
    /// Opens a file to append to, readable by its owner only.
    pub(super) fn open(path: &str) -> io::Result<KeyFile> {
        let file = OpenOptions::new().create(true).append(true).mode(0o600).open(path)?;
        Ok(KeyFile(Mutex::new(file)))
    }
}

impl fmt::Debug for KeyFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KeyFile").finish_non_exhaustive()
    }
}

impl KeyLog for KeyFile {
    fn log(&self, label: &str, client_random: &[u8], secret: &[u8]) {
        let line = format!("{label} {} {}\n", hexadecimal(client_random), hexadecimal(secret));
        // A write error must not fail the run: lines are missing from the file instead.
        let _ = self.0.lock().unwrap_or_else(PoisonError::into_inner).write_all(line.as_bytes());
    }
}

/// Bytes as two hexadecimal digits each.
pub(super) fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
