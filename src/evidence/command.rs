//! A command of the plan's own that ran.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::quiet::Machine;
use crate::value::Digest;

/// A command that ended well, with what it read and left.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CommandRun {
    /// Version of this document.
    pub schema_version: u32,
    /// Program and arguments; of a place on this machine only the last part.
    pub command: Vec<String>,
    /// What it read, by name: the digest of the file or directory.
    pub inputs: BTreeMap<String, Digest>,
    /// What it left, by the output's name.
    pub outputs: BTreeMap<String, Left>,
    /// For a measurement, how the machine was before, during and after;
    /// evidence of older versions does not say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub machine: Option<Machine>,
}

/// A file or directory that a command left.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Left {
    /// A file.
    File {
        /// Its content.
        digest: Digest,
        /// Its size in bytes.
        bytes: u64,
    },
    /// A directory.
    Directory {
        /// Its files with their paths.
        digest: Digest,
    },
}
