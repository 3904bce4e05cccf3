//! Writers that are killed at any moment: what was acknowledged to them is there.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::Duration;

use rustix::process::{Pid, Signal};
use serde_json::Value;

const ROUNDS: u64 = 200;
const WRITERS: u64 = 4;

/// Hears body after body of three events until it is killed, and writes down each that was acknowledged.
const WRITER: &str = r#"
    n=0
    while [ $n -lt 100000 ]; do
        n=$((n + 1))
        for k in 1 2 3; do printf '{"name":"note.taken","payload":{"w":"%s","n":%s,"k":%s}}\n' "$W" $n $k; done |
            "$SELF" hear >/dev/null 2>&1 && echo $n >&2
    done"#;

/// A running writer, in a process group of its own.
pub struct Writer {
    name: String,
    told: PathBuf,
    shell: Child,
}

impl Writer {
    pub fn start(home: &Path, beside: &Path, name: &str) -> Writer {
        let told = beside.join(format!("told-{name}"));
        let mut shell = Command::new("sh");
        shell.args(["-c", WRITER]).env("W", name).env("SELF", env!("CARGO_BIN_EXE_self")).env("SELF_HOME", home);
        shell.env("XDG_STATE_HOME", beside.join("state")).process_group(0);
        shell.stdin(Stdio::null()).stdout(Stdio::null()).stderr(File::create(&told).unwrap());
        Writer { name: name.to_owned(), told, shell: shell.spawn().unwrap() }
    }

    /// The bodies that were acknowledged to it so far.
    pub fn told(&self) -> Vec<(String, u64)> {
        let told = fs::read_to_string(&self.told).unwrap();
        // The last line may be cut.
        let whole = told.rsplit_once('\n').map_or("", |(whole, _)| whole);
        whole.lines().map(|n| (self.name.clone(), n.parse().unwrap())).collect()
    }

    /// Kills the writer with everything it started; returns the bodies that were acknowledged to it.
    pub fn kill(mut self) -> Vec<(String, u64)> {
        rustix::process::kill_process_group(Pid::from_child(&self.shell), Signal::KILL).unwrap();
        self.shell.wait().unwrap();
        let told = self.told();
        fs::remove_file(&self.told).unwrap();
        told
    }
}

/// The bodies of a log, by writer and number. Asserts that numbers have no gap, and that each body is whole.
pub fn bodies(home: &Path, case: &str) -> BTreeSet<(String, u64)> {
    let log = fs::read(home.join("events.jsonl")).unwrap_or_default();
    let whole = log.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
    let (mut seq, mut bodies, mut parts) = (0, BTreeSet::new(), 0);
    for line in log[..whole].split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
        let record: Value = serde_json::from_slice(line).unwrap_or_else(|fault| panic!("{case}: {fault}"));
        seq += 1;
        assert_eq!(record["seq"].as_u64(), Some(seq), "{case}: seq");
        if record["name"] == "note.taken" {
            let payload = &record["payload"];
            parts += 1;
            assert_eq!(payload["k"].as_u64(), Some(parts), "{case}: a body was interrupted");
            if parts == 3 {
                parts = 0;
                bodies.insert((payload["w"].as_str().unwrap().to_owned(), payload["n"].as_u64().unwrap()));
            }
        }
    }
    bodies
}

/// How many of the acknowledged bodies are not there.
pub fn lost(home: &Path, told: &[(String, u64)], case: &str) -> usize {
    let there = bodies(home, case);
    told.iter().filter(|body| !there.contains(*body)).count()
}

/// Hears one more event, which sets a torn tail aside.
pub fn goes_on(home: &Path, state: &Path, case: &str) {
    let line = r#"printf '{"name":"round.over","payload":{}}\n' | "$SELF" hear"#;
    let mut shell = Command::new("sh");
    shell.args(["-c", line]).env("SELF", env!("CARGO_BIN_EXE_self")).env("SELF_HOME", home).env("XDG_STATE_HOME", state);
    let output = shell.output().unwrap();
    assert!(output.status.success(), "{case}: {}", String::from_utf8_lossy(&output.stderr));
}

/// Asserts that `self verify` finds no fault.
pub fn is_sound(home: &Path, state: &Path, case: &str) {
    let mut verify = Command::new(env!("CARGO_BIN_EXE_self"));
    let output = verify.arg("verify").env("SELF_HOME", home).env("XDG_STATE_HOME", state).output().unwrap();
    assert!(output.status.success(), "{case}: {}", String::from_utf8_lossy(&output.stdout));
}

#[test]
fn d1_after_kill_9_every_acknowledged_event_is_there() {
    let folder = tempfile::tempdir().unwrap();
    let (home, state) = (folder.path().join("home"), folder.path().join("state"));
    let mut told = Vec::new();
    for round in 0..ROUNDS {
        let writers: Vec<_> =
            (0..WRITERS).map(|writer| Writer::start(&home, folder.path(), &format!("{round}.{writer}"))).collect();
        sleep(Duration::from_millis(15 + round * 37 % 90));
        for writer in writers {
            told.extend(writer.kill());
        }
        goes_on(&home, &state, &format!("round {round}"));
    }
    let lost = lost(&home, &told, "d1");
    is_sound(&home, &state, "d1");
    println!("d1: {ROUNDS} rounds, {WRITERS} writers, acknowledged {} events, lost {lost}", told.len() * 3);
    assert_eq!(lost, 0);
    assert!(told.len() as u64 > ROUNDS, "too little was acknowledged to show anything: {}", told.len());
}
