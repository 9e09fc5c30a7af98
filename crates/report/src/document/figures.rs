//! Figures of the model's table as charts and tiles show them: what they are called, in which unit, where they are defined, and
//! the interval of a level's.

use webstone_judge::statistics::{Interval, mean_interval};
use webstone_measure::figures::{Figure, Quantity};

use crate::definitions::anchor_of;
use crate::numbers::Scale;
use crate::summary::Level;
use crate::text::figures;
pub(crate) use crate::text::figures::title;

/// The anchor of its definition.
pub(crate) fn definition(figure: &Figure) -> Option<String> {
    anchor_of(figure.defined.section, figure.defined.name)
}

/// Unit and decimals of its values, below its [`title`].
pub(crate) fn scale(figure: &Figure, values: impl IntoIterator<Item = f64>) -> Scale {
    let mut scale = figures::scale(figure, values.into_iter());
    if matches!(figure.quantity, Quantity::PerSecond | Quantity::PerMinute) {
        scale.unit = "";
    }
    scale
}

/// Its value at a level.
pub(crate) fn value(level: &Level<'_>, figure: &Figure) -> Option<f64> {
    level.values.value(figure).map(|value| value.as_f64())
}

/// Its value at a level with its unit, marked where it is a lower bound.
pub(crate) fn said(level: &Level<'_>, figure: &Figure, scale: &Scale) -> String {
    level.values.value(figure).map_or_else(String::new, |value| scale.say_value(value))
}

/// The 95 % interval of its mean over the iterations of a level; `None` below two.
pub(crate) fn interval(level: &Level<'_>, figure: &Figure) -> Option<Interval> {
    if level.runs.len() < 2 {
        return None;
    }
    let values = level.values_by_run().iter().map(|run| run.value(figure).map(|value| value.as_f64()));
    mean_interval(&values.collect::<Option<Vec<f64>>>()?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use webstone_measure::figures::level::{LATENCY_MEAN, PAGES_PER_MINUTE, REQUEST_RATE};

    #[test]
    fn a_rate_has_its_unit_in_its_name_and_nothing_else_has() {
        assert_eq!([REQUEST_RATE, PAGES_PER_MINUTE].map(|it| title(&it)), ["Requests/s", "Pages/min"]);
        assert_eq!(scale(&REQUEST_RATE, [1234.5]).say(1234.5), "1,234");
        assert_eq!(title(&LATENCY_MEAN), LATENCY_MEAN.long);
        assert_eq!(scale(&LATENCY_MEAN, [0.0012]).say(0.0012), "1.20 ms");
    }
}
