//! The shape of plan and target files: the types behind the JSON Schemas.

use std::borrow::Cow;
use std::collections::BTreeMap;

use indexmap::IndexMap;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::IgnoredAny;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Map, Value, json};

use crate::evidence::mode::Mode;
use crate::evidence::quiet::Limits;
use crate::host::Requirement;
use crate::node;
use crate::value::{Duration, Input};

/// The newest version of the plan language that this program reads.
pub const LANGUAGE: u32 = 1;

/// A plan: one stage.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PlanDocument {
    /// Version of the plan language, now 1.
    pub orchestrate: u32,
    /// Short name; it appears in subjects, reports and file names.
    pub name: String,
    /// What the plan is for, for the head of its reports.
    #[serde(default)]
    pub description: String,
    /// Values that `${params.NAME}` stands for.
    #[serde(default)]
    pub params: IndexMap<String, ParamDocument>,
    /// Fragment files whose nodes become nodes of this plan.
    #[serde(default)]
    pub include: Vec<IncludeDocument>,
    /// Target files, relative to this one; the plan sweeps over them.
    #[serde(default)]
    pub targets: Vec<String>,
    /// Values that `${sweep.NAME}` takes in turn: every node that refers to
    /// one, directly or through other nodes, becomes an instance for each.
    #[serde(default)]
    pub sweep: Option<SweepDocument>,
    /// Tokens beside `cpu` and `gpu` that nodes take by `resources`, such as
    /// licences or a shared device, with how many there are.
    #[serde(default)]
    pub resources: BTreeMap<String, u32>,
    /// The nodes by name. A node that refers to a node of the targets, or to
    /// `${target.…}`, becomes one instance per target.
    pub nodes: IndexMap<String, NodeDocument>,
    /// What is qualified, by name: the nodes that each subject stands on.
    #[serde(default)]
    pub subjects: IndexMap<String, SubjectDocument>,
}

/// A target: what is served, and how.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TargetDocument {
    /// Version of the plan language, now 1.
    pub orchestrate: u32,
    /// Short name; it appears in instance names.
    pub target: String,
    /// What the target is.
    #[serde(default)]
    pub description: String,
    /// Facts for the matrix and for `${target.NAME}`, such as model and family.
    #[serde(default)]
    pub about: BTreeMap<String, String>,
    /// What the machine must have; where it is missing, the target's nodes
    /// are not run and its subjects stay planned.
    #[serde(default)]
    pub requires: Vec<Requirement>,
    /// Values that `${params.NAME}` stands for inside this file.
    #[serde(default)]
    pub params: IndexMap<String, ParamDocument>,
    /// Fragment files whose nodes become nodes of this target.
    #[serde(default)]
    pub include: Vec<IncludeDocument>,
    /// The nodes by name.
    pub nodes: IndexMap<String, NodeDocument>,
}

/// A fragment: nodes that plans and targets include.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FragmentDocument {
    /// Version of the plan language, now 1.
    pub orchestrate: u32,
    /// Short name, for messages.
    pub fragment: String,
    /// What the fragment is for.
    #[serde(default)]
    pub description: String,
    /// Values that `${params.NAME}` stands for inside this file; the file
    /// that includes it gives them by `with:`.
    #[serde(default)]
    pub params: IndexMap<String, ParamDocument>,
    /// Further fragment files.
    #[serde(default)]
    pub include: Vec<IncludeDocument>,
    /// The nodes by name.
    pub nodes: IndexMap<String, NodeDocument>,
}

/// The nodes that a subject stands on.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SubjectDocument {
    /// Runtime mode, stated in every report.
    pub mode: Mode,
    /// Share of measured requests that may fail, from 0 to 1.
    #[serde(default)]
    pub error_limit: f64,
    /// The machine it runs on.
    pub host: Input,
    /// The client that drives it.
    pub client: Input,
    /// The pinned corpus.
    pub corpus: Input,
    /// What is served.
    pub bundle: Input,
    /// The family's own checks.
    pub validation: Input,
    /// The server.
    pub server: Input,
    /// The warmup.
    pub warmup: Input,
    /// The AIPerf run.
    pub load: Input,
    /// The correlation of that run.
    pub correlation: Input,
    /// The capability audit.
    pub audit: Input,
}

