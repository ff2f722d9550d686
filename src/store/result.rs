//! What a node produced, found again by the node's key.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Deserializer, Serialize, Serializer, ser};
use serde_json::value::RawValue;

use super::put::sync;
use super::{Store, StoreError, io_error};
use crate::value::Digest;

/// A finished node: its key written out, its outputs and its evidence.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StoredResult {
    /// The canonical document whose digest is the key.
    pub key_document: KeyDocument,
    /// Outputs by name; the artifact type belongs to the rooms above.
    pub outputs: BTreeMap<String, serde_json::Value>,
    /// The node's evidence document.
    pub evidence: Digest,
    /// Blobs that must be there for the outputs to be usable.
    pub blobs: Vec<Digest>,
    /// Evidence of the service that was used, by the service's node.
    pub services: BTreeMap<String, Digest>,
    /// Evidence of what primed those services, by node.
    pub primed_by: BTreeMap<String, Digest>,
    /// Which measurement under its key it is, from 1; always 1 for what is no
    /// measurement.
    #[serde(default = "first")]
    pub attempt: u32,
    /// When it was made (RFC 3339).
    pub made_at: String,
    /// How long it took, in milliseconds.
    pub took_ms: u64,
}

/// The canonical document of a key, as text: most readers of a result do not
/// look into it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyDocument(String);

impl KeyDocument {
    /// The document itself.
    #[must_use]
    pub fn value(&self) -> serde_json::Value {
        // It was JSON when it was read or written.
        serde_json::from_str(&self.0).unwrap_or_default()
    }
}

impl From<&serde_json::Value> for KeyDocument {
    fn from(value: &serde_json::Value) -> Self {
        Self(value.to_string())
    }
}

impl Serialize for KeyDocument {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        RawValue::from_string(self.0.clone()).map_err(ser::Error::custom)?.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for KeyDocument {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Box::<RawValue>::deserialize(deserializer).map(|raw| Self(String::from(Box::<str>::from(raw))))
    }
}

fn first() -> u32 {
    1
}

/// What the store holds under a key.
#[derive(Debug, Clone, PartialEq)]
pub enum Recorded {
    /// Nothing that this version can read.
    Absent,
    /// A result of which something it names is gone.
    Broken {
        /// The result.
        result: StoredResult,
        /// What it names and the store does not hold.
        gone: Vec<Digest>,
    },
    /// A result with everything it names.
    Whole(StoredResult),
}

impl StoredResult {
    /// Every blob that the result names.
    pub fn named(&self) -> impl Iterator<Item = Digest> {
        let named = self.blobs.iter().chain([&self.evidence]);
        named.chain(self.services.values()).chain(self.primed_by.values()).copied()
    }
}

impl Store {
    /// The result under a key, if it is there with everything it names.
    pub fn result(&self, key: Digest) -> Result<Option<StoredResult>, StoreError> {
        match self.recorded(key)? {
            Recorded::Whole(result) => Ok(Some(result)),
            Recorded::Absent | Recorded::Broken { .. } => Ok(None),
        }
    }

