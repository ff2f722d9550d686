//! Checks documents against the committed JSON Schemas.

use std::fs;
use std::path::Path;

use serde_json::Value;

use super::PROJECT;

/// A committed schema, by its file name in `schemas/`.
pub fn validator(name: &str) -> jsonschema::Validator {
    let text = fs::read_to_string(Path::new(PROJECT).join("schemas").join(name)).unwrap();
    jsonschema::validator_for(&serde_json::from_str(&text).unwrap()).unwrap()
}

/// Fails with every place at which a document does not fit its schema.
pub fn assert_fits(document: &Value, schema: &str, what: &str) {
    let validator = validator(schema);
    let mistakes: Vec<String> =
        validator.iter_errors(document).map(|error| format!("{}: {error}", error.instance_path())).collect();
    assert!(mistakes.is_empty(), "{what} does not fit schemas/{schema}:\n{}", mistakes.join("\n"));
}

/// Fails if the evidence of a node does not fit the schema of its kind.
pub fn assert_evidence_fits(document: &Value, kind: &str, what: &str) {
    assert_fits(document, &format!("evidence/{kind}.schema.json"), what);
}
