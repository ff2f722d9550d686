//! llama.cpp's own HTTP server: `llama-server`, or the same server inside a
//! Python process from the `xllamacpp` wheel.
//!
//! Flags, routes and fields are those of llama.cpp's `tools/server` README as
//! of 2026-10, checked against xllamacpp 2026.10.11549.

use std::collections::BTreeMap;
use std::path::Path;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{AcceptanceSource, Capabilities, Engine, FileFacts, Identity, Launch, Program, llama_cpp_fields};
use crate::corpus;
use crate::evidence::bundle::Setting;
use crate::evidence::request::EngineFields;
use crate::gguf::Gguf;
use crate::value::Input;

/// Settings of llama.cpp's own HTTP server.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LlamaCpp {
    /// A `llama-server` program, by name on PATH or by path. When empty, the
    /// launcher is used.
    #[serde(default)]
    pub program: String,
    /// The prebuilt server of a Python package.
    #[serde(default)]
    pub launcher: Option<Launcher>,
    /// Precision of the weights as llama.cpp names it, such as `Q4_1`.
    pub precision: String,
    /// Tokens of context over all slots.
    #[schemars(extend("x-unit" = "tokens"))]
    pub context_length: u32,
    /// Requests served at the same time.
    #[serde(default = "one")]
    #[schemars(extend("x-unit" = "requests"))]
    pub slots: u32,
    /// Threads of the engine: `all_but_one` leaves a processor to the client.
    #[serde(default)]
    pub threads: Threads,
    /// Whether a common prefix with an earlier prompt is taken from the cache.
    /// Off by default, so that no request is faster for what came before it.
    #[serde(default)]
    pub cache_prompt: bool,
}

/// llama.cpp's server behind a small script in an environment.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Launcher {
    /// The Python environment that holds the engine.
    pub environment: Input,
    /// The package in it that is the engine.
    pub package: String,
    /// The script, which takes the arguments of `llama-server`.
    pub script: Input,
}

/// How many threads the engine gets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Threads {
    /// One less than the machine has, and at least one.
    #[default]
    AllButOne,
    /// One for every logical processor.
    All,
    /// One.
    One,
}

impl Threads {
    fn count(self, cores: usize) -> usize {
        match self {
            Self::AllButOne => cores.saturating_sub(1).max(1),
            Self::All => cores.max(1),
            Self::One => 1,
        }
    }
}

fn one() -> u32 {
    1
}

