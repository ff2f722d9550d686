//! Reads everything in the store and says what is wrong with it, and counts
//! what is there.

use std::collections::{BTreeMap, BTreeSet};
use std::time::SystemTime;

use rayon::prelude::*;

use super::collect::Freed;
use super::inventory::{Inventory, Item, ResultFile};
use super::{Store, StoreError};
use crate::value::Digest;

/// What reading every stored content showed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Audit {
    /// Contents that were read.
    pub blobs: usize,
    /// Results that were looked at.
    pub results: usize,
    /// Contents that were not what they should be, and were set aside; in a
    /// store that cannot be written they stay.
    pub damaged: Vec<Digest>,
    /// Contents that could not be read, with the reason.
    pub unreadable: BTreeMap<Digest, String>,
    /// Results that lose something, or that name what is not there.
    pub lost: Vec<Lost>,
    /// Files of results that this version cannot read.
    pub unreadable_results: Vec<String>,
}

/// A result that is not usable any more.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lost {
    /// Its key.
    pub key: String,
    /// The kind of its node, where the key says it.
    pub kind: Option<String>,
    /// What it names and the store does not hold.
    pub gone: Vec<Digest>,
}

/// How much of each class is in the store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stats {
    /// Classes by name, in the order they are shown.
    pub parts: Vec<Part>,
    /// When the oldest result was made.
    pub oldest: Option<SystemTime>,
    /// When the newest result was made.
    pub newest: Option<SystemTime>,
}

/// One class of things in the store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Part {
    /// Its name.
    pub name: &'static str,
    /// How many, and the space they take.
    pub amount: Freed,
}

impl Audit {
    /// Whether nothing is wrong.
    #[must_use]
    pub fn is_clean(&self) -> bool {
        self.damaged.is_empty()
            && self.unreadable.is_empty()
            && self.lost.is_empty()
            && self.unreadable_results.is_empty()
    }
}

impl Store {
    /// Reads every stored content, many at a time, and sets aside what is
    /// damaged.
    pub fn audit(&self) -> Result<Audit, StoreError> {
        let there = self.inventory()?;
        let read: Vec<(Digest, StoreError)> = there
            .blobs
            .par_iter()
            .filter_map(|(digest, _)| Some((*digest, self.verified_path(*digest).err()?)))
            .collect();
        let mut audit = Audit { blobs: there.blobs.len(), results: there.results.len(), ..Audit::default() };
        for (digest, error) in read {
            match error {
                StoreError::Damaged { .. } | StoreError::DamagedInPlace(_) => audit.damaged.push(digest),
                // Another process set it aside meanwhile.
                StoreError::Missing(_) => {}
                other => drop(audit.unreadable.insert(digest, other.to_string())),
            }
        }
        let bad: BTreeSet<Digest> = audit.damaged.iter().chain(audit.unreadable.keys()).copied().collect();
        for file in &there.results {
            match &file.result {
                None => audit.unreadable_results.push(file.item.path.display().to_string()),
                Some(_) => audit.lost.extend(lost(file, &there, &bad)),
            }
        }
        Ok(audit)
    }

    /// Counts what is in the store.
    pub fn stats(&self) -> Result<Stats, StoreError> {
        let there = self.inventory()?;
        let part = |name, items: Vec<&Item>| Part {
            name,
            amount: Freed { count: items.len(), bytes: items.iter().map(|item| item.bytes).sum() },
        };
        let results: Vec<&Item> = there.results.iter().map(|result| &result.item).collect();
        let times = || results.iter().map(|item| item.at);
        let (oldest, newest) = (times().min(), times().max());
        let environments = there.environments.iter().map(|environment| &environment.item);
        let parts = vec![
            part("blobs", there.blobs.values().collect()),
            part("results", results),
            part("environments", environments.collect()),
            part("aside", there.aside.iter().collect()),
            part("temporary", there.temporary.iter().collect()),
        ];
        Ok(Stats { parts, oldest, newest })
    }
}

/// What a result has lost, if it has.
fn lost(file: &ResultFile, there: &Inventory, bad: &BTreeSet<Digest>) -> Option<Lost> {
    let result = file.result.as_ref()?;
    let is_gone = |digest: &Digest| bad.contains(digest) || !there.blobs.contains_key(digest);
    let gone: BTreeSet<Digest> = result.named().filter(is_gone).collect();
    let document = result.key_document.value();
    let kind = document.get("kind").and_then(|kind| kind.as_str());
    (!gone.is_empty()).then(|| Lost {
        key: file.key.map_or_else(|| file.item.path.display().to_string(), |key| key.to_string()),
        kind: kind.map(str::to_owned),
        gone: gone.into_iter().collect(),
    })
}

#[cfg(test)]
mod tests {
    use std::fs::{self, Permissions};
    use std::os::unix::fs::PermissionsExt;

    use super::*;
    use crate::store::StoredResult;

    #[test]
    fn damage_and_loss_are_found_and_only_the_results_they_touch_are_named() {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::open(dir.path()).unwrap();
        let result = |name: &str| {
            let result = StoredResult {
                key_document: (&serde_json::json!({"kind": "fetch"})).into(),
                attempt: 1,
                outputs: BTreeMap::new(),
                evidence: store.put_bytes(format!("evidence of {name}").as_bytes()).unwrap(),
                blobs: vec![store.put_bytes(name.as_bytes()).unwrap()],
                services: BTreeMap::new(),
                primed_by: BTreeMap::new(),
                made_at: "2026-11-30T00:00:00Z".to_owned(),
                took_ms: 3,
            };
            store.put_result(Digest::of(format!("key of {name}")), &result).unwrap();
        };
        ["whole", "changed", "absent"].into_iter().for_each(result);
        assert!(store.audit().unwrap().is_clean());
        let changed = store.blob_path(Digest::of("changed"));
        fs::set_permissions(&changed, Permissions::from_mode(0o644)).unwrap();
        fs::write(&changed, "changes").unwrap();
        fs::remove_file(store.blob_path(Digest::of("absent"))).unwrap();
        let strange = store.sharded("results", &format!("{}.json", Digest::of("strange")));
        fs::create_dir_all(strange.parent().unwrap()).unwrap();
        fs::write(&strange, "{\"cut").unwrap();
        let audit = store.audit().unwrap();
        assert_eq!(audit.damaged, [Digest::of("changed")]);
        let mut lost: Vec<_> = audit.lost.iter().flat_map(|lost| lost.gone.clone()).collect();
        lost.sort();
        let mut expected = [Digest::of("changed"), Digest::of("absent")];
        expected.sort();
        assert_eq!(lost, expected);
        assert_eq!(audit.unreadable_results, [strange.display().to_string()]);
        assert!(!changed.exists());
    }

    #[test]
    fn what_has_two_names_is_counted_once() {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::open(dir.path()).unwrap();
        let blob = store.blob_path(store.put_bytes(&vec![1; 100_000]).unwrap());
        fs::hard_link(&blob, dir.path().join("tmp/second")).unwrap();
        let stats = store.stats().unwrap();
        let bytes = |name: &str| stats.parts.iter().find(|part| part.name == name).unwrap().amount.bytes;
        assert!(bytes("blobs") >= 100_000);
        assert_eq!(bytes("temporary"), 0);
    }
}
