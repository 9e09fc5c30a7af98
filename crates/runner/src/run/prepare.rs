//! Everything that a run needs before its first level, in five steps: the specification is completed and checked ([`RunBrief`]), the
//! machine and the target are looked at ([`look`]), the server is started if it is ours ([`serve`]), the target is asked ([`decide()`],
//! [`reach`]), and whatever makes the load and watches the server is made ready ([`stand_by`]). Everything that can be known to be
//! wrong is found here.

use std::collections::{BTreeSet, HashMap};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::{Duration, Instant, SystemTime};

use serde_json::Value;
use tracing::{info, warn};
use webstone_judge::verdict::{CROWDED_COST_PERCENT, NOISE_FACTOR_MAX, TAKEN_PERCENT_CLEAN};
use webstone_lab::agent::{Described, ServerAgents};
use webstone_lab::cpus::cpu_list;
use webstone_lab::environment::{self, Subject, configuration};
use webstone_lab::fetch::ByProbe;
use webstone_lab::host_use::links_towards;
use webstone_lab::interrupt::Interrupt;
use webstone_lab::limits;
use webstone_lab::machine::{Root, cpus, online_cpus};
use webstone_lab::others::Look;
use webstone_lab::priority::Raised;
use webstone_model::event::Event;
use webstone_model::generators::GeneratorRecord;
use webstone_model::record::{CodedSample, RunRecord, SCHEMA_VERSION, STAYS_AWAKE, TargetRecord};
use webstone_model::spec::{HttpVersion, RunSpec, Software};
use webstone_store::{Store, clock, redaction};
use webstone_workload::Workload;

use super::{Part, Prepared, RunError, RunnerOptions, decide, resolve_workload};
use crate::check::{Checked, check, for_workload, handler};
use crate::generator::{Compile, LoadGenerator};
use crate::observer::Observer;
use crate::placement::{Placement, ServerPlace, place};
use crate::preflight::needs::{Load, Severity, shortages};
use crate::preflight::patience::{LastAsked, SILENCE_MAX, Watched};
use crate::preflight::target::{self, Destinations, TargetFacts};
use crate::record_all::RecordAll;
use crate::trace::{TraceWriter, nowhere};
use crate::under_test::{self, Found, UnderTest};
use crate::{awake, calibrate, fleet, rounds, speeds, waiting};

/// Most memory that the embedded server keeps files in, in bytes; it makes the rest again for each request.
const SERVER_CACHE_BYTES_MAX: u64 = 1 << 30;

/// Least time for which the CPU use of other programs is sampled before the load.
const LOOK_MIN: Duration = Duration::from_millis(60);
/// CPUs that they must use to be mentioned.
const NEIGHBOURS_CPUS_MIN: f64 = 0.1;

