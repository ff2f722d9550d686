//! The ladder: which status a subject holds, by evidence alone.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::bundle::{Bundle, Setting};
use super::correlation::Correlation;
use super::host::Host;
use super::load::Load;
use super::mode::Mode;
use super::packages::Packages;
use super::service::Service;
use super::validation::Validation;
use super::warmup::Warmup;
use crate::value::Digest;

/// A rung. A subject never skips one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Status {
    /// The plan parses, resolves and validates.
    Planned,
    /// The bundle is there and its server answered an identified request.
    Implemented,
    /// The family's own checks passed on exactly this bundle.
    FamilyValidated,
    /// Published AIPerf sent the whole selection and all is accounted for.
    AiperfQualified,
}

impl Status {
    /// All rungs, from the lowest.
    pub const ALL: [Self; 4] =
        [Self::Planned, Self::Implemented, Self::FamilyValidated, Self::AiperfQualified];

    /// The word printed for it.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Planned => "planned",
            Self::Implemented => "implemented",
            Self::FamilyValidated => "family-validated",
            Self::AiperfQualified => "aiperf-qualified",
        }
    }
}

impl Status {
    /// The rule of the rung, in a phrase.
    #[must_use]
    pub fn holds_when(self) -> &'static str {
        match self {
            Self::Planned => "the plan parses, resolves and validates",
            Self::Implemented => "the bundle is there and its own server answered an identified request",
            Self::FamilyValidated => "the family's own checks passed on exactly this bundle",
            Self::AiperfQualified => {
                "published AIPerf sent the whole selection and every request is accounted for"
            }
        }
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}

/// A document, or why there is none.
pub type Held<T> = Result<T, String>;

/// What the nodes of a subject left.
#[derive(Debug, Clone)]
pub struct Facts {
    /// Runtime mode of the subject.
    pub mode: Mode,
    /// What the machine lacks to run any of it.
    pub unmet: Option<String>,
    /// The machine.
    pub host: Held<Host>,
    /// The client's packages.
    pub client: Held<Packages>,
    /// Digest of the pinned selection.
    pub selection: Held<Digest>,
    /// What is served.
    pub bundle: Held<Bundle>,
    /// The server's proof.
    pub service: Held<Service>,
    /// The family's own checks.
    pub validation: Held<Validation>,
    /// The warmup.
    pub warmup: Held<Warmup>,
    /// The AIPerf run.
    pub load: Held<Load>,
    /// The join of that run.
    pub correlation: Held<Correlation>,
}

/// Where a subject stands, and what is missing for the next rung.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Standing {
    /// The rung.
    pub status: Status,
    /// Roles whose evidence holds it.
    pub held_by: Vec<&'static str>,
    /// What the next rung lacks; empty on the highest.
    pub missing: Vec<String>,
}

/// Share of measured requests that may fail, from 0 to 1.
pub const DEFAULT_ERROR_LIMIT: f64 = 0.0;

/// Climbs as far as the evidence holds.
#[must_use]
pub fn standing(facts: &Facts, error_limit: f64) -> Standing {
    let mut held_by = Vec::new();
    let rungs = [
        (Status::Planned, &["bundle", "server"][..], implemented(facts)),
        (Status::Implemented, &["validation"], family_validated(facts)),
        (
            Status::FamilyValidated,
            &["host", "client", "corpus", "warmup", "load", "correlation"],
            aiperf_qualified(facts, error_limit),
        ),
    ];
    for (status, roles, missing) in rungs {
        if !missing.is_empty() {
            return Standing { status, held_by, missing };
        }
        held_by.extend(roles);
    }
    Standing { status: Status::AiperfQualified, held_by, missing: Vec::new() }
}

/// Collects what does not hold, in sentences.
#[derive(Default)]
struct Missing(Vec<String>);

impl Missing {
    fn held<'a, T>(&mut self, what: &str, document: &'a Held<T>) -> Option<&'a T> {
        document.as_ref().map_err(|reason| self.0.push(format!("{what}: {reason}"))).ok()
    }

    fn unless(&mut self, holds: bool, sentence: &str) {
        if !holds {
            self.0.push(sentence.to_owned());
        }
    }

    /// What was asked for has to be seen in effect.
    fn differing(&mut self, settings: &[Setting]) {
        let asked = settings.iter().filter(|setting| setting.requested.is_some());
        self.0.extend(asked.filter(|setting| setting.requested != setting.effective).map(Setting::sentence));
    }

    /// What was asked for has to be in the requests themselves.
    fn sent(&mut self, settings: &[Setting], bodies: &[Value]) {
        for (name, field) in
            [("max_tokens", "max_tokens"), ("temperature", "temperature"), ("streaming", "stream")]
        {
            let asked =
                settings.iter().find(|setting| setting.name == name).and_then(|s| s.requested.as_ref());
            let Some(asked) = asked else { continue };
            let differs = bodies.iter().find(|body| text(&body[field]).as_ref() != Some(asked));
            if let Some(body) = differs {
                self.0.push(format!("{name}: asked for {asked}, a request carries {}", body[field]));
            }
        }
        self.unless(!bodies.is_empty(), "no request's settings were recorded");
    }
}

