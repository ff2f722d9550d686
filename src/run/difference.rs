//! What differs between two documents, field by field.

use std::collections::BTreeSet;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// One field that differs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Change {
    /// Where it is, such as `settings.concurrency` or `settings.checks[1].name`.
    pub path: String,
    /// What it was; absent where it was not there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<Value>,
    /// What it is; absent where it is not there any more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<Value>,
}

/// The fields that differ, in the order of their names. Lists of one length
/// are compared item by item, others as a whole.
pub(super) fn changes(before: &Value, after: &Value) -> Vec<Change> {
    let mut found = Vec::new();
    compare("", Some(before), Some(after), &mut found);
    found
}

fn compare(path: &str, before: Option<&Value>, after: Option<&Value>, found: &mut Vec<Change>) {
    match (before, after) {
        (before, after) if before == after => {}
        (Some(Value::Object(before)), Some(Value::Object(after))) => {
            let names: BTreeSet<&String> = before.keys().chain(after.keys()).collect();
            for name in names {
                let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
                compare(&path, before.get(name), after.get(name), found);
            }
        }
        (Some(Value::Array(before)), Some(Value::Array(after))) if before.len() == after.len() => {
            for (at, (before, after)) in before.iter().zip(after).enumerate() {
                compare(&format!("{path}[{at}]"), Some(before), Some(after), found);
            }
        }
        (before, after) => {
            found.push(Change { path: path.to_owned(), before: before.cloned(), after: after.cloned() });
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_difference_is_named_by_the_smallest_field_that_has_it() {
        let before = json!({"settings": {"n": 1, "checks": [{"name": "a"}, {"name": "b"}], "old": true}});
        let after = json!({"settings": {"n": 2, "checks": [{"name": "a"}, {"name": "c"}], "new": [1]}});
        let found = changes(&before, &after);
        let paths: Vec<_> = found.iter().map(|change| change.path.as_str()).collect();
        assert_eq!(paths, ["settings.checks[1].name", "settings.n", "settings.new", "settings.old"]);
        assert_eq!((&found[1].before, &found[1].after), (&Some(json!(1)), &Some(json!(2))));
        assert_eq!((&found[2].before, &found[3].after), (&None, &None));
        assert!(changes(&before, &before).is_empty());
    }

    #[test]
    fn a_list_that_grew_differs_as_a_whole() {
        let found = changes(&json!({"x": [1]}), &json!({"x": [1, 2]}));
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].path, "x");
    }
}
