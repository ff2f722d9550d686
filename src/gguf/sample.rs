//! Builds small GGUF files for tests.

/// A GGUF file in the making.
#[derive(Clone, Default)]
pub(crate) struct Sample {
    entries: Vec<u8>,
    entry_count: u64,
    tensors: Vec<u8>,
    tensor_count: u64,
    data: Vec<u8>,
}

fn push_text(out: &mut Vec<u8>, text: &str) {
    out.extend((text.len() as u64).to_le_bytes());
    out.extend(text.as_bytes());
}

impl Sample {
    pub(crate) fn new() -> Self {
        Self::default()
    }

    /// Two blocks, two tensors, no tokenizer.
    pub(crate) fn tiny_llama() -> Self {
        Self::new()
            .text("general.architecture", "llama")
            .text("general.name", "tiny")
            .unsigned("general.file_type", 3)
            .unsigned("llama.context_length", 64)
            .unsigned("llama.block_count", 2)
            .texts("tokenizer.ggml.tokens", &["a", "b"])
            .integers("tokenizer.ggml.token_type", &[1, 3])
            .raw("scores", 9, &[&6_u32.to_le_bytes()[..], &2_u64.to_le_bytes(), &[0; 8]].concat())
            .raw("flag", 7, &[1])
            .tensor("blk.0.weight", &[32, 2], 3, &[7; 40])
            .tensor("norm", &[4], 0, &[0; 16])
    }

    /// A metadata entry of ggml's value type `kind` with these bytes.
    pub(crate) fn raw(mut self, key: &str, kind: u32, value: &[u8]) -> Self {
        push_text(&mut self.entries, key);
        self.entries.extend(kind.to_le_bytes());
        self.entries.extend(value);
        self.entry_count += 1;
        self
    }

    pub(crate) fn text(self, key: &str, text: &str) -> Self {
        let mut value = Vec::new();
        push_text(&mut value, text);
        self.raw(key, 8, &value)
    }

    pub(crate) fn unsigned(self, key: &str, number: u32) -> Self {
        self.raw(key, 4, &number.to_le_bytes())
    }

    pub(crate) fn texts<T: AsRef<str>>(self, key: &str, texts: &[T]) -> Self {
        let mut value = 8_u32.to_le_bytes().to_vec();
        value.extend((texts.len() as u64).to_le_bytes());
        for text in texts {
            push_text(&mut value, text.as_ref());
        }
        self.raw(key, 9, &value)
    }

    pub(crate) fn integers(self, key: &str, numbers: &[i32]) -> Self {
        let mut value = 5_u32.to_le_bytes().to_vec();
        value.extend((numbers.len() as u64).to_le_bytes());
        value.extend(numbers.iter().flat_map(|number| number.to_le_bytes()));
        self.raw(key, 9, &value)
    }

    pub(crate) fn tensor(mut self, name: &str, dimensions: &[u64], kind: u32, data: &[u8]) -> Self {
        self.data.resize(self.data.len().next_multiple_of(32), 0);
        push_text(&mut self.tensors, name);
        self.tensors.extend(u32::try_from(dimensions.len()).unwrap().to_le_bytes());
        for dimension in dimensions {
            self.tensors.extend(dimension.to_le_bytes());
        }
        self.tensors.extend(kind.to_le_bytes());
        self.tensors.extend((self.data.len() as u64).to_le_bytes());
        self.data.extend(data);
        self.tensor_count += 1;
        self
    }

    pub(crate) fn build(self) -> Vec<u8> {
        let mut file = b"GGUF".to_vec();
        file.extend(3_u32.to_le_bytes());
        file.extend(self.tensor_count.to_le_bytes());
        file.extend(self.entry_count.to_le_bytes());
        file.extend(self.entries);
        file.extend(self.tensors);
        file.resize(file.len().next_multiple_of(32), 0);
        file.extend(self.data);
        file
    }
}
