//! The counters of a measured window. Each name is defined in `docs/measurement.md`; identities between them are
//! checked by [`crate::identities`].

use serde::{Deserialize, Serialize};

use super::add_all;

/// Requests, connections, pages, bytes and waiting of one measured window. Sums exactly over workers and hosts.
///
/// A request belongs to the window in which it *ends*, so that a rate is unbiased however slow the answers are:
/// `carried_in + started = succeeded + failed + in_flight + left_open`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct Counts {
    /// Planned requests: those started, plus those of an open-loop schedule that were skipped.
    pub planned: u64,
    /// Requests of an open-loop schedule that found no free client: one for each skipped arrival, as the other
    /// requests of a page are planned only when it begins.
    pub skipped: u64,
    /// Requests in progress when the window opened.
    pub carried_in: u64,
    /// Requests started inside the window.
    pub started: u64,
    /// Requests that ended inside the window with a valid response.
    pub succeeded: u64,
    /// Requests that ended inside the window in an error; the classes are in the error table.
    pub failed: u64,
    /// Requests in progress when the window closed.
    pub in_flight: u64,
    /// Requests in progress when slices began that were left out of the window.
    #[serde(skip_serializing_if = "crate::units::is_zero")]
    pub left_open: u64,

    /// Connections established inside the window.
    pub connections: u64,
    /// Connections whose first valid response ended within the window: the numerator of connections/s.
    pub connections_answered: u64,
    /// Connection attempts that failed inside the window.
    pub connections_failed: u64,
    /// Requests retried on a fresh connection because a kept-alive one had been closed by the server before any
    /// byte of the answer (RFC 9112 section 9.3.1 allows it for idempotent methods). Not errors; not counted as starts.
    pub stale_retries: u64,
    /// Connections that the server left open after the response to the last request, and that the client closed in
    /// the end.
    pub lingered: u64,
    /// How often bytes came after the end of a response, later than its last byte. If they come together with it, the
    /// request fails as malformed instead.
    pub surplus: u64,

    /// Pages that ended within the window with every file successful.
    pub pages_completed: u64,
    /// Pages that ended within the window with at least one failed file.
    pub pages_failed: u64,

    /// Bytes of response heads (status line, fields, interim responses), for requests that ended within the window.
    pub head_bytes: u64,
    /// Bytes of response bodies as on the wire after the head, without chunk framing.
    pub body_bytes: u64,
    /// Bytes of chunk framing and trailers.
    pub framing_bytes: u64,
    /// Bytes of requests sent.
    pub sent_bytes: u64,

    /// Time that requests were in progress, cut to the window: identity 2 compares it with the number of clients.
    pub busy_ns: u64,
    /// Time that clients spent thinking or waiting before a retry, cut to the window.
    pub idle_ns: u64,
}

impl Counts {
    /// Adds another worker's, host's or iteration's counters.
    pub fn merge(&mut self, other: &Counts) {
        add_all!(self, other, Counts {
            planned, skipped, carried_in, started, succeeded, failed, in_flight, left_open,
            connections, connections_answered, connections_failed, stale_retries, lingered, surplus,
            pages_completed, pages_failed, head_bytes, body_bytes, framing_bytes, sent_bytes, busy_ns, idle_ns;
        });
    }

    /// Requests that ended: succeeded or failed.
    pub fn ended(&self) -> u64 {
        self.succeeded.saturating_add(self.failed)
    }

    /// What the error level is a share of: connections, as in WebStone, or ended requests where connections are reused and there may be
    /// fewer of them than errors.
    pub fn error_base(&self) -> u64 {
        self.connections.saturating_add(self.connections_failed).max(self.ended())
    }

    /// All response bytes: heads, bodies and chunk framing.
    pub fn received_bytes(&self) -> u64 {
        self.head_bytes.saturating_add(self.body_bytes).saturating_add(self.framing_bytes)
    }
}
