//! The JSON Schemas of plan, target and site files, and of evidence.

use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde_json::{Value, json};

use super::document::{PlanDocument, TargetDocument};
use super::site::Site;
use crate::node;

/// Every schema by its file name, as pretty JSON with a final newline.
#[must_use]
pub fn all() -> Vec<(String, String)> {
    let mut schemas = vec![
        ("plan.schema.json".to_owned(), resolvable(of::<PlanDocument>())),
        ("target.schema.json".to_owned(), resolvable(of::<TargetDocument>())),
        ("site.schema.json".to_owned(), of::<Site>()),
    ];
    for (kind, schema) in node::evidence_schemas() {
        schemas.push((format!("evidence/{kind}.schema.json"), schema.to_value()));
    }
    schemas.into_iter().map(|(name, schema)| (name, format!("{schema:#}\n"))).collect()
}

fn of<T: JsonSchema>() -> Value {
    SchemaSettings::draft2020_12().into_generator().into_root_schema_for::<T>().to_value()
}

/// Lets `${…}` stand wherever a number or a boolean is expected.
fn resolvable(mut schema: Value) -> Value {
    if let Some(definitions) = schema.get_mut("$defs").and_then(Value::as_object_mut) {
        definitions.values_mut().for_each(allow_references);
    }
    schema
}

fn allow_references(schema: &mut Value) {
    match schema {
        Value::Object(map) => {
            let scalar = |kind: &Value| {
                ["integer", "number", "boolean"].iter().any(|name| {
                    kind == name || kind.as_array().is_some_and(|kinds| kinds.iter().any(|kind| kind == name))
                })
            };
            if map.get("type").is_some_and(scalar) && !map.contains_key("properties") {
                let mut plain = map.clone();
                let description = plain.remove("description");
                let default = plain.remove("default");
                map.clear();
                map.insert("anyOf".to_owned(), json!([plain, {"type": "string", "pattern": r"^\$\{.+\}$"}]));
                map.extend(description.map(|text| ("description".to_owned(), text)));
                map.extend(default.map(|value| ("default".to_owned(), value)));
                return;
            }
            map.values_mut().for_each(allow_references);
        }
        Value::Array(items) => items.iter_mut().for_each(allow_references),
        _ => {}
    }
}
