//! What a figure's value counts: its base unit, the unit in tables, and the unit in monitoring systems.

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
    /// Seconds of something short, shown in ms in tables.
    Seconds,
    /// Seconds of something long, shown in s in tables.
    Duration,
    /// Bytes.
    Bytes,
    /// Percent.
    Percent,
    /// A plain number between 0 and 1.
    Share,
    /// A whole number of things or events.
    Count,
    /// A plain number: one quantity per another.
    Ratio,
}

/// A unit other than the base unit, and the factor that converts a value in the base unit to it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Unit {
    /// Its name; empty for plain numbers.
    pub name: &'static str,
    /// This many units are one base unit.
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

    /// The unit of tables in which all values have the same one.
    pub const fn usual(self) -> Unit {
        match self {
            Quantity::BitsPerSecond => Unit { name: "Mbit/s", factor: 1e-6 },
            Quantity::Seconds => Unit { name: "ms", factor: 1e3 },
            other => other.base(),
        }
    }

    /// The unit in monitoring systems: bytes and ratios, where people read bits and percent.
    pub const fn monitored(self) -> Unit {
        match self {
            Quantity::BitsPerSecond => Unit { name: "bytes/s", factor: 1.0 / 8.0 },
            Quantity::Percent => Unit { name: "", factor: 1.0 / 100.0 },
            other => other.base(),
        }
    }

    /// Whether it is a rate, which grows with the load as long as the server keeps up.
    pub const fn is_rate(self) -> bool {
        matches!(self, Quantity::PerSecond | Quantity::BitsPerSecond)
    }
}
