//! The least client in HTTP/3 (RFC 9114): requests are encoded once, and of answers only the end of their streams is read, and on each
//! connection the status of the first. Each connection has a socket of its own, which its successor connects again.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

use rustix::event::epoll::EventFlags;
use rustix::net;
use rustls::ClientConfig;
use rustls::pki_types::ServerName;

use super::datagrams::{self, Receiver};
use super::layered;
use super::quic::{Connection, Said};
use super::quic_wire::{Unread, varint};
use super::{AGENT, Drive, Load, Way};

/// Handshakes at a time: the first datagrams of all connections at once would overflow the server's receive queue.
const HANDSHAKES_MAX: usize = 16;
/// HTTP/3's code of an end without an error.
const NO_ERROR: u64 = 0x100;

/// All connections.
pub(crate) struct Clients<'a> {
    load: &'a Load,
    config: Arc<ClientConfig>,
    said: Said,
    sockets: Vec<OwnedFd>,
    /// Connections of the first sockets; the others have had none yet.
    connections: Vec<Connection>,
    /// Those whose handshake is not complete.
    shaking: usize,
    receiver: Receiver,
    out: Vec<u8>,
    requests: u64,
}

impl<'a> Drive<'a> for Clients<'a> {
    // Without OUT: a socket may always be written to, which would be an event for each datagram that was sent.
    const INTEREST: EventFlags = EventFlags::IN.union(EventFlags::ET);
    const TICK: Option<Duration> = Some(Duration::from_millis(500));

    fn new(load: &'a Load) -> io::Result<Clients<'a>> {
        let said = Said { request: request(load), control: control(), farewell: NO_ERROR, is_good };
        Ok(Clients {
            load,
            config: Arc::new(layered::config(load)?),
            said,
            sockets: Vec::with_capacity(load.clients),
            connections: Vec::with_capacity(load.clients),
            shaking: 0,
            receiver: Receiver::new(),
            out: Vec::new(),
            requests: 0,
        })
    }

    fn open(load: &Load) -> io::Result<OwnedFd> {
        datagrams::open(&load.address)
    }

    fn add(&mut self, socket: OwnedFd) -> io::Result<()> {
        net::connect(&socket, &self.load.address)?;
        self.sockets.push(socket);
        self.connect_more()
    }

    fn requests(&self) -> u64 {
        self.requests
    }

    fn handle(&mut self, number: usize, _: EventFlags) -> io::Result<()> {
        let Some(connection) = self.connections.get_mut(number) else { return Ok(()) };
        let stood = connection.stands();
        while let Some(datagrams) = self.receiver.receive(&self.sockets[number])? {
            for datagram in datagrams {
                self.requests += connection.receive(datagram, &self.said)? as u64;
            }
        }
        let stands = connection.stands();
        if connection.is_over() {
            self.close(number)?;
            // From another port, as other tools' connections come.
            net::connect_unspec(&self.sockets[number])?;
            net::connect(&self.sockets[number], &self.load.address)?;
            self.connections[number] = self.connection()?;
            self.shaking += 1;
        }
        self.send(number)?;
        if stands && !stood {
            self.shaking -= 1;
            self.connect_more()?;
        }
        Ok(())
    }

    fn tick(&mut self) -> io::Result<()> {
        for number in 0..self.connections.len() {
            self.connections[number].tick();
            self.send(number)?;
        }
        Ok(())
    }

    fn end(&mut self) -> io::Result<()> {
        (0..self.connections.len()).try_for_each(|number| self.close(number))
    }
}

impl Clients<'_> {
    /// Lets the next sockets connect while fewer than [`HANDSHAKES_MAX`] handshakes are in progress.
    fn connect_more(&mut self) -> io::Result<()> {
        while self.shaking < HANDSHAKES_MAX && self.connections.len() < self.sockets.len() {
            let connection = self.connection()?;
            self.connections.push(connection);
            self.shaking += 1;
            self.send(self.connections.len() - 1)?;
        }
        Ok(())
    }

    fn connection(&self) -> io::Result<Connection> {
        let (streams, requests) = match self.load.way {
            Way::Http3 { streams } => (streams, u64::MAX),
            _ => (1, 1),
        };
        let name = ServerName::IpAddress(self.load.address.ip().into());
        Connection::new(&self.config, name, streams, requests)
    }

    /// Sends what a connection has to say.
    fn send(&mut self, number: usize) -> io::Result<()> {
        self.out.clear();
        self.connections[number].fill(&self.said, &mut self.out)?;
        if self.out.is_empty() { Ok(()) } else { datagrams::send(&self.sockets[number], &self.out) }
    }

    fn close(&mut self, number: usize) -> io::Result<()> {
        self.out.clear();
        self.connections[number].close(&self.said, &mut self.out)?;
        if self.out.is_empty() { Ok(()) } else { datagrams::send(&self.sockets[number], &self.out) }
    }
}

