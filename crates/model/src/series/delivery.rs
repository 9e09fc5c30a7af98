//! What a cell's answers come from: files, or a program through an interface.

use std::fmt;
use std::str::FromStr;

use crate::interfaces::Interface;

/// What the server of a cell answers with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Delivery {
    /// Files.
    Static,
    /// The handler `send`, through an interface.
    Dynamic(Interface),
}

impl Delivery {
    /// Its name on the command line and in files: `static`, or the interface's.
    pub fn name(self) -> &'static str {
        match self {
            Delivery::Static => "static",
            Delivery::Dynamic(interface) => interface.name(),
        }
    }

    /// The interface, if there is one.
    pub fn interface(self) -> Option<Interface> {
        match self {
            Delivery::Static => None,
            Delivery::Dynamic(interface) => Some(interface),
        }
    }
}

impl fmt::Display for Delivery {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Why a text is neither `static` nor the name of an interface.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is not an interface; write static, or one of {names}", names = Interface::ALL.map(Interface::name).join(", "))]
pub struct DeliveryError {
    text: String,
}

impl FromStr for Delivery {
    type Err = DeliveryError;

    fn from_str(text: &str) -> Result<Delivery, DeliveryError> {
        if text == Delivery::Static.name() {
            return Ok(Delivery::Static);
        }
        text.parse().map(Delivery::Dynamic).map_err(|_| DeliveryError { text: text.to_owned() })
    }
}

webstone_measure::as_text!(
    Delivery,
    "Delivery",
    "What a cell of a series answers with: `static` for files, or an interface.",
    "enum": std::iter::once(Delivery::Static).chain(Interface::ALL.map(Delivery::Dynamic)).map(Delivery::name).collect::<Vec<_>>()
);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_the_same_in_files_and_options() {
        for name in ["static", "cgi", "php-fpm"] {
            let delivery: Delivery = name.parse().unwrap();
            assert_eq!(serde_json::to_value(delivery).unwrap(), name);
            assert_eq!(serde_json::from_value::<Delivery>(name.into()).unwrap(), delivery);
        }
        assert_eq!("fastcgi".parse(), Ok(Delivery::Dynamic(Interface::Fastcgi)));
        assert!(
            "files".parse::<Delivery>().unwrap_err().to_string().starts_with("`files` is not an interface")
        );
    }
}
