//! Shells in place of agents, and the messages about them; late readings and strange clocks.

use super::super::messages::PROTOCOL;
use super::*;

fn setting<'a>(command: &'a str, addresses: &'a BTreeSet<SocketAddr>) -> Setting<'a> {
    Setting { command, version: "9.9.9", addresses, over_udp: false }
}

/// Message and advice for a command that is not an agent.
fn refused(command: &str) -> (String, String) {
    let addresses = BTreeSet::new();
    let error = ServerAgent::start(&setting(command, &addresses), &Interrupt::default())
        .map(|_| "it started")
        .unwrap_err();
    (error.to_string(), error.hint())
}

#[test]
fn an_agent_that_does_not_start_is_quoted() {
    let (error, hint) = refused("'");
    assert_eq!(error, "server.agent: `'` is not a command");
    assert!(hint.contains("ssh web1 webstone agent"), "{hint}");
    let (error, _) = refused("/nonexistent/ssh web1");
    assert!(error.starts_with("cannot start the agent `/nonexistent/ssh web1`: No such file"), "{error}");
    let (error, hint) = refused("sh -c 'echo Permission denied >&2; exit 255'");
    assert_eq!(
        error,
        "the agent `sh -c 'echo Permission denied >&2; exit 255'` ended: exit status 255; it said:\n  Permission denied"
    );
    assert!(hint.contains("</dev/null` must not ask for a password"), "{hint}");
    let (error, hint) = refused("sh -c 'echo \"sh: webstone: not found\" >&2; exit 127'");
    assert!(error.ends_with("ended: exit status 127; it said:\n  sh: webstone: not found"), "{error}");
    assert!(hint.contains("copy webstone to that host"), "{hint}");
}

#[test]
fn another_version_is_told_with_both_and_the_remedy() {
    let (error, hint) = refused("sh -c 'echo WEBSTONE-AGENT 77 8.8.8; cat >/dev/null'");
    let expected = format!(
        "has another version: webstone 9.9.9 here speaks version {PROTOCOL} of the agent's protocol, but webstone 8.8.8 on the other side speaks version 77"
    );
    assert!(error.ends_with(&expected), "{error}");
    assert_eq!(hint, "install the same version of webstone on both hosts");
}

#[test]
fn invalid_data_is_shown() {
    let (error, _) = refused("sh -c 'echo Last login: today; cat >/dev/null'");
    assert!(
        error.contains("broke the protocol: it sent `Last login: today` instead of a greeting"),
        "{error}"
    );
    let (_, hint) = refused("sh -c 'printf \"WEBSTONE-AGENT 8 0.1.0\\r\\n\"; cat >/dev/null'");
    assert!(hint.contains("no `ssh -t`"), "{hint}");
    let (error, _) = refused("sh -c 'echo WEBSTONE-AGENT 8 x; printf 12345678; cat >/dev/null'");
    assert!(error.contains("broke the protocol: a message of 825373492 bytes was announced"), "{error}");
    let (error, _) = refused("cat");
    assert!(error.contains("broke the protocol: a message is invalid: "), "{error}");
    let (error, _) = refused("sh -c 'echo WEBSTONE-AGENT 8 x; printf \"\\0\\0\\0\"'");
    assert!(error.contains("ended: exit status 0"), "{error}");
}

#[test]
fn the_user_need_not_wait_for_a_silent_one() {
    let interrupt = Interrupt::new();
    let raised = interrupt.clone();
    let thread = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(200));
        raised.raise();
    });
    let (addresses, since) = (BTreeSet::new(), Instant::now());
    let error = ServerAgent::start(&setting("sleep 3600", &addresses), &interrupt).map(|_| ()).unwrap_err();
    thread.join().unwrap();
    assert!(error.to_string().contains("the run was interrupted"), "{error}");
    assert!(since.elapsed() < START_PATIENCE, "{:?}", since.elapsed());
}

#[test]
fn another_host_and_hidden_processes_are_doubted() {
    let ports = BTreeSet::from([80]);
    let seen = Found { listens: true, cpus: Some(vec![0]), ports, ..Found::default() };
    assert_eq!((elsewhere(&seen.strange), unseen(&seen)), (None, None));
    let strange = elsewhere(&BTreeSet::from(["192.0.2.1".parse().unwrap()])).unwrap();
    assert!(strange.contains("does not have the address 192.0.2.1"), "{strange}");
    let hidden = unseen(&Found { cpus: None, ..seen.clone() }).unwrap();
    assert!(hidden.contains("is not allowed to see the processes that listen on port 80"), "{hidden}");
    let forwarder = Some("docker-proxy".to_owned());
    let forwarded = unseen(&Found { cpus: None, forwarder, ..seen.clone() }).unwrap();
    assert!(forwarded.starts_with("port 80 is held by docker-proxy where the agent runs"), "{forwarded}");
    let nothing = unseen(&Found { cpus: None, listens: false, ..seen }).unwrap();
    assert!(nothing.contains("nothing listens on port 80"), "{nothing}");
}

#[test]
fn the_way_to_this_host_is_the_loopback() {
    assert_eq!(source_towards(&"127.0.0.1:80".parse().unwrap()), Some(Ipv4Addr::LOCALHOST.into()));
}
