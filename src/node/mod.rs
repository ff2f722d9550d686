//! Node kinds: one file each, with its settings and what it does.
//!
//! A node gets a [`Context`] and nothing else; it knows neither the plan's
//! text nor the order in which nodes run. To add a kind, write its file and
//! add it to the list below.

mod aiperf;
mod audit_speculation;
mod build_bundle;
mod context;
mod correlate;
mod failure;
mod fetch;
mod pin_corpus;
mod probe_host;
mod python_env;
mod render_matrix;
mod run;
mod serve;
mod settings;
mod source;
mod subject;
mod uv;
mod validate;
mod warmup;

use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::pin::Pin;

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;

pub use aiperf::{Aiperf, Dataset};
pub use context::{Context, Deadline, GRACE, InputRecord, LiveService, Programs, SubjectInputs, World};
pub use failure::{Failure, FailureKind};
pub use pin_corpus::PinCorpus;
pub use serve::{RunningService, Serve, Socket, Stopped};
pub use settings::{Unfit, Wanted};
pub use subject::SubjectRecord;

use crate::value::{Digest, Reference, reference};

/// How a result may be reused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Class {
    /// The same inputs give the same result: reused for ever.
    Content,
    /// Reused on the same machine only.
    Measurement,
    /// A measurement that prepares a running server: reused only while
    /// nothing else needs that server.
    Priming,
    /// Has a lifetime and is never stored.
    Service,
}

impl Class {
    /// Whether a result is what one machine showed at one time.
    #[must_use]
    pub fn is_measured(self) -> bool {
        matches!(self, Self::Measurement | Self::Priming)
    }
}

/// Something a node produced.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Artifact {
    /// A file in the store.
    File {
        /// Its name for people and programs.
        name: String,
        /// Its content.
        digest: Digest,
    },
    /// A directory in the store.
    Tree(Digest),
    /// A Python environment in the store.
    Environment(Digest),
    /// A small value.
    Value(String),
}

/// What a node leaves: outputs by name and one evidence document.
#[derive(Debug, Clone)]
pub struct Produced {
    /// Outputs by name.
    pub outputs: BTreeMap<String, Artifact>,
    /// The evidence document.
    pub evidence: Value,
}

impl Produced {
    /// Puts outputs and evidence together.
    pub fn new<const N: usize>(
        evidence: &impl Serialize,
        outputs: [(&str, Artifact); N],
    ) -> Result<Self, Failure> {
        let evidence = serde_json::to_value(evidence)
            .map_err(|error| Failure::failed(format!("the evidence cannot be written: {error}")))?;
        let outputs = outputs.into_iter().map(|(name, artifact)| (name.to_owned(), artifact)).collect();
        Ok(Self { outputs, evidence })
    }
}

/// A node kind: its settings, and what it does with them.
pub trait Node: Serialize + DeserializeOwned + JsonSchema + Clone + Send + Sync {
    /// The name plans use.
    const KIND: &'static str;
    /// Counts up when the same settings would give another result.
    const VERSION: u32;
    /// How a result may be reused, unless the settings say otherwise.
    const CLASS: Class;
    /// The outputs other nodes may refer to: name, and what it stands for.
    const OUTPUTS: &'static [(&'static str, &'static str)];
    /// The setting whose keys are the names of further outputs.
    const NAMES_OUTPUTS: Option<&'static str> = None;
    /// Whether it reads nothing of other nodes but the outputs that its
    /// settings name, so that their other outputs may change.
    const READS_ONLY_NAMED_OUTPUTS: bool = false;
    /// A node of this kind as a plan writes it, for the reference. The
    /// examples of all kinds together are one plan.
    const EXAMPLE: &'static str;
    /// The evidence document it writes.
    type Evidence: JsonSchema;

    /// The settings as they enter the key: without what only names a place,
    /// with the content of what the settings name.
    fn key_settings(&self, _context: &Context) -> Result<Value, Failure> {
        to_value(self)
    }

    /// How a result may be reused.
    fn class(&self) -> Class {
        Self::CLASS
    }

    /// Whether it leaves something that other nodes may refer to.
    fn makes_outputs(&self) -> bool {
        !Self::OUTPUTS.is_empty()
    }

    /// Whether it reads every subject of the plan, finished or not.
    fn reads_subjects(&self) -> bool {
        false
    }

    /// Whether a node of this kind is a measurement that nothing may disturb.
    fn is_quiet(&self) -> bool {
        false
    }

