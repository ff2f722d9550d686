//! Site files: the values of one machine, kept out of plans and evidence.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use schemars::JsonSchema;
use serde::Deserialize;

use super::diagnostic::{Diagnostic, Diagnostics, SourceFile};
use super::tree::Tree;
use super::typed::from_tree;

/// The values of one machine, kept out of plans and of public evidence.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Site {
    /// Version of the plan language, now 1.
    pub orchestrate: u32,
    /// Values that `${site.NAME}` stands for: paths, ports, programs.
    #[serde(default)]
    pub values: BTreeMap<String, String>,
}

impl Site {
    /// Reads a site file.
    pub fn read(path: &Path) -> Result<Self, Diagnostics> {
        let one = |diagnostic| Diagnostics(vec![diagnostic]);
        let file = SourceFile::read(path).map_err(one)?;
        let read = Tree::parse(&file.text).and_then(|tree| from_tree(&tree));
        read.map_err(|slip| one(Diagnostic { slip, file: Arc::clone(&file) }))
    }
}
