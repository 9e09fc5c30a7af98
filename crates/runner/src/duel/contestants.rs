//! What the words on a command line stand for: a server that webstone knows, a configuration of one, a command, a URL, a testbed file, or
//! a revision that is built first.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use webstone_lab::interrupt::Interrupt;
use webstone_measure::units::Nanos;
use webstone_model::duel::Contestant;
use webstone_model::server_tls::ServerTls;
use webstone_model::spec::{HttpVersion, RunSpec, ServerChoice, ServerSpec, Software};
use webstone_store::{redaction, without_number};

use super::revisions::{Revisions, is_revision};
use super::{DuelNews, DuelOptions};
use crate::check::{Testbed, TestbedError};
use crate::run::RunError;

/// Over a path, a contestant has the load for at least this many round trips before the next has its turn.
pub(super) const ROUND_TRIPS_PER_SLICE: u64 = 10;
/// Longest round-trip time of a path in a duel.
const RTT_MAX: Nanos = Nanos::from_secs(1);

/// How to make a server of a revision.
#[derive(Clone, Debug, Default)]
pub struct Build {
    /// The command that builds it, in its directory; `None`: nothing is to be built.
    pub command: Option<String>,
    /// The command line that serves, with `{port}`, started in its directory.
    pub serve: Option<String>,
    /// A directory in the repository.
    pub repository: PathBuf,
}

/// What a word stands for.
#[derive(Clone, Debug)]
pub(super) enum What {
    /// A server that webstone starts.
    Server(Box<ServerSpec>),
    /// A server that is up.
    Url(String),
    /// A commit, or `.` for the files as they are.
    Revision(String),
}

/// A contestant as it was asked for.
#[derive(Clone, Debug)]
pub struct AskedContestant {
    name: String,
    /// As it was typed, without a name before it and without secrets.
    given: String,
    what: What,
    build: Build,
    /// Commands of the agents that watch it on its hosts.
    agents: Vec<String>,
}

impl AskedContestant {
    /// Whether webstone configures it to serve the files of a workload.
    pub fn serves_files(&self) -> bool {
        matches!(&self.what, What::Server(server) if server.software != Software::Command)
    }
}

/// A contestant that can be started.
pub(super) struct Ready {
    pub(super) contestant: Contestant,
    pub(super) spec: RunSpec,
    /// Where its revision is checked out, until the duel is over.
    _files: Option<Arc<Revisions>>,
}

fn refused(what: impl Into<String>, hint: impl Into<String>) -> RunError {
    RunError::Refused { what: what.into(), hint: hint.into() }
}

/// What the words stand for, in order. A word may begin with a name of its own: `old=./server --port {port}`.
///
/// # Errors
/// A word that stands for nothing, with what it could be.
pub fn asked(words: &[String], build: &Build) -> Result<Vec<AskedContestant>, RunError> {
    let mut all: Vec<AskedContestant> = Vec::new();
    for word in words {
        let what = meant(named(word).1, build)?;
        // The whole word is redacted: what looks like a name may be that of a secret, as in PASSWORD=hunter2.
        let word = redaction::text(word).text;
        let (name, given) = named(&word);
        let name = unique(name.map_or_else(|| short(given), str::to_owned), &all);
        all.push(AskedContestant {
            name,
            given: given.to_owned(),
            what,
            build: build.clone(),
            agents: Vec::new(),
        });
    }
    Ok(all)
}

/// A name that no other contestant has: `nginx`, then `nginx #2`.
fn unique(name: String, others: &[AskedContestant]) -> String {
    let is_free = |name: &String| others.iter().all(|other| other.name != *name);
    if is_free(&name) {
        return name;
    }
    (2_u32..).map(|number| format!("{name} #{number}")).find(is_free).unwrap_or(name)
}

