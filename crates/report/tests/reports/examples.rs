//! The example files and the published tables that they are made for: every cell of an example is compared, row by row, with the tables
//! that were measured like it, and with no other.

use std::collections::BTreeMap;
use std::fs;

use webstone_model::record::{RunRecord, SoftwareRecord};
use webstone_model::series::Cell;
use webstone_model::spec::{RunSpec, Software};
use webstone_report::history::{Other, Published, apart, beside, published};
use webstone_workload::Workload;

use crate::records;

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../");

/// The cells of an example.
fn cells(example: &str) -> Vec<Cell> {
    let text = fs::read_to_string(format!("{ROOT}examples/{example}.toml")).unwrap();
    let spec: RunSpec = toml::from_str(&text).unwrap();
    spec.series.as_ref().unwrap().cells(&spec).unwrap()
}

fn workload(name: &str) -> Workload {
    webstone_workload::builtin(name).unwrap()
}

/// A record as a run of a cell leaves one.
fn measured(cell: &Cell) -> RunRecord {
    let mut record = records::small();
    let iteration = record.iterations[0].clone();
    let of = |clients: &u32| {
        let mut iteration = iteration.clone();
        iteration.clients = *clients;
        iteration
    };
    record.iterations = cell.spec.load.clients.0.iter().map(of).collect();
    record.id.clone_from(&cell.name);
    record.workload = workload(&cell.spec.workload);
    record.target.embedded = cell.spec.server.software == Software::Reference;
    if !record.target.embedded {
        let name = cell.spec.server.software.name().to_owned();
        record.target.software = Some(SoftwareRecord { name, ..SoftwareRecord::default() });
    }
    record.target.cpus = (0..cell.at.cpus.unwrap_or(1)).collect();
    record.spec = cell.spec.clone();
    record
}

/// For each cell: the tables that it is compared with, and how many of their rows.
fn tables(example: &str) -> BTreeMap<String, BTreeMap<&'static str, usize>> {
    let all: Vec<&Published> = published().iter().collect();
    let of = |cell: &Cell| {
        let mut tables = BTreeMap::new();
        for compared in beside(&measured(cell), &all) {
            *tables.entry(compared.id).or_default() += 1;
        }
        (cell.name.clone(), tables)
    };
    cells(example).iter().map(of).collect()
}

