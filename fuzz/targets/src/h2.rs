//! Frames and header blocks that a server sends. The first byte of an input chooses how the rest is cut.

use webstone_engine::h2::frames::{FrameError, Reader, Step, flag, header_block, kind};
use webstone_engine::h2::hpack::decoder::Decoder;
use webstone_engine::h2::hpack::known_blocks::KnownBlocks;

/// Any split of the stream gives the same frames. A header block gives the same fields whether it is decoded with text, by meaning alone,
/// or recalled as a known block.
pub(crate) fn h2(data: &[u8]) {
    let Some((choice, stream)) = data.split_first() else { return };
    let whole = read(stream, stream.len().max(1));
    let piece = 1 + usize::from(*choice);
    assert_eq!(whole, read(stream, piece), "cut into pieces of {piece}");
    let (mut with_text, mut plain, mut knowing) =
        (Decoder::with_text(), Decoder::default(), Decoder::default());
    let mut known = KnownBlocks::new(2);
    for (number, (of_kind, _, payload)) in whole.0.iter().enumerate() {
        if *of_kind != kind::HEADERS {
            continue;
        }
        let decoded = with_text.decode_text(payload, &mut Vec::new());
        assert_eq!(plain.decode(payload), decoded);
        assert_eq!(knowing.decode_known(payload, &mut known, number as u32 % 2), decoded);
        if decoded.is_err() {
            return;
        }
    }
}

type Frames = (Vec<(u8, u32, Vec<u8>)>, Option<FrameError>);

/// The frames of a stream, bodies as one; and why there are no more.
fn read(stream: &[u8], piece: usize) -> Frames {
    let (mut reader, mut told, mut body) = (Reader::default(), Vec::new(), Vec::new());
    for bytes in stream.chunks(piece) {
        let mut rest = bytes;
        while !rest.is_empty() {
            let (used, step) = match reader.step(rest) {
                Ok(step) => step,
                Err(error) => return (told, Some(error)),
            };
            assert!(used > 0 && used <= rest.len());
            match step {
                Step::NeedMore => {}
                Step::Frame(head, payload) => {
                    assert_eq!(head.length, payload.len());
                    let payload =
                        if head.kind == kind::HEADERS { header_block(&head, payload) } else { Ok(payload) };
                    match payload {
                        Ok(payload) => told.push((head.kind, head.stream, payload.to_vec())),
                        Err(error) => return (told, Some(error)),
                    }
                }
                Step::Data { stream, piece, ends, .. } => {
                    body.extend_from_slice(piece);
                    if let Some(is_last) = ends {
                        let of_kind = if is_last { kind::DATA | flag::PADDED } else { kind::DATA };
                        told.push((of_kind, stream, std::mem::take(&mut body)));
                    }
                }
            }
            rest = &rest[used..];
        }
    }
    (told, None)
}
