//! Tests of the built-in workloads: every property that a source states, and the lists themselves by their check
//! sums.

use super::super::read;
use super::*;
use crate::TlsPages;

fn sizes(workload: &Workload) -> Vec<u64> {
    workload.pages.iter().flat_map(|page| &page.files).map(|file| file.size.unwrap()).collect()
}

fn page_sizes(workload: &Workload) -> Vec<u64> {
    workload.pages.iter().map(|page| page.files.iter().map(|file| file.size.unwrap()).sum()).collect()
}

fn get(name: &str) -> Workload {
    builtin(name).unwrap()
}

#[test]
fn every_list_is_fixed() {
    let sums: Vec<(&str, String)> =
        builtins().iter().map(|builtin| (builtin.name, builtin.workload().sha256())).collect();
    let expected: Vec<(&str, String)> = SUMS.iter().map(|(name, sum)| (*name, (*sum).to_owned())).collect();
    assert_eq!(sums, expected);
}

const SUMS: [(&str, &str); 23] = [
    ("standard", "a1afb3fb93936fe249f3407f1f73366d42c12ab397123dfbc9df3f98913415d6"),
    ("general-and-media", "98d9e1363715e8a46b6d64eabe31ee7c2b21b4f865385d7df6f736d9da0b9a19"),
    ("general-modem", "2e7684aed91d51f34762a716fa2bbdb4b35c1d2610d3d860e802286de2d04ec0"),
    ("general", "67b792917d6ae623dee5ba038a9c6c9736db3a87f778d3c515bb399a578b0782"),
    ("media-rich", "d7529b76ffc63fd4dc8093a6d2e0abf4754dd9e3272a633bc3eb2dc6e9c2ee7b"),
    ("silicon-surf", "156680185cf729447267e1a99231628eb8a8fbf887dfe048a76cdd236a960d38"),
    ("webbench-static", "94aab9f096e042c940a7c94e3f769bffa370ef19b0bb278fbf8142f4ab590bad"),
    ("webbench-dynamic", "93371fe16caea54357aded5b1ce95a7556df164f4a63373e60df781899a72f7c"),
    ("webbench-ecommerce", "c95ec7a64daf632ceb979ad7999ad9929b47395bc054a72858a8ec6521340643"),
    ("spice", "bbb0db492246d66117bdea163d817ddb505ce577bac973071e34d4b50e8fb366"),
    ("dynamic-light", "4dbbe9f1c8824967ae7acee5e80ee89ae7a14f984b5640f379e7b6d157486ef1"),
    ("dynamic-medium", "522e26b0e2c4cd915ea2cc378e8dfd41793e897027a00ba8f1d496e1128dfff2"),
    ("dynamic-heavy", "d1e4edc1d7492719cb8be2909553a2a2d8ecc34999c719fb46ca7bfa0664db6e"),
    ("cgi-heavy", "d1e4edc1d7492719cb8be2909553a2a2d8ecc34999c719fb46ca7bfa0664db6e"),
    ("workout-0k", "4e2897d1f4f2ff7cb498f4309db575f71593a1df836be5b962083e272d3e0301"),
    ("workout-16k", "59693c99e540d680a7445cd4e00505b07f547320c6434a6b88a21041d48ca4d2"),
    ("workout-64k", "43a6d40403fad2f7505c13d4eddb9bc742ba3ad86109bb32c6fe7ba2f07f1825"),
    ("transfer-2m", "9f26236a5ff0fd1311af346879b2f8c0bb429ceeed235e73a3da9052fca561c0"),
    ("transfer-7m", "751ea5efe04814494d0aa44ea528a034e52a1f18e9a7b6a5857e24c3a0d7d0e7"),
    ("send-random", "194b14076b03eaadf0ed82d1bc706b4cfc2316cea0b6feacc0044a176853adbc"),
    ("send-ready-random", "f1f7a343f92906f10b8ca0d9ceaad6e521e7dfdea24747140b216c1fd3b3949b"),
    ("send-ready-pattern", "0b1c55661d1fbf8ea5ba4d2f2ee0b9cd2949d8360a3892979a1917b0dfd331a6"),
    ("send-ready-none", "9699241f5ba3a12bf15aa1763ab386b27a8d8ea41e73468995ed306d69ca3b7e"),
];

#[test]
fn every_list_reads_back_from_toml_and_names_each_file_once() {
    for builtin in builtins() {
        let workload = builtin.workload();
        assert_eq!(read(crate::to_toml(&workload), "x.toml").unwrap(), workload);
        let files = workload.pages.iter().flat_map(|page| &page.files);
        let mut urls: Vec<(&str, bool)> = files.map(|file| (&*file.url, file.detail.tls)).collect();
        let count = urls.len();
        urls.sort_unstable();
        urls.dedup();
        assert_eq!(urls.len(), count, "{}", builtin.name);
    }
    assert!(builtin("nonsense").is_none());
}

