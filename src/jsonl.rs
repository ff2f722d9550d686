//! JSON lines, one record at a time, in bounded memory.
//!
//! Load generators and engines both write such files. This module knows lines
//! and nothing of what they hold; what is not whole becomes a fault that names
//! its line.

use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::marker::PhantomData;
use std::path::{Path, PathBuf};

use crate::evidence::request::{ExportFault, FaultKind};

const BUFFER_BYTES: usize = 256 * 1024;

/// A line longer than this is a fault: no request's record comes near it.
const LONGEST_LINE: u64 = 1 << 30;

/// A file cannot be opened or read.
#[derive(Debug, thiserror::Error)]
#[error("{path} cannot be read: {source}; check that it exists and that you may read it")]
pub struct ReadError {
    /// The file or directory.
    pub path: PathBuf,
    /// Why.
    pub source: io::Error,
}

/// A record read from one line.
pub trait FromLine: Sized {
    /// Reads one line, without its end.
    fn from_line(line: &[u8]) -> Result<Self, serde_json::Error>;
}

/// What one line holds.
#[derive(Debug, Clone, PartialEq)]
pub enum Entry<T> {
    /// A record, at this line, counted from 1.
    Record(u64, T),
    /// A line that is no whole record.
    Fault(ExportFault),
}

/// Reads the records of a JSON-lines file in order.
///
/// A last line that does not end is a [`FaultKind::Truncated`], after its
/// record if it holds a whole one: a writer that finished ends its last line.
#[derive(Debug)]
pub struct Entries<R, T> {
    source: R,
    path: PathBuf,
    name: String,
    number: u64,
    line: Vec<u8>,
    pending: Option<ExportFault>,
    record: PhantomData<T>,
}

impl<T> Entries<BufReader<File>, T> {
    /// Opens a file; faults name it by its file name.
    pub fn open(path: &Path) -> Result<Self, ReadError> {
        let file = File::open(path).map_err(|source| ReadError { path: path.to_owned(), source })?;
        Ok(Self::new(BufReader::with_capacity(BUFFER_BYTES, file), path))
    }
}

impl<R: BufRead, T> Entries<R, T> {
    /// Reads from any source; `path` names it in errors and faults.
    pub fn new(source: R, path: &Path) -> Self {
        Self {
            source,
            path: path.to_owned(),
            name: path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned(),
            number: 0,
            line: Vec::new(),
            pending: None,
            record: PhantomData,
        }
    }

    /// The file's name, as faults give it.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Fills `line` with the next one that is not blank; whether it ended.
    fn advance(&mut self) -> io::Result<Option<bool>> {
        loop {
            self.line.clear();
            let mut limited = io::Read::take(&mut self.source, LONGEST_LINE);
            if limited.read_until(b'\n', &mut self.line)? == 0 {
                return Ok(None);
            }
            self.number += 1;
            let ended = self.line.last() == Some(&b'\n');
            if !ended || !self.line.trim_ascii().is_empty() {
                return Ok(Some(ended));
            }
        }
    }

    fn fault(&self, kind: FaultKind, detail: String) -> ExportFault {
        ExportFault { file: self.name.clone(), line: Some(self.number), kind, detail }
    }
}

impl<R: BufRead, T: FromLine> Iterator for Entries<R, T> {
    type Item = Result<Entry<T>, ReadError>;

    fn next(&mut self) -> Option<Self::Item> {
        if let Some(fault) = self.pending.take() {
            return Some(Ok(Entry::Fault(fault)));
        }
        let ended = match self.advance() {
            Ok(ended) => ended?,
            Err(source) => {
                return Some(Err(ReadError { path: self.path.clone(), source }));
            }
        };
        let entry = match (T::from_line(self.line.trim_ascii_end()), ended) {
            (Ok(record), true) => Entry::Record(self.number, record),
            (Ok(record), false) => {
                let detail = "the last line does not end, so the file was cut".to_owned();
                self.pending = Some(self.fault(FaultKind::Truncated, detail));
                Entry::Record(self.number, record)
            }
            (Err(error), true) => {
                Entry::Fault(self.fault(FaultKind::Malformed, format!("the line is no record: {error}")))
            }
            (Err(error), false) => {
                Entry::Fault(self.fault(FaultKind::Truncated, format!("the last line is cut: {error}")))
            }
        };
        Some(Ok(entry))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, PartialEq)]
    struct Number(u64);

    impl FromLine for Number {
        fn from_line(line: &[u8]) -> Result<Self, serde_json::Error> {
            serde_json::from_slice::<[u64; 1]>(line).map(|[number]| Self(number))
        }
    }

    fn read(text: &str) -> Vec<Result<(u64, u64), (u64, FaultKind)>> {
        Entries::<_, Number>::new(text.as_bytes(), Path::new("some/export.jsonl"))
            .map(|entry| match entry.unwrap() {
                Entry::Record(line, Number(number)) => Ok((line, number)),
                Entry::Fault(fault) => {
                    assert_eq!(fault.file, "export.jsonl");
                    Err((fault.line.unwrap(), fault.kind))
                }
            })
            .collect()
    }

    #[test]
    fn records_come_with_their_lines_and_blank_lines_count_as_lines() {
        assert_eq!(read("[1]\n\n[2]\r\n"), [Ok((1, 1)), Ok((3, 2))]);
        assert_eq!(read(""), []);
    }

    #[test]
    fn a_line_that_is_no_record_is_a_fault_and_the_next_one_is_read() {
        assert_eq!(read("[1]\nnope\n[2]\n"), [Ok((1, 1)), Err((2, FaultKind::Malformed)), Ok((3, 2))]);
        assert_eq!(read("\0\u{1}\n"), [Err((1, FaultKind::Malformed))]);
    }

    #[test]
    fn a_last_line_that_does_not_end_is_reported_even_where_it_parses() {
        assert_eq!(read("[1]\n[2"), [Ok((1, 1)), Err((2, FaultKind::Truncated))]);
        assert_eq!(read("[1]\n[2]"), [Ok((1, 1)), Ok((2, 2)), Err((2, FaultKind::Truncated))]);
        assert_eq!(read("[1]\n "), [Ok((1, 1)), Err((2, FaultKind::Truncated))]);
    }
}
