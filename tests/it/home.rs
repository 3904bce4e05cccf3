//! A home of its own for every test, and calls of the real executable in it.
//!
//! A call is hermetic: the environment is cleared but for `PATH`, and `HOME` and `XDG_STATE_HOME` lie beside the home. What a
//! call is not told to expect must not happen: output that no test mentions must be empty, and the status must be 0. A call
//! that has not ended after [`CALL_SECONDS_MAX`] fails its test.

use std::ffi::{OsStr, OsString};
use std::fmt::Write as _;
use std::fs;
use std::io::{Read, Write as _};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Resource, Rlimit, prlimit};
use serde::Deserialize;
use serde_json::value::RawValue;
use tempfile::TempDir;

use crate::index_mode;
use crate::terminal::Terminal;

/// How long a call may take before its test fails.
pub const CALL_SECONDS_MAX: u64 = 90;

/// How much memory must be free for homes to be made there.
const MEMORY_BYTES_MIN: u64 = 4 << 30;

/// The executable under test.
pub const SELF: &str = env!("CARGO_BIN_EXE_self");

/// The moment of records that a test writes by hand.
pub const MOMENT: &str = "2026-01-01T00:00:00.000000000Z";

/// A directory that may become a home, and everything that lies beside it.
pub struct Home {
    beside: TempDir,
    dir: PathBuf,
}

impl Home {
    /// An empty directory.
    pub fn new() -> Home {
        Home::called("home")
    }

    /// An empty directory of this name.
    pub fn called(name: impl AsRef<OsStr>) -> Home {
        let beside = TempDir::new_in(temporary()).unwrap();
        let dir = beside.path().join(name.as_ref());
        fs::create_dir_all(&dir).unwrap();
        for name in ["user", "state", "bin"] {
            fs::create_dir(beside.path().join(name)).unwrap();
        }
        std::os::unix::fs::symlink(SELF, beside.path().join("bin/self")).unwrap();
        Home { beside, dir }
    }

    /// A home that the kernel made: seq 1 is `kernel.initialized`, seq 2 the event `home.made`.
    pub fn made() -> Home {
        let home = Home::new();
        home.hear(r#"{"name":"home.made","payload":{}}"#);
        home
    }

    /// A home with this log, and no key.
    pub fn with_log(log: impl AsRef<[u8]>) -> Home {
        let home = Home::new();
        home.write_log(log);
        home
    }

    /// The directory.
    pub fn path(&self) -> &Path {
        &self.dir
    }

    /// A path inside the directory.
    pub fn join(&self, name: impl AsRef<Path>) -> PathBuf {
        self.dir.join(name)
    }

    /// A path beside the directory, outside of it.
    pub fn beside(&self, name: impl AsRef<Path>) -> PathBuf {
        self.beside.path().join(name)
    }

    /// A call of `self` with the directory as its working directory.
    pub fn run<A: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = A>) -> Call {
        let mut command = Command::new(SELF);
        command.args(args);
        self.call(command)
    }

    /// A call of the bare filter with this body.
    pub fn filter(&self, body: impl AsRef<[u8]>) -> Call {
        self.run([""; 0]).stdin(body)
    }

    /// A shell line, with `self` on the `PATH`.
    pub fn sh(&self, line: &str) -> Call {
        self.shell("sh", line)
    }

    /// A line for a shell of this name, with `self` on the `PATH`.
    pub fn shell(&self, shell: &str, line: &str) -> Call {
        let mut command = Command::new(shell);
        command.args(["-c", line]);
        self.call(command)
    }

    /// A call of another program, with `self` on the `PATH`.
    pub fn program<A: AsRef<OsStr>>(&self, program: &str, args: impl IntoIterator<Item = A>) -> Call {
        let mut command = Command::new(program);
        command.args(args);
        self.call(command)
    }

