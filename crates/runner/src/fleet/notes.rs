//! What the user should know of the hosts before the load, and which of them must not be the same.

use std::collections::{BTreeMap, BTreeSet};

use webstone_lab::cpus::cpu_list;
use webstone_model::generators::DISTRIBUTIONS_OF_HOSTS_MAX;

use super::fleet_error::FleetError;
use super::member::Member;
use super::pods::SHARING;

/// What the user should know of pods that do not have their node's network.
pub(super) fn own_network(hosts: &[Member]) -> impl Iterator<Item = (u32, String)> {
    let has_its_own = |host: &Member| host.record.pod.as_ref().is_some_and(|pod| !pod.host_network);
    let note = "the pod has a network of its own, so a full network card of the node cannot be seen; `webstone generators job \
                --host-network` has the node's";
    let hosts = hosts.iter().enumerate().filter(move |(_, host)| has_its_own(host));
    hosts.map(move |(place, _)| (place as u32 + 1, note.to_owned()))
}

/// What the record omits if there are this many hosts.
pub(super) fn without_distributions(hosts: usize) -> Option<String> {
    (hosts > DISTRIBUTIONS_OF_HOSTS_MAX).then(|| {
        format!(
            "the record has the 50th and the 99th percentile of each of {hosts} generators, and no distributions: it keeps those of at \
             most {DISTRIBUTIONS_OF_HOSTS_MAX}"
        )
    })
}

/// Notes about single hosts, with their numbers; one that several hosts share appears once.
pub(super) fn gathered(notes: &[(u32, String)]) -> Vec<String> {
    let mut of_note: Vec<(&str, Vec<u32>)> = Vec::new();
    for (number, note) in notes {
        match of_note.iter_mut().find(|(known, _)| known == note) {
            Some((_, numbers)) => numbers.push(*number),
            None => of_note.push((note, vec![*number])),
        }
    }
    let line = |(note, numbers): (&str, Vec<u32>)| {
        let of = if numbers.len() == 1 { "generator" } else { "generators" };
        format!("{of} {}: {note}", cpu_list(&numbers))
    };
    of_note.into_iter().map(line).collect()
}

/// Checks that no two hosts are the same: agents on one machine must at least have CPUs of their own, and pods machines of their
/// own, unless the user lets them share. Returns what the user should know.
pub(super) fn apart(hosts: &[Member]) -> Result<Vec<String>, FleetError> {
    let mut notes = Vec::new();
    let mut taken: BTreeMap<&str, Vec<(usize, BTreeSet<u32>)>> = BTreeMap::new();
    for (place, host) in hosts.iter().enumerate() {
        let Some(boot) = &host.record.boot else { continue };
        let cpus: BTreeSet<u32> = host.record.cpus.iter().copied().collect();
        let others = taken.entry(boot).or_default();
        for (other, theirs) in others.iter() {
            let both: Vec<u32> = cpus.intersection(theirs).copied().collect();
            let pair = [&hosts[*other], host];
            if let [Some(one), Some(two)] = pair.map(|host| host.record.pod.as_ref()) {
                let what = format!("generators {} and {} are on the same machine", other + 1, place + 1);
                let pods =
                    format!("{} and {}, whose kernels have the same boot id", one.in_words(), two.in_words());
                if !pair.iter().all(|host| host.launch.may_share) {
                    return Err(FleetError::Refused {
                        what: format!("{what}: {pods}; they would count twice"),
                        hint: SHARING.to_owned(),
                    });
                }
                let share = match both.is_empty() {
                    true => String::new(),
                    false => format!(", where both use CPU {}", cpu_list(&both)),
                };
                notes.push(format!(
                    "{what}{share} (share_nodes): they count as one host, and the run cannot be certified"
                ));
            } else if !both.is_empty() {
                return Err(FleetError::Refused {
                    what: format!(
                        "generators {} and {} are on the same machine ({}), and both would use CPU {}",
                        other + 1,
                        place + 1,
                        host.record.name,
                        cpu_list(&both)
                    ),
                    hint: "name each host once; agents on one machine need CPUs of their own, as in --generator \
                           'taskset -c 2-3 webstone agent'"
                        .to_owned(),
                });
            }
        }
        others.push((place, cpus));
    }
    Ok(notes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_says_where_it_lacks_distributions_of_hosts() {
        assert_eq!(without_distributions(64), None);
        let said = without_distributions(65).unwrap();
        assert!(said.contains("each of 65 generators") && said.ends_with("at most 64"), "{said}");
    }

    #[test]
    fn what_is_the_same_of_several_hosts_is_said_once() {
        let notes = [(1, "slow"), (2, "slow"), (3, "old"), (4, "slow")]
            .map(|(number, note)| (number, note.to_owned()));
        assert_eq!(gathered(&notes), ["generators 1-2,4: slow", "generator 3: old"]);
    }
}
