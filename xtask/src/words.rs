//! A comment that only says a name again is one that nobody reads twice: `/// Its name.` above `name` goes, or says something.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use anyhow::{Result, bail};

/// Words that say nothing without others.
const EMPTY: &[&str] = &[
    "a", "all", "an", "and", "are", "as", "by", "for", "in", "is", "it", "its", "of", "on", "one", "that",
    "the", "their", "this", "to", "what", "with",
];

/// Comments that users read: descriptions of the API's fields. They are never left out, however plain.
const FOR_USERS: &str = "/crd/";

pub(crate) fn check() -> Result<()> {
    let mut problems = Vec::new();
    for folder in ["crates", "tests", "xtask"] {
        for file in crate::layers::sources(Path::new(folder))? {
            let name = file.display().to_string();
            if !name.contains(FOR_USERS) {
                let text = fs::read_to_string(&file)?;
                problems.extend(echoes(&text).map(|(line, said)| format!("{name}:{line}: {said}")));
            }
        }
    }
    if problems.is_empty() {
        return Ok(());
    }
    bail!("comments that only repeat a name; say something, or leave them out:\n  {}", problems.join("\n  "))
}

/// The comments of one line that say nothing but the name of what follows, with the numbers of their lines.
fn echoes(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let lines: Vec<&str> = crate::layers::without_tests(text).map(str::trim).collect();
    let found: Vec<(usize, &str)> =
        (0..lines.len()).filter_map(|at| Some((at + 1, echo(&lines, at)?))).collect();
    found.into_iter()
}

fn echo<'a>(lines: &[&'a str], at: usize) -> Option<&'a str> {
    let said = lines[at].strip_prefix("/// ")?;
    let alone = |line: Option<&&str>| line.is_none_or(|line| !line.starts_with("///"));
    if !alone(at.checked_sub(1).and_then(|before| lines.get(before))) || !alone(lines.get(at + 1)) {
        return None;
    }
    let item = lines[at + 1..].iter().find(|line| !line.starts_with("#["))?;
    let named = words(name(item)?);
    let spoken = words(said);
    // A number is of a list of cases or a standard: it says which.
    let is_number = |word: &str| word.contains(|letter: char| letter.is_ascii_digit());
    let says_more =
        |word: &String| is_number(word) || (!EMPTY.contains(&word.as_str()) && !named.contains(word));
    (!spoken.is_empty() && !spoken.iter().any(says_more)).then_some(said)
}

/// The name of a function, a type, a field or a variant.
fn name(item: &str) -> Option<&str> {
    const KINDS: &[&str] = &["async", "const", "enum", "fn", "mod", "static", "struct", "trait", "type"];
    let words = item.split([' ', '(', ':', ',', '{', '<', '=', ';']);
    words
        .filter(|word| !word.is_empty() && !word.starts_with("pub") && !KINDS.contains(word))
        .find(|word| !word.ends_with(')'))
}

/// Its words in small letters and singular: of `PodSubnets`, of `pod_subnets` and of "Pod subnets." they are the same.
fn words(text: &str) -> BTreeSet<String> {
    let mut spaced = String::new();
    for letter in text.chars() {
        match letter {
            letter if letter.is_uppercase() && spaced.ends_with(|last: char| last.is_lowercase()) => {
                spaced.push(' ');
                spaced.extend(letter.to_lowercase());
            }
            letter if letter.is_alphanumeric() => spaced.extend(letter.to_lowercase()),
            _ => spaced.push(' '),
        }
    }
    let singular = |word: &str| match word {
        "is" | "its" | "as" | "this" => word.to_owned(),
        word => word.trim_end_matches('s').to_owned(),
    };
    spaced.split_whitespace().map(singular).collect()
}

#[cfg(test)]
mod tests {
    use super::echoes;

    #[test]
    fn what_repeats_a_name_is_found_and_what_says_more_is_not() {
        let text = "
pub struct Pod {
    /// Its name.
    pub name: String,
    /// The pod subnets.
    #[serde(default)]
    pub(crate) pod_subnets: Vec<Cidr>,
    /// Empty on the default network.
    pub network: Name,
    /// The network.
    /// None before it is decided.
    pub decided: Name,
    /// `<`
    Less,
    /// Pods that wait.
    PodsWaiting(u8),
    /// N01: nodes.
    Nodes,
}
/// Starts one.
pub async fn start_one() {}
";
        let found: Vec<&str> = echoes(text).map(|(_, said)| said).collect();
        assert_eq!(found, ["Its name.", "The pod subnets.", "Starts one."]);
    }
}
