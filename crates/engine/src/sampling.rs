//! What the kernel is asked for only some connections, because it costs system calls: how long bytes lay in a receive
//! queue, and how long a handshake took.

/// One connection in this many is asked for its handshake time: a system call of 300 ns, or about 20 ns per
/// connection, a thousandth of its cost. A prime, so that it is not in step with the number of clients.
pub(crate) const HANDSHAKES_ASKED_EVERY: u32 = 17;

/// An index that no link has.
const NO_LINK: u32 = u32::MAX;

/// See the module comment.
pub(crate) struct Sampling {
    /// The link whose received bytes the kernel stamps, or [`NO_LINK`]. One at a time is a sample.
    stamped: u32,
    /// Connections until the next one is asked for its handshake time.
    until_asked: u32,
}

impl Sampling {
    pub(crate) fn new() -> Sampling {
        Sampling { stamped: NO_LINK, until_asked: 1 }
    }

    #[inline]
    pub(crate) fn is_stamped(&self, link: u32) -> bool {
        self.stamped == link
    }

    #[inline]
    pub(crate) fn wants_a_stamped_link(&self) -> bool {
        self.stamped == NO_LINK
    }

    pub(crate) fn stamps(&mut self, link: u32) {
        self.stamped = link;
    }

    /// To be called when a link's socket is closed.
    #[inline]
    pub(crate) fn closed(&mut self, link: u32) {
        if self.stamped == link {
            self.stamped = NO_LINK;
        }
    }

    /// Counts an established connection; returns whether it is to be asked for its handshake time.
    #[inline]
    pub(crate) fn asks_for_handshake(&mut self) -> bool {
        self.until_asked -= 1;
        if self.until_asked > 0 {
            return false;
        }
        self.until_asked = HANDSHAKES_ASKED_EVERY;
        true
    }
}
