//! What is looked at before the first request: whether the machine can carry the load ([`needs`]) and
//! whether the target answers ([`target`]). A run that cannot work is not started; one that may not is warned about.

pub mod needs;
pub(crate) mod patience;
pub mod target;
