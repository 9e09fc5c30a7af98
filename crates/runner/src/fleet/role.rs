//! An agent that makes load: it does on its host, step by step as the controller says, what a run does that makes its own load.

use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, SyncSender, channel, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use sha2::{Digest, Sha256};
use tracing::{info, warn};
use webstone_engine::{
    Control, InstantError, LevelJob, LevelOutcome, Opening, Plan, Seats, run_level, slice_length_ns,
};
use webstone_lab::agent::load::{
    self, Arm, Beat, Described, Ended, FilesChecked, LoadAnswer, LoadAsk, Prepared,
};
use webstone_lab::agent::{LoadRole, Payload, Voice, WAITING_MAX};
use webstone_lab::cpus::cpu_list;
use webstone_lab::environment;
use webstone_lab::fetch::ByProbe;
use webstone_lab::host_use::links_towards;
use webstone_lab::interrupt::Interrupt;
use webstone_lab::machine::{Root, allowed_cpus, cpus};
use webstone_lab::thread_share::ThreadShare;
use webstone_lab::window::{Watched, Window};
use webstone_measure::strict;
use webstone_model::event::Phase;
use webstone_model::powers::Power;
use webstone_model::record::{HostUse, Tool};
use webstone_model::spec::RunSpec;
use webstone_store::clock::since_epoch;
use webstone_workload::Workload;

use super::carried::{Unpacked, refusal, unpack};
use super::own_slices::OwnSlices;
use crate::calibrate::{stored, with_calibration};
use crate::generator::looked_for;
use crate::order::Step;
use crate::placement::{ServerPlace, place};
use crate::preflight::needs::Load;
use crate::preflight::target::{Destinations, TargetError, TargetFacts};
use crate::record_all::RecordAll;
use crate::run::foresee;
use crate::sweep::{QUEUE, ports};

/// Between two looks at a running level: each takes CPU time from its load.
const LOOK: Duration = Duration::from_millis(250);
/// The same before its window opens, and where it closes.
const CLOSE_LOOK: Duration = Duration::from_millis(4);
/// Between two signs of life while a level lasts.
const BEAT: Duration = Duration::from_secs(1);
/// A controller may not ask for shorter slices.
const SLICE_NS_MIN: u64 = 100_000_000;
/// Most bytes of the distribution of response times in a sign of life: with all other messages, a host needs less than 2 kB per
/// second.
const BEAT_RESPONSE_BYTES_MAX: usize = 1_200;
/// What the names of the engine's threads begin with.
const WORKERS: &str = "worker-";

/// Makes the role. `tool` is this program, `calibration` the file that holds this host's; controllers may use the powers `allowed`
/// besides making load.
pub fn role(
    tool: Tool,
    calibration: Option<PathBuf>,
    allowed: Vec<Power>,
) -> impl FnOnce(Voice) -> Box<dyn LoadRole> + Send + 'static {
    move |voice| {
        let (sender, asks) = sync_channel(WAITING_MAX);
        let running = Arc::new(Mutex::new(Running::default()));
        let running_too = Arc::clone(&running);
        let maker = Maker { voice, tool, calibration, allowed, running: running_too, ready: None };
        std::thread::spawn(move || maker.serve(&asks));
        Box::new(Role { asks: sender, running })
    }
}

/// Messages about the level that runs act on it at once; the others wait for their turn.
struct Role {
    asks: SyncSender<(u64, LoadAsk, Vec<u8>)>,
    running: Arc<Mutex<Running>>,
}

/// The level that is being made.
#[derive(Default)]
struct Running {
    level: Option<(u64, Arc<Control>)>,
    /// Levels up to this number were ended before they began.
    ended: u64,
}

