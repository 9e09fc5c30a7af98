//! The null server of `webstone_server` as a program of the suite: the same answer for every request, from one epoll loop
//! a CPU. What it is loaded with shows a load generator's own ceiling. Where TLS or HTTP/2 is wanted, the reference server in its
//! place.

use std::io::{self, Write as _};
use std::process::ExitCode;

use webstone_model::server_tls::ServerTls;
use webstone_model::spec::ServerSpec;
use webstone_server::{Fileset, NullOptions, ServeOptions, serve, serve_null};

const HELP: &str = "\
usage: webstone-canned [options]

  --body BYTES   length of the body (500)
  --path PATH    the body is what webstone's generated fileset has at this path (/file500.html)
  --close        close each connection behind its first answer
  --cpus LIST    one event loop on each of these CPUs, separated by commas (one loop, not pinned)
  --http2        (alone) webstone's reference server in its place, on one thread, in HTTP/1 and HTTP/2, with
                 /file0.html to /file4.html of 500 bytes
  --tls          (alone) the same over TLS

Prints its address, such as http://127.0.0.1:PORT, and serves until it is ended.
";
/// Largest number of a CPU that can be pinned to.
const CPU_MAX: u32 = 1023;

/// What the arguments ask for.
#[derive(Debug, PartialEq, Eq)]
enum Asked {
    Help,
    Null(NullOptions),
    Reference { tls: bool },
}

fn main() -> ExitCode {
    let served = match parse(&std::env::args().skip(1).collect::<Vec<_>>()) {
        Ok(Asked::Null(options)) => serve_null(&options, announce).map_err(|error| error.to_string()),
        Ok(Asked::Reference { tls }) => serve_reference(tls).map_err(|error| error.to_string()),
        Ok(Asked::Help) => {
            print!("{HELP}");
            return ExitCode::SUCCESS;
        }
        Err(error) => {
            eprintln!("error: {error}\nhint: --help lists the options");
            return ExitCode::from(2);
        }
    };
    match served {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

/// The reference server on one thread, until a signal ends it.
fn serve_reference(tls: bool) -> Result<(), webstone_server::ServeError> {
    let spec = ServerSpec {
        listen: "127.0.0.1:0".to_owned(),
        threads: 1,
        http2: true,
        tls: tls.then(ServerTls::default),
        ..ServerSpec::default()
    };
    let files = (0..5).map(|number| (format!("/file{number}.html"), 500)).collect();
    let fileset = Fileset::from_entries(files, |_, _, out| out.fill(b'x'));
    let announced = |ready: &webstone_server::Ready| {
        // Nobody to tell: it is ended by a signal all the same.
        let _ = announce(&ready.url);
    };
    serve(ServeOptions { fileset, ..ServeOptions::new(spec) }, announced).map(drop)
}

fn announce(url: &str) -> io::Result<()> {
    println!("{url}");
    io::stdout().flush()
}

fn parse(words: &[String]) -> Result<Asked, String> {
    match words {
        [only] if only == "--http2" => return Ok(Asked::Reference { tls: false }),
        [only] if only == "--tls" => return Ok(Asked::Reference { tls: true }),
        _ => {}
    }
    let mut options = NullOptions::default();
    let mut words = words.iter().cloned();
    while let Some(option) = words.next() {
        let mut value = || words.next().ok_or_else(|| format!("{option} needs a value"));
        match option.as_str() {
            "--help" | "-h" => return Ok(Asked::Help),
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
            "--http2" | "--tls" => return Err(format!("{option} goes with no other option")),
            _ => return Err(format!("`{option}` is not an option")),
        }
    }
    Ok(Asked::Null(options))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(text: &str) -> Result<Asked, String> {
        parse(&text.split_whitespace().map(str::to_owned).collect::<Vec<_>>())
    }

    #[test]
    fn wrong_options_name_themselves() {
        for (text, part) in [
            ("--bodies 3", "`--bodies` is not an option"),
            ("--body 3 --tls", "--tls goes with no other option"),
            ("--body", "--body needs a value"),
            ("--body x", "--body x: not a number"),
            ("--cpus 0,x", "--cpus 0,x: not a list"),
        ] {
            let error = options(text).unwrap_err();
            assert!(error.contains(part), "{error}");
        }
        assert_eq!(options("--help"), Ok(Asked::Help));
    }
}
