//! Site files: the values of one machine, kept out of plans and evidence.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::Deserialize;

use super::diagnostic::{Diagnostic, Diagnostics, Slip, SourceFile};
use super::files::Files;
use super::params::scalar;
use super::sheet::{other_kind, wrong_version};
use super::tree::Tree;
use super::typed::from_tree;
use super::yaml;

/// The values of one machine, kept out of plans and of public evidence.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Site {
    /// Version of the plan language, now 1.
    pub orchestrate: u32,
    /// Values that `${site.NAME}` stands for: paths, ports, programs.
    #[serde(default)]
    #[expect(clippy::zero_sized_map_values, reason = "the values are read as they are written")]
    pub values: BTreeMap<String, SiteValue>,
}

/// Text, a number or a boolean of one machine.
#[derive(Debug, Clone)]
pub struct SiteValue;

impl<'de> Deserialize<'de> for SiteValue {
    /// Accepts anything: values are read as they are written.
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        serde::de::IgnoredAny::deserialize(deserializer).map(|_| Self)
    }
}

impl JsonSchema for SiteValue {
    fn schema_name() -> Cow<'static, str> {
        "SiteValue".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": ["string", "number", "boolean"],
            "description": "a value of this machine: a path, a port, a program",
        })
    }
}

/// Reads the values of a site file by name.
pub fn read_site(files: &dyn Files, path: &Path) -> Result<BTreeMap<String, String>, Diagnostics> {
    let file = SourceFile::read(files, path).map_err(|diagnostic| Diagnostics(vec![diagnostic]))?;
    let mut slips = Vec::new();
    let values =
        yaml::parse(&file.text, &mut slips).map(|tree| values(&tree, &mut slips)).unwrap_or_default();
    if slips.is_empty() {
        return Ok(values);
    }
    let diagnostic = |slip| Diagnostic { slip, file: Arc::clone(&file) };
    Err(Diagnostics::first(slips.into_iter().map(diagnostic).collect()))
}

fn values(tree: &Tree, slips: &mut Vec<Slip>) -> BTreeMap<String, String> {
    if let Some(slip) = wrong_version(tree) {
        slips.push(slip);
        return BTreeMap::new();
    }
    if let Some(other) = other_kind(tree, "values").filter(|other| *other != "site file") {
        let message = format!("this is a {other}, and a site file is needed here");
        slips.push(Slip::new(tree.at, message).help("a site file has `orchestrate: 1` and `values:`"));
        return BTreeMap::new();
    }
    let _: Option<Site> = from_tree(tree, slips);
    let entries = tree.get("values").map(Tree::entries).unwrap_or_default();
    let value = |entry: &super::tree::Entry| {
        Some((entry.key.clone(), scalar(&entry.value, &entry.key, slips)?.as_text()?))
    };
    entries.iter().filter_map(value).collect()
}