pub(super) fn prepare(
    spec: RunSpec,
    mut options: RunnerOptions,
    observer: &mut dyn Observer,
    interrupt: &Interrupt,
    compile: Compile<'_>,
) -> Result<Prepared, RunError> {
    let mut asked = RunBrief::read(spec, options.workload.take())?;
    let neighbours = asked.spec.generators.is_empty().then(Look::begin);
    observer.event(&preparing("looking at this machine and the target"));
    let mut site = look(&mut asked)?;
    go_on(interrupt)?;
    // On shared CPUs, a raised priority would take CPU time from somebody else's server.
    let is_fair = asked.is_ours() || !site.facts.this_host;
    let raised = (is_fair && asked.spec.generator.priority).then(Raised::by_thread).flatten();
    let mut served = serve(&mut asked, &mut site, None, observer, interrupt)?;
    // What the check decides is decided in every part of a run, because a part may be made by another process.
    decide(&mut asked, &mut site.facts, &mut served, options.check_target, observer, interrupt)?;
    let for_files = options.asks_for_files();
    reach(&mut asked, &mut site.facts, &mut served, for_files, observer, interrupt)?;
    let ready = stand_by(&mut asked, &mut site, &served, &options, observer, interrupt, compile)?;
    // Other hosts write down their own.
    let all = asked.spec.generator.record_all.clone().filter(|_| asked.spec.generators.is_empty());
    let is_continued = matches!(options.part, Part::Round { record: Some(_), .. });
    let created = all.as_ref().filter(|_| !is_continued).map(|path| RecordAll::create(path.as_ref()));
    let mut record_all = created.transpose()?;
    let trace = options.trace.take().unwrap_or_else(nowhere);
    let trace = (asked.spec.generator.trace > 0).then(|| TraceWriter::new(trace));
    for warning in &asked.warnings {
        observer.event(&Event::Warning { text: warning.clone() });
    }
    // Not in the record: what was used during the windows is.
    let is_refused = is_fair && asked.spec.generator.priority && raised.is_none();
    if let Some(text) = neighbours.and_then(|look| told(look, raised.is_some(), is_refused)) {
        observer.event(&Event::Warning { text });
    }
    let RunnerOptions { runs_dir, derive, watched_by, part, .. } = &options;
    let (derive, watched_by, part) = (*derive, watched_by.clone(), part.clone());
    // What nobody stores leaves no trace.
    let speeds = options.speeds.clone().filter(|_| runs_dir.is_some());
    let started = SystemTime::now();
    let mut record = record(&asked, &site, &served, ready.generators, ready.described, &options, started);
    record.environment.extend(raised.iter().map(|raised| ("priority.nice".to_owned(), raised.nice().into())));
    let store = match (&part, runs_dir) {
        (Part::Round { record: Some(path), .. }, _) => {
            Some(rounds::go_on(path, &mut record, &asked.effective.generator)?)
        }
        (_, Some(runs)) => Some(Store::create(runs, started, &mut record)?),
        (_, None) => None,
    };
    if let (Some(path), true) = (&all, is_continued) {
        record_all = Some(RecordAll::go_on(path.as_ref(), &record)?);
    }
    Ok(Prepared {
        record,
        effective: asked.effective,
        generator: ready.generator,
        dealt: ready.dealt,
        server: served.server,
        found: site.found,
        agents: ready.agents,
        links: site.links,
        targets: served.targets,
        store,
        record_all,
        trace,
        derive,
        watched_by,
        speeds,
        part,
        _raised: raised,
    })
}

/// What other programs used while the run was prepared, and what that will mean, if it is enough to matter.
fn told(look: Look, is_raised: bool, is_refused: bool) -> Option<String> {
    let (used, took) = look.end(LOOK_MIN)?;
    let busy = used.cpu_ns as f64 / took.as_nanos() as f64;
    let all = online_cpus(&Root::default()).map_or(1, |cpus| cpus.len().max(1));
    let share = (busy / all as f64).min(1.0);
    let matters = busy >= NEIGHBOURS_CPUS_MIN && 100.0 * share >= TAKEN_PERCENT_CLEAN;
    let busiest = used.busiest.first().filter(|_| matters)?;
    let remedy = if is_refused { "; run as root, load generator and server come before it" } else { "" };
    Some(format!(
        "other programs used {busy:.1} of {all} CPUs just before the load, mostly {} (process {}): expect {}{remedy}",
        busiest.name,
        busiest.process,
        expected(share, is_raised)
    ))
}

/// What the verdict will say where other programs use this share of all CPUs, from 0 to 1: they make requests cost more, and, without
/// a raised priority, take half of each CPU on which they meet the test.
fn expected(share: f64, is_raised: bool) -> String {
    let taken = if is_raised { 0.0 } else { share / 2.0 };
    let factor = (1.0 + share * CROWDED_COST_PERCENT / 100.0) / (1.0 - taken);
    if factor > NOISE_FACTOR_MAX {
        return "INCONCLUSIVE figures".to_owned();
    }
    format!("NOISY figures, with rates up to about {:.0} % too low", 100.0 * (1.0 - 1.0 / factor))
}

pub(super) fn preparing(what: &str) -> Event {
    Event::Preparing { what: what.to_owned() }
}

pub(super) fn go_on(interrupt: &Interrupt) -> Result<(), RunError> {
    if interrupt.count() > 0 { Err(RunError::Interrupted) } else { Ok(()) }
}

