//! The command line of the comparison.

use std::path::PathBuf;

use crate::modes::Mode;

/// What `--help` prints.
pub const HELP: &str = "\
usage: webstone-benchsuite [options]

  --rounds N         rounds, each with one run of every tool (9)
  --seconds N        length of a run (3)
  --modes LIST       of keep-alive, per-request, large, standard (all)
  --tools LIST       of webstone, webstone-reset, wrk, ab, h2load, oha, hey, k6 (all that are installed)
  --webstone PATH    the program to measure (built from this tree)
  --server-cpu N     CPU of nginx (0)
  --client-cpu N     CPU of the load generators (1)
  --output DIR       where records are kept (benchsuite/runs)

exit codes: 0 every bar that was measured is met, 1 something failed, 2 usage, 3 a bar is missed
";

/// What was asked for.
#[derive(Clone, Debug, PartialEq)]
pub struct Arguments {
    /// Rounds.
    pub rounds: u32,
    /// Length of a run, in seconds.
    pub seconds: u64,
    /// Modes, in order.
    pub modes: Vec<Mode>,
    /// Names of tools; empty: all.
    pub tools: Vec<String>,
    /// The program to measure.
    pub webstone: Option<PathBuf>,
    /// CPU of the server.
    pub server_cpu: u32,
    /// CPU of the clients.
    pub client_cpu: u32,
    /// Where records are kept.
    pub output: Option<PathBuf>,
}

impl Arguments {
    /// Reads the words of a command line; `None` where help is asked for.
    pub fn parse(words: impl Iterator<Item = String>) -> Result<Option<Arguments>, String> {
        let mut arguments = Arguments {
            rounds: 9,
            seconds: 3,
            modes: Mode::ALL.to_vec(),
            tools: Vec::new(),
            webstone: None,
            server_cpu: 0,
            client_cpu: 1,
            output: None,
        };
        let mut words = words;
        while let Some(option) = words.next() {
            if matches!(option.as_str(), "--help" | "-h") {
                return Ok(None);
            }
            let known = [
                "--rounds",
                "--seconds",
                "--modes",
                "--tools",
                "--webstone",
                "--server-cpu",
                "--client-cpu",
                "--output",
            ];
            if !known.contains(&option.as_str()) {
                return Err(format!("`{option}` is not an option"));
            }
            let value = words.next().ok_or_else(|| format!("{option} needs a value"))?;
            match option.as_str() {
                "--rounds" => arguments.rounds = number(&option, &value, 1, 1000)? as u32,
                "--seconds" => arguments.seconds = number(&option, &value, 1, 3600)?,
                "--server-cpu" => arguments.server_cpu = number(&option, &value, 0, 4095)? as u32,
                "--client-cpu" => arguments.client_cpu = number(&option, &value, 0, 4095)? as u32,
                "--modes" => arguments.modes = value.split(',').map(mode).collect::<Result<_, _>>()?,
                "--tools" => arguments.tools = value.split(',').map(|name| name.trim().to_owned()).collect(),
                "--webstone" => arguments.webstone = Some(value.into()),
                _ => arguments.output = Some(value.into()),
            }
        }
        Ok(Some(arguments))
    }
}

fn number(option: &str, value: &str, least: u64, most: u64) -> Result<u64, String> {
    let number = value.parse::<u64>().ok().filter(|number| (least..=most).contains(number));
    number.ok_or_else(|| format!("{option} {value}: not a number from {least} to {most}"))
}

fn mode(name: &str) -> Result<Mode, String> {
    let name = name.trim();
    let known = || Mode::ALL.map(Mode::name).join(", ");
    Mode::ALL
        .into_iter()
        .find(|mode| mode.name() == name)
        .ok_or_else(|| format!("--modes: `{name}` is none of {}", known()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Option<Arguments>, String> {
        Arguments::parse(text.split_whitespace().map(str::to_owned))
    }

    #[test]
    fn options_are_read() {
        let arguments =
            parse("--rounds 2 --seconds 1 --modes large,keep-alive --tools wrk,ab --client-cpu 3")
                .unwrap()
                .unwrap();
        assert_eq!((arguments.rounds, arguments.seconds, arguments.client_cpu), (2, 1, 3));
        assert_eq!(arguments.modes, [Mode::Large, Mode::KeepAlive]);
        assert_eq!(arguments.tools, ["wrk", "ab"]);
        assert_eq!(parse("--help"), Ok(None));
    }

    #[test]
    fn wrong_options_name_themselves() {
        for (text, part) in [
            ("--round 3", "`--round` is not an option"),
            ("--rounds", "needs a value"),
            ("--rounds 0", "from 1 to 1000"),
            ("--seconds x", "--seconds x"),
            ("--modes fast", "`fast` is none of keep-alive"),
        ] {
            let error = parse(text).unwrap_err();
            assert!(error.contains(part), "{error}");
        }
    }
}