/// Has agents watch contestants that are up on other hosts. A command that begins with a contestant's name, `new=ssh web1 webstone agent`,
/// is for that one; any other is started once for each contestant that is a URL.
///
/// # Errors
/// A command that has no contestant to watch.
pub fn watch(contestants: &mut [AskedContestant], commands: &[String]) -> Result<(), RunError> {
    for word in commands {
        let (name, command) = match named(word) {
            (Some(name), command) if contestants.iter().any(|it| it.name == name) => (Some(name), command),
            _ => (None, word.as_str()),
        };
        let mut watches = false;
        let meant = |it: &&mut AskedContestant| name.is_none_or(|name| it.name == name);
        for contestant in contestants.iter_mut().filter(meant) {
            let is_elsewhere = matches!(contestant.what, What::Url(_));
            if is_elsewhere {
                contestant.agents.push(command.to_owned());
                watches = true;
            } else if let Some(name) = name {
                return Err(refused(
                    format!(
                        "--server-agent {}: webstone starts {name} itself and sees its CPU time",
                        redaction::text(word).text
                    ),
                    "leave the option out for it: agents watch contestants that are URLs",
                ));
            }
        }
        if !watches {
            return Err(refused(
                format!("--server-agent {}: no contestant is a URL", redaction::text(word).text),
                "leave it out: webstone sees the CPU time of servers that it starts itself",
            ));
        }
    }
    Ok(())
}

/// A name before `=`, if there is one: letters, digits, and what names of versions have besides.
fn named(word: &str) -> (Option<&str>, &str) {
    let is_name =
        |name: &str| !name.is_empty() && name.chars().all(|c| c.is_alphanumeric() || "._-+".contains(c));
    match word.split_once('=') {
        Some((name, rest)) if is_name(name) && !rest.is_empty() => (Some(name), rest),
        _ => (None, word),
    }
}

/// What a contestant is called if it has no name: the last part of a path, the first word of a command.
fn short(given: &str) -> String {
    if given.contains("://") || !given.contains(['/', ' ']) {
        return given.to_owned();
    }
    let word = given.split_whitespace().next().unwrap_or(given);
    Path::new(word).file_name().map_or_else(|| word.to_owned(), |name| name.to_string_lossy().into_owned())
}

fn meant(given: &str, build: &Build) -> Result<What, RunError> {
    if given.starts_with("http://") || given.starts_with("https://") {
        return Ok(What::Url(given.to_owned()));
    }
    if given.contains("{port}") {
        return Ok(What::Server(Box::new(command(given.to_owned()))));
    }
    if given.ends_with(".toml") {
        let testbed = Testbed::read(Path::new(given)).map_err(|error| {
            let what = match error {
                TestbedError::Unreadable(error) => format!("{given}: {}", without_number(&error)),
                TestbedError::Wrong { place, rule } => format!("{place}: {rule}"),
            };
            refused(what, "give a testbed file with a section [server]")
        })?;
        return Ok(What::Server(Box::new(testbed.spec.server)));
    }
    if let Some(server) = server(given)? {
        return Ok(What::Server(Box::new(server)));
    }
    if build.serve.is_some() && (given == "." || is_revision(&build.repository, given)) {
        return Ok(What::Revision(given.to_owned()));
    }
    let known = Software::ALL.map(Software::name).join(", ");
    Err(match build.serve.is_some() {
        true => refused(
            format!("`{given}` is neither a server nor a revision in {}", build.repository.display()),
            format!("`git rev-parse {given}` says what git makes of it; servers are {known}"),
        ),
        false => refused(
            format!("`{given}` is not a contestant"),
            format!(
                "give a server ({known}), a command with {{port}}, a URL, a testbed file, or, with --serve, a revision \
                 of git"
            ),
        ),
    })
}

