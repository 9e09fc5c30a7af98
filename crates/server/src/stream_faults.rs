//! Faulty answers of HTTP/2 and 3. hyper, or `h3`, sends the valid parts, and resets streams by the reason for which an answer or
//! its body fails. Faults of the connection are written past hyper, as in `faults`; over QUIC, the connection is closed by a code.

use std::convert::Infallible;
use std::future::pending;
use std::pin::Pin;
use std::rc::Rc;

use h2::Reason;
use hyper::{Response, StatusCode};

use crate::body::{BodyError, Content, Made, Pieces, ServerBody, respond};
use crate::delay;
use crate::exchange::Exchange;
use crate::faults::{At, BEFORE_RESET, Fault, Raw};
use crate::h3::{Spoilt, code};
use crate::wire::Wire;

/// Names of HTTP/2's error codes (RFC 9113, 7), in small letters with hyphens.
const REASONS: [(&str, Reason); 14] = [
    ("no-error", Reason::NO_ERROR),
    ("protocol-error", Reason::PROTOCOL_ERROR),
    ("internal-error", Reason::INTERNAL_ERROR),
    ("flow-control-error", Reason::FLOW_CONTROL_ERROR),
    ("settings-timeout", Reason::SETTINGS_TIMEOUT),
    ("stream-closed", Reason::STREAM_CLOSED),
    ("frame-size-error", Reason::FRAME_SIZE_ERROR),
    ("refused-stream", Reason::REFUSED_STREAM),
    ("cancel", Reason::CANCEL),
    ("compression-error", Reason::COMPRESSION_ERROR),
    ("connect-error", Reason::CONNECT_ERROR),
    ("enhance-your-calm", Reason::ENHANCE_YOUR_CALM),
    ("inadequate-security", Reason::INADEQUATE_SECURITY),
    ("http-1-1-required", Reason::HTTP_1_1_REQUIRED),
];
/// A frame of noise: an unknown type, and a length that is larger than its content.
const GARBAGE: &[u8] = b"\xff\xff\xff\x46 this is no frame of HTTP/2";
const GOAWAY_TYPE: u8 = 7;
/// One more than the largest code of HTTP/3.
const HTTP3_CODES: u64 = 1 << 62;

/// Why a stream, or a connection, is ended: the code in each version. A name that a version does not have is its internal error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Code {
    http2: u32,
    http3: u64,
}

impl Code {
    /// By its name, or by its number if it has no name.
    pub(crate) fn parse(text: &str) -> Result<Code, String> {
        let http2 = REASONS.iter().find(|(name, _)| *name == text).map(|(_, reason)| u32::from(*reason));
        let http3 = code::NAMES.iter().find(|(name, _)| *name == text).map(|(_, code)| *code);
        match (http2, http3, text.parse()) {
            (Some(7), ..) | (_, Some(code::REQUEST_REJECTED), _) => Ok(Code::REFUSED),
            (None, None, Ok(number @ 0..HTTP3_CODES)) => {
                Ok(Code { http2: u32::try_from(number).unwrap_or(Code::INTERNAL.http2), http3: number })
            }
            (None, None, _) => {
                let mut names: Vec<&str> = REASONS.iter().map(|(name, _)| *name).collect();
                names.extend(
                    code::NAMES
                        .iter()
                        .map(|(name, _)| *name)
                        .filter(|name| !names.contains(name))
                        .collect::<Vec<_>>(),
                );
                Err(format!("code={text}: write a number below 2^62, or one of {}", names.join(", ")))
            }
            _ => Ok(Code {
                http2: http2.unwrap_or(Code::INTERNAL.http2),
                http3: http3.unwrap_or(Code::INTERNAL.http3),
            }),
        }
    }

    /// The server has not begun to work on the stream.
    pub(crate) const REFUSED: Code = Code { http2: 7, http3: code::REQUEST_REJECTED };
    /// Nothing is wrong.
    pub(crate) const NO_ERROR: Code = Code { http2: 0, http3: code::NO_ERROR };
    /// What is sent where none is named.
    pub(crate) const INTERNAL: Code = Code { http2: 2, http3: code::INTERNAL_ERROR };

    /// The code of HTTP/3.
    pub(crate) fn of_http3(self) -> u64 {
        self.http3
    }

    pub(crate) fn error(self) -> BodyError {
        BodyError::Reset(Reason::from(self.http2).into(), self)
    }
}

/// How an answer ends before its body does.
pub(crate) struct Cut {
    /// After this many bytes.
    pub(crate) at: u64,
    /// What happens then; the reason, if the stream is reset.
    pub(crate) deed: Pin<Box<dyn Future<Output = BodyError>>>,
}

/// What happens to the stream or its connection.
#[derive(Clone, Copy)]
enum Deed {
    ResetStream(Code),
    Reset,
    Close { notify: bool },
    Stall,
    EndStream,
}

/// Why a fault has no counterpart in HTTP/2 or 3, if it has none.
pub(crate) fn problem(fault: Fault, is_http3: bool) -> Option<&'static str> {
    match fault {
        Fault::BadChunk(_) => Some("fault=bad-chunk: HTTP/2 and HTTP/3 have no chunks"),
        Fault::Extra(_) if !is_http3 => Some("fault=extra: an HTTP/2 answer cannot have bytes after its end"),
        Fault::EndStream(_) | Fault::SplitHead(_) if !is_http3 => {
            Some("fault: end-stream and split-head need HTTP/3")
        }
        Fault::NoCloseNotify(_) if is_http3 => Some("fault=no-close-notify: QUIC has no close_notify"),
        _ => None,
    }
}

