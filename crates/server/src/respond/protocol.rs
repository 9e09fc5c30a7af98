//! Connections of each protocol, as bytes in and bytes out: FastCGI, SCGI, uwsgi.

use crate::error::Malformed;
use crate::fastcgi::{self, Pairs, Record, kind, status};

/// Longest set of variables that is accepted.
const VARIABLES_BYTES_MAX: usize = 1 << 20;

/// What is to be done after bytes have come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// Wait for more.
    More,
    /// Send this, then continue.
    Say(Vec<u8>),
    /// Answer.
    Request {
        /// The method.
        method: Vec<u8>,
        /// The query.
        query: Option<Vec<u8>>,
    },
}

/// One connection's side of a protocol.
pub(super) trait Protocol: Default {
    /// Takes what it can from the bytes that came.
    fn step(&mut self, inbound: &mut Vec<u8>) -> Result<Step, Malformed>;

    /// Writes a piece of the answer as the protocol has it.
    fn wrap(&self, content: &[u8], is_last: bool, out: &mut Vec<u8>);

    /// Whether the connection is kept after the answer.
    fn keeps(&self) -> bool {
        false
    }
}

/// Variables out of name-value pairs.
fn request<'a>(pairs: impl IntoIterator<Item = (&'a [u8], &'a [u8])>) -> Step {
    let (mut method, mut query) = (Vec::new(), None);
    for (name, value) in pairs {
        match name {
            b"REQUEST_METHOD" => method = value.to_vec(),
            b"QUERY_STRING" => query = Some(value.to_vec()),
            _ => {}
        }
    }
    Step::Request { method, query }
}

/// FastCGI, one request at a time on a connection.
#[derive(Debug, Default)]
pub(super) struct FastCgi {
    /// Identifier of the request that is coming in.
    request: Option<u16>,
    /// Identifier of the one that is being answered.
    answering: u16,
    keeps: bool,
    parameters: Vec<u8>,
}

impl Protocol for FastCgi {
    fn step(&mut self, inbound: &mut Vec<u8>) -> Result<Step, Malformed> {
        let mut used = 0;
        let mut step = Step::More;
        while step == Step::More {
            let Some((record, length)) = Record::parse(&inbound[used..])? else { break };
            step = self.take(record)?;
            used += length;
        }
        inbound.drain(..used);
        Ok(step)
    }

    fn wrap(&self, content: &[u8], is_last: bool, out: &mut Vec<u8>) {
        let request = self.answering;
        fastcgi::push_stream(out, kind::STDOUT, request, content);
        if is_last {
            fastcgi::push_record(out, kind::STDOUT, request, b"");
            fastcgi::push_end(out, request, status::COMPLETE);
        }
    }

    fn keeps(&self) -> bool {
        self.keeps
    }
}

impl FastCgi {
    fn take(&mut self, record: Record<'_>) -> Result<Step, Malformed> {
        let Record { kind, request: id, content } = record;
        let end = |status| {
            let mut out = Vec::new();
            fastcgi::push_end(&mut out, id, status);
            Ok(Step::Say(out))
        };
        match (kind, self.request) {
            (kind::GET_VALUES, _) if id == 0 => values(content),
            (kind::BEGIN_REQUEST, Some(other)) if other != id => end(status::CANNOT_MULTIPLEX),
            (kind::BEGIN_REQUEST, _) => {
                let [high, low, flags, ..] = *content else {
                    return Err(Malformed("the beginning of a request is cut off"));
                };
                if u16::from_be_bytes([high, low]) != fastcgi::RESPONDER {
                    return end(status::UNKNOWN_ROLE);
                }
                self.request = Some(id);
                self.keeps = flags & fastcgi::KEEP_CONNECTION != 0;
                self.parameters.clear();
                Ok(Step::More)
            }
            (kind::PARAMS, Some(request)) if request == id => {
                if self.parameters.len() + content.len() > VARIABLES_BYTES_MAX {
                    return Err(Malformed("the variables of a request are longer than 1 MiB"));
                }
                self.parameters.extend_from_slice(content);
                Ok(Step::More)
            }
            (kind::STDIN, Some(request)) if request == id && content.is_empty() => {
                self.answering = id;
                self.request = None;
                Ok(self::request(fastcgi::pairs(&self.parameters)?))
            }
            (kind::ABORT_REQUEST, Some(request)) if request == id => {
                self.request = None;
                end(status::COMPLETE)
            }
            (kind::STDIN, Some(request)) if request == id => Ok(Step::More),
            // Of a request that was refused or has ended: the specification lets both sides ignore it.
            (kind::ABORT_REQUEST | kind::PARAMS | kind::STDIN, _) => Ok(Step::More),
            (unknown, _) if id == 0 => {
                let mut out = Vec::new();
                fastcgi::push_record(&mut out, kind::UNKNOWN_TYPE, 0, &[unknown, 0, 0, 0, 0, 0, 0, 0]);
                Ok(Step::Say(out))
            }
            _ => Err(Malformed("a record of a kind that a web server does not send")),
        }
    }
}