/// What is asked for, complete and checked as far as that is possible without a look at machine and target.
#[derive(Clone)]
pub(crate) struct RunBrief {
    /// The specification as the record has it.
    pub(crate) spec: RunSpec,
    /// The same as the engine has it: target and workers decided.
    pub(crate) effective: RunSpec,
    pub(crate) workload: Workload,
    configuration: Vec<Value>,
    pub(crate) warnings: Vec<String>,
}

impl RunBrief {
    pub(crate) fn read(spec: RunSpec, workload: Option<Workload>) -> Result<RunBrief, RunError> {
        let Checked { mut spec, mut warnings } = check(&spec.into())?;
        let mut workload = workload.map_or_else(|| resolve_workload(&spec), Ok)?;
        if spec.target.is_empty() {
            workload.take_sizes_of_names();
        }
        handler::ready_heads(&spec, &workload)?;
        for_workload(&mut spec, &workload)?;
        if let Some(repetitions) = spec.load.repetitions {
            spec.load.pages = Some(u64::from(repetitions) * workload.pages.len() as u64);
        }
        let configuration = configuration::read(&spec.server_config)?;
        warnings.extend(target::unknown_contents(&spec, &workload));
        Ok(RunBrief { effective: spec.clone(), spec, workload, configuration, warnings })
    }

    /// Whether webstone starts the server.
    pub(crate) fn is_ours(&self) -> bool {
        self.spec.target.is_empty()
    }

    fn is_embedded(&self) -> bool {
        self.is_ours() && self.spec.server.software == Software::Reference
    }

    /// Whether other hosts load the server: this host may neither resolve its name nor reach it.
    fn is_asked_elsewhere(&self) -> bool {
        !self.is_ours() && !self.spec.generators.is_empty()
    }
}

/// Where everything is: the target, unless it is ours and has no address yet, and who gets which CPUs of this host.
pub(crate) struct RunSite {
    root: Root,
    pub(crate) destinations: Option<Destinations>,
    pub(crate) facts: TargetFacts,
    /// Somebody else's server on this host.
    pub(crate) found: Found,
    pub(crate) placement: Placement,
    /// Network interfaces towards the target.
    links: BTreeSet<String>,
}

/// Places server and workers, and foresees which resources of this host run out.
pub(crate) fn look(asked: &mut RunBrief) -> Result<RunSite, RunError> {
    let (ours, root) = (asked.is_ours(), Root::default());
    let destinations = match ours {
        true => None,
        false => Some(Destinations::of_spec(&asked.spec, &asked.workload)?),
    };
    let facts = match &destinations {
        None => TargetFacts { this_host: true, ..TargetFacts::default() },
        Some(elsewhere) if asked.is_asked_elsewhere() => elsewhere.locate_from_elsewhere(),
        Some(here) => here.locate()?,
    };
    let at = ServerPlace::seen_from(ours, facts.this_host);
    let found = under_test::find(&asked.spec, at, &facts);
    let found_on = found.processes.as_ref().map(|server| server.cpus.clone()).unwrap_or_default();
    let placement = place(&cpus(&root), at, &asked.spec.generator, &asked.spec.server, &found_on)?;
    info!(
        workers = placement.workers,
        workers_cpus = cpu_list(&placement.workers_cpus),
        server_cpus = cpu_list(&placement.server),
        server_at = ?at,
        notes = ?placement.warnings,
        "CPUs are placed"
    );
    let links = links_towards(&root, facts.addresses.iter().map(|address| address.ip()), facts.this_host);
    if asked.spec.generators.is_empty() {
        // They are about this host's CPUs, which make no load if other hosts do.
        asked.warnings.extend_from_slice(&placement.warnings);
    }
    asked.warnings.extend(found.warnings(&placement));
    asked.effective.generator.workers = placement.workers;
    asked.effective.generator.cpus = cpu_list(&placement.workers_cpus);
    asked.effective.generator.spin.get_or_insert(awake::by_default(&asked.spec, at, &placement, &root));
    // Load goes to addresses of one family, IPv4 or IPv6.
    let of_v4 = facts.addresses.iter().filter(|address| address.is_ipv4()).count();
    let hosts = of_v4.max(facts.addresses.len() - of_v4).max(1) as u64;
    let mut load = Load::of_spec(&asked.effective, asked.workload.pages.len() as u64, hosts, facts.this_host);
    if asked.is_embedded() && asked.spec.server.root.is_none() {
        load.fileset_bytes = fileset_bytes(&asked.workload).min(SERVER_CACHE_BYTES_MAX);
    }
    if !asked.spec.generators.is_empty() {
        load.is_made_elsewhere();
    }
    let foreseen = foresee(&load, &root).inspect_err(|error| warn!(%error, "preflight: it cannot work"))?;
    info!(connections = load.descriptors(), notes = ?foreseen, "preflight: resources of this host");
    asked.warnings.extend(foreseen);
    Ok(RunSite { root, destinations, facts, found, placement, links })
}

