//! The charts: Excel's own, drawn from the cells of the tables, so that readers can change them.

use rust_xlsxwriter::{
    Chart, ChartErrorBars, ChartErrorBarsType, ChartLegendPosition, ChartMarker, ChartRange, ChartType,
    XlsxError,
};

use webstone_measure::figures::Figure;

use super::book::{Book, Placed};
use super::levels::{BookRun, CURVES_FROM, WITH_INTERVALS, interval, reaches};
use crate::numbers::spread;
use crate::summary::{self, Level};

/// Lines that a chart draws; more would look alike.
const LINES_MAX: usize = 12;
const WIDTH: u32 = 620;
const HEIGHT: u32 = 360;
/// Ratio of most to least clients above which the axis is logarithmic, as for sweeps that double.
const LOG_FACTOR: f64 = 30.0;

/// The four charts of the seed reports, on the first sheet from `row` on; gives the row below them.
pub(super) fn of_levels(
    book: &mut Book,
    levels: &Placed,
    runs: &[BookRun<'_>],
    row: u32,
) -> Result<u32, XlsxError> {
    if levels.lines == 0 {
        return Ok(row);
    }
    let all = || runs.iter().flat_map(|run| &run.levels);
    // In open loop levels are rates, and the number of clients that stand by is the same for all.
    let (load, x_name) = match all().any(|level| level.rate.is_some()) {
        true => ("Arrivals asked for", "arrivals/s"),
        false => ("Clients", "clients"),
    };
    let counts = || all().map(|level| level.load_number());
    let (least, most) = (counts().fold(f64::INFINITY, f64::min), counts().fold(0.0, f64::max));
    let logarithmic = least > 0.0 && most / least > LOG_FACTOR;
    let repeated = runs.iter().flat_map(|run| &run.levels).any(|level| level.runs.len() > 1);
    for (index, figure) in WITH_INTERVALS.into_iter().enumerate() {
        let (title, unit, [below, above]) = (figure.long, figure.quantity.usual().name, reaches(figure));
        let mut chart = lines(title, x_name, &format!("{}, {unit}", figure.short));
        if counts().any(|load| load.fract() != 0.0) {
            chart.x_axis().set_num_format("General");
        }
        if logarithmic {
            chart.x_axis().set_log_base(2).set_min(least);
        } else {
            chart.x_axis().set_min(0);
        }
        chart.y_axis().set_min(0);
        if let Some(top) = top_of_bars(runs, figure) {
            chart.y_axis().set_max(top);
        }
        let mut first = 1;
        for run in runs.iter().take(LINES_MAX) {
            let rows = rows(first, run.levels.len(), levels.lines);
            first += run.levels.len();
            let Some((from, to)) = rows else { continue };
            let range = |heading: &str| range(levels, heading, from, to);
            let name = ChartRange::new_from_range(levels.name, from, 0, from, 0);
            let series = chart.add_series().set_name(&name);
            series.set_categories(&range(load)).set_values(&range(title)).set_marker(&small());
            if run.levels.iter().any(|level| level.runs.len() > 1) {
                let mut bars = ChartErrorBars::new();
                bars.set_type(ChartErrorBarsType::Custom(range(&above), range(&below)));
                series.set_y_error_bars(&bars);
            }
        }
        if repeated {
            chart.title().set_name(&format!("{title} (bars: 95 % interval over iterations)"));
        }
        legend(&mut chart, runs.len());
        chart.set_alt_text(format!("{title} against {x_name}; the numbers are in the sheet Levels"));
        let (down, right) = (index as u32 / 2, index as u32 % 2);
        let sheet = book.workbook.worksheet_from_index(0)?;
        sheet.insert_chart_with_offset(row + down * 19, 0, &chart, right * (WIDTH + 10), 0)?;
    }
    Ok(row + 2 * 19)
}

/// The end of the axis, above all values and error bars, because spreadsheets choose it from the values only. `None` without bars.
fn top_of_bars(runs: &[BookRun<'_>], figure: &Figure) -> Option<f64> {
    let levels = || runs.iter().flat_map(|run| &run.levels);
    let is_drawn = |high: &f64| high.is_finite() && *high > 0.0;
    let high = |level: &Level<'_>| interval(level, figure).map(|interval| interval.high).filter(is_drawn);
    // A level of one iteration has no bar, and may be above those of all others.
    let value = |level: &Level<'_>| level.values.value(figure).map(|value| value.as_f64());
    let values = levels().filter_map(value).map(|value| value * figure.quantity.usual().factor);
    let bars = levels().filter_map(high).reduce(f64::max)?;
    let high = values.filter(is_drawn).fold(bars, f64::max);
    // Rounded up to two digits.
    let step = 10_f64.powf(high.log10().floor() - 1.0);
    Some((high / step).ceil() * step)
}

/// Response times over 1/(1 − p), both axes logarithmic, beside their table.
pub(super) fn of_curves(book: &mut Book, curves: &Placed, runs: &[BookRun<'_>]) -> Result<(), XlsxError> {
    let names: Vec<String> = runs.iter().flat_map(|run| &run.levels).map(Level::load).collect();
    let Some((from, to)) = rows(1, curves.lines, curves.lines) else { return Ok(()) };
    let mut chart = lines(
        "Latency by percentile",
        "1/(1 − p): 10 is the 90th percentile, 100 the 99th, 1,000 the 99.9th",
        "response time, ms",
    );
    chart.x_axis().set_log_base(10).set_min(1);
    chart.y_axis().set_log_base(10);
    let x = ChartRange::new_from_range(curves.name, from, 1, to, 1);
    for place in spread(names.len(), LINES_MAX, None) {
        let column = CURVES_FROM + place as u16;
        let values = ChartRange::new_from_range(curves.name, from, column, to, column);
        let name = ChartRange::new_from_range(curves.name, 0, column, 0, column);
        let series = chart.add_series();
        series
            .set_name(&name)
            .set_categories(&x)
            .set_values(&values)
            .set_marker(ChartMarker::new().set_none());
    }
    legend(&mut chart, 2);
    chart.set_alt_text("Response time by percentile, one line per level; the numbers are in this sheet");
    let column = (usize::from(CURVES_FROM) + names.len().min(10) + 1) as u16;
    book.workbook.worksheet_from_name(curves.name)?.insert_chart(1, column, &chart).map(drop)
}

/// Requests per second over time, in the iterations of the peak level (or the only level), beside their table.
pub(super) fn of_series(book: &mut Book, series: &Placed, runs: &[BookRun<'_>]) -> Result<(), XlsxError> {
    let mut chart =
        lines("Requests per second over time, level of the highest rate", "seconds", "requests, 1/s");
    chart.x_axis().set_min(0);
    chart.y_axis().set_min(0);
    let (mut first, mut drawn) = (1, 0);
    for run in runs {
        let peak = summary::peak(&run.levels).unwrap_or(0);
        let wanted = run.levels.get(peak).map(Level::key);
        for iteration in &run.record.iterations {
            let seconds = iteration.measured.seconds.0.len();
            let place = rows(first, seconds, series.lines);
            first += seconds;
            let Some((from, to)) = place else { continue };
            if Some(iteration.level()) != wanted || drawn == LINES_MAX {
                continue;
            }
            drawn += 1;
            let of = if runs.len() > 1 { format!(" · {}", run.record.id) } else { String::new() };
            let name = format!("{}{of}", iteration.key());
            let line = chart.add_series().set_name(name.as_str());
            line.set_categories(&range(series, "Until", from, to))
                .set_values(&range(series, "Request rate", from, to))
                .set_marker(ChartMarker::new().set_none());
        }
    }
    if drawn == 0 {
        return Ok(());
    }
    legend(&mut chart, 2);
    chart.set_alt_text("Requests per second, second by second; the numbers are in this sheet");
    book.workbook.worksheet_from_name(series.name)?.insert_chart(1, 14, &chart).map(drop)
}

/// First and last row of `count` lines that begin at row `first`; none where they were cut or there are none.
fn rows(first: usize, count: usize, written: usize) -> Option<(u32, u32)> {
    let last = (first + count).min(written + 1);
    (last > first).then(|| (first as u32, last as u32 - 1))
}

fn range(placed: &Placed, heading: &str, from: u32, to: u32) -> ChartRange {
    let column = placed.column(heading);
    ChartRange::new_from_range(placed.name, from, column, to, column)
}

fn lines(title: &str, x: &str, y: &str) -> Chart {
    let mut chart = Chart::new(ChartType::ScatterStraight);
    chart.title().set_name(title);
    chart.x_axis().set_name(x).set_num_format("#,##0");
    chart.y_axis().set_name(y).set_num_format("#,##0.0##").set_major_gridlines(true);
    chart.set_width(WIDTH).set_height(HEIGHT);
    chart
}

fn small() -> ChartMarker {
    let mut marker = ChartMarker::new();
    marker.set_automatic().set_size(5);
    marker
}

fn legend(chart: &mut Chart, lines: usize) {
    if lines > 1 {
        chart.legend().set_position(ChartLegendPosition::Bottom);
    } else {
        chart.legend().set_hidden();
    }
}

#[cfg(test)]
mod tests {
    use webstone_measure::figures::level::REQUEST_RATE;

    use super::*;
    use crate::judged::Judged;

    #[test]
    fn rows_that_were_cut_are_not_drawn() {
        assert_eq!(rows(1, 3, 10), Some((1, 3)));
        assert_eq!(rows(9, 5, 10), Some((9, 10)));
        assert_eq!(rows(11, 5, 10), None);
        assert_eq!(rows(1, 0, 0), None);
    }

    #[test]
    fn a_level_without_an_interval_is_below_the_end_of_the_axis() {
        let top = |levels: &[(u32, &[f64])]| {
            let record = webstone_model::fixture::record("r", levels);
            top_of_bars(&[BookRun::of_record(&Judged::whole(&record))], &REQUEST_RATE)
        };
        let bars: (u32, &[f64]) = (10, &[1000.0, 1010.0]);
        assert!(top(&[bars]).unwrap() < 2000.0);
        assert!(top(&[bars, (20, &[5000.0])]).unwrap() >= 5000.0);
        assert_eq!(top(&[(20, &[5000.0])]), None);
    }
}
