//! CGI/1.1: a process for each request. Its work is starting and ending, so it does nothing else: no thread, no event loop,
//! no reading of a request body, which RFC 3875 leaves to the program.

use std::io;
use std::os::unix::ffi::OsStrExt;

use rustix::stdio::stdout;

use super::answer::{Opening, Sink, answer, seed};

/// Answers the request that the environment describes on standard output.
///
/// # Errors
/// Standard output was closed before the answer was whole.
pub fn respond_cgi() -> io::Result<()> {
    let method = std::env::var_os("REQUEST_METHOD").unwrap_or_default();
    let query = std::env::var_os("QUERY_STRING");
    let query = query.as_ref().map(|query| query.as_bytes());
    answer(Opening::StatusField, method.as_bytes(), query, &seed(), &mut StandardOutput)
}

struct StandardOutput;

impl Sink for StandardOutput {
    fn write(&mut self, content: &[u8], _: bool) -> io::Result<()> {
        write_all(stdout(), content)
    }
}

/// All of it, in as few writes as the descriptor takes.
pub(super) fn write_all(descriptor: impl std::os::fd::AsFd, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        match rustix::io::write(&descriptor, bytes) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(written) => bytes = &bytes[written..],
            Err(rustix::io::Errno::INTR) => {}
            Err(errno) => return Err(errno.into()),
        }
    }
    Ok(())
}
