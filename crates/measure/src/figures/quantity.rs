//! What a figure's value counts: its base unit, the unit that tables show it in, and the one that monitoring wants.

/// What a value counts, always in the base unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Quantity {
    /// 1/s.
    PerSecond,
    /// 1/min.
    PerMinute,
    /// bit/s.
    BitsPerSecond,
    /// bytes/s.
    BytesPerSecond,
    /// Seconds of something short, which tables show in ms.
    Seconds,
    /// Seconds of something long, which tables show in s.
    Duration,
    /// Bytes.
    Bytes,
    /// Percent.
    Percent,
    /// A plain number between 0 and 1.
    Share,
    /// How often something was or happened; whole.
    Count,
    /// A plain number: how many of one thing there are for another.
    Ratio,
}

/// A unit that is not the base unit, and what a value in the base unit is multiplied with to be in it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Unit {
    /// Its name; empty of plain numbers.
    pub name: &'static str,
    /// Units for one base unit.
    pub factor: f64,
}

impl Unit {
    const fn base(name: &'static str) -> Unit {
        Unit { name, factor: 1.0 }
    }
}

impl Quantity {
    /// The base unit.
    pub const fn base(self) -> Unit {
        Unit::base(match self {
            Quantity::PerSecond => "1/s",
            Quantity::PerMinute => "1/min",
            Quantity::BitsPerSecond => "bit/s",
            Quantity::BytesPerSecond => "bytes/s",
            Quantity::Seconds | Quantity::Duration => "s",
            Quantity::Bytes => "bytes",
            Quantity::Percent => "%",
            Quantity::Share => "index",
            Quantity::Count | Quantity::Ratio => "",
        })
    }

    /// The unit of a table whose every value shall be in the same one.
    pub const fn usual(self) -> Unit {
        match self {
            Quantity::BitsPerSecond => Unit { name: "Mbit/s", factor: 1e-6 },
            Quantity::Seconds => Unit { name: "ms", factor: 1e3 },
            other => other.base(),
        }
    }

    /// The unit of monitoring systems, which want bytes and ratios where people want bits and percent.
    pub const fn monitored(self) -> Unit {
        match self {
            Quantity::BitsPerSecond => Unit { name: "bytes/s", factor: 1.0 / 8.0 },
            Quantity::Percent => Unit { name: "", factor: 1.0 / 100.0 },
            other => other.base(),
        }
    }

    /// Whether it is a rate, of which more load brings more as long as the server keeps up.
    pub const fn is_rate(self) -> bool {
        matches!(self, Quantity::PerSecond | Quantity::BitsPerSecond)
    }
}
