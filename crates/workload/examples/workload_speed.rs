//! How fast workloads load and generated content is made and checked:
//! `cargo run --release -p webstone-model --example workload_speed`.
//!
//! Loads 100,000 pages in each format, then fills and checks 1 GB of content in pieces of 64 KiB, on one thread; the
//! best of five turns is printed. Not a test: what it prints depends on the machine.
#![allow(clippy::print_stdout, reason = "an example prints what it measured")]

use std::fmt::Write;
use std::hint::black_box;
use std::time::Instant;

use webstone_workload::Sampler;
use webstone_workload::content::{Content, ContentCheck};
use webstone_workload::read;

const PAGES: u64 = 100_000;
const CONTENT_BYTES: u64 = 1_000_000_000;

fn main() {
    let mut webstone1 = format!("{PAGES}\n");
    let mut webstone2 = String::new();
    let mut toml = String::new();
    for page in 0..PAGES {
        // Writing to a String cannot fail.
        let _ = writeln!(webstone1, "1 2 /some/directory/page{page}.html /images/{page}.gif");
        let _ = writeln!(webstone2, "/some/directory/page{page}.html {} #{page}", 1 + page % 9);
        let _ = write!(
            toml,
            "[[pages]]\nweight = 3\nurl = \"/some/directory/page{page}.html\"\nsize = {page}\n\n"
        );
    }
    for (format, text) in [("WebStone 1.x", webstone1), ("WebStone 2.x", webstone2), ("TOML", toml)] {
        let seconds = best(|| {
            let workload = read(&text, "big").expect("well-formed");
            black_box(Sampler::new(workload.pages.iter().map(|page| page.weight)).expect("small weights"));
        });
        println!("{PAGES} pages, {format}: {:.0} ms", seconds * 1e3);
    }
    let content = Content::of("/file5m.html");
    let mut piece = vec![0; 65_536];
    let length = piece.len() as u64;
    let seconds = best(|| {
        (0..CONTENT_BYTES / length).for_each(|number| content.fill(number * length, black_box(&mut piece)));
    });
    println!("content filled: {:.1} GB/s", CONTENT_BYTES as f64 / 1e9 / seconds);
    content.fill(0, &mut piece);
    let seconds = best(|| {
        for _ in 0..CONTENT_BYTES / length {
            let mut check = ContentCheck::new("/file5m.html", length);
            assert!(check.update(black_box(&piece)) && check.finished());
        }
    });
    println!("content checked: {:.1} GB/s", CONTENT_BYTES as f64 / 1e9 / seconds);
}

fn best(mut turn: impl FnMut()) -> f64 {
    (0..5).fold(f64::INFINITY, |best, _| {
        let start = Instant::now();
        turn();
        best.min(start.elapsed().as_secs_f64())
    })
}
