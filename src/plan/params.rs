//! Parameters: typed by their defaults or declared, given on the command line
//! or by the file that includes a fragment.

use std::collections::{BTreeSet, HashMap};

use indexmap::IndexMap;

use super::diagnostic::{Slip, nearest};
use super::tree::{Entry, Number, Origin, Position, Tree, Value};
use super::yaml::misread;
use crate::value::reference::escaped;

/// The parameters of one file.
#[derive(Debug, Default)]
pub(super) struct Params {
    /// Values by name, texts in the syntax of the file.
    pub values: IndexMap<String, Value>,
    /// Where each is declared.
    pub places: IndexMap<String, Position>,
    /// Parameters that are wrong or have no value.
    pub broken: BTreeSet<String>,
    /// What is wrong with values from outside of the file: the parameter's
    /// name and the mistake, whose place is where the value was to be given.
    pub refused: Vec<(String, Slip)>,
}

impl Params {
    /// Whether a mistake in the parameter is known.
    pub fn is_broken(&self, name: &str) -> bool {
        self.broken.contains(name)
    }

    fn refuse(&mut self, name: &str, slip: Slip) {
        self.broken.insert(name.to_owned());
        self.refused.push((name.to_owned(), slip));
    }
}

/// A value for a parameter from outside of its file.
pub(super) struct GivenParam {
    /// The parameter's name.
    pub name: String,
    /// Its value; text may stand for any scalar.
    pub value: Value,
    /// How it was given, for a message: `--set rows=2`.
    pub how: String,
    /// Where it was given; nowhere on the command line.
    pub at: Position,
}

impl GivenParam {
    /// A `--set name=text`.
    pub fn set(name: &str, text: &str, how: String) -> Self {
        Self {
            name: name.to_owned(),
            value: Value::Text(escaped(text).into_owned()),
            how,
            at: Position::default(),
        }
    }
}

/// Reads the `params:` of a file and takes what is given for them. A file
/// looked at `alone` gets stand-ins for what another file has to give.
pub(super) fn resolve(document: &Tree, given: &[GivenParam], alone: bool, slips: &mut Vec<Slip>) -> Params {
    let mut params = Params::default();
    let Some(declared) = document.get("params") else { return params };
    let given: HashMap<&str, &GivenParam> = given.iter().map(|given| (given.name.as_str(), given)).collect();
    for entry in declared.entries() {
        params.places.insert(entry.key.clone(), entry.at);
        let Some(parameter) = parameter(entry, slips) else {
            params.broken.insert(entry.key.clone());
            params.values.insert(entry.key.clone(), Value::Text(String::new()));
            continue;
        };
        let value = match given.get(entry.key.as_str()) {
            Some(given) => parameter.accept(given).unwrap_or_else(|slip| {
                params.refuse(&entry.key, slip);
                given.value.clone()
            }),
            None if alone && parameter.default.is_none() => parameter.kind.stand_in(),
            None => parameter.default.clone().unwrap_or_else(|| {
                let message = format!("the parameter `{}` has no value and no default", entry.key);
                params.refuse(&entry.key, Slip::new(Position::default(), message));
                Value::Text(String::new())
            }),
        };
        params.values.insert(entry.key.clone(), value);
    }
    params
}

/// The types a parameter can have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Type {
    Text,
    Integer,
    Number,
    Boolean,
}

impl Type {
    const ALL: [(&'static str, Self); 4] = [
        ("text", Self::Text),
        ("integer", Self::Integer),
        ("number", Self::Number),
        ("boolean", Self::Boolean),
    ];

    fn of(value: &Value) -> Self {
        match value {
            Value::Bool(_) => Self::Boolean,
            Value::Number(number) if number.integer().is_some() => Self::Integer,
            Value::Number(_) => Self::Number,
            _ => Self::Text,
        }
    }

    fn stand_in(self) -> Value {
        let number = || Number::parse("1").map_or(Value::Null, Value::Number);
        match self {
            Self::Text => Value::Text("text".to_owned()),
            Self::Integer | Self::Number => number(),
            Self::Boolean => Value::Bool(true),
        }
    }

    fn word(self) -> &'static str {
        Self::ALL.iter().find(|(_, known)| *known == self).map_or("text", |(word, _)| word)
    }

    /// The value as this type; text stands for what it spells. Text that is
    /// a reference is typed by what it stands for later.
    fn read(self, value: &Value) -> Option<Value> {
        match (self, value) {
            (_, Value::Text(text)) if is_reference(text) => Some(value.clone()),
            (Self::Text, value) => value.as_text().map(Value::Text),
            (Self::Boolean, Value::Bool(_)) | (Self::Number, Value::Number(_)) => Some(value.clone()),
            (Self::Boolean, Value::Text(text)) => text.parse().ok().map(Value::Bool),
            (Self::Integer, Value::Number(number)) => number.integer().map(|_| value.clone()),
            (Self::Integer, Value::Text(text)) => {
                Number::parse(text).filter(|number| number.integer().is_some()).map(Value::Number)
            }
            (Self::Number, Value::Text(text)) => Number::parse(text).map(Value::Number),
            _ => None,
        }
    }
}

fn is_reference(text: &str) -> bool {
    text.starts_with("${")
}

/// A parameter as declared.
struct Parameter {
    kind: Type,
    default: Option<Value>,
    choices: Vec<Value>,
}

