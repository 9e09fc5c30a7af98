//! HPACK compared with another implementation.

use fluke_hpack::{Decoder as TheirDecoder, Encoder as TheirEncoder};
use proptest::prelude::*;
use webstone_engine::h2::hpack::decoder::Decoder;
use webstone_engine::h2::hpack::encoder::{self, Literal};
use webstone_engine::h2::hpack::huffman;
use webstone_engine::h2::hpack::known_blocks::KnownBlocks;

type Fields = Vec<(String, String)>;

fn fields() -> impl Strategy<Value = Fields> {
    let name = prop_oneof![
        Just("date".to_owned()),
        Just("content-type".to_owned()),
        Just("etag".to_owned()),
        "[a-z][a-z0-9-]{0,20}",
    ];
    let value = prop_oneof!["[a-c]{0,3}", "[ -~]{0,60}", "[0-9]{1,9}", "[é-ü]{1,5}"];
    let status = prop_oneof![Just("200".to_owned()), "[1-5][0-9][0-9]"];
    (status, prop::collection::vec((name, value), 0..12))
        .prop_map(|(status, rest)| [(":status".to_owned(), status)].into_iter().chain(rest).collect())
}

fn text(fields: &Fields) -> String {
    fields.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    /// We read what they encode, in blocks that refer to earlier ones: as text, by meaning alone, and as known
    /// blocks.
    #[test]
    fn their_blocks_are_read(blocks in prop::collection::vec(fields(), 1..12)) {
        let mut theirs = TheirEncoder::new();
        let (mut with_text, mut plain, mut knowing) = (Decoder::with_text(), Decoder::default(), Decoder::default());
        let mut known = KnownBlocks::new(4);
        // Each twice, so that it is known.
        for (at, fields) in blocks.iter().chain(&blocks).enumerate() {
            let block = theirs.encode(fields.iter().map(|(name, value)| (name.as_bytes(), value.as_bytes())));
            let mut out = Vec::new();
            let expected = with_text.decode_text(&block, &mut out).unwrap();
            prop_assert_eq!(String::from_utf8(out).unwrap(), text(fields));
            prop_assert_eq!(plain.decode(&block).unwrap(), expected);
            prop_assert_eq!(knowing.decode_known(&block, &mut known, at as u32 % 3).unwrap(), expected);
        }
    }

    /// They read what we encode.
    #[test]
    fn our_blocks_are_read(blocks in prop::collection::vec(fields(), 1..6)) {
        let mut theirs = TheirDecoder::new();
        for (at, fields) in blocks.iter().enumerate() {
            let mut block = Vec::new();
            if at == 1 {
                encoder::table_size(0, &mut block);
            }
            let literal = if at % 2 == 0 { Literal::Inserted } else { Literal::Plain };
            for (name, value) in fields {
                encoder::field(name, value.as_bytes(), literal, &mut block);
            }
            let read = theirs.decode(&block).unwrap();
            let read: Fields = read
                .into_iter()
                .map(|(name, value)| (String::from_utf8(name).unwrap(), String::from_utf8(value).unwrap()))
                .collect();
            prop_assert_eq!(&read, fields);
        }
    }

    #[test]
    fn any_text_comes_back(text in prop::collection::vec(any::<u8>(), 0..200)) {
        let mut coded = Vec::new();
        huffman::encode(&text, &mut coded);
        prop_assert_eq!(coded.len(), huffman::coded_length(&text));
        let mut back = Vec::new();
        huffman::decode(&coded, |byte| back.push(byte)).unwrap();
        prop_assert_eq!(back, text);
    }
}
