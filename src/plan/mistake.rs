//! Mistakes while typed values are read from a tree, and what is left out
//! because of them so that the others are found as well.

use std::cell::RefCell;
use std::collections::HashSet;
use std::fmt;

use serde::de::{self, Unexpected};

use super::diagnostic::{Slip, nearest};
use super::tree::{Origin, Position, Tree};

/// What is wrong so far, and the values that are left out because of it, by
/// their addresses in the tree.
#[derive(Default)]
pub(super) struct Faults {
    pub slips: RefCell<Vec<Slip>>,
    left_out: RefCell<HashSet<*const Tree>>,
}

impl Faults {
    /// Leaves a value out of the next attempt, for a mistake inside it.
    pub fn leave_out(&self, tree: &Tree, mistake: Mistake, at: Position) -> Mistake {
        if mistake.left_out {
            return mistake;
        }
        if !mistake.follows && tree.origin != Origin::Unknown {
            self.slips.borrow_mut().push(mistake.into_slip(at));
        }
        self.left_out.borrow_mut().insert(std::ptr::from_ref(tree));
        Mistake { left_out: true, ..Mistake::new("") }
    }

    pub fn is_left_out(&self, tree: &Tree) -> bool {
        self.left_out.borrow().contains(&std::ptr::from_ref(tree))
    }
}

/// A mistake whose place is filled in by the innermost value that knows it.
#[derive(Debug, Default)]
pub(super) struct Mistake {
    message: String,
    help: Option<String>,
    at: Option<Position>,
    /// The key that is missing, if that is the mistake.
    pub missing: Option<&'static str>,
    /// Nothing but the consequence of a mistake that is known.
    pub follows: bool,
    /// It is known, and what it is about is left out from now on.
    pub left_out: bool,
}

impl Mistake {
    pub fn new(message: impl Into<String>) -> Self {
        Self { message: message.into(), ..Self::default() }
    }

    pub fn help(self, help: impl Into<String>) -> Self {
        Self { help: Some(help.into()), ..self }
    }

    pub fn at(mut self, at: Position) -> Self {
        self.at.get_or_insert(at);
        self
    }

    pub fn into_slip(self, fallback: Position) -> Slip {
        let slip = Slip::new(self.at.unwrap_or(fallback), self.message);
        match self.help {
            Some(help) => slip.help(help),
            None => slip,
        }
    }
}

impl fmt::Display for Mistake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Mistake {}

fn unknown(what: &str, word: &str, expected: &[&str]) -> Mistake {
    let known = expected.join(", ");
    let help = match nearest(word, expected.iter().copied()) {
        Some(near) => format!("did you mean `{near}`? known here: {known}"),
        None if known.is_empty() => "remove it; nothing can be set here".to_owned(),
        None => format!("known here: {known}"),
    };
    Mistake::new(format!("unknown {what} `{word}`")).help(help)
}

impl de::Error for Mistake {
    /// The way out may follow the mistake behind a semicolon.
    fn custom<T: fmt::Display>(message: T) -> Self {
        let message = message.to_string();
        match message.split_once("; ") {
            Some((message, help)) => Self::new(message).help(help),
            None => Self::new(message),
        }
    }

    fn invalid_type(found: Unexpected, expected: &dyn de::Expected) -> Self {
        Self::new(format!("found {}, expected {expected}", in_words(&found)))
    }

    fn invalid_value(found: Unexpected, expected: &dyn de::Expected) -> Self {
        Self::new(format!("found {}, expected {expected}", in_words(&found)))
    }

    fn invalid_length(length: usize, expected: &dyn de::Expected) -> Self {
        Self::new(format!("found {length} values, expected {expected}"))
    }

    fn unknown_field(field: &str, expected: &'static [&'static str]) -> Self {
        unknown("key", field, expected)
    }

    fn unknown_variant(variant: &str, expected: &'static [&'static str]) -> Self {
        unknown("word", variant, expected)
    }

    fn missing_field(field: &'static str) -> Self {
        let mistake = Self::new(format!("the key `{field}` is missing")).help(format!("add `{field}:` here"));
        Self { missing: Some(field), ..mistake }
    }
}

fn in_words(found: &Unexpected) -> String {
    match found {
        Unexpected::Bool(value) => format!("the boolean {value}"),
        Unexpected::Unsigned(number) => format!("the number {number}"),
        Unexpected::Signed(number) => format!("the number {number}"),
        Unexpected::Float(number) => format!("the number {number}"),
        Unexpected::Str(text) => format!("the text {text:?}"),
        Unexpected::Seq => "a list".to_owned(),
        Unexpected::Map => "a mapping".to_owned(),
        _ => "something else".to_owned(),
    }
}
