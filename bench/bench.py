"""Measures `self` on generated logs and prints one table of ratios; bench/run.sh says how to call it."""

import fcntl
import os
import pathlib
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from datetime import datetime, timedelta, timezone

SEED = 7
SECRET = "5e1f" * 16
NAMES = 20
DAYS = 30
OURS, THEIRS = 21, 5
SEVERAL, FEW = 5, 2

COMMANDS = [f"command-{n}" for n in range(4)] + ["drain"]
PAGES = {"rare": "rare.made", "common": "note.n0", "page-2": "page.two", "page-3": "page.three", "page-4": "page.four"}
SCRIPT = "#!/bin/sh\ncat >/dev/null\n"
PAGE = "#!/bin/sh\ncat >/dev/null\nprintf '<p>drained</p>\\n'\n"


def generate(path, count):
    """A log of `count` notes over the last 30 days: 28 % under one name, 0.1 % under another, lines of 530 bytes on average."""
    dice = random.Random(SEED)
    pads = ["x" * dice.randrange(140, 600) for _ in range(997)]
    begin = datetime.now(timezone.utc) - timedelta(days=DAYS)
    minutes = [(begin + timedelta(minutes=minute)).strftime("%Y-%m-%dT%H:%M") for minute in range(DAYS * 24 * 60)]
    with open(path, "w", buffering=1 << 20) as log:
        for seq in range(1, count + 1):
            if seq % 1000 == 500:
                name = "rare.made"
            else:
                name = "note.n0" if seq % 100 < 28 else f"note.n{1 + seq % (NAMES - 1)}"
            log.write(
                f'{{"id":"{seq:032x}","seq":{seq},"name":"{name}","occurred_at":"{minutes[(seq - 1) * len(minutes) // count]}:18.000000000Z",'
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
    "log -n 20": (["log", "-n", "20"], b""),
    "log --name 'note.*' --since 2d -n 20": (["log", "--name", "note.*", "--since", "2d", "-n", "20"], b""),
    "log --name rare.made -n 5": (["log", "--name", "rare.made", "-n", "5"], b""),
}
FIRST, CAUGHT = "first command, no index", "after another program's append"


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
    return found


def pour(folder, size, pipe):
    """So many bytes into the script of a page by a program that has nothing else to do, through a pipe of this size: wall, CPU."""
    script = folder / "drain"
    script.write_text(PAGE)
    script.chmod(0o755)
    block = b"x" * (256 << 10)
    begun, before = time.perf_counter(), time.process_time()
    child = subprocess.Popen([script], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL)
    fcntl.fcntl(child.stdin, fcntl.F_SETPIPE_SZ, pipe)
    left = size
    while left > 0:
        left -= os.write(child.stdin.fileno(), block[:left])
    child.stdin.close()
    _, status, used = os.wait4(child.pid, 0)
    child.returncode = status
    cpu = used.ru_utime + used.ru_stime + time.process_time() - before
    return time.perf_counter() - begun, cpu


def feeding(program, home, folder, times):
    """What 28 % of the log cost on their way to a script, beside the same bytes from a program that has them at hand; in turns,
    so that both meet the same machine. Bytes, and wall and CPU in seconds of both."""
    with open(home / "events.jsonl") as log:
        size = sum(len(line) for line in log if '"name":"note.n0"' in line)
    ours, bare, limit, nothing = [], [], [], []
    for _ in range(2 * times):
        for verb, runs in (("show, 28 % of the log", ours), ("show, 0.1 % of the log", bare)):
            arguments, body = VERBS[verb]
            (home / "site" / f"{arguments[1]}.html").unlink(missing_ok=True)
            run = Run([program, *arguments], home, body)
            runs.append((run.wall / 1e3, run.cpu / 1e3))
        limit += [pour(folder, size, pipe) for pipe in (64 << 10, 1 << 20)]
        nothing.append(pour(folder, 0, 64 << 10))

    def beyond(runs, floor):
        return [max(min(run[at] for run in runs) - min(run[at] for run in floor), 1e-6) for at in (0, 1)]

    return size, beyond(ours, bare), beyond(limit, nothing)


def first_runs(program, home, times):
    """Without an index, and after another program's append."""

    def first(**how):
        shutil.rmtree(home / ".self" / "index", ignore_errors=True)
        run = Run([program, "quiet"], home, **how)
        if "MiB of the log" not in run.said and run.wall > 2000:
            print("  (the first command said nothing of how far it was)")
        return run

    def caught(**how):
        newest = subprocess.run(["tail", "-n1", home / "events.jsonl"], capture_output=True, text=True).stdout
        seq = int(newest.split('"seq":')[1].split(",")[0]) + 1
        with open(home / "events.jsonl", "a") as log:
            log.write(f'{{"id":"{seq:032x}","seq":{seq},"name":"foreign.made","occurred_at":"2026-11-30T10:34:18Z","payload":{{}}}}\n')
        return Run([program, "quiet"], home, **how)

    runs = {}
    for what, once in ((FIRST, first), (CAUGHT, caught)):
        plain = [once() for _ in range(times)]
        runs[what] = Cell(plain, plain, [once(watched=True)])
    return runs


