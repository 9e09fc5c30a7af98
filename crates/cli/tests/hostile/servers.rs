//! Servers with endless answers, before there is any load.

use std::io::{Read, Write};
use std::net::TcpListener;

use crate::records::confined;

/// Answers every request with a head and then endless bytes, until the reader has gone. Exists as long as the test.
fn endless(head: &'static [u8], piece: &'static [u8]) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for mut stream in listener.incoming().map_while(Result::ok) {
            std::thread::spawn(move || {
                let _ = stream.read(&mut [0; 4096]);
                let _ = stream.write_all(head);
                while stream.write_all(piece).is_ok() {}
            });
        }
    });
    url
}

#[test]
fn a_body_without_end_for_checkfiles_and_for_a_run() {
    let url = endless(b"HTTP/1.1 200 OK\r\n\r\n", &[b'x'; 1 << 16]);
    let dir = tempfile::tempdir().unwrap();
    let said = confined(dir.path(), &["checkfiles", &url, "-w", "standard"]);
    assert!((1..=5).contains(&said.code), "{said:?}");
    assert!((said.out + &said.err).contains("bytes; the rest was not read"));
    let said = confined(dir.path(), &["run", &url, "-c", "1", "-d", "1s"]);
    assert!((1..=5).contains(&said.code), "{said:?}");
}

#[test]
fn heads_without_end() {
    let url = endless(b"HTTP/1.1 102 Processing\r\n\r\n", b"HTTP/1.1 102 Processing\r\n\r\n");
    let dir = tempfile::tempdir().unwrap();
    let said = confined(dir.path(), &["checkfiles", &url, "-w", "standard", "--timeout", "1s"]);
    assert!((1..=5).contains(&said.code), "{said:?}");
    assert!((said.out + &said.err).contains("no answer"));
}
