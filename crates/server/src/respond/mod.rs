//! The handler `send` as a program of its own, for servers with external handlers: CGI, FastCGI, SCGI, uwsgi and the persistent handlers of
//! the reference server. So nothing has to be compiled or prepared by hand to measure an interface.
//!
//! A process answers one request at a time; several at once are several processes (`slots`). Nothing here is
//! asynchronous: between a request and its answer there is nothing to wait for.

mod answer;
mod cgi;
mod listening;
mod persistent;
mod protocol;
mod slots;

pub use cgi::respond_cgi;
pub use persistent::respond_persistent;
pub use slots::{RespondError, Responder, Slots, respond_listening, respond_slot};
