//! A persistent handler: requests as frames on standard input, answers on standard output, until the input ends.

use std::io;

use rustix::io::Errno;
use rustix::stdio::{stdin, stdout};

use super::answer::{Opening, Sink, answer, seed};
use super::cgi::write_all;
use crate::persistent::{Frame, VERSION, kind, push, variable};

/// Bytes read at once.
const READ_BYTES: usize = 16 * 1024;

/// Answers requests until standard input ends.
///
/// # Errors
/// The input is not a frame of the protocol, or standard output was closed.
pub fn respond_persistent() -> io::Result<()> {
    let mut ready = Vec::new();
    push(&mut ready, kind::VERSION, VERSION);
    write_all(stdout(), &ready)?;
    let random = seed();
    let mut inbound = Vec::new();
    let mut scratch = vec![0; READ_BYTES];
    let mut request = Vec::new();
    let mut output = Output::default();
    loop {
        match rustix::io::read(stdin(), &mut scratch) {
            Ok(0) => return Ok(()),
            Ok(read) => inbound.extend_from_slice(&scratch[..read]),
            Err(Errno::INTR) => continue,
            Err(errno) => return Err(errno.into()),
        }
        let mut used = 0;
        while let Some((frame, length)) = Frame::parse(&inbound[used..]).map_err(io::Error::other)? {
            match frame.kind {
                kind::REQUEST => request = frame.content.to_vec(),
                kind::BODY => {}
                kind::END => {
                    let method = variable(&request, "REQUEST_METHOD").unwrap_or_default();
                    let query = variable(&request, "QUERY_STRING");
                    answer(Opening::StatusField, method, query, &random, &mut output)?;
                }
                _ => return Err(io::Error::other("a server sends frames of the kinds R, B and E only")),
            }
            used += length;
        }
        inbound.drain(..used);
    }
}

#[derive(Default)]
struct Output {
    frames: Vec<u8>,
}

impl Sink for Output {
    fn write(&mut self, content: &[u8], is_last: bool) -> io::Result<()> {
        self.frames.clear();
        push(&mut self.frames, kind::OUTPUT, content);
        if is_last {
            push(&mut self.frames, kind::END, b"");
        }
        write_all(stdout(), &self.frames)
    }
}
