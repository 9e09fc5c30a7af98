//! What comes over an agent's stream: a greeting, then messages in frames. The first byte chooses which side reads.

use webstone_lab::agent::understood;

/// Reading always ends with the stream, and no message is made of more bytes than came.
pub(crate) fn agent(data: &[u8]) {
    let Some((side, stream)) = data.split_first() else { return };
    let read = understood(stream, side & 1 == 1);
    // A frame has four bytes of length before what it says.
    assert!(read.messages * 5 <= stream.len(), "{} messages in {} bytes", read.messages, stream.len());
    assert!(read.ended_by.chars().all(|c| !c.is_control()), "{:?} would reach a terminal", read.ended_by);
}