    /// What is wrong with the settings by themselves.
    fn unfit(&self) -> Vec<Unfit> {
        Vec::new()
    }

    /// The references of the settings that need a node of a certain kind.
    fn wanted(&self) -> Vec<Wanted<'_>> {
        Vec::new()
    }

    /// Does the work.
    fn execute(&self, context: &Context) -> impl Future<Output = Result<Produced, Failure>> + Send;
}

/// Settings as JSON.
fn to_value(settings: &impl Serialize) -> Result<Value, Failure> {
    serde_json::to_value(settings)
        .map_err(|error| Failure::failed(format!("the settings cannot be written: {error}")))
}

/// What a reader of plans wants to know of a kind, beside its settings.
#[derive(Debug, Clone, Copy)]
pub struct KindFacts {
    /// The name plans use.
    pub name: &'static str,
    /// How a result may be reused.
    pub class: Class,
    /// Outputs by name, with what each stands for.
    pub outputs: &'static [(&'static str, &'static str)],
    /// The setting whose keys are the names of further outputs.
    pub names_outputs: Option<&'static str>,
    /// A node of the kind as a plan writes it.
    pub example: &'static str,
}

/// The names of outputs.
const fn names<const N: usize>(outputs: &[(&'static str, &'static str)]) -> [&'static str; N] {
    let mut names = [""; N];
    let mut at = 0;
    while at < N {
        names[at] = outputs[at].0;
        at += 1;
    }
    names
}

type Work<'a> = Pin<Box<dyn Future<Output = Result<Produced, Failure>> + Send + 'a>>;

macro_rules! kinds {
    ($($(#[$doc:meta])* $kind:ident($settings:ty) = $name:literal),* $(,)?) => {
        /// A node's kind and its settings.
        #[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
        #[serde(rename_all = "snake_case")]
        pub enum Kind {
            $($(#[$doc])* $kind($settings)),*
        }

        /// The names of all kinds, as plans use them.
        pub const KINDS: &[&str] = &[$($name),*];

        impl Kind {
            /// The kind's name.
            #[must_use]
            pub fn name(&self) -> &'static str {
                match self { $(Self::$kind(_) => <$settings as Node>::KIND),* }
            }

            /// How a result may be reused.
            #[must_use]
            pub fn class(&self) -> Class {
                match self { $(Self::$kind(settings) => settings.class()),* }
            }

            /// See [`Node::makes_outputs`].
            #[must_use]
            pub fn makes_outputs(&self) -> bool {
                match self { $(Self::$kind(settings) => settings.makes_outputs()),* }
            }

            /// See [`Node::reads_subjects`].
            #[must_use]
            pub fn reads_subjects(&self) -> bool {
                match self { $(Self::$kind(settings) => settings.reads_subjects()),* }
            }

            /// See [`Node::is_quiet`].
            #[must_use]
            pub fn is_quiet(&self) -> bool {
                match self { $(Self::$kind(settings) => settings.is_quiet()),* }
            }

            /// See [`Node::unfit`].
            #[must_use]
            pub fn unfit(&self) -> Vec<Unfit> {
                match self { $(Self::$kind(settings) => settings.unfit()),* }
            }

            /// See [`Node::wanted`].
            #[must_use]
            pub fn wanted(&self) -> Vec<Wanted<'_>> {
                match self { $(Self::$kind(settings) => settings.wanted()),* }
            }

            /// Kind, version and settings as they enter the key.
            pub fn key_document(&self, context: &Context) -> Result<Value, Failure> {
                let (version, settings) = match self {
                    $(Self::$kind(settings) => (<$settings as Node>::VERSION, settings.key_settings(context)?)),*
                };
                Ok(serde_json::json!({"kind": self.name(), "version": version, "settings": settings}))
            }

            /// Does the node's work.
            #[must_use]
            pub fn execute<'a>(&'a self, context: &'a Context) -> Work<'a> {
                match self { $(Self::$kind(settings) => Box::pin(settings.execute(context))),* }
            }

            /// Everything the settings refer to, in the order it is written.
            #[must_use]
            pub fn references(&self) -> Vec<Reference> {
                let settings = match self { $(Self::$kind(settings) => serde_json::to_value(settings)),* };
                let mut references = Vec::new();
                collect_references(&settings.unwrap_or_default(), &mut references);
                references
            }
        }

        impl Kind {
            /// The outputs of a node that the settings name; nothing where
            /// more of that node may be read.
            #[must_use]
            pub fn outputs_read_of(&self, node: &str) -> Option<BTreeSet<String>> {
                let only = match self { $(Self::$kind(_) => <$settings as Node>::READS_ONLY_NAMED_OUTPUTS),* };
                let references = self.references().into_iter().filter(|reference| reference.node == node);
                only.then(|| references.map(|reference| reference.output).collect()).flatten()
            }
        }

        /// The outputs of a kind, by the kind's name.
        #[must_use]
        pub fn outputs_of(kind: &str) -> Option<&'static [&'static str]> {
            match kind {
                $($name => {
                    const NAMES: &[&str] =
                        &names::<{ <$settings as Node>::OUTPUTS.len() }>(<$settings as Node>::OUTPUTS);
                    Some(NAMES)
                })*
                _ => None,
            }
        }

        /// See [`Node::NAMES_OUTPUTS`], by the kind's name.
        #[must_use]
        pub fn setting_that_names_outputs(kind: &str) -> Option<&'static str> {
            match kind {
                $($name => <$settings as Node>::NAMES_OUTPUTS,)*
                _ => None,
            }
        }

        /// Every kind, in the order of the reference.
        pub const CATALOGUE: &[KindFacts] = &[$(KindFacts {
            name: $name,
            class: <$settings as Node>::CLASS,
            outputs: <$settings as Node>::OUTPUTS,
            names_outputs: <$settings as Node>::NAMES_OUTPUTS,
            example: <$settings as Node>::EXAMPLE,
        }),*];

        /// The JSON Schema of every kind's settings, by the kind's name.
        pub fn settings_schemas(generator: &mut SchemaGenerator) -> Vec<(&'static str, Schema)> {
            vec![$(($name, generator.subschema_for::<$settings>())),*]
        }

        /// The JSON Schema of every kind's evidence, by the kind's name.
        #[must_use]
        pub fn evidence_schemas() -> Vec<(&'static str, Schema)> {
            vec![$(($name, schemars::schema_for!(<$settings as Node>::Evidence))),*]
        }
    };
}

