//! Lists the files of `assets/`, so that a new one is served without being named anywhere.

use std::fmt::Write;
use std::path::Path;
use std::{env, fs};

fn main() {
    println!("cargo::rerun-if-changed=assets");
    let assets = Path::new(&env::var("CARGO_MANIFEST_DIR").expect("cargo sets it")).join("assets");
    let out = Path::new(&env::var("OUT_DIR").expect("cargo sets it")).join("files.rs");
    let entries = fs::read_dir(&assets).expect("the assets are part of the package").filter_map(Result::ok);
    let mut names: Vec<String> = entries.filter_map(|entry| entry.file_name().into_string().ok()).collect();
    names.sort();
    let mut list = String::from("&[\n");
    for name in names.iter().filter(|name| *name != "index.html" && !name.starts_with('.')) {
        let path = assets.join(name);
        writeln!(list, "    ({name:?}, include_bytes!({path:?})),").expect("a String takes everything");
    }
    list.push_str("]\n");
    fs::write(out, list).expect("cargo made the directory");
}
