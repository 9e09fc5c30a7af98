//! Error codes of HTTP/3 (RFC 9114, 8.1; RFC 9204, 6).

pub(crate) const NO_ERROR: u64 = 0x100;
pub(crate) const INTERNAL_ERROR: u64 = 0x102;
pub(crate) const FRAME_UNEXPECTED: u64 = 0x105;
pub(crate) const FRAME_ERROR: u64 = 0x106;
pub(crate) const EXCESSIVE_LOAD: u64 = 0x107;
pub(crate) const REQUEST_REJECTED: u64 = 0x10B;
pub(crate) const REQUEST_INCOMPLETE: u64 = 0x10D;
pub(crate) const MESSAGE_ERROR: u64 = 0x10E;
pub(crate) const DECOMPRESSION_FAILED: u64 = 0x200;

/// Their names, in small letters with hyphens.
pub(crate) const NAMES: [(&str, u64); 20] = [
    ("no-error", NO_ERROR),
    ("general-protocol-error", 0x101),
    ("internal-error", INTERNAL_ERROR),
    ("stream-creation-error", 0x103),
    ("closed-critical-stream", 0x104),
    ("frame-unexpected", FRAME_UNEXPECTED),
    ("frame-error", FRAME_ERROR),
    ("excessive-load", EXCESSIVE_LOAD),
    ("id-error", 0x108),
    ("settings-error", 0x109),
    ("missing-settings", 0x10A),
    ("request-rejected", REQUEST_REJECTED),
    ("request-cancelled", 0x10C),
    ("request-incomplete", REQUEST_INCOMPLETE),
    ("message-error", MESSAGE_ERROR),
    ("connect-error", 0x10F),
    ("version-fallback", 0x110),
    ("decompression-failed", DECOMPRESSION_FAILED),
    ("encoder-stream-error", 0x201),
    ("decoder-stream-error", 0x202),
];
