//! The file formats that corpora come in: bytes to rows.

use std::collections::HashMap;
use std::fmt;

use schemars::JsonSchema;
use serde::de::{self, MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;

use super::error::{CorpusError, Problem};
use super::row::Row;
use crate::value::Digest;

/// SPEED-Bench's stand-in for text that its licence keeps out of the file.
pub const PLACEHOLDER: &str = "FULL BENCHMARK DATA SHOULD BE FETCHED FROM THE SOURCE USING SPECDEC_BENCH";

/// Entropy tiers that SPEED-Bench's throughput splits use as categories.
const TIERS: [&str; 3] = ["low_entropy", "mixed", "high_entropy"];
/// Category of a row in a format that needs none.
const NO_CATEGORY: &str = "uncategorized";

/// File format of a corpus; each is one JSON object a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Format {
    /// `question_id`, `category`, `turns` (texts) and perhaps `reference`,
    /// as in github.com/hemingkx/Spec-Bench; MT-Bench files are the same.
    SpecBench,
    /// `question_id`, `category`, `messages` (`role`, `content`; the user's
    /// only) and perhaps `sub_category`, as in Hugging Face nvidia/SPEED-Bench.
    SpeedBench,
    /// `messages` as sent to a chat endpoint, and perhaps `id` and
    /// `category`. The user's messages are the turns; the assistant's are
    /// left out, because the served model writes its own.
    OpenaiMessages,
    /// One of `prompt`, `text` or `turns`, and perhaps `id` and `category`.
    Jsonl,
}

/// Reads a whole corpus file; blank lines are skipped, texts are kept byte for
/// byte. A row without an id is named by the digest of its turns.
pub fn parse(format: Format, bytes: &[u8]) -> Result<Vec<Row>, CorpusError> {
    let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
    let mut rows = Vec::new();
    let mut lines = Vec::new();
    for (index, line) in bytes.split(|byte| *byte == b'\n').enumerate() {
        if line.trim_ascii().is_empty() {
            continue;
        }
        rows.push(parse_line(format, line).map_err(|problem| problem.on_line(index + 1))?);
        lines.push(index + 1);
    }
    refuse_duplicates(&rows, &lines)?;
    refuse_placeholders(&rows, &lines)?;
    if rows.is_empty() {
        let (reason, help) =
            ("the corpus file holds no row".to_owned(), "name a file with one JSON object a line".to_owned());
        return Err(CorpusError { line: None, column: None, row: None, reason, help });
    }
    Ok(rows)
}

fn refuse_duplicates(rows: &[Row], lines: &[usize]) -> Result<(), CorpusError> {
    let mut first = HashMap::new();
    for (row, line) in rows.iter().zip(lines) {
        if let Some(earlier) = first.insert(&row.id, line) {
            let reason = format!("the id was already used on line {earlier}");
            return Err(Problem::new(reason, "give every row an id of its own")
                .in_row(&row.id)
                .on_line(*line));
        }
    }
    Ok(())
}

fn refuse_placeholders(rows: &[Row], lines: &[usize]) -> Result<(), CorpusError> {
    let placeholders: Vec<_> = rows
        .iter()
        .zip(lines)
        .filter(|(row, _)| row.turns.iter().any(|turn| turn.contains(PLACEHOLDER)))
        .collect();
    let Some((row, line)) = placeholders.first() else {
        return Ok(());
    };
    let some: Vec<_> = placeholders.iter().take(5).map(|(row, _)| row.id.as_str()).collect();
    let more = if placeholders.len() > some.len() { ", …" } else { "" };
    let reason = format!(
        "{} of {} rows still hold SPEED-Bench's placeholder instead of text: {}{more}",
        placeholders.len(),
        rows.len(),
        some.join(", ")
    );
    let help = "resolve the data set with NVIDIA's SPECDEC_BENCH tool and name the file that it wrote";
    Err(Problem::new(reason, help).in_row(&row.id).on_line(**line))
}

fn parse_line(format: Format, line: &[u8]) -> Result<Row, Problem> {
    let text = std::str::from_utf8(line).map_err(|error| {
        Problem::new("the line is not valid UTF-8", "store the file as UTF-8")
            .at_column(error.valid_up_to() + 1)
    })?;
    let object: Object = serde_json::from_str(text).map_err(|error| not_an_object(&error))?;
    let id = object.id(format)?;
    row(format, &object, id.clone()).map_err(|problem| match &id {
        Some(id) => problem.in_row(id),
        None => problem,
    })
}

fn not_an_object(error: &serde_json::Error) -> Problem {
    let whole = error.to_string();
    let reason = match whole.split(" at line ").next() {
        _ if error.is_eof() => "the line ends in the middle of its JSON",
        Some(reason) if !reason.starts_with("invalid type") => reason,
        _ => "the line is no JSON object",
    };
    let problem = Problem::new(reason, "write one JSON object a line");
    if error.column() == 0 { problem } else { problem.at_column(error.column()) }
}

fn row(format: Format, object: &Object, id: Option<String>) -> Result<Row, Problem> {
    let turns = match format {
        Format::SpecBench => texts(object.required("turns")?, "turns")?,
        Format::SpeedBench => messages(object, Format::SpeedBench)?,
        Format::OpenaiMessages => messages(object, Format::OpenaiMessages)?,
        Format::Jsonl => prompt(object)?,
    };
    if turns.is_empty() {
        return Err(Problem::new("the row has no turn", "give it at least one text to send"));
    }
    if let Some(at) = turns.iter().position(|turn| turn.trim().is_empty()) {
        return Err(Problem::new(format!("turn {} is empty", at + 1), "give it a text, or take the row out"));
    }
    let category = object.category(format)?;
    Ok(Row {
        id: id.unwrap_or_else(|| id_of(&turns)),
        tier: object.tier(format, &category)?,
        category,
        turns,
    })
}

