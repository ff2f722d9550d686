//! Replacing secrets in text that is shown or kept, in the forms they turn up in.

mod stream;

use std::collections::BTreeSet;
use std::fmt::{self, Write};

pub use stream::MaskedStream;

/// What stands in place of a secret.
pub const MASK: &str = "***";
/// The shortest encoded form that is looked for; shorter ones turn up by chance.
const SHORTEST_FORM: usize = 6;

/// Knows secrets and replaces them by `***`: as they are, escaped for JSON,
/// percent-encoded, and in base64 also as part of a longer text.
#[derive(Clone, Default)]
pub struct Masker {
    /// Longest first.
    forms: Vec<String>,
}

impl fmt::Debug for Masker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Masker({} forms)", self.forms.len())
    }
}

impl Masker {
    /// Prepares the forms of each secret; empty ones are passed over.
    ///
    /// Of a secret of several lines, such as a key file, each longer line is a
    /// secret of its own, because logs are shown by lines.
    #[must_use]
    pub fn new<S: AsRef<str>>(secrets: impl IntoIterator<Item = S>) -> Self {
        let mut forms = BTreeSet::new();
        for secret in secrets {
            let secret = secret.as_ref().trim();
            add_forms(secret, &mut forms);
            let lines = secret.lines().map(str::trim);
            for line in lines.filter(|line| *line != secret && line.len() >= 8) {
                add_forms(line, &mut forms);
            }
        }
        forms.remove("");
        let mut forms: Vec<String> = forms.into_iter().collect();
        forms.sort_by_key(|form| std::cmp::Reverse(form.len()));
        Self { forms }
    }

    /// The text with every secret replaced.
    #[must_use]
    pub fn mask(&self, text: &str) -> String {
        self.mask_from(text, 0)
    }

    /// Masks the whole text and returns what follows byte `start`; a secret
    /// that reaches across it is replaced in full.
    pub(super) fn mask_from(&self, text: &str, start: usize) -> String {
        let mut out = String::with_capacity(text.len() - start);
        let mut at = start;
        for (from, to) in self.spans(text.as_bytes()) {
            if to <= at {
                continue;
            }
            if from > at {
                out.push_str(&text[at..from]);
            }
            out.push_str(MASK);
            at = to;
        }
        out.push_str(&text[at..]);
        out
    }

    /// The length in bytes of the longest form.
    pub(super) fn longest(&self) -> usize {
        self.forms.first().map_or(0, String::len)
    }

    /// Whether it knows no secret.
    fn is_empty(&self) -> bool {
        self.forms.is_empty()
    }

    /// The first place from which on these bytes, with more behind them, may
    /// be a secret; their end where there is none.
    fn where_a_secret_may_begin(&self, bytes: &[u8]) -> usize {
        let from = (bytes.len() + 1).saturating_sub(self.longest());
        let begins = |at: &usize| {
            let rest = &bytes[*at..];
            self.forms.iter().any(|form| form.len() > rest.len() && form.as_bytes().starts_with(rest))
        };
        (from..bytes.len()).find(begins).unwrap_or(bytes.len())
    }

    /// Where secrets stand, in order, overlapping ones joined.
    fn spans(&self, bytes: &[u8]) -> Vec<(usize, usize)> {
        let mut spans: Vec<(usize, usize)> = self
            .forms
            .iter()
            .flat_map(|form| every(form.as_bytes(), bytes).map(|from| (from, from + form.len())))
            .collect();
        spans.sort_unstable();
        let mut joined: Vec<(usize, usize)> = Vec::new();
        for (from, to) in spans {
            match joined.last_mut() {
                Some(last) if from < last.1 => last.1 = last.1.max(to),
                _ => joined.push((from, to)),
            }
        }
        joined
    }
}

/// Every place of a form, also where it overlaps itself.
fn every<'a>(form: &'a [u8], bytes: &'a [u8]) -> impl Iterator<Item = usize> {
    let mut next = 0;
    std::iter::from_fn(move || {
        let found = next + memchr::memmem::find(bytes.get(next..)?, form)?;
        next = found + 1;
        Some(found)
    })
}

