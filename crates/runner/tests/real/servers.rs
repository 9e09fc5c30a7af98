//! nginx, Apache httpd and lighttpd under our load.

use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use webstone_engine::{Control, LevelJob, Plan, run_level};
use webstone_lab::fileset::{FilesetOptions, generate};
use webstone_measure::identities::{Expectation, check};
use webstone_measure::units::Nanos;
use webstone_model::spec::{Check, ClientSpec, ConnectionPolicy, HttpVersion, RunSpec};
use webstone_runner::checkfiles::check_files;
use webstone_workload::Workload;
use webstone_workload::builtin;

use crate::program::{Running, find, free_port, write};

/// Fetches pages of several workloads from a server under every policy, each answer checked to the byte.
fn serves_the_filesets(running: &Running, workloads: &[Workload]) {
    let url = format!("http://127.0.0.1:{}", running.port);
    for workload in workloads {
        let report = check_files(&url.parse().unwrap(), workload, &ClientSpec::default());
        assert!(report.problems.is_empty(), "{}: {:?}", workload.name, report.problems);
        for (policy, http) in [
            (ConnectionPolicy::PerRequest, HttpVersion::Http10),
            (ConnectionPolicy::PerRequest, HttpVersion::Http11),
            (ConnectionPolicy::PerPage, HttpVersion::Http11),
            (ConnectionPolicy::KeepAlive, HttpVersion::Http11),
        ] {
            let mut spec = RunSpec { target: vec![url.clone()], ..RunSpec::default() };
            spec.load.duration = Nanos::from_secs(60);
            spec.load.pages = Some(400);
            spec.load.warmup = Nanos::ZERO;
            spec.client.connections = policy;
            spec.client.http = http;
            spec.client.check = Check::Content;
            spec.generator.workers = 1;
            spec.generator.pin = false;
            let plan = Arc::new(Plan::compile(&spec.task(), workload).unwrap());
            let job = LevelJob::new(plan, 8);
            let measured = run_level(&job, &Control::new()).unwrap().measured;
            let context = format!("{} {policy:?} {http:?}", workload.name);
            assert_eq!(measured.errors.total(), 0, "{context}: {:?}", measured.errors);
            assert_eq!(measured.counts.pages_completed, 400, "{context}");
            let due: u64 = measured
                .pages
                .iter()
                .zip(&workload.pages)
                .map(|(totals, page)| {
                    totals.hits * page.files.iter().map(|file| file.size.unwrap()).sum::<u64>()
                })
                .sum();
            assert_eq!(measured.counts.body_bytes, due, "{context}");
            let expected = Expectation { clients: 8, one_request_each: false, server_bytes: None };
            check(&measured, &expected)
                .iter()
                .for_each(|identity| assert!(identity.holds, "{context}: {identity:?}"));
        }
    }
}

/// The filesets of two built-in workloads in a folder that a server run as another user can read.
fn filesets(folder: &Path) -> Vec<Workload> {
    let workloads = ["standard", "silicon-surf"].map(|name| builtin(name).unwrap());
    for workload in &workloads {
        generate(workload, &folder.join("root"), &FilesetOptions::default()).unwrap();
    }
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(folder, mode).unwrap();
    workloads.to_vec()
}

#[test]
fn nginx_serves_the_filesets_without_an_error() {
    let Some(nginx) = find("nginx", "nginx-light") else { return };
    let folder = tempfile::tempdir().unwrap();
    let workloads = filesets(folder.path());
    let (port, at) = (free_port(), folder.path().display());
    let user = if rustix::process::geteuid().is_root() { "user root;" } else { "" };
    let configuration = format!(
        "daemon off; {user} worker_processes 1; error_log {at}/error.log; pid {at}/nginx.pid;
         events {{ worker_connections 1024; }}
         http {{ access_log {at}/access.log; client_body_temp_path {at}/b; proxy_temp_path {at}/p;
                 fastcgi_temp_path {at}/f; uwsgi_temp_path {at}/u; scgi_temp_path {at}/s;
                 server {{ listen 127.0.0.1:{port}; root {at}/root; }} }}"
    );
    let file = write(folder.path(), "nginx.conf", &configuration);
    let mut command = Command::new(nginx);
    command.arg("-c").arg(&file).arg("-e").arg(folder.path().join("early.log"));
    serves_the_filesets(&Running::start(command, port), &workloads);
}

#[test]
fn apache_serves_the_filesets_without_an_error() {
    let Some(apache) = find("apache2", "apache2") else { return };
    let folder = tempfile::tempdir().unwrap();
    let workloads = filesets(folder.path());
    let (port, at) = (free_port(), folder.path().display());
    let user = if rustix::process::geteuid().is_root() { "User www-data\nGroup www-data" } else { "" };
    let configuration = format!(
        "ServerRoot {at}\nServerName localhost\nListen 127.0.0.1:{port}\nPidFile {at}/apache.pid\nErrorLog {at}/error.log
         LoadModule mpm_event_module /usr/lib/apache2/modules/mod_mpm_event.so
         LoadModule authz_core_module /usr/lib/apache2/modules/mod_authz_core.so
         {user}\nDocumentRoot {at}/root\n<Directory {at}/root>\nRequire all granted\n</Directory>\nMaxKeepAliveRequests 0"
    );
    let file = write(folder.path(), "apache.conf", &configuration);
    let mut command = Command::new(apache);
    command.arg("-DFOREGROUND").arg("-f").arg(&file);
    serves_the_filesets(&Running::start(command, port), &workloads);
}

#[test]
fn lighttpd_serves_the_filesets_without_an_error() {
    let Some(lighttpd) = find("lighttpd", "lighttpd") else { return };
    let folder = tempfile::tempdir().unwrap();
    let workloads = filesets(folder.path());
    let (port, at) = (free_port(), folder.path().display());
    let configuration = format!(
        "server.document-root = \"{at}/root\"\nserver.port = {port}\nserver.bind = \"127.0.0.1\"
         server.errorlog = \"{at}/error.log\"\nmimetype.assign = ( \".html\" => \"text/html\" )"
    );
    let file = write(folder.path(), "lighttpd.conf", &configuration);
    let mut command = Command::new(lighttpd);
    command.arg("-D").arg("-f").arg(&file);
    serves_the_filesets(&Running::start(command, port), &workloads);
}
