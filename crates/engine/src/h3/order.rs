//! The order and the meaning of an answer's frames (RFC 9114 section 4.1): the same rules for a run and for the check before it.

use webstone_measure::errors::ErrorClass;

use super::control::Violation;
use super::frames::{code, kind};
use crate::h1::response::INTERIM_MAX;
use crate::h2::hpack::decoder::Fields;

/// Longest field section that is read, in bytes.
const SECTION_BYTES_MAX: u64 = 256 * 1024;

/// What is wrong with an answer.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Wrong {
    /// The connection has to end.
    Connection(Violation),
    /// The exchange has failed with an error of this class, and its stream is given up with this code.
    Exchange(ErrorClass, &'static str, u64),
}

impl From<Violation> for Wrong {
    fn from(violation: Violation) -> Wrong {
        Wrong::Connection(violation)
    }
}

fn spoilt(what: &'static str) -> Wrong {
    Wrong::Exchange(ErrorClass::H3Protocol, what, code::MESSAGE_ERROR)
}

fn flood(what: &'static str) -> Wrong {
    Wrong::Exchange(ErrorClass::H3Flood, what, code::EXCESSIVE_LOAD)
}

/// What a field section is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Section {
    Interim,
    Head,
    Trailers,
}

/// What an answer has brought so far.
#[derive(Debug)]
pub(super) struct Order {
    is_head: bool,
    has_final_head: bool,
    /// Interim heads so far.
    interim: u8,
    has_trailers: bool,
    /// Its body must be empty, whatever length is announced.
    has_no_body: bool,
    /// The body length from Content-Length; [`u64::MAX`] without that field.
    content_length: u64,
}

impl Order {
    /// Of the answer to a request. `is_head`: its method is HEAD.
    #[inline]
    pub(super) fn new(is_head: bool) -> Order {
        Order {
            is_head,
            has_final_head: false,
            interim: 0,
            has_trailers: false,
            has_no_body: false,
            content_length: u64::MAX,
        }
    }

    /// The head of a HEADERS frame.
    #[inline]
    pub(super) fn headers(&self, length: u64) -> Result<(), Wrong> {
        if self.has_trailers {
            return Err((code::FRAME_UNEXPECTED, "a HEADERS frame after trailers").into());
        }
        if length > SECTION_BYTES_MAX {
            return Err(flood("a field section of more than 256 KiB"));
        }
        Ok(())
    }

    /// A whole field section.
    #[inline]
    pub(super) fn section(&mut self, fields: &Fields) -> Result<Section, Wrong> {
        if let Some(problem) = fields.problem {
            return Err(spoilt(problem));
        }
        if self.has_final_head {
            if fields.status != 0 {
                return Err(spoilt("a second head after the final one"));
            }
            self.has_trailers = true;
            return Ok(Section::Trailers);
        }
        match fields.status {
            0 => return Err(spoilt("a head without `:status`")),
            101 => return Err(spoilt("a status 101, which HTTP/3 does not have")),
            1..200 => {
                self.interim += 1;
                if self.interim > INTERIM_MAX {
                    return Err(flood("more than 64 interim (1xx) heads of one answer"));
                }
                return Ok(Section::Interim);
            }
            _ => {}
        }
        self.has_final_head = true;
        self.has_no_body = self.is_head || matches!(fields.status, 204 | 304);
        if !self.has_no_body {
            self.content_length = fields.content_length.unwrap_or(u64::MAX);
        }
        Ok(Section::Head)
    }

    /// The head of a DATA frame.
    #[inline]
    pub(super) fn data(&self) -> Result<(), Wrong> {
        if !self.has_final_head || self.has_trailers {
            let what = "a DATA frame before the final head, or after trailers";
            return Err((code::FRAME_UNEXPECTED, what).into());
        }
        Ok(())
    }

    /// Content of a DATA frame.
    #[inline]
    pub(super) fn body(&self) -> Result<(), Wrong> {
        if self.has_no_body {
            return Err(spoilt("a body in an answer that must have none"));
        }
        Ok(())
    }

    /// The head of any other frame.
    pub(super) fn other(kind: u64) -> Result<(), Wrong> {
        let unexpected = |what| Err(Wrong::Connection((code::FRAME_UNEXPECTED, what)));
        match kind {
            kind::PUSH_PROMISE => {
                Err((code::ID_ERROR, "PUSH_PROMISE, though the client allows no push").into())
            }
            kind::CANCEL_PUSH | kind::SETTINGS | kind::GOAWAY | kind::MAX_PUSH_ID => {
                unexpected("a frame of the control stream in an answer")
            }
            _ if kind::OF_HTTP2.contains(&kind) => unexpected("a frame that only HTTP/2 has"),
            _ => Ok(()),
        }
    }

    /// The server has ended the stream, after `body_bytes` of content.
    #[inline]
    pub(super) fn ended(&self, is_between_frames: bool, body_bytes: u64) -> Result<(), Wrong> {
        if !is_between_frames {
            return Err((code::FRAME_ERROR, "a stream that ends in the middle of a frame").into());
        }
        if !self.has_final_head {
            return Err(spoilt("a stream that ends before its final head"));
        }
        if self.content_length != u64::MAX && body_bytes != self.content_length {
            return Err(spoilt(match body_bytes < self.content_length {
                true => "a body shorter than its content-length",
                false => "a body longer than its content-length",
            }));
        }
        Ok(())
    }
}
