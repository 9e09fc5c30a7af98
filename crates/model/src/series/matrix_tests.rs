//! The cells of a matrix, and what it cannot be.

use super::*;
use crate::interfaces::Interface;

fn names(matrix: &str) -> Result<Vec<String>, String> {
    let matrix: Matrix = toml::from_str(matrix).unwrap();
    let cells = matrix.cells(&RunSpec::default()).map_err(|error| error.what)?;
    Ok(cells.into_iter().map(|cell| cell.name).collect())
}

#[test]
fn cells_are_every_combination_and_are_named_by_what_varies() {
    assert_eq!(names("").unwrap(), ["reference"]);
    assert_eq!(
        names("servers = ['nginx', 'apache:tuned']\ncpus = [1, 2]").unwrap(),
        ["nginx-1cpu", "nginx-2cpu", "apache-tuned-1cpu", "apache-tuned-2cpu"]
    );
    assert_eq!(
        names("servers = ['reference', 'nginx']\nprofiles = ['stock', 'tuned']").unwrap(),
        ["reference", "nginx", "nginx-tuned"]
    );
    assert_eq!(
        names("servers = ['nginx']\nconnections = ['per-request', 'keep-alive']\ninterfaces = ['static']")
            .unwrap(),
        ["nginx-static-per-request", "nginx-static-keep-alive"]
    );
}

#[test]
fn caching_on_and_off_are_cells_of_their_own() {
    let matrix: Matrix =
        toml::from_str("servers = ['haproxy', 'nginx-proxy']\ncaching = ['on', 'off']").unwrap();
    let cells = matrix.cells(&RunSpec::default()).unwrap();
    let told: Vec<(&str, Option<bool>, String)> =
        cells.iter().map(|cell| (&*cell.name, cell.spec.server.cache, cell.at.to_string())).collect();
    let expected = [
        ("haproxy-cache-on", Some(true), "haproxy, cache on, per-request"),
        ("haproxy-cache-off", Some(false), "haproxy, cache off, per-request"),
        ("nginx-proxy-cache-on", Some(true), "nginx-proxy, cache on, per-request"),
        ("nginx-proxy-cache-off", Some(false), "nginx-proxy, cache off, per-request"),
    ];
    assert_eq!(told, expected.map(|(name, cache, at)| (name, cache, at.to_owned())));
    assert!(cells.iter().all(|cell| cell.spec.name == cell.name));
}

#[test]
fn builds_are_programs_or_command_lines() {
    let of = |matrix: &str| {
        let matrix: Matrix = toml::from_str(matrix).unwrap();
        let cells = matrix.cells(&RunSpec::default()).unwrap();
        let told = |cell: Cell| {
            (cell.name, cell.at.to_string(), cell.spec.server.program.or(cell.spec.server.command))
        };
        cells.into_iter().map(told).collect::<Vec<_>>()
    };
    let told =
        |name: &str, at: &str, program: &str| (name.to_owned(), at.to_owned(), Some(program.to_owned()));
    assert_eq!(
        of("servers = ['nginx']\nbuilds = ['/old/nginx', '/new/nginx']\ncpus = [1]"),
        [
            told("nginx-build1-1cpu", "nginx, build 1, per-request, 1 CPU", "/old/nginx"),
            told("nginx-build2-1cpu", "nginx, build 2, per-request, 1 CPU", "/new/nginx"),
        ]
    );
    assert_eq!(
        of("servers = ['command']\nbuilds = ['./s {port}', './t {port}']"),
        [
            told("command-build1", "command, build 1, per-request", "./s {port}"),
            told("command-build2", "command, build 2, per-request", "./t {port}"),
        ]
    );
}

#[test]
fn what_does_not_vary_is_what_the_specification_says() {
    let matrix: Matrix = toml::from_str("connections = ['keep-alive']").unwrap();
    let mut base = RunSpec::default();
    base.server.software = Software::Lighttpd;
    base.workload = "general".into();
    let cells = matrix.cells(&base).unwrap();
    assert_eq!(cells.len(), 1);
    let spec = &cells[0].spec;
    assert_eq!((spec.server.software, spec.workload.as_str()), (Software::Lighttpd, "general"));
    assert_eq!(
        (spec.client.connections, spec.name.as_str()),
        (ConnectionPolicy::KeepAlive, "lighttpd-keep-alive")
    );
}

#[test]
fn programs_answer_a_workload_of_their_own() {
    let matrix: Matrix =
        toml::from_str("interfaces = ['static', 'cgi']\ndynamic_workload = 'spice'").unwrap();
    let mut base = RunSpec { workload: "webbench-static".into(), ..RunSpec::default() };
    base.server.interface = Some(Interface::Native);
    let cells = matrix.cells(&base).unwrap();
    let of = |cell: &Cell| (cell.spec.workload.clone(), cell.spec.server.interface);
    assert_eq!(of(&cells[0]), ("webbench-static".to_owned(), None));
    assert_eq!(of(&cells[1]), ("spice".to_owned(), Some(Interface::Cgi)));
    assert_eq!((cells[0].at.is_dynamic(), cells[1].at.is_dynamic()), (false, true));
}