fn expected(rows: &[(&str, &[(&'static str, usize)])]) -> BTreeMap<String, BTreeMap<&'static str, usize>> {
    rows.iter().map(|(cell, tables)| ((*cell).to_owned(), tables.iter().copied().collect())).collect()
}

/// Six kinds of answers on one CPU and on two, eight numbers of clients each.
#[test]
fn fasttrack_has_a_cell_for_each_of_its_twelve_tables() {
    let answers = [
        ("static", "html"),
        ("cgi-send-random", "cgi"),
        ("module-send-random", "nsapi"),
        ("module-send-ready-random", "nsapi-a"),
        ("module-send-ready-pattern", "nsapi-b"),
        ("module-send-ready-none", "nsapi-c"),
    ];
    let found = tables("fasttrack");
    let mut seen = Vec::new();
    for cpus in [1, 2] {
        for (cell, table) in answers {
            let name = match cell.split_once('-') {
                None => format!("apache-prefork-{cell}-{cpus}cpu"),
                Some((interface, workload)) => format!("apache-prefork-{interface}-{cpus}cpu-{workload}"),
            };
            let table = format!("fasttrack-{cpus}cpu-{table}");
            let beside: Vec<(&str, usize)> = found[&name].iter().map(|(id, rows)| (*id, *rows)).collect();
            assert_eq!(beside, [(table.as_str(), 8)], "{name}");
            seen.push(table);
        }
    }
    let mut documents = published().iter().filter(|table| table.document.id == "fasttrack");
    assert!(documents.all(|table| seen.contains(&table.id)) && seen.len() == 12);
    // CGI was measured with WebStone 1.1's program alone.
    let others = found.iter().filter(|(name, _)| name.contains("cgi") && name.contains("ready"));
    assert!(others.clone().count() == 6 && others.into_iter().all(|(_, tables)| tables.is_empty()));
}

/// Versions of the module differ in one thing each, which is then named.
#[test]
fn a_version_of_the_module_is_told_from_the_others() {
    let all = cells("fasttrack");
    let cell = all.iter().find(|cell| cell.name.ends_with("module-1cpu-send-ready-random")).unwrap();
    let table = |id: &str| published().iter().find(|table| table.id == id).unwrap();
    let other = |url: &str, name: &str, id: &str| {
        let mut record = measured(cell);
        record.workload.name = name.to_owned();
        record.workload.pages[0].files[0].url = url.into();
        assert!(beside(&record, &[table(id)]).is_empty());
        apart(&record, &[table(id)])[0].other
    };
    let a = "fasttrack-1cpu-nsapi-a";
    assert_eq!(other("/send?size=6836&fill=random", "send-ready-random", a), Other::Head);
    assert_eq!(other("/send?size=6836&fill=pattern&head=ready", "send-ready-random", a), Other::Fill);
    assert_eq!(other("/send?size=6836&head=ready", "send-random", a), Other::Workload);
    assert_eq!(other("/send?size=6836&head=ready", "send-random", "fasttrack-1cpu-nsapi"), Other::Head);
    let mut cgi = measured(cell);
    cgi.spec.server.interface = Some("cgi".parse().unwrap());
    assert_eq!(apart(&cgi, &[table(a)])[0].other, Other::Interface);
}

/// A table of peaks has a row per figure if these were reached at different numbers of clients.
#[test]
fn proliant_has_a_cell_for_each_entry_of_its_table() {
    let found = tables("proliant");
    let rows: &[(&str, &[(&'static str, usize)])] = &[
        ("apache-prefork-static-1cpu", &[("proliant-1cpu-html", 1)]),
        ("apache-prefork-module-1cpu", &[("proliant-1cpu-isapi", 2)]),
        ("apache-prefork-cgi-1cpu", &[("proliant-1cpu-cgi", 2)]),
        ("apache-prefork-static-2cpu", &[("proliant-2cpu-html", 1)]),
        ("apache-prefork-module-2cpu", &[("proliant-2cpu-isapi", 2)]),
        ("apache-prefork-cgi-2cpu", &[("proliant-2cpu-cgi", 2)]),
        // "HTML: Not Reported"
        ("apache-prefork-static-4cpu", &[]),
        ("apache-prefork-module-4cpu", &[("proliant-4cpu-isapi", 2)]),
        ("apache-prefork-cgi-4cpu", &[("proliant-4cpu-cgi", 2)]),
    ];
    assert_eq!(found, expected(rows));
}

#[test]
fn netserver_has_a_cell_for_each_row_of_its_first_three_tables() {
    let found = tables("netserver");
    assert_eq!(found.len(), 12);
    for (interface, table) in [("static", "static"), ("php-fpm", "asp"), ("module", "isapi")] {
        for cpus in [1, 2, 4, 6] {
            let name = format!("apache-tuned-{interface}-{cpus}cpu");
            let beside: Vec<&str> = found[&name].keys().copied().collect();
            // Six CPUs under static load are NA: the clients were the limit.
            let not_available = table == "static" && cpus == 6;
            let table = format!("lt6000r-{table}");
            let expected = if not_available { Vec::new() } else { vec![table.as_str()] };
            assert_eq!(beside, expected, "{name}");
        }
    }
}

#[test]
fn the_paper_has_both_of_its_totals() {
    let both: &[(&'static str, usize)] = &[("ncsa", 1), ("netsite", 1)];
    assert_eq!(tables("webstone-paper"), expected(&[("nginx-1cpu", both), ("apache-prefork-1cpu", both)]));
}

/// One file for all tables of the chapter. Its tables of files have two rows for each size: one request at once, and ten.
#[test]
fn wasd_has_a_cell_for_each_row_of_its_tables() {
    let found = tables("wasd");
    assert_eq!(found.len(), 44);
    let mut rows: BTreeMap<&str, usize> = BTreeMap::new();
    for (cell, beside) in &found {
        let (is_named, is_cached) = (cell.contains("names-on"), cell.ends_with("cache-on"));
        let files: &[(&str, usize)] = match is_cached {
            true if cell.contains("workout-0k") => &[("wasd-cached", 2), ("wasd-dns", 1)],
            true => &[("wasd-cached", 2)],
            false => &[("wasd-uncached", 2)],
        };
        let expected: &[(&str, usize)] = match cell {
            _ if is_named && is_cached && cell.contains("workout-0k") => &[("wasd-dns", 1)],
            // All but one of its tables were measured with names not looked up.
            _ if is_named => &[],
            _ if cell.contains("workout-") => files,
            _ if cell.contains("transfer-") => &[("wasd-transfer", 2)],
            _ => &[("wasd-scripting-first", 1), ("wasd-scripting-second", 1)],
        };
        let beside: Vec<(&str, usize)> = beside.iter().map(|(id, rows)| (*id, *rows)).collect();
        assert_eq!(beside, expected, "{cell}");
        beside.into_iter().for_each(|(table, found)| *rows.entry(table).or_default() += found);
    }
    // Only the tables of files state whether the server cached: others have two cells for a row, one with the cache and one without.
    let both_caches = ["wasd-transfer", "wasd-scripting-first", "wasd-scripting-second"];
    for table in published().iter().filter(|table| table.document.id == "wasd") {
        let id = table.id.as_str();
        let cells = if both_caches.contains(&id) { 2 } else { 1 };
        assert_eq!(rows[id], cells * table.rows.len(), "{id}");
    }
}
