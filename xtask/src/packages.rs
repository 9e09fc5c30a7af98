//! The programs that tests run against: real web servers, other load generators, and valgrind.
//!
//! As root on a Debian-like system the missing ones are installed; elsewhere they are named, and the tests that need
//! them skip themselves and say so. Installing a web server starts it as a service there, on port 80 and on every
//! address; that is prevented, and undone where it happened all the same.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// A program that tests start (or, by its whole path, a file that they need), the Debian package that has it, and, of a service, its name and file of process id.
struct Needed {
    program: &'static str,
    package: &'static str,
    service: Option<(&'static str, &'static str)>,
}

const NEEDED: [Needed; 26] = [
    Needed { program: "nginx", package: "nginx-light", service: Some(("nginx", "/run/nginx.pid")) },
    Needed { program: "apache2", package: "apache2", service: Some(("apache2", "/run/apache2/apache2.pid")) },
    Needed { program: "lighttpd", package: "lighttpd", service: Some(("lighttpd", "/run/lighttpd.pid")) },
    Needed { program: "/usr/lib/lighttpd/mod_openssl.so", package: "lighttpd-mod-openssl", service: None },
    Needed { program: "nghttpd", package: "nghttp2-server", service: None },
    Needed { program: "openssl", package: "openssl", service: None },
    Needed { program: "haproxy", package: "haproxy", service: Some(("haproxy", "/run/haproxy.pid")) },
    Needed { program: "caddy", package: "caddy", service: None },
    Needed { program: "wrk", package: "wrk", service: None },
    Needed { program: "ab", package: "apache2-utils", service: None },
    Needed { program: "h2load", package: "nghttp2-client", service: None },
    Needed { program: "curl", package: "curl", service: None },
    Needed { program: "busybox", package: "busybox", service: None },
    Needed { program: "python3", package: "python3", service: None },
    Needed {
        program: "promtool",
        package: "prometheus",
        service: Some(("prometheus", "/run/prometheus/prometheus.pid")),
    },
    Needed {
        program: "/usr/lib/python3/dist-packages/openpyxl/__init__.py",
        package: "python3-openpyxl",
        service: None,
    },
    Needed { program: "/usr/lib/python3/dist-packages/h2/__init__.py", package: "python3-h2", service: None },
    Needed { program: "fcgiwrap", package: "fcgiwrap", service: Some(("fcgiwrap", "/run/fcgiwrap.pid")) },
    Needed {
        program: "php-fpm8.2",
        package: "php8.2-fpm",
        service: Some(("php8.2-fpm", "/run/php/php8.2-fpm.pid")),
    },
    Needed {
        program: "/usr/lib/nginx/modules/ngx_http_lua_module.so",
        package: "libnginx-mod-http-lua",
        service: None,
    },
    Needed {
        program: "/usr/lib/nginx/modules/ngx_http_js_module.so",
        package: "libnginx-mod-http-js",
        service: None,
    },
    Needed { program: "apxs", package: "apache2-dev", service: None },
    Needed { program: "uvicorn", package: "uvicorn", service: None },
    Needed { program: "node", package: "nodejs", service: None },
    Needed { program: "chromium", package: "chromium", service: None },
    Needed { program: "valgrind", package: "valgrind", service: None },
];

/// What a Kubernetes cluster on this machine needs, besides what is built for it.
const NEEDED_BY_CLUSTER: [Needed; 8] = [
    Needed { program: "containerd", package: "containerd", service: None },
    Needed { program: "runc", package: "runc", service: None },
    Needed { program: "etcd", package: "etcd-server", service: None },
    Needed { program: "/usr/lib/cni/bridge", package: "containernetworking-plugins", service: None },
    Needed { program: "ip", package: "iproute2", service: None },
    Needed { program: "openssl", package: "openssl", service: None },
    Needed { program: "python3", package: "python3", service: None },
    Needed { program: "musl-gcc", package: "musl-tools", service: None },
];
/// Packages of npm with a file that tests use.
const MODULES: [(&str, &str); 2] =
    [("axe-core@4", "axe-core/axe.min.js"), ("typescript@5", "typescript/bin/tsc")];

/// Where servers are installed that are not on every user's path.
const SYSTEM_PATHS: [&str; 3] = ["/usr/sbin", "/usr/local/sbin", "/sbin"];
/// Debian's hook that is asked before a service is started; exit code 101 forbids it.
const POLICY: &str = "/usr/sbin/policy-rc.d";

/// Installs what is missing where that is possible, and says what is still missing.
pub fn ensure(install: bool) {
    provide(install, &missing(&NEEDED, &|_| true));
}

/// The same for what a Kubernetes cluster on this machine needs. Returns the programs that are still missing.
pub fn ensure_cluster() -> Vec<&'static str> {
    provide(true, &missing(&NEEDED_BY_CLUSTER, &|_| true));
    missing(&NEEDED_BY_CLUSTER, &|_| true).iter().map(|needed| needed.program).collect()
}

