//! The files of AIPerf's artifact directory, of a whole run and of a cut one.

use std::fs::File;
use std::io::BufReader;
use std::path::{Path, PathBuf};

use super::report::{self, Aggregate};
use super::{ClientRecord, ExportError, RawRecord};
use crate::evidence::request::{ClientReport, ExportFault, FaultKind};
use crate::jsonl::{Entries, ReadError};

/// Name of the per-request export.
pub const CLIENT: &str = "profile_export.jsonl";
const RAW: &str = "profile_export_raw.jsonl";
/// Name of the report of the run as a whole.
pub const AGGREGATE: &str = "profile_export_aiperf.json";
const READY: &str = ".aiperf_results_ready.json";
const RAW_PARTS: &str = "raw_records";

/// What an artifact directory holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExportDir {
    root: PathBuf,
    /// The raw export, and what a cut run left under `raw_records/`.
    raw: Vec<PathBuf>,
    /// Files that are missing, or that only a cut run leaves.
    pub faults: Vec<ExportFault>,
}

impl ExportDir {
    /// Looks at a directory. Missing files are faults, not errors: a cut run
    /// has evidence too.
    pub fn open(root: &Path) -> Result<Self, ReadError> {
        let error = |source| ReadError { path: root.to_owned(), source };
        std::fs::read_dir(root).map_err(error)?;
        let mut faults = Vec::new();
        for name in [CLIENT, RAW, AGGREGATE, READY] {
            if !root.join(name).is_file() {
                faults.push(fault(name, FaultKind::MissingFile, "a finished run writes this file"));
            }
        }
        let parts = raw_parts(&root.join(RAW_PARTS))?;
        for part in &parts {
            let name = part.file_name().unwrap_or_default().to_string_lossy();
            faults.push(fault(&name, FaultKind::Leftover, "left by a run that was cut short"));
        }
        let whole = Some(root.join(RAW)).filter(|path| path.is_file());
        Ok(Self { root: root.to_owned(), raw: whole.into_iter().chain(parts).collect(), faults })
    }

    /// The lines of the per-request export, if there is one.
    pub fn client_records(&self) -> Result<Option<Entries<BufReader<File>, ClientRecord>>, ReadError> {
        let path = self.root.join(CLIENT);
        path.is_file().then(|| Entries::open(&path)).transpose()
    }

    /// The lines of each raw export.
    pub fn raw_records(&self) -> Result<Vec<Entries<BufReader<File>, RawRecord>>, ReadError> {
        self.raw.iter().map(|path| Entries::open(path)).collect()
    }

    /// The report of the run, if AIPerf wrote one.
    pub fn report(&self) -> Result<Option<ClientReport>, ExportError> {
        let (aggregate, ready) = (self.root.join(AGGREGATE), self.root.join(READY));
        if !aggregate.is_file() {
            return Ok(None);
        }
        let ready = ready.is_file().then(|| report::read(&ready)).transpose()?;
        Ok(Some(Aggregate::read(&aggregate)?.report(ready)))
    }
}

fn raw_parts(folder: &Path) -> Result<Vec<PathBuf>, ReadError> {
    let error = |source| ReadError { path: folder.to_owned(), source };
    if !folder.is_dir() {
        return Ok(Vec::new());
    }
    let mut parts = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(error)? {
        let path = entry.map_err(error)?.path();
        if path.extension().is_some_and(|extension| extension == "jsonl") {
            parts.push(path);
        }
    }
    parts.sort();
    Ok(parts)
}

fn fault(file: &str, kind: FaultKind, detail: &str) -> ExportFault {
    ExportFault { file: file.to_owned(), line: None, kind, detail: detail.to_owned() }
}
