//! What came back: the chunks of a stream or one body, put together.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::Value;

/// `usage` of an answer.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
pub struct Usage {
    /// Tokens of the prompt, by the engine.
    pub prompt_tokens: Option<u64>,
    /// Tokens of the output, by the engine.
    pub completion_tokens: Option<u64>,
}

/// An answer, put together from what was received.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Response {
    /// The text of the first choice.
    pub text: String,
    /// Reasoning text that came apart from it.
    pub reasoning: String,
    /// Why generation ended.
    pub finish_reason: Option<String>,
    /// Token counts of the engine.
    pub usage: Option<Usage>,
    /// When each piece arrived, in nanoseconds of AIPerf's performance
    /// counter.
    pub arrivals_perf_ns: Vec<i64>,
    /// Pieces received.
    pub chunks: u64,
    /// The answer came as a stream of events.
    pub streamed: bool,
    /// The answer is whole: a stream's `[DONE]`, or a body with choices.
    pub done: bool,
    /// What an error inside the answer said.
    pub in_band_error: Option<String>,
    /// The last piece that is JSON: engines put their own fields there.
    pub last_json: Option<Value>,
}

/// An element of `responses`: an event of a stream (`packets`) or a body
/// (`text`).
#[derive(Debug, Deserialize)]
pub(super) struct Piece<'a> {
    perf_ns: Option<i64>,
    #[serde(borrow)]
    packets: Option<Vec<Packet<'a>>>,
    text: Option<String>,
}

#[derive(Debug, Deserialize)]
struct Packet<'a> {
    #[serde(borrow)]
    name: Cow<'a, str>,
    #[serde(borrow, default)]
    value: Cow<'a, str>,
}

/// The fields of a chunk or body that make up the answer.
#[derive(Debug, Deserialize)]
struct Body {
    #[serde(default)]
    choices: Vec<Choice>,
    usage: Option<Usage>,
    error: Option<Value>,
}

#[derive(Debug, Deserialize)]
struct Choice {
    #[serde(default)]
    index: u32,
    delta: Option<Content>,
    message: Option<Content>,
    text: Option<String>,
    finish_reason: Option<String>,
}

#[derive(Debug, Deserialize)]
struct Content {
    #[serde(rename = "content")]
    text: Option<String>,
    reasoning: Option<String>,
    /// The older name of the same; some engines write both.
    #[serde(rename = "reasoning_content")]
    older_reasoning: Option<String>,
}

impl Response {
    /// Puts an answer together. A piece that is not of the expected shape
    /// leaves it not [`done`](Self::done).
    pub(super) fn of(pieces: &[Piece<'_>]) -> Self {
        let mut response = Self { chunks: pieces.len() as u64, ..Self::default() };
        let mut readable = true;
        let mut last = None;
        for piece in pieces {
            response.arrivals_perf_ns.extend(piece.perf_ns);
            if let Some(text) = &piece.text {
                let whole = response.add(text);
                response.done = whole && response.in_band_error.is_none();
                readable &= whole;
                last = Some(text.as_str());
            }
            for packet in piece.packets.iter().flatten() {
                response.streamed = true;
                match (packet.name.as_ref(), packet.value.as_ref()) {
                    ("data", "[DONE]") => response.done = true,
                    ("data", text) => {
                        readable &= response.add(text);
                        last = Some(text);
                    }
                    ("event", kind) if kind.eq_ignore_ascii_case("error") => {
                        response.in_band_error.get_or_insert_with(|| "an error event".to_owned());
                    }
                    _ => {}
                }
            }
        }
        response.done &= readable;
        response.last_json = last.and_then(|text| serde_json::from_str(text).ok());
        response
    }

    /// Adds one chunk or body; false if it is no JSON of a known shape.
    fn add(&mut self, text: &str) -> bool {
        let Ok(body) = serde_json::from_str::<Body>(text) else { return false };
        if let Some(error) = body.error.filter(|error| !error.is_null()) {
            self.in_band_error = Some(
                error.get("message").and_then(Value::as_str).map_or_else(|| error.to_string(), str::to_owned),
            );
        }
        self.usage = body.usage.or(self.usage);
        let known = self.streamed || !body.choices.is_empty();
        for choice in body.choices.into_iter().filter(|choice| choice.index == 0) {
            self.text.extend(choice.text);
            for content in choice.delta.into_iter().chain(choice.message) {
                self.text.extend(content.text);
                self.reasoning.extend(content.reasoning.or(content.older_reasoning));
            }
            self.finish_reason = choice.finish_reason.or(self.finish_reason.take());
        }
        known
    }
}
