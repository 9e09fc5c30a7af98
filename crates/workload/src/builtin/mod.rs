//! Workloads that need no file: the lists that came with WebStone, and those that published reports describe.
//!
//! If a source prints its list, this is that list. If it only states properties, the list is synthesised by the rule
//! of [`synthesis`] from numbers chosen to have those properties; tests check each one. Either way the list is fixed:
//! a test has its SHA-256, and a change would make it another workload.

mod synthesis;

use super::pages::size_of_name;
use super::{FileRequest, Page, Workload};
use synthesis::{Random, Sizes};

/// A workload that needs no file.
#[derive(Clone, Copy, Debug)]
pub struct Builtin {
    /// Its name.
    pub name: &'static str,
    /// What it is, in one line.
    pub summary: &'static str,
    /// Where its list or its properties come from.
    pub source: &'static str,
    pages: fn() -> Vec<Page>,
}

impl Builtin {
    /// The workload.
    pub fn workload(&self) -> Workload {
        Workload {
            name: self.name.to_owned(),
            description: format!("{}. Source: {}.", self.summary, self.source),
            feeds: Default::default(),
            pages: (self.pages)(),
        }
    }
}

/// Every built-in workload.
pub fn builtins() -> &'static [Builtin] {
    &BUILTINS
}

/// The built-in workload of a name. `spice-N` is `spice` with N bytes: dynamic answers of the mean size of some set
/// of files.
pub fn builtin(name: &str) -> Option<Workload> {
    let named = || BUILTINS.iter().find(|builtin| builtin.name == name).map(Builtin::workload);
    named().or_else(|| {
        let size: u64 = name.strip_prefix("spice-")?.parse().ok()?;
        let description =
            format!("One dynamic answer of {size} bytes in four writes. Source: {SPICE_PAPER}.");
        // Other spellings of the number (+1, 01) are not accepted.
        (name == format!("spice-{size}")).then(|| Workload {
            name: name.to_owned(),
            description,
            feeds: Default::default(),
            pages: vec![page(1, vec![spiced(size)])],
        })
    })
}

/// Bytes of SPICE's dynamic answer: the mean of WebBench's static responses.
const SPICE_BYTES: u64 = 6_250;
/// Number of writes in which it is sent.
const SPICE_WRITES: u64 = 4;

const WEBSTONE_PAPER: &str =
    "G. Trent, M. Sake, \"WebSTONE: The First Generation in HTTP Server Benchmarking\", 1995";
const FASTTRACK: &str =
    "Mindcraft, \"Performance Benchmark Test of the Netscape FastTrack Beta 3 Web Server\", 1996";
const WASD: &str = "WASD HTTP server documentation, section 13, \"Server Performance\"";

const WEBSTONE_2: &str = "WebStone 2.0.1, its filelists";
const SPICE_PAPER: &str =
    "Mindcraft, \"Hewlett-Packard NetServer LT 6000r Web Server Performance Analysis and Details\"";

