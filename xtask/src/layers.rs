//! The rules of ARCHITECTURE.md that can be checked: which way dependencies point, and that the pure crates import
//! no runtime, client, clock, file system or randomness.

use anyhow::{Context, Result, bail};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// Crates that only turn values into values, and what of ours they may stand on.
const PURE: &[(&str, &[&str])] = &[
    ("causeway-types", &[]),
    ("causeway-alloc", &["causeway-types"]),
    ("causeway-api", &["causeway-types"]),
    ("causeway-record", &["causeway-types", "causeway-alloc", "causeway-api"]),
    ("causeway-zone", &["causeway-types", "causeway-alloc", "causeway-api", "causeway-record"]),
    ("causeway-cluster", &["causeway-types", "causeway-alloc", "causeway-api", "causeway-record"]),
    ("causeway-evpn", &["causeway-types"]),
    ("causeway-ovsdb", &["causeway-types"]),
    ("causeway-ovn", &["causeway-types", "causeway-ovsdb"]),
    (
        "causeway-plan",
        &[
            "causeway-types",
            "causeway-alloc",
            "causeway-api",
            "causeway-record",
            "causeway-zone",
            "causeway-evpn",
            "causeway-ovsdb",
            "causeway-ovn",
        ],
    ),
];

/// Crates that reach the world, and what of ours they may stand on nevertheless: the host is told what shall be there,
/// and knows nobody who decides it.
const NARROW: &[(&str, &[&str])] = &[("causeway-host", &["causeway-types"])];

/// Packages that bring a runtime, a client, a clock or randomness. Checked in the whole tree below a pure crate.
const IMPURE_PACKAGES: &[&str] = &[
    "tokio",
    "async-std",
    "smol",
    "hyper",
    "reqwest",
    "kube",
    "kube-client",
    "kube-runtime",
    "rand",
    "getrandom",
    "fastrand",
    "chrono",
    "rustls",
    "rtnetlink",
    "socket2",
    "mio",
    "nix",
    "tempfile",
];

/// Parts of the standard library that reach the world.
const IMPURE_STD: &[&str] = &[
    "std::fs",
    "std::net::Tcp",
    "std::net::Udp",
    "std::os",
    "std::process",
    "std::env",
    "std::thread",
    "SystemTime::now",
    "Instant::now",
    "std::time::Instant",
    "std::time::SystemTime",
    "std::io::std",
];

/// Longest source file without its tests; split before it grows further.
const MAX_LINES: usize = 600;
/// Longest function of what is shipped, without comments and empty lines. Clippy's own limit is for tests, too, and wider.
const MAX_FUNCTION: usize = 47;

pub(crate) fn check() -> Result<()> {
    let packages = metadata()?;
    let mut problems = broken_layers(&packages)?;
    for package in packages.values().filter(|p| p.own) {
        problems.extend(long_sources(&package.folder.join("src"))?);
    }
    if problems.is_empty() {
        println!("layers: the pure crates are pure");
        return Ok(());
    }
    bail!("the workspace breaks its own rules:\n  {}", problems.join("\n  "))
}

/// A crate that is not there was renamed or taken apart: nobody looks at what became of it until it is in the lists above again.
fn broken_layers(packages: &BTreeMap<String, Package>) -> Result<Vec<String>> {
    let mut problems = Vec::new();
    for (name, allowed) in PURE.iter().chain(NARROW) {
        match packages.get(*name) {
            Some(package) => problems.extend(wrong_own_dependencies(name, package, allowed)),
            None => problems.push(format!("{name} has a layer but is not in the workspace")),
        }
    }
    for (name, _) in PURE {
        let Some(package) = packages.get(*name) else { continue };
        problems.extend(impure_dependencies(name, packages));
        problems.extend(impure_sources(&package.folder.join("src"))?);
    }
    Ok(problems)
}

struct Package {
    folder: PathBuf,
    /// Ordinary dependencies, not those of tests or builds.
    dependencies: BTreeSet<String>,
    own: bool,
}

fn metadata() -> Result<BTreeMap<String, Package>> {
    let out = crate::cargo().args(["metadata", "--format-version=1", "--locked"]).output()?;
    if !out.status.success() {
        bail!("cargo metadata: {}", String::from_utf8_lossy(&out.stderr));
    }
    let json: Value = serde_json::from_slice(&out.stdout)?;
    let own: BTreeSet<&str> = strings(&json["workspace_members"]).collect();
    let mut names = BTreeMap::new();
    let mut packages = BTreeMap::new();
    for p in array(&json["packages"]) {
        let name = p["name"].as_str().context("a package has a name")?.to_owned();
        let id = p["id"].as_str().context("a package has an id")?;
        let manifest = Path::new(p["manifest_path"].as_str().context("a package has a manifest")?);
        let folder = manifest.parent().context("a manifest has a folder")?.to_owned();
        names.insert(id.to_owned(), name.clone());
        packages.insert(name, Package { folder, dependencies: BTreeSet::new(), own: own.contains(id) });
    }
    // The resolved graph, so that an optional dependency that nobody enabled is not held against anyone.
    for node in array(&json["resolve"]["nodes"]) {
        let name = node["id"].as_str().and_then(|id| names.get(id)).context("a node is a package")?.clone();
        let normal = array(&node["deps"])
            .filter(|d| array(&d["dep_kinds"]).any(|k| k["kind"].is_null()))
            .filter_map(|d| names.get(d["pkg"].as_str()?).cloned());
        let package = packages.get_mut(&name).context("a node is a package")?;
        package.dependencies.extend(normal);
    }
    Ok(packages)
}