/// Values that a web server may ask for beforehand.
fn values(asked: &[u8]) -> Result<Step, Malformed> {
    let mut known = Vec::new();
    for (name, _) in fastcgi::pairs(asked)? {
        match name {
            b"FCGI_MAX_CONNS" | b"FCGI_MAX_REQS" => fastcgi::push_pair(&mut known, name, b"1"),
            b"FCGI_MPXS_CONNS" => fastcgi::push_pair(&mut known, name, b"0"),
            _ => {}
        }
    }
    let mut out = Vec::new();
    fastcgi::push_record(&mut out, kind::GET_VALUES_RESULT, 0, &known);
    Ok(Step::Say(out))
}

/// SCGI: a netstring of variables, then the body; one request per connection.
#[derive(Debug, Default)]
pub(super) struct Scgi {
    /// Bytes of the request's body that have not come yet, once the variables have.
    body_left: Option<(u64, Box<Step>)>,
}

impl Protocol for Scgi {
    fn step(&mut self, inbound: &mut Vec<u8>) -> Result<Step, Malformed> {
        if self.body_left.is_none() {
            const NO_LENGTH: Malformed =
                Malformed("a request does not begin with the length of its variables");
            let Some(colon) = inbound.iter().take(10).position(|byte| *byte == b':') else {
                return if inbound.len() < 10 { Ok(Step::More) } else { Err(NO_LENGTH) };
            };
            let digits = std::str::from_utf8(&inbound[..colon]).map_err(|_| NO_LENGTH)?;
            let length: usize = digits.parse().map_err(|_| NO_LENGTH)?;
            if length > VARIABLES_BYTES_MAX {
                return Err(Malformed("the variables of a request are longer than 1 MiB"));
            }
            let Some(variables) = inbound.get(colon + 1..colon + 1 + length + 1) else {
                return Ok(Step::More);
            };
            let Some((b',', variables)) = variables.split_last() else {
                return Err(Malformed("the variables of a request do not end with a comma"));
            };
            let words: Vec<&[u8]> = variables.split(|byte| *byte == 0).collect();
            let pairs = words.chunks_exact(2).map(|pair| (pair[0], pair[1]));
            let of_body = pairs.clone().find(|(name, _)| *name == b"CONTENT_LENGTH");
            let of_body = of_body.and_then(|(_, value)| std::str::from_utf8(value).ok()?.parse().ok());
            let body = of_body.ok_or(Malformed("CONTENT_LENGTH is missing or not a number"))?;
            self.body_left = Some((body, Box::new(request(pairs))));
            inbound.drain(..colon + 1 + length + 1);
        }
        discard_body(&mut self.body_left, inbound)
    }

    fn wrap(&self, content: &[u8], _: bool, out: &mut Vec<u8>) {
        out.extend_from_slice(content);
    }
}

/// uwsgi: a header of four bytes, variables with lengths of two, then the body; one request per connection.
#[derive(Debug, Default)]
pub(super) struct Uwsgi {
    body_left: Option<(u64, Box<Step>)>,
}

