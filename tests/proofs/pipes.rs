//! Which face a bare `self` shows, over every caller that DESIGN §4.1 speaks of, scored against the truth of every call.
//!
//! A row is a caller and a shape of pipeline. Each call asks a question that no other asks, its mind answers with that
//! question's number, so the log alone tells what was heard, and what was taken for what. Prints one table: with `/proc`, and
//! beside it without. `PIPES=zsh` goes over the rows only whose caller and shape hold that text.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;

/// How long one call may take, under load too.
const CALL_MAX: Duration = Duration::from_secs(100);

/// What a shell at a terminal prints when it is ready for a line.
const READY: &str = "READY# ";

/// How many loops make the machine busy.
const LOOPS: usize = 32;

/// Where a line of shell stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Mode {
    Script,
    Line,
    Terminal,
}

/// Who starts the pipeline.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Caller {
    Shell(&'static str, Mode),
    Cron,
    Make,
    Python,
    Node,
}

/// A shape of pipeline. `$ID` is the call's number; the answers it must give are `$ID` with each of the suffixes.
struct Shape {
    name: &'static str,
    posix: &'static str,
    fish: &'static str,
    answers: &'static [&'static str],
    asks: usize,
}

const fn shape(name: &'static str, posix: &'static str, fish: &'static str) -> Shape {
    Shape { name, posix, fish, answers: &[""], asks: 1 }
}

