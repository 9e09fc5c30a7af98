//! The workbook as such: sheets of one table each, number formats by unit, widths, frozen headings, and Excel's limits.
//!
//! A sheet is a row of headings and rows below it, from the first cell on, so that filters, pivot tables and programs
//! find the table where they expect it. Rows are taken from an iterator one by one; a sheet of many is written through
//! to a temporary file by the library, so that a million rows need no memory of their own.

use std::borrow::Cow;

use rust_xlsxwriter::{
    DocProperties, ExcelDateTime, Format, FormatAlign, FormatBorder, Workbook, Worksheet, XlsxError,
};

use webstone_measure::shown::lines;

use crate::cell::Cell;
use crate::csv::{Column, Row};

/// Rows of a sheet, headings included.
const ROWS_MAX: usize = 1_048_576;
/// Columns of a sheet.
pub(super) const COLUMNS_MAX: usize = 16_384;
/// UTF-16 units of a cell.
const TEXT_MAX: usize = 32_767;
/// Characters of a property of the document.
const TITLE_CHARS_MAX: usize = 255;
/// Largest whole number that a cell holds exactly: a cell's number is a double.
const WHOLE_MAX: u64 = 1 << 53;
/// Rows from which on a sheet is written through to a file.
const ROWS_IN_MEMORY: usize = 20_000;
/// Widest column, in characters.
const WIDTH_MAX: usize = 60;
/// Rows that widths are taken from.
const ROWS_FOR_WIDTH: usize = 200;

/// A table to be written.
pub(super) struct Sheet<'a> {
    /// At most 31 characters, none of `[]:*?/\`.
    pub(super) name: &'static str,
    /// A row of the same columns, for their headings alone.
    pub(super) blank: Row,
    /// How many lines there are.
    pub(super) count: usize,
    pub(super) lines: Box<dyn Iterator<Item = Row> + 'a>,
    /// Columns that stay in sight when the rest is scrolled.
    pub(super) frozen: u16,
}

impl<'a> Sheet<'a> {
    /// A table of rows that are few.
    pub(super) fn new(name: &'static str, blank: Row, rows: Vec<Row>, frozen: u16) -> Sheet<'a> {
        Sheet { name, blank, count: rows.len(), lines: Box::new(rows.into_iter()), frozen }
    }
}

/// A table as it was written: where its columns are.
#[derive(Clone, Debug)]
pub(super) struct Placed {
    pub(super) name: &'static str,
    headings: Vec<Cow<'static, str>>,
    /// Rows written.
    pub(super) lines: usize,
}

impl Placed {
    /// The column of a heading.
    pub(super) fn column(&self, heading: &str) -> u16 {
        let place = self.headings.iter().position(|h| h == heading);
        place.expect("charts name columns of their own sheets") as u16
    }
}

/// A workbook being written.
pub(super) struct Book {
    pub(super) workbook: Workbook,
    heading: Format,
    text: Format,
    formats: Vec<(&'static str, Format)>,
    /// What did not fit, in sentences.
    pub(super) cuts: Vec<String>,
    rows_max: usize,
}

/// Number formats by unit.
const FORMATS: [(&str, &str); 11] = [
    ("ms", "#,##0.000"),
    ("s", "#,##0.000000"),
    ("1/s", "#,##0.0"),
    ("1/min", "#,##0.0"),
    ("Mbit/s", "#,##0.00"),
    ("bit/s", "#,##0"),
    ("bytes/s", "#,##0"),
    ("bytes", "#,##0"),
    ("%", "0.00"),
    ("index", "0.0000"),
    ("%ile", "0.######"),
];

impl Book {
    /// An empty workbook, dated with the moment of the record so that the same record gives the same bytes.
    pub(super) fn new(title: &str, created: Option<ExcelDateTime>) -> Book {
        Book::with_rows_max(title, created, ROWS_MAX)
    }