impl LoadRole for Role {
    fn asked(&mut self, number: u64, ask: LoadAsk, payload: Vec<u8>) {
        let mut running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        let control =
            running.level.as_ref().filter(|(of, _)| *of == number).map(|(_, control)| Arc::clone(control));
        let is_end = matches!(ask, LoadAsk::End | LoadAsk::Abort);
        if is_end {
            running.ended = running.ended.max(number);
        }
        drop(running);
        match (ask, control) {
            (LoadAsk::End, Some(control)) => control.end_window(),
            (LoadAsk::Abort, Some(control)) => control.abort(),
            (LoadAsk::End | LoadAsk::Abort, None) => {}
            // Where the other thread has gone, the stream ends as well.
            (ask, _) => drop(self.asks.send((number, ask, payload))),
        }
    }
}

/// Everything that levels are made of.
struct Ready {
    spec: RunSpec,
    workload: Workload,
    destinations: Destinations,
    plan: Arc<Plan>,
    links: BTreeSet<String>,
    addresses: BTreeSet<SocketAddr>,
    here: bool,
    /// The file of this host's transactions.
    record_all: Mutex<Option<RecordAll>>,
    _files: Unpacked,
}

struct Maker {
    voice: Voice,
    tool: Tool,
    calibration: Option<PathBuf>,
    allowed: Vec<Power>,
    running: Arc<Mutex<Running>>,
    ready: Option<Ready>,
}

impl Maker {
    fn serve(mut self, asks: &Receiver<(u64, LoadAsk, Vec<u8>)>) {
        while let Ok((number, ask, payload)) = asks.recv() {
            let said = match ask {
                LoadAsk::Describe => Ok((LoadAnswer::Described(Box::new(self.described())), Vec::new())),
                LoadAsk::Prepare(announced) => self.prepare(&announced, payload),
                LoadAsk::CheckFiles => self.check_files(),
                LoadAsk::Arm(arm) => self.level(number, arm, asks),
                LoadAsk::Go(_) | LoadAsk::Open(_) => continue,
                LoadAsk::Judge(_) | LoadAsk::Settle(_) | LoadAsk::End | LoadAsk::Abort => continue,
            };
            let (answer, payload) = said.unwrap_or_else(|why| {
                warn!(number, why, "cannot make load");
                (LoadAnswer::Failed(why), Vec::new())
            });
            if self.voice.say(number, answer, &payload).is_err() {
                return;
            }
        }
    }

    fn described(&self) -> Described {
        let known = environment::identifying(&Root::default());
        let calibration = stored(self.calibration.as_deref(), &known, &self.tool);
        Described { calibration: calibration.map(|it| it.map(|it| it.made_at)), ..described(&self.tool) }
    }

    fn check_files(&self) -> Said {
        let Ready { spec, workload, destinations, .. } = self.ready.as_ref().ok_or("nothing is prepared")?;
        let mut facts = TargetFacts::default();
        // Nobody interrupts an agent: one that is no longer wanted is killed, or loses its stream.
        let (fetch, interrupt) = (ByProbe::like(&spec.client), Interrupt::default());
        let checked = destinations.check_answers(&spec.client, workload, &fetch, &interrupt, &mut facts);
        if let Err(error) = checked {
            return Ok(no_target(error));
        }
        let TargetFacts { server, offers_http3, coded, warnings, .. } = facts;
        let checked = FilesChecked { server, offers_http3, coded, warnings };
        Ok((LoadAnswer::FilesChecked(Box::new(checked)), Vec::new()))
    }