#[test]
fn workloads_and_the_look_up_of_names_are_dimensions() {
    let matrix: Matrix = toml::from_str(
        "interfaces = ['static', 'cgi']\nworkloads = ['workout-0k', 'a/b.toml']\n\
         dynamic_workloads = ['spice-0']\nresolve_names = ['on', 'off']",
    )
    .unwrap();
    let cells = matrix.cells(&RunSpec::default()).unwrap();
    let told: Vec<(&str, &str, bool)> = (cells.iter())
        .map(|cell| (&*cell.name, &*cell.spec.workload, cell.spec.server.resolve_names))
        .collect();
    let expected = [
        ("reference-static-workout-0k-names-on", "workout-0k", true),
        ("reference-static-workout-0k-names-off", "workout-0k", false),
        ("reference-static-b-names-on", "a/b.toml", true),
        ("reference-static-b-names-off", "a/b.toml", false),
        ("reference-cgi-spice-0-names-on", "spice-0", true),
        ("reference-cgi-spice-0-names-off", "spice-0", false),
    ];
    assert_eq!(told, expected);
    assert_eq!(cells[5].at.to_string(), "reference, cgi, spice-0, names off, per-request");
    assert!(cells.iter().all(|cell| cell.spec.name == cell.name));
}

#[test]
fn pages_are_of_the_workloads_that_name_them() {
    let matrix: Matrix = toml::from_str(
        "interfaces = ['static', 'cgi']\nworkloads = ['workout-0k', 'a/b.toml']\ndynamic_workload = 'spice'\n\
         pages = { 'a/b.toml' = 7, spice = 9 }",
    )
    .unwrap();
    let pages = |matrix: &Matrix| -> Vec<Option<u64>> {
        let cells = matrix.cells(&RunSpec::default()).unwrap();
        cells.into_iter().map(|cell| cell.spec.load.pages).collect()
    };
    assert_eq!(pages(&matrix), [None, Some(7), Some(9)]);
    // Others on the command line take the place of some.
    let mut fewer = Matrix { workloads: vec!["workout-0k".to_owned()], ..matrix };
    fewer.drop_unused_pages("workout-0k");
    assert_eq!(pages(&fewer), [None, Some(9)]);
}

#[test]
fn handshakes_are_a_dimension() {
    let matrix: Matrix = toml::from_str("handshakes = ['off', 'full', '25%']\ncpus = [1]").unwrap();
    let cells = matrix.cells(&RunSpec::default()).unwrap();
    let told: Vec<(&str, bool, String)> = (cells.iter())
        .map(|cell| (&*cell.name, cell.spec.server.tls.is_some(), cell.spec.client.tls.resume.to_string()))
        .collect();
    let expected = [
        ("reference-1cpu-tls-off", false, "0%".to_owned()),
        ("reference-1cpu-tls-full", true, "0%".to_owned()),
        ("reference-1cpu-tls-25", true, "25%".to_owned()),
    ];
    assert_eq!(told, expected);
    assert_eq!(cells[2].at.to_string(), "reference, 25% resumed handshakes, per-request, 1 CPU");
}

#[test]
fn paths_and_versions_of_http_are_dimensions() {
    let matrix: Matrix = toml::from_str("paths = ['off', 'rtt=20ms,loss=1%']\nhttp = ['1.1', '3']").unwrap();
    let cells = matrix.cells(&RunSpec::default()).unwrap();
    let told: Vec<(&str, Option<String>, &str, String)> = (cells.iter())
        .map(|cell| {
            let path = cell.spec.server.path.map(|path| path.to_string());
            (&*cell.name, path, cell.spec.client.http.name(), cell.at.to_string())
        })
        .collect();
    let over = || Some("rtt=20ms,loss=1%".to_owned());
    let expected = [
        ("reference-path-off-http1.1", None, "HTTP/1.1", "reference, HTTP/1.1, no path, per-request"),
        ("reference-path-off-http3", None, "HTTP/3", "reference, HTTP/3, no path, per-request"),
        (
            "reference-rtt20ms-loss1-http1.1",
            over(),
            "HTTP/1.1",
            "reference, HTTP/1.1, rtt=20ms,loss=1%, per-request",
        ),
        (
            "reference-rtt20ms-loss1-http3",
            over(),
            "HTTP/3",
            "reference, HTTP/3, rtt=20ms,loss=1%, per-request",
        ),
    ];
    assert_eq!(told, expected.map(|(name, path, http, at)| (name, path, http, at.to_owned())));
}

#[test]
fn contradictions_are_reported() {
    for (matrix, error) in [
        ("servers = ['nginx', 'nginx']", "servers (series.servers): nginx is listed twice"),
        ("caching = ['on', 'on']", "caching (series.caching): on is listed twice"),
        ("cpus = [2, 1, 2]", "cpus (series.cpus): 2 is listed twice"),
        ("cpus = [0]", "cpus (series.cpus): a server cannot run on 0 CPUs"),
        (
            "workloads = ['a.toml', 'spice']\ndynamic_workloads = ['spice-0', 'spice']\npages = { 'b.toml' = 9 }",
            "pages (series.pages): `b.toml` is not a workload of the series; it has a.toml, spice, spice-0",
        ),
        (
            "pages = { transfer-2m = 9 }",
            "pages (series.pages): `transfer-2m` is not a workload of the series; it has standard",
        ),
        (
            "servers = ['nginx:tuned']\nprofiles = ['stock']",
            "nginx:tuned names a profile, and the profiles of every server are listed (series.profiles)",
        ),
    ] {
        assert_eq!(names(matrix).unwrap_err(), error);
    }
    let many = format!("cpus = {:?}", (1..=1001).collect::<Vec<u32>>());
    assert!(names(&many).unwrap_err().contains("1001 cells"));
}
