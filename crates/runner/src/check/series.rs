//! Checks a series: what its matrix and the part common to its runs must not both say, and each cell as a run.

use webstone_model::series::{Delivery, Kind, Matrix};
use webstone_model::spec::RunSpec;
use webstone_workload::tls::Share;

use super::{Asked, SpecError, check as check_run};
use crate::series::{SeriesError, cells};
use crate::{Feeds, load_workload};

/// Bytes of SPICE's dynamic answer.
const SPICE_BYTES: f64 = 6_250.0;
/// Answers whose mean sizes differ by less than this share count as equally large.
const SAME_SIZE: f64 = 0.01;

/// Completes a series and checks it against its rules; returns the part common to its runs, completed.
///
/// # Errors
/// The first rule that it, or one of its cells, breaks.
pub fn check(kind: Kind, asked: &Asked, matrix: &mut Matrix) -> Result<RunSpec, SeriesError> {
    let placed = |error: SpecError| match &asked.testbed {
        Some(testbed) => error.placed(testbed, &asked.spec),
        None => error,
    };
    let spec = &asked.spec;
    if kind == Kind::Spice {
        spice(spec, matrix)?;
    }
    apart(kind, spec, matrix).map_err(placed)?;
    by_rounds(spec).map_err(placed)?;
    // First under the series' name, with the server of its first cell; then every cell.
    let (found, _) = cells(kind, matrix, spec)?;
    let of = |part: &RunSpec| Asked { spec: part.clone(), ..asked.clone() };
    let first = found.first().map_or(spec, |cell| &cell.spec);
    let common = check_run(&of(&RunSpec { name: spec.name.clone(), ..first.clone() }))?.spec;
    for cell in found {
        check_run(&of(&cell.spec)).map_err(|error| error.of_cell(&cell.name))?;
    }
    Ok(RunSpec { load: common.load, ..spec.clone() })
}

/// What rounds, each of which is a run of its own, cannot do.
fn by_rounds(spec: &RunSpec) -> Result<(), SpecError> {
    if spec.generator.trace > 0 {
        let rule = format!("`{}`, but a series shows no single exchanges", spec.generator.trace);
        return Err(SpecError::new("generator.trace", rule, "leave it out, or use `run`"));
    }
    match &spec.generator.record_all {
        Some(path) if !spec.generators.is_empty() && spec.load.iterations > 1 => Err(SpecError::new(
            "generator.record_all",
            format!(
                "`{path}`, but each round of a series starts its load generators anew, whose files would begin again"
            ),
            "leave it out, make the load from this host alone, or use `run`",
        )),
        _ => Ok(()),
    }
}

/// What SPICE is by its definition: files first, and programs whose answers are as large as the files on average.
fn spice(spec: &RunSpec, matrix: &mut Matrix) -> Result<(), SeriesError> {
    if !matrix.interfaces.is_empty() {
        matrix.interfaces.retain(|delivery| *delivery != Delivery::Static);
        matrix.interfaces.insert(0, Delivery::Static);
        if matrix.interfaces.len() == 1 {
            return Err(SpecError::new(
                "series.interfaces",
                "`static` alone has nothing to compare with",
                "name interfaces, as in cgi,fastcgi; or remove the list for all of them",
            )
            .into());
        }
    }
    if let Some(interface) = spec.server.interface {
        let rule = format!("`{interface}` is one interface, but `spice` measures several");
        let remedy = format!("write {interface} as series.interfaces");
        return Err(SpecError::new("server.interface", rule, remedy).into());
    }
    if matrix.dynamic_workload.is_none() && matrix.dynamic_workloads.is_empty() {
        let files = load_workload(&spec.workload, Feeds::of_client(&spec.client))?;
        let mean = files.mean_size().ok_or_else(|| {
            SpecError::new(
                "workload",
                format!(
                    "`{}` does not state the sizes of its files, so the dynamic answers cannot be of the same size",
                    spec.workload
                ),
                "state the sizes in it, or give the dynamic workload with series.dynamic_workload, such as spice",
            )
        })?;
        matrix.dynamic_workload = Some(spice_workload(mean));
    }
    Ok(())
}

/// The workload `spice` if its answers are as large as the files, else one of their size. WebBench's mean is 6,250 bytes but for rounding.
fn spice_workload(mean: f64) -> String {
    if (mean / SPICE_BYTES - 1.0).abs() < SAME_SIZE { "spice".to_owned() } else { format!("spice-{mean:.0}") }
}

/// What cannot be common to all runs.
fn apart(kind: Kind, spec: &RunSpec, matrix: &Matrix) -> Result<(), SpecError> {
    if let Some(url) = spec.target.first() {
        return Err(SpecError::new(
            "target",
            format!("`{url}`, but `{}` measures servers that it starts itself", kind.command()),
            "remove it; for servers elsewhere, make one run each and use `webstone compare`",
        ));
    }
    if kind == Kind::Scale && matrix.cpus.len() < 2 {
        return Err(SpecError::new(
            "series.cpus",
            "scaling needs at least two numbers of CPUs, but there is one",
            "list them, as in 1,2,4; a machine with one CPU cannot show scaling",
        ));
    }
    if !matrix.cpus.is_empty() && !spec.server.cpus.is_empty() {
        let rule =
            format!("`{}` cannot be used together with series.cpus, which varies them", spec.server.cpus);
        return Err(SpecError::new("server.cpus", rule, "leave out one of the two"));
    }
    if let (false, Some(path)) = (matrix.paths.is_empty(), spec.server.path) {
        let rule = format!("`{path}` cannot be used together with series.paths");
        return Err(SpecError::new("server.path", rule, "leave out one of the two"));
    }
    let resume = spec.client.tls.resume;
    if !matrix.handshakes.is_empty() && resume != Share::NONE {
        let rule = format!("`{resume}` is one share, and series.handshakes vary");
        return Err(SpecError::new("client.tls.resume", rule, "leave out one of the two"));
    }
    if let (false, Some(interface)) = (matrix.interfaces.is_empty(), spec.server.interface) {
        let rule = format!("`{interface}` cannot be used together with series.interfaces");
        return Err(SpecError::new("server.interface", rule, "leave out one of the two"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dynamic_answers_are_as_large_as_the_files() {
        assert_eq!(spice_workload(6_249.97), "spice");
        assert_eq!(spice_workload(19_773.0), "spice-19773");
    }
}
