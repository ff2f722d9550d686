use super::super::fit::{ContextBudget, fit};
use super::super::row::Row;
use super::super::tokenizer::Tokenizer;
use super::*;
use crate::gguf::sample::Sample;

/// The byte alphabet of GPT-2: printable bytes stand for themselves, the
/// others for the characters from U+0100 on.
fn alphabet() -> Vec<String> {
    let mut next = 0x100;
    (0..=255_u8)
        .map(|byte| match byte {
            b'!'..=b'~' | 0xa1..=0xac | 0xae..=0xff => char::from(byte),
            _ => {
                next += 1;
                char::from_u32(next - 1).unwrap()
            }
        })
        .map(String::from)
        .collect()
}

const SPECIALS: [&str; 3] = ["<|begin|>", "<|end|>", "<tool>"];
const MERGED: [&str; 6] = ["th", "the", "\u{120}the", "12", "123", "\u{120}\u{120}"];
const MERGES: [&str; 6] = ["t h", "th e", "\u{120} the", "1 2", "12 3", "\u{120} \u{120}"];

/// Bytes have ids 0 to 255, merged tokens 256 to 261, special ones 262 to 264.
fn model(pre: &str) -> Sample {
    let mut tokens = alphabet();
    tokens.extend(MERGED.map(str::to_owned));
    tokens.extend(SPECIALS.map(str::to_owned));
    let mut kinds = vec![1; 262];
    kinds.extend([3, 3, 4]);
    Sample::new()
        .text("general.architecture", "llama")
        .unsigned("llama.context_length", 64)
        .text("tokenizer.ggml.model", "gpt2")
        .text("tokenizer.ggml.pre", pre)
        .texts("tokenizer.ggml.tokens", &tokens)
        .integers("tokenizer.ggml.token_type", &kinds)
        .texts("tokenizer.ggml.merges", &MERGES)
        .unsigned("tokenizer.ggml.bos_token_id", 262)
        .unsigned("tokenizer.ggml.eos_token_id", 263)
        .text("tokenizer.chat_template", "{{ messages }}")
}

fn gguf(sample: Sample) -> Gguf {
    let bytes = sample.build();
    Gguf::from_reader(bytes.as_slice(), bytes.len() as u64).unwrap()
}

fn tokenizer(sample: Sample) -> Tokenizer {
    let directory = tempfile::tempdir().unwrap();
    write_tokenizer(&gguf(sample), directory.path()).unwrap();
    Tokenizer::open(directory.path()).unwrap()
}

fn refusal(sample: Sample) -> String {
    write_tokenizer(&gguf(sample), tempfile::tempdir().unwrap().path()).unwrap_err().to_string()
}

#[test]
fn text_is_cut_merged_and_numbered_as_the_model_file_says() {
    let tokenizer = tokenizer(model("smollm"));
    let ids = |text: &str| tokenizer.encode(text).unwrap();
    assert_eq!(ids("the the"), [257, 258]);
    assert_eq!(ids("é\0"), [0xc3, 0xa9, 0]);
    assert_eq!(ids("the<|end|>"), [257, 263]);
    assert_eq!(ids("<tool>the"), [264, 257]);
    assert_eq!(ids("  the"), [32, 258]);
    assert_eq!(ids(""), Vec::<u32>::new());
    assert_eq!(tokenizer.count("the the").unwrap(), 2);
}

#[test]
fn digits_are_cut_as_the_pre_tokenizer_says() {
    let count = |pre: &str| tokenizer(model(pre)).count("123").unwrap();
    assert_eq!(["smollm", "gpt-2", "default", "llama-bpe", "qwen2"].map(count), [3, 1, 1, 1, 3]);
}

#[test]
fn a_directory_is_written_with_the_same_bytes_every_time() {
    let written = || {
        let directory = tempfile::tempdir().unwrap();
        write_tokenizer(&gguf(model("llama-bpe")), directory.path()).unwrap();
        ["tokenizer.json", "tokenizer_config.json"]
            .map(|name| fs::read_to_string(directory.path().join(name)).unwrap())
    };
    let [tokenizer, config] = written();
    assert_eq!(written(), [tokenizer.clone(), config.clone()]);
    assert!(tokenizer.contains("TemplateProcessing"), "llama-bpe starts with the bos token");
    insta::assert_snapshot!(config, @r#"
    {
      "tokenizer_class": "PreTrainedTokenizerFast",
      "clean_up_tokenization_spaces": false,
      "bos_token": "<|begin|>",
      "eos_token": "<|end|>",
      "model_max_length": 64,
      "chat_template": "{{ messages }}"
    }
    "#);
}

#[test]
fn what_cannot_be_rebuilt_faithfully_is_refused() {
    let merges = |merge: &str| {
        Sample::new()
            .text("tokenizer.ggml.model", "gpt2")
            .text("tokenizer.ggml.pre", "gpt-2")
            .texts("tokenizer.ggml.tokens", &["a", "b"])
            .texts("tokenizer.ggml.merges", &[merge])
    };
    let twice =
        Sample::new().text("tokenizer.ggml.model", "gpt2").texts("tokenizer.ggml.tokens", &["a", "a"]);
    let spm = Sample::new().text("tokenizer.ggml.model", "llama").texts("tokenizer.ggml.tokens", &["a"]);
    let eos = merges("a b").unsigned("tokenizer.ggml.eos_token_id", 2);
    let refusals = [model("tekken"), spm, Sample::new(), merges("a b"), merges("ab"), twice, eos]
        .map(refusal)
        .join("\n");
    insta::assert_snapshot!(refusals, @r#"
    unsupported pre-tokenizer "tekken": known are smollm, gpt-2, default, llama-bpe, qwen2; name a directory with the model's tokenizer.json
    unsupported tokenizer model "llama": only byte-level BPE ("gpt2") can be rebuilt; name a directory with the model's tokenizer.json
    the model file has no usable tokenizer.ggml.tokens: expected an array of texts
    the model's vocabulary cannot be used: the merge "a b" does not join two of its tokens into a third; convert the model again
    the model's vocabulary cannot be used: the merge "ab" does not join two of its tokens into a third; convert the model again
    the model's vocabulary cannot be used: tokens 0 and 1 are both "a"; convert the model again
    the model file has no usable tokenizer.ggml.eos_token_id: 2 is outside the vocabulary of 2 tokens
    "#);
}

#[test]
fn rows_that_do_not_fit_the_context_are_listed_with_their_numbers() {
    let row = |id: &str, turns: &[&str]| Row {
        id: id.into(),
        category: "c".into(),
        tier: None,
        turns: turns.iter().map(|&turn| turn.to_owned()).collect(),
    };
    let rows = [row("1", &["the the", "the"]), row("2", &["the"]), row("3", &["the the the"])];
    let budget = ContextBudget {
        limit: 13,
        reserved_output_tokens: 5,
        per_message_overhead: 2,
        per_conversation_overhead: 1,
    };
    let fit = fit(rows.iter(), &tokenizer(model("smollm")), budget).unwrap();
    assert_eq!(fit.fitting, ["2", "3"]);
    assert_eq!(fit.tokens["1"], [2, 1]);
    let long = &fit.too_long[0];
    assert_eq!((long.id.as_str(), long.text_tokens, long.needed, long.limit), ("1", 3, 22, 13));
    insta::assert_snapshot!(fit.excluded()[0].reason, @"needs 22 tokens of context (3 of text, the rest for replies and the chat template), 13 are there");
}