    fn call(&self, mut command: Command) -> Call {
        let mut path = OsString::from(self.beside("bin"));
        path.push(":");
        path.push(std::env::var_os("PATH").unwrap());
        command.env_clear().env("PATH", path).env("HOME", self.beside("user")).env("XDG_STATE_HOME", self.beside("state"));
        command.current_dir(&self.dir);
        index_mode::before_a_call(&self.dir);
        Call {
            command,
            stdin: None,
            stdout: Expect::whole(""),
            stderr: Expect::whole(""),
            status: 0,
            file_bytes_max: None,
            terminal: None,
        }
    }

    /// Hears a body whose words on stderr do not matter; a body without prose.
    #[track_caller]
    pub fn hear(&self, body: &str) {
        self.run(["hear"]).stdin(format!("{body}\n")).stderr_any().check();
    }

    /// The log's bytes.
    #[track_caller]
    pub fn log(&self) -> Vec<u8> {
        fs::read(self.join("events.jsonl")).unwrap()
    }

    /// Puts a log in place, by another hand than the kernel's.
    #[track_caller]
    pub fn write_log(&self, log: impl AsRef<[u8]>) {
        self.write_private("events.jsonl", log);
    }

    /// Writes a file of mode 0600 in the home, over the one that is there.
    #[track_caller]
    pub fn write_private(&self, name: &str, bytes: impl AsRef<[u8]>) {
        let mut file = fs::OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(self.join(name)).unwrap();
        file.write_all(bytes.as_ref()).unwrap();
    }

    /// Adds bytes to the log, by another hand than the kernel's.
    #[track_caller]
    pub fn append(&self, bytes: impl AsRef<[u8]>) {
        let mut file = fs::OpenOptions::new().append(true).open(self.join("events.jsonl")).unwrap();
        file.write_all(bytes.as_ref()).unwrap();
    }

    /// The records of a log of which every line is a record as this kernel writes them.
    #[track_caller]
    pub fn records(&self) -> Vec<Record> {
        records(&self.log())
    }

    /// The log told in short: `<seq> <via>[/<by>] <name> <payload>`, a line an event.
    #[track_caller]
    pub fn told(&self) -> Vec<String> {
        self.records().iter().map(Record::told).collect()
    }

    /// The log told in short, from this seq on.
    #[track_caller]
    pub fn told_from(&self, seq: u64) -> Vec<String> {
        self.records().iter().filter(|record| record.seq >= seq).map(Record::told).collect()
    }

    /// The payloads of the events of this name, in order.
    #[track_caller]
    pub fn payloads(&self, name: &str) -> Vec<String> {
        self.records().iter().filter(|record| record.name == name).map(|record| record.payload.get().to_owned()).collect()
    }

    /// How many events of this name the log has.
    #[track_caller]
    pub fn count(&self, name: &str) -> usize {
        self.payloads(name).len()
    }

    /// The files under the home, by their path in it, in order.
    pub fn files(&self) -> Vec<PathBuf> {
        let mut files = Vec::new();
        collect(&self.dir, &mut files);
        files.sort();
        files.into_iter().map(|path| path.strip_prefix(&self.dir).unwrap().to_owned()).collect()
    }

    /// The files that recovery set aside, by name, with their bytes.
    pub fn torn(&self) -> Vec<(String, Vec<u8>)> {
        let Ok(entries) = fs::read_dir(self.join(".self/torn")) else { return Vec::new() };
        let mut torn: Vec<_> = entries
            .map(|entry| {
                let entry = entry.unwrap();
                (entry.file_name().into_string().unwrap(), fs::read(entry.path()).unwrap())
            })
            .collect();
        torn.sort();
        torn
    }

    /// The permission bits of a file in the home.
    #[track_caller]
    pub fn mode(&self, name: &str) -> u32 {
        fs::metadata(self.join(name)).unwrap().permissions().mode() & 0o7777
    }
}