/// The server, running, and where it is.
pub(crate) struct Served {
    /// It, if it is ours.
    pub(crate) server: Option<UnderTest>,
    pub(super) destinations: Destinations,
    targets: BTreeSet<SocketAddr>,
}

/// Starts the server if it is ours: with the limits that were raised before. `program` is webstone's own; `None`: this one.
pub(crate) fn serve(
    asked: &mut RunBrief,
    site: &mut RunSite,
    program: Option<PathBuf>,
    observer: &mut dyn Observer,
    interrupt: &Interrupt,
) -> Result<Served, RunError> {
    if let Some(destinations) = site.destinations.take() {
        return Ok(Served { server: None, destinations, targets: site.facts.addresses.clone() });
    }
    let which = if asked.is_embedded() { "embedded server" } else { "server under test" };
    observer.event(&preparing(&format!("starting the {which}")));
    let program = program.map_or_else(under_test::program, Ok)?;
    let server = under_test::start(&asked.spec, &asked.workload, &site.placement, program, interrupt);
    go_on(interrupt)?;
    let server = server?;
    asked.effective.target = std::iter::once(&server.url).chain(&server.secure_url).cloned().collect();
    server.trust(&mut asked.effective.client.tls);
    asked.warnings.extend_from_slice(&server.warnings);
    if let Some(path) = &server.path {
        site.links = BTreeSet::from([path.device().to_owned()]);
    }
    let destinations = Destinations::of_spec(&asked.effective, &asked.workload)?;
    Ok(Served { server: Some(server), targets: destinations.locate()?.addresses, destinations })
}

/// Decides what the target decides, connects to every host of it, and asks it for its files.
pub(crate) fn ask(
    asked: &mut RunBrief,
    facts: &mut TargetFacts,
    served: &mut Served,
    for_files: bool,
    observer: &mut dyn Observer,
    interrupt: &Interrupt,
) -> Result<(), RunError> {
    decide(asked, facts, served, for_files, observer, interrupt)?;
    reach(asked, facts, served, for_files, observer, interrupt)
}

/// Connects to every host of the target, and asks it for its files.
fn reach(
    asked: &mut RunBrief,
    facts: &mut TargetFacts,
    served: &mut Served,
    for_files: bool,
    observer: &mut dyn Observer,
    interrupt: &Interrupt,
) -> Result<(), RunError> {
    if asked.is_asked_elsewhere() {
        return Ok(());
    }
    observer.event(&preparing(if for_files {
        "asking the target for its files"
    } else {
        "connecting to the target"
    }));
    let Served { destinations, targets, .. } = served;
    let (client, since) = (&mut asked.effective.client, Instant::now());
    let last = LastAsked::new(destinations.first());
    let check = || {
        let said = destinations.reach(client, facts)?;
        facts.warnings.extend(said);
        info!(addresses = ?facts.addresses, "preflight: the target is reached");
        if !for_files || interrupt.count() > 0 {
            return Ok(());
        }
        let fetch = Watched { fetch: &ByProbe::like(client), last: &last };
        destinations.check_answers(client, &asked.workload, &fetch, interrupt, facts)
    };
    let say = || {
        let what = format!("checking {} …", redaction::text(&last.url()).text);
        observer.event(&Event::Waiting { what });
    };
    let checked = waiting::saying_after(SILENCE_MAX, check, say);
    targets.clone_from(&facts.addresses);
    let after = since.elapsed();
    match &checked {
        Ok(()) if !for_files => {}
        Ok(()) => info!(?after, server = facts.server, "preflight: the target answers as it should"),
        Err(error) => warn!(?after, %error, "preflight: the target does not answer as it should"),
    }
    go_on(interrupt)?;
    checked?;
    asked.warnings.append(&mut facts.warnings);
    Ok(())
}

