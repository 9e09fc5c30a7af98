//! One run of one tool, as it is stored, and what is computed from it alone.

use serde::Serialize;

use crate::children::Finished;
use crate::handshakes::Handshakes;
use crate::modes::Case;
use crate::readings::Reading;

/// One run of one tool.
#[derive(Clone, Debug, Serialize)]
pub struct Run {
    /// The tool.
    pub tool: &'static str,
    /// What was measured.
    #[serde(serialize_with = "case", flatten)]
    pub case: Case,
    /// Round, from 0.
    pub round: u32,
    command: Vec<String>,
    /// The tool's output; `None` if it failed or could not be read.
    pub reading: Option<Reading>,
    /// Why there is no reading.
    failure: Option<String>,
    user_s: f64,
    system_s: f64,
    wall_s: f64,
    /// Most anonymous memory that it was seen with.
    pub memory_bytes_max: Option<u64>,
    /// Its TLS handshakes by the server's log.
    #[serde(skip_serializing_if = "Handshakes::is_empty")]
    pub handshakes: Handshakes,
    stdout: String,
    stderr: String,
}

impl Run {
    /// A run from its parts.
    pub fn new(
        tool: &'static str,
        case: Case,
        round: u32,
        command: Vec<String>,
        finished: Finished,
        measured: Result<Reading, String>,
        handshakes: Handshakes,
    ) -> Run {
        let failure = measured.as_ref().err().cloned();
        Run {
            tool,
            case,
            round,
            command,
            reading: measured.ok(),
            failure,
            user_s: finished.user_s,
            system_s: finished.system_s,
            wall_s: finished.wall_s,
            memory_bytes_max: finished.memory_bytes_max,
            handshakes,
            stdout: finished.stdout,
            stderr: finished.stderr,
        }
    }

    /// One line about it.
    pub fn summary(&self) -> String {
        let Some(reading) = &self.reading else {
            let last = self.stderr.lines().rfind(|line| !line.trim().is_empty()).unwrap_or_default();
            return format!("FAILED: {} {last}", self.failure.as_deref().unwrap_or_default());
        };
        let cpu = self.cpu_us().map_or("-".to_owned(), |cpu| format!("{cpu:.2}"));
        let latency = reading.latency_s.map_or("-".to_owned(), |latency| format!("{:.3}", latency * 1e3));
        let memory =
            self.memory_bytes_max.map(|bytes| format!(", {:.1} MB", bytes as f64 / 1e6)).unwrap_or_default();
        let errors = if reading.errors > 0 { format!(", {} errors", reading.errors) } else { String::new() };
        format!("{:>9.0} requests/s  {latency:>9} ms  {cpu:>7} µs CPU/request{memory}{errors}", reading.rate)
    }

    /// CPU time of the whole process per request, in microseconds.
    pub fn cpu_us(&self) -> Option<f64> {
        let reading = self.reading.filter(|reading| reading.requests > 0)?;
        Some((self.user_s + self.system_s) * 1e6 / reading.requests as f64)
    }

    /// The same without start-up and connecting, if the tool reports that, in microseconds.
    pub fn steady_cpu_us(&self) -> Option<f64> {
        let window = self.reading?.window_cpu_s.map(|seconds| seconds * 1e6);
        window.or_else(|| self.cpu_us())
    }

    /// Share of a CPU that the process used from its start to its end.
    pub fn busy(&self) -> Option<f64> {
        self.reading.map(|_| (self.user_s + self.system_s) / self.wall_s)
    }

    /// How late requests of a schedule were sent, 99th percentile in microseconds.
    pub fn lateness_p99_us(&self) -> Option<f64> {
        self.reading?.lateness_p99_us
    }

    /// Requests per second.
    pub fn rate(&self) -> Option<f64> {
        Some(self.reading?.rate)
    }

    /// Mean latency, in seconds.
    pub fn latency_s(&self) -> Option<f64> {
        self.reading?.latency_s
    }

    /// Rate × latency / clients: near 1 where both are measured right (Little's law).
    pub fn little(&self) -> Option<f64> {
        Some(self.rate()? * self.latency_s()? / f64::from(self.case.clients))
    }
}

fn case<S: serde::Serializer>(case: &Case, serializer: S) -> Result<S::Ok, S::Error> {
    use serde::ser::SerializeMap as _;
    let mut map = serializer.serialize_map(Some(6))?;
    map.serialize_entry("mode", &case.mode.name())?;
    map.serialize_entry("server", &case.server.name())?;
    map.serialize_entry("clients", &case.clients)?;
    map.serialize_entry("streams", &case.streams)?;
    map.serialize_entry("workers", &case.workers)?;
    map.serialize_entry("accompanied", &case.accompanied)?;
    map.end()
}
