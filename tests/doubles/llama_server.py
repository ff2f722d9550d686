#!/usr/bin/env python3
"""A double of `llama-server` for tests of the server's proofs: it serves no model.

It takes the flags that the llama_cpp engine passes and answers the routes that are asked of a server.
How it misbehaves is its --alias, the word before a colon in BEHAVIOURS; any other alias is a good server.
Its vocabulary is that of the tests' GGUF file: the 256 bytes, each with its own value as id.
"""

import argparse
import json
import os
import socketserver
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

BEHAVIOURS = """
exits-at-once: ends with 3 before it listens
never-ready: loads for ever
never-listens: runs and leaves its port to others
answers-as-another: names another model
wrong-context: has half of the context asked for
says-nothing: answers with empty text
tokenizes-otherwise: has other token ids
dies-in-the-probe: ends with 9 when it is asked for its first answer
dies-in-use: ends with 9 when it is asked for its second answer
"""


def parse_arguments():
    if sys.argv[1:] == ["--version"]:
        print("version: double 1")
        sys.exit(0)
    parser = argparse.ArgumentParser(prog="llama-server", allow_abbrev=False)
    for name in ("--model", "--alias", "--host"):
        parser.add_argument(name, required=True)
    for name in ("--port", "--ctx-size", "--parallel", "--threads"):
        parser.add_argument(name, required=True, type=int)
    parser.add_argument("--metrics", action="store_true")
    return parser.parse_args()


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    args = None
    answered = 0

    def do_GET(self):
        alias = self.args.alias
        context = self.args.ctx_size // (2 if alias == "wrong-context" else 1)
        name = "another-model" if alias == "answers-as-another" else alias
        meta = {"n_ctx": context, "ftype": "Q4_1"}
        routes = {
            "/health": {"status": "ok"},
            "/v1/models": {"data": [{"id": name, "meta": meta}]},
            "/props": {"total_slots": self.args.parallel, "model_path": self.args.model, "build_info": "double 1"},
        }
        if self.path == "/health" and alias == "never-ready":
            self.answer({"error": {"message": "Loading model"}}, 503)
        elif self.path in routes:
            self.answer(routes[self.path])
        else:
            self.answer({"error": {"message": "File Not Found"}}, 404)

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if self.path == "/tokenize":
            ids = list(body["content"].encode())
            self.answer({"tokens": [id + 1 for id in ids] if self.args.alias == "tokenizes-otherwise" else ids})
        elif self.path == "/v1/chat/completions":
            self.chat()
        else:
            self.answer({"error": {"message": "File Not Found"}}, 404)

    def chat(self):
        Handler.answered += 1
        dies_at = {"dies-in-the-probe": 1, "dies-in-use": 2}.get(self.args.alias)
        if Handler.answered == dies_at:
            log("ggml: out of memory")
            os._exit(9)
        text = "" if self.args.alias == "says-nothing" else "Hello."
        self.answer({"choices": [{"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": text}}]})

    def answer(self, document, status=200):
        body = json.dumps(document).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


class Server(ThreadingHTTPServer):
    daemon_threads = True

    def server_bind(self):
        """Without the reverse look-up of the host's name."""
        socketserver.TCPServer.server_bind(self)
        self.server_name, self.server_port = self.server_address[:2]


def log(line):
    print(line, file=sys.stderr, flush=True)


def main():
    args = parse_arguments()
    log(f"loading {os.path.basename(args.model)}")
    if args.alias == "exits-at-once":
        log("error: unknown model architecture")
        sys.exit(3)
    if args.alias == "never-listens":
        threading.Event().wait()
    Handler.args = args
    Server((args.host, args.port), Handler).serve_forever()


if __name__ == "__main__":
    main()
