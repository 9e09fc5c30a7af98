//! The two runs of section 7 of the WebStone paper, as measurements filled with the numbers that it prints, and the
//! text that it prints from them (line ends are lost in the published copy, so blanks are compared as one).

use webstone_measure::metrics::{Counts, Measured, Moments, PageTotals};
use webstone_measure::units::Nanos;
use webstone_model::record::{IterationRecord, RunRecord, TargetRecord};
use webstone_workload::{Page, Workload};

use super::SECOND;

/// One row of a page block: hits, total time, maximum response, total connect, maximum connect (µs), bytes, connects.
type PageRow = (u64, u64, u64, u64, u64, u64, u64);

/// The Netsite run.
pub fn netsite() -> RunRecord {
    let pages: [PageRow; 6] = [
        (1888, 1_262_655_230, 1_758_487, 21_293_520, 38_234, 23_199_744, 5664),
        (200, 189_543_349, 1_750_272, 2_550_292, 28_744, 9_625_600, 600),
        (191, 3_188_731_168, 21_040_139, 1_605_905, 18_310, 1_201_668_096, 382),
        (870, 816_308_261, 2_034_608, 9_977_394, 33_259, 189_757_440, 2610),
        (918, 7_808_708_139, 11_413_719, 7_645_089, 37_124, 1_387_448_320, 1836),
        (500, 990_735_685, 4_075_929, 4_365_119, 40_544, 262_656_000, 1000),
    ];
    let totals = Totals {
        pages_completed: 4567,
        connects: 12_099,
        response_us: 14_298_928_119,
        response_us_max: 18_488_714,
        // The paper gives the mean, 0.003923 s.
        connect_us: 12_099 * 3_923,
        connect_us_max: 37_051,
        body_bytes: 3_074_355_200,
        head_bytes: 2_306_477,
    };
    record(
        "webstone -w xpi0-alfalfa -c sulu:8636 -u filelist -t 10 -n %d",
        "1995-03-07T01:33:16Z",
        &pages,
        &totals,
    )
}

/// The NCSA run.
pub fn ncsa() -> RunRecord {
    let pages: [PageRow; 6] = [
        (597, 2_852_766_161, 31_364_861, 215_503_592, 29_778_926, 7_335_936, 1791),
        (129, 650_500_231, 10_067_770, 23_714_814, 5_931_920, 6_208_512, 387),
        (72, 3_050_927_370, 53_652_579, 5_801_699, 5_563_671, 452_984_832, 144),
        (328, 2_131_366_331, 12_596_820, 42_219_253, 5_932_938, 71_540_736, 984),
        (221, 5_043_018_456, 29_971_733, 17_345_611, 5_594_679, 699_958_272, 442),
        (75, 498_577_637, 33_667_678, 58_567_395, 29_853_669, 39_398_400, 150),
    ];
    let totals = Totals {
        pages_completed: 1422,
        connects: 3920,
        response_us: 14_289_247_361,
        response_us_max: 43_999_927,
        connect_us: 3920 * 92_649,
        connect_us_max: 29_851_746,
        body_bytes: 1_278_055_424,
        head_bytes: 719_794,
    };
    record(
        "webstone -w xpi0-alfalfa -c sulu:8626 -p 1081 -u filelist -t 10 -n %d",
        "1995-03-07T01:17:42Z",
        &pages,
        &totals,
    )
}

/// The page blocks of the Netsite run, as printed.
pub const NETSITE_PAGES: &str = "\
Page # 0 ================================================================================ Total number of times page was hit 1888 Total time 1262.655230 seconds Maximum Response time 1.758487 Total connect time for page 21.293520 Maximum time to connect 0.038234 Total amount of data moved 23199744 Page size 12288 Total number of connects 5664 ================================================================================ \
Page # 1 ================================================================================ Total number of times page was hit 200 Total time 189.543349 seconds Maximum Response time 1.750272 Total connect time for page 2.550292 Maximum time to connect 0.028744 Total amount of data moved 9625600 Page size 48128 Total number of connects 600 ================================================================================ \
Page # 2 ================================================================================ Total number of times page was hit 191 Total time 3188.731168 seconds Maximum Response time 21.040139 Total connect time for page 1.605905 Maximum time to connect 0.018310 Total amount of data moved 1201668096 Page size 6291456 Total number of connects 382 ================================================================================ \
Page # 3 ================================================================================ Total number of times page was hit 870 Total time 816.308261 seconds Maximum Response time 2.034608 Total connect time for page 9.977394 Maximum time to connect 0.033259 Total amount of data moved 189757440 Page size 218112 Total number of connects 2610 ================================================================================ \
Page # 4 ================================================================================ Total number of times page was hit 918 Total time 7808.708139 seconds Maximum Response time 11.413719 Total connect time for page 7.645089 Maximum time to connect 0.037124 Total amount of data moved 1387448320 Page size 3167232 Total number of connects 1836 ================================================================================ \
Page # 5 ================================================================================ Total number of times page was hit 500 Total time 990.735685 seconds Maximum Response time 4.075929 Total connect time for page 4.365119 Maximum time to connect 0.040544 Total amount of data moved 262656000 Page size 525312 Total number of connects 1000 ================================================================================";

