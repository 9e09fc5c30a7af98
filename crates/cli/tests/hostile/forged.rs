//! Records changed by somebody who knows the format: every check sum is correct again.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::program::webstone_in;
use crate::records::{copy, mend_manifest, run, text};

/// Changes that `verify` does not notice: one pattern per line, and after `#` why it cannot.
const UNNOTICED: &str = include_str!("unnoticed.txt");
/// Facts about the machine, most of which are in a record once: one in this many is tried.
const FACTS_EACH: usize = 16;
/// Number of records verified by one call.
const AT_ONCE: usize = 100;

fn edit(path: &Path, change: impl FnOnce(&mut Value)) {
    let mut tree: Value = serde_json::from_slice(&fs::read(path).unwrap()).unwrap();
    change(&mut tree);
    fs::write(path, serde_json::to_vec_pretty(&tree).unwrap()).unwrap();
}

fn halve(number: &mut Value) {
    *number = (number.as_u64().unwrap() / 2).into();
}

#[test]
fn a_rate_doubled_by_halving_every_window() {
    let dir = tempfile::tempdir().unwrap();
    let run = run(dir.path());
    let record: Value = serde_json::from_slice(&fs::read(run.join("record.json")).unwrap()).unwrap();
    for iteration in record["iterations"].as_array().unwrap() {
        let measured = &iteration["measured"];
        let [answered, busy] = [&measured["response"]["sum"], &measured["counts"]["busy_ns"]]
            .map(|value| value.as_f64().unwrap());
        if answered < 0.6 * busy {
            println!("skipped: in a window most of the time went to requests that were not answered in it");
            return;
        }
    }
    let forged = |also: &dyn Fn(&mut Value)| {
        let copied = dir.path().join("forged");
        copy(&run, &copied);
        edit(&copied.join("record.json"), |record| {
            for iteration in record["iterations"].as_array_mut().unwrap() {
                halve(&mut iteration["measured"]["window_ns"]);
                halve(&mut iteration["measured"]["counts"]["busy_ns"]);
                also(iteration);
            }
            record["spec"]["load"]["duration"] = "500ms".into();
        });
        fs::remove_file(copied.join("figures.json")).unwrap();
        mend_manifest(&copied);
        let said = webstone_in(dir.path(), &["verify", "forged"]);
        assert_eq!(said.code, 6, "{said:?}");
        fs::remove_dir_all(&copied).unwrap();
        said.out
    };
    let said = forged(&|_| ());
    assert!(said.contains("figures.json: is missing: every finished run is stored with it"), "{said}");
    assert!(said.contains("Σ response time is within the time in progress"), "{said}");
    let said = forged(&|iteration| {
        halve(&mut iteration["host"]["elapsed_ns"]);
        for cpu in iteration["host"]["cpus"].as_array_mut().unwrap() {
            cpu.as_object_mut().unwrap().values_mut().filter(|value| value.is_u64()).for_each(halve);
        }
    });
    assert!(said.contains("Σ response time is within the time in progress"), "{said}");
}

#[test]
fn a_record_without_a_file_that_its_version_stores() {
    let dir = tempfile::tempdir().unwrap();
    let run = run(dir.path());
    for name in ["figures.json", "report.html", "pages.csv", "page-rows.csv.gz"] {
        let copied = dir.path().join("forged");
        copy(&run, &copied);
        fs::remove_file(copied.join(name)).unwrap();
        mend_manifest(&copied);
        let said = webstone_in(dir.path(), &["verify", "forged"]);
        assert_eq!(said.code, 6, "{name}: {said:?}");
        assert!(said.out.contains(name), "{name}: {}", said.out);
        fs::remove_dir_all(&copied).unwrap();
    }
    let said = webstone_in(dir.path(), &["verify", text(&run)]);
    assert_eq!(said.code, 0, "{said:?}");
    assert!(
        said.out.contains("not signed: the record is consistent with itself, and anyone could have made it")
    );
}

/// Every scalar with its place (a JSON pointer) and its pattern, in which `[]` stands for every index.
fn scalars(tree: &Value, place: &str, pattern: &str, found: &mut Vec<(String, String)>) {
    match tree {
        Value::Object(fields) => {
            for (name, value) in fields {
                let escaped = name.replace('~', "~0").replace('/', "~1");
                let pattern = if pattern.is_empty() { name.clone() } else { format!("{pattern}.{name}") };
                scalars(value, &format!("{place}/{escaped}"), &pattern, found);
            }
        }
        Value::Array(values) => {
            for (index, value) in values.iter().enumerate() {
                scalars(value, &format!("{place}/{index}"), &format!("{pattern}[]"), found);
            }
        }
        Value::Null => {}
        _ => found.push((place.to_owned(), pattern.to_owned())),
    }
}

