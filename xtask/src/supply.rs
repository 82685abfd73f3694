//! What may come into the tree, as `deny.toml` says it: licences, banned crates, sources. The same as `cargo deny check bans licenses
//! sources`, which takes minutes to build; advisories need it, and the internet (`make deny`).

use anyhow::{Context, Result, bail};
use serde_json::Value;
use std::collections::BTreeSet;
use std::path::Path;

/// The only place that packages come from; their checksums are in Cargo.lock.
const REGISTRY: &str = "registry+https://github.com/rust-lang/crates.io-index";

pub(crate) fn check() -> Result<()> {
    let text = std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../deny.toml"))?;
    let rules = Rules::read(&text)?;
    let packages = packages(&rules.targets)?;
    let problems: BTreeSet<String> = packages.iter().flat_map(|package| rules.problems(package)).collect();
    if !problems.is_empty() {
        bail!("deny.toml does not allow:\n  {}", problems.into_iter().collect::<Vec<_>>().join("\n  "));
    }
    println!("supply chain: {} packages with licences, names and sources that are allowed", packages.len());
    Ok(())
}

struct Package {
    name: String,
    licence: Option<String>,
    /// Nothing for our own.
    source: Option<String>,
}

/// What is built for one of these systems.
fn packages(targets: &[String]) -> Result<Vec<Package>> {
    let words = ["metadata", "--format-version=1", "--locked", "--all-features"];
    let filters = targets.iter().map(|target| format!("--filter-platform={target}"));
    let out = crate::cargo().args(words).args(filters).output()?;
    if !out.status.success() {
        bail!("cargo metadata: {}", String::from_utf8_lossy(&out.stderr));
    }
    let json: Value = serde_json::from_slice(&out.stdout)?;
    let text = |value: &Value| value.as_str().map(str::to_owned);
    let built: BTreeSet<&str> =
        array(&json["resolve"]["nodes"]).filter_map(|node| node["id"].as_str()).collect();
    let is_built = |value: &&Value| value["id"].as_str().is_some_and(|id| built.contains(id));
    let package = |value: &Value| {
        let name = text(&value["name"]).context("a package has a name")?;
        Ok(Package { name, licence: text(&value["license"]), source: text(&value["source"]) })
    };
    array(&json["packages"]).filter(is_built).map(package).collect()
}

fn array(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

struct Rules {
    licences: BTreeSet<String>,
    banned: BTreeSet<String>,
    /// The systems that we build for.
    targets: Vec<String>,
}

impl Rules {
    /// Reads what we use of the file: the systems, the licences, and the names of banned crates.
    fn read(text: &str) -> Result<Rules> {
        let lines: Vec<&str> = text.lines().map(str::trim).filter(|line| !line.starts_with('#')).collect();
        let licences = lines
            .iter()
            .find_map(|line| line.strip_prefix("allow = ["))
            .context("deny.toml allows no licence")?;
        let banned = lines
            .iter()
            .filter_map(|line| line.strip_prefix("{ crate = "))
            .filter_map(|rest| quoted(rest).next());
        let targets = lines
            .iter()
            .find_map(|line| line.strip_prefix("targets = ["))
            .context("deny.toml names no target")?;
        Ok(Rules {
            licences: quoted(licences).collect(),
            banned: banned.collect(),
            targets: quoted(targets).collect(),
        })
    }

    fn problems(&self, package: &Package) -> Vec<String> {
        let Package { name, licence, source } = package;
        let mut problems = Vec::new();
        if self.banned.contains(name) {
            problems.push(format!("{name}: the crate is banned"));
        }
        if source.as_ref().is_some_and(|source| source != REGISTRY) {
            problems.push(format!("{name}: it comes from {}", source.as_deref().unwrap_or_default()));
        }
        match licence {
            Some(licence) if self.allows(licence) => {}
            Some(licence) => problems.push(format!("{name}: the licence {licence}")),
            None => problems.push(format!("{name}: it names no licence")),
        }
        problems
    }

    /// Whether an expression such as `(MIT OR Apache-2.0) AND ISC` can be met.
    fn allows(&self, expression: &str) -> bool {
        let spaced = expression.replace('/', " OR ").replace('(', " ( ").replace(')', " ) ");
        let words: Vec<&str> = spaced.split_whitespace().collect();
        let mut rest = &words[..];
        self.either(&mut rest) && rest.is_empty()
    }

    fn either(&self, rest: &mut &[&str]) -> bool {
        let mut met = self.both(rest);
        while rest.first() == Some(&"OR") {
            *rest = &rest[1..];
            met |= self.both(rest);
        }
        met
    }

    fn both(&self, rest: &mut &[&str]) -> bool {
        let mut met = self.one(rest);
        while rest.first() == Some(&"AND") {
            *rest = &rest[1..];
            met &= self.one(rest);
        }
        met
    }

    /// A licence, an expression in parentheses, or a licence with an exception, which only ever adds rights.
    fn one(&self, rest: &mut &[&str]) -> bool {
        let Some((first, others)) = rest.split_first() else { return false };
        *rest = others;
        if *first == "(" {
            let met = self.either(rest);
            let closed = rest.first() == Some(&")");
            *rest = rest.get(1..).unwrap_or_default();
            return met && closed;
        }
        if rest.first() == Some(&"WITH") {
            *rest = rest.get(2..).unwrap_or_default();
        }
        self.licences.contains(*first)
    }
}

fn quoted(text: &str) -> impl Iterator<Item = String> + '_ {
    text.split('"').skip(1).step_by(2).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules() -> Rules {
        let text = "[graph]\ntargets = [\"linux\"]\n[licenses]\n# A comment\nallow = [\"MIT\", \"ISC\"]\n[bans]\ndeny = [\n  { crate = \"openssl\", reason = \"no\" },\n]\n";
        Rules::read(text).unwrap()
    }

    #[test]
    fn licences_are_expressions() {
        for met in
            ["MIT", "MIT OR GPL-3.0", "GPL-3.0/MIT", "(GPL-3.0 OR MIT) AND ISC", "MIT WITH LLVM-exception"]
        {
            assert!(rules().allows(met), "{met}");
        }
        for not in ["GPL-3.0", "MIT AND GPL-3.0", "(MIT", "", "MIT ISC"] {
            assert!(!rules().allows(not), "{not}");
        }
    }

    #[test]
    fn what_is_not_allowed_is_named() {
        let package = |name: &str, licence: Option<&str>, source: Option<&str>| Package {
            name: name.into(),
            licence: licence.map(str::to_owned),
            source: source.map(str::to_owned),
        };
        let problems = |package: &Package| rules().problems(package);
        assert_eq!(problems(&package("ours", Some("MIT"), None)), Vec::<String>::new());
        assert_eq!(problems(&package("good", Some("MIT"), Some(REGISTRY))), Vec::<String>::new());
        assert_eq!(problems(&package("openssl", Some("MIT"), None)), ["openssl: the crate is banned"]);
        assert_eq!(problems(&package("a", None, None)), ["a: it names no licence"]);
        assert_eq!(problems(&package("b", Some("GPL-3.0"), None)), ["b: the licence GPL-3.0"]);
        let git = package("c", Some("MIT"), Some("git+https://example.com/c"));
        assert_eq!(problems(&git), ["c: it comes from git+https://example.com/c"]);
    }
}
