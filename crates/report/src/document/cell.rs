//! A value of a table before any format has turned it into text: programs read it plainly, a workbook keeps its type, and
//! people see it in the unit and with the decimals of its column.

use std::borrow::Cow;
use std::fmt;

use serde::{Serialize, Serializer};
use webstone_measure::figures::Value;

use super::Tone;
use super::numbers::{DASH, Scale, count, decimal};

/// One cell.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) enum Cell {
    /// Not measured: empty, not a zero that an average would include.
    #[default]
    None,
    Text(String),
    Count(u64),
    /// For programs: every digit.
    Number(f64),
    /// For people: with this number of decimals.
    Decimal(f64, usize),
    /// For people: in the unit of its column.
    Scaled(Value, Scale),
    Flag(bool),
    /// A cell in a tone of its own.
    Toned(Tone, Box<Cell>),
    /// A name: in short where there is little room.
    Named {
        short: String,
        long: String,
    },
    /// A cell after a sign that formats without colour have.
    Signed(&'static str, Box<Cell>),
    /// A bar of a length between 0 and 1, drawn in text; with a limit that is marked in every row of the column.
    Bar {
        length: f64,
        limit: Option<f64>,
    },
}

impl Cell {
    /// The same in a tone of its own.
    pub(crate) fn toned(self, tone: Tone) -> Cell {
        Cell::Toned(tone, Box::new(self))
    }

    /// The same after a sign.
    pub(crate) fn signed(self, sign: &'static str) -> Cell {
        Cell::Signed(sign, Box::new(self))
    }

    /// As people read it.
    pub(crate) fn shown(&self) -> Cow<'_, str> {
        match self {
            Cell::None => DASH.into(),
            Cell::Text(text) | Cell::Named { long: text, .. } => text.into(),
            Cell::Count(value) => count(*value).into(),
            Cell::Decimal(value, decimals) => decimal(*value, *decimals).into(),
            Cell::Scaled(value, scale) => scale.show_value(*value).into(),
            Cell::Toned(_, cell) | Cell::Signed(_, cell) => cell.shown(),
            Cell::Bar { .. } => "".into(),
            Cell::Number(_) | Cell::Flag(_) => self.to_string().into(),
        }
    }
}

impl fmt::Display for Cell {
    /// As programs read it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Cell::None => Ok(()),
            Cell::Text(text) | Cell::Named { long: text, .. } => f.write_str(text),
            Cell::Count(value) => value.fmt(f),
            Cell::Number(value) | Cell::Decimal(value, _) | Cell::Bar { length: value, .. } => value.fmt(f),
            Cell::Scaled(value, _) => value.as_f64().fmt(f),
            Cell::Flag(value) => value.fmt(f),
            Cell::Toned(_, cell) | Cell::Signed(_, cell) => cell.fmt(f),
        }
    }
}

impl Serialize for Cell {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Cell::None => serializer.serialize_none(),
            Cell::Text(text) | Cell::Named { long: text, .. } => serializer.serialize_str(text),
            Cell::Signed(_, cell) => cell.serialize(serializer),
            Cell::Flag(value) => serializer.serialize_bool(*value),
            Cell::Count(value) => serializer.serialize_u64(*value),
            other => serializer.collect_str(&format_args!("{} ({other})", other.shown().trim_end())),
        }
    }
}

macro_rules! cells {
    ($($from:ty, $value:ident => $cell:expr;)*) => {
        $(impl From<$from> for Cell {
            fn from($value: $from) -> Cell {
                $cell
            }
        })*
    };
}

cells! {
    String, text => Cell::Text(text);
    &str, text => Cell::Text(text.to_owned());
    &String, text => Cell::Text(text.clone());
    &Box<str>, text => Cell::Text(text.to_string());
    u64, value => Cell::Count(value);
    u32, value => Cell::Count(value.into());
    u8, value => Cell::Count(value.into());
    usize, value => Cell::Count(value as u64);
    f64, value => if value.is_finite() { Cell::Number(value) } else { Cell::None };
    bool, value => Cell::Flag(value);
    Value, value => match value {
        Value::Count(count) => count.into(),
        Value::Number(number) | Value::AtLeast(number) => number.into(),
    };
}

impl<T: Into<Cell>> From<Option<T>> for Cell {
    fn from(value: Option<T>) -> Cell {
        value.map_or(Cell::None, Into::into)
    }
}
