//! References from one node to the outputs of another, as plans write them.
//!
//! Parameters, the environment and site values are resolved when a plan is
//! loaded; what a node produces is known only later, so settings keep these
//! references and a node resolves them when it runs.

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
        let text = String::deserialize(deserializer)?;
        text.strip_prefix("${")
            .and_then(|rest| rest.strip_suffix('}'))
            .and_then(Reference::parse)
            .map(Self)
            .ok_or_else(|| {
                de::Error::custom(format!(
                    "expected a reference to a node, such as \"${{nodes.corpus}}\", found {text:?}"
                ))
            })
    }
}

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
#[serde(transparent)]
#[schemars(rename = "TextWithOutputs")]
pub struct Text(pub String);

/// A piece of a [`Text`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Piece {
    /// Characters that stand for themselves.
    Literal(String),
    /// The inside of a `${…}`.
    Reference(String),
}

/// Splits text into literals and the insides of its `${…}`; `$${` is a
/// literal `${`. An opening without its `}` is an error that quotes the rest.
pub fn pieces(text: &str) -> Result<Vec<Piece>, String> {
    let mut pieces = Vec::new();
    let mut literal = String::new();
    let mut rest = text;
    while let Some(at) = rest.find("${") {
        if rest[..at].ends_with('$') {
            literal.push_str(&rest[..at - 1]);
            literal.push_str("${");
            rest = &rest[at + 2..];
            continue;
        }
        literal.push_str(&rest[..at]);
        let inside = &rest[at + 2..];
        let end = inside.find('}').ok_or_else(|| rest[at..].to_owned())?;
        if !literal.is_empty() {
            pieces.push(Piece::Literal(std::mem::take(&mut literal)));
        }
        pieces.push(Piece::Reference(inside[..end].to_owned()));
        rest = &inside[end + 1..];
    }
    literal.push_str(rest);
    if !literal.is_empty() {
        pieces.push(Piece::Literal(literal));
    }
    Ok(pieces)
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
        let literal = |text: &str| vec![Piece::Literal(text.to_owned())];
        assert_eq!(pieces("a $${b} c").unwrap(), literal("a ${b} c"));
        assert_eq!(
            pieces("--m=${nodes.a.file}!").unwrap(),
            [
                Piece::Literal("--m=".into()),
                Piece::Reference("nodes.a.file".into()),
                Piece::Literal("!".into())
            ]
        );
        assert_eq!(pieces("x ${nodes.a").unwrap_err(), "${nodes.a");
    }
}
