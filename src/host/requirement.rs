//! What a target needs of a machine before any of its nodes can run.

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::evidence::host::{Gpus, Host};
use crate::process::find_program;

/// One thing a target needs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Requirement {
    /// An accelerator with at least this much memory.
    Gpu {
        /// Memory in GiB.
        #[serde(default)]
        #[schemars(extend("x-unit" = "GiB"))]
        min_memory_gib: u64,
    },
    /// A program on PATH, or by its path.
    Program(String),
    /// A file or directory that must exist.
    File(String),
    /// A value that the site file must give.
    Site(String),
}

/// What is missing, as a phrase that fits after "it needs".
pub type Unmet = String;

impl Requirement {
    /// Checks the requirement; `site` holds the values of the site file.
    #[must_use]
    pub fn check(
        &self,
        host: &Host,
        variables: &BTreeMap<String, String>,
        site: &BTreeMap<String, String>,
    ) -> Option<Unmet> {
        match self {
            Self::Gpu { min_memory_gib } => match &host.gpus {
                Gpus::Unavailable(reason) => Some(format!("a GPU ({reason})")),
                Gpus::Found(gpus) => {
                    let enough = gpus.iter().any(|gpu| gpu.memory_bytes >> 30 >= *min_memory_gib);
                    (!enough).then(|| self.to_string())
                }
            },
            Self::Program(name) => {
                let path = variables.get("PATH").map_or("", String::as_str);
                find_program(name, path).is_none().then(|| self.to_string())
            }
            // A path that the site does not give is reported as the site's.
            Self::File(path) => (!path.is_empty() && !Path::new(path).exists()).then(|| self.to_string()),
            Self::Site(name) => site.get(name).is_none_or(String::is_empty).then(|| self.to_string()),
        }
    }
}

impl fmt::Display for Requirement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Gpu { min_memory_gib: 0 } => f.write_str("a GPU"),
            Self::Gpu { min_memory_gib } => write!(f, "a GPU with {min_memory_gib} GiB"),
            Self::Program(name) => write!(f, "the program {}", file_name(name)),
            Self::File(path) => write!(f, "the file {}", file_name(path)),
            Self::Site(name) => write!(f, "the site value {name}"),
        }
    }
}

fn file_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}
