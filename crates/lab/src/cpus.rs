//! CPUs that this process may use, and lists of them as Linux writes them.

/// The CPUs that this process may use.
#[derive(Clone, Debug, PartialEq)]
pub struct Cpus {
    /// Allowed CPUs grouped by physical core, cores and CPUs in ascending order.
    pub cores: Vec<Vec<u32>>,
    /// CPUs that the quota of the control group grants, if it has one.
    pub quota: Option<f64>,
}

impl Cpus {
    /// All allowed CPUs in ascending order.
    pub fn all(&self) -> Vec<u32> {
        let mut all = self.cores.concat();
        all.sort_unstable();
        all
    }
}

/// The list as Linux writes it: `0-1,4`.
pub fn cpu_list(cpus: &[u32]) -> String {
    let mut text = String::new();
    let mut rest = cpus;
    while let Some(first) = rest.first().copied() {
        let run = rest.iter().zip(first..).take_while(|(cpu, wanted)| *cpu == wanted).count().max(1);
        let comma = if text.is_empty() { "" } else { "," };
        match run {
            1 => text += &format!("{comma}{first}"),
            _ => text += &format!("{comma}{first}-{}", first + run as u32 - 1),
        }
        rest = &rest[run..];
    }
    text
}
