//! Charts as data. Formats that cannot draw leave them out; the values stand in tables as well.

use super::Tone;

/// A chart with its title.
#[derive(Clone, Debug)]
pub(crate) struct Chart {
    /// Unique in the document.
    pub(crate) id: String,
    pub(crate) title: String,
    /// Where what it shows is defined.
    pub(crate) definition: Option<String>,
    /// How it is read, once in a document.
    pub(crate) caption: &'static str,
    /// Changes around zero, in percent.
    pub(crate) rows: Vec<Change>,
}

/// A change with what is known of it.
#[derive(Clone, Debug)]
pub(crate) struct Change {
    pub(crate) name: String,
    /// As it is written, with what is concluded.
    pub(crate) shown: String,
    pub(crate) point: f64,
    /// Where there is one.
    pub(crate) interval: Option<(f64, f64)>,
    /// Changes up to this one, either way, are noise.
    pub(crate) noise: f64,
    /// Whether nothing is concluded from it.
    pub(crate) is_open: bool,
    pub(crate) tone: Tone,
}
