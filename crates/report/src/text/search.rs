//! The table of a search for an SLO: every level that was tried, the conditions there, and what it counts as.

use webstone_model::search::{Answer, Finding, LevelStanding};
use webstone_model::statistics::Method;
use webstone_model::threshold::Thresholds;

use crate::layout::{Room, Sheet, Table};
use crate::numbers::count;
use crate::screen::{Screen, Tone};
use crate::thresholds::said;

/// The sheet, and below it what was found.
pub(crate) fn sheet(screen: &Screen, finding: &Finding) -> Sheet {
    let mut table = Table::default();
    table.number("load", "", Room::Always);
    table.number("kept", "of runs", Room::Always);
    let names = finding.levels.first().map(|level| &level.conditions[..]).unwrap_or_default();
    for condition in names {
        table.number(&condition.condition, "mean", Room::Always);
        table.number("interval", "", Room::Optional(1));
    }
    table.text("counts as", Room::Always);
    for level in &finding.levels {
        let mut cells = vec![count(level.load), format!("{}/{}", level.iterations_kept, level.iterations)];
        for condition in &level.conditions {
            let metric =
                condition.condition.parse::<Thresholds>().ok().and_then(|all| Some(all.0.first()?.metric()));
            let say = |value: f64| match metric {
                Some(metric) => said(screen, metric, value),
                None => format!("{value}"),
            };
            let dash = || screen.dash().to_owned();
            cells.push(condition.value.map_or_else(dash, |value| say(value.point)));
            let interval = condition.value.filter(|value| value.method != Method::None);
            cells
                .push(interval.map_or_else(dash, |value| {
                    format!("{} to {}", say(value.low.max(0.0)), say(value.high))
                }));
        }
        let (word, tone) = match level.standing {
            LevelStanding::Kept => ("kept", Tone::Good),
            LevelStanding::Broken => ("broken", Tone::Alarm),
            LevelStanding::Undecided => ("undecided", Tone::Caution),
            LevelStanding::Open => (screen.dash(), Tone::Plain),
        };
        cells.push(word.to_owned());
        table.row_in(cells, tone, Some(level.load) == finding.kept);
    }
    let mut sheet = Sheet::new("Search", "the highest load that keeps the SLO", table);
    let tone = match finding.answer {
        Answer::Between | Answer::Always => Tone::Strong,
        Answer::Never => Tone::Alarm,
        Answer::Unclear | Answer::Unfinished => Tone::Caution,
    };
    sheet.notes.push((tone, finding.sentence.clone()));
    if let Some(peak) = finding.useful_peak {
        let text =
            format!("useful peak: {:.1} requests/s, at a load of {}", peak.request_rate, count(peak.load));
        sheet.notes.push((Tone::Strong, text));
    }
    sheet.notes.push((
        Tone::Faint,
        format!(
            "{} of at most {} timed runs; a level counts as kept or broken when its whole {:.1} % interval lies on one \
             side of the limit",
            finding.iterations,
            finding.iterations_max,
            100.0 * finding.confidence
        ),
    ));
    sheet
}
