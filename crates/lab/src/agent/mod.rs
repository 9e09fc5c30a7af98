//! `webstone agent` on another host, started by whatever command the user names (`ssh web1 webstone agent`), spoken to over
//! its standard input and output. Nothing listens on a network; who may log in, and encryption, are the command's. When this
//! side dies, the stream closes and the agent ends.
//!
//! It has two roles. It *watches* a server on its own host: what is looked at, and how, is `window::Window`, here and there; an
//! agent is told of the same moments (a level starts, its window opens, its window closes) that the sweep tells its own
//! `Window` of. Or it *makes load*: the role itself is the runner's, which has what a load generator needs.
//!
//! `frames` is how messages travel, `messages` and `load` what they say, `serve` the agent, `process` this side's end of the
//! stream, `link` who has a server watched on a host, `servers` on all of its hosts, `generator` who has load made; `idle` keeps a container alive for agents to be started in it.

mod frames;
mod generator;
mod idle;
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
