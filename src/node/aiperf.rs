//! Runs published AIPerf against a server with a pinned corpus.
//!
//! Flags and files are those of AIPerf 0.13.0.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::build_bundle::public_command;
use super::settings::{Unfit, Wanted, none_at_all};
use super::{Artifact, Class, Context, Failure, LiveService, Node, Produced, to_value};
use crate::corpus::{Manifest, PinnedForm};
use crate::evidence::bundle::Setting;
use crate::evidence::load::Load;
use crate::evidence::packages::Packages;
use crate::process::Ended;
use crate::value::{Digest, Input, duration};
use crate::{aiperf, host, http, metrics};

/// Sends every selected row of a corpus to a server exactly once, with a
/// pip-installed AIPerf, and keeps every export.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Aiperf {
    /// The Python environment that holds AIPerf.
    pub client: Input,
    /// The server under load.
    pub server: Input,
    /// The pinned corpus.
    pub corpus: Input,
    /// The bundle that is served, for its tokenizer and its digest.
    pub bundle: Input,
    /// How the pinned rows reach AIPerf.
    pub dataset: Dataset,
    /// Requests under way at the same time, as a closed loop: the next one is
    /// sent when one is answered.
    #[serde(default = "one")]
    #[schemars(extend("x-unit" = "requests"))]
    pub concurrency: u32,
    /// Most tokens of one answer.
    #[schemars(extend("x-unit" = "tokens"))]
    pub max_tokens: u32,
    /// Sampling temperature; 0 is greedy.
    #[serde(default)]
    pub temperature: f64,
    /// Whether answers are streamed; without it there is no time to first token.
    #[serde(default = "yes")]
    pub streaming: bool,
    /// Seed of AIPerf's own choices; with another one the load runs again.
    #[serde(default)]
    pub random_seed: u64,
    /// More fields of every request body, by name, such as `top_p`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub extra_inputs: BTreeMap<String, Value>,
    /// How long AIPerf may take; the node's own `timeout` covers the checks
    /// before and after it too.
    #[serde(default = "an_hour")]
    pub timeout: duration::Duration,
}

/// How pinned rows reach AIPerf.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Dataset {
    /// AIPerf's own Spec-Bench loader (`--public-dataset spec-bench`), with
    /// the pinned file staged where it looks; first turns only.
    SpecBench,
    /// A SPEED-Bench file, be it of the qualitative or of a throughput split,
    /// which AIPerf reads alike (`--custom-dataset-type
    /// speed-bench-qualitative`); every turn of a row.
    SpeedBench,
}

fn one() -> u32 {
    1
}

fn yes() -> bool {
    true
}

fn an_hour() -> duration::Duration {
    duration::Duration::from_secs(3600)
}

/// Where AIPerf's Spec-Bench loader keeps its copy, below its directory.
const SPEC_BENCH_CACHE: &str = ".cache/aiperf/datasets/spec_bench.jsonl";
const EXPORT: &str = "export";
const SCRAPE: Duration = Duration::from_secs(10);

impl Node for Aiperf {
    const KIND: &'static str = "aiperf";
    const VERSION: u32 = 1;
    const CLASS: Class = Class::Measurement;
    const OUTPUTS: &'static [(&'static str, &'static str)] =
        &[("export", "the directory of every file that AIPerf wrote")];
    const EXAMPLE: &'static str = "\
load:
  aiperf:
    client: ${nodes.client}
    server: ${nodes.server}
    corpus: ${nodes.corpus}
    bundle: ${nodes.bundle}
    dataset: spec_bench
    concurrency: 1
    max_tokens: 48
  needs: [warmup]
  timeout: 1h
";
    type Evidence = Load;

    fn is_quiet(&self) -> bool {
        true
    }

    fn key_settings(&self, _: &Context) -> Result<Value, Failure> {
        let mut settings = to_value(self)?;
        if let Some(settings) = settings.as_object_mut() {
            settings.remove("timeout");
        }
        Ok(settings)
    }

    fn unfit(&self) -> Vec<Unfit> {
        none_at_all([("concurrency", self.concurrency == 0), ("max_tokens", self.max_tokens == 0)])
    }

