//! A really busy machine: other programs on the generator's CPU, on the server's, on both, and a stop of the whole
//! program. Whatever else the machine does only adds to that.

use std::process::{Child, Command, Stdio};
use std::time::Duration;

use serde_json::Value;

use crate::program::{Running, Said, webstone_in};

/// A program that burns one CPU until it is dropped.
struct Burner(Child);

impl Burner {
    fn on(cpu: u32) -> Burner {
        let mut command = Command::new("taskset");
        command.args(["-c", &cpu.to_string(), "sh", "-c", "while :; do :; done"]).stdin(Stdio::null());
        Burner(command.spawn().unwrap())
    }
}

impl Drop for Burner {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Whether there is one CPU for the server and another for the generator; prints a note if not.
#[expect(clippy::print_stdout, reason = "a skipped test says why")]
fn two_cpus() -> bool {
    let tried = Command::new("taskset").args(["-c", "0,1", "true"]).stderr(Stdio::null()).status();
    let found = tried.is_ok_and(|status| status.success());
    if !found {
        println!("skipped: CPUs 0 and 1, or taskset to choose them, are missing");
    }
    found
}

/// A run with its server on CPU 0 and its worker on CPU 1, while burners run on these CPUs.
fn beside(burners: &[u32], more: &[&str]) -> (Said, Value) {
    let dir = tempfile::tempdir().unwrap();
    let _burning: Vec<Burner> = burners.iter().map(|cpu| Burner::on(*cpu)).collect();
    let fixed = [
        "run",
        "-K",
        "-c",
        "8",
        "-d",
        "2s",
        "--warmup",
        "300ms",
        "--server-cpus",
        "0",
        "--cpus",
        "1",
        "--no-priority",
    ];
    let said = webstone_in(dir.path(), &[&fixed[..], &["--no-store", "--format", "json"], more].concat());
    let record = serde_json::from_str(&said.out).unwrap_or_else(|_| panic!("{}", said.err));
    (said, record)
}

fn causes(record: &Value) -> Vec<&str> {
    let of = |list: &str| record["computed"]["verdict"][list].as_array().into_iter().flatten();
    of("reasons").chain(of("doubts")).map(|reason| reason["cause"].as_str().unwrap()).collect()
}

/// Checks that noise is in the verdict and the exit code says the same.
#[track_caller]
fn is_not_sound(record: &Value, said: &Said) {
    let standing = &record["computed"]["verdict"]["standing"];
    let codes = [("noisy", 0), ("inconclusive", 4), ("invalid", 4)];
    assert!(
        codes.iter().any(|(word, code)| standing == word && said.code == *code),
        "{standing} {}",
        said.err
    );
}

/// Checks that the reason is noise of any kind: CPU time that was taken, a slow CPU, or samples that were late.
#[track_caller]
fn is_noise(record: &Value, said: &Said) {
    let kinds = ["disturbed", "slowed", "slower-than-earlier", "crowded", "unjudged"];
    assert!(causes(record).iter().any(|cause| kinds.contains(cause)), "{}", said.err);
}

#[test]
fn a_neighbour_on_the_generators_cpu_the_servers_or_both_makes_it_noisy() {
    if !two_cpus() {
        return;
    }
    for burners in [&[1][..], &[0], &[0, 1]] {
        let (said, record) = beside(burners, &["--retries", "2", "-i", "2"]);
        is_not_sound(&record, &said);
        is_noise(&record, &said);
        assert!(said.err.contains("too noisy, to be measured again"), "{}", said.err);
        // Every attempt is in the record, half as many more than planned, and the last ones count.
        let attempts = |list: &str| record[list].as_array().unwrap().len();
        assert_eq!((attempts("voids"), attempts("iterations")), (1, 2));
        let busiest = &record["iterations"][0]["host"]["others"]["busiest"];
        // Four programs busier than a burner on its own CPU would displace its name.
        let is_named = busiest.as_array().unwrap().iter().any(|other| other["name"] == "sh");
        assert!(is_named || busiest.as_array().unwrap().len() == 4, "{busiest}");
    }
}

#[test]
fn a_window_of_any_length_on_a_busy_machine_is_not_called_sound() {
    if !two_cpus() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let _burning = [Burner::on(0), Burner::on(1)];
    let fixed = [
        "run",
        "-K",
        "-c",
        "8",
        "--server-cpus",
        "0",
        "--cpus",
        "1",
        "--no-priority",
        "--no-store",
        "-i",
        "1",
        "--format",
        "json",
    ];
    // Shorter ones may fall into a time slice of the program itself, and then nothing was taken from them.
    for length in [&["-d", "50ms"][..], &["-d", "400ms"], &["-d", "900ms", "--warmup", "0s"], &["-n", "1000"]]
    {
        let said = webstone_in(dir.path(), &[&fixed[..], length].concat());
        let record: Value = serde_json::from_str(&said.out).unwrap_or_else(|_| panic!("{}", said.err));
        is_not_sound(&record, &said);
        // On such a busy machine, 1,000 pages may take longer than a short window.
        let is_short = |run: &Value| run["measured"]["window_ns"].as_u64().unwrap() < 1_000_000_000;
        let voids = record["voids"].as_array().map_or(&[][..], Vec::as_slice);
        assert!(!voids.iter().any(is_short), "{length:?}: a short window is not repeated: {}", said.err);
    }
}

#[test]
fn without_retries_nothing_is_repeated() {
    if !two_cpus() {
        return;
    }
    let (said, record) = beside(&[1], &["--retries", "0"]);
    is_not_sound(&record, &said);
    assert_eq!(record["voids"], Value::Null, "{}", said.err);
}

#[test]
fn a_stop_of_the_program_in_a_window_makes_it_noisy() {
    let dir = tempfile::tempdir().unwrap();
    let arguments =
        ["run", "-c", "2", "-d", "5s", "--warmup", "0s", "--retries", "0", "--no-store", "--format", "json"];
    let mut run = Running::start(dir.path(), &arguments);
    // The window opens right after this line, or somewhat later on a busy machine.
    run.wait_for("standard on ");
    std::thread::sleep(Duration::from_millis(1500));
    run.signal("STOP");
    std::thread::sleep(Duration::from_millis(1500));
    run.signal("CONT");
    let said = run.end();
    let record: Value = serde_json::from_str(&said.out).unwrap_or_else(|_| panic!("{}", said.err));
    is_not_sound(&record, &said);
    is_noise(&record, &said);
    let stalled = record["iterations"][0]["measured"]["generator"]["workers"][0]["stalled_ns_max"].as_u64();
    assert!(stalled >= Some(1_000_000_000), "{stalled:?}");
}
