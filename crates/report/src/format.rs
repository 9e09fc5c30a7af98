//! The names of the formats as typed on a command line, and which formats each subject of a report can be written in.

use std::fmt;
use std::path::Path;
use std::str::FromStr;

use crate::ReportError;

/// A format of a report.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Format {
    /// Tables for a terminal: everything that a person wants to see of a run.
    #[default]
    Text,
    /// One file for a browser: verdict, charts, tables, disclosure, definitions. It needs no network.
    Html,
    /// One level in a few lines, with the lines that users of wrk search for.
    Hit,
    /// The record and everything computed from it; the schema is `docs/record.schema.json`.
    Json,
    /// Comma-separated values (RFC 4180).
    Csv,
    /// The text that WebStone 1.x printed.
    Webstone1,
    /// The text that WebStone 2.x printed.
    Webstone2,
    /// An Excel workbook.
    Xlsx,
    /// Tables of GitHub's Markdown.
    Markdown,
    /// The percentiles of one distribution, as HdrHistogram prints them.
    Hgrm,
    /// Metrics in the text format of Prometheus.
    Prometheus,
    /// Metrics as OpenTelemetry's OTLP in JSON.
    Otel,
    /// Test cases for continuous integration, in JUnit's XML.
    Junit,
}

/// A format, its name, a few words about it, the endings of file names that mean it, and its other names.
type Entry = (Format, &'static str, &'static str, &'static [&'static str], &'static [&'static str]);

/// Every format, in the order of help texts and of [`Format`].
#[rustfmt::skip]
const ENTRIES: [Entry; 13] = [
    (Format::Text, "text", "tables for a terminal", &["txt"], &["txt", "terminal", "table"]),
    (Format::Html, "html", "charts and tables in one file, for a browser", &["html", "htm"], &["htm", "browser", "web"]),
    (Format::Hit, "hit", "one level in a few lines, as wrk prints it", &[], &["wrk"]),
    (Format::Json, "json", "the record and all computed figures", &["json"], &["js", "jsonl", "ndjson"]),
    (Format::Csv, "csv", "comma-separated values, one row per level and iteration", &["csv"], &["tsv"]),
    (Format::Webstone1, "webstone1", "the text of WebStone 1.x", &[], &["webstone-1", "webstone1.1", "webstone-1.x", "ws1"]),
    (Format::Webstone2, "webstone2", "the text of WebStone 2.x", &[],
        &["webstone", "webstone-2", "webstone2.0", "webstone-2.x", "ws2"]),
    (Format::Xlsx, "xlsx", "an Excel workbook with charts; needs -o", &["xlsx"], &["excel", "xls", "workbook"]),
    (Format::Markdown, "markdown", "tables for a README or a pull request", &["md", "markdown"], &["md", "github", "gfm"]),
    (Format::Hgrm, "hgrm", "percentiles of one level, as wrk2 and HdrHistogram print them", &["hgrm"],
        &["hdr", "hdrhistogram", "wrk2", "percentiles"]),
    (Format::Prometheus, "prometheus", "metrics, Prometheus text format 0.0.4", &["prom"], &["prom", "openmetrics", "metrics"]),
    (Format::Otel, "otel", "metrics, OpenTelemetry OTLP/JSON", &[], &["otlp", "opentelemetry", "otlp-json"]),
    (Format::Junit, "junit", "test cases for CI, JUnit XML", &["xml"], &["xml", "junit-xml", "xunit", "ci"]),
];

impl Format {
    /// Every format, in the order of help texts.
    pub const ALL: [Format; ENTRIES.len()] = {
        let (mut all, mut place) = ([Format::Text; ENTRIES.len()], 0);
        while place < all.len() {
            all[place] = ENTRIES[place].0;
            place += 1;
        }
        all
    };

    /// The name that [`Format::from_str`] reads.
    pub fn name(self) -> &'static str {
        ENTRIES[self as usize].1
    }

    /// The format that the ending of a file's name means; `None` where it means none.
    pub fn of_file(path: &Path) -> Option<Format> {
        let ending = path.extension()?.to_str()?.to_ascii_lowercase();
        ENTRIES.into_iter().find(|(.., endings, _)| endings.contains(&&*ending)).map(|entry| entry.0)
    }

    /// The usual ending of its files' names, if one means it.
    pub fn ending(self) -> Option<&'static str> {
        ENTRIES[self as usize].3.first().copied()
    }

    /// What it is, in a few words, for help texts.
    pub fn description(self) -> &'static str {
        ENTRIES[self as usize].2
    }

    /// Whether it is binary and must not be printed to a terminal.
    pub fn is_binary(self) -> bool {
        matches!(self, Format::Xlsx)
    }

    /// Whether several records make one document. In other formats the documents of the records follow one another.
    pub fn joins(self) -> bool {
        matches!(self, Format::Html | Format::Xlsx | Format::Prometheus | Format::Otel | Format::Junit)
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// What a report can be of, besides a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Subject {
    /// Stored runs compared with the first of them.
    Comparison,
    /// A duel.
    Duel,
    /// The cells of a series.
    Series,
    /// Published results, and runs beside them.
    History,
    /// Stored runs of one server over time.
    Timeline,
    /// A published document in its own shape.
    Like,
}

