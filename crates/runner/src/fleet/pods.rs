//! Which agents are started: the commands that were given, and for each pod of a Job `kubectl exec` into it.
//!
//! All pods that were asked for make load, or there is no run: the message says what keeps one from running.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use serde_json::Value;
use webstone_lab::interrupt::Interrupt;
use webstone_model::generators::GeneratorHost;
use webstone_model::kubernetes::{PodRecord, PodsOfJob};

use super::FleetError;
use super::kubectl::{Kubectl, Unanswered, in_one_line};

/// How often pods that do not run yet are checked.
const LOOK: Duration = Duration::from_secs(1);
/// How often waiting checks for an interruption.
const POLL: Duration = Duration::from_millis(50);
/// Pods that a message names; of the others it gives the number.
const NAMED_MAX: usize = 3;
/// The container of a pod, as `webstone generators job` calls it.
pub(super) const CONTAINER: &str = "webstone";

/// An agent to be started.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Launch {
    /// The command.
    pub(super) command: String,
    /// The pod that it leads into.
    pub(super) pod: Option<PodRecord>,
    /// Whether the pod may be on a machine with another.
    pub(super) may_share: bool,
    /// What the run says of it.
    pub(super) asked: GeneratorHost,
}

/// The agents of all hosts. Waits for pods until all of them run; `tell` hears of it.
///
/// # Errors
/// If a Job is missing, or its pods do not run within their time.
pub(super) fn launches(
    hosts: &[GeneratorHost],
    interrupt: &Interrupt,
    tell: &mut dyn FnMut(String),
) -> Result<Vec<Launch>, FleetError> {
    let mut launches = Vec::new();
    for host in hosts {
        match &host.kubernetes {
            None => {
                launches.push(Launch {
                    command: host.agent.clone(),
                    asked: host.clone(),
                    ..Launch::default()
                });
            }
            Some(asked) => {
                let pods = of_job(asked, interrupt, tell)?;
                // Pods have names of their own.
                let of_each = GeneratorHost { name: None, ..host.clone() };
                launches.extend(pods.into_iter().map(|pod| Launch { asked: of_each.clone(), ..pod }));
            }
        }
    }
    Ok(launches)
}

fn of_job(
    asked: &PodsOfJob,
    interrupt: &Interrupt,
    tell: &mut dyn FnMut(String),
) -> Result<Vec<Launch>, FleetError> {
    let kubectl = Kubectl::find(asked, interrupt)?;
    let job = kubectl.get(&["job", &asked.job]).map_err(|unanswered| match unanswered {
        Unanswered::NotFound => no_job(asked),
        Unanswered::Failed(error) => error,
    })?;
    can_have(asked, &job)?;
    let selector = format!("--selector=job-name={}", asked.job);
    let until = Instant::now() + asked.wait.as_duration();
    loop {
        let list = kubectl.get(&["pods", &selector])?;
        let pods = standings(asked, &list);
        if let Some(ended) = pods.iter().find(|pod| matches!(pod.standing, Standing::Ended(_))) {
            return Err(gone(asked, ended));
        }
        let waiting: Vec<&Found> =
            pods.iter().filter(|pod| !matches!(pod.standing, Standing::Runs(..))).collect();
        if waiting.is_empty() {
            tell(format!("starting agents in the pods of the Job {}", asked.job));
            return each_on_its_own(asked, &kubectl, &pods);
        }
        if Instant::now() > until {
            return Err(not_running(asked, &pods, &waiting));
        }
        let (running, what) = (pods.len() - waiting.len(), &asked.job);
        tell(format!("waiting for the pods of the Job {what}: {running} of {} run", asked.pods));
        pause(interrupt)?;
    }
}

fn pause(interrupt: &Interrupt) -> Result<(), FleetError> {
    let (until, raised) = (Instant::now() + LOOK, interrupt.count());
    while Instant::now() < until {
        if interrupt.count() > raised {
            return Err(FleetError::Interrupted);
        }
        std::thread::sleep(POLL);
    }
    Ok(())
}

/// The pod of an index.
#[derive(Debug)]
struct Found {
    /// Its name; `of index N` where there is no pod yet.
    name: String,
    standing: Standing,
}

#[derive(Debug)]
enum Standing {
    Runs(PodRecord),
    /// It may run yet; why it does not, as far as that is known.
    Waits(String),
    /// It will run no more.
    Ended(String),
}

