//! Trying a node again after it failed, never without saying so.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::Write;
use std::path::Path;
use std::time::Duration;

use jiff::Timestamp;
use tokio::task::JoinSet;

use super::{Scheduler, Woken};
use crate::event::Event;
use crate::node::{Failure, FailureKind};
use crate::plan::PlannedNode;
use crate::value::Digest;

/// Work of a node that failed.
pub(super) struct Attempt {
    pub failure: Failure,
    pub key: Option<Digest>,
    pub started_at: Timestamp,
    pub took: Duration,
}

/// Nodes that are tried again because the plan says so.
#[derive(Default)]
pub(super) struct Retries {
    /// What became of the attempts before, by node.
    failed: BTreeMap<String, Vec<String>>,
    /// Nodes whose next attempt is not due yet.
    waiting: BTreeSet<String>,
}

impl Retries {
    /// What became of a node's attempts before the one that did it.
    pub fn reason(&self, node: &str) -> Option<String> {
        let failed = self.failed.get(node)?;
        let attempts =
            failed.iter().zip(1..).map(|(reason, number)| format!("attempt {number} failed: {reason}"));
        Some(attempts.collect::<Vec<_>>().join("; "))
    }

    /// Whether the next attempt of a node is still to come.
    pub fn is_waiting(&self, node: &str) -> bool {
        self.waiting.contains(node)
    }

    /// The next attempt of a node is due.
    pub fn due(&mut self, node: &str) {
        self.waiting.remove(node);
    }
}

impl Scheduler<'_> {
    /// Has a node that failed tried again after a while, if the plan allows
    /// one more attempt; else gives its failure back.
    pub(super) fn retry(
        &mut self,
        node: &PlannedNode,
        attempt: Attempt,
        tasks: &mut JoinSet<Woken>,
    ) -> Option<Attempt> {
        let failed_before = self.retries.failed.get(&node.name).map_or(0, Vec::len);
        let number = u32::try_from(failed_before + 1).unwrap_or(u32::MAX);
        let wait = node.retry.and_then(|retry| retry.wait_after(number));
        let Some(wait) = wait.filter(|_| !self.is_ending() && attempt.failure.kind != FailureKind::Cancelled)
        else {
            return Some(attempt);
        };
        let times = node.retry.map_or(0, |retry| retry.times);
        let why = format!("retry {number} of {times} follows in {} s", wait.as_secs_f64());
        let reason = self.walk.world.site.mask(&attempt.failure.message);
        self.try_again(node, &attempt, &why);
        self.retries.failed.entry(node.name.clone()).or_default().push(reason);
        self.retries.waiting.insert(node.name.clone());
        let name = node.name.clone();
        let cancelled = self.walk.world.cancelled.clone();
        tasks.spawn(async move {
            tokio::select! {
                () = tokio::time::sleep(wait) => {}
                () = cancelled.raised() => {}
            }
            Woken::Due(name)
        });
        None
    }

    /// Whether nothing new is begun any more.
    pub(super) fn is_ending(&self) -> bool {
        self.walk.world.cancelled.is_raised() || (self.failed.is_some() && !self.options.keep_going)
    }

    /// Ends an attempt of a node, which another one follows.
    pub(super) fn try_again(&mut self, node: &PlannedNode, attempt: &Attempt, why: &str) {
        let Attempt { failure, key, started_at, took } = attempt;
        let mut record = self.failed(node, failure);
        record.key = *key;
        record.reason = record.reason.map(|reason| format!("{reason}; {why}"));
        self.record(node, &record, *started_at, *took);
        let context = self.context(node);
        note(&context.log, self.attempt(&node.name), record.reason.as_deref().unwrap_or_default());
        (self.walk.world.events)(Event::NodeRetried {
            node: node.name.clone(),
            reason: format!("{}; {why}", failure.message),
            took: *took,
            log_tail: failure.log_tail.clone(),
        });
        *self.attempts.entry(node.name.clone()).or_insert(1) += 1;
        let _ = fs::remove_dir_all(&context.work);
        self.renew_services(&node.name);
    }
}

/// Writes the end of an attempt into the node's log, between what it and the
/// next one wrote. Where that cannot be, the state still has it.
pub(super) fn note(log: &Path, attempt: u32, reason: &str) {
    let opened = log.parent().map(fs::create_dir_all).and_then(Result::ok);
    let file = opened.and_then(|()| fs::OpenOptions::new().create(true).append(true).open(log).ok());
    let _ = file.map(|mut file| writeln!(file, "orchestrate: attempt {attempt} failed: {reason}"));
}
