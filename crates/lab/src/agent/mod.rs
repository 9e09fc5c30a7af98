//! `webstone agent` on another host, started by whatever command the user names (`ssh web1 webstone agent`), over its standard
//! input and output. Nothing listens on a network; the command provides login and encryption. When this side dies, the stream
//! closes and the agent ends.
//!
//! It has two roles. It *watches* a server on its own host by `window::Window`, as a run does on its own; an agent is notified of the
//! same events (a level starts, its window opens, a slice of it ends, it closes) as the sweep's own `Window`. Or it *makes load*: that role
//! is in the runner, which has the load generator.
//!
//! `frames` carries messages, `messages` and `load` define them, `serve` is the agent, `process` this side's end of the stream, `link` an
//! agent that watches a server on a host, `level_watch` what it says of a level, `servers` those on all of its hosts, `generator` an agent
//! that makes load; `idle` keeps a container alive in which agents are started.

mod frames;
mod generator;
mod idle;
mod level_watch;
mod link;
pub mod load;
mod messages;
mod process;
mod serve;
mod servers;
mod understood;

pub use frames::Payload;
pub use generator::{GeneratorAgent, Heard, Heartbeat, listen};
pub use idle::wait as wait_for_use;
pub use messages::PROTOCOL;
pub use process::AgentError;
pub use serve::{LEASE, LoadRole, ServeError, Voice, WAITING_MAX, serve};
pub use servers::{Described, OnHosts, ServerAgents, Watched};
pub use understood::{Understood, understood};
