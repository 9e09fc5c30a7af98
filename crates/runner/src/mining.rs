//! Reading access logs for the miner: plain or gzip, several files in turn, or standard input.
//!
//! What logs mean is the business of `webstone_workload::mine`; this module reads files. Logs are streamed in
//! blocks of a mebibyte and never held as a whole.

use std::fs::File;
use std::io::{self, BufReader, Cursor, Read};
use std::path::{Path, PathBuf};

use flate2::bufread::MultiGzDecoder;
use webstone_store::without_number;
use webstone_workload::mine::{MineOptions, MineOutcome, MineReport, Miner};

/// Bytes read at once.
const BLOCK_BYTES: usize = 1 << 20;

/// How far the mining is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MiningProgress<'a> {
    /// The log that is being read.
    pub source: &'a Path,
    /// Bytes of log text read so far, over all logs, unpacked.
    pub bytes: u64,
    /// What was found so far.
    pub report: &'a MineReport,
}

/// Why no workload came of it.
#[derive(Debug, thiserror::Error)]
pub enum MiningError {
    /// No log was named.
    #[error("no log is named")]
    NoLogs,
    /// A log cannot be read.
    #[error("cannot read {}: {}", path.display(), without_number(source))]
    Unreadable {
        /// The log.
        path: PathBuf,
        /// The operating system's answer.
        source: io::Error,
    },
    /// A packed log cannot be unpacked to its end.
    #[error("cannot unpack {}: {}", path.display(), source)]
    Packed {
        /// The log.
        path: PathBuf,
        /// What gzip's reader says.
        source: io::Error,
    },
    /// A log is packed in a way that is not supported.
    #[error("{}: compressed with {packer}, which is not supported", path.display())]
    OtherPacker {
        /// The log.
        path: PathBuf,
        /// The program that packs like this.
        packer: &'static str,
    },
    /// Nothing in the logs counts.
    #[error("found no GET with status 200 in {} lines", report.lines)]
    NothingFound {
        /// Where the lines went.
        report: Box<MineReport>,
    },
}

impl MiningError {
    /// What to do about it.
    pub fn hint(&self) -> Option<String> {
        Some(match self {
            MiningError::NoLogs => "name access logs, or - for standard input".to_owned(),
            MiningError::Unreadable { .. } => return None,
            MiningError::Packed { path, .. } => {
                format!("to use the readable part: gzip -dc {} | webstone mine -", path.display())
            }
            MiningError::OtherPacker { path, packer } => {
                format!("decompress it on the fly: {packer} -dc {} | webstone mine -", path.display())
            }
            MiningError::NothingFound { report } => match report.unparsed_examples.first() {
                Some(example) => {
                    format!("{} lines have no known format; the first: {example}", report.unparsed)
                }
                None if report.elsewhere > 0 => format!(
                    "{} requests are for other hosts, as a proxy logs them; mine the log of the server itself",
                    report.elsewhere
                ),
                None => "mine the log of a server that answered requests for files".to_owned(),
            },
        })
    }
}

