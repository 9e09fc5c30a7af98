//! Bytes that a server sends. The first byte of an input chooses how the rest is cut and whether it answers a HEAD.

use webstone_engine::h1::known_heads::KnownHeads;
use webstone_engine::h1::response::{AtEnd, Malformed, ResponseParser, Step};

/// What a parser made of a stream; the same however the stream was cut.
#[derive(Debug, Default, PartialEq)]
struct Outcome {
    status: u16,
    keep_alive: bool,
    interim: u32,
    body: Vec<u8>,
    framing_bytes: usize,
    left_over: usize,
    in_head: bool,
    complete: bool,
}

/// Any split of the stream gives the same response, and so does a known head. Skipping a body gives the same end as reading it.
pub(crate) fn response(data: &[u8]) {
    let Some((choice, stream)) = data.split_first() else { return };
    let to_head = choice & 1 == 1;
    let mut known = KnownHeads::new(1);
    let whole = read(stream, stream.len().max(1), to_head, &mut known);
    let again = read(stream, stream.len().max(1), to_head, &mut known);
    assert_eq!(whole, again, "with its head known");
    let piece = 1 + usize::from(choice >> 1);
    let split = read(stream, piece, to_head, &mut known);
    match (&whole, &split) {
        (Ok(whole), Ok(split)) => assert_eq!(whole, split, "cut into pieces of {piece}"),
        (Err(_), Err(_)) => {}
        // A head that arrives in parts is checked only once it is complete; one that arrives whole fails at its first wrong line.
        (Err(_), Ok(split)) if split.in_head => {}
        _ => panic!("whole: {whole:?}, cut into pieces of {piece}: {split:?}"),
    }
    if let Ok(whole) = whole {
        assert_eq!(skip(stream, to_head), Ok((whole.status, whole.complete)), "body skipped");
    }
}

/// Feeds the stream in pieces, as a connection does: an incomplete head is kept.
fn read(stream: &[u8], piece: usize, to_head: bool, known: &mut KnownHeads) -> Result<Outcome, Malformed> {
    let mut parser = ResponseParser::new(to_head);
    let (mut outcome, mut kept) = (Outcome::default(), Vec::new());
    for bytes in stream.chunks(piece) {
        kept.extend_from_slice(bytes);
        let mut at = 0;
        while at < kept.len() {
            let (n, step) = parser.step_known(&kept[at..], known, 0)?;
            assert!(n <= kept.len() - at, "consumed more than there was");
            match step {
                Step::NeedMore | Step::Done => {
                    assert_eq!(n, 0);
                    break;
                }
                Step::Interim => outcome.interim += 1,
                Step::Head(head) => {
                    outcome.status = head.status;
                    outcome.keep_alive = head.keep_alive;
                }
                Step::Body => outcome.body.extend_from_slice(&kept[at..at + n]),
                Step::Framing => outcome.framing_bytes += n,
            }
            assert!(n > 0, "a step without progress: {step:?}");
            at += n;
        }
        kept.drain(..at);
    }
    outcome.left_over = kept.len();
    outcome.in_head = parser.at_end() == AtEnd::InHead;
    outcome.complete = parser.at_end() == AtEnd::Complete;
    Ok(outcome)
}

/// Reads in one piece, throwing bodies away unseen: status, and whether the response is whole.
fn skip(stream: &[u8], to_head: bool) -> Result<(u16, bool), Malformed> {
    let mut parser = ResponseParser::new(to_head);
    let (mut at, mut status) = (0, 0);
    while at < stream.len() {
        let skippable = usize::try_from(parser.skippable()).unwrap_or(usize::MAX).min(stream.len() - at);
        if skippable > 0 {
            parser.skipped(skippable as u64);
            at += skippable;
            continue;
        }
        let (n, step) = parser.step(&stream[at..])?;
        match step {
            Step::NeedMore | Step::Done => break,
            Step::Head(head) => status = head.status,
            _ => {}
        }
        at += n;
    }
    Ok((status, parser.at_end() == AtEnd::Complete))
}