    /// What is recorded under a key, whether or not what it names is there.
    pub fn recorded(&self, key: Digest) -> Result<Recorded, StoreError> {
        let path = self.result_path(key);
        let bytes = match std::fs::read(&path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Recorded::Absent),
            Err(error) => return Err(io_error("read", &path)(error)),
        };
        // What another version wrote is not a result of this one.
        let Ok(result) = serde_json::from_slice::<StoredResult>(&bytes) else { return Ok(Recorded::Absent) };
        let gone: Vec<Digest> = result.named().filter(|digest| !self.has(*digest)).collect();
        Ok(if gone.is_empty() { Recorded::Whole(result) } else { Recorded::Broken { result, gone } })
    }

    /// Records a result; blobs and evidence must have been stored before. A
    /// result that is already there is replaced.
    pub fn put_result(&self, key: Digest, result: &StoredResult) -> Result<(), StoreError> {
        let path = self.result_path(key);
        Self::persist(self.written(result, &path)?, &path)
    }

    /// Records a measurement beside the earlier ones under its key, none of
    /// which is ever replaced, and makes it the one that is reused. Returns
    /// its number, from 1.
    pub fn put_attempt(&self, key: Digest, result: &StoredResult) -> Result<u32, StoreError> {
        let dir = self.attempts_dir(key);
        Self::create_dir(&dir)?;
        let mut attempt = self.attempts(key)?.last().map_or(0, |last| last.attempt);
        // Another process may measure under the same key.
        loop {
            attempt += 1;
            let result = StoredResult { attempt, ..result.clone() };
            let path = dir.join(format!("{attempt}.json"));
            let file = self.written(&result, &path)?;
            file.as_file().sync_all().map_err(io_error("sync", &path))?;
            match file.persist_noclobber(&path) {
                Ok(_) => {
                    sync(&dir)?;
                    self.put_result(key, &result)?;
                    return Ok(attempt);
                }
                Err(error) if error.error.kind() == std::io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(io_error("write", &path)(error.error)),
            }
        }
    }

    /// Every measurement under a key, by their numbers. What another version
    /// wrote is passed over.
    pub fn attempts(&self, key: Digest) -> Result<Vec<StoredResult>, StoreError> {
        let dir = self.attempts_dir(key);
        let entries = match std::fs::read_dir(&dir) {
            Ok(entries) => entries,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(io_error("read", &dir)(error)),
        };
        let mut attempts = Vec::new();
        for entry in entries {
            let path = entry.map_err(io_error("read", &dir))?.path();
            let bytes = std::fs::read(&path).map_err(io_error("read", &path))?;
            attempts.extend(serde_json::from_slice::<StoredResult>(&bytes).ok());
        }
        attempts.sort_by_key(|attempt| attempt.attempt);
        Ok(attempts)
    }

    fn written(&self, result: &StoredResult, path: &Path) -> Result<tempfile::NamedTempFile, StoreError> {
        let mut file = self.temporary_file()?;
        serde_json::to_writer(&mut file, result).map_err(|error| io_error("write", path)(error.into()))?;
        file.flush().map_err(io_error("write", path))?;
        Ok(file)
    }

    fn result_path(&self, key: Digest) -> PathBuf {
        self.sharded("results", &format!("{key}.json"))
    }

    fn attempts_dir(&self, key: Digest) -> PathBuf {
        self.sharded("results", &format!("{key}.attempts"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn result(evidence: Digest) -> StoredResult {
        StoredResult {
            key_document: (&serde_json::json!({"kind": "aiperf"})).into(),
            outputs: BTreeMap::new(),
            evidence,
            blobs: Vec::new(),
            services: BTreeMap::new(),
            primed_by: BTreeMap::new(),
            attempt: 1,
            made_at: "2026-11-30T00:00:00Z".to_owned(),
            took_ms: 3,
        }
    }

    #[test]
    fn every_measurement_under_a_key_is_kept_and_the_newest_is_reused() {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::open(dir.path()).unwrap();
        let key = Digest::of("key");
        let texts = ["slow", "fast", "slower"];
        let evidence = texts.map(|text| store.put_bytes(text.as_bytes()).unwrap());
        let numbers = evidence.map(|evidence| store.put_attempt(key, &result(evidence)).unwrap());
        assert_eq!(numbers, [1, 2, 3]);
        let kept: Vec<_> =
            store.attempts(key).unwrap().iter().map(|attempt| (attempt.attempt, attempt.evidence)).collect();
        assert_eq!(kept, [(1, evidence[0]), (2, evidence[1]), (3, evidence[2])]);
        assert_eq!(store.result(key).unwrap().unwrap().attempt, 3);
        assert_eq!(store.attempts(Digest::of("another")).unwrap(), []);
    }

    #[test]
    fn a_result_is_found_only_with_everything_it_names() {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::open(dir.path()).unwrap();
        let key = Digest::of("key");
        assert_eq!(store.result(key).unwrap(), None);
        let blob = store.put_bytes(b"output").unwrap();
        let result = StoredResult {
            key_document: (&serde_json::json!({"kind": "fetch"})).into(),
            outputs: BTreeMap::new(),
            evidence: store.put_bytes(b"{}").unwrap(),
            blobs: vec![blob],
            services: BTreeMap::new(),
            primed_by: BTreeMap::new(),
            attempt: 1,
            made_at: "2026-11-30T00:00:00Z".to_owned(),
            took_ms: 3,
        };
        store.put_result(key, &result).unwrap();
        assert_eq!(store.result(key).unwrap(), Some(result.clone()));
        std::fs::remove_file(store.blob_path(blob)).unwrap();
        assert_eq!(store.result(key).unwrap(), None);
        assert_eq!(store.recorded(key).unwrap(), Recorded::Broken { result, gone: vec![blob] });
    }
}
