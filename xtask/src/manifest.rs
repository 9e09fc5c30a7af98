//! As much of a `Cargo.toml` as the rules need: which section a line is in, and which package a dependency line names.
//!
//! Lines are kept with their numbers, which a TOML parser would lose; manifests here are written one key a line.

/// What a dependency is needed for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Part of the built program.
    Normal,
    /// Tests, examples and benchmarks only.
    Dev,
    /// Build scripts.
    Build,
}

/// One line that names a dependency.
#[derive(Debug, PartialEq, Eq)]
pub struct Dependency {
    /// Package that it resolves to.
    pub package: String,
    /// What it is needed for.
    pub kind: Kind,
    /// Line of the manifest, from 1.
    pub line: usize,
}

/// The `name` of the package, if the manifest has one.
pub fn package_name(manifest: &str) -> Option<&str> {
    let (mut section, mut name) = ("", None);
    for line in manifest.lines().map(str::trim) {
        if let Some(header) = line.strip_prefix('[') {
            section = header.trim_end_matches(']');
        } else if section == "package" && key(line) == "name" {
            name = quoted(line);
        }
    }
    name
}

/// Every dependency of a manifest, whatever its form.
pub fn dependencies(manifest: &str) -> Vec<Dependency> {
    let mut found: Vec<Dependency> = Vec::new();
    let (mut kind, mut table_of_one) = (None, false);
    for (number, line) in manifest.lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        if let Some(header) = line.strip_prefix('[') {
            let header = header.split(']').next().unwrap_or_default();
            let (section, package) = section(header);
            kind = section;
            table_of_one = package.is_some();
            if let (Some(kind), Some(package)) = (kind, package) {
                found.push(Dependency { package: package.to_owned(), kind, line: number + 1 });
            }
            continue;
        }
        let Some(kind) = kind else { continue };
        if table_of_one {
            if key(line) == "package"
                && let (Some(last), Some(package)) = (found.last_mut(), quoted(line))
            {
                last.package = package.to_owned();
            }
            continue;
        }
        let renamed = line.find("package").and_then(|at| quoted(&line[at..]));
        let package = renamed.unwrap_or_else(|| key(line).trim_end_matches(".workspace"));
        found.push(Dependency { package: package.to_owned(), kind, line: number + 1 });
    }
    found
}

/// The kind of a section's dependencies, and the package where the section is one dependency's own table.
fn section(header: &str) -> (Option<Kind>, Option<&str>) {
    for (name, kind) in
        [("dev-dependencies", Kind::Dev), ("build-dependencies", Kind::Build), ("dependencies", Kind::Normal)]
    {
        let Some(at) = header.find(name) else { continue };
        let before = header[..at].trim_end_matches('.');
        let after = header[at + name.len()..].strip_prefix('.');
        if before.starts_with("workspace") || (!before.is_empty() && !before.starts_with("target")) {
            continue;
        }
        return (Some(kind), after.map(|package| package.trim_matches('"')));
    }
    (None, None)
}

fn key(line: &str) -> &str {
    line.split('=').next().unwrap_or_default().trim().trim_matches('"')
}

fn quoted(line: &str) -> Option<&str> {
    line.split('"').nth(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dependencies_are_read_in_every_form() {
        let manifest = "[package]\nname = \"a\"\n\n[dependencies]\nwebstone-model.workspace = true\n\
            serde = { version = \"1\", features = [\"derive\"] }\nrenamed = { package = \"webstone-engine\", path = \"x\" }\n\
            # webstone-cli = \"1\"\n[dev-dependencies]\nproptest = \"1\"\n[target.'cfg(unix)'.dependencies]\nnix = \"0\"\n\
            [dependencies.toml]\nversion = \"1\"\n[build-dependencies]\ncc = \"1\"\n[dependencies.short]\npackage = \"long\"\n\
            [workspace.dependencies]\nother = \"1\"\n";
        let found: Vec<(String, Kind, usize)> =
            dependencies(manifest).into_iter().map(|d| (d.package, d.kind, d.line)).collect();
        let expected = [
            ("webstone-model", Kind::Normal, 5),
            ("serde", Kind::Normal, 6),
            ("webstone-engine", Kind::Normal, 7),
            ("proptest", Kind::Dev, 10),
            ("nix", Kind::Normal, 12),
            ("toml", Kind::Normal, 13),
            ("cc", Kind::Build, 16),
            ("long", Kind::Normal, 17),
        ];
        assert_eq!(found, expected.map(|(p, k, l)| (p.to_owned(), k, l)));
        assert_eq!(package_name(manifest), Some("a"));
    }
}
