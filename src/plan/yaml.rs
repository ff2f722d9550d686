//! YAML 1.2 text to a [`Tree`], within limits that no plan comes near.

use std::collections::HashMap;

use granit_parser::{ErrorKind, Event, Marker, Options, Parser, ScalarStyle, ScanError};

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

/// What is wrong with text that is not YAML, in the words of people who write
/// plans.
fn syntax(error: &ScanError, text: &str) -> Slip {
    use ErrorKind as E;
    let at = position(*error.marker());
    let line = text.lines().nth(at.line.saturating_sub(1) as usize).unwrap_or_default();
    let indent = line
        .char_indices()
        .nth(at.column.saturating_sub(1) as usize)
        .map_or(line.len(), |(indent, _)| indent);
    if let Some(slip) = bare_reference(line, at) {
        return slip;
    }
    let (message, help) = match error.kind() {
        E::RecursionLimitExceeded => return too_deep(at),
        E::TabInBlockIndentation
        | E::TabInIndentation
        | E::TabNotAllowed
        | E::TabInPlainScalar
        | E::TabAtBlockScalarStart => ("a tab stands in or before this line", "indent with spaces"),
        E::UnclosedQuotedScalar | E::DocumentIndicatorInQuotedScalar => {
            ("the quotes that open here are not closed", "add the closing quote")
        }
        E::InvalidTrailingSingleQuotedScalar | E::InvalidTrailingDoubleQuotedScalar => (
            "something follows the closing quote",
            "write '' for a quote inside single quotes, \\\" inside double quotes",
        ),
        E::UnexpectedEofImplicitFlowMapping => {
            ("a value is missing between two commas", "remove one of the commas")
        }
        E::UnclosedFlowCollection { .. } | E::UnexpectedEofFlowSequence | E::UnexpectedEofFlowMapping => {
            ("the bracket or brace that opens here is not closed", "close it with `]` or `}`")
        }
        E::ExpectedFlowSequenceSeparator | E::ExpectedFlowMappingSeparator | E::InvalidColonPlacement => (
            "a comma or a closing bracket is missing before this",
            "separate values with `,`, close the list with `]` or the mapping with `}`",
        ),
        E::MismatchedFlowCollectionEnd { .. } | E::MisplacedFlowCollectionEnd => {
            ("this closing bracket has no opening one of its kind", "`[` ends with `]`, `{` with `}`")
        }
        E::MappingValueNotAllowed | E::InvalidMappingValueWhitespace => (
            "a `key: value` cannot begin here",
            "put text that holds `: ` in quotes, and check the indentation",
        ),
        E::SimpleKeyExpected | E::ExpectedBlockMappingKey if !line[..indent].trim().is_empty() => {
            ("the value before this has ended", "put the whole text in quotes, or begin a new line")
        }
        E::SimpleKeyExpected | E::ExpectedBlockMappingKey if holds_key(line) => {
            ("the indentation does not fit here", "align the line with those it belongs to")
        }
        E::SimpleKeyExpected | E::InvalidSimpleKey | E::ExpectedBlockMappingKey | E::MappingKeyNotAllowed => {
            (
                "a `key: value` is expected here",
                "a `:` and a space follow a key, and items of a list begin with `- `",
            )
        }
        E::InvalidIndentation
        | E::ExpectedDocumentStart
        | E::ExpectedBlockSequenceEntry
        | E::BlockSequenceEntryNotAllowed
        | E::InvalidBlockEntryWhitespace
        | E::InvalidBlockScalarIndent
        | E::InvalidQuotedScalarIndent
        | E::InvalidFlowScalarIndent => {
            ("the indentation does not fit here", "align the line with those it belongs to")
        }
        E::InvalidBlockScalarHeader | E::ZeroBlockScalarIndent => (
            "text stands on the line of its `|` or `>`",
            "begin it on the next line, indented, or put it in quotes",
        ),
        E::BomInsideDocument => ("an invisible character, a byte order mark, stands here", "delete it"),
        E::BlockEntryInFlowCollection => {
            ("a `- ` item stands between brackets", "separate items with `,` there")
        }
        E::MissingAnchorOrAliasName
        | E::ExpectedTagBang
        | E::UndeclaredTagHandle
        | E::InvalidTagTerminator
        | E::MissingTagUri => (
            "`&`, `*` and `!` begin something else than text",
            "put text that begins with one of them in quotes",
        ),
        E::UnknownQuotedScalarEscape | E::InvalidQuotedScalarHexEscape | E::InvalidUnicodeEscape => {
            ("a backslash in double quotes begins an unknown escape", "double it, or use single quotes")
        }
        E::UnknownAnchor => (
            "`*` begins an alias, and no value before it has this name",
            "put text that begins with `*` in quotes, or write the value out",
        ),
        E::UnexpectedCharacter { .. } => {
            ("a character stands here that cannot begin a value", "put the value in quotes")
        }
        _ => ("this is not YAML", "check the quotes, brackets and indentation around this place"),
    };
    Slip::new(at, message).help(help)
}

/// Whether a line is one `key: value`.
fn holds_key(line: &str) -> bool {
    line.contains(": ") || line.trim_end().ends_with(':')
}