static BUILTINS: [Builtin; 23] = [
    Builtin {
        name: "standard",
        summary: "WebStone 2's standard list: five files of 500 bytes to 5 MB, small ones most often; mean 19,773 bytes",
        source: "WebStone 2.0.1, filelist.standard",
        pages: standard,
    },
    Builtin {
        name: "general-and-media",
        summary: "Six pages of two or three files each, text beside files of megabytes",
        source: WEBSTONE_PAPER,
        pages: general_and_media,
    },
    Builtin {
        name: "general-modem",
        summary: "Pages under 20 kB for users with modems: mostly text, few images (synthesised)",
        source: WEBSTONE_PAPER,
        pages: general_modem,
    },
    Builtin {
        name: "general",
        summary: "Pages of files from 1 to 100 kB (synthesised)",
        source: WEBSTONE_PAPER,
        pages: general,
    },
    Builtin {
        name: "media-rich",
        summary: "Pages of images, sound and film, from 20 kB to megabytes (synthesised)",
        source: WEBSTONE_PAPER,
        pages: media_rich,
    },
    Builtin {
        name: "silicon-surf",
        summary: "The load of a company's site of 1995: 93 % of accesses under 30 kB, 7,026 bytes per access with \
                  headers (synthesised)",
        source: FASTTRACK,
        pages: silicon_surf,
    },
    Builtin {
        name: "webbench-static",
        summary: "6,000 files of 223 bytes to 529 kB, 60 MB in all, mean response 6,250 bytes (synthesised)",
        source: SPICE_PAPER,
        pages: webbench_static,
    },
    Builtin {
        name: "webbench-dynamic",
        summary: "19 % of requests to the dynamic handler (6,250 bytes in four writes), 81 % as webbench-static",
        source: "WebBench 5.0, as described by its users",
        pages: webbench_dynamic,
    },
    Builtin {
        name: "webbench-ecommerce",
        summary: "WebBench's shop: 75 % files and 17 % dynamic answers without TLS, 6 % and 2 % of them over TLS",
        source: SPICE_PAPER,
        pages: webbench_ecommerce,
    },
    Builtin {
        name: "spice",
        summary: "One dynamic answer of 6,250 bytes in four writes: what an interface costs (spice-N: of N bytes)",
        source: SPICE_PAPER,
        pages: || vec![page(1, vec![spiced(SPICE_BYTES)])],
    },
    Builtin {
        name: "dynamic-light",
        summary: "10 % of requests to the dynamic handler, sizes as in standard",
        source: WEBSTONE_2,
        pages: || partly_dynamic(9, 1),
    },
    Builtin {
        name: "dynamic-medium",
        summary: "50 % of requests to the dynamic handler, sizes as in standard",
        source: WEBSTONE_2,
        pages: || partly_dynamic(1, 1),
    },
    Builtin {
        name: "dynamic-heavy",
        summary: "All requests to the dynamic handler within the server, sizes as in standard",
        source: WEBSTONE_2,
        pages: || partly_dynamic(0, 1),
    },
    Builtin {
        name: "cgi-heavy",
        summary: "All requests to the dynamic handler, through CGI (--server-interface cgi), sizes as in standard",
        source: WEBSTONE_2,
        pages: || partly_dynamic(0, 1),
    },
    Builtin {
        name: "workout-0k",
        summary: "One empty file: response and file access without a transfer",
        source: WASD,
        pages: || one("/exercise/0k.txt", 0),
    },
    Builtin {
        name: "workout-16k",
        summary: "One file of 16,384 bytes",
        source: WASD,
        pages: || one("/exercise/16k.txt", 16 * 1024),
    },
    Builtin {
        name: "workout-64k",
        summary: "One file of 65,536 bytes",
        source: WASD,
        pages: || one("/exercise/64k.txt", 64 * 1024),
    },
    Builtin {
        name: "transfer-2m",
        summary: "One log file of 4,123 blocks of 512 bytes: transfer rate",
        source: WASD,
        pages: || one("/log/access.log", 4_123 * 512),
    },
    Builtin {
        name: "transfer-7m",
        summary: "One log file of 14,852 blocks of 512 bytes: transfer rate",
        source: WASD,
        pages: || one("/log/total.log", 14_852 * 512),
    },
    Builtin {
        name: "send-random",
        summary: "One dynamic answer of silicon-surf's mean size, a random byte at a time: WebStone 1.1's CGI and NSAPI programs",
        source: FASTTRACK,
        pages: || sent_as("fill=random"),
    },
    Builtin {
        name: "send-ready-random",
        summary: "The same with a ready-made head and no allocation: version A of FastTrack's NSAPI module",
        source: FASTTRACK,
        pages: || sent_as("fill=random&head=ready"),
    },
    Builtin {
        name: "send-ready-pattern",
        summary: "The same with bytes made from their place: version B of FastTrack's NSAPI module",
        source: FASTTRACK,
        pages: || sent_as("fill=pattern&head=ready"),
    },
    Builtin {
        name: "send-ready-none",
        summary: "The same without making any byte: version C of FastTrack's NSAPI module",
        source: FASTTRACK,
        pages: || sent_as("fill=none&head=ready"),
    },
];

fn file(url: impl Into<Box<str>>, size: u64) -> FileRequest {
    FileRequest { url: url.into(), size: Some(size), ..FileRequest::default() }
}

fn page(weight: u64, files: Vec<FileRequest>) -> Page {
    Page { weight, files, think: Default::default() }
}

fn one(url: &str, size: u64) -> Vec<Page> {
    vec![page(1, vec![file(url, size)])]
}

/// A request to the dynamic handler.
fn sent(size: u64) -> FileRequest {
    file(format!("/send?size={size}"), size)
}

/// The same for SPICE, whose programs "do the minimum processing needed": no character is computed, or the speed of a
/// loop in the handler's language would hide the cost of its interface.
fn spiced(size: u64) -> FileRequest {
    // Each write has at least one byte; an empty answer has one write.
    let writes = SPICE_WRITES.min(size.max(1));
    file(format!("/send?size={size}&writes={writes}&fill=none"), size)
}

