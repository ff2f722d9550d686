//! The two exports joined by request id into neutral requests.

use std::collections::{BTreeMap, HashMap};
use std::io::BufRead;
use std::path::Path;

use serde_json::Value;

use super::directory::ExportDir;
use super::metadata::Metadata;
use super::{ClientRecord, ExportError, Metric, Payload, RawRecord, failure};
use crate::evidence::request::{
    ClientReport, ClientTimes, CountedBy, EngineFields, ExportFault, FaultKind, Lines, PLACEHOLDER, Sent,
    TokenCount,
};
use crate::jsonl::{Entries, Entry, FromLine, ReadError};
use crate::value::{Digest, digest::canonical_json};

/// How the fields that an engine puts into its answers are read: from the
/// last JSON of an answer, none if there are none, or what is wrong with them.
pub type FieldsOf<'a> = &'a dyn Fn(&Value) -> Result<Option<EngineFields>, String>;

/// Everything that AIPerf's exports show of a run.
#[derive(Debug, Clone, PartialEq)]
pub struct Observed {
    /// Its requests, each id once, in the order of first sight.
    pub sent: Vec<Sent>,
    /// Where the exports are not whole.
    pub faults: Vec<ExportFault>,
    /// AIPerf's report, if it wrote one.
    pub report: Option<ClientReport>,
    /// The distinct settings that bodies carried beside their messages.
    pub request_settings: Vec<Value>,
}

/// Reads an artifact directory, one line at a time; answers are kept as text,
/// digests and fields only.
///
/// `usage_tokens` says whether the engine's own token counts can be trusted;
/// if not, the client's are taken.
pub fn observe(root: &Path, usage_tokens: bool, fields_of: FieldsOf<'_>) -> Result<Observed, ExportError> {
    let directory = ExportDir::open(root)?;
    let mut seen = Observations::new(usage_tokens, fields_of);
    if let Some(entries) = directory.client_records()? {
        seen.add_all(entries, |seen, place, record| seen.add_client(place, &record))?;
    }
    for entries in directory.raw_records()? {
        seen.add_all(entries, Observations::add_raw)?;
    }
    let report = directory.report()?;
    Ok(seen.finish(directory.faults, report))
}

/// A line of a file of the export.
#[derive(Debug, Clone, Copy)]
pub struct Place<'a> {
    /// The file's name.
    pub file: &'a str,
    /// The line, from 1.
    pub line: u64,
}

/// Collects records of both exports, in any order.
pub struct Observations<'a> {
    usage_tokens: bool,
    fields_of: FieldsOf<'a>,
    requests: Vec<Request>,
    by_id: HashMap<String, usize>,
    /// By their canonical text.
    settings: BTreeMap<String, Value>,
    last_settings: Option<Value>,
    faults: Vec<ExportFault>,
}

/// A request while it is put together. Of several lines of one export the
/// first counts; that they differ is a conflict.
struct Request {
    metadata: Metadata,
    client: Option<ClientRecord>,
    /// The raw record without its bulk, and what was taken from that.
    raw: Option<(RawRecord, Taken)>,
    lines: Lines,
    conflicts: Vec<String>,
}

/// What is kept of the bulk of a raw record.
#[derive(Debug, PartialEq)]
struct Taken {
    text_digest: Option<Digest>,
    payload_digest: Option<Digest>,
    placeholder: bool,
    choices: Option<u32>,
    engine: Option<EngineFields>,
}

impl<'a> Observations<'a> {
    /// Nothing observed yet; see [`observe`] for the parameters.
    #[must_use]
    pub fn new(usage_tokens: bool, fields_of: FieldsOf<'a>) -> Self {
        Self {
            usage_tokens,
            fields_of,
            requests: Vec::new(),
            by_id: HashMap::new(),
            settings: BTreeMap::new(),
            last_settings: None,
            faults: Vec::new(),
        }
    }

