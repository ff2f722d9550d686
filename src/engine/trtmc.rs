//! NVIDIA TensorRT-Model-Connect: `trtmc-server` on one bundle.
//!
//! By the project's server documentation at commit
//! `0bccb5e93af0e5ad346aaf44e404396f54b2e7de`. It needs a GPU and its own
//! build; nothing here was run against it on a machine without one.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{
    AcceptanceSource, Capabilities, Engine, FileFacts, Identity, Launch, Program, trtmc_bundle, trtmc_records,
};
use crate::evidence::bundle::Setting;
use crate::evidence::request::{ExportFault, ServerRecord};
use crate::jsonl::ReadError;

/// Settings of a `trtmc-server`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Trtmc {
    /// The `trtmc-server` program, by name on PATH or by path.
    #[serde(default = "trtmc_server")]
    pub program: String,
    /// Directory of the runtime (`--runtime-root`).
    pub runtime_root: String,
    /// Precision the bundle was built for, such as `fp16`.
    pub precision: String,
    /// Tokens of prompt and answer the bundle was built for.
    #[schemars(extend("x-unit" = "tokens"))]
    pub max_sequence_length: u32,
    /// Workers; requests above this number are answered 429.
    #[serde(default = "one")]
    #[schemars(extend("x-unit" = "requests"))]
    pub replicas: u32,
    /// Whether chat requests let the model think; sent with every request.
    #[serde(default)]
    pub enable_thinking: bool,
}

fn trtmc_server() -> String {
    "trtmc-server".to_owned()
}

fn one() -> u32 {
    1
}

impl Engine for Trtmc {
    fn name(&self) -> &'static str {
        "trtmc"
    }

    fn portable_settings(&self) -> Value {
        json!({
            "precision": self.precision,
            "max_sequence_length": self.max_sequence_length,
            "replicas": self.replicas,
            "enable_thinking": self.enable_thinking,
        })
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            per_request_records: true,
            engine_call_time: true,
            usage_tokens: false,
            streaming: true,
            multi_turn: false,
            acceptance: AcceptanceSource::None,
            request_id_header: true,
            tokenize: false,
        }
    }

    fn program(&self) -> Program {
        Program::Named(self.program.clone())
    }

    fn command(&self, launch: &Launch) -> Vec<String> {
        let mut command = launch.program.clone();
        command.push(launch.model.display().to_string());
        let mut option = |name: &str, value: String| command.extend([name.to_owned(), value]);
        option("--model-name", launch.model_name.clone());
        option("--host", "127.0.0.1".to_owned());
        option("--port", launch.port.to_string());
        option("--runtime-root", self.runtime_root.clone());
        option("--replicas", self.replicas.to_string());
        option("--records", launch.work.join(RECORDS).display().to_string());
        command
    }

    fn readiness_path(&self) -> &'static str {
        "/health/ready"
    }

    fn identity_paths(&self) -> &'static [&'static str] {
        &["/v1/models", "/health/ready"]
    }

    fn identity(&self, answers: &[Value]) -> Identity {
        let model = answers.first().map(|models| models["data"][0].clone()).unwrap_or_default();
        let health = answers.get(1).cloned().unwrap_or_default();
        Identity {
            model_name: model["id"].as_str().map(str::to_owned),
            settings: vec![Setting::new(
                "degraded",
                Some("false".to_owned()),
                health["degraded"].as_bool().map(|degraded| degraded.to_string()),
                "GET /health/ready degraded",
            )],
            reported: json!({"id": model["id"], "trtmc": model["trtmc"], "health": health}),
        }
    }

    fn request_fields(&self) -> BTreeMap<String, Value> {
        BTreeMap::from([("enable_thinking".to_owned(), Value::Bool(self.enable_thinking))])
    }

    fn records_file(&self) -> Option<&'static str> {
        Some(RECORDS)
    }

    fn read_records(&self, path: &Path) -> Result<(Vec<ServerRecord>, Vec<ExportFault>), ReadError> {
        trtmc_records::read(path)
    }

    fn most_concurrent(&self) -> Option<u32> {
        Some(self.replicas)
    }

    fn speculation_modes(&self) -> &'static [&'static str] {
        &[]
    }

    fn configured_speculation(&self) -> Option<String> {
        None
    }

    fn read_file(&self, model: &Path) -> Result<FileFacts, String> {
        trtmc_bundle::read(model).map_err(|error| error.to_string())
    }

    fn library_dirs(&self) -> Vec<PathBuf> {
        vec![PathBuf::from(&self.runtime_root)]
    }

    fn file_settings(&self, facts: &BTreeMap<String, String>) -> Vec<Setting> {
        vec![
            Setting::new(
                "precision",
                Some(self.precision.clone()),
                facts.get("precision").cloned(),
                "precision in the bundle's runtime.json",
            ),
            Setting::new(
                "max_sequence_length",
                Some(self.max_sequence_length.to_string()),
                facts.get("max_cache_length").cloned(),
                "max_cache_length in the bundle's runtime.json",
            ),
        ]
    }

    fn context_limit(&self) -> u32 {
        self.max_sequence_length
    }
}

const RECORDS: &str = "records.jsonl";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_the_documented_one() {
        let settings = Trtmc {
            program: trtmc_server(),
            runtime_root: "/opt/trtmc".to_owned(),
            precision: "fp16".to_owned(),
            max_sequence_length: 256,
            replicas: 1,
            enable_thinking: false,
        };
        let launch = Launch {
            program: vec!["trtmc-server".to_owned()],
            model: "qwen3-0.6b-fp16.bundle".into(),
            model_name: "Qwen/Qwen3-0.6B".to_owned(),
            port: 8000,
            cores: 16,
            work: "w".into(),
        };
        assert_eq!(
            settings.command(&launch).join(" "),
            "trtmc-server qwen3-0.6b-fp16.bundle --model-name Qwen/Qwen3-0.6B --host 127.0.0.1 \
             --port 8000 --runtime-root /opt/trtmc --replicas 1 --records w/records.jsonl"
        );
        assert!(!settings.capabilities().usage_tokens);
        let facts = BTreeMap::from([
            ("precision".to_owned(), "bf16".to_owned()),
            ("max_cache_length".to_owned(), "256".to_owned()),
        ]);
        let different: Vec<_> =
            settings.file_settings(&facts).iter().filter(|s| s.differs()).map(Setting::sentence).collect();
        assert_eq!(
            different,
            ["precision: asked for fp16, precision in the bundle's runtime.json shows bf16"]
        );
    }
}
