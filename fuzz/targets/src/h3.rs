//! HTTP/3: frames wherever they are cut, and field sections.

use webstone_engine::h3::frames::{Reader, Step};
use webstone_engine::h3::qpack;

/// The first byte says how the rest is cut into pieces; the rest is a stream's content, and then a field section.
pub(crate) fn h3(bytes: &[u8]) {
    let Some((cut, content)) = bytes.split_first() else { return };
    let whole = read(content, content.len().max(1));
    assert_eq!(read(content, usize::from(*cut).max(1)), whole, "cut into pieces of {cut}");
    let mut text = Vec::new();
    let Ok(fields) = qpack::decode(content, Some(&mut text)) else {
        assert!(qpack::decode(content, None).is_err());
        return;
    };
    assert_eq!(qpack::decode(content, None), Ok(fields));
    // What is valid means the same when it is written again.
    let Ok(text) = std::str::from_utf8(&text) else { return };
    if fields.problem.is_some() {
        return;
    }
    let mut again = qpack::PREFIX.to_vec();
    let lines = text.split_terminator("\r\n");
    for (name, value) in lines.filter_map(|line| line.split_once(": ")) {
        qpack::write_field(name, value.as_bytes(), &mut again);
    }
    assert_eq!(qpack::decode(&again, None), Ok(fields));
}

/// The frames of a stream that comes in pieces of this size: type, length, payload.
fn read(content: &[u8], size: usize) -> Vec<(u64, u64, Vec<u8>)> {
    let (mut reader, mut found) = (Reader::default(), Vec::<(u64, u64, Vec<u8>)>::new());
    for mut rest in content.chunks(size) {
        while !rest.is_empty() {
            let (taken, step) = reader.step(rest);
            assert!(taken > 0 && taken <= rest.len());
            rest = &rest[taken..];
            match step {
                Step::NeedMore => assert!(rest.is_empty()),
                Step::Head { kind, length, .. } => found.push((kind, length, Vec::new())),
                Step::Payload { kind, piece, is_last } => {
                    let frame = found.last_mut().expect("a head comes before its payload");
                    frame.2.extend_from_slice(piece);
                    assert_eq!((frame.0, frame.2.len() as u64 == frame.1), (kind, is_last));
                }
            }
        }
    }
    found
}
