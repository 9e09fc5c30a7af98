//! Stored runs and series as a table, a line each.

use webstone_judge::search;
use webstone_judge::verdict;
use webstone_model::record::RunRecord;
use webstone_model::search::Over;
use webstone_model::series::Series;

use crate::Options;
use crate::layout::{Room, Table};
use crate::numbers::{count, decimal};
use crate::outgoing;
use crate::screen::Screen;
use crate::summary;
use crate::text::header;

/// A run or a series in a line.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Listed {
    /// Workload, and target unless it is the embedded server.
    pub what: String,
    /// The highest request rate with its load, or what a search found; empty where there is none.
    pub result: String,
    /// The word of the verdict; empty of a series.
    pub standing: &'static str,
}

/// A run in a line.
pub fn listed(record: &RunRecord) -> Listed {
    let levels = summary::levels(record);
    let peak = levels.get(summary::peak(&levels).unwrap_or(0));
    let found =
        search::of_record(record).and_then(|finding| Some((record.spec.find.as_ref()?.over, finding.kept?)));
    let result = match (found, peak) {
        (Some((Over::Rate, kept)), _) => format!("SLO kept at {}/s", count(kept)),
        (Some((over, kept)), _) => format!("SLO kept with {}", over.level(kept)),
        (None, Some(level)) => format!("{}/s at {}", decimal(level.figures.request_rate, 0), level.load()),
        (None, None) if record.is_empty() => String::new(),
        (None, None) => "void windows only".to_owned(),
    };
    Listed {
        what: match record.target.embedded {
            true => record.workload.name.clone(),
            false => format!("{}, {}", record.workload.name, header::target(record)),
        },
        result,
        standing: verdict::of(record).standing.word(),
    }
}

/// A series in a line.
pub fn listed_series(series: &Series) -> Listed {
    let names: Vec<String> = series.cells.iter().take(3).map(|cell| cell.name.clone()).collect();
    let more = if series.cells.len() > names.len() { " …" } else { "" };
    let what = format!("{} cells: {}{more}", series.cells.len(), names.join(", "));
    Listed { what, ..Listed::default() }
}

/// The table, each line behind the name of its run.
pub fn render_list(rows: &[(String, Listed)], options: &Options) -> String {
    let screen = Screen::new(options);
    let mut table = Table::default();
    table.text("run", Room::Always).text("workload", Room::Flexible(12));
    table.number("result", "", Room::Always).text("verdict", Room::Always);
    for (name, listed) in rows {
        let cells = [name, &listed.what, &listed.result, listed.standing].map(|cell| screen.safe(cell));
        table.row(cells.to_vec());
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
        let listed = Listed { what, result: "1,234/s at 20 clients".to_owned(), standing: "UNCERTIFIED" };
        let text = render_list(&[("20260101T000000Z-webstone".to_owned(), listed)], &Options::default());
        let line = text.lines().last().unwrap();
        assert!(line.contains("1,234/s at 20 clients") && line.ends_with("UNCERTIFIED"), "{text}");
    }
}
