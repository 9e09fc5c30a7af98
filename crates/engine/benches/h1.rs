//! Time of the pure parts of HTTP/1: reading responses, building requests. `cargo bench -p webstone-engine`.
//!
//! Their instructions, which do not depend on what else the machine does, are counted by `cargo xtask instructions`.

use std::hint::black_box;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use webstone_engine::h1::known_heads::KnownHeads;
use webstone_engine::h1::request::{RequestParts, write_request};
use webstone_engine::h1::response::{ResponseParser, Step};
use webstone_workload::load::HttpVersion;

/// nginx's answer for a small file.
const NGINX: &str = "HTTP/1.1 200 OK\r\nServer: nginx/1.22.1\r\nDate: Sat, 21 Nov 2026 15:00:00 GMT\r\n\
                     Content-Type: text/html\r\nContent-Length: 500\r\nLast-Modified: Sat, 21 Nov 2026 14:00:00 GMT\r\n\
                     Connection: keep-alive\r\nETag: \"6560b2a0-1f4\"\r\nAccept-Ranges: bytes\r\n\r\n";

/// Parses one whole response; returns the bytes of its body.
fn parse(response: &[u8]) -> usize {
    let mut parser = ResponseParser::new(false);
    let (mut at, mut body) = (0, 0);
    while !parser.is_done() {
        let (used, step) = parser.step(&response[at..]).expect("well-formed");
        if step == Step::Body {
            body += used;
        }
        at += used;
    }
    body
}

fn responses(criterion: &mut Criterion) {
    let small = [NGINX.as_bytes(), &[b'x'; 500]].concat();
    let mut chunked = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n".to_vec();
    for _ in 0..8 {
        chunked.extend_from_slice(b"200\r\n");
        chunked.extend_from_slice(&[b'x'; 512]);
        chunked.extend_from_slice(b"\r\n");
    }
    chunked.extend_from_slice(b"0\r\n\r\n");
    let fields: String = (0..40).map(|number| format!("X-Field-{number}: some value of it\r\n")).collect();
    let many = format!("HTTP/1.1 200 OK\r\nContent-Length: 1\r\n{fields}\r\nx");
    let mut group = criterion.benchmark_group("response");
    for (name, bytes, length) in
        [("small", &small[..], 500), ("chunked", &chunked, 4096), ("40 fields", many.as_bytes(), 1)]
    {
        assert_eq!(parse(bytes), length, "{name}");
        group.throughput(Throughput::Bytes(bytes.len() as u64));
        group.bench_function(name, |bencher| bencher.iter(|| parse(black_box(bytes))));
    }
    let mut known = KnownHeads::new(1);
    group.throughput(Throughput::Bytes(small.len() as u64));
    group.bench_function("small, known", |bencher| {
        bencher.iter(|| ResponseParser::new(false).step_known(black_box(&small), &mut known, 0));
    });
    group.finish();
}

fn requests(criterion: &mut Criterion) {
    let headers = [("Accept".to_owned(), "text/html".to_owned()), ("X-Id".to_owned(), "1".to_owned())];
    let plain = RequestParts {
        method: "GET",
        target: "/file500.html",
        host: "127.0.0.1:8080",
        version: HttpVersion::Http11,
        headers: &[],
        body: None,
        last: false,
        body_later: false,
    };
    let with_fields = RequestParts { headers: &headers, ..plain };
    let mut out = Vec::with_capacity(4096);
    for (name, parts) in [("request/plain", plain), ("request/two fields", with_fields)] {
        criterion.bench_function(name, |bencher| {
            bencher.iter(|| {
                out.clear();
                write_request(black_box(&parts), &mut out);
                black_box(out.len())
            });
        });
    }
}

criterion_group!(benches, responses, requests);
criterion_main!(benches);
