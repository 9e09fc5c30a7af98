//! Watching a server on its own host: `webstone agent` there, started by whatever command the user names (`ssh web1 webstone
//! agent`), spoken to over its standard input and output. Nothing listens on a network; who may log in, and encryption, are
//! the command's. When this side dies, the stream closes and the agent ends.
//!
//! What is looked at, and how, is `window::Window`, here and there: an agent is told of the same moments (a level starts, its
//! window opens, its window closes) that the sweep tells its own `Window` of, and answers with what that gives. `frames`
//! is how messages travel, `messages` what they say, `serve` the agent, `link` this side.

mod frames;
mod link;
mod messages;
mod serve;
mod understood;

pub use link::AgentError;
pub use link::{Elsewhere, ServerAgent, Setting};
pub use messages::PROTOCOL;
pub use serve::{ServeError, serve};
pub use understood::{Understood, understood};