/// Installs what the browser front is tested with and Debian has not: an accessibility checker and a checker of types, below
/// `target/`. Their tests skip themselves where this cannot be.
pub fn ensure_modules(install: bool, root: &Path) {
    let directory = root.join("target/axe");
    let is_there = MODULES.iter().all(|(_, file)| directory.join("node_modules").join(file).is_file());
    if is_there || !install {
        return;
    }
    if find("npm").is_none() {
        println!("missing: npm; the browser front's accessibility and types will not be checked");
        println!("hint: as root, apt-get install npm");
        return;
    }
    let mut command = Command::new("npm");
    command
        .args(["install", "--silent", "--no-audit", "--no-fund", "--no-save", "--ignore-scripts", "--prefix"])
        .arg(&directory);
    if !run_quietly(command.args(MODULES.map(|(package, _)| package))) {
        println!("npm install failed; the browser front's accessibility and types will not be checked");
    }
}

/// The same for one program.
pub fn ensure_one(program: &str) {
    provide(true, &missing(&NEEDED, &|needed| needed.program == program));
}

fn provide(install: bool, missing: &[&Needed]) {
    if missing.is_empty() {
        return;
    }
    let packages: Vec<&str> = missing.iter().map(|needed| needed.package).collect();
    if install && is_root() && find("apt-get").is_some() {
        println!("installing {}", packages.join(" "));
        apt_install(&packages, missing);
    }
    let still = missing.iter().filter(|needed| find(needed.program).is_none());
    let names: Vec<&str> = still.map(|needed| needed.program).collect();
    if !names.is_empty() {
        println!("missing: {}; what needs them will be skipped", names.join(", "));
        println!("hint: as root, apt-get install {}", packages.join(" "));
    }
}

fn missing(all: &'static [Needed], wanted: &dyn Fn(&Needed) -> bool) -> Vec<&'static Needed> {
    all.iter().filter(|needed| wanted(needed) && find(needed.program).is_none()).collect()
}

/// Path of a program.
pub fn find(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::env::split_paths(&path).chain(SYSTEM_PATHS.iter().map(PathBuf::from));
    folders.map(|folder| folder.join(program)).find(|file| file.is_file())
}

/// Whether this is the administrator.
pub fn is_root() -> bool {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ids = status.lines().find_map(|line| line.strip_prefix("Uid:"));
    ids.and_then(|ids| ids.split_whitespace().nth(1)) == Some("0")
}

fn apt_install(packages: &[&str], missing: &[&Needed]) {
    let policy = Policy::forbid_services();
    let running_before: Vec<&str> = running_services(missing);
    if !apt(&["update"]) {
        println!("apt-get update failed; trying with the lists that are there");
    }
    let mut arguments = vec!["install", "--yes", "--no-install-recommends"];
    arguments.extend(packages);
    if !apt(&arguments) {
        println!("apt-get install failed");
    }
    drop(policy);
    for service in running_services(missing) {
        if !running_before.contains(&service) {
            println!("stopping the service {service}, which its package started");
            run_quietly(Command::new("service").args([service, "stop"]));
        }
    }
}

fn apt(arguments: &[&str]) -> bool {
    let mut command = Command::new("apt-get");
    command.args(["--quiet=2", "--option", "DPkg::Lock::Timeout=300", "--option", "Dpkg::Use-Pty=0"]);
    run_quietly(command.args(arguments).env("DEBIAN_FRONTEND", "noninteractive"))
}

fn run_quietly(command: &mut Command) -> bool {
    command.stdin(Stdio::null()).status().is_ok_and(|status| status.success())
}

/// Services of these packages whose process of record is alive.
fn running_services(needed: &[&Needed]) -> Vec<&'static str> {
    let alive = |file: &str| {
        let id = fs::read_to_string(file).unwrap_or_default();
        let id = id.trim();
        !id.is_empty() && Path::new("/proc").join(id).exists()
    };
    needed.iter().filter_map(|n| n.service).filter(|(_, file)| alive(file)).map(|(name, _)| name).collect()
}

/// While it lives, packages do not start their services. A policy that the system already has is left alone.
struct Policy {
    ours: bool,
}

impl Policy {
    fn forbid_services() -> Policy {
        let policy = Path::new(POLICY);
        let ours = !policy.exists()
            && fs::write(policy, "#!/bin/sh\nexit 101\n").is_ok()
            && fs::set_permissions(policy, fs::Permissions::from_mode(0o755)).is_ok();
        Policy { ours }
    }
}

impl Drop for Policy {
    fn drop(&mut self) {
        if self.ours
            && let Err(error) = fs::remove_file(POLICY)
        {
            println!("cannot remove {POLICY}: {error}");
            println!("hint: remove it, or services will not start when they are installed");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_are_found_where_they_are() {
        assert!(find("sh").is_some());
        assert!(find("no-such-program-as-this").is_none());
    }

    #[test]
    fn a_service_without_a_process_does_not_run() {
        let gone = Needed { program: "x", package: "x", service: Some(("x", "/nonexistent.pid")) };
        assert_eq!(running_services(&[&gone]), Vec::<&str>::new());
    }
}