fn array(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

fn strings(value: &Value) -> impl Iterator<Item = &str> {
    array(value).filter_map(Value::as_str)
}

fn wrong_own_dependencies(name: &str, package: &Package, allowed: &[&str]) -> Vec<String> {
    let ours = package.dependencies.iter().filter(|d| d.starts_with("causeway"));
    ours.filter(|d| !allowed.contains(&d.as_str())).map(|d| format!("{name} depends on {d}")).collect()
}

fn impure_dependencies(name: &str, packages: &BTreeMap<String, Package>) -> Vec<String> {
    let mut seen = BTreeSet::new();
    let mut open = vec![name.to_owned()];
    let mut problems = Vec::new();
    while let Some(at) = open.pop() {
        for dependency in packages.get(&at).map(|p| &p.dependencies).into_iter().flatten() {
            if !seen.insert(dependency.clone()) {
                continue;
            }
            if IMPURE_PACKAGES.contains(&dependency.as_str()) {
                problems.push(format!("{name} must stay pure but brings in {dependency} (through {at})"));
            }
            open.push(dependency.clone());
        }
    }
    problems
}

fn impure_sources(folder: &Path) -> Result<Vec<String>> {
    let mut problems = Vec::new();
    for file in sources(folder)? {
        let text = fs::read_to_string(&file)?;
        for (number, line) in without_tests(&text).enumerate() {
            let code = line.split("//").next().unwrap_or_default();
            problems.extend(
                IMPURE_STD
                    .iter()
                    .filter(|word| code.contains(**word))
                    .map(|word| format!("{}:{}: {word} in a pure crate", file.display(), number + 1)),
            );
        }
    }
    Ok(problems)
}

fn long_sources(folder: &Path) -> Result<Vec<String>> {
    let mut problems = Vec::new();
    for file in sources(folder)?.into_iter().filter(|f| !f.components().any(|c| c.as_os_str() == "generated"))
    {
        let text = fs::read_to_string(&file)?;
        let lines = without_tests(&text).count();
        if lines > MAX_LINES {
            problems.push(format!(
                "{} has {lines} lines without its tests, more than {MAX_LINES}",
                file.display()
            ));
        }
        let long = functions(&text).into_iter().filter(|(_, lines)| *lines > MAX_FUNCTION);
        problems.extend(
            long.map(|(name, lines)| format!("{}: fn {name} has {lines} lines of code", file.display())),
        );
    }
    Ok(problems)
}

/// The functions of a file that is formatted, and how many lines of code are between their braces.
fn functions(text: &str) -> Vec<(String, usize)> {
    let mut all = Vec::new();
    let mut lines = without_tests(text);
    while let Some(line) = lines.next() {
        let indent = &line[..line.len() - line.trim_start().len()];
        let Some(name) = function_name(line) else { continue };
        // Its head may go on for some lines; a declaration ends with a semicolon, one line with a brace.
        let ends = |line: &&str| line.ends_with(['{', '}', ';']);
        let Some(head) = [line].into_iter().chain(lines.by_ref()).find(ends) else { break };
        if head.ends_with('{') {
            let end = format!("{indent}}}");
            let body = lines.by_ref().take_while(|line| *line != end).map(str::trim);
            let code = body.filter(|line| !line.is_empty() && !line.starts_with("//"));
            all.push((name.to_owned(), code.count()));
        }
    }
    all
}

fn function_name(line: &str) -> Option<&str> {
    let (before, rest) = line.trim_start().split_once("fn ")?;
    let qualified = |word: &str| word.starts_with("pub") || ["const", "async", "unsafe"].contains(&word);
    let name = before.split_whitespace().all(qualified).then_some(rest)?;
    name.split(|c: char| !c.is_alphanumeric() && c != '_').next().filter(|name| !name.is_empty())
}

/// Unit tests stand at the end of a file, behind `#[cfg(test)]`.
pub(crate) fn without_tests(text: &str) -> impl Iterator<Item = &str> {
    text.lines().take_while(|line| *line != "#[cfg(test)]")
}

pub(crate) fn sources(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    let Ok(entries) = fs::read_dir(folder) else { return Ok(files) };
    for entry in entries {
        let path = entry?.path();
        if path.is_dir() {
            files.extend(sources(&path)?);
        } else if path.extension().is_some_and(|e| e == "rs") {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}

#[cfg(test)]
mod tests {
    use super::{BTreeMap, NARROW, PURE, broken_layers, functions, metadata};

    /// Whoever renames a crate renames it here, too.
    #[test]
    fn a_crate_that_is_not_there_is_a_problem() {
        let mut packages = metadata().unwrap();
        assert_eq!(broken_layers(&packages).unwrap(), [""; 0]);
        packages.remove("causeway-zone");
        assert_eq!(
            broken_layers(&packages).unwrap(),
            ["causeway-zone has a layer but is not in the workspace"]
        );
        assert_eq!(broken_layers(&BTreeMap::new()).unwrap().len(), PURE.len() + NARROW.len());
    }

    #[test]
    fn functions_are_measured() {
        let text = "
fn one() {
    // Says nothing.

    two();
}

impl Some {
    pub(super) async fn long(
        &self,
    ) -> Result<(), String> {
        if self.is() {
            return Ok(());
        }
        Ok(())
    }

    fn told(&self);
    fn short(&self) {}
}

#[cfg(test)]
fn nobody_asks() {
    never();
}
";
        assert_eq!(functions(text), [("one".to_owned(), 1), ("long".to_owned(), 4)]);
    }
}