    fn wanted(&self) -> Vec<Wanted<'_>> {
        vec![
            Wanted::new("client", &self.client, "python_env"),
            Wanted::new("server", &self.server, "serve"),
            Wanted::new("corpus", &self.corpus, "pin_corpus"),
            Wanted::new("bundle", &self.bundle, "build_bundle"),
        ]
    }

    async fn execute(&self, context: &Context) -> Result<Produced, Failure> {
        let service = context.service(&self.server)?;
        let manifest: Manifest = context.evidence(&self.corpus)?;
        let client: Packages = context.evidence(&self.client)?;
        let planned_requests = manifest.turns_total;
        let run = context.work.join("run");
        let export = context.work.join(EXPORT);
        fs::create_dir_all(&export).map_err(unwritable)?;
        let dataset = self.stage(context, &manifest, &run)?;
        let argv = self.command(context, service, &dataset, &manifest, &export)?;
        let model_digest = || {
            Digest::of_file(&service.model)
                .map_err(|error| Failure::failed(format!("the served file cannot be read: {error}")))
        };
        let model_before = model_digest()?;
        scrape(service, &export.join(metrics::BEFORE)).await?;
        let load_average_before = host::load_average()[0];
        let started = jiff::Timestamp::now();
        let ended = self.drive(context, argv.clone(), &run, &export, planned_requests).await?;
        let took = jiff::Timestamp::now().duration_since(started);
        scrape(service, &export.join(metrics::AFTER)).await?;
        keep_server_records(service, &export)?;
        let aggregate = finished(&ended, &export, context)?;
        let load = Load {
            schema_version: 1,
            aiperf_version: text(&aggregate["aiperf_version"]).ok_or_else(|| {
                Failure::failed("AIPerf's export states no version; it is not one this program reads")
            })?,
            client: client.lock,
            command: public_command(&argv),
            dataset: dataset_name(self.dataset).to_owned(),
            selection_digest: manifest.selection_digest,
            planned_requests,
            settings: self.settings(&aggregate, planned_requests, client.version("aiperf")),
            exit_code: match ended.exit {
                crate::process::Exit::Code(code) => Some(code),
                _ => None,
            },
            bundle: service.bundle.digest,
            model_before,
            model_after: model_digest()?,
            load_average_before,
            load_average_after: host::load_average()[0],
            started_at: started.to_string(),
            took_ms: u64::try_from(took.as_millis()).unwrap_or_default(),
            machine: None,
        };
        let tree = context.store().put_tree(&export)?;
        if let Some(different) = load.settings.iter().find(|setting| setting.differs()) {
            let message = format!("AIPerf did not run as the plan states: {}", different.sentence());
            return Err(Failure::failed(message).with_evidence(&load));
        }
        Produced::new(&load, [("export", Artifact::Tree(tree))])
    }
}

impl Aiperf {
    /// Puts the pinned rows where AIPerf's loader looks for them.
    fn stage(&self, context: &Context, manifest: &Manifest, run: &Path) -> Result<PathBuf, Failure> {
        let form = match self.dataset {
            Dataset::SpecBench => PinnedForm::SpecBench,
            Dataset::SpeedBench => PinnedForm::SpeedBench,
        };
        let corpus = context.path_of(&self.corpus.0, context.artifact(&self.corpus, "file")?)?;
        let pinned = fs::read(&corpus).map_err(unwritable)?;
        let one_turn = manifest.selected.iter().all(|row| row.turns.len() == 1);
        if form == PinnedForm::SpecBench && !one_turn {
            return Err(Failure::environment(
                "AIPerf's Spec-Bench loader sends the first turn of a row only, and the corpus pins several; \
                 set `turns: first`, or use the dataset speed_bench",
            ));
        }
        let staged = match self.dataset {
            Dataset::SpecBench => run.join(SPEC_BENCH_CACHE),
            Dataset::SpeedBench => run.join("speed_bench.jsonl"),
        };
        if let Some(parent) = staged.parent() {
            fs::create_dir_all(parent).map_err(unwritable)?;
        }
        fs::write(&staged, pinned).map_err(unwritable)?;
        Ok(staged)
    }

