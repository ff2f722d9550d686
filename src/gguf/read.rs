//! The bounds-checked walk over the header's bytes.

use std::io::{self, Read};

use indexmap::IndexMap;

use super::quantization::block;
use super::{Gguf, GgufError, HEADER_LIMIT, Tensor, Value};

/// Why reading stopped.
pub(super) enum Stop {
    Io(io::Error),
    Gguf(GgufError),
}

impl From<GgufError> for Stop {
    fn from(error: GgufError) -> Self {
        Self::Gguf(error)
    }
}

/// ggml allows four dimensions; a larger number means damage.
const MAX_DIMENSIONS: u32 = 8;
const DEFAULT_ALIGNMENT: u64 = 32;

pub(super) fn header(reader: impl Read, bytes: u64) -> Result<Gguf, Stop> {
    let mut header = Header { reader, at: 0, bytes };
    let magic: [u8; 4] = header.array("the magic number")?;
    if &magic != b"GGUF" {
        return Err(GgufError::NotGguf { found: magic }.into());
    }
    let version = header.u32("the version")?;
    if !(2..=3).contains(&version) {
        return Err(GgufError::Version { version }.into());
    }
    let tensor_count = header.u64("the number of tensors")?;
    let entry_count = header.u64("the number of metadata entries")?;
    header.room(tensor_count, 8 + 4 + 4 + 8, "the list of tensors")?;
    header.room(entry_count, 8 + 4 + 1, "the metadata")?;
    let metadata = header.metadata(entry_count)?;
    let tensors = header.tensors(tensor_count)?;
    let data_start = header.data_start(&metadata)?;
    let tensors = header.place(tensors, data_start)?;
    Ok(Gguf { version, bytes, metadata, tensors, data_start })
}

struct Unplaced {
    name: String,
    elements: u64,
    kind: u32,
    offset: u64,
}

struct Header<R> {
    reader: R,
    at: u64,
    bytes: u64,
}

impl<R: Read> Header<R> {
    /// Checks that `count` items of at least `size` bytes can still follow.
    fn room(&self, count: u64, size: u64, what: &str) -> Result<(), Stop> {
        let needs = count.saturating_mul(size).saturating_add(self.at);
        if needs > self.bytes {
            let what = what.to_owned();
            return Err(GgufError::HeaderCutShort { needs, what, has: self.bytes }.into());
        }
        if needs > HEADER_LIMIT {
            return Err(self.damaged(format!("{what} would take the header past {HEADER_LIMIT} bytes")));
        }
        Ok(())
    }

    fn damaged(&self, reason: impl Into<String>) -> Stop {
        GgufError::Damaged { at: self.at, reason: reason.into() }.into()
    }

    fn fill(&mut self, buffer: &mut [u8], what: &str) -> Result<(), Stop> {
        let length = buffer.len() as u64;
        self.room(length, 1, what)?;
        self.reader.read_exact(buffer).map_err(Stop::Io)?;
        self.at += length;
        Ok(())
    }

    fn array<const N: usize>(&mut self, what: &str) -> Result<[u8; N], Stop> {
        let mut buffer = [0; N];
        self.fill(&mut buffer, what)?;
        Ok(buffer)
    }

    fn u32(&mut self, what: &str) -> Result<u32, Stop> {
        self.array(what).map(u32::from_le_bytes)
    }

    fn u64(&mut self, what: &str) -> Result<u64, Stop> {
        self.array(what).map(u64::from_le_bytes)
    }

    fn text(&mut self, what: &str) -> Result<String, Stop> {
        let length = self.u64(what)?;
        self.room(length, 1, what)?;
        let length = usize::try_from(length).map_err(|_| self.damaged("a text longer than memory"))?;
        let mut buffer = vec![0; length];
        self.fill(&mut buffer, what)?;
        String::from_utf8(buffer).map_err(|_| self.damaged(format!("{what} is not valid UTF-8")))
    }

    fn metadata(&mut self, count: u64) -> Result<IndexMap<String, Value>, Stop> {
        let mut metadata = IndexMap::new();
        for _ in 0..count {
            let key = self.text("a metadata key")?;
            let kind = self.u32(&key)?;
            let value = self.value(kind, &key)?;
            if metadata.contains_key(&key) {
                return Err(self.damaged(format!("the metadata key {key} is there twice")));
            }
            metadata.insert(key, value);
        }
        Ok(metadata)
    }