/// `nginx`, `nginx:tuned`, `nginx:FILE`, each with settings after commas: `nginx,access_log=off`.
fn server(given: &str) -> Result<Option<ServerSpec>, RunError> {
    let (base, settings) = given.split_once(',').unwrap_or((given, ""));
    let (name, profile) = base.split_once(':').unwrap_or((base, ""));
    let Some(software) = Software::ALL.into_iter().find(|software| software.name() == name) else {
        return Ok(None);
    };
    let mut spec = match base.parse::<ServerChoice>() {
        Ok(choice) => {
            ServerSpec { software: choice.software, profile: choice.profile, ..ServerSpec::default() }
        }
        Err(_) if Path::new(profile).is_file() => command(configured(software, Path::new(profile))?),
        Err(_) if profile.contains(['/', '.']) => {
            return Err(refused(
                format!("`{given}`: there is no file {profile}"),
                "name a configuration file that has {port}, or a profile: stock, tuned",
            ));
        }
        Err(error) => {
            return Err(refused(
                error.to_string(),
                "or name a configuration file that has {port}: nginx:./nginx.conf",
            ));
        }
    };
    for setting in settings.split(',').filter(|setting| !setting.is_empty()) {
        spec = with_setting(&spec, setting).map_err(|rule| {
            refused(
                format!("`{given}`: `{setting}`: {rule}"),
                "a setting is a key of [server] in testbed files: `webstone run --dump-spec` prints all",
            )
        })?;
    }
    Ok(Some(spec))
}

/// A server with one key of its section of testbed files set. A value that is not TOML is a text.
fn with_setting(spec: &ServerSpec, setting: &str) -> Result<ServerSpec, String> {
    let (key, value) = setting.split_once('=').ok_or("it has no =")?;
    let mut table = toml::Table::try_from(spec).map_err(|error| error.to_string())?;
    let texts = [format!("{} = {value}", key.trim()), format!("{} = {value:?}", key.trim())];
    let mut last = String::new();
    for text in texts {
        let Ok(parsed) = text.parse::<toml::Table>() else { continue };
        let mut with = table.clone();
        with.extend(parsed);
        match with.try_into() {
            Ok(spec) => return Ok(spec),
            Err(error) => last = error.message().to_owned(),
        }
    }
    table.clear();
    Err(last)
}

fn command(line: String) -> ServerSpec {
    ServerSpec { software: Software::Command, command: Some(line), ..ServerSpec::default() }
}

/// A command line that starts a server with a copy of a configuration file, in which `{port}` is the port of that start.
fn configured(software: Software, file: &Path) -> Result<String, RunError> {
    let path = file.canonicalize().map_err(|error| {
        refused(format!("{}: {}", file.display(), without_number(&error)), "check the path")
    })?;
    let text = std::fs::read_to_string(&path).unwrap_or_default();
    if !text.contains("{port}") {
        return Err(refused(
            format!("{}: {{port}} is missing: each start needs a port of its own", file.display()),
            "write {port} where the file names the port to listen on",
        ));
    }
    let start = match software {
        Software::Nginx | Software::NginxProxy => {
            "nginx -p {directory} -c $0/conf -g 'daemon off; pid nginx.pid;'"
        }
        Software::Apache | Software::ApachePrefork => "apache2 -D FOREGROUND -f $0/conf",
        Software::Lighttpd => "lighttpd -D -f $0/conf",
        Software::Caddy => "caddy run --adapter caddyfile --config $0/conf",
        Software::Haproxy => "haproxy -db -f $0/conf",
        Software::Envoy => "envoy --use-dynamic-base-id --config-yaml \"$(cat $0/conf)\"",
        Software::Nghttpd | Software::Reference | Software::Command => {
            return Err(refused(
                format!("{} has no configuration file", software.name()),
                "give its options as a command line with {port}",
            ));
        }
    };
    // `[{]` keeps the pattern from being filled in itself.
    let script = format!("sed \"s/[{{]port}}/$1/g\" \"$2\" > \"$0/conf\" && exec {start}");
    let quoted = |text: &str| shlex::try_quote(text).map(|text| text.into_owned()).unwrap_or_default();
    Ok(format!("sh -c {} {{directory}} {{port}} {}", quoted(&script), quoted(&path.display().to_string())))
}