    fn command(
        &self,
        context: &Context,
        service: &LiveService,
        dataset: &Path,
        manifest: &Manifest,
        export: &Path,
    ) -> Result<Vec<String>, Failure> {
        let engine = service.engine.adapter();
        let can = engine.capabilities();
        if self.streaming && !can.streaming {
            return Err(Failure::environment(format!(
                "{} cannot stream; set `streaming: false`",
                engine.name()
            )));
        }
        let aiperf = context.python(&self.client)?.with_file_name("aiperf");
        let mut tokenizer = self.bundle.0.clone();
        tokenizer.output = Some("tokenizer".to_owned());
        let tokenizer = context.path_of(&tokenizer, context.artifact(&self.bundle, "tokenizer")?)?;
        let mut argv = vec![aiperf.display().to_string(), "profile".to_owned()];
        let mut option = |name: &str, values: &[String]| {
            argv.push(name.to_owned());
            argv.extend_from_slice(values);
        };
        option("--model", std::slice::from_ref(&service.model_name));
        option("--url", std::slice::from_ref(&service.url));
        option("--endpoint-type", &["chat".to_owned()]);
        if self.streaming {
            option("--streaming", &[]);
        }
        match self.dataset {
            Dataset::SpecBench => {
                option("--public-dataset", &["spec-bench".to_owned()]);
                option("--request-count", &[manifest.turns_total.to_string()]);
            }
            Dataset::SpeedBench => {
                option("--input-file", &[dataset.display().to_string()]);
                option("--custom-dataset-type", &["speed-bench-qualitative".to_owned()]);
                option("--num-conversations", &[manifest.selected.len().to_string()]);
            }
        }
        option("--tokenizer", &[tokenizer.display().to_string()]);
        if can.usage_tokens {
            option("--use-server-token-count", &[]);
        }
        option("--concurrency", &[self.concurrency.to_string()]);
        option("--extra-inputs", &self.extra_inputs(engine.request_fields()));
        option("--export-level", &["raw".to_owned()]);
        option("--dataset-sampling-strategy", &["sequential".to_owned()]);
        option("--random-seed", &[self.random_seed.to_string()]);
        option("--ui-type", &["none".to_owned()]);
        option("--connection-reuse-strategy", &["never".to_owned()]);
        option("--no-gpu-telemetry", &[]);
        option("--output-artifact-dir", &[export.display().to_string()]);
        Ok(argv)
    }

    fn extra_inputs(&self, engine_fields: BTreeMap<String, Value>) -> Vec<String> {
        let mut fields = engine_fields;
        fields.insert("max_tokens".to_owned(), self.max_tokens.into());
        fields.insert("temperature".to_owned(), number(self.temperature));
        fields.extend(self.extra_inputs.clone());
        fields.iter().map(|(name, value)| format!("{name}:{}", text(value).unwrap_or_default())).collect()
    }

    async fn drive(
        &self,
        context: &Context,
        argv: Vec<String>,
        run: &Path,
        export: &Path,
        planned: usize,
    ) -> Result<Ended, Failure> {
        let home = context.work.join("home");
        fs::create_dir_all(&home).map_err(unwritable)?;
        let home = home.display().to_string();
        // AIPerf's sockets lie in its temporary directory, and the path of a
        // socket is limited to 107 bytes, so the work directory will not do.
        fs::create_dir_all(&context.world.scratch).map_err(unwritable)?;
        let temporary = tempfile::tempdir_in(&context.world.scratch).map_err(unwritable)?;
        let temporary_path = temporary.path().display().to_string();
        let variables = [("HOME", home.as_str()), ("TMPDIR", temporary_path.as_str())];
        let running = context.run(argv, &variables, run, Some(self.timeout.as_std()));
        let watching = async {
            loop {
                tokio::time::sleep(Duration::from_secs(1)).await;
                let done = fs::read(export.join(aiperf::CLIENT)).map_or(0, |bytes| newlines(&bytes));
                context.progress(format!("{done} of {planned} requests done"));
            }
        };
        tokio::select! {
            ended = running => ended,
            () = watching => Err(Failure::failed("the watch on AIPerf ended")),
        }
    }

