//! The published schema is the generated one, and what is rendered keeps to it.

use std::path::Path;

use serde_json::{Value, json};
use webstone_model::duel::{AnswerDifference, DuelRecord};
use webstone_model::event::{
    EVENTS_SCHEMA, Ended, Event, EventLine, Live, LiveHost, LivePercentiles, Phase, Position,
};
use webstone_model::fixture;
use webstone_model::record::RunRecord;
use webstone_report::{
    Format, Options, comparison_schema, duel_schema, event_schema, json_schema, render, render_comparison,
    render_duel, spec_schema,
};

use crate::records;

#[test]
fn the_schema_of_the_browser_fronts_form_is_the_generated_one() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../ui/src/spec.schema.json");
    if std::env::var_os("UPDATE_SCHEMA").is_some() {
        std::fs::write(&path, spec_schema()).unwrap();
    }
    assert!(
        std::fs::read_to_string(&path).unwrap_or_default() == spec_schema(),
        "crates/ui/src/spec.schema.json is not what the types say.\nhint: cargo xtask docs"
    );
}

#[test]
fn the_published_schema_is_the_generated_one() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/record.schema.json");
    if std::env::var_os("UPDATE_SCHEMA").is_some() {
        std::fs::write(&path, json_schema()).unwrap();
    }
    let published = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        published == json_schema(),
        "docs/record.schema.json is not what the types say.\nhint: UPDATE_SCHEMA=1 cargo test --workspace --test reports schema::"
    );
}

#[test]
fn the_published_schema_of_comparisons_is_the_generated_one_and_is_kept_to() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/comparison.schema.json");
    if std::env::var_os("UPDATE_SCHEMA").is_some() {
        std::fs::write(&path, comparison_schema()).unwrap();
    }
    assert!(
        std::fs::read_to_string(&path).unwrap_or_default() == comparison_schema(),
        "docs/comparison.schema.json is not what the types say.\nhint: UPDATE_SCHEMA=1 cargo test --workspace --test reports schema::"
    );
    let schema: Value = serde_json::from_str(&comparison_schema()).unwrap();
    for comparison in [records::comparison(), records::hopeless_comparison()] {
        let text = render_comparison(&comparison, &[], Format::Json, &Options::default()).unwrap();
        let value: Value = serde_json::from_slice(&text).unwrap();
        assert_eq!(problems(&schema, &schema, &value, "$"), Vec::<String>::new());
    }
}

#[test]
fn the_published_schema_of_events_is_the_generated_one_and_is_kept_to() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/events.schema.json");
    if std::env::var_os("UPDATE_SCHEMA").is_some() {
        std::fs::write(&path, event_schema()).unwrap();
    }
    assert!(
        std::fs::read_to_string(&path).unwrap_or_default() == event_schema(),
        "docs/events.schema.json is not what the types say.\nhint: UPDATE_SCHEMA=1 cargo test --workspace --test reports schema::"
    );
    let schema: Value = serde_json::from_str(&event_schema()).unwrap();
    let record = records::small();
    let level = Box::new(Ended::of_iteration(&record.iterations[0]));
    let at = Position { step: 1, steps: 6, clients: 5, rate: None, iteration: 1 };
    let started = Event::RunStarted {
        id: record.id.clone(),
        path: Some("runs/x".to_owned()),
        target: Box::new(record.target.clone()),
        workload: record.workload.name.clone(),
        spec: Box::new(record.spec.clone()),
        steps: 6,
        planned_ns: None,
        paced: true,
        dealt: Some(
            "dealing the load to 2 hosts by their workers: gen1 4 workers, 50 %; gen2 4 workers, 50 %"
                .to_owned(),
        ),
    };
    let live = Live { response: Some(LivePercentiles::default()), ..Live::default() };
    let host = LiveHost {
        response: Some(LivePercentiles::default()),
        busiest_worker: Some(0.5),
        ..LiveHost::default()
    };
    let hosts = Event::Hosts { at, hosts: vec![host] };
    let tick = Event::Tick { at, phase: Phase::Measuring, live };
    for event in [started, Event::LevelEnded { at, level }, tick, hosts] {
        let line = EventLine { schema: EVENTS_SCHEMA, time: record.started_at.clone(), event };
        assert_eq!(
            problems(&schema, &schema, &serde_json::to_value(line).unwrap(), "$"),
            Vec::<String>::new()
        );
    }
}