impl Protocol for Uwsgi {
    fn step(&mut self, inbound: &mut Vec<u8>) -> Result<Step, Malformed> {
        if self.body_left.is_none() {
            let Some((&[modifier, low, high, _], rest)) = inbound.split_first_chunk::<4>() else {
                return Ok(Step::More);
            };
            if modifier != 0 {
                return Err(Malformed("a request is not one for a web application (modifier 0)"));
            }
            let length = usize::from(u16::from_le_bytes([low, high]));
            let Some(variables) = rest.get(..length) else { return Ok(Step::More) };
            let pairs = uwsgi_pairs(variables)?;
            let of_body = pairs.iter().find(|(name, _)| *name == b"CONTENT_LENGTH");
            let of_body = of_body.and_then(|(_, value)| std::str::from_utf8(value).ok()?.parse().ok());
            self.body_left = Some((of_body.unwrap_or_default(), Box::new(request(pairs))));
            inbound.drain(..4 + length);
        }
        discard_body(&mut self.body_left, inbound)
    }

    fn wrap(&self, content: &[u8], _: bool, out: &mut Vec<u8>) {
        out.extend_from_slice(content);
    }
}

fn uwsgi_pairs(mut bytes: &[u8]) -> Result<Pairs<'_>, Malformed> {
    let mut word = || {
        let (length, rest) = bytes.split_first_chunk::<2>()?;
        let (word, rest) = rest.split_at_checked(usize::from(u16::from_le_bytes(*length)))?;
        bytes = rest;
        Some(word)
    };
    let mut pairs = Vec::new();
    while let Some(name) = word() {
        pairs.push((name, word().ok_or(Malformed("a variable has no value"))?));
    }
    if bytes.is_empty() { Ok(pairs) } else { Err(Malformed("a variable ends in the middle")) }
}

