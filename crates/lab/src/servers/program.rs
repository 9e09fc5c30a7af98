//! Programs of servers: where they are, their versions, and how to install missing ones.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use webstone_model::spec::{ServerSpec, Software};

use super::runnable::{self, Unusable};
use super::{Refusal, command, driver, only_inherited};

/// Where servers are installed that are not on every user's path.
const SYSTEM_PATHS: [&str; 3] = ["/usr/sbin", "/usr/local/sbin", "/sbin"];

/// A program that is installed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Installed {
    /// Where.
    pub path: PathBuf,
    /// Its version in its own words, on one line; empty if it does not report it.
    pub version: String,
    /// All that it said when asked for its version.
    pub build: String,
}

/// Finds the program of a specification's server and asks for its version.
///
/// # Errors
/// A [`Refusal`] with how to install it, or what is wrong with the path given.
pub fn find(spec: &ServerSpec) -> Result<Installed, Refusal> {
    let Some(driver) = driver(spec.software) else {
        let path = std::env::current_exe().unwrap_or_default();
        return Ok(Installed { path, version: String::new(), build: String::new() });
    };
    let named = match spec.software {
        Software::Command => {
            Some(command::words(spec.command.as_deref().unwrap_or_default())?.swap_remove(0))
        }
        _ => spec.program.clone(),
    };
    let refusal = |lack: Lack| match (lack, &named) {
        (Lack::Unusable(unusable), _) => Refusal {
            what: format!("the server {} cannot be run: {unusable}", spec.software.name()),
            hint: Unusable::HINT.to_owned(),
        },
        (Lack::Missing, Some(name)) => Refusal {
            what: format!("there is no program `{name}` for the server {}", spec.software.name()),
            hint: match spec.software {
                Software::Command => "name it with its path, or install it".to_owned(),
                _ => "remove server.program: the program is then found by its name".to_owned(),
            },
        },
        (Lack::Missing, None) => Refusal {
            what: format!(
                "{} is not installed: there is no program {}",
                spec.software.name(),
                driver.programs.join(" or ")
            ),
            hint: format!(
                "install it ({}; its service need not run), or name the program with --server-program PATH",
                driver.install
            ),
        },
    };
    let path = match &named {
        Some(name) => for_servers(&[name]),
        None => for_servers(driver.programs),
    };
    let path = path.map_err(refusal)?;
    let build = match driver.version_argument {
        "" => String::new(),
        argument => asked(&path, argument),
    };
    Ok(Installed { version: version(&build), path, build })
}

/// The program of a server that exists and cannot be used; `None` if a usable one or none is installed.
pub fn unusable(software: Software) -> Option<Unusable> {
    match for_servers(driver(software)?.programs) {
        Err(Lack::Unusable(unusable)) => Some(unusable),
        _ => None,
    }
}

/// Why a server has no program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Lack {
    /// Not installed.
    Missing,
    /// The user that servers run as cannot use the first one, nor any other.
    Unusable(Unusable),
}

/// The first of some programs, by their names or paths, that the user of servers can run.
pub(super) fn for_servers(names: &[impl AsRef<str>]) -> Result<PathBuf, Lack> {
    let mut lack = Lack::Missing;
    for path in names.iter().flat_map(|name| all_on_path(name.as_ref())) {
        match (runnable::runs(&path), &lack) {
            (Ok(()), _) => return Ok(path),
            (Err(unusable), Lack::Missing) => lack = Lack::Unusable(unusable),
            (Err(_), Lack::Unusable(_)) => {}
        }
    }
    Err(lack)
}

/// A program by its name or path, also where it is installed for administrators only.
pub fn on_path(name: &str) -> Option<PathBuf> {
    all_on_path(name).into_iter().next()
}

/// Every program of this name in `PATH`'s folders, in order. A name with a slash is one path.
fn all_on_path(name: &str) -> Vec<PathBuf> {
    let mut all: Vec<PathBuf> = match name.contains('/') {
        true => std::path::absolute(name).into_iter().collect(),
        false => folders().map(|folder| folder.join(name)).collect(),
    };
    all.retain(|file| is_program(file));
    all
}

/// Where programs are looked for.
pub(super) fn folders() -> impl Iterator<Item = PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders: Vec<PathBuf> = std::env::split_paths(&path).collect();
    folders.into_iter().chain(SYSTEM_PATHS.iter().map(PathBuf::from))
}

fn is_program(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt;
    path.metadata().is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
}

/// What a program prints for one argument, on either stream.
fn asked(program: &Path, argument: impl AsRef<OsStr>) -> String {
    let mut command = Command::new(program);
    only_inherited(&mut command);
    command.arg(argument).env("LC_ALL", "C").stdin(Stdio::null());
    let Ok(output) = command.output() else { return String::new() };
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_owned();
    format!("{}\n{}", text(&output.stdout), text(&output.stderr))
}

/// The first line with a digit in it, without the server's own words around its version.
fn version(said: &str) -> String {
    let line =
        said.lines().find(|line| line.contains(|c: char| c.is_ascii_digit())).unwrap_or_default().trim();
    let line =
        line.strip_prefix("Server version:").or_else(|| line.strip_prefix("nginx version:")).unwrap_or(line);
    let line = line.replacen("HAProxy version ", "HAProxy ", 1);
    let line = line.split(" - https://").next().unwrap_or_default();
    line.split(" - a light").next().unwrap_or_default().trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_what_programs_say_without_their_advertising() {
        for (said, expected) in [
            ("\nnginx version: nginx/1.22.1\nbuilt with OpenSSL 3", "nginx/1.22.1"),
            ("Server version: Apache/2.4.71 (Debian)\nServer built:   2026", "Apache/2.4.71 (Debian)"),
            ("lighttpd/1.4.69 (ssl) - a light and fast webserver", "lighttpd/1.4.69 (ssl)"),
            (
                "HAProxy version 2.6.12-1 2026/10/17 - https://haproxy.org/\nStatus: x",
                "HAProxy 2.6.12-1 2026/10/17",
            ),
            ("2.6.2", "2.6.2"),
            ("", ""),
        ] {
            assert_eq!(version(said), expected);
        }
    }

    #[test]
    fn a_missing_program_says_how_to_install_it() {
        let spec = |software, program: Option<&str>| ServerSpec {
            software,
            program: program.map(str::to_owned),
            command: Some("no-such-server {port}".to_owned()).filter(|_| software == Software::Command),
            ..ServerSpec::default()
        };
        let refused = find(&spec(Software::Nginx, Some("/nonexistent/nginx"))).unwrap_err();
        assert_eq!(refused.what, "there is no program `/nonexistent/nginx` for the server nginx");
        let refused = find(&spec(Software::Command, None)).unwrap_err();
        assert_eq!(refused.what, "there is no program `no-such-server` for the server command");
        assert!(on_path("sh").is_some() && on_path("/etc/passwd").is_none());
    }
}
