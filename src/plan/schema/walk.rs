//! Visits the schemas inside a schema.

use serde_json::{Map, Value};

/// A schema that is an object.
pub(super) type Schema = Map<String, Value>;

/// Calls `visit` for every schema inside one, the innermost first, and for
/// the schema itself at last.
pub(super) fn each_schema(schema: &mut Value, visit: &mut impl FnMut(&mut Schema)) {
    let Value::Object(schema) = schema else { return };
    for key in ["$defs", "properties"] {
        if let Some(Value::Object(named)) = schema.get_mut(key) {
            named.values_mut().for_each(|inner| each_schema(inner, visit));
        }
    }
    for key in ["items", "additionalProperties"] {
        if let Some(inner) = schema.get_mut(key) {
            each_schema(inner, visit);
        }
    }
    for key in ["anyOf", "oneOf"] {
        if let Some(Value::Array(variants)) = schema.get_mut(key) {
            for inner in variants {
                each_schema(inner, visit);
            }
        }
    }
    visit(schema);
}

/// Adds to a schema what another says and it does not.
pub(super) fn complete(schema: &mut Schema, other: Schema) {
    for (key, value) in other {
        schema.entry(key).or_insert(value);
    }
}

/// The name of the definition that a schema refers to.
pub(super) fn definition_name(schema: &Schema) -> Option<&str> {
    schema.get("$ref")?.as_str()?.strip_prefix("#/$defs/")
}
