//! What is looked at before the first request: whether the machine can carry the load ([`needs`]) and
//! whether the target answers ([`target`]). A run that cannot work is not started; one that may not is warned about.

pub(crate) mod decoding;
pub mod needs;
pub(crate) mod patience;
pub(crate) mod redirects;
pub mod target;
pub(crate) mod version;