/// Mines logs, in the order given; `-` is standard input. Calls `progress` after every block.
pub fn mine(
    logs: &[PathBuf],
    options: MineOptions,
    progress: &mut dyn FnMut(MiningProgress<'_>),
) -> Result<MineOutcome, MiningError> {
    if logs.is_empty() {
        return Err(MiningError::NoLogs);
    }
    let mut miner = Miner::new(options);
    let mut bytes = 0;
    for path in logs {
        let unreadable = |source| MiningError::Unreadable { path: path.clone(), source };
        let is_stdin = path.as_os_str() == "-";
        miner.begin(&if is_stdin { "(standard input)".into() } else { path.display().to_string() });
        let input: Box<dyn Read> = if is_stdin {
            Box::new(io::stdin().lock())
        } else {
            Box::new(File::open(path).map_err(unreadable)?)
        };
        mine_one(input, path, &mut miner, &mut bytes, progress)?;
    }
    let outcome = miner.finish();
    if outcome.workload.pages.is_empty() {
        return Err(MiningError::NothingFound { report: Box::new(outcome.report) });
    }
    Ok(outcome)
}

/// Reads one log to its end, unpacking it if its first bytes say so.
fn mine_one(
    mut input: impl Read,
    path: &Path,
    miner: &mut Miner,
    bytes: &mut u64,
    progress: &mut dyn FnMut(MiningProgress<'_>),
) -> Result<(), MiningError> {
    let unreadable = |source| MiningError::Unreadable { path: path.to_owned(), source };
    let mut head = Vec::with_capacity(MAGIC_BYTES);
    input.by_ref().take(MAGIC_BYTES as u64).read_to_end(&mut head).map_err(unreadable)?;
    if let Some((packer, _)) = OTHER_PACKERS.iter().find(|(_, magic)| head.starts_with(magic)) {
        return Err(MiningError::OtherPacker { path: path.to_owned(), packer });
    }
    let is_gzip = head.starts_with(&[0x1f, 0x8b]);
    let input = Cursor::new(head).chain(input);
    let mut reader: Box<dyn Read + '_> = if is_gzip {
        // Rotated logs are often several gzip members in one file.
        Box::new(MultiGzDecoder::new(BufReader::with_capacity(BLOCK_BYTES, input)))
    } else {
        Box::new(input)
    };
    let mut block = vec![0; BLOCK_BYTES];
    loop {
        match reader.read(&mut block) {
            Ok(0) => return Ok(()),
            Ok(length) => {
                miner.push(&block[..length]);
                *bytes += length as u64;
                progress(MiningProgress { source: path, bytes: *bytes, report: miner.report() });
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(source) if is_gzip => return Err(MiningError::Packed { path: path.to_owned(), source }),
            Err(source) => return Err(unreadable(source)),
        }
    }
}

const MAGIC_BYTES: usize = 6;

const OTHER_PACKERS: [(&str, &[u8]); 3] =
    [("zstd", &[0x28, 0xb5, 0x2f, 0xfd]), ("xz", &[0xfd, b'7', b'z', b'X', b'Z', 0]), ("bzip2", b"BZh")];

#[cfg(test)]
mod tests {
    use super::*;
    use flate2::{Compression, write::GzEncoder};
    use std::io::Write;

    fn line(url: &str) -> String {
        format!("h - - [10/Oct/2000:13:55:36 -0700] \"GET {url} HTTP/1.1\" 200 5\n")
    }

    fn gzip(text: &str) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
        encoder.write_all(text.as_bytes()).unwrap();
        encoder.finish().unwrap()
    }

    fn mined(logs: &[(&str, Vec<u8>)]) -> Result<MineOutcome, MiningError> {
        let directory = tempfile::tempdir().unwrap();
        let paths: Vec<PathBuf> = logs
            .iter()
            .map(|(name, bytes)| {
                let path = directory.path().join(name);
                std::fs::write(&path, bytes).unwrap();
                path
            })
            .collect();
        mine(&paths, MineOptions::default(), &mut |_| {})
    }

    #[test]
    fn plain_and_packed_logs_are_read_in_turn() {
        let members = [gzip(&line("/a")), gzip(&line("/b"))].concat();
        let outcome = mined(&[
            ("access.log", line("/a").into_bytes()),
            ("access.log.1.gz", members),
            ("named-wrongly", gzip(&line("/a"))),
            ("empty", vec![]),
            ("short", b"x".to_vec()),
        ])
        .unwrap();
        let rows: Vec<(u64, &str)> =
            outcome.workload.pages.iter().map(|page| (page.weight, &*page.files[0].url)).collect();
        assert_eq!(rows, [(3, "/a"), (1, "/b")]);
        assert_eq!((outcome.report.lines, outcome.report.unparsed), (5, 1));
        assert!(outcome.report.unparsed_examples[0].source.ends_with("/short"));
    }

    #[test]
    fn lines_across_blocks_are_whole_and_progress_counts_unpacked_bytes() {
        let text = line("/a").repeat(40_000);
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("log.gz");
        std::fs::write(&path, gzip(&text)).unwrap();
        let mut last = 0;
        let outcome = mine(&[path], MineOptions::default(), &mut |progress| {
            assert!(progress.bytes > last);
            last = progress.bytes;
        })
        .unwrap();
        assert_eq!(last, text.len() as u64);
        assert_eq!((outcome.report.hits, outcome.report.lines), (40_000, 40_000));
    }

    #[test]
    fn logs_that_cannot_be_read_name_themselves_and_the_remedy() {
        let mut cut = gzip(&line("/a").repeat(1000));
        cut.truncate(cut.len() / 2);
        let error = mined(&[("cut.gz", cut)]).unwrap_err();
        assert!(matches!(error, MiningError::Packed { .. }), "{error}");
        assert!(error.hint().unwrap().contains("gzip -dc"));
        let error = mined(&[("log.zst", vec![0x28, 0xb5, 0x2f, 0xfd, 0, 0])]).unwrap_err();
        assert!(
            error.to_string().ends_with("log.zst: compressed with zstd, which is not supported"),
            "{error}"
        );
        assert!(error.hint().unwrap().contains("zstd -dc"));
        let missing = [PathBuf::from("/no/such/log")];
        let error = mine(&missing, MineOptions::default(), &mut |_| {}).unwrap_err();
        assert_eq!(error.to_string(), "cannot read /no/such/log: No such file or directory");
        let error = mine(&[PathBuf::from("/")], MineOptions::default(), &mut |_| {}).unwrap_err();
        assert_eq!(error.to_string(), "cannot read /: Is a directory");
        assert!(matches!(mine(&[], MineOptions::default(), &mut |_| {}), Err(MiningError::NoLogs)));
    }

    #[test]
    fn logs_without_hits_say_what_was_there() {
        let error = mined(&[("log", b"one\ntwo\n".to_vec())]).unwrap_err();
        assert_eq!(error.to_string(), "found no GET with status 200 in 2 lines");
        let hint = error.hint().unwrap();
        assert!(
            hint.starts_with("2 lines have no known format; the first: ") && hint.ends_with(": one"),
            "{hint}"
        );
        let error = mined(&[("log", vec![])]).unwrap_err();
        assert!(error.hint().unwrap().contains("mine the log of a server"));
    }
}