    fn prepare(&mut self, announced: &Payload, payload: Vec<u8>) -> Said {
        self.ready = None;
        let bytes = announced.check("the plan", payload).map_err(|error| error.to_string())?;
        let plan: load::Plan =
            strict::json(&bytes).map_err(|error| format!("cannot read the plan: {error}"))?;
        if let Some(refusal) = refusal(&plan, &self.allowed) {
            return Err(refusal);
        }
        let load::Plan { mut spec, workload, server, files, again } = plan;
        let files =
            unpack(&files, &mut spec).map_err(|error| format!("cannot keep the plan's files: {error}"))?;
        let root = Root::default();
        let located = Destinations::of_spec(&spec, &workload).and_then(|found| Ok((found.locate()?, found)));
        let (mut facts, destinations) = match located {
            Ok(located) => located,
            Err(error) => return Ok(no_target(error)),
        };
        let same_machine = server.filter(|(boot, _)| environment::boot(&root).as_ref() == Some(boot));
        let mut at = ServerPlace::Elsewhere;
        if let Some((_, taken)) = same_machine.filter(|_| spec.generator.cpus.is_empty()) {
            let left: Vec<u32> = allowed_cpus(&root).into_iter().filter(|cpu| !taken.contains(cpu)).collect();
            match taken.is_empty() || left.is_empty() {
                // It may run on any CPU.
                true => at = ServerPlace::ThisHost,
                false => spec.generator.cpus = cpu_list(&left),
            }
        }
        let placed = place(&cpus(&root), at, &spec.generator, &spec.server, &[]);
        let placement = placed.map_err(|error| format!("{error}; {}", error.hint()))?;
        spec.generator.workers = placement.workers;
        spec.generator.cpus = cpu_list(&placement.workers_cpus);
        let said = match destinations.reach(&mut spec.client, &mut facts) {
            Ok(said) => said,
            Err(error) => return Ok(no_target(error)),
        };
        let plan = Plan::compile(&spec.task(), &workload).map_err(|error| error.to_string())?;
        let record_all = spec.generator.record_all.as_deref().map(|path| match again {
            true => RecordAll::append(path.as_ref()),
            false => RecordAll::create(path.as_ref()),
        });
        let record_all = record_all.transpose().map_err(|error| format!("{error}; {}", error.hint()))?;
        let towards: BTreeSet<IpAddr> = facts.addresses.iter().map(|address| address.ip()).collect();
        let prepared = Prepared {
            cpus: placement.workers_cpus,
            workers: placement.workers,
            has_server: facts.this_host,
            addresses: facts.addresses.clone(),
            environment: with_calibration(
                environment::of_host(&root, &towards, facts.this_host),
                self.calibration.as_deref(),
                &self.tool,
            ),
            warnings: [placement.warnings, said].concat(),
        };
        self.ready = Some(Ready {
            links: links_towards(&root, towards, facts.this_host),
            addresses: facts.addresses,
            here: facts.this_host,
            spec,
            workload,
            destinations,
            plan: Arc::new(plan),
            record_all: Mutex::new(record_all),
            _files: files,
        });
        Ok((LoadAnswer::Prepared(Box::new(prepared)), Vec::new()))
    }