/// The pods of the lowest indexes, in order.
fn standings(asked: &PodsOfJob, list: &Value) -> Vec<Found> {
    let mut of_index: BTreeMap<u32, Found> = BTreeMap::new();
    for pod in list["items"].as_array().map(Vec::as_slice).unwrap_or_default() {
        let index = pod["metadata"]["annotations"]["batch.kubernetes.io/job-completion-index"].as_str();
        let Some(index) = index.and_then(|text| text.parse::<u32>().ok()) else { continue };
        let name = text(&pod["metadata"]["name"]);
        let found = Found { standing: standing(pod), name };
        // A pod that is replaced is still there for a while: the one that runs counts.
        let rank = |found: &Found| match found.standing {
            Standing::Runs(_) => 2,
            Standing::Waits(_) => 1,
            Standing::Ended(_) => 0,
        };
        if of_index.get(&index).is_none_or(|other| rank(other) < rank(&found)) {
            of_index.insert(index, found);
        }
    }
    let missing = |index: u32| Found {
        name: format!("of index {index}"),
        standing: Standing::Waits("not created yet".to_owned()),
    };
    (0..asked.pods).map(|index| of_index.remove(&index).unwrap_or_else(|| missing(index))).collect()
}

fn standing(pod: &Value) -> Standing {
    let status = &pod["status"];
    let phase = status["phase"].as_str().unwrap_or("Unknown");
    let of = |list: &'_ Value| list.as_array().into_iter().flatten().any(|it| it["name"] == CONTAINER);
    if !of(&pod["spec"]["containers"]) {
        return Standing::Waits(format!("{phase}: it has no container called {CONTAINER}"));
    }
    let containers = status["containerStatuses"].as_array().into_iter().flatten();
    let state =
        containers.filter(|it| it["name"] == CONTAINER).map(|it| &it["state"]).next().unwrap_or(&Value::Null);
    let is_leaving = pod["metadata"]["deletionTimestamp"].is_string();
    if is_leaving {
        return Standing::Ended("it is being deleted".to_owned());
    }
    if phase == "Running" && state["running"].is_object() {
        return Standing::Runs(PodRecord {
            name: text(&pod["metadata"]["name"]),
            namespace: text(&pod["metadata"]["namespace"]),
            node: text(&pod["spec"]["nodeName"]),
            host_network: pod["spec"]["hostNetwork"] == true,
        });
    }
    let terminated = &state["terminated"];
    if matches!(phase, "Succeeded" | "Failed") || terminated.is_object() {
        let code = terminated["exitCode"].as_i64().map(|code| format!("exit code {code}"));
        let reason = [&status["reason"], &terminated["reason"]].into_iter().find_map(Value::as_str);
        let said = [&status["message"], &terminated["message"]].into_iter().find_map(Value::as_str);
        let parts = [Some(phase.to_owned()), reason.map(in_one_line), code, said.map(in_one_line)];
        return Standing::Ended(parts.into_iter().flatten().collect::<Vec<_>>().join(", "));
    }
    let conditions = status["conditions"].as_array().map(Vec::as_slice).unwrap_or_default();
    let unscheduled = conditions.iter().find(|it| it["type"] == "PodScheduled" && it["status"] == "False");
    let why = [unscheduled.unwrap_or(&Value::Null), &state["waiting"]].into_iter().find(|it| it.is_object());
    let parts =
        why.map(|why| [&why["reason"], &why["message"]].map(|it| in_one_line(it.as_str().unwrap_or(""))));
    let parts = parts.iter().flatten().filter(|part| !part.is_empty()).cloned();
    let words: Vec<String> = std::iter::once(phase.to_owned()).chain(parts).collect();
    Standing::Waits(words.join(": "))
}

fn text(value: &Value) -> String {
    in_one_line(value.as_str().unwrap_or_default())
}

/// `the Job webstone in namespace bench`.
fn named(asked: &PodsOfJob) -> String {
    let place = asked.namespace.as_ref().map(|namespace| format!(" in namespace {namespace}"));
    format!("the Job {}{}", asked.job, place.unwrap_or_default())
}

fn refused(what: String, hint: impl Into<String>) -> FleetError {
    FleetError::Refused { what: format!("generators.kubernetes: {what}"), hint: hint.into() }
}

fn made_by(asked: &PodsOfJob) -> String {
    let namespace = asked.namespace.as_ref().map(|namespace| format!(" --namespace {namespace}"));
    format!(
        "webstone generators job --name {}{} --pods {} --cpus N --image IMAGE | kubectl apply -f -",
        asked.job,
        namespace.unwrap_or_default(),
        asked.pods
    )
}

