//! Contents of generated files: printable, the same on any machine, different for each path, hard to compress, and
//! computable at any offset, so that a 5 GB file needs no buffer on either side.
//!
//! Byte `8 n + k` of a file is `63 +` the low six bits of byte `k` of the `n`-th output of SplitMix64 (G. Steele, D.
//! Lea, C. Flood, "Fast splittable pseudorandom number generators", OOPSLA 2014), seeded from the file's path. So the
//! characters are `?` to `~`, beginning where WebStone's `rand() % 26 + 63` does; none of them has a meaning in HTML.
//! As six of eight bits are random, no compressor gets below three quarters.
//!
//! The content depends only on the path: a file cut short is a prefix of the whole one.

use std::borrow::Cow;

use percent_encoding::percent_decode_str;

use crate::target::Target;

const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;
const LOW_SIX: u64 = 0x3f3f_3f3f_3f3f_3f3f;

/// The content of the file at one URL.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Content {
    key: u64,
}

impl Content {
    /// The content for a URL or its path; [`file_path`] says which URLs are the same file.
    pub fn of_url(url: &str) -> Content {
        // FNV-1a combines the bytes, SplitMix64's finaliser mixes the result: keys only need to differ.
        let mut key = 0xcbf2_9ce4_8422_2325_u64;
        for byte in file_path(url).bytes() {
            key = (key ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
        Content { key: mixed(key) }
    }

    /// Fills a buffer with the bytes from `offset` on.
    pub fn fill(self, offset: u64, out: &mut [u8]) {
        let (head, body) = self.split(offset, out.len());
        let (head_out, body_out) = out.split_at_mut(head);
        head_out.copy_from_slice(&self.word(offset / 8)[(offset % 8) as usize..][..head]);
        let mut words = body_out.chunks_exact_mut(8);
        let mut number = body;
        for chunk in &mut words {
            chunk.copy_from_slice(&self.word(number));
            number = number.wrapping_add(1);
        }
        let tail = words.into_remainder();
        tail.copy_from_slice(&self.word(number)[..tail.len()]);
    }

    /// Whether `bytes` are those from `offset` on.
    pub fn matches(self, offset: u64, bytes: &[u8]) -> bool {
        let (head, body) = self.split(offset, bytes.len());
        let (head_bytes, body_bytes) = bytes.split_at(head);
        if *head_bytes != self.word(offset / 8)[(offset % 8) as usize..][..head] {
            return false;
        }
        let words = body_bytes.chunks_exact(8);
        let tail = words.remainder();
        let mut number = body;
        // Differences are collected without branches, so that the loop is vectorised.
        let mut difference = 0;
        for chunk in words {
            let found = u64::from_le_bytes(chunk.try_into().expect("chunks of eight"));
            difference |= found ^ u64::from_le_bytes(self.word(number));
            number = number.wrapping_add(1);
        }
        difference == 0 && *tail == self.word(number)[..tail.len()]
    }

    /// Bytes up to the next whole word, and that word's number.
    fn split(self, offset: u64, length: usize) -> (usize, u64) {
        let head = ((8 - offset % 8) % 8).min(length as u64);
        (head as usize, offset / 8 + u64::from(!offset.is_multiple_of(8)))
    }

    #[inline(always)]
    fn word(self, number: u64) -> [u8; 8] {
        let random = mixed(self.key.wrapping_add(number.wrapping_add(1).wrapping_mul(GOLDEN)));
        // No sum exceeds 126, so nothing is carried from byte to byte.
        ((random & LOW_SIX) + LOW_SIX).to_le_bytes()
    }
}

/// Fills a buffer with the bytes from `offset` on of the file at a URL. For many pieces of one file, use a
/// [`Content`].
pub fn fill(url: &str, offset: u64, out: &mut [u8]) {
    Content::of_url(url).fill(offset, out);
}

/// Checks a body that arrives in pieces.
#[derive(Clone, Copy, Debug)]
pub struct ContentCheck {
    content: Content,
    offset: u64,
    size: u64,
    right: bool,
}

impl ContentCheck {
    /// A check of a body of `size` bytes for a URL.
    pub fn new(url: &str, size: u64) -> ContentCheck {
        ContentCheck { content: Content::of_url(url), offset: 0, size, right: true }
    }

    /// Takes the next piece; returns whether all bytes so far are right and not too many.
    pub fn update(&mut self, bytes: &[u8]) -> bool {
        let fits = self.size - self.offset >= bytes.len() as u64;
        self.right = self.right && fits && self.content.matches(self.offset, bytes);
        if fits {
            self.offset += bytes.len() as u64;
        }
        self.right
    }

    /// Whether the whole body has arrived and every byte of it was right.
    pub fn finished(&self) -> bool {
        self.right && self.offset == self.size
    }
}

/// The file that a URL means, as a path from the root of the fileset: without scheme, host and query, with percent
/// escapes decoded, and `index.html` added after a trailing slash. Not safe to open: it may contain `..`.
pub fn file_path(url: &str) -> Cow<'_, str> {
    let path = path_and_query(url);
    let path = &path[..path.find(['?', '#']).unwrap_or(path.len())];
    // What is not UTF-8 once decoded stays as it is.
    let mut path = percent_decode_str(path).decode_utf8().unwrap_or(Cow::Borrowed(path));
    if path.is_empty() || path.ends_with('/') {
        let index = if path.is_empty() { "/index.html" } else { "index.html" };
        path.to_mut().push_str(index);
    }
    path
}

/// A URL without `http://host:port`.
fn path_and_query(url: &str) -> &str {
    if url.starts_with('/') {
        return url;
    }
    match Target::split(url) {
        Ok((_, Cow::Borrowed(path))) => path,
        // A query without a path.
        Ok((_, Cow::Owned(_))) => "/",
        Err(_) => url,
    }
}

#[inline(always)]
fn mixed(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn whole(url: &str, size: usize) -> Vec<u8> {
        let mut bytes = vec![0; size];
        fill(url, 0, &mut bytes);
        bytes
    }

    #[test]
    fn the_content_is_fixed_for_ever() {
        assert_eq!(String::from_utf8(whole("/file500.html", 40)).unwrap(), FIRST_BYTES);
    }

    const FIRST_BYTES: &str = r"SnzmiZmqC~XwNPuJEsHJ`^pwv`n^[IpI}`B\^Gk{";

    #[test]
    fn every_byte_is_printable_and_every_file_differs() {
        let a = whole("/a.html", 100_000);
        assert!(a.iter().all(|byte| (b'?'..=b'~').contains(byte)));
        let mut seen = [0_u32; 64];
        a.iter().for_each(|byte| seen[usize::from(byte - b'?')] += 1);
        // 100,000 / 64 = 1,562 each; ± 5 standard deviations.
        assert!(seen.iter().all(|count| (1365..1760).contains(count)), "{seen:?}");
        let same = a.iter().zip(whole("/b.html", 100_000)).filter(|(a, b)| **a == *b).count();
        assert!((1365..1760).contains(&same), "{same} of 100,000 bytes are the same");
    }

    #[test]
    fn the_content_cannot_be_compressed_much() {
        let plain = whole("/file50k.html", 1 << 20);
        let mut packed = Vec::with_capacity(plain.len() * 2);
        let mut encoder = flate2::Compress::new(flate2::Compression::best(), false);
        let status = encoder.compress_vec(&plain, &mut packed, flate2::FlushCompress::Finish).unwrap();
        assert_eq!(status, flate2::Status::StreamEnd);
        assert!(packed.len() * 4 >= plain.len() * 3, "{} of {}", packed.len(), plain.len());
    }

    #[test]
    fn urls_of_one_file_have_one_content() {
        for url in ["/a%62/", "/ab/index.html", "http://h:80/ab/", "https://h/ab/?x=1", "/ab/#top"] {
            assert_eq!(file_path(url), "/ab/index.html", "{url}");
            assert_eq!(Content::of_url(url), Content::of_url("/ab/"));
        }
        assert_eq!(file_path("http://h"), "/index.html");
        assert_eq!(file_path("/100%"), "/100%");
        assert_eq!(file_path("/%ff"), "/%ff");
        assert_eq!(file_path("/%e2%82%ac"), "/€");
    }

    #[test]
    fn a_check_detects_long_short_and_wrong_bodies() {
        let body = whole("/a", 100);
        let mut right = ContentCheck::new("/a", 100);
        assert!(right.update(&body[..33]) && !right.finished());
        assert!(right.update(&body[33..]) && right.finished());
        assert!(right.update(&[]) && right.finished());
        assert!(!right.update(b"x") && !right.finished());
        let mut wrong = ContentCheck::new("/a", 100);
        let mut bad = body.clone();
        bad[99] ^= 1;
        assert!(!wrong.update(&bad) && !wrong.finished());
        assert!(!wrong.update(&[]), "once wrong, always wrong");
        assert!(ContentCheck::new("/a", 0).finished());
    }

    proptest! {
        #[test]
        fn any_piece_is_a_piece_of_the_whole(offset in 0_usize..300, length in 0_usize..300, flip in 0_usize..300) {
            let all = whole("/p", 600);
            let mut piece = vec![0; length];
            fill("/p", offset as u64, &mut piece);
            prop_assert_eq!(&piece[..], &all[offset..offset + length]);
            prop_assert!(Content::of_url("/p").matches(offset as u64, &piece));
            if flip < length {
                piece[flip] ^= 0x20;
                prop_assert!(!Content::of_url("/p").matches(offset as u64, &piece));
            }
        }

        #[test]
        fn far_offsets_do_not_overflow(offset in (u64::MAX - 64)..=u64::MAX, length in 0_usize..100) {
            Content::of_url("/p").fill(offset, &mut vec![0; length]);
        }

        #[test]
        fn any_url_has_a_path(url in ".*|http://.*|/(%[0-9a-f]{2}|.)*") {
            prop_assert!(!file_path(&url).is_empty());
        }
    }
}
