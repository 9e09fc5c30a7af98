//! Brings the hosts of a fleet up, before any load: starts their agents, sees that each is who it should be, and has each prepare
//! its part. A run has all of its hosts, or does not begin.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel, sync_channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use tracing::info;
use webstone_lab::agent::load::{Described, FilesChecked, LoadAnswer, LoadAsk, Plan, Prepared};
use webstone_lab::agent::{AgentError, Heard, Payload};
use webstone_lab::environment;
use webstone_lab::interrupt::Interrupt;
use webstone_lab::machine::Root;
use webstone_measure::strict;
use webstone_measure::units::Nanos;
use webstone_model::generators::{ClockOffset, GeneratorHost, GeneratorRecord};
use webstone_model::kubernetes::PodRecord;
use webstone_model::powers::{self, Power};
use webstone_model::record::Tool;
use webstone_model::spec::RunSpec;
use webstone_workload::Workload;

use super::course::Times;
use super::deal::{by_clients, in_words, weigh};
use super::fleet_error::FleetError;
use super::member::{AgentStream, Member, Members, Pinger, WAITING_MAX, lock};
use super::notes::{apart, gathered, own_network, without_distributions};
use super::pods::{Launch, launches};
use super::{Fleet, at_once, carried, role};

/// How long an agent may take to start: a login.
const GREETING_PATIENCE: Duration = Duration::from_secs(30);
/// How long it may take to describe its host and to prepare its part: it reads its own program, and reaches the target.
const ANSWER_PATIENCE: Duration = Duration::from_secs(60);
/// Most answers of the target that the check of its files waits for, one after another: one per file and per host, and some to
/// spare.
const REQUESTS_IN_TURN_MAX: u32 = 100;
/// Messages of an agent that answer nothing, after which it is given up.
const UNASKED_MAX: usize = 100;
/// How long a level that only pages end may take.
const PAGES_PATIENCE: Duration = Duration::from_secs(7 * 24 * 3_600);
/// How often waiting checks for an interruption.
const POLL: Duration = Duration::from_millis(50);

/// What a fleet is started for.
pub(crate) struct Setting<'a> {
    pub(crate) tool: &'a Tool,
    /// The specification, completed, with the target's address.
    pub(crate) spec: &'a RunSpec,
    pub(crate) workload: &'a Workload,
    /// The boot of the machine that the server runs on, and its CPUs there, where that is this machine.
    pub(crate) server: Option<(String, Vec<u32>)>,
    /// Whether every address of the target is a loopback's.
    pub(crate) is_loopback: bool,
    /// Whether the first host asks the target for the workload's files.
    pub(crate) check_files: bool,
}

/// Allows the agent of a pod what the run needs: its command line is made here.
fn allow(spec: &RunSpec, launch: &mut Launch) {
    for asked in powers::asked(&carried::of_hosts(spec)) {
        if Power::ALLOWED_BY_AGENTS.contains(&asked.power) {
            launch.command.push_str(&format!(" --allow {}", asked.power.name()));
        }
    }
}

