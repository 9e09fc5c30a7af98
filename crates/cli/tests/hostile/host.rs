//! What a stranger may request from the reference server.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::Stdio;

use crate::program::command;

fn status(url: &str, request: &str) -> String {
    let mut stream = TcpStream::connect(url.trim_start_matches("http://")).unwrap();
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer.split(' ').nth(1).unwrap_or_default().to_owned()
}

#[test]
fn a_stranger_asks_the_server_to_refuse_everybody() {
    let dir = tempfile::tempdir().unwrap();
    for (flags, expected) in [(&[][..], "404"), (&["--test-handlers"][..], "200")] {
        let mut arguments = vec!["serve", "--until-stdin-closes", "--threads", "1"];
        arguments.extend(flags);
        let mut server = command(dir.path(), &arguments).stdin(Stdio::piped()).spawn().unwrap();
        let mut out = std::io::BufReader::new(server.stdout.take().unwrap());
        let mut line = String::new();
        std::io::BufRead::read_line(&mut out, &mut line).unwrap();
        let url = line.trim_start_matches("READY ").trim();
        for path in ["/test?size=1", "/schedule?delays=0&sizes=1", "/.webstone/refuse?for=10ms"] {
            let request = format!("GET {path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
            // After a refusal nobody listens for a moment.
            assert_eq!(status(url, &request), expected, "{path} {flags:?}");
        }
        drop(server.stdin.take());
        server.wait().unwrap();
    }
}
