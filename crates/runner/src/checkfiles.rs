//! Asks a server for every file of a workload before load depends on them: missing, wrong-sized and wrong-content files are listed one by
//! one. Several requests at once, each URL once however many pages have it; nothing is measured.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::fmt;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use webstone_engine::{Extent, ProbeError, ProbeResponse, ReadTo};
use webstone_model::record::CodedSample;
use webstone_model::spec::{Check, ClientSpec};
use webstone_workload::aim::Aim;
use webstone_workload::content;
use webstone_workload::target::Target;
use webstone_workload::{FileRequest, Statuses, Workload};

use webstone_lab::fetch::{ByProbe, Fetch, asked};
use webstone_lab::interrupt::Interrupt;

use crate::preflight::decoding::decoded_length;

/// Bytes of a body that a check before a run receives: enough to see the content, and no download.
const SHORT_BYTES_MAX: u64 = 4 << 20;
/// How long a check before a run waits for more of a body: an event stream has no end.
pub(crate) const SHORT_TIME_MAX: Duration = Duration::from_secs(2);
/// Limit of bytes beyond a body's stated length, or of all its bytes if none is stated.
const SURPLUS_BYTES_MAX: u64 = 64 << 20;

/// Requests at once.
const THREADS: usize = 4;

/// What a check found.
#[derive(Clone, Debug, Default)]
pub struct FilesReport {
    /// Distinct files asked for.
    pub checked: u64,
    /// Distinct requests that a check cannot make: templates, and methods other than GET and HEAD.
    pub skipped: u64,
    /// Body bytes received.
    pub body_bytes: u64,
    /// What is wrong, in the order of the workload.
    pub problems: Vec<FileProblem>,
    /// Answers that were coded, where codings are accepted, in the order of the workload.
    pub coded: Vec<CodedSample>,
    /// URLs whose answers began well, and were not read to their end.
    pub unfinished: Vec<String>,
}

/// One file with which something is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileProblem {
    /// Index of the first page that holds it.
    pub page: usize,
    /// Number of pages that hold it.
    pub pages: usize,
    /// Its whole URL.
    pub url: String,
    /// What is wrong.
    pub kind: FileProblemKind,
}

/// What can be wrong with a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FileProblemKind {
    /// Another status than the workload expects; 404 is a missing file.
    Status {
        /// The status found.
        found: u16,
        /// Those expected.
        expected: Statuses,
    },
    /// Another body length than the workload states.
    Size {
        /// Bytes found.
        found: u64,
        /// Bytes expected.
        expected: u64,
    },
    /// A longer body than the workload states; it was not read to its end.
    Longer {
        /// Bytes expected.
        expected: u64,
    },
    /// The right length and another content than `genfiles` writes.
    Content {
        /// Offset of the first byte that differs.
        offset: u64,
    },
    /// A body that is not coded as its head says.
    Coding {
        /// Why, in words.
        detail: String,
    },
    /// No answer.
    NoAnswer {
        /// Why, in words.
        detail: String,
    },
}

impl fmt::Display for FileProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "page {}", self.page)?;
        if self.pages > 1 {
            write!(f, " (and {} more)", self.pages - 1)?;
        }
        write!(f, ": {}: {}", self.url, self.kind)
    }
}

impl fmt::Display for FileProblemKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FileProblemKind::Status { found: 404, .. } => write!(f, "missing (status 404)"),
            FileProblemKind::Status { found, expected } => {
                write!(f, "status {found} where {} is expected", expected.in_words())
            }
            FileProblemKind::Size { found, expected } => {
                write!(f, "{found} bytes where the workload states {expected}")
            }
            FileProblemKind::Longer { expected } => {
                write!(f, "more than the {expected} bytes that the workload states")
            }
            FileProblemKind::Coding { detail } => f.write_str(detail),
            FileProblemKind::Content { offset } => {
                write!(f, "the content differs from the generated file's at byte {offset}")
            }
            FileProblemKind::NoAnswer { detail } => write!(f, "no answer: {detail}"),
        }
    }
}

/// What to do about files that a server does not serve as the workload has them.
pub const FILES_HINT: &str = "write the files with `webstone genfiles DIR -w WORKLOAD`, let the server serve DIR as its \
                              root, and see what is still missing with `webstone checkfiles URL -w WORKLOAD`";

