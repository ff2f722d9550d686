//! How a server that was just launched proves to be ours.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::{Context, Failure};
use crate::corpus::Tokenizer;
use crate::engine::chat::{self, ChatRequest};
use crate::engine::{Engine, Identity};
use crate::evidence::service::{ProbeRequest, Proof};
use crate::http;
use crate::process::{listeners_of, tree};
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
    pub port: u16,
    pub supervisor: u32,
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
    pub async fn prove(&self, ready_within: Duration) -> Result<Proved, Failure> {
        let client = http::loopback_client(ANSWER).map_err(|error| Failure::failed(error.to_string()))?;
        self.ready(&client, ready_within).await?;
        let ready_after_ms = u64::try_from(self.launched.elapsed().as_millis()).unwrap_or(u64::MAX);
        let port_was_free = Proof {
            what: "port_was_free".to_owned(),
            shown_by: format!("we held port {} until the launch", self.port),
        };
        let mut proofs = vec![
            port_was_free,
            Proof {
                what: "ready".to_owned(),
                shown_by: format!("GET {} answered 200", self.engine.readiness_path()),
            },
        ];
        proofs.push(self.socket_is_ours()?);
        let identity = self.identity(&client).await?;
        proofs.push(Proof {
            what: "model_identity".to_owned(),
            shown_by: format!("GET {} names {}", self.engine.identity_paths()[0], self.model_name),
        });
        let probe = self.probe(&client).await?;
        proofs.push(Proof {
            what: "answers".to_owned(),
            shown_by: format!(
                "request {} was answered with {} characters",
                probe.request_id, probe.answer_characters
            ),
        });
        proofs.extend(self.tokenizer_agrees(&client).await?);
        Ok(Proved { ready_after_ms, proofs, identity, probe })
    }

    async fn ready(&self, client: &reqwest::Client, within: Duration) -> Result<(), Failure> {
        let address = format!("{}{}", self.url, self.engine.readiness_path());
        loop {
            let asked = client.get(&address).timeout(READINESS).send().await;
            if asked.is_ok_and(|answer| answer.status() == reqwest::StatusCode::OK) {
                return Ok(());
            }
            let waited = self.launched.elapsed();
            if waited > within {
                return Err(Failure::failed(format!(
                    "the server was not ready after {} s; its last lines say what it was doing, and \
                     `ready_within` in the plan gives it more time",
                    within.as_secs()
                ))
                .with_log(self.context.log_tail()));
            }
            self.context.progress(format!("loading for {} s", waited.as_secs()));
            tokio::time::sleep(POLL).await;
        }
    }

    /// The listening socket belongs to a process that our supervisor started.
    fn socket_is_ours(&self) -> Result<Proof, Failure> {
        let ours: Vec<u32> =
            tree::descendants(self.supervisor).iter().map(|process| process.identity.pid).collect();
        let listeners = listeners_of(self.port);
        let stranger = listeners.iter().find(|listener| listener.pid.is_none_or(|pid| !ours.contains(&pid)));
        match (stranger, listeners.is_empty()) {
            (None, false) => Ok(Proof {
                what: "socket_is_ours".to_owned(),
                shown_by: format!("the socket on port {} belongs to a process we started", self.port),
            }),
            (Some(stranger), _) => Err(Failure::environment(format!(
                "port {} is answered by a process that is not ours, {}; stop it, or let the plan choose a free port",
                self.port,
                stranger.pid.map_or_else(|| "one of another user".to_owned(), |pid| pid.to_string())
            ))
            .with_log(stranger.command.clone().unwrap_or_default())),
            (None, true) => Err(Failure::environment(format!(
                "nothing is seen to listen on port {} although it answers; sockets of this machine cannot be \
                 read in /proc, so the server cannot be proved to be ours",
                self.port
            ))),
        }
    }

    async fn identity(&self, client: &reqwest::Client) -> Result<Identity, Failure> {
        let mut answers = Vec::new();
        for path in self.engine.identity_paths() {
            answers.push(self.get_json(client, path).await?);
        }
        let identity = self.engine.identity(&answers);
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
        Ok(Some(Proof {
            what: "tokenizer_agrees".to_owned(),
            shown_by: format!(
                "POST {path} gives the ids of the rebuilt tokenizer on {} texts",
                TOKENIZER_STRINGS.len()
            ),
        }))
    }
}
