//! HPACK, the compression of header fields (RFC 7541): bytes in, bytes out.
//!
//! Answers are decoded only by size and meaning: the values needed from an answer are its status and length. Of all
//! other fields only their size matters, for the table that both sides keep in step. Their text is kept for traces
//! only.

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
