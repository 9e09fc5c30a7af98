//! Hosts that make load together and differ: one whose latency or rate per client lies off the others' in every timed run of a level
//! shows its own machine or network, and not the server. It is named, and never left out: to leave out what looks wrong would
//! be to choose the result.

use serde::{Deserialize, Serialize};

use super::bounds::percent;
use crate::statistics::median;
use webstone_measure::keys::LevelKey;
use webstone_measure::rate::RateProfile;
use webstone_model::generators::GeneratorPart;
use webstone_model::record::{IterationRecord, RunRecord};

/// How far off the median of all hosts a host is named, in percent.
pub const DIFFERS_PERCENT_MIN: f64 = 10.0;
/// And how many times the median absolute deviation of all hosts.
const DEVIATIONS_MIN: f64 = 3.0;
/// With fewer hosts it is unknown which of them differs.
const HOSTS_MIN: usize = 3;

/// A host that differed from the others in every timed run of a level.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Differing {
    /// Which of the run's generators, from 0.
    pub generator: u32,
    /// The level, by its number of clients.
    pub clients: u32,
    /// Its rate, in open loop.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate: Option<RateProfile>,
    /// In what: `median latency` or `rate per client`.
    pub quantity: String,
    /// How far off the median of all hosts it was where it was least, in percent, with its sign.
    pub percent: f64,
    /// In how many timed runs: in all of the level.
    pub iterations: u32,
    /// The whole in one sentence.
    pub sentence: String,
}

impl Differing {
    /// The level.
    pub fn level(&self) -> LevelKey {
        LevelKey::new(self.clients, self.rate)
    }
}

/// A quantity that is alike on hosts under the same load.
struct Quantity {
    name: &'static str,
    of: fn(&GeneratorPart) -> Option<f64>,
}

const QUANTITIES: [Quantity; 2] = [
    Quantity {
        name: "median latency",
        of: |part| (part.response.count > 0).then_some(part.response_p50_ns as f64),
    },
    Quantity {
        name: "rate per client",
        of: |part| (part.clients > 0).then(|| part.counts.succeeded as f64 / f64::from(part.clients)),
    },
];

/// The hosts that differ, level by level. Timed runs in which a host was lost say nothing of the others.
pub fn differing(record: &RunRecord) -> Vec<Differing> {
    let mut found = Vec::new();
    for (_, runs) in record.levels() {
        let runs: Vec<&IterationRecord> = runs.into_iter().filter(|run| run.lost.is_none()).collect();
        for generator in 0..record.generators.len() as u32 {
            found
                .extend(QUANTITIES.iter().filter_map(|quantity| of_host(record, &runs, generator, quantity)));
        }
    }
    found
}

fn of_host(
    record: &RunRecord,
    runs: &[&IterationRecord],
    generator: u32,
    quantity: &Quantity,
) -> Option<Differing> {
    let offs: Vec<f64> = runs.iter().map(|run| off(run, generator, quantity)).collect::<Option<_>>()?;
    let least = offs.iter().copied().min_by(|a, b| a.abs().total_cmp(&b.abs()))?;
    // Above the median in one run and below it in another is noise.
    if offs.iter().any(|off| off.signum() != least.signum()) {
        return None;
    }
    let run = runs.first()?;
    let way = if least > 0.0 { "above" } else { "below" };
    let sentence = format!(
        "{}: the {} of {} was {:.0} % or more {way} the median of all hosts in {}",
        run.level(),
        quantity.name,
        record.generator_named(generator),
        least.abs().floor(),
        match runs.len() {
            1 => "the only timed run".to_owned(),
            all => format!("each of {all} timed runs"),
        }
    );
    Some(Differing {
        generator,
        clients: run.clients,
        rate: run.rate,
        quantity: quantity.name.to_owned(),
        percent: least,
        iterations: runs.len() as u32,
        sentence,
    })
}

/// How far off all hosts' median a host was, in percent; `None` where that is no more than hosts differ anyway.
fn off(run: &IterationRecord, generator: u32, quantity: &Quantity) -> Option<f64> {
    let own = (quantity.of)(run.parts.iter().find(|part| part.generator == generator)?)?;
    let all: Vec<f64> = run.parts.iter().filter_map(quantity.of).collect();
    if all.len() < HOSTS_MIN {
        return None;
    }
    let middle = median(&all)?;
    let deviations: Vec<f64> = all.iter().map(|value| (value - middle).abs()).collect();
    let off = percent(own - middle, middle);
    let differs =
        off.abs() >= DIFFERS_PERCENT_MIN && (own - middle).abs() >= DEVIATIONS_MIN * median(&deviations)?;
    differs.then_some(off)
}
