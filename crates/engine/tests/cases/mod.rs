//! What must hold on every back end: `tests/epoll.rs` and `tests/io_uring.rs` each run all of it.

mod booked_time;
mod byte_peer;
mod connect_lag;
mod corners;
mod floods;
mod open_loop;
pub(crate) mod peer;
mod requests;
mod truth;
