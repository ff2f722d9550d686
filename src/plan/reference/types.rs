//! How the reference names types, units and defaults.

use serde_json::{Map, Value};

use super::super::schema::{flow, phrase};

/// Named schemas.
pub(super) type Definitions = Map<String, Value>;

/// The name of the definition that a schema refers to.
pub(super) fn definition(schema: &Value) -> Option<&str> {
    schema["$ref"].as_str()?.strip_prefix("#/$defs/")
}

/// The schema, or the definition that it refers to.
pub(super) fn resolved<'a>(schema: &'a Value, definitions: &'a Definitions) -> &'a Value {
    definition(schema).and_then(|name| definitions.get(name)).unwrap_or(schema)
}

/// Whether a schema, or one of its alternatives, is a mapping.
pub(super) fn is_mapping(schema: &Value) -> bool {
    schema["type"] == "object" || schema["anyOf"].as_array().is_some_and(|any| any.iter().any(is_mapping))
}

/// Whether a definition has a section of its own.
pub(super) fn is_explained(definition: &Value) -> bool {
    is_mapping(definition) || words_of(definition).is_some()
}

/// The words of a choice, with their meanings.
pub(super) fn words_of(schema: &Value) -> Option<Vec<(&str, &str)>> {
    let variants = schema["oneOf"].as_array()?.iter();
    variants.map(|variant| Some((variant["const"].as_str()?, meaning(variant)))).collect()
}

fn meaning(schema: &Value) -> &str {
    schema["description"].as_str().unwrap_or_default()
}

/// `ContextLimit` as the heading `Context limit`.
pub(super) fn heading(name: &str) -> String {
    let phrase = phrase(name);
    let (first, rest) = phrase.split_at(1);
    format!("{}{rest}", first.to_ascii_uppercase())
}

/// The type in words, with a link to what explains it.
pub(super) fn shown(schema: &Value, definitions: &Definitions) -> String {
    if let Some(name) = definition(schema) {
        return named(name, &definitions[name]);
    }
    if let Some(alternatives) = schema["anyOf"].as_array() {
        return joined(alternatives.iter().map(|alternative| shown(alternative, definitions)));
    }
    if let Some(words) = schema["enum"].as_array() {
        return joined(words.iter().map(|word| format!("`{}`", flow(word))));
    }
    match &schema["type"] {
        Value::String(name) => simple(name, schema, definitions),
        Value::Array(names) => {
            let names = names.iter().filter_map(Value::as_str);
            joined(names.map(|name| simple(name, schema, definitions)))
        }
        _ => "any value".to_owned(),
    }
}

/// Alternatives as `a, b or c`.
fn joined(alternatives: impl Iterator<Item = String>) -> String {
    let mut all: Vec<_> = alternatives.collect();
    let last = all.pop().unwrap_or_default();
    if all.is_empty() { last } else { format!("{} or {last}", all.join(", ")) }
}

fn named(name: &str, definition: &Value) -> String {
    let phrase = phrase(name);
    let anchor = phrase.replace(' ', "-");
    if words_of(definition).is_some() {
        format!("word of [{phrase}](#{anchor})")
    } else if is_explained(definition) {
        format!("[{phrase}](#{anchor})")
    } else {
        format!("[{phrase}](#values)")
    }
}

fn simple(name: &str, schema: &Value, definitions: &Definitions) -> String {
    match name {
        "string" => "text".to_owned(),
        "integer" => "whole number".to_owned(),
        "boolean" => "true/false".to_owned(),
        "array" => format!("list of {}", shown(&schema["items"], definitions)),
        "object" if schema.get("properties").is_some() => "mapping".to_owned(),
        "object" => format!("mapping of names to {}", shown(&schema["additionalProperties"], definitions)),
        other => other.to_owned(),
    }
}

/// The default as a plan would write it.
pub(super) fn default(property: &Value, is_required: bool) -> String {
    match property.get("default") {
        _ if is_required => "**required**".to_owned(),
        Some(value) => format!("`{}`", flow(value)),
        None => "–".to_owned(),
    }
}

/// The unit of a property, or of its type.
pub(super) fn unit<'a>(property: &'a Value, definitions: &'a Definitions) -> &'a str {
    let of = |schema: &'a Value| schema["x-unit"].as_str();
    of(property).or_else(|| of(resolved(property, definitions))).unwrap_or("–")
}
