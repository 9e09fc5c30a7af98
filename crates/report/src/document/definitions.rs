//! The definitions of all figures, taken from the page that defines them: `docs/measurement.md` is compiled in, here and
//! nowhere else, so that a workbook's sheet, a metric's help text and the links of the HTML report say what the page says.
//!
//! Every row and section of the page has an [`anchor`]. `html::definitions` draws the whole page with them.

use std::sync::LazyLock;

/// The page, in Markdown.
pub(crate) const PAGE: &str = include_str!("measurement.md");

/// One row of a table of the page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Definition {
    /// Heading that it stands under.
    pub(crate) section: &'static str,
    /// Name in `record.json`; of several in one row, the names as the page gives them.
    pub(crate) name: String,
    /// The name that reports show, where the table has one.
    pub(crate) shown: String,
    /// What it is: its formula, or the sentence that defines it.
    pub(crate) text: String,
    /// Unit, where the table has one.
    pub(crate) unit: String,
    /// Source, where the table has one.
    pub(crate) source: String,
}

/// Every definition, in the order of the page.
pub(crate) fn definitions() -> &'static [Definition] {
    static DEFINITIONS: LazyLock<Vec<Definition>> = LazyLock::new(|| read(PAGE));
    &DEFINITIONS
}

/// What the page says about a name under a heading that begins with `section`.
pub(crate) fn definition(section: &str, name: &str) -> Option<&'static Definition> {
    definitions().iter().find(|d| d.section.starts_with(section) && d.name.split(", ").any(|n| n == name))
}

/// The anchor of a name under a heading that begins with `section`; without a name of the heading itself.
pub(crate) fn anchor_of(section: &str, name: &str) -> Option<String> {
    if let Some(definition) = definition(section, name) {
        return Some(anchor(definition.section, Some(&definition.name)));
    }
    let headings = PAGE.lines().filter(|line| line.starts_with("##"));
    let headings = headings.map(|line| line.trim_start_matches('#').trim());
    let mut headings = headings.filter(|heading| name.is_empty() && heading.starts_with(section));
    headings.next().map(|heading| anchor(heading, None))
}

fn read(page: &'static str) -> Vec<Definition> {
    let mut found = Vec::new();
    let mut section = "";
    let mut columns: Vec<&str> = Vec::new();
    for line in page.lines() {
        if let Some(heading) = line.strip_prefix('#') {
            section = heading.trim_start_matches('#').trim();
        }
        let Some(row) = line.strip_prefix('|').and_then(|row| row.strip_suffix('|')) else {
            columns.clear();
            continue;
        };
        let cells: Vec<&str> = row.split('|').map(str::trim).collect();
        if columns.is_empty() {
            columns = cells;
            continue;
        }
        if !cells[0].starts_with('`') {
            continue;
        }
        let of = |wanted: &[&str]| {
            let place = columns.iter().position(|column| wanted.contains(column));
            place.and_then(|place| cells.get(place)).map(|cell| plain(cell)).unwrap_or_default()
        };
        found.push(Definition {
            section,
            name: plain(cells[0]),
            shown: of(&["shown as"]),
            text: of(&["what it counts", "formula", "what it is", "when"]),
            unit: of(&["unit"]),
            source: of(&["source"]),
        });
    }
    found
}

impl Definition {
    /// The definition in one line that can be read without the page: it explains the letters of its formula.
    pub(crate) fn sentence(&self) -> String {
        const LETTERS: [(&str, &str); 4] = [
            ("T", "length of the measured window in seconds"),
            ("R", "requests that succeeded"),
            ("B", "their bytes, heads and framing included"),
            ("S", "sum of their response times"),
        ];
        let uses = |letter: &str| self.text.split(|c: char| !c.is_alphanumeric()).any(|word| word == letter);
        let legend: Vec<String> = LETTERS
            .iter()
            .filter(|(letter, _)| !self.shown.is_empty() && uses(letter))
            .map(|(letter, meaning)| format!("; {letter}: {meaning}"))
            .collect();
        let shown = if self.shown.is_empty() { String::new() } else { format!("{}: ", self.shown) };
        format!("{shown}{}{}", self.text, legend.concat())
    }
}

/// The identifier of a name under a heading, or of the heading itself: `def-figures-of-a-level-request_rate`. Letters,
/// digits and underscores in lower case, hyphens for everything else.
pub(crate) fn anchor(section: &str, name: Option<&str>) -> String {
    let text = format!("{section} {}", name.unwrap_or_default()).to_lowercase();
    let words =
        text.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_')).filter(|word| !word.is_empty());
    std::iter::once("def").chain(words).collect::<Vec<_>>().join("-")
}

/// Without the marks of Markdown.
fn plain(text: &str) -> String {
    text.replace('`', "")
}

#[cfg(test)]
mod tests {
    use super::*;
    use webstone_measure::errors::ErrorClass;
    use webstone_measure::figures::table::Defined;

    #[test]
    fn the_page_is_read_table_by_table() {
        let rate = definition("Figures", "request_rate").unwrap();
        assert_eq!((rate.text.as_str(), rate.unit.as_str()), ("R / T", "1/s"));
        assert_eq!(
            definition("Counters", "in_flight").unwrap().text,
            "requests in progress when the window closed"
        );
        assert_eq!(definition("Pages", "hits").unwrap().text, "times it was fetched whole");
        assert!(definition("Figures", "no-such-figure").is_none());
    }

    #[test]
    fn a_sentence_says_what_its_letters_stand_for() {
        assert_eq!(
            definition("Figures", "request_rate").unwrap().sentence(),
            "requests/s, goodput: R / T; T: length of the measured window in seconds; R: requests that succeeded"
        );
        assert_eq!(
            definition("Pages", "failed").unwrap().sentence(),
            "times at least one of its files failed"
        );
    }

    #[test]
    fn every_figure_of_the_table_has_one() {
        for figure in webstone_measure::figures::table::all() {
            let Defined { section, name } = figure.defined;
            assert!(anchor_of(section, name).is_some(), "{figure:?}: {section}, {name}");
        }
    }

    #[test]
    fn every_class_of_error_has_one() {
        for class in ErrorClass::ALL {
            assert!(definition("Errors", class.name()).is_some(), "{}", class.name());
        }
    }
}
