//! The load generators: where they are, and how each is told what to do. What they answer is read in `readings`.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use crate::arguments::Arguments;
use crate::children::Cpus;
use crate::modes::{Case, Mode, PACE, WRK_STANDARD};
use crate::nginx;

/// A load generator that this program can drive.
#[derive(Clone, Copy, Debug)]
pub struct Known {
    /// Its name, or the name of a variant of webstone.
    pub name: &'static str,
    /// Arguments that print its version; empty if it prints none.
    version: &'static [&'static str],
    /// How it is installed.
    install: &'static str,
}

/// Every tool, webstone first.
pub const KNOWN: [Known; 17] = [
    ours("webstone"),
    // Ends connections with a reset.
    ours("webstone-reset"),
    // Checks the length of each body.
    ours("webstone-size"),
    // Reads each body and checks its content.
    ours("webstone-content"),
    // Built without statistics: what measuring costs.
    ours("webstone-bare"),
    // Of another commit: what a change buys.
    ours("webstone-before"),
    // Stays awake until the next request of a schedule.
    ours("webstone-spin"),
    // Does not verify the server's certificate, as oha does not: neither its chain nor its signature.
    ours("webstone-insecure"),
    // One send and one receive per request, and nothing else: the least that these system calls allow.
    floor("floor"),
    // The same with connections that end with a reset, and with large bodies that are received.
    floor("floor-reset"),
    floor("floor-content"),
    Known { name: "wrk", version: &["-v"], install: "apt-get install wrk" },
    Known { name: "ab", version: &["-V"], install: "apt-get install apache2-utils" },
    Known { name: "h2load", version: &["--version"], install: "apt-get install nghttp2-client" },
    Known { name: "oha", version: &["--version"], install: "cargo install oha --features http3" },
    Known { name: "hey", version: &[], install: "go install github.com/rakyll/hey@latest" },
    Known {
        name: "k6",
        version: &["version"],
        install: "https://grafana.com/docs/k6/latest/set-up/install-k6/",
    },
];

const fn ours(name: &'static str) -> Known {
    Known { name, version: &["--version"], install: "cargo build --profile dist" }
}

const fn floor(name: &'static str) -> Known {
    Known { name, version: &[], install: "cargo build --release -p webstone-benchsuite" }
}

/// Programs of this tree.
#[derive(Clone, Debug)]
pub struct Built {
    /// The program to measure.
    pub webstone: PathBuf,
    /// The same, built without statistics.
    pub baseline: Option<PathBuf>,
    /// The same, of another commit.
    pub before: Option<PathBuf>,
    /// The least client.
    pub floor: Option<PathBuf>,
}

/// What ten thousand handshakes take at most, in seconds.
const HANDSHAKES_S: u64 = 5;
/// webstone's exit code for a result that it calls invalid.
const INVALID: i32 = 4;

/// One load generator that is installed.
#[derive(Clone, Debug)]
pub struct Tool {
    /// Its name, or the name of a variant of it.
    pub name: &'static str,
    /// What it says its version is.
    pub version: String,
    program: PathBuf,
    /// Whether it was built with HTTP/3.
    speaks_http3: bool,
}

/// What a command line needs to know besides the case.
#[derive(Clone, Copy, Debug)]
pub struct Target<'a> {
    /// `http://127.0.0.1:PORT`.
    pub base_url: &'a str,
    /// Directory for files of the tools' own, such as scripts.
    pub folder: &'a Path,
    /// CPUs.
    pub cpus: &'a Cpus,
}

