//! Fields that differ, and documents, as a person reads them.

use serde_json::Value;

use super::text::{clipped, printable};
use crate::run::Change;

/// Digits of a digest that are shown to a person.
pub(super) const DIGEST_DIGITS: usize = 12;
/// Characters of a value that are shown beside another.
const VALUE_COLUMNS: usize = 60;
/// Characters of a list or map that still goes on one line.
const FLOW_COLUMNS: usize = 60;

/// A change as `settings.concurrency: 1 → 2`.
pub(super) fn change_text(change: &Change) -> String {
    let shown = |value: Option<&Value>, absent: &str| {
        value.map_or_else(|| absent.to_owned(), |value| clipped(&brief(value), VALUE_COLUMNS).into_owned())
    };
    let before = shown(change.before.as_ref(), "not there");
    let after = shown(change.after.as_ref(), "not there any more");
    format!("{}: {before} → {after}", printable(&change.path))
}

/// The first digits of a digest.
pub(super) fn short(digest: &str) -> String {
    digest.chars().take(DIGEST_DIGITS).collect()
}

fn brief(value: &Value) -> String {
    match value {
        Value::String(text) if is_digest(text) => short(text) + "…",
        other => scalar(other),
    }
}

fn is_digest(text: &str) -> bool {
    text.len() == 64 && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// A document in lines that read like YAML.
pub(super) fn lines(value: &Value) -> Vec<String> {
    match value {
        Value::Object(map) if !map.is_empty() => {
            map.iter().flat_map(|(name, value)| named(name, value)).collect()
        }
        Value::Array(items) if !items.is_empty() => items.iter().flat_map(item).collect(),
        other => vec![scalar(other)],
    }
}

fn named(name: &str, value: &Value) -> Vec<String> {
    let name = printable(name);
    if fits_one_line(value) {
        return vec![format!("{name}: {}", scalar(value))];
    }
    let below = lines(value).into_iter().map(|line| format!("  {line}"));
    std::iter::once(format!("{name}:")).chain(below).collect()
}

fn item(value: &Value) -> Vec<String> {
    if fits_one_line(value) {
        return vec![format!("- {}", scalar(value))];
    }
    let mark = |at: usize| if at == 0 { "- " } else { "  " };
    lines(value).into_iter().enumerate().map(|(at, line)| format!("{}{line}", mark(at))).collect()
}

fn fits_one_line(value: &Value) -> bool {
    match value {
        Value::Object(map) => map.is_empty(),
        Value::Array(items) => {
            items.iter().all(|item| !item.is_object() && !item.is_array())
                && value.to_string().len() <= FLOW_COLUMNS
        }
        _ => true,
    }
}

/// A value on one line; text without quotes where it cannot be mistaken.
fn scalar(value: &Value) -> String {
    match value {
        Value::String(text) if is_plain(text) => printable(text),
        Value::Array(items) => format!("[{}]", items.iter().map(scalar).collect::<Vec<_>>().join(", ")),
        other => printable(&other.to_string()),
    }
}

fn is_plain(text: &str) -> bool {
    let mistaken = text.parse::<f64>().is_ok() || matches!(text, "" | "true" | "false" | "null");
    !mistaken
        && text.trim() == text
        && !text.contains(['\n', '"', ','])
        && !text.contains(": ")
        && !text.contains(" #")
        && !text.starts_with(['[', '{', '-', '#', '&', '*', '!', '|', '>', '\'', '%', '@'])
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_document_reads_like_yaml() {
        let document = json!({
            "server": "${nodes.server}",
            "seed": "7",
            "empty": {},
            "words": ["a", 2, true],
            "checks": [{"name": "agree", "command": ["python", {"content": null}]}, {"name": "a: b"}],
        });
        insta::assert_snapshot!(lines(&document).join("\n"), @r#"
        server: ${nodes.server}
        seed: "7"
        empty: {}
        words: [a, 2, true]
        checks:
          - name: agree
            command:
              - python
              - content: null
          - name: "a: b"
        "#);
    }

    #[test]
    fn a_change_shows_both_sides_and_shortens_digests() {
        let change = |before, after| Change { path: "inputs.corpus".to_owned(), before, after };
        let (a, b) = (json!("a".repeat(64)), json!("b".repeat(64)));
        assert_eq!(change_text(&change(Some(a), Some(b))), "inputs.corpus: aaaaaaaaaaaa… → bbbbbbbbbbbb…");
        assert_eq!(change_text(&change(None, Some(json!(1)))), "inputs.corpus: not there → 1");
        assert_eq!(change_text(&change(Some(json!(1)), None)), "inputs.corpus: 1 → not there any more");
    }
}
