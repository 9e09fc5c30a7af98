//! Stress tests: well-behaved clients, which the engine drives and measures as in any run, and others that misbehave.
//! `misdeeds` has what those do, `http2` what it is in HTTP/2, `connection` what it goes over, `offenders` how many at a time, `state`
//! what the server's processes hold. What the answers mean is `webstone_judge::workout`'s.

mod connection;
mod http2;
mod misdeeds;
mod offenders;
mod state;

use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use webstone_engine::ProbeTls;
use webstone_judge::verdict::DISTURBANCE_NS_MIN;
use webstone_judge::workout::{Misdeed, Phase, PhaseRecord, Service, TIMED_RUNS_ALONE, Tally, Workout};
use webstone_measure::figures::Figures;
use webstone_measure::figures::distributions::Distribution;
use webstone_measure::metrics::{ClientTotals, fairness};
use webstone_measure::units::Nanos;
use webstone_model::record::{Disturbance, IterationRecord, RunRecord, Tool};
use webstone_model::spec::{ClientSpec, HttpVersion, RunSpec, ServerSpec};
use webstone_workload::Workload;
use webstone_workload::target::{Scheme, Target};

use crate::check::{check, for_workload};
use crate::observer::Silent;
use crate::placement::{ServerPlace, place};
use crate::run::{RunBrief, RunError, RunnerOptions, decide, look, resolve_workload, run, serve};
use crate::under_test;
use misdeeds::Scene;
use offenders::Offenders;
use webstone_lab::cpus::cpu_list;
use webstone_lab::endpoint::{TargetError, reach, resolve};
use webstone_lab::interrupt::Interrupt;
use webstone_lab::listeners::Ports;
use webstone_lab::machine::{Root, cpus};

/// Longest time for one misdeed: so long a slow one holds a server's connection.
const PATIENCE: Duration = Duration::from_secs(3);
/// Paths that misdeeds ask for, of a workload that may have a hundred thousand.
const PATHS_MAX: usize = 1000;

/// How to stress a server.
#[derive(Clone, Debug)]
pub struct WorkoutOptions {
    /// The program, as records name it.
    pub tool: Tool,
    /// Target or server, load and clients of the well-behaved: one level.
    pub spec: RunSpec,
    /// Misdeeds to choose from; at least one.
    pub misdeeds: Vec<Misdeed>,
    /// Connections that misbehave at a time.
    pub offenders: u32,
    /// Whether their number changes all the time.
    pub vary: bool,
    /// Phases among those that misbehave.
    pub rounds: u32,
    /// Whether the server is asked for its files beforehand.
    pub check_target: bool,
}