impl SubjectDocument {
    /// The nodes by role, in the order they are shown.
    #[must_use]
    pub fn roles(&self) -> [(&'static str, &Input); 10] {
        [
            ("host", &self.host),
            ("client", &self.client),
            ("corpus", &self.corpus),
            ("bundle", &self.bundle),
            ("validation", &self.validation),
            ("server", &self.server),
            ("warmup", &self.warmup),
            ("load", &self.load),
            ("correlation", &self.correlation),
            ("audit", &self.audit),
        ]
    }
}

/// The settings every node has, beside its kind.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CommonSettings {
    /// Nodes that must succeed before this one although no data flows.
    #[serde(default)]
    pub needs: Vec<String>,
    /// How long the node may take in all.
    #[serde(default)]
    pub timeout: Option<Duration>,
    /// How old a measurement may be and still be reused; without it, any age.
    #[serde(default)]
    pub max_age: Option<Duration>,
    /// How often the node is tried again after it failed; without it, never.
    #[serde(default)]
    pub retry: Option<Retry>,
    /// What the node takes while it runs: `cpu`, `gpu`, or a token that the
    /// plan names. A service has it from its start to its stop.
    #[serde(default)]
    pub resources: BTreeMap<String, u32>,
    /// How quiet the machine has to be while the node measures, and what
    /// becomes of a measurement on a busy one. Nothing of it is in the key.
    #[serde(default)]
    pub quiet: Option<QuietSettings>,
    /// Values that `${sweep.NAME}` takes in turn: the node, and every node
    /// that refers to it, becomes an instance for each.
    #[serde(default)]
    pub sweep: Option<SweepDocument>,
}

/// How a node that failed is tried again. Every attempt is recorded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Retry {
    /// How many attempts may follow the first.
    pub times: u32,
    /// How long is waited before the second attempt; twice as long before each
    /// further one, ten minutes at most.
    #[serde(default = "one_second")]
    pub wait: Duration,
}

const LONGEST_WAIT: std::time::Duration = std::time::Duration::from_secs(600);

impl Retry {
    /// How long is waited after an attempt that failed, counted from 1; none
    /// where it was the last.
    #[must_use]
    pub fn wait_after(&self, attempt: u32) -> Option<std::time::Duration> {
        let doubled = 2_u32.saturating_pow(attempt.saturating_sub(1));
        (attempt <= self.times).then(|| self.wait.as_std().saturating_mul(doubled).min(LONGEST_WAIT))
    }
}

fn one_second() -> Duration {
    Duration::from_secs(1)
}

/// When a machine is busy, and what a measurement does then.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct QuietSettings {
    /// Share of all cores that programs outside this run may use, from 0 to 1;
    /// without it 0.1.
    #[serde(default)]
    pub others_below: Option<f64>,
    /// Share of the time that the host of a virtual machine may take, from 0
    /// to 1; without it 0.05.
    #[serde(default)]
    pub steal_below: Option<f64>,
    /// Load average over one minute before the node starts; without it any.
    #[serde(default)]
    pub load_below: Option<f64>,
    /// What becomes of a measurement on a busy machine.
    #[serde(default)]
    pub on_busy: OnBusy,
    /// How long the node waits for a quiet machine before it is refused;
    /// without it not at all.
    #[serde(default)]
    pub wait: Option<Duration>,
}

/// What becomes of a measurement on a busy machine.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum OnBusy {
    /// It counts, and everything that shows it says `busy` and why.
    #[default]
    Flag,
    /// The node fails: before it starts, or after it when the machine became
    /// busy meanwhile. An earlier result from a busy machine is not reused.
    Refuse,
}

impl QuietSettings {
    /// Up to what a machine counts as quiet.
    #[must_use]
    pub fn limits(&self) -> Limits {
        let usual = Limits::default();
        Limits {
            others_below: self.others_below.unwrap_or(usual.others_below),
            steal_below: self.steal_below.unwrap_or(usual.steal_below),
            load_below: self.load_below,
        }
    }