#[test]
fn standard_is_the_published_list() {
    let published = "/file500.html 350 #500\n/file5k.html 500 #5125\n/file50k.html 140 #51250\n\
        /file500k.html 9 #512500\n/file5m.html 1 #5248000\n";
    assert_eq!(get("standard").pages, read(published, "x").unwrap().pages);
    // (350 × 500 + 500 × 5,125 + 140 × 51,250 + 9 × 512,500 + 5,248,000) / 1,000.
    assert_eq!(get("standard").mean_size(), Some(19_773.0));
}

/// Section 7 of the WebStone paper: the list, and the measured "Page size" of each page.
#[test]
fn general_and_media_is_the_papers_list() {
    let paper = "6 40 3 /file3k.html /file4k.html /file5k.html 5 3 /file10k.html /file17k.html /file20k.html 5 2 \
        /file5m.html /file1m.html 20 3 /file6k.html /file7k.html /file200k.html 20 2 /file3m.html /file21k.html 10 2 \
        /file500k.html /file13k.html";
    let mut workload = get("general-and-media");
    assert_eq!(page_sizes(&workload), [12_288, 48_128, 6_291_456, 218_112, 3_167_232, 525_312]);
    for file in workload.pages.iter_mut().flat_map(|page| &mut page.files) {
        file.size = None;
    }
    let mut printed = read(paper, "x").unwrap();
    assert_eq!(workload.pages, printed.pages);
    printed.take_sizes_of_names();
    assert_eq!(printed.pages, get("general-and-media").pages);
}

/// Section 5.1: pages less than 20k bytes, mainly text with sparse graphics.
#[test]
fn general_modem_has_small_pages_of_text() {
    let workload = get("general-modem");
    assert!(page_sizes(&workload).iter().all(|size| *size < 20_000));
    let (mut text_files, mut images, mut text_bytes, mut bytes) = (0, 0, 0, 0);
    for page in &workload.pages {
        for file in &page.files {
            let size = page.weight * file.size.unwrap();
            bytes += size;
            if file.url.ends_with(".html") {
                text_files += 1;
                text_bytes += size;
            } else {
                images += 1;
            }
        }
    }
    assert!(images * 3 <= text_files && images > 0, "{images} images, {text_files} texts");
    assert!(text_bytes * 4 > bytes * 3, "{text_bytes} of {bytes} bytes are text");
}

/// Section 5.2: file sizes between 1 and 100k bytes.
#[test]
fn general_spans_1_to_100_kilobytes() {
    let sizes = sizes(&get("general"));
    assert_eq!((sizes.iter().min(), sizes.iter().max()), (Some(&1_000), Some(&100_000)));
}

/// Section 5.3: files from 20KB to megabytes.
#[test]
fn media_rich_spans_20_kilobytes_to_megabytes() {
    let sizes = sizes(&get("media-rich"));
    assert_eq!((sizes.iter().min(), sizes.iter().max()), (Some(&20_000), Some(&5_000_000)));
    assert!(sizes.iter().filter(|size| **size >= 1_000_000).count() >= 2);
}

/// The FastTrack report: 93% of accessed files are smaller than 30 KB; 263 connections/s at 14.1 Mbit/s.
#[test]
fn silicon_surf_has_the_reports_accesses() {
    let workload = get("silicon-surf");
    for kilobyte in [1000, 1024] {
        let small: u64 = workload
            .pages
            .iter()
            .filter(|page| page.files[0].size.unwrap() < 30 * kilobyte)
            .map(|page| page.weight)
            .sum();
        assert_eq!((small * 100, workload.total_weight() * 93), (930_000, 930_000));
    }
    let mean = workload.mean_size().unwrap();
    assert!((mean - 6_836.0).abs() < 0.5, "{mean}");
    let header = 2_306_477.0 / 12_099.0;
    let per_connection = 14.1 * 1_048_576.0 / 8.0 / 263.0;
    assert!((mean + header - per_connection).abs() < 1.0, "{} for {per_connection}", mean + header);
}

/// The white paper: 6,000 files totaling 60 MB, 223 bytes to 529 KB, average response approximately 6,250 bytes.
#[test]
fn webbench_static_has_the_white_papers_files() {
    let workload = get("webbench-static");
    let sizes = sizes(&workload);
    assert_eq!(sizes.len(), 6_000);
    assert_eq!(sizes.iter().sum::<u64>(), 60_000_000);
    assert_eq!((sizes.iter().min(), sizes.iter().max()), (Some(&223), Some(&529_000)));
    let mean = workload.mean_size().unwrap();
    assert!((mean - 6_250.0).abs() < 62.5, "{mean}");
}