impl Tool {
    /// Those that are installed, or those of `arguments.tools`, in the order of [`KNOWN`]. Says which are left out.
    ///
    /// # Errors
    /// If one that is asked for is unknown or missing.
    pub fn installed(built: &Built, arguments: &Arguments) -> Result<Vec<Tool>, String> {
        let wanted = &arguments.tools;
        if let Some(unknown) = wanted.iter().find(|name| !KNOWN.iter().any(|known| known.name == **name)) {
            let known = KNOWN.map(|known| known.name).join(", ");
            return Err(format!("--tools: `{unknown}` is none of {known}"));
        }
        let mut tools = Vec::new();
        for Known { name, version, install } in KNOWN {
            let named = wanted.iter().any(|wanted| wanted == name);
            if !wanted.is_empty() && !named {
                continue;
            }
            let program = match name {
                "webstone-bare" => built.baseline.clone(),
                "webstone-before" => built.before.clone(),
                _ if name.starts_with("floor") => built.floor.clone(),
                _ if name.starts_with("webstone") => Some(built.webstone.clone()),
                _ => find(name),
            };
            let hint = match name {
                "webstone-bare" => "--baseline-webstone build",
                "webstone-before" => "--webstone-before PATH",
                _ => install,
            };
            match program {
                Some(program) => tools.push(Tool {
                    name,
                    version: version_of(&program, version),
                    speaks_http3: speaks_http3(name, &program),
                    program,
                }),
                None if named => return Err(format!("--tools: {name} is not there\nhint: {hint}")),
                None => eprintln!("skipped: {name} is not there\nhint: {hint}"),
            }
        }
        Ok(tools)
    }

    /// Whether it can run a case; a variant only where it differs from webstone.
    pub fn can(&self, case: Case) -> bool {
        use Mode::{
            H3Full, HttpsFull, HttpsResumed, KeepAlive, Large, Pacing, PerRequest, Scale, Standard, Workers,
        };
        let is_new = case.mode.is_secure() || case.mode.is_http2();
        match self.name {
            "webstone-insecure" => matches!(case.mode, HttpsFull | H3Full),
            _ if case.mode.is_http3() && !self.speaks_http3 => false,
            // oha keeps its connections in HTTP/3, whatever it is told.
            "h2load" | "oha" if case.mode.is_http3() => case.mode.keeps_alive(),
            _ if case.mode.is_http3() => true,
            // It resumes no session.
            "ab" if is_new => !case.mode.is_http2() && case.mode != HttpsResumed,
            "wrk" if is_new => !case.mode.is_http2(),
            "h2load" if is_new => case.mode.keeps_alive(),
            "oha" if is_new => true,
            "webstone" | "webstone-before" | "floor" if is_new => true,
            _ if is_new => false,
            "webstone" | "webstone-before" => true,
            "webstone-reset" => case.mode == PerRequest,
            "webstone-size" | "webstone-content" => case.mode == Large,
            "webstone-bare" => matches!(case.mode, KeepAlive | PerRequest | Large),
            "webstone-spin" => case.mode == Pacing,
            "floor" => matches!(case.mode, KeepAlive | Scale | PerRequest),
            "floor-reset" => case.mode == PerRequest,
            "floor-content" => case.mode == Large,
            "wrk" => case.mode != Pacing,
            "h2load" => matches!(case.mode, KeepAlive | Large | Scale | Workers),
            "ab" | "oha" | "hey" => !matches!(case.mode, Standard | Workers | Pacing),
            // Ten thousand virtual users need gigabytes.
            _ => matches!(case.mode, KeepAlive | PerRequest | Large),
        }
    }

    /// How long after its measured time it waits at most, without doing anything, before it ends: oha leaves connections of HTTP/3
    /// open until their idle timeout, and says that they lasted so long.
    pub fn lingers(&self, case: Case) -> Duration {
        if self.name == "oha" && case.mode.is_http3() { Duration::from_secs(30) } else { Duration::ZERO }
    }

    /// Whether it has measured something, by its exit code.
    pub fn has_measured(&self, code: Option<i32>) -> bool {
        match self.name {
            // Without statistics its identities fail, and it rightly reports that.
            "webstone-bare" => code.is_some(),
            // It calls a result invalid if its own CPU is the bottleneck, which these comparisons want.
            name if name.starts_with("webstone") => matches!(code, Some(0 | INVALID)),
            _ => code == Some(0),
        }
    }