/// Asks a server for every file of the workload. Files whose URL names a host are requested from that host; those that a run
/// would request over TLS are requested like the others: they are the same files. They are compared byte by byte. Of the clients'
/// options, the version of HTTP, TLS and the request timeout apply.
pub fn check_files(base: &Target, workload: &Workload, client: &ClientSpec) -> FilesReport {
    let mut workload = workload.clone();
    for file in workload.pages.iter_mut().flat_map(|page| &mut page.files) {
        file.detail.tls = false;
    }
    let targets = [base.clone()];
    let aim = Aim::new(&workload, &targets).expect("no page says that it is asked over TLS");
    let timeout = client.request_timeout.as_duration();
    let fetch = ByProbe::plain(timeout).with_tls(&client.tls).with_http(client.http);
    let client = ClientSpec { check: Check::Content, http: client.http, ..ClientSpec::default() };
    let look = Look { fetch: &fetch, at: None, workload: &workload, client: &client, is_short: false };
    look.at_all(&aim, THREADS, &Interrupt::default())
}

/// How files are looked at: asked for as these clients do.
pub(crate) struct Look<'a> {
    pub(crate) fetch: &'a dyn Fetch,
    /// Where connections for the target go, if not to the server that requests name.
    pub(crate) at: Option<&'a Target>,
    pub(crate) workload: &'a Workload,
    pub(crate) client: &'a ClientSpec,
    /// Whether the beginning of an answer is enough: a check before a run is no download.
    pub(crate) is_short: bool,
}

/// What the answer for a file showed.
pub(crate) struct Looked {
    pub(crate) answer: Result<ProbeResponse, ProbeError>,
    /// What is wrong with it.
    pub(crate) problem: Option<FileProblemKind>,
    /// Its coding and lengths, if it is coded and was decoded.
    pub(crate) coded: Option<CodedSample>,
    bytes: u64,
}

/// What was found, by the numbers of files.
#[derive(Default)]
struct Found {
    bytes: u64,
    problems: Vec<(usize, FileProblemKind)>,
    coded: Vec<(usize, CodedSample)>,
    unfinished: Vec<usize>,
}

