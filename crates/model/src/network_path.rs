//! The path between clients and a server that webstone starts: its round-trip time, what it loses, its rate. As text it is
//! `rtt=20ms,loss=1%`, on the command line and in files alike.

use std::fmt;
use std::str::FromStr;

use webstone_measure::units::{Bandwidth, Nanos};
use webstone_workload::tls::Share;

/// Longest round-trip time, in nanoseconds: packets of a path are kept in memory.
const RTT_NS_MAX: u64 = 10_000_000_000;
/// Most that may be lost, in percent: with more, connections are not made.
const LOSS_PERCENT_MAX: f64 = 50.0;

/// A path, the same both ways.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PathSpec {
    /// Its round-trip time: half of it is the delay of each packet.
    pub rtt: Nanos,
    /// How much longer a packet may take each way, drawn evenly from zero to this.
    pub jitter: Nanos,
    /// The share of packets that is lost each way, at random.
    pub loss: Share,
    /// How many bits per second it carries each way; `None`: as many as the relay can.
    pub rate: Option<Bandwidth>,
}

impl PathSpec {
    /// The delay of each packet, each way.
    pub fn delay(self) -> Nanos {
        Nanos(self.rtt.0 / 2)
    }

    /// `20ms RTT, 1 % of packets lost each way, 10 Mbit/s`.
    pub fn in_words(self) -> String {
        let lost = match self.loss {
            Share::NONE => "no loss".to_owned(),
            share => format!("{} % of packets lost each way", share.percent()),
        };
        let jitter = match self.jitter {
            Nanos::ZERO => String::new(),
            jitter => format!(", up to {jitter} more each way"),
        };
        let rate = self.rate.map_or(String::new(), |rate| format!(", {} each way", rate.in_words()));
        format!("{} RTT{jitter}, {lost}{rate}", self.rtt)
    }
}

/// The path of a cell of a series.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PathChoice {
    /// None: this host's loopback.
    Off,
    /// A relay's.
    Over(PathSpec),
}

impl PathChoice {
    /// The relay's path.
    pub fn path(self) -> Option<PathSpec> {
        match self {
            PathChoice::Off => None,
            PathChoice::Over(path) => Some(path),
        }
    }

    /// As in the name of a cell, which is part of a file name: `path-off`, `rtt20ms-loss1`.
    pub(crate) fn in_name(self) -> String {
        match self {
            PathChoice::Off => "path-off".to_owned(),
            PathChoice::Over(path) => path.to_string().replace(['=', '%'], "").replace(',', "-"),
        }
    }

    /// Among other words: `no path`, `rtt=20ms,loss=1%`.
    pub fn in_words(self) -> String {
        match self {
            PathChoice::Off => "no path".to_owned(),
            PathChoice::Over(path) => path.to_string(),
        }
    }
}

impl fmt::Display for PathChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PathChoice::Off => f.write_str("off"),
            PathChoice::Over(path) => path.fmt(f),
        }
    }
}

impl FromStr for PathChoice {
    type Err = PathError;

    fn from_str(text: &str) -> Result<PathChoice, PathError> {
        if text == "off" { Ok(PathChoice::Off) } else { text.parse().map(PathChoice::Over) }
    }
}

/// Why a text is not a path.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is not a path: {rule}; write it as in rtt=20ms,loss=1% or rtt=50ms,rate=10m")]
pub struct PathError {
    text: String,
    rule: String,
}

impl FromStr for PathSpec {
    type Err = PathError;

