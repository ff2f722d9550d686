//! Makes a derived schema plain: for people, an optional setting is one that
//! may be left out, not one that may be `null`.

use serde_json::{Map, Value, json};

use super::walk::{Schema, complete, definition_name, each_schema};

/// The schema without `null`, without the line breaks of the source, with one
/// mapping for an enum whose variants hold settings, and with a description
/// of every property.
pub(super) fn plain(mut schema: Value) -> Value {
    each_schema(&mut schema, &mut |schema| {
        drop_null(schema);
        join_variants(schema);
        if let Some(Value::String(description)) = schema.get_mut("description") {
            *description = joined_lines(description);
        }
    });
    describe_properties(&mut schema);
    schema
}

fn is_null(schema: &Value) -> bool {
    schema["type"] == "null"
}

/// Leaves out `null` as a type and as a default.
fn drop_null(schema: &mut Schema) {
    if schema.get("default").is_some_and(Value::is_null) {
        schema.remove("default");
    }
    if let Some(Value::Array(types)) = schema.get_mut("type") {
        types.retain(|name| name != "null");
        if let [only] = types.as_slice() {
            let only = only.clone();
            schema.insert("type".to_owned(), only);
        }
    }
    let Some(Value::Array(variants)) = schema.get_mut("anyOf") else { return };
    variants.retain(|variant| !is_null(variant));
    if let [Value::Object(only)] = variants.as_slice() {
        let only = only.clone();
        schema.remove("anyOf");
        complete(schema, only);
    }
}

/// Makes of variants with one key each one mapping that takes one of the keys.
fn join_variants(schema: &mut Schema) {
    let Some(Value::Array(variants)) = schema.get("oneOf") else { return };
    let Some(properties) = variants.iter().map(only_property).collect::<Option<Map<_, _>>>() else { return };
    schema.remove("oneOf");
    schema.insert("type".to_owned(), json!("object"));
    schema.insert("properties".to_owned(), Value::Object(properties));
    schema.insert("additionalProperties".to_owned(), json!(false));
    schema.insert("minProperties".to_owned(), json!(1));
    schema.insert("maxProperties".to_owned(), json!(1));
}

/// The property of a variant such as `gpu: {…}`, described by the variant.
fn only_property(variant: &Value) -> Option<(String, Value)> {
    let properties = variant.get("properties")?.as_object()?;
    let (name, property) = properties.iter().next().filter(|_| properties.len() == 1)?;
    variant.get("required")?.as_array()?.contains(&json!(name)).then_some(())?;
    let mut property = property.clone();
    if let Some(description) = variant.get("description") {
        property.as_object_mut()?.insert("description".to_owned(), description.clone());
    }
    Some((name.clone(), property))
}

/// Gives a property that says nothing the description of its type.
fn describe_properties(schema: &mut Value) {
    let definitions = schema["$defs"].clone();
    each_schema(schema, &mut |schema| {
        let Some(Value::Object(properties)) = schema.get_mut("properties") else { return };
        for property in properties.values_mut().filter_map(Value::as_object_mut) {
            let of_the_type = definition_name(property).map(|name| definitions[name]["description"].clone());
            if let Some(description @ Value::String(_)) = of_the_type {
                property.entry("description").or_insert(description);
            }
        }
    });
}

/// Markdown with each paragraph and each item of a list on one line.
fn joined_lines(text: &str) -> String {
    let mut joined = String::new();
    let mut before = "";
    for line in text.lines() {
        let line = line.trim();
        let begins = joined.is_empty() || line.is_empty() || before.is_empty() || is_item(line);
        if !joined.is_empty() {
            joined.push(if begins { '\n' } else { ' ' });
        }
        joined.push_str(line);
        before = line;
    }
    joined
}

/// Whether a line begins an item of a list.
fn is_item(line: &str) -> bool {
    let marker = line.split_whitespace().next().unwrap_or_default();
    let number = marker.strip_suffix('.').unwrap_or_default();
    matches!(marker, "-" | "*") || (!number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_optional_setting_is_no_null() {
        let optional = json!({"anyOf": [{"$ref": "#/$defs/X"}, {"type": "null"}], "default": null});
        assert_eq!(plain(optional), json!({"$ref": "#/$defs/X"}));
        assert_eq!(plain(json!({"type": ["string", "null"]})), json!({"type": "string"}));
    }

    #[test]
    fn variants_with_settings_become_one_mapping() {
        let variant = |name: &str| {
            json!({
                "type": "object",
                "description": format!("The {name}."),
                "properties": {name: {"type": "string"}},
                "required": [name],
            })
        };
        let schema = plain(json!({"oneOf": [variant("file"), variant("program")]}));
        assert_eq!(
            schema["properties"],
            json!({
                "file": {"type": "string", "description": "The file."},
                "program": {"type": "string", "description": "The program."},
            })
        );
        assert_eq!((&schema["minProperties"], &schema["maxProperties"]), (&json!(1), &json!(1)));
    }

    #[test]
    fn lines_are_joined_but_not_paragraphs_and_items() {
        let text = "One\nline.\n\nAnother:\n\n1. a\n   b;\n2. c\n- d";
        assert_eq!(joined_lines(text), "One line.\n\nAnother:\n\n1. a b;\n2. c\n- d");
    }
}