/// The totals of the NCSA run, as printed.
pub const NCSA_TOTALS: &str = "\
================================== WEBSTONE number: 142 Total number of clients: 24 Total cumulative time of test for all hosts (sec): 14289.247361 Total number of pages retrieved from server: 1422 Total number of errors to server: 0 Total number of connects to server: 3920 Average time per connect: 0.092649 seconds Maximum time to connect: 29.851746 seconds Total mount of data moved: 1278775218 Total bytes of body moved: 1278055424 bytes.Total bytes of header moved 719794 Average body size: 326034 bytes. Average retrieval size 326218 Thruput = 89492 bytes/sec Average Response time: 3.645216 seconds Maximum Response time: 43.999927 seconds";

/// Page 4 of the NCSA run, as printed.
pub const NCSA_PAGE_4: &str = "\
Page # 4 ================================================================================ Total number of times page was hit 221 Total time 5043.018456 seconds Maximum Response time 29.971733 Total connect time for page 17.345611 Maximum time to connect 5.594679 Total amount of data moved 699958272 Page size 3167232 Total number of connects 442 ================================================================================";

struct Totals {
    pages_completed: u64,
    connects: u64,
    response_us: u64,
    response_us_max: u64,
    connect_us: u64,
    connect_us_max: u64,
    body_bytes: u64,
    head_bytes: u64,
}

fn record(command: &str, started_at: &str, pages: &[PageRow], totals: &Totals) -> RunRecord {
    let mut record = super::empty("19950307-webstone", &[24], 1);
    record.command_line = command.split(' ').map(str::to_owned).collect();
    record.environment = [("hostname".to_owned(), serde_json::json!("gateweb-indy8"))].into();
    record.target = TargetRecord { url: "http://xpi0-alfalfa/".to_owned(), ..TargetRecord::default() };
    record.workload = workload();
    // The paper prints no deviations: all values equal their mean, but for the largest.
    let moments = |count: u64, sum: u64, max: u64| Moments {
        count,
        sum,
        sum_of_squares: (u128::from(sum) * u128::from(sum)).div_ceil(u128::from(count)),
        min: 0,
        max,
    };
    let measured = Measured {
        window_ns: 600 * SECOND,
        counts: Counts {
            pages_completed: totals.pages_completed,
            connections: totals.connects,
            connections_answered: totals.connects,
            started: totals.connects,
            planned: totals.connects,
            succeeded: totals.connects,
            body_bytes: totals.body_bytes,
            head_bytes: totals.head_bytes,
            // The paper prints only whole response times, and its window is long compared with them.
            busy_ns: totals.response_us * 1_000,
            ..Counts::default()
        },
        connect: moments(totals.connects, totals.connect_us * 1_000, totals.connect_us_max * 1_000),
        response: moments(totals.connects, totals.response_us * 1_000, totals.response_us_max * 1_000),
        response_bytes: moments(totals.connects, totals.body_bytes + totals.head_bytes, 5_242_880),
        body_bytes: moments(totals.connects, totals.body_bytes, 5_242_880),
        pages: pages.iter().map(page).collect(),
        ..Measured::default()
    };
    record.iterations.push(IterationRecord {
        clients: 24,
        iteration: 1,
        started_at: started_at.to_owned(),
        interrupted: false,
        measured,
        identities: Vec::new(),
        server: None,
        ..IterationRecord::default()
    });
    record
}

fn page(&(hits, time, time_max, connect, connect_max, body_bytes, connects): &PageRow) -> PageTotals {
    PageTotals {
        hits,
        time_ns: time * 1_000,
        time_ns_max: time_max * 1_000,
        connect_ns: connect * 1_000,
        connect_ns_max: connect_max * 1_000,
        body_bytes,
        connects,
        requests: connects,
        ..PageTotals::default()
    }
}

/// The filelist of the paper; sizes are the numbers in the names × 1,024.
fn workload() -> Workload {
    const K: u64 = 1024;
    const M: u64 = 1024 * 1024;
    let page = |weight, files: &[(&str, u64)]| Page {
        weight,
        files: files.iter().map(|(url, size)| super::file(url, *size)).collect(),
        think: Nanos::ZERO,
    };
    Workload {
        name: "general-and-media".to_owned(),
        pages: vec![
            page(40, &[("/file3k.html", 3 * K), ("/file4k.html", 4 * K), ("/file5k.html", 5 * K)]),
            page(5, &[("/file10k.html", 10 * K), ("/file17k.html", 17 * K), ("/file20k.html", 20 * K)]),
            page(5, &[("/file5m.html", 5 * M), ("/file1m.html", M)]),
            page(20, &[("/file6k.html", 6 * K), ("/file7k.html", 7 * K), ("/file200k.html", 200 * K)]),
            page(20, &[("/file3m.html", 3 * M), ("/file21k.html", 21 * K)]),
            page(10, &[("/file500k.html", 500 * K), ("/file13k.html", 13 * K)]),
        ],
        ..Workload::default()
    }
}