    /// Its command line.
    ///
    /// # Errors
    /// If a file that it needs cannot be written.
    pub fn command(&self, case: Case, target: &Target<'_>, seconds: u64) -> Result<Vec<String>, String> {
        let Case { mode, clients, streams, workers, .. } = case;
        let connections = clients / streams;
        // Tools that do not wait for their connections before they measure need time for them.
        let seconds = match (mode, self.name) {
            (Mode::HttpsScale | Mode::H3Scale, name) if !name.starts_with("webstone") => {
                seconds + HANDSHAKES_S
            }
            _ => seconds,
        };
        let path = mode.file().map_or("", |(path, _)| path);
        let url = format!("{}{path}", target.base_url);
        let keep = mode.keeps_alive();
        let mut words = vec![self.program.display().to_string()];
        let mut add = |text: &str| words.extend(text.split_whitespace().map(str::to_owned));
        match self.name {
            "wrk" => {
                add(&format!("-t{workers} -c{clients} -d{seconds}s"));
                if clients > 1000 {
                    add("--timeout 10s");
                }
                if mode == Mode::Standard {
                    add(&format!("-s {}", target.write("standard.lua", WRK_STANDARD)?));
                }
                add(&url);
                if !keep {
                    words.extend(["-H", "Connection: close"].map(str::to_owned));
                }
            }
            "ab" => {
                // -t sets -n to 50,000, and a later -n raises it again. ab reserves memory for n results.
                let most = seconds * 400_000;
                let keep = if keep { "-k" } else { "" };
                add(&format!("-q -t {seconds} -n {most} -c {clients} {keep} {url}"));
            }
            floor if floor.starts_with("floor") => {
                let way = match floor {
                    "floor-reset" => "reset",
                    "floor-content" => "receive",
                    _ if mode.is_http2() => "h2",
                    _ if mode == Mode::H3Full => "h3-per-request",
                    _ if mode.is_http3() => "h3",
                    _ if mode == Mode::HttpsLarge => "receive",
                    _ if mode == Mode::HttpsResumed => "resume",
                    _ if keep => "keep-alive",
                    _ => "per-request",
                };
                add(&format!("{connections} {seconds} {url} {way}"));
                if mode.is_http2() || mode.is_http3() && keep {
                    add(&streams.to_string());
                }
            }
            "h2load" => {
                let how = match (mode.is_http2(), mode.is_http3()) {
                    (true, _) => format!("-m{streams}"),
                    (_, true) => format!("--alpn-list=h3 -m{streams}"),
                    _ => "--h1".to_owned(),
                };
                add(&format!("{how} -t{workers} -c{connections} -D {seconds}s {url}"));
            }
            "oha" => {
                let keep = if keep { "" } else { "--disable-keepalive" };
                let verified = if mode.is_secure() { "--insecure" } else { "" };
                let http = match (mode.is_http2(), mode.is_http3()) {
                    (true, _) => format!("--http2 -p {streams}"),
                    (_, true) => format!("--http-version 3 -p {streams}"),
                    _ => String::new(),
                };
                add(&format!("--no-tui --output-format json -c {connections} -z {seconds}s"));
                add(&format!("{keep} {verified} {http} {url}"));
            }
            "hey" => {
                let keep = if keep { "" } else { "-disable-keepalive" };
                add(&format!("-cpus 1 -c {clients} -z {seconds}s {keep} {url}"));
            }
            "k6" => {
                let script = target.write(&format!("{}.js", mode.name()), &k6_script(&url, keep))?;
                add(&format!("run --quiet --vus {clients} --duration {seconds}s"));
                add(&format!("--summary-export /dev/stdout {script}"));
            }
            variant => {
                let runs = target.folder.join("runs").display().to_string();
                let check = match variant {
                    "webstone-size" => "size",
                    "webstone-content" => "content",
                    _ => "status",
                };
                match mode.file() {
                    // Length and content are checked for files of a workload; a single URL is checked less.
                    Some((path, size)) if check != "status" => {
                        let text = format!("[[pages]]\nweight = 1\nurl = \"{path}\"\nsize = {size}\n");
                        let file = target.write("one.toml", &text)?;
                        add(&format!("run {} -w {file} -i 1 --runs-dir {runs}", target.base_url));
                    }
                    Some(_) => add(&format!("hit {url}")),
                    None => {
                        add(&format!("run {url} -w {} -i 1 --runs-dir {runs}", mode.name()));
                    }
                }
                // If starting the clients takes long, the window must not open before all have started.
                let warmup = match mode {
                    Mode::Scale => 1,
                    Mode::HttpsScale | Mode::H3Scale => HANDSHAKES_S,
                    _ => 0,
                };
                add(&format!("-c {clients} -d {seconds}s --warmup {warmup}s -t {workers} --check {check}"));
                add(&format!("--connections {}", if keep { "keep-alive" } else { "per-request" }));
                add("--format json --quiet");
                match variant {
                    "webstone-reset" => add("--reset"),
                    "webstone-spin" => add("--spin"),
                    "webstone-insecure" => add("--insecure"),
                    _ if mode.is_secure() => {
                        add(&format!("--cacert {}", nginx::certificate(target.folder).display()));
                    }
                    _ => {}
                }
                if mode == Mode::HttpsResumed {
                    add("--tls-resume 100%");
                }
                if mode.is_http2() {
                    add(&format!("--http 2 --clients-per-connection {streams}"));
                }
                if mode.is_http3() {
                    add(&format!("--http 3 --clients-per-connection {streams}"));
                }
                if mode == Mode::Pacing {
                    add(&format!("-R {PACE}"));
                }
                if let Some(cpus) = target.client_cpus(workers) {
                    add(&format!("--cpus {cpus}"));
                }
            }
        }
        Ok(words)
    }
}

