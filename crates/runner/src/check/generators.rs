//! Hosts that make the load together: commands that can be started, and what cannot be shared among them.

use webstone_model::spec::RunSpec;

use super::SpecError;

/// Most hosts that one controller drives.
const HOSTS_MAX: usize = 1_000;

pub(super) fn check(spec: &RunSpec) -> Result<(), SpecError> {
    const KEY: &str = "generators.agent";
    for host in &spec.generators {
        if shlex::split(&host.agent).is_none_or(|words| words.is_empty()) {
            let remedy = "write one, as in 'ssh gen1 webstone agent'";
            return Err(SpecError::value(KEY, &host.agent, "not a command", remedy));
        }
    }
    if spec.generators.is_empty() {
        return Ok(());
    }
    if spec.generators.len() > HOSTS_MAX {
        let rule = format!("more than {HOSTS_MAX} hosts");
        return Err(SpecError::value(KEY, spec.generators.len(), &rule, "leave some out"));
    }
    let load = &spec.load;
    let alone = [
        ("load.pages", load.pages.is_some(), "counts pages over all clients"),
        ("load.repetitions", load.repetitions.is_some(), "asks for pages in turn over all clients"),
        ("generator.trace", spec.generator.trace > 0, "shows exchanges as they come"),
        ("generator.record_all", spec.generator.record_all.is_some(), "writes down every transaction"),
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