def main():
    ours, rest = os.path.abspath(sys.argv[1]), sys.argv[2:]
    peer = os.path.abspath(rest[rest.index("--peer") + 1]) if "--peer" in rest else None
    big, small = "--big" in rest, "--small" in rest
    counts = [100, 1_000] if small else [1_000, 10_000, 100_000, 1_000_000] + ([10_000_000] if big else [])
    folder = pathlib.Path(tempfile.mkdtemp(prefix="self-bench-"))
    try:
        table(ours, peer, counts, folder, (lambda runs: 1) if small else (lambda runs: runs))
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def table(ours, peer, counts, folder, times):
    cells, theirs, sizes, fed = {}, {}, {}, None
    most = max(count for count in counts if count <= 1_000_000)
    head = f"{'wall min':>9} {'median':>9} {'CPU ms':>9} {'MiB':>8} {'KiB r+w':>10} {'calls':>7}"
    bound = limits(folder)
    for count in counts:
        home = folder / f"home-{count}"
        home.mkdir()
        generate(home / "events.jsonl", count)
        (home / ".secret").write_text(SECRET + "\n")
        (home / ".secret").chmod(0o600)
        furnish(ours, home)
        sizes[count] = (home / "events.jsonl").stat().st_size
        print(f"\n{count:,} events, {sizes[count] / 1e6:.0f} MB\n{'':38}{head}")
        huge = count > 1_000_000
        for verb in VERBS:
            slow = count >= 1_000_000 and ("drains" in verb or "28 %" in verb)
            cells[verb, count] = measure(ours, home, verb, times((FEW if huge else SEVERAL) if slow else OURS))
            print(f"{verb:38}{cells[verb, count].row()}", flush=True)
        for verb, cell in first_runs(ours, home, times(FEW if huge else SEVERAL)).items():
            cells[verb, count] = cell
            print(f"{verb:38}{cell.row()}", flush=True)
        if count == most:
            fed = feeding(ours, home, folder, times(SEVERAL))
        if peer and (count < 1_000_000 or (count == 1_000_000 and count < counts[-1])):
            shutil.rmtree(home)
            home.mkdir()
            generate(home / "events.jsonl", count)
            furnish(peer, home)
            for verb in ["append, nobody consumes it", "ask"]:
                theirs[verb, count] = measure(peer, home, verb, times(THEIRS if count < 100_000 else FEW))
                print(f"{'peer: ' + verb:38}{theirs[verb, count].row()}", flush=True)
        shutil.rmtree(home)
    ratios(cells, theirs, sizes, fed, bound, counts)


def say(what, value, least=None, most=None, form=".2f"):
    """A row of the last table; where the target is missed, by how much of it."""
    target = " to ".join(f"{bound:{form}}" for bound in (least, most) if bound is not None)
    target = target if None not in (least, most) else (f">= {target}" if most is None else f"<= {target}")
    missed = ""
    if least is not None and value < least:
        missed = f"   MISSED, {(1 - value / least) * 100:.0f} % short"
    if most is not None and value > most:
        missed = f"   MISSED, {(value / most - 1) * 100:.0f} % over"
    print(f"{what:70}{value:>10{form}}   {target}{missed}")


def ratios(cells, theirs, sizes, fed, bound, counts):
    big, least, most = max(count for count in counts if count <= 1_000_000), counts[0], counts[-1]
    middle = min(big, 100_000)
    append, ask = "append, nobody consumes it", "ask"
    print(f"\n{'limits of this machine, in this run':70}")
    for what, value in bound.items():
        print(f"  {what:68}{value:>10.3f}")
    size, feed, limit = fed
    print(f"  {f'28 % of {big:,} events into the script of a page, GB/s':68}{size / limit[0] / 1e9:>10.3f}")
    print(f"\n{'ratios':70}{'found':>10}   target")
    for verb in (append, ask):
        for count in sorted({big, most}):
            say(f"{verb}: CPU at {count:,} / at {least:,}", cells[verb, count].cpu / cells[verb, least].cpu, most=1.3)
        for count, target in ((1_000, 15), (100_000, 800), (1_000_000, 8_000)):
            if (verb, count) in theirs:
                ratio = theirs[verb, count].cpu / cells[verb, count].cpu
                say(f"{verb}: the peer's CPU / ours at {count:,}", ratio, least=target, form=".0f")
        short, long = cells[verb, least], cells[verb, middle]
        say(f"{verb}: bytes read and written at {middle:,} / at {least:,}", long.bytes / max(short.bytes, 1), 0.95, 1.05)
        say(f"{verb}: reads and writes at {middle:,} / at {least:,}", long.calls / max(short.calls, 1), 0.95, 1.05)
        say(f"{verb}: KiB read and written at {middle:,}", long.bytes / 1024, most=512, form=".0f")
    floor = bound["empty process, wall ms"] + bound["write + fdatasync, wall ms"]
    say("append: wall / (empty process + write + fdatasync)", cells[append, big].wall / floor, most=4)
    for count in sorted({big, most}):
        memory = max(cells[verb, count].memory for verb in [*VERBS, FIRST, CAUGHT])
        say(f"memory of every verb at {count:,}, MiB", memory, most=16, form=".1f")
    say(f"feed of one name, {size / feed[0] / 1e9:.1f} GB/s / the same bytes into the same script", limit[0] / feed[0], least=0.5)
    say("the same by CPU", limit[1] / feed[1], least=0.5)
    for verb, what in ((FIRST, "rebuild"), (CAUGHT, "catch-up")):
        say(f"{what}, GB/s of CPU", sizes[big] / (cells[verb, big].cpu / 1e3) / 1e9, least=0.8)
    say(f"first command at {big:,} without an index, CPU s", cells[FIRST, big].cpu / 1e3, most=1)


main()
