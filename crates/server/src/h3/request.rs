//! From frames to a request.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use hyper::body::{Body, Frame};
use hyper::header::{COOKIE, HOST, HeaderName, HeaderValue};
use hyper::{Method, Request, Uri, Version};

use super::frames::{Frames, ReadFailure};
use super::qpack::Field;

/// Builds the request from its fields; `None` if they are malformed (RFC 9114, 4.1.2).
pub(super) fn build(fields: Vec<Field>, body: RequestBody) -> Option<Request<RequestBody>> {
    let (mut method, mut scheme, mut authority, mut path) = (None, None, None, None);
    let mut request = Request::new(body);
    let headers = request.headers_mut();
    for (name, value) in fields {
        if name.first() == Some(&b':') {
            let pseudo = match &name[..] {
                b":method" => &mut method,
                b":scheme" => &mut scheme,
                b":authority" => &mut authority,
                b":path" => &mut path,
                _ => return None,
            };
            // Each once, and before the others.
            if pseudo.replace(value).is_some() || !headers.is_empty() {
                return None;
            }
            continue;
        }
        if name.iter().any(u8::is_ascii_uppercase) || is_of_connections(&name, &value) {
            return None;
        }
        headers.append(HeaderName::from_bytes(&name).ok()?, HeaderValue::from_bytes(&value).ok()?);
    }
    join_cookies(headers);
    let (scheme, path) = (scheme?, path.filter(|path| !path.is_empty())?);
    let authority = match authority {
        Some(authority) => Bytes::from(authority),
        // A client may name the host in the field alone.
        None => Bytes::copy_from_slice(headers.get(HOST)?.as_bytes()),
    };
    *request.method_mut() = Method::from_bytes(&method?).ok()?;
    let uri = Uri::builder().scheme(&scheme[..]).authority(&authority[..]).path_and_query(&path[..]).build();
    *request.uri_mut() = uri.ok()?;
    *request.version_mut() = Version::HTTP_3;
    Some(request)
}

/// Fields that say something of a connection have no place in HTTP/3.
fn is_of_connections(name: &[u8], value: &[u8]) -> bool {
    let names: [&[u8]; 5] =
        [b"connection", b"keep-alive", b"proxy-connection", b"transfer-encoding", b"upgrade"];
    names.contains(&name) || (name == b"te" && value != b"trailers")
}

/// Cookies may come one by one, and are one field for everybody else.
fn join_cookies(headers: &mut hyper::HeaderMap) {
    if headers.get_all(COOKIE).iter().nth(1).is_none() {
        return;
    }
    let cookies: Vec<&[u8]> = headers.get_all(COOKIE).iter().map(HeaderValue::as_bytes).collect();
    if let Ok(joined) = HeaderValue::from_bytes(&cookies.join(&b"; "[..])) {
        headers.insert(COOKIE, joined);
    }
}

type Reading = Pin<Box<dyn Future<Output = (Frames, Result<Option<Bytes>, ReadFailure>)>>>;

/// The body of a request.
pub(super) enum RequestBody {
    Ended,
    Idle(Option<Frames>),
    Reading(Reading),
}

impl Body for RequestBody {
    type Data = Bytes;
    type Error = ReadFailure;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, ReadFailure>>> {
        if let RequestBody::Idle(frames) = &mut *self
            && let Some(mut frames) = frames.take()
        {
            *self = RequestBody::Reading(Box::pin(async move {
                let data = frames.data().await;
                (frames, data)
            }));
        }
        let RequestBody::Reading(reading) = &mut *self else { return Poll::Ready(None) };
        let (frames, data) = ready!(reading.as_mut().poll(cx));
        *self = match &data {
            Ok(Some(_)) => RequestBody::Idle(Some(frames)),
            _ => RequestBody::Ended,
        };
        Poll::Ready(data.transpose().map(|data| data.map(Frame::data)))
    }

    fn is_end_stream(&self) -> bool {
        matches!(self, RequestBody::Ended)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn built(fields: &[(&str, &str)]) -> Option<Request<RequestBody>> {
        let fields = fields.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect();
        build(fields, RequestBody::Ended)
    }

    const GOOD: [(&str, &str); 4] =
        [(":method", "GET"), (":scheme", "https"), (":authority", "a.example"), (":path", "/x?y")];

    #[test]
    fn a_request_has_four_pseudo_headers() {
        let request = built(&[&GOOD[..], &[("cookie", "a=1"), ("cookie", "b=2")]].concat()).unwrap();
        assert_eq!(request.uri(), "https://a.example/x?y");
        assert_eq!((request.method(), request.version()), (&Method::GET, Version::HTTP_3));
        assert_eq!(request.headers()[COOKIE], "a=1; b=2");
        for left_out in [0, 1, 3] {
            let mut fields = GOOD.to_vec();
            fields.remove(left_out);
            assert!(built(&fields).is_none(), "{fields:?}");
        }
    }

    #[test]
    fn malformed_requests_are_refused() {
        for more in [
            (":path", "/z"),
            (":protocol", "websocket"),
            ("Accept", "*/*"),
            ("connection", "close"),
            ("te", "gzip"),
            ("bad name", "x"),
            ("x", "a\r\nb"),
        ] {
            assert!(built(&[&GOOD[..], &[more]].concat()).is_none(), "{more:?}");
        }
        let late = [&GOOD[..3], &[("accept", "*/*"), (":path", "/")]].concat();
        assert!(built(&late).is_none(), "a pseudo-header after a field");
    }
}
