//! Tests of the generation and the check of filesets, in temporary directories.

use super::*;
use webstone_workload::{builtin, content, read};

fn list(text: &str) -> Workload {
    read(text, "list").unwrap()
}

fn toml(text: &str) -> Workload {
    read(text, "list.toml").unwrap()
}

fn refused(workload: &Workload, options: &FilesetOptions) -> (String, String) {
    let directory = tempfile::tempdir().unwrap();
    let error = generate(workload, directory.path(), options).unwrap_err();
    assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 0, "nothing may be written");
    (error.to_string(), error.hint().unwrap_or_default())
}

#[test]
fn files_have_the_stated_sizes_and_the_content_of_their_urls() {
    let directory = tempfile::tempdir().unwrap();
    let root = directory.path().join("new/root");
    let workload = builtin("standard").unwrap();
    let report = generate(&workload, &root, &FilesetOptions::default()).unwrap();
    assert_eq!((report.files, report.written, report.kept), (5, 5, 0));
    assert_eq!((report.bytes, report.written_bytes), (5_817_375, 5_817_375));
    for page in &workload.pages {
        let file = &page.files[0];
        let found = fs::read(root.join(&file.url[1..])).unwrap();
        assert_eq!(found.len() as u64, file.size.unwrap());
        let mut expected = vec![0; found.len()];
        content::fill(&file.url, 0, &mut expected);
        assert!(found == expected, "{}", file.url);
    }
    let names: Vec<String> = fs::read_dir(&root)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| name.starts_with('.'))
        .collect();
    assert_eq!(names, Vec::<String>::new(), "no temporary file is left");
    assert_eq!(verify(&root).unwrap(), VerifyReport { files: 5, bytes: 5_817_375, problems: vec![] });
}

#[test]
fn progress_ends_at_the_whole() {
    let directory = tempfile::tempdir().unwrap();
    let mut seen = Vec::new();
    let workload = list("/a #600000\n/b #10\n");
    generate_with(&workload, directory.path(), &FilesetOptions::default(), &mut |p| seen.push(p)).unwrap();
    assert_eq!(seen.len(), 4);
    assert!(seen.is_sorted_by_key(|p| p.done_bytes));
    assert_eq!(*seen.last().unwrap(), FilesetProgress { done_bytes: 600_010, total_bytes: 600_010 });
}

#[test]
fn right_files_are_kept_and_wrong_ones_replaced() {
    let directory = tempfile::tempdir().unwrap();
    let root = directory.path();
    let workload = list("/a #100\n/b #200\n/d/ #300\n");
    generate(&workload, root, &FilesetOptions::default()).unwrap();
    let before = fs::read_to_string(root.join(MANIFEST)).unwrap();
    fs::write(root.join("a"), "too short").unwrap();
    fs::write(root.join("b"), vec![b'x'; 200]).unwrap();
    fs::remove_file(root.join("d/index.html")).unwrap();
    let problems: Vec<String> = verify(root).unwrap().problems.iter().map(ToString::to_string).collect();
    assert_eq!(
        problems,
        [
            "a: the content differs from what was generated",
            "b: the content differs from what was generated",
            "d/index.html: the file is missing"
        ]
    );
    let report = generate(&workload, root, &FilesetOptions::default()).unwrap();
    assert_eq!((report.written, report.kept, report.written_bytes), (2, 1, 400));
    assert_eq!(verify(root).unwrap().problems.len(), 1, "a file of the right size is kept unread");
    let force = FilesetOptions { force: true, ..FilesetOptions::default() };
    assert_eq!(generate(&workload, root, &force).unwrap().written, 3);
    assert_eq!(verify(root).unwrap().problems, []);
    assert_eq!(fs::read_to_string(root.join(MANIFEST)).unwrap(), before);
}

