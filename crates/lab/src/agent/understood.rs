//! How either side reads a stream of bytes, without acting on it: for the fuzzer, which has no agent and no server.

use std::io::Read;

use serde::de::DeserializeOwned;

use super::frames::{FrameError, Frames, greeted};
use super::messages::{Answer, Ask, Numbered};

/// What a stream contained.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Understood {
    /// Whether it began with a greeting.
    pub greeted: bool,
    /// Messages that were read.
    pub messages: usize,
    /// Why there are no more, as it would be told.
    pub ended_by: String,
}

/// Reads a greeting and messages to the end of a stream or the first invalid one: those that an agent sends, or those that it
/// gets.
pub fn understood(stream: &[u8], from_agent: bool) -> Understood {
    let mut input = stream;
    let greeted = greeted(&mut input);
    let (messages, error) = match (&greeted, from_agent) {
        (Err(error), _) => (0, error.to_string()),
        (Ok(_), true) => read::<Answer>(&mut input),
        (Ok(_), false) => read::<Ask>(&mut input),
    };
    Understood { greeted: greeted.is_ok(), messages, ended_by: error }
}

fn read<T: DeserializeOwned>(input: &mut impl Read) -> (usize, String) {
    let mut messages = 0;
    let mut frames = Frames::new(input);
    loop {
        let message: Result<(Numbered<T>, _), FrameError> = frames.next_with(|_| true);
        match message {
            Ok(_) => messages += 1,
            Err(error) => return (messages, error.to_string()),
        }
    }
}
