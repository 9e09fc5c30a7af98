//! Test programs: which there are, by what cargo says of its build, and how several are run at a time.
//!
//! Cargo runs one after another, and most of the time the long ones take they wait: for timeouts, for windows to close.

use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::Mutex;
use std::time::Instant;

use crate::steps::{Failure, cargo, failure};
use crate::tree::root;

/// What is run, and by which command.
#[derive(Debug)]
pub struct Program {
    /// The file that it is made of, below the repository's root: `crates/model/src/lib.rs` for that crate's unit tests.
    pub name: String,
    /// Runs it as cargo would, in the directory of its package.
    pub command: Command,
}

impl Program {
    /// The same program under another name and with more arguments.
    pub fn part(&self, name: String, arguments: impl IntoIterator<Item = String>) -> Program {
        let mut command = Command::new(self.command.get_program());
        command.args(self.command.get_args()).args(arguments);
        if let Some(directory) = self.command.get_current_dir() {
            command.current_dir(directory);
        }
        command.envs(self.command.get_envs().filter_map(|(name, value)| Some((name, value?))));
        Program { name, command }
    }
}

/// What a program left behind.
#[derive(Debug)]
pub struct Ran {
    /// Its name.
    pub name: String,
    /// All of its standard output.
    pub output: Vec<u8>,
    /// How it ended.
    pub status: ExitStatus,
    /// How long it took.
    pub seconds: f64,
}

/// Builds the test programs that `cargo test` with these arguments would run, in its order, with `wrapper` in place of the
/// compiler for the crates of this workspace if there is one.
pub fn build(arguments: &[&str], wrapper: Option<&Path>) -> Result<Vec<Program>, Failure> {
    let mut command = cargo(&["test", "--no-run"]);
    command.args(arguments).arg("--message-format=json-render-diagnostics").stdin(Stdio::null());
    if let Some(wrapper) = wrapper {
        command.env("RUSTC_WORKSPACE_WRAPPER", wrapper);
    }
    println!("$ cargo test --no-run {}", arguments.join(" "));
    let start = Instant::now();
    let output = command
        .stderr(Stdio::inherit())
        .output()
        .map_err(|error| failure(format!("cannot start cargo: {error}"), ""))?;
    if !output.status.success() {
        return Err(failure(format!("cargo test --no-run: {}", output.status), "read what it says above"));
    }
    let messages = String::from_utf8_lossy(&output.stdout);
    let programs: Vec<Program> = messages.lines().filter_map(program).collect();
    if programs.is_empty() {
        return Err(failure("cargo names no test program", "see what it says with --message-format=json"));
    }
    println!("{} test programs, built in {:.0} s", programs.len(), start.elapsed().as_secs_f64());
    Ok(programs)
}

