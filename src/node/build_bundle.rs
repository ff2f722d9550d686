//! Puts model, engine and engine settings together under one digest.

use std::path::{Path, PathBuf};
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::settings::Wanted;
use super::{Artifact, Class, Context, Failure, Node, Produced, to_value};
use crate::engine::{EngineSettings, Program};
use crate::evidence::bundle::{Bundle, EnginePackage, ModelFile, Setting};
use crate::evidence::packages::Packages;
use crate::process::{find_program, output_of};
use crate::value::{Digest, Input, Sha256, Text, duration};

/// Builds a bundle with the builder's own command, or adopts an existing
/// file, and names model, engine and engine settings by one digest.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct BuildBundle {
    /// The engine that serves the bundle, with its settings.
    pub engine: EngineSettings,
    /// A file that another node fetched, served as it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<Input>,
    /// An existing bundle file of the site. An empty path is passed over.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub adopt: Option<String>,
    /// The builder's command, run when there is neither `model` nor `adopt`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub build: Option<Build>,
    /// A directory with the model's `tokenizer.json`, for engines whose model
    /// file holds no vocabulary.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokenizer: Option<String>,
    /// The checkpoint the bundle is made from, such as `Qwen/Qwen3-0.6B`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub checkpoint: Option<String>,
    /// Revision of that checkpoint.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revision: Option<String>,
}

/// A builder's command.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Build {
    /// Program and arguments; it runs in an empty directory.
    pub command: Vec<Text>,
    /// The file it leaves there.
    pub output: String,
    /// How long it may take.
    #[serde(default = "two_hours")]
    pub timeout: duration::Duration,
}

fn two_hours() -> duration::Duration {
    duration::Duration::from_secs(7200)
}

impl Node for BuildBundle {
    const KIND: &'static str = "build_bundle";
    const VERSION: u32 = 1;
    const CLASS: Class = Class::Content;
    const OUTPUTS: &'static [(&'static str, &'static str)] = &[
        ("model", "the path of the served file"),
        ("tokenizer", "the directory of the model's tokenizer, where there is one"),
        ("manifest", "the path of a JSON file that says what the bundle is made of"),
    ];
    const EXAMPLE: &'static str = "\
bundle:
  build_bundle:
    model: ${nodes.model}
    engine:
      llama_cpp:
        program: llama-server
        precision: Q4_1
        context_length: 2048
";
    type Evidence = Bundle;

    fn key_settings(&self, context: &Context) -> Result<Value, Failure> {
        let engine = self.engine.adapter();
        let mut settings = to_value(self)?;
        settings["engine"] = json!({engine.name(): engine.portable_settings()});
        if let Program::Named(name) = engine.program() {
            let found = find(context, &name).ok();
            settings["program"] =
                json!(found.and_then(|path| program_digest(&path, &engine.library_dirs()).ok()));
        }
        let given = |path: &Option<String>| {
            path.as_ref().filter(|path| !path.is_empty()).map(|path| context.plan_path(path))
        };
        settings["adopt"] = json!(given(&self.adopt).and_then(|path| Digest::of_file(&path).ok()));
        settings["tokenizer"] = json!(given(&self.tokenizer).map(|path| tokenizer_digest(&path)));
        if let Some(build) = &self.build {
            let words = build.command.iter().map(|word| word_content(&word.0, context));
            settings["build"] = json!({"command": words.collect::<Vec<_>>(), "output": build.output});
        }
        Ok(settings)
    }

    fn wanted(&self) -> Vec<Wanted<'_>> {
        self.model.iter().map(|model| Wanted::new("model", model, "fetch")).collect()
    }

    async fn execute(&self, context: &Context) -> Result<Produced, Failure> {
        let engine_package = self.engine_package(context).await?;
        let path = self.model_file(context).await?;
        let unreadable =
            |error: std::io::Error| Failure::environment(format!("the model cannot be read: {error}"));
        let engine = self.engine.adapter();
        let unusable = |what: String| Failure::environment(format!("the model file cannot be used: {what}"));
        let read = engine.read_file(&path).map_err(unusable)?;
        let model = ModelFile {
            name: path.file_name().unwrap_or_default().to_string_lossy().into_owned(),
            bytes: path.metadata().map_err(unreadable)?.len(),
            digest: context.store().put_file(&path.canonicalize().map_err(unreadable)?)?,
            sha256: Sha256::of_file(&path).map_err(unreadable)?,
            facts: read.facts,
        };
        let settings = self.settings(&model);
        if let Some(different) = settings.iter().find(|setting| setting.differs()) {
            return Err(Failure::failed(format!(
                "the bundle is not what the plan asks for: {}; build it again or correct the plan",
                different.sentence()
            )));
        }
        let mut bundle = Bundle {
            schema_version: 1,
            digest: Digest::of(""),
            engine: engine.name().to_owned(),
            engine_package,
            engine_settings: engine.portable_settings(),
            context_limit: Some(engine.context_limit()),
            settings,
            speculative_markers: read.speculative_markers,
            build_command: self.build_command(context)?,
            model,
        };
        bundle = context.world.public(&bundle)?;
        bundle.digest = bundle.content_digest();
        let manifest = context.store().put_json(&bundle)?;
        let model = Artifact::File { name: bundle.model.name.clone(), digest: bundle.model.digest };
        let manifest = Artifact::File { name: "bundle.json".to_owned(), digest: manifest };
        let mut produced = Produced::new(&bundle, [("model", model), ("manifest", manifest)])?;
        if let Some(tokenizer) = self.tokenizer(&path, context)? {
            let tree = context.store().put_tree(&tokenizer)?;
            produced.outputs.insert("tokenizer".to_owned(), Artifact::Tree(tree));
        }
        Ok(produced)
    }
}

