//! Which interfaces of a matrix can be measured here: a server that has none of a name is left out, not refused, because a
//! matrix of servers and interfaces has gaps by nature. Whatever is left out is said.

use webstone_model::series::{Cell, Delivery, Kind, Matrix};
use webstone_model::spec::{Interface, RunSpec};

use super::SeriesError;
use crate::load_workload;
use webstone_lab::servers::interfaces::{missing, of};

/// Mean answers that differ by more than this share are worth a warning: an efficiency compares rates, and rates depend on
/// sizes.
const SAME_SIZE: f64 = 0.01;

/// The cells of a matrix that can be measured here, and what was left out. A series of interfaces that names none takes all that
/// its servers have.
///
/// # Errors
/// [`SeriesError::Refused`] where the matrix has no cells, or an interface that was named is left without a server.
pub fn cells(kind: Kind, matrix: &Matrix, base: &RunSpec) -> Result<(Vec<Cell>, Vec<String>), SeriesError> {
    let all = kind == Kind::Spice && matrix.interfaces.is_empty();
    let every = || std::iter::once(Delivery::Static).chain(Interface::ALL.map(Delivery::Dynamic)).collect();
    let interfaces = if all { every() } else { matrix.interfaces.clone() };
    let matrix = Matrix { interfaces, ..matrix.clone() };
    let mut cells =
        matrix.cells(base).map_err(|error| SeriesError::refused(error.what.clone(), error.hint))?;
    if all {
        cells.retain(|cell| interface(cell).is_none_or(|it| of(cell.at.server.software).contains(&it)));
    }
    let (offered, others): (Vec<Cell>, Vec<Cell>) = cells.into_iter().partition(|cell| lack(cell).is_none());
    let mut left_out: Vec<(Option<Delivery>, String)> =
        others.iter().filter_map(|cell| Some((cell.at.interface, lack(cell)?))).collect();
    left_out.dedup();
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
    Ok((offered, left_out.into_iter().map(|(_, why)| format!("left out: {why}")).collect()))
}

fn interface(cell: &Cell) -> Option<Interface> {
    cell.at.interface.and_then(Delivery::interface)
}

/// Why a cell cannot be measured here.
fn lack(cell: &Cell) -> Option<String> {
    let (software, interface) = (cell.at.server.software, interface(cell)?);
    let name = software.name();
    if !of(software).contains(&interface) {
        return Some(format!("{interface}: {name} has no such interface"));
    }
    missing(software, interface).map(|package| {
        format!("{interface}: what {name} needs for it is not installed (Debian: apt-get install {package})")
    })
}

/// Answers of programs that are larger or smaller than the files that they are held against.
pub(super) fn unequal(cells: &[Cell]) -> Option<String> {
    let of_kind = |dynamic: bool| {
        let cell =
            cells.iter().find(|cell| cell.at.interface.is_some() && cell.at.is_dynamic() == dynamic)?;
        // What cannot be read is told by the run.
        Some((&cell.spec.workload, load_workload(&cell.spec.workload).ok()?.mean_size()?))
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