/// The request, once its body has come.
fn discard_body(left: &mut Option<(u64, Box<Step>)>, inbound: &mut Vec<u8>) -> Result<Step, Malformed> {
    let Some((body, _)) = left else { return Ok(Step::More) };
    let came = u64::try_from(inbound.len()).unwrap_or(u64::MAX);
    *body = body.saturating_sub(came);
    inbound.clear();
    match left.take_if(|(body, _)| *body == 0) {
        Some((_, request)) => Ok(*request),
        None => Ok(Step::More),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(method: &str, query: &str) -> Step {
        Step::Request { method: method.into(), query: Some(query.into()) }
    }

    /// The steps are the same, in whatever pieces the bytes come.
    fn steps<P: Protocol>(bytes: &[u8]) -> Vec<Step> {
        let mut all = Vec::new();
        for size in [1, 7, bytes.len()] {
            let mut protocol = P::default();
            let mut inbound = Vec::new();
            let mut found = Vec::new();
            for piece in bytes.chunks(size) {
                inbound.extend_from_slice(piece);
                loop {
                    match protocol.step(&mut inbound).unwrap() {
                        Step::More => break,
                        step => found.push(step),
                    }
                }
            }
            all.push(found);
        }
        assert!(all.iter().all(|found| *found == all[0]), "{all:?}");
        all.swap_remove(0)
    }

    fn fastcgi_request(flags: u8, id: u16) -> Vec<u8> {
        let mut parameters = Vec::new();
        fastcgi::push_pair(&mut parameters, b"QUERY_STRING", b"size=1");
        fastcgi::push_pair(&mut parameters, b"REQUEST_METHOD", b"POST");
        let mut bytes = Vec::new();
        fastcgi::push_begin(&mut bytes, id, flags);
        let (first, second) = parameters.split_at(9);
        fastcgi::push_record(&mut bytes, kind::PARAMS, id, first);
        fastcgi::push_record(&mut bytes, kind::PARAMS, id, second);
        fastcgi::push_record(&mut bytes, kind::PARAMS, id, b"");
        fastcgi::push_record(&mut bytes, kind::STDIN, id, b"a body");
        fastcgi::push_record(&mut bytes, kind::STDIN, id, b"");
        bytes
    }

    #[test]
    fn fastcgi_has_a_request_when_its_body_has_come() {
        let one_after_the_other = [fastcgi_request(1, 1), fastcgi_request(0, 2)].concat();
        let both = [asked("POST", "size=1"), asked("POST", "size=1")];
        assert_eq!(steps::<FastCgi>(&one_after_the_other), both);
        // A request within another is refused, and the first continues.
        let (first, second) = (fastcgi_request(1, 1), fastcgi_request(1, 2));
        let mixed = [&first[..16], &second, &first[16..]].concat();
        let mut refused = Vec::new();
        fastcgi::push_end(&mut refused, 2, status::CANNOT_MULTIPLEX);
        assert_eq!(steps::<FastCgi>(&mixed), [Step::Say(refused), asked("POST", "size=1")]);
    }

    #[test]
    fn fastcgi_answers_what_is_asked_of_the_program() {
        let mut asked = Vec::new();
        fastcgi::push_pair(&mut asked, b"FCGI_MPXS_CONNS", b"");
        fastcgi::push_pair(&mut asked, b"UNKNOWN", b"");
        let mut bytes = Vec::new();
        fastcgi::push_record(&mut bytes, kind::GET_VALUES, 0, &asked);
        fastcgi::push_record(&mut bytes, 77, 0, b"");
        let mut known = Vec::new();
        fastcgi::push_pair(&mut known, b"FCGI_MPXS_CONNS", b"0");
        let (mut values, mut unknown) = (Vec::new(), Vec::new());
        fastcgi::push_record(&mut values, kind::GET_VALUES_RESULT, 0, &known);
        fastcgi::push_record(&mut unknown, kind::UNKNOWN_TYPE, 0, &[77, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(steps::<FastCgi>(&bytes), [Step::Say(values), Step::Say(unknown)]);
    }

    #[test]
    fn fastcgi_ends_with_an_empty_record_and_the_end_of_the_request() {
        let protocol = FastCgi { answering: 3, ..FastCgi::default() };
        let mut out = Vec::new();
        protocol.wrap(b"x", true, &mut out);
        let expected =
            [&[1, 6, 0, 3, 0, 1, 0, 0, b'x', 1, 6, 0, 3, 0, 0, 0, 0, 1, 3, 0, 3, 0, 8, 0, 0][..], &[0; 8]];
        assert_eq!(out, expected.concat());
    }

    #[test]
    fn scgi_and_uwsgi_wait_for_the_body() {
        let variables = b"CONTENT_LENGTH\x002\0SCGI\x001\0QUERY_STRING\0size=1\0REQUEST_METHOD\0GET\0";
        let scgi = [format!("{}:", variables.len()).as_bytes(), variables, b",ab"].concat();
        assert_eq!(steps::<Scgi>(&scgi), [asked("GET", "size=1")]);
        let mut variables = Vec::new();
        for word in ["CONTENT_LENGTH", "", "QUERY_STRING", "size=1", "REQUEST_METHOD", "GET"] {
            variables.extend_from_slice(&(word.len() as u16).to_le_bytes());
            variables.extend_from_slice(word.as_bytes());
        }
        let [low, high] = (variables.len() as u16).to_le_bytes();
        let uwsgi = [&[0, low, high, 0][..], &variables].concat();
        assert_eq!(steps::<Uwsgi>(&uwsgi), [asked("GET", "size=1")]);
    }

    #[test]
    fn garbage_is_told() {
        let step = |protocol: &mut dyn FnMut(&mut Vec<u8>) -> Result<Step, Malformed>, bytes: &[u8]| {
            protocol(&mut bytes.to_vec())
        };
        assert!(step(&mut |b| FastCgi::default().step(b), b"GET / HTTP/1.1\r\n").is_err());
        assert!(step(&mut |b| Scgi::default().step(b), b"GET / HTTP/1.1\r\n").is_err());
        assert!(step(&mut |b| Scgi::default().step(b), b"3:a\0b;").is_err());
        assert!(step(&mut |b| Scgi::default().step(b), b"9999999:").is_err());
        assert!(step(&mut |b| Uwsgi::default().step(b), b"GET / HTTP/1.1\r\n").is_err());
        assert!(step(&mut |b| Uwsgi::default().step(b), &[0, 2, 0, 0, 9, 9]).is_err());
    }
}
