use std::collections::BTreeMap;

use super::*;
use crate::evidence::acceptance::NoAcceptance;
use crate::evidence::accounting;
use crate::evidence::bundle::{EnginePackage, ModelFile};
use crate::evidence::correlation::{self, correlate};
use crate::evidence::host::{Cpu, Gpus};
use crate::evidence::mode::Mode;
use crate::evidence::outcome::FailureKind;
use crate::evidence::packages::Package;
use crate::evidence::request::{ClientReport, Failure, Planned, Sent};
use crate::evidence::sample::sent;
use crate::evidence::service::{LaunchEnvironment, ProbeRequest, Proof};
use crate::evidence::validation::Check;
use crate::evidence::warmup::WarmupRequest;
use crate::value::Sha256;

fn model() -> Digest {
    Digest::of("model")
}

fn bundle() -> Bundle {
    let mut bundle = Bundle {
        schema_version: 1,
        digest: model(),
        engine: "llama_cpp".to_owned(),
        engine_package: EnginePackage {
            name: "engine".to_owned(),
            version: "1".to_owned(),
            digest: Digest::of("engine"),
        },
        engine_settings: serde_json::Value::Null,
        model: ModelFile {
            name: "m.gguf".to_owned(),
            bytes: 5,
            digest: model(),
            sha256: Sha256::of("model"),
            facts: BTreeMap::new(),
        },
        settings: vec![setting("precision", "Q4_1", "Q4_1")],
        context_limit: Some(2048),
        speculative_markers: Vec::new(),
        build_command: None,
    };
    bundle.digest = bundle.content_digest();
    bundle
}

fn setting(name: &str, requested: &str, effective: &str) -> Setting {
    Setting::new(name, Some(requested.to_owned()), Some(effective.to_owned()), "a file")
}

fn service() -> Service {
    Service {
        schema_version: 1,
        engine: "llama_cpp".to_owned(),
        bundle: bundle().digest,
        model_name: "m".to_owned(),
        command: Vec::new(),
        ready_after_ms: 1,
        proofs: vec![Proof { what: "socket_is_ours".to_owned(), shown_by: "/proc".to_owned() }],
        probe: ProbeRequest { request_id: "probe".to_owned(), status: 200, answer_characters: 5 },
        settings: vec![setting("context_length", "2048", "2048")],
        reported: serde_json::Value::Null,
        environment: LaunchEnvironment::default(),
        teardown: None,
    }
}

fn validation() -> Validation {
    let check = Check {
        name: "repeat".to_owned(),
        shows: "answers repeat".to_owned(),
        command: Vec::new(),
        passed: true,
        detail: serde_json::Value::Null,
        reason: None,
    };
    Validation {
        schema_version: 1,
        bundle: bundle().digest,
        model_before: model(),
        model_after: model(),
        checks: vec![check],
    }
}

fn warmup() -> Warmup {
    let request =
        WarmupRequest { request_id: "warmup-1".to_owned(), status: 200, took_ms: 1.0, answer_characters: 5 };
    Warmup { schema_version: 1, configured: 1, requests: vec![request], machine: None }
}

fn load() -> Load {
    Load {
        schema_version: 1,
        aiperf_version: "0.13.0".to_owned(),
        client: Digest::of("client"),
        command: Vec::new(),
        dataset: "spec-bench".to_owned(),
        selection_digest: Digest::of("selection"),
        planned_requests: 2,
        settings: vec![
            setting("concurrency", "1", "1"),
            setting("max_tokens", "48", "48"),
            setting("temperature", "0", "0"),
            setting("streaming", "true", "true"),
        ],
        exit_code: Some(0),
        bundle: bundle().digest,
        model_before: model(),
        model_after: model(),
        load_average_before: 0.0,
        load_average_after: 0.0,
        started_at: "2026-11-30T00:00:00Z".to_owned(),
        took_ms: 1,
        machine: None,
    }
}

fn host() -> Host {
    Host {
        schema_version: 1,
        fingerprint: Digest::of("host"),
        cpu: Cpu {
            model: "cpu".to_owned(),
            logical: 2,
            architecture: "x86_64".to_owned(),
            vector_extensions: Vec::new(),
        },
        memory_bytes: 1,
        kernel: "6".to_owned(),
        os: "linux".to_owned(),
        gpus: Gpus::Unavailable("none".to_owned()),
        cgroup_memory_limit_bytes: None,
        load_average: [0.0; 3],
        programs: BTreeMap::new(),
    }
}

