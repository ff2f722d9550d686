//! The references that are resolved when a file is read: parameters, the
//! site and the process environment. Those to nodes, to the target and to
//! sweeps stay until instances are made.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use super::diagnostic::{MOST, Slip, nearest};
use super::params::Params;
use super::sheet::BYTES;
use super::tree::{Origin, Position, Tree, Value};
use crate::value::reference::{Piece, escaped, pieces};

/// What a site value that is not given becomes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Absent {
    /// A mistake.
    Wrong,
    /// An empty text.
    Empty,
    /// Site values have no place here, given or not.
    Refused,
}

/// The values that references of one file can name when it is read.
pub(super) struct Scope<'a> {
    /// The file's parameters.
    pub params: &'a Params,
    /// Values of the site file.
    pub site: &'a BTreeMap<String, String>,
    /// The process environment.
    pub variables: &'a BTreeMap<String, String>,
    /// Site values that the target requires; where one is not given, nothing
    /// that uses it runs, so a stand-in takes its place.
    pub required_site: &'a HashSet<String>,
    /// What a site value that is not given becomes.
    pub absent: Absent,
}

/// What came up while references were resolved.
#[derive(Default)]
pub(super) struct Settled {
    /// Mistakes.
    pub slips: Vec<Slip>,
    /// Parameters that something refers to.
    pub used: BTreeSet<String>,
    /// Bytes of the files so far, with what references stand for.
    pub bytes: usize,
    /// Whether a part of the last text could not be resolved.
    is_broken: bool,
}

impl Settled {
    /// Nothing yet, after some bytes.
    pub fn after(bytes: usize) -> Self {
        Self { bytes, ..Self::default() }
    }

    fn is_enough(&self) -> bool {
        self.slips.len() > MOST || self.bytes > BYTES
    }

    /// Counts what references stand for; a few that repeat a long text are
    /// refused before they are made.
    fn count(&mut self, value: &Value, at: Position) {
        self.bytes += value.text().map_or(0, str::len);
        if self.bytes > BYTES {
            let message =
                format!("with what references stand for, this plan has more than {} MiB", BYTES >> 20);
            self.slips.push(Slip::new(at, message).help("refer to long texts less often"));
            self.is_broken = true;
        }
    }
}

/// Whether a reference is resolved only when instances are made.
fn is_late(inner: &str) -> bool {
    ["nodes.", "target.", "sweep."].iter().any(|prefix| inner.starts_with(prefix))
}

impl Scope<'_> {
    /// Puts values in the place of references, in the tree itself.
    pub fn settle(&self, tree: &mut Tree, settled: &mut Settled) {
        match &mut tree.value {
            Value::Text(text) => {
                settled.is_broken = false;
                if text.contains("${")
                    && let Some(value) = self.text(text, tree.at, settled)
                {
                    tree.value = value;
                    tree.origin = if settled.is_broken { Origin::Unknown } else { Origin::Resolved };
                }
            }
            Value::List(items) => items.iter_mut().for_each(|item| self.settle(item, settled)),
            Value::Map(entries) => {
                for entry in entries {
                    self.settle(&mut entry.value, settled);
                }
            }
            _ => {}
        }
    }

    /// What the text becomes; nothing where it stays as it is.
    fn text(&self, text: &str, at: Position, settled: &mut Settled) -> Option<Value> {
        let parts = match pieces(text) {
            Ok(parts) => parts,
            Err(rest) => {
                settled.is_broken = true;
                settled.slips.push(
                    Slip::new(at, format!("{rest:?} opens a reference and does not close it"))
                        .help("write the closing `}`, or `$${` for a literal `${`"),
                );
                return Some(Value::Text(String::new()));
            }
        };
        let early = |piece: &Piece| matches!(piece, Piece::Reference(inner) if !is_late(inner));
        if !parts.iter().any(early) {
            return None;
        }
        if let [Piece::Reference(inner)] = parts.as_slice() {
            return Some(self.reference(inner, at, settled));
        }
        let mut resolved = String::new();
        for part in parts {
            match part {
                Piece::Literal(literal) => resolved.push_str(&escaped(&literal)),
                Piece::Reference(inner) if is_late(inner) => {
                    resolved.push_str("${");
                    resolved.push_str(inner);
                    resolved.push('}');
                }
                Piece::Reference(inner) => {
                    let value = self.reference(inner, at, settled);
                    resolved.push_str(&value.as_text().unwrap_or_default());
                }
            }
        }
        Some(Value::Text(resolved))
    }

    fn reference(&self, inner: &str, at: Position, settled: &mut Settled) -> Value {
        if settled.is_enough() {
            settled.is_broken = true;
            return Value::Text(String::new());
        }
        let found = match inner.split_once('.') {
            Some(("params", name)) => {
                settled.used.insert(name.to_owned());
                settled.is_broken |= self.params.is_broken(name);
                self.param(name)
            }
            Some(("site", name)) => self.site_value(name),
            Some(("env", name)) => self.variable(name),
            other => Err(no_reference(inner, other)),
        };
        let value = found.unwrap_or_else(|(message, help)| {
            settled.is_broken = true;
            settled.slips.push(Slip::new(at, message).help(help));
            Value::Text(String::new())
        });
        settled.count(&value, at);
        value
    }

    fn param(&self, name: &str) -> Found {
        let known = || self.params.values.keys().map(String::as_str);
        let unknown = || unknown("parameter", name, known(), "declare it under `params:` of this file");
        self.params.values.get(name).cloned().ok_or_else(unknown)
    }

    fn site_value(&self, expression: &str) -> Found {
        let (name, default) = with_default(expression);
        if self.absent == Absent::Refused {
            return Err((
                format!("the site value `{name}` would be published here"),
                "use site values inside nodes only; what stands here goes into reports".to_owned(),
            ));
        }
        let given = self.site.get(name).map(String::as_str).or(default);
        if given.is_none() && self.required_site.contains(name) {
            return Ok(Value::Text(format!("(site.{name} is not given)")));
        }
        let given = given.or((self.absent == Absent::Empty).then_some(""));
        given.map(literal).ok_or_else(|| {
            let known = self.site.keys().map(String::as_str);
            let remedy = format!("give it in the site file, or a default: ${{site.{name}:-default}}");
            unknown("site value", name, known, &remedy)
        })
    }

    fn variable(&self, expression: &str) -> Found {
        let (name, default) = with_default(expression);
        let given = self.variables.get(name).map(String::as_str).or(default);
        given.map(literal).ok_or_else(|| {
            (
                format!("the environment variable `{name}` is not set"),
                format!("set it, or give a default: ${{env.{name}:-default}}"),
            )
        })
    }
}