impl Look<'_> {
    /// Asks for a file.
    pub(crate) fn at(
        &self,
        file: &FileRequest,
        server: &Target,
        path: &str,
        each: &mut dyn FnMut(&[u8]),
    ) -> Looked {
        let mut body = Body::of_file(file, self.client);
        let extent = match self.is_short {
            true => Extent::Beginning { bytes_max: SHORT_BYTES_MAX, time_max: SHORT_TIME_MAX },
            false => Extent::Whole { bytes_max: body.bytes_max() },
        };
        let filled = file.detail.request(self.client).filled(&self.workload.feeds, self.client.seed);
        let detail = filled.as_ref().unwrap_or(&file.detail);
        let named = server.to_string();
        let answer = self.fetch.fetch_at(self.at, &named, path, detail, extent, &mut |piece| {
            body.take(piece);
            each(piece);
        });
        let mut coded = None;
        let problem = match &answer {
            Ok(answer) => match self.decoded(answer, &body) {
                Some(Err(detail)) => Some(FileProblemKind::Coding { detail }),
                Some(Ok(sample)) => {
                    let expected = body.expected.filter(|_| file.has_body(answer.status));
                    let (found, url) = (sample.decoded_bytes, format!("{server}{path}"));
                    coded = Some(CodedSample { url, ..sample });
                    status_problem(file, answer, self.client).or_else(|| {
                        expected
                            .filter(|expected| *expected != found)
                            .map(|expected| FileProblemKind::Size { found, expected })
                    })
                }
                None => problem(file, answer, &body, self.client),
            },
            Err(error) => Some(FileProblemKind::NoAnswer { detail: error.detail.clone() }),
        };
        Looked { answer, problem, coded, bytes: body.bytes }
    }

    /// A coded body decoded, if codings are accepted and it was received whole.
    fn decoded(&self, answer: &ProbeResponse, body: &Body<'_>) -> Option<Result<CodedSample, String>> {
        let codings = answer.headers.iter().filter(|(name, _)| name.eq_ignore_ascii_case("content-encoding"));
        let coding = codings.map(|(_, value)| value.trim()).collect::<Vec<_>>().join(", ");
        // An answer to HEAD has none.
        let bytes = body.kept.as_deref().filter(|bytes| !bytes.is_empty() && answer.read == ReadTo::End)?;
        if coding.is_empty() || coding.eq_ignore_ascii_case("identity") {
            return None;
        }
        let decoded = decoded_length(bytes, &coding, &self.client.accept_encoding);
        Some(decoded.map(|decoded_bytes| CodedSample {
            coding,
            wire_bytes: bytes.len() as u64,
            decoded_bytes,
            ..CodedSample::default()
        }))
    }

    /// Asks for all distinct files that can be asked for; at another server, only for those that are requested there too.
    pub(crate) fn at_all(&self, aim: &Aim<'_>, threads: usize, interrupt: &Interrupt) -> FilesReport {
        let (mut files, skipped) = distinct(self.workload);
        files.retain(|wanted| {
            self.at.is_none_or(|at| {
                wanted.file.url.starts_with('/') && aim.of_paths(wanted.file.detail.tls).any(|it| it == at)
            })
        });
        let next = AtomicUsize::new(0);
        let found: Mutex<Found> = Mutex::default();
        let work = || {
            let mut own = Found::default();
            loop {
                let index = next.fetch_add(1, Ordering::Relaxed);
                let Some(wanted) = files.get(index).filter(|_| interrupt.count() == 0) else { break };
                let problem = match asked(aim.base(wanted.file), &wanted.file.url) {
                    Ok((server, path)) => {
                        let looked = self.at(wanted.file, &server, &path, &mut |_| {});
                        own.bytes += looked.bytes;
                        if looked.answer.is_ok_and(|answer| answer.read == ReadTo::Time) {
                            own.unfinished.push(index);
                        }
                        own.coded.extend(looked.coded.map(|coded| (index, coded)));
                        looked.problem
                    }
                    Err(error) => Some(FileProblemKind::NoAnswer { detail: error.rule }),
                };
                own.problems.extend(problem.map(|problem| (index, problem)));
            }
            let mut found = found.lock().expect("no thread panics while it holds this");
            found.bytes += own.bytes;
            found.problems.extend(own.problems);
            found.unfinished.extend(own.unfinished);
            found.coded.extend(own.coded);
        };
        std::thread::scope(|scope| {
            for _ in 1..threads.clamp(1, files.len().max(1)) {
                scope.spawn(work);
            }
            work();
        });
        let Found { bytes, mut problems, mut coded, mut unfinished } =
            found.into_inner().expect("no thread panics while it holds this");
        problems.sort_by_key(|(index, _)| *index);
        unfinished.sort_unstable();
        coded.sort_by_key(|(index, _)| *index);
        let url = |index: usize| match self.at {
            Some(at) => format!("{at}{}", files[index].file.url),
            None => files[index].url(aim),
        };
        let tell = |(index, kind): (usize, FileProblemKind)| {
            let Wanted { page, pages, .. } = files[index];
            FileProblem { page, pages, url: url(index), kind }
        };
        FilesReport {
            checked: files.len() as u64,
            skipped,
            body_bytes: bytes,
            problems: problems.into_iter().map(tell).collect(),
            coded: coded.into_iter().map(|(_, coded)| coded).collect(),
            unfinished: unfinished.into_iter().map(url).collect(),
        }
    }
}

/// A file that several pages may hold.
#[derive(Clone, Copy)]
pub(crate) struct Wanted<'a> {
    pub(crate) file: &'a FileRequest,
    /// First page.
    pub(crate) page: usize,
    /// Number of pages.
    pub(crate) pages: usize,
}

impl Wanted<'_> {
    /// Its whole URL.
    fn url(&self, aim: &Aim<'_>) -> String {
        asked(aim.base(self.file), &self.file.url)
            .map_or_else(|error| error.url, |(server, path)| format!("{server}{path}"))
    }
}

/// The distinct files that can be asked for, in the order of the workload, and the number of distinct requests that
/// cannot.
pub(crate) fn distinct(workload: &Workload) -> (Vec<Wanted<'_>>, u64) {
    let mut files: Vec<Wanted<'_>> = Vec::new();
    let mut seen: HashMap<(&str, Option<&str>, bool), Option<usize>> = HashMap::new();
    let mut skipped = 0;
    for (page, contents) in workload.pages.iter().enumerate() {
        for file in &contents.files {
            let method = file.detail.method.as_deref();
            match seen.entry((&file.url, method, file.detail.tls)) {
                Entry::Occupied(known) => {
                    if let Some(index) = known.get() {
                        let wanted = &mut files[*index];
                        wanted.pages += usize::from(wanted.page != page);
                    }
                }
                Entry::Vacant(new) if can_be_asked(file) => {
                    new.insert(Some(files.len()));
                    files.push(Wanted { file, page, pages: 1 });
                }
                Entry::Vacant(new) => {
                    new.insert(None);
                    skipped += 1;
                }
            }
        }
    }
    (files, skipped)
}

