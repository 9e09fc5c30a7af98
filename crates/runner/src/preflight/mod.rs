//! What is checked before the first request: whether the machine can carry the load ([`needs`]) and whether the
//! target answers ([`target`]). A run that cannot work is not started; one that might not work gets a warning.

pub(crate) mod decoding;
pub mod needs;
pub(crate) mod patience;
pub(crate) mod redirects;
pub mod target;
pub(crate) mod unserved;
pub(crate) mod version;
