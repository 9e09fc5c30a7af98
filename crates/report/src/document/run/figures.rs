//! Tables of figures over levels: a column a figure, a row a level. Words, units, decimals and values are the table's of the
//! model; which groups stand together is each sheet's.

use webstone_measure::figures::table::{self, Precision};
use webstone_measure::figures::{Figure, Group, Quantity, Value};

use crate::layout::{Room, Table};
use crate::numbers::Scale;
use crate::screen::{Screen, Tone};
use crate::summary::{self, Level};

/// A figure of all levels.
pub(super) struct Column {
    pub(super) figure: &'static Figure,
    pub(super) scale: Scale,
    /// Level by level; `None` where nothing was measured.
    values: Vec<Option<Value>>,
}

/// The figures of groups that have a column, each with its values. One that is known at no level, or of something that
/// seldom happens and did not, has none. Columns of one name share their unit.
pub(super) fn columns(
    screen: &Screen,
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
        scale(screen, figure, alike.flat_map(|(_, values)| values.iter().flatten().map(|it| it.as_f64())))
    };
    let scales: Vec<Scale> = found.iter().map(|(figure, _)| scale(figure)).collect();
    let columns = found.into_iter().zip(scales);
    columns.map(|((figure, values), scale)| Column { figure, scale, values }).collect()
}

/// Unit and decimals for values of a figure.
pub(crate) fn scale(screen: &Screen, figure: &Figure, values: impl Iterator<Item = f64>) -> Scale {
    let usual = figure.quantity.usual();
    match (figure.precision, figure.quantity) {
        (Precision::Exactly(decimals), _) => Scale::exactly(usual.name, usual.factor, decimals.into()),
        (Precision::UpTo(decimals), _) => Scale::up_to(usual.name, usual.factor, decimals.into(), values),
        (Precision::Scaled, Quantity::Seconds | Quantity::Duration) => Scale::seconds(screen, values),
        (Precision::Scaled, Quantity::Bytes | Quantity::BytesPerSecond) => Scale::bytes(values),
        (Precision::Scaled, Quantity::BitsPerSecond) => Scale::bits_per_second(values),
        (Precision::Scaled, _) => Scale::up_to(usual.name, usual.factor, 3, values),
    }
}

/// Adds the column of a figure in a scale.
pub(super) fn head(table: &mut Table, figure: &Figure, scale: &Scale) {
    let room = if figure.stays == Figure::ALWAYS { Room::Always } else { Room::Optional(figure.stays) };
    let (name, unit) = figure.head;
    table.number(name, &unit.replace('*', scale.unit), room).defined_as(figure);
}

/// A row a level, its load first; a dash where nothing is known.
pub(super) fn table(
    screen: &Screen,
    levels: &[Level<'_>],
    columns: &[Column],
    tone: &dyn Fn(&Level<'_>) -> Tone,
) -> Table {
    let mut table = Table::default();
    let (load, unit) = summary::load_column(levels);
    table.number(load, unit, Room::Always);
    for column in columns {
        head(&mut table, column.figure, &column.scale);
    }
    for (place, level) in levels.iter().enumerate() {
        let cells = columns.iter().map(|column| match column.values[place] {
            Some(value) => column.scale.show_value(screen, value),
            None => screen.dash().to_owned(),
        });
        table.row_in(std::iter::once(level.load_cell()).chain(cells).collect(), tone(level), false);
    }
    table
}