    /// Makes this host's part of a level, from its arming to its result.
    fn level(&self, number: u64, arm: Arm, asks: &Receiver<(u64, LoadAsk, Vec<u8>)>) -> Said {
        let ready = self.ready.as_ref().ok_or("a level came before the plan")?;
        let Arm { clients, rate, first, each, workers, of, iteration, slice_ns } = arm;
        // A level of few clients needs fewer.
        if workers > ready.spec.generator.workers {
            let own = ready.spec.generator.workers;
            return Err(format!("a level is for {workers} workers, but this host has {own}"));
        }
        let planned_ns = ready.spec.load.duration.0;
        if slice_ns > 0 && (planned_ns == 0 || slice_ns < slice_length_ns(SLICE_NS_MIN, planned_ns)) {
            return Err(format!("slices of {slice_ns} ns in a window of {planned_ns} ns would be too many"));
        }
        let seats = Seats { first, each, workers, of };
        let mut record_all = ready.record_all.lock().unwrap_or_else(PoisonError::into_inner);
        let (transactions, batches) = match record_all.is_some() {
            true => Some(sync_channel(QUEUE)).unzip(),
            false => (None, None),
        };
        let job = LevelJob {
            rate,
            seats,
            opening: Opening::Agreed,
            transactions,
            slice_ns,
            ..LevelJob::new(Arc::clone(&ready.plan), clients)
        };
        let here = job.clients_here();
        ready.raise_limits(here.len() as u32)?;
        let disturbance = looked_for(&ready.spec);
        let control = Control::new();
        {
            let mut running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
            running.level = Some((number, Arc::clone(&control)));
            if running.ended >= number {
                control.abort();
            }
        }
        let mut window = Window::before(Watched {
            server: None,
            origin: None,
            from_start: ready.plan_has_no_warmup(),
            links: &ready.links,
            cpus: Vec::new(),
            targets: &ready.addresses,
            listening: ports(&ready.addresses, ready.here, ready.spec.client.http),
            path: None,
            echoes: Vec::new(),
        });
        let mut slices = (slice_ns > 0).then(|| OwnSlices::new(&self.voice, number, slice_ns));
        let outcome = std::thread::scope(|scope| {
            let (done, is_done) = channel();
            let engine = &control;
            if let (Some(record_all), Some(batches)) = (record_all.as_mut(), batches) {
                let step = Step { clients, rate, iteration, arm: None };
                scope.spawn(move || record_all.drain(step, batches));
            }
            // The receiver waits for as long as the thread runs, so sending cannot fail; the writer ends with the job.
            scope.spawn(move || drop(done.send(run_level(&job, engine))));
            self.watch(number, &control, (&mut window, &mut slices), asks, &is_done)
        });
        self.running.lock().unwrap_or_else(PoisonError::into_inner).level = None;
        let LevelOutcome { mut measured, sliced, opened_at, opened_ns, interrupted, .. } =
            outcome?.map_err(|error| error.to_string())?;
        let mut kept = None;
        if let (Some(slices), Some(sliced)) = (slices, sliced) {
            (measured, kept) = slices.settle(sliced, &mut window, asks)?;
        }
        if let Some(record_all) = record_all.as_mut() {
            record_all.checked().map_err(|error| error.to_string())?;
        }
        let mut used = window.used();
        if let Some(kept) = kept {
            kept.limit(&mut used);
        }
        let opening_delay_ns = opened_ns.map_or(0, |opened_ns| used.read_ns.saturating_sub(opened_ns));
        let host = HostUse { disturbance, opening_delay_ns, ..used.host };
        let payload = measured.to_wire();
        let ended = Ended {
            measured: Payload::from_bytes(&payload),
            opened_ns: opened_ns.unwrap_or_default(),
            opened_at_unix_ns: opened_ns.map_or(0, |_| since_epoch(opened_at).as_nanos() as u64),
            interrupted,
            first_client: here.start,
            host,
        };
        Ok((LoadAnswer::Ended(Box::new(ended)), payload))
    }

    /// Watches a level to its end, and passes on the instants that the controller sets.
    fn watch<T>(
        &self,
        number: u64,
        control: &Control,
        (window, slices): (&mut Window<'_>, &mut Option<OwnSlices<'_>>),
        asks: &Receiver<(u64, LoadAsk, Vec<u8>)>,
        is_done: &Receiver<T>,
    ) -> Result<T, String> {
        let say = |answer| self.voice.say(number, answer, &[]).map_err(|error| error.to_string());
        let (mut is_armed, mut is_warm, mut beat) = (false, false, Instant::now());
        let mut workers = ThreadShare::of_threads(WORKERS);
        let mut late = None;
        loop {
            let phase = control.phase();
            if let Some(left) = control.opens_in() {
                window.opens_in(left);
            }
            window.look(phase);
            let has_slices = matches!(phase, Phase::Measuring | Phase::Draining);
            let until_slice = match slices.as_mut().filter(|_| has_slices) {
                Some(slices) => slices.look(control, window)?,
                None => None,
            };
            let patience = self.patience(control, phase).min(until_slice.unwrap_or(Duration::MAX));
            if let Ok(result) = is_done.recv_timeout(patience) {
                window.look(Phase::Done);
                return match late {
                    None => Ok(result),
                    Some(by_ns) => {
                        say(LoadAnswer::Late(by_ns))?;
                        Ok(result)
                    }
                };
            }
            if !is_armed && control.is_armed() {
                is_armed = true;
                say(LoadAnswer::Armed)?;
            }
            if !is_warm && control.is_warm() {
                is_warm = true;
                say(LoadAnswer::Warm)?;
            }
            while let Ok((of, ask, _)) = asks.try_recv() {
                let taken = match ask {
                    LoadAsk::Go(at_ns) if of == number => control.go_at(at_ns),
                    LoadAsk::Open(at_ns) if of == number => control.open_at(at_ns),
                    LoadAsk::Judge(keep) if of == number => {
                        control.judge_slice(keep);
                        slices.iter_mut().for_each(|slices| slices.judged(keep));
                        continue;
                    }
                    LoadAsk::Settle(all) if of == number => {
                        slices.iter_mut().for_each(|slices| slices.settled(all));
                        continue;
                    }
                    _ => continue,
                };
                match taken {
                    Err(InstantError::Late { by_ns, .. }) => {
                        late = Some(by_ns);
                        control.abort();
                    }
                    Err(error) => {
                        info!(number, %error, "an instant was not taken");
                        control.abort();
                    }
                    Ok(()) => {}
                }
            }
            if beat.elapsed() >= BEAT {
                beat = Instant::now();
                say(LoadAnswer::Beat(Box::new(beat_of(control, workers.busiest()))))?;
            }
        }
    }

