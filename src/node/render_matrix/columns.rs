//! The columns of the coverage matrix, and how each cell is read.

use std::collections::BTreeMap;

use super::categories::categories;
use super::cells::{
    acceptance, busy, context_fit, count, engine_timing, errors, finding, generation, generation_settings,
    list, model, of, quiet, setting, settings, throughput, timing, validation,
};
use super::measurements::said;
use crate::evidence::audit::Stage;
use crate::evidence::host::Gpus;
use crate::evidence::matrix::{Cell, Column, MatrixRow, ShownMeasurement};
use crate::node::SubjectInputs;
use crate::node::subject::SubjectRecord;

/// How a cell is read, and which role's evidence shows it.
struct Reader {
    column: Column,
    role: &'static str,
    read: fn(&SubjectInputs, &SubjectRecord) -> Cell,
}

/// The columns, in order.
pub(super) fn columns() -> Vec<Column> {
    readers().into_iter().map(|reader| reader.column).collect()
}

/// The row of one subject; `links` are the evidence files by role, and
/// `measurements` those that the subject stands on.
pub(super) fn row(
    subject: &SubjectInputs,
    record: &SubjectRecord,
    links: &BTreeMap<String, String>,
    measurements: Vec<ShownMeasurement>,
) -> MatrixRow {
    let cells = readers().into_iter().map(|reader| {
        let cell = said((reader.read)(subject, record), &reader.column.key, &measurements);
        match (links.get(reader.role), &subject.unmet) {
            (None, Some(unmet)) if cell.value.is_none() => Cell::unavailable(unmet),
            (link, _) => cell.shown_in(link.map(String::as_str)),
        }
    });
    let cells = cells.collect();
    MatrixRow {
        subject: subject.name.clone(),
        target: subject.target.clone(),
        mode: subject.mode.to_string(),
        status: record.standing.status.to_string(),
        missing: record.standing.missing.clone(),
        cells,
        measurements,
        categories: record.facts.correlation.as_ref().map(categories).unwrap_or_default(),
        busy: record.facts.load.as_ref().map(|load| busy(load).to_vec()).unwrap_or_default(),
    }
}

macro_rules! readers {
    ($($group:literal { $($key:ident $title:literal from $role:literal: $meaning:literal => $read:expr;)* })*) => {
        fn readers() -> Vec<Reader> {
            vec![$($(Reader {
                column: Column {
                    key: stringify!($key).to_owned(),
                    title: $title.to_owned(),
                    meaning: $meaning.to_owned(),
                    group: $group.to_owned(),
                },
                role: $role,
                read: $read,
            }),*),*]
        }
    };
}

