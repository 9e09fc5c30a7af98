//! FastCGI 1.0 on the wire: records, and the name-value pairs in them. Bytes in, bytes out; both sides of it use this, the
//! responder (`respond`) and the gateway, and each is tested against programs of others.

use crate::error::Malformed;

/// Bytes of a record's header.
pub(crate) const HEADER_BYTES: usize = 8;
/// Most content that one record is given here: a multiple of eight, so that no padding is needed.
const CONTENT_BYTES: usize = 65_528;
/// The role of a program that answers requests.
pub(crate) const RESPONDER: u16 = 1;
/// Flag of a beginning: the connection is kept when the request has ended.
pub(crate) const KEEP_CONNECTION: u8 = 1;

/// Types of records.
pub(crate) mod kind {
    pub(crate) const BEGIN_REQUEST: u8 = 1;
    pub(crate) const ABORT_REQUEST: u8 = 2;
    pub(crate) const END_REQUEST: u8 = 3;
    pub(crate) const PARAMS: u8 = 4;
    pub(crate) const STDIN: u8 = 5;
    pub(crate) const STDOUT: u8 = 6;
    pub(crate) const STDERR: u8 = 7;
    pub(crate) const GET_VALUES: u8 = 9;
    pub(crate) const GET_VALUES_RESULT: u8 = 10;
    pub(crate) const UNKNOWN_TYPE: u8 = 11;
}

/// How a request ended, in `END_REQUEST`.
pub(crate) mod status {
    pub(crate) const COMPLETE: u8 = 0;
    pub(crate) const CANNOT_MULTIPLEX: u8 = 1;
    pub(crate) const UNKNOWN_ROLE: u8 = 3;
}

/// Names and values.
pub(crate) type Pairs<'a> = Vec<(&'a [u8], &'a [u8])>;

/// One record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Record<'a> {
    pub(crate) kind: u8,
    pub(crate) request: u16,
    pub(crate) content: &'a [u8],
}

impl<'a> Record<'a> {
    /// The record that `bytes` begin with and the bytes that it takes, padding included; `None` if they end before it does.
    pub(crate) fn parse(bytes: &'a [u8]) -> Result<Option<(Record<'a>, usize)>, Malformed> {
        let Some((header, rest)) = bytes.split_first_chunk::<HEADER_BYTES>() else {
            return match bytes.first() {
                Some(version) if *version != 1 => Err(Malformed("the version of a record is not 1")),
                _ => Ok(None),
            };
        };
        let [version, kind, request_high, request_low, length_high, length_low, padding, _] = *header;
        if version != 1 {
            return Err(Malformed("the version of a record is not 1"));
        }
        let length = usize::from(u16::from_be_bytes([length_high, length_low]));
        let whole = length + usize::from(padding);
        if rest.len() < whole {
            return Ok(None);
        }
        let request = u16::from_be_bytes([request_high, request_low]);
        Ok(Some((Record { kind, request, content: &rest[..length] }, HEADER_BYTES + whole)))
    }
}

/// Appends content as records; nothing for no content, because an empty record ends a stream.
pub(crate) fn push_stream(out: &mut Vec<u8>, kind: u8, request: u16, content: &[u8]) {
    content.chunks(CONTENT_BYTES).for_each(|content| push_record(out, kind, request, content));
}

/// Appends one record. The content is at most 65,535 bytes.
pub(crate) fn push_record(out: &mut Vec<u8>, kind: u8, request: u16, content: &[u8]) {
    let length = u16::try_from(content.len()).expect("callers split what is longer");
    let [request_high, request_low] = request.to_be_bytes();
    let [length_high, length_low] = length.to_be_bytes();
    out.extend_from_slice(&[1, kind, request_high, request_low, length_high, length_low, 0, 0]);
    out.extend_from_slice(content);
}

/// Appends `BEGIN_REQUEST` of a responder.
pub(crate) fn push_begin(out: &mut Vec<u8>, request: u16, flags: u8) {
    let [high, low] = RESPONDER.to_be_bytes();
    push_record(out, kind::BEGIN_REQUEST, request, &[high, low, flags, 0, 0, 0, 0, 0]);
}

