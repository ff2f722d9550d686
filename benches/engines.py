#!/usr/bin/env python3
"""Re-applying an unchanged pipeline: `orchestrate` beside other DAG engines.

N nodes stand in layers of 20 above 20 source files. Each node reads two outputs of
the layer below and writes their digest. Per engine and size, timed as a whole process:

    full    the first run in a fresh directory
    noop    nothing changed (median of --repeat)
    touch   one source has a new time and the same content
    change  one source has new content

`ran` counts the nodes that really executed, by a file that each of them appends to.
After `full` and `change` the last outputs are compared with the digests they must hold.

    pip install ninja go-task-bin doit snakemake dvc;  apt-get install make
    cargo build --release && python3 benches/engines.py --sizes 1000,10000

An engine that is not on PATH is left out and named.
"""
import argparse
import hashlib
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

WIDTH = 20
CHANGED = "src/0"
HERE = Path(__file__).resolve().parent.parent


def pipeline(count):
    """The nodes in order: name, the two names below it."""
    below, nodes = [f"src/{i}" for i in range(WIDTH)], []
    while len(nodes) < count:
        layer = [
            (f"n{len(nodes) + i}", (below[i % len(below)], below[(i + 1) % len(below)]))
            for i in range(min(WIDTH, count - len(nodes)))
        ]
        nodes += layer
        below = [name for name, _ in layer]
    return nodes


def path(name):
    return name if name.startswith("src/") else f"out/{name}"


def shell(name, inputs):
    read = " ".join(path(one) for one in inputs)
    return f"cat {read} | sha256sum > {path(name)}; echo {name} >> ran"


def last(nodes):
    read = {name for _, inputs in nodes for name in inputs}
    return [name for name, _ in nodes if name not in read]


def orchestrate(nodes, directory):
    def source(name):
        return name if name.startswith("src/") else f"${{nodes.{name}.out}}"

    lines = ["orchestrate: 1", "name: pipeline", "nodes:"]
    for name, (a, b) in nodes:
        command = f"cat a b | sha256sum > out; echo {name} >> {directory}/ran"
        lines += [
            f"  {name}:",
            f"    run: {{command: [sh, -c, '{command}'], inputs: {{a: '{source(a)}', b: '{source(b)}'}}, "
            "outputs: {out: out}}",
        ]
    program = os.environ.get("ORCHESTRATE", HERE / "target/release/orchestrate")
    return {"plan.yaml": "\n".join(lines) + "\n"}, [str(program), "apply", "plan.yaml"]


def ninja(nodes, _):
    rule = "rule node\n  command = cat $in | sha256sum > $out; echo $name >> ran\n"
    builds = [
        f"build {path(name)}: node {' '.join(path(one) for one in inputs)}\n  name = {name}\n"
        for name, inputs in nodes
    ]
    return {"build.ninja": rule + "".join(builds)}, ["ninja", "--quiet"]


def make(nodes, _):
    rules = [
        f"{path(name)}: {' '.join(path(one) for one in inputs)}\n\t@{shell(name, inputs)}\n" for name, inputs in nodes
    ]
    text = f"all: {' '.join(path(name) for name in last(nodes))}\n{''.join(rules)}"
    return {"Makefile": text}, ["make", "-s", f"-j{os.cpu_count()}"]


def task(nodes, _):
    tasks = {
        name: {
            "deps": [one for one in inputs if not one.startswith("src/")],
            "sources": [path(one) for one in inputs],
            "generates": [path(name)],
            "cmds": [shell(name, inputs)],
        }
        for name, inputs in nodes
    }
    tasks["default"] = {"deps": last(nodes)}
    # Without `run: once` a node is visited once for every path that leads to it.
    text = json.dumps({"version": "3", "run": "once", "method": "checksum", "tasks": tasks})
    return {"Taskfile.yml": text}, ["task", "--silent", "--concurrency", str(os.cpu_count())]


def doit(nodes, _):
    listed = [(path(name), [path(one) for one in inputs], shell(name, inputs)) for name, inputs in nodes]
    text = f"NODES = {listed!r}\n" + (
        "def task_node():\n"
        "    for out, inputs, command in NODES:\n"
        "        yield {'name': out, 'file_dep': inputs, 'targets': [out], 'actions': [command]}\n"
    )
    return {"dodo.py": text}, ["doit", "run", "-n", str(os.cpu_count())]


def snakemake(nodes, _):
    inputs = {name: [path(one) for one in below] for name, below in nodes}
    text = (
        f"INPUTS = {inputs!r}\nLAST = {[path(name) for name in last(nodes)]!r}\n"
        "rule all:\n    input: LAST\n"
        "rule node:\n    input: lambda wildcards: INPUTS[wildcards.name]\n    output: 'out/{name}'\n"
        "    shell: 'cat {input} | sha256sum > {output}; echo {wildcards.name} >> ran'\n"
    )
    return {"Snakefile": text}, ["snakemake", "--cores", str(os.cpu_count()), "--quiet", "all"]


