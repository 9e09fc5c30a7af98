//! The programs that tests run against: real web servers, other load generators, and valgrind; and cargo's tools.
//!
//! As root on a Debian-like system the missing ones are installed; elsewhere they are named, and the tests that need
//! them skip themselves and say so. Debian starts a web server as a service when it is installed, on port 80 of every
//! address; that is prevented, and undone where it happened anyway.

use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::steps::{Outcome, failure, target_directory};
use crate::tree::root;

/// Programs that tests start (or, by the whole path, files that they need), each with its Debian package.
type Needed = [(&'static str, &'static str)];

const NEEDED: [(&str, &str); 27] = [
    ("nginx", "nginx-light"),
    ("apache2", "apache2"),
    ("lighttpd", "lighttpd"),
    ("/usr/lib/lighttpd/mod_openssl.so", "lighttpd-mod-openssl"),
    ("nghttpd", "nghttp2-server"),
    ("openssl", "openssl"),
    ("haproxy", "haproxy"),
    ("caddy", "caddy"),
    ("wrk", "wrk"),
    ("ab", "apache2-utils"),
    ("h2load", "nghttp2-client"),
    ("curl", "curl"),
    ("busybox", "busybox"),
    ("python3", "python3"),
    ("promtool", "prometheus"),
    ("/usr/lib/python3/dist-packages/openpyxl/__init__.py", "python3-openpyxl"),
    ("/usr/lib/python3/dist-packages/h2/__init__.py", "python3-h2"),
    ("fcgiwrap", "fcgiwrap"),
    ("php-fpm8.2", "php8.2-fpm"),
    ("/usr/lib/nginx/modules/ngx_http_lua_module.so", "libnginx-mod-http-lua"),
    ("/usr/lib/nginx/modules/ngx_http_js_module.so", "libnginx-mod-http-js"),
    ("apxs", "apache2-dev"),
    ("uvicorn", "uvicorn"),
    ("node", "nodejs"),
    ("chromium", "chromium"),
    ("valgrind", "valgrind"),
    ("pip3", "python3-pip"),
];

/// What a Kubernetes cluster on this machine needs, besides what is built for it.
const NEEDED_BY_CLUSTER: [(&str, &str); 8] = [
    ("containerd", "containerd"),
    ("runc", "runc"),
    ("etcd", "etcd-server"),
    ("/usr/lib/cni/bridge", "containernetworking-plugins"),
    ("ip", "iproute2"),
    ("openssl", "openssl"),
    ("python3", "python3"),
    ("musl-gcc", "musl-tools"),
];
/// What packages are made and tried with.
const NEEDED_FOR_RELEASE: [(&str, &str); 6] = [
    ("pip3", "python3-pip"),
    ("ssh-keygen", "openssh-client"),
    ("debootstrap", "debootstrap"),
    ("ip", "iproute2"),
    ("qemu-aarch64", "qemu-user"),
    ("qemu-x86_64", "qemu-user"),
];
/// Services that these packages start, and their files of process ids.
const SERVICES: [(&str, &str); 7] = [
    ("nginx", "/run/nginx.pid"),
    ("apache2", "/run/apache2/apache2.pid"),
    ("lighttpd", "/run/lighttpd.pid"),
    ("haproxy", "/run/haproxy.pid"),
    ("prometheus", "/run/prometheus/prometheus.pid"),
    ("fcgiwrap", "/run/fcgiwrap.pid"),
    ("php8.2-fpm", "/run/php/php8.2-fpm.pid"),
];
/// Subcommands of cargo, in `xtask/tools.txt`.
const TOOLS: [&str; 2] = ["cargo-nextest", "cargo-deny"];
/// Packages of npm with the file that is used of each.
const MODULES: [(&str, &str); 3] = [
    ("axe-core@4.14.1", "axe-core/axe.min.js"),
    ("typescript@5.9.3", "typescript/bin/tsc"),
    ("@biomejs/biome@2.6.8", "@biomejs/biome/bin/biome"),
];

/// Where servers of HTTP/3 are unpacked, and their programs there.
const HTTP3: &str = "/opt/webstone-http3";
const HTTP3_PROGRAMS: [&str; 2] = ["usr/sbin/nginx", "envoy/envoy/_bin/envoy"];

/// Where servers are installed that are not on every user's path.
const SYSTEM_PATHS: [&str; 3] = ["/usr/sbin", "/usr/local/sbin", "/sbin"];
/// Debian's hook that is asked before a service is started; exit code 101 forbids it.
const POLICY: &str = "/usr/sbin/policy-rc.d";

/// Installs what is missing where that is possible, and says what is still missing.
pub fn ensure(install: bool) {
    provide(install, &NEEDED);
}

/// The same for one program.
pub fn ensure_one(program: &str) {
    let needed: Vec<_> = NEEDED.into_iter().filter(|(name, _)| *name == program).collect();
    provide(true, &needed);
}

/// The same for what a Kubernetes cluster on this machine needs. Returns the programs that are still missing.
pub fn ensure_cluster() -> Vec<&'static str> {
    provide(true, &NEEDED_BY_CLUSTER)
}

/// The same for what packages are made and tried with.
pub fn ensure_for_release() -> Vec<&'static str> {
    provide(true, &NEEDED_FOR_RELEASE)
}

