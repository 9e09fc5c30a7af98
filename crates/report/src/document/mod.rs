//! Reports as data: every document (a run, a comparison, a series, …) is made here once, from records and judgements, as a
//! list of blocks. No document knows the format or how much room there is.

pub(crate) mod advice;
pub(crate) mod asctime;
pub(crate) mod calibration;
pub(crate) mod cell;
pub(crate) mod chart;
pub(crate) mod comparison;
pub(crate) mod configuration;
pub(crate) mod definitions;
pub(crate) mod duel;
pub(crate) mod figures;
pub(crate) mod generators;
pub mod history;
pub(crate) mod hit;
pub mod like;
pub(crate) mod list;
pub(crate) mod numbers;
pub(crate) mod run;
pub(crate) mod series;
pub(crate) mod server_hosts;
pub(crate) mod summary;
pub(crate) mod table;
pub(crate) mod thresholds;
pub(crate) mod timeline;
pub(crate) mod workout;

use serde::Serialize;

use chart::Chart;
use table::{Sheet, Table};

/// What a piece of text is, for colouring.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) enum Tone {
    #[default]
    Plain,
    /// Headings.
    Strong,
    /// Rules, units, what is read last.
    Faint,
    /// What is best: the peak.
    Good,
    /// What should be looked at.
    Caution,
    /// What makes the figures untrustworthy.
    Alarm,
    /// A program's name, or text for a program.
    Code,
}

/// A part of a document.
#[derive(Clone, Debug, Serialize)]
pub(crate) enum Block {
    /// Room before what follows.
    Gap,
    /// The title of the whole, after a sign that formats without colour have.
    Title(&'static str, String),
    /// Text that begins at the margin: pieces, each in its tone.
    Text(Vec<(Tone, String)>),
    /// Text below a heading, after a label padded to this width, or without a label.
    Item {
        label: String,
        width: usize,
        tone: Tone,
        text: String,
    },
    Heading {
        title: String,
        explanation: String,
    },
    /// A heading of lower rank.
    Group(String),
    /// The anchor of a part, its title, and its blocks.
    Section(&'static str, &'static str, Document),
    /// The same, with a title that pages alone show.
    Part(String, String, Document),
    Table(Table),
    Sheet(Sheet),
    /// A line that scripts look for: it is printed as it is.
    Line(String),
    List(Vec<String>),
    /// A chart, and the table of its values; a format without charts has the table alone.
    #[serde(skip)]
    Chart(Box<Chart>, Option<Sheet>),
    /// What is said of one of several levels: a page folds it, and unfolds the level that is selected.
    Level {
        load: String,
        is_open: bool,
        blocks: Document,
    },
    /// Shown only on request, instead of what is shown in brief. Where there is nothing in brief, it is folded, if the format can fold.
    Fold {
        title: String,
        brief: Document,
        whole: Document,
    },
    /// The first block if a text fits into this number of lines, otherwise the second.
    Either(String, usize, Box<[Block; 2]>),
}

/// Blocks in the order in which they are read.
#[derive(Clone, Debug, Default, Serialize)]
pub(crate) struct Document(pub(crate) Vec<Block>);

impl Document {
    pub(crate) fn gap(&mut self) {
        self.0.push(Block::Gap);
    }

    pub(crate) fn text(&mut self, tone: Tone, text: impl Into<String>) {
        self.0.push(Block::Text(vec![(tone, text.into())]));
    }

    /// Text without a label.
    pub(crate) fn note(&mut self, tone: Tone, text: impl Into<String>) {
        self.item("", 0, tone, text);
    }

    pub(crate) fn item(
        &mut self,
        label: impl Into<String>,
        width: usize,
        tone: Tone,
        text: impl Into<String>,
    ) {
        self.0.push(Block::Item { label: label.into(), width, tone, text: text.into() });
    }

    pub(crate) fn heading(&mut self, title: impl Into<String>, explanation: impl Into<String>) {
        self.0.push(Block::Heading { title: title.into(), explanation: explanation.into() });
    }

    pub(crate) fn title(&mut self, sign: &'static str, title: impl Into<String>) {
        self.0.push(Block::Title(sign, title.into()));
    }

    /// A part with an anchor, if there is anything in it.
    pub(crate) fn section(&mut self, anchor: &'static str, title: &'static str, blocks: Document) {
        self.0.extend((!blocks.0.is_empty()).then_some(Block::Section(anchor, title, blocks)));
    }

    /// A part of a page, if there is anything in it.
    pub(crate) fn part(&mut self, anchor: impl Into<String>, title: impl Into<String>, blocks: Document) {
        self.0.extend((!blocks.0.is_empty()).then(|| Block::Part(anchor.into(), title.into(), blocks)));
    }

    /// Charts without tables.
    pub(crate) fn of_charts(charts: impl IntoIterator<Item = Chart>) -> Document {
        let mut doc = Document::default();
        doc.charts(charts);
        doc
    }

    pub(crate) fn charts(&mut self, charts: impl IntoIterator<Item = Chart>) {
        self.0.extend(charts.into_iter().map(|chart| Block::Chart(Box::new(chart), None)));
    }

    /// What is shown only on request.
    pub(crate) fn fold(&mut self, title: impl Into<String>, brief: Document, whole: Document) {
        self.0.push(Block::Fold { title: title.into(), brief, whole });
    }

    /// Titles of what is shown only on request.
    pub(crate) fn folded(&self) -> Vec<&str> {
        let each = self.0.iter().flat_map(|block| match block {
            Block::Fold { title, .. } => vec![title.as_str()],
            Block::Part(.., blocks) => blocks.folded(),
            _ => Vec::new(),
        });
        each.collect()
    }

    /// A list, if there is anything in it.
    pub(crate) fn list(&mut self, items: Vec<String>) {
        self.0.extend((!items.is_empty()).then_some(Block::List(items)));
    }

    pub(crate) fn sheets(&mut self, sheets: impl IntoIterator<Item = Sheet>) {
        self.0.extend(sheets.into_iter().map(Block::Sheet));
    }
}
