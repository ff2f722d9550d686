"""Family validation of the llama.cpp target: what a running server answers, checked before anything is timed.

    validate.py digest   the model file is the published one
    validate.py repeat   greedy answers of the server repeat exactly
    validate.py agree    its next tokens agree with mistral.rs, an independent implementation

The last line of stdout is one JSON object {"check", "passed", "detail", "reason"}.
Exit code: 0 passed, 1 not passed, 2 the check could not be run.
"""

import argparse
import contextlib
import hashlib
import json
import os
import sys
import time
import urllib.request


class CannotRun(Exception):
    """The check says nothing about the model: its surroundings are wrong."""


class Server:
    """The few routes of llama.cpp's HTTP server that the checks need."""

    def __init__(self, url):
        self.url = url.rstrip("/")

    def post(self, route, body):
        request = urllib.request.Request(self.url + route, json.dumps(body).encode(), {"Content-Type": "application/json"})
        try:
            with urllib.request.urlopen(request, timeout=120) as response:
                return json.load(response)
        except (OSError, ValueError) as error:  # no server, an HTTP error, or not JSON
            raise CannotRun(f"{self.url}{route} gave no answer: {error}") from error

    def chat(self, model, prompt, max_tokens):
        """The greedy answer to one prompt, computed from scratch: no prefix of an earlier prompt is reused."""
        body = {"model": model, "messages": user_message(prompt), "max_tokens": max_tokens, "temperature": 0, "cache_prompt": False}
        return self.post("/v1/chat/completions", body)["choices"][0]["message"]["content"] or ""

    def templated(self, prompt):
        """The text that the server's chat template makes of a prompt."""
        return self.post("/apply-template", {"messages": user_message(prompt)})["prompt"]

    def greedy(self, text, count):
        """The next tokens after a text, each with its margin: how much likelier than the runner-up it was, in nats."""
        body = {"prompt": text, "n_predict": count, "temperature": 0, "return_tokens": True, "n_probs": 2, "cache_prompt": False}
        answer = self.post("/completion", body)
        top_two = [[choice["logprob"] for choice in at["top_logprobs"][:2]] for at in answer["completion_probabilities"]]
        return answer["tokens"], [first - second for first, second in top_two]

    def detokenize(self, tokens):
        return self.post("/detokenize", {"tokens": tokens})["content"]


class SecondOpinion:
    """mistral.rs with the same GGUF file: another tokenizer, other kernels, another language."""

    def __init__(self, gguf):
        os.environ.setdefault("RAYON_NUM_THREADS", "1")  # on few cores its threads wait for each other by spinning
        try:
            import mistralrs
        except ImportError as error:
            raise CannotRun(f"mistralrs cannot be imported: {error}") from error
        self.request = mistralrs.CompletionRequest
        folder, name = os.path.split(os.path.abspath(gguf))
        try:
            self.runner = mistralrs.Runner(which=mistralrs.Which.GGUF(quantized_model_id=folder, quantized_filename=name), token_source="none")
        except Exception as error:  # its message carries a backtrace below the first line
            raise CannotRun(f"mistralrs cannot load {gguf}: {str(error).splitlines()[0]}") from error

    def next_token(self, text):
        answer = self.runner.send_completion_request(self.request(model="", prompt=text, max_tokens=1, temperature=0.0, top_k=1))
        return answer.choices[0].text


def user_message(prompt):
    return [{"role": "user", "content": prompt}]


def read_prompts(path):
    try:
        with open(path, encoding="utf-8") as file:
            prompts = [line.strip() for line in file if line.strip()]
    except OSError as error:
        raise CannotRun(f"the prompts cannot be read: {error}") from error
    if not prompts:
        raise CannotRun(f"{path} holds no prompts")
    return prompts


def digest(args):
    """Identity: the file that is served is the one that was published."""
    try:
        with open(args.gguf, "rb") as file:
            found = hashlib.file_digest(file, "sha256").hexdigest() if hasattr(hashlib, "file_digest") else hashlib.sha256(file.read()).hexdigest()
    except OSError as error:
        raise CannotRun(f"the model file cannot be read: {error}") from error
    return found == args.sha256, {"sha256": found}, f"the model file's sha256 is {found}, {args.sha256} was published"


