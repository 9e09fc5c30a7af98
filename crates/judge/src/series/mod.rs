//! What follows from all cells of a series together: ranks, scaling, the efficiency of interfaces, and what cannot be.
//! The plan itself is [`webstone_model::series`]; definitions: `docs/measurement.md`, "Series".

mod alarms;
mod cell;
mod level_network;
mod level_tls;
mod ratios;
mod scalability;
mod summary;
#[cfg(test)]
mod tests;

pub use alarms::{Alarm, AlarmKind, EFFICIENCY_BARE_PERCENT_MAX};
pub use level_network::LevelNetwork;
pub use level_tls::LevelTls;
pub use scalability::{FittedPoint, NoFit, POINTS_MIN, Scalability};
pub use summary::{
    CellSummary, LevelSummary, Ranked, Ranks, Scaling, ScalingRow, Spice, SpiceRow, Summary, USEFUL_JAIN_MIN,
    USEFUL_LATENCY_S_MAX,
};

use webstone_model::series::{Caching, Cell, Coordinates, Delivery, Series};