def dvc(nodes, _):
    stages = {
        name: {"cmd": shell(name, inputs), "deps": [path(one) for one in inputs], "outs": [path(name)]}
        for name, inputs in nodes
    }
    return {"dvc.yaml": json.dumps({"stages": stages})}, ["dvc", "repro", "--quiet"]


PREPARE = {"dvc": [["dvc", "init", "-q", "--no-scm"], ["dvc", "config", "core.analytics", "false"]]}
ENGINES = {engine.__name__: engine for engine in (orchestrate, ninja, make, task, doit, snakemake, dvc)}


class Failed(Exception):
    """The engine gave up, took too long, or left a wrong output."""


def timed(command, directory, limit):
    environment = {**os.environ, "ORCHESTRATE_STORE": str(directory / "store"), "SHELL": "/bin/sh"}
    with open(directory / "log", "ab") as log:
        began = time.perf_counter()
        try:
            ended = subprocess.run(
                command, cwd=directory, env=environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log, timeout=limit
            )
        except subprocess.TimeoutExpired as slow:
            raise Failed(f"over {limit:g} s") from slow
        seconds = time.perf_counter() - began
    if ended.returncode:
        raise Failed(f"exit {ended.returncode}")
    return seconds


def expected(nodes, directory):
    content = {f"src/{i}": (directory / f"src/{i}").read_bytes() for i in range(WIDTH)}
    for name, (a, b) in nodes:
        content[name] = f"{hashlib.sha256(content[a] + content[b]).hexdigest()}  -\n".encode()
    return content


def stored(directory):
    """Contents of all blobs: where an output of `orchestrate` lies is its own affair."""
    return {file.read_bytes() for file in (directory / "store/blobs").rglob("*") if file.is_file()}


def verify(engine, nodes, directory):
    content = expected(nodes, directory)
    blobs = stored(directory) if engine == "orchestrate" else None
    for name in last(nodes):
        found = content[name] in blobs if blobs is not None else (directory / path(name)).read_bytes() == content[name]
        if not found:
            raise Failed(f"{name} is wrong")


def measure(engine, count, options):
    nodes = pipeline(count)
    directory = options.work / f"{engine}-{count}"
    shutil.rmtree(directory, ignore_errors=True)
    for part in ("src", "out"):
        (directory / part).mkdir(parents=True)
    for i in range(WIDTH):
        (directory / f"src/{i}").write_text(f"source {i}\n")
    files, command = ENGINES[engine](nodes, directory)
    for name, text in files.items():
        (directory / name).write_text(text)
    row = {"engine": engine, "nodes": count}

    def run(kind, repeat=1, before=lambda: None, check=False):
        seconds = []
        for _ in range(repeat):
            time.sleep(0.05)
            before()
            (directory / "ran").write_text("")
            time.sleep(0.05)
            seconds.append(timed(command, directory, options.limit))
        row[kind] = {"s": statistics.median(seconds), "ran": len((directory / "ran").read_text().split())}
        if check:
            verify(engine, nodes, directory)

    try:
        for prepare in PREPARE.get(engine, []):
            timed(prepare, directory, options.limit)
        run("full", check=True)
        run("noop", repeat=options.repeat)
        run("touch", before=lambda: os.utime(directory / CHANGED))
        run("change", before=lambda: (directory / CHANGED).write_text("changed\n"), check=True)
    except Failed as failure:
        row["failed"] = str(failure)
        print(f"{engine} at {count}: {failure}; see {directory}/log", file=sys.stderr)
        return row
    shutil.rmtree(directory)
    return row


def table(rows):
    lines = ["| engine | nodes | full s (ran) | no-op s (ran) | touch s (ran) | change s (ran) |", "|---|---|---|---|---|---|"]
    for row in rows:
        cells = [
            f"{row[kind]['s']:.3f} ({row[kind]['ran']})" if kind in row else row.get("failed", "-")
            for kind in ("full", "noop", "touch", "change")
        ]
        lines.append("| " + " | ".join([row["engine"], str(row["nodes"]), *cells]) + " |")
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--engines", default=",".join(ENGINES))
    parser.add_argument("--sizes", default="1000,10000")
    parser.add_argument("--repeat", type=int, default=5, help="repetitions of the no-op")
    parser.add_argument("--limit", type=float, default=180, help="seconds allowed for one run")
    parser.add_argument("--work", type=Path, default=Path(tempfile.gettempdir()) / "engines")
    options = parser.parse_args()
    rows, given_up = [], set()
    for count in map(int, options.sizes.split(",")):
        for engine in options.engines.split(","):
            if engine in given_up or engine != "orchestrate" and not shutil.which(engine):
                print(f"{engine}: left out", file=sys.stderr)
                continue
            rows.append(measure(engine, count, options))
            if "failed" in rows[-1]:
                given_up.add(engine)  # more nodes would do no better
    print(table(rows))


if __name__ == "__main__":
    main()
