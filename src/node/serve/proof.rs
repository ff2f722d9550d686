//! How a server that was just launched proves to be ours.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::environment::as_effective;
use super::life::Life;
use super::socket::Socket;
use crate::corpus::Tokenizer;
use crate::engine::chat::{self, ChatRequest};
use crate::engine::{Engine, Identity};
use crate::evidence::service::{ProbeRequest, Proof};
use crate::http;
use crate::node::{Context, Failure};
use crate::value::{Input, Reference};

/// How often a loading server is asked whether it is ready.
const POLL: Duration = Duration::from_millis(100);
/// How long one question about readiness may take.
const READINESS: Duration = Duration::from_secs(5);
/// How long the probe request may take.
const ANSWER: Duration = Duration::from_secs(120);

/// Strings on which the rebuilt tokenizer has to agree with the engine's own.
const TOKENIZER_STRINGS: [&str; 5] = [
    "Hello, world!",
    "  two  spaces, a tab\tand 12345.678",
    "def f(x):\n    return x ** 2\n",
    "It's naïve, isn't it? café 東京 🙂",
    "1+1=2; don't, won't, WE'LL",
];

/// A launched server that has not proved anything yet.
pub(super) struct Candidate<'a> {
    pub context: &'a Context,
    pub engine: &'a dyn Engine,
    pub url: String,
    pub model_name: &'a str,
    pub bundle: &'a Input,
    /// Variables that the plan sets.
    pub variables: &'a BTreeMap<String, String>,
    pub socket: Socket,
    pub launched: Instant,
}

/// What a candidate showed.
pub(super) struct Proved {
    pub ready_after_ms: u64,
    pub proofs: Vec<Proof>,
    pub identity: Identity,
    pub probe: ProbeRequest,
}