/// A check must change nothing on the server, and a template is many URLs.
fn can_be_asked(file: &FileRequest) -> bool {
    let plain = !file.url.contains("{{") && file.detail.body.is_none();
    plain && matches!(file.detail.method.as_deref(), None | Some("GET" | "HEAD"))
}

/// A body, checked as it arrives: it is not held in memory, however long it is, unless it may be coded.
struct Body<'a> {
    url: &'a str,
    expected: Option<u64>,
    /// Whether its content is known. A dynamic handler's bytes are its own; only generated files are known byte by byte.
    is_known: bool,
    bytes: u64,
    differs_at: Option<u64>,
    /// The body itself, where it may be coded: no more than a short check receives.
    kept: Option<Vec<u8>>,
}

impl Body<'_> {
    fn of_file<'a>(file: &'a FileRequest, client: &ClientSpec) -> Body<'a> {
        let method = &client.method;
        Body {
            url: &file.url,
            expected: file.known_size(method).filter(|_| client.check != Check::Status),
            is_known: client.check == Check::Content && file.generated_size(method).is_some(),
            bytes: 0,
            differs_at: None,
            kept: (!client.accept_encoding.is_empty()).then(Vec::new),
        }
    }

    /// Most bytes that are received: more than expected, so that a small surplus is counted to its end.
    fn bytes_max(&self) -> u64 {
        self.expected.unwrap_or_default().saturating_add(SURPLUS_BYTES_MAX)
    }

    fn take(&mut self, piece: &[u8]) {
        if self.is_known && self.differs_at.is_none() {
            self.differs_at = first_difference(self.url, self.bytes, piece);
        }
        self.bytes += piece.len() as u64;
        if let Some(kept) = &mut self.kept {
            kept.extend_from_slice(piece);
        }
    }
}

fn problem(
    file: &FileRequest,
    answer: &ProbeResponse,
    body: &Body<'_>,
    client: &ClientSpec,
) -> Option<FileProblemKind> {
    if let Some(problem) = status_problem(file, answer, client) {
        return Some(problem);
    }
    let expected = body.expected.filter(|_| file.has_body(answer.status))?;
    let found = match answer.read {
        ReadTo::End => body.bytes,
        // The length of what was not read is known if the head states it.
        ReadTo::Bytes | ReadTo::Time => {
            let stated = answer.header("content-length").and_then(|length| length.trim().parse().ok());
            match stated {
                Some(stated) => stated,
                None if body.bytes > expected => return Some(FileProblemKind::Longer { expected }),
                None => expected,
            }
        }
    };
    if found != expected {
        return Some(FileProblemKind::Size { found, expected });
    }
    body.differs_at.map(|offset| FileProblemKind::Content { offset })
}

fn status_problem(
    file: &FileRequest,
    answer: &ProbeResponse,
    client: &ClientSpec,
) -> Option<FileProblemKind> {
    let (found, expected) = (answer.status, file.expected_statuses(&client.expect_status));
    (!expected.has(found)).then_some(FileProblemKind::Status { found, expected })
}

