//! The share of each of several hosts: a fleet is as near its limit as the host that is nearest to its own. Every host needs a
//! calibration, made there by the same program, because a calibration says nothing about another host.

use super::{Calibration, Costs, LevelShare, LoadRates, Quote, costs, stored};
use webstone_measure::units::NANOS_PER_SECOND;
use webstone_model::record::{IterationRecord, RunRecord};

/// The highest share of any host at each level.
///
/// # Errors
/// In words, why it is unknown: of the first host whose share is unknown.
pub(super) fn quote(record: &RunRecord) -> Result<Quote, String> {
    let hosts: Vec<(Calibration, Costs)> =
        (0..record.generators.len()).map(|place| of_host(record, place)).collect::<Result<_, _>>()?;
    let mut levels = Vec::new();
    for (_, runs) in record.levels() {
        let share = |(place, (_, costs)): (usize, &(Calibration, Costs))| LevelShare {
            clients: runs[0].clients,
            rate: runs[0].rate,
            percent: costs.percent(&made(&runs, place as u32)),
            generator: Some(place as u32),
        };
        let shares = hosts.iter().enumerate().map(share);
        // The first of equal ones.
        levels.extend(shares.reduce(|most, next| if next.percent > most.percent { next } else { most }));
    }
    let made_at = hosts.iter().map(|(calibration, _)| calibration.made_at.as_str()).min();
    let workers: u32 = record.generators.iter().map(|host| host.workers).sum();
    let calibrated: u32 = hosts.iter().map(|(_, costs)| costs.workers).sum();
    Ok(Quote {
        made_at: made_at.unwrap_or_default().to_owned(),
        backend: backend(record, 0)?,
        workers,
        workers_calibrated: Some(calibrated).filter(|calibrated| *calibrated < workers),
        generators: Some(hosts.len() as u32),
        at_most: hosts.iter().any(|(_, costs)| costs.at_most),
        shared_cpus: hosts.iter().any(|(calibration, _)| calibration.shared_cpus),
        levels,
    })
}

fn of_host(record: &RunRecord, place: usize) -> Result<(Calibration, Costs), String> {
    let host = &record.generators[place];
    let calibration = stored(&host.environment, &record.tool, Some(place))?;
    let whose = format!("the calibration of generator {}", place + 1);
    // All of its workers, though a level with few clients may have kept some idle: the share is of what the host can do.
    let costs = costs(record, &calibration, &backend(record, place)?, host.workers, &whose)?;
    Ok((calibration, costs))
}

/// How a host's workers talked to their kernel.
fn backend(record: &RunRecord, place: usize) -> Result<String, String> {
    let workers = record.iterations.iter().flat_map(|run| run.load_makers());
    let of_host = workers.filter(|maker| maker.generator == Some(place as u32));
    let first = of_host.flat_map(|maker| maker.workers).next();
    first
        .map(|worker| worker.backend.clone())
        .ok_or_else(|| format!("no worker of generator {} is in the record", place + 1))
}

/// What one host made in the timed runs of a level.
fn made(runs: &[&IterationRecord], generator: u32) -> LoadRates {
    let (mut sum, mut seconds) = (LoadRates::default(), 0.0);
    for run in runs {
        seconds += run.measured.window_ns as f64 / NANOS_PER_SECOND as f64;
        // Clients stand in the order of the hosts, without those of a host that was lost.
        let mut first = 0;
        for part in &run.parts {
            let end = first + part.clients as usize;
            if part.generator == generator {
                let clients = run.measured.clients.get(first..end).unwrap_or_default();
                sum.requests += part.counts.succeeded as f64;
                sum.connections += part.counts.connections as f64;
                sum.bytes += clients.iter().map(|client| client.bytes as f64).sum::<f64>();
            }
            first = end;
        }
    }
    if seconds == 0.0 {
        return LoadRates::default();
    }
    LoadRates {
        requests: sum.requests / seconds,
        connections: sum.connections / seconds,
        bytes: sum.bytes / seconds,
    }
}

#[cfg(test)]
mod tests {
    use super::super::{CalibrationRow, HostIdentity, KEY, Mode, UNFIT_KEY, quote, said};
    use super::*;
    use webstone_measure::metrics::ClientTotals;
    use webstone_model::fixture::{record, split};

    /// Requests a second of one worker of each host, by its calibration.
    const CAN_DO: [f64; 3] = [100_000.0, 20_000.0, 50_000.0];

    /// Three hosts that share 3,000 and 6,000 requests/s evenly, on kept connections, each with a calibration of its own.
    fn fleet() -> RunRecord {
        let mut record = record("a", &[(3, &[3_000.0, 3_000.0]), (6, &[6_000.0])]);
        for run in &mut record.iterations {
            run.measured.counts.connections = 0;
            run.measured.generator.workers[0].backend = "epoll".to_owned();
            let requests = run.measured.counts.succeeded / u64::from(run.clients);
            run.measured.clients =
                vec![
                    ClientTotals { requests, bytes: requests * 1_000, ..ClientTotals::default() };
                    run.clients as usize
                ];
        }
        split(&mut record, 3);
        for (place, (host, rate)) in record.generators.iter_mut().zip(CAN_DO).enumerate() {
            let rows = vec![
                CalibrationRow::sample(Mode::KeepAlive, rate, 1_000.0),
                CalibrationRow::sample(Mode::PerRequest, rate / 2.0, 1_000.0),
                CalibrationRow::sample(Mode::Large, rate / 10.0, 501_000.0),
            ];
            host.environment.insert("hostname".to_owned(), format!("gen{place}").into());
            let calibration = Calibration {
                made_at: format!("2026-11-2{}T17:00:00Z", 3 - place),
                tool: record.tool.clone(),
                host: HostIdentity::of_environment(&host.environment),
                shared_cpus: false,
                disturbance: None,
                rows,
            };
            host.environment.insert(KEY.to_owned(), serde_json::to_value(calibration).unwrap());
        }
        record
    }