/// Where homes are made: in memory where there is much of it, for a sync costs nothing there and these tests cut no power.
fn temporary() -> PathBuf {
    let memory = Path::new("/dev/shm");
    let free = rustix::fs::statvfs(memory).map_or(0, |facts| facts.f_bavail * facts.f_frsize);
    let writable = rustix::fs::access(memory, rustix::fs::Access::WRITE_OK).is_ok();
    if free > MEMORY_BYTES_MIN && writable { memory.to_owned() } else { std::env::temp_dir() }
}

/// Every file under a directory, links not followed.
fn collect(dir: &Path, files: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if fs::symlink_metadata(&path).unwrap().is_dir() { collect(&path, files) } else { files.push(path) }
    }
}

/// A record of the log as this kernel writes it.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Record {
    pub id: String,
    pub seq: u64,
    pub name: String,
    pub occurred_at: String,
    pub via: Option<String>,
    pub by: Option<String>,
    pub payload: Box<RawValue>,
}

impl Record {
    /// The record in short.
    pub fn told(&self) -> String {
        let mut told = format!("{} {}", self.seq, self.via.as_deref().unwrap_or("-"));
        if let Some(by) = &self.by {
            write!(told, "/{by}").unwrap();
        }
        write!(told, " {} {}", self.name, self.payload).unwrap();
        told
    }

    /// The batch of a framed id, and the record's place in it.
    #[track_caller]
    pub fn frame(&self) -> (String, u64, u64) {
        let (batch, place) = self.id.split_once('.').unwrap_or_else(|| panic!("`{}` is not framed", self.id));
        let (k, n) = place.split_once('-').unwrap();
        assert_eq!(batch.len(), 32, "{}", self.id);
        (batch.to_owned(), k.parse().unwrap(), n.parse().unwrap())
    }
}

/// Reads the lines of a log as this kernel writes it: no other key, the keys in the record's order, each line ended.
#[track_caller]
pub fn records(log: &[u8]) -> Vec<Record> {
    assert!(log.is_empty() || log.ends_with(b"\n"), "the log ends in the middle of a line");
    let text = std::str::from_utf8(log).unwrap();
    text.lines()
        .map(|line| {
            let record: Record = serde_json::from_str(line).unwrap_or_else(|fault| panic!("{fault}: {line}"));
            assert_eq!(rewritten(&record), line, "the line is not in the record's form");
            record
        })
        .collect()
}

