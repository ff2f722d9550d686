//! What may be published: text without the places of one machine.

use std::collections::BTreeMap;

use serde_json::Value;

/// Fewest characters of a value that says something about a machine.
const TELLING: usize = 3;

/// The values of a site file that must not be published.
///
/// A value that the plan itself holds is no secret, a number says nothing
/// about whose machine it is, and a digest is what evidence is made of; all
/// other values become `${site.NAME}` wherever they stand as words.
#[derive(Debug, Clone, Default)]
pub struct SiteValues {
    /// Words with what takes their place, the longest first.
    words: Vec<(String, String)>,
}

impl SiteValues {
    /// The values of a site that `published`, the text of the plan's files,
    /// does not hold.
    #[must_use]
    pub fn new(site: &BTreeMap<String, String>, published: &[&str]) -> Self {
        let is_known = |word: &str| published.iter().any(|text| find_word(text, word).is_some());
        let mut words: Vec<(String, String)> = site
            .iter()
            .flat_map(|(name, value)| {
                let stand_in = format!("${{site.{name}}}");
                // A directory's own name is what `public_text` leaves of it.
                let last =
                    value.strip_prefix('/').and_then(|path| path.trim_end_matches('/').rsplit('/').next());
                let last = last.filter(|last| !last.contains('.')).map(str::to_owned);
                [Some(value.clone()), last].into_iter().flatten().map(move |word| (word, stand_in.clone()))
            })
            .filter(|(word, _)| is_telling(word) && !is_known(word))
            .collect();
        words.sort_by(|a, b| b.0.len().cmp(&a.0.len()).then_with(|| a.cmp(b)));
        words.dedup_by(|a, b| a.0 == b.0);
        Self { words }
    }

    /// The text with every private value replaced.
    #[must_use]
    pub fn mask(&self, text: &str) -> String {
        let mut masked = text.to_owned();
        for (word, stand_in) in &self.words {
            let mut done = String::new();
            let mut rest = masked.as_str();
            while let Some(at) = find_word(rest, word) {
                done.push_str(&rest[..at]);
                done.push_str(stand_in);
                rest = &rest[at + word.len()..];
            }
            done.push_str(rest);
            masked = done;
        }
        masked
    }

    /// The document with every private value replaced, in values and in keys.
    #[must_use]
    pub fn mask_value(&self, value: Value) -> Value {
        if self.words.is_empty() {
            return value;
        }
        match value {
            Value::String(text) => Value::String(self.mask(&text)),
            Value::Array(items) => items.into_iter().map(|item| self.mask_value(item)).collect(),
            Value::Object(map) => {
                map.into_iter().map(|(key, value)| (self.mask(&key), self.mask_value(value))).collect()
            }
            other => other,
        }
    }
}

/// Whether a value may say something about a machine or who uses it.
fn is_telling(value: &str) -> bool {
    let is_digest = value.len() >= 32 && value.bytes().all(|byte| byte.is_ascii_hexdigit());
    let is_word = matches!(value, "true" | "false");
    value.chars().count() >= TELLING && value.parse::<f64>().is_err() && !is_digest && !is_word
}

/// Where a word begins that no letter and no digit continues.
fn find_word(text: &str, word: &str) -> Option<usize> {
    let continues = char::is_alphanumeric;
    text.match_indices(word).map(|(at, _)| at).find(|at| {
        let before = text[..*at].chars().next_back();
        let after = text[at + word.len()..].chars().next();
        !before.is_some_and(continues) && !after.is_some_and(continues)
    })
}

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
    fn a_site_value_becomes_its_name_unless_the_plan_holds_it_or_it_says_nothing() {
        let site = [
            ("model", "/home/alice/m.gguf"),
            ("home", "/home/alice"),
            ("node", "gpu-17"),
            ("program", "trtmc"),
            ("port", "8000"),
            ("sha256", "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"),
            ("empty", ""),
        ];
        let site = site.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
        let values = SiteValues::new(&site, &["engine: {trtmc: {}}"]);
        let cases = [
            ("cannot read /home/alice/m.gguf", "cannot read ${site.model}"),
            ("/home/alice/x of alice", "${site.home}/x of ${site.home}"),
            ("on gpu-17 and a-gpu-17, not gpu-171", "on ${site.node} and a-${site.node}, not gpu-171"),
            ("trtmc on port 8000", "trtmc on port 8000"),
            (&site["sha256"], &site["sha256"]),
        ];
        for (text, public) in cases {
            assert_eq!(values.mask(text), public);
            assert_eq!(values.mask(public), public, "masking twice changes nothing");
        }
        let masked = values.mask_value(serde_json::json!({"gpu-17": ["alice", 8000]}));
        assert_eq!(masked, serde_json::json!({"${site.node}": ["${site.home}", 8000]}));
    }

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
