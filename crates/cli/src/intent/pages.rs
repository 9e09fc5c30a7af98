//! Pages on the command line instead of in a list: the URLs of `hit`, and the paths with weights of `run`.

use std::path::Path;

use webstone_measure::shown::quoted;
use webstone_measure::units::Nanos;
use webstone_model::spec::{Check, RunSpec};
use webstone_store::plain_file::{self, Links};
use webstone_store::without_number;
use webstone_workload::{FileRequest, Page, Workload};

use super::target;
use crate::args::RunArgs;
use crate::failure::Failure;
use crate::usage::QUIET;

/// Largest file of URLs, in bytes. They are part of every record.
const URLS_BYTES_MAX: u64 = 16 << 20;

/// U+FEFF, which some editors put at the beginning of a UTF-8 file.
const BYTE_ORDER_MARK: char = '\u{feff}';

/// The URLs of a file, each with the number of its line.
pub(super) struct Listed<'a> {
    file: &'a Path,
    urls: Vec<(usize, String)>,
}

/// A workload with a page for each of these URLs. Their server becomes the target.
pub(super) fn of_urls(
    typed: &[String],
    listed: Option<&Listed<'_>>,
    spec: &mut RunSpec,
) -> Result<Workload, Failure> {
    let mut server: Option<String> = None;
    let mut pages = Vec::new();
    for url in typed {
        // After the first URL, a word without a protocol is usually the value of another program's option.
        if server.is_some() && !url.contains("://") {
            let is_number = url.bytes().all(|byte| byte.is_ascii_digit());
            let hint = if is_number { QUIET } else { "`webstone hit --help` explains every option" };
            return Err(Failure::usage(format!("unexpected argument `{url}`")).hint(hint));
        }
        pages.push(of_url(url, &mut server)?);
    }
    for (file, line, url) in
        listed.into_iter().flat_map(|it| it.urls.iter().map(|(line, url)| (it.file, line, url)))
    {
        pages.push(of_url(url, &mut server).map_err(|failure| {
            let message = format!("--urls {}: line {line}: {}", file.display(), failure.message);
            Failure { message, ..failure }
        })?);
    }
    spec.target = server.into_iter().collect();
    let workload = workload(&pages);
    spec.workload.clone_from(&workload.name);
    Ok(workload)
}

/// The page of a URL, whose server must be that of the first.
fn of_url(url: &str, server: &mut Option<String>) -> Result<Typed, Failure> {
    let (target, path) = target::split(url)?;
    let target = target.to_string();
    let first = server.get_or_insert_with(|| target.clone());
    if *first != target {
        return Err(Failure::usage(format!("URL `{url}`: {target} is another server than {first}")).hint(
            "name URLs of one server; a workload in a file may name several hosts, with --allow-hosts",
        ));
    }
    Ok(Typed { weight: 1, paths: vec![path] })
}

/// Whether targets name more than their servers.
pub(super) fn are_pages(targets: &[String]) -> bool {
    targets.iter().any(|url| target::split(url).is_ok_and(|(_, path)| path != "/"))
}

/// A page for each target that is a URL with a path, where no workload says what else to request.
pub(super) fn of_targets(spec: &mut RunSpec, is_dump: bool) -> Result<Workload, Failure> {
    let urls = spec.target.clone();
    if is_dump {
        return Err(Failure::usage(format!("--dump-spec: {} is a page, not a server", quoted(&urls[0])))
            .hint("leave it out, and write target = [\"URL\"] without a workload into the file"));
    }
    let workload = of_urls(&urls, None, spec)?;
    if spec.client.check == Check::Size {
        spec.client.check = Check::Status;
    }
    Ok(workload)
}

/// The URLs of a file, one on each line.
pub(super) fn urls_of(file: &Path) -> Result<Listed<'_>, Failure> {
    let wrong = |rule: String| Failure::usage(format!("--urls {}: {rule}", file.display()));
    const FORM: &str = "write one URL on each line, as in http://127.0.0.1:8080/index.html";
    let text = plain_file::read(file, Links::Followed, URLS_BYTES_MAX)
        .and_then(plain_file::text)
        .map_err(|error| wrong(format!("cannot read the file: {}", without_number(&error))))?;
    let text = text.strip_prefix(BYTE_ORDER_MARK).unwrap_or(&text);
    let lines = text.lines().map(str::trim).enumerate();
    let mut urls = Vec::new();
    for (number, line) in lines.filter(|(_, line)| !line.is_empty() && !line.starts_with('#')) {
        if !line.contains("://") || line.contains(char::is_whitespace) {
            return Err(wrong(format!("line {}: {} is not a URL", number + 1, quoted(line))).hint(FORM));
        }
        urls.push((number + 1, line.to_owned()));
    }
    if urls.is_empty() {
        Err(wrong("no URL is in it".to_owned()).hint(FORM))
    } else {
        Ok(Listed { file, urls })
    }
}