#[test]
fn the_published_schema_of_duels_is_the_generated_one_and_is_kept_to() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/duel.schema.json");
    if std::env::var_os("UPDATE_SCHEMA").is_some() {
        std::fs::write(&path, duel_schema()).unwrap();
    }
    assert!(
        std::fs::read_to_string(&path).unwrap_or_default() == duel_schema(),
        "docs/duel.schema.json is not what the types say.\nhint: UPDATE_SCHEMA=1 cargo test --workspace --test reports schema::"
    );
    let schema: Value = serde_json::from_str(&duel_schema()).unwrap();
    let mut sound = fixture::duel("d", &[("old", 10_000), ("new", 10_500), ("third", 10_000)], 6);
    sound.duel.fail_if = vec!["cpu > +3%".parse().unwrap()];
    sound.differences = vec![AnswerDifference { contestant: 1, ..AnswerDifference::default() }];
    // Of one start, an interval reaches to infinity.
    let short = fixture::duel("d", &[("old", 10_000), ("new", 10_500)], 1);
    let rendered = |record: &DuelRecord| -> Value {
        serde_json::from_slice(&render_duel(record, Format::Json, &Options::default()).unwrap()).unwrap()
    };
    assert_eq!(rendered(&short)["judgement"]["comparisons"][0]["ratios"][0]["high"], Value::Null);
    for record in [&sound, &short, &DuelRecord::default()] {
        assert_eq!(problems(&schema, &schema, &rendered(record), "$"), Vec::<String>::new());
    }
    let mut wrong = rendered(&sound);
    wrong["judgement"]["comparisons"][0]["ratios"][0]["low"] = json!("1");
    wrong["duel"]["duel"]["sice"] = json!(1);
    let found = problems(&schema, &schema, &wrong, "$").join("\n");
    assert!(found.contains("ratios[0].low: is no number") && found.contains("sice is unknown"), "{found}");
}

fn rendered(record: &RunRecord) -> Value {
    serde_json::from_slice(&render(record, Format::Json, &Options::default()).unwrap()).unwrap()
}

fn schema() -> Value {
    serde_json::from_str(&json_schema()).unwrap()
}

#[test]
fn reports_and_stored_records_keep_to_the_schema() {
    let schema = schema();
    let mut records = vec![
        records::small(),
        records::errors(),
        records::interrupted(),
        records::nothing(),
        records::void_only(),
        records::refused(),
        records::without_histograms(),
    ];
    // A page that uses everything a request can have.
    let file = &mut records[0].workload.pages[0].files[0];
    file.detail.method = Some("POST".to_owned());
    file.detail.status = Some(201);
    file.detail.body = Some("x".to_owned());
    file.detail.headers.add("Accept", "*/*");
    for record in &records {
        assert_eq!(problems(&schema, &schema, &rendered(record), "$"), Vec::<String>::new(), "{}", record.id);
        let stored = serde_json::to_value(record).unwrap();
        assert_eq!(problems(&schema, &schema, &stored, "$"), Vec::<String>::new(), "{}", record.id);
    }
}

#[test]
fn the_schema_refuses_invalid_records() {
    let schema = schema();
    let sound = rendered(&records::small());
    let spoiled = |spoil: fn(&mut Value)| {
        let mut value = sound.clone();
        spoil(&mut value);
        problems(&schema, &schema, &value, "$").join("\n")
    };
    for (spoil, expected) in [
        (
            (|v| drop(v.as_object_mut().unwrap().remove("iterations"))) as fn(&mut Value),
            "$: iterations is missing",
        ),
        (|v| v["state"] = json!("finished"), "$.state: fits no alternative"),
        (|v| v["iterations"][0]["clients"] = json!("5"), "$.iterations[0].clients: is no integer"),
        (|v| v["iterations"][0]["clients"] = json!(-5), "$.iterations[0].clients: is below 0"),
        (|v| v["spec"]["load"]["speed"] = json!(1), "$.spec.load: speed is unknown"),
        (|v| v["computed"]["levels"][0]["fairness"]["pages"] = json!([1]), "$.computed: fits no alternative"),
    ] {
        let found = spoiled(spoil);
        assert!(found.contains(expected), "{expected} is not in:\n{found}");
    }
}

#[test]
fn a_report_reads_back_as_its_record() {
    let mut record = records::without_histograms();
    let bytes = render(&record, Format::Json, &Options::default()).unwrap();
    // Sums of pages are in it; what each page did in each iteration is not.
    record.iterations.iter_mut().for_each(|iteration| iteration.measured.pages.clear());
    assert_eq!(serde_json::from_slice::<RunRecord>(&bytes).unwrap(), record);
}

#[test]
fn computed_figures_stand_beside_the_record() {
    let report = rendered(&records::small());
    let levels = report["computed"]["levels"].as_array().unwrap();
    assert_eq!(
        levels.iter().map(|level| level["clients"].clone()).collect::<Vec<_>>(),
        [5, 10, 20].map(Value::from)
    );
    for level in levels {
        assert_eq!(level["iterations"].as_array().unwrap().len(), 2);
        for iteration in level["iterations"].as_array().unwrap() {
            let index = iteration["index"].as_u64().unwrap() as usize;
            assert_eq!(report["iterations"][index]["iteration"], iteration["iteration"]);
            assert_eq!(report["iterations"][index]["clients"], level["clients"]);
            for name in ["connect", "first_byte", "response", "page"] {
                assert!(iteration["distributions"][name]["p99_s"].as_f64().unwrap() > 0.0);
            }
        }
    }
    assert_eq!(report["computed"]["peak"]["clients"], 20);
    let empty = rendered(&records::without_histograms());
    assert_eq!(empty["computed"]["levels"][0]["distributions"]["response"], Value::Null);
    assert_eq!(empty["computed"]["peak"], Value::Null);
}

