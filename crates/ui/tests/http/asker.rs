//! Requests to a front, as a browser sends them: by its port and its token. Shared with the command line's tests.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use serde_json::Value;

/// Who asks a front.
#[derive(Debug)]
pub(crate) struct Asker {
    pub(crate) port: u16,
    pub(crate) token: String,
}

impl Asker {
    /// Of the address that a front prints.
    pub(crate) fn to(url: &str) -> Asker {
        let (address, token) = url.trim().split_once("/#token=").unwrap();
        Asker { port: address.rsplit(':').next().unwrap().parse().unwrap(), token: token.to_owned() }
    }

    /// Sends bytes as they are, and returns the whole answer.
    pub(crate) fn raw(&self, request: &str) -> String {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    }

    pub(crate) fn get(&self, path: &str) -> (u16, Value) {
        split(&self.raw(&format!(
            "GET {path} HTTP/1.1\r\nHost: 127.0.0.1:{}\r\nAuthorization: Bearer {}\r\nConnection: close\r\n\r\n",
            self.port, self.token
        )))
    }

    pub(crate) fn post(&self, path: &str, body: &Value) -> (u16, Value) {
        let (port, token, body) = (self.port, &self.token, body.to_string());
        split(&self.raw(&format!(
            "POST {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nOrigin: http://127.0.0.1:{port}\r\n\
             Sec-Fetch-Site: same-origin\r\nAuthorization: Bearer {token}\r\nContent-Type: application/json\r\n\
             Content-Length: {}\r\nConnection: close\r\n\r\n{body}",
            body.len()
        )))
    }

    /// The lines of a stream, until one is wanted or the stream ends.
    pub(crate) fn stream(&self, path: &str, mut is_wanted: impl FnMut(&Value) -> bool) -> Vec<Value> {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        write!(
            stream,
            "GET {path} HTTP/1.1\r\nHost: 127.0.0.1:{}\r\nAuthorization: Bearer {}\r\n\r\n",
            self.port, self.token
        )
        .unwrap();
        let mut lines = Vec::new();
        for line in BufReader::new(stream).lines() {
            let line = line.unwrap();
            if line == "0" {
                break;
            }
            if let Ok(value @ Value::Object(_)) = serde_json::from_str(&line) {
                let wanted = is_wanted(&value);
                lines.push(value);
                if wanted {
                    break;
                }
            }
        }
        lines
    }
}

pub(crate) fn split(answer: &str) -> (u16, Value) {
    let status = answer.split(' ').nth(1).unwrap().parse().unwrap();
    let body = answer.split_once("\r\n\r\n").map_or("", |(_, body)| body);
    (status, serde_json::from_str(body).unwrap_or(Value::Null))
}
