//! A server that answers what a test says, and keeps the requests.

use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

/// See the module comment. Its threads end with the test's process.
pub(crate) struct Peer {
    /// `127.0.0.1:port`.
    pub(crate) authority: String,
    requests: Arc<Mutex<Vec<String>>>,
}

impl Peer {
    /// A server that calls `answer` with the connection for each request whose head it has read; `false` closes it.
    pub(crate) fn start(answer: impl Fn(&mut TcpStream) -> bool + Send + Sync + 'static) -> Peer {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let authority = listener.local_addr().unwrap().to_string();
        let requests: Arc<Mutex<Vec<String>>> = Arc::default();
        let (log, answer) = (requests.clone(), Arc::new(answer));
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let (log, answer) = (log.clone(), answer.clone());
                std::thread::spawn(move || serve(stream, &log, &*answer));
            }
        });
        Peer { authority, requests }
    }

    /// A server that answers everything with an empty 200.
    pub(crate) fn polite() -> Peer {
        Peer::saying("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
    }

    /// A server that answers everything with the same bytes.
    pub(crate) fn saying(answer: &str) -> Peer {
        let answer = answer.to_owned();
        Peer::start(move |stream| stream.write_all(answer.as_bytes()).is_ok())
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.authority)
    }

    /// The heads of all requests so far. A connection without a request has an empty head.
    pub(crate) fn requests(&self) -> Vec<String> {
        self.requests.lock().unwrap().clone()
    }
}

fn serve(mut stream: TcpStream, log: &Mutex<Vec<String>>, answer: &dyn Fn(&mut TcpStream) -> bool) {
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    let mut is_first = true;
    loop {
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            if !matches!(reader.read_line(&mut head), Ok(1..)) {
                if is_first {
                    log.lock().unwrap().push(head);
                }
                return;
            }
        }
        is_first = false;
        log.lock().unwrap().push(head);
        if !answer(&mut stream) {
            return;
        }
    }
}
