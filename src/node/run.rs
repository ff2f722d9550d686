//! Runs any command with declared inputs and outputs.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::build_bundle::{public_command, word_content};
use super::settings::Unfit;
use super::{Artifact, Class, Context, Failure, Node, Produced};
use crate::evidence::command::{CommandRun, Left};
use crate::store::is_inside;
use crate::value::reference::{Piece, pieces};
use crate::value::{Digest, Input, Reference, Text};

/// Runs a command in a directory of its own, which holds its inputs and in
/// which it leaves its outputs. It runs again when the command, its program or
/// an input changes; what it reads beside them is not seen.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Run {
    /// Program and arguments. Nothing is read as shell unless a shell is named:
    /// `[sh, -c, "sort < in > out"]`.
    pub command: Vec<Text>,
    /// What it reads, by the path at which it finds it: a file or directory
    /// relative to the plan, or what another node left. Read-only.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub inputs: BTreeMap<String, Text>,
    /// Paths of the files or directories it leaves, by the names other nodes
    /// refer to them by. The directories above them are there already.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub outputs: BTreeMap<String, String>,
    /// Variables beside those every program gets.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub environment: BTreeMap<String, Text>,
    /// Whether the same inputs give the same outputs, or it measures this
    /// machine.
    #[serde(default)]
    pub reuse: Reuse,
}

/// How the outputs of a command may be reused.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Reuse {
    /// The same inputs give the same outputs, on any machine.
    #[default]
    Content,
    /// It measures: nothing else runs meanwhile, and its result counts on this
    /// machine only.
    Measurement,
}

impl Node for Run {
    const KIND: &'static str = "run";
    const VERSION: u32 = 1;
    const CLASS: Class = Class::Content;
    const OUTPUTS: &'static [(&'static str, &'static str)] = &[];
    const NAMES_OUTPUTS: Option<&'static str> = Some("outputs");
    const READS_ONLY_NAMED_OUTPUTS: bool = true;
    const EXAMPLE: &'static str = "\
rows:
  run:
    command: [sh, -c, 'wc -l < pinned.jsonl > rows.txt']
    inputs:
      pinned.jsonl: ${nodes.corpus.file}
    outputs:
      count: rows.txt
";
    type Evidence = CommandRun;

    fn class(&self) -> Class {
        match self.reuse {
            Reuse::Content => Class::Content,
            Reuse::Measurement => Class::Measurement,
        }
    }

    fn is_quiet(&self) -> bool {
        self.reuse == Reuse::Measurement
    }

    fn makes_outputs(&self) -> bool {
        !self.outputs.is_empty()
    }

    fn key_settings(&self, context: &Context) -> Result<Value, Failure> {
        let word = |(place, word): (usize, &Text)| match place {
            0 if names_program(&word.0) => json!({"program": context.program_digest(&word.0)}),
            _ if word.0.starts_with('/') => word_content(&word.0, context),
            _ => json!(word.0),
        };
        let command: Vec<Value> = self.command.iter().enumerate().map(word).collect();
        let inputs: BTreeMap<&String, Value> =
            self.inputs.iter().map(|(name, from)| (name, input_content(from, context))).collect();
        Ok(json!({
            "command": command,
            "inputs": inputs,
            "outputs": self.outputs,
            "environment": self.environment,
            "reuse": self.reuse,
        }))
    }

    fn unfit(&self) -> Vec<Unfit> {
        let mut unfit = Vec::new();
        if self.command.is_empty() {
            unfit.push(Unfit::new("command", "the command has no program", "write [PROGRAM, ARGUMENT, …]"));
        }
        let places = self.inputs.keys().map(|place| ("inputs", place, place));
        let places = places.chain(self.outputs.iter().map(|(name, place)| ("outputs", name, place)));
        for (setting, name, place) in places.filter(|(_, _, place)| !is_inside(Path::new(place))) {
            let message = format!("{place:?} is no path inside the command's directory");
            let help = "write a relative path without `..`";
            unfit.push(Unfit::new(format!("{setting}.{name}"), message, help));
        }
        unfit
    }

    async fn execute(&self, context: &Context) -> Result<Produced, Failure> {
        let directory = context.work.join("run");
        make_dir(&directory)?;
        let mut evidence = CommandRun {
            schema_version: 1,
            command: Vec::new(),
            inputs: BTreeMap::new(),
            outputs: BTreeMap::new(),
            machine: None,
        };
        for (name, from) in &self.inputs {
            let digest = place_input(context, from, &directory.join(name))?;
            evidence.inputs.insert(name.clone(), digest);
        }
        for place in self.outputs.values() {
            make_dir(directory.join(place).parent().unwrap_or(&directory))?;
        }
        let argv = self.command.iter().map(|word| context.resolve(word)).collect::<Result<Vec<_>, _>>()?;
        evidence.command = public_command(&argv);
        let environment =
            self.environment.iter().map(|(name, text)| Ok((name.as_str(), context.resolve(text)?)));
        let environment = environment.collect::<Result<Vec<_>, Failure>>()?;
        let environment: Vec<(&str, &str)> =
            environment.iter().map(|(name, text)| (*name, text.as_str())).collect();
        let ended = context.run(argv, &environment, &directory, None).await?;
        if !ended.success() {
            let message = format!("its command {}; its log says why", ended.exit);
            return Err(Failure::failed(message).with_log(context.log_tail()));
        }
        let mut outputs = BTreeMap::new();
        for (name, place) in &self.outputs {
            let (artifact, left) = take_output(context, name, place, &directory)?;
            outputs.insert(name.clone(), artifact);
            evidence.outputs.insert(name.clone(), left);
        }
        Ok(Produced { outputs, ..Produced::new(&evidence, [])? })
    }
}