/// A checker of the part of JSON Schema (2020-12) that the generated schema uses. Whole validators bring some sixty
/// crates along; this one panics on a keyword that it does not know, so that it cannot pass by ignoring it.
fn problems(root: &Value, schema: &Value, value: &Value, at: &str) -> Vec<String> {
    let rules = match schema {
        Value::Bool(true) => return Vec::new(),
        Value::Bool(false) => return vec![format!("{at}: is not allowed")],
        Value::Object(rules) => rules,
        _ => panic!("{schema} is no schema"),
    };
    let mut found = Vec::new();
    for (keyword, rule) in rules {
        match keyword.as_str() {
            "$schema" | "$defs" | "title" | "description" | "default" | "format" | "pattern" => {}
            "$ref" => {
                let target = root.pointer(rule.as_str().unwrap().trim_start_matches('#')).unwrap();
                found.extend(problems(root, target, value, at));
            }
            "type" => {
                let names: Vec<&str> = match rule {
                    Value::String(name) => vec![name],
                    names => names.as_array().unwrap().iter().map(|name| name.as_str().unwrap()).collect(),
                };
                if !names.iter().any(|name| is(value, name)) {
                    found.push(format!("{at}: is no {}", names.join(" or ")));
                }
            }
            "const" if rule != value => found.push(format!("{at}: is not {rule}")),
            "enum" if !rule.as_array().unwrap().contains(value) => {
                found.push(format!("{at}: is not one of {rule}"))
            }
            "const" | "enum" => {}
            "anyOf" | "oneOf" => {
                let fits = |schema: &&Value| problems(root, schema, value, at).is_empty();
                let fitting = rule.as_array().unwrap().iter().filter(fits).count();
                if fitting == 0 || (keyword == "oneOf" && fitting > 1) {
                    found.push(format!("{at}: fits no alternative"));
                }
            }
            "minimum" if value.as_f64().is_some_and(|v| v < rule.as_f64().unwrap()) => {
                found.push(format!("{at}: is below {rule}"));
            }
            "maximum" if value.as_f64().is_some_and(|v| v > rule.as_f64().unwrap()) => {
                found.push(format!("{at}: is above {rule}"));
            }
            "minimum" | "maximum" => {}
            "minItems" | "maxItems" => {
                let length = value.as_array().map(|items| items.len() as u64);
                let limit = rule.as_u64().unwrap();
                let wrong = |n: u64| if keyword == "minItems" { n < limit } else { n > limit };
                if length.is_some_and(wrong) {
                    found.push(format!("{at}: has not {limit} items"));
                }
            }
            "required" => {
                for name in rule.as_array().unwrap().iter().map(|name| name.as_str().unwrap()) {
                    if value.is_object() && value.get(name).is_none() {
                        found.push(format!("{at}: {name} is missing"));
                    }
                }
            }
            "properties" => {
                for (name, schema) in rule.as_object().unwrap() {
                    if let Some(value) = value.get(name) {
                        found.extend(problems(root, schema, value, &format!("{at}.{name}")));
                    }
                }
            }
            "patternProperties" => {
                for (pattern, schema) in rule.as_object().unwrap() {
                    assert_eq!(pattern, NUMBERS, "no other pattern is known to this checker");
                    let named = value.as_object().into_iter().flatten().filter(|(name, _)| is_number(name));
                    found
                        .extend(named.flat_map(|(name, value)| {
                            problems(root, schema, value, &format!("{at}.{name}"))
                        }));
                }
            }
            "additionalProperties" | "unevaluatedProperties" => {
                let known = rules.get("properties").and_then(Value::as_object);
                let has_numbers = rules.contains_key("patternProperties");
                for (name, value) in value.as_object().into_iter().flatten() {
                    if known.is_some_and(|known| known.contains_key(name)) || has_numbers && is_number(name) {
                        continue;
                    }
                    match rule {
                        Value::Bool(false) => found.push(format!("{at}: {name} is unknown")),
                        schema => found.extend(problems(root, schema, value, &format!("{at}.{name}"))),
                    }
                }
            }
            "items" | "prefixItems" => {
                for (index, item) in value.as_array().into_iter().flatten().enumerate() {
                    let schema = if keyword == "items" { Some(rule) } else { rule.get(index) };
                    if let Some(schema) = schema {
                        found.extend(problems(root, schema, item, &format!("{at}[{index}]")));
                    }
                }
            }
            unknown => panic!("the generated schema uses {unknown}, which this checker does not know"),
        }
    }
    found
}

/// The pattern of names that are numbers, such as status codes.
const NUMBERS: &str = "^\\d+$";

fn is_number(name: &str) -> bool {
    !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_digit())
}

fn is(value: &Value, name: &str) -> bool {
    match name {
        "null" => value.is_null(),
        "boolean" => value.is_boolean(),
        "string" => value.is_string(),
        "number" => value.is_number(),
        "integer" => value.is_u64() || value.is_i64(),
        "array" => value.is_array(),
        "object" => value.is_object(),
        _ => panic!("{name} is no type"),
    }
}
