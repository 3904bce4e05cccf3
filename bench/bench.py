"""Measures `self` on generated logs and prints one table of ratios; bench/run.sh says how to call it."""

import os
import pathlib
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

SEED = 7
SECRET = "5e1f" * 16
NAMES = 20
OURS, THEIRS = 21, 5

COMMANDS = [f"command-{n}" for n in range(4)] + ["drain"]
PAGES = {"rare": "rare.made", "common": "note.n0", "page-2": "page.two", "page-3": "page.three", "page-4": "page.four"}
SCRIPT = "#!/bin/sh\ncat >/dev/null\n"
PAGE = "#!/bin/sh\ncat >/dev/null\nprintf '<p>drained</p>\\n'\n"


def generate(path, count):
    """A log of `count` notes: 28 % under one name, 0.1 % under another, lines of 530 bytes on average."""
    dice = random.Random(SEED)
    pads = ["x" * dice.randrange(140, 600) for _ in range(997)]
    with open(path, "w", buffering=1 << 20) as log:
        for seq in range(1, count + 1):
            if seq % 1000 == 500:
                name = "rare.made"
            else:
                name = "note.n0" if seq % 100 < 28 else f"note.n{1 + seq % (NAMES - 1)}"
            log.write(
                f'{{"id":"{seq:032x}","seq":{seq},"name":"{name}","occurred_at":"2026-11-30T10:34:18.000000000Z",'
                f'"via":"cli","by":"ada","payload":{{"text":"{pads[seq % 997]}"}}}}\n'
            )


class Run:
    """What one process took, and those that it waited for."""

    def __init__(self, arguments, home, body=b"", into_file=False, watched=False):
        environment = {"PATH": os.environ["PATH"], "SELF_HOME": str(home), "HOME": str(home), "XDG_STATE_HOME": str(home) + ".state"}
        read, write = os.pipe()
        if into_file:
            os.close(write)
            write = os.open(f"{home}.out", os.O_CREAT | os.O_WRONLY | os.O_TRUNC)
        begun = time.perf_counter()
        child = subprocess.Popen(arguments, env=environment, stdin=subprocess.PIPE, stdout=write, stderr=subprocess.PIPE)
        os.close(write)
        try:
            child.stdin.write(body)
            child.stdin.close()
        except BrokenPipeError:
            pass
        self.memory = peak(child.pid) if watched else 0
        while os.read(read, 1 << 16):
            pass
        os.close(read)
        self.said = child.stderr.read().decode(errors="replace")
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
        try:
            with open(f"/proc/{child.pid}/io") as told:
                facts = dict(line.split(": ") for line in told.read().splitlines())
            self.bytes = int(facts["rchar"]) + int(facts["wchar"])
            self.calls = int(facts["syscr"]) + int(facts["syscw"])
        except (OSError, KeyError):
            self.bytes = self.calls = 0
        _, status, used = os.wait4(child.pid, 0)
        child.returncode = status
        self.wall = (time.perf_counter() - begun) * 1e3
        self.cpu = (used.ru_utime + used.ru_stime) * 1e3
        self.status = os.waitstatus_to_exitcode(status)


def peak(process):
    """The peak memory of a process until it ends, in MiB; what it was when somebody looked last."""
    most, until = 0, time.monotonic() + 60
    while time.monotonic() < until:
        try:
            with open(f"/proc/{process}/status") as told:
                line = next((line for line in told if line.startswith("VmHWM")), None)
        except OSError:
            return most
        if line is None:
            return most
        most = max(most, int(line.split()[1]) / 1024)
    return most


class Cell:
    """Several runs of one verb on one log."""

    def __init__(self, runs, counted, watched):
        self.wall = min(run.wall for run in runs)
        self.median = statistics.median(run.wall for run in runs)
        self.cpu = statistics.median(run.cpu for run in runs)
        self.memory = max(run.memory for run in watched)
        self.bytes = statistics.median(run.bytes for run in counted)
        self.calls = statistics.median(run.calls for run in counted)

    def row(self):
        return f"{self.wall:9.2f} {self.median:9.2f} {self.cpu:9.2f} {self.memory:8.1f} {self.bytes / 1024:10.0f} {self.calls:7.0f}"


def hear(program, home, body):
    run = Run([program, "hear"], home, body.encode())
    if run.status != 0:
        sys.exit(f"could not prepare {home}: {run.said}")


