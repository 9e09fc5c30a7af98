//! Formats: a file each.

pub(crate) mod chart;
pub(crate) mod classic;
pub(crate) mod csv;
pub(crate) mod hgrm;
pub(crate) mod html;
pub(crate) mod json;
pub(crate) mod json_objects;
pub(crate) mod markdown;
pub(crate) mod otel;
pub(crate) mod outgoing;
pub(crate) mod prometheus;
pub(crate) mod text;
pub(crate) mod webstone1;
pub(crate) mod webstone2;
pub(crate) mod xlsx;
