//! The boundary between a link's socket and its session. A [`Layer`] turns the session's bytes into those on the wire
//! and back: unchanged without TLS, otherwise encrypted after a handshake. It has no I/O and no clock.
//!
//! The layer is fixed for a run, so a worker is compiled once for each. [`Plain`] is empty and costs nothing.

use webstone_measure::metrics::Handshake;

use crate::plan::Plan;
use crate::session::AnswerError;

/// See the module comment.
pub(crate) trait Layer: Default {
    /// Whether the bytes on the wire are the session's own, so that a body may be discarded in the kernel.
    const IS_PLAIN: bool;

    /// What the layers of a worker share: prepared data and buffers. What [`Layer::seal`] and [`Layer::plain`] return
    /// may be in there, and is then invalid after the next call for another link.
    type Shared;

    /// To be called by the thread that runs the worker, before its clock starts. `slot` is the worker's first slot
    /// among those of all hosts.
    fn shared(plan: &Plan, slot: u32) -> Self::Shared;

    /// Begins a connection to an origin, given by its number in the plan; forgets the last connection.
    fn open(&mut self, origin: u32, plan: &Plan, shared: &mut Self::Shared);

    /// Whether the session's bytes may pass: from the start, or after a handshake.
    fn is_open(&self) -> bool;

    /// Whether the handshake has succeeded; always true for layers without a handshake. With early data a layer is open before that.
    fn is_agreed(&self) -> bool;

    /// Makes the session's bytes wait for the end of the handshake, even where early data may be sent. To be called before any are sealed.
    fn hold_early_data(&mut self) {}

    /// Takes bytes received before the layer was open, up to the end of the handshake; returns how many.
    fn handshake(&mut self, wire: &[u8], shared: &mut Self::Shared) -> Result<usize, AnswerError>;

    /// What was agreed on; returned once, as soon as the handshake has ended.
    fn take_agreed(&mut self, shared: &Self::Shared) -> Option<Handshake>;

    /// The bytes to send for bytes of the session, and for the layer itself. Called again with the same bytes, and
    /// perhaps more after them, until all were sent.
    fn seal<'a>(&'a mut self, plain: &'a [u8], shared: &'a mut Self::Shared) -> &'a [u8];

    /// Whether [`Layer::seal`] could not protect its input, because its keys have reached their limit.
    fn is_spent(&self) -> bool {
        false
    }

    /// The first `n` bytes that [`Layer::seal`] returned were sent; returns how many of the session's bytes that
    /// makes.
    fn sent(&mut self, n: usize, shared: &mut Self::Shared) -> usize;

    /// Whether it has something of its own to send.
    fn must_send(&self) -> bool;

    /// Takes received bytes; returns how many of the session's were in them, for [`Layer::plain`].
    fn unseal(&mut self, wire: &[u8], shared: &mut Self::Shared) -> Result<usize, AnswerError>;

    /// The session's bytes from the last [`Layer::unseal`].
    fn plain<'a>(&'a self, wire: &'a [u8], shared: &'a Self::Shared) -> &'a [u8];

    /// Sets how many bytes of the wire a link waits for, at first 1. Returns whether the number has changed.
    fn awaits(&mut self, _: u32) -> bool {
        false
    }

    /// Has [`Layer::seal`] announce that no more will be sent.
    fn close(&mut self);

    /// Whether the peer has announced that no more comes, so that there is no need to wait for the end of the stream.
    fn is_ended(&self) -> bool {
        false
    }

    /// Whether the stream may end here: the peer has announced it, or need not.
    fn may_end(&self) -> bool;
}

/// No layer.
#[derive(Debug, Default)]
pub(crate) struct Plain;

impl Layer for Plain {
    const IS_PLAIN: bool = true;

    type Shared = ();

    fn shared(_: &Plan, _: u32) {}

    #[inline]
    fn open(&mut self, _: u32, _: &Plan, (): &mut ()) {}

    #[inline]
    fn is_open(&self) -> bool {
        true
    }

    #[inline]
    fn is_agreed(&self) -> bool {
        true
    }

    #[inline]
    fn handshake(&mut self, _: &[u8], (): &mut ()) -> Result<usize, AnswerError> {
        Ok(0)
    }

    #[inline]
    fn take_agreed(&mut self, (): &()) -> Option<Handshake> {
        None
    }

    #[inline]
    fn seal<'a>(&'a mut self, plain: &'a [u8], (): &'a mut ()) -> &'a [u8] {
        plain
    }

    #[inline]
    fn sent(&mut self, n: usize, (): &mut ()) -> usize {
        n
    }

    #[inline]
    fn must_send(&self) -> bool {
        false
    }

    #[inline]
    fn unseal(&mut self, wire: &[u8], (): &mut ()) -> Result<usize, AnswerError> {
        Ok(wire.len())
    }

    #[inline]
    fn plain<'a>(&'a self, wire: &'a [u8], (): &'a ()) -> &'a [u8] {
        wire
    }

    #[inline]
    fn close(&mut self) {}

    #[inline]
    fn may_end(&self) -> bool {
        true
    }
}
