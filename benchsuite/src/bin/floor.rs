//! The least that a client can do: one `send` and one `recv` for each request, edge-triggered, and nothing else. No request is
//! timed, no answer is looked at but for its length, nothing ever times out, and the clock is read once a wait. What it needs is
//! what the kernel and this machine ask of any load generator that is built on these system calls.

use std::io::{self, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeValLike as _;
use rustix::buffer::spare_capacity;
use rustix::event::epoll;
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, recv, send};
use serde_json::json;

const USAGE: &str = "usage: webstone-floor CLIENTS SECONDS http://ADDRESS:PORT/PATH";
/// Long enough for all connections to be busy.
const WARM_UP: Duration = Duration::from_millis(500);
/// Events taken at once, and room for one read: as webstone's engine has them.
const BATCH: usize = 256;
const BUFFER_BYTES: usize = 16 * 1024;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let measured = parse(&arguments).and_then(|load| measure(&load).map_err(|error| error.to_string()));
    match measured {
        Ok(text) => {
            println!("{text}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("error: {error}\n{USAGE}");
            ExitCode::FAILURE
        }
    }
}

#[derive(Debug, PartialEq)]
struct Load {
    clients: usize,
    duration: Duration,
    address: SocketAddr,
    request: String,
}

fn parse(words: &[String]) -> Result<Load, String> {
    let [clients, seconds, url] = words else { return Err("three words are needed".to_owned()) };
    let clients =
        clients.parse().ok().filter(|n| *n > 0).ok_or_else(|| format!("{clients}: no number of clients"))?;
    let seconds = seconds.parse().map_err(|_| format!("{seconds}: no number of seconds"))?;
    let (authority, path) = url
        .strip_prefix("http://")
        .and_then(|rest| rest.split_once('/'))
        .ok_or_else(|| format!("{url}: not http://ADDRESS:PORT/PATH"))?;
    let address = authority.parse().map_err(|_| format!("{authority}: not ADDRESS:PORT"))?;
    // As webstone's own: fields cost the server time, and its pace changes what clients need.
    let request = format!(
        "GET /{path} HTTP/1.1\r\nHost: {authority}\r\nUser-Agent: webstone/{}\r\nAccept: */*\r\n\r\n",
        env!("CARGO_PKG_VERSION")
    );
    Ok(Load { clients, duration: Duration::from_secs(seconds), address, request })
}

/// Loads the server, and says what it took as JSON.
fn measure(load: &Load) -> io::Result<String> {
    let poll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
    let mut sockets = Vec::with_capacity(load.clients);
    let mut length = 0;
    for number in 0..load.clients as u64 {
        let mut socket = TcpStream::connect(load.address)?;
        socket.set_nodelay(true)?;
        socket.write_all(load.request.as_bytes())?;
        length = length_of_answer(&mut socket)?;
        socket.set_nonblocking(true)?;
        let interest = epoll::EventFlags::IN | epoll::EventFlags::ET;
        epoll::add(&poll, &socket, epoll::EventData::new_u64(number), interest)?;
        sockets.push(socket);
    }
    let request = load.request.as_bytes();
    for socket in &sockets {
        send(socket, request, SendFlags::NOSIGNAL)?;
    }
    let mut due = vec![length; load.clients];
    let mut events = Vec::with_capacity(BATCH);
    let mut buffer = vec![0; BUFFER_BYTES];
    let opens = Instant::now() + WARM_UP;
    let mut window: Option<(Instant, f64)> = None;
    let (mut all, mut requests) = (load.clients as u64, 0_u64);
    loop {
        events.clear();
        epoll::wait(&poll, spare_capacity(&mut events), None)?;
        for event in &events {
            let number = event.data.u64() as usize;
            let received = match recv(&sockets[number], &mut buffer[..], RecvFlags::empty()) {
                Ok((received, _)) => received,
                // The end of an answer whose event came as it had just been read with the rest.
                Err(Errno::AGAIN) => continue,
                Err(error) => return Err(error.into()),
            };
            due[number] = due[number].checked_sub(received).filter(|_| received > 0).ok_or_else(unlike)?;
            if due[number] == 0 {
                due[number] = length;
                requests += 1;
                send(&sockets[number], request, SendFlags::NOSIGNAL)?;
            }
        }
        let now = Instant::now();
        match window {
            None if now >= opens => {
                all += requests;
                requests = 0;
                window = Some((now, own_cpu_s()?));
            }
            Some((opened, cpu_s)) if now - opened >= load.duration => {
                let report = json!({
                    "requests": all + requests,
                    "rate": requests as f64 / (now - opened).as_secs_f64(),
                    "window_cpu_per_request_s": (own_cpu_s()? - cpu_s) / requests as f64,
                });
                return Ok(report.to_string());
            }
            _ => {}
        }
    }
}