def repeat(args):
    """Determinism: every prompt is asked twice, in two rounds, so that other work lies between."""
    prompts, server = read_prompts(args.prompts), Server(args.url)
    first, second = ([server.chat(args.model, prompt, args.max_tokens) for prompt in prompts] for _ in range(2))
    same = sum(a == b for a, b in zip(first, second))
    empty = sum(not answer for answer in first)
    detail = {"prompts": len(prompts), "repeated": same, "empty": empty, "max_tokens": args.max_tokens}
    if empty:
        return False, detail, f"{empty} of {len(prompts)} greedy answers are empty"
    return same == len(prompts), detail, f"{same} of {len(prompts)} greedy answers repeat exactly"


def agree(args):
    """Teacher forcing: at each position both complete the same text, the prompt and the server's own tokens so far.

    Free-running answers part for good at the first near tie, as two Q4 kernels round differently. So only
    decided positions count: those where the server's own token led by at least `--margin` nats.
    """
    prompts, server = read_prompts(args.prompts), Server(args.url)
    texts = [server.templated(prompt) for prompt in prompts]
    with stdout_to_stderr():
        second = SecondOpinion(args.gguf)
        positions = [position for text in texts for position in compare(server, second, text, args.positions)]
    decided = [same for same, margin in positions if margin >= args.margin]
    asked, agreed = len(prompts) * args.positions, sum(decided)
    detail = {
        "positions": asked,
        "agreed_anywhere": sum(same for same, _ in positions),
        "decided": len(decided),
        "agreed": agreed,
        "share": round(agreed / max(len(decided), 1), 4),
        "threshold": args.threshold,
        "margin_nats": args.margin,
    }
    if 2 * len(decided) < asked:
        return False, detail, f"only {len(decided)} of {asked} next tokens were decided, half are required"
    return (
        agreed >= args.threshold * len(decided),
        detail,
        f"{agreed} of {len(decided)} decided next tokens agree with mistral.rs, {args.threshold:.0%} are required",
    )


def compare(server, second, text, count):
    """For each next token of the server's greedy answer: does the other choose it too, and by what margin did it lead?"""
    tokens, margins = server.greedy(text, count)
    texts = [text + server.detokenize(tokens[:n]) for n in range(len(tokens) + 1)]
    return [(second.next_token(before) == after[len(before) :], margin) for before, after, margin in zip(texts, texts[1:], margins)]


@contextlib.contextmanager
def stdout_to_stderr():
    """mistral.rs logs to the process's stdout, which belongs to our one line."""
    sys.stdout.flush()
    kept = os.dup(1)
    os.dup2(2, 1)
    try:
        yield
    finally:
        os.dup2(kept, 1)
        os.close(kept)


def parse_arguments():
    parser = argparse.ArgumentParser(prog="validate.py", allow_abbrev=False)
    checks = parser.add_subparsers(dest="check", required=True)
    command = checks.add_parser("digest", help="the model file is the published one", allow_abbrev=False)
    command.set_defaults(run=digest)
    command.add_argument("--gguf", required=True, help="the model file")
    command.add_argument("--sha256", required=True, help="as published")
    for check, about in ((repeat, "greedy answers repeat exactly"), (agree, "next tokens agree with mistral.rs")):
        command = checks.add_parser(check.__name__, help=about, allow_abbrev=False)
        command.set_defaults(run=check)
        command.add_argument("--url", required=True, help="of the running server")
        command.add_argument("--prompts", required=True, help="file with one prompt per line")
        if check is repeat:
            command.add_argument("--model", required=True, help="name that the server knows the model by")
            command.add_argument("--max-tokens", type=int, default=24)
        else:
            command.add_argument("--gguf", required=True, help="the reference: the pinned model file")
            command.add_argument("--positions", type=int, default=12, help="next tokens compared per prompt")
            command.add_argument("--margin", type=float, default=0.2, help="lead in nats that makes a position decided")
            command.add_argument("--threshold", type=float, default=0.95, help="share of decided positions that must agree")
    return parser.parse_args()


def main():
    args = parse_arguments()
    started = time.monotonic()
    try:
        passed, detail, reason = args.run(args)
        code = 0 if passed else 1
    except CannotRun as error:
        passed, detail, reason, code = False, {}, str(error), 2
    detail["seconds"] = round(time.monotonic() - started, 1)
    print(json.dumps({"check": args.check, "passed": passed, "detail": detail, "reason": reason}))
    sys.exit(code)


if __name__ == "__main__":
    main()
