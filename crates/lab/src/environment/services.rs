//! Which services ran beside the benchmark: the units of systemd that are active, or without systemd the programs that lead a session of
//! their own without a terminal, as a daemon does (daemon(7)). Their children are not listed. Names of programs and units only, and how
//! many users are logged in: the part of a unit's name after `@` is left out, because it may be a user, an address or a device, and command
//! lines are not read.

use std::collections::BTreeMap;

use serde_json::Value;

use super::facts::Facts;
use super::network::Ask;
use crate::machine::Root;

/// Exists where systemd is the first process (sd_booted(3)).
const SYSTEMD: &str = "/run/systemd/system";
/// Names that are kept.
const NAMES_MAX: usize = 500;

pub(super) fn gather(facts: &mut Facts<'_>, ask: Ask<'_>) {
    let root = facts.root;
    // How many, and not who.
    let logged_in =
        ask("who", &[]).map(|listed| listed.lines().filter(|line| !line.trim().is_empty()).count());
    facts.add("logged_in", "`who`", logged_in);
    let units = (!root.names(SYSTEMD).is_empty()).then(|| {
        ask(
            "systemctl",
            &["list-units", "--type=service", "--state=running", "--plain", "--no-legend", "--no-pager"],
        )
    });
    match units.flatten() {
        Some(listed) => {
            let names = listed.lines().filter_map(|line| line.split_whitespace().next()).map(unit);
            facts.add("services", "`systemctl list-units --type=service --state=running`", Some(told(names)));
        }
        None => {
            let names = told(background(root).into_iter());
            let source =
                "/proc/*/stat: leaders of sessions without a terminal, without shells and this program's own";
            facts.add("services", source, (!names.is_empty()).then_some(names));
        }
    }
}

/// A unit without the part of its name that stands for a user, an address or a device.
fn unit(name: &str) -> String {
    let name = name.strip_suffix(".service").unwrap_or(name);
    name.split_once('@').map_or_else(|| name.to_owned(), |(template, _)| format!("{template}@"))
}

/// Shells, which lead a session whenever a program runs a command.
const SHELLS: [&str; 7] = ["sh", "bash", "dash", "ash", "zsh", "fish", "ksh"];

/// Programs that lead a session without a terminal.
fn background(root: &Root) -> Vec<String> {
    let own_session = Stat::of_process(root, "self").map(|stat| stat.session);
    let ids = root.names("/proc").into_iter().filter(|name| name.bytes().all(|byte| byte.is_ascii_digit()));
    let program = |id: String| {
        let stat = Stat::of_process(root, &id)?;
        // The first process leads one, too, which a container may not see.
        let is_leader = (id == "1" || id.parse() == Ok(stat.session)) && stat.terminal == 0;
        let is_own = Some(stat.session) == own_session;
        (is_leader && !is_own && !SHELLS.contains(&stat.name.as_str())).then_some(stat.name)
    };
    ids.filter_map(program).collect()
}

/// What `/proc/PID/stat` says.
struct Stat {
    name: String,
    session: i64,
    terminal: i64,
}

impl Stat {
    fn of_process(root: &Root, id: &str) -> Option<Stat> {
        let text = root.lossy_text(&format!("/proc/{id}/stat"))?;
        // A name may hold parentheses and spaces; nothing after it does.
        let (name, rest) = (text.split_once('(')?.1).rsplit_once(')')?;
        // After the name: state, parent, group, session, terminal.
        let mut fields = rest.split_whitespace().skip(3).map(|field| field.parse::<i64>().ok());
        let (session, terminal) = (fields.next()??, fields.next()??);
        Some(Stat { name: name.to_owned(), session, terminal })
    }
}

/// Names in order, those of several with their number: `nginx (3)`.
fn told(names: impl Iterator<Item = String>) -> Vec<Value> {
    let mut counts: BTreeMap<String, u64> = BTreeMap::new();
    names.for_each(|name| *counts.entry(name).or_default() += 1);
    let told = |(name, count): (String, u64)| match count {
        1 => name.into(),
        several => format!("{name} ({several})").into(),
    };
    counts.into_iter().take(NAMES_MAX).map(told).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::machine::tests::root_with;

    #[test]
    fn units_are_named_without_users_and_addresses() {
        let (_keep, root) = root_with(&[("/run/systemd/system/x", "")]);
        let mut facts = Facts::below(&root);
        gather(&mut facts, &|program, _| {
            (program == "systemctl").then(|| {
                "cron.service loaded active running Regular background program processing daemon\n\
                 getty@tty1.service loaded active running Getty on tty1\n\
                 sshd@4-192.0.2.1:22-198.51.100.7:5050.service loaded active running OpenSSH\n\
                 user@1000.service loaded active running User Manager for UID 1000\n\
                 user@1001.service loaded active running User Manager for UID 1001\n"
                    .to_owned()
            })
        });
        assert_eq!(facts.finish()["services"], json!(["cron", "getty@", "sshd@", "user@ (2)"]));
    }

    #[test]
    fn without_systemd_background_programs_are_named() {
        let (_keep, root) = root_with(&[
            ("/proc/self/stat", "50 (webstone) R 40 50 40 34816 50"),
            ("/proc/1/stat", "1 (init) S 0 0 0 0 -1"),
            ("/proc/2/stat", "2 (kthreadd) S 0 0 0 0 -1"),
            ("/proc/7/stat", "7 (kworker/0:1) I 2 0 0 0 -1"),
            ("/proc/20/stat", "20 (my (odd) name) S 1 20 20 0 -1"),
            ("/proc/21/stat", "21 (nginx) S 1 21 21 0 -1"),
            ("/proc/22/stat", "22 (nginx) S 21 21 21 0 -1"),
            ("/proc/23/stat", "23 (nginx) S 1 23 23 0 -1"),
            ("/proc/24/stat", "24 (bash) S 1 24 24 0 -1"),
            ("/proc/25/stat", "25 (rustc) S 24 25 24 0 -1"),
            ("/proc/29/stat", "29 (vi) S 1 29 29 34817 30"),
            ("/proc/50/stat", "50 (webstone) R 40 50 40 0 50"),
            ("/proc/meminfo", "MemTotal: 1 kB"),
        ]);
        let mut facts = Facts::below(&root);
        gather(&mut facts, &|program, _| {
            assert_eq!(program, "who", "systemctl is not asked where systemd does not run");
            Some("ann      tty1         2026-11-26 20:00\n".to_owned())
        });
        let facts = facts.finish();
        assert_eq!(facts["services"], json!(["init", "my (odd) name", "nginx (2)"]));
        assert_eq!(facts["logged_in"], 1);
    }

    #[test]
    fn this_machine_says_what_it_runs_or_that_nothing_does() {
        let root = Root::default();
        let mut facts = Facts::below(&root);
        gather(&mut facts, &|_, _| None);
        let facts = facts.finish();
        assert!(facts.contains_key("services") || facts["unknown"]["services"].is_string(), "{facts:?}");
    }
}
