//! The null server of `webstone_server` as a program of the suite: the same answer for every request, from one epoll loop
//! a CPU. What it is loaded with shows a load generator's own ceiling.

use std::io::{self, Write as _};
use std::process::ExitCode;

use webstone_server::{NullOptions, serve_null};

const HELP: &str = "\
usage: webstone-canned [options]

  --body BYTES   length of the body (500)
  --path PATH    the body is what webstone's generated fileset has at this path (/file500.html)
  --close        close each connection behind its first answer
  --cpus LIST    one event loop on each of these CPUs, separated by commas (one loop, not pinned)

Prints its address, http://127.0.0.1:PORT, and serves until it is ended.
";
/// Largest number of a CPU that can be pinned to.
const CPU_MAX: u32 = 1023;

fn main() -> ExitCode {
    match parse(std::env::args().skip(1)) {
        Ok(Some(options)) => match serve_null(&options, announce) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                eprintln!("error: {error}");
                ExitCode::FAILURE
            }
        },
        Ok(None) => {
            print!("{HELP}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("error: {error}\nhint: --help lists the options");
            ExitCode::from(2)
        }
    }
}

fn announce(url: &str) -> io::Result<()> {
    println!("{url}");
    io::stdout().flush()
}

fn parse(mut words: impl Iterator<Item = String>) -> Result<Option<NullOptions>, String> {
    let mut options = NullOptions::default();
    while let Some(option) = words.next() {
        let mut value = || words.next().ok_or_else(|| format!("{option} needs a value"));
        match option.as_str() {
            "--help" | "-h" => return Ok(None),
            "--close" => options.close = true,
            "--path" => options.path = value()?,
            "--body" => {
                let text = value()?;
                let bytes = text.parse().ok().filter(|bytes| *bytes <= 1 << 30);
                options.body_bytes =
                    bytes.ok_or_else(|| format!("--body {text}: not a number up to 2^30"))?;
            }
            "--cpus" => {
                let text = value()?;
                let cpus: Result<Vec<u32>, _> = text.split(',').map(str::parse).collect();
                options.cpus = cpus
                    .ok()
                    .filter(|cpus| cpus.iter().all(|cpu| *cpu <= CPU_MAX))
                    .ok_or_else(|| format!("--cpus {text}: not a list such as 0,1"))?;
            }
            _ => return Err(format!("`{option}` is not an option")),
        }
    }
    Ok(Some(options))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(text: &str) -> Result<Option<NullOptions>, String> {
        parse(text.split_whitespace().map(str::to_owned))
    }

    #[test]
    fn wrong_options_name_themselves() {
        for (text, part) in [
            ("--bodies 3", "`--bodies` is not an option"),
            ("--body", "--body needs a value"),
            ("--body x", "--body x: not a number"),
            ("--cpus 0,x", "--cpus 0,x: not a list"),
        ] {
            let error = options(text).unwrap_err();
            assert!(error.contains(part), "{error}");
        }
        assert_eq!(options("--help"), Ok(None));
    }
}
