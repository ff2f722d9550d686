//! Sends identified requests until the server is in its steady state.

use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::settings::{Unfit, Wanted, none_at_all};
use super::{Class, Context, Failure, Node, Produced};
use crate::engine::chat::{self, ChatRequest};
use crate::evidence::warmup::{self, WarmupRequest};
use crate::http;
use crate::value::Input;

/// Sends a number of identified requests, each recorded and none of them a
/// row of the corpus.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Warmup {
    /// The server to warm up.
    pub server: Input,
    /// How many requests are sent, one after another.
    #[schemars(extend("x-unit" = "requests"))]
    pub requests: usize,
    /// The user message of every request.
    #[serde(default = "prompt")]
    pub prompt: String,
    /// Most tokens of one answer.
    #[serde(default = "max_tokens")]
    #[schemars(extend("x-unit" = "tokens"))]
    pub max_tokens: u32,
}

fn prompt() -> String {
    "Count from one to ten.".to_owned()
}

fn max_tokens() -> u32 {
    16
}

const REQUEST: Duration = Duration::from_secs(120);

impl Node for Warmup {
    const KIND: &'static str = "warmup";
    const VERSION: u32 = 1;
    const CLASS: Class = Class::Priming;
    const OUTPUTS: &'static [(&'static str, &'static str)] = &[];
    const EXAMPLE: &'static str = "\
warmup:
  warmup:
    server: ${nodes.server}
    requests: 3
  needs: [validate]
";
    type Evidence = warmup::Warmup;

    fn is_quiet(&self) -> bool {
        true
    }

    fn unfit(&self) -> Vec<Unfit> {
        none_at_all([("requests", self.requests == 0), ("max_tokens", self.max_tokens == 0)])
    }

    fn wanted(&self) -> Vec<Wanted<'_>> {
        vec![Wanted::new("server", &self.server, "serve")]
    }

    async fn execute(&self, context: &Context) -> Result<Produced, Failure> {
        let service = context.service(&self.server)?;
        let client = http::loopback_client(REQUEST).map_err(|error| Failure::failed(error.to_string()))?;
        let mut requests = Vec::new();
        for number in 1..=self.requests {
            context.progress(format!("request {number} of {}", self.requests));
            let request_id = format!("warmup-{}-{number}", context.world.run);
            let request = ChatRequest {
                url: &service.url,
                model_name: &service.model_name,
                request_id: &request_id,
                prompt: &self.prompt,
                max_tokens: self.max_tokens,
            };
            let answer = tokio::select! {
                answer = chat::send(&client, service.engine.adapter(), &request) => answer,
                failure = context.interrupted() => return Err(failure),
            };
            let answer = answer.map_err(|error| {
                Failure::failed(format!("warmup request {number} got no answer: {error}"))
            })?;
            if answer.status != 200 || answer.text.is_empty() {
                return Err(Failure::failed(format!(
                    "warmup request {number} was answered with status {} and {} characters of text; \
                     the server's log says why",
                    answer.status,
                    answer.text.chars().count()
                )));
            }
            requests.push(WarmupRequest {
                status: answer.status,
                took_ms: answer.took.as_secs_f64() * 1000.0,
                answer_characters: answer.text.chars().count(),
                request_id,
            });
        }
        let evidence =
            warmup::Warmup { schema_version: 1, configured: self.requests, requests, machine: None };
        Produced::new(&evidence, [])
    }
}
