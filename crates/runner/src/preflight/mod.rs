//! What is looked at before the first request: whether the machine can carry the load ([`needs`], [`limits`]) and
//! whether the target answers ([`target`]). A run that cannot work is not started; one that may not is warned about.

pub(crate) mod endpoint;
pub mod limits;
pub mod needs;
pub mod target;
