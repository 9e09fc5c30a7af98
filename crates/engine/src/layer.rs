//! The boundary between a link's socket and its session. A [`Layer`] turns the session's bytes into the wire's and back: plain
//! ones pass as they are, sealed ones after a handshake. It has no I/O and no clock.
//!
//! The layer is fixed for a run, so a worker is compiled once for each. [`Plain`] is empty, and so is the code that calls it.

use webstone_measure::metrics::Handshake;

use crate::plan::Plan;
use crate::session::AnswerError;

/// See the module comment.
pub(crate) trait Layer: Default {
    /// The wire's bytes are the session's, so that a body may be thrown away in the kernel.
    const IS_PLAIN: bool;

    /// What the layers of a worker have together: what is prepared once, and buffers. What [`Layer::seal`] and [`Layer::plain`]
    /// give may lie there, so it is void when another link is asked for the same.
    type Shared;

    /// Made by the thread that runs the worker, before its clock starts. `slot` is the worker's first among those of all hosts.
    fn shared(plan: &Plan, slot: u32) -> Self::Shared;

    /// A connection to an origin begins, given by its number in the plan; what was known of the last is void.
    fn open(&mut self, origin: u32, plan: &Plan, shared: &mut Self::Shared);

    /// Whether the session's bytes may pass: from the start, or after a handshake.
    fn is_open(&self) -> bool;

    /// Whether its handshake has ended well, or there is none. Early data makes a layer open before that.
    fn is_agreed(&self) -> bool;

    /// Takes bytes that came before the layer was open, up to the end of the handshake: how many.
    fn handshake(&mut self, wire: &[u8], shared: &mut Self::Shared) -> Result<usize, AnswerError>;

    /// What was agreed on, once, as soon as a handshake has ended.
    fn take_agreed(&mut self, shared: &Self::Shared) -> Option<Handshake>;

    /// What is to be sent for bytes of the session, and for the layer itself. Asked again with the same bytes, and perhaps more
    /// after them, until all were sent.
    fn seal<'a>(&'a mut self, plain: &'a [u8], shared: &'a mut Self::Shared) -> &'a [u8];

    /// Whether [`Layer::seal`] could not seal what it was given, since its keys have sealed as much as they may.
    fn is_spent(&self) -> bool {
        false
    }

    /// The first `n` bytes of what [`Layer::seal`] gave were sent: how many of the session's bytes are thereby sent.
    fn sent(&mut self, n: usize, shared: &mut Self::Shared) -> usize;

    /// Whether it has something to send of its own accord.
    fn must_send(&self) -> bool;

    /// Takes bytes that came: how many of the session's were in them. [`Layer::plain`] has those.
    fn unseal(&mut self, wire: &[u8], shared: &mut Self::Shared) -> Result<usize, AnswerError>;

    /// The session's bytes in those that [`Layer::unseal`] was given last.
    fn plain<'a>(&'a self, wire: &'a [u8], shared: &'a Self::Shared) -> &'a [u8];

    /// Notes how many bytes of the wire a link waits for, 1 at first: whether that was another number before.
    fn awaits(&mut self, _: u32) -> bool {
        false
    }

    /// Has [`Layer::seal`] say that no more will be sent.
    fn close(&mut self);

    /// Whether the peer has announced that no more comes, so that there is no need to wait for the end of the stream below.
    fn is_ended(&self) -> bool {
        false
    }

    /// Whether the peer may end the stream here: it has said so, or need not.
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
