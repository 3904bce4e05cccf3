//! Speed, before there is an index: what an ask and an append cost on a log of 10,000 events.

use std::fs;
use std::io::{BufWriter, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

const EVENTS: u64 = 10_000;
const RUNS: u64 = 40;
const CPU_MS_MAX: u64 = 25;
const VERIFIED_EVENTS: u64 = 1_000_000;
const VERIFIED_IN: Duration = Duration::from_secs(10);

/// The processor time of this process's children that have ended, in milliseconds; /proc counts in hundredths of a second.
fn children_cpu_ms() -> u64 {
    let stat = fs::read_to_string("/proc/self/stat").unwrap();
    let fields: Vec<&str> = stat.rsplit_once(')').unwrap().1.split_ascii_whitespace().collect();
    (fields[13].parse::<u64>().unwrap() + fields[14].parse::<u64>().unwrap()) * 10
}

fn cpu_ms_a_run(home: &Path, body: &str) -> u64 {
    let before = children_cpu_ms();
    for _ in 0..RUNS {
        let mut kernel = Command::new(env!("CARGO_BIN_EXE_self"));
        kernel.env("SELF_HOME", home).stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        let mut child = kernel.spawn().unwrap();
        child.stdin.take().unwrap().write_all(body.as_bytes()).unwrap();
        assert!(child.wait().unwrap().success());
    }
    (children_cpu_ms() - before) / RUNS
}

#[test]
fn an_ask_and_an_append_on_ten_thousand_events_stay_under_25_ms() {
    let home = tempfile::tempdir().unwrap();
    let mut log = String::new();
    for seq in 1..=EVENTS {
        let text = "x".repeat(200 + usize::try_from(seq * 7919 % 400).unwrap());
        log.push_str(&format!(
            "{{\"id\":\"{seq:032x}\",\"seq\":{seq},\"name\":\"note.n{}\",\"occurred_at\":\"2026-11-30T10:34:18.000000000Z\",\
             \"via\":\"cli\",\"by\":\"ada\",\"payload\":{{\"text\":\"{text}\"}}}}\n",
            seq % 20
        ));
    }
    fs::write(home.path().join("events.jsonl"), &log).unwrap();
    let ask = cpu_ms_a_run(home.path(), "what is going on?\n");
    let append = cpu_ms_a_run(home.path(), "{\"name\":\"note.n1\",\"payload\":{}}\n");
    println!("speed: {EVENTS} events, {} bytes: ask {ask} ms, append {append} ms of processor time", log.len());
    assert!(ask < CPU_MS_MAX && append < CPU_MS_MAX, "ask {ask} ms, append {append} ms; the limit is {CPU_MS_MAX} ms");
}

#[test]
fn a_million_events_are_verified_in_under_ten_seconds() {
    let home = tempfile::tempdir().unwrap();
    let mut log = BufWriter::new(fs::File::create(home.path().join("events.jsonl")).unwrap());
    for seq in 1..=VERIFIED_EVENTS {
        let text = "x".repeat(250 + usize::try_from(seq * 7919 % 300).unwrap());
        let line = format!(
            "{{\"id\":\"{seq:032x}\",\"seq\":{seq},\"name\":\"note.n{}\",\"occurred_at\":\"2026-11-30T10:34:18.000000000Z\",\
             \"via\":\"cli\",\"by\":\"ada\",\"payload\":{{\"text\":\"{text}\"}}}}\n",
            seq % 20
        );
        log.write_all(line.as_bytes()).unwrap();
    }
    log.flush().unwrap();
    let bytes = log.get_ref().metadata().unwrap().len();
    let (start, before) = (Instant::now(), children_cpu_ms());
    let mut verify = Command::new(env!("CARGO_BIN_EXE_self"));
    assert!(verify.arg("verify").env("SELF_HOME", home.path()).stdout(Stdio::null()).status().unwrap().success());
    let (wall, cpu) = (start.elapsed(), children_cpu_ms() - before);
    println!("speed: {VERIFIED_EVENTS} events, {bytes} bytes: verified in {} ms, {cpu} ms of processor time", wall.as_millis());
    assert!(Duration::from_millis(cpu) < VERIFIED_IN, "{cpu} ms of processor time");
}
