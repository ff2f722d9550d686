//! What is served: model, engine package and engine settings, by digest.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::value::{Digest, Sha256};

/// A bundle as it was built or adopted.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Bundle {
    /// Version of this document.
    pub schema_version: u32,
    /// Digest over everything below but this field.
    pub digest: Digest,
    /// The engine's adapter, such as `llama_cpp`.
    pub engine: String,
    /// The engine's package or program as found.
    pub engine_package: EnginePackage,
    /// The engine's settings as the plan states them.
    pub engine_settings: serde_json::Value,
    /// The file that is served.
    pub model: ModelFile,
    /// What the plan asks for beside what the file holds, by setting.
    pub settings: Vec<Setting>,
    /// Tokens of prompt and answer that one request may use.
    pub context_limit: Option<u32>,
    /// Signs of draft artifacts or speculation found inside the file.
    pub speculative_markers: Vec<String>,
    /// The command that built the bundle; absent when it was adopted.
    pub build_command: Option<Vec<String>>,
}

impl Bundle {
    /// The digest over everything but the digest itself.
    #[must_use]
    pub fn content_digest(&self) -> Digest {
        let mut document = serde_json::to_value(self).unwrap_or_default();
        if let Some(fields) = document.as_object_mut() {
            fields.remove("digest");
        }
        Digest::of_json(&document)
    }
}

/// Which program serves the bundle.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct EnginePackage {
    /// Name of the package or program.
    pub name: String,
    /// Version as the package or the program states it.
    pub version: String,
    /// Digest of the lock of its environment, or of the program file.
    pub digest: Digest,
}

/// The file that is served.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ModelFile {
    /// File name without a path.
    pub name: String,
    /// Size in bytes.
    pub bytes: u64,
    /// Content digest in the store.
    pub digest: Digest,
    /// Content digest as publishers state it.
    pub sha256: Sha256,
    /// Facts read from the file's own header, by name.
    pub facts: BTreeMap<String, String>,
}

/// A setting as asked for beside what was found to be in effect.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Setting {
    /// Name, such as `precision`.
    pub name: String,
    /// What the plan asks for; absent when it asks for nothing.
    pub requested: Option<String>,
    /// What was found; absent when nothing shows it.
    pub effective: Option<String>,
    /// What shows the effective value.
    pub shown_by: String,
}

impl Setting {
    /// Compares a request with what was found.
    #[must_use]
    pub fn new(name: &str, requested: Option<String>, effective: Option<String>, shown_by: &str) -> Self {
        Self { name: name.to_owned(), requested, effective, shown_by: shown_by.to_owned() }
    }

    /// Whether something was asked for and something else is in effect.
    #[must_use]
    pub fn differs(&self) -> bool {
        matches!((&self.requested, &self.effective), (Some(a), Some(b)) if a != b)
    }

    /// The difference in one phrase.
    #[must_use]
    pub fn sentence(&self) -> String {
        let shown = |value: &Option<String>| value.clone().unwrap_or_else(|| "nothing".to_owned());
        format!(
            "{}: asked for {}, {} shows {}",
            self.name,
            shown(&self.requested),
            self.shown_by,
            shown(&self.effective)
        )
    }
}
