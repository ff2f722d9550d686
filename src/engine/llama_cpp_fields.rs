//! llama.cpp's `timings`: what its server says about one request, in the last
//! chunk of a stream or in the body.

use serde_json::{Map, Value};

use crate::evidence::request::EngineFields;

/// The name of what these times cover: the slot's prompt and decode stages,
/// without queueing and without HTTP.
pub const SCOPE: &str = "llama_cpp_timings";

/// `timings` is there and cannot be right.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FieldsError {
    /// A field of another type than llama.cpp writes.
    #[error("timings.{field} is {found}, not a number; is the engine llama.cpp?")]
    NotANumber {
        /// The field.
        field: &'static str,
        /// What was found.
        found: String,
    },
    /// More accepted than proposed, or one without the other.
    #[error(
        "timings.draft_n is {drafted:?} and draft_n_accepted {accepted:?}, which cannot be; do not use this run"
    )]
    Contradiction {
        /// `draft_n`.
        drafted: Option<u64>,
        /// `draft_n_accepted`.
        accepted: Option<u64>,
    },
}

/// Reads `timings` of an answer's last JSON; none if the answer has none.
///
/// `draft_n` is absent when nothing was drafted and stays none here. llama.cpp
/// does not count a request's verify steps, so there are none.
pub fn parse(last_json: &Value) -> Result<Option<EngineFields>, FieldsError> {
    let Some(timings) = last_json.get("timings").and_then(Value::as_object) else {
        return Ok(None);
    };
    let drafted = count(timings, "draft_n")?;
    let accepted = count(timings, "draft_n_accepted")?;
    if drafted.is_some() != accepted.is_some() || accepted > drafted {
        return Err(FieldsError::Contradiction { drafted, accepted });
    }
    Ok(Some(EngineFields {
        scope: SCOPE.to_owned(),
        prompt_tokens: count(timings, "prompt_n")?,
        prompt_ms: number(timings, "prompt_ms")?,
        predicted_tokens: count(timings, "predicted_n")?,
        predicted_ms: number(timings, "predicted_ms")?,
        cached_tokens: count(timings, "cache_n")?,
        draft_tokens: drafted,
        accepted_tokens: accepted,
        verify_steps: None,
    }))
}

/// A number; none if absent or negative, which is llama.cpp's "not set".
fn number(timings: &Map<String, Value>, field: &'static str) -> Result<Option<f64>, FieldsError> {
    match timings.get(field) {
        None | Some(Value::Null) => Ok(None),
        Some(value) => match value.as_f64() {
            Some(number) => Ok(Some(number).filter(|number| *number >= 0.0)),
            None => Err(FieldsError::NotANumber { field, found: value.to_string() }),
        },
    }
}

fn count(timings: &Map<String, Value>, field: &'static str) -> Result<Option<u64>, FieldsError> {
    match timings.get(field) {
        None | Some(Value::Null) => Ok(None),
        Some(value) => match (value.as_u64(), value.as_i64()) {
            (Some(count), _) => Ok(Some(count)),
            (None, Some(_not_set)) => Ok(None),
            (None, None) => Err(FieldsError::NotANumber { field, found: value.to_string() }),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn an_ordinary_answer_has_times_and_no_drafts() {
        let last = json!({"choices": [], "timings": {
            "cache_n": 0, "prompt_n": 53, "prompt_ms": 532.838, "prompt_per_token_ms": 10.05,
            "prompt_per_second": 99.4, "predicted_n": 48, "predicted_ms": 1714.157,
            "predicted_per_token_ms": 36.4, "predicted_per_second": 27.4}});
        let fields = parse(&last).unwrap().unwrap();
        assert_eq!(
            fields,
            EngineFields {
                scope: SCOPE.to_owned(),
                prompt_tokens: Some(53),
                prompt_ms: Some(532.838),
                predicted_tokens: Some(48),
                predicted_ms: Some(1714.157),
                cached_tokens: Some(0),
                draft_tokens: None,
                accepted_tokens: None,
                verify_steps: None,
            }
        );
    }

    #[test]
    fn a_speculative_answer_has_drafts_and_never_verify_steps() {
        let last = json!({"timings": {"predicted_n": 48, "draft_n": 40, "draft_n_accepted": 23}});
        let fields = parse(&last).unwrap().unwrap();
        assert_eq!((fields.draft_tokens, fields.accepted_tokens), (Some(40), Some(23)));
        assert_eq!(fields.verify_steps, None);
    }

    #[test]
    fn an_answer_without_timings_has_no_fields() {
        for last in [json!({"choices": []}), json!({"timings": null}), json!([]), json!("x")] {
            assert_eq!(parse(&last), Ok(None), "{last}");
        }
    }

    #[test]
    fn a_field_that_is_not_set_is_none_and_not_zero() {
        let last = json!({"timings": {"cache_n": -1, "prompt_ms": -1.0, "predicted_ms": null}});
        let fields = parse(&last).unwrap().unwrap();
        assert_eq!((fields.cached_tokens, fields.prompt_ms, fields.predicted_ms), (None, None, None));
    }

    #[test]
    fn drafts_that_cannot_be_are_refused() {
        for timings in [
            json!({"draft_n": 4, "draft_n_accepted": 5}),
            json!({"draft_n": 4}),
            json!({"draft_n_accepted": 0}),
            json!({"draft_n": "4", "draft_n_accepted": 1}),
            json!({"predicted_n": 1.5}),
            json!({"prompt_ms": "fast"}),
        ] {
            assert!(parse(&json!({"timings": timings})).is_err(), "{timings}");
        }
    }
}