const SHAPES: &[Shape] = &[
    shape("plain", r#"echo "question $ID" | self | mind | self"#, r#"echo "question $ID" | self | mind | self"#),
    shape("self ask", r#"self ask "question $ID" | mind | self"#, r#"self ask "question $ID" | mind | self"#),
    shape(
        "> file",
        r#"echo "question $ID" | self | mind | self > "$OUT"; cat "$OUT""#,
        r#"echo "question $ID" | self | mind | self > "$OUT"; cat "$OUT""#,
    ),
    shape(
        "$( )",
        r#"x=$(echo "question $ID" | self | mind | self); echo "$x""#,
        r#"set x (echo "question $ID" | self | mind | self); echo "$x""#,
    ),
    shape("( ) |", r#"(echo "question $ID" | self) | (mind) | (self)"#, ""),
    shape(
        "{ } |",
        r#"{ echo "question $ID" | self; } | { mind; } | { self; }"#,
        r#"begin; echo "question $ID" | self; end | mind | self"#,
    ),
    shape(
        "functions",
        r#"f() { echo "question $ID" | self; }; g() { mind; }; h() { self; }; f | g | h"#,
        r#"function f; echo "question $ID" | self; end; f | mind | self"#,
    ),
    shape(
        "{ } > file",
        r#"{ echo "question $ID" | self | { mind > "$OUT"; cat "$OUT"; } | self; }"#,
        r#"begin; echo "question $ID" | self | mind | self; end > "$OUT"; cat "$OUT""#,
    ),
    shape(
        "env",
        r#"echo "question $ID" | env self | env A=1 mind | env self"#,
        r#"echo "question $ID" | env self | env A=1 mind | env self"#,
    ),
    shape(
        "nohup",
        r#"echo "question $ID" | nohup self | nohup mind | nohup self | cat"#,
        r#"echo "question $ID" | nohup self | nohup mind | nohup self | cat"#,
    ),
    shape(
        "timeout",
        r#"echo "question $ID" | timeout 90 self | timeout 90 mind | timeout 90 self"#,
        r#"echo "question $ID" | timeout 90 self | timeout 90 mind | timeout 90 self"#,
    ),
    shape("&", r#"echo "question $ID" | self | mind | self & wait"#, r#"echo "question $ID" | self | mind | self & wait"#),
    Shape {
        name: "two at once",
        posix: r#"echo "question $ID.a" | self | env ID=$ID.a mind | self & echo "question $ID.b" | self | env ID=$ID.b mind | self & wait"#,
        fish: r#"echo "question $ID.a" | self | env ID=$ID.a mind | self & ; echo "question $ID.b" | self | env ID=$ID.b mind | self & ; wait"#,
        answers: &[".a", ".b"],
        asks: 2,
    },
    Shape {
        name: "loop",
        posix: r#"for n in a b c; do echo "question $ID.$n" | self | env ID=$ID.$n mind | self; done"#,
        fish: r#"for n in a b c; echo "question $ID.$n" | self | env ID=$ID.$n mind | self; end"#,
        answers: &[".a", ".b", ".c"],
        asks: 3,
    },
    shape("slow producer", r#"(sleep 0.2; echo "question $ID") | self | mind | self"#, ""),
    shape(
        "tee",
        r#"echo "question $ID" | self | tee /dev/null | mind | tee /dev/null | self"#,
        r#"echo "question $ID" | self | tee /dev/null | mind | tee /dev/null | self"#,
    ),
    shape("| cat", r#"echo "question $ID" | self | mind | self | cat"#, r#"echo "question $ID" | self | mind | self | cat"#),
    shape("mind reads not", r#"echo "question $ID" | self | blurt | self"#, ""),
    Shape {
        name: "asks beside lost ones",
        posix: r#"for n in a b c; do self ask "question $ID.$n" | true & cat "$HOME/q$n" | self > /dev/null; done; wait"#,
        fish: r#"for n in a b c; self ask "question $ID.$n" | true & ; cat "$HOME/q$n" | self > /dev/null; end; wait"#,
        answers: &[],
        asks: 6,
    },
    Shape {
        name: "asks only",
        posix: r#"echo "question $ID.a" | self | cat > /dev/null; x=$(self ask "question $ID.b"); echo "question $ID.c" | self > /dev/null; x=$(echo "question $ID.d" | self)"#,
        fish: r#"echo "question $ID.a" | self | cat > /dev/null; set x (self ask "question $ID.b"); echo "question $ID.c" | self > /dev/null; set x (echo "question $ID.d" | self)"#,
        answers: &[],
        asks: 4,
    },
];

const SHELLS: [&str; 5] = ["bash", "dash", "zsh", "mksh", "fish"];

const MAKEFILE: &str = "all: a b c\na b c:\n\t@echo \"question $$ID.$@\" | self | env ID=$$ID.$@ mind | self\n";

/// Python's ways; the first argument names the one to go.
const PYTHON: &str = r#"
import os, sys
from subprocess import PIPE, Popen, run
from threading import Thread
way, id = sys.argv[1], os.environ["ID"]
def threads(n, do):
    all = [Thread(target=do, args=(str(k),)) for k in range(n)]
    for t in all: t.start()
    for t in all: t.join()
def shell(k):
    line = f'echo "question {id}.{k}" | self | env ID={id}.{k} mind | self'
    os.write(1, run(line, shell=True, stdout=PIPE).stdout)
def only_ask(k):
    for n in "ab": run(["self", "ask", f"question {id}.{k}{n}"], stdout=PIPE, check=True)
    for n in "cd": run(["self"], input=f"question {id}.{k}{n}".encode(), capture_output=True, check=True)
def chain(apart):
    a = Popen(["self", "ask", "question " + id], stdout=PIPE, start_new_session=apart)
    b = Popen(["mind"], stdin=a.stdout, stdout=PIPE, start_new_session=apart)
    a.stdout.close()
    c = Popen(["self"], stdin=b.stdout, stdout=PIPE, start_new_session=apart)
    b.stdout.close()
    os.write(1, c.communicate()[0])
def pump(last):
    prompt = run(["self", "ask", "question " + id], capture_output=True).stdout
    answer = run(["mind"], input=prompt, capture_output=True).stdout
    os.write(1, run(last, input=answer, capture_output=True).stdout)
if way == "shell": threads(8, shell)
if way == "asks": threads(4, only_ask)
if way == "chain": chain(False)
if way == "apart": chain(True)
if way == "pump": pump(["self", "hear"])
"#;

const NODE: &str = r#"
const { spawn } = require("child_process");
const start = (name, args, stdin) => spawn(name, args, { stdio: [stdin, "pipe", "inherit"] });
const ask = start("self", ["ask", "question " + process.env.ID], "ignore");
const mind = start("mind", [], "pipe"), hear = start("self", ["hear"], "pipe");
ask.stdout.pipe(mind.stdin); mind.stdout.pipe(hear.stdin); hear.stdout.pipe(process.stdout);
"#;

/// fish tells its background by no mark, so a mind that is gone too soon is not bridged there; and its answer is out before
/// the ask is recorded, so the ear starts later here.
const FISH: &str = r#"self ask "question $ID" | blurt | sh -c 'sleep 0.5; exec self hear'"#;

/// What the calls of a row came to.
#[derive(Debug, Default, Clone, Copy)]
struct Score {
    /// Answers that had to be heard.
    answers: usize,
    heard: usize,
    asks_for_replies: usize,
    replies_for_asks: usize,
    /// Replies that name another question than theirs, questions that are not in the log, answers that are not on stdout.
    faults: usize,
}

impl Score {
    fn add(&mut self, other: Score) {
        self.answers += other.answers;
        self.heard += other.heard;
        self.asks_for_replies += other.asks_for_replies;
        self.replies_for_asks += other.replies_for_asks;
        self.faults += other.faults;
    }

    fn is_clean(&self) -> bool {
        self.heard == self.answers && self.asks_for_replies + self.replies_for_asks + self.faults == 0
    }
}

/// One row: what is called, and what it must come to.
struct Row {
    caller: Caller,
    name: String,
    line: String,
    answers: Vec<String>,
    asks: usize,
}

/// The folder of the programs: `self`, and minds of two kinds.
struct Stage {
    folder: tempfile::TempDir,
    python: String,
    calls: AtomicUsize,
}

/// The circumstances of a pass over the rows.
#[derive(Clone, Copy)]
struct Pass {
    slow: bool,
    proc: bool,
    calls: usize,
    workers: usize,
}

impl Stage {
    fn new() -> Stage {
        let folder = tempfile::tempdir().unwrap();
        for (kind, pause) in [("fast", ""), ("slow", "sleep 1; ")] {
            let bin = folder.path().join(kind);
            fs::create_dir(&bin).unwrap();
            std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_self"), bin.join("self")).unwrap();
            for (name, reads) in [("mind", "cat > /dev/null; "), ("blurt", "")] {
                let mind = bin.join(name);
                fs::write(&mind, format!("#!/bin/sh\n{reads}{pause}echo \"All quiet $ID.\"\n")).unwrap();
                fs::set_permissions(&mind, fs::Permissions::from_mode(0o755)).unwrap();
            }
        }
        fs::write(folder.path().join("Makefile"), MAKEFILE).unwrap();
        fs::write(folder.path().join("ways.py"), PYTHON).unwrap();
        fs::write(folder.path().join("pumps.js"), NODE).unwrap();
        let python = Command::new("python3").args(["-c", "import sys; print(sys.executable)"]).output().unwrap();
        let python = String::from_utf8(python.stdout).unwrap().trim().to_owned();
        Stage { folder, python, calls: AtomicUsize::new(0) }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// The command of a call, its stdin not yet set. Without `/proc`, an empty file system lies over it.
    fn command(&self, row: &Row, home: &Path, id: usize, pass: Pass) -> Command {
        let script = home.join("script");
        fs::write(&script, format!("{}\n", row.line)).unwrap();
        let text = |path: PathBuf| path.to_str().expect("a plain path").to_owned();
        let words: Vec<String> = match row.caller {
            Caller::Shell(shell, Mode::Script) => vec![shell.into(), text(script)],
            Caller::Shell(shell, Mode::Line) => vec![shell.into(), "-c".into(), row.line.clone()],
            Caller::Shell(shell, Mode::Terminal) => {
                let shell = match shell {
                    "bash" => "bash --norc --noediting -i",
                    "zsh" => "zsh -f -i",
                    "fish" => "fish --no-config -i -C 'function fish_prompt; echo -n \"READY# \"; end'",
                    other => &format!("{other} -i"),
                };
                ["script", "-qfec", shell, "/dev/null"].map(str::to_owned).into()
            }
            Caller::Cron => ["setsid", "-w", "sh", "-c", &row.line].map(str::to_owned).into(),
            Caller::Make => vec!["make".into(), "-s".into(), "-j3".into(), "-f".into(), text(self.path("Makefile"))],
            Caller::Python => vec![self.python.clone(), text(self.path("ways.py")), row.line.clone()],
            Caller::Node => vec!["node".into(), text(self.path("pumps.js"))],
        };
        let mut command = if pass.proc {
            Command::new(&words[0])
        } else {
            let mut command = Command::new("unshare");
            command.args(["-m", "sh", "-c", "mount -t tmpfs none /proc && exec \"$@\"", "sh", &words[0]]);
            command
        };
        let bin = self.path(if pass.slow { "slow" } else { "fast" });
        command.args(&words[1..]).env_clear().current_dir(home);
        command.env("PATH", format!("{}:/usr/local/bin:/usr/bin:/bin", bin.display()));
        command.env("SELF_HOME", home).env("HOME", home).env("OUT", home.join("out")).env("ID", id.to_string());
        command.env("PS1", READY).env("TERM", "dumb").env("LANG", "C.UTF-8");
        command
    }

    /// Makes one call and gives its stdout; what it said on stderr stays in the home.
    fn call(&self, row: &Row, home: &Path, id: usize, pass: Pass) -> String {
        let mut command = self.command(row, home, id, pass);
        let err = File::options().append(true).create(true).open(home.join("err")).unwrap();
        command.stderr(err).stdout(Stdio::piped());
        let at_terminal = matches!(row.caller, Caller::Shell(_, Mode::Terminal));
        let stdin = if at_terminal { Stdio::piped() } else { Stdio::null() };
        let mut child = command.stdin(stdin).spawn().unwrap_or_else(|fault| panic!("{command:?}: {fault}"));
        let mut output = Output::of(&mut child);
        if at_terminal {
            let mut keys = child.stdin.take().expect("piped");
            for line in [row.line.as_str(), "exit"] {
                output.until(READY);
                keys.write_all(format!("{line}\n").as_bytes()).unwrap();
            }
            output.finish();
            drop(keys);
        } else {
            output.finish();
        }
        if output.is_late {
            let _ = child.kill();
        }
        child.wait().unwrap();
        output.text
    }

    /// Makes the calls of a row in one home and scores them.
    fn score(&self, row: &Row, pass: Pass) -> (Score, String) {
        let home = tempfile::tempdir().unwrap();
        let mut score = Score::default();
        let mut answers = Vec::new();
        for _ in 0..pass.calls {
            let id = self.calls.fetch_add(1, Ordering::Relaxed);
            for n in ["a", "b", "c"] {
                fs::write(home.path().join(format!("q{n}")), format!("question {id}.{n} beside\n")).unwrap();
            }
            let out = self.call(row, home.path(), id, pass);
            let expect: Vec<String> = row.answers.iter().map(|suffix| format!("All quiet {id}{suffix}.")).collect();
            if !is_out(row.caller, &out, &expect) {
                score.faults += 1;
            }
            answers.extend(expect);
        }
        let log = fs::read_to_string(home.path().join("events.jsonl")).unwrap_or_default();
        score.add(read(&log, &answers, row.asks * pass.calls));
        let told = if score.is_clean() { String::new() } else { self.told(row, home.path(), &log) };
        (score, told)
    }

    /// What a call that went wrong left behind.
    fn told(&self, row: &Row, home: &Path, log: &str) -> String {
        let err = fs::read_to_string(home.join("err")).unwrap_or_default();
        format!("--- {:?} {}\n{}\n{err}{log}", row.caller, row.name, row.line)
    }
}

/// Whether stdout is exactly the answers; at a terminal, where the line and prompts stand beside them, whether it has each.
fn is_out(caller: Caller, out: &str, expect: &[String]) -> bool {
    if matches!(caller, Caller::Shell(_, Mode::Terminal)) {
        return expect.iter().all(|answer| out.contains(answer));
    }
    let mut lines: Vec<&str> = out.lines().collect();
    lines.sort_unstable();
    lines == expect
}

/// Reads off a log what was heard and what was taken for what.
fn read(log: &str, answers: &[String], asks: usize) -> Score {
    let mut score = Score { answers: answers.len(), ..Score::default() };
    let mut asked: BTreeMap<u64, String> = BTreeMap::new();
    for event in log.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok()) {
        let text = event["payload"]["text"].as_str().unwrap_or_default().to_owned();
        match event["name"].as_str() {
            Some("self.asked") if text.starts_with("question ") => {
                asked.insert(event["seq"].as_u64().expect("a seq"), text);
            }
            Some("self.asked") => score.replies_for_asks += 1,
            Some("self.replied") if !answers.contains(&text) => score.asks_for_replies += 1,
            Some("self.replied") => {
                let question = event["payload"]["ask"].as_u64().and_then(|ask| asked.get(&ask));
                let answers_it = question.is_some_and(|question| text == question.replace("question ", "All quiet ") + ".");
                *if answers_it { &mut score.heard } else { &mut score.faults } += 1;
            }
            Some(_) | None => {}
        }
    }
    score.faults += asks.abs_diff(asked.len());
    score
}

/// What a child prints, read while it runs.
struct Output {
    pieces: Receiver<Vec<u8>>,
    text: String,
    seen: usize,
    until: Instant,
    is_late: bool,
}

impl Output {
    fn of(child: &mut Child) -> Output {
        let mut stdout = child.stdout.take().expect("piped");
        let (sender, pieces) = channel();
        thread::spawn(move || {
            let mut piece = [0; 4096];
            while let Ok(length @ 1..) = stdout.read(&mut piece) {
                if sender.send(piece[..length].to_vec()).is_err() {
                    return;
                }
            }
        });
        Output { pieces, text: String::new(), seen: 0, until: Instant::now() + CALL_MAX, is_late: false }
    }

    /// Reads on until a text has come once more; false at the end.
    fn until(&mut self, text: &str) -> bool {
        loop {
            if let Some(at) = self.text[self.seen..].find(text) {
                self.seen += at + text.len();
                return true;
            }
            match self.pieces.recv_timeout(self.until.saturating_duration_since(Instant::now())) {
                Ok(piece) => self.text.push_str(&String::from_utf8_lossy(&piece)),
                Err(fault) => {
                    self.is_late = fault == RecvTimeoutError::Timeout;
                    return false;
                }
            }
        }
    }

    fn finish(&mut self) {
        while self.until("\u{0}never printed\u{0}") {}
    }
}

/// Loops that keep the machine busy, until dropped.
struct Busy(Vec<Child>);

impl Busy {
    fn start() -> Busy {
        let start = |_| Command::new("sh").args(["-c", "while :; do :; done"]).spawn().unwrap();
        Busy((0..LOOPS).map(start).collect())
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        for child in &mut self.0 {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// The rows that are asserted: a bare `self` finds its prompt.
fn bare_rows() -> Vec<Row> {
    let mut rows = Vec::new();
    for shell in SHELLS {
        for mode in [Mode::Script, Mode::Line, Mode::Terminal] {
            for shape in SHAPES {
                let line = if shell == "fish" { shape.fish } else { shape.posix };
                if !line.is_empty() {
                    rows.push(row(Caller::Shell(shell, mode), shape.name, line, shape.answers, shape.asks));
                }
            }
        }
    }
    rows.push(row(Caller::Cron, "plain", SHAPES[0].posix, &[""], 1));
    rows.push(row(Caller::Make, "-j3", "", &[".a", ".b", ".c"], 3));
    rows.push(row(Caller::Python, "8 × shell=True", "shell", &[".0", ".1", ".2", ".3", ".4", ".5", ".6", ".7"], 8));
    rows.push(row(Caller::Python, "4 × asks only", "asks", &[], 16));
    rows.push(row(Caller::Python, "Popen chain", "chain", &[""], 1));
    rows.push(row(Caller::Python, "… in new sessions", "apart", &[""], 1));
    rows
}

/// The rows where the bytes are pumped, or the tail is nested: the explicit verbs say the face.
fn explicit_rows() -> Vec<Row> {
    let sh = |name, line| row(Caller::Shell("dash", Mode::Line), name, line, &[""], 1);
    vec![
        row(Caller::Python, "run(input=…), self hear", "pump", &[""], 1),
        row(Caller::Node, ".pipe(), self hear", "", &[""], 1),
        sh("file, self hear", r#"self ask "question $ID" > "$OUT"; mind < "$OUT" | self hear"#),
        sh("variable, self hear", r#"p=$(self ask "question $ID"); echo "$p" | mind | self hear"#),
        row(Caller::Shell("fish", Mode::Line), "mind reads not, self hear", FISH, &[""], 1),
        sh("nested tail, self hear", r#"self ask "question $ID" | mind | { cat | self hear; }"#),
    ]
}

fn row(caller: Caller, name: &str, line: &str, answers: &[&str], asks: usize) -> Row {
    let answers = answers.iter().map(|&suffix| suffix.to_owned()).collect();
    Row { caller, name: name.to_owned(), line: line.to_owned(), answers, asks }
}

/// Goes over the rows with a number of workers.
fn go(stage: &Stage, rows: &[(usize, &Row)], pass: Pass, scores: &mut [Score], told: &mut String) {
    let next = AtomicUsize::new(0);
    let done = Mutex::new(Vec::new());
    thread::scope(|scope| {
        for _ in 0..pass.workers {
            scope.spawn(|| {
                while let Some(&(at, row)) = rows.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let scored = stage.score(row, pass);
                    done.lock().unwrap_or_else(PoisonError::into_inner).push((at, scored));
                }
            });
        }
    });
    for (at, (score, what)) in done.into_inner().unwrap_or_else(PoisonError::into_inner) {
        scores[at].add(score);
        told.push_str(&what);
    }
}

/// All passes: with `/proc`, a mind that answers at once and one that takes a second, idle and busy; without, fewer.
fn table(stage: &Stage, rows: &[Row], proc: bool, told: &mut String) -> Vec<Score> {
    let mut scores = vec![Score::default(); rows.len()];
    let begun = Instant::now();
    let mut pass = |name: &str, slow, calls, workers, of: usize| {
        let pass = Pass { slow, proc, calls, workers };
        let chosen: Vec<(usize, &Row)> = rows.iter().enumerate().filter(|(at, _)| at % of == 0).collect();
        go(stage, &chosen, pass, &mut scores, told);
        say(&format!("{} /proc, {name}: {:.0?} since the start\n", if proc { "with" } else { "without" }, begun.elapsed()));
    };
    pass("idle, fast mind", false, if proc { 2 } else { 1 }, 4, 1);
    if proc {
        pass("idle, slow mind", true, 1, 24, 1);
    }
    let _busy = Busy::start();
    pass("busy, fast mind", false, 1, 16, if proc { 1 } else { 4 });
    if proc {
        pass("busy, slow mind", true, 1, 32, 4);
    }
    scores
}

fn say(text: &str) {
    let _ = io::stderr().write_all(text.as_bytes());
}

fn print(rows: &[Row], with: &[Score], without: &[Score]) {
    let mut text = format!(
        "\n{:<16} {:<24} {:>7} {:>7} {:>5} {:>5} {:>6}   without /proc:\n",
        "caller", "shape", "answers", "heard", "a→r", "r→a", "faults"
    );
    for ((row, with), without) in rows.iter().zip(with).zip(without) {
        let caller = match row.caller {
            Caller::Shell(shell, Mode::Script) => format!("{shell} script"),
            Caller::Shell(shell, Mode::Line) => format!("{shell} -c"),
            Caller::Shell(shell, Mode::Terminal) => format!("{shell} terminal"),
            Caller::Cron => "env -i setsid sh".into(),
            Caller::Make => "make".into(),
            Caller::Python => "python".into(),
            Caller::Node => "node".into(),
        };
        let Score { answers, heard, asks_for_replies, replies_for_asks, faults } = with;
        let _ = write!(text, "{caller:<16} {:<24} {answers:>7} {heard:>7} ", row.name);
        let _ = write!(text, "{asks_for_replies:>5} {replies_for_asks:>5} {faults:>6}   ");
        let Score { answers, heard, asks_for_replies, replies_for_asks, .. } = without;
        let _ = writeln!(text, "{heard:>3} of {answers:<3} {asks_for_replies:>3} {replies_for_asks:>3}");
    }
    let sum = |scores: &[Score]| {
        let mut sum = Score::default();
        scores.iter().for_each(|&score| sum.add(score));
        sum
    };
    let _ = writeln!(text, "with /proc: {:?}\nwithout:    {:?}", sum(with), sum(without));
    say(&text);
}

/// Whether an empty file system can be laid over `/proc`: not without root.
fn can_hide_proc() -> bool {
    let line = "mount -t tmpfs none /proc && ! test -e /proc/self";
    Command::new("unshare").args(["-m", "sh", "-c", line]).output().is_ok_and(|output| output.status.success())
}

#[test]
fn every_reply_is_heard_and_no_ask_is_taken_for_one() {
    let stage = Stage::new();
    let mut rows = bare_rows();
    rows.extend(explicit_rows());
    let only = std::env::var("PIPES").unwrap_or_default();
    rows.retain(|row| format!("{:?} {}", row.caller, row.name).contains(&only));
    let (mut told, mut told_without) = (String::new(), String::new());
    let with = table(&stage, &rows, true, &mut told);
    let without = if can_hide_proc() {
        table(&stage, &rows, false, &mut told_without)
    } else {
        say("without /proc: skipped, it takes root\n");
        vec![Score::default(); rows.len()]
    };
    print(&rows, &with, &without);
    assert!(with.iter().all(Score::is_clean), "{told}");
    for (row, score) in rows.iter().zip(&without) {
        let is_plain_foreground = matches!(row.caller, Caller::Shell(_, Mode::Script | Mode::Line)) && row.name == "plain";
        assert!(!is_plain_foreground || score.asks_for_replies == 0, "{:?} {}: {score:?}", row.caller, row.name);
    }
}

/// A loop of asks as tight as a shell runs it, with `/proc` and without.
#[track_caller]
fn check_asks(shell: &'static str, asks: usize, tail: &str) {
    let stage = Stage::new();
    let line = format!("i=0; while [ $i -lt {asks} ]; do echo \"question $ID.$i\" | self {tail}; i=$((i+1)); done");
    let row = row(Caller::Shell(shell, Mode::Script), "tight loop", &line, &[], asks);
    let (score, told) = stage.score(&row, Pass { slow: false, proc: true, calls: 1, workers: 1 });
    assert!(score.is_clean(), "{score:?}\n{told}");
}

#[test]
fn a_thousand_asks_into_files_are_asks() {
    check_asks("bash", 1000, "> $OUT");
}

#[test]
fn a_thousand_asks_into_pipes_are_asks() {
    check_asks("dash", 1000, "| cat > $OUT");
}

#[test]
fn three_hundred_answers_at_once_are_heard() {
    let stage = Stage::new();
    for shell in ["bash", "dash"] {
        let row = row(Caller::Shell(shell, Mode::Line), "plain", SHAPES[0].posix, &[""], 1);
        let (score, told) = stage.score(&row, Pass { slow: false, proc: true, calls: 300, workers: 1 });
        assert!(score.is_clean(), "{score:?}\n{told}");
    }
}
