#!/usr/bin/env python3
"""What `orchestrate` costs a measurement: AIPerf under it, and AIPerf alone.

The corpus, server, client and load of plans/stage-f.yaml, for real. One server runs all
the time. In turns it is measured by AIPerf as a node of the plan, and by the very same
command, environment and files started from here, while the orchestrator is stopped
(SIGSTOP), so that nothing of it runs. The first turn of each is not counted.

While AIPerf runs under it, the CPU time and the peak memory of the orchestrator, and of
its supervisors, are read from /proc.

    cargo build --release && python3 benches/overhead.py
    python3 benches/overhead.py --turns 1 --per-category 1 --max-tokens 8   # a short try

A turn of the defaults takes about a minute; say so with --per-category where it does not.
The machine should do nothing else.
"""
import argparse
import json
import os
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TARGET = "llama-cpp"
TICKS = os.sysconf("SC_CLK_TCK")
EXPORT = "profile_export_aiperf.json"
# A turn: its export is put where this script finds it, then it waits until this script
# has had its own turn. Opening a FIFO waits for the other side without asking again.
TURN = """
  turn-{n}:
    run:
      command: [sh, -c, 'cp in/{export} "$BENCH/under-{n}.json" && echo "$URL" > "$BENCH/ready-{n}" && read _ < "$BENCH/go-{n}"; date > out']
      inputs: {{in: '${{nodes.load-{n}.export}}'}}
      outputs: {{out: out}}
      environment: {{BENCH: '{bench}', URL: '${{nodes.server.url}}'}}
      reuse: measurement
"""


def plan(bench, turns):
    """The plan of stage F, with a load and a turn of this script one after the other."""
    text = (ROOT / "plans/stage-f.yaml").read_text()
    before, rest = text.split("\n  load:\n")
    load, _ = rest.split("\n  correlate:\n")
    before = before.replace("  - targets/trtmc.yaml\n", "").replace("- targets/", f"- {ROOT}/plans/targets/")
    nodes = []
    for n in range(turns + 1):
        after = f"turn-{n - 1}" if n else "warmup"
        nodes.append(f"\n  load-{n}:\n" + load.replace("needs: [warmup]", f"needs: [{after}]") + "\n")
        nodes.append(TURN.format(n=n, export=EXPORT, bench=bench))
    return before + "".join(nodes)


def stat(pid):
    """Parent and clock ticks of a process; None where it is gone."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    except OSError:
        return None
    return int(fields[1]), int(fields[11]) + int(fields[12])


def memory(pid):
    """MiB of a process: the most since its count was reset, and now without mapped files."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return 0.0, 0.0
    sizes = {line.split(":")[0]: int(line.split()[1]) / 1024 for line in lines if line.endswith(" kB")}
    return sizes.get("VmHWM", 0.0), sizes.get("RssAnon", 0.0)


def most(one, other):
    return tuple(map(max, one, other))


def descendants(root):
    parents = {int(pid): found[0] for pid in os.listdir("/proc") if pid.isdigit() and (found := stat(pid))}
    family, grown = {root}, True
    while grown:
        more = {pid for pid, parent in parents.items() if parent in family} - family
        family |= more
        grown = bool(more)
    return family - {root}


def command(pid):
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().decode().split("\0")[:-1]
    except OSError:
        return []


class Watch(threading.Thread):
    """Reads what the orchestrator and its supervisors use while a load goes on."""

    def __init__(self, pid):
        super().__init__(daemon=True)
        self.pid, self.program = pid, os.readlink(f"/proc/{pid}/exe")
        self.loading, self.ended = threading.Event(), False
        self.own = []  # (seconds, CPU seconds) of each load
        self.supervisors = {}  # CPU ticks of each during loads: first, last
        self.memory, self.supervisor_memory = (0.0, 0.0), (0.0, 0.0)

    def begin(self):
        # The peak of what was before the load does not count (proc_pid_clear_refs(5)).
        Path(f"/proc/{self.pid}/clear_refs").write_text("5")
        self.first = (time.monotonic(), stat(self.pid)[1])
        self.loading.set()

    def end(self):
        self.loading.clear()
        seconds, ticks = time.monotonic() - self.first[0], stat(self.pid)[1] - self.first[1]
        self.own.append((seconds, ticks / TICKS))

    def is_supervisor(self, pid):
        try:
            return os.readlink(f"/proc/{pid}/exe") == self.program
        except OSError:
            return False

    def run(self):
        while not self.ended:
            if self.loading.wait(0.2):
                self.memory = most(self.memory, memory(self.pid))
                for pid in filter(self.is_supervisor, descendants(self.pid)):
                    if found := stat(pid):
                        first = self.supervisors.get(pid, (found[1], 0))[0]
                        self.supervisors[pid] = (first, found[1])
                        self.supervisor_memory = most(self.supervisor_memory, memory(pid))
                time.sleep(1)


