//! Workloads in every format, and the logs that they are mined from.

use webstone_workload::mine::{MineOptions, MineOutcome, Miner};
use webstone_workload::{Sampler, Workload};
use webstone_workload::{read, read_with};

/// WebStone's two lists. A list that can be read can be sampled from, and is written and read back the same.
pub(crate) fn filelist(data: &[u8]) {
    let Ok(workload) = read(data, "list") else { return };
    holds(&workload);
    if let Ok(text) = webstone_workload::to_webstone2(&workload) {
        let again = read(&text, "list").expect("what was written can be read");
        assert_eq!(again.pages, workload.pages, "written as a WebStone 2 list: {text}");
    }
}

/// The TOML form.
pub(crate) fn workload_toml(data: &[u8]) {
    let feed = |_: &str| Ok(b"name,size\na,1\nb,2\n".to_vec());
    let Ok(workload) = read_with(data, "list.toml", feed) else { return };
    holds(&workload);
}

/// Access logs. The first byte chooses how the log is cut, and whether hits are grouped into sessions. Any cut gives the
/// same workload, every line has one place in the report, and what was mined is a workload.
pub(crate) fn access_log(data: &[u8]) {
    let Some((choice, log)) = data.split_first() else { return };
    let options = MineOptions {
        sessions: choice & 1 == 1,
        keep_query: choice & 2 == 2,
        urls_max: 20,
        ..MineOptions::default()
    };
    let mined = |piece: usize| {
        let mut miner = Miner::new(options.clone());
        miner.begin("access.log");
        log.chunks(piece).for_each(|block| miner.push(block));
        miner.finish()
    };
    let MineOutcome { workload, report } = mined(log.len().max(1));
    let split = mined(1 + usize::from(choice >> 2));
    assert_eq!((&split.workload, &split.report), (&workload, &report));
    let others: u64 = report.other_statuses.values().chain(report.other_methods.values()).sum();
    let places = report.blank + report.unparsed + report.hits + report.partial + report.not_modified;
    assert_eq!(
        report.lines,
        places + report.directives + others + report.unusable + report.elsewhere + report.overflow,
        "{report:?}"
    );
    if !workload.pages.is_empty() {
        holds(&workload);
    }
    let mut files = workload.pages.iter().flat_map(|page| &page.files);
    assert!(
        files.all(|file| file.url.starts_with('/') && !file.url.starts_with("//")),
        "it asks another host"
    );
}

fn holds(workload: &Workload) {
    assert!(Sampler::new(workload.pages.iter().map(|page| page.weight)).is_some());
    assert!(workload.pages.iter().all(|page| !page.files.is_empty()));
    let text = webstone_workload::to_toml(workload);
    let again = read(&text, "again.toml").unwrap_or_else(|error| panic!("{error}\nin {text}"));
    assert_eq!(again.pages, workload.pages, "written as TOML: {text}");
    // Rows of a file are written into the text.
    let mut feeds = workload.feeds.clone();
    feeds.values_mut().for_each(|feed| feed.file = None);
    assert_eq!(again.feeds, feeds, "written as TOML: {text}");
    assert_eq!(again.sha256(), workload.sha256());
}
