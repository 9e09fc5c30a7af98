//! The record layer of TLS 1.2 and 1.3: turns bytes of one type into records, and a record back into its bytes (RFC
//! 5246, section 6.2; RFC 8446, section 5; ciphers: RFC 5288 and RFC 7905). No I/O, and no allocation per record.
//! `traffic` knows what the bytes mean; keys come from rustls's handshake.
//!
//! rustls's own record layer copies each record three times, allocates for each, and keeps 4 kB for each connection.

use aws_lc_rs::aead::{
    AES_128_GCM, AES_256_GCM, Aad, Algorithm, CHACHA20_POLY1305, LessSafeKey, Nonce, UnboundKey,
};

/// Bytes before a record's payload: type, version, length.
pub const HEAD_BYTES: usize = 5;
/// Maximum number of bytes that a record protects.
pub const PLAIN_BYTES_MAX: usize = 1 << 14;
/// A record's payload must be shorter than this, as in rustls: RFC 5246 allows it to grow by 2,048 bytes, RFC 8446 by
/// 256.
const PAYLOAD_BYTES_END: usize = PLAIN_BYTES_MAX + 2048;
const TAG_BYTES: usize = 16;
const NONCE_BYTES: usize = 12;
/// Bytes of the nonce in a record of AES-GCM in TLS 1.2.
const EXPLICIT_BYTES: usize = 8;

/// Types of records.
pub const CHANGE_CIPHER_SPEC: u8 = 20;
/// See [`CHANGE_CIPHER_SPEC`].
pub const ALERT: u8 = 21;
/// See [`CHANGE_CIPHER_SPEC`].
pub const HANDSHAKE: u8 = 22;
/// See [`CHANGE_CIPHER_SPEC`].
pub const DATA: u8 = 23;

/// What is wrong with a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RecordError {
    /// Not a type of TLS.
    #[error("its type is {0}, which TLS does not have")]
    Type(u8),
    /// Not a version of TLS.
    #[error("its version is {0:#06x}, which TLS does not have")]
    Version(u16),
    /// Longer than any record may be.
    #[error("its length is {0} bytes, but a record has less than 18432")]
    TooLong(usize),
    /// Shorter than its protection alone.
    #[error("its length is {0} bytes, too few for a protected record")]
    TooShort(usize),
    /// Not protected, though keys are agreed on.
    #[error("it is of type {0} and not protected")]
    Unprotected(u8),
    /// Not made with the current keys, or changed on the way.
    #[error("it cannot be decrypted")]
    NotAuthentic,
    /// More plaintext than a record may hold.
    #[error("it holds {0} bytes, but a record holds at most 16384")]
    TooMuch(usize),
    /// Only padding, without a type.
    #[error("it holds padding and no type")]
    NoType,
    /// A type that is not allowed here.
    #[error("it holds an unexpected message of type {0}")]
    Unexpected(u8),
}

/// Ciphers of records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cipher {
    /// AES-GCM with a key of 16 bytes.
    Aes128Gcm,
    /// AES-GCM with a key of 32 bytes.
    Aes256Gcm,
    /// ChaCha20-Poly1305.
    ChaCha20Poly1305,
}

/// The layout of a record around a cipher's output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    /// The type is protected, and padding may follow it.
    Tls13,
    /// Eight bytes of the nonce precede the ciphertext.
    Tls12Gcm,
    /// Nothing precedes the ciphertext.
    Tls12ChaCha,
}

/// Records in one direction: their key, and the number of the next.
#[derive(Debug)]
pub struct Direction {
    key: LessSafeKey,
    iv: [u8; NONCE_BYTES],
    sequence: u64,
    form: Form,
}

