//! Reads the results of the last run ahead, on a thread of its own, while the
//! plan is being loaded: most of them are the results of this run.
//!
//! It changes nothing: a result that is not read ahead is read when it is
//! looked for.

use std::collections::HashMap;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use crate::state::{State, StateError};
use crate::store::{Store, StoreError, StoredResult};
use crate::value::Digest;

/// Results that were read ahead.
#[derive(Debug, Default)]
pub struct Foresight {
    read: Arc<Mutex<HashMap<Digest, StoredResult>>>,
    stop: Arc<AtomicBool>,
    reader: Option<JoinHandle<()>>,
}

impl Foresight {
    /// Begins to read the results of the newest run in a state directory.
    #[must_use]
    pub fn begin(state_dir: &Path, store: Store) -> Self {
        let mut foresight = Self::default();
        let (read, stop) = (Arc::clone(&foresight.read), Arc::clone(&foresight.stop));
        let state_dir = state_dir.to_owned();
        let reader = move || {
            // What cannot be read ahead is said when it is needed.
            let keys = State::read(&state_dir, keys_of_newest_run).ok().flatten().unwrap_or_default();
            for key in keys.iter().filter_map(|key| key.parse().ok()) {
                if stop.load(Ordering::Relaxed) {
                    return;
                }
                if let Ok(Some(result)) = store.result(key) {
                    read.lock().unwrap_or_else(PoisonError::into_inner).insert(key, result);
                }
            }
        };
        foresight.reader = std::thread::Builder::new().name("foresight".to_owned()).spawn(reader).ok();
        foresight
    }

    /// The result under a key: the one read ahead, which is given once, or the
    /// one that the store holds now.
    pub(super) fn result(&self, store: &Store, key: Digest) -> Result<Option<StoredResult>, StoreError> {
        let ahead = self.read.lock().unwrap_or_else(PoisonError::into_inner).remove(&key);
        match ahead {
            Some(result) => Ok(Some(result)),
            None => store.result(key),
        }
    }
}

fn keys_of_newest_run(state: &State) -> Result<Vec<String>, StateError> {
    let run = state.latest_run(None)?;
    Ok(run.map(|run| state.named_by(&run)).transpose()?.unwrap_or_default().keys)
}

impl Drop for Foresight {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(reader) = self.reader.take() {
            // It reads one result more at most.
            let _ = reader.join();
        }
    }
}
