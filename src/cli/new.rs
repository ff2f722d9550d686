//! `orchestrate new`: begin a stage or a target from a commented file.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};

use super::{CommandError, DONE, print_line};
use crate::plan::{is_name, yaml};

const STAGE: &str = include_str!("../../templates/new/stage.yaml");
const TARGET: &str = include_str!("../../templates/new/target.yaml");
/// What a template has in the place of the name, and of the list of targets.
const NAME: &str = "NEW_NAME";
const TARGETS: &str = "NEW_TARGETS";

/// Arguments of `new`.
#[derive(Debug, Args)]
pub(super) struct NewArgs {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    /// A stage: a plan with one subject, on a target that is there.
    Stage(StageArgs),
    /// A target: a GGUF file of this machine on llama.cpp's own server.
    Target(TargetArgs),
}

#[derive(Debug, Args)]
struct StageArgs {
    #[command(flatten)]
    new: FileArgs,
    /// The target it begins with; without it, the first one there is.
    #[arg(long, value_name = "NAME")]
    target: Option<String>,
}

#[derive(Debug, Args)]
struct TargetArgs {
    #[command(flatten)]
    new: FileArgs,
}

#[derive(Debug, Args)]
struct FileArgs {
    /// Its name, and that of its file.
    #[arg(value_parser = name)]
    name: String,
    /// The directory of the plans.
    #[arg(long, value_name = "DIR", default_value = "plans")]
    dir: PathBuf,
}

/// Runs the command.
pub(super) fn run(args: &NewArgs) -> Result<u8, CommandError> {
    match &args.what {
        What::Stage(args) => stage(args)?,
        What::Target(args) => target(&args.new)?,
    }
    Ok(DONE)
}

fn stage(args: &StageArgs) -> Result<(), CommandError> {
    let FileArgs { name, dir } = &args.new;
    let targets = KnownTarget::all_of(&dir.join("targets"))?;
    let chosen = match &args.target {
        None => targets.first(),
        Some(wanted) => targets.iter().find(|target| target.name == *wanted),
    };
    let Some(chosen) = chosen else { return Err(no_target(args, &targets)) };
    let line = |target: &KnownTarget| {
        let mark = if target.name == chosen.name { "" } else { "# " };
        format!("  {mark}- targets/{}\n", target.file)
    };
    let lines: String = targets.iter().map(line).collect();
    let path = dir.join(format!("{name}.yaml"));
    write(&path, &STAGE.replace(NAME, name).replace(TARGETS, lines.trim_end_matches('\n')))?;
    print_line(format_args!("written: {}, on the target {}", path.display(), chosen.name))?;
    let path = path.display();
    say_next(dir, &[format!("validate {path}"), format!("plan {path}")])?;
    Ok(())
}

fn target(args: &FileArgs) -> Result<(), CommandError> {
    let FileArgs { name, dir } = args;
    let path = dir.join("targets").join(format!("{name}.yaml"));
    write(&path, &TARGET.replace(NAME, name))?;
    print_line(format_args!("written: {}", path.display()))?;
    let commands = [
        format!("validate {}", path.display()),
        format!("new stage STAGE --target {name}{}", dir_option(dir)),
    ];
    say_next(dir, &commands)?;
    Ok(())
}

/// A target file that a stage can list.
struct KnownTarget {
    name: String,
    file: String,
}

impl KnownTarget {
    /// The targets directly in a directory, by the names of their files; none
    /// where the directory is missing.
    fn all_of(dir: &Path) -> Result<Vec<Self>, CommandError> {
        let unreadable =
            |source| CommandError::Io { what: format!("{} cannot be read", dir.display()), source };
        let entries = match fs::read_dir(dir) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            entries => entries.map_err(unreadable)?,
        };
        let mut paths: Vec<PathBuf> = entries
            .map(|entry| entry.map(|entry| entry.path()))
            .collect::<Result<_, _>>()
            .map_err(unreadable)?;
        paths.sort();
        Ok(paths.iter().filter_map(|path| Self::read(path)).collect())
    }

    /// The target in a file, if it is one, under a name that needs no quotes.
    fn read(path: &Path) -> Option<Self> {
        let is_yaml = path.extension().is_some_and(|extension| extension == "yaml");
        let file = path.file_name()?.to_str().filter(|file| is_yaml && is_name(file))?;
        let tree = yaml::parse(&fs::read_to_string(path).ok()?, &mut Vec::new())?;
        let name = tree.get("target")?.text()?.to_owned();
        Some(Self { name, file: file.to_owned() })
    }
}

fn no_target(args: &StageArgs, targets: &[KnownTarget]) -> CommandError {
    let dir = args.new.dir.join("targets");
    let known: Vec<&str> = targets.iter().map(|target| target.name.as_str()).collect();
    let option = dir_option(&args.new.dir);
    CommandError::Usage(match &args.target {
        _ if known.is_empty() => format!(
            "{} holds no target for the stage; run `orchestrate new target NAME{option}` first",
            dir.display()
        ),
        wanted => format!(
            "{} holds no target `{}`; there are: {}",
            dir.display(),
            wanted.as_deref().unwrap_or_default(),
            known.join(", ")
        ),
    })
}

/// Writes a file that is not there yet, all of it or nothing.
fn write(path: &Path, text: &str) -> Result<(), CommandError> {
    let io = |source| CommandError::Io { what: format!("{} cannot be written", path.display()), source };
    if let Some(dir) = path.parent() {
        fs::create_dir_all(dir).map_err(io)?;
    }
    let mut file = match File::create_new(path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            return Err(CommandError::Usage(format!(
                "{} is there already and stays as it is; take another name, or remove it first",
                path.display()
            )));
        }
        file => file.map_err(io)?,
    };
    file.write_all(text.as_bytes()).map_err(|error| {
        // What is half there would be taken for the user's own next time.
        let _ = fs::remove_file(path);
        io(error)
    })
}

/// The commands to go on with, and where the schemas of the modeline are.
fn say_next(dir: &Path, commands: &[String]) -> Result<(), CommandError> {
    let root = match dir.parent() {
        Some(root) if dir.file_name().is_some() && root != Path::new("") => root.to_owned(),
        Some(_) if dir.file_name().is_some() => PathBuf::from("."),
        _ => dir.join(".."),
    };
    if !root.join("schemas").is_dir() {
        print_line(format_args!(
            "there is no {}: `orchestrate schema {}` writes the schemas there, for editors",
            root.join("schemas").display(),
            root.display()
        ))?;
    }
    print_line("next:")?;
    for command in commands {
        print_line(format_args!("  orchestrate {command}"))?;
    }
    Ok(())
}

/// How a further command is told of the directory, where it has to be.
fn dir_option(dir: &Path) -> String {
    if dir == Path::new("plans") { String::new() } else { format!(" --dir {}", dir.display()) }
}

fn name(text: &str) -> Result<String, String> {
    if is_name(text) && text.starts_with(|first: char| first.is_ascii_alphabetic()) {
        return Ok(text.to_owned());
    }
    Err("use letters, digits, `-`, `_` and `.`, a letter first, and no word of YAML such as `no`".to_owned())
}