    fn from_str(text: &str) -> Result<PathSpec, PathError> {
        let error = |rule: String| PathError { text: text.to_owned(), rule };
        let (mut rtt, mut jitter, mut loss, mut rate) = (None, None, None, None);
        let time = |value: &str| value.parse::<Nanos>().map_err(|it| error(it.to_string()));
        for part in text.split(',').map(str::trim) {
            let (key, value) = part.split_once('=').ok_or_else(|| error(format!("`{part}` has no =")))?;
            let (key, value) = (key.trim(), value.trim());
            let is_new = match key {
                "rtt" => rtt.replace(time(value)?).is_none(),
                "jitter" => jitter.replace(time(value)?).is_none(),
                "loss" => loss.replace(value.parse::<Share>().map_err(|it| error(it.to_string()))?).is_none(),
                "rate" => {
                    rate.replace(value.parse::<Bandwidth>().map_err(|it| error(it.to_string()))?).is_none()
                }
                _ => return Err(error(format!("`{key}` is not one of rtt, jitter, loss, rate"))),
            };
            if !is_new {
                return Err(error(format!("{key} is there twice")));
            }
        }
        let rtt = rtt.ok_or_else(|| error("rtt is missing".to_owned()))?;
        let jitter = jitter.unwrap_or(Nanos::ZERO);
        for (what, time) in [("an RTT", rtt), ("a jitter", jitter)] {
            if time.0 > RTT_NS_MAX {
                return Err(error(format!("{what} of {time} is more than {}", Nanos(RTT_NS_MAX))));
            }
        }
        let loss = loss.unwrap_or(Share::NONE);
        if loss.percent() > LOSS_PERCENT_MAX {
            return Err(error(format!("a loss of {loss} is more than {LOSS_PERCENT_MAX}%")));
        }
        Ok(PathSpec { rtt, jitter, loss, rate })
    }
}

impl fmt::Display for PathSpec {
    /// The form that [`PathSpec::from_str`] reads.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "rtt={}", self.rtt)?;
        if self.jitter != Nanos::ZERO {
            write!(f, ",jitter={}", self.jitter)?;
        }
        if self.loss != Share::NONE {
            write!(f, ",loss={}", self.loss)?;
        }
        self.rate.map_or(Ok(()), |rate| write!(f, ",rate={rate}"))
    }
}

webstone_measure::as_text!(
    PathSpec,
    "PathSpec",
    "A path: its round-trip time, how much longer packets may take, what it loses, and its rate, each way: rtt=20ms,jitter=2ms,loss=1%,rate=10m"
);

webstone_measure::as_text!(PathChoice, "PathChoice", "A path, as in rtt=20ms,loss=1%, or off");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_reads_back_as_it_is_written() {
        for (text, shown, name) in [
            ("rtt=20ms,loss=1%", "rtt=20ms,loss=1%", "rtt20ms-loss1"),
            ("loss=0.5, rtt=1.5ms", "rtt=1500us,loss=0.5%", "rtt1500us-loss0.5"),
            ("rtt=0", "rtt=0s", "rtt0s"),
            ("loss=1%,jitter=2ms,rtt=20ms", "rtt=20ms,jitter=2ms,loss=1%", "rtt20ms-jitter2ms-loss1"),
            ("rtt=50ms,rate=10m,loss=0,jitter=0", "rtt=50ms,rate=10m", "rtt50ms-rate10m"),
        ] {
            let path: PathSpec = text.parse().unwrap();
            assert_eq!((path.to_string().as_str(), PathChoice::Over(path).in_name().as_str()), (shown, name));
            assert_eq!(serde_json::from_value::<PathSpec>(shown.into()).unwrap(), path);
            assert_eq!(shown.parse(), Ok(PathChoice::Over(path)));
        }
        assert_eq!("off".parse(), Ok(PathChoice::Off));
        let path: PathSpec = "rtt=20ms,loss=1%,rate=10m".parse().unwrap();
        assert_eq!(path.in_words(), "20ms RTT, 1 % of packets lost each way, 10 Mbit/s each way");
        assert_eq!(path.delay(), Nanos(10_000_000));
        let path: PathSpec = "rtt=20ms,jitter=2ms".parse().unwrap();
        assert_eq!(path.in_words(), "20ms RTT, up to 2ms more each way, no loss");
    }

    #[test]
    fn what_is_wrong_with_a_path_is_named() {
        for (text, rule) in [
            ("20ms", "`20ms` has no ="),
            ("loss=1%", "rtt is missing"),
            ("rtt=1ms,rtt=2ms", "rtt is there twice"),
            ("rtt=1ms,reorder=1%", "`reorder` is not one of rtt, jitter, loss, rate"),
            ("rtt=1ms,jitter=11s", "a jitter of 11s is more than 10s"),
            ("rtt=11s", "more than 10s"),
            ("rtt=1ms,loss=60%", "more than 50%"),
            ("rtt=fast", "fast"),
            ("rtt=1ms,loss=half", "half"),
            ("rtt=1ms,rate=1", "1"),
        ] {
            let message = text.parse::<PathSpec>().unwrap_err().to_string();
            assert!(
                message.starts_with(&format!("`{text}` is not a path: ")) && message.contains(rule),
                "{message}"
            );
        }
    }
}