    /// How long to wait: nothing that must be seen at once can happen meanwhile.
    fn patience(&self, control: &Control, phase: Phase) -> Duration {
        let duration =
            self.ready.as_ref().map_or(Duration::ZERO, |ready| ready.spec.load.duration.as_duration());
        match phase {
            Phase::Starting | Phase::WarmUp => CLOSE_LOOK,
            Phase::Measuring => {
                let elapsed = Duration::from_nanos(control.live().elapsed_ns);
                LOOK.min(duration.saturating_sub(elapsed)).max(CLOSE_LOOK)
            }
            Phase::Draining | Phase::Done => LOOK,
        }
    }
}

impl Ready {
    fn plan_has_no_warmup(&self) -> bool {
        self.spec.load.warmup.0 == 0
    }

    /// Raises what this host's clients need raised.
    fn raise_limits(&self, clients: u32) -> Result<(), String> {
        let mut spec = self.spec.clone();
        spec.load.clients.0 = vec![clients.max(1)];
        let destinations = self.addresses.len().max(1) as u64;
        let load = Load::of_spec(&spec, self.workload.pages.len() as u64, destinations, self.here);
        match foresee(&load, &Root::default()) {
            Ok(notes) => {
                info!(clients, ?notes, "resources of this host");
                Ok(())
            }
            Err(error) => Err(error.hint().map_or(error.to_string(), |hint| format!("{error}; {hint}"))),
        }
    }
}

fn beat_of(control: &Control, busiest_worker: Option<f64>) -> Beat {
    let live = control.live();
    let response = live.response.map(|_| control.live_response().to_base64_within(BEAT_RESPONSE_BYTES_MAX));
    Beat { live, response, busiest_worker }
}

/// An answer with its payload, or why there is none.
type Said = Result<(LoadAnswer, Vec<u8>), String>;

fn no_target(error: TargetError) -> (LoadAnswer, Vec<u8>) {
    (LoadAnswer::NoTarget { what: error.what, hint: error.hint }, Vec::new())
}

/// This host, and the program that runs here.
fn described(tool: &Tool) -> Described {
    let root = Root::default();
    Described {
        name: root.text("/proc/sys/kernel/hostname").unwrap_or_default(),
        version: version(tool),
        program_sha256: program_sha256().unwrap_or_default(),
        boot: environment::boot(&root),
        cpus: allowed_cpus(&root),
        calibration: None,
    }
}

/// A version with the commit that it was built from.
pub(super) fn version(tool: &Tool) -> String {
    let commit = tool.commit.as_ref().map(|commit| format!(" ({commit})")).unwrap_or_default();
    format!("{}{commit}", tool.version)
}

/// SHA-256 of the program that runs here, in hex.
pub(crate) fn program_sha256() -> Option<String> {
    let mut program = std::fs::File::open("/proc/self/exe").ok()?;
    let mut sum = Sha256::new();
    std::io::copy(&mut program, &mut sum).ok()?;
    Some(sum.finalize().iter().map(|byte| format!("{byte:02x}")).collect())
}
