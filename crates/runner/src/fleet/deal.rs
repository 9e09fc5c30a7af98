//! Who of several hosts has which workers, clients and arrivals of a level. Numbers of clients and arrivals are those of the whole
//! level, so each client asks for the pages that it would ask for on a single host.

/// A host's workers among those of all hosts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Share {
    /// Workers of the hosts before it.
    pub(crate) first: u32,
    /// Its own; 0: it has no part in the level.
    pub(crate) workers: u32,
}

/// Deals a level to hosts with so many workers each. `groups`: the clients, or the groups of them that share connections; a
/// worker without any would have arrivals and nobody to serve them, so where there are fewer, workers stay away, evenly.
/// Also returns how many workers there are in all.
pub(crate) fn deal(workers: &[u32], groups: u32) -> (Vec<Share>, u32) {
    let wanted: u64 = workers.iter().copied().map(u64::from).sum();
    let all = wanted.min(u64::from(groups.max(1)));
    let (mut before, mut shares) = (0_u64, Vec::new());
    for own in workers {
        // What lies before a place when `all` are dealt evenly over `wanted`.
        let first = (before * all).div_ceil(wanted.max(1));
        before += u64::from(*own);
        let next = (before * all).div_ceil(wanted.max(1));
        shares.push(Share { first: first as u32, workers: (next - first) as u32 });
    }
    (shares, all as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_worker_has_its_place_and_none_is_left_over() {
        for workers in [&[1_u32][..], &[4, 4], &[1, 8, 3], &[2, 0, 5], &[64; 40]] {
            let wanted: u32 = workers.iter().sum();
            for groups in [1, 2, 3, 7, wanted, 100_000] {
                let (shares, all) = deal(workers, groups);
                assert_eq!(all, wanted.min(groups), "{workers:?} {groups}");
                let mut next = 0;
                for (share, own) in shares.iter().zip(workers) {
                    assert_eq!(share.first, next, "{shares:?}");
                    assert!(share.workers <= *own, "{shares:?}");
                    next += share.workers;
                }
                assert_eq!(next, all, "{shares:?}");
            }
        }
    }

    #[test]
    fn few_clients_are_spread_over_the_hosts() {
        let (shares, all) = deal(&[4, 4, 4], 3);
        assert_eq!(all, 3);
        assert_eq!(shares.iter().map(|share| share.workers).collect::<Vec<_>>(), [1, 1, 1]);
    }
}
