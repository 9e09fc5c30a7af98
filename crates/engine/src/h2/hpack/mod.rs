//! HPACK, the compression of header fields (RFC 7541): bytes in, bytes out.
//!
//! Answers are decoded by size and meaning alone: what counts in an answer is its status and its length, and of all other fields
//! only what they take in the table that both sides keep in step. Their text is kept for traces only.

pub mod decoder;
pub mod encoder;
pub mod huffman;
pub mod known_blocks;
pub mod static_table;

/// Size of the dynamic table where nobody asked for another, in bytes.
pub const TABLE_BYTES: usize = 4096;
/// What an entry of a table takes besides its name and value, in bytes (section 4.1).
pub const ENTRY_BYTES: usize = 32;

/// Bytes that are no HPACK, and why. The connection cannot go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CompressionError(pub &'static str);
