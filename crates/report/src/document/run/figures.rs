//! Tables of figures over levels: a column per figure, a row per level. Words, units, decimals and values come from the model's table of
//! figures; each sheet chooses the groups that it shows together.

use webstone_measure::figures::table::{self, Precision};
use webstone_measure::figures::{Figure, Group, Quantity, Value};

use crate::document::Tone;
use crate::document::table::{Room, Rows, Table};
use crate::numbers::Scale;
use crate::summary::{self, Level};

/// A figure of all levels.
pub(super) struct Column {
    pub(super) figure: &'static Figure,
    pub(super) scale: Scale,
    /// Level by level; `None` where nothing was measured.
    values: Vec<Option<Value>>,
}

/// The figures of groups that have a column, each with its values. A figure has no column if it is known at no level, or if it counts
/// something rare that did not happen. Columns of one name share their unit.
pub(super) fn columns(
    levels: &[Level<'_>],
    groups: &[Group],
    of: &dyn Fn(&Level<'_>, &Figure) -> Option<Value>,
) -> Vec<Column> {
    let figures = groups.iter().flat_map(|group| table::of_group(*group));
    let mut found: Vec<(&'static Figure, Vec<Option<Value>>)> = figures
        .filter(|figure| !figure.head.0.is_empty())
        .map(|figure| (figure, levels.iter().map(|level| of(level, figure)).collect()))
        .collect();
    found.retain(|(figure, values)| {
        let mut known = values.iter().flatten();
        if figure.is_seldom { known.any(|value| value.as_f64() != 0.0) } else { known.next().is_some() }
    });
    let scale = |figure: &Figure| {
        let alike = found.iter().filter(|(other, _)| {
            other.head.0 == figure.head.0
                && other.quantity == figure.quantity
                && other.precision == figure.precision
        });
        scale(figure, alike.flat_map(|(_, values)| values.iter().flatten().map(|it| it.as_f64())))
    };
    let scales: Vec<Scale> = found.iter().map(|(figure, _)| scale(figure)).collect();
    let columns = found.into_iter().zip(scales);
    columns.map(|((figure, values), scale)| Column { figure, scale, values }).collect()
}

/// The name of a figure as a heading; that of a rate contains its unit: `Requests/s`.
pub(crate) fn title(figure: &Figure) -> String {
    let of = match figure.quantity {
        Quantity::PerSecond => "/s",
        Quantity::PerMinute => "/min",
        _ => "",
    };
    format!("{}{of}", figure.long)
}

/// Unit and decimals for values of a figure.
pub(crate) fn scale(figure: &Figure, values: impl Iterator<Item = f64>) -> Scale {
    let usual = figure.quantity.usual();
    match (figure.precision, figure.quantity) {
        (Precision::Exactly(decimals), _) => Scale::exactly(usual.name, usual.factor, decimals.into()),
        (Precision::UpTo(decimals), _) => Scale::up_to(usual.name, usual.factor, decimals.into(), values),
        (Precision::Scaled, Quantity::Seconds | Quantity::Duration) => Scale::seconds(values),
        (Precision::Scaled, Quantity::Bytes | Quantity::BytesPerSecond) => Scale::bytes(values),
        (Precision::Scaled, Quantity::BitsPerSecond) => Scale::bits_per_second(values),
        (Precision::Scaled, _) => Scale::up_to(usual.name, usual.factor, 3, values),
    }
}

/// Adds the column of a figure in a scale.
pub(super) fn column<'a, T>(
    table: &mut Rows<'a, T>,
    figure: &Figure,
    scale: &Scale,
    value: impl Fn(&'a T) -> Option<Value>,
) {
    let room = if figure.stays == Figure::ALWAYS { Room::Always } else { Room::Optional(figure.stays) };
    let (name, unit) = figure.head;
    table.number(name, unit.replace('*', scale.unit), room, |row| value(row).map(|value| scale.cell(value)));
    table.defined_as(figure);
}

/// A row per level, its load first.
pub(super) fn table(levels: &[Level<'_>], columns: &[Column], tone: &dyn Fn(&Level<'_>) -> Tone) -> Table {
    let rows: Vec<(usize, &Level<'_>)> = levels.iter().enumerate().collect();
    let mut table = Table::with_rows(&rows);
    let (load, unit) = summary::load_column(levels);
    table.number(load, unit, Room::Always, |(_, level)| level.load_cell());
    for known in columns {
        column(&mut table, known.figure, &known.scale, |(place, _)| known.values[*place]);
    }
    table.tones(|(_, level)| tone(level)).done()
}
