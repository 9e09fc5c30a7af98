//! `--trace N`: the whole exchange of the first requests as text, in the manner of `curl -v`: `>` sent, `<` received,
//! `*` remarks. Secrets are taken out as from a record, by the same list; for that each line is held until it is whole. Where
//! the text goes is the caller's choice.

use std::collections::HashMap;
use std::io::{self, Write};
use std::sync::mpsc::Receiver;

use webstone_engine::{TraceEvent, TraceKind};
use webstone_measure::shown::{Shown, is_hidden};

use webstone_store::redaction;

/// Bytes of a line that are held until it is whole.
const LINE_BYTES_MAX: usize = 64 << 10;

/// Writes exchanges as text.
pub(crate) struct TraceWriter {
    out: Box<dyn Write + Send>,
    /// What is under way, by exchange and sign.
    open: HashMap<(u32, char), Message>,
}

/// A message as far as it was seen.
#[derive(Default)]
struct Message {
    /// Its head is over.
    is_body: bool,
    /// The line that is not whole yet.
    line: Vec<u8>,
}

impl TraceWriter {
    /// A writer into `out`.
    pub(crate) fn new(out: Box<dyn Write + Send>) -> TraceWriter {
        TraceWriter { out, open: HashMap::new() }
    }

    /// Writes every event until the engine has dropped its end of the channel. A reader that went away (a closed pipe)
    /// ends the writing, not the run.
    pub(crate) fn drain(&mut self, events: Receiver<TraceEvent>) {
        let mut open = true;
        while let Ok(event) = events.recv() {
            let text = self.text(&event);
            open = open && self.out.write_all(text.as_bytes()).and_then(|()| self.out.flush()).is_ok();
        }
    }

    fn text(&mut self, event: &TraceEvent) -> String {
        let head = format!("[{} client {} {}] ", event.exchange, event.client, event.address);
        let (sign, bytes) = match &event.kind {
            TraceKind::Sent(bytes) => ('>', bytes),
            TraceKind::Received(bytes) => ('<', bytes),
            TraceKind::Secured(what) => return format!("{head}* {}\n", Shown(what)),
            TraceKind::Ended(how) => {
                let rest = ['>', '<'].into_iter().filter_map(|sign| {
                    let left = self.open.remove(&(event.exchange, sign))?;
                    (!left.line.is_empty()).then(|| left.shown(&head, sign))
                });
                return rest.collect::<String>() + &format!("{head}* {}\n", Shown(how));
            }
        };
        let message = self.open.entry((event.exchange, sign)).or_default();
        let mut text = String::new();
        for piece in bytes.split_inclusive(|byte| *byte == b'\n') {
            message.line.extend_from_slice(piece);
            if piece.ends_with(b"\n") || message.line.len() > LINE_BYTES_MAX {
                text += &message.shown(&head, sign);
                message.is_body |= matches!(message.line.as_slice(), b"\n" | b"\r\n");
                message.line.clear();
            }
        }
        text
    }
}

impl std::fmt::Debug for TraceWriter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TraceWriter").finish_non_exhaustive()
    }
}

/// A writer that discards everything.
pub(crate) fn nowhere() -> Box<dyn Write + Send> {
    Box::new(io::sink())
}

impl Message {
    /// Its line, without secrets.
    fn shown(&self, head: &str, sign: char) -> String {
        format!("{head}{sign} {}\n", redaction::line_of_exchange(&printable(&self.line), !self.is_body))
    }
}

/// Text as it is, without the line's own end; everything that could disturb a terminal as an escape.
fn printable(line: &[u8]) -> String {
    let line = line.strip_suffix(b"\n").unwrap_or(line);
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    let mut text = String::with_capacity(line.len());
    for chunk in line.utf8_chunks() {
        for character in chunk.valid().chars() {
            match character {
                '\t' => text.push('\t'),
                _ if is_hidden(character) => text.extend(character.escape_default()),
                _ => text.push(character),
            }
        }
        for byte in chunk.invalid() {
            text += &format!("\\x{byte:02x}");
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::sync_channel;
    use std::sync::{Arc, Mutex};

    #[derive(Clone, Default)]
    struct Shared(Arc<Mutex<Vec<u8>>>);

    impl Write for Shared {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().write(bytes)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn event(kind: TraceKind) -> TraceEvent {
        TraceEvent { exchange: 1, client: 7, address: "a:80".into(), kind }
    }

    #[test]
    fn exchanges_are_readable_and_harmless() {
        let shared = Shared::default();
        let (sender, receiver) = sync_channel(8);
        sender.send(event(TraceKind::Sent(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n".to_vec()))).unwrap();
        sender.send(event(TraceKind::Received(b"HTTP/1.1 200 OK\r\n\r\n\x1b[2J\xff\tend".to_vec()))).unwrap();
        sender.send(event(TraceKind::Ended("200 in 3 ms".into()))).unwrap();
        drop(sender);
        TraceWriter::new(Box::new(shared.clone())).drain(receiver);
        let text = String::from_utf8(shared.0.lock().unwrap().clone()).unwrap();
        let lines: Vec<&str> =
            text.lines().map(|line| line.strip_prefix("[1 client 7 a:80] ").unwrap()).collect();
        assert_eq!(
            lines,
            [
                "> GET / HTTP/1.1",
                "> Host: a",
                "> ",
                "< HTTP/1.1 200 OK",
                "< ",
                "< \\u{1b}[2J\\xff\tend",
                "* 200 in 3 ms",
            ]
        );
    }

    #[test]
    fn secrets_are_no_more_in_a_trace_than_in_a_record() {
        let shared = Shared::default();
        let (sender, receiver) = sync_channel(16);
        let sent: [&[u8]; 4] = [
            b"POST /x;jsessionid=hunter2?sig=hunter2&a=1 HTTP/1.1\r\nOcp-Apim-Subscr",
            b"iption-Key: hunter2\r\nX-Auth: hunter2\r\nx-session-id: hunt",
            b"er2\r\nAccept: */*\r\n\r\npin=hunter2&b=2",
            b"&otp=hunter2",
        ];
        sent.iter().for_each(|bytes| sender.send(event(TraceKind::Sent(bytes.to_vec()))).unwrap());
        let answer = b"HTTP/1.1 200 OK\r\nSet-Cookie: a=hunter2\r\n\r\n{\"access_token\": \"hunter2\"}";
        sender.send(event(TraceKind::Received(answer.to_vec()))).unwrap();
        sender.send(event(TraceKind::Ended("200".into()))).unwrap();
        drop(sender);
        TraceWriter::new(Box::new(shared.clone())).drain(receiver);
        let text = String::from_utf8(shared.0.lock().unwrap().clone()).unwrap();
        assert!(!text.contains("hunt"), "{text}");
        for kept in ["POST /x;jsessionid=[redacted]&a=1 HTTP/1.1", "Accept: */*", "&b=2&"] {
            assert!(text.contains(kept), "{kept}: {text}");
        }
    }

    #[test]
    fn a_reader_that_went_away_blocks_nothing() {
        struct Closed;
        impl Write for Closed {
            fn write(&mut self, _: &[u8]) -> io::Result<usize> {
                Err(io::ErrorKind::BrokenPipe.into())
            }
            fn flush(&mut self) -> io::Result<()> {
                Ok(())
            }
        }
        let (sender, receiver) = sync_channel(1);
        std::thread::scope(|scope| {
            scope.spawn(move || TraceWriter::new(Box::new(Closed)).drain(receiver));
            for _ in 0..10 {
                sender.send(event(TraceKind::Ended("x".into()))).unwrap();
            }
            drop(sender);
        });
    }
}
