//! Interfaces between a server and the handler `send`: the ways in which servers have programs answer.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

webstone_measure::named! {
    /// How a server answers `/send`.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
    #[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
    #[serde(rename_all = "kebab-case")]
    Interface:
    /// By its own handler, in the reference server.
    Native "native",
    /// CGI/1.1: a process for each request.
    Cgi "cgi",
    /// FastCGI, with webstone's responder: a process for each request slot.
    Fastcgi "fastcgi",
    /// The persistent protocol of the reference server, after WASD's CGIplus.
    Persistent "persistent",
    /// PHP, through FastCGI and PHP-FPM.
    PhpFpm "php-fpm",
    /// SCGI, with webstone's responder.
    Scgi "scgi",
    /// The protocol of uwsgi, with webstone's responder.
    Uwsgi "uwsgi",
    /// A module in C within the server.
    Module "module",
    /// Lua within the server.
    Lua "lua",
    /// JavaScript within the server.
    Njs "njs",
    /// A Python application (ASGI, uvicorn), with the server as a proxy.
    Asgi "asgi",
    /// A Node application, with the server as a proxy.
    Node "node",
}

impl Interface {
    /// What it is, in a few words.
    pub fn summary(self) -> &'static str {
        match self {
            Interface::Native => "the reference server itself",
            Interface::Cgi => "CGI/1.1, a process for each request",
            Interface::Fastcgi => "FastCGI, a process for each request slot",
            Interface::Persistent => "processes that stay, as WASD's CGIplus",
            Interface::PhpFpm => "PHP behind FastCGI (PHP-FPM)",
            Interface::Scgi => "SCGI, a process for each request slot",
            Interface::Uwsgi => "uwsgi's protocol, a process for each request slot",
            Interface::Module => "a module in C, within the server",
            Interface::Lua => "Lua, within the server",
            Interface::Njs => "JavaScript, within the server",
            Interface::Asgi => "Python (ASGI, uvicorn) behind the server as a proxy",
            Interface::Node => "Node behind the server as a proxy",
        }
    }
}

impl fmt::Display for Interface {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Why a text is not the name of an interface.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is not an interface; write one of {names}", names = Interface::ALL.map(Interface::name).join(", "))]
pub struct InterfaceError {
    text: String,
}

impl FromStr for Interface {
    type Err = InterfaceError;

    fn from_str(text: &str) -> Result<Interface, InterfaceError> {
        let found = Interface::ALL.into_iter().find(|interface| interface.name() == text);
        found.ok_or_else(|| InterfaceError { text: text.to_owned() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_the_same_everywhere() {
        for interface in Interface::ALL {
            assert_eq!(interface.name().parse(), Ok(interface));
            let written = toml::Value::try_from(interface).unwrap();
            assert_eq!(written.as_str(), Some(interface.name()), "files use the same name");
        }
        let message = "isapi".parse::<Interface>().unwrap_err().to_string();
        assert!(message.contains("`isapi`") && message.contains("native, cgi"), "{message}");
    }
}
