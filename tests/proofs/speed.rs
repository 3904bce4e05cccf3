//! Speed: what an ask and an append cost on a long log is what they cost on a short one.

use std::fs;
use std::fs::File;
use std::path::Path;
use std::process::{Command, Stdio};

const COUNTS: [u64; 2] = [1_000, 100_000];
const RUNS: u64 = 40;
const CPU_MS_MAX: u64 = 20;

/// The calls that the two verbs are measured by: arguments and body.
const VERBS: [(&[&str], &str); 2] = [(&["ask", "what is going on?"], ""), (&["hear"], "{\"name\":\"note.n1\",\"payload\":{}}\n")];

/// A home with a log of so many events of some 500 bytes, and its index.
fn home(count: u64) -> tempfile::TempDir {
    let home = tempfile::tempdir().unwrap();
    let mut log = String::new();
    for seq in 1..=count {
        let text = "x".repeat(200 + usize::try_from(seq * 7919 % 400).unwrap());
        log.push_str(&format!(
            "{{\"id\":\"{seq:032x}\",\"seq\":{seq},\"name\":\"note.n{}\",\"occurred_at\":\"2026-11-30T10:34:18.000000000Z\",\
             \"via\":\"cli\",\"by\":\"ada\",\"payload\":{{\"text\":\"{text}\"}}}}\n",
            seq % 20
        ));
    }
    fs::write(home.path().join("events.jsonl"), &log).unwrap();
    for (arguments, body) in [VERBS[1], (&["quiet"], "")] {
        assert!(call(home.path(), &[], arguments, body).status().unwrap().success());
    }
    home
}

/// A call of the kernel under another program, its output in a file: no prompt lingers there for its reader.
fn call(home: &Path, under: &[&str], arguments: &[&str], body: &str) -> Command {
    fs::write(home.join("body"), body).unwrap();
    let words: Vec<&str> = under.iter().copied().chain([env!("CARGO_BIN_EXE_self")]).chain(arguments.iter().copied()).collect();
    let mut command = Command::new(words[0]);
    command.args(&words[1..]).env("SELF_HOME", home).env("XDG_STATE_HOME", home.join("state"));
    command.stdin(File::open(home.join("body")).unwrap()).stdout(File::create(home.join("out")).unwrap()).stderr(Stdio::null());
    command
}

/// How many calls of the system the process itself makes, and the bytes that it reads and writes.
fn effort(home: &Path, arguments: &[&str], body: &str) -> (u64, u64) {
    let trace = home.join("trace");
    let under = ["strace", "-qq", "-o", trace.to_str().unwrap()];
    assert!(call(home, &under, arguments, body).status().unwrap().success());
    let trace = fs::read_to_string(trace).unwrap();
    let moves = |line: &str| ["read(", "write(", "pread64(", "pwrite64("].iter().any(|call| line.starts_with(call));
    let bytes = trace.lines().filter(|line| moves(line)).filter_map(|line| line.rsplit("= ").next()?.trim().parse::<u64>().ok());
    (trace.lines().count() as u64, bytes.sum())
}

fn nearly(what: &str, short: u64, long: u64) {
    let (less, more) = (short.min(long), short.max(long));
    assert!(more - less <= more / 20, "{what}: {short} at {} events, {long} at {}", COUNTS[0], COUNTS[1]);
}

/// The processor time of this process's children that have ended, in milliseconds; /proc counts in hundredths of a second.
fn children_cpu_ms() -> u64 {
    let stat = fs::read_to_string("/proc/self/stat").unwrap();
    let fields: Vec<&str> = stat.rsplit_once(')').unwrap().1.split_ascii_whitespace().collect();
    (fields[13].parse::<u64>().unwrap() + fields[14].parse::<u64>().unwrap()) * 10
}

fn cpu_ms_of_runs(home: &Path, arguments: &[&str], body: &str) -> u64 {
    let before = children_cpu_ms();
    for _ in 0..RUNS {
        assert!(call(home, &[], arguments, body).status().unwrap().success());
    }
    children_cpu_ms() - before
}

#[test]
fn an_ask_and_an_append_cost_on_a_long_log_what_they_cost_on_a_short_one() {
    let homes = COUNTS.map(home);
    for (arguments, body) in VERBS {
        let [short, long] = homes.each_ref().map(|home| effort(home.path(), arguments, body));
        println!("speed: {arguments:?}: calls and bytes {short:?} at {} events, {long:?} at {}", COUNTS[0], COUNTS[1]);
        nearly("calls of the system", short.0, long.0);
        nearly("bytes read and written", short.1, long.1);
        let [short, long] = homes.each_ref().map(|home| cpu_ms_of_runs(home.path(), arguments, body));
        println!("speed: {arguments:?}: {RUNS} runs take {short} and {long} ms of processor time");
        assert!(long < CPU_MS_MAX * RUNS && long <= short * 2 + 50, "{arguments:?}: {short} ms and {long} ms");
    }
}
