//! HPACK, the compression of header fields (RFC 7541): bytes in, bytes out.
//!
//! Answers are decoded by size and meaning alone: what counts in an answer is its status and its length, and of all other fields
//! only what they take in the table that both sides keep in step. Their text is kept for traces only.

pub mod decoder;
pub mod encoder;
pub mod huffman;
pub mod known_blocks;
pub mod static_table;

/// Default size of the dynamic table, in bytes.
pub const TABLE_BYTES: usize = 4096;
/// Overhead of a table entry besides its name and value, in bytes (section 4.1).
pub const ENTRY_BYTES: usize = 32;

/// Why bytes are not valid HPACK. The connection cannot be used afterwards.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CompressionError(pub &'static str);
