//! `orchestrate gc`: remove from the store what nothing needs.

use std::time::SystemTime;

use clap::Args;
use schemars::JsonSchema;
use serde::Serialize;

use super::{CommandError, DONE, print_json, print_line, store_dir};
use crate::run::retention;
use crate::store::{Collected, Freed, Limits, Store};
use crate::value::{Duration, Size};

/// Arguments of `gc`.
#[derive(Debug, Args)]
#[command(
    after_help = "What the latest runs of every project, the matrix and named runs need is never removed. \
                  Without --older-than and --max-size only what nothing names goes."
)]
pub(super) struct GcArgs {
    /// Remove results and environments made longer ago than this, such as 30d.
    #[arg(long, value_name = "DURATION")]
    older_than: Option<Duration>,
    /// Remove the oldest results and environments until the store is no larger
    /// than this, such as 20GiB.
    #[arg(long, value_name = "SIZE")]
    max_size: Option<Size>,
    /// Keep what this run used. May be repeated.
    #[arg(long, value_name = "RUN")]
    keep_run: Vec<String>,
    /// Keep what so many of the latest runs of each plan used.
    #[arg(long, value_name = "N", default_value_t = 3)]
    keep_latest: usize,
    /// Remove nothing; say what would be removed.
    #[arg(long)]
    dry_run: bool,
    /// Print JSON.
    #[arg(long)]
    json: bool,
    /// Wait until no apply uses the store.
    #[arg(long)]
    wait: bool,
}

/// What `gc --json` prints.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(title = "What `orchestrate gc --json` prints")]
pub(super) struct GcReport {
    /// Version of this document.
    schema_version: u32,
    /// The store's directory.
    store: String,
    /// Whether nothing was removed, because it was only asked.
    dry_run: bool,
    /// What was or would be removed.
    removed: Collected,
    /// Bytes that this gives.
    freed_bytes: u64,
}

/// Runs the command.
pub(super) fn run(args: &GcArgs) -> Result<u8, CommandError> {
    let root = store_dir()?;
    let store = if root.is_dir() && !args.dry_run { Store::open(&root)? } else { Store::read_only(&root) };
    // Taken before anything is looked at, so that nothing changes meanwhile.
    let alone = (root.is_dir() && !args.dry_run).then(|| store.hold_alone(args.wait)).transpose()?;
    let needed = retention::needed(&store.projects()?, args.keep_latest, &args.keep_run)?;
    let limits = Limits { older_than: args.older_than.map(Duration::as_std), max_size: args.max_size };
    let collection = store.collection(&needed, &limits, SystemTime::now())?;
    if let Some(alone) = alone {
        store.collect(&collection, &alone)?;
    }
    let removed = collection.summary;
    let freed_bytes = removed.bytes();
    if args.json {
        let store = root.display().to_string();
        print_json(&GcReport { schema_version: 1, store, dry_run: args.dry_run, removed, freed_bytes })?;
    } else {
        print(&removed, args)?;
    }
    Ok(DONE)
}

fn print(removed: &Collected, args: &GcArgs) -> Result<(), CommandError> {
    let classes = [
        ("results", removed.results),
        ("blobs", removed.blobs),
        ("environments", removed.environments),
        ("set aside", removed.aside),
        ("temporary", removed.temporary),
    ];
    for (name, Freed { count, bytes }) in classes.into_iter().filter(|(_, freed)| freed.count > 0) {
        print_line(format_args!("{name:<13} {count:>6}  {}", Size::of_bytes(bytes)))?;
    }
    let left = Size::of_bytes(removed.left_bytes);
    let would = if args.dry_run { "would be freed" } else { "freed" };
    print_line(format_args!("{} {would}, {left} in use", Size::of_bytes(removed.bytes())))?;
    if let Some(most) = args.max_size.filter(|most| left > *most) {
        print_line(format_args!(
            "the rest is needed, so the store is larger than {most}; --keep-latest keeps fewer runs"
        ))?;
    }
    Ok(())
}