/// Runs it; `ended` is told each phase. What was measured until an interruption is given back.
///
/// # Errors
/// If the server cannot be started or reached before the first phase. What fails later is what the workout is about, and
/// stands in it.
pub fn workout(
    options: &WorkoutOptions,
    ended: &mut dyn FnMut(&PhaseRecord),
    interrupt: &Arc<Interrupt>,
) -> Result<Workout, RunError> {
    let root = Root::default();
    let mut spec = check(&options.spec.clone().into())?.spec;
    let workload = resolve_workload(&spec)?;
    for_workload(&mut spec, &workload)?;
    let server = match spec.target.is_empty() {
        true => {
            let placement = place(&cpus(&root), ServerPlace::Ours, &spec.generator, &spec.server, &[])?;
            let program = under_test::program()?;
            // Each phase is a run, which knows nothing of this server's CPUs.
            spec.generator.cpus = cpu_list(&placement.workers_cpus);
            let server = under_test::start(&spec, &workload, &placement, program, interrupt);
            if interrupt.count() > 0 {
                return Err(RunError::Interrupted);
            }
            Some(server?)
        }
        false => None,
    };
    if let Some(server) = &server {
        spec.target = std::iter::once(&server.url).chain(&server.secure_url).cloned().collect();
        server.trust(&mut spec.client.tls);
        spec.server = ServerSpec::default();
    }
    let (spec, workload) = decided(spec, workload, options.check_target, interrupt)?;
    let troubled = Troubled::of_spec(&spec)?;
    let ports = Ports::of_targets([troubled.address], spec.client.http);
    let (misdeeds, left_out) = troubled.possible(&options.misdeeds);
    if let (true, Some((misdeed, why))) = (misdeeds.is_empty() && options.offenders > 0, left_out.first()) {
        return Err(RunError::Refused {
            what: format!("--misdeeds {misdeed} cannot be done in HTTP/2: {why}"),
            hint: "ask for others, or give --http 1.1".to_owned(),
        });
    }
    if options.offenders > 0 {
        troubled.listens(spec.client.connect_timeout.as_duration())?;
    }
    let mut workout = Workout {
        target: troubled.target.to_string(),
        software: server.as_ref().and_then(|server| server.software.clone()),
        clients: spec.load.clients.0.first().copied().unwrap_or(1),
        offenders: options.offenders,
        vary: options.vary,
        speaks: troubled.speaks(),
        left_out,
        seed: spec.client.seed,
        phases: Vec::new(),
    };
    let during = (0..options.rounds).map(|_| Phase::During);
    let plan = [Phase::Before].into_iter().chain(during).chain([Phase::After]);
    for (number, phase) in plan.enumerate() {
        let offenders = match phase {
            Phase::During => {
                let scene = Scene {
                    address: troubled.address,
                    target: troubled.target.clone(),
                    tls: troubled.tls.clone(),
                    is_http2: troubled.is_http2,
                    paths: paths(&workload),
                    patience: PATIENCE,
                    stop: AtomicBool::new(false),
                };
                let seed = spec.client.seed.wrapping_add(number as u64);
                let started =
                    Offenders::start(Arc::new(scene), &misdeeds, options.offenders, options.vary, seed);
                Some(started.map_err(|error| RunError::Refused {
                    what: format!("{} offenders cannot be started: {error}", options.offenders),
                    hint: "ask for fewer: --offenders 16".to_owned(),
                })?)
            }
            Phase::Before | Phase::After => None,
        };
        let service = service(options, &divided(&spec, phase), &workload, phase, interrupt);
        let misdeeds: Vec<(Misdeed, Tally)> = offenders.map(Offenders::stop).unwrap_or_default();
        if interrupt.count() > 0 {
            break;
        }
        // A server that does not answer before anybody misbehaves cannot be tested.
        let service =
            if phase == Phase::Before { service? } else { service.unwrap_or_else(|error| failed(&error)) };
        let record = PhaseRecord { phase, service, misdeeds, state: state::settled(&root, &ports) };
        ended(&record);
        workout.phases.push(record);
    }
    Ok(workout)
}

/// The same clients with everything decided that the target decides: it is asked once, before anybody misbehaves.
fn decided(
    mut spec: RunSpec,
    workload: Workload,
    is_allowed: bool,
    interrupt: &Interrupt,
) -> Result<(RunSpec, Workload), RunError> {
    if spec.client.http != HttpVersion::Auto && spec.client.follow == 0 {
        return Ok((spec, workload));
    }
    let mut asked = RunBrief::read(spec.clone(), Some(workload))?;
    let mut site = look(&mut asked)?;
    let mut served = serve(&mut asked, &mut site, None, &mut Silent, interrupt)?;
    decide(&mut asked, &mut site.facts, &mut served, is_allowed, &mut Silent, interrupt)?;
    // Redirects are requests of the workload now.
    spec.client = ClientSpec { follow: 0, ..asked.effective.client };
    Ok((spec, asked.workload))
}

/// Alone, the well-behaved are measured in several timed runs that take as long as one among the others does.
fn divided(spec: &RunSpec, phase: Phase) -> RunSpec {
    let mut spec = spec.clone();
    spec.load.iterations = 1;
    if phase != Phase::During {
        spec.load.iterations = TIMED_RUNS_ALONE;
        spec.load.duration = Nanos(spec.load.duration.0.div_ceil(TIMED_RUNS_ALONE.into()));
        spec.load.pages = spec.load.pages.map(|pages| pages.div_ceil(TIMED_RUNS_ALONE.into()));
    }
    spec
}

/// One run of the well-behaved.
fn service(
    options: &WorkoutOptions,
    spec: &RunSpec,
    workload: &Workload,
    phase: Phase,
    interrupt: &Arc<Interrupt>,
) -> Result<Service, RunError> {
    let run_options = RunnerOptions {
        tool: options.tool.clone(),
        runs_dir: None,
        workload: Some(workload.clone()),
        check_target: options.check_target && phase == Phase::Before,
        ..RunnerOptions::default()
    };
    let outcome = run(spec.clone(), run_options, &mut Silent, Arc::clone(interrupt));
    match (outcome.record, outcome.error) {
        (_, Some(error)) => Err(error),
        (Some(record), None) => Ok(seen(&record)),
        (None, None) => Err(RunError::Interrupted),
    }
}