/// Spoils an answer of HTTP/2 or 3.
pub(crate) async fn perform(mut exchange: Exchange, raw: Raw, fault: Fault) -> Response<ServerBody> {
    let wire = Rc::clone(&exchange.wire);
    let (deed, at) = match fault {
        Fault::Reset(at) => (Deed::Reset, at),
        Fault::Close(at) => (Deed::Close { notify: true }, at),
        Fault::NoCloseNotify(at) => (Deed::Close { notify: false }, at),
        Fault::Stall(at, _) => (Deed::Stall, at),
        Fault::ResetStream(code, at) => (Deed::ResetStream(code), at),
        Fault::EndStream(at) => (Deed::EndStream, At::Body(at)),
        Fault::GoAway(code) => return go_away(exchange, raw, code, &wire).await,
        // The answer is one that a client must understand: it is no fault.
        Fault::SplitHead(span) => return with(whole(exchange, raw, Pieces::One), Spoilt::SplitHead(span)),
        Fault::Extra(extra) => {
            exchange.spoil();
            return with(whole(exchange, raw, Pieces::One), Spoilt::Extra(extra));
        }
        _ if wire.is_quic() => {
            exchange.spoil();
            return with(whole(exchange, raw, Pieces::One), Spoilt::Garbage);
        }
        // The others are refused before, or are answers that hyper can give.
        _ => {
            exchange.spoil();
            wire.drained().await;
            let _ = wire.write_all(GARBAGE).await;
            return close(&wire, true).await;
        }
    };
    match at {
        // Half of a head is no frame.
        At::Body(at) if !raw.is_head => {
            let deed = Box::pin(perform_deed(deed, wire));
            let mut response = whole(exchange, raw, Pieces::SplitAt(at));
            response.body_mut().cut = Some(Cut { at, deed });
            response
        }
        _ => {
            exchange.spoil();
            let error = match deed {
                Deed::ResetStream(code) => code.error(),
                deed => perform_deed(deed, wire).await,
            };
            let mut response = whole(exchange, raw, Pieces::One);
            response.extensions_mut().insert(error);
            response
        }
    }
}

/// Ends the connection by GOAWAY. Without an error, streams under way are answered, this one included; with one, all end.
async fn go_away(mut exchange: Exchange, raw: Raw, code: Code, wire: &Wire) -> Response<ServerBody> {
    if code == Code::NO_ERROR {
        wire.refuse_more();
        return whole(exchange, raw, Pieces::One);
    }
    exchange.spoil();
    if wire.is_quic() {
        // In HTTP/3, GOAWAY has no code.
        wire.close_with(code.http3);
        match pending::<Infallible>().await {}
    }
    wire.drained().await;
    // The last stream that was processed: none.
    let frame = [&[0, 0, 8, GOAWAY_TYPE, 0, 0, 0, 0, 0][..], &[0; 4], &code.http2.to_be_bytes()].concat();
    // If writing fails, the client has gone.
    let _ = wire.write_all(&frame).await;
    close(wire, true).await
}

fn with(mut response: Response<ServerBody>, spoilt: Spoilt) -> Response<ServerBody> {
    response.extensions_mut().insert(spoilt);
    response
}

fn whole(exchange: Exchange, raw: Raw, pieces: Pieces) -> Response<ServerBody> {
    let made = Made {
        fill: raw.fill,
        size: raw.size,
        chunked: false,
        pieces,
        separate: false,
        gap: Default::default(),
        pause: raw.pause,
    };
    let status = StatusCode::from_u16(raw.status).unwrap_or(StatusCode::OK);
    respond(exchange, status, raw.is_head, Content::Made(made))
}

async fn perform_deed(deed: Deed, wire: Rc<Wire>) -> BodyError {
    // hyper has time to send what came before.
    delay::pause(BEFORE_RESET).await;
    wire.drained().await;
    match deed {
        Deed::ResetStream(code) => return code.error(),
        Deed::EndStream => return BodyError::End,
        Deed::Reset => wire.reset(),
        Deed::Close { notify } => return close(&wire, notify).await,
        Deed::Stall => {}
    }
    match pending::<Infallible>().await {}
}

/// Ends the connection, and with it the stream that this belongs to.
async fn close<T>(wire: &Wire, notify: bool) -> T {
    if notify {
        wire.end_encryption().await;
    }
    wire.close();
    match pending::<Infallible>().await {}
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_have_names_and_numbers() {
        assert_eq!(Code::parse("refused-stream"), Ok(Code::REFUSED));
        assert_eq!(Code::parse("no-error"), Ok(Code::NO_ERROR));
        assert_eq!(Code::parse("internal-error"), Ok(Code::INTERNAL));
        assert_eq!(Code::parse("request-rejected"), Ok(Code::REFUSED));
        assert_eq!(Code::parse("excessive-load"), Ok(Code { http2: 2, http3: 0x107 }));
        assert_eq!(Code::parse("4711"), Ok(Code { http2: 4711, http3: 4711 }));
        assert!(Code::parse("oops").unwrap_err().contains("code=oops"));
    }
}
