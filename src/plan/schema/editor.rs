//! Makes a plain schema good to write with: what an editor completes, shows
//! and complains about. The keywords beyond JSON Schema (`enumDescriptions`,
//! `patternErrorMessage`, `errorMessage`) are those of yaml-language-server
//! and VS Code; others pass over them.

use serde_json::{Map, Value, json};

use super::walk::{Schema, complete, definition_name, each_schema};
use super::{flow, phrase};
use crate::node::KINDS;

/// A value that is a reference as a whole.
const REFERENCE: &str = r"^\$\{.+\}$";
/// A text that holds a reference.
const HOLDS_REFERENCE: &str = r"\$\{.+\}";

/// The schema of a document as it is published.
pub(super) fn for_editors(mut schema: Value, document: &str) -> Value {
    inline_values(&mut schema);
    name_properties(&mut schema);
    if let Some(definitions) = schema.get_mut("$defs").and_then(Value::as_object_mut) {
        definitions.values_mut().for_each(|definition| each_schema(definition, &mut allow_references));
        for (name, definition) in definitions {
            definition["title"] = json!(phrase(name));
        }
    }
    each_schema(&mut schema, &mut append_facts);
    each_schema(&mut schema, &mut ask_for_one_key);
    ask_for_a_kind(&mut schema);
    schema["title"] = json!(document);
    schema
}

/// Puts types that are no mappings where they are used: an editor then shows
/// the property's own text, not that of the type.
fn inline_values(schema: &mut Value) {
    let definitions = schema["$defs"].as_object().cloned().unwrap_or_default();
    let is_value = |definition: &Value| definition["type"] == "string" || is_words(definition);
    each_schema(schema, &mut |schema| {
        let definition = definition_name(schema).and_then(|name| definitions.get(name));
        if let Some(Value::Object(definition)) = definition.filter(|definition| is_value(definition)) {
            let mut definition = definition.clone();
            if let (Some(text), true) = (definition.get("description"), definition.contains_key("pattern")) {
                definition.insert("patternErrorMessage".to_owned(), text.clone());
            }
            schema.remove("$ref");
            complete(schema, definition);
        }
    });
    if let Some(definitions) = schema.get_mut("$defs").and_then(Value::as_object_mut) {
        definitions.retain(|_, definition| !is_value(definition));
    }
}

/// Whether a schema is a choice between words.
fn is_words(schema: &Value) -> bool {
    let consts = |variants: &Vec<Value>| variants.iter().all(|variant| variant.get("const").is_some());
    schema.get("enum").is_some() || schema["oneOf"].as_array().is_some_and(consts)
}

/// Titles every property by its name, which heads what an editor shows.
fn name_properties(schema: &mut Value) {
    each_schema(schema, &mut |schema| {
        let Some(Value::Object(properties)) = schema.get_mut("properties") else { return };
        for (name, property) in properties {
            if let Value::Object(property) = property {
                property.insert("title".to_owned(), json!(name));
            }
        }
    });
}

/// Lets `${…}` stand for a number, a boolean or a word, and in patterned text.
fn allow_references(schema: &mut Schema) {
    if let Some(words) = take_words(schema) {
        let reference = json!({"pattern": REFERENCE});
        schema.insert("type".to_owned(), json!("string"));
        schema.insert("oneOf".to_owned(), json!([words, reference]));
        return;
    }
    let kind = schema.get("type").and_then(Value::as_str).unwrap_or_default().to_owned();
    match kind.as_str() {
        "integer" | "number" | "boolean" => {
            let called = if kind == "integer" { "whole number" } else { &kind };
            let message = format!("A {called}, or a reference such as ${{params.NAME}}.");
            schema.insert("type".to_owned(), json!([kind, "string"]));
            schema.insert("pattern".to_owned(), json!(REFERENCE));
            schema.insert("patternErrorMessage".to_owned(), json!(message));
        }
        "string" => {
            let pattern = schema.get("pattern").and_then(Value::as_str);
            if let Some(pattern) = pattern.filter(|pattern| !pattern.contains(r"\$\{")) {
                let wider = format!("{pattern}|{HOLDS_REFERENCE}");
                schema.insert("pattern".to_owned(), json!(wider));
            }
        }
        _ => {}
    }
}

/// Takes a choice between words out of a schema, as one list of words with
/// their meanings.
fn take_words(schema: &mut Schema) -> Option<Value> {
    if !is_words(&Value::Object(schema.clone())) {
        return None;
    }
    if let Some(words) = schema.remove("enum") {
        return Some(json!({"enum": words}));
    }
    let variants = schema.remove("oneOf")?;
    let each =
        |key: &str| variants.as_array().into_iter().flatten().map(|v| v[key].clone()).collect::<Value>();
    Some(json!({"enum": each("const"), "enumDescriptions": each("description")}))
}

/// Adds unit and default to a description: editors show nothing else.
fn append_facts(schema: &mut Schema) {
    let unit = schema.get("x-unit").and_then(Value::as_str).map(|unit| format!("Unit: {unit}."));
    let default = schema.get("default").filter(|default| !default.is_object() && !default.is_array());
    let default = default.map(flow).filter(|default| default != "\"\"");
    let default = default.map(|default| format!("Default: {default}."));
    let facts: Vec<String> = unit.into_iter().chain(default).collect();
    if let (Some(Value::String(description)), false) = (schema.get_mut("description"), facts.is_empty()) {
        *description = format!("{description}\n\n{}", facts.join(" "));
    }
}

/// Asks for one key of several in the form that editors complete.
fn ask_for_one_key(schema: &mut Schema) {
    if schema.get("maxProperties") != Some(&json!(1)) {
        return;
    }
    schema.remove("minProperties");
    schema.remove("maxProperties");
    let names: Vec<_> =
        schema.get("properties").and_then(Value::as_object).into_iter().flat_map(Map::keys).collect();
    let message = format!(
        "Exactly one of these keys: {}.",
        names.iter().map(|name| name.as_str()).collect::<Vec<_>>().join(", ")
    );
    let one_of =
        names.iter().map(|name| json!({"type": "object", "required": [name], "errorMessage": message}));
    let one_of = one_of.collect();
    schema.insert("oneOf".to_owned(), one_of);
}

/// Says what is missing where a node names no kind.
fn ask_for_a_kind(schema: &mut Value) {
    let message = format!("A node names its kind: {}.", KINDS.join(", "));
    let Some(Value::Array(kinds)) = schema.pointer_mut("/$defs/Node/oneOf") else { return };
    for kind in kinds {
        kind["type"] = json!("object");
        kind["errorMessage"] = json!(message);
    }
}
