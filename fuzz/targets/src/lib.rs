//! What is fuzzed: one function of bytes for each parser of input that other programs or people write.
//!
//! A target takes any bytes. It must return, soon, without a panic, and it asserts what must hold of what was parsed:
//! that it reads back as it was written, that a split of the stream changes nothing. libFuzzer runs targets from
//! `fuzz/fuzz_targets`; `tests/mutations.rs` runs them with any compiler. A new target goes into [`TARGETS`], and
//! `cargo xtask check` names what else it needs.

mod agent;
mod certified;
mod duel;
mod h2;
mod h3;
mod mutate;
mod quic;
mod record;
mod response;
mod specification;
mod testbed;
mod tls;
mod values;
mod workload;

pub use mutate::Mutator;

/// A parser under test.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    /// Its name, and that of its wrapper and its corpus.
    pub name: &'static str,
    /// Longest input that is worth trying, in bytes.
    pub bytes_max: usize,
    /// How many times longer an input takes than those of other targets; the number of tries is divided by it.
    pub cost: u64,
    /// Parses, and asserts what must hold.
    pub run: fn(&[u8]),
}

/// Every target.
pub const TARGETS: [Target; 18] = [
    Target { name: "response", bytes_max: 70_000, cost: 1, run: response::response },
    Target { name: "h2", bytes_max: 70_000, cost: 1, run: h2::h2 },
    Target { name: "h3", bytes_max: 70_000, cost: 1, run: h3::h3 },
    Target { name: "tls", bytes_max: 70_000, cost: 1, run: tls::tls },
    Target { name: "quic", bytes_max: 8192, cost: 1, run: quic::quic },
    Target { name: "filelist", bytes_max: 4096, cost: 1, run: workload::filelist },
    Target { name: "workload_toml", bytes_max: 4096, cost: 1, run: workload::workload_toml },
    Target { name: "access_log", bytes_max: 4096, cost: 1, run: workload::access_log },
    Target { name: "record", bytes_max: 65_536, cost: 1, run: record::record },
    Target { name: "duel", bytes_max: 65_536, cost: 2, run: duel::duel },
    // A few bytes may inflate to millions of counters.
    Target { name: "histogram", bytes_max: 4096, cost: 20, run: record::histogram },
    Target { name: "specification", bytes_max: 4096, cost: 1, run: specification::specification },
    Target { name: "values", bytes_max: 256, cost: 1, run: values::values },
    // Files are written for each.
    Target { name: "archive", bytes_max: 16_384, cost: 10, run: certified::archive },
    Target { name: "manifest", bytes_max: 4096, cost: 5, run: certified::manifest },
    Target { name: "signature", bytes_max: 4096, cost: 1, run: certified::signature },
    Target { name: "agent", bytes_max: 65_536, cost: 1, run: agent::agent },
    Target { name: "testbed", bytes_max: 4096, cost: 1, run: testbed::testbed },
];

/// The target of a name.
pub fn target(name: &str) -> Option<&'static Target> {
    TARGETS.iter().find(|target| target.name == name)
}

/// Runs the target of a name on one input: what the libFuzzer wrappers call.
///
/// # Panics
/// If no target has that name, or if the target finds a defect.
pub fn run(name: &str, data: &[u8]) {
    let target = target(name).expect("wrappers are named after targets; a house rule checks it");
    if data.len() <= target.bytes_max {
        (target.run)(data);
    }
}
