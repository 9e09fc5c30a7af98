//! Targets for tests: one answers from a table, one gives the same answer to everything, one refuses.

#![expect(clippy::unwrap_used, reason = "what a test cannot set up shall end the test")]

use std::collections::HashMap;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4, TcpListener};
use std::os::fd::OwnedFd;

use rustix::net::{AddressFamily, SocketType, bind, getsockname, socket};
use webstone_engine::{Extent, ProbeError, ProbeResponse, ReadTo};
use webstone_measure::errors::ErrorClass;
use webstone_workload::RequestDetail;
use webstone_workload::load::HttpVersion;
use webstone_workload::target::Target;

use crate::fetch::Fetch;

/// Answers from a table: URL to status and body; anything else is refused.
#[derive(Default)]
pub struct Table(pub HashMap<String, (u16, Vec<u8>)>);

impl Fetch for Table {
    fn fetch_at(
        &self,
        at: Option<&Target>,
        base: &str,
        path: &str,
        _: &RequestDetail,
        extent: Extent,
        each: &mut dyn FnMut(&[u8]),
    ) -> Result<ProbeResponse, ProbeError> {
        let base = at.map_or_else(|| base.to_owned(), Target::to_string);
        let url = format!("{base}{path}");
        let Some((status, body)) = self.0.get(&url) else {
            return Err(ProbeError {
                class: ErrorClass::Refused,
                request: format!("GET {url}"),
                detail: "connection refused".into(),
                hint: None,
            });
        };
        let (Extent::Whole { bytes_max } | Extent::Beginning { bytes_max, .. }) = extent;
        let is_whole = body.len() as u64 <= bytes_max;
        body[..body.len().min(bytes_max as usize)].chunks(1_000).for_each(each);
        Ok(ProbeResponse {
            http: HttpVersion::Http11,
            status: *status,
            headers: vec![
                ("server".into(), "Table/1".into()),
                ("content-length".into(), body.len().to_string()),
            ],
            body: Vec::new(),
            wire_bytes: body.len() as u64,
            read: if is_whole { ReadTo::End } else { ReadTo::Bytes },
        })
    }
}

/// A listener that answers every connection with the same bytes, until the test ends.
pub fn answering(answer: &'static [u8]) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let _ = stream.read(&mut [0; 1024]);
            let _ = stream.write_all(answer);
        }
    });
    format!("http://{address}")
}

/// A port that refuses connections and is reserved while the socket lives.
pub fn refusing() -> (OwnedFd, SocketAddr) {
    let bound = socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
    bind(&bound, &SocketAddrV4::new(Ipv4Addr::LOCALHOST, 0)).unwrap();
    let address = SocketAddr::try_from(getsockname(&bound).unwrap()).unwrap();
    (bound, address)
}
