//! Documents: what there is to say of a run, a comparison, a series, published results, a workout, a calibration.

pub(crate) mod advice;
pub(crate) mod asctime;
pub(crate) mod calibration;
pub(crate) mod cell;
pub(crate) mod comparison;
pub(crate) mod configuration;
pub(crate) mod definitions;
pub(crate) mod generators;
pub mod history;
pub(crate) mod hit;
pub(crate) mod list;
pub(crate) mod numbers;
pub(crate) mod run;
pub(crate) mod series;
pub(crate) mod server_hosts;
pub(crate) mod summary;
pub(crate) mod thresholds;
pub(crate) mod timeline;
pub(crate) mod workout;