fn seen(record: &RunRecord) -> Service {
    let merged = IterationRecord::merged(&record.iterations.iter().collect::<Vec<_>>());
    let distribution =
        Distribution::of_all(&merged.histograms.response, &merged.unanswered.histograms.response);
    let at = |time_s: fn(&Distribution) -> f64| distribution.as_ref().map_or(0.0, time_s);
    Service {
        succeeded: merged.counts.succeeded,
        failed: merged.counts.failed,
        request_rate: Figures::of_measured(&merged).request_rate,
        request_rates: record
            .iterations
            .iter()
            .map(|run| Figures::of_measured(&run.measured).request_rate)
            .collect(),
        taken_percent: record
            .iterations
            .iter()
            .filter_map(|run| run.host.as_ref()?.disturbance)
            .reduce(Disturbance::plus)
            .filter(|seen| seen.looked_ns >= DISTURBANCE_NS_MIN)
            .map(|seen| seen.taken_percent()),
        latency_p50_s: at(|times| times.p50_s),
        latency_p99_s: at(|times| times.p99_s),
        latency_max_s: at(|times| times.max_s),
        starved: starved(&record.spec, &merged.clients),
        error: None,
    }
}

/// Clients that completed no page, though there were pages for all of them.
fn starved(spec: &RunSpec, clients: &[ClientTotals]) -> u64 {
    let few = spec.load.pages.is_some_and(|pages| pages < clients.len() as u64);
    if few { 0 } else { fairness(clients).map_or(clients.len() as u64, |served| served.starved) }
}

fn failed(error: &RunError) -> Service {
    Service { error: Some(error.to_string()), ..Service::default() }
}

/// The server that misbehaving clients disturb, and the protocol they use.
struct Troubled {
    target: Target,
    address: SocketAddr,
    tls: Option<ProbeTls>,
    /// The well-behaved clients' version of HTTP.
    http: HttpVersion,
    is_http2: bool,
}

impl Troubled {
    /// The target of the well-behaved clients. If they use two addresses, it is the one over TLS, which has more to lose.
    fn of_spec(spec: &RunSpec) -> Result<Troubled, RunError> {
        let targets = spec.target.iter().map(|url| Target::split(url).map(|(target, _)| target));
        let targets = targets.collect::<Result<Vec<_>, _>>().map_err(TargetError::from)?;
        let over_tls = targets.iter().find(|target| target.scheme == Scheme::Https);
        let target = over_tls.or(targets.first()).expect("the check demands a target").clone();
        let place = spec.client.connected_to(&target);
        let mut found = resolve(&place)?;
        // Of several addresses, the one that the well-behaved clients reach.
        if let (2.., Ok(contact)) = (found.len(), reach(&place, &spec.client)) {
            found = contact.reached.addresses;
        }
        let address = found[0];
        // Misdeeds are done over TCP.
        let http = match spec.client.http {
            HttpVersion::Http3 | HttpVersion::Auto => HttpVersion::Http11,
            http => http,
        };
        let tls = over_tls.map(|_| ProbeTls::new(&spec.client.tls, http)).transpose()?;
        Ok(Troubled { target, address, tls, http: spec.client.http, is_http2: http == HttpVersion::Http2 })
    }

    /// Checks that misbehaving clients can connect: a server of HTTP/3 need not listen over TCP.
    fn listens(&self, patience: Duration) -> Result<(), RunError> {
        if self.http != HttpVersion::Http3 {
            return Ok(());
        }
        TcpStream::connect_timeout(&self.address, patience).map(drop).map_err(|error| RunError::Refused {
            what: format!(
                "misdeeds go over TCP, in HTTP/1.1, but {} takes no connections there: {error}",
                self.target
            ),
            hint: "have the server speak HTTP/1.1 at the same port, or give --offenders 0".to_owned(),
        })
    }

    /// Of the misdeeds that were asked for, those that can be done, and why not the others.
    fn possible(&self, asked: &[Misdeed]) -> (Vec<Misdeed>, Vec<(Misdeed, String)>) {
        let why_not = |misdeed: &Misdeed| misdeed.not_in_http2().filter(|_| self.is_http2);
        let possible = asked.iter().copied().filter(|misdeed| why_not(misdeed).is_none()).collect();
        let left_out = asked.iter().filter_map(|misdeed| Some((*misdeed, why_not(misdeed)?.to_owned())));
        (possible, left_out.collect())
    }

    /// In words.
    fn speaks(&self) -> String {
        let version = if self.is_http2 { "HTTP/2" } else { "HTTP/1.1" };
        let beside =
            if self.http == HttpVersion::Http3 { ", while the well-behaved speak HTTP/3" } else { "" };
        if self.tls.is_some() { format!("{version} over TLS{beside}") } else { version.to_owned() }
    }
}

