//! The integrity tag of Retry packets (RFC 9001 section 5.8, RFC 9369 section 3.3.3).

use aws_lc_rs::aead::{AES_128_GCM, Aad, LessSafeKey, Nonce, UnboundKey};

use super::packet::TAG_BYTES;
use super::settings::Version;

const KEY_V1: [u8; 16] =
    [0xbe, 0x0c, 0x69, 0x0b, 0x9f, 0x66, 0x57, 0x5a, 0x1d, 0x76, 0x6b, 0x54, 0xe3, 0x68, 0xc8, 0x4e];
const NONCE_V1: [u8; 12] = [0x46, 0x15, 0x99, 0xd3, 0x5d, 0x63, 0x2b, 0xf2, 0x23, 0x98, 0x25, 0xbb];
const KEY_V2: [u8; 16] =
    [0x8f, 0xb4, 0xb0, 0x1b, 0x56, 0xac, 0x48, 0xe2, 0x60, 0xfb, 0xcb, 0xce, 0xad, 0x7c, 0xcc, 0x92];
const NONCE_V2: [u8; 12] = [0xd8, 0x69, 0x69, 0xbc, 0x2d, 0x7c, 0x6d, 0x99, 0x90, 0xef, 0xb0, 0x4a];

/// The tag of a Retry packet without one; `destination`: the connection ID that the client's first packet was sent to.
pub(super) fn tag(version: Version, destination: &[u8], packet: &[u8]) -> [u8; TAG_BYTES] {
    let (key, nonce) = match version {
        Version::V1 => (KEY_V1, NONCE_V1),
        Version::V2 => (KEY_V2, NONCE_V2),
    };
    let key =
        UnboundKey::new(&AES_128_GCM, &key).map(LessSafeKey::new).expect("the key has the cipher's length");
    let pseudo = [&[destination.len() as u8], destination, packet].concat();
    let nonce = Nonce::assume_unique_for_key(nonce);
    let tag = key.seal_in_place_separate_tag(nonce, Aad::from(&pseudo), &mut []);
    let tag = tag.expect("nothing is encrypted");
    tag.as_ref().try_into().expect("the cipher's tags have this length")
}

/// Whether a Retry packet is authentic.
pub(super) fn is_authentic(version: Version, destination: &[u8], packet: &[u8]) -> bool {
    packet
        .split_last_chunk::<TAG_BYTES>()
        .is_some_and(|(rest, found)| tag(version, destination, rest) == *found)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(hex: &str) -> Vec<u8> {
        (0..hex.len() / 2).map(|at| u8::from_str_radix(&hex[2 * at..2 * at + 2], 16).unwrap()).collect()
    }

    #[test]
    fn packets_of_the_standards_appendices() {
        let destination = bytes("8394c8f03e515708");
        // RFC 9001 section A.4, RFC 9369 section A.4.
        let v1 = bytes("ff000000010008f067a5502a4262b5746f6b656e04a265ba2eff4d829058fb3f0f2496ba");
        let v2 = bytes("cf6b3343cf0008f067a5502a4262b5746f6b656ec8646ce8bfe33952d955543665dcc7b6");
        assert!(is_authentic(Version::V1, &destination, &v1));
        assert!(is_authentic(Version::V2, &destination, &v2));
        assert!(!is_authentic(Version::V2, &destination, &v1));
        assert!(!is_authentic(Version::V1, &destination[1..], &v1));
        for at in 0..v1.len() {
            let mut other = v1.clone();
            other[at] ^= 1;
            assert!(!is_authentic(Version::V1, &destination, &other));
            assert!(!is_authentic(Version::V1, &destination, &v1[..at]));
        }
    }
}
