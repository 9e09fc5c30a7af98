//! The one clock: monotonic, in nanoseconds. On Linux it is read without a system call (vDSO, about 26 ns).

use rustix::time::{ClockId, clock_gettime};

/// Nanoseconds on the monotonic clock.
#[inline]
pub(crate) fn now_ns() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    // The monotonic clock begins near zero at boot, so neither part is negative.
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}
