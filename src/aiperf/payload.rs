//! The body that AIPerf sent.

use serde::de::Error as _;
use serde::{Deserialize, Deserializer};
use serde_json::{Map, Value, json};

use crate::value::Digest;

/// A message as sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Message {
    /// `system`, `user`, `assistant`, …
    pub role: String,
    /// Its text; the text parts of a message of parts, one after the other.
    pub text: String,
}

/// The body of a request: chat messages or a completion's prompt, and the
/// settings beside them.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Payload {
    /// The messages, exactly as sent; a prompt counts as one of the user.
    pub messages: Vec<Message>,
    /// All other fields of the body: `model`, `max_tokens`, `temperature`, …
    pub settings: Map<String, Value>,
}

impl Payload {
    /// The text of the last message of the user.
    #[must_use]
    pub fn last_user_text(&self) -> Option<&str> {
        let last = self.messages.iter().rev().find(|message| message.role == "user");
        last.map(|message| message.text.as_str())
    }

    /// Digest of the whole body: its messages and its settings.
    #[must_use]
    pub fn digest(&self) -> Digest {
        let messages: Vec<Value> =
            self.messages.iter().map(|message| json!([message.role, message.text])).collect();
        Digest::of_json(&json!({"messages": messages, "settings": self.settings}))
    }

    /// The model that was asked for.
    #[must_use]
    pub fn model(&self) -> Option<&str> {
        self.settings.get("model")?.as_str()
    }

    /// The cap on output tokens, under either of its names.
    #[must_use]
    pub fn max_tokens(&self) -> Option<u64> {
        let names = ["max_completion_tokens", "max_tokens"];
        names.iter().find_map(|name| self.settings.get(*name)?.as_u64())
    }

    /// The sampling temperature.
    #[must_use]
    pub fn temperature(&self) -> Option<f64> {
        self.settings.get("temperature")?.as_f64()
    }

    /// Whether a stream was asked for; not, where nothing is said.
    #[must_use]
    pub fn stream(&self) -> bool {
        self.settings.get("stream").and_then(Value::as_bool).unwrap_or(false)
    }

    /// How many choices were asked for, where it is said.
    #[must_use]
    pub fn choices(&self) -> Option<u32> {
        self.settings.get("n")?.as_u64()?.try_into().ok()
    }
}

impl<'de> Deserialize<'de> for Payload {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut settings = Map::deserialize(deserializer)?;
        let messages = match (settings.shift_remove("messages"), settings.shift_remove("prompt")) {
            (Some(Value::Array(messages)), None) => messages.iter().map(message).collect(),
            (None, Some(Value::String(prompt))) => {
                Some(vec![Message { role: "user".to_owned(), text: prompt }])
            }
            (None, None) => Some(Vec::new()),
            _ => None,
        };
        let messages = messages.ok_or_else(|| {
            D::Error::custom("the payload has neither messages of a role and a content nor one prompt")
        })?;
        Ok(Self { messages, settings })
    }
}

fn message(value: &Value) -> Option<Message> {
    let text = match value.get("content") {
        Some(Value::String(text)) => text.clone(),
        Some(Value::Array(parts)) => parts.iter().filter_map(|part| part.get("text")?.as_str()).collect(),
        None | Some(Value::Null) => String::new(),
        Some(_) => return None,
    };
    Some(Message { role: value.get("role")?.as_str()?.to_owned(), text })
}