#[test]
fn files_of_another_workload_are_not_overwritten_unasked() {
    let directory = tempfile::tempdir().unwrap();
    let root = directory.path();
    let other = list("/a #100\n/b #200\n");
    fs::write(root.join("a"), "somebody's").unwrap();
    let (message, hint) = {
        let error = generate(&other, root, &FilesetOptions::default()).unwrap_err();
        (error.to_string(), error.hint().unwrap())
    };
    assert!(
        message.ends_with(
            "a has 10 bytes, but the file of this workload has 100: it belongs to another workload or to somebody else"
        ),
        "{message}"
    );
    assert!(hint.contains("--force"), "{hint}");
    assert_eq!(fs::read_to_string(root.join("a")).unwrap(), "somebody's");
    assert!(!root.join("b").exists(), "nothing is written before all can be");
    let force = FilesetOptions { force: true, ..FilesetOptions::default() };
    assert_eq!(generate(&other, root, &force).unwrap().written, 2);
    assert!(
        generate(&list("/a #300\n"), root, &FilesetOptions::default()).is_err(),
        "the manifest has another sum"
    );
}

#[test]
fn pages_that_are_not_files_are_left_out_and_reported() {
    let directory = tempfile::tempdir().unwrap();
    let workload = toml(
        "[[pages]]\nfiles = [\"/send?size=10\", { url = \"/a\", size = 1 }, \"http://h/x\", \"/send?size=10\"]\n\
         [[pages]]\nfiles = [\"/{{seq}}\", { url = \"/p\", method = \"POST\" }, { url = \"/gone\", status = 404 }]\n",
    );
    let report = generate(&workload, directory.path(), &FilesetOptions::default()).unwrap();
    assert_eq!(report.files, 1);
    let left_out: Vec<(&str, LeftOutReason)> =
        report.left_out.iter().map(|left| (left.url.as_str(), left.reason)).collect();
    assert_eq!(
        left_out,
        [
            ("/gone", LeftOutReason::Status),
            ("/p", LeftOutReason::Method),
            ("/send?size=10", LeftOutReason::Query),
            ("/{{seq}}", LeftOutReason::Template),
            ("http://h/x", LeftOutReason::OtherHost),
        ]
    );
    let (error, _) = refused(&toml("[[pages]]\ndynamic = {}\n"), &FilesetOptions::default());
    assert_eq!(
        error,
        "the workload `list` has no file to generate: 1 requests are for handlers or other hosts"
    );
}

#[test]
fn unsafe_and_contradictory_paths_are_refused_before_anything_is_written() {
    let long = "x".repeat(256);
    for (text, what) in [
        ("/a #1\n/../../etc/passwd #1\n".to_owned(), "page 1: `/../../etc/passwd`: `.` and `..`"),
        ("/a/%2e%2e/%2e%2e/b #1\n".into(), "page 0: `/a/%2e%2e/%2e%2e/b`: `.` and `..`"),
        ("/a%2f..%2fb #1\n".into(), "`.` and `..`"),
        ("/./a #1\n".into(), "`.` and `..`"),
        ("/a//b #1\n".into(), "two slashes"),
        ("/a%00b #1\n".into(), "control character"),
        (format!("/{long} #1\n"), "longer than 255"),
        ("/MANIFEST.sha256 #1\n".into(), "manifest has this name"),
        ("/a #1\n/a/b #1\n".into(), "page 1: `/a/b`: `/a` on page 0 is a file"),
        (
            "/ #1\n/index.html #2\n".into(),
            "page 1: `/index.html`: 2 bytes here, but 1 bytes as `/` on page 0",
        ),
        ("/a #1\n/b\n".into(), "page 1: `/b`: the workload does not state its size"),
    ] {
        let (error, hint) = refused(&list(&text), &FilesetOptions::default());
        assert!(error.contains(what), "{error}");
        assert!(!hint.is_empty());
    }
}

