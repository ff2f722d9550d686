//! Parameters: typed by their defaults, overridden from the command line.

use indexmap::IndexMap;

use super::diagnostic::{Slip, nearest};
use super::tree::{Position, Tree, Value};

/// Parameters of one file, with the values given on the command line.
pub(super) fn resolve(
    document: &Tree,
    given: &[(String, String)],
    slips: &mut Vec<Slip>,
) -> IndexMap<String, Value> {
    let mut params = IndexMap::new();
    let Some(declared) = document.get("params") else { return params };
    for entry in declared.entries() {
        match parameter(&entry.value, &entry.key) {
            Ok(parameter) => {
                let text = given.iter().rev().find(|(name, _)| *name == entry.key).map(|(_, text)| text);
                let value = match text.map(|text| parameter.accept(text, &entry.key)) {
                    None => parameter.default,
                    Some(Ok(value)) => value,
                    Some(Err(message)) => {
                        slips.push(Slip::new(entry.at, message));
                        parameter.default
                    }
                };
                params.insert(entry.key.clone(), value);
            }
            Err(slip) => slips.push(slip),
        }
    }
    params
}

/// A parameter as declared.
struct Parameter {
    default: Value,
    choices: Vec<Value>,
}

fn parameter(tree: &Tree, name: &str) -> Result<Parameter, Slip> {
    let scalar = |tree: &Tree| match &tree.value {
        Value::List(_) | Value::Map(_) | Value::Null => Err(Slip::new(
            tree.at,
            format!(
                "the parameter `{name}` is {}; its value is text, a number or a boolean",
                tree.describe()
            ),
        )),
        value => Ok(value.clone()),
    };
    if !matches!(tree.value, Value::Map(_)) {
        return Ok(Parameter { default: scalar(tree)?, choices: Vec::new() });
    }
    let known = ["default", "description", "choices"];
    if let Some(unknown) = tree.entries().iter().find(|entry| !known.contains(&entry.key.as_str())) {
        let help = match nearest(&unknown.key, known) {
            Some(near) => format!("did you mean `{near}`?"),
            None => format!("known here: {}", known.join(", ")),
        };
        return Err(Slip::new(unknown.at, format!("unknown key `{}`", unknown.key)).help(help));
    }
    let default = tree.get("default").ok_or_else(|| {
        Slip::new(tree.at, format!("the parameter `{name}` has no default"))
            .help("add `default:`, which gives the type")
    })?;
    let choices = match tree.get("choices").map(|choices| &choices.value) {
        Some(Value::List(items)) => items.iter().map(scalar).collect::<Result<_, _>>()?,
        _ => Vec::new(),
    };
    Ok(Parameter { default: scalar(default)?, choices })
}

impl Parameter {
    /// Reads a value from the command line; it has the type of the default.
    fn accept(&self, text: &str, name: &str) -> Result<Value, String> {
        let typed = match &self.default {
            Value::Text(_) => Some(Value::Text(text.to_owned())),
            Value::Bool(_) => text.parse().ok().map(Value::Bool),
            Value::Integer(_) => text.parse().ok().map(Value::Integer),
            _ => text.parse().ok().map(Value::Float),
        };
        let at = Position::default();
        let default = Tree::written(self.default.clone(), at);
        let value = typed.ok_or_else(|| {
            format!(
                "--set {name}={text}: the default is {}, and {text:?} is not of its type",
                default.describe()
            )
        })?;
        if !self.choices.is_empty() && !self.choices.contains(&value) {
            let choices: Vec<_> =
                self.choices.iter().map(|choice| Tree::written(choice.clone(), at).describe()).collect();
            return Err(format!("--set {name}={text}: the plan allows {}", choices.join(", ")));
        }
        Ok(value)
    }
}
