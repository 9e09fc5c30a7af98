//! Names of clients from a DNS server of this process, which answers after a set time: what look-ups cost depends on how far the
//! server of names is, and on a test bed the hosts file answers at once.
//!
//! It knows one kind of question, a name for an address (RFC 1035, PTR), and delays each answer by itself: queries wait at the same time,
//! not one after another.

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicU16, Ordering};
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

/// How long an answer is waited for beyond the set time.
const PATIENCE: Duration = Duration::from_secs(5);
/// Largest message over UDP, in bytes.
const MESSAGE_BYTES: usize = 512;
const HEADER_BYTES: usize = 12;
const PTR: u16 = 12;
const IN: u16 = 1;

/// The DNS server.
#[derive(Debug)]
pub(crate) struct NameServer {
    address: SocketAddr,
    delay: Duration,
    queries: AtomicU16,
}

impl NameServer {
    /// Starts it, on a free port of loopback. Its threads end with the process.
    pub(crate) fn start(delay: Duration) -> io::Result<NameServer> {
        let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
        let address = socket.local_addr()?;
        let (sender, answers) = channel::<(Instant, Vec<u8>, SocketAddr)>();
        let asked = socket.try_clone()?;
        std::thread::Builder::new().name("dns".to_owned()).spawn(move || {
            let mut message = [0; MESSAGE_BYTES];
            while let Ok((length, from)) = asked.recv_from(&mut message) {
                let due = Instant::now() + delay;
                if let Some(answer) = answer(&message[..length], from.ip())
                    && sender.send((due, answer, from)).is_err()
                {
                    return;
                }
            }
        })?;
        // All wait for the same time, so the first that came is the first that is due.
        std::thread::Builder::new().name("dns-answers".to_owned()).spawn(move || {
            for (due, answer, to) in answers {
                std::thread::sleep(due.saturating_duration_since(Instant::now()));
                // A client that is gone needs no answer.
                drop(socket.send_to(&answer, to));
            }
        })?;
        Ok(NameServer { address, delay, queries: AtomicU16::new(0) })
    }

    /// The name of an address; `None` if there is no answer in time.
    pub(crate) async fn name(&self, peer: IpAddr) -> Option<String> {
        let socket = tokio::net::UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).await.ok()?;
        socket.connect(self.address).await.ok()?;
        let id = self.queries.fetch_add(1, Ordering::Relaxed);
        socket.send(&query(id, peer)).await.ok()?;
        let mut message = [0; MESSAGE_BYTES];
        let length =
            tokio::time::timeout(self.delay + PATIENCE, socket.recv(&mut message)).await.ok()?.ok()?;
        name_of(&message[..length], id)
    }
}

/// `1.0.0.127.in-addr.arpa`, as its labels.
fn reverse(address: IpAddr) -> Vec<String> {
    let (mut labels, zone): (Vec<String>, [&str; 2]) = match address {
        IpAddr::V4(address) => {
            (address.octets().map(|octet| octet.to_string()).to_vec(), ["in-addr", "arpa"])
        }
        IpAddr::V6(address) => {
            let nibbles = address.octets().into_iter().flat_map(|octet| [octet >> 4, octet & 15]);
            (nibbles.map(|nibble| format!("{nibble:x}")).collect(), ["ip6", "arpa"])
        }
    };
    labels.reverse();
    labels.extend(zone.map(str::to_owned));
    labels
}

fn push_name(message: &mut Vec<u8>, labels: &[String]) {
    for label in labels {
        // Labels are numbers and words of ours, far below 64 bytes.
        message.push(label.len() as u8);
        message.extend(label.as_bytes());
    }
    message.push(0);
}

fn query(id: u16, address: IpAddr) -> Vec<u8> {
    let mut message = Vec::with_capacity(64);
    // Recursion desired; one question.
    for word in [id, 0x0100, 1, 0, 0, 0] {
        message.extend(word.to_be_bytes());
    }
    push_name(&mut message, &reverse(address));
    message.extend([PTR.to_be_bytes(), IN.to_be_bytes()].concat());
    message
}

/// The end of the question that begins after the header.
fn question_end(message: &[u8]) -> Option<usize> {
    let mut at = HEADER_BYTES;
    loop {
        match *message.get(at)? {
            0 => break,
            length @ 1..=63 => at += 1 + usize::from(length),
            _ => return None,
        }
    }
    (message.len() >= at + 5).then_some(at + 5)
}

/// The answer to a question: it repeats the question's name, and gives the client's.
fn answer(question: &[u8], client: IpAddr) -> Option<Vec<u8>> {
    let end = question_end(question)?;
    let mut message = question[..end].to_vec();
    // A response, recursion available, without error; one question, one answer.
    message[2..HEADER_BYTES].copy_from_slice(&[0x81, 0x80, 0, 1, 0, 1, 0, 0, 0, 0]);
    let mut name = Vec::new();
    let host = format!("client-{client}").replace([':', '.'], "-");
    push_name(&mut name, &[host, "test".to_owned()]);
    // The question's name, by reference; time to live 0.
    message.extend([0xc0, HEADER_BYTES as u8]);
    message.extend([PTR.to_be_bytes(), IN.to_be_bytes(), [0, 0], [0, 0]].concat());
    message.extend((name.len() as u16).to_be_bytes());
    message.extend(name);
    Some(message)
}

/// The name in an answer to this query.
fn name_of(message: &[u8], id: u16) -> Option<String> {
    if message.get(..2)? != id.to_be_bytes() || message.get(3)? & 0x0f != 0 {
        return None;
    }
    // Reference, type, class, time to live, length.
    let mut at = question_end(message)? + 12;
    let mut labels: Vec<&str> = Vec::new();
    loop {
        let length = usize::from(*message.get(at)?);
        if length == 0 {
            return Some(labels.join("."));
        }
        labels.push(std::str::from_utf8(message.get(at + 1..at + 1 + length)?).ok()?);
        at += 1 + length;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_comes_after_the_set_time() {
        let delay = Duration::from_millis(40);
        let server = NameServer::start(delay).unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        for _ in 0..3 {
            let begin = Instant::now();
            let name = runtime.block_on(server.name(IpAddr::V4(Ipv4Addr::LOCALHOST)));
            assert_eq!(name.as_deref(), Some("client-127-0-0-1.test"));
            assert!(begin.elapsed() >= delay);
        }
    }

    #[test]
    fn a_question_names_the_address_backwards() {
        let labels = |address: &str| reverse(address.parse().unwrap()).join(".");
        assert_eq!(labels("192.0.2.7"), "7.2.0.192.in-addr.arpa");
        assert!(labels("2001:db8::1").ends_with("8.b.d.0.1.0.0.2.ip6.arpa"));
        let message = query(7, "192.0.2.7".parse().unwrap());
        assert_eq!(message.len(), 12 + "7.2.0.192.in-addr.arpa".len() + 2 + 4);
        assert_eq!(question_end(&message), Some(message.len()));
        let reply = answer(&message, "192.0.2.7".parse().unwrap()).unwrap();
        assert_eq!(name_of(&reply, 7).as_deref(), Some("client-192-0-2-7.test"));
        assert_eq!(name_of(&reply, 8), None, "of another query");
        for end in 0..reply.len() {
            assert_eq!(name_of(&reply[..end], 7), None, "cut off at {end}");
        }
        assert_eq!(answer(&[0; 12], "::1".parse().unwrap()), None);
    }
}
