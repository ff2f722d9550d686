//! The double of `llama-server`, and a model file that a bundle can be made of.

#[allow(dead_code, reason = "the unit tests of the library use the rest")]
#[path = "../../src/gguf/sample.rs"]
mod sample;

use super::{PROJECT, Scene};
use sample::Sample;

/// Writes a plan whose server is the double under an alias, which says how it
/// misbehaves, and whose warmup needs that server.
#[allow(dead_code, reason = "some plans have a server among other things")]
pub fn write_plan(scene: &Scene, alias: &str, more_of_serve: &str) {
    write_plan_with(scene, alias, more_of_serve, "");
}

/// Like [`write_plan`], with more nodes.
#[allow(dead_code, reason = "most plans are done after the warmup")]
pub fn write_plan_with(scene: &Scene, alias: &str, more_of_serve: &str, more_nodes: &str) {
    scene.write("tiny.gguf", model());
    scene.write(
        "plan.yaml",
        format!(
            "\
orchestrate: 1
name: double
nodes:
  model:
    fetch:
      sources: [{{path: tiny.gguf}}]
  bundle:
    build_bundle:
      model: ${{nodes.model}}
      engine:
        llama_cpp:
          program: {PROJECT}/tests/doubles/llama_server.py
          precision: Q4_1
          context_length: 64
  server:
    serve:
      bundle: ${{nodes.bundle}}
      model_name: {alias}
{more_of_serve}
  warmup:
    warmup:
      server: ${{nodes.server}}
      requests: 2
{more_nodes}
"
        ),
    );
}

/// A whole GGUF file with a vocabulary of the 256 bytes, each byte its own id.
pub fn model() -> Vec<u8> {
    let kinds = [1; 256];
    Sample::new()
        .text("general.architecture", "llama")
        .text("general.name", "tiny")
        .unsigned("general.file_type", 3)
        .unsigned("llama.context_length", 64)
        .unsigned("llama.block_count", 1)
        .text("tokenizer.ggml.model", "gpt2")
        .text("tokenizer.ggml.pre", "smollm")
        .texts("tokenizer.ggml.tokens", &byte_tokens())
        .integers("tokenizer.ggml.token_type", &kinds)
        .tensor("blk.0.weight", &[32, 2], 3, &[7; 40])
        .build()
}

/// How byte-level BPE writes each byte: printable ones as they are, others as
/// the characters from U+0100 on.
fn byte_tokens() -> Vec<String> {
    let mut next = 0x100..;
    (0..=255_u8)
        .map(|byte| match byte {
            b'!'..=b'~' | 0xa1..=0xac | 0xae..=0xff => char::from(byte).to_string(),
            _ => char::from_u32(next.next().unwrap()).unwrap().to_string(),
        })
        .collect()
}
