//! YAML 1.2 text to a [`Tree`], within limits that no plan comes near.

mod syntax;

use std::collections::HashMap;

use granit_parser::{Event, Marker, Options, Parser, ScalarStyle};

use self::syntax::syntax;
use super::diagnostic::{MOST, Slip};
use super::tree::{Entry, Number, Origin, Position, Tree, Value};

/// Lists and mappings inside each other.
const DEPTH: usize = 64;
/// Values of one document, those that aliases repeat included.
const VALUES: usize = 1_000_000;
/// Bytes of a text, or of a key, that count as one more value.
const BYTES_OF_VALUE: usize = 64;
/// Entries of a mapping that are compared with each other sooner than hashed.
const FEW: usize = 12;
/// Bytes of one file.
const BYTES: usize = 16 << 20;

/// Reads one document. What is wrong goes to `slips`; there is no tree where
/// the text is not YAML.
pub fn parse(text: &str, slips: &mut Vec<Slip>) -> Option<Tree> {
    if text.len() > BYTES {
        let message = format!("the file has {} MiB, a plan has at most {}", text.len() >> 20, BYTES >> 20);
        slips.push(Slip::new(Position::default(), message).help("split it with `include:` or `sweep:`"));
        return None;
    }
    if let Some(slip) = lone_carriage_return(text) {
        slips.push(slip);
        return None;
    }
    let mut options = Options::default();
    options.set_emit_comments(false);
    let mut builder = Builder { slips, open: Vec::new(), anchors: HashMap::new(), values: 0, root: None };
    for event in Parser::new_from_str_with_options(text, options) {
        let taken = match event {
            Ok((event, span)) => builder.take(event, position(span.start)),
            Err(error) => Err(syntax(&error, text)),
        };
        if let Err(slip) = taken {
            builder.slips.push(slip);
            return None;
        }
    }
    if builder.root.is_none() {
        builder.slips.push(
            Slip::new(Position { line: 1, column: 1 }, "the file is empty")
                .help("begin with `orchestrate: 1`; plans/README.md shows what follows"),
        );
    }
    builder.root
}

/// A line that ends as no editor ends one any more, and few count it as one.
fn lone_carriage_return(text: &str) -> Option<Slip> {
    let at = text.match_indices('\r').find(|(at, _)| !text[at + 1..].starts_with('\n'))?.0;
    let line = u32::try_from(text[..at].matches('\n').count() + 1).unwrap_or(u32::MAX);
    let slip =
        Slip::new(Position { line, column: 1 }, "this line holds a carriage return without a line feed");
    Some(slip.help("save the file with line feeds as the ends of its lines"))
}

fn position(marker: Marker) -> Position {
    let number = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
    Position { line: number(marker.line()), column: number(marker.col() + 1) }
}

struct Builder<'a> {
    slips: &'a mut Vec<Slip>,
    open: Vec<Open>,
    anchors: HashMap<usize, (Tree, usize)>,
    values: usize,
    root: Option<Tree>,
}

/// A list or mapping whose end has not come yet.
struct Open {
    what: Collection,
    at: Position,
    anchor: usize,
    values_before: usize,
}

enum Collection {
    List(Vec<Tree>),
    Map(Vec<Entry>, Option<(String, Position)>),
}