fn rewritten(record: &Record) -> String {
    let string = |text: &str| {
        let plain = serde_json::to_string(text).unwrap();
        let escapes = [('\u{7f}', "\\u007f"), ('\u{85}', "\\u0085"), ('\u{2028}', "\\u2028"), ('\u{2029}', "\\u2029")];
        escapes.iter().fold(plain, |text, (from, to)| text.replace(*from, to))
    };
    let mut line = format!(
        r#"{{"id":{},"seq":{},"name":{},"occurred_at":{}"#,
        string(&record.id),
        record.seq,
        string(&record.name),
        string(&record.occurred_at)
    );
    for (key, value) in [("via", &record.via), ("by", &record.by)] {
        if let Some(value) = value {
            write!(line, r#","{key}":{}"#, string(value)).unwrap();
        }
    }
    write!(line, r#","payload":{}}}"#, record.payload).unwrap();
    line
}

/// Asserts that records number 1, 2, 3 … and that each batch is framed and stands in one piece.
#[track_caller]
pub fn assert_whole(records: &[Record]) {
    let mut at = 0;
    while at < records.len() {
        let record = &records[at];
        assert_eq!(record.seq, at as u64 + 1, "seq has a gap or a repetition");
        if !record.id.contains('.') {
            assert_eq!(record.id.len(), 32, "{}", record.id);
            at += 1;
            continue;
        }
        let (batch, _, n) = record.frame();
        for k in 1..=n {
            let record = &records[at];
            assert_eq!(record.frame(), (batch.clone(), k, n), "a batch is interrupted at seq {}", at + 1);
            assert_eq!(record.seq, at as u64 + 1, "seq has a gap or a repetition");
            at += 1;
        }
    }
}

/// A line of the log, written by hand: a batch by itself.
pub fn line(seq: u64, via: &str, name: &str, payload: &str) -> String {
    line_as(&format!("{seq:032x}"), seq, via, name, payload)
}

/// A line of the log with this id, written by hand.
pub fn line_as(id: &str, seq: u64, via: &str, name: &str, payload: &str) -> String {
    format!(
        "{{\"id\":\"{id}\",\"seq\":{seq},\"name\":\"{name}\",\"occurred_at\":\"{MOMENT}\",\"via\":\"{via}\",\"payload\":{payload}}}\n"
    )
}

/// A framed batch, written by hand: names and payloads, the first of this seq, all through the pipe.
pub fn batch(seq: u64, events: &[(&str, &str)]) -> Vec<String> {
    let of = |at: usize, (name, payload): &(&str, &str)| {
        line_as(&format!("{seq:032x}.{}-{}", at + 1, events.len()), seq + at as u64, "pipe", name, payload)
    };
    events.iter().enumerate().map(|(at, event)| of(at, event)).collect()
}

/// The first line of every log that the kernel made, written by hand.
pub fn first_line() -> String {
    line(1, "kernel", "kernel.initialized", "{}")
}

/// What a call's output must be.
enum Expect {
    Any,
    Whole(Vec<u8>),
    Parts(Vec<String>),
}

impl Expect {
    fn whole(text: impl AsRef<[u8]>) -> Expect {
        Expect::Whole(text.as_ref().to_owned())
    }

    fn fault(&self, found: &[u8]) -> Option<String> {
        match self {
            Expect::Any => None,
            Expect::Whole(whole) if whole == found => None,
            Expect::Whole(whole) => Some(format!("expected, whole:\n{}", whole.escape_lines())),
            Expect::Parts(parts) => {
                let text = String::from_utf8_lossy(found);
                let missing: Vec<_> = parts.iter().filter(|part| !text.contains(part.as_str())).collect();
                (!missing.is_empty()).then(|| format!("expected in it, and missing: {missing:?}"))
            }
        }
    }
}

/// A text as a failure message shows it.
trait EscapeLines {
    fn escape_lines(&self) -> String;
}

impl EscapeLines for [u8] {
    fn escape_lines(&self) -> String {
        let shown = &self[..self.len().min(4000)];
        let mut text: String = shown.split_inclusive(|byte| *byte == b'\n').fold(String::new(), |mut text, line| {
            writeln!(text, "    {}", line.escape_ascii()).unwrap();
            text
        });
        if shown.len() < self.len() {
            writeln!(text, "    … {} bytes in all", self.len()).unwrap();
        }
        text
    }
}

/// How a call ended.
#[derive(Debug)]
pub struct Ended {
    pub stdout: Vec<u8>,
    pub stderr: Vec<u8>,
    pub status: i32,
    pub took: Duration,
}

impl Ended {
    /// What it printed, as text.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.stdout).into_owned()
    }

    /// What it said, as text.
    pub fn said(&self) -> String {
        String::from_utf8_lossy(&self.stderr).into_owned()
    }
}

/// A call that has not been made yet, and what must come of it.
#[must_use = "a call is made by `check` or `end`"]
pub struct Call {
    command: Command,
    stdin: Option<Vec<u8>>,
    stdout: Expect,
    stderr: Expect,
    status: i32,
    file_bytes_max: Option<u64>,
    terminal: Option<Ends>,
}

/// Which of a call's ends are the terminal.
#[derive(Clone, Copy)]
pub struct Ends {
    pub stdin: bool,
    pub stdout: bool,
    pub stderr: bool,
}

impl Call {
    /// Gives these bytes through a pipe; without this stdin is `/dev/null`.
    pub fn stdin(mut self, bytes: impl AsRef<[u8]>) -> Call {
        self.stdin = Some(bytes.as_ref().to_owned());
        self
    }

    /// Sets a variable.
    pub fn env(mut self, key: &str, value: impl AsRef<OsStr>) -> Call {
        self.command.env(key, value);
        self
    }

    /// Takes a variable away.
    pub fn without(mut self, key: &str) -> Call {
        self.command.env_remove(key);
        self
    }

    /// Starts in another directory than the home.
    pub fn from(mut self, dir: impl AsRef<Path>) -> Call {
        self.command.current_dir(dir);
        self
    }

    /// Forbids the call to make any file longer than this.
    pub fn file_limit(mut self, bytes: u64) -> Call {
        self.file_bytes_max = Some(bytes);
        self
    }

    /// Puts these ends on a terminal; what is printed or said there comes back as stdout.
    pub fn terminal(mut self, ends: Ends) -> Call {
        self.terminal = Some(ends);
        self
    }

    /// Expects exactly this on stdout.
    pub fn stdout(mut self, whole: impl AsRef<[u8]>) -> Call {
        self.stdout = Expect::whole(whole);
        self
    }

    /// Expects these parts on stdout.
    pub fn stdout_has(mut self, parts: &[&str]) -> Call {
        self.stdout = Expect::Parts(parts.iter().map(|part| (*part).to_owned()).collect());
        self
    }

    /// Leaves open what is on stdout.
    pub fn stdout_any(mut self) -> Call {
        self.stdout = Expect::Any;
        self
    }

    /// Expects these parts on stderr.
    pub fn stderr_has(mut self, parts: &[&str]) -> Call {
        self.stderr = Expect::Parts(parts.iter().map(|part| (*part).to_owned()).collect());
        self
    }

    /// Leaves open what is on stderr.
    pub fn stderr_any(mut self) -> Call {
        self.stderr = Expect::Any;
        self
    }

    /// Expects this exit status; a death by a signal counts as 128 and its number.
    pub fn status(mut self, status: i32) -> Call {
        self.status = status;
        self
    }

    /// Makes the call and asserts what it was told to expect.
    #[track_caller]
    pub fn check(mut self) -> Ended {
        let ended = self.make();
        let mut faults = String::new();
        if ended.status != self.status {
            writeln!(faults, "status {}, expected {}", ended.status, self.status).unwrap();
        }
        for (what, expect, found) in [("stdout", &self.stdout, &ended.stdout), ("stderr", &self.stderr, &ended.stderr)] {
            if let Some(fault) = expect.fault(found) {
                writeln!(faults, "{what}: {fault}").unwrap();
            }
        }
        assert!(
            faults.is_empty(),
            "{:?}\n{faults}its stdout:\n{}its stderr:\n{}",
            self.command,
            ended.stdout.escape_lines(),
            ended.stderr.escape_lines()
        );
        assert!(!ended.said().contains("panicked"), "{:?} panicked:\n{}", self.command, ended.said());
        ended
    }

    /// Makes the call and asserts nothing but that it ends and does not panic.
    #[track_caller]
    pub fn end(mut self) -> Ended {
        let ended = self.make();
        assert!(!ended.said().contains("panicked"), "{:?} panicked:\n{}", self.command, ended.said());
        ended
    }

    /// Starts the call with stdout and stderr thrown away, for tests that kill or watch it.
    pub fn start(mut self) -> std::process::Child {
        self.command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        let mut child = self.command.spawn().unwrap();
        let mut stdin = child.stdin.take().unwrap();
        stdin.write_all(self.stdin.as_deref().unwrap_or_default()).unwrap();
        child
    }

    /// The command itself, for a test that sets it up further.
    pub fn into_command(self) -> Command {
        self.command
    }

    #[track_caller]
    fn make(&mut self) -> Ended {
        let terminal = self.terminal.map(|ends| (ends, Terminal::open()));
        let on = |pick: fn(&Ends) -> bool| terminal.as_ref().filter(|(ends, _)| pick(ends)).map(|(_, it)| it.end());
        let stdin = match (&self.stdin, on(|ends| ends.stdin)) {
            (_, Some(end)) => end,
            (Some(_), None) => Stdio::piped(),
            (None, None) => Stdio::null(),
        };
        self.command.stdin(stdin);
        self.command.stdout(on(|ends| ends.stdout).unwrap_or_else(Stdio::piped));
        self.command.stderr(on(|ends| ends.stderr).unwrap_or_else(Stdio::piped));
        let start = Instant::now();
        let mut child = self.command.spawn().unwrap_or_else(|fault| panic!("{:?}: {fault}", self.command));
        // The command keeps its ends of a terminal, which would never report its close.
        self.command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        if let Some(bytes) = self.file_bytes_max {
            let limit = Rlimit { current: Some(bytes), maximum: Some(bytes) };
            prlimit(Some(Pid::from_child(&child)), Resource::Fsize, limit).unwrap();
        }
        if let Some(mut pipe) = child.stdin.take() {
            let bytes = self.stdin.clone().unwrap_or_default();
            // A call that ends without reading its stdin breaks the pipe; its status and words say whether that was right.
            thread::spawn(move || drop(pipe.write_all(&bytes)));
        }
        let outputs = match terminal {
            Some((_, terminal)) => [Some(drain(terminal.into_reader())), child.stderr.take().map(drain)],
            None => [child.stdout.take().map(drain), child.stderr.take().map(drain)],
        };
        let [stdout, stderr] = outputs.map(|output| {
            output.map(|receiver| {
                receiver.recv_timeout(Duration::from_secs(CALL_SECONDS_MAX)).unwrap_or_else(|_| {
                    drop(child.kill());
                    panic!("{:?} has not ended after {CALL_SECONDS_MAX} s", self.command)
                })
            })
        });
        let status = status_of(child.wait().unwrap());
        Ended { stdout: stdout.unwrap_or_default(), stderr: stderr.unwrap_or_default(), status, took: start.elapsed() }
    }
}

/// The status as a shell tells it.
pub fn status_of(status: ExitStatus) -> i32 {
    status.code().or_else(|| status.signal().map(|signal| 128 + signal)).unwrap()
}

/// Reads to the end in a thread; a terminal's end is an error.
fn drain(mut from: impl Read + Send + 'static) -> mpsc::Receiver<Vec<u8>> {
    let (send, receive) = mpsc::channel();
    thread::spawn(move || {
        let mut bytes = Vec::new();
        drop(from.read_to_end(&mut bytes));
        drop(send.send(bytes));
    });
    receive
}

/// Makes calls at once, each from its own thread, and asserts each.
#[track_caller]
pub fn at_once(calls: Vec<Call>) -> Vec<Ended> {
    let gate = std::sync::Barrier::new(calls.len());
    let gate = &gate;
    thread::scope(|scope| {
        let threads: Vec<_> = calls
            .into_iter()
            .map(|call| {
                scope.spawn(move || {
                    gate.wait();
                    call.check()
                })
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    })
}

/// Waits until a condition holds; fails after ten seconds.
#[track_caller]
pub fn wait_until(what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(10);
    while !holds() {
        assert!(Instant::now() < deadline, "waited in vain until {what}");
        thread::park_timeout(Duration::from_millis(1));
    }
}

/// Says on stderr, past the test runner's capture, that a test could not look.
pub fn skipped(test: &str, why: &str) {
    std::io::stderr().write_all(format!("SKIPPED {test}: {why}\n").as_bytes()).unwrap();
}

/// Whether the tests run as root, whom permission bits do not bind.
pub fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// Whether this machine has the program.
pub fn has(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap();
    std::env::split_paths(&path)
        .any(|dir| fs::metadata(dir.join(program)).is_ok_and(|file| file.is_file() && file.mode() & 0o111 != 0))
}
