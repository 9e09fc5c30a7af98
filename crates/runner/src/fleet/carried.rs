//! What travels with the plan, and what a load generator accepts of it: of the specification only what makes load, and the files that it
//! names on the controller's host. A controller may do no more, unless the agent was started with the power for it.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use webstone_lab::agent::load::Plan;
use webstone_measure::shown::quoted;
use webstone_model::powers::{self, Power};
use webstone_model::spec::RunSpec;
use webstone_store::plain_file::{self, Links};
use webstone_store::scratch::Scratch;
use webstone_workload::tls::TlsSpec;

/// Largest file of certificates or of a key, in bytes: a system's bundle has a quarter of a megabyte.
const FILE_BYTES_MAX: u64 = 16 << 20;

fn paths(tls: &mut TlsSpec) -> impl Iterator<Item = &mut String> {
    [&mut tls.cacert, &mut tls.cert, &mut tls.key].into_iter().filter_map(Option::as_mut)
}

/// The contents of these files, by their paths in the specification.
pub(super) fn pack(spec: &RunSpec) -> Result<BTreeMap<String, Vec<u8>>, (String, io::Error)> {
    let mut tls = spec.client.tls.clone();
    paths(&mut tls)
        .map(|path| {
            let contents = plain_file::read(Path::new(&*path), Links::Followed, FILE_BYTES_MAX);
            Ok((path.clone(), contents.map_err(|error| (path.clone(), error))?))
        })
        .collect()
}

/// The part of a specification that a load generator needs.
pub(super) fn of_hosts(spec: &RunSpec) -> RunSpec {
    let mut part = RunSpec {
        target: spec.target.clone(),
        load: spec.load.clone(),
        client: spec.client.clone(),
        generator: spec.generator.clone(),
        ..RunSpec::default()
    };
    // The feeds travel with the workload.
    part.client.allow_feeds = false;
    part
}

/// Why a load generator does not do what a plan asks for: it was not started with this power among those `allowed`.
pub(super) fn refusal(plan: &Plan, allowed: &[Power]) -> Option<String> {
    let mut spec = plan.spec.clone();
    for file in [&mut spec.client.tls.cacert, &mut spec.client.tls.cert, &mut spec.client.tls.key] {
        // Files that travel with the plan need no power.
        file.take_if(|path| plan.files.contains_key(path));
    }
    let asked = powers::refused(&spec, &[&Power::OF_AGENTS, allowed].concat())?;
    let how = match Power::ALLOWED_BY_AGENTS.contains(&asked.power) {
        true => format!("which needs `webstone agent --allow {}`", asked.power.name()),
        false => "which an agent never does".to_owned(),
    };
    Some(format!("{}: it {} {}, {how}", asked.key, asked.power.in_words(), quoted(&asked.value)))
}

/// Files of the controller's host, kept as long as this lives.
pub(super) struct Unpacked {
    _scratch: Option<Scratch>,
}

/// Writes the files on this host, and puts their new paths into the specification.
pub(super) fn unpack(files: &BTreeMap<String, Vec<u8>>, spec: &mut RunSpec) -> io::Result<Unpacked> {
    if files.is_empty() {
        return Ok(Unpacked { _scratch: None });
    }
    let program = std::env::current_exe().unwrap_or_else(|_| PathBuf::from("/proc/self/exe"));
    let scratch = Scratch::create("agent", &program)?;
    for (number, (path, contents)) in files.iter().enumerate() {
        let place = scratch.path().join(number.to_string());
        fs::write(&place, contents)?;
        paths(&mut spec.client.tls)
            .filter(|named| *named == path)
            .for_each(|named| *named = place.display().to_string());
    }
    Ok(Unpacked { _scratch: Some(scratch) })
}