def furnish(program, home):
    """Five commands and five projectors."""
    lines = [f'{{"name":"command.declared","payload":{{"name":"{name}","event":{{"name":"{name}.made"}}}}}}' for name in COMMANDS]
    lines += [f'{{"name":"projector.declared","payload":{{"name":"{name}","consumes":["{event}"]}}}}' for name, event in PAGES.items()]
    fences = [f"```self command/{name}\n{SCRIPT}```" for name in COMMANDS] + [f"```self projector/{name}\n{PAGE}```" for name in PAGES]
    hear(program, home, "\n".join(lines + fences) + "\n")


VERBS = {
    "append, nobody consumes it": (["hear"], b'{"name":"free.made","payload":{"text":"a line of text"}}\n'),
    "append, a page over 0.1 % reads it": (["hear"], b'{"name":"rare.made","payload":{"text":"a line of text"}}\n'),
    "ask": ([], b"what is going on?\n"),
    "quiet": (["quiet"], b""),
    "show brief": (["show", "brief"], b""),
    "work": (["work"], b""),
    "run, the script drains the log": (["run", "drain"], b""),
    "show, 0.1 % of the log": (["show", "rare"], b""),
    "show, 28 % of the log": (["show", "common"], b""),
}


def measure(program, home, verb, times):
    arguments, body = VERBS[verb]

    def once(**how):
        if verb.startswith("show, "):
            (home / "site" / f"{arguments[1]}.html").unlink(missing_ok=True)
        return Run([program, *arguments], home, body, **how)

    # Into a file no prompt lingers for its reader, so what is read and written is the same each time.
    counted, watched = [[once(**how) for _ in range(min(times, 5))] for how in ({"into_file": True}, {"watched": True})]
    return Cell([once() for _ in range(times)], counted, watched)


