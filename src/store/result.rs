//! What a node produced, found again by the node's key.

use std::collections::BTreeMap;
use std::io::Write;

use serde::{Deserialize, Serialize};

use super::{Store, StoreError, io_error};
use crate::value::Digest;

/// A finished node: its key written out, its outputs and its evidence.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StoredResult {
    /// The canonical document whose digest is the key.
    pub key_document: serde_json::Value,
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
    /// When it was made (RFC 3339).
    pub made_at: String,
    /// How long it took, in milliseconds.
    pub took_ms: u64,
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

    /// Records a result; blobs and evidence must have been stored before.
    pub fn put_result(&self, key: Digest, result: &StoredResult) -> Result<(), StoreError> {
        let path = self.result_path(key);
        let mut file = self.temporary_file()?;
        serde_json::to_writer_pretty(&mut file, result)
            .map_err(|error| io_error("write", &path)(error.into()))?;
        file.flush().map_err(io_error("write", &path))?;
        Self::persist(file, &path)
    }

    fn result_path(&self, key: Digest) -> std::path::PathBuf {
        self.sharded("results", &format!("{key}.json"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_result_is_found_only_with_everything_it_names() {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::open(dir.path()).unwrap();
        let key = Digest::of("key");
        assert_eq!(store.result(key).unwrap(), None);
        let blob = store.put_bytes(b"output").unwrap();
        let result = StoredResult {
            key_document: serde_json::json!({"kind": "fetch"}),
            outputs: BTreeMap::new(),
            evidence: store.put_bytes(b"{}").unwrap(),
            blobs: vec![blob],
            services: BTreeMap::new(),
            primed_by: BTreeMap::new(),
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
