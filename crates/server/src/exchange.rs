//! One request and its answer, as the counters and the access log see it.
//!
//! An exchange ends in exactly one way: answered, with a fault, or, if it is dropped before, aborted. Its log line is written
//! at its end, with the bytes that were handed over by then.

use std::rc::Rc;

use hyper::{Method, Request, Uri, Version};

use crate::counters::Count;
use crate::shard::Shard;
use crate::wire::Wire;

/// One request under way.
#[derive(Debug)]
pub(crate) struct Exchange {
    pub(crate) wire: Rc<Wire>,
    pub(crate) shard: Rc<Shard>,
    status: u16,
    body_bytes: u64,
    ended: bool,
    /// Present only if there is an access log and this exchange belongs in it.
    line: Option<Box<LogLine>>,
}

/// What the access log says of the request.
#[derive(Debug)]
pub(crate) struct LogLine {
    pub(crate) client: Rc<str>,
    pub(crate) method: Method,
    pub(crate) uri: Uri,
    pub(crate) version: Version,
}

impl Exchange {
    /// Counts a request.
    pub(crate) fn begin<B>(
        shard: &Rc<Shard>,
        wire: &Rc<Wire>,
        client: &Rc<str>,
        request: &Request<B>,
    ) -> Exchange {
        wire.tally.add(Count::Requests, 1);
        let line = (shard.log.is_on() && !wire.tally.is_hidden()).then(|| {
            Box::new(LogLine {
                client: Rc::clone(client),
                method: request.method().clone(),
                uri: request.uri().clone(),
                version: request.version(),
            })
        });
        Exchange {
            wire: Rc::clone(wire),
            shard: Rc::clone(shard),
            status: 0,
            body_bytes: 0,
            ended: false,
            line,
        }
    }

    /// The status that the answer has.
    pub(crate) fn set_status(&mut self, status: u16) {
        self.status = status;
    }

    /// Body bytes were handed over.
    pub(crate) fn add_body(&mut self, bytes: u64) {
        self.body_bytes += bytes;
    }

    /// The whole answer was handed over.
    pub(crate) fn complete(mut self) {
        self.count_complete();
    }

    /// Counts the answer as whole when its last bytes are about to be handed over.
    pub(crate) fn count_complete(&mut self) {
        if !std::mem::replace(&mut self.ended, true) {
            self.wire.tally.add(Count::Responses, 1);
            self.wire.tally.add(Count::BodyBytesSent, self.body_bytes);
            if let Some(class) = Count::of_status(self.status) {
                self.wire.tally.add(class, 1);
            }
        }
    }

    /// The answer has a fault. Counted before its first byte leaves.
    pub(crate) fn spoil(&mut self) {
        if !std::mem::replace(&mut self.ended, true) {
            self.wire.tally.add(Count::Faults, 1);
        }
    }
}

impl Drop for Exchange {
    fn drop(&mut self) {
        if !self.ended {
            self.wire.tally.add(Count::Aborted, 1);
        }
        if let Some(line) = &self.line {
            self.shard.log.write(line, self.status, self.body_bytes);
        }
    }
}