/// What is wrong with the inside of a `${…}` that begins with no known word.
fn no_reference(inner: &str, parts: Option<(&str, &str)>) -> (String, String) {
    let known = ["params", "nodes", "target", "sweep", "site", "env"];
    let near = parts.and_then(|(first, rest)| Some((nearest(first, known)?, rest)));
    let help = match near {
        Some((word, rest)) => format!("did you mean `${{{word}.{rest}}}`?"),
        None => "references are ${params.…}, ${nodes.…}, ${target.…}, ${sweep.…}, ${site.…} and ${env.…}; \
                 `$${` is a literal `${`"
            .to_owned(),
    };
    (format!("`${{{inner}}}` is not a reference"), help)
}

/// Text that holds no reference, whatever it looks like.
fn literal(text: &str) -> Value {
    Value::Text(escaped(text).into_owned())
}

/// A value, or what is wrong and the way out.
type Found = Result<Value, (String, String)>;

/// Words for something that does not exist, with the nearest that does.
pub(super) fn unknown<'a>(
    what: &str,
    name: &str,
    known: impl Iterator<Item = &'a str>,
    remedy: &str,
) -> (String, String) {
    let known: Vec<_> = known.collect();
    let help = match nearest(name, known.iter().copied()) {
        Some(near) => format!("did you mean `{near}`?"),
        None if known.is_empty() || known.len() > 12 || known.iter().any(|name| name.len() > 100) => {
            remedy.to_owned()
        }
        None => format!("known: {}; or {remedy}", known.join(", ")),
    };
    (format!("there is no {what} `{name}`"), help)
}

/// Splits `NAME:-default`.
fn with_default(expression: &str) -> (&str, Option<&str>) {
    match expression.split_once(":-") {
        Some((name, default)) => (name, Some(default)),
        None => (expression, None),
    }
}

#[cfg(test)]
mod tests {
    use indexmap::IndexMap;

    use super::*;
    use crate::plan::tree::Number;

    fn resolve(text: &str) -> Result<Value, (String, String)> {
        let named = |pairs: [(&str, &str); 1]| {
            pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).into_iter().collect()
        };
        let params = Params {
            values: IndexMap::from([("version".to_owned(), Value::Number(Number::parse("1.10").unwrap()))]),
            ..Params::default()
        };
        let scope = Scope {
            params: &params,
            site: &named([("port", "80")]),
            variables: &named([("HOME", "/${h}")]),
            required_site: &HashSet::from(["root".to_owned()]),
            absent: Absent::Wrong,
        };
        let mut tree =
            Tree { value: Value::Text(text.to_owned()), at: Position::default(), origin: Origin::Plain };
        let mut settled = Settled::default();
        scope.settle(&mut tree, &mut settled);
        match settled.slips.pop() {
            None => Ok(tree.value),
            Some(slip) => Err((slip.message, slip.help.unwrap_or_default())),
        }
    }

    #[test]
    fn a_whole_reference_keeps_its_type_and_text_around_it_makes_text() {
        let text = |text: &str| Ok(Value::Text(text.to_owned()));
        assert_eq!(resolve("${params.version}"), Ok(Value::Number(Number::parse("1.10").unwrap())));
        assert_eq!(resolve("aiperf==${params.version}"), text("aiperf==1.10"));
        assert_eq!(resolve("${site.port}${target.name}"), text("80${target.name}"));
        assert_eq!(resolve("${site.gone:-x}${env.GONE:-}"), text("x"));
        assert_eq!(resolve("${nodes.server.url}/v1"), text("${nodes.server.url}/v1"));
        assert_eq!(resolve("${site.root}"), text("(site.root is not given)"));
    }

    #[test]
    fn what_stands_for_itself_is_never_taken_for_a_reference() {
        let text = |text: &str| Ok(Value::Text(text.to_owned()));
        assert_eq!(resolve("$${a} ${site.port}"), text("$${a} 80"));
        assert_eq!(resolve("${env.HOME}"), text("/$${h}"));
    }

    #[test]
    fn what_cannot_be_resolved_says_what_would_do() {
        let wrong = |text: &str| resolve(text).unwrap_err();
        assert_eq!(wrong("${params.versoin}").0, "there is no parameter `versoin`");
        assert_eq!(wrong("${params.versoin}").1, "did you mean `version`?");
        assert!(wrong("${env.GONE}").1.contains(":-default"));
        assert!(wrong("${site.gone}").1.contains(":-default"));
        assert!(wrong("${params.rows").0.contains("does not close"));
        assert!(wrong("${what.ever}").1.contains("${params.…}"));
    }
}