/// The words after `run`, divided into servers and pages.
pub(super) fn apart(words: &[String]) -> Result<(Vec<String>, Option<Workload>), Failure> {
    let (mut urls, mut pages) = (Vec::new(), Vec::new());
    for word in words {
        match page(word)? {
            Some(page) => pages.push(page),
            None => urls.push(word.clone()),
        }
    }
    Ok((urls, (!pages.is_empty()).then(|| workload(&pages))))
}

/// Replaces the workload by pages. Their sizes are unknown, so they need a server that has them.
pub(super) fn instead(workload: &Workload, args: &RunArgs, spec: &mut RunSpec) -> Result<(), Failure> {
    let name = &workload.name;
    if args.workload.is_some() {
        return Err(Failure::usage(format!("pages are given ({name}), and a workload, too (--workload)"))
            .hint("give one of the two"));
    }
    if spec.target.is_empty() {
        return Err(Failure::usage(format!("pages are given ({name}), but no server"))
            .hint("give the server's URL before them, as in http://127.0.0.1:8080 /index.html"));
    }
    if args.dump_spec {
        return Err(Failure::usage("--dump-spec: a testbed file cannot contain the pages of a command line")
            .hint("write them to a filelist, and give it with --workload"));
    }
    spec.workload.clone_from(name);
    if spec.client.check == Check::Size {
        spec.client.check = Check::Status;
    }
    Ok(())
}

/// A page as typed.
struct Typed {
    weight: u64,
    paths: Vec<String>,
}

/// `[WEIGHT:]/PATH[,/PATH…]`; `None` if the word is not a page.
fn page(word: &str) -> Result<Option<Typed>, Failure> {
    let (weight, paths) = match word.split_once(":/") {
        Some((weight, _)) if !weight.is_empty() && weight.bytes().all(|byte| byte.is_ascii_digit()) => {
            (Some(weight), &word[weight.len() + 1..])
        }
        _ => (None, word),
    };
    if !paths.starts_with('/') {
        return Ok(None);
    }
    let wrong = |rule: &str, hint: &str| Failure::usage(format!("page `{word}`: {rule}")).hint(hint);
    let weight = match weight.map(str::parse) {
        None => 1,
        Some(Ok(weight)) if weight > 0 => weight,
        Some(_) => {
            return Err(wrong("its weight is not a whole number of at least 1", "write 40:/index.html"));
        }
    };
    if let Some(other) = paths.chars().find(|c| *c == '#' || !c.is_ascii_graphic()) {
        let rule = format!("a URL cannot contain {}", quoted(&other.to_string()));
        return Err(wrong(&rule, "write white space as %20, and other characters in the same way"));
    }
    let mut files: Vec<String> = Vec::new();
    for part in paths.split(",/") {
        files.push(if files.is_empty() { part.to_owned() } else { format!("/{part}") });
    }
    Ok(Some(Typed { weight, paths: files }))
}

