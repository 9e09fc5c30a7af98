//! A search for an SLO: every level that was tried, the conditions there, and what it counts as; and the curve of latency
//! against load, drawn with letters.

use crate::document::cell::Cell;
use webstone_judge::search::{ConditionFound, Finding, LevelFound, LevelStanding};
use webstone_judge::statistics::Method;
use webstone_measure::metric::Metric;
use webstone_model::search::Over;
use webstone_model::threshold::Thresholds;

use crate::document::Tone;
use crate::document::table::{Room, Sheet, Table};
use crate::numbers::{DASH, seconds};
use crate::thresholds::said;

/// Every level that was tried; the answer stands in the headline.
pub(crate) fn sheet(over: Over, finding: &Finding) -> Sheet {
    let (load, unit) = match over {
        Over::Rate => ("arrivals", "/s"),
        Over::Clients => ("clients", ""),
    };
    let mut table = Table::with_rows(&finding.levels);
    table.number(load, unit, Room::Always, |level| level.load);
    table.number("kept", "of runs", Room::Always, |level| {
        format!("{}/{}", level.iterations_kept, level.iterations)
    });
    let names = finding.levels.first().map(|level| &level.conditions[..]).unwrap_or_default();
    for (place, named) in names.iter().enumerate() {
        let metric = metric_of(&named.condition);
        let say = |value: f64| metric.map_or_else(|| format!("{value}"), |metric| said(metric, value));
        table.number(named.condition.as_str(), "mean", Room::Always, |level| {
            level.conditions[place].value.map(|value| say(value.point))
        });
        table.number("interval", "", Room::Optional(1), |level| {
            let interval = level.conditions[place].value.filter(|value| value.method != Method::None);
            interval.map(|value| format!("{} to {}", say(value.low.max(0.0)), say(value.high)))
        });
    }
    table.text("counts as", Room::Always, |level| counts_as(level.standing).0);
    table.tones(|level| counts_as(level.standing).1).marks(|level| Some(level.load) == finding.kept);
    let table = table.done();
    let mut sheet = Sheet::new("Search", "the highest load that keeps the SLO", table);
    if let Some(peak) = finding.useful_peak {
        sheet.notes.push((Tone::Strong, format!("useful peak: {}", peak.sentence(over))));
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

fn counts_as(standing: LevelStanding) -> (&'static str, Tone) {
    match standing {
        LevelStanding::Kept => ("kept", Tone::Good),
        LevelStanding::Broken => ("broken", Tone::Alarm),
        LevelStanding::Undecided => ("undecided", Tone::Caution),
        LevelStanding::CannotTell => ("cannot tell", Tone::Caution),
        LevelStanding::Open => (DASH, Tone::Plain),
    }
}

pub(crate) fn metric_of(condition: &str) -> Option<Metric> {
    Some(condition.parse::<Thresholds>().ok()?.0.first()?.metric())
}

/// The first condition of the SLO on how long clients wait: a bar per level on a logarithmic scale, and the limit across all of
/// them. Nothing where the SLO has no such condition.
pub(super) fn curve(over: Over, finding: &Finding) -> Option<Sheet> {
    let is_time =
        |condition: &ConditionFound| metric_of(&condition.condition).is_some_and(Metric::is_time_of_clients);
    let place = finding.levels.first()?.conditions.iter().position(is_time)?;
    let condition = &finding.levels[0].conditions[place];
    let time =
        |level: &LevelFound| level.conditions[place].value.map(|it| it.point).filter(|point| *point > 0.0);
    let times = || finding.levels.iter().filter_map(time).chain([condition.limit]);
    // Whole powers of ten, so that equal lengths are equal factors whatever was measured.
    let low = times().fold(f64::INFINITY, f64::min).log10().floor();
    let high = times().fold(0.0, f64::max).log10().ceil().max(low + 1.0);
    let length = |time: f64| (time.log10() - low) / (high - low);
    let mut table = Table::with_rows(&finding.levels);
    table.number("", "", Room::Always, |level| level.load);
    table.number("", "", Room::Always, |level| time(level).map(seconds));
    table.text("", Room::Always, |level| Cell::Bar {
        length: time(level).map_or(0.0, |time| length(time).max(f64::MIN_POSITIVE)),
        limit: Some(length(condition.limit)),
    });
    let table = table.tones(|level| counts_as(level.standing).1).done();
    let name = match over {
        Over::Rate => "arrivals/s",
        Over::Clients => "clients",
    };
    let mut sheet =
        Sheet::new("Latency against load", format!("{} against {name}", condition.condition), table);
    sheet.note(
        Tone::Faint,
        format!(
            "┊ marks the limit; the scale is logarithmic, from {} to {}",
            seconds(10_f64.powf(low)),
            seconds(10_f64.powf(high))
        ),
    );
    Some(sheet)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::document::Document;
    use crate::{Charset, Options};
    use webstone_judge::search::Search;
    use webstone_model::search::SearchSpec;

    #[test]
    fn the_curve_has_a_bar_a_level_and_the_limit_across() {
        let slo = "errors<1%,server-cpu<1s,p(99)<10ms".to_owned();
        let spec = SearchSpec { slo, ..SearchSpec::over(Over::Clients) };
        let mut search = Search::new(&spec).unwrap();
        for (load, p99) in [(1, Some(0.001)), (2, Some(0.010)), (4, Some(0.1)), (8, None)] {
            search.observe(load, vec![Some(0.0), Some(0.5), p99]);
        }
        let options = Options { width: 40, charset: Charset::Ascii, ..Options::default() };
        let mut doc = Document::default();
        doc.sheets(curve(Over::Clients, &search.finding()));
        let out = crate::render::text::render(&doc, &options);
        let bars: Vec<&str> =
            out.lines().filter(|line| line.contains('|') && !line.contains("limit")).collect();
        // 40 cells less 6, the load's 1 and the time's 7: 26 for two powers of ten.
        assert_eq!(
            bars,
            [
                "  1  1.00 ms  =            |",
                "  2  10.0 ms  =============|",
                "  4   100 ms  =============|============",
                "  8        -               |",
            ],
            "{out}"
        );
        let no_time = SearchSpec { slo: "errors<1%".to_owned(), ..spec };
        assert!(curve(Over::Clients, &Search::new(&no_time).unwrap().finding()).is_none());
    }
}
