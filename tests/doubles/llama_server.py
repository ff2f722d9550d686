#!/usr/bin/env python3
"""A double of `llama-server` for tests of the server's proofs: it serves no model.

It takes the flags that the llama_cpp engine passes and answers the routes that are asked of a server.
How it misbehaves is its --alias, the word before a colon in BEHAVIOURS; any other alias is a good server.
Its vocabulary is that of the tests' GGUF file: the 256 bytes, each with its own value as id.
"""

import argparse
import json
import os
import signal
import socket
import socketserver
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

BEHAVIOURS = """
exits-at-once: ends with 3 before it listens
never-ready: loads for ever, and only says so
never-listens: runs and leaves its port to others
loads-slowly: loads for 2 seconds and logs dots
loads-busily: loads for 2 seconds, computes and logs nothing
binds-late: listens only after a second
dies-while-loading: ends with 9 after a second and leaves its port to others
shares-its-port: loads for ever, on a port that others may share
lends-its-port: is good, on a port that others may share
binds-elsewhere: listens on another port than asked for
answers-as-another: names another model
wrong-context: has half of the context asked for
wrong-slots: has one slot more than asked for
wrong-precision: has another precision
forgets-its-environment: takes OMP_NUM_THREADS out of it
half-loaded: says that it is ready while its workers still load
ignores-term: has to be killed
says-nothing: answers with empty text
tokenizes-otherwise: has other token ids
dies-in-the-probe: ends with 9 when it is asked for its first answer
dies-in-use: ends with 9 when it is asked for its second answer
dies-once-in-use: does so only where $SIDE/died is not there yet, which it makes
dies-once-in-the-load: does so at its fourth answer
dies-when-told: ends with 9 when /die is asked for
dies-later: ends with 9 half a second after its third answer
keeps-gpu-memory: writes 900 into $SIDE/gpu, where the double of nvidia-smi looks
frees-gpu-memory: does so and writes 0 there when it ends
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
    loaded = threading.Event()

    def do_GET(self):
        alias = self.args.alias
        context = self.args.ctx_size // (2 if alias == "wrong-context" else 1)
        name = "another-model" if alias == "answers-as-another" else alias
        slots = self.args.parallel + (1 if alias == "wrong-slots" else 0)
        meta = {"n_ctx": context, "ftype": "Q8_0" if alias == "wrong-precision" else "Q4_1"}
        routes = {
            "/health": {"status": "ok"},
            "/v1/models": {"data": [{"id": name, "meta": meta}]},
            "/props": {"total_slots": slots, "model_path": self.args.model, "build_info": "double 1"},
        }
        if self.path == "/die" and alias == "dies-when-told":
            die()
        elif self.path == "/health" and not Handler.loaded.is_set():
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
        alias = self.args.alias
        dies_at = {"dies-in-the-probe": 1, "dies-in-use": 2}.get(alias)
        dies_once_at = {"dies-once-in-use": 2, "dies-once-in-the-load": 4}.get(alias)
        if Handler.answered == dies_once_at and not os.path.exists(side("died")):
            write(side("died"), "")
            die()
        if Handler.answered == dies_at:
            die()
        if alias == "dies-later" and Handler.answered == 3:
            threading.Timer(0.5, die).start()
        if alias == "half-loaded":
            return self.answer({"error": {"message": "Loading model"}}, 503)
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
    request_queue_size = 32
    shares_its_port = False

    def server_bind(self):
        """Without the reverse look-up of the host's name."""
        if self.shares_its_port:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        socketserver.TCPServer.server_bind(self)
        self.server_name, self.server_port = self.server_address[:2]


def log(line, end="\n"):
    print(line, file=sys.stderr, flush=True, end=end)


def side(name):
    return os.path.join(os.environ["SIDE"], name)


def write(path, text):
    with open(path, "w") as file:
        file.write(text)


def die():
    log("ggml: out of memory")
    os._exit(9)


def load(alias):
    """What it does before it is ready, while it already answers."""
    begun = time.monotonic()
    while alias in ("loads-slowly", "loads-busily") and time.monotonic() - begun < 2:
        if alias == "loads-slowly":
            log(".", end="")
            time.sleep(0.1)
    if alias not in ("never-ready", "shares-its-port"):
        Handler.loaded.set()


def main():
    args = parse_arguments()
    log(f"loading {os.path.basename(args.model)}")
    if args.alias == "exits-at-once":
        log("error: unknown model architecture")
        sys.exit(3)
    if args.alias == "never-listens":
        threading.Event().wait()
    if args.alias in ("binds-late", "dies-while-loading"):
        time.sleep(1)
    if args.alias == "dies-while-loading":
        die()
    if args.alias == "forgets-its-environment" and os.environ.pop("OMP_NUM_THREADS", None):
        os.execv(sys.executable, [sys.executable, *sys.argv])
    if args.alias == "ignores-term":
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if args.alias in ("keeps-gpu-memory", "frees-gpu-memory"):
        write(side("gpu"), "900")
    if args.alias == "frees-gpu-memory":
        signal.signal(signal.SIGTERM, lambda *_: (write(side("gpu"), "0"), os._exit(0)))
    Handler.args = args
    Server.shares_its_port = args.alias in ("shares-its-port", "lends-its-port")
    threading.Thread(target=load, args=(args.alias,), daemon=True).start()
    port = 0 if args.alias == "binds-elsewhere" else args.port
    Server((args.host, port), Handler).serve_forever()


if __name__ == "__main__":
    main()