impl BuildBundle {
    /// The file to serve: fetched, adopted, or built now.
    async fn model_file(&self, context: &Context) -> Result<PathBuf, Failure> {
        if let Some(model) = &self.model {
            return context.path_of(&model.0, context.artifact(model, "file")?);
        }
        if let Some(adopted) = self.adopt.as_ref().filter(|path| !path.is_empty()) {
            return Ok(context.plan_path(adopted));
        }
        let Some(build) = &self.build else {
            return Err(Failure::environment(
                "a bundle needs `model`, `adopt` or `build`; add one of them in the plan",
            ));
        };
        let work = context.work.join("build");
        std::fs::create_dir_all(&work)
            .map_err(|error| Failure::environment(format!("the work directory cannot be made: {error}")))?;
        let argv = build.command.iter().map(|part| context.resolve(part)).collect::<Result<_, _>>()?;
        context.progress("building the bundle");
        let ended = context.run(argv, &[], &work, Some(build.timeout.as_std())).await?;
        let output = work.join(&build.output);
        if !ended.success() || !output.is_file() {
            let what = if ended.success() { "left no bundle".to_owned() } else { ended.exit.to_string() };
            return Err(
                Failure::failed(format!("the builder {what}; its log says why")).with_log(context.log_tail())
            );
        }
        Ok(output)
    }

    fn build_command(&self, context: &Context) -> Result<Option<Vec<String>>, Failure> {
        let adopted = self.model.is_some() || self.adopt.as_ref().is_some_and(|path| !path.is_empty());
        let Some(build) = self.build.as_ref().filter(|_| !adopted) else { return Ok(None) };
        let argv = build.command.iter().map(|part| context.resolve(part)).collect::<Result<Vec<_>, _>>()?;
        Ok(Some(public_command(&argv)))
    }

    /// A directory with the model's tokenizer: from the model file itself, or
    /// from the directory that the plan names.
    fn tokenizer(&self, model: &Path, context: &Context) -> Result<Option<PathBuf>, Failure> {
        let unusable = |what: String| Failure::environment(format!("the tokenizer cannot be used: {what}"));
        let into = context.work.join("tokenizer");
        std::fs::create_dir_all(&into).map_err(|error| unusable(error.to_string()))?;
        if self.engine.adapter().write_tokenizer(model, &into).map_err(unusable)? {
            return Ok(Some(into));
        }
        let Some(from) = self.tokenizer.as_ref().filter(|path| !path.is_empty()) else { return Ok(None) };
        let from = context.plan_path(from);
        for name in TOKENIZER_FILES.iter().filter(|name| from.join(name).is_file()) {
            std::fs::copy(from.join(name), into.join(name)).map_err(|error| unusable(error.to_string()))?;
        }
        if into.join("tokenizer.json").is_file() {
            return Ok(Some(into));
        }
        Err(unusable("the directory that the plan names holds no tokenizer.json".to_owned()))
    }

    fn settings(&self, model: &ModelFile) -> Vec<Setting> {
        let mut settings = self.engine.adapter().file_settings(&model.facts);
        // A bundle need not state its checkpoint; the build command then does.
        if let Some(effective) = model.facts.get("checkpoint_revision").cloned() {
            let shown_by = "checkpoint revision in the bundle";
            settings.push(Setting::new(
                "checkpoint_revision",
                self.revision.clone(),
                Some(effective),
                shown_by,
            ));
        }
        settings
    }