/// Whether the first word of a command is a program of this machine, and not
/// one of its inputs.
fn names_program(word: &str) -> bool {
    !word.contains("${") && (word.starts_with('/') || !word.contains('/'))
}

/// The reference that a text consists of.
fn whole_reference(text: &Text) -> Option<Reference> {
    match pieces(&text.0).ok()?.as_slice() {
        [Piece::Reference(inner)] => Reference::parse(inner),
        _ => None,
    }
}

/// An input as it enters the key. What another node left counts there already.
fn input_content(from: &Text, context: &Context) -> Value {
    if from.0.contains("${") {
        return json!(from.0);
    }
    let path = context.plan_path(&from.0);
    match fs::metadata(&path) {
        Ok(kind) if kind.is_dir() => json!({"directory": directory_content(&path).ok()}),
        _ => json!({"content": Digest::of_file(&path).ok()}),
    }
}

/// Everything below a directory that its stored form holds, by its path.
fn directory_content(directory: &Path) -> io::Result<BTreeMap<String, Value>> {
    let mut content = BTreeMap::new();
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        let kind = entry.file_type()?;
        let value = if kind.is_dir() {
            json!(directory_content(&entry.path())?)
        } else if kind.is_symlink() {
            json!({"link": fs::read_link(entry.path())?.as_os_str().as_encoded_bytes()})
        } else {
            let executable = entry.metadata()?.permissions().mode() & 0o100 != 0;
            json!([Digest::of_file(&entry.path())?, executable])
        };
        content.insert(entry.file_name().as_encoded_bytes().escape_ascii().to_string(), value);
    }
    Ok(content)
}

/// Makes an input appear where the command reads it; returns its digest.
fn place_input(context: &Context, from: &Text, to: &Path) -> Result<Digest, Failure> {
    if let Some(parent) = to.parent() {
        make_dir(parent)?;
    }
    let store = context.store();
    if let Some(reference) = whole_reference(from) {
        let output = reference.output.clone().unwrap_or_default();
        match context.artifact(&Input(reference), &output)? {
            Artifact::File { digest, .. } => {
                store.materialise(*digest, to)?;
                return Ok(*digest);
            }
            Artifact::Tree(digest) => {
                store.materialise_tree(*digest, to)?;
                return Ok(*digest);
            }
            Artifact::Environment(_) | Artifact::Value(_) => {
                return Err(Failure::environment(format!(
                    "the input {} is neither a file nor a directory; refer to it in the command",
                    from.0
                )));
            }
        }
    }
    let path = PathBuf::from(context.resolve(from)?);
    let path = if path.is_absolute() { path } else { context.plan_path(&from.0) };
    let missing =
        || Failure::environment(format!("the input {} does not exist; check its path in the plan", from.0));
    let kind = fs::metadata(&path).map_err(|_| missing())?;
    if kind.is_dir() {
        let digest = store.put_tree(&path)?;
        store.materialise_tree(digest, to)?;
        return Ok(digest);
    }
    let digest = store.put_file(&path)?;
    store.materialise(digest, to)?;
    Ok(digest)
}

/// Stores what the command left under an output's path.
fn take_output(
    context: &Context,
    name: &str,
    place: &str,
    directory: &Path,
) -> Result<(Artifact, Left), Failure> {
    let path = directory.join(place);
    let missing = || {
        Failure::failed(format!(
            "its command ended well and left no {place}, the output {name}; its log says what it did"
        ))
        .with_log(context.log_tail())
    };
    let facts = fs::symlink_metadata(&path).map_err(|_| missing())?;
    if facts.is_dir() {
        if fs::read_dir(&path).map_err(|_| missing())?.next().is_none() {
            return Err(Failure::failed(format!(
                "its output {name} is an empty directory; its log says what it did"
            )));
        }
        let digest = context.store().put_tree(&path)?;
        return Ok((Artifact::Tree(digest), Left::Directory { digest }));
    }
    if !facts.is_file() {
        return Err(Failure::failed(format!("its output {name} is neither a file nor a directory")));
    }
    let digest = context.store().take_file(&path)?;
    let file = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    Ok((Artifact::File { name: file, digest }, Left::File { digest, bytes: facts.len() }))
}

fn make_dir(path: &Path) -> Result<(), Failure> {
    fs::create_dir_all(path)
        .map_err(|error| Failure::environment(format!("{} cannot be made: {error}", path.display())))
}