    fn add_all<R: BufRead, T: FromLine>(
        &mut self,
        entries: Entries<R, T>,
        add: impl Fn(&mut Self, Place<'_>, T),
    ) -> Result<(), ReadError> {
        let file = entries.name().to_owned();
        for entry in entries {
            match entry? {
                Entry::Record(line, record) => add(self, Place { file: &file, line }, record),
                Entry::Fault(fault) => self.faults.push(fault),
            }
        }
        Ok(())
    }

    /// Adds a line of the per-request export.
    pub fn add_client(&mut self, place: Place<'_>, record: &ClientRecord) {
        let Some(request) = self.request(place, &record.metadata) else {
            return;
        };
        request.lines.client += 1;
        match &request.client {
            None => request.client = Some(record.clone()),
            Some(first) if first != record => {
                request.conflicts.push("its lines in the per-request export differ".to_owned());
            }
            Some(_) => {}
        }
    }

    /// Adds a line of the raw export and drops its bulk.
    pub fn add_raw(&mut self, place: Place<'_>, mut record: RawRecord) {
        let taken = self.take(place, &mut record);
        let Some(request) = self.request(place, &record.metadata) else {
            return;
        };
        request.lines.raw += 1;
        let was_sent = record.status.is_some() || record.header_request_id.is_some();
        if was_sent && record.header_request_id != record.metadata.request_id {
            request.conflicts.push("the X-Request-ID header was another id".to_owned());
        }
        match &request.raw {
            None => request.raw = Some((record, taken)),
            Some(first) if first.0 != record || first.1 != taken => {
                request.conflicts.push("its lines in the raw export differ".to_owned());
            }
            Some(_) => {}
        }
    }

    fn take(&mut self, place: Place<'_>, record: &mut RawRecord) -> Taken {
        let payload = record.payload.take();
        let text = payload.as_ref().and_then(|payload| payload.last_user_text());
        let last_json = record.response.last_json.take();
        let engine = match last_json.as_ref().map(self.fields_of) {
            None => None,
            Some(Ok(fields)) => fields,
            Some(Err(detail)) => {
                self.fault(place, FaultKind::Malformed, detail);
                None
            }
        };
        let taken = Taken {
            text_digest: text.map(Digest::of),
            placeholder: text.is_some_and(|text| text.contains(PLACEHOLDER)),
            choices: payload.as_ref().and_then(Payload::choices),
            payload_digest: payload.as_ref().map(Payload::digest),
            engine,
        };
        record.response.arrivals_perf_ns = Vec::new();
        if let Some(payload) = payload {
            self.note_settings(Value::Object(payload.settings));
        }
        taken
    }

    fn note_settings(&mut self, settings: Value) {
        if self.last_settings.as_ref() != Some(&settings) {
            self.settings.insert(canonical_json(&settings), settings.clone());
            self.last_settings = Some(settings);
        }
    }

    fn request(&mut self, place: Place<'_>, metadata: &Metadata) -> Option<&mut Request> {
        let Some(id) = metadata.request_id.as_ref() else {
            self.fault(place, FaultKind::WithoutId, "the record has no request id".to_owned());
            return None;
        };
        let at = if let Some(at) = self.by_id.get(id) {
            *at
        } else {
            self.by_id.insert(id.clone(), self.requests.len());
            self.requests.push(Request {
                metadata: metadata.clone(),
                client: None,
                raw: None,
                lines: Lines::default(),
                conflicts: Vec::new(),
            });
            self.requests.len() - 1
        };
        let request = &mut self.requests[at];
        if request.metadata != *metadata {
            request.conflicts.push("its lines have different metadata".to_owned());
        }
        Some(request)
    }

    fn fault(&mut self, place: Place<'_>, kind: FaultKind, detail: String) {
        let (file, line) = (place.file.to_owned(), Some(place.line));
        self.faults.push(ExportFault { file, line, kind, detail });
    }

    /// Hands over what was observed, beside the directory's own faults.
    #[must_use]
    pub fn finish(self, mut faults: Vec<ExportFault>, report: Option<ClientReport>) -> Observed {
        faults.extend(self.faults);
        let usage_tokens = self.usage_tokens;
        Observed {
            sent: self.requests.into_iter().map(|request| request.sent(usage_tokens)).collect(),
            faults,
            report,
            request_settings: self.settings.into_values().collect(),
        }
    }
}

impl Request {
    fn sent(self, usage_tokens: bool) -> Sent {
        let (raw, taken) = self.raw.unzip();
        let error = self
            .client
            .as_ref()
            .and_then(|record| record.error.as_ref())
            .or_else(|| raw.as_ref().and_then(|record| record.error.as_ref()));
        let failure = failure::failure(&self.metadata, error, raw.as_ref());
        let cancelled = failure::cancelled(&self.metadata, error);
        let usage = raw.as_ref().and_then(|raw| raw.response.usage).filter(|_| usage_tokens);
        let metrics = self.client.map(|record| record.metrics).unwrap_or_default();
        let tokens = |engine: Option<u64>, client: Option<u64>| {
            let by_engine = engine.map(|tokens| TokenCount { tokens, counted_by: CountedBy::Engine });
            by_engine.or(client.map(|tokens| TokenCount { tokens, counted_by: CountedBy::Client }))
        };
        Sent {
            phase: self.metadata.phase,
            conversation_id: self.metadata.conversation_id,
            turn_index: self.metadata.turn_index,
            start_ns: self.metadata.start_ns,
            end_ns: self.metadata.end_ns,
            request_id: self.metadata.request_id.unwrap_or_default(),
            text_digest: taken.as_ref().and_then(|taken| taken.text_digest),
            placeholder: taken.as_ref().is_some_and(|taken| taken.placeholder),
            choices: taken.as_ref().and_then(|taken| taken.choices),
            status: raw.as_ref().and_then(|raw| raw.status),
            failure,
            cancelled,
            prompt_tokens: tokens(
                usage.and_then(|usage| usage.prompt_tokens),
                metrics.input_sequence_length.as_ref().and_then(Metric::tokens),
            ),
            output_tokens: tokens(
                usage.and_then(|usage| usage.completion_tokens),
                metrics.output_sequence_length.as_ref().and_then(Metric::tokens),
            ),
            client: ClientTimes {
                end_to_end_ms: metrics.request_latency.and_then(|metric| metric.milliseconds()),
                first_token_ms: metrics.time_to_first_token.and_then(|metric| metric.milliseconds()),
                inter_token_ms: metrics.inter_token_latency.and_then(|metric| metric.milliseconds()),
            },
            payload_digest: taken.as_ref().and_then(|taken| taken.payload_digest),
            engine: taken.and_then(|taken| taken.engine),
            reasoning_digest: raw
                .as_ref()
                .filter(|raw| !raw.response.reasoning.is_empty())
                .map(|raw| Digest::of(&raw.response.reasoning)),
            finish_reason: raw.as_ref().and_then(|raw| raw.response.finish_reason.clone()),
            output_text: raw.map(|raw| raw.response.text),
            lines: self.lines,
            conflicts: self.conflicts,
        }
    }
}

#[cfg(test)]
mod tests;