impl Candidate<'_> {
    /// Every proof in order; the first that does not hold is the failure.
    pub async fn prove(&self, silent_for: Duration, ready_within: Duration) -> Result<Proved, Failure> {
        let client = http::loopback_client(ANSWER).map_err(|error| Failure::failed(error.to_string()))?;
        self.ready(&client, silent_for, ready_within).await?;
        let ready_after_ms = u64::try_from(self.launched.elapsed().as_millis()).unwrap_or(u64::MAX);
        let port = self.socket.port;
        let mut proofs = vec![
            Proof::new("port_was_free", format!("we held port {port} until the launch")),
            Proof::new("ready", format!("GET {} answered 200", self.engine.readiness_path())),
        ];
        let listener = self.listener()?;
        proofs.push(Proof::new(
            "socket_is_ours",
            format!("the socket on port {port} belongs to a process we started"),
        ));
        let identity = self.identity(&client, listener).await?;
        let named = format!("GET {} names {}", self.engine.identity_paths()[0], self.model_name);
        proofs.push(Proof::new("model_identity", named));
        let probe = self.probe(&client).await?;
        let answered =
            format!("request {} was answered with {} characters", probe.request_id, probe.answer_characters);
        proofs.push(Proof::new("answers", answered));
        proofs.extend(self.tokenizer_agrees(&client).await?);
        Ok(Proved { ready_after_ms, proofs, identity, probe })
    }

    /// Waits until the server says that it is ready, for as long as it gives
    /// signs of life and nobody else listens in its place.
    async fn ready(
        &self,
        client: &reqwest::Client,
        silent_for: Duration,
        within: Duration,
    ) -> Result<(), Failure> {
        let address = format!("{}{}", self.url, self.engine.readiness_path());
        let mut life = Life::new(&self.context.log, self.socket.supervisor, silent_for);
        loop {
            let asked = client.get(&address).timeout(READINESS.min(silent_for)).send().await;
            if asked.is_ok_and(|answer| answer.status() == reqwest::StatusCode::OK) {
                return Ok(());
            }
            let waited = self.launched.elapsed();
            if waited > within {
                return Err(
                    self.given_up(&format!("was not ready after {} s", within.as_secs()), "ready_within")
                );
            }
            if let Some(silence) = life.silence() {
                if silence >= silent_for {
                    let silent = format!("gave no sign of life for {} s while it loaded", silence.as_secs());
                    return Err(self.given_up(&silent, "silent_for"));
                }
                self.socket.require_ours()?;
                let last_line = self.context.world.site.mask(&life.last_line());
                self.context.progress(loading(waited, &last_line));
            }
            tokio::time::sleep(POLL).await;
        }
    }

    /// A server that is not waited for any longer.
    fn given_up(&self, how: &str, setting: &str) -> Failure {
        Failure::failed(format!(
            "the server {how}; its last lines say what it was doing, and `{setting}` in the plan gives it more time"
        ))
        .with_log(self.context.log_tail())
    }

    /// The process of ours that has the listening socket.
    fn listener(&self) -> Result<u32, Failure> {
        self.socket.require_ours()?.ok_or_else(|| {
            Failure::environment(format!(
                "nothing is seen to listen on port {} although it answers; sockets of this machine cannot be \
                 read in /proc, so the server cannot be proved to be ours",
                self.socket.port
            ))
        })
    }

    /// What the server says it serves and how it runs, which must be as asked.
    async fn identity(&self, client: &reqwest::Client, listener: u32) -> Result<Identity, Failure> {
        let mut answers = Vec::new();
        for path in self.engine.identity_paths() {
            answers.push(self.get_json(client, path).await?);
        }
        let mut identity = self.engine.identity(&answers);
        identity.settings.extend(as_effective(self.variables, listener));
        if identity.model_name.as_deref() != Some(self.model_name) {
            return Err(Failure::failed(format!(
                "the server was asked to serve {} and says it serves {}; check its program and `model_name`",
                self.model_name,
                identity.model_name.as_deref().unwrap_or("nothing")
            ))
            .with_log(self.context.log_tail()));
        }
        if let Some(different) = identity.settings.iter().find(|setting| setting.differs()) {
            return Err(Failure::failed(format!(
                "the server does not run as the plan states: {}; correct the setting or the plan",
                different.sentence()
            ))
            .with_log(self.context.log_tail()));
        }
        Ok(identity)
    }

    async fn get_json(&self, client: &reqwest::Client, path: &str) -> Result<Value, Failure> {
        let answer = client.get(format!("{}{path}", self.url)).send().await;
        let unreadable = |error| Failure::failed(format!("GET {path} of the server gave no answer: {error}"));
        answer.map_err(unreadable)?.json().await.map_err(unreadable)
    }

    async fn probe(&self, client: &reqwest::Client) -> Result<ProbeRequest, Failure> {
        let request_id = format!("probe-{}", self.context.world.run);
        let request = ChatRequest {
            url: &self.url,
            model_name: self.model_name,
            request_id: &request_id,
            prompt: "Say hello.",
            max_tokens: 8,
        };
        let answer = chat::send(client, self.engine, &request)
            .await
            .map_err(|error| Failure::failed(format!("the probe request got no answer: {error}")))?;
        let answer_characters = answer.text.chars().count();
        if answer.status != 200 || answer_characters == 0 {
            return Err(Failure::failed(format!(
                "the probe request was answered with status {} and {answer_characters} characters of text",
                answer.status
            ))
            .with_log(self.context.log_tail()));
        }
        Ok(ProbeRequest { request_id, status: answer.status, answer_characters })
    }

    /// The tokenizer that the client counts with gives the engine's own ids.
    async fn tokenizer_agrees(&self, client: &reqwest::Client) -> Result<Option<Proof>, Failure> {
        let (Some(path), Ok(artifact)) =
            (self.engine.tokenize_path(), self.context.artifact(self.bundle, "tokenizer"))
        else {
            return Ok(None);
        };
        let reference = Reference { output: Some("tokenizer".to_owned()), ..self.bundle.0.clone() };
        let directory = self.context.path_of(&reference, artifact)?;
        let unusable = |error: crate::corpus::TokenizerError| Failure::failed(error.to_string());
        let tokenizer = Tokenizer::open(&directory).map_err(unusable)?;
        for text in TOKENIZER_STRINGS {
            let asked =
                client.post(format!("{}{path}", self.url)).json(&json!({"content": text})).send().await;
            let unreadable = |error| Failure::failed(format!("POST {path} gave no answer: {error}"));
            let answer: Value = asked.map_err(unreadable)?.json().await.map_err(unreadable)?;
            let ours = tokenizer.encode(text).map_err(unusable)?;
            if answer["tokens"] != json!(ours) {
                return Err(Failure::failed(format!(
                    "the tokenizer rebuilt from the model differs from the engine's own on {text:?}: {ours:?} \
                     and {}",
                    answer["tokens"]
                )));
            }
        }
        Ok(Some(Proof::new(
            "tokenizer_agrees",
            format!(
                "POST {path} gives the ids of the rebuilt tokenizer on {} texts",
                TOKENIZER_STRINGS.len()
            ),
        )))
    }
}

/// What a server that loads is doing, by the clock and by its log.
fn loading(waited: Duration, last_line: &str) -> String {
    let seconds = waited.as_secs();
    if last_line.is_empty() {
        format!("loading for {seconds} s")
    } else {
        format!("loading for {seconds} s: {last_line}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_load_is_told_by_its_seconds_and_the_last_line_of_its_log() {
        let waited = Duration::from_millis(12_900);
        assert_eq!(loading(waited, ""), "loading for 12 s");
        assert_eq!(loading(waited, "load_tensors: CPU buffer"), "loading for 12 s: load_tensors: CPU buffer");
    }
}