/// A request's HEADERS frame: fields with names, and if possible values, of QPACK's static table (RFC 9204, appendix A).
fn request(load: &Load) -> Vec<u8> {
    // Without a dynamic table; `:method: GET` and `:scheme: https` are the 17th and 23rd.
    let mut fields = vec![0, 0, 0xc0 | 17, 0xc0 | 23];
    // `:authority`, `:path` and `user-agent` are the names of the 0th, 1st and 95th, of which 15 are in the first byte.
    literal(&[0x50], &load.authority, &mut fields);
    literal(&[0x50 | 1], &load.path, &mut fields);
    literal(&[0x50 | 15, 95 - 15], AGENT, &mut fields);
    // `accept: */*` is the 29th.
    fields.push(0xc0 | 29);
    let mut frame = vec![1];
    varint(&mut frame, fields.len() as u64);
    [frame, fields].concat()
}

fn literal(name: &[u8], value: &str, out: &mut Vec<u8>) {
    // Longer lengths take more than a byte, and no address or path of the suite is as long.
    assert!(value.len() < 127, "{value} is too long");
    out.extend_from_slice(name);
    out.push(value.len() as u8);
    out.extend_from_slice(value.as_bytes());
}

/// Whether an answer begins with a HEADERS frame that begins with the 25th field, `:status: 200`.
fn is_good(answer: &[u8]) -> bool {
    let mut unread = Unread(answer);
    let head = unread.take(1).and_then(|kind| Ok((kind, unread.varint()?, unread.take(3)?)));
    head.is_ok_and(|(kind, _, fields)| kind == [1] && fields == [0, 0, 0xc0 | 25])
}

/// The control stream: its type, and an empty SETTINGS frame.
fn control() -> Vec<u8> {
    vec![0, 4, 0]
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;
    use webstone_model::server_tls::ServerTls;
    use webstone_model::spec::ServerSpec;
    use webstone_server::{ServeOptions, Server};

    use super::*;

    #[test]
    fn answers_and_handshakes_are_those_that_the_server_counts() {
        for (clients, size, way) in [
            (3, 500, "h3 1"),
            (3, 500, "h3 10"),
            (1, 500, "h3 100"),
            (2, 512_500, "h3 1"),
            (3, 500, "h3-per-request"),
            (20, 500, "h3 1"),
        ] {
            let spec = ServerSpec {
                threads: 1,
                http3: true,
                tls: Some(ServerTls::default()),
                ..ServerSpec::default()
            };
            let server =
                Server::start(ServeOptions { test_handlers: true, ..ServeOptions::new(spec) }).unwrap();
            let words = format!("x {clients} 0 {}/test?size={size} {way}", server.url());
            let arguments = crate::Arguments::parse_from(words.split(' '));
            let load = Load { duration: Duration::from_secs(2), ..crate::load(arguments).unwrap() };
            let report = crate::measure::<Clients<'_>>(&load).unwrap();
            let report: serde_json::Value = serde_json::from_str(&report).unwrap();
            let (requests, counted) = (report["requests"].as_u64().unwrap(), server.stop().counters);
            // Of each stream the last answer may be under way.
            assert!(requests > 3, "{way} {report}");
            assert!(
                (requests..=requests + 100).contains(&counted.responses),
                "{way}: {requests} of {counted:?}"
            );
            let full = counted.handshakes_full;
            match way {
                "h3-per-request" => assert!((requests..=requests + 3).contains(&full), "{counted:?}"),
                // Of many connections, some may not have got so far.
                _ if clients as usize > HANDSHAKES_MAX => assert!(full <= clients, "{counted:?}"),
                _ => assert_eq!(full, clients, "{counted:?}"),
            }
            assert_eq!((counted.handshakes_resumed, counted.http3_connections), (0, full), "{counted:?}");
        }
    }
}
