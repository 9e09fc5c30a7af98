//! The examples of RFC 7541, invalid blocks, and what a decoder remembers of blocks.

use super::*;

fn bytes(hex: &str) -> Vec<u8> {
    let digits: Vec<u8> = hex.bytes().filter(u8::is_ascii_hexdigit).collect();
    digits.chunks(2).map(|two| u8::from_str_radix(std::str::from_utf8(two).unwrap(), 16).unwrap()).collect()
}

type Fields<'a> = &'a [(&'a str, &'a str)];

/// Decodes each block in turn and compares its text, and the size of the table after it.
fn texts(decoder: &mut Decoder, blocks: &[(&str, Fields<'_>, usize)]) {
    for (hex, fields, table_bytes) in blocks {
        let mut out = Vec::new();
        decoder.decode_text(&bytes(hex), &mut out).unwrap();
        let expected: String = fields.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
        assert_eq!(String::from_utf8(out).unwrap(), expected);
        assert_eq!(decoder.bytes, *table_bytes, "{hex}");
        assert_eq!(decoder.texts.as_ref().unwrap().len(), decoder.entries.len());
    }
}

#[test]
fn single_fields_of_the_standard() {
    // RFC 7541 appendix C.2.
    for (hex, name, value, table_bytes) in [
        ("400a637573746f6d2d6b65790d637573746f6d2d686561646572", "custom-key", "custom-header", 55),
        ("040c2f73616d706c652f70617468", ":path", "/sample/path", 0),
        ("100870617373776f726406736563726574", "password", "secret", 0),
        ("82", ":method", "GET", 0),
    ] {
        texts(&mut Decoder::with_text(), &[(hex, &[(name, value)], table_bytes)]);
    }
}

#[test]
fn requests_of_the_standard_with_and_without_huffman() {
    // Appendix C.3 and C.4.
    let first: &[(&str, &str)] =
        &[(":method", "GET"), (":scheme", "http"), (":path", "/"), (":authority", "www.example.com")];
    let second = [first, &[("cache-control", "no-cache")]].concat();
    let third: &[(&str, &str)] = &[
        (":method", "GET"),
        (":scheme", "https"),
        (":path", "/index.html"),
        (":authority", "www.example.com"),
        ("custom-key", "custom-value"),
    ];
    for [one, two, three] in [
        [
            "828684410f7777772e6578616d706c652e636f6d",
            "828684be58086e6f2d6361636865",
            "828785bf400a637573746f6d2d6b65790c637573746f6d2d76616c7565",
        ],
        [
            "828684418cf1e3c2e5f23a6ba0ab90f4ff",
            "828684be5886a8eb10649cbf",
            "828785bf408825a849e95ba97d7f8925a849e95bb8e8b4bf",
        ],
    ] {
        let blocks = [(one, first, 57), (two, &second[..], 110), (three, third, 164)];
        texts(&mut Decoder::with_text(), &blocks);
    }
}

const FIRST: &[(&str, &str)] = &[
    (":status", "302"),
    ("cache-control", "private"),
    ("date", "Mon, 21 Oct 2013 20:13:21 GMT"),
    ("location", "https://www.example.com"),
];

#[test]
fn answers_of_the_standard_with_eviction() {
    // Appendix C.5 and C.6: a table of 256 bytes, set here by the first block.
    let second: &[(&str, &str)] = &[(":status", "307"), FIRST[1], FIRST[2], FIRST[3]];
    let third: &[(&str, &str)] = &[
        (":status", "200"),
        FIRST[1],
        ("date", "Mon, 21 Oct 2013 20:13:22 GMT"),
        FIRST[3],
        ("content-encoding", "gzip"),
        ("set-cookie", "foo=ASDJKHQKBZXOQWEOPIUAXQWEOIU; max-age=3600; version=1"),
    ];
    for [one, two, three] in [
        [
            "3fe101 4803333032580770726976617465611d4d6f6e2c203231204f637420323031332032303a31333a323120474d546e1768747470733a2f2f7777772e6578616d706c652e636f6d",
            "4803333037c1c0bf",
            "88c1611d4d6f6e2c203231204f637420323031332032303a31333a323220474d54c05a04677a69707738666f6f3d4153444a4b48514b425a584f5157454f50495541585157454f49553b206d61782d6167653d333630303b2076657273696f6e3d31",
        ],
        [
            "3fe101 488264025885aec3771a4b6196d07abe941054d444a8200595040b8166e082a62d1bff6e919d29ad171863c78f0b97c8e9ae82ae43d3",
            "4883640effc1c0bf",
            "88c16196d07abe941054d444a8200595040b8166e084a62d1bffc05a839bd9ab77ad94e7821dd7f2e6c7b335dfdfcd5b3960d5af27087f3672c1ab270fb5291f9587316065c003ed4ee5b1063d5007",
        ],
    ] {
        let blocks = [(one, FIRST, 222), (two, second, 222), (three, third, 215)];
        texts(&mut Decoder::with_text(), &blocks);
        // The same decoded without text.
        let mut decoder = Decoder::default();
        let statuses = [one, two, three].map(|hex| decoder.decode(&bytes(hex)).unwrap().status);
        assert_eq!((statuses, decoder.bytes), ([302, 307, 200], 215));
    }
}

#[test]
fn invalid_hpack_is_refused() {
    for hex in [
        "80",
        "be",
        "ff",
        "ffffffffffff7f",
        "40",
        "4001",
        "400161",
        "40016105",
        "0085ffffffff",
        "3fe21f",
        "823f00",
        "7fff",
    ] {
        assert!(Decoder::default().decode(&bytes(hex)).is_err(), "{hex}");
    }
}

#[test]
fn invalid_answers_are_reported() {
    for (hex, found) in [
        ("88", None),
        ("8888", Some("`:status` twice")),
        ("5a0188 88", Some("after a regular field")),
        ("0803393939", None),
        ("08023939", Some("not three digits")),
        ("82", Some("pseudo-header")),
        ("88 0f0d0131 0f0d0131", None),
        ("88 0f0d0131 0f0d0132", Some("that differ")),
        ("88 0f0d0178", Some("not a number")),
        ("88 0f0d14 3939393939393939393939393939393939393939", Some("not a number")),
        ("88 00 01 41 01 61", Some("capital")),
        ("88 00 01 61 01 0a", Some("control")),
        ("88 00 0a 636f6e6e656374696f6e 01 61", Some("HTTP/1")),
    ] {
        let problem = Decoder::default().decode(&bytes(hex)).unwrap().problem;
        match found {
            Some(found) => {
                assert!(problem.is_some_and(|problem| problem.contains(found)), "{hex}: {problem:?}")
            }
            None => assert_eq!(problem, None, "{hex}"),
        }
    }
}

/// Replaying a known block changes the table in the same way as decoding it.
#[test]
fn known_blocks_leave_the_same_table() {
    let one = bytes("88 6196d07abe941054d444a8200595040b8166e084a62d1bff 5a839bd9ab 5c0135");
    let two = bytes("88 be bf c0");
    let (mut plain, mut knowing, mut known) = (Decoder::default(), Decoder::default(), KnownBlocks::new(1));
    for round in 0..200 {
        let block = if round % 3 == 2 { &two } else { &one };
        let expected = plain.decode(block).unwrap();
        assert_eq!(knowing.decode_known(block, &mut known, 0).unwrap(), expected);
        assert_eq!(expected.content_length, Some(5));
        assert_eq!((plain.bytes, plain.entries.len()), (knowing.bytes, knowing.entries.len()));
    }
}

#[test]
fn values_with_white_space_around_them_are_wrong_in_either_coding() {
    for (value, is_wrong) in
        [("a b\tc", false), ("", false), (" a", true), ("a ", true), ("\ta", true), ("a\t", true)]
    {
        let mut coded = Vec::new();
        huffman::encode(value.as_bytes(), &mut coded);
        let name = Coded { bytes: b"x", is_huffman: false }.name().unwrap();
        for (bytes, is_huffman) in [(value.as_bytes(), false), (&coded, true)] {
            let entry = Coded { bytes, is_huffman }.value_of(name).unwrap();
            assert_eq!(entry.name == Name::Wrong, is_wrong, "{value:?} {is_huffman}");
        }
    }
}
