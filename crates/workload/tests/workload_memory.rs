//! How much memory a workload of 100,000 pages takes, while it is read and afterwards, in each format.
//!
//! A test program of its own, with a single test: the allocator counts for the whole process. The test asserts bytes,
//! not time.

use std::fmt::Write;

use peak_alloc::PeakAlloc;
use webstone_workload::Sampler;
use webstone_workload::read;

#[global_allocator]
static ALLOCATOR: PeakAlloc = PeakAlloc;

const PAGES: u64 = 100_000;
const LIMIT_BYTES: usize = 64 << 20;

#[test]
fn a_hundred_thousand_pages_stay_below_64_mib() {
    let mut webstone1 = format!("{PAGES}\n");
    let mut webstone2 = String::new();
    let mut toml = String::new();
    let mut lists = String::new();
    // Writing to a String cannot fail.
    for page in 0..PAGES {
        let weight = 1 + page % 1000;
        writeln!(webstone1, "{weight} 2 /some/directory/page{page:06}.html /images/{page:06}.gif").unwrap();
        writeln!(webstone2, "/some/directory/page{page:06}.html {weight} #{}", page * 7).unwrap();
        let url = format!("/some/directory/page{page:06}.html");
        write!(toml, "[[pages]]\nweight = {weight}\nurl = \"{url}\"\nsize = {page}\n\n").unwrap();
        write!(lists, "[[pages]]\nweight = {weight}\nfiles = [{{ url = \"{url}\", size = {page} }}, \"/images/{page:06}.gif\"]\n\n")
            .unwrap();
    }
    let mut report = String::new();
    let mut worst = 0;
    for (format, text, files) in [
        ("WebStone 1.x", webstone1, 2 * PAGES),
        ("WebStone 2.x", webstone2, PAGES),
        ("TOML", toml, PAGES),
        ("TOML with lists of files", lists, 2 * PAGES),
    ] {
        let before = ALLOCATOR.current_usage();
        ALLOCATOR.reset_peak_usage();
        let workload = read(&text, "big").unwrap();
        let sampler = Sampler::new(workload.pages.iter().map(|page| page.weight)).unwrap();
        let peak = ALLOCATOR.peak_usage() - before;
        let kept = ALLOCATOR.current_usage() - before;
        assert_eq!(sampler.len() as u64, PAGES);
        assert_eq!(workload.pages.iter().map(|page| page.files.len() as u64).sum::<u64>(), files);
        // The text itself is in memory while it is read.
        let cost = peak + text.len();
        writeln!(report, "{format}: {cost} bytes while reading, {kept} kept").unwrap();
        worst = worst.max(cost);
    }
    assert!(worst < LIMIT_BYTES, "limit {LIMIT_BYTES}\n{report}");
    println!("{report}");
}