    #[test]
    fn the_host_that_is_nearest_to_its_limit_is_quoted() {
        let record = fleet();
        let quote = quote(&record).unwrap();
        // 1,000 of 20,000 a second, then 2,000.
        let shares: Vec<_> = quote.levels.iter().map(|it| (it.clients, it.generator, it.percent)).collect();
        let [(3, Some(1), first), (6, Some(1), second)] = shares[..] else { panic!("{shares:?}") };
        assert!((first - 5.0).abs() < 1e-9 && (second - 10.0).abs() < 1e-9, "{shares:?}");
        assert_eq!((quote.workers, quote.generators, &*quote.made_at), (3, Some(3), "2026-11-21T17:00:00Z"));
        let sentence = "10 % of what generator 2 can do there at 6 clients, the highest share of 3 generators (3 workers, epoll; \
                        oldest calibration 2026-11-21)";
        assert_eq!(said(&record).as_deref(), Some(sentence));
    }

    #[test]
    fn bytes_and_connections_of_each_host_count_for_it() {
        let mut record = fleet();
        // The third host's client at the first level: 250 answers/s of 21,000 bytes instead of 1,000.
        for run in &mut record.iterations[..2] {
            run.parts[2].counts.succeeded = 2_500;
            run.measured.clients[2].bytes = 2_500 * 21_000;
            run.parts[0].counts.connections = 10_000;
        }
        let runs: Vec<&IterationRecord> = record.iterations[..2].iter().collect();
        let rates = made(&runs, 2);
        assert_eq!((rates.requests, rates.bytes, rates.connections), (250.0, 250.0 * 21_000.0, 0.0));
        assert_eq!(made(&runs, 0).connections, 1_000.0);
        assert_eq!(made(&runs, 7).requests, 0.0, "a host that had no part");
        // In a run that lost the first host, the others' clients come first.
        let mut lost = record.iterations[0].clone();
        lost.parts.remove(0);
        lost.measured.clients.remove(0);
        assert_eq!(made(&[&lost], 2).bytes, 250.0 * 21_000.0);
    }

    #[test]
    fn a_host_without_a_calibration_that_fits_is_named() {
        let why = |change: &dyn Fn(&mut RunRecord)| {
            let mut record = fleet();
            change(&mut record);
            quote(&record).unwrap_err()
        };
        let forget = |record: &mut RunRecord| drop(record.generators[1].environment.remove(KEY));
        assert_eq!(why(&forget), "generator 2 was not calibrated; run `webstone calibrate` there");
        let unfit = |record: &mut RunRecord| {
            forget(record);
            record.generators[1].environment.insert(UNFIT_KEY.to_owned(), "it is old".into());
        };
        assert_eq!(
            why(&unfit),
            "generator 2 has a calibration that was not used: it is old; run `webstone calibrate` there"
        );
        // The controller's own calibration does not count.
        let controllers = |record: &mut RunRecord| {
            let own = record.generators[0].environment[KEY].clone();
            record.environment.insert(KEY.to_owned(), own);
            forget(record);
        };
        assert_eq!(why(&controllers), "generator 2 was not calibrated; run `webstone calibrate` there");
        let of_another = |record: &mut RunRecord| {
            let first = record.generators[0].environment[KEY].clone();
            record.generators[2].environment.insert(KEY.to_owned(), first);
        };
        assert_eq!(
            why(&of_another),
            "the calibration of generator 3 in the record does not fit: it was made on another host: `gen0`, not `gen2`"
        );
        assert_eq!(
            why(&|record| {
                record
                    .iterations
                    .iter_mut()
                    .for_each(|run| run.measured.generator.workers[0].backend = "other".to_owned());
            }),
            "the calibration of generator 1 does not hold what 1 worker on other can do"
        );
        assert_eq!(why(&|record| record.iterations.clear()), "no worker of generator 1 is in the record");
        // A host may have more workers than its calibration, for which the null server left no CPUs.
        let mut more = fleet();
        more.generators[0].workers = 4;
        let sentence = said(&more).unwrap();
        assert!(
            sentence.starts_with("at most 10 % of what generator 2 can do there")
                && sentence
                    .contains("(6 workers, epoll; oldest calibration 2026-11-21, with 3 workers in all)"),
            "{sentence}"
        );
        let mut none = fleet();
        none.generators.iter_mut().for_each(|host| drop(host.environment.remove(KEY)));
        assert_eq!(said(&none), None, "nothing is said of what nobody made");
    }
}
