//! Hosts that make the load together: commands that can be started, pods that can be found, and what cannot be shared among them.

use webstone_measure::units::Nanos;
use webstone_model::generators::GeneratorHost;
use webstone_model::kubernetes::{PodsOfJob, label};
use webstone_model::spec::RunSpec;

use super::{SpecError, server_url};

/// Most hosts that one controller drives.
const HOSTS_MAX: usize = 1_000;
/// Longest wait for pods.
const WAIT_MAX: Nanos = Nanos::from_secs(3_600);

/// The key of commands, and of all hosts together.
const AGENT: &str = "generators.agent";

/// Checks the hosts by themselves against their rules.
///
/// # Errors
/// The first rule that they break.
pub fn hosts(hosts: &[GeneratorHost]) -> Result<(), SpecError> {
    for host in hosts {
        match &host.kubernetes {
            Some(_) if !host.agent.is_empty() => {
                let rule = "is a second way to reach the same host, beside generators.kubernetes";
                let remedy = "write one of them, and another [[generators]] for the other";
                return Err(SpecError::new(AGENT, format!("`{}` {rule}", host.agent), remedy));
            }
            Some(asked) => pods(asked)?,
            None if shlex::split(&host.agent).is_none_or(|words| words.is_empty()) => {
                let remedy = "write one, as in 'ssh gen1 webstone agent'";
                return Err(SpecError::value(AGENT, &host.agent, "not a command", remedy));
            }
            None => {}
        }
    }
    let with = hosts.iter().filter(|host| host.clients.is_some()).count();
    if with > 0 && with < hosts.len() {
        let rule = format!("{with} of {} hosts have a number of clients", hosts.len());
        return Err(SpecError::new("generators.clients", rule, "give one to each, or to none"));
    }
    if hosts.iter().any(|host| host.clients == Some(0)) {
        return Err(SpecError::zero("generators.clients", "leave that host out"));
    }
    for host in hosts {
        if let Some(url) = &host.target {
            server_url(url).map_err(|error| SpecError::of_url("generators.target", &error))?;
        }
        if let Some(name) = host.name.as_ref().filter(|name| super::name(name).is_err()) {
            let remedy = "write letters, digits, dots, hyphens and underscores";
            return Err(SpecError::value("generators.name", name, "not a name", remedy));
        }
    }
    let mut names: Vec<&str> = hosts.iter().filter_map(|host| host.name.as_deref()).collect();
    names.sort_unstable();
    if let Some(twice) = names.windows(2).find(|pair| pair[0] == pair[1]) {
        return Err(SpecError::value("generators.name", twice[0], "there twice", "give each host its own"));
    }
    let count: usize = hosts.iter().map(GeneratorHost::count).sum();
    if count > HOSTS_MAX {
        return Err(SpecError::value(
            AGENT,
            count,
            &format!("more than {HOSTS_MAX} hosts"),
            "leave some out",
        ));
    }
    Ok(())
}

/// Names that Kubernetes accepts, and that kubectl cannot take for an option.
fn pods(asked: &PodsOfJob) -> Result<(), SpecError> {
    let named = [("job", Some(&asked.job)), ("namespace", asked.namespace.as_ref())];
    for (key, name) in named {
        let Some(name) = name else { continue };
        if let Err(rule) = label(name) {
            let remedy = "write lower-case letters, digits and hyphens, at most 63, as in webstone-1";
            return Err(SpecError::value(&format!("generators.kubernetes.{key}"), name, rule, remedy));
        }
    }
    let texts = [("context", &asked.context), ("kubeconfig", &asked.kubeconfig)];
    for (key, text) in texts {
        if text.as_ref().is_some_and(|text| text.is_empty() || text.contains(char::is_control)) {
            let remedy = "leave it out: kubectl then uses its current one";
            let key = format!("generators.kubernetes.{key}");
            return Err(SpecError::new(&key, "is empty or has control characters", remedy));
        }
    }
    if asked.pods == 0 {
        let remedy = "write how many pods of the Job make load, as in pods = 40";
        return Err(SpecError::zero("generators.kubernetes.pods", remedy));
    }
    if !(Nanos::from_secs(1)..=WAIT_MAX).contains(&asked.wait) {
        let remedy = "write how long all pods may take to run, as in wait = \"2m\"";
        let rule = format!("not between 1s and {WAIT_MAX}");
        return Err(SpecError::value("generators.kubernetes.wait", asked.wait, &rule, remedy));
    }
    Ok(())
}

pub(super) fn check(spec: &RunSpec) -> Result<(), SpecError> {
    hosts(&spec.generators)?;
    if spec.generators.is_empty() {
        return Ok(());
    }
    let alone = [
        ("generator.trace", spec.generator.trace > 0, "shows exchanges as they come"),
        ("client.unix_socket", spec.client.unix_socket.is_some(), "is reached on its own host only"),
    ];
    match alone.iter().find(|(_, is_asked, _)| *is_asked) {
        None => Ok(()),
        Some((key, _, why)) => Err(SpecError::new(
            key,
            format!("it {why}, which several generators cannot do together"),
            "leave it out, or make the load from this host alone",
        )),
    }
}
