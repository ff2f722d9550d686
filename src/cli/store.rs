//! `orchestrate store`: what is in the store, and whether it is whole.

use std::time::SystemTime;

use clap::{Args, Subcommand};
use jiff::Timestamp;
use schemars::JsonSchema;
use serde::Serialize;

use super::{CommandError, DONE, print_json, print_line, store_dir};
use crate::store::{Audit, Freed, Lost, Store};
use crate::value::{Digest, Size};

/// Arguments of `store`.
#[derive(Debug, Args)]
pub(super) struct StoreArgs {
    #[command(subcommand)]
    command: StoreCommand,
}

#[derive(Debug, Subcommand)]
enum StoreCommand {
    /// Read everything in the store and set aside what is damaged; exit with 1
    /// if something was.
    Verify(OutputArgs),
    /// Count what is in the store.
    Stats(OutputArgs),
}

#[derive(Debug, Args)]
struct OutputArgs {
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// What `store verify --json` prints.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(title = "What `orchestrate store verify --json` prints")]
pub(super) struct VerifyReport {
    /// Version of this document.
    schema_version: u32,
    /// The store's directory.
    store: String,
    /// How many contents were read.
    blobs: usize,
    /// How many results were looked at.
    results: usize,
    /// Contents that were damaged and are set aside.
    damaged: Vec<Digest>,
    /// Contents that could not be read.
    unreadable: Vec<UnreadableBlob>,
    /// Results that lose something; their nodes run again.
    lost: Vec<LostResult>,
    /// Files of results that this version cannot read.
    unreadable_results: Vec<String>,
}

/// A content that could not be read.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct UnreadableBlob {
    /// Its digest.
    digest: Digest,
    /// Why not.
    reason: String,
}

/// A result that is not usable any more.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct LostResult {
    /// Its key.
    key: String,
    /// The kind of its node.
    kind: Option<String>,
    /// What it names and the store does not hold.
    gone: Vec<Digest>,
}

/// What `store stats --json` prints.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(title = "What `orchestrate store stats --json` prints")]
pub(super) struct StatsReport {
    /// Version of this document.
    schema_version: u32,
    /// The store's directory.
    store: String,
    /// How much there is, by class.
    parts: Vec<PartRow>,
    /// Allocated bytes of all classes.
    total_bytes: u64,
    /// When the oldest result was made (RFC 3339).
    oldest_result: Option<String>,
    /// When the newest result was made (RFC 3339).
    newest_result: Option<String>,
    /// Projects that used the store.
    projects: Vec<ProjectRow>,
}

/// One class of things in the store.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct PartRow {
    /// Its name.
    name: &'static str,
    /// How many, and the space that they take.
    amount: Freed,
}

/// A project that used the store.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct ProjectRow {
    /// Its state directory.
    state_dir: String,
    /// Whether it is still there; one that is not keeps nothing.
    exists: bool,
}

/// Runs the command.
pub(super) fn run(args: &StoreArgs) -> Result<u8, CommandError> {
    match &args.command {
        StoreCommand::Verify(output) => verify(output),
        StoreCommand::Stats(output) => stats(output),
    }
}

fn verify(output: &OutputArgs) -> Result<u8, CommandError> {
    let root = store_dir()?;
    let there = root.is_dir();
    let store = if there { Store::open(&root)? } else { Store::read_only(&root) };
    let _in_use = there.then(|| store.hold()).transpose()?;
    let audit = store.audit()?;
    let exit_code = if audit.is_clean() { DONE } else { 1 };
    if output.json {
        print_json(&verify_report(root.display().to_string(), audit))?;
    } else {
        print_audit(&audit)?;
    }
    Ok(exit_code)
}

fn verify_report(store: String, audit: Audit) -> VerifyReport {
    let unreadable = audit.unreadable.into_iter();
    let lost = |Lost { key, kind, gone }| LostResult { key, kind, gone };
    VerifyReport {
        schema_version: 1,
        store,
        blobs: audit.blobs,
        results: audit.results,
        damaged: audit.damaged,
        unreadable: unreadable.map(|(digest, reason)| UnreadableBlob { digest, reason }).collect(),
        lost: audit.lost.into_iter().map(lost).collect(),
        unreadable_results: audit.unreadable_results,
    }
}

fn print_audit(audit: &Audit) -> Result<(), CommandError> {
    for digest in &audit.damaged {
        print_line(format_args!("damaged     {digest}"))?;
    }
    for reason in audit.unreadable.values() {
        print_line(format_args!("unreadable  {reason}"))?;
    }
    for lost in &audit.lost {
        let kind = lost.kind.as_deref().unwrap_or("unknown");
        let gone: Vec<_> = lost.gone.iter().map(Digest::short).collect();
        print_line(format_args!(
            "lost        the result {} of a {kind} node names {}",
            lost.key,
            gone.join(", ")
        ))?;
    }
    for path in &audit.unreadable_results {
        print_line(format_args!("unreadable  {path} is no result that this version can read"))?;
    }
    print_line(format_args!("{} blobs and {} results were read", audit.blobs, audit.results))?;
    if audit.is_clean() {
        print_line("everything is as it should be")?;
    } else {
        print_line("the next `orchestrate apply` makes again what was lost")?;
    }
    Ok(())
}

fn stats(output: &OutputArgs) -> Result<u8, CommandError> {
    let root = store_dir()?;
    let store = Store::read_only(&root);
    let stats = store.stats()?;
    let projects = store.projects()?;
    let report = StatsReport {
        schema_version: 1,
        store: root.display().to_string(),
        total_bytes: stats.parts.iter().map(|part| part.amount.bytes).sum(),
        parts: stats.parts.iter().map(|part| PartRow { name: part.name, amount: part.amount }).collect(),
        oldest_result: stats.oldest.and_then(instant),
        newest_result: stats.newest.and_then(instant),
        projects: projects
            .into_iter()
            .map(|project| ProjectRow {
                state_dir: project.state_dir.display().to_string(),
                exists: project.exists,
            })
            .collect(),
    };
    if output.json {
        print_json(&report)?;
    } else {
        print_stats(&report)?;
    }
    Ok(DONE)
}

fn print_stats(report: &StatsReport) -> Result<(), CommandError> {
    print_line(format_args!("store         {}", report.store))?;
    for PartRow { name, amount: Freed { count, bytes } } in &report.parts {
        print_line(format_args!("{name:<13} {count:>6}  {}", Size::of_bytes(*bytes)))?;
    }
    print_line(format_args!("together              {}", Size::of_bytes(report.total_bytes)))?;
    if let (Some(oldest), Some(newest)) = (&report.oldest_result, &report.newest_result) {
        print_line(format_args!("results from  {oldest} to {newest}"))?;
    }
    for project in &report.projects {
        let note = if project.exists { "" } else { " (gone; it keeps nothing)" };
        print_line(format_args!("project       {}{note}", project.state_dir))?;
    }
    Ok(())
}

/// RFC 3339 to the second.
fn instant(at: SystemTime) -> Option<String> {
    let at = Timestamp::try_from(at).ok()?;
    Some(Timestamp::from_second(at.as_second()).ok()?.to_string())
}
