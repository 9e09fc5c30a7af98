//! The command line of the comparison.

use std::path::PathBuf;

use crate::modes::{Mode, Server};

/// What `--help` prints.
pub const HELP: &str = "\
usage: webstone-benchsuite [options]

  --rounds N         rounds, each with one run of every tool (9)
  --seconds N        length of a run (3)
  --modes LIST       of keep-alive, per-request, large, standard, scale, workers, pacing, https-keep-alive, https-full,
                     https-resumed, https-large, https-scale, h2-64x1, h2-8x10, h2-1x100, h2c-64x1, h2c-8x10, h2c-1x100 (all)
  --servers LIST     of nginx, nginx-shared, canned (all)
  --tools LIST       of webstone, webstone-reset, webstone-size, webstone-content, webstone-bare, webstone-before,
                     webstone-spin, webstone-insecure, floor, floor-reset, floor-content, wrk, ab, h2load, oha, hey, k6 (all that are
                     installed)
  --webstone PATH    the program to measure (built from this tree)
  --baseline-webstone PATH
                     webstone built with --cfg webstone_without_statistics, measured as webstone-bare; `build` builds it
                     (left out)
  --webstone-before PATH
                     webstone of another commit, measured as webstone-before in the same rounds (left out)
  --server-cpu N     CPU of the server (0)
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
    /// Servers, in order.
    pub servers: Vec<Server>,
    /// Names of tools; empty: all.
    pub tools: Vec<String>,
    /// The program to measure.
    pub webstone: Option<PathBuf>,
    /// The program without statistics.
    pub baseline: Option<Baseline>,
    /// The program as it was before.
    pub before: Option<PathBuf>,
    /// CPU of the server.
    pub server_cpu: u32,
    /// CPU of the clients.
    pub client_cpu: u32,
    /// Where records are kept.
    pub output: Option<PathBuf>,
}

/// Where the program without statistics comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Baseline {
    /// It is built from this tree.
    Build,
    /// It is there.
    At(PathBuf),
}

impl Arguments {
    /// Reads the words of a command line; `None` where help is asked for.
    pub fn parse(mut words: impl Iterator<Item = String>) -> Result<Option<Arguments>, String> {
        let mut arguments = Arguments {
            rounds: 9,
            seconds: 3,
            modes: Mode::ALL.to_vec(),
            servers: Server::ALL.to_vec(),
            tools: Vec::new(),
            webstone: None,
            baseline: None,
            before: None,
            server_cpu: 0,
            client_cpu: 1,
            output: None,
        };
        while let Some(option) = words.next() {
            let mut value = || words.next().ok_or_else(|| format!("{option} needs a value"));
            match option.as_str() {
                "--help" | "-h" => return Ok(None),
                "--rounds" => arguments.rounds = number(&option, &value()?, 1, 1000)? as u32,
                "--seconds" => arguments.seconds = number(&option, &value()?, 1, 3600)?,
                "--server-cpu" => arguments.server_cpu = number(&option, &value()?, 0, 4095)? as u32,
                "--client-cpu" => arguments.client_cpu = number(&option, &value()?, 0, 4095)? as u32,
                "--modes" => arguments.modes = list(&option, &value()?, &Mode::ALL.map(|m| (m.name(), m)))?,
                "--servers" => {
                    arguments.servers = list(&option, &value()?, &Server::ALL.map(|s| (s.name(), s)))?;
                }
                "--tools" => {
                    arguments.tools = value()?.split(',').map(|name| name.trim().to_owned()).collect();
                }
                "--webstone" => arguments.webstone = Some(value()?.into()),
                "--webstone-before" => arguments.before = Some(value()?.into()),
                "--baseline-webstone" => {
                    let value = value()?;
                    let built = value == "build";
                    arguments.baseline =
                        Some(if built { Baseline::Build } else { Baseline::At(value.into()) });
                }
                "--output" => arguments.output = Some(value()?.into()),
                _ => return Err(format!("`{option}` is not an option")),
            }
        }
        Ok(Some(arguments))
    }
}

fn number(option: &str, value: &str, least: u64, most: u64) -> Result<u64, String> {
    let number = value.parse::<u64>().ok().filter(|number| (least..=most).contains(number));
    number.ok_or_else(|| format!("{option} {value}: not a number from {least} to {most}"))
}

/// Names separated by commas, each one of those known.
fn list<T: Copy + PartialEq>(option: &str, value: &str, known: &[(&str, T)]) -> Result<Vec<T>, String> {
    let mut found = Vec::new();
    for name in value.split(',').map(str::trim) {
        let Some((_, item)) = known.iter().find(|(known, _)| *known == name) else {
            let names: Vec<&str> = known.iter().map(|(name, _)| *name).collect();
            return Err(format!("{option}: `{name}` is none of {}", names.join(", ")));
        };
        if !found.contains(item) {
            found.push(*item);
        }
    }
    Ok(found)
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
        assert_eq!((arguments.servers, arguments.baseline), (Server::ALL.to_vec(), None));
        let arguments = parse("--servers canned,canned --baseline-webstone build").unwrap().unwrap();
        assert_eq!((arguments.servers, arguments.baseline), (vec![Server::Canned], Some(Baseline::Build)));
        assert_eq!(parse("--help"), Ok(None));
    }

    #[test]
    fn wrong_options_name_themselves() {
        for (text, part) in [
            ("--round 3", "`--round` is not an option"),
            ("--rounds", "needs a value"),
            ("--rounds 0", "from 1 to 1000"),
            ("--seconds x", "--seconds x"),
            ("--modes fast", "--modes: `fast` is none of keep-alive"),
            ("--servers apache", "--servers: `apache` is none of nginx, nginx-shared, canned"),
        ] {
            let error = parse(text).unwrap_err();
            assert!(error.contains(part), "{error}");
        }
    }
}
