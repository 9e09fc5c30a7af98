//! How fast logs are mined: `cargo run --release -p webstone-model --example mine_speed [MEGABYTES]`.
//!
//! Makes a log in Combined Log Format in memory (millions of client addresses, 20,000 URLs by Zipf's law, one answer in twenty a 304),
//! mines it over and over in blocks of 1 MiB on one thread, and prints MB/s of the best of three turns. The log is made
//! before the clock starts. Not a test: what it prints depends on the machine.
#![allow(clippy::print_stdout, reason = "an example prints what it measured")]

use std::time::Instant;

use webstone_workload::mine::{MineOptions, Miner};
use webstone_workload::{PageSequence, Sampler};

const URLS: u64 = 20_000;
const LOG_BYTES: usize = 64 << 20;

fn main() {
    let megabytes: usize = std::env::args().nth(1).and_then(|word| word.parse().ok()).unwrap_or(1000);
    let log = make_log();
    let turns = (megabytes * 1_000_000).div_ceil(log.len());
    for (name, sessions) in [("urls", false), ("sessions", true)] {
        let mut best = 0.0_f64;
        for _ in 0..3 {
            let mut miner = Miner::new(MineOptions { sessions, ..MineOptions::default() });
            miner.begin("made");
            let start = Instant::now();
            for _ in 0..turns {
                log.chunks(1 << 20).for_each(|block| miner.push(block));
            }
            let seconds = start.elapsed().as_secs_f64();
            let outcome = miner.finish();
            assert_eq!(outcome.report.unparsed, 0, "every line is well-formed");
            best = best.max((turns * log.len()) as f64 / 1e6 / seconds);
        }
        println!("{name}: {best:.0} MB/s on one core");
    }
}

fn make_log() -> Vec<u8> {
    let weights: Vec<u64> = (1..=URLS).map(|rank| 1_000_000 / rank).collect();
    let sampler = Sampler::new(weights.into_iter()).expect("small weights");
    let mut random = PageSequence::new(1, 1);
    let mut log = String::with_capacity(LOG_BYTES + 1024);
    let mut second = 0;
    while log.len() < LOG_BYTES {
        let url = random.next_page(&sampler);
        let [a, b, c] = [random.between(1, 223), random.between(0, 127), random.between(1, 254)];
        let ending = ["html", "gif", "css", "jpg"][url as usize % 4];
        let (status, size) =
            if random.between(0, 19) == 0 { (304, 0) } else { (200, 500 + u64::from(url) * 7) };
        second += random.between(0, 1);
        let (hour, minute) = (second / 3600 % 24, second / 60 % 60);
        log += &format!(
            "10.{a}.{b}.{c} - - [10/Oct/2000:{hour:02}:{minute:02}:{:02} -0700] \"GET /directory/{url}/page.{ending}\
             ?id={url} HTTP/1.1\" {status} {size} \"https://www.example.com/start/{}.html\" \"Mozilla/5.0 (X11; Linux \
             x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/120.0.0.0 Safari/537.36\"\n",
            second % 60,
            url / 3
        );
    }
    log.into_bytes()
}