/// One answer as large as silicon-surf's bodies on average, made as FastTrack's report describes.
fn sent_as(how: &str) -> Vec<Page> {
    vec![page(1, vec![file(format!("/send?size=6836&{how}"), 6_836)])]
}

/// `standard`, with `files` parts of it served as files and `dynamic` parts made by the handler, page by page.
fn partly_dynamic(files: u64, dynamic: u64) -> Vec<Page> {
    let of_files = standard().into_iter().map(|page| Page { weight: page.weight * files, ..page });
    let of_handler = standard()
        .into_iter()
        .map(|list| page(list.weight * dynamic, vec![sent(list.files[0].size.unwrap_or_default())]));
    of_files.chain(of_handler).filter(|page| page.weight > 0).collect()
}

fn webbench_dynamic() -> Vec<Page> {
    let mut pages = webbench_static();
    let total: u64 = pages.iter().map(|page| page.weight).sum();
    pages.iter_mut().for_each(|page| page.weight *= 81);
    pages.push(page(19 * total, vec![spiced(SPICE_BYTES)]));
    pages
}

/// The shares are the paper's. It does not say which files are requested over TLS, and how often each: here they are
/// those of the static workload, as often as there. Its programs answer like `spice`: 6,250 bytes in four writes.
fn webbench_ecommerce() -> Vec<Page> {
    let files = webbench_static();
    let total: u64 = files.iter().map(|page| page.weight).sum();
    let of_files = |percent: u64, tls: bool| {
        let weighed = move |page: &Page| Page { weight: percent * page.weight, ..page.clone() };
        files.iter().map(weighed).map(move |page| if tls { over_tls(page) } else { page })
    };
    let program = |percent: u64| page(percent * total, vec![spiced(SPICE_BYTES)]);
    let mut pages: Vec<Page> = of_files(75, false).collect();
    pages.push(program(17));
    pages.extend(of_files(6, true));
    pages.push(over_tls(program(2)));
    pages
}

/// A page with all its files requested over TLS.
fn over_tls(mut page: Page) -> Page {
    page.files.iter_mut().for_each(|file| file.detail.tls = true);
    page
}

fn standard() -> Vec<Page> {
    [
        ("/file500.html", 350, 500),
        ("/file5k.html", 500, 5_125),
        ("/file50k.html", 140, 51_250),
        ("/file500k.html", 9, 512_500),
        ("/file5m.html", 1, 5_248_000),
    ]
    .map(|(url, weight, size)| page(weight, vec![file(url, size)]))
    .into()
}

fn general_and_media() -> Vec<Page> {
    let pages: [(u64, &[&str]); 6] = [
        (40, &["3k", "4k", "5k"]),
        (5, &["10k", "17k", "20k"]),
        (5, &["5m", "1m"]),
        (20, &["6k", "7k", "200k"]),
        (20, &["3m", "21k"]),
        (10, &["500k", "13k"]),
    ];
    let named = |name: &&str| {
        let url = format!("/file{name}.html");
        let size = size_of_name(&url).expect("a size above");
        file(url, size)
    };
    pages.map(|(weight, names)| page(weight, names.iter().map(named).collect())).into()
}

/// Shares of twenty pages in percent, decreasing like popularity.
const TWENTY_PAGES: [u64; 20] = [12, 10, 9, 8, 7, 6, 6, 5, 5, 4, 4, 4, 3, 3, 3, 3, 2, 2, 2, 2];

/// Twenty texts of 1 to 12 kB, every third with one image of 0.5 to 6 kB.
fn general_modem() -> Vec<Page> {
    let mut random = Random::new(51);
    let texts = Sizes { files: 20, low: 1_000, high: 12_000, total: 100_000, ends: false }.draw(&mut random);
    let mut images =
        Sizes { files: 6, low: 500, high: 6_000, total: 15_000, ends: false }.draw(&mut random).into_iter();
    let pages = TWENTY_PAGES.into_iter().zip(texts).enumerate().map(|(number, (weight, text))| {
        let mut files = vec![file(format!("/modem/page{number:02}.html"), text)];
        if number % 3 == 2 {
            files.extend(images.next().map(|size| file(format!("/modem/image{number:02}.gif"), size)));
        }
        page(weight, files)
    });
    pages.collect()
}

