//! Settings that HTTP/2 clients send when a connection begins: our own, a browser's, or given by hand.

use std::fmt;
use std::str::FromStr;

use webstone_measure::units::parse_count;

/// Flow-control window that every connection begins with, in bytes (RFC 9113, section 6.9.2).
pub const CONNECTION_WINDOW: u32 = 65_535;
/// Largest window, in bytes.
const WINDOW_MAX: u32 = (1 << 31) - 1;
/// Smallest and largest SETTINGS_MAX_FRAME_SIZE, in bytes.
const FRAME: (u32, u32) = (1 << 14, (1 << 24) - 1);
/// Largest table that the load generator keeps for each connection, in bytes.
const HEADER_TABLE_MAX: u32 = 1 << 20;

/// SETTINGS of a client, and the window of its connections. A setting that is absent is not sent, so that the default
/// of RFC 9113 applies. Server push is always disabled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Http2Settings {
    /// SETTINGS_HEADER_TABLE_SIZE, in bytes.
    pub header_table: Option<u32>,
    /// SETTINGS_INITIAL_WINDOW_SIZE, in bytes: how much each stream may receive before a WINDOW_UPDATE.
    pub window: u32,
    /// SETTINGS_MAX_FRAME_SIZE, in bytes.
    pub frame: Option<u32>,
    /// SETTINGS_MAX_HEADER_LIST_SIZE, in bytes: advice for the server, not enforced here.
    pub header_list: Option<u32>,
    /// The same as `window` for a whole connection, in bytes; a WINDOW_UPDATE after the SETTINGS enlarges it.
    pub connection_window: u32,
}

impl Default for Http2Settings {
    /// Windows so large that they delay no answer.
    fn default() -> Http2Settings {
        let window = (1 << 30) - 1;
        Http2Settings {
            header_table: None,
            window,
            frame: None,
            header_list: None,
            connection_window: window,
        }
    }
}

impl Http2Settings {
    /// Those of Chrome since version 117 (2023), without its reserved settings with changing identifiers.
    pub const CHROME: Http2Settings = Http2Settings {
        header_table: Some(65_536),
        window: 6_291_456,
        frame: None,
        header_list: Some(262_144),
        connection_window: CONNECTION_WINDOW + 15_663_105,
    };
    /// Those of Firefox since version 120 (2023).
    pub const FIREFOX: Http2Settings = Http2Settings {
        header_table: Some(65_536),
        window: 131_072,
        frame: Some(16_384),
        header_list: None,
        connection_window: CONNECTION_WINDOW + 12_517_377,
    };
    /// The presets, by name.
    pub const PRESETS: [(&str, Http2Settings); 2] =
        [("chrome", Http2Settings::CHROME), ("firefox", Http2Settings::FIREFOX)];

    /// Whether they are those of a run that does not set any.
    pub fn is_default(&self) -> bool {
        *self == Http2Settings::default()
    }

    /// In words: the name of the preset if they equal one, and every value.
    pub fn in_words(&self) -> String {
        let preset = Http2Settings::PRESETS.into_iter().find(|(_, preset)| preset == self);
        match preset {
            Some((name, _)) => format!("those of {name} ({self})"),
            None => self.to_string(),
        }
    }
}

impl fmt::Display for Http2Settings {
    /// In the form that [`Http2Settings::from_str`] reads, with every value that is sent.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let optional =
            [("header-table", self.header_table), ("frame", self.frame), ("header-list", self.header_list)];
        for (name, value) in optional {
            if let Some(value) = value {
                write!(f, "{name}={value},")?;
            }
        }
        write!(f, "window={},connection-window={}", self.window, self.connection_window)
    }
}

/// Why a text is not a list of settings.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{text}`: {rule}; write chrome, firefox, or values in bytes, as in header-table=65536,window=131072,frame=16384,\
     header-list=262144,connection-window=12582912"
)]
pub struct Http2SettingsError {
    text: String,
    rule: String,
}

impl FromStr for Http2Settings {
    type Err = Http2SettingsError;

