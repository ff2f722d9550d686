//! Joins corpus, client records, payloads and engine fields by identity.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::settings::Wanted;
use super::{Artifact, Class, Context, Failure, Node, Produced};
use crate::aiperf;
use crate::corpus::Manifest;
use crate::engine::{AcceptanceSource, Engine};
use crate::evidence::acceptance::{Counters, NoAcceptance, Scrape};
use crate::evidence::accounting;
use crate::evidence::correlation::{self, Correlation};
use crate::evidence::mode::Mode;
use crate::evidence::request::Planned;
use crate::evidence::service::Service;
use crate::evidence::warmup::Warmup;
use crate::metrics;
use crate::value::Input;

/// Joins every selected row with the client's records, the exact payloads and
/// what the engine says of each request, and accounts for all of them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Correlate {
    /// Runtime mode that was asked for.
    pub mode: Mode,
    /// The bundle that was served, for its engine.
    pub bundle: Input,
    /// The pinned corpus.
    pub corpus: Input,
    /// The warmup before the load.
    pub warmup: Input,
    /// The AIPerf run.
    pub load: Input,
}

impl Node for Correlate {
    const KIND: &'static str = "correlate";
    const VERSION: u32 = 1;
    const CLASS: Class = Class::Content;
    const OUTPUTS: &'static [(&'static str, &'static str)] = &[];
    const EXAMPLE: &'static str = "\
correlate:
  correlate:
    mode: ordinary
    bundle: ${nodes.bundle}
    corpus: ${nodes.corpus}
    warmup: ${nodes.warmup}
    load: ${nodes.load}
";
    type Evidence = Correlation;

    fn wanted(&self) -> Vec<Wanted<'_>> {
        vec![
            Wanted::new("bundle", &self.bundle, "build_bundle"),
            Wanted::new("corpus", &self.corpus, "pin_corpus"),
            Wanted::new("warmup", &self.warmup, "warmup"),
            Wanted::new("load", &self.load, "aiperf"),
        ]
    }

    async fn execute(&self, context: &Context) -> Result<Produced, Failure> {
        let manifest: Manifest = context.evidence(&self.corpus)?;
        let warmup: Warmup = context.evidence(&self.warmup)?;
        let engine = context.engine(&self.bundle)?.adapter();
        let export = match context.artifact(&self.load, "export")? {
            tree @ Artifact::Tree(_) => context.path_of(&self.load.0, tree)?,
            _ => return Err(Failure::failed(format!("{} left no export", self.load.0.node))),
        };
        context.progress("reading the exports");
        let can = engine.capabilities();
        let observed = aiperf::observe(&export, can.usage_tokens, &|last| engine.answer_fields(last))
            .map_err(|error| Failure::failed(error.to_string()))?;
        let mut faults = observed.faults.clone();
        let records = if can.per_request_records {
            let (records, more) = engine
                .read_records(&export.join("engine-records.jsonl"))
                .map_err(|error| Failure::failed(error.to_string()))?;
            faults.extend(more);
            Some(records)
        } else {
            None
        };
        let planned = planned(&manifest);
        let correlation = correlation::correlate(&correlation::Inputs {
            mode: self.mode,
            selection_digest: manifest.selection_digest,
            accounting: accounting::Inputs {
                planned: &planned,
                placeholder_rows: 0,
                sent: &observed.sent,
                faults: &faults,
                report: observed.report.as_ref(),
                warmup: &warmup,
                probes: &probes(context, &self.load)?,
                server: records.as_deref(),
            },
            request_settings: &observed.request_settings,
            no_field_because: (can.acceptance == AcceptanceSource::None).then_some(NoAcceptance::NotOffered),
            scrape: scrape(engine, &export),
        });
        if correlation.accounting.balanced {
            return Produced::new(&correlation, []);
        }
        let reasons = correlation.accounting.imbalances.join("; ");
        Err(Failure::failed(format!("the accounting does not add up: {reasons}")).with_evidence(&correlation))
    }
}

/// Every selected row and turn, once.
fn planned(manifest: &Manifest) -> Vec<Planned> {
    let turns = manifest.selected.iter().flat_map(|row| {
        (0..).zip(&row.turns).map(|(turn, pinned)| Planned {
            row: row.pinned_id.clone().unwrap_or_else(|| row.id.clone()),
            turn,
            category: row.category.clone(),
            text_digest: pinned.text_digest,
        })
    });
    turns.collect()
}

/// Ids of the requests by which the services proved themselves.
fn probes(context: &Context, load: &Input) -> Result<Vec<String>, Failure> {
    let services = context.record(load)?.services.values();
    services
        .map(|digest| {
            let service: Service = context.store().get_json(*digest)?;
            Ok(service.probe.request_id)
        })
        .collect()
}

/// The engine's counters before and after the load, or why there are none.
fn scrape(engine: &dyn Engine, export: &std::path::Path) -> Result<Scrape, NoAcceptance> {
    let [drafts, draft_tokens, accepted_tokens] = engine.draft_counters() else {
        return Err(NoAcceptance::NotOffered);
    };
    let read = |name: &str| {
        let text = std::fs::read_to_string(export.join(name)).map_err(|_| NoAcceptance::NoScrape)?;
        let count = |name: &str| metrics::counter(&text, name).ok_or(NoAcceptance::UnknownMetricName);
        Ok(Counters {
            drafts: count(drafts)?,
            draft_tokens: count(draft_tokens)?,
            accepted_tokens: count(accepted_tokens)?,
        })
    };
    Ok(Scrape { before: read(metrics::BEFORE)?, after: read(metrics::AFTER)? })
}