/// Appends `END_REQUEST`.
pub(crate) fn push_end(out: &mut Vec<u8>, request: u16, status: u8) {
    push_record(out, kind::END_REQUEST, request, &[0, 0, 0, 0, status, 0, 0, 0]);
}

/// Appends a name-value pair to the content of a record.
pub(crate) fn push_pair(out: &mut Vec<u8>, name: &[u8], value: &[u8]) {
    push_length(out, name.len());
    push_length(out, value.len());
    out.extend_from_slice(name);
    out.extend_from_slice(value);
}

fn push_length(out: &mut Vec<u8>, length: usize) {
    match u8::try_from(length) {
        Ok(short @ 0..=127) => out.push(short),
        _ => {
            let long = u32::try_from(length).expect("no name or value is as long as 2 GiB") | 1 << 31;
            out.extend_from_slice(&long.to_be_bytes());
        }
    }
}

/// The name-value pairs of a whole stream.
pub(crate) fn pairs(mut bytes: &[u8]) -> Result<Pairs<'_>, Malformed> {
    const ENDS: Malformed = Malformed("a name-value pair ends in the middle");
    let mut pairs = Vec::new();
    while !bytes.is_empty() {
        let name = take_length(&mut bytes).ok_or(ENDS)?;
        let value = take_length(&mut bytes).ok_or(ENDS)?;
        let (name, rest) = bytes.split_at_checked(name).ok_or(ENDS)?;
        let (value, rest) = rest.split_at_checked(value).ok_or(ENDS)?;
        pairs.push((name, value));
        bytes = rest;
    }
    Ok(pairs)
}

fn take_length(bytes: &mut &[u8]) -> Option<usize> {
    let (first, rest) = bytes.split_first()?;
    if *first < 128 {
        *bytes = rest;
        return Some(usize::from(*first));
    }
    let (long, rest) = bytes.split_first_chunk::<4>()?;
    *bytes = rest;
    Some((u32::from_be_bytes(*long) & !(1 << 31)) as usize)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_is_read_as_it_was_written() {
        let mut bytes = Vec::new();
        push_record(&mut bytes, kind::STDOUT, 258, b"abc");
        assert_eq!(bytes, [1, 6, 1, 2, 0, 3, 0, 0, b'a', b'b', b'c']);
        let record = Record { kind: kind::STDOUT, request: 258, content: b"abc" };
        assert_eq!(Record::parse(&bytes), Ok(Some((record, 11))));
        for end in 0..bytes.len() {
            assert_eq!(Record::parse(&bytes[..end]), Ok(None), "{end}");
        }
        assert!(Record::parse(&[2]).is_err() && Record::parse(&[0; 8]).is_err());
        let padded = [1, 6, 0, 1, 0, 1, 2, 0, b'x', 9, 9, 7];
        let record = Record { kind: kind::STDOUT, request: 1, content: b"x" };
        assert_eq!(Record::parse(&padded), Ok(Some((record, 11))));
    }

    #[test]
    fn long_content_becomes_several_records() {
        let mut bytes = Vec::new();
        push_stream(&mut bytes, kind::STDOUT, 1, &[7; 100_000]);
        let (first, used) = Record::parse(&bytes).unwrap().unwrap();
        let (second, rest) = Record::parse(&bytes[used..]).unwrap().unwrap();
        assert_eq!((first.content.len(), second.content.len()), (65_528, 34_472));
        assert_eq!(used + rest, bytes.len());
        let mut none = Vec::new();
        push_stream(&mut none, kind::STDOUT, 1, b"");
        assert!(none.is_empty(), "an empty record would end the stream");
    }

    #[test]
    fn pairs_have_short_and_long_lengths() {
        let long = [b'v'; 300];
        let mut bytes = Vec::new();
        push_pair(&mut bytes, b"NAME", b"");
        push_pair(&mut bytes, b"LONG", &long);
        assert_eq!(bytes[..6], [4, 0, b'N', b'A', b'M', b'E']);
        assert_eq!(bytes[6..11], [4, 0x80, 0, 1, 0x2C]);
        assert_eq!(pairs(&bytes), Ok(vec![(&b"NAME"[..], &b""[..]), (&b"LONG"[..], &long[..])]));
        for end in [1, 5, 7, 10, bytes.len() - 1] {
            assert!(pairs(&bytes[..end]).is_err(), "{end}");
        }
    }
}
