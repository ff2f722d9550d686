//! Pinned rows as the files that `AIPerf` 0.13.0 reads.

use std::collections::HashMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::row::{Row, numeric};
use crate::value::Digest;

/// Form of a pinned corpus file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum PinnedForm {
    /// Spec-Bench rows, for `--public-dataset spec-bench`, whose loader sends
    /// the first turn of each row without white space around it.
    SpecBench,
    /// SPEED-Bench rows, for `--custom-dataset-type speed-bench-…`, whose
    /// loader sends every message and wants ids of exactly 32 characters.
    SpeedBench,
}

/// Rows that cannot be written so that exactly their text is sent.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum WriteError {
    /// The reader would strip the text.
    #[error(
        "row {id} has white space before or after the text of turn {turn}, which AIPerf's Spec-Bench loader removes, so it would not send the pinned text; write the SPEED-Bench form"
    )]
    Stripped {
        /// The row.
        id: String,
        /// The turn, from 1.
        turn: usize,
    },
    /// Two rows would get the same id.
    #[error("rows {first} and {second} would both be written with the id {pinned}; rename one of them")]
    SameId {
        /// The earlier row.
        first: String,
        /// The later row.
        second: String,
        /// The id that both would get.
        pinned: String,
    },
}

/// Writes rows in order, one JSON object a line, always the same bytes.
///
/// White space that Python's `splitlines` takes for the end of a line is
/// written as an escape, since `AIPerf` cuts the file with it.
pub fn write_rows<'a>(form: PinnedForm, rows: impl Iterator<Item = &'a Row>) -> Result<Vec<u8>, WriteError> {
    let mut file = Vec::new();
    let mut written: HashMap<String, &str> = HashMap::new();
    for row in rows {
        let id = pinned_id(form, &row.id);
        if let Some(first) = written.insert(id.clone(), &row.id) {
            let (first, second) = (first.to_owned(), row.id.clone());
            return Err(WriteError::SameId { first, second, pinned: id });
        }
        let line = match form {
            PinnedForm::SpecBench => spec_bench(row)?,
            PinnedForm::SpeedBench => speed_bench(row, &id),
        };
        file.extend(one_line(&line).into_bytes());
        file.push(b'\n');
    }
    Ok(file)
}

/// The id that a row gets in a pinned file.
///
/// Spec-Bench rows keep theirs. In SPEED-Bench rows an id of 32 characters is
/// kept, a shorter one of ASCII digits is filled up with zeros in front, and
/// any other becomes the first 32 hexadecimal digits of its BLAKE3 digest.
#[must_use]
pub fn pinned_id(form: PinnedForm, id: &str) -> String {
    const LENGTH: usize = 32;
    match (form, id.chars().count()) {
        (PinnedForm::SpecBench, _) | (PinnedForm::SpeedBench, LENGTH) => id.to_owned(),
        (PinnedForm::SpeedBench, length)
            if length < LENGTH && id.bytes().all(|byte| byte.is_ascii_digit()) =>
        {
            format!("{id:0>LENGTH$}")
        }
        (PinnedForm::SpeedBench, _) => Digest::of(id).to_string()[..LENGTH].to_owned(),
    }
}

fn spec_bench(row: &Row) -> Result<Value, WriteError> {
    if let Some(at) = row.turns.iter().position(|turn| is_stripped(turn)) {
        return Err(WriteError::Stripped { id: row.id.clone(), turn: at + 1 });
    }
    let id = numeric(&row.id).map_or_else(|| json!(row.id), |number| json!(number));
    Ok(json!({"question_id": id, "category": row.category, "turns": row.turns}))
}

fn speed_bench(row: &Row, id: &str) -> Value {
    let message = |text: &String| json!({"role": "user", "content": text});
    let messages: Vec<_> = row.turns.iter().map(message).collect();
    let mut line = json!({"question_id": id, "category": row.category, "messages": messages});
    if let Some(tier) = &row.tier {
        line["sub_category"] = json!(tier);
    }
    line
}

