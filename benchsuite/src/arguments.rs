//! The command line of the comparison.

use std::path::PathBuf;

use clap::{Parser, ValueEnum};

use crate::modes::{Mode, Server};

/// Comparison with other load generators, interleaved on one server.
///
/// Exit codes: 0 every bar that was measured is met, 1 something failed, 2 usage, 3 a bar is missed.
#[derive(Clone, Debug, PartialEq, Parser)]
pub struct Arguments {
    /// Rounds, each with one run of every tool.
    #[arg(long, default_value_t = 9, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub rounds: u32,
    /// Length of a run, in seconds.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u64).range(1..=3600))]
    pub seconds: u64,
    /// Modes, in order.
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = Mode::value_variants().iter().copied())]
    pub modes: Vec<Mode>,
    /// Servers, in order.
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = Server::value_variants().iter().copied())]
    pub servers: Vec<Server>,
    /// Names of tools; all that are installed by default. A wrong one is answered with the list.
    #[arg(long, value_delimiter = ',')]
    pub tools: Vec<String>,
    /// The program to measure; built from this tree by default.
    #[arg(long)]
    pub webstone: Option<PathBuf>,
    /// webstone built with --cfg webstone_without_statistics, measured as webstone-bare; `build` builds it.
    #[arg(long = "baseline-webstone")]
    pub baseline: Option<PathBuf>,
    /// webstone of another commit, measured as webstone-before in the same rounds.
    #[arg(long = "webstone-before")]
    pub before: Option<PathBuf>,
    /// CPU of the server.
    #[arg(long, default_value_t = 0, value_parser = clap::value_parser!(u32).range(..=4095))]
    pub server_cpu: u32,
    /// CPU of the load generators.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(..=4095))]
    pub client_cpu: u32,
    /// Where records are kept; by default `benchsuite/runs`.
    #[arg(long)]
    pub output: Option<PathBuf>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_read() {
        let parse = |text: &str| Arguments::try_parse_from(text.split_whitespace());
        let arguments =
            parse("x --rounds 2 --seconds 1 --modes large,keep-alive --tools wrk,ab --client-cpu 3").unwrap();
        assert_eq!((arguments.rounds, arguments.seconds, arguments.client_cpu), (2, 1, 3));
        assert_eq!(arguments.modes, [Mode::Large, Mode::KeepAlive]);
        assert_eq!((arguments.tools, arguments.baseline), (vec!["wrk".to_owned(), "ab".to_owned()], None));
        assert_eq!(arguments.servers, Server::value_variants());
        for (text, part) in [
            ("x --rounds 0", "1..=1000"),
            ("x --modes fast", "possible values: keep-alive, per-request"),
            ("x --servers apache", "possible values: nginx, nginx-shared, canned"),
        ] {
            let error = parse(text).unwrap_err().to_string();
            assert!(error.contains(part), "{error}");
        }
    }
}