/// Twenty texts of 1 to 30 kB, with none to three images of 1 to 100 kB.
fn general() -> Vec<Page> {
    let mut random = Random::new(52);
    let texts = Sizes { files: 20, low: 1_000, high: 30_000, total: 160_000, ends: false }.draw(&mut random);
    let mut images = Sizes { files: 30, low: 1_000, high: 100_000, total: 600_000, ends: true }
        .draw(&mut random)
        .into_iter();
    let pages = TWENTY_PAGES.into_iter().zip(texts).enumerate().map(|(number, (weight, text))| {
        let mut files = vec![file(format!("/general/page{number:02}.html"), text)];
        let urls = (0..number % 4).map(|image| format!("/general/image{number:02}{image}.gif"));
        files.extend(urls.zip(&mut images).map(|(url, size)| file(url, size)));
        page(weight, files)
    });
    pages.collect()
}

/// Ten images of 20 to 300 kB, every second with a clip of 200 kB to 5 MB.
fn media_rich() -> Vec<Page> {
    let mut random = Random::new(53);
    let images =
        Sizes { files: 10, low: 20_000, high: 300_000, total: 800_000, ends: true }.draw(&mut random);
    let mut clips = Sizes { files: 5, low: 200_000, high: 5_000_000, total: 7_500_000, ends: true }
        .draw(&mut random)
        .into_iter();
    let endings = ["mpg", "aiff", "mov"];
    let weights = [20, 16, 14, 12, 10, 8, 8, 5, 4, 3];
    let pages = weights.into_iter().zip(images).enumerate().map(|(number, (weight, image))| {
        let mut files = vec![file(format!("/media/image{number}.jpg"), image)];
        if number % 2 == 1 {
            let url = format!("/media/clip{number}.{}", endings[number / 2 % 3]);
            files.extend(clips.next().map(|size| file(url, size)));
        }
        page(weight, files)
    });
    pages.collect()
}

/// One tier of files that are requested equally often.
struct Tier {
    weight: u64,
    sizes: Sizes,
}

impl Tier {
    const fn new(weight: u64, files: u64, low: u64, high: u64, total: u64, ends: bool) -> Tier {
        Tier { weight, sizes: Sizes { files, low, high, total, ends } }
    }
}

fn tiers(directory: &str, seed: u64, tiers: &[Tier]) -> Vec<Page> {
    let mut random = Random::new(seed);
    let mut pages = Vec::new();
    for tier in tiers {
        for size in tier.sizes.draw(&mut random) {
            let number = pages.len();
            let ending = if number % 3 == 0 { "html" } else { "gif" };
            let url = format!("/{directory}/{number:04}.{ending}");
            pages.push(page(tier.weight, vec![file(url, size)]));
        }
    }
    pages
}

/// 10,000 accesses, 68,360,040 bytes: 6,836 bytes per body. With the 190 bytes of header per access that the WebStone
/// paper measured (2,306,477 over 12,099) that is 7,026 bytes per connection, and so 263 connections/s at 14.1 × 2^20
/// bit/s. 9,300 of the accesses are to files under 30,000 bytes and 700 to files above 30,720, so the share is right
/// for either meaning of kilobyte.
fn silicon_surf() -> Vec<Page> {
    tiers(
        "surf",
        1996,
        &[
            Tier::new(300, 10, 200, 10_000, 30_000, false),
            Tier::new(90, 40, 200, 20_000, 160_000, false),
            Tier::new(18, 150, 200, 29_999, 747_780, true),
            Tier::new(35, 10, 30_721, 80_000, 450_000, false),
            Tier::new(7, 50, 30_721, 120_000, 2_250_000, true),
        ],
    )
}

/// Four classes of size; in each, one file in twenty is requested twenty times as often as most, and one in four four
/// times as often. 60,000,000 bytes; 64,098 accesses to 400,626,000 bytes: 6,250.2 per response.
fn webbench_static() -> Vec<Page> {
    tiers(
        "webbench",
        2000,
        &[
            Tier::new(100, 75, 223, 2_000, 75_000, false),
            Tier::new(20, 375, 223, 2_000, 375_000, false),
            Tier::new(5, 1_050, 223, 2_000, 1_050_000, true),
            Tier::new(100, 125, 2_000, 10_000, 703_500, false),
            Tier::new(20, 625, 2_000, 10_000, 3_517_500, false),
            Tier::new(5, 1_750, 2_000, 10_000, 9_849_000, false),
            Tier::new(40, 87, 10_000, 50_000, 1_305_000, false),
            Tier::new(8, 435, 10_000, 50_000, 6_525_000, false),
            Tier::new(2, 1_218, 10_000, 50_000, 18_270_000, false),
            Tier::new(20, 13, 50_000, 200_000, 916_500, false),
            Tier::new(4, 65, 50_000, 300_000, 4_582_500, false),
            Tier::new(1, 182, 50_000, 529_000, 12_831_000, true),
        ],
    )
}

#[cfg(test)]
mod tests;
