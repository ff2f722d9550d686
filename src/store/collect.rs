//! What may go from the store, and its removal.
//!
//! First it is decided what goes, from all that is there and all that is
//! needed; then it is removed, results before what they name, so that an end
//! in the middle never leaves a result whose content is gone.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{self, ErrorKind};
use std::path::Path;
use std::time::{Duration, SystemTime};

use schemars::JsonSchema;
use serde::Serialize;

use super::inventory::{Environment, Inventory, Item, names_environment};
use super::put::sync_all;
use super::{SoleUse, Store, StoreError, io_error};
use crate::value::{Digest, Size};

/// How long damaged content stays where somebody may look at it.
const ASIDE: Duration = Duration::from_secs(7 * 24 * 3600);

/// What must stay, by what the rooms above know.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Needed {
    /// Keys whose results stay with everything they name.
    pub keys: BTreeSet<Digest>,
    /// Documents that stay.
    pub documents: BTreeSet<Digest>,
    /// Documents that older runs name: they go like results, by age or size.
    pub mentioned: BTreeSet<Digest>,
}

/// How much of what is not needed goes. Without a limit no result goes.
#[derive(Debug, Clone, Copy, Default)]
pub struct Limits {
    /// Results and environments that were made longer ago than this go.
    pub older_than: Option<Duration>,
    /// The oldest results and environments go until the store is no larger.
    pub max_size: Option<Size>,
}

/// What is to be removed.
#[derive(Debug)]
pub struct Collection {
    first: Vec<Item>,
    environments: Vec<Item>,
    blobs: Vec<Item>,
    leftovers: Vec<Item>,
    /// What it is, in numbers.
    pub summary: Collected,
}

/// What was or would be removed, by class.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Collected {
    /// Results of nodes.
    pub results: Freed,
    /// Contents that nothing names any more.
    pub blobs: Freed,
    /// Python environments.
    pub environments: Freed,
    /// Damaged contents that were set aside more than a week ago.
    pub aside: Freed,
    /// What killed runs left half-written.
    pub temporary: Freed,
    /// Bytes that are allocated in the store afterwards.
    pub left_bytes: u64,
}

/// How many things, and the space that they take.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Freed {
    /// How many.
    pub count: usize,
    /// Allocated bytes.
    pub bytes: u64,
}

/// Something that may go when it is old enough or the store too large.
struct Candidate<'a> {
    at: SystemTime,
    what: What<'a>,
}

enum What<'a> {
    Result(&'a Item, &'a BTreeSet<Digest>),
    Document(Digest),
    Environment(&'a Environment),
}

impl Collected {
    /// Bytes that are or would be free again.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        [self.results, self.blobs, self.environments, self.aside, self.temporary]
            .iter()
            .map(|freed| freed.bytes)
            .sum()
    }
}

impl Freed {
    fn of(items: &[Item]) -> Self {
        Self { count: items.len(), bytes: items.iter().map(|item| item.bytes).sum() }
    }
}

impl Store {
    /// Decides what goes. Age counts from when a result was made; what runs
    /// still use is in `needed`, however old it is. Times decide only how soon
    /// something that is not needed goes, so a clock that was wrong loses
    /// nothing that counts.
    pub fn collection(
        &self,
        needed: &Needed,
        limits: &Limits,
        now: SystemTime,
    ) -> Result<Collection, StoreError> {
        let there = self.inventory()?;
        let older =
            |at: SystemTime, than: Duration| now.duration_since(at).is_ok_and(|elapsed| elapsed > than);
        let leftovers = there.temporary.clone();
        let aside: Vec<Item> = there.aside.iter().filter(|item| older(item.at, ASIDE)).cloned().collect();
        let mut names = Names::new(&there, needed);
        let mut blobs: Vec<Item> = there
            .blobs
            .iter()
            .filter(|(digest, _)| !names.has(**digest))
            .map(|(_, item)| item.clone())
            .collect();
        let total = there.bytes();
        let mut left =
            total - Freed::of(&leftovers).bytes - Freed::of(&aside).bytes - Freed::of(&blobs).bytes;
        let (mut first, mut environments) = (Vec::new(), Vec::new());
        for candidate in candidates(&there, needed) {
            let is_old = limits.older_than.is_some_and(|than| older(candidate.at, than));
            let is_over = limits.max_size.is_some_and(|most| left > most.bytes());
            if !is_old && !is_over {
                continue;
            }
            let mut gone = |digest: Digest| {
                let item = there.blobs.get(&digest).filter(|_| names.forget(digest))?;
                blobs.push(item.clone());
                Some(item.bytes)
            };
            left -= match candidate.what {
                What::Result(item, contents) => {
                    first.push(item.clone());
                    item.bytes + contents.iter().filter_map(|digest| gone(*digest)).sum::<u64>()
                }
                What::Document(digest) => gone(digest).unwrap_or(0),
                What::Environment(environment) => {
                    environments.push(environment.item.clone());
                    environment.item.bytes
                }
            };
        }
        let summary = Collected {
            results: Freed::of(&first),
            blobs: Freed::of(&blobs),
            environments: Freed::of(&environments),
            aside: Freed::of(&aside),
            temporary: Freed::of(&leftovers),
            left_bytes: left,
        };
        let leftovers = leftovers.into_iter().chain(aside).collect();
        Ok(Collection { first, environments, blobs, leftovers, summary })
    }

