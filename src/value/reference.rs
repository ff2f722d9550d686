//! References from one node to the outputs of another, as plans write them.
//!
//! Parameters, the environment and site values are resolved when a plan is
//! loaded; what a node produces is known only later, so settings keep these
//! references and a node resolves them when it runs.

use std::borrow::Cow;
use std::fmt;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// What `${nodes.NAME}` or `${nodes.NAME.OUTPUT}` points at.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Reference {
    /// The node's name; after sweeps are expanded, an instance's name.
    pub node: String,
    /// The named output, or the node as a whole.
    pub output: Option<String>,
}

impl fmt::Display for Reference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.output {
            Some(output) => write!(f, "${{nodes.{}.{output}}}", self.node),
            None => write!(f, "${{nodes.{}}}", self.node),
        }
    }
}

impl Reference {
    /// Reads the inside of `${…}`: `nodes.NAME` or `nodes.NAME.OUTPUT`.
    ///
    /// An instance name such as `load[target=a.b]` may hold dots inside its
    /// brackets.
    #[must_use]
    pub fn parse(inner: &str) -> Option<Self> {
        let rest = inner.strip_prefix("nodes.")?;
        let name_end = match (rest.find('['), rest.find('.')) {
            (Some(open), dot) if dot.is_none_or(|dot| open < dot) => rest.find(']')? + 1,
            (_, Some(dot)) => dot,
            _ => rest.len(),
        };
        let (node, tail) = rest.split_at(name_end);
        let output = match tail.strip_prefix('.') {
            Some(output) if !output.is_empty() => Some(output.to_owned()),
            None if tail.is_empty() => None,
            _ => return None,
        };
        (!node.is_empty()).then(|| Self { node: node.to_owned(), output })
    }
}

/// A setting that takes what another node produced: `"${nodes.corpus}"`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Input(pub Reference);

impl<'de> Deserialize<'de> for Input {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let InputText(text) = InputText::deserialize(deserializer)?;
        text.strip_prefix("${")
            .and_then(|rest| rest.strip_suffix('}'))
            .and_then(Reference::parse)
            .map(Self)
            .ok_or_else(|| {
                de::Error::custom(format!(
                    "a reference to a node is needed, and {text:?} is none; write it as ${{nodes.NAME}}"
                ))
            })
    }
}

/// The text of an [`Input`], under a name by which a reader of plans knows
/// that its reference is kept.
#[derive(Deserialize)]
#[serde(rename = "Input")]
struct InputText(String);

impl Serialize for Input {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&self.0)
    }
}

impl JsonSchema for Input {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "NodeReference".into()
    }
    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": "string",
            "description": "A reference to a node or to one of its outputs, such as `${nodes.corpus}`.",
            "pattern": r"^\$\{nodes\..+\}$",
        })
    }
}

/// Text in which `${nodes.NAME.OUTPUT}` stands for what another node produced.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "TextWithOutputs")]
pub struct Text(pub String);

/// A piece of a [`Text`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Piece<'a> {
    /// Characters that stand for themselves.
    Literal(Cow<'a, str>),
    /// The inside of a `${…}`.
    Reference(&'a str),
}

/// Splits text into literals and the insides of its `${…}`; `$${` is a
/// literal `${`. An opening without its `}` is an error that quotes the rest.
pub fn pieces(text: &str) -> Result<Vec<Piece<'_>>, &str> {
    let mut pieces = Vec::new();
    let mut rest = text;
    while let Some(at) = rest.find("${") {
        let (before, opened) = rest.split_at(at);
        if let Some(before) = before.strip_suffix('$') {
            push_literal(&mut pieces, before);
            push_literal(&mut pieces, "${");
            rest = &opened[2..];
            continue;
        }
        push_literal(&mut pieces, before);
        let (inside, after) = opened[2..].split_once('}').ok_or(opened)?;
        pieces.push(Piece::Reference(inside));
        rest = after;
    }
    push_literal(&mut pieces, rest);
    Ok(pieces)
}

fn push_literal<'a>(pieces: &mut Vec<Piece<'a>>, text: &'a str) {
    match pieces.last_mut() {
        _ if text.is_empty() => {}
        Some(Piece::Literal(literal)) => literal.to_mut().push_str(text),
        _ => pieces.push(Piece::Literal(Cow::Borrowed(text))),
    }
}

/// Text in which every `${` stands for itself.
#[must_use]
pub fn escaped(text: &str) -> Cow<'_, str> {
    if text.contains("${") { Cow::Owned(text.replace("${", "$${")) } else { Cow::Borrowed(text) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reference_names_a_node_and_perhaps_an_output() {
        let whole = Reference::parse("nodes.corpus").unwrap();
        assert_eq!((whole.node.as_str(), whole.output), ("corpus", None));
        let part = Reference::parse("nodes.load[target=a.b].export").unwrap();
        assert_eq!(part.node, "load[target=a.b]");
        assert_eq!(part.output.as_deref(), Some("export"));
        for bad in ["", "nodes.", "corpus", "nodes.a.", "nodes.a[b", "params.x"] {
            assert_eq!(Reference::parse(bad), None, "{bad:?}");
        }
    }

    #[test]
    fn a_doubled_dollar_is_a_literal() {
        let literal = |text: &'static str| vec![Piece::Literal(text.into())];
        assert_eq!(pieces("a $${b} c").unwrap(), literal("a ${b} c"));
        assert_eq!(
            pieces("--m=${nodes.a.file}!").unwrap(),
            [Piece::Literal("--m=".into()), Piece::Reference("nodes.a.file"), Piece::Literal("!".into())]
        );
        assert_eq!(pieces("x ${nodes.a").unwrap_err(), "${nodes.a");
    }
}