    /// Whether a measurement on a busy machine does not count.
    #[must_use]
    pub fn refuses(&self) -> bool {
        self.on_busy == OnBusy::Refuse
    }
}

/// A parameter: a plain default, or a declaration.
#[derive(Debug, Clone)]
pub struct ParamDocument;

/// A node: its kind as a key with the kind's settings, beside the settings
/// every node has.
#[derive(Debug, Clone)]
pub struct NodeDocument;

/// A fragment file, relative to the file that includes it, and values for its
/// parameters.
#[derive(Debug, Clone)]
pub struct IncludeDocument;

/// Names with the values they take in turn: `grid` combines every value with
/// every other, `zip` takes the first of each, then the second of each.
#[derive(Debug, Clone)]
pub struct SweepDocument;

macro_rules! read_after_resolution {
    ($($type:ident),*) => {
        $(impl<'de> Deserialize<'de> for $type {
            /// Accepts anything: it is read once its references are resolved.
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                IgnoredAny::deserialize(deserializer).map(|_| Self)
            }
        })*
    };
}

read_after_resolution!(ParamDocument, NodeDocument, IncludeDocument, SweepDocument);

impl JsonSchema for ParamDocument {
    fn schema_name() -> Cow<'static, str> {
        "Parameter".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let scalar = json!(["string", "number", "boolean"]);
        json_schema!({
            "description": "A default value, or a declaration.",
            "anyOf": [
                {"type": scalar},
                {
                    "type": "object",
                    "properties": {
                        "default": {"type": scalar, "description": "the value, which also gives the type"},
                        "type": {"enum": ["text", "integer", "number", "boolean"], "description": "the type; without a default, a value has to be given"},
                        "description": {"type": "string", "description": "what it is for"},
                        "choices": {"type": "array", "items": {"type": scalar}, "description": "the values allowed"},
                    },
                    "additionalProperties": false,
                }
            ]
        })
    }
}

impl JsonSchema for IncludeDocument {
    fn schema_name() -> Cow<'static, str> {
        "Include".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "A fragment file, or a file with values for its parameters.",
            "anyOf": [
                {"type": "string", "description": "the file, relative to this one"},
                {
                    "type": "object",
                    "properties": {
                        "file": {"type": "string", "description": "the file, relative to this one"},
                        "with": {
                            "type": "object",
                            "description": "values of the fragment's parameters, which may be references such as `${params.NAME}` of this file",
                            "additionalProperties": {"type": ["string", "number", "boolean"]},
                        },
                    },
                    "required": ["file"],
                    "additionalProperties": false,
                }
            ]
        })
    }
}

impl JsonSchema for SweepDocument {
    fn schema_name() -> Cow<'static, str> {
        "Sweep".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let axes = |description: &str| {
            json!({
                "type": "object",
                "description": description,
                "minProperties": 1,
                "additionalProperties": {
                    "description": "the values in turn, as a list, or by the names that instances are called by",
                    "anyOf": [
                        {"type": "array", "items": {"type": ["string", "number", "boolean"]}, "minItems": 1},
                        {"type": "object", "minProperties": 1},
                    ],
                },
            })
        };
        json_schema!({
            "type": "object",
            "description": "Names with the values that `${sweep.NAME}` takes in turn.",
            "properties": {
                "grid": axes("every value with every value of the others; a value may be a reference to a parameter"),
                "zip": axes("the first value of each, then the second of each; all have as many"),
            },
            "additionalProperties": false,
            "minProperties": 1,
        })
    }
}

impl JsonSchema for NodeDocument {
    fn schema_name() -> Cow<'static, str> {
        "Node".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let common = CommonSettings::json_schema(generator).to_value();
        let mut properties: Map<String, Value> =
            common["properties"].as_object().cloned().unwrap_or_default();
        let mut one_kind = Vec::new();
        for (kind, schema) in node::settings_schemas(generator) {
            one_kind.push(json!({"required": [kind]}));
            properties.insert(kind.to_owned(), schema.to_value());
        }
        json_schema!({
            "type": "object",
            "description": "One kind with its settings, beside the settings every node has.",
            "properties": properties,
            "additionalProperties": false,
            "oneOf": one_kind,
        })
    }
}
