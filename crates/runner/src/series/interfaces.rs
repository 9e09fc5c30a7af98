//! Which interfaces of a matrix can be measured here: a server that lacks one is left out, not refused, because a matrix
//! of servers and interfaces has gaps by nature. Whatever is left out is said.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use webstone_model::series::{Cell, Delivery, Handshakes, Kind, Matrix};
use webstone_model::spec::{Interface, RunSpec};
use webstone_workload::{TlsPages, Workload};

use super::{SeriesError, distinct};
use crate::check::for_workload;
use crate::check::handler::{asks_for_ready_heads, has_ready_heads};
use crate::{Feeds, load_workload};
use webstone_lab::servers::interfaces::{missing, of_software};

/// Mean answers that differ by more than this share are worth a warning: an efficiency compares rates, and rates depend on
/// sizes.
const SAME_SIZE: f64 = 0.01;

/// The cells of a matrix that can be measured here, and what was left out. A series of interfaces that names none takes all that
/// its servers have.
///
/// # Errors
/// [`SeriesError::Workload`] where there is no such workload, [`SeriesError::Refused`] where the matrix has no cells, or an interface
/// that was named is left without a server.
pub fn cells(kind: Kind, matrix: &Matrix, base: &RunSpec) -> Result<(Vec<Cell>, Vec<String>), SeriesError> {
    let all = kind == Kind::Spice && matrix.interfaces.is_empty();
    let every = || std::iter::once(Delivery::Static).chain(Interface::ALL.map(Delivery::Dynamic)).collect();
    let interfaces = if all { every() } else { matrix.interfaces.clone() };
    let matrix = Matrix { interfaces, ..matrix.clone() };
    let mut cells =
        matrix.cells(base).map_err(|error| SeriesError::refused(error.what.clone(), error.hint))?;
    if all {
        cells.retain(|cell| {
            interface(cell).is_none_or(|it| of_software(cell.at.server.software).contains(&it))
        });
    }
    let mut known = HashMap::new();
    let mut offered = Vec::with_capacity(cells.len());
    let mut left_out: Vec<(Option<Delivery>, String)> = Vec::new();
    for mut cell in cells {
        let workload = match known.entry(cell.spec.workload.clone()) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(new) => {
                new.insert(load_workload(&cell.spec.workload, Feeds::of_client(&cell.spec.client))?)
            }
        };
        let why = match lack(&cell, workload).or_else(|| unencrypted(&cell, workload)) {
            Some(why) => (cell.at.interface, why),
            None => {
                for_workload(&mut cell.spec, workload).map_err(|error| error.of_cell(&cell.name))?;
                offered.push(cell);
                continue;
            }
        };
        if !left_out.contains(&why) {
            left_out.push(why);
        }
    }
    let has_cells = |delivery: &Delivery| offered.iter().any(|cell| cell.at.interface == Some(*delivery));
    let without = |delivery: &Delivery| left_out.iter().find(|(left, _)| *left == Some(*delivery));
    let lost = matrix.interfaces.iter().filter(|delivery| !all && !has_cells(delivery)).find_map(without);
    if let Some((_, why)) = lost {
        return Err(SeriesError::refused(
            format!("interfaces (series.interfaces): {why}"),
            "`webstone servers` lists which server has which interface, and what is missing here",
        ));
    }
    if all && !offered.iter().any(|cell| cell.at.is_dynamic()) {
        return Err(SeriesError::refused(
            "none of these servers has an interface here to compare with its files",
            "`webstone servers` lists which server has which interface, and what is missing here",
        ));
    }
    distinct(&offered)?;
    // The same may hold of several interfaces.
    let mut told: Vec<String> = left_out.into_iter().map(|(_, why)| format!("left out: {why}")).collect();
    told.dedup();
    Ok((offered, told))
}

fn interface(cell: &Cell) -> Option<Interface> {
    cell.at.interface.and_then(Delivery::interface)
}

/// Why a cell cannot be measured here.
fn lack(cell: &Cell, workload: &Workload) -> Option<String> {
    let (software, interface) = (cell.at.server.software, interface(cell)?);
    let name = software.name();
    if !of_software(software).contains(&interface) {
        return Some(format!("{interface}: {name} has no such interface"));
    }
    if let Some(lacking) = missing(software, interface) {
        let remedy = match lacking.unusable {
            None => format!(" (Debian: apt-get install {})", lacking.package),
            Some(_) => String::new(),
        };
        return Some(format!("{interface}: {}{remedy}", lacking.sentence(software)));
    }
    (!has_ready_heads(Some(interface)) && asks_for_ready_heads(workload)).then(|| {
        format!("{interface} under workloads that ask for a ready-made head (only `module` has one)")
    })
}

/// Why a workload cannot be requested without TLS, as a cell would.
fn unencrypted(cell: &Cell, workload: &Workload) -> Option<String> {
    let is_off = cell.at.handshakes == Some(Handshakes::Off);
    (is_off && workload.tls_pages() != TlsPages::None)
        .then(|| format!("{} without TLS: it asks pages over TLS", workload.name))
}