fn client() -> Packages {
    Packages {
        schema_version: 1,
        requirements: Vec::new(),
        python: "3.11.7".to_owned(),
        uv: "0.13.9".to_owned(),
        lock: Digest::of("client"),
        packages: vec![Package {
            name: "aiperf".to_owned(),
            version: "0.13.0".to_owned(),
            wheel_sha256: Some("ab".to_owned()),
            wheel: None,
        }],
    }
}

/// The join of a run that planned two rows, `one` and `two`.
fn correlation(sent: &[Sent]) -> Correlation {
    let planned = ["one", "two"].map(|row| Planned {
        row: row.to_owned(),
        turn: 0,
        category: "writing".to_owned(),
        text_digest: Digest::of(row),
    });
    let failed = sent.iter().filter(|sent| sent.failure.is_some()).count() as u64;
    let report = ClientReport {
        version: Some("0.13.0".to_owned()),
        is_complete: Some(true),
        was_cancelled: Some(false),
        partial: Some(false),
        valid_requests: sent.len() as u64 - failed,
        failed_requests: failed,
    };
    correlate(&correlation::Inputs {
        mode: Mode::Ordinary,
        selection_digest: Digest::of("selection"),
        accounting: accounting::Inputs {
            planned: &planned,
            placeholder_rows: 0,
            sent,
            faults: &[],
            report: Some(&report),
            warmup: &warmup(),
            probes: &[],
            server: None,
        },
        request_settings: &[serde_json::json!({"max_tokens": 48, "temperature": 0.0, "stream": true})],
        no_field_because: None,
        scrape: Err(NoAcceptance::NoScrape),
    })
}

fn whole() -> Facts {
    Facts {
        mode: Mode::Ordinary,
        unmet: None,
        host: Ok(host()),
        client: Ok(client()),
        selection: Ok(Digest::of("selection")),
        bundle: Ok(bundle()),
        service: Ok(service()),
        validation: Ok(validation()),
        warmup: Ok(warmup()),
        load: Ok(load()),
        correlation: Ok(correlation(&[sent("a", "one"), sent("b", "two")])),
    }
}

/// A name, a change of whole evidence, and words of what is then missing.
type Case<'a> = (&'a str, &'a dyn Fn(&mut Facts), &'a str);
/// A [`Case`] whose change owns what it needs.
type OwnedCase = (&'static str, Box<dyn Fn(&mut Facts)>, &'static str);

/// Where a subject stands whose evidence was changed, and what it lacks.
fn stands(change: impl FnOnce(&mut Facts)) -> (Status, String) {
    let mut facts = whole();
    change(&mut facts);
    let standing = standing(&facts, DEFAULT_ERROR_LIMIT);
    (standing.status, standing.missing.join("; "))
}

fn absent<T>() -> Held<T> {
    Err("it was not run".to_owned())
}

#[test]
fn whole_evidence_reaches_the_top_and_lacks_nothing() {
    assert_eq!(stands(|_| {}), (Status::AiperfQualified, String::new()));
    assert_eq!(standing(&whole(), 0.0).held_by.len(), 9);
}

#[test]
fn a_target_that_cannot_run_stays_planned_with_what_it_needs() {
    let stands = stands(|facts| facts.unmet = Some("target t needs a GPU".to_owned()));
    assert_eq!(stands, (Status::Planned, "target t needs a GPU".to_owned()));
}

#[test]
fn implemented_needs_bundle_and_proved_server() {
    let cases: [Case<'_>; 8] = [
        ("no bundle", &|f| f.bundle = absent(), "no bundle: it was not run"),
        ("no server", &|f| f.service = absent(), "no proved server: it was not run"),
        ("another bundle", &|f| edit(&mut f.service, |s| s.bundle = Digest::of("x")), "another bundle"),
        ("no answer", &|f| edit(&mut f.service, |s| s.probe.answer_characters = 0), "did not answer"),
        ("an error", &|f| edit(&mut f.service, |s| s.probe.status = 500), "did not answer"),
        ("no proof", &|f| edit(&mut f.service, |s| s.proofs.clear()), "proved nothing"),
        (
            "wrong context",
            &|f| edit(&mut f.service, |s| s.settings = vec![setting("context_length", "2048", "512")]),
            "context_length: asked for 2048",
        ),
        (
            "edited bundle",
            &|f| edit(&mut f.bundle, |b| b.engine = "other".to_owned()),
            "not that of its document",
        ),
    ];
    for (name, change, lacks) in cases {
        let (status, missing) = stands(change);
        assert_eq!(status, Status::Planned, "{name}: {missing}");
        assert!(missing.contains(lacks), "{name}: {missing}");
    }
}