kinds! {
    /// Finds out what the machine is.
    ProbeHost(probe_host::ProbeHost) = "probe_host",
    /// Makes a Python environment from pinned requirements.
    PythonEnv(python_env::PythonEnv) = "python_env",
    /// Gets a file and checks its digest.
    Fetch(fetch::Fetch) = "fetch",
    /// Gets a corpus and pins a selection of its rows.
    PinCorpus(pin_corpus::PinCorpus) = "pin_corpus",
    /// Puts model, engine and engine settings together under one digest.
    BuildBundle(build_bundle::BuildBundle) = "build_bundle",
    /// Runs the family's own correctness checks on a bundle.
    Validate(validate::Validate) = "validate",
    /// Runs an engine's own server while other nodes need it.
    Serve(Serve) = "serve",
    /// Sends identified requests until the server is in its steady state.
    Warmup(warmup::Warmup) = "warmup",
    /// Runs published AIPerf against a server with a pinned corpus.
    Aiperf(aiperf::Aiperf) = "aiperf",
    /// Joins corpus, client records, payloads and engine fields by identity.
    Correlate(correlate::Correlate) = "correlate",
    /// Audits whether a run could speculate, and did.
    AuditSpeculation(audit_speculation::AuditSpeculation) = "audit_speculation",
    /// Runs any command with declared inputs and outputs.
    Run(run::Run) = "run",
    /// Renders the coverage matrix.
    RenderMatrix(render_matrix::RenderMatrix) = "render_matrix",
}

fn collect_references(value: &Value, references: &mut Vec<Reference>) {
    match value {
        Value::String(text) => {
            for piece in reference::pieces(text).unwrap_or_default() {
                if let reference::Piece::Reference(inner) = piece {
                    references.extend(Reference::parse(inner));
                }
            }
        }
        Value::Array(items) => items.iter().for_each(|item| collect_references(item, references)),
        Value::Object(map) => map.values().for_each(|value| collect_references(value, references)),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_of_kinds_agrees_with_the_kinds() {
        let mut generator = SchemaGenerator::default();
        let names: Vec<_> = settings_schemas(&mut generator).into_iter().map(|(name, _)| name).collect();
        assert_eq!(names, KINDS);
        let schema = schemars::schema_for!(Kind).to_value().to_string();
        for kind in KINDS {
            assert!(schema.contains(&format!("\"{kind}\"")), "{kind} is not the name serde uses");
        }
    }
}
