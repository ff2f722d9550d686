//! Python packages as installed: versions and fingerprints.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::value::Digest;

/// A Python environment that was made from pinned requirements.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Packages {
    /// Version of this document.
    pub schema_version: u32,
    /// What the plan asks for.
    pub requirements: Vec<String>,
    /// Version of the interpreter.
    pub python: String,
    /// Version of the installer.
    pub uv: String,
    /// Digest over the packages below.
    pub lock: Digest,
    /// Every installed package, by name.
    pub packages: Vec<Package>,
}

/// One installed package.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Package {
    /// Normalised name.
    pub name: String,
    /// Version.
    pub version: String,
    /// SHA-256 of the wheel that was installed, where the index states it.
    pub wheel_sha256: Option<String>,
    /// File name of that wheel.
    pub wheel: Option<String>,
}

impl Packages {
    /// The installed version of a package.
    #[must_use]
    pub fn version(&self, name: &str) -> Option<&str> {
        self.packages.iter().find(|p| p.name == name).map(|p| p.version.as_str())
    }
}