    async fn engine_package(&self, context: &Context) -> Result<EnginePackage, Failure> {
        match self.engine.adapter().program() {
            Program::Script { environment, package, script } => {
                let packages: Packages = context.evidence(&environment)?;
                let version = packages.version(&package).ok_or_else(|| {
                    Failure::environment(format!("the engine's environment holds no package {package}"))
                })?;
                let script = context.artifact(&script, "file")?;
                let digest = Digest::of_json(&json!({"environment": packages.lock, "script": script}));
                Ok(EnginePackage { version: version.to_owned(), name: package, digest })
            }
            Program::Named(name) => {
                let path = find(context, &name)?;
                let program = path.display().to_string();
                let question = [program.as_str(), "--version"];
                let asked = output_of(&question, &context.world.variables, Duration::from_secs(20)).await;
                let version = match &asked {
                    Ok(answer) => version_line(answer),
                    Err(_) => "it states no version".to_owned(),
                };
                let digest = program_digest(&path, &self.engine.adapter().library_dirs())
                    .map_err(|error| Failure::environment(format!("{name} cannot be read: {error}")))?;
                let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
                Ok(EnginePackage { name, version, digest })
            }
        }
    }
}

/// The file of a program that a plan or a site names.
pub(super) fn find(context: &Context, name: &str) -> Result<PathBuf, Failure> {
    let path = context.world.variables.get("PATH").map_or("", String::as_str);
    find_program(name, path).ok_or_else(|| {
        Failure::environment(format!(
            "the program {name} was not found; install it or correct its path in the site file"
        ))
    })
}

/// The line of a `--version` answer that states it; loaders print before it.
fn version_line(answer: &str) -> String {
    let stated = answer.lines().find(|line| line.trim_start().starts_with("version"));
    stated.or_else(|| answer.lines().next()).unwrap_or_default().trim().to_owned()
}

/// A program with the libraries beside it and in the given directories, by
/// content: a thin program with other libraries is another engine.
fn program_digest(program: &Path, library_dirs: &[PathBuf]) -> std::io::Result<Digest> {
    let program = program.canonicalize()?;
    let beside = program.parent().map(Path::to_owned);
    let lib = beside.as_ref().map(|dir| dir.join("../lib"));
    let mut files = vec![("program".to_owned(), Digest::of_file(&program)?)];
    for dir in beside.into_iter().chain(lib).chain(library_dirs.iter().cloned()) {
        for entry in std::fs::read_dir(dir).into_iter().flatten().flatten() {
            let name = entry.file_name().to_string_lossy().into_owned();
            let shipped = name.starts_with("lib") && name.contains(".so") && entry.path().is_file();
            // A system directory holds the libraries of everything else.
            if shipped && !entry.path().starts_with("/usr") && !entry.path().starts_with("/lib") {
                files.push((name, Digest::of_file(&entry.path())?));
            }
        }
    }
    files.sort();
    Ok(Digest::of_json(&json!(files)))
}

/// The files that make a tokenizer; a checkpoint's weights are not among them.
const TOKENIZER_FILES: [&str; 8] = [
    "tokenizer.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "added_tokens.json",
    "vocab.json",
    "merges.txt",
    "chat_template.jinja",
    "config.json",
];

fn tokenizer_digest(directory: &Path) -> Digest {
    let digest = |name: &&str| Digest::of_file(&directory.join(name)).ok();
    Digest::of_json(&json!(TOKENIZER_FILES.iter().map(|name| (name, digest(name))).collect::<Vec<_>>()))
}

/// A word of a command as it enters a key: a file by its content, so that a
/// rebuilt program counts and a moved one does not.
pub(super) fn word_content(word: &str, context: &Context) -> Value {
    let path = if word.contains('/') { Some(PathBuf::from(word)) } else { find(context, word).ok() };
    match path.filter(|path| path.is_absolute()) {
        Some(path) if path.is_file() => json!({"content": Digest::of_file(&path).ok()}),
        Some(path) => json!(path.file_name().map(|name| name.to_string_lossy().into_owned())),
        None => json!(word),
    }
}

/// A command with the places of this machine replaced by file names.
pub(super) fn public_command(argv: &[String]) -> Vec<String> {
    argv.iter()
        .map(|argument| {
            if argument.starts_with('/') {
                argument.trim_end_matches('/').rsplit('/').next().unwrap_or_default().to_owned()
            } else {
                argument.clone()
            }
        })
        .collect()
}