/// Whether Python's `str.strip` would change the text.
fn is_stripped(text: &str) -> bool {
    let white = |c: char| c.is_whitespace() || ('\x1c'..='\x1f').contains(&c);
    text.starts_with(white) || text.ends_with(white)
}

fn one_line(value: &Value) -> String {
    value
        .to_string()
        .replace('\u{85}', "\\u0085")
        .replace('\u{2028}', "\\u2028")
        .replace('\u{2029}', "\\u2029")
}

#[cfg(test)]
mod tests {
    use super::super::formats::{Format, parse};
    use super::*;

    fn row(id: &str, turns: &[&str]) -> Row {
        Row {
            id: id.into(),
            category: "c".into(),
            tier: None,
            turns: turns.iter().map(|&turn| turn.to_owned()).collect(),
        }
    }

    fn lines(form: PinnedForm, rows: &[Row]) -> String {
        String::from_utf8(write_rows(form, rows.iter()).unwrap()).unwrap()
    }

    #[test]
    fn each_form_has_the_fields_its_loader_reads() {
        let rows = [row("81", &["a \"b\"", "é"]), row("x-1", &["c"])];
        insta::assert_snapshot!(lines(PinnedForm::SpecBench, &rows), @r#"
        {"question_id":81,"category":"c","turns":["a \"b\"","é"]}
        {"question_id":"x-1","category":"c","turns":["c"]}
        "#);
        insta::assert_snapshot!(lines(PinnedForm::SpeedBench, &rows), @r#"
        {"question_id":"00000000000000000000000000000081","category":"c","messages":[{"role":"user","content":"a \"b\""},{"role":"user","content":"é"}]}
        {"question_id":"675bfc99d4334967bd732b07b2d0a25c","category":"c","messages":[{"role":"user","content":"c"}]}
        "#);
    }

    #[test]
    fn what_is_written_reads_back_as_the_same_texts() {
        let turns = ["line\nbreak \\ \u{2028}\u{2029}\u{85}\u{b}\u{c}\u{1d} é 🦀", "b"];
        let rows = [row("7", &turns)];
        for (form, format) in
            [(PinnedForm::SpecBench, Format::SpecBench), (PinnedForm::SpeedBench, Format::SpeedBench)]
        {
            let file = lines(form, &rows);
            assert_eq!(file.lines().count(), 1);
            assert!(
                !file.trim_end().contains(['\u{2028}', '\u{2029}', '\u{85}', '\u{b}', '\u{c}', '\u{1d}'])
            );
            assert_eq!(parse(format, file.as_bytes()).unwrap()[0].turns, turns);
        }
    }

    #[test]
    fn every_speed_bench_id_has_32_characters() {
        let long = "é".repeat(32);
        for id in ["81", "x", "", &long, &"7".repeat(40)] {
            assert_eq!(pinned_id(PinnedForm::SpeedBench, id).chars().count(), 32, "{id}");
        }
        assert_eq!(pinned_id(PinnedForm::SpeedBench, &long), long);
        assert_eq!(pinned_id(PinnedForm::SpeedBench, "81"), format!("{}81", "0".repeat(30)));
    }

    #[test]
    fn rows_that_would_not_be_sent_as_pinned_are_refused() {
        for text in [" a", "a\n", "a\u{1d}", "\u{3000}a"] {
            let error = write_rows(PinnedForm::SpecBench, [row("7", &["b", text])].iter()).unwrap_err();
            assert_eq!(error, WriteError::Stripped { id: "7".into(), turn: 2 });
            assert!(write_rows(PinnedForm::SpeedBench, [row("7", &[text])].iter()).is_ok());
        }
        let clash = [row("7", &["a"]), row("07", &["b"])];
        assert!(matches!(write_rows(PinnedForm::SpeedBench, clash.iter()), Err(WriteError::SameId { .. })));
    }
}