/// Starts every host of the specification.
///
/// # Errors
/// If one of them is not available. `tell` hears what is waited for.
pub(crate) fn start(
    setting: &Setting<'_>,
    interrupt: &Interrupt,
    tell: &mut dyn FnMut(String),
) -> Result<Fleet, FleetError> {
    let Setting { tool, spec, workload, server, is_loopback, check_files } = setting;
    let files = carried::pack(spec).map_err(|(path, error)| FleetError::Refused {
        what: format!("{path}: {error}"),
        hint: "generators get a copy of it: name a file that can be read here".to_owned(),
    })?;
    let plan = Plan {
        spec: carried::of_hosts(spec),
        workload: (*workload).clone(),
        server: server.clone(),
        files,
        again: false,
    };
    let plan = serde_json::to_vec(&plan).map_err(|error| FleetError::Refused {
        what: format!("the plan cannot be sent: {error}"),
        hint: "please report this".to_owned(),
    })?;
    let mut launches = launches(&spec.generators, interrupt, tell)?;
    launches.iter_mut().filter(|launch| launch.pod.is_some()).for_each(|launch| allow(spec, launch));
    let (version, (ring, bell)) = (role::version(tool), channel());
    let begin = Begin {
        version: &version,
        tool_version: &tool.version,
        plan: &plan,
        parts: launches.len(),
        is_loopback: *is_loopback,
        again: false,
        interrupt,
    };
    let (mut hosts, mut notes) = (Vec::new(), Vec::new());
    let mut addresses = BTreeSet::new();
    // The first agents to be ready must not take the wait for the others for a controller that has gone.
    let links = Arc::new(Mutex::new(Vec::new()));
    let pinger = Pinger::start(Arc::clone(&links));
    let there = Mutex::new(BTreeSet::new());
    let one = |place: usize, launch: &Launch, ring: Sender<usize>| {
        begin.member(place, launch, ring, |link| {
            lock(&links).push(link);
            lock(&there).insert(place);
        })
    };
    for member in at_once::each(&launches, &ring, &one, &there, tell) {
        let (member, ready) = member?;
        notes.extend(ready.warnings.into_iter().map(|note| (hosts.len() as u32 + 1, note)));
        addresses.extend(ready.addresses);
        hosts.push(member);
    }
    let answered = match hosts.first().filter(|_| *check_files) {
        Some(first) => {
            tell("asking the target for its files, from generator 1".to_owned());
            // Each of the target's answers may take its whole timeout.
            let patience = ANSWER_PATIENCE + spec.client.request_timeout.as_duration() * REQUESTS_IN_TURN_MAX;
            begin.files_checked(1, first, patience)?
        }
        None => FilesChecked::default(),
    };
    notes.extend(own_network(&hosts));
    let mut warnings = gathered(&notes);
    warnings.extend(answered.warnings);
    warnings.extend(apart(&hosts)?);
    warnings.extend(without_distributions(hosts.len()));
    let records: Vec<GeneratorRecord> = hosts.iter().map(|host: &Member| host.record.clone()).collect();
    let clients: Option<Vec<u32>> = hosts.iter().map(|host| host.launch.asked.clients).collect();
    let slots = match &clients {
        Some(clients) => by_clients(&records, clients),
        None => weigh(&records, spec.client.connections),
    };
    let plan_in_words = in_words(&records, &slots, clients.is_some());
    hosts.iter_mut().zip(&slots).for_each(|(host, slots)| host.record.slots = *slots);
    // In the order of the hosts, so that one that is started again takes its own place.
    *lock(&links) = hosts.iter().map(|host| Arc::clone(&host.link)).collect();
    let load = &spec.load;
    let times = Times {
        warmup: load.warmup.as_duration(),
        // Pages alone end a level when they are fetched.
        duration: if load.duration == Nanos::ZERO { PAGES_PATIENCE } else { load.duration.as_duration() },
        drain: load.drain.as_duration(),
    };
    let records = hosts.iter().map(|host: &Member| host.record.clone()).collect();
    let members = Members {
        hosts,
        bell,
        ring,
        links: Arc::clone(&links),
        plan,
        version,
        tool_version: tool.version.clone(),
        times,
        clients_per_connection: spec.client.clients_per_link(),
        is_dealt_by_clients: clients.is_some(),
        number: 0,
    };
    Ok(Fleet {
        members: Arc::new(Mutex::new(members)),
        records,
        warnings,
        plan_in_words,
        addresses,
        server: answered.server,
        offers_http3: answered.offers_http3,
        coded: answered.coded,
        _pinger: pinger,
    })
}

/// A host that could make load, as [`check`] finds it.
pub struct CheckedHost {
    /// The pod that its agent runs in, where Kubernetes started it.
    pub pod: Option<PodRecord>,
    /// What its agent says of it.
    pub described: Described,
    /// How its clock stands, if its agent echoes.
    pub clock: Option<ClockOffset>,
    /// The shortest round trip, in nanoseconds.
    pub round_trip_ns: u64,
}