/// Head and body of the first answer, in bytes. Every other must be as long, and come in one piece or in pieces that fit.
fn length_of_answer(socket: &mut TcpStream) -> io::Result<usize> {
    let mut answer = vec![0; BUFFER_BYTES];
    let mut filled = 0;
    loop {
        let read = socket.read(&mut answer[filled..])?;
        if read == 0 {
            return Err(io::Error::other("the first answer has no end, or more than 16 KiB"));
        }
        filled += read;
        let text = String::from_utf8_lossy(&answer[..filled]);
        let Some((head, _)) = text.split_once("\r\n\r\n") else { continue };
        let body = head.lines().filter_map(|line| line.split_once(':'));
        let body = body
            .filter(|(name, _)| name.eq_ignore_ascii_case("content-length"))
            .find_map(|(_, value)| value.trim().parse::<usize>().ok())
            .ok_or_else(|| io::Error::other("the first answer has no Content-Length"))?;
        if filled == head.len() + 4 + body {
            return Ok(filled);
        }
    }
}

fn unlike() -> io::Error {
    io::Error::other("an answer was longer than the first, or the connection was closed")
}

/// User and system time of this process, in seconds.
fn own_cpu_s() -> io::Result<f64> {
    let used = getrusage(UsageWho::RUSAGE_SELF)?;
    Ok((used.user_time().num_microseconds() + used.system_time().num_microseconds()) as f64 / 1e6)
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    fn load(text: &str) -> Result<Load, String> {
        parse(&text.split_whitespace().map(str::to_owned).collect::<Vec<_>>())
    }

    #[test]
    fn wrong_words_name_themselves() {
        for (text, part) in [
            ("1 2", "three words"),
            ("0 1 http://127.0.0.1:1/", "0: no number of clients"),
            ("1 x http://127.0.0.1:1/", "x: no number of seconds"),
            ("1 1 ftp://127.0.0.1:1/", "ftp://127.0.0.1:1/: not http://"),
            ("1 1 http://localhost/", "localhost: not ADDRESS:PORT"),
        ] {
            let error = load(text).unwrap_err();
            assert!(error.contains(part), "{error}");
        }
    }

    #[test]
    fn every_answer_is_counted_once() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let server = std::thread::spawn(move || {
            let (mut socket, _) = listener.accept().unwrap();
            let mut request = [0; 4096];
            let mut answered = 0;
            // Until the client is gone, which may leave a last answer unread.
            while matches!(socket.read(&mut request), Ok(read) if read > 0) {
                let answer = b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhello";
                if socket.write_all(answer).is_err() {
                    break;
                }
                answered += 1;
            }
            answered
        });
        let load =
            Load { duration: Duration::from_millis(50), ..load(&format!("1 0 http://{address}/")).unwrap() };
        let report: serde_json::Value = serde_json::from_str(&measure(&load).unwrap()).unwrap();
        let requests = report["requests"].as_u64().unwrap();
        let answered = server.join().unwrap();
        // The last request may be under way.
        assert!(requests > 1 && (requests..=requests + 1).contains(&answered), "{requests} of {answered}");
        assert!(report["rate"].as_f64().unwrap() > 0.0);
    }
}