impl Direction {
    /// For keys that a handshake agreed on; the next record has the number `sequence`. `None` if key or nonce does
    /// not have the cipher's length.
    pub fn new(cipher: Cipher, is_tls13: bool, key: &[u8], iv: &[u8], sequence: u64) -> Option<Direction> {
        let algorithm: &'static Algorithm = match cipher {
            Cipher::Aes128Gcm => &AES_128_GCM,
            Cipher::Aes256Gcm => &AES_256_GCM,
            Cipher::ChaCha20Poly1305 => &CHACHA20_POLY1305,
        };
        let form = match cipher {
            _ if is_tls13 => Form::Tls13,
            Cipher::ChaCha20Poly1305 => Form::Tls12ChaCha,
            Cipher::Aes128Gcm | Cipher::Aes256Gcm => Form::Tls12Gcm,
        };
        let key = LessSafeKey::new(UnboundKey::new(algorithm, key).ok()?);
        Some(Direction { key, iv: iv.try_into().ok()?, sequence, form })
    }

    /// Number of the next record: how many this key has sealed or opened.
    pub fn sequence(&self) -> u64 {
        self.sequence
    }

    /// Appends the records that protect bytes of one type; for no bytes, no record.
    pub fn seal(&mut self, kind: u8, plain: &[u8], wire: &mut Vec<u8>) {
        for piece in plain.chunks(PLAIN_BYTES_MAX) {
            self.seal_any(kind, piece, wire);
        }
    }

    /// Appends one record, even an empty one.
    pub(super) fn seal_any(&mut self, kind: u8, plain: &[u8], wire: &mut Vec<u8>) {
        let nonce = self.nonce();
        let (outer, before, behind) = match self.form {
            Form::Tls13 => (DATA, 0, 1),
            Form::Tls12Gcm => (kind, EXPLICIT_BYTES, 0),
            Form::Tls12ChaCha => (kind, 0, 0),
        };
        let payload_bytes = before + plain.len() + behind + TAG_BYTES;
        let [high, low] = (payload_bytes as u16).to_be_bytes();
        wire.reserve(HEAD_BYTES + payload_bytes);
        wire.extend_from_slice(&[outer, 3, 3, high, low]);
        wire.extend_from_slice(&nonce[NONCE_BYTES - before..]);
        let start = wire.len();
        wire.extend_from_slice(plain);
        if behind > 0 {
            wire.push(kind);
        }
        let (seen, seen_bytes) = self.seen(kind, [3, 3], plain.len(), payload_bytes);
        let nonce = Nonce::assume_unique_for_key(nonce);
        let tag = self
            .key
            .seal_in_place_separate_tag(nonce, Aad::from(&seen[..seen_bytes]), &mut wire[start..])
            .expect("a record is shorter than what a cipher takes at once");
        wire.extend_from_slice(tag.as_ref());
        self.sequence += 1;
    }

    /// Takes one whole record including its head. Its bytes are appended to `scratch`. Returns their type, and how
    /// many there are.
    ///
    /// # Errors
    /// If it is not a record, or not protected with the current key.
    pub fn open(&mut self, record: &[u8], scratch: &mut Scratch) -> Result<(u8, usize), RecordError> {
        let kind = record[0];
        let payload = &record[HEAD_BYTES..];
        let (before, behind) = match self.form {
            Form::Tls13 if kind != DATA => return Err(RecordError::Unprotected(kind)),
            Form::Tls13 => (0, 1),
            _ if kind == CHANGE_CIPHER_SPEC => return Err(RecordError::Unprotected(kind)),
            Form::Tls12Gcm => (EXPLICIT_BYTES, 0),
            Form::Tls12ChaCha => (0, 0),
        };
        let too_short = RecordError::TooShort(payload.len());
        let bytes = payload.len().checked_sub(before + TAG_BYTES).ok_or(too_short)?;
        let (seen, seen_bytes) = self.seen(kind, [record[1], record[2]], bytes, payload.len());
        let mut nonce = self.nonce();
        nonce[NONCE_BYTES - before..].copy_from_slice(&payload[..before]);
        let nonce = Nonce::assume_unique_for_key(nonce);
        let (sealed, tag) = payload[before..].split_at(bytes);
        let plain = scratch.room(bytes);
        self.key
            .open_separate_gather(nonce, Aad::from(&seen[..seen_bytes]), sealed, tag, plain)
            .map_err(|_| RecordError::NotAuthentic)?;
        if bytes > PLAIN_BYTES_MAX + behind {
            return Err(RecordError::TooMuch(bytes));
        }
        self.sequence += 1;
        if self.form != Form::Tls13 {
            return Ok((kind, bytes));
        }
        // Its type is the last byte before the padding.
        let at = plain.iter().rposition(|byte| *byte != 0).ok_or(RecordError::NoType)?;
        Ok((plain[at], at))
    }

    /// The nonce of the next record. In TLS 1.2 with AES-GCM the sender may choose the last eight bytes; we compute
    /// them in the same way.
    fn nonce(&self) -> [u8; NONCE_BYTES] {
        let mut nonce = self.iv;
        for (byte, of_sequence) in nonce[4..].iter_mut().zip(self.sequence.to_be_bytes()) {
            *byte ^= of_sequence;
        }
        nonce
    }

    /// The additional authenticated data, and how much of the array it is.
    fn seen(
        &self,
        kind: u8,
        version: [u8; 2],
        plain_bytes: usize,
        payload_bytes: usize,
    ) -> ([u8; 13], usize) {
        let mut seen = [0; 13];
        if self.form == Form::Tls13 {
            let [high, low] = (payload_bytes as u16).to_be_bytes();
            seen[..HEAD_BYTES].copy_from_slice(&[DATA, 3, 3, high, low]);
            return (seen, HEAD_BYTES);
        }
        seen[..8].copy_from_slice(&self.sequence.to_be_bytes());
        let [high, low] = (plain_bytes as u16).to_be_bytes();
        seen[8..].copy_from_slice(&[kind, version[0], version[1], high, low]);
        (seen, seen.len())
    }
}

