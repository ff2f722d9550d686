//! The runtime mode of a run.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Whether the engine was set up to generate ordinarily or speculatively.
///
/// It is what was requested; only counters show what happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// One token per decode step.
    Ordinary,
    /// Drafted tokens are verified by the target.
    Speculative,
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Ordinary => "ordinary",
            Self::Speculative => "speculative",
        })
    }
}
