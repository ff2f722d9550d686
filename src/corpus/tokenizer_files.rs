//! A Hugging Face tokenizer directory from what a GGUF model file carries.

use std::collections::HashMap;
use std::fs;
use std::path::Path;

use serde_json::{Map, Value, json};

use super::pretokenizer::{Rules, rules};
use super::tokenizer::TokenizerError;
use crate::gguf::{Gguf, TokenKind, TokenizerData};

/// Writes `tokenizer.json` and `tokenizer_config.json` into a directory that
/// exists; the same model gives the same bytes.
///
/// The result gives the ids that llama.cpp gives. It therefore has no Unicode
/// normalization, which the published tokenizer of some models has.
pub fn write_tokenizer(gguf: &Gguf, directory: &Path) -> Result<(), TokenizerError> {
    let data = gguf.tokenizer()?;
    if data.model != "gpt2" {
        return Err(TokenizerError::Algorithm(data.model));
    }
    let rules = rules(data.pre.as_deref())
        .ok_or_else(|| TokenizerError::PreTokenizer { name: data.pre.clone().unwrap_or_default() })?;
    write(directory, "tokenizer.json", &tokenizer(&data, rules)?)?;
    write(directory, "tokenizer_config.json", &config(&data, gguf.context_length()))
}

fn write(directory: &Path, name: &str, value: &Value) -> Result<(), TokenizerError> {
    let path = directory.join(name);
    fs::write(&path, format!("{value:#}\n")).map_err(|source| TokenizerError::Write { path, source })
}

fn tokenizer(data: &TokenizerData, rules: Rules) -> Result<Value, TokenizerError> {
    let ids = vocabulary(data)?;
    let byte_level =
        json!({"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": false});
    let split = |pattern: &&str| json!({"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": false});
    let cuts: Vec<_> = rules.patterns.iter().map(split).chain([byte_level.clone()]).collect();
    Ok(json!({
        "version": "1.0",
        "truncation": null,
        "padding": null,
        "added_tokens": added_tokens(data),
        "normalizer": null,
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": cuts},
        "post_processor": post_processor(data, rules),
        "decoder": byte_level,
        "model": {
            "type": "BPE",
            "dropout": null,
            "unk_token": null,
            "continuing_subword_prefix": null,
            "end_of_word_suffix": null,
            "fuse_unk": false,
            "byte_fallback": false,
            "ignore_merges": rules.ignore_merges,
            "vocab": data.tokens.iter().cloned().zip((0_u32..).map(Value::from)).collect::<Map<_, _>>(),
            "merges": merges(data, &ids)?,
        },
    }))
}

fn vocabulary(data: &TokenizerData) -> Result<HashMap<&str, usize>, TokenizerError> {
    let mut ids = HashMap::with_capacity(data.tokens.len());
    for (id, token) in data.tokens.iter().enumerate() {
        if let Some(first) = ids.insert(token.as_str(), id) {
            return Err(TokenizerError::Vocabulary(format!("tokens {first} and {id} are both {token:?}")));
        }
    }
    Ok(ids)
}

/// Tokens that are found in the text before it is cut into words.
fn added_tokens(data: &TokenizerData) -> Vec<Value> {
    let special = |kind: TokenKind| match kind {
        TokenKind::Control | TokenKind::Unknown => Some(true),
        TokenKind::UserDefined => Some(false),
        TokenKind::Normal | TokenKind::Unused | TokenKind::Byte => None,
    };
    let tokens = data.tokens.iter().zip(&data.kinds).enumerate();
    tokens
        .filter_map(|(id, (content, kind))| {
            let special = special(*kind)?;
            Some(json!({
                "id": id,
                "content": content,
                "single_word": false,
                "lstrip": false,
                "rstrip": false,
                "normalized": false,
                "special": special,
            }))
        })
        .collect()
}

fn post_processor(data: &TokenizerData, rules: Rules) -> Value {
    match (data.add_bos.unwrap_or(rules.add_bos), data.bos) {
        (true, Some(id)) => {
            let token = &data.tokens[id as usize];
            let special = json!({"SpecialToken": {"id": token, "type_id": 0}});
            let first = json!({"Sequence": {"id": "A", "type_id": 0}});
            let second = json!({"Sequence": {"id": "B", "type_id": 1}});
            json!({
                "type": "TemplateProcessing",
                "single": [special, first],
                "pair": [special, first, special, second],
                "special_tokens": {token: {"id": token, "ids": [id], "tokens": [token]}},
            })
        }
        _ => Value::Null,
    }
}

/// Each merge as its two tokens; the space between them is the first one
/// after the first character.
fn merges(data: &TokenizerData, ids: &HashMap<&str, usize>) -> Result<Vec<[String; 2]>, TokenizerError> {
    let pair = |merge: &String| {
        let first = merge.chars().next().map_or(0, char::len_utf8);
        let space = merge[first..].find(' ').map(|at| at + first)?;
        let (left, right) = (&merge[..space], &merge[space + 1..]);
        let known = [left, right, &format!("{left}{right}")].iter().all(|token| ids.contains_key(token));
        known.then(|| [left.to_owned(), right.to_owned()])
    };
    data.merges
        .iter()
        .map(|merge| {
            pair(merge).ok_or_else(|| {
                TokenizerError::Vocabulary(format!(
                    "the merge {merge:?} does not join two of its tokens into a third"
                ))
            })
        })
        .collect()
}

fn config(data: &TokenizerData, context_length: Option<u64>) -> Value {
    let mut config =
        json!({"tokenizer_class": "PreTrainedTokenizerFast", "clean_up_tokenization_spaces": false});
    let specials = [
        ("bos_token", data.bos),
        ("eos_token", data.eos),
        ("pad_token", data.padding),
        ("unk_token", data.unknown),
    ];
    for (key, id) in specials {
        if let Some(id) = id {
            config[key] = json!(data.tokens[id as usize]);
        }
    }
    if let Some(length) = context_length {
        config["model_max_length"] = json!(length);
    }
    if let Some(template) = &data.chat_template {
        config["chat_template"] = json!(template);
    }
    config
}

#[cfg(test)]
#[path = "tokenizer_tests.rs"]
mod tests;
