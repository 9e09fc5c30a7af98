//! Stored runs and series as a table, a line each. What stands in a line, whoever has the library's rows says.

use crate::Options;
use crate::layout::{Room, Table};
use crate::outgoing;
use crate::screen::Screen;

/// A run or a series in a line.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Listed {
    /// Workload, and target unless it is the embedded server.
    pub what: String,
    /// The highest request rate with its load, or what a search found; empty where there is none.
    pub result: String,
    /// The word of the verdict; empty of a series.
    pub standing: &'static str,
    /// Its tags; empty where it has none.
    pub tags: String,
}

/// The table, each line behind the name of its run.
pub fn render_list(rows: &[(String, Listed)], options: &Options) -> String {
    let screen = Screen::new(options);
    let mut table = Table::default();
    table.text("run", Room::Always).text("workload", Room::Flexible(12));
    table.number("result", "", Room::Always).text("verdict", Room::Always);
    let tagged = rows.iter().any(|(_, listed)| !listed.tags.is_empty());
    if tagged {
        table.text("tags", Room::Flexible(8));
    }
    for (name, listed) in rows {
        let cells = [name, &listed.what, &listed.result, listed.standing, &listed.tags];
        let shown = if tagged { &cells[..] } else { &cells[..4] };
        table.row(shown.iter().map(|cell| screen.safe(cell)).collect());
    }
    let mut out = String::new();
    table.draw(&screen, &mut out);
    String::from_utf8_lossy(&outgoing::text(out, options.color)).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_run_has_a_line() {
        let what = "standard".to_owned();
        let result = "1,234/s at 20 clients".to_owned();
        let listed = Listed { what, result, standing: "UNCERTIFIED", ..Listed::default() };
        let row = |listed: &Listed| ("20260101T000000Z-webstone".to_owned(), listed.clone());
        let text = render_list(&[row(&listed)], &Options::default());
        let line = text.lines().last().unwrap();
        assert!(line.contains("1,234/s at 20 clients") && line.ends_with("UNCERTIFIED"), "{text}");
        assert!(!text.contains("tags"), "{text}");
        let tagged = Listed { tags: "base\u{1b}[2J".to_owned(), ..listed.clone() };
        let text = render_list(&[row(&tagged), row(&listed)], &Options { width: 120, ..Options::default() });
        assert!(text.contains("tags") && text.contains("UNCERTIFIED  base\\u{1b}[2J"), "{text}");
    }
}
