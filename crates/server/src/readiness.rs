//! Waiting on descriptors that tokio has no type for: listening sockets of any family, and timers.

use std::io;
use std::os::fd::{AsFd, AsRawFd};

use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// Registers a descriptor to be waited on until it can be read.
#[expect(
    deprecated,
    reason = "deprecated because a type that is `AsRawFd` alone may close its descriptor while it is registered; a \
              type that is also `AsFd` owns or borrows it. The replacement is `unsafe`, which this crate forbids."
)]
pub(crate) fn readable<T: AsFd + AsRawFd>(descriptor: T) -> io::Result<AsyncFd<T>> {
    AsyncFd::with_interest(descriptor, Interest::READABLE)
}