class Bare:
    """The command of AIPerf as the orchestrator started it, with a copy of its files."""

    def __init__(self, orchestrator, bench):
        self.bench = bench
        while not (found := self.find(orchestrator)):
            time.sleep(0.1)
        pid, argv = found
        cwd = Path(os.readlink(f"/proc/{pid}/cwd"))
        environ = Path(f"/proc/{pid}/environ").read_bytes().decode().split("\0")
        work = next(parent for parent in [cwd, *cwd.parents] if parent.name == "work")
        copy = bench / "work"
        shutil.copytree(work, copy, symlinks=True, ignore_dangling_symlinks=True)
        moved = lambda text: text.replace(str(work), str(copy))
        self.argv = [moved(word) for word in argv]
        self.cwd = moved(str(cwd))
        self.env = dict(moved(one).split("=", 1) for one in environ if "=" in one)

    @staticmethod
    def find(orchestrator):
        for pid in sorted(descendants(orchestrator)):
            argv = command(pid)
            if "profile" in argv and "--output-artifact-dir" in argv and "aiperf" in " ".join(argv[:2]):
                return pid, argv
        return None

    def run(self, n):
        export = self.bench / f"bare-{n}"
        argv = list(self.argv)
        argv[argv.index("--output-artifact-dir") + 1] = str(export)
        # AIPerf's sockets lie there, and the path of a socket is short.
        with tempfile.TemporaryDirectory(prefix="b-") as temporary:
            env = {**self.env, "TMPDIR": temporary}
            log = open(self.bench / f"bare-{n}.log", "wb")
            subprocess.run(argv, cwd=self.cwd, env=env, stdout=log, stderr=log, check=True)
        return p50(export / EXPORT)


def p50(path):
    """Median request latency in ms, as AIPerf itself exports it."""
    return json.loads(path.read_text())["request_latency"]["p50"]


def measure(options, bench):
    (bench / "plan.yaml").write_text(plan(bench, options.turns))
    for n in range(options.turns + 1):
        os.mkfifo(bench / f"ready-{n}")
        os.mkfifo(bench / f"go-{n}")
    argv = [options.program, "apply", "plan.yaml", "--remeasure"]
    for name in ("per_category", "max_tokens"):
        argv += ["--set", f"{name}={getattr(options, name)}"]
    argv += ["--site", os.path.abspath(options.site)] if options.site else []
    run = subprocess.Popen(argv, cwd=bench, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True)
    try:
        return take_turns(run, options, bench)
    finally:
        run.send_signal(signal.SIGCONT)
        if run.poll() is None:
            run.terminate()
        run.wait()


def take_turns(run, options, bench):
    watch, under, alone, bare = Watch(run.pid), [], [], None
    watch.start()
    said = []
    for line in run.stderr:
        said.append(line)
        word, _, rest = line.partition(" ")
        name = rest.strip().split("[")[0].split(" ")[0]
        kind, _, n = name.partition("-")
        if word == "started" and kind == "load":
            print(f"turn {n}: AIPerf under orchestrate", file=sys.stderr)
            if n == "0":
                bare = Bare(run.pid, bench)
            else:
                watch.begin()
        elif word == "succeeded" and kind == "load" and n != "0":
            watch.end()
        elif word == "started" and kind == "turn":
            (bench / f"ready-{n}").read_text()
            print(f"turn {n}: AIPerf alone", file=sys.stderr)
            run.send_signal(signal.SIGSTOP)
            try:
                latency = bare.run(n)
            finally:
                run.send_signal(signal.SIGCONT)
            (bench / f"go-{n}").write_text("\n")
            if n != "0":
                under.append(p50(bench / f"under-{n}.json"))
                alone.append(latency)
    watch.ended = True
    if run.wait() != 0 or len(under) != options.turns:
        sys.exit("orchestrate did not get to the end:\n" + "".join(said[-30:]))
    return watch, under, alone


def show(watch, under, alone):
    seconds = sum(took for took, _ in watch.own)
    own = sum(cpu for _, cpu in watch.own)
    supervisors = sum(last - first for first, last in watch.supervisors.values()) / TICKS
    print(f"\n{len(under)} loads under orchestrate, {seconds / len(under):.1f} s each\n")
    print(f"{'':24}{'CPU s':>8}{'% of a core':>13}{'peak MiB':>10}{'of its own':>12}")
    for name, cpu, (peak, anonymous) in (
        ("orchestrator", own, watch.memory),
        ("each supervisor, at most", supervisors, watch.supervisor_memory),
    ):
        print(f"{name:24}{cpu:8.2f}{cpu / seconds * 100:13.2f}{peak:10.1f}{anonymous:12.1f}")
    print("(CPU of all supervisors together; the peak counts mapped files, such as a model being hashed)")
    print(f"\n{'request latency p50, ms':24}{'median':>10}{'least':>10}{'most':>10}")
    for name, values in (("AIPerf under orchestrate", under), ("AIPerf alone", alone)):
        print(f"{name:24}{statistics.median(values):10.1f}{min(values):10.1f}{max(values):10.1f}")
    difference = statistics.median(under) - statistics.median(alone)
    spread = max(alone) - min(alone)
    print(f"\nmedians differ by {difference:+.1f} ms; alone, runs differ by {spread:.1f} ms")
    print(f"limits: CPU below 1 %: {verdict(own / seconds < 0.01)}; memory below 50 MB: "
          f"{verdict(watch.memory[0] * 1.048576 < 50)}, "
          f"of its own: {verdict(watch.memory[1] * 1.048576 < 50)}; difference below the spread: "
          + (verdict(abs(difference) < spread) if len(alone) >= 5 else "too few turns to tell"))


def verdict(holds):
    return "holds" if holds else "DOES NOT HOLD"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", default=str(ROOT / "target/release/orchestrate"))
    parser.add_argument("--site", help="a site file, as for plans/stage-f.yaml")
    parser.add_argument("--turns", type=int, default=5, help="turns that count, of each")
    parser.add_argument("--per-category", type=int, default=2)
    parser.add_argument("--max-tokens", type=int, default=48)
    options = parser.parse_args()
    options.program = os.path.abspath(options.program)
    with tempfile.TemporaryDirectory(prefix="overhead-") as bench:
        show(*measure(options, Path(bench)))


if __name__ == "__main__":
    main()
