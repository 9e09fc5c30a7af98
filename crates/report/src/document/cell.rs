//! A value of a table before any format has turned it into text: CSV writes it plainly, a workbook keeps its type.

use std::fmt;

use webstone_measure::figures::Value;

/// One cell.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) enum Cell {
    /// Nothing was measured here; no zero that an average would take in.
    #[default]
    Empty,
    Text(String),
    Count(u64),
    Number(f64),
    Flag(bool),
}

impl fmt::Display for Cell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Cell::Empty => Ok(()),
            Cell::Text(text) => f.write_str(text),
            Cell::Count(value) => value.fmt(f),
            Cell::Number(value) => value.fmt(f),
            Cell::Flag(value) => value.fmt(f),
        }
    }
}

impl From<String> for Cell {
    fn from(text: String) -> Cell {
        Cell::Text(text)
    }
}

impl From<&str> for Cell {
    fn from(text: &str) -> Cell {
        Cell::Text(text.to_owned())
    }
}

impl From<&String> for Cell {
    fn from(text: &String) -> Cell {
        Cell::Text(text.clone())
    }
}

impl From<&Box<str>> for Cell {
    fn from(text: &Box<str>) -> Cell {
        Cell::Text(text.to_string())
    }
}

impl From<u64> for Cell {
    fn from(value: u64) -> Cell {
        Cell::Count(value)
    }
}

impl From<u32> for Cell {
    fn from(value: u32) -> Cell {
        Cell::Count(u64::from(value))
    }
}

impl From<u8> for Cell {
    fn from(value: u8) -> Cell {
        Cell::Count(u64::from(value))
    }
}

impl From<usize> for Cell {
    fn from(value: usize) -> Cell {
        Cell::Count(value as u64)
    }
}

impl From<f64> for Cell {
    fn from(value: f64) -> Cell {
        if value.is_finite() { Cell::Number(value) } else { Cell::Empty }
    }
}

impl From<bool> for Cell {
    fn from(value: bool) -> Cell {
        Cell::Flag(value)
    }
}

impl From<Value> for Cell {
    fn from(value: Value) -> Cell {
        match value {
            Value::Count(count) => count.into(),
            Value::Number(number) | Value::AtLeast(number) => number.into(),
        }
    }
}

impl<T: Into<Cell>> From<Option<T>> for Cell {
    fn from(value: Option<T>) -> Cell {
        value.map_or(Cell::Empty, Into::into)
    }
}