    fn with_rows_max(title: &str, created: Option<ExcelDateTime>, rows_max: usize) -> Book {
        let mut workbook = Workbook::new();
        let created = created
            .unwrap_or_else(|| ExcelDateTime::from_ymd(1995, 2, 1).expect("the month of WebStone is a date"));
        workbook.set_properties(
            &DocProperties::new()
                .set_title(title.chars().take(TITLE_CHARS_MAX).collect::<String>())
                .set_author("webstone")
                .set_creation_datetime(&created),
        );
        let heading = Format::new()
            .set_bold()
            .set_text_wrap()
            .set_align(FormatAlign::Top)
            .set_background_color(0xE8_EE_F4)
            .set_border_bottom(FormatBorder::Thin);
        let number = |(unit, format): (&'static str, &str)| (unit, Format::new().set_num_format(format));
        Book {
            workbook,
            heading,
            text: Format::new().set_align(FormatAlign::Top),
            formats: FORMATS.map(number).into(),
            cuts: Vec::new(),
            rows_max,
        }
    }

    /// Writes a table into a sheet of its own, as far as Excel can hold it.
    pub(super) fn sheet(&mut self, sheet: Sheet<'_>) -> Result<Placed, XlsxError> {
        let Sheet { name, mut blank, count, lines, frozen } = sheet;
        if blank.columns.len() > COLUMNS_MAX {
            self.cuts
                .push(format!("{name}: {COLUMNS_MAX} of {} columns; Excel has no more", blank.columns.len()));
            blank.columns.truncate(COLUMNS_MAX);
        }
        // The last row says that rows are missing.
        let fits = if count < self.rows_max { count } else { self.rows_max - 2 };
        let worksheet = if fits > ROWS_IN_MEMORY {
            self.workbook.add_worksheet_with_constant_memory()?
        } else {
            self.workbook.add_worksheet()
        };
        worksheet.set_name(name)?;
        worksheet.set_freeze_panes(1, frozen)?;
        worksheet.set_landscape();
        worksheet.set_print_fit_to_pages(1, 0);
        worksheet.set_repeat_rows(0, 0)?;
        let columns = &blank.columns;
        let mut lines = lines;
        let first: Vec<Row> = lines.by_ref().take(fits.min(ROWS_FOR_WIDTH)).collect();
        for (index, width) in widths(columns, &first).into_iter().enumerate() {
            worksheet.set_column_width(index as u16, width as f64)?;
        }
        worksheet.set_row_height(0, 45)?;
        for (index, column) in columns.iter().enumerate() {
            write_text(worksheet, 0, index as u16, &column.title(), &self.heading)?;
        }
        let rest = lines.take(fits.saturating_sub(ROWS_FOR_WIDTH));
        for (index, line) in first.into_iter().chain(rest).enumerate() {
            for (place, (cell, column)) in line.cells.iter().zip(columns).enumerate() {
                let format = self.formats.iter().find(|(unit, _)| *unit == column.unit);
                let format = format.map_or(&self.text, |(_, format)| format);
                write(worksheet, index as u32 + 1, place as u16, cell, format)?;
            }
        }
        if fits < count {
            let cut = format!("{fits} of {count} rows; Excel has no more");
            write_text(worksheet, fits as u32 + 1, 0, &format!("Cut: {cut}"), &self.heading)?;
            self.cuts.push(format!("{name}: {cut}"));
        } else if fits > 0 {
            worksheet.autofilter(0, 0, fits as u32, columns.len() as u16 - 1)?;
        }
        let headings = columns.iter().map(|column| column.heading.clone()).collect();
        Ok(Placed { name, headings, lines: fits })
    }
}

/// Widths in characters: enough for what is shown, bounded; a heading may break over three lines.
fn widths(columns: &[Column], lines: &[Row]) -> Vec<usize> {
    let heading = |column: &Column| {
        let title = column.title();
        let longest = title.split(' ').map(|word| word.chars().count()).max().unwrap_or(0);
        longest.max(title.chars().count().div_ceil(3)) + 3
    };
    let mut widths: Vec<usize> = columns.iter().map(heading).collect();
    for line in lines {
        for (width, cell) in widths.iter_mut().zip(&line.cells) {
            let needed = match cell {
                Cell::Text(text) => text.chars().count() + 2,
                // Digits, separators and decimals of a number format.
                Cell::Count(value) => digits(*value) * 4 / 3 + 2,
                Cell::Number(value) => digits(value.abs() as u64) * 4 / 3 + 8,
                Cell::Flag(_) => 7,
                Cell::None => 0,
                other => other.to_string().len() + 2,
            };
            *width = (*width).max(needed).min(WIDTH_MAX);
        }
    }
    widths
}

fn digits(value: u64) -> usize {
    value.checked_ilog10().unwrap_or(0) as usize + 1
}

fn write(
    worksheet: &mut Worksheet,
    row: u32,
    column: u16,
    cell: &Cell,
    format: &Format,
) -> Result<(), XlsxError> {
    match cell {
        Cell::None => {}
        // Never as a formula: a path of the workload may begin with `=`.
        Cell::Text(text) => write_text(worksheet, row, column, text, format)?,
        Cell::Count(value) if *value > WHOLE_MAX => {
            write_text(worksheet, row, column, &value.to_string(), format)?;
        }
        Cell::Count(value) => {
            worksheet.write_number_with_format(row, column, *value as f64, format)?;
        }
        Cell::Number(value) => {
            worksheet.write_number_with_format(row, column, *value, format)?;
        }
        Cell::Flag(value) => {
            worksheet.write_boolean_with_format(row, column, *value, format)?;
        }
        other => write_text(worksheet, row, column, &other.shown(), format)?,
    }
    Ok(())
}

fn write_text(
    worksheet: &mut Worksheet,
    row: u32,
    column: u16,
    text: &str,
    format: &Format,
) -> Result<(), XlsxError> {
    worksheet.write_string_with_format(row, column, fitting(&lines(text, |_| 0)), format).map(drop)
}

/// What a cell can hold of a text: XML has no name for two characters, and Excel cuts long ones without a word.
pub(super) fn fitting(text: &str) -> Cow<'_, str> {
    let text = if text.contains(['\u{fffe}', '\u{ffff}']) {
        Cow::Owned(text.replace(['\u{fffe}', '\u{ffff}'], "\u{fffd}"))
    } else {
        Cow::Borrowed(text)
    };
    let units = |c: char| c.len_utf16();
    if text.len() <= TEXT_MAX || text.chars().map(units).sum::<usize>() <= TEXT_MAX {
        return text;
    }
    let notice = format!(" … (cut: {} characters, Excel holds {TEXT_MAX})", text.chars().count());
    let room = TEXT_MAX - notice.chars().map(units).sum::<usize>();
    let mut used = 0;
    let kept = text.chars().take_while(|c| {
        used += units(*c);
        used <= room
    });
    Cow::Owned(kept.chain(notice.chars()).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_text_is_cut_and_says_so() {
        assert_eq!(fitting("=1+1"), "=1+1");
        let exact = "x".repeat(TEXT_MAX);
        assert_eq!(fitting(&exact), exact);
        let cut = fitting(&"😀".repeat(20_000)).into_owned();
        assert!(cut.encode_utf16().count() <= TEXT_MAX);
        assert!(cut.ends_with("😀 … (cut: 20000 characters, Excel holds 32767)"));
    }

    #[test]
    fn rows_beyond_the_limit_are_cut_and_said_to_be() {
        let line = |n: usize| {
            let mut line = Row::default();
            line.cell("Number", "", n);
            line
        };
        for (count, lines, cuts) in [(9, 9, 0), (10, 8, 1), (30, 8, 1)] {
            let mut book = Book::with_rows_max("test", None, 10);
            let placed = book
                .sheet(Sheet {
                    name: "Numbers",
                    blank: line(0),
                    count,
                    lines: Box::new((0..count).map(line)),
                    frozen: 0,
                })
                .unwrap();
            assert_eq!((placed.lines, book.cuts.len()), (lines, cuts), "{count}");
        }
    }

    #[test]
    fn every_format_is_of_a_unit_that_is_named_once() {
        let mut units: Vec<&str> = FORMATS.iter().map(|(unit, _)| *unit).collect();
        units.sort_unstable();
        units.dedup();
        assert_eq!(units.len(), FORMATS.len());
    }
}
