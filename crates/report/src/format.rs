//! The names of the formats, as a command line types them.

use std::fmt;
use std::path::Path;
use std::str::FromStr;

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
}

impl Format {
    /// Every format, in the order of help texts.
    pub const ALL: [Format; 12] = [
        Format::Text,
        Format::Html,
        Format::Hit,
        Format::Json,
        Format::Csv,
        Format::Webstone1,
        Format::Webstone2,
        Format::Xlsx,
        Format::Markdown,
        Format::Hgrm,
        Format::Prometheus,
        Format::Otel,
    ];

    /// The name that [`Format::from_str`] reads.
    pub fn name(self) -> &'static str {
        match self {
            Format::Text => "text",
            Format::Html => "html",
            Format::Hit => "hit",
            Format::Json => "json",
            Format::Csv => "csv",
            Format::Webstone1 => "webstone1",
            Format::Webstone2 => "webstone2",
            Format::Xlsx => "xlsx",
            Format::Markdown => "markdown",
            Format::Hgrm => "hgrm",
            Format::Prometheus => "prometheus",
            Format::Otel => "otel",
        }
    }

    /// The format that a file's name asks for by its ending; `None` where it says nothing.
    pub fn of_file(path: &Path) -> Option<Format> {
        match path.extension()?.to_str()?.to_ascii_lowercase().as_str() {
            "html" | "htm" => Some(Format::Html),
            "json" => Some(Format::Json),
            "csv" => Some(Format::Csv),
            "xlsx" => Some(Format::Xlsx),
            "md" | "markdown" => Some(Format::Markdown),
            "hgrm" => Some(Format::Hgrm),
            "prom" => Some(Format::Prometheus),
            "txt" => Some(Format::Text),
            _ => None,
        }
    }

    /// What it is, in a few words, for help texts.
    pub fn description(self) -> &'static str {
        match self {
            Format::Text => "tables for a terminal",
            Format::Html => "charts and tables in one file, for a browser",
            Format::Hit => "one level in a few lines, as wrk prints it",
            Format::Json => "the record and all computed figures",
            Format::Csv => "comma-separated values, one row per level and iteration",
            Format::Webstone1 => "the text of WebStone 1.x",
            Format::Webstone2 => "the text of WebStone 2.x",
            Format::Xlsx => "an Excel workbook with charts; needs -o",
            Format::Markdown => "tables for a README or a pull request",
            Format::Hgrm => "percentiles of one level, as wrk2 and HdrHistogram print them",
            Format::Prometheus => "metrics, Prometheus text format 0.0.4",
            Format::Otel => "metrics, OpenTelemetry OTLP/JSON",
        }
    }

    /// Whether it is no text: nothing for a terminal.
    pub fn is_binary(self) -> bool {
        matches!(self, Format::Xlsx)
    }

    /// Whether several records make one document. Of the other formats the documents of each follow one another.
    pub fn joins(self) -> bool {
        matches!(self, Format::Html | Format::Xlsx | Format::Prometheus | Format::Otel)
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A name that is no format's.
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
        if let Some(format) = Format::ALL.into_iter().find(|format| format.name() == wanted) {
            return Ok(format);
        }
        let names: Vec<&str> = Format::ALL.iter().map(|format| format.name()).collect();
        let meant = match wanted.as_str() {
            "txt" | "terminal" | "table" => Some(Format::Text),
            "htm" | "browser" | "web" => Some(Format::Html),
            "wrk" => Some(Format::Hit),
            "js" | "jsonl" | "ndjson" => Some(Format::Json),
            "tsv" => Some(Format::Csv),
            "excel" | "xls" | "workbook" => Some(Format::Xlsx),
            "md" | "github" | "gfm" => Some(Format::Markdown),
            "hdr" | "hdrhistogram" | "wrk2" | "percentiles" => Some(Format::Hgrm),
            "prom" | "openmetrics" | "metrics" => Some(Format::Prometheus),
            "otlp" | "opentelemetry" | "otlp-json" => Some(Format::Otel),
            "webstone-1" | "webstone1.1" | "webstone-1.x" | "ws1" => Some(Format::Webstone1),
            "webstone" | "webstone-2" | "webstone2.0" | "webstone-2.x" | "ws2" => Some(Format::Webstone2),
            _ => None,
        };
        let hint = match meant {
            Some(format) => format!("did you mean `{format}`? The formats are {}", names.join(", ")),
            None => format!("write one of {}", names.join(", ")),
        };
        Err(UnknownFormat { text: text.to_owned(), hint })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_reads_back() {
        for format in Format::ALL {
            assert_eq!(format.name().parse(), Ok(format));
            assert_eq!(format.name().to_uppercase().parse(), Ok(format));
        }
    }

    #[test]
    fn a_wrong_name_says_which_there_are() {
        let message = "xml".parse::<Format>().unwrap_err().to_string();
        assert_eq!(
            message,
            "`xml` is not a report format\nhint: write one of text, html, hit, json, csv, webstone1, webstone2, xlsx, \
             markdown, hgrm, prometheus, otel"
        );
        let message = "ws2".parse::<Format>().unwrap_err().to_string();
        assert!(message.contains("did you mean `webstone2`?"), "{message}");
    }

    #[test]
    fn the_ending_of_a_file_chooses_where_it_says_something() {
        let of = |name: &str| Format::of_file(Path::new(name));
        assert_eq!(of("a/report.XLSX"), Some(Format::Xlsx));
        assert_eq!(of("levels.csv"), Some(Format::Csv));
        assert_eq!((of("report"), of("report.out"), of(".md")), (None, None, None));
    }
}