/// What makes the load, and what watches the server elsewhere.
struct LoadReady {
    generator: Box<dyn LoadGenerator>,
    /// Which host makes which share of the load, if several do.
    dealt: Option<String>,
    generators: Vec<GeneratorRecord>,
    agents: ServerAgents,
    described: Described,
}

fn stand_by(
    asked: &mut RunBrief,
    site: &mut RunSite,
    served: &Served,
    options: &RunnerOptions,
    observer: &mut dyn Observer,
    interrupt: &Interrupt,
    compile: Compile<'_>,
) -> Result<LoadReady, RunError> {
    let (mut dealt, mut generators) = (None, Vec::new());
    let generator = if asked.effective.generators.is_empty() {
        compile(&asked.effective, &asked.workload)?
    } else {
        observer.event(&preparing("starting the agents on the generators' hosts"));
        let boot = environment::boot(&site.root).filter(|_| asked.is_ours() || site.facts.this_host);
        let setting = fleet::Setting {
            tool: &options.tool,
            // Each host places its workers itself.
            spec: &RunSpec { generator: asked.spec.generator.clone(), ..asked.effective.clone() },
            workload: &asked.workload,
            server: boot.map(|boot| (boot, site.placement.server.clone())),
            is_loopback: !served.targets.is_empty() && served.targets.iter().all(|it| it.ip().is_loopback()),
            check_files: options.asks_for_files() && asked.is_asked_elsewhere(),
        };
        let fleet =
            fleet::start(&setting, interrupt, &mut |what| observer.event(&Event::Preparing { what }))?;
        asked.warnings.extend_from_slice(&fleet.warnings);
        if asked.is_asked_elsewhere() {
            // The load goes where the hosts see the target, whatever its name means here.
            site.facts.addresses.clone_from(&fleet.addresses);
            site.facts.server.clone_from(&fleet.server);
            site.facts.offers_http3.clone_from(&fleet.offers_http3);
            site.facts.coded.clone_from(&fleet.coded);
        }
        (dealt, generators) = (Some(fleet.plan_in_words.clone()), fleet.records.clone());
        Box::new(fleet) as Box<dyn LoadGenerator>
    };
    let (agents, mut described) = watch_server(
        &asked.spec.server.agents,
        &options.tool.version,
        &site.facts.addresses,
        asked.spec.client.http,
        observer,
        interrupt,
    )?;
    asked.warnings.append(&mut described.warnings);
    Ok(LoadReady { generator, dealt, generators, agents, described })
}

/// Starts the agents that watch a server on its hosts.
pub(crate) fn watch_server(
    commands: &[String],
    version: &str,
    addresses: &BTreeSet<SocketAddr>,
    http: HttpVersion,
    observer: &mut dyn Observer,
    interrupt: &Interrupt,
) -> Result<(ServerAgents, Described), RunError> {
    match commands.len() {
        0 => {}
        1 => observer.event(&preparing("starting the agent on the server's host")),
        _ => observer.event(&preparing("starting the agents on the server's hosts")),
    }
    let started = waiting::saying_after(
        waiting::AGENT_SILENCE,
        || {
            let over_udp = http == HttpVersion::Http3;
            ServerAgents::start(commands, version, addresses, over_udp, interrupt)
        },
        || {
            let commands: Vec<&str> = commands.iter().map(String::as_str).collect();
            let whose =
                if commands.len() == 1 { "the server's host" } else { "the first host of the server" };
            observer.event(&preparing(&waiting::for_agents(whose, &commands)));
        },
    );
    go_on(interrupt)?;
    Ok(started?)
}