impl Target<'_> {
    /// CPUs that this many workers may use.
    pub fn client_cpus(&self, workers: u32) -> Option<String> {
        if workers > 1 { self.cpus.both() } else { self.cpus.client.map(|cpu| cpu.to_string()) }
    }

    /// Writes a file for a tool; its path.
    fn write(&self, name: &str, text: &str) -> Result<String, String> {
        let file = self.folder.join(name);
        std::fs::write(&file, text).map_err(|error| format!("{}: {error}", file.display()))?;
        Ok(file.display().to_string())
    }
}

fn k6_script(url: &str, keep: bool) -> String {
    format!(
        "import http from 'k6/http';\n\
         export const options = {{ discardResponseBodies: true, noConnectionReuse: {}, noVUConnectionReuse: false }};\n\
         export default function () {{ http.get('{url}'); }}\n",
        !keep
    )
}

/// On the path, or where `cargo install` and `go install` put programs.
fn find(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let home = std::env::var_os("HOME").map(PathBuf::from);
    let installed = home.iter().flat_map(|home| [".cargo/bin", "go/bin"].map(|folder| home.join(folder)));
    std::env::split_paths(&path)
        .chain(installed)
        .map(|folder| folder.join(program))
        .find(|file| file.is_file())
}

/// Whether a tool of this name, or this build of it, speaks HTTP/3: by the name of the library that it then holds.
fn speaks_http3(name: &str, program: &Path) -> bool {
    let library = match name {
        "webstone" | "webstone-before" | "webstone-insecure" | "floor" => return true,
        "h2load" => &b"ngtcp2"[..],
        "oha" => b"quinn",
        _ => return false,
    };
    std::fs::read(program).is_ok_and(|bytes| bytes.windows(library.len()).any(|window| window == library))
}

