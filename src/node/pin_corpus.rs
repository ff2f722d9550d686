//! Gets a corpus and pins a selection of its rows.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::settings::{Unfit, Wanted, unfit_sources};
use super::source::{Acquired, Source, acquire, key_of};
use super::{Artifact, Class, Context, Failure, Node, Produced, to_value};
use crate::corpus::{self, ContextBudget, Fit, Format, Manifest, PinnedForm, Select, Selection, Tokenizer};
use crate::evidence::bundle::Bundle;
use crate::value::Input;

/// Gets a corpus from the first source that answers, checks its digest, and
/// pins the exact text of the selected rows.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PinCorpus {
    /// The format of the source file.
    pub format: Format,
    /// Where it can come from; the first source that answers is taken.
    pub sources: Vec<Source>,
    /// Repository, commit or dataset revision the file belongs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revision: Option<String>,
    /// Licence of the corpus, as an SPDX identifier where it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub licence: Option<String>,
    /// Which rows and turns are pinned.
    #[serde(default)]
    pub select: Select,
    /// The form in which AIPerf reads the pinned rows; the `dataset` of the
    /// load.
    pub written_as: PinnedForm,
    /// The context that the rows have to fit; without it none is checked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context: Option<ContextLimit>,
    /// The digest the selection must have, if the plan insists on it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub selection_digest: Option<crate::value::Digest>,
}

/// The context that rows have to fit, counted with the model's own tokenizer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ContextLimit {
    /// The bundle whose tokenizer and context length count.
    pub bundle: Input,
    /// Most tokens of one answer, which the context has to hold beside the
    /// prompt, once for each turn of a row; the `max_tokens` of the load.
    #[schemars(extend("x-unit" = "tokens"))]
    pub reserved_output_tokens: u32,
    /// Tokens that the chat template puts around each message.
    #[serde(default = "tokens_per_message")]
    #[schemars(extend("x-unit" = "tokens"))]
    pub template_tokens_per_message: u32,
    /// Tokens that the chat template adds once, such as a system message.
    #[serde(default)]
    #[schemars(extend("x-unit" = "tokens"))]
    pub template_tokens_once: u32,
    /// What happens when a row does not fit.
    #[serde(default)]
    pub too_long: TooLong,
}

/// What happens when a row does not fit the context.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum TooLong {
    /// The node fails and lists the rows.
    #[default]
    Fail,
    /// The rows are left out and listed in the manifest.
    Exclude,
}

fn tokens_per_message() -> u32 {
    8
}

impl Node for PinCorpus {
    const KIND: &'static str = "pin_corpus";
    const VERSION: u32 = 1;
    const CLASS: Class = Class::Content;
    const OUTPUTS: &'static [(&'static str, &'static str)] = &[("file", "the path of the pinned rows")];
    const EXAMPLE: &'static str = "\
corpus:
  pin_corpus:
    format: spec_bench
    sources: [{path: questions.jsonl}]
    select: {categories: [writing, math], per_category: 2, seed: 20261130, turns: first}
    written_as: spec_bench
    context: {bundle: '${nodes.bundle}', reserved_output_tokens: 48, too_long: exclude}
";
    type Evidence = Manifest;

    fn key_settings(&self, context: &Context) -> Result<Value, Failure> {
        let mut settings = to_value(self)?;
        settings["sources"] = key_of(&self.sources, context);
        Ok(settings)
    }

    fn unfit(&self) -> Vec<Unfit> {
        let mut unfit = unfit_sources(&self.sources);
        if let Err(reason) = self.select.check() {
            let reason = reason.to_string();
            let (message, help) = reason.split_once("; ").unwrap_or((&reason, "see plans/README.md"));
            let message = format!("the selection cannot be made: {message}");
            unfit.push(Unfit::new("select", message, help));
        }
        unfit
    }