    fn value(&mut self, kind: u32, key: &str) -> Result<Value, Stop> {
        Ok(match kind {
            0 => Value::Unsigned(u64::from(u8::from_le_bytes(self.array(key)?))),
            1 => Value::Signed(i64::from(i8::from_le_bytes(self.array(key)?))),
            2 => Value::Unsigned(u64::from(u16::from_le_bytes(self.array(key)?))),
            3 => Value::Signed(i64::from(i16::from_le_bytes(self.array(key)?))),
            4 => Value::Unsigned(u64::from(self.u32(key)?)),
            5 => Value::Signed(i64::from(i32::from_le_bytes(self.array(key)?))),
            6 => Value::Float(f64::from(f32::from_le_bytes(self.array(key)?))),
            7 => match self.array(key)? {
                [0] => Value::Bool(false),
                [1] => Value::Bool(true),
                [other] => {
                    return Err(self.damaged(format!("{key} is neither true nor false but {other}")));
                }
            },
            8 => Value::Text(self.text(key)?),
            9 => self.values(key)?,
            10 => Value::Unsigned(self.u64(key)?),
            11 => Value::Signed(i64::from_le_bytes(self.array(key)?)),
            12 => Value::Float(f64::from_le_bytes(self.array(key)?)),
            other => return Err(self.damaged(format!("{key} has the unknown type {other}"))),
        })
    }

    fn values(&mut self, key: &str) -> Result<Value, Stop> {
        let kind = self.u32(key)?;
        let count = self.u64(key)?;
        let size = match kind {
            0 | 1 | 7 => 1,
            2 | 3 => 2,
            4..=6 => 4,
            8 | 10..=12 => 8,
            9 => {
                return Err(self.damaged(format!("{key} is an array of arrays, which no model uses")));
            }
            other => {
                return Err(self.damaged(format!("{key} is an array of the unknown type {other}")));
            }
        };
        self.room(count, size, key)?;
        match kind {
            8 => (0..count).map(|_| self.text(key)).collect::<Result<_, _>>().map(Value::Texts),
            4 => (0..count)
                .map(|_| self.u32(key).map(i64::from))
                .collect::<Result<_, _>>()
                .map(Value::Integers),
            5 => (0..count)
                .map(|_| self.array(key).map(|bytes| i64::from(i32::from_le_bytes(bytes))))
                .collect::<Result<_, _>>()
                .map(Value::Integers),
            _ => self.skip(count * size).map(|()| Value::Skipped(count)),
        }
    }

    fn skip(&mut self, bytes: u64) -> Result<(), Stop> {
        let skipped = io::copy(&mut self.reader.by_ref().take(bytes), &mut io::sink()).map_err(Stop::Io)?;
        self.at += skipped;
        if skipped < bytes {
            return Err(Stop::Io(io::ErrorKind::UnexpectedEof.into()));
        }
        Ok(())
    }

    fn tensors(&mut self, count: u64) -> Result<Vec<Unplaced>, Stop> {
        (0..count).map(|_| self.tensor()).collect()
    }

    fn tensor(&mut self) -> Result<Unplaced, Stop> {
        let name = self.text("a tensor's name")?;
        let dimensions = self.u32(&name)?;
        if dimensions > MAX_DIMENSIONS {
            return Err(self.damaged(format!("the tensor {name} has {dimensions} dimensions")));
        }
        let mut elements = 1_u64;
        for _ in 0..dimensions {
            let dimension = self.u64(&name)?;
            elements = elements.checked_mul(dimension).ok_or_else(|| {
                self.damaged(format!("the tensor {name} has more elements than 64 bits count"))
            })?;
        }
        Ok(Unplaced { elements, kind: self.u32(&name)?, offset: self.u64(&name)?, name })
    }

    /// Tensor data starts at the next multiple of the alignment.
    fn data_start(&self, metadata: &IndexMap<String, Value>) -> Result<u64, Stop> {
        let alignment = match metadata.get("general.alignment") {
            None => DEFAULT_ALIGNMENT,
            Some(Value::Unsigned(alignment)) if alignment.is_power_of_two() => *alignment,
            Some(other) => {
                return Err(self.damaged(format!("general.alignment is {other:?}, not a power of two")));
            }
        };
        self.at
            .checked_next_multiple_of(alignment)
            .ok_or_else(|| self.damaged("general.alignment is past the end of any file"))
    }

    fn place(&self, tensors: Vec<Unplaced>, data_start: u64) -> Result<Vec<Tensor>, Stop> {
        let count = tensors.len();
        let tensors: Vec<_> = tensors.into_iter().map(|tensor| place(tensor, data_start)).collect();
        match tensors.iter().map(|tensor| tensor.end).max() {
            Some(ends) if ends > self.bytes => {
                Err(GgufError::TensorsCutShort { tensors: count, ends, has: self.bytes }.into())
            }
            _ => Ok(tensors),
        }
    }
}

fn place(tensor: Unplaced, data_start: u64) -> Tensor {
    let Unplaced { name, elements, kind, offset } = tensor;
    let start = data_start.saturating_add(offset);
    let size = block(kind).map_or(0, |block| elements.div_ceil(block.elements).saturating_mul(block.bytes));
    Tensor { name, elements, kind, start, end: start.saturating_add(size) }
}
