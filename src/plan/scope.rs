//! What `${…}` stands for while a plan is loaded, and putting it in place.

use std::collections::BTreeMap;

use indexmap::IndexMap;

use super::diagnostic::{Slip, nearest};
use super::tree::{Entry, Position, Tree, Value};
use crate::value::Reference;
use crate::value::reference::{Piece, pieces};

/// The values that references of one file can name.
#[derive(Debug, Clone, Default)]
pub struct Scope {
    /// Parameters by name.
    pub params: IndexMap<String, Value>,
    /// Values of the site file.
    pub site: BTreeMap<String, String>,
    /// Site values that a target requires; where one is not given, nothing
    /// that uses it runs, so a stand-in takes its place.
    pub required_site: Vec<String>,
    /// Whether a site value that is not given is an empty one.
    pub site_optional: bool,
    /// The process environment.
    pub variables: BTreeMap<String, String>,
    /// Facts of the target, where there is one.
    pub target: BTreeMap<String, String>,
    /// Outputs of each node that can be referred to, by the name as written.
    pub nodes: BTreeMap<String, &'static [&'static str]>,
    /// Instance names of nodes that exist once per target.
    pub instances: BTreeMap<String, String>,
}

impl Scope {
    /// The tree with every reference replaced but those to nodes, which get
    /// their instance names. Every mistake is added to `slips`.
    pub fn substitute(&self, tree: &Tree, slips: &mut Vec<Slip>) -> Tree {
        let value = match &tree.value {
            Value::Text(text) => self.text(text, tree.at, slips),
            Value::List(items) => {
                Value::List(items.iter().map(|item| self.substitute(item, slips)).collect())
            }
            Value::Map(entries) => Value::Map(
                entries
                    .iter()
                    .map(|entry| Entry {
                        key: entry.key.clone(),
                        at: entry.at,
                        value: self.substitute(&entry.value, slips),
                    })
                    .collect(),
            ),
            other => other.clone(),
        };
        let resolved = matches!(&tree.value, Value::Text(text) if text.contains("${"));
        Tree { value, at: tree.at, resolved }
    }

    fn text(&self, text: &str, at: Position, slips: &mut Vec<Slip>) -> Value {
        let parts = match pieces(text) {
            Ok(parts) => parts,
            Err(rest) => {
                slips.push(
                    Slip::new(at, format!("{rest:?} opens a reference and does not close it"))
                        .help("write the closing `}`, or `$${` for a literal `${`"),
                );
                return Value::Text(text.to_owned());
            }
        };
        if let [Piece::Reference(inner)] = parts.as_slice() {
            return self.reference(inner, at, slips);
        }
        let mut resolved = String::new();
        for part in parts {
            match part {
                Piece::Literal(literal) => resolved.push_str(&literal.replace("${", "$${")),
                Piece::Reference(inner) => match self.reference(&inner, at, slips) {
                    Value::Text(text) => resolved.push_str(&text),
                    Value::Bool(value) => resolved.push_str(&value.to_string()),
                    Value::Integer(value) => resolved.push_str(&value.to_string()),
                    Value::Float(value) => resolved.push_str(&value.to_string()),
                    _ => {}
                },
            }
        }
        Value::Text(resolved)
    }

    fn reference(&self, inner: &str, at: Position, slips: &mut Vec<Slip>) -> Value {
        let found = match inner.split_once('.') {
            Some(("params", name)) => self.param(name),
            Some(("site", name)) => self.site_value(name),
            Some(("env", name)) => self.variable(name),
            Some(("target", name)) => self.target_fact(name),
            Some(("nodes", _)) => self.node(inner),
            _ => Err((
                format!("`${{{inner}}}` is not a reference"),
                "references are ${params.…}, ${nodes.…}, ${target.…}, ${site.…} and ${env.…}".to_owned(),
            )),
        };
        found.unwrap_or_else(|(message, help)| {
            slips.push(Slip::new(at, message).help(help));
            Value::Text(String::new())
        })
    }

    fn param(&self, name: &str) -> Found {
        self.params.get(name).cloned().ok_or_else(|| {
            unknown("parameter", name, self.params.keys().map(String::as_str), "declare it under `params:`")
        })
    }

    fn target_fact(&self, name: &str) -> Found {
        self.target.get(name).map(|fact| Value::Text(fact.clone())).ok_or_else(|| {
            let known = self.target.keys().map(String::as_str);
            unknown("fact of the target", name, known, "add it to the target's `about:`")
        })
    }

    fn site_value(&self, expression: &str) -> Found {
        let (name, default) = with_default(expression);
        let given = self.site.get(name).map(String::as_str).or(default);
        if given.is_none() && self.required_site.iter().any(|required| required == name) {
            return Ok(Value::Text(format!("(site.{name} is not given)")));
        }
        let given = given.or(self.site_optional.then_some(""));
        given.map(|value| Value::Text(value.to_owned())).ok_or_else(|| {
            let known = self.site.keys().map(String::as_str);
            let remedy = format!("give it in the site file, or a default: ${{site.{name}:-default}}");
            unknown("site value", name, known, &remedy)
        })
    }