/// Starts every host's agent, and has it describe the host: no load is made, and no server is needed.
///
/// # Errors
/// If pods cannot be found; what is wrong with a single host is in its place. `tell` hears what is waited for.
pub fn check(
    hosts: &[GeneratorHost],
    tool: &Tool,
    interrupt: &Interrupt,
    tell: &mut dyn FnMut(String),
) -> Result<Vec<Result<CheckedHost, FleetError>>, FleetError> {
    let version = role::version(tool);
    let launches = launches(hosts, interrupt, &mut |what| info!(what))?;
    let tool_version = &tool.version;
    let begin = Begin {
        version: &version,
        tool_version,
        plan: &[],
        parts: 1,
        is_loopback: false,
        again: false,
        interrupt,
    };
    let (ring, _bell) = channel();
    let there = Mutex::new(BTreeSet::new());
    let one = |place: usize, launch: &Launch, ring: Sender<usize>| {
        let (member, described) = begin.described(place, launch, ring)?;
        lock(&there).insert(place);
        member.link.echoes(interrupt);
        let (clock, round_trip_ns) = (member.link.clock(), member.link.round_trip_ns());
        Ok(CheckedHost { pod: launch.pod.clone(), described, clock, round_trip_ns })
    };
    Ok(at_once::each(&launches, &ring, &one, &there, tell))
}

/// What a host says when it is ready.
struct Ready {
    /// What the user should know.
    warnings: Vec<String>,
    /// Where the target is, seen from there.
    addresses: BTreeSet<SocketAddr>,
}

/// What is needed to start a host, or to start it again.
struct Begin<'a> {
    version: &'a str,
    tool_version: &'a str,
    plan: &'a [u8],
    /// Number of hosts that share what the plan has for all: local ports, files of transactions.
    parts: usize,
    /// The target is at addresses that no other machine can reach.
    is_loopback: bool,
    /// A host that was lost begins again.
    again: bool,
    interrupt: &'a Interrupt,
}

impl Members {
    /// Starts a host again that was lost.
    ///
    /// # Errors
    /// If it is no longer available, or is another than it was.
    pub(super) fn revive(&mut self, place: usize, interrupt: &Interrupt) -> Result<(), FleetError> {
        let old = &self.hosts[place];
        // The host was reached before, so this is not checked again.
        let begin = Begin {
            version: &self.version,
            tool_version: &self.tool_version,
            plan: &self.plan,
            parts: self.hosts.len(),
            is_loopback: false,
            again: true,
            interrupt,
        };
        info!(generator = place + 1, command = old.record.command, "is started again");
        let (mut new, _) = begin.member(place, &old.launch.clone(), self.ring.clone(), |_| ())?;
        new.record.slots = self.hosts[place].record.slots;
        let is_same =
            |of: &GeneratorRecord| (of.boot.clone(), of.program_sha256.clone(), of.workers, of.cpus.clone());
        if is_same(&new.record) != is_same(&self.hosts[place].record) {
            return Err(FleetError::Refused {
                what: format!("generator {} is another than it was before it was lost", place + 1),
                hint: "a run has the same hosts, programs and CPUs throughout: start it again".to_owned(),
            });
        }
        lock(&self.links)[place] = Arc::clone(&new.link);
        self.hosts[place] = new;
        Ok(())
    }
}