    /// Removes what was decided on, while nobody else uses the store.
    pub fn collect(&self, collection: &Collection, _alone: &SoleUse) -> Result<(), StoreError> {
        for item in collection.leftovers.iter().chain(&collection.first) {
            remove(&item.path).map_err(io_error("remove", &item.path))?;
        }
        // No result may come back after a power cut without what it names.
        if !collection.first.is_empty() {
            sync_all(&self.root)?;
        }
        for item in &collection.environments {
            self.remove_environment(&item.path)?;
        }
        for item in &collection.blobs {
            remove(&item.path).map_err(io_error("remove", &item.path))?;
        }
        Ok(())
    }

    /// An environment is gone at once or not at all: half of one would still
    /// have its mark.
    fn remove_environment(&self, path: &Path) -> Result<(), StoreError> {
        let away = self.root.join("tmp").join(path.file_name().unwrap_or_default());
        fs::rename(path, &away).map_err(io_error("remove", path))?;
        remove(&away).map_err(io_error("remove", &away))?;
        let lock = path.with_extension("lock");
        remove(&lock).map_err(io_error("remove", &lock))
    }
}

impl Inventory {
    /// Bytes that are allocated for everything.
    pub(super) fn bytes(&self) -> u64 {
        let results = self.results.iter().map(|result| &result.item);
        let environments = self.environments.iter().map(|environment| &environment.item);
        let items = results.chain(self.blobs.values()).chain(environments);
        items.chain(&self.aside).chain(&self.temporary).map(|item| item.bytes).sum()
    }
}

/// How many results and documents that stay so far name each digest.
struct Names(BTreeMap<Digest, usize>);

impl Names {
    fn new(there: &Inventory, needed: &Needed) -> Self {
        let mut counts = BTreeMap::new();
        let by_results = there.results.iter().flat_map(|result| &result.names);
        for digest in by_results.chain(&needed.documents).chain(&needed.mentioned) {
            *counts.entry(*digest).or_default() += 1;
        }
        Self(counts)
    }

    fn has(&self, digest: Digest) -> bool {
        self.0.get(&digest).is_some_and(|count| *count > 0)
    }

    /// One that named it is gone; whether it was the last.
    fn forget(&mut self, digest: Digest) -> bool {
        let Some(count) = self.0.get_mut(&digest) else { return false };
        *count = count.saturating_sub(1);
        *count == 0
    }
}

/// What may go, oldest first. An environment is as old as the youngest result
/// that names it, and comes after it.
fn candidates<'a>(there: &'a Inventory, needed: &Needed) -> Vec<Candidate<'a>> {
    let stays = |key: Option<Digest>| key.is_some_and(|key| needed.keys.contains(&key));
    let mut found = Vec::new();
    for result in there.results.iter().filter(|result| !stays(result.key)) {
        found.push(Candidate { at: result.item.at, what: What::Result(&result.item, &result.names) });
    }
    for digest in &needed.mentioned {
        if let Some(item) = there.blobs.get(digest) {
            found.push(Candidate { at: item.at, what: What::Document(*digest) });
        }
    }
    for environment in &there.environments {
        let users = || there.results.iter().filter(|user| names_environment(&user.names, &environment.name));
        if !users().any(|user| stays(user.key)) {
            let at = users().map(|user| user.item.at).chain([environment.item.at]).max();
            let at = at.unwrap_or(environment.item.at);
            found.push(Candidate { at, what: What::Environment(environment) });
        }
    }
    found.sort_by_key(|candidate| (candidate.at, matches!(candidate.what, What::Environment(_))));
    found
}

