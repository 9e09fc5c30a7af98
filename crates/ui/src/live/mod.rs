//! Runs that are on, seen through the events that they write into a file: a front that was stopped and started again sees what the
//! one before saw.

mod feed;
mod points;
mod state;

pub(crate) use feed::{Feed, POINTS_MAX};
pub(crate) use state::State;
