//! One adapter per serving engine, and what each can do, as data.
//!
//! An adapter says how to launch the engine, where it answers, and how to
//! read what it says. It starts nothing and sends nothing. Nodes ask for
//! capabilities, never for an engine's name.

pub mod chat;
mod llama_cpp;
pub mod llama_cpp_fields;
mod trtmc;
pub mod trtmc_bundle;
pub mod trtmc_records;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

pub use llama_cpp::{Launcher, LlamaCpp, Threads};
pub use trtmc::Trtmc;

use crate::evidence::bundle::Setting;
use crate::evidence::request::{EngineFields, ExportFault, ServerRecord};
use crate::jsonl::ReadError;
use crate::value::Input;

/// An engine and its settings, by the engine's name.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum EngineSettings {
    /// llama.cpp's own HTTP server.
    LlamaCpp(LlamaCpp),
    /// TensorRT-Model-Connect's `trtmc-server`.
    Trtmc(Trtmc),
}

impl EngineSettings {
    /// The adapter behind the settings.
    #[must_use]
    pub fn adapter(&self) -> &dyn Engine {
        match self {
            Self::LlamaCpp(settings) => settings,
            Self::Trtmc(settings) => settings,
        }
    }
}

/// Where acceptance of drafts can be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum AcceptanceSource {
    /// In every response.
    PerRequest,
    /// In the server's counters.
    Counters,
    /// In gauges that average over time.
    Gauges,
    /// Nowhere.
    None,
}

/// What an engine can do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[expect(clippy::struct_excessive_bools, reason = "each is an independent capability")]
pub struct Capabilities {
    /// The server writes a record per request.
    pub per_request_records: bool,
    /// The engine times its own call.
    pub engine_call_time: bool,
    /// `usage` holds true token counts.
    pub usage_tokens: bool,
    /// Answers can be streamed.
    pub streaming: bool,
    /// More than one user message is accepted.
    pub multi_turn: bool,
    /// Where acceptance of drafts can be read.
    pub acceptance: AcceptanceSource,
    /// The request id of the client is kept by the server.
    pub request_id_header: bool,
    /// The server tokenises text on request.
    pub tokenize: bool,
}

/// Everything an adapter needs to write a command line.
#[derive(Debug, Clone)]
pub struct Launch {
    /// The program and the arguments that come before the engine's own.
    pub program: Vec<String>,
    /// The file that is served.
    pub model: PathBuf,
    /// The name it is served under.
    pub model_name: String,
    /// Port on 127.0.0.1.
    pub port: u16,
    /// Logical processors of the machine.
    pub cores: usize,
    /// A directory of this service, for records.
    pub work: PathBuf,
}

/// Where the program of an engine comes from.
#[derive(Debug, Clone, PartialEq)]
pub enum Program {
    /// A program by name or path.
    Named(String),
    /// A script run by the interpreter of an environment.
    Script {
        /// The environment's node.
        environment: Input,
        /// The package that holds the engine.
        package: String,
        /// The script's node.
        script: Input,
    },
}

/// What a served file says of itself.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct FileFacts {
    /// Facts of its header, by name.
    pub facts: BTreeMap<String, String>,
    /// Signs of draft artifacts or speculation inside it.
    pub speculative_markers: Vec<String>,
}

/// What an engine says of itself, read from its own endpoints.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Identity {
    /// The model name it serves, as it reports it.
    pub model_name: Option<String>,
    /// Settings asked for beside what it reports.
    pub settings: Vec<Setting>,
    /// What it reported, without private paths and templates.
    pub reported: Value,
}

/// A serving engine.
pub trait Engine: Send + Sync {
    /// The adapter's name, as plans write it.
    fn name(&self) -> &'static str;

    /// The settings without what only names a place on one machine.
    fn portable_settings(&self) -> Value;

    /// What the engine can do.
    fn capabilities(&self) -> Capabilities;

    /// Where the program comes from.
    fn program(&self) -> Program;

    /// The whole command line.
    fn command(&self, launch: &Launch) -> Vec<String>;

    /// The path that answers 200 once the engine is ready.
    fn readiness_path(&self) -> &'static str;

    /// The paths whose JSON answers [`Engine::identity`] reads, in order.
    fn identity_paths(&self) -> &'static [&'static str];

    /// Reads the answers of [`Engine::identity_paths`].
    fn identity(&self, answers: &[Value]) -> Identity;

    /// The path that tokenises `{"content": text}`, if there is one.
    fn tokenize_path(&self) -> Option<&'static str> {
        None
    }

    /// The path of its Prometheus metrics.
    fn metrics_path(&self) -> &'static str {
        "/metrics"
    }

    /// Counters that only move when drafts are verified, by their names in
    /// the metrics.
    fn draft_counters(&self) -> &'static [&'static str] {
        &[]
    }

    /// Fields that every request to this engine carries.
    fn request_fields(&self) -> BTreeMap<String, Value>;

    /// Reads what the engine puts into an answer about itself, from the
    /// answer's last JSON object. The error says what is wrong with it.
    fn answer_fields(&self, _last: &Value) -> Result<Option<EngineFields>, String> {
        Ok(None)
    }

    /// Reads the server's own records, and where they are not whole.
    fn read_records(&self, _path: &Path) -> Result<(Vec<ServerRecord>, Vec<ExportFault>), ReadError> {
        Ok((Vec::new(), Vec::new()))
    }

    /// The records file below the launch's work directory, if it writes one.
    fn records_file(&self) -> Option<&'static str> {
        None
    }

    /// Ways of speculation the engine offers.
    fn speculation_modes(&self) -> &'static [&'static str];

    /// The drafter the settings ask for, in one phrase.
    fn configured_speculation(&self) -> Option<String>;

    /// Reads what the served file says of itself. The error says what is wrong
    /// with the file.
    fn read_file(&self, model: &Path) -> Result<FileFacts, String>;

    /// Writes the tokenizer that the served file holds into a directory;
    /// `false` where the file holds none.
    fn write_tokenizer(&self, _model: &Path, _into: &Path) -> Result<bool, String> {
        Ok(false)
    }

    /// Directories of libraries that the program loads, beside its own.
    fn library_dirs(&self) -> Vec<PathBuf> {
        Vec::new()
    }

    /// Settings as asked for by the plan, beside what the served file holds.
    fn file_settings(&self, facts: &BTreeMap<String, String>) -> Vec<Setting>;

    /// Largest number of tokens of prompt and answer together.
    fn context_limit(&self) -> u32;

    /// Requests at the same time beyond which the engine refuses; nothing
    /// where it lets them wait.
    fn most_concurrent(&self) -> Option<u32> {
        None
    }
}