impl Subject {
    /// Its formats, in the order of help texts.
    pub fn formats(self) -> &'static [Format] {
        use Format::{Csv, Html, Json, Junit, Markdown, Text, Xlsx};
        match self {
            Subject::Comparison | Subject::Like => &[Text, Html, Markdown, Json],
            Subject::Duel => &[Text, Html, Markdown, Json, Junit],
            Subject::Series => &[Text, Html, Markdown, Csv, Json, Xlsx],
            Subject::History => &[Text, Html, Markdown, Csv, Json],
            Subject::Timeline => &[Text, Json],
        }
    }

    /// What a format of it is, in a few words, for help texts.
    pub fn description(self, format: Format) -> &'static str {
        match (self, format) {
            (Subject::Comparison, Format::Markdown) => {
                "a summary, a table and folded details, for a pull request"
            }
            (Subject::Comparison, Format::Json) => {
                "everything that was compared, with the values of every iteration"
            }
            (Subject::Duel, Format::Text) => "a screen for a terminal",
            (Subject::Duel, Format::Markdown) => "a comment on a pull request",
            (Subject::Duel, Format::Json) => "the record and what is concluded from it",
            (_, format) => format.description(),
        }
    }

    /// The same format, if it is one of these.
    ///
    /// # Errors
    /// [`ReportError::NoSuchForm`].
    pub fn check(self, format: Format) -> Result<Format, ReportError> {
        match self.formats().contains(&format) {
            true => Ok(format),
            false => Err(ReportError::NoSuchForm { subject: self, format }),
        }
    }

    /// What to write instead of another format.
    pub(crate) fn remedy(self) -> String {
        let names: Vec<&str> = self.formats().iter().map(|format| format.name()).collect();
        let or = if self == Subject::Series { ", or name the record of one cell" } else { "" };
        format!("write one of {}{or}", names.join(", "))
    }
}

impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Subject::Comparison => "a comparison",
            Subject::Duel => "a duel",
            Subject::Series => "a series",
            Subject::History => "the history",
            Subject::Timeline => "the history of a server",
            Subject::Like => "the shape of a document",
        })
    }
}

/// A name that is not a format's.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is not a report format\nhint: {hint}")]
pub struct UnknownFormat {
    text: String,
    hint: String,
}

impl FromStr for Format {
    type Err = UnknownFormat;

    /// Reads a name, in any case.
    fn from_str(text: &str) -> Result<Format, UnknownFormat> {
        let wanted = text.trim().to_ascii_lowercase();
        if let Some(entry) = ENTRIES.into_iter().find(|entry| entry.1 == wanted) {
            return Ok(entry.0);
        }
        let names = ENTRIES.map(|entry| entry.1).join(", ");
        let hint = match ENTRIES.into_iter().find(|entry| entry.4.contains(&&*wanted)) {
            Some(meant) => format!("did you mean `{}`? The formats are {names}", meant.1),
            None => format!("write one of {names}"),
        };
        Err(UnknownFormat { text: text.to_owned(), hint })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_reads_back() {
        for (place, format) in Format::ALL.into_iter().enumerate() {
            assert_eq!(format as usize, place, "entries stand in the order of formats");
            assert_eq!(format.name().parse(), Ok(format));
            assert_eq!(format.name().to_uppercase().parse(), Ok(format));
        }
    }

    #[test]
    fn a_wrong_name_says_which_there_are() {
        let message = "svg".parse::<Format>().unwrap_err().to_string();
        assert_eq!(
            message,
            "`svg` is not a report format\nhint: write one of text, html, hit, json, csv, webstone1, webstone2, xlsx, \
             markdown, hgrm, prometheus, otel, junit"
        );
        let message = "ws2".parse::<Format>().unwrap_err().to_string();
        assert!(message.contains("did you mean `webstone2`?"), "{message}");
    }

    #[test]
    fn the_ending_of_a_file_chooses_where_it_says_something() {
        let of = |name: &str| Format::of_file(Path::new(name));
        assert_eq!(of("a/report.XLSX"), Some(Format::Xlsx));
        assert_eq!((of("levels.csv"), of("ci.xml")), (Some(Format::Csv), Some(Format::Junit)));
        assert_eq!((of("report"), of("report.out"), of(".md")), (None, None, None));
    }
}