    fn variable(&self, expression: &str) -> Found {
        let (name, default) = with_default(expression);
        let given = self.variables.get(name).map(String::as_str).or(default);
        given.map(|value| Value::Text(value.to_owned())).ok_or_else(|| {
            (
                format!("the environment variable `{name}` is not set"),
                format!("set it, or give a default: ${{env.{name}:-default}}"),
            )
        })
    }

    fn node(&self, inner: &str) -> Found {
        let reference = Reference::parse(inner).ok_or_else(|| {
            (
                format!("`${{{inner}}}` names no node"),
                "write ${nodes.NAME} or ${nodes.NAME.OUTPUT}".to_owned(),
            )
        })?;
        let Some(outputs) = self.nodes.get(&reference.node) else {
            let known = self.nodes.keys().map(String::as_str);
            return Err(unknown("node", &reference.node, known, "add it under `nodes:`"));
        };
        if let Some(output) = reference.output.as_deref().filter(|output| !outputs.contains(output)) {
            let known = outputs.iter().copied();
            let remedy = "refer to the node as a whole";
            return Err(unknown(&format!("output of `{}`", reference.node), output, known, remedy));
        }
        let node = self.instances.get(&reference.node).cloned().unwrap_or(reference.node);
        Ok(Value::Text(Reference { node, output: reference.output }.to_string()))
    }
}

/// A value, or what is wrong and the way out.
type Found = Result<Value, (String, String)>;

fn unknown<'a>(
    what: &str,
    name: &str,
    known: impl Iterator<Item = &'a str>,
    remedy: &str,
) -> (String, String) {
    let known: Vec<_> = known.collect();
    let help = match nearest(name, known.iter().copied()) {
        Some(near) => format!("did you mean `{near}`?"),
        None if known.is_empty() => remedy.to_owned(),
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

/// Names of the nodes that any text of the tree refers to, and whether it
/// refers to the target.
pub fn mentions(tree: &Tree) -> (Vec<String>, bool) {
    let mut nodes = Vec::new();
    let mut target = false;
    visit_texts(tree, &mut |text| {
        for piece in pieces(text).unwrap_or_default() {
            if let Piece::Reference(inner) = piece {
                target |= inner.starts_with("target.");
                nodes.extend(Reference::parse(&inner).map(|reference| reference.node));
            }
        }
    });
    (nodes, target)
}

fn visit_texts(tree: &Tree, visit: &mut impl FnMut(&str)) {
    match &tree.value {
        Value::Text(text) => visit(text),
        Value::List(items) => items.iter().for_each(|item| visit_texts(item, visit)),
        Value::Map(entries) => entries.iter().for_each(|entry| visit_texts(&entry.value, visit)),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scope() -> Scope {
        Scope {
            params: IndexMap::from([("rows".to_owned(), Value::Integer(2))]),
            site: BTreeMap::from([("port".to_owned(), "80".to_owned())]),
            required_site: vec!["root".to_owned()],
            site_optional: false,
            variables: BTreeMap::from([("HOME".to_owned(), "/h".to_owned())]),
            target: BTreeMap::from([("name".to_owned(), "a".to_owned())]),
            nodes: BTreeMap::from([("server".to_owned(), &["url"][..])]),
            instances: BTreeMap::from([("server".to_owned(), "server[target=a]".to_owned())]),
        }
    }

    fn resolve(text: &str) -> Result<Value, (String, String)> {
        let mut slips = Vec::new();
        let tree = Tree::written(Value::Text(text.to_owned()), Position::default());
        let tree = scope().substitute(&tree, &mut slips);
        match slips.pop() {
            None => Ok(tree.value),
            Some(slip) => Err((slip.message, slip.help.unwrap_or_default())),
        }
    }

    #[test]
    fn a_whole_reference_keeps_its_type_and_text_around_it_makes_text() {
        let text = |text: &str| Ok(Value::Text(text.to_owned()));
        assert_eq!(resolve("${params.rows}"), Ok(Value::Integer(2)));
        assert_eq!(resolve("n=${params.rows}"), text("n=2"));
        assert_eq!(resolve("${site.port}${env.HOME}${target.name}"), text("80/ha"));
        assert_eq!(resolve("${site.gone:-x}${env.GONE:-}"), text("x"));
        assert_eq!(resolve("${nodes.server.url}/v1"), text("${nodes.server[target=a].url}/v1"));
        assert_eq!(resolve("${site.root}"), text("(site.root is not given)"));
    }

    #[test]
    fn what_cannot_be_resolved_says_what_would_do() {
        let wrong = |text: &str| resolve(text).unwrap_err();
        assert_eq!(wrong("${params.row}").0, "there is no parameter `row`");
        assert_eq!(wrong("${params.row}").1, "did you mean `rows`?");
        assert_eq!(wrong("${nodes.sever}").1, "did you mean `server`?");
        assert_eq!(wrong("${nodes.server.uri}").0, "there is no output of `server` `uri`");
        assert!(wrong("${env.GONE}").1.contains(":-default"));
        assert!(wrong("${site.gone}").1.contains(":-default"));
        assert!(wrong("${params.rows").0.contains("does not close"));
        assert!(wrong("${what.ever}").1.contains("${params.…}"));
    }
}