/// 32 hexadecimal digits that name a row by its turns.
fn id_of(turns: &[String]) -> String {
    let mut id = Digest::of_json(&Value::from(turns)).to_string();
    id.truncate(32);
    id
}

fn prompt(object: &Object) -> Result<Vec<String>, Problem> {
    const KEYS: [&str; 3] = ["prompt", "text", "turns"];
    let mut present = KEYS.iter().filter_map(|key| object.get(key).map(|value| (*key, value)));
    match (present.next(), present.next()) {
        (None, _) => {
            Err(Problem::new("the row has none of prompt, text and turns", "name its text `prompt`"))
        }
        (Some((one, _)), Some((other, _))) => Err(Problem::new(
            format!("the row has both {one} and {other}"),
            "keep the one that is to be sent",
        )),
        (Some(("turns", value)), None) => texts(value, "turns"),
        (Some((key, value)), None) => text(value, key).map(|text| vec![text]),
    }
}

fn messages(object: &Object, format: Format) -> Result<Vec<String>, Problem> {
    let mut turns = Vec::new();
    for (at, message) in array(object.required("messages")?, "messages")?.iter().enumerate() {
        let place = |field: &str| format!("messages[{at}].{field}");
        let field = |name: &str| message.get(name).ok_or_else(|| missing(&place(name)));
        let content = text(field("content")?, &place("content"));
        match (text(field("role")?, &place("role"))?.as_str(), format) {
            ("user", _) => turns.push(content?),
            ("assistant", Format::OpenaiMessages) => {}
            (role, _) => {
                let reason =
                    format!("{} is {role:?}, and only a user's messages can be sent as turns", place("role"));
                let help = "put its text into the user's message, or take the row out";
                return Err(Problem::new(reason, help));
            }
        }
    }
    Ok(turns)
}

fn texts(value: &Value, name: &str) -> Result<Vec<String>, Problem> {
    array(value, name)?.iter().enumerate().map(|(at, item)| text(item, &format!("{name}[{at}]"))).collect()
}

fn array<'a>(value: &'a Value, name: &str) -> Result<&'a [Value], Problem> {
    value.as_array().map(Vec::as_slice).ok_or_else(|| wrong(name, "an array", value))
}

fn text(value: &Value, name: &str) -> Result<String, Problem> {
    value.as_str().map(str::to_owned).ok_or_else(|| wrong(name, "a text", value))
}

fn missing(name: &str) -> Problem {
    Problem::new(format!("{name} is missing"), "add it, or choose the format that the file has")
}

fn wrong(name: &str, expected: &str, found: &Value) -> Problem {
    let found = match found {
        Value::Null => "null",
        Value::Bool(_) => "true or false",
        Value::Number(_) => "a number",
        Value::String(_) => "a text",
        Value::Array(_) => "an array",
        Value::Object(_) => "an object",
    };
    Problem::new(
        format!("{name} is {found}, expected {expected}"),
        "correct the row, or choose the format that the file has",
    )
}

/// A JSON object in which no key is there twice.
struct Object(HashMap<String, Value>);

impl Object {
    fn get(&self, key: &str) -> Option<&Value> {
        self.0.get(key).filter(|value| !value.is_null())
    }

    fn required(&self, key: &str) -> Result<&Value, Problem> {
        self.get(key).ok_or_else(|| missing(key))
    }

    fn id(&self, format: Format) -> Result<Option<String>, Problem> {
        let (key, value) = match format {
            Format::SpecBench | Format::SpeedBench => ("question_id", Some(self.required("question_id")?)),
            Format::OpenaiMessages | Format::Jsonl => ("id", self.get("id")),
        };
        match value {
            None => Ok(None),
            Some(Value::Number(number)) if !number.is_f64() => Ok(Some(number.to_string())),
            Some(Value::String(id)) if !id.trim().is_empty() => Ok(Some(id.clone())),
            Some(Value::String(_)) => {
                Err(Problem::new(format!("{key} is empty"), "give every row an id of its own"))
            }
            Some(other) => Err(wrong(key, "a text or a whole number", other)),
        }
    }

    fn category(&self, format: Format) -> Result<String, Problem> {
        let value = match format {
            Format::SpecBench | Format::SpeedBench => Some(self.required("category")?),
            Format::OpenaiMessages | Format::Jsonl => self.get("category"),
        };
        match value.map(|value| text(value, "category")).transpose()? {
            None => Ok(NO_CATEGORY.to_owned()),
            Some(category) if category.trim().is_empty() => {
                Err(Problem::new("category is empty", "name the row's category"))
            }
            Some(category) => Ok(category),
        }
    }

    fn tier(&self, format: Format, category: &str) -> Result<Option<String>, Problem> {
        match self.get("sub_category") {
            Some(tier) if format == Format::SpeedBench => text(tier, "sub_category").map(Some),
            _ => Ok((format == Format::SpeedBench && TIERS.contains(&category)).then(|| category.to_owned())),
        }
    }
}

impl<'de> Deserialize<'de> for Object {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Fields;
        impl<'de> Visitor<'de> for Fields {
            type Value = Object;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a JSON object")
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Object, A::Error> {
                let mut fields = HashMap::new();
                while let Some((key, value)) = map.next_entry::<String, Value>()? {
                    if fields.contains_key(&key) {
                        return Err(de::Error::custom(format!("the key {key:?} is there twice")));
                    }
                    fields.insert(key, value);
                }
                Ok(Object(fields))
            }
        }
        deserializer.deserialize_map(Fields)
    }
}

#[cfg(test)]
#[path = "formats_tests.rs"]
mod tests;