/// Contestants that can be started: revisions are checked out and built, the twin is added.
pub(super) fn ready(
    options: &DuelOptions,
    told: &mut dyn FnMut(DuelNews<'_>),
    interrupt: &Interrupt,
) -> Result<Vec<Ready>, RunError> {
    let revisions = Revisions::check_out(
        &options
            .contestants
            .iter()
            .filter_map(|asked| match &asked.what {
                What::Revision(revision) => Some((revision.as_str(), &asked.build)),
                _ => None,
            })
            .collect::<Vec<_>>(),
        told,
        interrupt,
    )?;
    let revisions = revisions.map(Arc::new);
    let mut all = Vec::new();
    for asked in &options.contestants {
        let mut contestant = Contestant {
            name: asked.name.clone(),
            given: asked.given.clone(),
            is_started: true,
            ..Contestant::default()
        };
        let mut spec = options.spec.clone();
        let mut files = None;
        match &asked.what {
            What::Server(server) => spec.server = merged(&options.spec.server, server),
            What::Url(url) => {
                contestant.is_started = false;
                spec.target = vec![url.clone()];
                spec.server = elsewhere(&options.spec.server, spec.client.http);
                spec.server.agents.clone_from(&asked.agents);
            }
            What::Revision(revision) => {
                let checked_out = revisions.as_ref().expect("it was checked out above");
                let (line, commit) = checked_out.served(revision, &asked.build)?;
                contestant.commit = commit;
                spec.server = merged(&options.spec.server, &command(line));
                files = Some(Arc::clone(checked_out));
            }
        }
        all.push(Ready { contestant, spec, _files: files });
    }
    if options.duel.twin {
        let first = &all[0];
        let twin = Contestant {
            name: format!("{} (twin)", first.contestant.name),
            is_twin: true,
            ..first.contestant.clone()
        };
        let mut spec = first.spec.clone();
        // One server measured as two contestants: two agents would see the same processes.
        spec.server.agents.clear();
        all.push(Ready { contestant: twin, spec, _files: None });
    }
    Ok(all)
}

/// The settings common to servers that webstone starts, as they apply to one that is already up: without those that follow from the
/// clients' version of HTTP, because webstone does not configure it.
fn elsewhere(common: &ServerSpec, http: HttpVersion) -> ServerSpec {
    let mut spec = common.clone();
    spec.path = None;
    spec.http2 &= http != HttpVersion::Http2;
    if http == HttpVersion::Http3 {
        spec.http3 = false;
        spec.tls = spec.tls.filter(|tls| *tls != ServerTls::default());
    }
    spec
}

/// A contestant's server with what holds for all of them, where it says nothing itself.
fn merged(common: &ServerSpec, own: &ServerSpec) -> ServerSpec {
    fn or<T: PartialEq + Clone>(own: &T, plain: &T, common: &T) -> T {
        if own == plain { common.clone() } else { own.clone() }
    }
    let plain = &ServerSpec::default();
    let mine = own.clone();
    // Every field by name, so that a new one is decided here.
    ServerSpec {
        software: mine.software,
        profile: mine.profile,
        program: mine.program,
        command: mine.command,
        origin: mine.origin,
        origin_cpus: mine.origin_cpus,
        agents: mine.agents,
        listen: or(&own.listen, &plain.listen, &common.listen),
        root: or(&own.root, &plain.root, &common.root),
        threads: or(&own.threads, &plain.threads, &common.threads),
        processes: or(&own.processes, &plain.processes, &common.processes),
        cpus: or(&own.cpus, &plain.cpus, &common.cpus),
        cache: or(&own.cache, &plain.cache, &common.cache),
        keep_alive: or(&own.keep_alive, &plain.keep_alive, &common.keep_alive),
        access_log: or(&own.access_log, &plain.access_log, &common.access_log),
        resolve_names: or(&own.resolve_names, &plain.resolve_names, &common.resolve_names),
        dns_delay: or(&own.dns_delay, &plain.dns_delay, &common.dns_delay),
        backlog: or(&own.backlog, &plain.backlog, &common.backlog),
        interface: or(&own.interface, &plain.interface, &common.interface),
        handlers: or(&own.handlers, &plain.handlers, &common.handlers),
        tls: or(&own.tls, &plain.tls, &common.tls),
        http2: own.http2 || common.http2,
        http3: own.http3 || common.http3,
        path: or(&own.path, &plain.path, &common.path),
    }
}

/// The longest round-trip time of paths to contestants; `None` without paths. All have one or none has, or the network would differ.
pub(super) fn round_trip(sides: &[Ready]) -> Result<Option<Nanos>, RunError> {
    let path = |side: &Ready| side.spec.server.path.filter(|_| side.contestant.is_started);
    let Some(longest) = sides.iter().filter_map(path).max_by_key(|path| path.rtt) else { return Ok(None) };
    for side in sides {
        let name = &side.contestant.name;
        let why = match path(side) {
            None if side.contestant.is_started => "has none",
            None => "is up already, and webstone makes paths only to servers that it starts",
            Some(_) if side.spec.server.software.is_proxy() => "is a proxy, whose origin is elsewhere",
            Some(_) => continue,
        };
        return Err(refused(
            format!("{name}: other contestants have a path ({longest}), and this one {why}"),
            "give all contestants a path: --path rtt=20ms,loss=1% holds for all that webstone starts",
        ));
    }
    if longest.rtt > RTT_MAX {
        return Err(refused(
            format!(
                "--path: {longest}: a contestant has the load for {ROUND_TRIPS_PER_SLICE} round trips before the next has its turn, \
                 and in a duel that is 10s at most"
            ),
            "measure each contestant with `webstone run --path` and compare the runs with `webstone compare`",
        ));
    }
    Ok(Some(longest.rtt))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(word: &str) -> AskedContestant {
        asked(&[word.to_owned()], &Build::default()).unwrap().remove(0)
    }

    fn spec(word: &str) -> ServerSpec {
        match one(word).what {
            What::Server(spec) => *spec,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn words_stand_for_servers_commands_and_urls() {
        assert_eq!(spec("nginx:tuned").software, Software::Nginx);
        assert_eq!(one("nginx:tuned").name, "nginx:tuned");
        let quiet = spec("nginx,access_log=off,threads=2");
        assert_eq!((quiet.access_log.as_deref(), quiet.threads), (Some("off"), 2));
        let old = one("old=./target/release/app --port {port}");
        assert_eq!(
            (old.name.as_str(), spec("old=./app {port}").command.as_deref()),
            ("old", Some("./app {port}"))
        );
        assert_eq!(one("./target/release/app --port {port}").name, "app");
        assert!(matches!(one("http://127.0.0.1:1/x=y").what, What::Url(url) if url.ends_with("x=y")));
        let twice = asked(&["nginx".to_owned(), "nginx".to_owned()], &Build::default()).unwrap();
        assert_eq!((twice[0].name.as_str(), twice[1].name.as_str()), ("nginx", "nginx #2"));
        let commands =
            ["./a/app {port}", "./b/app {port}", "./c/app {port}", "app=./d {port}"].map(str::to_owned);
        let all = asked(&commands, &Build::default()).unwrap();
        let names: Vec<&str> = all.iter().map(|it| it.name.as_str()).collect();
        assert_eq!(names, ["app", "app #2", "app #3", "app #4"]);
    }

    #[test]
    fn what_is_given_for_all_contestants_holds_where_one_says_nothing() {
        let common = ServerSpec {
            keep_alive: false,
            backlog: Some(128),
            processes: 4,
            threads: 2,
            root: Some("/srv".to_owned()),
            ..ServerSpec::default()
        };
        let all = merged(&common, &spec("nginx,threads=3"));
        assert_eq!((all.keep_alive, all.backlog, all.processes), (false, Some(128), 4));
        assert_eq!((all.threads, all.root.as_deref(), all.software), (3, Some("/srv"), Software::Nginx));
    }

    #[test]
    fn a_server_that_is_up_is_asked_for_no_version() {
        let tls = Some(ServerTls::default());
        let common =
            ServerSpec { http2: true, http3: true, tls: tls.clone(), threads: 2, ..ServerSpec::default() };
        let of = |http| {
            let spec = elsewhere(&common, http);
            (spec.http2, spec.http3, spec.tls.is_some(), spec.threads)
        };
        assert_eq!(of(HttpVersion::Http11), (true, true, true, 2));
        assert_eq!(of(HttpVersion::Http2), (false, true, true, 2));
        assert_eq!(of(HttpVersion::Http3), (true, false, false, 2));
    }

    #[test]
    fn agents_watch_those_that_are_up_elsewhere() {
        let of = |words: &[&str], agents: &[&str]| {
            let owned = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
            let mut all = asked(&owned(words), &Build::default()).unwrap();
            watch(&mut all, &owned(agents))
                .map(|()| all.into_iter().map(|it| it.agents.join(", ")).collect::<Vec<_>>())
                .map_err(|error| error.to_string())
        };
        let urls = ["a=http://web1/", "b=http://web2/"];
        assert_eq!(of(&urls, &["a=ssh web1 w", "b=ssh web2 w"]).unwrap(), ["ssh web1 w", "ssh web2 w"]);
        assert_eq!(of(&urls, &["ssh web w"]).unwrap(), ["ssh web w", "ssh web w"]);
        // An assignment, not a name.
        assert_eq!(of(&urls, &["A=1 ssh web w"]).unwrap()[0], "A=1 ssh web w");
        assert_eq!(of(&["nginx", "http://web1/"], &["ssh web1 w"]).unwrap(), ["", "ssh web1 w"]);
        assert_eq!(
            of(&["a=nginx", "http://web1/"], &["a=ssh web1 w"]).unwrap_err(),
            "--server-agent a=ssh web1 w: webstone starts a itself and sees its CPU time"
        );
        let error = of(&["nginx", "caddy"], &["ssh web1 w"]).unwrap_err();
        assert_eq!(error, "--server-agent ssh web1 w: no contestant is a URL");
    }

    #[test]
    fn no_name_and_nothing_that_is_kept_has_a_secret() {
        for word in [
            "http://ann:hunter2@127.0.0.1:1/a?token=hunter2",
            "https://hunter2@127.0.0.1:1/",
            "new=http://ann:hunter2@127.0.0.1:1/",
            "./app --port {port} --token hunter2",
            "PASSWORD=hunter2 {port}",
        ] {
            let contestant = one(word);
            assert!(!format!("{} {}", contestant.name, contestant.given).contains("hunter2"), "{word}");
            assert!(format!("{:?}", contestant.what).contains("hunter2"), "{word}: it is still used");
        }
    }

    #[test]
    fn what_stands_for_nothing_is_refused_with_what_it_could_be() {
        let error = |word: &str| asked(&[word.to_owned()], &Build::default()).unwrap_err();
        assert_eq!(error("ngimx").to_string(), "`ngimx` is not a contestant");
        assert!(error("ngimx").hint().unwrap().contains("a command with {port}"));
        assert_eq!(error("nginx:/no.conf").to_string(), "`nginx:/no.conf`: there is no file /no.conf");
        assert!(error("nginx:fast").to_string().contains("`fast` is not a profile"));
        assert!(error("nginx,colour=red").to_string().contains("`colour=red`: unknown field"));
        assert!(error("nginx,threads").to_string().contains("no ="));
        let plain = tempfile::NamedTempFile::new().unwrap();
        let without = format!("nginx:{}", plain.path().display());
        assert!(error(&without).to_string().contains("{port} is missing"));
    }

    #[test]
    fn a_configuration_file_is_started_with_the_port_of_each_start() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), "listen {port};").unwrap();
        let line = spec(&format!("nginx:{}", file.path().display())).command.unwrap();
        let words = shlex::split(&line).unwrap();
        assert_eq!((&*words[0], &*words[1], &*words[3], &*words[4]), ("sh", "-c", "{directory}", "{port}"));
        assert!(words[2].contains("[{]port}") && !words[2].contains("/{port}/"), "{}", words[2]);
    }
}
