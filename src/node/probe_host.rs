//! Finds out what the machine is.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{Artifact, Class, Context, Failure, Node, Produced};
use crate::evidence::host::Host;
use crate::host;

/// Finds out what the machine is: processor, memory, kernel, accelerators.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ProbeHost {}

impl Node for ProbeHost {
    const KIND: &'static str = "probe_host";
    const VERSION: u32 = 1;
    const CLASS: Class = Class::Measurement;
    const OUTPUTS: &'static [(&'static str, &'static str)] =
        &[("fingerprint", "the digest that stands for this machine")];
    const EXAMPLE: &'static str = "\
host:
  probe_host: {}
";
    type Evidence = Host;

    fn key_settings(&self, context: &Context) -> Result<Value, Failure> {
        let host = &context.world.host;
        Ok(json!({"os": host.os, "programs": host.programs, "memory_limit": host.cgroup_memory_limit_bytes}))
    }

    async fn execute(&self, context: &Context) -> Result<Produced, Failure> {
        let host = host::probe(&context.world.variables).await;
        Produced::new(&host, [("fingerprint", Artifact::Value(host.fingerprint.to_string()))])
    }
}