    /// What the plan states beside what AIPerf's own export records.
    fn settings(&self, aggregate: &Value, planned: usize, installed: Option<&str>) -> Vec<Setting> {
        let input = &aggregate["input_config"];
        let phases = input["phases"].as_array().map(Vec::as_slice).unwrap_or_default();
        let profiling = phases.iter().find(|phase| phase["kind"] == "profiling").cloned().unwrap_or_default();
        // Only Spec-Bench is told how many requests; the others end with their rows.
        let requests = (self.dataset == Dataset::SpecBench).then(|| {
            Setting::new(
                "requests",
                Some(planned.to_string()),
                text(&profiling["requests"]),
                "input_config.phases.requests",
            )
        });
        let extra = &input["endpoint"]["extra"];
        let asked = |name: &str, requested: String, effective: &Value, shown_by: &str| {
            Setting::new(name, Some(requested), text(effective), shown_by)
        };
        let version = Setting::new(
            "aiperf_version",
            installed.map(str::to_owned),
            text(&aggregate["aiperf_version"]),
            "aiperf_version",
        );
        let stated = [
            asked(
                "concurrency",
                self.concurrency.to_string(),
                &profiling["concurrency"],
                "input_config.phases.concurrency",
            ),
            asked(
                "streaming",
                self.streaming.to_string(),
                &input["endpoint"]["streaming"],
                "input_config.endpoint.streaming",
            ),
            asked(
                "max_tokens",
                self.max_tokens.to_string(),
                &extra["max_tokens"],
                "input_config.endpoint.extra",
            ),
            asked(
                "temperature",
                number(self.temperature).to_string(),
                &extra["temperature"],
                "input_config.endpoint.extra",
            ),
        ];
        [version].into_iter().chain(requests).chain(stated).collect()
    }
}

/// The aggregate export of a run that ended by itself, or why there is none.
fn finished(ended: &Ended, export: &Path, context: &Context) -> Result<Value, Failure> {
    let path = export.join(aiperf::AGGREGATE);
    let aggregate = fs::read(&path).ok().and_then(|bytes| serde_json::from_slice::<Value>(&bytes).ok());
    match aggregate {
        Some(aggregate) if ended.success() => Ok(aggregate),
        Some(_) => {
            Err(Failure::failed(format!("AIPerf {}; its log says why", ended.exit))
                .with_log(context.log_tail()))
        }
        None => {
            let done = fs::read(export.join(aiperf::CLIENT)).map_or(0, |bytes| newlines(&bytes));
            Err(Failure::failed(format!(
                "AIPerf {} without its aggregate export, after {done} recorded requests; its log says why",
                ended.exit
            ))
            .with_log(context.log_tail()))
        }
    }
}

async fn scrape(service: &LiveService, to: &Path) -> Result<(), Failure> {
    let client = http::loopback_client(SCRAPE).map_err(|error| Failure::failed(error.to_string()))?;
    let address = format!("{}{}", service.url, service.engine.adapter().metrics_path());
    let answer = client.get(address).send().await.and_then(reqwest::Response::error_for_status);
    // An engine without metrics leaves no file; the audit then says so.
    if let Ok(answer) = answer
        && let Ok(body) = answer.bytes().await
    {
        fs::write(to, body).map_err(unwritable)?;
    }
    Ok(())
}

fn keep_server_records(service: &LiveService, export: &Path) -> Result<(), Failure> {
    let Some(name) = service.engine.adapter().records_file() else { return Ok(()) };
    let from = service.work.join(name);
    fs::copy(&from, export.join("engine-records.jsonl"))
        .map(|_| ())
        .map_err(|error| Failure::failed(format!("the server's records {name} cannot be read: {error}")))
}

fn dataset_name(dataset: Dataset) -> &'static str {
    match dataset {
        Dataset::SpecBench => "--public-dataset spec-bench, from the staged selection",
        Dataset::SpeedBench => "--input-file with --custom-dataset-type speed-bench-qualitative",
    }
}

/// A whole number where it is one: `0` and not `0.0`.
fn number(value: f64) -> Value {
    #[expect(clippy::cast_possible_truncation, reason = "the fraction was checked to be zero")]
    if value.fract() == 0.0 && value.abs() < 1e9 { Value::from(value as i64) } else { Value::from(value) }
}

fn text(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Null | Value::Array(_) | Value::Object(_) => None,
        other => Some(other.to_string()),
    }
}

#[expect(clippy::naive_bytecount, reason = "a few kilobytes once a second")]
fn newlines(bytes: &[u8]) -> usize {
    bytes.iter().filter(|byte| **byte == b'\n').count()
}

#[expect(clippy::needless_pass_by_value, reason = "it is used as a function of an error")]
fn unwritable(error: std::io::Error) -> Failure {
    Failure::environment(format!("the work directory cannot be used: {error}; check space and permissions"))
}