/// The record of a run that has measured nothing yet. It has the specification and the workload without secrets; the engine has them
/// as they were given.
fn record(
    asked: &RunBrief,
    site: &RunSite,
    served: &Served,
    mut generators: Vec<GeneratorRecord>,
    mut described: Described,
    options: &RunnerOptions,
    started: SystemTime,
) -> RunRecord {
    let server = served.server.as_ref();
    let subject = Subject {
        tool: &options.tool,
        target_is_this_host: site.facts.this_host,
        addresses: &site.facts.addresses,
        configuration: [&asked.configuration[..], server.map_or(&[], |server| &server.configuration[..])]
            .concat(),
        server: server.map(|server| server.facts.clone()).unwrap_or_default(),
        server_hosts: described.hosts,
    };
    let mut environment = environment::gather(&site.root, subject);
    environment.insert(STAYS_AWAKE.to_owned(), asked.effective.generator.spin.into());
    if !generators.is_empty() {
        redaction::generators(&mut generators);
        // For the rule that all hosts ran the same program.
        environment.extend(fleet::program_sha256().map(|sum| ("tool.program_sha256".to_owned(), sum.into())));
    }
    redaction::server_agents(&mut described.records);
    let mut workload = asked.workload.clone();
    redaction::workload(&mut workload);
    let kept =
        |sample: &CodedSample| CodedSample { url: redaction::text(&sample.url).text, ..sample.clone() };
    let origin = server.map_or(&site.found.origin, |server| &server.origin).as_ref();
    RunRecord {
        schema: SCHEMA_VERSION,
        generators,
        earlier_speeds: speeds::earlier(options.speeds.as_deref(), &environment, &options.tool),
        environment: calibrate::with_calibration(environment, options.calibration.as_deref(), &options.tool),
        tool: options.tool.clone(),
        started_at: clock::rfc3339(started),
        command_line: redaction::command_line(&options.command_line),
        series: options.series.clone(),
        workload_sha256: workload.sha256(),
        workload,
        target: TargetRecord {
            url: redaction::text(&asked.effective.target.join(" ")).text,
            server: site.facts.server.clone(),
            http: site.facts.http.as_ref().map(|why| redaction::text(why).text),
            offers_http3: site.facts.offers_http3.clone(),
            coded: site.facts.coded.iter().map(kept).collect(),
            embedded: asked.is_embedded(),
            cpus: site.placement.server.clone(),
            software: server.and_then(|server| server.software.clone()),
            agents: described.records,
            origin: origin.map(|origin| origin.record.clone()),
        },
        warnings: asked.warnings.iter().map(|warning| redaction::text(warning).text).collect(),
        spec: redaction::spec(&asked.spec),
        ..RunRecord::default()
    }
}

/// Raises what may be raised and returns what the user should know. What cannot work is an error.
pub(crate) fn foresee(load: &Load, root: &Root) -> Result<Vec<String>, RunError> {
    let mut notes = Vec::new();
    let raised = limits::raise_descriptors(load.descriptors());
    if raised.to > raised.from {
        notes.push(format!("the limit of open files was raised from {} to {}", raised.from, raised.to));
    }
    for shortage in shortages(load, &limits::read(root)) {
        if shortage.severity == Severity::Certain {
            return Err(RunError::Shortage(shortage));
        }
        notes.push(format!("{shortage}; to be sure: {}", shortage.remedy));
    }
    Ok(notes)
}

/// Bytes of all distinct files of a workload.
pub(super) fn fileset_bytes(workload: &Workload) -> u64 {
    let files = workload.pages.iter().flat_map(|page| &page.files);
    let sizes: HashMap<&str, u64> = files.filter_map(|file| Some((&*file.url, file.size?))).collect();
    sizes.values().sum()
}

#[cfg(test)]
mod tests {
    use super::expected;

    #[test]
    fn what_others_use_is_told_as_what_it_does_to_rates() {
        assert_eq!(expected(0.5, true), "NOISY figures, with rates up to about 23 % too low");
        // At equal priority they also take half of each CPU that they meet the test on: 1.3 / 0.75.
        assert_eq!(expected(0.5, false), "NOISY figures, with rates up to about 42 % too low");
        assert_eq!(expected(1.0, true), "NOISY figures, with rates up to about 38 % too low");
        assert_eq!(expected(1.0, false), "INCONCLUSIVE figures");
    }
}