/// Length, including the head, of the record at the front of `bytes`; `None` if its head is incomplete.
///
/// # Errors
/// If it is not the head of a record.
pub fn length(bytes: &[u8]) -> Result<Option<usize>, RecordError> {
    let [kind, major, minor, high, low, ..] = *bytes else { return Ok(None) };
    if !(CHANGE_CIPHER_SPEC..=DATA).contains(&kind) {
        return Err(RecordError::Type(kind));
    }
    if major != 3 {
        return Err(RecordError::Version(u16::from_be_bytes([major, minor])));
    }
    let payload_bytes = usize::from(u16::from_be_bytes([high, low]));
    if payload_bytes >= PAYLOAD_BYTES_END {
        return Err(RecordError::TooLong(payload_bytes));
    }
    Ok(Some(HEAD_BYTES + payload_bytes))
}

/// Buffers that all connections of a worker share: unsealed bytes, and the beginnings of incomplete records.
#[derive(Debug, Default)]
pub struct Scratch {
    /// Longer than its content, so that it is filled with zeros once and not for each record.
    plain: Vec<u8>,
    plain_bytes: usize,
    /// Buffers that no connection uses.
    spare: Vec<Vec<u8>>,
}

impl Scratch {
    /// Forgets the unsealed bytes.
    pub fn clear(&mut self) {
        self.plain_bytes = 0;
    }

    /// The bytes unsealed since it was cleared.
    pub fn plain(&self) -> &[u8] {
        &self.plain[..self.plain_bytes]
    }

    /// The first bytes of what was opened last, before [`Scratch::keep`].
    pub(super) fn opened(&self, bytes: usize) -> &[u8] {
        &self.plain[self.plain_bytes..][..bytes]
    }

    /// Keeps the first bytes of what was opened last.
    pub(super) fn keep(&mut self, bytes: usize) {
        self.plain_bytes += bytes;
    }

    /// Appends bytes that rustls unsealed.
    pub(super) fn append(&mut self, bytes: &[u8]) {
        self.room(bytes.len()).copy_from_slice(bytes);
        self.keep(bytes.len());
    }

    fn room(&mut self, bytes: usize) -> &mut [u8] {
        let end = self.plain_bytes + bytes;
        if self.plain.len() < end {
            self.plain.resize(end, 0);
        }
        &mut self.plain[self.plain_bytes..end]
    }

    /// An empty buffer.
    pub(super) fn take_spare(&mut self) -> Vec<u8> {
        self.spare.pop().unwrap_or_default()
    }

    #[cfg(test)]
    pub(super) fn spares(&self) -> usize {
        self.spare.len()
    }

    /// Empties a buffer and keeps it for the next use. Few are used at a time, so few are kept.
    pub(super) fn give_back(&mut self, buffer: &mut Vec<u8>) {
        const SPARE_MAX: usize = 64;
        let mut buffer = std::mem::take(buffer);
        if buffer.capacity() > 0 && self.spare.len() < SPARE_MAX {
            buffer.clear();
            self.spare.push(buffer);
        }
    }
}
