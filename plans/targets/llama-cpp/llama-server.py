"""llama.cpp's own HTTP server from the prebuilt `xllamacpp` wheel, behind `llama-server`'s command line.

Only the flags that our plans use are known, with llama-server's meaning and defaults; any other is
refused. The server runs inside this process and llama.cpp writes its log to stderr itself.
Exit code: 0 after SIGTERM or SIGINT, 1 if the server cannot start, 2 for bad arguments. A signal
that comes while the model is still loading ends the process by that signal.
"""

import argparse
import ctypes
import os
import signal
import sys

import xllamacpp

PR_SET_NAME = 15


def parse_arguments():
    parser = argparse.ArgumentParser(prog="llama-server", allow_abbrev=False)
    switch = argparse.BooleanOptionalAction
    parser.add_argument("--model", required=True, help="GGUF file")
    parser.add_argument("--alias", required=True, help="model name that clients see")
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=8080)
    parser.add_argument("--ctx-size", type=int, default=0, help="tokens over all slots, 0: from the model")
    parser.add_argument("--parallel", type=int, default=1, help="slots")
    parser.add_argument("--threads", type=int, default=-1, help="for decoding and for prompts, -1: all cores")
    parser.add_argument("--metrics", action="store_true", help="serve /metrics")
    parser.add_argument("--slots", action=switch, default=True, help="serve /slots")
    parser.add_argument("--cache-prompt", action=switch, default=True, help="reuse the prefix of earlier prompts")
    return parser.parse_args()


def server_params(args):
    params = xllamacpp.CommonParams()
    params.model.path = args.model
    params.model_alias = {args.alias}
    params.hostnames = [args.host]
    params.port = args.port
    params.n_ctx = args.ctx_size
    params.n_parallel = args.parallel
    params.cpuparams.n_threads = args.threads
    params.cpuparams_batch.n_threads = args.threads
    params.endpoint_metrics = args.metrics
    params.endpoint_slots = args.slots
    params.cache_prompt = args.cache_prompt
    return params


def wait_for_signal():
    """Returns at SIGTERM or SIGINT, whichever thread of the server receives it."""
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    signal.set_wakeup_fd(writing)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: None)
    os.read(reading, 1)


def main():
    args = parse_arguments()
    ctypes.CDLL(None).prctl(PR_SET_NAME, b"llama-server", 0, 0, 0)
    if not os.path.isfile(args.model):
        sys.exit(f"llama-server: error: there is no model file {args.model}")
    print(f"xllamacpp {xllamacpp.__version__}, llama.cpp build {xllamacpp.BUILD_INFO}", flush=True)
    try:
        server = xllamacpp.Server(server_params(args))
    except RuntimeError:
        sys.exit(f"llama-server: error: llama.cpp could not serve {args.model} on {args.host}:{args.port}; its log above says why")
    wait_for_signal()
    print(f"stopped serving {server.listening_address}", flush=True)
    os._exit(0)  # the server's destructor waits 30 s for a stream in flight, the kernel does not


if __name__ == "__main__":
    main()