/// The test program that a message of cargo is about, if it is about one. Messages are JSON, an object a line; only a few
/// members are wanted, whose order cargo keeps, so this needs no parser of JSON, which would have to be compiled first.
fn program(message: &str) -> Option<Program> {
    let artifact = message.strip_prefix(r#"{"reason":"compiler-artifact","#)?;
    // The target says whether it could be tested, the profile whether it was built for that.
    let (target, profile) = artifact.split_once(r#""profile":{"#)?;
    let (profile, result) = profile.split_once('}')?;
    if !profile.contains(r#""test":true"#) {
        return None;
    }
    let manifest = PathBuf::from(text(target, "manifest_path")?);
    let directory = manifest.parent()?;
    let source = PathBuf::from(text(target, "src_path")?);
    let name = source.strip_prefix(root()).unwrap_or(&source).to_string_lossy().into_owned();
    let mut command = Command::new(text(result, "executable")?);
    command.current_dir(directory).env("CARGO_MANIFEST_DIR", directory);
    Some(Program { name, command })
}

/// The value of a member that holds text.
fn text(object: &str, name: &str) -> Option<String> {
    let (_, value) = object.split_once(&format!("\"{name}\":\""))?;
    let mut text = String::new();
    let mut characters = value.chars();
    loop {
        match characters.next()? {
            '"' => return Some(text),
            '\\' => text.push(characters.next()?), // of what JSON escapes, paths have quotes and backslashes
            character => text.push(character),
        }
    }
}

/// Runs programs, `at_once` at a time, begun in the order given; `done` is told of each when it has ended.
///
/// # Errors
/// The first program that could not be started or waited for; the others have run all the same.
pub fn run(
    programs: Vec<Program>,
    at_once: usize,
    done: &mut (dyn FnMut(Ran) + Send),
) -> Result<(), Failure> {
    let waiting = Mutex::new(programs.into_iter());
    let done = Mutex::new((done, Ok(())));
    let next = || waiting.lock().ok()?.next();
    std::thread::scope(|scope| {
        for _ in 0..at_once {
            scope.spawn(|| {
                while let Some(program) = next() {
                    let ran = run_one(program);
                    let Ok(mut done) = done.lock() else { return };
                    match ran {
                        Ok(ran) => (done.0)(ran),
                        Err(failure) if done.1.is_ok() => done.1 = Err(failure),
                        Err(_) => {}
                    }
                }
            });
        }
    });
    done.into_inner().map_or_else(|_| Err(failure("a thread of this program panicked", "")), |done| done.1)
}

fn run_one(mut program: Program) -> Result<Ran, Failure> {
    // A program that hangs is known by this line.
    println!("started {}", program.name);
    let start = Instant::now();
    let output = program
        .command
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output()
        .map_err(|error| failure(format!("cannot run {}: {error}", program.name), ""))?;
    let seconds = start.elapsed().as_secs_f64();
    Ok(Ran { name: program.name, output: output.stdout, status: output.status, seconds })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn test_programs_are_found_among_cargos_messages() {
        let root = root();
        let root = root.display();
        let message = |kind: &str, source: &str, test: bool, executable: &str| {
            format!(
                r#"{{"reason":"compiler-artifact","package_id":"path+file://{root}/crates/a#0.1.0","manifest_path":"{root}/crates/a/Cargo.toml","target":{{"kind":["{kind}"],"crate_types":["bin"],"name":"a","src_path":"{root}/crates/a/{source}","edition":"2024","doc":false,"doctest":false,"test":true}},"profile":{{"opt_level":"0","debuginfo":1,"debug_assertions":true,"overflow_checks":true,"test":{test}}},"features":[],"filenames":["x"],"executable":{executable},"fresh":true}}"#
            )
        };
        let found = program(&message("test", "tests/b \\\"c\\\".rs", true, "\"/target/a-1\"")).unwrap();
        assert_eq!(found.name, "crates/a/tests/b \"c\".rs");
        assert_eq!(found.command.get_program(), "/target/a-1");
        assert_eq!(found.command.get_current_dir().unwrap(), super::root().join("crates/a"));
        // The program itself, which tests of the package start, is none; nor is a library.
        assert!(program(&message("bin", "src/main.rs", false, "\"/target/a\"")).is_none());
        assert!(program(&message("lib", "src/lib.rs", false, "null")).is_none());
        assert!(program(r#"{"reason":"build-finished","success":true}"#).is_none());
    }

    #[test]
    fn every_program_runs_and_is_told_of_with_its_output() {
        let program = |line: &str| {
            let mut command = Command::new("sh");
            command.args(["-c", line]);
            Program { name: line.to_owned(), command }
        };
        let lines = ["echo a", "echo b; exit 3", "kill -9 $$", "echo d"];
        let mut ran = Vec::new();
        run(lines.map(program).into(), 2, &mut |one| ran.push(one)).unwrap();
        ran.sort_by_key(|ran| lines.iter().position(|line| **line == *ran.name));
        let outputs: Vec<&[u8]> = ran.iter().map(|ran| &ran.output[..]).collect();
        assert_eq!(outputs, [&b"a\n"[..], b"b\n", b"", b"d\n"]);
        let codes: Vec<Option<i32>> = ran.iter().map(|ran| ran.status.code()).collect();
        assert_eq!(codes, [Some(0), Some(3), None, Some(0)]);
        let mut part = program("echo $0 $V").part("part".to_owned(), ["x".to_owned()]);
        part.command.env("V", "y");
        let again = part.part("again".to_owned(), []);
        run(vec![again], 1, &mut |ran| assert_eq!((&*ran.name, &ran.output[..]), ("again", &b"x y\n"[..])))
            .unwrap();
        let missing = Program { name: "missing".to_owned(), command: Command::new("/nonexistent") };
        let mut count = 0;
        let error = run(vec![missing, program("true")], 1, &mut |_| count += 1).unwrap_err().to_string();
        assert!(error.starts_with("cannot run missing: ") && count == 1, "{error}");
    }
}