/// A reference in a list or mapping in brackets, where its own braces mean
/// something else.
fn bare_reference(line: &str, at: Position) -> Option<Slip> {
    let before = at.column.checked_sub(2)?;
    let reference: String = line.chars().skip(before as usize).take_while(|c| *c != '}').collect();
    reference.starts_with("${").then(|| {
        let place = Position { column: at.column - 1, ..at };
        Slip::new(place, "a reference between brackets or braces has to be in quotes")
            .help(format!("write \"{reference}}}\""))
    })
}

#[cfg(test)]
mod tests {
    use std::fmt::Write as _;

    use super::*;

    fn read(text: &str) -> Tree {
        let mut slips = Vec::new();
        let tree = parse(text, &mut slips);
        assert_eq!(slips, []);
        tree.unwrap()
    }

    fn wrong(text: &str) -> Slip {
        let mut slips = Vec::new();
        parse(text, &mut slips);
        slips.into_iter().next().unwrap()
    }

    #[test]
    fn every_value_knows_its_line_and_column() {
        let tree = read("a: 1\nb:\n  - x\n  - {c: true}\n");
        assert_eq!(tree.get("a").unwrap().at, Position { line: 1, column: 4 });
        let items = tree.get("b").unwrap().items();
        assert_eq!(items[0].at, Position { line: 3, column: 5 });
        assert_eq!(items[1].entries()[0].at, Position { line: 4, column: 6 });
        assert_eq!(items[1].get("c").unwrap().value, Value::Bool(true));
    }

    #[test]
    fn every_duplicate_key_is_refused_with_the_line_of_the_first() {
        let mut slips = Vec::new();
        let tree = parse("a: 1\nb: 2\na: 3\nb: 4\n", &mut slips).unwrap();
        assert_eq!(tree.entries().len(), 2);
        assert_eq!(slips.len(), 2);
        assert_eq!(slips[0].at.line, 3);
        assert!(slips[0].help.as_ref().unwrap().contains("line 1"), "{slips:?}");
    }

    #[test]
    fn words_of_yaml_1_1_stay_text_and_are_known_as_such() {
        let tree = read("[no, on, yes, 1:30, 1_000]");
        for item in tree.items() {
            assert!(misread(item.text().unwrap()).is_some(), "{item:?}");
        }
        for text in ["note", "7a", "10.0.0.1:80x", "a:1", "llama-3"] {
            assert_eq!(misread(text), None, "{text}");
        }
        assert!(wrong("on: 1\n").message.contains("the boolean true"));
    }

    #[test]
    fn an_alias_repeats_its_value_and_a_bomb_is_refused() {
        let tree = read("a: &x [1, 2]\nb: *x\n");
        assert_eq!(tree.get("a").unwrap().items().len(), 2);
        assert_eq!(tree.get("b").unwrap().items().len(), 2);
        let mut bomb = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n".to_owned();
        for n in 1..12 {
            let repeated = vec![format!("*a{}", n - 1); 10].join(", ");
            writeln!(bomb, "a{n}: &a{n} [{repeated}]").unwrap();
        }
        assert!(wrong(&bomb).message.contains("more than 1000000 values"));
    }

    #[test]
    fn a_carriage_return_ends_a_line_only_before_a_line_feed() {
        assert_eq!(read("a: 1\r\nb: 2\r\n").get("b").unwrap().at, Position { line: 2, column: 4 });
        for text in ["a: 1\rb: 2\r", "a:\n  \r\r\rb", "a: 1\r", "\r\r\n"] {
            let slip = wrong(text);
            assert!(slip.message.contains("carriage return"), "{slip:?}");
            assert!((1..=text.split('\n').count()).contains(&(slip.at.line as usize)), "{slip:?}");
        }
    }

    #[test]
    fn long_texts_that_aliases_repeat_count_by_their_length() {
        let long = "x".repeat(1 << 20);
        let repeated = "*a, ".repeat(1000);
        assert!(wrong(&format!("a: &a {long}\nb: [{repeated}]\n")).message.contains("values"));
        assert!(wrong(&format!("a: &a {{? \"{long}\" : 1}}\nb: [{repeated}]\n")).message.contains("values"));
    }

    #[test]
    fn nesting_has_an_end() {
        for text in ["[".repeat(100_000), "- ".repeat(100_000), "{a: ".repeat(100_000), "? ".repeat(100_000)]
        {
            let message = wrong(&text).message;
            assert!(
                message.contains("nested too deep") || message.contains("where a key is needed"),
                "{message}"
            );
        }
        read(&("[".repeat(DEPTH) + &"]".repeat(DEPTH)));
    }

    #[test]
    fn what_is_not_yaml_is_said_where() {
        let at = |text: &str| (wrong(text).at.line, wrong(text).message);
        assert_eq!(at("a:\n\tb: 2\n"), (2, "a tab stands in or before this line".to_owned()));
        assert!(at("a: 'x\n").1.contains("quotes"));
        assert!(
            at("a: [1, 2\nb: 3\n").1.contains("comma or a closing bracket"),
            "{:?}",
            at("a: [1, 2\nb: 3\n")
        );
        assert!(at("a: b: c\n").1.contains("`key: value`"));
        assert!(at("a: 1\n---\nb: 1\n").1.contains("second document"));
        assert!(at("").1.contains("empty"));
    }
}
