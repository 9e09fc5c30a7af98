//! Whether bodies are what their `Content-Encoding` says: a sample of answers is decoded before the load.

use std::io::Read;

use flate2::bufread::{MultiGzDecoder, ZlibDecoder};
use ruzstd::decoding::StreamingDecoder;
use ruzstd::decoding::errors::{FrameDecoderError, ReadFrameHeaderError};
use webstone_workload::codings::{Coding, Codings};

/// Largest decoded body, in bytes: a few kilobytes can decode to gigabytes.
const DECODED_BYTES_MAX: u64 = 64 << 20;
/// Bytes that the decoder of brotli takes at once.
const BROTLI_BUFFER_BYTES: usize = 4096;

/// The length of a whole body once decoded. `coded` is the value of `Content-Encoding`.
///
/// # Errors
/// What is wrong with it, as a sentence.
pub(crate) fn decoded_length(body: &[u8], coded: &str, accepted: &Codings) -> Result<u64, String> {
    let mut decoded: Option<Vec<u8>> = None;
    // The coding named last was applied last.
    for name in coded.rsplit(',').map(str::trim).filter(|name| !name.eq_ignore_ascii_case("identity")) {
        let Some(coding) = Coding::by_name(name).filter(|coding| accepted.has(*coding)) else {
            return Err(format!("Content-Encoding is {coded}, but only {} is accepted", accepted.field()));
        };
        let body = decoded.as_deref().unwrap_or(body);
        let found = decode(body, coding)
            .map_err(|why| format!("Content-Encoding is {coded}, but the body cannot be decoded: {why}"))?;
        if found.len() as u64 > DECODED_BYTES_MAX {
            return Err(format!(
                "a body of {} bytes decodes to more than {DECODED_BYTES_MAX} bytes",
                body.len()
            ));
        }
        decoded = Some(found);
    }
    Ok(decoded.map_or(body.len(), |decoded| decoded.len()) as u64)
}

fn decode(mut body: &[u8], coding: Coding) -> Result<Vec<u8>, String> {
    let mut out = Vec::new();
    let mut read = |reader: &mut dyn Read| {
        let most = DECODED_BYTES_MAX + 1 - out.len() as u64;
        reader.take(most).read_to_end(&mut out).map_err(|error| error.to_string())
    };
    match coding {
        Coding::Gzip => {
            read(&mut MultiGzDecoder::new(body))?;
        }
        Coding::Deflate => {
            read(&mut ZlibDecoder::new(&mut body))?;
            if !body.is_empty() {
                return Err(format!("{} bytes follow its end", body.len()));
            }
        }
        Coding::Br => {
            read(&mut brotli_decompressor::Decompressor::new(body, BROTLI_BUFFER_BYTES))?;
        }
        Coding::Zstd => loop {
            match StreamingDecoder::new(&mut body) {
                Ok(mut frame) => {
                    read(&mut frame)?;
                    let frame = frame.into_frame_decoder();
                    let stated = frame.get_checksum_from_data();
                    if stated.is_some() && stated != frame.get_calculated_checksum() {
                        return Err("its check sum is wrong".to_owned());
                    }
                }
                Err(FrameDecoderError::ReadFrameHeaderError(ReadFrameHeaderError::SkipFrame {
                    length,
                    ..
                })) => body = body.get(length as usize..).ok_or("a frame is cut off")?,
                Err(error) => return Err(error.to_string()),
            }
            if body.is_empty() {
                break;
            }
        },
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use flate2::Compression;
    use flate2::read::{GzEncoder, ZlibEncoder};

    /// 3,000 times `abc`, as Node.js's brotli and `zstd` write it.
    const BR: &[u8] = &[27, 39, 35, 248, 37, 195, 196, 198, 226, 179, 32, 224, 91, 3, 64, 3];
    const ZSTD: &[u8] = &[
        0x28, 0xb5, 0x2f, 0xfd, 0x64, 0x28, 0x22, 0x5d, 0, 0, 0x18, 0x61, 0x62, 0x63, 1, 0, 0x22, 0x43, 0xde,
        0x0d, 1, 0x26, 0x88, 0xab, 0x56,
    ];

    fn text() -> Vec<u8> {
        b"abc".repeat(3000)
    }

    fn gzip(body: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        GzEncoder::new(body, Compression::fast()).read_to_end(&mut out).unwrap();
        out
    }

    fn zlib(body: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        ZlibEncoder::new(body, Compression::fast()).read_to_end(&mut out).unwrap();
        out
    }

    fn length(body: &[u8], coded: &str) -> Result<u64, String> {
        decoded_length(body, coded, &"br,gzip,deflate,zstd".parse().unwrap())
    }

    #[test]
    fn every_coding_is_decoded() {
        for (body, coded) in [
            (gzip(&text()), "gzip"),
            (gzip(&text()), "X-GZIP"),
            ([gzip(b""), gzip(&text())].concat(), "gzip"),
            (zlib(&text()), "deflate"),
            (BR.to_vec(), "br"),
            (ZSTD.to_vec(), "zstd"),
            ([b"\x50\x2a\x4d\x18\x02\0\0\0xx", ZSTD].concat(), "zstd"),
            (gzip(BR), "br, gzip"),
            (text(), "identity"),
        ] {
            assert_eq!(length(&body, coded), Ok(9000), "{coded}");
        }
    }

    #[test]
    fn what_is_not_its_coding_is_said() {
        for (body, coded) in [
            (gzip(&text()), "gzip"),
            (zlib(&text()), "deflate"),
            (BR.to_vec(), "br"),
            (ZSTD.to_vec(), "zstd"),
        ] {
            let cut = length(&body[..body.len() - 1], coded).unwrap_err();
            assert!(
                cut.starts_with(&format!("Content-Encoding is {coded}, but the body cannot be")),
                "{cut}"
            );
            assert!(length(&text(), coded).is_err(), "{coded}");
        }
        let mut spoiled = ZSTD.to_vec();
        *spoiled.last_mut().unwrap() ^= 1;
        assert!(length(&spoiled, "zstd").unwrap_err().ends_with("its check sum is wrong"));
        assert!(
            length(&[&zlib(&text())[..], b"x"].concat(), "deflate")
                .unwrap_err()
                .ends_with("1 bytes follow its end")
        );
        let accepted = "br,gzip".parse().unwrap();
        assert_eq!(
            decoded_length(ZSTD, "zstd", &accepted),
            Err("Content-Encoding is zstd, but only br, gzip is accepted".to_owned())
        );
    }

    #[test]
    fn a_bomb_is_not_decoded_to_its_end() {
        let mut bomb = Vec::new();
        let zeros = std::io::repeat(0).take(DECODED_BYTES_MAX + 10);
        GzEncoder::new(std::io::BufReader::new(zeros), Compression::fast()).read_to_end(&mut bomb).unwrap();
        assert!(length(&bomb, "gzip").unwrap_err().contains("decodes to more than"));
    }
}