/// Where a part of a body, which begins at `offset`, first differs from the generated file.
fn first_difference(url: &str, mut offset: u64, body: &[u8]) -> Option<u64> {
    let mut expected = [0; 4096];
    for piece in body.chunks(expected.len()) {
        let expected = &mut expected[..piece.len()];
        content::fill(url, offset, expected);
        // Compared as a whole first: the position of a difference is searched for once at most.
        if piece != expected {
            let at = piece.iter().zip(expected.iter()).position(|(found, right)| found != right)?;
            return Some(offset + at as u64);
        }
        offset += piece.len() as u64;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use webstone_lab::fixture::Table;
    use webstone_workload::{Page, RequestDetail};

    const BASE: &str = "http://server";

    fn file(url: &str, size: u64) -> FileRequest {
        FileRequest { url: url.into(), size: Some(size), ..FileRequest::default() }
    }

    fn workload(pages: Vec<Vec<FileRequest>>) -> Workload {
        let page = |files| Page { weight: 1, files, think: Default::default() };
        Workload { pages: pages.into_iter().map(page).collect(), ..Workload::default() }
    }

    fn generated(url: &str, size: usize) -> Vec<u8> {
        let mut body = vec![0; size];
        content::fill(url, 0, &mut body);
        body
    }

    fn check(table: &Table, workload: &Workload, check: Check) -> FilesReport {
        let client = ClientSpec { check, ..ClientSpec::default() };
        let targets = [BASE.parse().unwrap()];
        let aim = Aim::new(workload, &targets).unwrap();
        let look = Look { fetch: table, at: None, workload, client: &client, is_short: false };
        look.at_all(&aim, 4, &Interrupt::default())
    }

    #[test]
    fn each_kind_of_problem_is_told_once_and_in_order() {
        let mut table = Table::default();
        let mut serve = |path: &str, status: u16, body: Vec<u8>| {
            table.0.insert(format!("{BASE}{path}"), (status, body));
        };
        let mut spoiled = generated("/spoiled", 9000);
        spoiled[8999] ^= 1;
        serve("/good", 200, generated("/good", 5000));
        serve("/missing", 404, b"no".to_vec());
        serve("/short", 200, generated("/short", 9));
        serve("/spoiled", 200, spoiled);
        let workload = workload(vec![
            vec![file("/good", 5000), file("/missing", 10)],
            vec![file("/short", 10), file("/missing", 10), file("/spoiled", 9000)],
            vec![file("/silent", 1), file("http://other/x", 1)],
        ]);
        let report = check(&table, &workload, Check::Content);
        assert_eq!((report.checked, report.skipped, report.body_bytes), (6, 0, 5000 + 2 + 9 + 9000));
        let told: Vec<String> = report.problems.iter().map(FileProblem::to_string).collect();
        assert_eq!(
            told,
            [
                "page 0 (and 1 more): http://server/missing: missing (status 404)",
                "page 1: http://server/short: 9 bytes where the workload states 10",
                "page 1: http://server/spoiled: the content differs from the generated file's at byte 8999",
                "page 2: http://server/silent: no answer: connection refused",
                "page 2: http://other/x: no answer: connection refused",
            ]
        );
    }

    #[test]
    fn the_check_looks_only_as_closely_as_asked() {
        let mut table = Table::default();
        table.0.insert(format!("{BASE}/f"), (200, vec![0; 7]));
        let same_size = workload(vec![vec![file("/f", 7)]]);
        let other_size = workload(vec![vec![file("/f", 8)]]);
        let problems = |workload: &Workload, how: Check| check(&table, workload, how).problems.len();
        assert_eq!((problems(&same_size, Check::Size), problems(&same_size, Check::Content)), (0, 1));
        assert_eq!((problems(&other_size, Check::Status), problems(&other_size, Check::Size)), (0, 1));
    }

    #[test]
    fn an_answer_to_head_has_no_body() {
        let mut table = Table::default();
        table.0.insert(format!("{BASE}/f"), (200, vec![]));
        let mut head = file("/f", 7);
        head.detail.method = Some("HEAD".into());
        assert_eq!(check(&table, &workload(vec![vec![head]]), Check::Content).problems, []);
    }

    #[test]
    fn an_expected_status_is_right_and_any_other_wrong() {
        let mut table = Table::default();
        table.0.insert(format!("{BASE}/gone"), (404, vec![]));
        let mut gone = file("/gone", 0);
        gone.detail = Box::new(RequestDetail { status: Some(404), ..RequestDetail::default() });
        assert_eq!(check(&table, &workload(vec![vec![gone.clone()]]), Check::Size).problems, []);
        gone.detail.status = Some(410);
        let report = check(&table, &workload(vec![vec![gone]]), Check::Size);
        assert_eq!(
            report.problems[0].kind,
            FileProblemKind::Status { found: 404, expected: Statuses::one(410) }
        );
    }

    #[test]
    fn what_a_check_must_not_send_is_skipped() {
        let mut post = file("/order", 1);
        post.detail.method = Some("POST".into());
        let template = file("/item?id={{rand 1 9}}", 1);
        let report =
            check(&Table::default(), &workload(vec![vec![post.clone()], vec![template, post]]), Check::Size);
        assert_eq!((report.checked, report.skipped, report.problems.len()), (0, 2, 0));
    }
}
