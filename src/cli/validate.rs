//! `orchestrate validate`: check plans, targets, fragments and site files
//! without running anything.

use std::path::{Path, PathBuf};

use clap::Args;

use super::{CommandError, DONE, GivenArgs, print_line};
use crate::dag::Dag;
use crate::plan::{Checked, Diagnostics, Disk, check, load};

/// Arguments of `validate`.
#[derive(Debug, Args)]
pub(super) struct ValidateArgs {
    /// Files, or directories whose YAML files are checked.
    #[arg(required = true, value_name = "PATH")]
    paths: Vec<PathBuf>,
    #[command(flatten)]
    given: GivenArgs,
}

/// Runs the command.
pub(super) fn run(args: &ValidateArgs) -> Result<u8, CommandError> {
    let given = args.given.read()?;
    let mut wrong = Vec::new();
    for path in &args.paths {
        let is_directory = path.is_dir();
        for file in if is_directory { yaml_files(path)? } else { vec![path.clone()] } {
            match check(&Disk, &file, &given).and_then(follow) {
                // A file that is named is meant to be a plan, whatever it lacks.
                Ok(Checked::Other) if !is_directory => {
                    wrong.extend(load(&file, &given).err().into_iter().flat_map(|Diagnostics(found)| found));
                }
                Ok(checked) => print_line(format_args!("{}: {}", file.display(), describe(&checked)))?,
                Err(Diagnostics(found)) => wrong.extend(found),
            }
        }
    }
    // A mistake in a target is found once by itself and once by each plan.
    let mut kept = Vec::new();
    for diagnostic in wrong {
        if !kept.contains(&diagnostic) {
            kept.push(diagnostic);
        }
    }
    if kept.is_empty() { Ok(DONE) } else { Err(CommandError::Plan(Diagnostics(kept))) }
}

/// The graph of a plan has rules of its own.
fn follow(checked: Checked) -> Result<Checked, Diagnostics> {
    if let Checked::Plan(plan) = &checked {
        Dag::new(plan)?;
    }
    Ok(checked)
}

fn describe(checked: &Checked) -> String {
    let count = |number: usize, word: &str| match number {
        1 => format!("1 {word}"),
        _ => format!("{number} {word}s"),
    };
    match checked {
        Checked::Plan(plan) => format!(
            "plan {}, {}, {}, {}; no mistakes",
            plan.name,
            count(plan.nodes.len(), "node"),
            count(plan.targets.len(), "target"),
            count(plan.subjects.len(), "subject")
        ),
        Checked::Target { name, nodes } => format!("target {name}, {}; no mistakes", count(*nodes, "node")),
        Checked::Fragment { name, nodes } => {
            format!("fragment {name}, {}; no mistakes", count(*nodes, "node"))
        }
        Checked::Site { values } => format!("site, {}; no mistakes", count(*values, "value")),
        Checked::Other => "passed over: it has no `orchestrate:` key".to_owned(),
    }
}

/// The YAML files below a directory, sorted; hidden ones are left out.
fn yaml_files(directory: &Path) -> Result<Vec<PathBuf>, CommandError> {
    let unreadable =
        |source| CommandError::Io { what: format!("{} cannot be read", directory.display()), source };
    let mut entries: Vec<PathBuf> = std::fs::read_dir(directory)
        .and_then(|entries| entries.map(|entry| entry.map(|entry| entry.path())).collect())
        .map_err(unreadable)?;
    entries.sort();
    let mut files = Vec::new();
    for path in entries {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if name.starts_with('.') {
            continue;
        }
        if path.is_dir() {
            files.extend(yaml_files(&path)?);
        } else if name.ends_with(".yaml") || name.ends_with(".yml") {
            files.push(path);
        }
    }
    Ok(files)
}
