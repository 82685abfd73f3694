//! Versions of CNI: what each may be asked, and how its results look.

use serde::{Deserialize, Serialize};
use std::fmt;

/// All versions that are answered, oldest first.
pub const SUPPORTED_VERSIONS: [&str; 5] = ["0.3.0", "0.3.1", "0.4.0", "1.0.0", "1.1.0"];

/// One of [`SUPPORTED_VERSIONS`].
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd, Deserialize, Serialize)]
#[serde(try_from = "String", into = "&'static str")]
pub struct CniVersion(usize);

impl CniVersion {
    /// The version of this name.
    pub fn new(text: &str) -> Option<CniVersion> {
        SUPPORTED_VERSIONS.iter().position(|known| *known == text).map(CniVersion)
    }

    /// The name.
    pub fn as_str(self) -> &'static str {
        SUPPORTED_VERSIONS[self.0]
    }

    /// Whether the version is at least this one.
    pub fn at_least(self, text: &str) -> bool {
        CniVersion::new(text).is_some_and(|other| self >= other)
    }
}

impl Default for CniVersion {
    fn default() -> CniVersion {
        CniVersion(SUPPORTED_VERSIONS.len() - 1)
    }
}

impl TryFrom<String> for CniVersion {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        CniVersion::new(&text)
            .ok_or_else(|| format!("CNI {text} is not one of {}", SUPPORTED_VERSIONS.join(", ")))
    }
}

impl From<CniVersion> for &'static str {
    fn from(version: CniVersion) -> &'static str {
        version.as_str()
    }
}

impl fmt::Display for CniVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