fn add_forms(secret: &str, forms: &mut BTreeSet<String>) {
    forms.insert(secret.to_owned());
    let json = json_escaped(secret);
    let mut encoded = vec![json_escaped(&json), json.replace('/', "\\/"), ascii_json(&json), json];
    for also_safe in ["", "/", "!*'()"] {
        encoded.push(percent_encoded(secret, also_safe, true));
        encoded.push(percent_encoded(secret, also_safe, false));
    }
    encoded.push(percent_encoded(secret, " ", true).replace(' ', "+"));
    for offset in 0..3 {
        let standard = base64_inside(secret.as_bytes(), offset);
        encoded.push(standard.replace('+', "-").replace('/', "_"));
        encoded.push(standard);
    }
    forms.extend(encoded.into_iter().filter(|form| form.len() >= SHORTEST_FORM));
}

/// The text as the inside of a JSON string.
fn json_escaped(text: &str) -> String {
    let quoted = serde_json::Value::from(text).to_string();
    quoted[1..quoted.len() - 1].to_owned()
}

/// JSON text with everything beyond ASCII as `\uXXXX`, as Python writes it.
fn ascii_json(json: &str) -> String {
    let mut out = String::new();
    for c in json.chars() {
        if c.is_ascii() {
            out.push(c);
        } else {
            for unit in c.encode_utf16(&mut [0; 2]) {
                // Writing to a string cannot fail.
                let _ = write!(out, "\\u{unit:04x}");
            }
        }
    }
    out
}

/// Percent-encoding (RFC 3986): all but unreserved characters and `also_safe`.
fn percent_encoded(text: &str, also_safe: &str, upper: bool) -> String {
    let mut out = String::new();
    for byte in text.bytes() {
        let c = char::from(byte);
        if c.is_ascii_alphanumeric() || "-._~".contains(c) || also_safe.contains(c) {
            out.push(c);
        } else {
            let _ = if upper { write!(out, "%{byte:02X}") } else { write!(out, "%{byte:02x}") };
        }
    }
    out
}

/// The base64 digits (RFC 4648) that these bytes fully determine where they
/// begin `offset` bytes after a group of three, as in `user:secret`.
fn base64_inside(bytes: &[u8], offset: usize) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let bit = |index: usize| {
        let byte = bytes[index / 8 - offset];
        usize::from(byte >> (7 - index % 8) & 1)
    };
    let first = (offset * 8).div_ceil(6);
    let end = (offset + bytes.len()) * 8 / 6;
    (first..end)
        .map(|digit| (digit * 6..digit * 6 + 6).fold(0, |value, index| value << 1 | bit(index)))
        .map(|value| char::from(DIGITS[value]))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_replaced_in_every_form_it_turns_up_in() {
        let masker = Masker::new(["p\"a/ß w+rd\n"]);
        let texts = [
            "key=p\"a/ß w+rd.",
            r#"{"key":"p\"a/ß w+rd"}"#,
            r#"{"key":"p\"a\/ß w+rd"}"#,
            r#"{"key":"p\"a/\u00df w+rd"}"#,
            r#""{\"key\":\"p\\\"a/ß w+rd\"}""#,
            "?key=p%22a%2F%C3%9F%20w%2Brd&x",
            "?key=p%22a%2f%c3%9f%20w%2brd&x",
            "?key=p%22a/%C3%9F%20w%2Brd&x",
            "?key=p%22a%2F%C3%9F+w%2Brd&x",
        ];
        for text in texts {
            let shown = masker.mask(text);
            assert!(shown.contains(MASK) && !shown.contains("rd"), "{text} became {shown}");
        }
    }

    #[test]
    fn a_secret_is_replaced_in_base64_at_every_position() {
        // `printf 'u:swordfish'`, `ux:…`, `usr:…` piped to `base64`.
        let masker = Masker::new(["swordfish"]);
        for text in ["dTpzd29yZGZpc2g=", "dXg6c3dvcmRmaXNo", "dXNyOnN3b3JkZmlzaA=="] {
            let shown = masker.mask(text);
            assert!(shown.contains(MASK) && shown.len() <= 12, "{text} became {shown}");
        }
    }

    #[test]
    fn lines_of_a_long_secret_are_secrets() {
        let masker = Masker::new(["-----BEGIN-----\nabcdefghijkl\nx\n"]);
        assert_eq!(masker.mask("read abcdefghijkl, x"), "read ***, x");
    }

    #[test]
    fn overlapping_secrets_leave_nothing() {
        let masker = Masker::new(["abcdef", "defghi", "abcdefgh"]);
        assert_eq!(masker.mask("<abcdefghi>"), "<***>");
    }

    #[test]
    fn nothing_is_masked_without_secrets_and_nothing_is_told() {
        assert_eq!(Masker::new([""]).mask("text"), "text");
        assert!(!format!("{:?}", Masker::new(["swordfish"])).contains("sword"));
    }
}
