//! The server behind a proxy that webstone starts: a reference server of its own, or one of somebody else, and how each is
//! monitored. `window` reads it in a window, `placement` chooses its CPUs.
//!
//! A reference server reports its counters, here and on other hosts, and reading does not change them. Of other servers only
//! the processes can be seen, on this host. What cannot be seen is reported, and has no figures.

use std::io;
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::time::Duration;

use webstone_measure::strict;
use webstone_model::record::OriginRecord;
use webstone_model::spec::HttpVersion;
use webstone_server::{COUNTERS_PATH, Counters};
use webstone_workload::target::Target;

use crate::embedded::{EmbeddedServer, EmbeddedServerError, Launch};
use crate::endpoint::is_this_host;
use crate::fetch::ByProbe;
use crate::interrupt::Interrupt;
use crate::listeners::{self, Ports, ServerProcesses};
use crate::machine::Root;
use crate::measured::MeasuredServer;
use crate::process_tree::ProcessTree;
use crate::servers::Refusal;
use webstone_store::without_number;

/// How long it may take to accept a connection.
const PATIENCE: Duration = Duration::from_secs(5);
/// How long it may take to report its counters, for which the monitoring of a level waits.
const COUNTERS_PATIENCE: Duration = Duration::from_secs(1);

/// The server behind a proxy.
#[derive(Debug)]
pub struct Origin {
    /// What the record keeps of it.
    pub record: OriginRecord,
    /// How it is monitored.
    pub view: View,
    ours: Option<EmbeddedServer>,
    /// Somebody else's on this host.
    found: Option<ServerProcesses>,
}

/// How a server behind a proxy is monitored.
#[derive(Clone, Debug)]
pub struct View {
    /// Its processes, where they can be seen.
    pub processes: Option<ProcessTree>,
    /// Its URL, where it tells what it counted.
    counters_at: Option<String>,
}

impl View {
    /// What it has counted so far; `None` if it does not report it.
    pub(crate) fn counters(&self) -> Option<Counters> {
        counters(self.counters_at.as_deref()?)
    }
}

impl Origin {
    /// Starts a reference server.
    pub fn start(launch: &Launch, interrupt: &Interrupt) -> Result<Origin, EmbeddedServerError> {
        let server = EmbeddedServer::start(launch, interrupt)?;
        let url = server.url().to_owned();
        let view = View { processes: Some(server.processes()), counters_at: Some(url.clone()) };
        let record = OriginRecord { url, ours: true, cpus: launch.cpus.clone(), unseen: Vec::new() };
        Ok(Origin { record, view, ours: Some(server), found: None })
    }

    /// An origin that webstone did not start. It must accept connections, because a proxy without an origin answers late, or
    /// never.
    pub fn at(url: &str) -> Result<Origin, Refusal> {
        let addresses = reach(url).map_err(|error| Refusal {
            what: format!("server.origin: {url} does not accept connections: {}", without_number(&error)),
            hint: "start the server behind the proxy first, or remove the option: webstone then starts one"
                .to_owned(),
        })?;
        Ok(Origin::seen(url, &addresses))
    }

    /// The origin of a forward proxy. Perhaps only the proxy can reach it, so it need not accept connections from here.
    pub fn through_proxy(url: &str) -> Origin {
        match reach(url) {
            Ok(addresses) => Origin::seen(url, &addresses),
            Err(error) => {
                let unseen = format!(
                    "neither the origin {url} nor the proxy's requests to it were measured: it does not accept connections from here: {}",
                    without_number(&error)
                );
                let record =
                    OriginRecord { url: url.to_owned(), ours: false, cpus: Vec::new(), unseen: vec![unseen] };
                let view = View { processes: None, counters_at: None };
                Origin { record, view, ours: None, found: None }
            }
        }
    }