fn again(asked: &PodsOfJob) -> String {
    let namespace = asked.namespace.as_ref().map(|namespace| format!(" --namespace {namespace}"));
    let delete = format!("kubectl delete job {}{}", asked.job, namespace.unwrap_or_default());
    format!("start it again: {delete}; {}", made_by(asked))
}

fn no_job(asked: &PodsOfJob) -> FleetError {
    refused(format!("there is no {}", &named(asked)[4..]), format!("start it: {}", made_by(asked)))
}

/// Checks that the Job can have as many pods as are asked for.
fn can_have(asked: &PodsOfJob, job: &Value) -> Result<(), FleetError> {
    let named = named(asked);
    if job["spec"]["completionMode"] != "Indexed" {
        return Err(refused(format!("{named} is not an Indexed Job"), again(asked)));
    }
    let conditions = job["status"]["conditions"].as_array().map(Vec::as_slice).unwrap_or_default();
    let is_end =
        |it: &&Value| matches!(it["type"].as_str(), Some("Complete" | "Failed")) && it["status"] == "True";
    if let Some(end) = conditions.iter().find(is_end) {
        let reason = end["reason"].as_str().map(|reason| format!(" ({})", in_one_line(reason)));
        return Err(refused(format!("{named} has ended{}", reason.unwrap_or_default()), again(asked)));
    }
    let at_once = ["completions", "parallelism"].map(|key| job["spec"][key].as_u64().unwrap_or(1));
    let most = at_once.into_iter().min().unwrap_or_default();
    if most < u64::from(asked.pods) {
        return Err(refused(
            format!("{named} runs {most} pods at a time, but {} are to make load", asked.pods),
            format!("ask for at most {most} (pods = {most}), or {}", again(asked)),
        ));
    }
    Ok(())
}

fn gone(asked: &PodsOfJob, pod: &Found) -> FleetError {
    let Standing::Ended(how) = &pod.standing else { return no_job(asked) };
    refused(
        format!("pod {} of {} has ended: {how}", pod.name, named(asked)),
        format!("pods end by themselves where no run uses them for a while; {}", again(asked)),
    )
}

fn not_running(asked: &PodsOfJob, pods: &[Found], waiting: &[&Found]) -> FleetError {
    let mut text = format!(
        "only {} of {} pods of {} run after {}",
        pods.len() - waiting.len(),
        asked.pods,
        named(asked),
        asked.wait
    );
    for pod in waiting.iter().take(NAMED_MAX) {
        let Standing::Waits(why) = &pod.standing else { continue };
        text += &format!("; pod {}: {why}", pod.name);
    }
    if waiting.len() > NAMED_MAX {
        text += &format!("; and {} more", waiting.len() - NAMED_MAX);
    }
    refused(
        text,
        "each pod needs a node of its own with the CPUs and the memory that it asks for: add nodes, ask for fewer pods or CPUs, or \
         wait longer (generators.kubernetes.wait)",
    )
}

/// The agents of the pods, if each pod has a node of its own, or may share one.
fn each_on_its_own(
    asked: &PodsOfJob,
    kubectl: &Kubectl<'_>,
    pods: &[Found],
) -> Result<Vec<Launch>, FleetError> {
    let running = || {
        pods.iter().filter_map(|pod| match &pod.standing {
            Standing::Runs(pod) => Some(pod),
            _ => None,
        })
    };
    let mut of_node: BTreeMap<&str, &PodRecord> = BTreeMap::new();
    for pod in running().filter(|_| !asked.share_nodes) {
        if let Some(other) = of_node.insert(&pod.node, pod) {
            return Err(refused(
                format!(
                    "pods {} and {} are on the same node, {}, and would count twice",
                    other.name, pod.name, pod.node
                ),
                SHARING,
            ));
        }
    }
    let launch = |pod: &PodRecord| {
        let words = ["exec", "-i", &pod.name, "--container", CONTAINER, "--", "webstone", "agent"];
        let command = kubectl.command(Some(&pod.namespace), &words);
        let command = shlex::try_join(command.iter().map(String::as_str)).unwrap_or_default();
        Launch { command, pod: Some(pod.clone()), may_share: asked.share_nodes, ..Launch::default() }
    };
    Ok(running().map(launch).collect())
}

/// What to do about two pods on one machine.
pub(super) const SHARING: &str = "start the Job with `webstone generators job`, which gives each pod a node of its own; for a trial on a \
     small cluster, share_nodes = true allows it, and the run cannot be certified";

#[cfg(test)]
#[path = "pods_tests.rs"]
mod tests;
