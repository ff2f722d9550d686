//! One identified chat request, for proofs and warmup; load is AIPerf's work.

use std::time::{Duration, Instant};

use serde_json::{Map, Value, json};

use super::Engine;

/// A request to be sent and how it is known again.
#[derive(Debug, Clone)]
pub struct ChatRequest<'a> {
    /// The server, such as `http://127.0.0.1:4000`.
    pub url: &'a str,
    /// The model name it serves.
    pub model_name: &'a str,
    /// Sent as `X-Request-ID`.
    pub request_id: &'a str,
    /// The one user message.
    pub prompt: &'a str,
    /// Limit of the answer in tokens.
    pub max_tokens: u32,
}

/// An answer to a [`ChatRequest`].
#[derive(Debug, Clone, PartialEq)]
pub struct ChatAnswer {
    /// HTTP status.
    pub status: u16,
    /// The text, or nothing where the body has none.
    pub text: String,
    /// From sending to the whole body.
    pub took: Duration,
}

/// Sends one greedy request and waits for the whole answer.
pub async fn send(
    client: &reqwest::Client,
    engine: &dyn Engine,
    request: &ChatRequest<'_>,
) -> Result<ChatAnswer, reqwest::Error> {
    let mut body = Map::new();
    body.insert("model".to_owned(), json!(request.model_name));
    body.insert("messages".to_owned(), json!([{"role": "user", "content": request.prompt}]));
    body.insert("max_tokens".to_owned(), json!(request.max_tokens));
    body.insert("temperature".to_owned(), json!(0));
    body.extend(engine.request_fields());
    let started = Instant::now();
    let response = client
        .post(format!("{}/v1/chat/completions", request.url))
        .header("X-Request-ID", request.request_id)
        .json(&body)
        .send()
        .await?;
    let status = response.status().as_u16();
    let body = response.bytes().await?;
    let took = started.elapsed();
    let answer: Value = serde_json::from_slice(&body).unwrap_or_default();
    let text = answer["choices"][0]["message"]["content"].as_str().unwrap_or_default().to_owned();
    Ok(ChatAnswer { status, text, took })
}