#[test]
fn family_validated_needs_passed_checks_on_exactly_this_bundle() {
    let cases: [Case<'_>; 5] = [
        ("none", &|f| f.validation = absent(), "no family validation: it was not run"),
        ("another bundle", &|f| edit(&mut f.validation, |v| v.bundle = Digest::of("x")), "on another bundle"),
        ("changed", &|f| edit(&mut f.validation, |v| v.model_after = Digest::of("x")), "changed while"),
        ("not passed", &|f| edit(&mut f.validation, |v| v.checks[0].passed = false), "did not pass"),
        ("no checks", &|f| edit(&mut f.validation, |v| v.checks.clear()), "declares no check"),
    ];
    for (name, change, lacks) in cases {
        let (status, missing) = stands(change);
        assert_eq!(status, Status::Implemented, "{name}: {missing}");
        assert!(missing.contains(lacks), "{name}: {missing}");
    }
}

#[test]
fn aiperf_qualified_needs_every_request_accounted_for() {
    let joined = |sent: &[Sent]| -> Held<Correlation> { Ok(correlation(sent)) };
    let mut failed = sent("b", "two");
    failed.failure =
        Some(Failure { kind: FailureKind::TooManyRequests, code: Some(429), message: "busy".to_owned() });
    failed.output_text = None;
    let cases: Vec<OwnedCase> = vec![
        ("no host", Box::new(|f| f.host = absent()), "no record of the hardware"),
        ("no warmup", Box::new(|f| f.warmup = absent()), "no warmup"),
        ("no load", Box::new(|f| f.load = absent()), "no finished AIPerf run"),
        (
            "another client",
            Box::new(|f| edit(&mut f.load, |l| l.client = Digest::of("x"))),
            "another environment",
        ),
        ("exit code", Box::new(|f| edit(&mut f.load, |l| l.exit_code = Some(1))), "did not end with success"),
        (
            "another bundle",
            Box::new(|f| edit(&mut f.load, |l| l.bundle = Digest::of("x"))),
            "against another bundle",
        ),
        (
            "changed",
            Box::new(|f| edit(&mut f.load, |l| l.model_after = Digest::of("x"))),
            "changed while AIPerf",
        ),
        ("selection", Box::new(|f| f.selection = Ok(Digest::of("x"))), "another selection"),
        (
            "settings",
            Box::new(|f| edit(&mut f.load, |l| l.settings = vec![setting("concurrency", "1", "4")])),
            "concurrency: asked for 1",
        ),
        (
            "short warmup",
            Box::new(|f| edit(&mut f.warmup, |w| w.configured = 2)),
            "did not happen as configured",
        ),
        (
            "a setting that nothing shows",
            Box::new(|f| edit(&mut f.load, |l| l.settings[0].effective = None)),
            "concurrency: asked for 1, a file shows nothing",
        ),
        (
            "other requests than planned",
            Box::new(|f| edit(&mut f.correlation, |c| c.request_settings[0]["max_tokens"] = 512.into())),
            "max_tokens: asked for 48, a request carries 512",
        ),
        (
            "not published",
            Box::new(|f| edit(&mut f.client, |c| c.packages[0].wheel_sha256 = None)),
            "not installed from a published wheel",
        ),
        ("another mode", Box::new(|f| f.mode = Mode::Speculative), "another runtime mode"),
        (
            "no warmup configured",
            Box::new(|f| {
                edit(&mut f.warmup, |w| {
                    w.configured = 0;
                    w.requests.clear();
                });
            }),
            "no warmup was configured",
        ),
        ("a row missing", Box::new(move |f| f.correlation = joined(&[sent("a", "one")])), "two"),
        (
            "a row twice",
            Box::new(move |f| {
                f.correlation = joined(&[sent("a", "one"), sent("b", "two"), sent("c", "two")]);
            }),
            "two",
        ),
        (
            "a stranger",
            Box::new(move |f| {
                f.correlation = joined(&[sent("a", "one"), sent("b", "two"), sent("c", "three")]);
            }),
            "c",
        ),
        (
            "an error",
            Box::new(move |f| f.correlation = joined(&[sent("a", "one"), failed.clone()])),
            "1 of 2 requests got no complete answer, the limit is 0",
        ),
    ];
    for (name, change, lacks) in cases {
        let (status, missing) = stands(change);
        assert_eq!(status, Status::FamilyValidated, "{name}: {missing}");
        assert!(missing.contains(lacks), "{name}: {missing}");
    }
}

fn edit<T>(held: &mut Held<T>, change: impl FnOnce(&mut T)) {
    change(held.as_mut().unwrap());
}