impl Parameter {
    fn accept(&self, given: &GivenParam) -> Result<Value, Slip> {
        let how = &given.how;
        let at = given.at;
        let value = self.kind.read(&given.value).ok_or_else(|| {
            let message = format!(
                "{how}: the parameter takes {}, and {} is none",
                self.takes(),
                given.value.describe()
            );
            Slip::new(at, message).help(format!("give {}", self.takes()))
        })?;
        if self.choices.is_empty() || self.choices.contains(&value) {
            return Ok(value);
        }
        let choices: Vec<_> = self.choices.iter().filter_map(Value::as_text).collect();
        let message = format!("{how}: {} is not one of its choices", value.describe());
        Err(Slip::new(at, message).help(format!("choices: {}", choices.join(", "))))
    }

    fn takes(&self) -> &'static str {
        match self.kind {
            Type::Text => "text",
            Type::Integer => "a whole number",
            Type::Number => "a number",
            Type::Boolean => "true or false",
        }
    }
}

/// Reads a declaration. Nothing where it is wrong.
fn parameter(entry: &Entry, slips: &mut Vec<Slip>) -> Option<Parameter> {
    let before = slips.len();
    let name = &entry.key;
    let tree = &entry.value;
    let Value::Map(settings) = &tree.value else {
        let default = scalar(tree, name, slips)?;
        return Some(Parameter { kind: Type::of(&default), default: Some(default), choices: Vec::new() });
    };
    let known = ["default", "type", "choices", "description"];
    for unknown in settings.iter().filter(|setting| !known.contains(&setting.key.as_str())) {
        let help = match nearest(&unknown.key, known) {
            Some(near) => format!("did you mean `{near}`?"),
            None => format!("known here: {}", known.join(", ")),
        };
        slips.push(Slip::new(unknown.at, format!("unknown key `{}`", unknown.key)).help(help));
    }
    let default = tree.get("default").and_then(|default| scalar(default, name, slips));
    let stated = tree.get("type").and_then(|stated| stated_type(stated, slips));
    let Some(kind) = stated.or_else(|| default.as_ref().map(Type::of)) else {
        if slips.len() == before {
            let message = format!("the parameter `{name}` has neither a default nor a type");
            slips.push(Slip::new(entry.at, message).help("add `default:`, which gives the type, or `type:`"));
        }
        return None;
    };
    let mut typed = |tree: &Tree, what: &str| {
        let value = scalar(tree, name, slips)?;
        let read =
            kind.read(&value).filter(|read| kind == Type::Number || Type::of(read) == Type::of(&value));
        if read.is_none() {
            let message = format!(
                "the {what} of the parameter `{name}` is {}, its type is {}",
                value.describe(),
                kind.word()
            );
            slips.push(Slip::new(tree.at, message).help("make them agree: change the value, or the type"));
        }
        read
    };
    let default = tree.get("default").and_then(|default| typed(default, "default"));
    let choices: Vec<Value> = tree
        .get("choices")
        .map(Tree::items)
        .unwrap_or_default()
        .iter()
        .filter_map(|choice| typed(choice, "choice"))
        .collect();
    if let Some(none) = tree.get("choices").filter(|choices| choices.items().is_empty()) {
        let message = format!("the choices of the parameter `{name}` are {}", none.value.describe());
        slips.push(Slip::new(none.at, message).help("write them as a list: [VALUE, …]"));
    }
    let outside = default.as_ref().filter(|default| !choices.is_empty() && !choices.contains(default));
    if let Some(outside) = outside {
        let message = format!(
            "the default of the parameter `{name}`, {}, is not one of its choices",
            outside.describe()
        );
        slips.push(Slip::new(entry.at, message).help("add it to `choices:`, or take another default"));
    }
    (slips.len() == before).then_some(Parameter { kind, default, choices })
}

fn stated_type(tree: &Tree, slips: &mut Vec<Slip>) -> Option<Type> {
    let found = Type::ALL.iter().find(|(word, _)| tree.text() == Some(word)).map(|(_, kind)| *kind);
    if found.is_none() {
        let words: Vec<_> = Type::ALL.iter().map(|(word, _)| *word).collect();
        let mut slip = Slip::new(tree.at, format!("{} is no type of a parameter", tree.value.describe()));
        slip.help = Some(format!("types: {}", words.join(", ")));
        slips.push(slip);
    }
    found
}

/// A value that is text, a number or a boolean to every reader of YAML.
pub(super) fn scalar(tree: &Tree, name: &str, slips: &mut Vec<Slip>) -> Option<Value> {
    let slip = match &tree.value {
        Value::List(_) | Value::Map(_) | Value::Null => Slip::new(
            tree.at,
            format!("the value of `{name}` is {}; it is text, a number or a boolean", tree.value.describe()),
        )
        .help("write one value"),
        Value::Text(text) if tree.origin == Origin::Plain && misread(text).is_some() => Slip::new(
            tree.at,
            format!(
                "`{text}` without quotes is {} to some readers of YAML",
                misread(text).unwrap_or_default()
            ),
        )
        .help(format!("write \"{text}\" if text is meant")),
        Value::Number(number) if tree.origin == Origin::Plain && number.has_leading_zero() => {
            let plain = number.integer().unwrap_or_default();
            Slip::new(
                tree.at,
                format!("`{number}` is {plain} to YAML 1.2 and an octal number to older readers"),
            )
            .help(format!("write {plain}, or \"{number}\" if text is meant"))
        }
        value => return Some(value.clone()),
    };
    slips.push(slip);
    None
}
