//! Runs an engine's own server while other nodes need it: starts it, has it
//! prove that it is ours, watches it, and stops it with proof that nothing of
//! it is left.

mod environment;
mod life;
mod proof;
mod running;
mod socket;
mod start;
mod teardown;

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

pub use running::{RunningService, Stopped};
pub use socket::Socket;

use super::settings::{Unfit, Wanted};
use super::{Class, Context, Failure, Node, Produced, to_value};
use crate::evidence::service::Service;
use crate::value::{Input, Text, duration};

/// Starts the engine's own server on a bundle when a node needs it, proves
/// that it is ours, and stops it after the last node that needs it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Serve {
    /// The bundle to serve.
    pub bundle: Input,
    /// The model name that clients use.
    pub model_name: String,
    /// A fixed port on 127.0.0.1; 0 chooses a free one.
    #[serde(default)]
    pub port: u16,
    /// Variables set for the server, such as `CUDA_VISIBLE_DEVICES`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub environment: BTreeMap<String, Text>,
    /// How long a server that loads may give no sign of life before it is
    /// given up. Signs are that its log grows, that it reads, and that it uses
    /// at least a twentieth of a processor.
    #[serde(default = "one_minute")]
    pub silent_for: duration::Duration,
    /// How long the server may take to become ready in all, however lively it
    /// loads. A server that hangs is found by `silent_for`, one that died at
    /// once.
    #[serde(default = "half_an_hour")]
    pub ready_within: duration::Duration,
    /// How often in a run the server is started again after it died while a
    /// node used it. What primed it runs again, and the node starts over as a
    /// new attempt.
    #[serde(default)]
    #[schemars(extend("x-unit" = "times"))]
    pub restart: u32,
}

fn one_minute() -> duration::Duration {
    duration::Duration::from_secs(60)
}

fn half_an_hour() -> duration::Duration {
    duration::Duration::from_secs(30 * 60)
}

impl Node for Serve {
    const KIND: &'static str = "serve";
    const VERSION: u32 = 1;
    const CLASS: Class = Class::Service;
    const OUTPUTS: &'static [(&'static str, &'static str)] = &[
        ("url", "where it answers, such as `http://127.0.0.1:8080`"),
        ("model_name", "the model name that clients use"),
    ];
    const EXAMPLE: &'static str = "\
server:
  serve:
    bundle: ${nodes.bundle}
    model_name: smollm2-135m-instruct
    restart: 1
";
    type Evidence = Service;

    fn key_settings(&self, _: &Context) -> Result<Value, Failure> {
        let mut settings = to_value(self)?;
        if let Some(settings) = settings.as_object_mut() {
            for how_not_what in ["port", "silent_for", "ready_within", "restart"] {
                settings.remove(how_not_what);
            }
        }
        Ok(settings)
    }

    fn unfit(&self) -> Vec<Unfit> {
        let limits = [("silent_for", self.silent_for), ("ready_within", self.ready_within)];
        let none = limits.into_iter().filter(|(_, limit)| limit.as_std().is_zero());
        none.map(|(name, _)| Unfit::new(name, format!("`{name}` is no time at all"), "write 1s or more"))
            .collect()
    }

    fn wanted(&self) -> Vec<Wanted<'_>> {
        vec![Wanted::new("bundle", &self.bundle, "build_bundle")]
    }

    async fn execute(&self, _: &Context) -> Result<Produced, Failure> {
        Err(Failure::failed("a service is started, not executed"))
    }
}