/// The WASD documentation: 0K, 16K and 64K characters; 4123 and 14852 blocks.
#[test]
fn workouts_and_transfers_are_one_file_each() {
    for (name, size) in [
        ("workout-0k", 0),
        ("workout-16k", 16_384),
        ("workout-64k", 65_536),
        ("transfer-2m", 2_110_976),
        ("transfer-7m", 7_604_224),
    ] {
        assert_eq!(sizes(&get(name)), [size]);
    }
}

/// The white paper: the same answer every time, 6,250 bytes in four writes, as large as the mean static response.
#[test]
fn spice_answers_are_as_large_as_webbenchs_files() {
    let workload = get("spice");
    assert_eq!(&*workload.pages[0].files[0].url, "/send?size=6250&writes=4&fill=none");
    let (of_files, of_program) = (get("webbench-static").mean_size().unwrap(), workload.mean_size().unwrap());
    assert!((of_program / of_files - 1.0).abs() < 0.01, "{of_program} {of_files}");
    let mixed = get("webbench-dynamic");
    let of_handler: u64 = mixed
        .pages
        .iter()
        .filter(|page| page.files[0].url.starts_with("/send"))
        .map(|page| page.weight)
        .sum();
    assert_eq!((of_handler * 100, mixed.pages.len()), (mixed.total_weight() * 19, 6_001));
    let of_size = get("spice-19773");
    assert_eq!(&*of_size.pages[0].files[0].url, "/send?size=19773&writes=4&fill=none");
    assert_eq!((of_size.name.as_str(), sizes(&of_size)[0]), ("spice-19773", 19_773));
    assert_eq!(read(crate::to_toml(&of_size), "x.toml").unwrap(), of_size);
    assert_eq!(&*get("spice-0").pages[0].files[0].url, "/send?size=0&writes=1&fill=none");
    for no_name in ["spice-", "spice-+1", "spice-01", "spice-1k", "spice--1"] {
        assert!(builtin(no_name).is_none(), "{no_name}");
    }
}

/// The white paper: "2% dynamic requests over SSL, 6% static SSL requests, and 17% dynamic requests over a normal connection";
/// "static, non-SSL requests 75% of the time".
#[test]
fn the_shop_has_the_white_papers_shares() {
    let workload = get("webbench-ecommerce");
    assert_eq!(workload.tls_pages(), TlsPages::Some);
    let share = |dynamic: bool, tls: bool| {
        let file = |page: &Page| page.files[0].clone();
        let is_such =
            |page: &&Page| (file(page).url.starts_with("/send"), file(page).detail.tls) == (dynamic, tls);
        workload.pages.iter().filter(is_such).map(|page| page.weight).sum::<u64>() * 100
    };
    let total = workload.total_weight();
    assert_eq!(share(false, false), 75 * total);
    assert_eq!(share(true, false), 17 * total);
    assert_eq!(share(false, true), 6 * total);
    assert_eq!(share(true, true), 2 * total);
    // Relative to each other, files are requested as often as in the static workload, with and without TLS.
    let files = get("webbench-static");
    let of_files = |tls: bool| workload.pages.iter().filter(move |page| page.files[0].detail.tls == tls);
    for (tls, percent) in [(false, 75), (true, 6)] {
        for (ours, page) in of_files(tls).zip(&files.pages) {
            assert_eq!((&ours.files[0].url, ours.weight), (&page.files[0].url, percent * page.weight));
        }
    }
    assert_eq!(workload.pages.len(), 2 * 6_001);
}

/// WebStone 2.0: light, medium and heavy are 10, 50 and 100 % dynamic; sizes follow the standard list.
#[test]
fn dynamic_shares_are_webstones() {
    let mean = get("standard").mean_size().unwrap();
    for (name, percent) in
        [("dynamic-light", 10), ("dynamic-medium", 50), ("dynamic-heavy", 100), ("cgi-heavy", 100)]
    {
        let workload = get(name);
        let of_handler: u64 = workload
            .pages
            .iter()
            .filter(|page| page.files[0].url.starts_with("/send?size="))
            .map(|page| page.weight)
            .sum();
        assert_eq!(of_handler * 100, workload.total_weight() * percent, "{name}");
        assert!((workload.mean_size().unwrap() - mean).abs() < 1e-6, "{name}");
    }
}
