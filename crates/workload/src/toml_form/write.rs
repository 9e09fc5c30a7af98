//! Writes the TOML form of a workload, which can express everything.

use std::fmt::Write;

use super::super::{FileRequest, Page, Workload};
use webstone_measure::units::Nanos;

/// Writes a workload. Reading the result gives the same workload, if the workload is valid.
pub fn write(workload: &Workload) -> String {
    let mut text = format!("name = {}\n", quoted(&workload.name));
    // Writing to a String cannot fail.
    if !workload.description.is_empty() {
        let _ = writeln!(text, "description = {}", quoted(&workload.description));
    }
    for (name, feed) in &workload.feeds {
        if let Some(kept) = &feed.kept {
            let _ = writeln!(
                text,
                "\n# The record keeps none of its {} rows: fingerprint {}",
                kept.rows, kept.fingerprint
            );
        }
        let _ = writeln!(text, "\n[feeds.{}]\ncolumns = {}\nrows = [", key(name), list(&feed.columns));
        for row in &feed.rows {
            let _ = writeln!(text, "  {},", list(row));
        }
        text.push_str("]\n");
    }
    for page in &workload.pages {
        write_page(&mut text, page);
    }
    text
}

fn write_page(text: &mut String, page: &Page) {
    let _ = write!(text, "\n[[pages]]\nweight = {}\n", page.weight);
    if page.think != Nanos::ZERO {
        let _ = writeln!(text, "think = \"{}\"", page.think);
    }
    if let [file] = &page.files[..] {
        for (name, value) in file_keys(file) {
            let _ = writeln!(text, "{name} = {value}");
        }
        return;
    }
    text.push_str("files = [\n");
    for file in &page.files {
        match &file_keys(file)[..] {
            [(_, url)] => {
                let _ = writeln!(text, "  {url},");
            }
            keys => {
                let keys: Vec<String> =
                    keys.iter().map(|(name, value)| format!("{name} = {value}")).collect();
                let _ = writeln!(text, "  {{ {} }},", keys.join(", "));
            }
        }
    }
    text.push_str("]\n");
}

fn file_keys(file: &FileRequest) -> Vec<(&'static str, String)> {
    let detail = &file.detail;
    let mut keys = vec![("url", quoted(&file.url))];
    keys.extend(file.size.map(|size| ("size", size.to_string())));
    keys.extend(detail.method.as_ref().map(|method| ("method", quoted(method))));
    keys.extend(detail.status.map(|status| ("status", status.to_string())));
    if !detail.headers.is_empty() {
        let fields: Vec<String> = detail
            .headers
            .by_name()
            .map(|(name, fields)| format!("{} = {}", key(name), values(fields)))
            .collect();
        keys.push(("headers", format!("{{ {} }}", fields.join(", "))));
    }
    keys.extend(detail.body.as_ref().map(|body| ("body", quoted(body))));
    keys.extend(detail.tls.then(|| ("tls", "true".to_owned())));
    keys
}

/// One value as itself, and several as a list.
fn values(fields: &[(String, String)]) -> String {
    match fields {
        [(_, value)] => quoted(value),
        several => list(&several.iter().map(|(_, value)| value.clone()).collect::<Vec<_>>()),
    }
}

fn list(values: &[String]) -> String {
    let values: Vec<String> = values.iter().map(|value| quoted(value)).collect();
    format!("[{}]", values.join(", "))
}

/// A bare key if possible, otherwise a quoted one.
fn key(name: &str) -> String {
    let bare = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
    if !name.is_empty() && name.bytes().all(bare) { name.to_owned() } else { quoted(name) }
}

/// A basic string on one line.
fn quoted(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for character in text.chars() {
        match character {
            '"' | '\\' => out.extend(['\\', character]),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            control if control.is_control() => {
                let _ = write!(out, "\\u{:04X}", u32::from(control));
            }
            other => out.push(other),
        }
    }
    out.push('"');
    out
}