    fn from_str(text: &str) -> Result<Http2Settings, Http2SettingsError> {
        let error = |rule: String| Http2SettingsError { text: text.to_owned(), rule };
        if let Some((_, preset)) = Http2Settings::PRESETS.into_iter().find(|(name, _)| *name == text.trim()) {
            return Ok(preset);
        }
        let mut settings = Http2Settings::default();
        let mut seen = Vec::new();
        for part in text.split(',').map(str::trim) {
            let (name, value) = part
                .split_once('=')
                .ok_or_else(|| error(format!("`{part}` is neither a browser nor a value")))?;
            let (least, most) = match name {
                "header-table" => (0, HEADER_TABLE_MAX),
                "window" => (1, WINDOW_MAX),
                "frame" => FRAME,
                "header-list" => (1, u32::MAX),
                "connection-window" => (CONNECTION_WINDOW, WINDOW_MAX),
                _ => return Err(error(format!("there is no setting `{name}`"))),
            };
            if seen.contains(&name) {
                return Err(error(format!("{name} is given twice")));
            }
            seen.push(name);
            let bytes = parse_count(value).ok().and_then(|bytes| u32::try_from(bytes).ok());
            let bytes = bytes.filter(|bytes| (least..=most).contains(bytes)).ok_or_else(|| {
                error(format!("{name} is `{value}`, which is not a number of bytes from {least} to {most}"))
            })?;
            match name {
                "header-table" => settings.header_table = Some(bytes),
                "window" => settings.window = bytes,
                "frame" => settings.frame = Some(bytes),
                "header-list" => settings.header_list = Some(bytes),
                _ => settings.connection_window = bytes,
            }
        }
        Ok(settings)
    }
}

webstone_measure::as_text!(
    Http2Settings,
    "Http2Settings",
    "SETTINGS of HTTP/2 clients and the window of their connections, in bytes: \
                header-table=65536,window=131072,connection-window=12582912; what is not sent is absent"
);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_read_back_as_they_are_written() {
        for (text, written) in [
            ("window=100", "window=100,connection-window=1073741823"),
            ("connection-window=65535", "window=1073741823,connection-window=65535"),
            ("chrome", "header-table=65536,header-list=262144,window=6291456,connection-window=15728640"),
            ("firefox", "header-table=65536,frame=16384,window=131072,connection-window=12582912"),
            (
                "frame=1m, header-table=0",
                "header-table=0,frame=1000000,window=1073741823,connection-window=1073741823",
            ),
        ] {
            let settings: Http2Settings = text.parse().unwrap();
            assert_eq!(settings.to_string(), written, "{text}");
            assert_eq!(written.parse(), Ok(settings), "{text}");
            assert_eq!(serde_json::to_value(settings).unwrap(), written);
            assert_eq!(serde_json::from_value::<Http2Settings>(written.into()).unwrap(), settings);
        }
        assert!(Http2Settings::default().is_default() && !Http2Settings::CHROME.is_default());
        assert!(Http2Settings::CHROME.in_words().starts_with("those of chrome (header-table=65536,"));
    }

    #[test]
    fn invalid_settings_name_the_rule_they_break() {
        for (text, rule) in [
            ("safari", "`safari` is neither a browser nor a value"),
            ("windows=1", "there is no setting `windows`"),
            ("window=0", "window is `0`, which is not a number of bytes from 1 to 2147483647"),
            ("window=2147483648", "not a number of bytes from 1 to 2147483647"),
            ("connection-window=65534", "from 65535 to 2147483647"),
            ("frame=16383", "from 16384 to 16777215"),
            ("header-table=lots", "header-table is `lots`, which is not a number"),
            ("window=1,window=2", "window is given twice"),
            ("", "`` is neither"),
        ] {
            let error = text.parse::<Http2Settings>().unwrap_err().to_string();
            assert!(error.contains(rule) && error.contains("; write chrome, firefox, or"), "{text}: {error}");
        }
    }
}