/// Paths that the server serves.
fn paths(workload: &Workload) -> Vec<String> {
    let urls = workload.pages.iter().flat_map(|page| &page.files).map(|file| file.url.as_ref());
    let mut paths: Vec<String> = urls
        .filter(|url: &&str| url.starts_with('/') && !url.contains("{{"))
        .take(PATHS_MAX)
        .map(str::to_owned)
        .collect();
    if paths.is_empty() {
        paths.push("/".to_owned());
    }
    paths
}

#[cfg(test)]
mod tests {
    use super::*;

    fn troubled(targets: &[&str], http: HttpVersion) -> Result<Troubled, RunError> {
        let mut spec =
            RunSpec { target: targets.iter().map(|url| (*url).to_owned()).collect(), ..RunSpec::default() };
        spec.client.http = http;
        spec.client.tls.verify = false;
        Troubled::of_spec(&spec)
    }

    #[test]
    fn clients_starve_where_there_were_pages_for_all_and_even_if_nobody_got_one() {
        let clients = |pages: &[u64]| -> Vec<ClientTotals> {
            let of = |pages: &u64| ClientTotals {
                pages: *pages,
                requests: *pages,
                response_ns: pages * 1_000_000,
                ..ClientTotals::default()
            };
            pages.iter().map(of).collect()
        };
        let with = |pages| {
            let mut spec = RunSpec::default();
            spec.load.pages = pages;
            spec
        };
        assert_eq!(starved(&with(None), &clients(&[3, 0, 2])), 1);
        assert_eq!(starved(&with(None), &clients(&[0, 0, 0])), 3);
        assert_eq!(starved(&with(Some(2)), &clients(&[1, 0, 1])), 0);
        assert_eq!(starved(&with(Some(3)), &clients(&[2, 0, 1])), 1);
        assert_eq!(starved(&with(None), &[]), 0);
    }

    #[test]
    fn whom_offenders_trouble_follows_from_the_targets() {
        for (targets, address, host, speaks) in [
            (&["http://127.0.0.1:8080"][..], "127.0.0.1:8080", "127.0.0.1:8080", "HTTP/1.1"),
            (&["http://[::1]:81/x"], "[::1]:81", "[::1]:81", "HTTP/1.1"),
            (&["http://127.0.0.1"], "127.0.0.1:80", "127.0.0.1", "HTTP/1.1"),
            (&["https://127.0.0.1"], "127.0.0.1:443", "127.0.0.1", "HTTP/1.1 over TLS"),
            (
                &["http://127.0.0.1:80", "https://127.0.0.1:82"],
                "127.0.0.1:82",
                "127.0.0.1:82",
                "HTTP/1.1 over TLS",
            ),
        ] {
            let found = troubled(targets, HttpVersion::Http11).unwrap();
            assert_eq!(
                (found.address, found.target.authority()),
                (address.parse().unwrap(), host.to_owned())
            );
            assert_eq!(found.speaks(), speaks);
            assert_eq!(found.possible(&Misdeed::ALL), (Misdeed::ALL.to_vec(), Vec::new()));
        }
        assert!(troubled(&["http://no.such.host.invalid:1"], HttpVersion::Http11).is_err());
    }

    #[test]
    fn beside_http3_misdeeds_go_over_tcp_if_anybody_listens_there() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("https://{}", listener.local_addr().unwrap());
        let found = troubled(&[&url], HttpVersion::Http3).unwrap();
        assert_eq!(found.speaks(), "HTTP/1.1 over TLS, while the well-behaved speak HTTP/3");
        assert_eq!(found.possible(&Misdeed::ALL).0, Misdeed::ALL);
        found.listens(Duration::from_secs(5)).unwrap();
        drop(listener);
        let refused = found.listens(Duration::from_secs(5)).unwrap_err().to_string();
        assert!(refused.starts_with("misdeeds go over TCP, in HTTP/1.1, but https://127"), "{refused}");
    }

    #[test]
    fn what_http2_has_no_counterpart_of_is_left_out_and_said() {
        let found = troubled(&["https://127.0.0.1:1"], HttpVersion::Http2).unwrap();
        assert_eq!(found.speaks(), "HTTP/2 over TLS");
        let (possible, left_out) = found.possible(&Misdeed::ALL);
        assert_eq!((possible.len(), left_out.len()), (6, 1));
        assert!(!possible.contains(&Misdeed::HalfClosed) && left_out[0].0 == Misdeed::HalfClosed);
        assert!(left_out[0].1.contains("WINDOW_UPDATE"));
    }
}
