//! `webstone respond`: the handler `send` as a separate program, for servers that run handlers as other processes.
//! Not for people; it is started by configurations that `run --server-interface` writes, and by `serve --interface`.
//!
//! As CGI it is started for each request, so it is recognised before the command line is parsed, and the code here is
//! then all that is executed. It is also recognised by the name `send.cgi`, because servers start CGI programs
//! without arguments.

use std::ffi::OsString;
use std::path::Path;
use std::process::ExitCode;

use webstone_server::{Responder, Slots, respond_cgi, respond_listening, respond_persistent, respond_slot};

use crate::args::{RespondArgs, RespondProtocol};
use crate::console;
use crate::failure::{Exit, Failure};

/// Name of the executable as a CGI program.
const CGI_NAME: &str = "send.cgi";

/// Runs as the CGI program, if it was started as such.
pub(crate) fn as_cgi(arguments: &[OsString]) -> Option<ExitCode> {
    let is_cgi = match arguments {
        [program, ..] if Path::new(program).file_name().is_some_and(|name| name == CGI_NAME) => true,
        [_, respond, protocol] => respond == "respond" && protocol == "cgi",
        _ => false,
    };
    is_cgi.then(|| match respond_cgi() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            console::complain(Failure::failed(format!("respond cgi: {error}")));
            ExitCode::FAILURE
        }
    })
}

pub(super) fn execute(args: RespondArgs) -> Result<Exit, Failure> {
    let RespondArgs { protocol, listen, processes, beneath } = args;
    let failed = |error: std::io::Error| Failure::failed(format!("respond: {error}"));
    let responder = match protocol {
        RespondProtocol::Cgi => return respond_cgi().map(|()| Exit::Done).map_err(failed),
        RespondProtocol::Persistent => return respond_persistent().map(|()| Exit::Done).map_err(failed),
        RespondProtocol::Fastcgi => Responder::FastCgi,
        RespondProtocol::Scgi => Responder::Scgi,
        RespondProtocol::Uwsgi => Responder::Uwsgi,
    };
    let Some(listen) = listen else {
        return respond_slot(responder, beneath).map(|()| Exit::Done).map_err(|error| {
            failed(error).hint("standard input must be a listening socket; --listen opens one by itself")
        });
    };
    let program = std::env::current_exe().map_err(failed)?;
    let slots = Slots { responder, listen, processes: processes.unwrap_or(1), program };
    match respond_listening(&slots) {
        Ok(never) => match never {},
        Err(error) => Err(Failure::failed(format!("respond: {error}"))),
    }
}
