//! The one place where a specification is completed and checked against its rules, wherever it comes from: flags, a testbed file, a
//! cell of a series. What needs a look at the machine or the target is `preflight`'s.
//!
//! A rule names keys of the specification (`load.clients`) and no flags: which flag sets a key is known to the command line alone.

mod client;
mod error;
mod generators;
pub(crate) mod handler;
mod load;
pub mod series;
mod server;
mod testbed;
pub mod tls;

use std::fs;

use webstone_model::paths;
use webstone_model::spec::{ClientSpec, HttpVersion, RunSpec, parse_cpu_list};
use webstone_workload::target::{Target, UrlError};

pub use error::SpecError;
pub use generators::hosts;
pub(crate) use load::ITERATIONS_MAX;
pub use server::{for_workload, listen, reference};
pub use testbed::{Testbed, TestbedError};

/// Longest name of a run, in characters: it is part of a file name.
const NAME_CHARS_MAX: usize = 100;

/// A specification as asked for.
#[derive(Clone, Debug, PartialEq)]
pub struct Asked {
    /// What is known of it so far.
    pub spec: RunSpec,
    /// What it would be with nothing asked for.
    pub defaults: RunSpec,
    /// Keys that were given, even with the default's value; others count as given if their value is not the default.
    pub given: Vec<&'static str>,
    /// The file that part of it came from.
    pub testbed: Option<Testbed>,
}

impl From<RunSpec> for Asked {
    /// A specification that is complete: from a check before, a plan, a record, another program.
    fn from(spec: RunSpec) -> Asked {
        Asked { spec, defaults: RunSpec::default(), given: load::COMPLETED.to_vec(), testbed: None }
    }
}

impl Asked {
    /// Whether a key has a value of the user's.
    fn says(&self, key: &str, value_differs: bool) -> bool {
        let is_stated = |testbed: &Testbed| testbed.states(key);
        value_differs || self.given.contains(&key) || self.testbed.as_ref().is_some_and(is_stated)
    }
}

/// A specification that can be run, as far as the specification alone shows.
#[derive(Clone, Debug, PartialEq)]
pub struct Checked {
    /// All of it; checked again, it is the same.
    pub spec: RunSpec,
    /// What will not be as the user may think.
    pub warnings: Vec<String>,
}

/// Completes a specification and checks it against its rules.
///
/// # Errors
/// The first rule that it breaks.
pub fn check(asked: &Asked) -> Result<Checked, SpecError> {
    let placed = |error: SpecError| match &asked.testbed {
        Some(testbed) => error.placed(testbed, &asked.spec),
        None => error,
    };
    let mut spec = asked.spec.clone();
    load::complete(&mut spec.load, asked);
    rules(&mut spec, asked).map_err(placed)?;
    let warnings = warnings(&spec);
    Ok(Checked { spec, warnings })
}

/// Whether clients can be as specified in the version of HTTP that was chosen for them.
///
/// # Errors
/// The first rule that is broken.
pub(crate) fn with_version(client: &ClientSpec, http: HttpVersion) -> Result<(), SpecError> {
    client::check(&mut ClientSpec { http, ..client.clone() })
}

/// Parses the URL of a server, without a path.
///
/// # Errors
/// The rule that it breaks.
pub fn server_url(url: &str) -> Result<Target, UrlError> {
    Target::split(url)?;
    url.parse().map_err(|error: UrlError| UrlError {
        rule: format!("{}; paths come from the workload", error.rule),
        remedy: format!("{}; for this one URL, `webstone hit {url}`", error.remedy),
        ..error
    })
}

fn rules(spec: &mut RunSpec, asked: &Asked) -> Result<(), SpecError> {
    if spec.series.is_some() {
        return Err(SpecError::new(
            "series",
            "a matrix is several runs, but this command makes one",
            "use `webstone servers -f FILE` or `webstone scale -f FILE`",
        ));
    }
    name(&spec.name)?;
    if asked.testbed.is_some() {
        files(spec)?;
    }
    for url in &mut spec.target {
        *url = server_url(url).map_err(|error| SpecError::of_url("target", &error))?.to_string();
    }
    load::check(spec)?;
    client::check(&mut spec.client)?;
    tls::check(&spec.client.tls)?;
    cpus("generator.cpus", &spec.generator.cpus)?;
    server::agents(spec)?;
    generators::check(spec)?;
    if spec.client.http == HttpVersion::Http3
        && let Some(url) = spec.target.iter().find(|url| url.starts_with("http:"))
    {
        let what = format!("`{url}` has no TLS, but HTTP/3 is always over TLS");
        return Err(SpecError::new("target", what, "write https://, or set client.http to 1.1 or 2"));
    }
    if let Some(directory) = &spec.generator.qlog
        && !matches!(spec.client.http, HttpVersion::Http3 | HttpVersion::Auto)
    {
        let what = format!("`{directory}`, but qlog is of QUIC, and so of HTTP/3 alone");
        return Err(SpecError::new("generator.qlog", what, "remove it, or set client.http to 3"));
    }
    match spec.target.first() {
        Some(url) => server::elsewhere(&spec.server, url, &asked.given),
        None => {
            // A server of ours speaks what its clients do.
            spec.server.http2 |= spec.client.http == HttpVersion::Http2;
            if spec.client.http == HttpVersion::Http3 {
                spec.server.http3 = true;
                spec.server.tls.get_or_insert_default();
            }
            server::proxy_protocol(spec)?;
            server::over_path(spec)?;
            server::own(&mut spec.server)
        }
    }
}

/// Files of a testbed file that are missing are reported before any load, with the key that names them; the workload where it is
/// read.
fn files(spec: &mut RunSpec) -> Result<(), SpecError> {
    let missing = |(key, path): &(&str, &mut String)| {
        !matches!(*key, "workload" | "client.unix_socket") && matches!(fs::exists(path.as_str()), Ok(false))
    };
    match paths::files(spec).into_iter().find(missing) {
        Some((key, path)) => {
            let remedy =
                "give the path of a file that exists; in a testbed file, paths are relative to that file";
            Err(SpecError::value(key, path, "not there: no such file or directory", remedy))
        }
        None => Ok(()),
    }
}

fn warnings(spec: &RunSpec) -> Vec<String> {
    let unused = !spec.generator.pin && !spec.generator.cpus.is_empty();
    let note =
        || format!("generator.cpus: `{}` pins nothing, because generator.pin is false", spec.generator.cpus);
    unused.then(note).into_iter().collect()
}

fn name(name: &str) -> Result<(), SpecError> {
    let rule = if name.is_empty() {
        "empty"
    } else if name.chars().count() > NAME_CHARS_MAX {
        "longer than 100 characters"
    } else if name.starts_with('.') {
        "hidden, because it begins with a dot"
    } else if !name.chars().all(|c| c.is_alphanumeric() || "._-".contains(c)) {
        "not usable as part of a file name"
    } else {
        return Ok(());
    };
    Err(SpecError::value("name", name, rule, "write letters, digits, dots, hyphens and underscores"))
}

fn cpus(key: &str, list: &str) -> Result<(), SpecError> {
    match parse_cpu_list(list) {
        Ok(_) => Ok(()),
        Err(_) => {
            Err(SpecError::value(key, list, "not a list of CPUs", "write numbers and ranges, as in 0-1,4"))
        }
    }
}

#[cfg(test)]
mod tests;
