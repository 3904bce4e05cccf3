//! A long record: memory stays flat, and a kill at any moment is completed by learning again, without doubles.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

const SHORT: u64 = 20_000;
const LONG: u64 = 200_000;
const MEMORY_KIB_MAX: u64 = 64 << 10;
const KILLS: usize = 8;

/// An account with a record of so many events of about 250 bytes.
fn account(folder: &Path, events: u64) {
    let mut record = String::new();
    for seq in 1..=events {
        let text = "x".repeat(usize::try_from(50 + seq * 7919 % 100).unwrap());
        writeln!(
            record,
            "{{\"id\":\"{seq:032x}\",\"seq\":{seq},\"name\":\"note.added\",\"occurred_at\":\"2026-11-30T10:34:18.{seq:09}Z\",\
             \"via\":\"cli\",\"by\":\"ada\",\"payload\":{{\"n\":{seq},\"text\":\"{text}\"}}}}"
        )
        .unwrap();
    }
    fs::create_dir_all(folder).unwrap();
    fs::write(folder.join("intent.md"), "Keep the notes.\n").unwrap();
    fs::write(folder.join("record.jsonl"), record).unwrap();
}

fn learn(home: &Path, account: &Path) -> Child {
    let mut kernel = Command::new(env!("CARGO_BIN_EXE_self"));
    kernel.arg("learn").arg(account).env("SELF_HOME", home).env("XDG_STATE_HOME", home.with_extension("state"));
    kernel.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
}

/// Waits for a process, and tells the most memory it ever held, in KiB, as far as it was seen.
fn peak(mut child: Child) -> u64 {
    let mut peak = 0;
    loop {
        let status = fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap_or_default();
        let held = status.lines().find_map(|line| line.strip_prefix("VmHWM:")?.trim().strip_suffix(" kB")?.parse().ok());
        peak = peak.max(held.unwrap_or(0));
        if let Some(status) = child.try_wait().unwrap() {
            assert!(status.success());
            return peak;
        }
        sleep(Duration::from_millis(1));
    }
}

/// The payloads of the notes; after a kill the last line may be cut anywhere.
fn notes(home: &Path) -> Vec<String> {
    let log = fs::read_to_string(home.join("events.jsonl")).unwrap();
    let notes = log.lines().filter(|line| line.contains("\"name\":\"note.added\""));
    notes.filter_map(|line| Some(line.split_once("\"payload\":")?.1.to_owned())).collect()
}

#[test]
fn a_record_of_200_000_events_is_learned_in_flat_memory_and_given_again_the_same() {
    let folder = tempfile::tempdir().unwrap();
    let mut peaks = Vec::new();
    for events in [SHORT, LONG] {
        let [home, dir] = ["home", "account"].map(|name| folder.path().join(format!("{name}-{events}")));
        account(&dir, events);
        let start = Instant::now();
        let held = peak(learn(&home, &dir));
        println!("accounts: {events} events learned in {} ms, {held} KiB at most", start.elapsed().as_millis());
        assert_eq!(notes(&home).len() as u64, events);
        peaks.push(held);
    }
    assert!(peaks.iter().all(|held| *held < MEMORY_KIB_MAX), "{peaks:?} KiB; the limit is {MEMORY_KIB_MAX}");
    let home = folder.path().join(format!("home-{LONG}"));
    let mut given = Command::new(env!("CARGO_BIN_EXE_self"));
    given.args(["give", "note."]).arg(folder.path().join("given"));
    let start = Instant::now();
    let held = peak(given.env("SELF_HOME", &home).stderr(Stdio::null()).spawn().unwrap());
    println!("accounts: {LONG} events given in {} ms, {held} KiB at most", start.elapsed().as_millis());
    assert!(held < MEMORY_KIB_MAX);
    let payloads = |path: &Path| -> Vec<String> {
        let text = fs::read_to_string(path.join("record.jsonl")).unwrap();
        text.lines().map(|line| line.split_once("\"payload\":").unwrap().1.to_owned()).collect()
    };
    assert!(payloads(&folder.path().join("given")) == payloads(&folder.path().join(format!("account-{LONG}"))));
}

#[test]
fn learning_that_is_killed_is_completed_by_learning_again() {
    let folder = tempfile::tempdir().unwrap();
    let [home, dir] = ["home", "account"].map(|name| folder.path().join(name));
    account(&dir, LONG);
    let bytes = || fs::metadata(home.join("events.jsonl")).map_or(0, |facts| facts.len());
    let mut landed = Vec::new();
    while landed.len() < KILLS {
        let (before, mut child) = (bytes(), learn(&home, &dir));
        while bytes() == before && child.try_wait().unwrap().is_none() {
            sleep(Duration::from_micros(200));
        }
        sleep(Duration::from_millis(landed.len() as u64 % 4));
        child.kill().unwrap();
        child.wait().unwrap();
        landed.push(notes(&home).len());
    }
    assert!(learn(&home, &dir).wait().unwrap().success());
    let notes = notes(&home);
    let all: std::collections::BTreeSet<_> = notes.iter().collect();
    println!("accounts: killed {KILLS} times while learning, at {landed:?} events; {} in the end, none twice", notes.len());
    assert_eq!((notes.len() as u64, all.len() as u64), (LONG, LONG));
    assert!(landed.iter().any(|landed| (*landed as u64) < LONG), "no kill came in the middle");
}