/// Answers of programs that are larger or smaller than the files that they are compared with.
pub(super) fn unequal(cells: &[Cell]) -> Option<String> {
    let of_kind = |dynamic: bool| {
        let cell =
            cells.iter().find(|cell| cell.at.interface.is_some() && cell.at.is_dynamic() == dynamic)?;
        let workload = load_workload(&cell.spec.workload, Feeds::of_client(&cell.spec.client)).ok()?;
        Some((&cell.spec.workload, workload.mean_size()?))
    };
    let ((files, static_bytes), (program, dynamic_bytes)) = (of_kind(false)?, of_kind(true)?);
    ((dynamic_bytes / static_bytes - 1.0).abs() > SAME_SIZE).then(|| {
        format!(
            "efficiencies compare answers of different sizes: {program} has {dynamic_bytes:.0} bytes on average and {files} \
             {static_bytes:.0}; --dynamic-workload spice-{static_bytes:.0} would be as large"
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use webstone_model::spec::Software;

    fn names(
        kind: Kind,
        servers: &[&str],
        interfaces: &[&str],
        dynamic: &str,
    ) -> Result<(Vec<String>, Vec<String>), String> {
        let matrix = Matrix {
            servers: servers.iter().map(|server| server.parse().unwrap()).collect(),
            interfaces: interfaces.iter().map(|interface| interface.parse().unwrap()).collect(),
            dynamic_workload: Some(dynamic.to_owned()),
            ..Matrix::default()
        };
        let base = RunSpec { workload: "webbench-static".into(), ..RunSpec::default() };
        let (cells, mut warnings) = cells(kind, &matrix, &base).map_err(|error| error.to_string())?;
        warnings.extend(unequal(&cells));
        Ok((cells.into_iter().map(|cell| cell.name).collect(), warnings))
    }

    #[test]
    fn servers_without_an_interface_are_left_out_and_told() {
        let (cells, warnings) =
            names(Kind::Spice, &["reference", "caddy"], &["static", "cgi"], "spice").unwrap();
        assert_eq!(cells, ["reference-static", "reference-cgi", "caddy-static"]);
        assert_eq!(warnings, ["left out: cgi: caddy has no such interface"]);
        let error = names(Kind::Spice, &["caddy"], &["static", "cgi"], "spice").unwrap_err();
        assert_eq!(error, "interfaces (series.interfaces): cgi: caddy has no such interface");
    }

    #[test]
    fn spice_takes_all_interfaces_of_its_servers_and_a_server_without_any_is_refused() {
        let (cells, warnings) = names(Kind::Spice, &["reference"], &[], "spice").unwrap();
        let expected = ["static", "native", "cgi", "fastcgi", "persistent"];
        assert_eq!(cells, expected.map(|name| format!("reference-{name}")));
        assert_eq!(warnings, [""; 0]);
        assert_eq!(names(Kind::Servers, &["reference"], &[], "spice").unwrap().0, ["reference"]);
        let error = names(Kind::Spice, &["caddy"], &[], "spice").unwrap_err();
        assert_eq!(error, "none of these servers has an interface here to compare with its files");
    }

    #[test]
    fn only_a_module_is_asked_for_ready_made_heads() {
        let directory = tempfile::tempdir().unwrap();
        let mut paths = Vec::new();
        for (name, head) in [("built", "built"), ("ready", "ready")] {
            let path = directory.path().join(format!("{name}.toml"));
            let text = format!("[[pages]]\nfiles = [{{ dynamic = {{ size = 7, head = \"{head}\" }} }}]\n");
            std::fs::write(&path, text).unwrap();
            paths.push(path.display().to_string());
        }
        let matrix = Matrix {
            servers: vec!["reference".parse().unwrap()],
            interfaces: ["static", "cgi"].map(|interface| interface.parse().unwrap()).to_vec(),
            dynamic_workloads: paths,
            ..Matrix::default()
        };
        let (cells, told) = cells(Kind::Spice, &matrix, &RunSpec::default()).unwrap();
        let names: Vec<String> = cells.into_iter().map(|cell| cell.name).collect();
        assert_eq!(names, ["reference-static", "reference-cgi-built"]);
        assert_eq!(
            told,
            ["left out: cgi under workloads that ask for a ready-made head (only `module` has one)"]
        );
    }

    #[test]
    fn a_mix_of_plain_and_tls_has_a_server_that_listens_for_both_and_no_cell_without() {
        let matrix: Matrix = toml::from_str("handshakes = ['off', 'full', 'resumed']").unwrap();
        let base = RunSpec { workload: "webbench-ecommerce".into(), ..RunSpec::default() };
        let (found, warnings) = super::cells(Kind::Servers, &matrix, &base).unwrap();
        let told: Vec<(&str, Option<&str>)> = (found.iter())
            .map(|cell| (&*cell.name, cell.spec.server.tls.as_ref().and_then(|tls| tls.listen.as_deref())))
            .collect();
        let listens = Some("127.0.0.1:0");
        assert_eq!(told, [("reference-tls-full", listens), ("reference-tls-resumed", listens)]);
        assert_eq!(warnings, ["left out: webbench-ecommerce without TLS: it asks pages over TLS"]);
        let mut base = base;
        (base.server.software, base.server.http2) = (Software::Nghttpd, true);
        let error = super::cells(Kind::Servers, &Matrix::default(), &base).unwrap_err().to_string();
        assert!(error.contains("nghttpd listens at one address"), "{error}");
        // A workload without TLS: nothing changes.
        let base = RunSpec { workload: "webbench-static".into(), ..RunSpec::default() };
        let (found, _) = super::cells(Kind::Servers, &Matrix::default(), &base).unwrap();
        assert_eq!(found[0].spec.server.tls, None);
    }

    #[test]
    fn answers_of_other_sizes_are_told() {
        let (_, warnings) = names(Kind::Servers, &["reference"], &["static", "cgi"], "spice-19773").unwrap();
        assert_eq!(
            warnings,
            [
                "efficiencies compare answers of different sizes: spice-19773 has 19773 bytes on average and webbench-static \
              6250; --dynamic-workload spice-6250 would be as large"
            ]
        );
    }
}