impl Engine for LlamaCpp {
    fn name(&self) -> &'static str {
        "llama_cpp"
    }

    fn portable_settings(&self) -> Value {
        json!({
            "precision": self.precision,
            "context_length": self.context_length,
            "slots": self.slots,
            "threads": self.threads,
            "cache_prompt": self.cache_prompt,
        })
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            per_request_records: false,
            engine_call_time: true,
            usage_tokens: true,
            streaming: true,
            multi_turn: true,
            acceptance: AcceptanceSource::PerRequest,
            request_id_header: false,
            tokenize: true,
        }
    }

    fn program(&self) -> Program {
        match &self.launcher {
            Some(launcher) if self.program.is_empty() => Program::Script {
                environment: launcher.environment.clone(),
                package: launcher.package.clone(),
                script: launcher.script.clone(),
            },
            _ if self.program.is_empty() => Program::Named("llama-server".to_owned()),
            _ => Program::Named(self.program.clone()),
        }
    }

    fn command(&self, launch: &Launch) -> Vec<String> {
        let mut command = launch.program.clone();
        let mut option = |name: &str, value: String| command.extend([name.to_owned(), value]);
        option("--model", launch.model.display().to_string());
        option("--alias", launch.model_name.clone());
        option("--host", "127.0.0.1".to_owned());
        option("--port", launch.port.to_string());
        option("--ctx-size", self.context_length.to_string());
        option("--parallel", self.slots.to_string());
        option("--threads", self.threads.count(launch.cores).to_string());
        command.push("--metrics".to_owned());
        command
    }

    fn readiness_path(&self) -> &'static str {
        "/health"
    }

    fn identity_paths(&self) -> &'static [&'static str] {
        &["/v1/models", "/props"]
    }

    fn identity(&self, answers: &[Value]) -> Identity {
        let model = answers.first().map(|models| models["data"][0].clone()).unwrap_or_default();
        let props = answers.get(1).cloned().unwrap_or_default();
        let text = |value: &Value| match value {
            Value::String(text) => Some(text.clone()),
            Value::Number(number) => Some(number.to_string()),
            _ => None,
        };
        let context = &model["meta"]["n_ctx"];
        let context =
            if context.is_null() { &props["default_generation_settings"]["n_ctx"] } else { context };
        Identity {
            model_name: text(&model["id"]),
            settings: vec![
                Setting::new(
                    "precision",
                    Some(self.precision.clone()),
                    text(&model["meta"]["ftype"]).or_else(|| text(&props["model_ftype"])),
                    "GET /v1/models data[0].meta.ftype",
                ),
                Setting::new(
                    "context_length",
                    Some((self.context_length / self.slots.max(1)).to_string()),
                    text(context),
                    "GET /v1/models data[0].meta.n_ctx",
                ),
                Setting::new(
                    "slots",
                    Some(self.slots.to_string()),
                    text(&props["total_slots"]),
                    "GET /props total_slots",
                ),
            ],
            reported: json!({
                "id": model["id"],
                "meta": model["meta"],
                "total_slots": props["total_slots"],
                "build_info": props["build_info"],
                "model_file": props["model_path"].as_str().and_then(|path| path.rsplit('/').next()),
            }),
        }
    }

    fn tokenize_path(&self) -> Option<&'static str> {
        Some("/tokenize")
    }

    fn draft_counters(&self) -> &'static [&'static str] {
        &[
            "llamacpp:spec_decode_num_drafts_total",
            "llamacpp:spec_decode_num_draft_tokens_total",
            "llamacpp:spec_decode_num_accepted_tokens_total",
        ]
    }

    fn answer_fields(&self, last: &Value) -> Result<Option<EngineFields>, String> {
        llama_cpp_fields::parse(last).map_err(|error| error.to_string())
    }

    fn request_fields(&self) -> BTreeMap<String, Value> {
        BTreeMap::from([("cache_prompt".to_owned(), Value::Bool(self.cache_prompt))])
    }

    fn speculation_modes(&self) -> &'static [&'static str] {
        &[
            "a draft model (--spec-type draft-simple with a model for -md)",
            "n-grams of the text so far (--spec-type ngram-simple and its variants)",
        ]
    }

    fn configured_speculation(&self) -> Option<String> {
        None
    }

    fn read_file(&self, model: &Path) -> Result<FileFacts, String> {
        let gguf = Gguf::open(model).map_err(|error| error.to_string())?;
        Ok(FileFacts { facts: gguf_facts(&gguf), speculative_markers: Vec::new() })
    }

    fn write_tokenizer(&self, model: &Path, into: &Path) -> Result<bool, String> {
        let gguf = Gguf::open(model).map_err(|error| error.to_string())?;
        corpus::write_tokenizer(&gguf, into).map_err(|error| error.to_string())?;
        Ok(true)
    }

    fn file_settings(&self, facts: &BTreeMap<String, String>) -> Vec<Setting> {
        vec![Setting::new(
            "precision",
            Some(self.precision.clone()),
            facts.get("file_type").cloned(),
            "general.file_type of the GGUF header",
        )]
    }

    fn context_limit(&self) -> u32 {
        self.context_length / self.slots.max(1)
    }
}

/// What the header of a GGUF file says, by name.
fn gguf_facts(gguf: &Gguf) -> BTreeMap<String, String> {
    let summary = gguf.summary();
    let number = |value: Option<u64>| value.map(|value| value.to_string());
    let facts = [
        ("architecture", summary.architecture),
        ("name", summary.name),
        ("file_type", summary.file_type.and_then(|kind| kind.name)),
        ("context_length", number(summary.context_length)),
        ("blocks", number(summary.block_count)),
        ("parameters", Some(summary.parameters.to_string())),
    ];
    facts.into_iter().filter_map(|(name, fact)| Some((name.to_owned(), fact?))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings() -> LlamaCpp {
        LlamaCpp {
            program: String::new(),
            launcher: None,
            precision: "Q4_1".to_owned(),
            context_length: 2048,
            slots: 1,
            threads: Threads::AllButOne,
            cache_prompt: false,
        }
    }

    #[test]
    fn the_engine_leaves_one_processor_to_the_client() {
        assert_eq!(Threads::AllButOne.count(8), 7);
        assert_eq!(Threads::AllButOne.count(1), 1);
        let launch = Launch {
            program: vec!["llama-server".to_owned()],
            model: "m.gguf".into(),
            model_name: "smol".to_owned(),
            port: 4000,
            cores: 2,
            work: "w".into(),
        };
        assert_eq!(
            settings().command(&launch).join(" "),
            "llama-server --model m.gguf --alias smol --host 127.0.0.1 --port 4000 \
             --ctx-size 2048 --parallel 1 --threads 1 --metrics"
        );
    }

    #[test]
    fn what_the_engine_reports_stands_beside_what_was_asked_for() {
        let models = json!({"data": [{"id": "smol", "meta": {"n_ctx": 1024, "ftype": "Q4_1"}}]});
        let props = json!({"total_slots": 1, "model_path": "/secret/place/m.gguf"});
        let identity = settings().identity(&[models, props]);
        assert_eq!(identity.model_name.as_deref(), Some("smol"));
        let different: Vec<_> =
            identity.settings.iter().filter(|s| s.differs()).map(Setting::sentence).collect();
        assert_eq!(
            different,
            ["context_length: asked for 2048, GET /v1/models data[0].meta.n_ctx shows 1024"]
        );
        assert!(!identity.reported.to_string().contains("secret"));
    }
}
