//! The form against the specification: every key has a field, and whatever a testbed says comes back unchanged.

use std::collections::BTreeSet;
use std::path::Path;

use serde_json::{Map, Value, json};
use webstone_model::spec::RunSpec;

use super::Scene;

/// Removes what is empty in a form: nulls, empty texts, lists and tables.
fn said(value: &mut Value) {
    if let Value::Object(map) = value {
        map.values_mut().for_each(said);
        map.retain(|_, value| {
            !matches!(value, Value::Null) && *value != json!("") && *value != json!([]) && *value != json!({})
        });
    }
}

#[test]
fn a_form_gives_back_what_any_testbed_says() {
    let Some(mut scene) = Scene::start() else { return };
    let mut testbeds = vec![(serde_json::to_value(RunSpec::default()).unwrap(), "run")];
    let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples");
    for entry in std::fs::read_dir(examples).unwrap().map(|entry| entry.unwrap().path()) {
        let Ok(text) = std::fs::read_to_string(&entry) else { continue };
        if let Ok(spec) = toml::from_str::<RunSpec>(&text) {
            let mut whole = serde_json::to_value(spec).unwrap();
            whole["server"]["tls"] = json!({ "certificate": "rsa", "versions": ["1.3"] });
            whole["generators"] = json!([{ "agent": "ssh gen1 webstone agent" }, {}]);
            whole["client"]["headers"] = json!({ "Accept": "a = b", "X": "1" });
            whole["disclosure"] = json!({ "sponsor": "nobody" });
            let command = if whole["find"].is_object() { "find" } else { "servers" };
            testbeds.push((whole, command));
        }
    }
    assert!(testbeds.len() > 5, "{}", testbeds.len());
    for (mut spec, command) in testbeds {
        said(&mut spec);
        let filled = format!(
            "(async () => {{ const {{ Form }} = await import('/assets/form.js'); const {{ get }} = await import('/assets/api.js');
                const form = new Form(await get('/api/form'), () => {{}}); form.build({}, {spec}); form.kept = {{}}; return form.spec(); }})()",
            json!(command)
        );
        let mut back = scene.browser.evaluate(&filled);
        said(&mut back);
        let mut shown = spec;
        for table in ["find", "series"] {
            // The form of another command keeps them and has no fields for them.
            if back.get(table).is_none() {
                shown.as_object_mut().unwrap().remove(table);
            }
        }
        assert_eq!(back, shown);
    }
    scene.finish();
}

/// A part of the schema with what it refers to.
fn resolved<'a>(mut part: &'a Value, whole: &'a Value) -> &'a Value {
    loop {
        let options = part["anyOf"].as_array().into_iter().flatten().filter(|one| one["type"] != "null");
        let only: Vec<&Value> = options.collect();
        if let Some(name) = part["$ref"].as_str().and_then(|name| name.rsplit('/').next()) {
            part = &whole["$defs"][name];
        } else if let [one] = only.as_slice() {
            part = one;
        } else {
            return part;
        }
    }
}

/// The keys that have a value of their own, with their tables.
fn keys(key: &str, part: &Value, whole: &Value, found: &mut BTreeSet<String>) {
    let part = resolved(part, whole);
    match part["properties"].as_object() {
        Some(properties) => {
            for (name, one) in properties {
                let below = if key.is_empty() { name.clone() } else { format!("{key}.{name}") };
                keys(&below, one, whole, found);
            }
        }
        None => {
            found.insert(key.to_owned());
        }
    }
}

#[test]
fn every_key_has_a_field_that_says_it_and_explains_itself() {
    let Some(mut scene) = Scene::start() else { return };
    let schema = serde_json::to_value(schemars::schema_for!(RunSpec)).unwrap();
    let mut wanted = BTreeSet::new();
    keys("", &schema, &schema, &mut wanted);
    assert!(wanted.len() > 90, "{wanted:?}");
    let typed = "(async () => {
        const { Form } = await import('/assets/form.js'); const { get } = await import('/assets/api.js');
        const form = new Form(await get('/api/form'), () => {}); document.body.append(form.element);
        const found = {};
        for (const command of ['find', 'servers']) {
            form.build(command, {});
            for (const [key, { field, control }] of form.entries) {
                const item = field.choices.at(-1)?.value ?? 'b';
                const text = { boolean: 'no', part: 'yes', number: '7', list: field.numbers ? '1\\n2' : 'a\\n' + item, map: 'A = b = c', json: '[{\"x\":1}]',
                    choice: item, text: 'some text' }[field.kind];
                form.kept = {};
                control.value = text;
                const spec = form.spec();
                form.fill({});
                const emptied = control.value;
                form.fill(spec);
                const back = control.value;
                form.fill({});
                const help = document.getElementById(control.getAttribute('aria-describedby').split(' ')[0])?.textContent ?? '';
                found[key] = { kind: field.kind, numbers: field.numbers, item, text, spec, emptied, back, help };
            }
        }
        return found;
    })()";
    let found = scene.browser.evaluate(typed);
    let found: &Map<String, Value> = found.as_object().unwrap();
    let parts = found.iter().filter(|(_, one)| one["kind"] == "part").map(|(key, _)| key.clone());
    let parts: BTreeSet<String> = parts.collect();
    let fields: BTreeSet<String> = found.keys().filter(|key| !parts.contains(*key)).cloned().collect();
    assert_eq!(fields, wanted, "a field for each key, and no other");
    for (key, one) in found {
        let said = match one["kind"].as_str().unwrap() {
            "boolean" => json!(false),
            "part" => json!({}),
            "number" => json!(7),
            "list" if one["numbers"] == true => json!([1, 2]),
            "list" => json!(["a", one["item"]]),
            "map" => json!({ "A": "b = c" }),
            "json" => json!([{ "x": 1 }]),
            _ => one["text"].clone(),
        };
        let whole = key.rsplit('.').fold(said, |value, name| json!({ name: value }));
        assert_eq!(one["spec"], whole, "{key}");
        assert_eq!(
            (&one["emptied"], one["back"].as_str().map(squeezed)),
            (&json!(""), one["text"].as_str().map(squeezed)),
            "{key}"
        );
        assert!(
            one["help"].as_str().is_some_and(|help| help.trim().len() > 5),
            "{key} is not explained: {one}"
        );
    }
    scene.finish();
}

/// Without blanks, which say nothing in JSON.
fn squeezed(text: &str) -> String {
    text.split_whitespace().collect()
}