def limits(folder):
    """What this machine does at best, in the same minutes."""
    found = {}
    empty = [Run(["/bin/true"], folder) for _ in range(OURS)]
    found["empty process, wall ms"] = min(run.wall for run in empty)
    found["empty process, CPU ms"] = statistics.median(run.cpu for run in empty)
    line, best = b"x" * 530 + b"\n", 1e9
    handle = os.open(folder / "limit", os.O_CREAT | os.O_WRONLY | os.O_APPEND)
    for _ in range(OURS):
        begun = time.perf_counter()
        os.write(handle, line)
        os.fdatasync(handle)
        best = min(best, (time.perf_counter() - begun) * 1e3)
    os.close(handle)
    found["write + fdatasync, wall ms"] = best
    size = 256 << 20
    block = b"x" * (256 << 10)
    best = 1e9
    for _ in range(3):
        child = subprocess.Popen(["cat"], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL)
        begun = time.perf_counter()
        for _ in range(size // len(block)):
            child.stdin.write(block)
        child.stdin.close()
        child.wait()
        best = min(best, time.perf_counter() - begun)
    found["into a pipe, GB/s"] = size / best / 1e9
    return found


def first_run(program, home):
    """Without an index, and after another program's append."""
    shutil.rmtree(home / ".self" / "index", ignore_errors=True)
    first = Run([program, "quiet"], home)
    if "MiB of the log" not in first.said and first.wall > 2000:
        print("  (the first command said nothing of how far it was)")
    caught = []
    for _ in range(5):
        with open(home / "events.jsonl", "a") as log:
            seq = int(subprocess.run(["tail", "-n1", home / "events.jsonl"], capture_output=True, text=True).stdout.split('"seq":')[1].split(",")[0]) + 1
            log.write(f'{{"id":"{seq:032x}","seq":{seq},"name":"foreign.made","occurred_at":"2026-11-30T10:34:18Z","payload":{{}}}}\n')
        caught.append(Run([program, "quiet"], home))
    return first, Cell(caught, caught, caught)


def main():
    ours, rest = os.path.abspath(sys.argv[1]), sys.argv[2:]
    peer = os.path.abspath(rest[rest.index("--peer") + 1]) if "--peer" in rest else None
    big = "--big" in rest
    counts = [1_000, 10_000, 100_000, 1_000_000] + ([10_000_000] if big else [])
    folder = pathlib.Path(tempfile.mkdtemp(prefix="self-bench-"))
    try:
        table(ours, peer, big, counts, folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def table(ours, peer, big, counts, folder):
    cells, theirs, firsts = {}, {}, {}
    head = f"{'wall min':>9} {'median':>9} {'CPU ms':>9} {'MiB':>8} {'KiB r+w':>10} {'calls':>7}"
    bound = limits(folder)
    for count in counts:
        home = folder / f"home-{count}"
        home.mkdir()
        generate(home / "events.jsonl", count)
        (home / ".secret").write_text(SECRET + "\n")
        (home / ".secret").chmod(0o600)
        furnish(ours, home)
        size = (home / "events.jsonl").stat().st_size
        print(f"\n{count:,} events, {size / 1e6:.0f} MB\n{'':36}{head}")
        for verb in VERBS:
            slow = count >= 1_000_000 and ("drains" in verb or "28 %" in verb)
            cells[verb, count] = measure(ours, home, verb, 5 if slow else OURS)
            print(f"{verb:36}{cells[verb, count].row()}", flush=True)
        firsts[count] = (*first_run(ours, home), size)
        if peer and (count < 1_000_000 or (big and count == 1_000_000)):
            shutil.rmtree(home)
            home.mkdir()
            generate(home / "events.jsonl", count)
            furnish(peer, home)
            for verb in ["append, nobody consumes it", "ask"]:
                theirs[verb, count] = measure(peer, home, verb, THEIRS if count < 100_000 else 2)
                print(f"{'peer: ' + verb:36}{theirs[verb, count].row()}", flush=True)
        shutil.rmtree(home)
    ratios(cells, theirs, firsts, bound, counts)


def say(what, value, target, holds):
    missed = "" if holds else "   MISSED"
    print(f"{what:66}{value:>14}   {target}{missed}")


def ratios(cells, theirs, firsts, bound, counts):
    big = max(count for count in counts if count <= 1_000_000)
    append, ask = "append, nobody consumes it", "ask"
    print(f"\n{'limits of this machine, in this run':66}")
    for what, value in bound.items():
        print(f"  {what:64}{value:14.3f}")
    print(f"\n{'ratios':66}{'found':>14}   target")
    for verb in (append, ask):
        for count in counts[-1:] if counts[-1] > big else [big]:
            ratio = cells[verb, count].cpu / cells[verb, 1_000].cpu
            say(f"{verb}: CPU at {count:,} / at 1,000", f"{ratio:.2f}", "<= 1.3", ratio <= 1.3)
        for count, least in ((1_000, 15), (100_000, 800), (1_000_000, 8_000)):
            if (verb, count) in theirs:
                ratio = theirs[verb, count].cpu / cells[verb, count].cpu
                say(f"{verb}: the peer's CPU / ours at {count:,}", f"{ratio:.0f}", f">= {least}", ratio >= least)
        short, long = cells[verb, 1_000], cells[verb, 100_000]
        ratio = long.bytes / max(short.bytes, 1)
        say(f"{verb}: bytes read and written at 100,000 / at 1,000", f"{ratio:.3f}", "0.95 to 1.05", 0.95 <= ratio <= 1.05)
        ratio = long.calls / max(short.calls, 1)
        say(f"{verb}: reads and writes at 100,000 / at 1,000", f"{ratio:.3f}", "0.95 to 1.05", 0.95 <= ratio <= 1.05)
        say(f"{verb}: KiB read and written at 100,000", f"{long.bytes / 1024:.0f}", "< 512", long.bytes < 512 << 10)
    floor = bound["empty process, wall ms"] + bound["write + fdatasync, wall ms"]
    ratio = cells[append, big].wall / floor
    say("append: wall / (empty process + write + fdatasync)", f"{ratio:.2f}", "<= 4", ratio <= 4)
    memory = max(cells[verb, big].memory for verb in VERBS)
    say(f"memory of every verb at {big:,}, MiB", f"{memory:.1f}", "<= 16", memory <= 16)
    common = cells["show, 28 % of the log", big]
    size = firsts[big][2] * 0.28
    rate = size / ((common.wall - cells["show, 28 % of the log", 1_000].wall) / 1e3) / 1e9
    ratio = rate / bound["into a pipe, GB/s"]
    say(f"feed of one name, {rate:.1f} GB/s / into a pipe", f"{ratio:.2f}", ">= 0.5", ratio >= 0.5)
    first, caught, size = firsts[big]
    rate = size / (first.cpu / 1e3) / 1e9
    say("rebuild, GB/s of CPU", f"{rate:.2f}", ">= 0.8", rate >= 0.8)
    rate = size / (caught.cpu / 1e3) / 1e9
    say("catch-up after another program's append, GB/s of CPU", f"{rate:.2f}", ">= 0.8", rate >= 0.8)
    say(f"first command at {big:,} without an index, CPU s", f"{first.cpu / 1e3:.2f}", "<= 1", first.cpu <= 1000)


main()
