//! The container of a TRTMC bundle: header and small JSON sections.
//!
//! `BUNDLE\x01\x00`, a little-endian u64 header length (at most 100 MiB), a
//! JSON header `{format: 1, family, task, backend, sections: {name: {offset,
//! length}}}`, then the payloads, whose offsets count from the header's end.
//! By the TRTMC sources at commit `0bccb5e93af0e5ad346aaf44e404396f54b2e7de`.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::Path;

use serde::Deserialize;
use serde_json::Value;

use super::FileFacts;

const MAGIC: &[u8; 8] = b"BUNDLE\x01\x00";
const HEADER_LIMIT: u64 = 100 * 1024 * 1024;
const SECTION_LIMIT: u64 = 16 * 1024 * 1024;

/// Sections that stand for a drafter or for speculation.
const SPECULATIVE_SECTIONS: [&str; 5] = [
    "speculative.json",
    "target.plan",
    "draft.plan",
    "edge_llm/engine/spec_base.engine",
    "edge_llm/engine/spec_draft.engine",
];

/// The file is not a bundle that can be read.
#[derive(Debug, thiserror::Error)]
pub enum BundleError {
    /// The file system refused.
    #[error("the bundle cannot be read: {0}; check that the file is there and readable")]
    Io(#[from] std::io::Error),
    /// The container is not what the format says.
    #[error("the file is not a TRTMC bundle of format 1: {0}; build it again with `trtmc build`")]
    Malformed(String),
}

#[derive(Deserialize)]
struct Header {
    format: u64,
    family: String,
    #[serde(default)]
    task: Option<String>,
    #[serde(default)]
    backend: Option<String>,
    sections: BTreeMap<String, Section>,
}

#[derive(Deserialize, Clone, Copy)]
struct Section {
    offset: u64,
    length: u64,
}

/// Reads header and `runtime.json`; no length in the file is trusted.
pub fn read(path: &Path) -> Result<FileFacts, BundleError> {
    let mut file = File::open(path)?;
    let size = file.metadata()?.len();
    let mut start = [0; 16];
    file.read_exact(&mut start).map_err(|_| malformed("it is shorter than 16 bytes"))?;
    let (magic, length) = start.split_at(8);
    if magic != MAGIC {
        return Err(malformed("it does not start with BUNDLE"));
    }
    let header_length = u64::from_le_bytes(length.try_into().map_err(|_| malformed("no length"))?);
    let payloads = header_length.saturating_add(16);
    if header_length > HEADER_LIMIT || payloads > size {
        return Err(malformed(format!("its header claims {header_length} bytes, the file has {size}")));
    }
    let header: Header = json(&mut file, 16, header_length)?;
    if header.format != 1 {
        return Err(malformed(format!("it is of format {}", header.format)));
    }
    for (name, section) in &header.sections {
        let end = payloads.checked_add(section.offset).and_then(|at| at.checked_add(section.length));
        if end.is_none_or(|end| end > size) {
            return Err(malformed(format!("section {name} reaches beyond the end of the file")));
        }
    }
    let runtime = match header.sections.get("runtime.json") {
        Some(section) if section.length <= SECTION_LIMIT => {
            json(&mut file, payloads + section.offset, section.length)?
        }
        _ => Value::Null,
    };
    Ok(FileFacts { speculative_markers: markers(&header, &runtime), facts: facts(&header, &runtime) })
}

fn facts(header: &Header, runtime: &Value) -> BTreeMap<String, String> {
    let mut facts = BTreeMap::from([("family".to_owned(), header.family.clone())]);
    facts.extend(header.task.clone().map(|task| ("task".to_owned(), task)));
    facts.extend(header.backend.clone().map(|backend| ("backend".to_owned(), backend)));
    for (name, value) in runtime.as_object().into_iter().flatten() {
        let text = match value {
            Value::String(text) => text.clone(),
            Value::Number(_) | Value::Bool(_) => value.to_string(),
            _ => continue,
        };
        facts.insert(name.clone(), text);
    }
    facts
}

fn markers(header: &Header, runtime: &Value) -> Vec<String> {
    let section = |name: &&str| header.sections.contains_key(*name);
    let mut markers: Vec<String> =
        SPECULATIVE_SECTIONS.iter().filter(|name| section(name)).map(|name| (*name).to_owned()).collect();
    if !runtime["linear_spec_lora_engine_section"].is_null() {
        markers.push("runtime.json linear_spec_lora_engine_section".to_owned());
    }
    markers
}

fn json<T: serde::de::DeserializeOwned>(file: &mut File, at: u64, length: u64) -> Result<T, BundleError> {
    file.seek(SeekFrom::Start(at))?;
    let mut bytes = Vec::new();
    file.take(length).read_to_end(&mut bytes)?;
    serde_json::from_slice(&bytes).map_err(|error| malformed(error.to_string()))
}

fn malformed(reason: impl Into<String>) -> BundleError {
    BundleError::Malformed(reason.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use std::io::Write;

    fn bundle(sections: &[(&str, &[u8])]) -> tempfile::NamedTempFile {
        let mut offset = 0;
        let mut table = serde_json::Map::new();
        for (name, bytes) in sections {
            table.insert((*name).to_owned(), json!({"offset": offset, "length": bytes.len()}));
            offset += bytes.len();
        }
        let header = json!({"format": 1, "family": "qwen", "task": "text-generation",
            "backend": "tensorrt", "sections": table})
        .to_string();
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(MAGIC).unwrap();
        file.write_all(&(header.len() as u64).to_le_bytes()).unwrap();
        file.write_all(header.as_bytes()).unwrap();
        for (_, bytes) in sections {
            file.write_all(bytes).unwrap();
        }
        file
    }

    const RUNTIME: &[u8] = br#"{"precision": "fp16", "max_cache_length": 256, "x": [1]}"#;

    #[test]
    fn a_plain_bundle_states_its_precision_and_no_speculation() {
        let file = bundle(&[("engine.plan", b"engine"), ("runtime.json", RUNTIME)]);
        let found = read(file.path()).unwrap();
        assert_eq!(found.facts["family"], "qwen");
        assert_eq!(found.facts["precision"], "fp16");
        assert_eq!(found.facts["max_cache_length"], "256");
        assert!(found.speculative_markers.is_empty());
    }

    #[test]
    fn draft_sections_are_named() {
        let file = bundle(&[("runtime.json", RUNTIME), ("speculative.json", b"{}"), ("draft.plan", b"d")]);
        let found = read(file.path()).unwrap();
        assert_eq!(found.speculative_markers, ["speculative.json", "draft.plan"]);
    }

    #[test]
    fn a_bundle_cut_anywhere_is_refused_or_says_the_same() {
        let file = bundle(&[("runtime.json", RUNTIME), ("engine.plan", b"engine")]);
        let bytes = std::fs::read(file.path()).unwrap();
        for length in 0..bytes.len() {
            let mut cut = tempfile::NamedTempFile::new().unwrap();
            cut.write_all(&bytes[..length]).unwrap();
            assert!(read(cut.path()).is_err(), "{length} of {}", bytes.len());
        }
    }

    #[test]
    fn a_length_beyond_the_file_is_not_trusted() {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(MAGIC).unwrap();
        file.write_all(&u64::MAX.to_le_bytes()).unwrap();
        assert!(read(file.path()).is_err());
    }
}
