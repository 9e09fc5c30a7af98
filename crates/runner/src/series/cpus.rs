//! Which CPUs a server gets that is measured on one, two, four … of them, and which the generator gets: the same in all
//! of these runs, or the load would differ. Pure: facts in, decision out.
//!
//! A server on few CPUs gets one hardware thread of each core, and second threads only when there are no cores left: the second
//! thread of a core is worth a fraction of a CPU. The generator gets the cores that the server never has. If the largest number
//! takes the whole machine, it gets those that the largest number but one leaves, and shares them with the server in the cells
//! that take more; these are named.

use webstone_lab::cpus::{Cpus, cpu_list};

/// The decision.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Shares {
    /// CPUs of the server, for each number that was asked for.
    pub(super) server: Vec<Vec<u32>>,
    /// CPUs of the generator; empty: those that its own settings say.
    pub(super) generator: Vec<u32>,
    /// What the user should know.
    pub(super) warnings: Vec<String>,
}

/// Decides for these numbers of CPUs. `taken` are those that the user gave to the generator.
///
/// # Errors
/// If there are fewer CPUs than one of the numbers, in words.
pub(super) fn share(cpus: &Cpus, numbers: &[u32], taken: &[u32]) -> Result<Shares, String> {
    let order = in_order(cpus, taken);
    let all = order.len() as u32;
    if let Some(number) = numbers.iter().find(|number| **number > all) {
        return Err(format!(
            "series.cpus: {number} CPUs for the server, but this process may run on {} ({})",
            cpus.all().len(),
            cpu_list(&cpus.all())
        ));
    }
    let sorted = |mut list: Vec<u32>| {
        list.sort_unstable();
        list
    };
    let first = |number: u32| order[..number as usize].to_vec();
    let mut shares =
        Shares { server: numbers.iter().map(|number| sorted(first(*number))).collect(), ..Shares::default() };
    if taken.is_empty() {
        let mut descending = numbers.to_vec();
        descending.sort_unstable_by(|a, b| b.cmp(a));
        let left = descending.iter().map(|number| apart(cpus, &first(*number)));
        shares.generator = left.into_iter().find(|left| !left.is_empty()).unwrap_or_else(|| cpus.all());
    }
    let generator = if taken.is_empty() { &shares.generator } else { taken };
    for (number, server) in numbers.iter().zip(&shares.server) {
        let shared: Vec<u32> = server.iter().filter(|cpu| generator.contains(cpu)).copied().collect();
        if !shared.is_empty() {
            shares.warnings.push(format!(
                "with {} for the server, server and generator share CPU {}: the rate is that of both together",
                counted(*number),
                cpu_list(&shared)
            ));
        }
        let has_second = |core: &&Vec<u32>| core.iter().filter(|cpu| server.contains(cpu)).count() > 1;
        let seconds = cpus.cores.iter().filter(has_second).count();
        if seconds > 0 {
            shares.warnings.push(format!(
                "with {number} CPUs, the server has several hardware threads of {seconds} of its cores: such a CPU is less \
                 than one of a core of its own"
            ));
        }
    }
    Ok(shares)
}

fn counted(number: u32) -> String {
    format!("{number} CPU{}", if number == 1 { "" } else { "s" })
}

/// CPUs in the order in which a server gets them: those of the generator last, one thread of each core before the next.
fn in_order(cpus: &Cpus, taken: &[u32]) -> Vec<u32> {
    let threads = cpus.cores.iter().map(Vec::len).max().unwrap_or(0);
    let by_thread =
        (0..threads).flat_map(|thread| cpus.cores.iter().filter_map(move |core| core.get(thread)));
    let (free, of_generator): (Vec<u32>, Vec<u32>) = by_thread.copied().partition(|cpu| !taken.contains(cpu));
    free.into_iter().chain(of_generator).collect()
}

/// CPUs of cores that have none of these.
fn apart(cpus: &Cpus, server: &[u32]) -> Vec<u32> {
    let is_free = |core: &&Vec<u32>| !core.iter().any(|cpu| server.contains(cpu));
    let mut left: Vec<u32> = cpus.cores.iter().filter(is_free).flatten().copied().collect();
    left.sort_unstable();
    left
}

#[cfg(test)]
mod tests {
    use super::*;

    fn machine(cores: &[&[u32]]) -> Cpus {
        Cpus { cores: cores.iter().map(|core| core.to_vec()).collect(), quota: None }
    }

    #[test]
    fn the_generator_has_the_same_cpus_whatever_the_server_has() {
        let eight = machine(&[&[0], &[1], &[2], &[3], &[4], &[5], &[6], &[7]]);
        let shares = share(&eight, &[1, 2, 4], &[]).unwrap();
        assert_eq!(shares.server, [vec![0], vec![0, 1], vec![0, 1, 2, 3]]);
        assert_eq!((shares.generator, shares.warnings.len()), (vec![4, 5, 6, 7], 0));
    }

    #[test]
    fn a_server_on_the_whole_machine_shares_it_and_that_is_said() {
        let two = machine(&[&[0], &[1]]);
        let shares = share(&two, &[1, 2], &[]).unwrap();
        assert_eq!((shares.server, shares.generator), (vec![vec![0], vec![0, 1]], vec![1]));
        assert_eq!(
            shares.warnings,
            [
                "with 2 CPUs for the server, server and generator share CPU 1: the rate is that of both together"
            ]
        );
        let one = share(&machine(&[&[0]]), &[1], &[]).unwrap();
        assert_eq!((one.generator, one.warnings.len()), (vec![0], 1));
    }

    #[test]
    fn threads_of_a_core_are_not_parted_between_the_two() {
        let smt = machine(&[&[0, 4], &[1, 5], &[2, 6], &[3, 7]]);
        let shares = share(&smt, &[1, 2, 3, 6], &[]).unwrap();
        assert_eq!(shares.server[..3], [vec![0], vec![0, 1], vec![0, 1, 2]]);
        assert_eq!(shares.server[3], [0, 1, 2, 3, 4, 5]);
        assert_eq!(shares.generator, [3, 7]);
        assert!(shares.warnings.iter().any(|warning| warning.contains("several hardware threads of 2")));
    }

    #[test]
    fn what_the_user_gave_to_the_generator_is_the_servers_last() {
        let four = machine(&[&[0], &[1], &[2], &[3]]);
        let shares = share(&four, &[2, 4], &[0]).unwrap();
        assert_eq!(shares.server, [vec![1, 2], vec![0, 1, 2, 3]]);
        assert!(shares.generator.is_empty());
        assert!(shares.warnings[0].contains("with 4 CPUs") && shares.warnings.len() == 1);
        assert_eq!(
            share(&four, &[5], &[]).unwrap_err(),
            "series.cpus: 5 CPUs for the server, but this process may run on 4 (0-3)"
        );
    }
}