impl Begin<'_> {
    /// A host whose agent is there and has described it.
    fn described(
        &self,
        place: usize,
        launch: &Launch,
        ring: Sender<usize>,
    ) -> Result<(Member, Described), FleetError> {
        let number = place + 1;
        let failed = |source| FleetError::Agent { number, source };
        let (inbox_of, inbox) = sync_channel(WAITING_MAX);
        let link =
            AgentStream::start(&launch.command, self.tool_version, place, inbox_of, ring).map_err(failed)?;
        let member = Member {
            launch: launch.clone(),
            link,
            inbox,
            record: GeneratorRecord::default(),
            is_lost: false,
        };
        let greeting = match self.next(&member, GREETING_PATIENCE).map_err(failed_or(number))? {
            Heard::Greeted(greeting) => greeting,
            _ => return Err(failed(refused(&member, "answered before it greeted"))),
        };
        let agreed = member.link.with_agent(|agent| agent.greeted(&greeting));
        agreed.unwrap_or(Ok(())).map_err(failed)?;
        let described = match self.answer(&member, 1, LoadAsk::Describe, &[]).map_err(failed_or(number))? {
            LoadAnswer::Described(described) => *described,
            other => return Err(failed(refused(&member, &strange(&other)))),
        };
        self.is_same_build(number, &described)?;
        Ok((member, described))
    }

    /// A host that is ready to make its part. `there` gets its link as soon as its agent may miss signs of life.
    fn member(
        &self,
        place: usize,
        launch: &Launch,
        ring: Sender<usize>,
        there: impl FnOnce(Arc<AgentStream>),
    ) -> Result<(Member, Ready), FleetError> {
        let number = place + 1;
        let failed = |source| FleetError::Agent { number, source };
        let (mut member, described) = self.described(place, launch, ring)?;
        there(Arc::clone(&member.link));
        let is_elsewhere = described.boot.is_some() && described.boot != environment::boot(&Root::default());
        if self.is_loopback && is_elsewhere {
            return Err(FleetError::Refused {
                what: format!(
                    "generator {number} ({}) is another machine, which cannot reach a server at a loopback address",
                    described.name
                ),
                hint: "name the server by an address of its network; one that webstone starts takes it from \
                       --server-listen, as in --server-listen 192.0.2.1:0"
                    .to_owned(),
            });
        }
        let part = self.part_of_plan(place, &launch.asked)?;
        let plan = part.as_deref().unwrap_or(self.plan);
        let prepare = LoadAsk::Prepare(Payload::from_bytes(plan));
        let prepared = match self.answer(&member, 2, prepare, plan).map_err(failed_or(number))? {
            LoadAnswer::Prepared(prepared) => *prepared,
            LoadAnswer::NoTarget { what, hint } => {
                return Err(FleetError::Target { number, name: described.name, what, hint });
            }
            LoadAnswer::Failed(why) => {
                return Err(FleetError::Refused {
                    what: format!("generator {number} ({}) cannot make its part: {why}", described.name),
                    hint: "mend it there, or leave this host out".to_owned(),
                });
            }
            other => return Err(failed(refused(&member, &strange(&other)))),
        };
        member.link.echoes(self.interrupt);
        let ready = Ready { warnings: prepared.warnings.clone(), addresses: prepared.addresses.clone() };
        member.record = record(&member, described, prepared);
        info!(generator = number, name = member.record.name, workers = member.record.workers, "is ready");
        Ok((member, ready))
    }

    /// The plan of one host, if it differs from the others': by a part of the local ports (hosts may share an address), a file of
    /// transactions for itself, or an address of its own for the server.
    fn part_of_plan(&self, place: usize, asked: &GeneratorHost) -> Result<Option<Vec<u8>>, FleetError> {
        let refused = |what: String, hint: &str| FleetError::Refused { what, hint: hint.to_owned() };
        let not_json = |error| refused(format!("the plan cannot be split: {error}"), "please report this");
        let mut plan: Plan = strict::json(self.plan).map_err(not_json)?;
        let mut is_its_own = false;
        if let (Some(ports), true) = (plan.spec.client.source_ports, self.parts > 1) {
            plan.spec.client.source_ports = ports.part(place, self.parts);
            if plan.spec.client.source_ports.is_none() {
                let what = format!("client.source_ports: `{ports}` has fewer ports than there are hosts");
                return Err(refused(what, "give more ports, or use fewer generators"));
            }
            is_its_own = true;
        }
        if let Some(path) = &mut plan.spec.generator.record_all {
            path.push_str(&format!(".{}", asked.name.clone().unwrap_or_else(|| (place + 1).to_string())));
            plan.again = self.again;
            is_its_own = true;
        }
        if let Some(target) = &asked.target {
            plan.spec.target = vec![target.clone()];
            is_its_own = true;
        }
        let own = is_its_own.then(|| serde_json::to_vec(&plan));
        own.transpose().map_err(not_json)
    }

    /// Has a host that is ready ask the target for its files.
    fn files_checked(
        &self,
        number: usize,
        member: &Member,
        patience: Duration,
    ) -> Result<FilesChecked, FleetError> {
        let failed = |source| FleetError::Agent { number, source };
        match self.answer_within(patience, member, 3, LoadAsk::CheckFiles, &[]).map_err(failed_or(number))? {
            LoadAnswer::FilesChecked(checked) => Ok(*checked),
            LoadAnswer::NoTarget { what, hint } => {
                Err(FleetError::Target { number, name: member.record.name.clone(), what, hint })
            }
            other => Err(failed(refused(member, &strange(&other)))),
        }
    }

    fn is_same_build(&self, number: usize, described: &Described) -> Result<(), FleetError> {
        if described.version == self.version {
            return Ok(());
        }
        Err(FleetError::Refused {
            what: format!(
                "generator {number} ({}) runs webstone {}, but this is {}",
                described.name, described.version, self.version
            ),
            hint: "install the same build of webstone on all hosts".to_owned(),
        })
    }

    fn answer(
        &self,
        member: &Member,
        number: u64,
        ask: LoadAsk,
        payload: &[u8],
    ) -> Result<LoadAnswer, Option<AgentError>> {
        self.answer_within(ANSWER_PATIENCE, member, number, ask, payload)
    }

    fn answer_within(
        &self,
        patience: Duration,
        member: &Member,
        number: u64,
        ask: LoadAsk,
        payload: &[u8],
    ) -> Result<LoadAnswer, Option<AgentError>> {
        member.tell(number, ask, payload);
        for _ in 0..UNASKED_MAX {
            match self.next(member, patience)? {
                Heard::Said { number: of, answer, .. } if of == number => return Ok(answer),
                _ => {}
            }
        }
        Err(Some(refused(member, "broke the protocol: it says what nobody asked for")))
    }

    /// What comes next from an agent; the error is `None` on an interruption.
    fn next(&self, member: &Member, patience: Duration) -> Result<Heard, Option<AgentError>> {
        let until = Instant::now() + patience;
        loop {
            match member.inbox.recv_timeout(POLL) {
                Ok(Heard::Broken(gone)) => {
                    return Err(member.link.with_agent(|agent| agent.not_started(&gone)));
                }
                Ok(heard) => return Ok(heard),
                Err(RecvTimeoutError::Disconnected) => {
                    return Err(Some(refused(member, "ended")));
                }
                Err(RecvTimeoutError::Timeout) if self.interrupt.count() > 0 => {
                    member.link.with_agent(|agent| agent.hurry());
                    return Err(None);
                }
                Err(RecvTimeoutError::Timeout) if Instant::now() > until => {
                    return Err(Some(refused(
                        member,
                        &format!("did not answer within {} s", patience.as_secs()),
                    )));
                }
                Err(RecvTimeoutError::Timeout) => {}
            }
        }
    }
}