fn workload(pages: &[Typed]) -> Workload {
    let file = |path: &String| FileRequest { url: path.as_str().into(), ..FileRequest::default() };
    let first = pages.first().and_then(|page| page.paths.first()).cloned().unwrap_or_default();
    let files: usize = pages.iter().map(|page| page.paths.len()).sum();
    Workload {
        name: match files {
            1 => first,
            several => format!("{first} and {} more", several - 1),
        },
        description: match pages.len() {
            1 => "One URL.".to_owned(),
            several => format!("{several} pages, as typed."),
        },
        pages: pages
            .iter()
            .map(|page| Page {
                weight: page.weight,
                files: page.paths.iter().map(file).collect(),
                think: Nanos::ZERO,
            })
            .collect(),
        ..Workload::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn apart_of(words: &[&str]) -> Result<(Vec<String>, Option<Workload>), String> {
        let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
        apart(&words).map_err(|failure| failure.message)
    }

    #[test]
    fn words_are_servers_or_pages_with_weights() {
        let (urls, workload) =
            apart_of(&["http://a:1", "40:/x.html,/y.gif", "/z?a=1,2", "http://[::1]:8080"]).unwrap();
        assert_eq!(urls, ["http://a:1", "http://[::1]:8080"]);
        let workload = workload.unwrap();
        let pages: Vec<(u64, Vec<&str>)> = (workload.pages.iter())
            .map(|page| (page.weight, page.files.iter().map(|file| &*file.url).collect()))
            .collect();
        assert_eq!(pages, [(40, vec!["/x.html", "/y.gif"]), (1, vec!["/z?a=1,2"])]);
        assert_eq!(workload.name, "/x.html and 2 more");
        assert_eq!(apart_of(&["http://a"]).unwrap().1, None);
        assert_eq!(
            apart_of(&["0:/a"]).unwrap_err(),
            "page `0:/a`: its weight is not a whole number of at least 1"
        );
        assert!(apart_of(&["/a b"]).unwrap_err().contains("a URL cannot contain"));
    }

    #[test]
    fn urls_are_read_from_a_file() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("urls");
        let read = |text: &str| {
            std::fs::write(&file, text).unwrap();
            let listed = urls_of(&file).map_err(|failure| failure.message)?;
            let workload = of_urls(&[], Some(&listed), &mut RunSpec::default());
            let pages = workload.map_err(|failure| failure.message)?.pages;
            Ok(pages.iter().map(|page| page.files[0].url.to_string()).collect::<Vec<_>>())
        };
        let urls = read("# both\r\nhttp://a/x\r\n\n  http://a/y?{{seq}}\n").unwrap();
        assert_eq!(urls, ["/x", "/y?{{seq}}"]);
        // As Windows' editors write it.
        assert_eq!(read("\u{feff}http://a/x\r\n").unwrap(), ["/x"]);
        let name = file.display();
        assert_eq!(
            read("http://a/\n\nftp://a/\n"),
            Err(format!(
                "--urls {name}: line 3: URL `ftp://a/`: `ftp` is not a protocol that can be measured"
            ))
        );
        assert_eq!(
            read("http://a/\nhttp://b/\n"),
            Err(format!("--urls {name}: line 2: URL `http://b/`: http://b is another server than http://a"))
        );
        assert_eq!(read("\n# none\n"), Err(format!("--urls {name}: no URL is in it")));
        assert_eq!(read("http://a/\n/x"), Err(format!("--urls {name}: line 2: `/x` is not a URL")));
        assert!(read("http://a/ 3\n").unwrap_err().ends_with("line 1: `http://a/ 3` is not a URL"));
        let none = urls_of(Path::new("/no/such")).map(|_| ()).unwrap_err().message;
        assert_eq!(none, "--urls /no/such: cannot read the file: No such file or directory");
    }

    #[test]
    fn targets_with_paths_are_pages() {
        let mut spec = RunSpec { target: vec!["http://a:1/x?y".to_owned()], ..RunSpec::default() };
        assert!(are_pages(&spec.target) && !are_pages(&["http://a/".to_owned(), "http://b".to_owned()]));
        assert!(
            of_targets(&mut spec.clone(), true).unwrap_err().message.contains("`http://a:1/x?y` is a page")
        );
        let workload = of_targets(&mut spec, false).unwrap();
        assert_eq!((&*workload.pages[0].files[0].url, &*spec.target[0]), ("/x?y", "http://a:1"));
        assert_eq!((&*spec.workload, spec.client.check), ("/x?y", Check::Status));
    }

    #[test]
    fn urls_of_hit_share_a_server() {
        let mut spec = RunSpec::default();
        let urls = ["http://a:1/x", "http://a:1/y"].map(str::to_owned);
        let workload = of_urls(&urls, None, &mut spec).unwrap();
        assert_eq!((spec.target, workload.pages.len()), (vec!["http://a:1".to_owned()], 2));
        let other = ["http://a:1/x", "http://b:1/y"].map(str::to_owned);
        let error = of_urls(&other, None, &mut RunSpec::default()).unwrap_err().message;
        assert_eq!(error, "URL `http://b:1/y`: http://b:1 is another server than http://a:1");
    }
}