/// Installs what the browser front's scripts are checked and formatted with and Debian does not have, below `target/`. Without them
/// the tests that need them skip themselves. Returns the folder of the modules, if all are there.
pub fn ensure_modules(install: bool) -> Option<PathBuf> {
    let directory = root().join("target/axe");
    let modules = directory.join("node_modules");
    let are_there = || MODULES.iter().all(|(_, file)| modules.join(file).is_file());
    if !are_there() && install {
        let mut command = Command::new("npm");
        command.args("install --silent --no-audit --no-fund --no-save --ignore-scripts --prefix".split(' '));
        command.arg(&directory);
        if find("npm").is_none() || !run_persistently(command.args(MODULES.map(|(package, _)| package))) {
            println!(
                "missing: modules of npm; the front's accessibility, types and format will not be checked"
            );
            println!("hint: as root, apt-get install npm");
        }
    }
    are_there().then_some(modules)
}

/// Unpacks servers of HTTP/3 that Debian does not have yet: see `xtask/http3.sh`. Once on a machine, because it takes a quarter of a
/// minute. Without them the tests that need them skip themselves.
pub fn ensure_http3(install: bool) {
    let place = Path::new(HTTP3);
    let are_there = || HTTP3_PROGRAMS.iter().all(|file| place.join(file).is_file());
    if are_there() || !install {
        return;
    }
    let mut command = Command::new("sh");
    command.arg(root().join("xtask/http3.sh")).arg(place);
    if !is_root() || !run_persistently(&mut command) || !are_there() {
        println!(
            "missing: {} below {HTTP3}; HTTP/3 of nginx and Envoy will not be tested",
            HTTP3_PROGRAMS.join(", ")
        );
        println!("hint: as root on Debian, sh xtask/http3.sh {HTTP3}");
    }
}

/// Installs cargo-nextest and cargo-deny below `target/` where they are not installed.
///
/// # Errors
/// One of them is missing and cannot be installed.
pub fn ensure_tools(install: bool) -> Outcome {
    let missing = TOOLS.iter().find(|tool| find(tool).is_none() && !tools().join(tool).is_file());
    let Some(missing) = missing else { return Ok(()) };
    ensure_one("pip3");
    let mut command = Command::new("pip3");
    command.args("install --quiet --no-deps --require-hashes --root-user-action=ignore".split(' '));
    command.args(["--upgrade", "--target"]).arg(target_directory().join("tools"));
    if install && run_persistently(command.arg("--requirement").arg(root().join("xtask/tools.txt"))) {
        return Ok(());
    }
    Err(failure(format!("{missing} is missing"), format!("cargo install --locked {missing}")))
}

/// `PATH` with the tools that [`ensure_tools`] installs.
pub fn tools_path() -> Option<OsString> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::join_paths(std::env::split_paths(&path).chain([tools()])).ok()
}

fn tools() -> PathBuf {
    target_directory().join("tools/bin")
}

/// Installs what is missing of these where that is possible. Returns the programs that are still missing.
fn provide(install: bool, needed: &Needed) -> Vec<&'static str> {
    let missing = |needed: &Needed| -> Vec<(&'static str, &'static str)> {
        needed.iter().copied().filter(|(program, _)| find(program).is_none()).collect()
    };
    let before = missing(needed);
    let packages: Vec<&str> = before.iter().map(|(_, package)| *package).collect();
    if !before.is_empty() && install && is_root() && find("apt-get").is_some() {
        println!("installing {}", packages.join(" "));
        apt_install(&packages);
    }
    let names: Vec<&str> = missing(&before).iter().map(|(program, _)| *program).collect();
    if !names.is_empty() {
        println!("missing: {}; what needs them will be skipped", names.join(", "));
        println!("hint: as root, apt-get install {}", packages.join(" "));
    }
    names
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

fn apt_install(packages: &[&str]) {
    let policy = Policy::forbid_services();
    let running_before = running_services();
    if !apt(&["update"]) {
        println!("apt-get update failed; trying with the lists that are there");
    }
    if !apt(&[&["install", "--yes", "--no-install-recommends"], packages].concat()) {
        println!("apt-get install failed");
    }
    drop(policy);
    for service in running_services().into_iter().filter(|service| !running_before.contains(service)) {
        println!("stopping the service {service}, which its package started");
        run_quietly(Command::new("service").args([service, "stop"]));
    }
}

fn apt(arguments: &[&str]) -> bool {
    let mut command = Command::new("apt-get");
    command.args(["--quiet=2", "--option", "DPkg::Lock::Timeout=300", "--option", "Dpkg::Use-Pty=0"]);
    run_persistently(command.args(arguments).env("DEBIAN_FRONTEND", "noninteractive"))
}

/// Runs it until it succeeds, three times at most: a download may break off.
fn run_persistently(command: &mut Command) -> bool {
    (0..3).any(|attempt| {
        std::thread::sleep(Duration::from_secs(5 * attempt));
        run_quietly(command)
    })
}

fn run_quietly(command: &mut Command) -> bool {
    command.stdin(Stdio::null()).status().is_ok_and(|status| status.success())
}

/// Services whose process of record is alive.
fn running_services() -> Vec<&'static str> {
    let alive = |file: &str| {
        let id = fs::read_to_string(file).unwrap_or_default();
        !id.trim().is_empty() && Path::new("/proc").join(id.trim()).exists()
    };
    SERVICES.iter().filter(|(_, file)| alive(file)).map(|(name, _)| *name).collect()
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
}