/// The first line that a program says about its version.
fn version_of(program: &Path, arguments: &[&str]) -> String {
    if arguments.is_empty() {
        return "tells no version".to_owned();
    }
    let output = Command::new(program).args(arguments).output();
    let text = output.map(|output| [output.stdout, output.stderr].concat()).unwrap_or_default();
    String::from_utf8_lossy(&text).lines().next().unwrap_or("tells no version").trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::modes::Server;

    fn command(name: &'static str, mode: Mode, which: usize) -> Option<String> {
        let tool = Tool { name, version: String::new(), program: name.into(), speaks_http3: true };
        let case = mode.cases(Server::Nginx)[which];
        let folder = tempfile::tempdir().unwrap();
        let cpus = Cpus { server: Some(0), client: Some(1) };
        let base_url = if mode.is_secure() { "https://127.0.0.1:8080" } else { "http://127.0.0.1:8080" };
        let target = Target { base_url, folder: folder.path(), cpus: &cpus };
        let words = tool.can(case).then(|| tool.command(case, &target, 3).unwrap())?;
        Some(words.join(" ").replace(&folder.path().display().to_string(), "F"))
    }

    #[test]
    fn every_tool_is_told_the_same() {
        let url = "http://127.0.0.1:8080/file500.html";
        for (name, mode, which, expected) in [
            ("wrk", Mode::KeepAlive, 0, "wrk -t1 -c64 -d3s URL"),
            ("wrk", Mode::PerRequest, 0, "wrk -t1 -c64 -d3s URL -H Connection: close"),
            ("wrk", Mode::Scale, 3, "wrk -t1 -c10000 -d3s --timeout 10s URL"),
            ("wrk", Mode::Workers, 2, "wrk -t2 -c128 -d3s URL"),
            ("wrk", Mode::Standard, 0, "wrk -t1 -c64 -d3s -s F/standard.lua http://127.0.0.1:8080"),
            ("floor", Mode::Scale, 3, "floor 10000 3 URL keep-alive"),
            ("floor", Mode::PerRequest, 0, "floor 64 3 URL per-request"),
            ("floor-reset", Mode::PerRequest, 0, "floor-reset 64 3 URL reset"),
            ("ab", Mode::KeepAlive, 0, "ab -q -t 3 -n 1200000 -c 64 -k URL"),
            (
                "webstone",
                Mode::PerRequest,
                0,
                "webstone hit URL -c 64 -d 3s --warmup 0s -t 1 --check status --connections per-request --format json --quiet --cpus 1",
            ),
            (
                "webstone",
                Mode::Workers,
                2,
                "webstone hit URL -c 128 -d 3s --warmup 0s -t 2 --check status --connections keep-alive --format json --quiet --cpus 0,1",
            ),
            (
                "webstone-content",
                Mode::Large,
                0,
                "webstone-content run http://127.0.0.1:8080 -w F/one.toml -i 1 --runs-dir F/runs -c 16 -d 3s --warmup 0s -t 1 --check content --connections keep-alive --format json --quiet --cpus 1",
            ),
        ] {
            assert_eq!(command(name, mode, which).unwrap(), expected.replace("URL", url), "{name}");
        }
        assert!(command("floor-content", Mode::Large, 0).unwrap().ends_with("/file500k.html receive"));
        assert!(command("floor", Mode::HttpsLarge, 0).unwrap().ends_with("/file500k.html receive"));
        assert!(command("webstone-reset", Mode::PerRequest, 0).unwrap().contains("--reset"));
    }

    #[test]
    fn tls_and_http2_are_asked_of_every_tool_alike() {
        let (url, secure) = ("http://127.0.0.1:8080/file500.html", "https://127.0.0.1:8080/file500.html");
        for (name, mode, expected) in [
            ("wrk", Mode::HttpsFull, "wrk -t1 -c64 -d3s SECURE -H Connection: close"),
            ("ab", Mode::HttpsFull, "ab -q -t 3 -n 1200000 -c 64 SECURE"),
            ("h2load", Mode::HttpsKeepAlive, "h2load --h1 -t1 -c64 -D 3s SECURE"),
            ("h2load", Mode::H2Ten, "h2load -m10 -t1 -c8 -D 3s SECURE"),
            ("h2load", Mode::H2cHundred, "h2load -m100 -t1 -c1 -D 3s URL"),
            (
                "oha",
                Mode::H2Ten,
                "oha --no-tui --output-format json -c 8 -z 3s --insecure --http2 -p 10 SECURE",
            ),
            (
                "oha",
                Mode::HttpsResumed,
                "oha --no-tui --output-format json -c 64 -z 3s --disable-keepalive --insecure SECURE",
            ),
            ("h2load", Mode::H3Ten, "h2load --alpn-list=h3 -m10 -t1 -c8 -D 3s SECURE"),
            (
                "oha",
                Mode::H3Hundred,
                "oha --no-tui --output-format json -c 1 -z 3s --insecure --http-version 3 -p 100 SECURE",
            ),
            ("floor", Mode::H2cTen, "floor 8 3 URL h2 10"),
            ("floor", Mode::H3Ten, "floor 8 3 SECURE h3 10"),
            ("floor", Mode::H3Full, "floor 64 3 SECURE h3-per-request"),
            ("floor", Mode::HttpsResumed, "floor 64 3 SECURE resume"),
            (
                "webstone",
                Mode::H2Ten,
                "webstone hit SECURE -c 80 -d 3s --warmup 0s -t 1 --check status --connections keep-alive --format json --quiet --cacert F/certificate.pem --http 2 --clients-per-connection 10 --cpus 1",
            ),
        ] {
            let expected = expected.replace("SECURE", secure).replace("URL", url);
            assert_eq!(command(name, mode, 0).unwrap(), expected, "{name}");
        }
        assert!(command("webstone", Mode::HttpsResumed, 0).unwrap().contains("--tls-resume 100%"));
        let unverified = command("webstone-insecure", Mode::HttpsFull, 0).unwrap();
        assert!(unverified.contains("--insecure") && !unverified.contains("--cacert"), "{unverified}");
        for (name, mode) in [
            ("ab", Mode::HttpsResumed),
            ("wrk", Mode::H2Ten),
            ("h2load", Mode::HttpsFull),
            ("h2load", Mode::H3Full),
            ("oha", Mode::H3Full),
            ("hey", Mode::HttpsKeepAlive),
            ("webstone-bare", Mode::H2Ten),
            ("webstone-insecure", Mode::KeepAlive),
        ] {
            assert_eq!(command(name, mode, 0), None, "{name}");
        }
    }

    #[test]
    fn a_saturated_generator_has_measured_and_a_failed_one_has_not() {
        let measured = |name, code| {
            Tool { name, version: String::new(), program: name.into(), speaks_http3: false }
                .has_measured(code)
        };
        assert!(measured("webstone-reset", Some(INVALID)) && measured("wrk", Some(0)));
        assert!(
            !measured("wrk", Some(INVALID)) && !measured("webstone", Some(1)) && !measured("webstone", None)
        );
        assert!(measured("webstone-bare", Some(1)) && !measured("webstone-bare", None));
    }

    #[test]
    fn nobody_is_asked_for_what_it_cannot_do() {
        for (name, mode) in [
            ("webstone-reset", Mode::KeepAlive),
            ("webstone-content", Mode::KeepAlive),
            ("webstone-spin", Mode::KeepAlive),
            ("wrk", Mode::Pacing),
            ("floor", Mode::Large),
            ("floor-content", Mode::KeepAlive),
            ("h2load", Mode::PerRequest),
            ("oha", Mode::Standard),
            ("ab", Mode::Workers),
            ("k6", Mode::Scale),
        ] {
            assert_eq!(command(name, mode, 0), None, "{name}");
        }
    }
}
