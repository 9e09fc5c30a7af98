//! The terminal as reports see it: its width, its character set, and colour by meaning instead of by number.

use webstone_measure::shown::shown;

use crate::Options;

/// The characters that a terminal can show.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Charset {
    /// Rules, markers and the micro sign from Unicode.
    #[default]
    Utf8,
    /// ASCII only, for terminals and files that know nothing else. Text from the record is escaped to it as well.
    Ascii,
}

/// What a piece of text is, for colouring.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Tone {
    #[default]
    Plain,
    /// Headings.
    Strong,
    /// Rules, units, what is read last.
    Faint,
    /// What is best: the peak.
    Good,
    /// What should be looked at.
    Caution,
    /// What makes the figures untrustworthy.
    Alarm,
}

/// A terminal of a width, a character set, and colour or none.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Screen {
    pub(crate) width: usize,
    color: bool,
    charset: Charset,
}

/// Strong, faint, good, caution, alarm.
const STYLES: [&str; 5] = ["\x1b[1m", "\x1b[2m", "\x1b[1;32m", "\x1b[33m", "\x1b[1;31m"];
const STYLE_END: &str = "\x1b[0m";

/// Below this a table has no room for its names and numbers at all.
const WIDTH_MIN: usize = 40;

impl Screen {
    pub(crate) fn new(options: &Options) -> Screen {
        Screen { width: options.width.max(WIDTH_MIN), color: options.color, charset: options.charset }
    }

    /// `text` in the colour of its tone.
    pub(crate) fn paint(&self, tone: Tone, text: &str) -> String {
        let style = match tone {
            Tone::Plain => return text.to_owned(),
            Tone::Strong => STYLES[0],
            Tone::Faint => STYLES[1],
            Tone::Good => STYLES[2],
            Tone::Caution => STYLES[3],
            Tone::Alarm => STYLES[4],
        };
        if !self.color || text.is_empty() {
            return text.to_owned();
        }
        format!("{style}{text}{STYLE_END}")
    }

    /// Makes text from the record safe to print: it comes from servers and files, and a control character in it
    /// could rewrite what the terminal already shows.
    pub(crate) fn safe(&self, text: &str) -> String {
        let safe = shown(text).into_owned();
        match self.charset {
            Charset::Utf8 => safe,
            Charset::Ascii => {
                let mut ascii = String::with_capacity(safe.len());
                for c in safe.chars() {
                    if c.is_ascii() { ascii.push(c) } else { ascii.extend(c.escape_unicode()) }
                }
                ascii
            }
        }
    }

    fn either(&self, utf8: &'static str, ascii: &'static str) -> &'static str {
        match self.charset {
            Charset::Utf8 => utf8,
            Charset::Ascii => ascii,
        }
    }

    pub(crate) fn rule(&self) -> &'static str {
        self.either("─", "-")
    }

    pub(crate) fn bar(&self) -> &'static str {
        self.either("━", "=")
    }

    pub(crate) fn limit(&self) -> &'static str {
        self.either("┊", "|")
    }

    pub(crate) fn dash(&self) -> &'static str {
        self.either("–", "-")
    }

    pub(crate) fn dot(&self) -> &'static str {
        self.either(" · ", ", ")
    }

    pub(crate) fn ellipsis(&self) -> &'static str {
        self.either("…", "...")
    }

    /// Before a lower bound, on the same line as it.
    pub(crate) fn at_least(&self) -> &'static str {
        self.either("≥\u{a0}", ">=")
    }

    pub(crate) fn plus_minus(&self) -> &'static str {
        self.either("±", "+-")
    }

    pub(crate) fn microseconds(&self) -> &'static str {
        self.either("µs", "us")
    }

    pub(crate) fn marker(&self) -> &'static str {
        self.either("▸", ">")
    }

    pub(crate) fn alarm(&self) -> &'static str {
        self.either("✗", "!!")
    }

    pub(crate) fn caution(&self) -> &'static str {
        "!"
    }
}

/// Length of the escape sequence that a text begins with, if it is one of [`Screen::paint`]'s; 0 otherwise.
pub(crate) fn style_length(text: &str) -> usize {
    let mut styles = STYLES.iter().chain([&STYLE_END]);
    styles.find(|style| text.starts_with(**style)).map_or(0, |style| style.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_from_a_server_cannot_command_the_terminal() {
        let screen = Screen::new(&Options::default());
        assert_eq!(screen.safe("a\x1b[2J\r\nb\u{202e}"), "a\\u{1b}[2J  b\\u{202e}");
        assert_eq!(screen.safe("größe"), "größe");
        let ascii = Screen::new(&Options { charset: Charset::Ascii, ..Options::default() });
        assert_eq!(ascii.safe("größe"), "gr\\u{f6}\\u{df}e");
    }

    #[test]
    fn without_colour_there_is_no_escape() {
        let plain = Screen::new(&Options::default());
        assert_eq!(plain.paint(Tone::Alarm, "x"), "x");
        let colored = Screen::new(&Options { color: true, ..Options::default() });
        assert_eq!(colored.paint(Tone::Alarm, "x"), "\x1b[1;31mx\x1b[0m");
        assert_eq!(colored.paint(Tone::Plain, "x"), "x");
    }
}
