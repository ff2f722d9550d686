//! What may be published: text without the places of one machine.

use serde_json::Value;

/// The text with every absolute path replaced by its last part.
#[must_use]
pub fn public_text(text: &str) -> String {
    let mut public = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = path_start(rest) {
        public.push_str(&rest[..at]);
        let path = &rest[at..];
        let end = path.find(|c: char| c.is_whitespace() || "'\"`,;:()<>|".contains(c)).unwrap_or(path.len());
        public.push_str(path[..end].trim_end_matches('/').rsplit('/').next().unwrap_or_default());
        rest = &path[end..];
    }
    public.push_str(rest);
    public
}

/// Where an absolute path of at least two parts begins: at a slash that no
/// word, and no other slash, stands before.
fn path_start(text: &str) -> Option<usize> {
    text.match_indices('/').map(|(at, _)| at).find(|at| {
        let before = text[..*at].chars().next_back();
        let starts = before.is_none_or(|c| c.is_whitespace() || "'\"`(=[<,:".contains(c));
        let after = &text[*at + 1..];
        starts && after.starts_with(|c: char| c.is_alphanumeric() || "._-".contains(c)) && {
            let part = after.split(|c: char| c.is_whitespace()).next().unwrap_or_default();
            part.contains('/')
        }
    })
}

/// The value with [`public_text`] applied to every text in it.
#[must_use]
pub fn public_value(value: Value) -> Value {
    match value {
        Value::String(text) => Value::String(public_text(&text)),
        Value::Array(items) => items.into_iter().map(public_value).collect(),
        Value::Object(map) => map.into_iter().map(|(key, value)| (key, public_value(value))).collect(),
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_becomes_its_last_part_and_all_else_stays() {
        let cases = [
            ("cannot load /home/alice/models/m.gguf: no such file", "cannot load m.gguf: no such file"),
            ("'/home/alice/x y", "'x y"),
            ("--dir=/srv/data/bin/", "--dir=bin"),
            ("not in /usr/bin:/home/alice/bin", "not in bin:bin"),
            (
                "GET /health answered 200, 1/2 of http://127.0.0.1:80/v1/models",
                "GET /health answered 200, 1/2 of http://127.0.0.1:80/v1/models",
            ),
            ("hemingkx/Spec-Bench and a/b/c", "hemingkx/Spec-Bench and a/b/c"),
            ("/v1/chat/completions", "completions"),
        ];
        for (text, public) in cases {
            assert_eq!(public_text(text), public);
        }
    }
}