    fn seen(url: &str, addresses: &[SocketAddr]) -> Origin {
        let here = addresses.iter().all(|address| is_this_host(address.ip()));
        let ports = Ports::of_targets(addresses.iter().copied(), HttpVersion::Http11);
        let found = match here {
            true => listeners::find_or_forwarder(&Root::default(), &ports).map_err(|it| it.to_string()),
            false => Err("it is not on this host".to_owned()),
        };
        let found = found.and_then(|found| {
            found.ok_or_else(|| "no process that this user can see listens there".to_owned())
        });
        let mut unseen = Vec::new();
        if let Err(why) = &found {
            unseen.push(format!("the CPU and memory of the origin {url} were not measured: {why}"));
        }
        let found = found.ok();
        let tells = counters(url).is_some();
        if !tells {
            unseen.push(format!(
                "the proxy's requests to the origin {url} are unknown: only `webstone serve` of this version reports its counters"
            ));
        }
        let view = View {
            processes: found.as_ref().map(MeasuredServer::processes),
            counters_at: tells.then(|| url.to_owned()),
        };
        let cpus = found.as_ref().map(|found| found.cpus.clone()).unwrap_or_default();
        let record = OriginRecord { url: url.to_owned(), ours: false, cpus, unseen };
        Origin { record, view, ours: None, found }
    }

    /// A level starts: its processes are found again if it was restarted, and its peak of memory begins now.
    pub fn level_starts(&mut self) {
        if let Some(found) = &mut self.found {
            found.level_starts();
            self.view.processes = Some(found.processes());
        }
        if let Some(processes) = &self.view.processes {
            processes.reset_peak();
        }
    }

    /// How the origin ended, in words, if webstone started it and it has ended.
    pub fn exit(&mut self) -> Option<String> {
        let how = self.ours.as_mut()?.exit()?;
        Some(format!("the origin behind the proxy ended: {how}"))
    }
}

/// The addresses of a server, if one of them accepts connections.
fn reach(url: &str) -> io::Result<Vec<SocketAddr>> {
    let (target, _) =
        Target::split(url).map_err(|error| io::Error::new(io::ErrorKind::InvalidInput, error))?;
    let addresses: Vec<SocketAddr> = (target.host.as_str(), target.port).to_socket_addrs()?.collect();
    let mut last = io::Error::from(io::ErrorKind::NotFound);
    for address in &addresses {
        match TcpStream::connect_timeout(address, PATIENCE) {
            Ok(_) => return Ok(addresses),
            Err(error) => last = error,
        }
    }
    Err(last)
}

fn counters(url: &str) -> Option<Counters> {
    let probe = ByProbe::plain(COUNTERS_PATIENCE);
    let answer = probe.fetch(url, COUNTERS_PATH).ok()?;
    strict::json(&answer.body).ok().filter(|_| answer.status == 200)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::net::TcpListener;

    #[test]
    fn an_origin_that_does_not_accept_is_refused() {
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let refused = Origin::at(&format!("http://127.0.0.1:{port}")).unwrap_err();
        assert!(
            refused.what.ends_with("does not accept connections: Connection refused"),
            "{}",
            refused.what
        );
    }

    #[test]
    fn what_cannot_be_seen_of_somebody_elses_is_said() {
        // A server in this process: its processes are not monitored, and its counters not read.
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let serving = std::thread::spawn(move || {
            for stream in listener.incoming().take(2) {
                let mut stream = stream.unwrap();
                if stream.read(&mut [0; 512]).unwrap() > 0 {
                    stream.write_all(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n").unwrap();
                }
            }
        });
        let origin = Origin::at(&format!("{url}/")).unwrap();
        serving.join().unwrap();
        assert_eq!(
            origin.record.unseen,
            [
                format!(
                    "the CPU and memory of the origin {url}/ were not measured: no process that this user can see listens there"
                ),
                format!(
                    "the proxy's requests to the origin {url}/ are unknown: only `webstone serve` of this version reports \
                     its counters"
                ),
            ]
        );
        assert!(origin.view.processes.is_none() && origin.view.counters().is_none());
    }
}
