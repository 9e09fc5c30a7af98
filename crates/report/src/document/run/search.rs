//! A search for an SLO: every level that was tried, the conditions there, and what it counts as; and the curve of latency
//! against load, drawn with letters.

use unicode_width::UnicodeWidthStr;
use webstone_judge::search::{ConditionFound, Finding, LevelFound, LevelStanding};
use webstone_judge::statistics::Method;
use webstone_measure::metric::{Metric, Quantity};
use webstone_model::search::Over;
use webstone_model::threshold::Thresholds;

use crate::layout::{Room, Sheet, Table, heading, labelled, push_line};
use crate::numbers::{count, seconds};
use crate::screen::{Screen, Tone};
use crate::thresholds::said;

/// Every level that was tried; the answer stands in the headline.
pub(crate) fn sheet(screen: &Screen, over: Over, finding: &Finding) -> Sheet {
    let mut table = Table::default();
    match over {
        Over::Rate => table.number("arrivals", "/s", Room::Always),
        Over::Clients => table.number("clients", "", Room::Always),
    };
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
            let metric = metric_of(&condition.condition);
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
        let (word, tone) = counts_as(screen, level.standing);
        cells.push(word.to_owned());
        table.row_in(cells, tone, Some(level.load) == finding.kept);
    }
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

fn counts_as(screen: &Screen, standing: LevelStanding) -> (&'static str, Tone) {
    match standing {
        LevelStanding::Kept => ("kept", Tone::Good),
        LevelStanding::Broken => ("broken", Tone::Alarm),
        LevelStanding::Undecided => ("undecided", Tone::Caution),
        LevelStanding::CannotTell => ("cannot tell", Tone::Caution),
        LevelStanding::Open => (screen.dash(), Tone::Plain),
    }
}

fn metric_of(condition: &str) -> Option<Metric> {
    Some(condition.parse::<Thresholds>().ok()?.0.first()?.metric())
}

/// Draws the first condition of the SLO that is a time against the load: a bar a level on a logarithmic scale, and the
/// limit across all of them. Nothing where the SLO has no such condition.
pub(super) fn curve(screen: &Screen, over: Over, finding: &Finding, out: &mut String) {
    let is_time = |condition: &ConditionFound| {
        metric_of(&condition.condition).is_some_and(|metric| metric.quantity() == Quantity::Seconds)
    };
    let Some(place) = finding.levels.first().and_then(|level| level.conditions.iter().position(is_time))
    else {
        return;
    };
    let condition = &finding.levels[0].conditions[place];
    let rows: Vec<(&LevelFound, Option<f64>)> = finding
        .levels
        .iter()
        .map(|level| {
            (level, level.conditions[place].value.map(|value| value.point).filter(|point| *point > 0.0))
        })
        .collect();
    let times = || rows.iter().filter_map(|(_, time)| *time).chain([condition.limit]);
    // Whole powers of ten, so that equal lengths are equal factors whatever was measured.
    let low = times().fold(f64::INFINITY, f64::min).log10().floor();
    let high = times().fold(0.0, f64::max).log10().ceil().max(low + 1.0);
    let texts: Vec<(String, String)> = rows
        .iter()
        .map(|(level, time)| {
            (count(level.load), time.map_or_else(|| screen.dash().to_owned(), |time| seconds(screen, time)))
        })
        .collect();
    let load_width = texts.iter().map(|(load, _)| load.width()).max().unwrap_or(0);
    let time_width = texts.iter().map(|(_, time)| time.width()).max().unwrap_or(0);
    let room = screen.width.saturating_sub(load_width + time_width + 6).clamp(10, 60);
    let cells = |time: f64| ((time.log10() - low) / (high - low) * room as f64).round() as usize;
    let limit = cells(condition.limit).min(room - 1);
    let name = match over {
        Over::Rate => "arrivals/s",
        Over::Clients => "clients",
    };
    heading(screen, out, "Latency against load", &format!("{} against {name}", condition.condition));
    for ((level, time), (load, shown)) in rows.iter().zip(&texts) {
        let filled = time.map_or(0, |time| cells(time).clamp(1, room));
        let cell = |at: usize| match at {
            at if at == limit => screen.limit(),
            at if at < filled => screen.bar(),
            _ => " ",
        };
        let bar: String = (0..room).map(cell).collect();
        let pad = |text: &str, width: usize| format!("{}{text}", " ".repeat(width - text.width()));
        let (_, tone) = counts_as(screen, level.standing);
        let line = format!(
            "  {}  {}  {}",
            pad(load, load_width),
            pad(shown, time_width),
            screen.paint(tone, bar.trim_end())
        );
        push_line(out, &line);
    }
    let legend = format!(
        "{} marks the limit; the scale is logarithmic, from {} to {}",
        screen.limit(),
        seconds(screen, 10_f64.powf(low)),
        seconds(screen, 10_f64.powf(high))
    );
    labelled(screen, out, "", 0, &legend, Tone::Faint);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Charset, Options};
    use webstone_judge::search::Search;
    use webstone_model::search::SearchSpec;

    #[test]
    fn the_curve_has_a_bar_a_level_and_the_limit_across() {
        let spec = SearchSpec { slo: "errors<1%,p(99)<10ms".to_owned(), ..SearchSpec::over(Over::Clients) };
        let mut search = Search::new(&spec).unwrap();
        for (load, p99) in [(1, Some(0.001)), (2, Some(0.010)), (4, Some(0.1)), (8, None)] {
            search.observe(load, vec![Some(0.0), p99]);
        }
        let screen = Screen::new(&Options { width: 40, charset: Charset::Ascii, ..Options::default() });
        let mut out = String::new();
        curve(&screen, Over::Clients, &search.finding(), &mut out);
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
        let mut none = String::new();
        let no_time = SearchSpec { slo: "errors<1%".to_owned(), ..spec };
        curve(&screen, Over::Clients, &Search::new(&no_time).unwrap().finding(), &mut none);
        assert_eq!(none, "");
    }
}