/// A number as plans write it: `0` and not `0.0`.
fn text(value: &Value) -> Option<String> {
    match value {
        Value::Number(number) => match number.as_f64() {
            Some(whole) if whole.fract() == 0.0 && whole.abs() < 1e15 => Some(format!("{whole:.0}")),
            _ => Some(number.to_string()),
        },
        Value::Bool(value) => Some(value.to_string()),
        _ => None,
    }
}

fn implemented(facts: &Facts) -> Vec<String> {
    if let Some(unmet) = &facts.unmet {
        return vec![unmet.clone()];
    }
    let mut missing = Missing::default();
    let bundle = missing.held("no bundle", &facts.bundle);
    let service = missing.held("no proved server", &facts.service);
    if let (Some(bundle), Some(service)) = (bundle, service) {
        missing.unless(
            bundle.content_digest() == bundle.digest,
            "the bundle's digest is not that of its document",
        );
        missing.differing(&bundle.settings);
        missing.unless(service.bundle == bundle.digest, "the server served another bundle");
        missing.differing(&service.settings);
        missing.unless(!service.proofs.is_empty(), "the server proved nothing");
        let answered = service.probe.status == 200 && service.probe.answer_characters > 0;
        missing.unless(answered, "the server did not answer its identified request");
    }
    missing.0
}

fn family_validated(facts: &Facts) -> Vec<String> {
    let mut missing = Missing::default();
    let validation = missing.held("no family validation", &facts.validation);
    if let (Some(validation), Ok(bundle)) = (validation, &facts.bundle) {
        missing.unless(validation.bundle == bundle.digest, "the family's checks ran on another bundle");
        missing.unless(
            validation.model_before == bundle.model.digest && validation.model_after == bundle.model.digest,
            "the bundle changed while the family's checks ran",
        );
        missing.unless(!validation.checks.is_empty(), "the family declares no check");
        let failed = validation.checks.iter().filter(|check| !check.passed);
        missing.0.extend(failed.map(|check| {
            let reason = check.reason.as_deref().unwrap_or("no reason given");
            format!("the family's check {} did not pass: {reason}", check.name)
        }));
    }
    missing.0
}

fn aiperf_qualified(facts: &Facts, error_limit: f64) -> Vec<String> {
    let mut missing = Missing::default();
    missing.held("no record of the hardware", &facts.host);
    let client = missing.held("no record of the client", &facts.client);
    let selection = missing.held("no pinned corpus", &facts.selection);
    let warmup = missing.held("no warmup", &facts.warmup);
    let load = missing.held("no finished AIPerf run", &facts.load);
    let correlation = missing.held("no correlation", &facts.correlation);
    let (Some(client), Some(selection), Some(warmup), Some(load), Some(correlation)) =
        (client, selection, warmup, load, correlation)
    else {
        return missing.0;
    };
    let answered = warmup.requests.iter().filter(|request| request.answer_characters > 0).count();
    missing.unless(answered >= warmup.configured, "the warmup did not happen as configured");
    missing.unless(load.client == client.lock, "AIPerf ran from another environment than the recorded one");
    missing.unless(load.exit_code == Some(0), "AIPerf did not end with success");
    missing.differing(&load.settings);
    missing.sent(&load.settings, &correlation.request_settings);
    missing.unless(correlation.mode == facts.mode, "the correlation is of another runtime mode");
    let published =
        client.packages.iter().any(|package| package.name == "aiperf" && package.wheel_sha256.is_some());
    missing.unless(published, "AIPerf was not installed from a published wheel");
    missing.unless(warmup.configured > 0, "no warmup was configured");
    if let Ok(bundle) = &facts.bundle {
        missing.unless(load.bundle == bundle.digest, "AIPerf ran against another bundle");
        missing.unless(
            load.model_before == bundle.model.digest && load.model_after == bundle.model.digest,
            "the bundle changed while AIPerf ran",
        );
    }
    missing.unless(
        load.selection_digest == *selection && correlation.selection_digest == *selection,
        "AIPerf was given another selection than the pinned one",
    );
    if let Err(sentences) = correlation.accounting.complete() {
        missing.0.extend(sentences);
    }
    match correlation.accounting.error_rate() {
        None => missing.0.push("no request was measured".to_owned()),
        Some(rate) if rate > error_limit => missing.0.push(format!(
            "{} of {} requests got no complete answer, the limit is {}",
            correlation.accounting.unanswered(),
            correlation.accounting.totals.profiling,
            error_limit
        )),
        Some(_) => {}
    }
    missing.0
}

#[cfg(test)]
mod tests;
