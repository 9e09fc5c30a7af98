//! Which values of a specification are paths of files that it reads. In a testbed file they are relative to its directory; files that
//! are written go below the working directory, as records do.

use std::path::Path;

use crate::spec::RunSpec;
use webstone_workload::builtin;

/// Every file that a specification reads, with its key. Names of built-in workloads, and programs that are found by `PATH`, are not
/// files.
pub fn files(spec: &mut RunSpec) -> Vec<(&'static str, &mut String)> {
    let mut found: Vec<(&'static str, &mut String)> = Vec::new();
    let RunSpec { workload, server_config, client, server, series, generators, .. } = spec;
    let is_file = |name: &&mut String| builtin(name).is_none();
    found.extend(Some(workload).filter(is_file).map(|it| ("workload", it)));
    found.extend(server_config.iter_mut().map(|it| ("server_config", it)));
    found.extend(client.unix_socket.iter_mut().map(|it| ("client.unix_socket", it)));
    let tls = &mut client.tls;
    found.extend(tls.cacert.iter_mut().map(|it| ("client.tls.cacert", it)));
    found.extend(tls.cert.iter_mut().map(|it| ("client.tls.cert", it)));
    found.extend(tls.key.iter_mut().map(|it| ("client.tls.key", it)));
    let jobs = generators.iter_mut().filter_map(|host| host.kubernetes.as_mut());
    let configurations = jobs.filter_map(|job| job.kubeconfig.as_mut());
    found.extend(configurations.map(|it| ("generators.kubernetes.kubeconfig", it)));
    let is_path = |name: &&mut String| name.contains('/');
    found.extend(server.program.iter_mut().filter(is_path).map(|it| ("server.program", it)));
    found.extend(server.root.iter_mut().map(|it| ("server.root", it)));
    if let Some(tls) = &mut server.tls {
        found.extend(tls.cert.iter_mut().map(|it| ("server.tls.cert", it)));
        found.extend(tls.key.iter_mut().map(|it| ("server.tls.key", it)));
    }
    if let Some(matrix) = series {
        let builds = &mut matrix.builds;
        found.extend(
            builds
                .iter_mut()
                .filter(|it| it.contains('/') && !it.contains(' '))
                .map(|it| ("series.builds", it)),
        );
        found.extend(matrix.workloads.iter_mut().filter(is_file).map(|it| ("series.workloads", it)));
        let dynamic = matrix.dynamic_workloads.iter_mut().filter(is_file);
        found.extend(dynamic.map(|it| ("series.dynamic_workloads", it)));
        found.extend(
            matrix.dynamic_workload.iter_mut().filter(is_file).map(|it| ("series.dynamic_workload", it)),
        );
    }
    found
}

/// Makes relative paths of files, which are relative to this directory, relative to the working directory. Workloads are also keys of
/// `series.pages`.
pub fn below(spec: &mut RunSpec, directory: &Path) {
    let move_below = |path: &mut String| {
        if !path.is_empty() && !path.starts_with('@') {
            *path = directory.join(&*path).to_string_lossy().into_owned();
        }
    };
    for (_, path) in files(spec) {
        move_below(path);
    }
    if let Some(matrix) = &mut spec.series {
        let moved = |(mut workload, pages): (String, u64)| {
            if builtin(&workload).is_none() {
                move_below(&mut workload);
            }
            (workload, pages)
        };
        matrix.pages = std::mem::take(&mut matrix.pages).into_iter().map(moved).collect();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_relative_to_the_directory_and_names_and_written_files_are_not() {
        let text = "workload = 'standard'\nserver_config = ['etc/nginx.conf', '/etc/hosts']\n\
                    [client.tls]\ncacert = '../ca.pem'\nkey_log = 'keys'\n\
                    [server]\nprogram = 'nginx'\naccess_log = 'log'\nroot = 'www'\n\
                    [series]\nworkloads = ['standard', './standard', 'spice-7', 'mine.toml']\nbuilds = ['nginx', 'old/nginx']\n\
                    pages = { standard = 5, './standard' = 6, 'mine.toml' = 7 }\n";
        let mut spec: RunSpec = toml::from_str(text).unwrap();
        below(&mut spec, Path::new("beds"));
        let found: Vec<(&str, String)> =
            files(&mut spec).into_iter().map(|(key, it)| (key, it.clone())).collect();
        let expected = [
            ("server_config", "beds/etc/nginx.conf"),
            ("server_config", "/etc/hosts"),
            ("client.tls.cacert", "beds/../ca.pem"),
            ("server.root", "beds/www"),
            ("series.builds", "beds/old/nginx"),
            ("series.workloads", "beds/./standard"),
            ("series.workloads", "beds/mine.toml"),
        ];
        assert_eq!(found, expected.map(|(key, path)| (key, path.to_owned())));
        let pages: Vec<(String, u64)> = spec.series.clone().unwrap().pages.into_iter().collect();
        let expected = [("beds/./standard", 6), ("beds/mine.toml", 7), ("standard", 5)];
        assert_eq!(pages, expected.map(|(key, pages)| (key.to_owned(), pages)));
        assert_eq!(spec.server.program.as_deref(), Some("nginx"));
        assert_eq!(
            (spec.client.tls.key_log.as_deref(), spec.server.access_log.as_deref()),
            (Some("keys"), Some("log"))
        );
    }
}