readers! {
    "Subject" {
        model "model" from "bundle": "What is served, as the target states it." =>
            |subject, record| match subject.about.get("model") {
                Some(name) => model(&subject.about, name),
                None => of(&record.facts.bundle, |bundle| Cell::value(&bundle.model.name)),
            };
        engine "engine" from "bundle": "The serving engine's package and version." =>
            |_, record| of(&record.facts.bundle, |bundle| {
                Cell::value(format!("{} {}", bundle.engine_package.name, bundle.engine_package.version))
            });
        precision "precision, requested → effective" from "bundle": "Precision of the weights asked for, beside what the served file shows." =>
            |_, record| of(&record.facts.bundle, |bundle| setting(&bundle.settings, "precision"));
        context_length "context length, requested → effective" from "server": "Tokens of one request: asked for, beside what the engine reports." =>
            |_, record| of(&record.facts.service, |service| setting(&service.settings, "context_length"));
        bundle "bundle digest" from "bundle": "BLAKE3 over model file, engine package and engine settings." =>
            |_, record| of(&record.facts.bundle, |bundle| Cell::value(bundle.digest.to_string()));
        model_sha256 "model sha256" from "bundle": "SHA-256 of the served file." =>
            |_, record| of(&record.facts.bundle, |bundle| Cell::value(bundle.model.sha256.to_string()));
    }
    "Qualified corpus input" {
        corpus "corpus" from "corpus": "Revision of the corpus, and which source answered." =>
            |_, record| of(&record.manifest, |manifest| {
                let revision = manifest.revision.as_deref().unwrap_or("no revision stated");
                let licence = manifest.licence.as_deref().unwrap_or("not stated");
                Cell::value(revision).with_note(format!(
                    "{} of {} rows by source {} of the plan: {};\nlicence {licence}",
                    manifest.selected.len(), manifest.rows_in_source, manifest.source.which, manifest.source.name
                ))
            });
        selection "selection digest" from "corpus": "BLAKE3 over row id, category and exact text of every selected row and turn." =>
            |_, record| of(&record.manifest, |manifest| Cell::value(manifest.selection_digest.to_string()));
        corpus_sha256 "corpus file sha256" from "corpus": "SHA-256 of the file that the rows were read from." =>
            |_, record| of(&record.manifest, |manifest| Cell::value(manifest.source.sha256.to_string()));
        rows "rows × turns" from "corpus": "Selected rows and the turns pinned of them." =>
            |_, record| of(&record.manifest, |manifest| {
                let cell = Cell::value(format!("{} rows, {} turns", manifest.selected.len(), manifest.turns_total));
                match manifest.excluded.len() {
                    0 => cell,
                    excluded => cell.with_note(format!("{excluded} selected rows left out, listed in the manifest")),
                }
            });
        context_fit "fits the context" from "corpus": "Selected rows that fit the context limit by the target's own tokenizer." =>
            |_, record| of(&record.manifest, context_fit);
        sent_once "sent exactly once" from "correlation": "Selected turns that AIPerf sent exactly once in the measured phase, of all." =>
            |_, record| of(&record.facts.correlation, |correlation| {
                let totals = &correlation.accounting.totals;
                Cell::value(format!("{} of {}", totals.sent_once, totals.planned))
                    .with_note(format!("{} never sent, {} sent more than once", totals.missing, totals.repeated))
            });
        exact_text "exact text" from "correlation": "Requests whose text has the digest of the pinned text." =>
            |_, record| of(&record.facts.correlation, |correlation| {
                let exact = correlation.rows.iter().filter(|row| row.matches_pinned).count();
                Cell::value(format!("{exact} of {}", correlation.rows.len()))
            });
        qualified "qualified corpus input" from "correlation": "Whether every selected turn was sent as planned and everything is accounted for. It says nothing about speculation." =>
            |_, record| of(&record.facts.correlation, |correlation| match correlation.accounting.complete() {
                Ok(()) => Cell::value("yes"),
                Err(sentences) => Cell::value("no").with_note(sentences.join(";\n")),
            });
    }
    "Run" {
        aiperf "AIPerf" from "load": "Version of the pip-installed AIPerf that sent the load." =>
            |_, record| of(&record.facts.load, |load| Cell::value(&load.aiperf_version));
        path "dataset path" from "load": "How the pinned rows reached AIPerf." =>
            |_, record| of(&record.facts.load, |load| Cell::value(&load.dataset));
        load "load, requested → effective" from "load": "Closed-loop load and sampling asked for, beside what AIPerf's own export records." =>
            |_, record| of(&record.facts.load, |load| {
                settings(load.settings.iter().filter(|setting| setting.name != "aiperf_version"))
            });
        generation_settings "generation settings" from "correlation": "What each payload carried beside its messages." =>
            |_, record| of(&record.facts.correlation, generation_settings);
        unmatched_client "unmatched client records" from "correlation": "Measured requests that are no selected turn." =>
            |_, record| of(&record.facts.correlation, |correlation| Cell::value(correlation.accounting.totals.unmatched.to_string()));
        unmatched_server "unmatched server records" from "correlation": "Records of the server that no request of ours explains." =>
            |_, record| of(&record.facts.correlation, |correlation| match &correlation.accounting.server {
                Some(server) => Cell::value(server.unmatched.len().to_string())
                    .with_note(format!("of {} requests with records", server.requests)),
                None => Cell::unavailable("the engine writes no record of its own for each request"),
            });
        errors "errors" from "correlation": "Measured requests without a complete answer, by kind; cancelled ones are counted apart." =>
            |_, record| of(&record.facts.correlation, |correlation| errors(&correlation.accounting.totals));
        cancelled "cancelled" from "correlation": "Measured requests that the client gave up." =>
            |_, record| of(&record.facts.correlation, |correlation| count(correlation.accounting.totals.cancelled, &[]));
        duplicates "duplicates" from "correlation": "Selected turns sent more than once, and repeated lines of the exports." =>
            |_, record| of(&record.facts.correlation, |correlation| {
                let totals = &correlation.accounting.totals;
                let lines = totals.duplicate_client_lines + totals.duplicate_raw_lines;
                count(totals.repeated + lines, &[("turns", totals.repeated), ("lines", lines)])
            });
        placeholders "placeholder rows sent" from "correlation": "Requests whose text still holds a placeholder of its corpus." =>
            |_, record| of(&record.facts.correlation, |correlation| count(correlation.accounting.totals.placeholders_sent, &[]));
        warnings "warnings" from "correlation": "What a reader must know to read the figures rightly." =>
            |_, record| of(&record.facts.correlation, |correlation| list(&correlation.warnings, "none"));
        warmup "warmup" from "warmup": "Warmup requests answered, of those configured; none is a selected row, none is timed." =>
            |_, record| of(&record.facts.warmup, |warmup| {
                let answered = warmup.requests.iter().filter(|request| request.answer_characters > 0).count();
                Cell::value(format!("{answered} of {}", warmup.configured))
            });
        validation "family validation" from "validation": "The family's own checks on exactly this bundle, before timing." =>
            |_, record| of(&record.facts.validation, validation);
        bundle_unchanged "bundle unchanged" from "load": "The served file's digest before and after the load." =>
            |_, record| of(&record.facts.load, |load| {
                let unchanged = load.model_before == load.model_after;
                Cell::value(if unchanged { "yes" } else { "no" })
                    .with_note(format!("{} before, {} after", load.model_before, load.model_after))
            });
    }
    "Speculative execution" {
        generation "generation" from "audit": "What the run did, by its counters; choosing a speculative-decoding corpus does not make a server speculate." =>
            |subject, record| of(&record.audit, |audit| generation(subject.mode, audit, &record.facts.correlation));
        engine_could "the engine could" from "audit": "Ways of speculation that this engine offers, whether used or not." =>
            |_, record| of(&record.audit, |audit| list(&audit.engine_could, "nothing known"));
        configured "configured" from "audit": "Whether somebody asked for speculation." =>
            |_, record| of(&record.audit, |audit| finding(audit, Stage::Configured));
        loaded "loaded" from "audit": "Whether a drafter is there." =>
            |_, record| of(&record.audit, |audit| finding(audit, Stage::Loaded));
        engaged "engaged" from "audit": "Whether drafts were verified during the load." =>
            |_, record| of(&record.audit, |audit| finding(audit, Stage::Engaged));
        effective "effective" from "audit": "Whether decoding got faster by it." =>
            |_, record| of(&record.audit, |audit| finding(audit, Stage::Effective));
        forced "forced acceptance" from "audit": "Settings found that force an acceptance for tests; with any of them no figure counts." =>
            |_, record| of(&record.audit, |audit| list(&audit.forced_acceptance, "none found"));
        accept_length "acceptance length" from "correlation": "1 + accepted draft tokens / verify steps, pooled over the run." =>
            |_, record| of(&record.facts.correlation, |correlation| {
                acceptance(correlation, |quantities| &quantities.accept_length)
            });
        accept_rate "acceptance rate" from "correlation": "Accepted / proposed draft tokens, pooled over the run." =>
            |_, record| of(&record.facts.correlation, |correlation| {
                acceptance(correlation, |quantities| &quantities.accept_rate)
            });
        claims "claims" from "audit": "Claims of acceleration or acceptance that the evidence carries." =>
            |_, _| Cell::value("none made");
    }
    "Steady-state timing" {
        quiet "machine" from "load": "Whether anything beside this run used the machine during the load, by the limits in the evidence; figures of a busy machine say less." =>
            |_, record| of(&record.facts.load, quiet);
        latency "request latency (client), ms" from "correlation": "From sending a request to its last chunk, measured by AIPerf." =>
            |_, record| timing(record, |columns| &columns.client.end_to_end_ms);
        first_token "time to first token (client), ms" from "correlation": "From sending a request to its first token, measured by AIPerf." =>
            |_, record| timing(record, |columns| &columns.client.first_token_ms);
        inter_token "inter-token latency (client), ms" from "correlation": "Mean time between the tokens of a request, measured by AIPerf." =>
            |_, record| timing(record, |columns| &columns.client.inter_token_ms);
        engine_call "engine call time, ms" from "correlation": "The engine's own time of a whole call, with its scope; never mixed with the client's." =>
            |_, record| engine_timing(record, |columns| &columns.call_ms);
        engine_prompt "engine prompt stage, ms" from "correlation": "The engine's own time of the prompt." =>
            |_, record| engine_timing(record, |columns| &columns.prompt_ms);
        engine_decode "engine decode stage, ms" from "correlation": "The engine's own time of decoding." =>
            |_, record| engine_timing(record, |columns| &columns.decode_ms);
        throughput "output tokens/s" from "correlation": "Output tokens over the measured window, of the run as a whole." =>
            |_, record| of(&record.facts.correlation, throughput);
        startup "server start-up, ms" from "server": "From launching the server to its first ready answer; outside every figure above, as is the warmup." =>
            |_, record| of(&record.facts.service, |service| Cell::value(service.ready_after_ms.to_string()));
    }
    "Record" {
        hardware "hardware" from "host": "Processor and accelerators of the machine." =>
            |_, record| of(&record.facts.host, |host| {
                let gpus = match &host.gpus {
                    Gpus::Found(gpus) => gpus.iter().map(|gpu| gpu.name.clone()).collect::<Vec<_>>().join(", "),
                    Gpus::Unavailable(_) => "no GPU".to_owned(),
                };
                Cell::value(format!("{} × {}, {} GiB, {gpus}", host.cpu.logical, host.cpu.model, host.memory_bytes >> 30))
                    .with_note(format!("{}, kernel {}", host.os, host.kernel))
            });
        machine_load "machine load" from "load": "Load average over one minute, before → after the load." =>
            |_, record| of(&record.facts.load, |load| {
                Cell::value(format!("{:.2} → {:.2}", load.load_average_before, load.load_average_after))
            });
        measured_at "measured at" from "load": "Start of the AIPerf run, and its length with AIPerf's own start-up." =>
            |_, record| of(&record.facts.load, |load| {
                Cell::value(&load.started_at).with_note(format!("took {}.{} s", load.took_ms / 1000, load.took_ms % 1000 / 100))
            });
        python "client Python" from "client": "Interpreter and number of packages of the client's environment, each with its wheel's digest in the evidence." =>
            |_, record| of(&record.facts.client, |client| {
                Cell::value(format!("Python {}, {} packages", client.python, client.packages.len()))
            });
        client_lock "client lock" from "client": "Digest over the client's packages." =>
            |_, record| of(&record.facts.client, |client| Cell::value(client.lock.to_string()));
        engine_lock "engine digest" from "bundle": "Digest of the engine's environment or program." =>
            |_, record| of(&record.facts.bundle, |bundle| Cell::value(bundle.engine_package.digest.to_string()));
        server_settings "server settings, requested → effective" from "server": "What the plan asks of the server, beside what the server itself reports." =>
            |_, record| of(&record.facts.service, |service| settings(&service.settings));
        endpoint "endpoint" from "load": "The endpoint that was driven." =>
            |_, record| of(&record.facts.load, |_| Cell::value("/v1/chat/completions"));
        server_command "server command" from "server": "The server as launched, places replaced by names." =>
            |_, record| of(&record.facts.service, |service| Cell::value(service.command.join(" ")));
        client_command "AIPerf command" from "load": "AIPerf as launched, places replaced by names." =>
            |_, record| of(&record.facts.load, |load| Cell::value(load.command.join(" ")));
    }
}