    fn wanted(&self) -> Vec<Wanted<'_>> {
        self.context
            .iter()
            .map(|limit| Wanted::new("context.bundle", &limit.bundle, "build_bundle"))
            .collect()
    }

    async fn execute(&self, context: &Context) -> Result<Produced, Failure> {
        let acquired = acquire(&self.sources, context).await?;
        let unusable = |what: String| {
            Failure::environment(format!("the corpus from {} cannot be used: {what}", acquired.source))
        };
        let bytes = std::fs::read(&acquired.path).map_err(|error| unusable(error.to_string()))?;
        let rows = corpus::parse(self.format, &bytes).map_err(|error| unusable(error.to_string()))?;
        let selection = corpus::select(&rows, &self.select).map_err(|error| unusable(error.to_string()))?;
        let (selection, fit) = match &self.context {
            Some(limit) => limit.apply(selection, context)?,
            None => (selection, None),
        };
        let pinned = corpus::write_rows(self.written_as, selection.rows())
            .map_err(|error| unusable(error.to_string()))?;
        let mut manifest = self.manifest(&acquired, &selection);
        if let Some(fit) = &fit {
            manifest = manifest.with_fit(fit);
        }
        if let Some(expected) = self.selection_digest.filter(|digest| *digest != manifest.selection_digest) {
            return Err(Failure::environment(format!(
                "the selection has the digest {}, the plan states {expected}; the selection or the corpus \
                 changed: correct one of them in the plan",
                manifest.selection_digest
            )));
        }
        let digest = context.store().put_bytes(&pinned)?;
        let name = format!("{}.jsonl", to_value(&self.format)?.as_str().unwrap_or("corpus"));
        Produced::new(&manifest, [("file", Artifact::File { name, digest })])
    }
}

impl PinCorpus {
    fn manifest(&self, acquired: &Acquired, selection: &Selection) -> Manifest {
        let source = corpus::Source {
            name: acquired.source.clone(),
            which: acquired.which,
            sha256: acquired.sha256,
            bytes: acquired.bytes,
            passed_over: acquired.passed_over.clone(),
        };
        let mut manifest = Manifest::new(self.format, source, &self.select, selection, self.written_as);
        manifest.revision.clone_from(&self.revision);
        manifest.licence.clone_from(&self.licence);
        manifest
    }
}

impl ContextLimit {
    /// Checks every selected row against the context; rows that do not fit
    /// are listed, never dropped in silence.
    fn apply(&self, selection: Selection, context: &Context) -> Result<(Selection, Option<Fit>), Failure> {
        let bundle: Bundle = context.evidence(&self.bundle)?;
        let served = bundle.context_limit.ok_or_else(|| {
            Failure::environment("the bundle states no context length, so rows cannot be checked against it")
        })?;
        let tokenizer = context.artifact(&self.bundle, "tokenizer")?;
        let reference = crate::value::Reference {
            node: self.bundle.0.node.clone(),
            output: Some("tokenizer".to_owned()),
        };
        let directory = context.path_of(&reference, tokenizer)?;
        let unusable = |error: corpus::TokenizerError| Failure::environment(error.to_string());
        let tokenizer = Tokenizer::open(&directory).map_err(unusable)?;
        let budget = ContextBudget {
            limit: served,
            reserved_output_tokens: self.reserved_output_tokens,
            per_message_overhead: self.template_tokens_per_message,
            per_conversation_overhead: self.template_tokens_once,
        };
        let fit = corpus::fit(selection.rows(), &tokenizer, budget).map_err(unusable)?;
        if fit.too_long.is_empty() {
            return Ok((selection, Some(fit)));
        }
        let listed: Vec<_> =
            fit.too_long.iter().map(|row| format!("{} needs {} tokens", row.id, row.needed)).collect();
        match self.too_long {
            TooLong::Fail => Err(Failure::environment(format!(
                "{} of the selected rows do not fit the context of {served} tokens ({}); select shorter rows, \
                 or set too_long: exclude",
                listed.len(),
                listed.join(", ")
            ))),
            TooLong::Exclude => Ok((selection.without(fit.excluded()), Some(fit))),
        }
    }
}
