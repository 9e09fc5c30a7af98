//! A machine that was faster in earlier runs, as the file that they left says.

use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::program::webstone_in;

const LOAD: [&str; 11] =
    ["run", "-w", "workout-0k", "-c", "4", "-d", "1500ms", "--warmup", "200ms", "--format", "json"];

fn run(dir: &Path, more: &[&str]) -> Value {
    let said = webstone_in(dir, &[&LOAD[..], more].concat());
    assert!(matches!(said.code, 0 | 4), "{said:?}");
    serde_json::from_str(&said.out).unwrap_or_else(|error| panic!("{error}: {said:?}"))
}

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or_else(|| panic!("{value} is a number"))
}

/// What was seen of a CPU in the only window.
fn watched<'a>(record: &'a Value, cpu: &str) -> &'a Value {
    let cpu: u64 = cpu.parse().unwrap();
    let all = record["iterations"][0]["host"]["watched"].as_array().unwrap();
    all.iter().find(|it| it["cpu"] == cpu).unwrap_or_else(|| panic!("CPU {cpu} is in {all:?}"))
}

#[test]
fn figures_are_bounded_by_how_fast_the_machine_was() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("data/webstone/cpu-speed.json");
    let first = run(dir.path(), &[]);
    assert_eq!(first["earlier_speeds"], Value::Null, "nothing is known yet");
    let Ok(stored) = fs::read_to_string(&file) else {
        println!(
            "skipped: no CPU was timed here: this is no virtual machine, or the server had little of its CPU"
        );
        return;
    };
    let mut stored: Value = serde_json::from_str(&stored).unwrap();
    let cpus = stored["machines"][0]["cpus"].as_object().unwrap();
    let (cpu, windows) = cpus.iter().next().unwrap();
    let timed = watched(&first, cpu);
    let (cpu, best) = (cpu.clone(), number(&timed["work_ns_best"]));
    assert!(windows.as_array().unwrap().contains(&timed["work_ns_best"]), "{stored}");
    // It took half as long in twenty windows.
    let half = (best / 2.0) as u64;
    stored["machines"][0]["cpus"][&cpu] = vec![half; 20].into();
    fs::write(&file, stored.to_string()).unwrap();
    let before = fs::read(&file).unwrap();
    let second = run(dir.path(), &["--no-store"]);
    assert_eq!(fs::read(&file).unwrap(), before, "a run that is not stored leaves nothing");
    let earlier = &second["earlier_speeds"][0];
    assert_eq!((&earlier["windows"], &earlier["work_ns"]), (&20.into(), &half.into()), "{earlier}");
    let verdict = &second["computed"]["verdict"];
    let doubts = verdict["doubts"].as_array().unwrap();
    assert!(doubts.iter().any(|doubt| doubt["cause"] == "slower-than-earlier"), "{verdict}");
    // A request may have cost twice that more, for the part of the time in which the server wanted its CPU.
    let window = &second["iterations"][0];
    let slower = number(&watched(&second, &cpu)["work_ns_median"]) / half as f64 - 1.0;
    let used = ["user_ns", "system_ns"].map(|of| window["server"][of].as_f64().unwrap_or(f64::INFINITY));
    let waited = window["server"]["processes"]["run_queue_ns"].as_f64().unwrap_or(0.0);
    let share = ((used[0] + used[1] + waited) / number(&window["measured"]["window_ns"])).min(1.0);
    let level = &verdict["levels"][0];
    if level["standing"] == "noisy" {
        let least = 1.0 + 2.0 * slower * share;
        let factor = number(&level["noise"]["at_best"]["factor"]);
        let other = number(&level["noise"]["factor"]);
        assert!(factor >= least * 0.999 && factor <= least * other * 1.001, "{factor}: {least}, {other}");
        let said = webstone_in(dir.path(), &[&LOAD[..9], &["--no-store"]].concat());
        let is_noisy = said.err.contains("NOISY");
        assert!(!is_noisy || said.err.contains("this machine was faster in earlier runs"), "{}", said.err);
    }
    // A file of something else is begun anew, and no run fails for it.
    fs::write(&file, "[]").unwrap();
    let third = run(dir.path(), &[]);
    assert_eq!(third["earlier_speeds"], Value::Null);
    let anew: Value = serde_json::from_str(&fs::read_to_string(&file).unwrap()).unwrap();
    assert_eq!(anew["machines"].as_array().unwrap().len(), 1, "{anew}");
}