#[test]
fn a_default_size_fills_gaps_only() {
    let directory = tempfile::tempdir().unwrap();
    let options = FilesetOptions { default_size: Some(7), ..FilesetOptions::default() };
    let workload =
        toml("[[pages]]\nfiles = [\"/a\", \"/b\"]\n[[pages]]\nfiles = [{ url = \"/b\", size = 9 }]\n");
    let report = generate(&workload, directory.path(), &options).unwrap();
    assert_eq!((report.files, report.bytes), (2, 16));
    assert_eq!(fs::metadata(directory.path().join("b")).unwrap().len(), 9);
}

#[test]
fn links_out_of_the_directory_are_not_followed() {
    let outside = tempfile::tempdir().unwrap();
    let directory = tempfile::tempdir().unwrap();
    std::os::unix::fs::symlink(outside.path(), directory.path().join("out")).unwrap();
    let error = generate(&list("/out/a #1\n"), directory.path(), &FilesetOptions::default()).unwrap_err();
    assert!(matches!(error, FilesetError::SymbolicLink { .. }), "{error}");
    let target = outside.path().join("victim");
    fs::write(&target, "precious").unwrap();
    std::os::unix::fs::symlink(&target, directory.path().join(".webstone-partial")).unwrap();
    generate(&list("/a #1\n"), directory.path(), &FilesetOptions::default()).unwrap();
    assert_eq!(fs::read_to_string(&target).unwrap(), "precious");
    assert_eq!(fs::read_dir(outside.path()).unwrap().count(), 1);
}

#[test]
fn a_full_disk_is_foreseen() {
    let (error, hint) = refused(&list("/a #9000000000000000000\n"), &FilesetOptions::default());
    assert!(error.contains("the files need 9000000000000") && error.contains("are free"), "{error}");
    assert!(hint.contains("another disk"));
}

#[test]
fn a_directory_that_cannot_be_written_says_so() {
    // Root may write anywhere; a file in the way stops even root.
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("file");
    fs::write(&path, "").unwrap();
    let error = generate(&list("/a #1\n"), &path, &FilesetOptions::default()).unwrap_err().to_string();
    assert!(error.starts_with(&format!("cannot create the directory {}: ", path.display())), "{error}");
    assert!(!error.contains("os error"), "{error}");
    let error = generate(&list("/file/a #1\n"), directory.path(), &FilesetOptions::default()).unwrap_err();
    assert!(error.to_string().starts_with("cannot "), "{error}");
    fs::create_dir(directory.path().join("a")).unwrap();
    let error =
        generate(&list("/a #1\n"), directory.path(), &FilesetOptions::default()).unwrap_err().to_string();
    assert!(
        error.starts_with(&format!("cannot write {}: ", directory.path().join("a").display())),
        "{error}"
    );
}

#[test]
fn manifests_are_those_of_sha256sum() {
    let directory = tempfile::tempdir().unwrap();
    let root = directory.path();
    generate(&list("/empty #0\n/back%5cslash #1\n"), root, &FilesetOptions::default()).unwrap();
    let text = fs::read_to_string(root.join(MANIFEST)).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    assert!(lines[0].starts_with('\\') && lines[0].ends_with("  back\\\\slash"), "{text}");
    assert_eq!(lines[1], "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855  empty");
    assert_eq!(verify(root).unwrap().problems, []);
    fs::write(root.join(MANIFEST), format!("{}\nnonsense\n", lines[1])).unwrap();
    let error = verify(root).unwrap_err().to_string();
    assert!(error.contains("MANIFEST.sha256:2: found `nonsense`"), "{error}");
    let leading_out = format!("{}  ../etc/passwd\n", &lines[1][..64]);
    fs::write(root.join(MANIFEST), leading_out).unwrap();
    assert!(matches!(verify(root), Err(FilesetError::Manifest { line: 1, .. })));
    fs::remove_file(root.join(MANIFEST)).unwrap();
    let error = verify(root).unwrap_err();
    assert!(
        error.to_string().contains("cannot read") && error.hint().unwrap().contains("generate"),
        "{error}"
    );
}
