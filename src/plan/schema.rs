//! The files that are made from the types: the JSON Schemas of what authors
//! write and of evidence, and the reference `plans/README.md`.

mod editor;
mod tidy;
mod walk;

use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde_json::Value;

use super::document::{FragmentDocument, PlanDocument, TargetDocument};
use super::reference;
use super::site::Site;
use crate::node;

/// A kind of file that authors write.
#[derive(Debug, Clone)]
pub(super) struct Document {
    /// What it is called.
    pub name: &'static str,
    /// Its schema as the types give it, made plain.
    pub schema: Value,
}

/// The kinds of files that authors write, in the order of the reference.
pub(super) fn documents() -> Vec<Document> {
    vec![
        document::<PlanDocument>("plan"),
        document::<TargetDocument>("target"),
        document::<FragmentDocument>("fragment"),
        document::<Site>("site"),
    ]
}

fn document<T: JsonSchema>(name: &'static str) -> Document {
    let schema = SchemaSettings::draft2020_12().into_generator().into_root_schema_for::<T>();
    Document { name, schema: tidy::plain(schema.to_value()) }
}

/// A value in YAML's flow style.
pub(super) fn flow(value: &Value) -> String {
    match value {
        Value::String(text) if text.is_empty() => "\"\"".to_owned(),
        Value::String(text) => text.clone(),
        Value::Array(items) => format!("[{}]", items.iter().map(flow).collect::<Vec<_>>().join(", ")),
        Value::Object(map) => {
            let entries = map.iter().map(|(key, value)| format!("{key}: {}", flow(value)));
            format!("{{{}}}", entries.collect::<Vec<_>>().join(", "))
        }
        Value::Number(number) if number.is_f64() => number.as_f64().unwrap_or_default().to_string(),
        other => other.to_string(),
    }
}

/// The name of a type as words: `ContextLimit` as `context limit`.
pub(super) fn phrase(name: &str) -> String {
    let mut phrase = String::new();
    for letter in name.trim_end_matches("Document").chars() {
        if letter.is_ascii_uppercase() && !phrase.is_empty() {
            phrase.push(' ');
        }
        phrase.push(letter.to_ascii_lowercase());
    }
    phrase
}

/// Every generated file by its path below the project's root, with its text.
#[must_use]
pub fn generated() -> Vec<(String, String)> {
    let documents = documents();
    let reference = reference::markdown(&documents);
    let mut schemas: Vec<_> = documents
        .into_iter()
        .map(|document| (document.name.to_owned(), editor::for_editors(document.schema, document.name)))
        .collect();
    for (kind, schema) in node::evidence_schemas() {
        schemas.push((format!("evidence/{kind}"), schema.to_value()));
    }
    let mut files: Vec<_> = schemas
        .into_iter()
        .map(|(name, schema)| (format!("schemas/{name}.schema.json"), format!("{schema:#}\n")))
        .collect();
    files.push(("plans/README.md".to_owned(), reference));
    files
}