/// Another value of the same kind.
fn changed(value: &Value) -> Value {
    match value {
        Value::Bool(value) => (!value).into(),
        Value::Number(number) => match number.as_u64() {
            Some(number) => number.wrapping_mul(2).wrapping_add(1).into(),
            None => (number.as_f64().unwrap() * 2.0 + 1.0).into(),
        },
        Value::String(text) if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()) => {
            format!("{text}1").into()
        }
        Value::String(text) => format!("{text}x").into(),
        other => other.clone(),
    }
}

#[test]
fn every_scalar_of_a_record_changed_one_by_one() {
    let dir = tempfile::tempdir().unwrap();
    let run = run(dir.path());
    let whole: Value = serde_json::from_slice(&fs::read(run.join("record.json")).unwrap()).unwrap();
    let mut found = Vec::new();
    scalars(&whole, "", "", &mut found);
    // The first one of each pattern.
    let mut places: BTreeMap<String, String> = BTreeMap::new();
    found.into_iter().rev().for_each(|(place, pattern)| drop(places.insert(pattern, place)));
    let facts =
        places.keys().filter(|pattern| pattern.starts_with("environment.")).cloned().collect::<Vec<_>>();
    for (number, pattern) in facts.iter().enumerate() {
        if number % FACTS_EACH != 0 && !pattern.starts_with("environment.tool.") {
            places.remove(pattern);
        }
    }
    assert!(places.len() > 200, "{}", places.len());
    let listed: BTreeSet<&str> = UNNOTICED
        .lines()
        .filter(|line| !line.trim_start().starts_with('#') && !line.is_empty())
        .map(|line| {
            let (pattern, why) = line.split_once('#').unwrap_or((line, ""));
            assert!(!why.trim().is_empty(), "unnoticed.txt says no reason: {line}");
            pattern.trim()
        })
        .collect();
    let is_listed = |pattern: &str| {
        listed.contains(pattern)
            || ["environment.*", "voids[].*"]
                .iter()
                .any(|all| listed.contains(all) && pattern.starts_with(&all[..all.len() - 1]))
    };
    let mut unnoticed = Vec::new();
    for batch in places.iter().collect::<Vec<_>>().chunks(AT_ONCE) {
        let forged = dir.path().join("forged");
        fs::create_dir(&forged).unwrap();
        let mut arguments = vec!["verify".to_owned(), "--format".to_owned(), "json".to_owned()];
        for (number, (_, place)) in batch.iter().enumerate() {
            let copied = forged.join(number.to_string());
            fs::create_dir(&copied).unwrap();
            for entry in fs::read_dir(&run).unwrap() {
                let path = entry.unwrap().path();
                let to = copied.join(path.file_name().unwrap());
                match path.file_name().unwrap().to_str().unwrap() {
                    "record.json" | "environment.json" | "MANIFEST.sha256" => {
                        let _ = fs::copy(&path, to).unwrap();
                    }
                    _ => fs::hard_link(&path, to).unwrap(),
                }
            }
            edit(&copied.join("record.json"), |record| {
                let value = record.pointer_mut(place).unwrap();
                *value = changed(value);
            });
            if let Some(fact) = place.strip_prefix("/environment") {
                edit(&copied.join("environment.json"), |environment| {
                    let value = environment.pointer_mut(fact).unwrap();
                    *value = changed(value);
                });
            }
            mend_manifest(&copied);
            arguments.push(copied.display().to_string());
        }
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        let said = webstone_in(dir.path(), &arguments);
        let answers: Value = serde_json::from_str(&said.out).unwrap_or_else(|_| panic!("{said:?}"));
        let answers = answers.as_array().unwrap();
        assert_eq!(answers.len(), batch.len());
        for (answer, (pattern, _)) in answers.iter().zip(batch) {
            if answer["problems"].as_array().unwrap().is_empty() {
                unnoticed.push((*pattern).clone());
            }
        }
        fs::remove_dir_all(&forged).unwrap();
    }
    let new: Vec<&String> = unnoticed.iter().filter(|pattern| !is_listed(pattern)).collect();
    assert!(
        new.is_empty(),
        "verify notices no change of these, and unnoticed.txt does not say why ({} of {} tried in all):\n{}",
        unnoticed.len(),
        places.len(),
        new.iter().map(|pattern| format!("{pattern}\n")).collect::<String>()
    );
}
