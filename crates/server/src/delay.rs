//! Waiting to the microsecond.
//!
//! tokio's own timers end on whole milliseconds, which would blur a schedule that a test knows exactly. A timer
//! descriptor costs three system calls and is exact to some 50 µs; only test handlers wait at all.

use std::time::{Duration, Instant};

use rustix::time::{Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec};

use crate::readiness;

/// Waits until at least `span` after `start`. Never early.
pub(crate) async fn until(start: Instant, span: Duration) {
    let left = span.saturating_sub(start.elapsed());
    if left.is_zero() {
        return;
    }
    if exact(left).await.is_err() {
        // No descriptor is free: the coarse timer needs none.
        tokio::time::sleep(left).await;
    }
}

/// Waits for `span` from now.
pub(crate) async fn pause(span: Duration) {
    until(Instant::now(), span).await;
}

async fn exact(span: Duration) -> std::io::Result<()> {
    let timer = rustix::time::timerfd_create(
        TimerfdClockId::Monotonic,
        TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC,
    )?;
    let zero = Timespec { tv_sec: 0, tv_nsec: 0 };
    let seconds = i64::try_from(span.as_secs()).unwrap_or(i64::MAX);
    let value = Timespec { tv_sec: seconds, tv_nsec: i64::from(span.subsec_nanos()) };
    let setting = Itimerspec { it_interval: zero, it_value: value };
    rustix::time::timerfd_settime(&timer, TimerfdTimerFlags::empty(), &setting)?;
    let timer = readiness::readable(timer)?;
    // It is used once, so that it need not be read.
    let _ready = timer.readable().await?;
    Ok(())
}