/// Removes a file or a directory, which may be gone already.
fn remove(path: &Path) -> io::Result<()> {
    let is_dir = path.symlink_metadata().is_ok_and(|found| found.is_dir());
    match if is_dir { fs::remove_dir_all(path) } else { fs::remove_file(path) } {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;

    use serde_json::json;

    use super::super::StoredResult;
    use super::*;

    const DAY: Duration = Duration::from_secs(24 * 3600);

    struct Scene {
        _dir: tempfile::TempDir,
        store: Store,
        now: SystemTime,
    }

    fn scene() -> Scene {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::open(dir.path()).unwrap();
        Scene { _dir: dir, store, now: SystemTime::now() }
    }

    impl Scene {
        /// A result of so many days ago with these contents; returns its key.
        fn result(&self, name: &str, days: u32, contents: &[&str]) -> Digest {
            let key = Digest::of(name);
            let put = |text: &&str| self.store.put_bytes(text.repeat(5000).as_bytes()).unwrap();
            let result = StoredResult {
                key_document: (&json!({"kind": "fetch", "inputs": Digest::of("of the key only")})).into(),
                attempt: 1,
                outputs: BTreeMap::from([(
                    "environment".to_owned(),
                    json!({"environment": Digest::of(format!("environment of {name}"))}),
                )]),
                evidence: self.store.put_bytes(format!("evidence of {name}").as_bytes()).unwrap(),
                blobs: contents.iter().map(put).collect(),
                services: BTreeMap::new(),
                primed_by: BTreeMap::new(),
                made_at: "2026-11-30T00:00:00Z".to_owned(),
                took_ms: 3,
            };
            self.store.put_result(key, &result).unwrap();
            self.age(&self.store.sharded("results", &format!("{key}.json")), days);
            key
        }

        fn environment_of(&self, name: &str, days: u32) {
            let identity = Digest::of(format!("environment of {name}"));
            let slot = self.store.environment_slot(identity).unwrap().unwrap();
            fs::create_dir_all(slot.path().join("bin")).unwrap();
            fs::write(slot.path().join("bin/python"), "").unwrap();
            slot.complete().unwrap();
            self.age(slot.path(), days);
        }

        fn age(&self, path: &Path, days: u32) {
            File::open(path).unwrap().set_modified(self.now - DAY * days).unwrap();
        }

        fn collected(&self, needed: &Needed, limits: Limits) -> Collected {
            let collection = self.store.collection(needed, &limits, self.now).unwrap();
            self.store.collect(&collection, &self.store.hold_alone(false).unwrap()).unwrap();
            collection.summary
        }

        fn is_whole(&self, key: Digest) -> bool {
            self.store.result(key).unwrap().is_some()
        }
    }

    fn older_than(days: u32) -> Limits {
        Limits { older_than: Some(DAY * days), max_size: None }
    }

    #[test]
    fn without_a_limit_only_what_nothing_names_goes() {
        let scene = scene();
        let old = scene.result("old", 900, &["a"]);
        scene.environment_of("nobody", 900);
        let orphan = scene.store.put_bytes(b"orphan").unwrap();
        let mentioned = scene.store.put_bytes(b"evidence of an old run").unwrap();
        scene.store.put_bytes(b"of the key only").unwrap();
        fs::write(scene.store.root().join("tmp/half"), "hal").unwrap();
        let needed = Needed { mentioned: BTreeSet::from([mentioned]), ..Needed::default() };
        let collected = scene.collected(&needed, Limits::default());
        let counts = [collected.results, collected.blobs, collected.environments, collected.temporary];
        assert_eq!(counts.map(|freed| freed.count), [0, 2, 0, 1]);
        assert!(scene.is_whole(old) && scene.store.has(mentioned) && !scene.store.has(orphan));
        assert_eq!(collected.left_bytes, scene.store.inventory().unwrap().bytes());
        assert_eq!(scene.collected(&needed, Limits::default()).bytes(), 0);
    }

    #[test]
    fn what_is_needed_stays_however_old_and_large_and_the_rest_goes_with_what_only_it_names() {
        let scene = scene();
        let needed_result = scene.result("needed", 900, &["shared", "a"]);
        let old = scene.result("old", 31, &["shared", "b"]);
        let young = scene.result("young", 29, &["c"]);
        let document = scene.store.put_bytes(b"the matrix stands on it").unwrap();
        let needed = Needed {
            keys: BTreeSet::from([needed_result]),
            documents: BTreeSet::from([document]),
            ..Needed::default()
        };
        let collected = scene.collected(&needed, older_than(30));
        assert_eq!((collected.results.count, collected.blobs.count), (1, 2));
        assert!(scene.is_whole(needed_result) && scene.is_whole(young) && !scene.is_whole(old));
        let smallest = Limits { max_size: Some(Size::of_bytes(0)), ..Limits::default() };
        scene.collected(&needed, smallest);
        assert!(scene.is_whole(needed_result) && scene.store.has(document) && !scene.is_whole(young));
    }

    #[test]
    fn the_oldest_go_until_the_store_is_small_enough() {
        let scene = scene();
        let keys: Vec<Digest> =
            [("a", 1), ("b", 3), ("c", 2)].map(|(name, days)| scene.result(name, days, &[name])).to_vec();
        let all = scene.store.inventory().unwrap().bytes();
        let limits = Limits { max_size: Some(Size::of_bytes(all - 1)), ..Limits::default() };
        let collected = scene.collected(&Needed::default(), limits);
        assert_eq!(keys.iter().map(|key| scene.is_whole(*key)).collect::<Vec<_>>(), [true, false, true]);
        assert_eq!(collected.left_bytes, scene.store.inventory().unwrap().bytes());
    }

    #[test]
    fn an_environment_goes_only_after_every_result_that_names_it() {
        let scene = scene();
        for (name, days) in [("needed", 90), ("young", 1), ("old", 90)] {
            scene.result(name, days, &[]);
            scene.environment_of(name, 90);
        }
        scene.environment_of("nobody", 90);
        let needed = Needed { keys: BTreeSet::from([Digest::of("needed")]), ..Needed::default() };
        assert_eq!(scene.collected(&needed, older_than(30)).environments.count, 2);
        let there =
            |name: &str| scene.store.environment(Digest::of(format!("environment of {name}"))).is_some();
        assert_eq!(["needed", "young", "old", "nobody"].map(there), [true, true, false, false]);
    }

    #[test]
    fn a_clock_that_was_wrong_loses_nothing_that_counts() {
        let scene = scene();
        let future = scene.result("future", 0, &["a"]);
        let path = scene.store.sharded("results", &format!("{future}.json"));
        File::open(&path).unwrap().set_modified(scene.now + DAY * 400).unwrap();
        let past = scene.result("past", 20_000, &["b"]);
        let blob = Digest::of("b".repeat(5000));
        scene.age(&scene.store.blob_path(blob), 20_000);
        let needed = Needed { keys: BTreeSet::from([past]), ..Needed::default() };
        scene.collected(&needed, older_than(1));
        assert!(scene.is_whole(future) && scene.is_whole(past));
        scene.store.verified_path(blob).unwrap();
    }

    #[test]
    fn an_end_in_the_middle_leaves_no_result_whose_content_is_gone() {
        let scene = scene();
        scene.result("old", 90, &["a"]);
        scene.environment_of("old", 90);
        let collection = scene.store.collection(&Needed::default(), &older_than(30), scene.now).unwrap();
        // Environments come between results and contents, and have nowhere to go.
        fs::remove_dir(scene.store.root().join("tmp")).unwrap();
        let alone = scene.store.hold_alone(false).unwrap();
        scene.store.collect(&collection, &alone).unwrap_err();
        assert!(!scene.is_whole(Digest::of("old")));
        assert!(scene.store.has(Digest::of("a".repeat(5000))), "contents go last");
        fs::create_dir(scene.store.root().join("tmp")).unwrap();
        scene.store.collect(&collection, &alone).unwrap();
        assert!(!scene.store.has(Digest::of("a".repeat(5000))));
    }

    #[test]
    fn damaged_content_stays_aside_for_a_week() {
        let scene = scene();
        for (name, days) in [("one", 6), ("other", 8)] {
            let path = scene.store.root().join("aside").join(name);
            fs::write(&path, "lie").unwrap();
            scene.age(&path, days);
        }
        assert_eq!(scene.collected(&Needed::default(), Limits::default()).aside.count, 1);
        assert!(scene.store.root().join("aside/one").exists());
    }
}