impl Builder<'_> {
    fn take(&mut self, event: Event<'_>, at: Position) -> Result<(), Slip> {
        match event {
            Event::DocumentStart(..) if self.root.is_some() => {
                Err(Slip::new(at, "a second document begins here").help("a file holds one document"))
            }
            Event::Scalar(text, style, anchor, tag) => {
                self.refuse_tag(tag.is_some(), at);
                let origin = match (tag, style) {
                    (Some(_), _) => Origin::Unknown,
                    (None, ScalarStyle::Plain) => Origin::Plain,
                    (None, _) => Origin::Quoted,
                };
                self.scalar(text.into_owned(), origin, anchor, at)
            }
            Event::SequenceStart(_, anchor, tag) => {
                self.refuse_tag(tag.is_some(), at);
                self.begin(Collection::List(Vec::new()), anchor, at)
            }
            Event::MappingStart(_, anchor, tag) => {
                self.refuse_tag(tag.is_some(), at);
                self.begin(Collection::Map(Vec::new(), None), anchor, at)
            }
            Event::SequenceEnd | Event::MappingEnd => self.end(),
            Event::Alias(anchor) => self.alias(anchor, at),
            _ => Ok(()),
        }
    }

    fn note(&mut self, slip: Slip) {
        if self.slips.len() <= MOST {
            self.slips.push(slip);
        }
    }

    fn refuse_tag(&mut self, tagged: bool, at: Position) {
        if tagged {
            self.note(
                Slip::new(at, "a YAML tag stands before this value; plans have none")
                    .help("remove it, and put text that begins with `!` in quotes"),
            );
        }
    }

    fn scalar(&mut self, text: String, origin: Origin, anchor: usize, at: Position) -> Result<(), Slip> {
        if let Some(Open { what: Collection::Map(_, key @ None), .. }) = self.open.last_mut() {
            let slip = (origin == Origin::Plain).then(|| misread_key(&text, at)).flatten();
            self.values += text.len() / BYTES_OF_VALUE;
            *key = Some((text, at));
            if let Some(slip) = slip {
                self.note(slip);
            }
            return Ok(());
        }
        let values = 1 + text.len() / BYTES_OF_VALUE;
        let value = if origin == Origin::Plain { plain(text) } else { Value::Text(text) };
        self.put(Tree { value, at, origin }, anchor, values)
    }

    fn begin(&mut self, what: Collection, anchor: usize, at: Position) -> Result<(), Slip> {
        if let Some(Open { what: Collection::Map(_, None), .. }) = self.open.last() {
            return Err(Slip::new(at, "a list or a mapping stands where a key is needed")
                .help("a key is text: put it in quotes"));
        }
        if self.open.len() == DEPTH {
            return Err(too_deep(at));
        }
        self.open.push(Open { what, at, anchor, values_before: self.values });
        Ok(())
    }

    fn end(&mut self) -> Result<(), Slip> {
        let Some(open) = self.open.pop() else { return Ok(()) };
        // Most lists and mappings have one or two values, and keep no more room.
        let value = match open.what {
            Collection::List(mut items) => {
                items.shrink_to_fit();
                Value::List(items)
            }
            Collection::Map(mut entries, _) => {
                entries.shrink_to_fit();
                Value::Map(self.without_duplicates(entries))
            }
        };
        let values = self.values - open.values_before;
        self.values -= values;
        self.put(Tree { value, at: open.at, origin: Origin::Plain }, open.anchor, values + 1)
    }

    /// Repeats what an anchor names; a few lines that stand for millions of
    /// values are refused before they are made.
    fn alias(&mut self, anchor: usize, at: Position) -> Result<(), Slip> {
        if let Some(Open { what: Collection::Map(_, None), .. }) = self.open.last() {
            return Err(Slip::new(at, "an alias stands where a key is needed").help("write the key out"));
        }
        let Some((tree, values)) = self.anchors.get(&anchor) else {
            return Err(Slip::new(at, "the alias names a value that it is part of, or none")
                .help("write the value out"));
        };
        if self.values + values > VALUES {
            return Err(too_many(at));
        }
        let (tree, values) = (tree.clone(), *values);
        self.put(Tree { at, ..tree }, 0, values)
    }

    fn put(&mut self, tree: Tree, anchor: usize, values: usize) -> Result<(), Slip> {
        self.values += values;
        if self.values > VALUES {
            return Err(too_many(tree.at));
        }
        if anchor != 0 {
            self.anchors.insert(anchor, (tree.clone(), values));
            // The copy counts as well.
            self.values += values;
        }
        match self.open.last_mut().map(|open| &mut open.what) {
            None => self.root = Some(tree),
            Some(Collection::List(items)) => items.push(tree),
            Some(Collection::Map(entries, key)) => {
                if let Some((key, at)) = key.take() {
                    entries.push(Entry { key, at, value: tree });
                }
            }
        }
        Ok(())
    }

    fn without_duplicates(&mut self, entries: Vec<Entry>) -> Vec<Entry> {
        let is_new = |(number, entry): (usize, &Entry)| {
            entries[..number].iter().all(|earlier| earlier.key != entry.key)
        };
        if entries.len() <= FEW && entries.iter().enumerate().all(is_new) {
            return entries;
        }
        let mut first: HashMap<&str, u32> = HashMap::with_capacity(entries.len());
        let mut is_first = Vec::with_capacity(entries.len());
        for entry in &entries {
            let line = first.insert(&entry.key, entry.at.line);
            is_first.push(line.is_none());
            if let Some(line) = line {
                let message = format!("the key `{}` is there twice", entry.key);
                let help = format!("the other is on line {line}; remove or rename one of them");
                self.note(Slip::new(entry.at, message).help(help));
            }
        }
        entries.into_iter().zip(is_first).filter_map(|(entry, is_first)| is_first.then_some(entry)).collect()
    }
}

/// A value written without quotes, by the core schema of YAML 1.2.
fn plain(text: String) -> Value {
    match text.as_str() {
        "" | "~" | "null" | "Null" | "NULL" => Value::Null,
        "true" | "True" | "TRUE" => Value::Bool(true),
        "false" | "False" | "FALSE" => Value::Bool(false),
        _ => {
            let begins_like_a_number = text.starts_with(|c: char| c.is_ascii_digit() || "+-.".contains(c));
            let number = if begins_like_a_number { Number::parse(&text) } else { None };
            number.map_or(Value::Text(text), Value::Number)
        }
    }
}

/// What text without quotes is to a reader of YAML 1.1, if it is something
/// else there.
#[must_use]
pub fn misread(text: &str) -> Option<&'static str> {
    match text {
        "yes" | "Yes" | "YES" | "on" | "On" | "ON" => return Some("the boolean true"),
        "no" | "No" | "NO" | "off" | "Off" | "OFF" => return Some("the boolean false"),
        _ => {}
    }
    let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
    if !unsigned.starts_with(|c: char| c.is_ascii_digit()) {
        return None;
    }
    let only = |more: &str| unsigned.chars().all(|c| c.is_ascii_digit() || more.contains(c));
    if unsigned.contains(':') && only(":.") {
        return Some("a number in base 60");
    }
    (unsigned.contains('_') && only("_.")).then_some("a number")
}

/// A key that is not text to every reader of YAML.
fn misread_key(key: &str, at: Position) -> Option<Slip> {
    let is = match plain(key.to_owned()) {
        Value::Text(text) => misread(&text)?,
        Value::Null => "nothing",
        Value::Bool(_) => "a boolean",
        _ => "a number",
    };
    Some(
        Slip::new(at, format!("the key `{key}` is {is} to some readers of YAML"))
            .help(format!("put it in quotes, \"{key}\", or take another name")),
    )
}

fn too_deep(at: Position) -> Slip {
    Slip::new(at, "lists and mappings are nested too deep here")
        .help(format!("a plan has at most {DEPTH} levels; look for a bracket that is not closed"))
}

fn too_many(at: Position) -> Slip {
    Slip::new(at, format!("the file stands for more than {VALUES} values"))
        .help("an alias that repeats aliases grows fast: write the values out, or use `sweep:`")
}

#[cfg(test)]
mod tests;
