//! Files that a specification names on the controller's host and a load generator reads: they travel with the plan.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::PathBuf;

use webstone_model::spec::RunSpec;
use webstone_model::tls::TlsSpec;
use webstone_store::scratch::Scratch;

fn paths(tls: &mut TlsSpec) -> impl Iterator<Item = &mut String> {
    [&mut tls.cacert, &mut tls.cert, &mut tls.key].into_iter().filter_map(Option::as_mut)
}

/// Their contents, by the path that the specification has.
pub(super) fn pack(spec: &RunSpec) -> Result<BTreeMap<String, Vec<u8>>, (String, io::Error)> {
    let mut tls = spec.client.tls.clone();
    paths(&mut tls)
        .map(|path| Ok((path.clone(), fs::read(&*path).map_err(|error| (path.clone(), error))?)))
        .collect()
}

/// Files of the other host, as long as this lives.
pub(super) struct Unpacked {
    _scratch: Option<Scratch>,
}

/// Writes them here, and names their new places in the specification.
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