fn failed_or(number: usize) -> impl Fn(Option<AgentError>) -> FleetError {
    move |error| match error {
        Some(source) => FleetError::Agent { number, source },
        None => FleetError::Interrupted,
    }
}

fn refused(member: &Member, how: &str) -> AgentError {
    let error = member.link.with_agent(|agent| agent.refused(how.to_owned()));
    error.unwrap_or_else(|| AgentError::Command {
        key: "generators.agent",
        command: member.launch.command.clone(),
    })
}

fn strange(answer: &LoadAnswer) -> String {
    let text: String = format!("{answer:?}").chars().take(60).collect();
    format!("broke the protocol: it said {text}")
}

fn record(member: &Member, described: Described, prepared: Prepared) -> GeneratorRecord {
    let command = member.link.with_agent(|agent| agent.command.clone()).unwrap_or_default();
    GeneratorRecord {
        command,
        name: member.launch.asked.name.clone().unwrap_or(described.name),
        target: member.launch.asked.target.clone(),
        pod: member.launch.pod.clone(),
        version: described.version,
        program_sha256: described.program_sha256,
        boot: described.boot,
        cpus: prepared.cpus,
        workers: prepared.workers,
        slots: 1,
        has_server: Some(prepared.has_server),
        round_trip_ns_min: member.link.round_trip_ns(),
        environment: prepared.environment,
    }
}
