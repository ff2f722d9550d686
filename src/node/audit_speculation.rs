//! Audits whether a run could speculate, and did.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::settings::Wanted;
use super::{Artifact, Class, Context, Failure, InputRecord, Node, Produced};
use crate::engine::{AcceptanceSource, Engine};
use crate::evidence::audit::{Answer, Audit, Finding, Stage};
use crate::evidence::bundle::Bundle;
use crate::evidence::correlation::Correlation;
use crate::evidence::load::Load;
use crate::metrics;
use crate::store::TreeEntry;
use crate::value::Input;

/// Finds out, each by its own evidence, whether speculation was configured,
/// a drafter was loaded, drafts were verified, and decoding got faster by it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AuditSpeculation {
    /// The bundle that was served.
    pub bundle: Input,
    /// The load that ran against it.
    pub load: Input,
    /// The correlation of that load.
    pub correlation: Input,
}

impl Node for AuditSpeculation {
    const KIND: &'static str = "audit_speculation";
    const VERSION: u32 = 1;
    const CLASS: Class = Class::Content;
    const OUTPUTS: &'static [(&'static str, &'static str)] = &[];
    const EXAMPLE: &'static str = "\
audit:
  audit_speculation:
    bundle: ${nodes.bundle}
    load: ${nodes.load}
    correlation: ${nodes.correlate}
";
    type Evidence = Audit;

    fn wanted(&self) -> Vec<Wanted<'_>> {
        vec![
            Wanted::new("bundle", &self.bundle, "build_bundle"),
            Wanted::new("load", &self.load, "aiperf"),
            Wanted::new("correlation", &self.correlation, "correlate"),
        ]
    }

    async fn execute(&self, context: &Context) -> Result<Produced, Failure> {
        let bundle: Bundle = context.evidence(&self.bundle)?;
        let load: Load = context.evidence(&self.load)?;
        let correlation: Correlation = context.evidence(&self.correlation)?;
        if load.bundle != bundle.digest {
            return Err(Failure::failed("the load ran on another bundle than the one that is audited"));
        }
        let engine = context.engine(&self.bundle)?.adapter();
        let counters = engine
            .draft_counters()
            .first()
            .map(|counter| moved(context, context.record(&self.load)?, counter))
            .transpose()?
            .flatten();
        let configured = configured(engine);
        let audit = Audit {
            schema_version: 1,
            bundle: bundle.digest,
            engine: engine.name().to_owned(),
            engine_could: engine.speculation_modes().iter().map(|mode| (*mode).to_owned()).collect(),
            findings: vec![loaded(&bundle, &configured), engaged(engine, counters, &correlation)],
            forced_acceptance: Vec::new(),
        };
        let audit = complete(audit, configured);
        Produced::new(&audit, [])
    }
}

/// Puts the findings in their order and adds the last, which needs a
/// comparison with an ordinary run.
fn complete(mut audit: Audit, configured: Finding) -> Audit {
    let engaged = audit.findings.iter().find(|finding| finding.what == Stage::Engaged).map(|f| f.answer);
    let (answer, shown_by) = match engaged {
        Some(Answer::No) => (Answer::No, "nothing was drafted, so nothing could be effective".to_owned()),
        Some(Answer::Yes) => {
            (Answer::Unavailable, "no ordinary run over matched inputs was compared".to_owned())
        }
        _ => (Answer::Unavailable, "nothing shows whether drafts were verified".to_owned()),
    };
    audit.findings.push(Finding { what: Stage::Effective, answer, shown_by });
    audit.findings.insert(0, configured);
    audit
}

fn configured(engine: &dyn Engine) -> Finding {
    match engine.configured_speculation() {
        Some(how) => Finding { what: Stage::Configured, answer: Answer::Yes, shown_by: how },
        None => Finding {
            what: Stage::Configured,
            answer: Answer::No,
            shown_by: "the engine's settings and its command line name no drafter".to_owned(),
        },
    }
}

/// Whether a drafter is there. An artifact alone does not prove that it is
/// used; that is the next finding.
fn loaded(bundle: &Bundle, configured: &Finding) -> Finding {
    let (answer, shown_by) = match (bundle.speculative_markers.as_slice(), configured.answer) {
        ([], Answer::Yes) => {
            (Answer::Unavailable, "a drafter is configured, and the bundle's own file holds none".to_owned())
        }
        ([], _) => {
            (Answer::No, format!("{} holds no draft artifact and none is given beside it", bundle.model.name))
        }
        (markers, _) => (Answer::Yes, format!("{} holds {}", bundle.model.name, markers.join(", "))),
    };
    Finding { what: Stage::Loaded, answer, shown_by }
}

/// A counter's name and its values before and after the load.
struct Moved {
    counter: String,
    before: u64,
    after: u64,
}

fn engaged(engine: &dyn Engine, counters: Option<Moved>, correlation: &Correlation) -> Finding {
    let fields = correlation.rows.iter().filter_map(|row| row.engine_fields.as_ref());
    let drafted: u64 = fields.filter_map(|fields| fields.draft_tokens).sum();
    let (answer, shown_by) = match counters {
        Some(Moved { counter, before, after }) if after > before => {
            (Answer::Yes, format!("{counter} went from {before} to {after} during the load"))
        }
        _ if drafted > 0 => (Answer::Yes, format!("the responses report {drafted} drafted tokens")),
        Some(Moved { counter, before, after }) => {
            (Answer::No, format!("{counter} was {before} before the load and {after} after it"))
        }
        None if engine.capabilities().acceptance == AcceptanceSource::PerRequest => {
            (Answer::No, "no response reports a drafted token".to_owned())
        }
        None => (
            Answer::Unavailable,
            format!("{} has no counter and no field that shows verified drafts", engine.name()),
        ),
    };
    Finding { what: Stage::Engaged, answer, shown_by }
}

/// Reads a counter from the scrapes that the load kept.
fn moved(context: &Context, load: &InputRecord, counter: &str) -> Result<Option<Moved>, Failure> {
    let Some(Artifact::Tree(export)) = load.outputs.get("export") else { return Ok(None) };
    let files = context.store().tree(*export)?;
    let mut values = Vec::new();
    for name in [metrics::BEFORE, metrics::AFTER] {
        let file = files.iter().find(|file| file.path.as_os_str() == name);
        let Some(digest) = file.and_then(TreeEntry::file) else { return Ok(None) };
        let text = String::from_utf8_lossy(&context.store().get_bytes(digest)?).into_owned();
        values.extend(metrics::counter(&text, counter));
    }
    Ok(match values.as_slice() {
        [before, after] => Some(Moved { counter: counter.to_owned(), before: *before, after: *after }),
        _ => None,
    })
}
