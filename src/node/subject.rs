//! Reads what the nodes of a subject left, for the ladder and the matrix.

use serde::de::DeserializeOwned;

use super::SubjectInputs;
use crate::corpus::Manifest;
use crate::evidence::audit::Audit;
use crate::evidence::ladder::{Facts, Held, Standing, standing};
use crate::evidence::redact::public_text;
use crate::store::Store;
use crate::value::Digest;

/// Everything a subject's nodes left, and where it stands by it.
pub struct SubjectRecord {
    /// The documents of the ladder.
    pub facts: Facts,
    /// The pinned corpus.
    pub manifest: Held<Manifest>,
    /// The capability audit.
    pub audit: Held<Audit>,
    /// Where the subject stands.
    pub standing: Standing,
}

impl SubjectInputs {
    /// Reads every document from the store and climbs the ladder.
    #[must_use]
    pub fn read(&self, store: &Store) -> SubjectRecord {
        let manifest: Held<Manifest> = self.document(store, "corpus");
        let facts = Facts {
            mode: self.mode,
            unmet: self.unmet.clone(),
            host: self.document(store, "host"),
            client: self.document(store, "client"),
            selection: manifest.as_ref().map(|manifest| manifest.selection_digest).map_err(Clone::clone),
            bundle: self.document(store, "bundle"),
            service: self.whatever(store, "server"),
            validation: self.whatever(store, "validation"),
            warmup: self.document(store, "warmup"),
            load: self.document(store, "load"),
            correlation: self.document(store, "correlation"),
        };
        let standing = standing(&facts, self.error_limit);
        SubjectRecord { audit: self.document(store, "audit"), standing, facts, manifest }
    }

    /// The evidence of a role's node, if the node passed.
    #[must_use]
    pub fn evidence(&self, role: &str) -> Option<Digest> {
        let (_, record) = self.roles.get(role)?;
        record.evidence.filter(|_| record.outcome.passed())
    }

    /// The evidence of a node that passed.
    fn document<T: DeserializeOwned>(&self, store: &Store, role: &str) -> Held<T> {
        let (node, record) = self.roles.get(role).ok_or_else(|| "it has not run yet".to_owned())?;
        let Some(digest) = self.evidence(role) else {
            let reason = record.reason.as_deref().unwrap_or("it left no evidence");
            return Err(format!("{node} is {}: {}", record.outcome.word(), public_text(reason)));
        };
        store.get_json(digest).map_err(|error| error.to_string())
    }

    /// The evidence of a node whether it passed or not: a server's proof
    /// stands even if the server died later, and a failed validation says
    /// itself what did not hold.
    fn whatever<T: DeserializeOwned>(&self, store: &Store, role: &str) -> Held<T> {
        match self.roles.get(role).and_then(|(_, record)| record.evidence) {
            Some(digest) => store.get_json(digest).map_err(|error| error.to_string()),
            None => self.document(store, role),
        }
    }
}
