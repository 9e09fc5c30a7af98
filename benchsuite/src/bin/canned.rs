//! The null server of `webstone_server` as a program of the suite: the same answer for every request, from one epoll loop per
//! CPU. Against it, a load generator shows its own ceiling. For TLS or HTTP/2, the reference server takes its place.

use std::io::{self, Write as _};
use std::process::ExitCode;
use std::time::{Duration, SystemTime};

use clap::Parser;
use webstone_model::server_tls::ServerTls;
use webstone_model::spec::ServerSpec;
use webstone_server::{Fileset, NullOptions, ServeOptions, serve, serve_null};

/// Prints its address, such as http://127.0.0.1:PORT, and serves until it is ended.
#[derive(Debug, Parser)]
struct Arguments {
    /// Length of the body.
    #[arg(long, default_value_t = 500, value_parser = clap::value_parser!(u64).range(..=1 << 30))]
    body: u64,
    /// The body is what webstone's generated fileset has at this path.
    #[arg(long, default_value = "/file500.html")]
    path: String,
    /// Close each connection after its first answer.
    #[arg(long)]
    close: bool,
    /// One event loop on each of these CPUs; by default one loop, not pinned.
    #[arg(long, value_delimiter = ',', value_parser = clap::value_parser!(u32).range(..=1023))]
    cpus: Vec<u32>,
    /// webstone's reference server instead, on one thread, in HTTP/1 and HTTP/2, with /file0.html to /file4.html of 500 bytes.
    #[arg(long, exclusive = true)]
    http2: bool,
    /// The same over TLS, in HTTP/3 too.
    #[arg(long, exclusive = true)]
    tls: bool,
}

fn main() -> ExitCode {
    let Arguments { body, path, close, cpus, http2, tls } = Arguments::parse();
    let served = match http2 || tls {
        true => serve_reference(tls).map_err(|error| error.to_string()),
        false => {
            let options =
                NullOptions { body_bytes: body as usize, path, close, cpus, until_stdin_closes: false };
            serve_null(&options, announce).map_err(|error| error.to_string())
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
        http3: tls,
        tls: tls.then(ServerTls::default),
        ..ServerSpec::default()
    };
    let files = (0..5).map(|number| (format!("/file{number}.html"), 500)).collect();
    let fileset = Fileset::from_entries(files, |_, _, out| out.fill(b'x'));
    let announced = |ready: &webstone_server::Ready| {
        // If nobody reads it, a signal still ends the server.
        let _ = announce(&ready.url);
    };
    // A client's work must not depend on how many seconds pass: each new date costs it the decoding of a new head.
    let date = Some(SystemTime::UNIX_EPOCH + Duration::from_secs(1_795_262_400));
    serve(ServeOptions { fileset, date, ..ServeOptions::new(spec) }, announced).map(drop)
}

fn announce(url: &str) -> io::Result<()> {
    println!("{url}");
    io::stdout().flush()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wrong_options_are_refused() {
        for text in ["--bodies 3", "--body 3 --tls", "--body", "--body x", "--cpus 0,x", "--cpus 1024"] {
            assert!(Arguments::try_parse_from(["x"].into_iter().chain(text.split(' '))).is_err(), "{text}");
        }
        assert_eq!(Arguments::parse_from(["x", "--cpus", "0,1"]).cpus, [0, 1]);
    }
}
