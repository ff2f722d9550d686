//! `orchestrate schema`: write the JSON Schemas and the reference of the plan
//! language, or check them.

use std::path::PathBuf;

use clap::Args;
use schemars::schema_for;

use super::gc::GcReport;
use super::store::{StatsReport, VerifyReport};
use super::{CommandError, DONE, print_line, say};
use crate::plan::schema;
use crate::run::{Explanation, Forecast};

/// Arguments of `schema`.
#[derive(Debug, Args)]
pub(super) struct SchemaArgs {
    /// The project's root, with `schemas/` and `plans/README.md`.
    #[arg(default_value = ".")]
    root: PathBuf,
    /// Write nothing; exit with 1 if a file differs from the types.
    #[arg(long)]
    check: bool,
}

/// Runs the command.
pub(super) fn run(args: &SchemaArgs) -> Result<u8, CommandError> {
    let mut stale = Vec::new();
    for (name, text) in schema::generated().into_iter().chain(printed()) {
        let path = args.root.join(&name);
        if std::fs::read_to_string(&path).is_ok_and(|found| found == text) {
            continue;
        }
        stale.push(name);
        if !args.check {
            let io =
                |source| CommandError::Io { what: format!("{} cannot be written", path.display()), source };
            std::fs::create_dir_all(path.parent().unwrap_or(&args.root)).map_err(io)?;
            std::fs::write(&path, text).map_err(io)?;
        }
    }
    for name in &stale {
        print_line(format_args!(
            "{}: {name}",
            if args.check { "differs from the types" } else { "written" }
        ))?;
    }
    if args.check && !stale.is_empty() {
        say("error: generated files differ from the types; run `orchestrate schema` and commit them\n");
        return Ok(1);
    }
    Ok(DONE)
}

/// What commands print with `--json`.
fn printed() -> [(String, String); 5] {
    let file = |name: &str, schema: schemars::Schema| {
        (format!("schemas/output/{name}.schema.json"), format!("{:#}\n", schema.to_value()))
    };
    [
        file("plan", schema_for!(Forecast)),
        file("explain", schema_for!(Explanation)),
        file("gc", schema_for!(GcReport)),
        file("store-verify", schema_for!(VerifyReport)),
        file("store-stats", schema_for!(StatsReport)),
    ]
}
