//! Formats: a file each. Some draw the blocks of any document; those with a shape of their own take figures from the table.

pub(crate) mod chart;
pub(crate) mod classic;
pub(crate) mod csv;
pub(crate) mod duel;
pub(crate) mod hgrm;
pub(crate) mod html;
pub(crate) mod json;
pub(crate) mod json_objects;
pub(crate) mod junit;
pub(crate) mod markdown;
pub(crate) mod otel;
pub(crate) mod outgoing;
pub(crate) mod prometheus;
#[cfg(feature = "schema")]
pub(crate) mod schemas;
pub(crate) mod text;
pub(crate) mod webstone1;
pub(crate) mod webstone2;
pub(crate) mod xlsx;

use crate::document::Document;
use crate::judged::Judged;
use crate::{Format, Options, ReportError};

/// A document in one of the formats that draw blocks.
pub(crate) fn drawn(document: &Document, format: Format, options: &Options) -> Vec<u8> {
    match format {
        Format::Markdown => markdown::render(document),
        _ => text::render(document, options).into_bytes(),
    }
}

/// One document of several records, in a format that joins them.
pub(crate) fn joined(
    records: &[Judged<'_>],
    format: Format,
    options: &Options,
) -> Result<Vec<u8>, ReportError> {
    match format {
        Format::Html => Ok(outgoing::text(&html::render(records, options))),
        Format::Xlsx => Ok(xlsx::render(records)?),
        Format::Otel => Ok(outgoing::json(&otel::request(records))?),
        Format::Junit => Ok(outgoing::text(&junit::render(records, options))),
        _ => Ok(outgoing::text(&prometheus::render(records, options))),
    }
}
