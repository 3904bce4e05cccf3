//! Many at once: first starts, and readers beside writers of large records; and the crash sequences at length.

use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use serde_json::Value;

use crate::crashes::{sequences, sequences_on_a_disk_that_lies};

const FIRST_ROUNDS: u64 = 10;
const STARTS: u64 = 32;
const BODIES: u64 = 40;
const SEEDS: u64 = 1_500;

fn kernel(home: &Path, arguments: &[&str]) -> Command {
    let mut kernel = Command::new(env!("CARGO_BIN_EXE_self"));
    kernel.args(arguments).env("SELF_HOME", home).env("XDG_STATE_HOME", home.with_file_name("state"));
    kernel.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    kernel
}

/// Hears a body; what was said on stderr.
fn hear(home: &Path, body: &str) -> String {
    let mut child = kernel(home, &["hear"]).stdin(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(body.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{said}");
    said
}

fn verified(home: &Path) -> Value {
    serde_json::from_slice(&kernel(home, &["verify", "--json"]).output().unwrap().stdout).unwrap()
}

#[test]
fn k1_racing_first_starts_make_one_key_and_every_receipt_verifies() {
    for round in 0..FIRST_ROUNDS {
        let folder = tempfile::tempdir().unwrap();
        let home = folder.path().join("home");
        thread::scope(|scope| {
            for n in 0..STARTS {
                let home = &home;
                scope.spawn(move || {
                    let declared = format!("{{\"name\":\"command.declared\",\"payload\":{{\"name\":\"x{n}\"}}}}\n");
                    hear(home, &format!("{declared}```self command/x{n}\n#!/bin/sh\n```\n"))
                });
            }
        });
        let report = verified(&home);
        let counted = ["ok", "receipts", "seals", "unsealed"].map(|key| report[key].to_string());
        assert_eq!(counted, ["true", "32", "32", "0"], "round {round}: {report}");
        assert_eq!(fs::read(home.join(".secret")).unwrap().len(), 65);
    }
    println!(
        "k1: {FIRST_ROUNDS} rounds of {STARTS} racing first starts: one key each, {} receipts, all genuine",
        FIRST_ROUNDS * STARTS
    );
}

#[test]
fn readers_beside_writers_of_megabyte_records_see_whole_batches_only() {
    let folder = tempfile::tempdir().unwrap();
    let home = folder.path().join("home");
    hear(&home, "{\"name\":\"home.made\"}\n");
    let big = "x".repeat(1 << 20);
    let (writing, reads) = (AtomicU64::new(2), AtomicU64::new(0));
    thread::scope(|scope| {
        for writer in 0..2 {
            let (home, big, writing) = (&home, &big, &writing);
            scope.spawn(move || {
                for n in 0..BODIES {
                    let one = format!("{{\"name\":\"note.taken\",\"payload\":{{\"w\":{writer},\"n\":{n}}}}}\n");
                    hear(home, &format!("{one}{{\"name\":\"note.taken\",\"payload\":\"{big}\"}}\n"));
                }
                writing.fetch_sub(1, Ordering::SeqCst);
            });
        }
        for verb in [["quiet"].as_slice(), &["show", "brief"], &["verify"]] {
            let (home, writing, reads) = (&home, &writing, &reads);
            scope.spawn(move || {
                while writing.load(Ordering::SeqCst) > 0 {
                    let read = kernel(home, verb).output().unwrap();
                    let said = String::from_utf8_lossy(&read.stderr).into_owned();
                    assert!(read.status.success(), "{verb:?}: {said}{}", String::from_utf8_lossy(&read.stdout));
                    // A slow verify tells how far it is; whoever cannot have the lock for 100 ms says that a write may be under way.
                    let is_usual =
                        |line: &&str| line.starts_with("self: verified ") || line.ends_with("a write that is under way");
                    let words: Vec<_> = said.lines().filter(|line| !is_usual(line)).collect();
                    assert!(words.is_empty(), "{verb:?}: {words:?}");
                    reads.fetch_add(1, Ordering::SeqCst);
                }
            });
        }
    });
    let report = verified(&home);
    assert_eq!((report["ok"].as_bool(), report["events"].as_u64()), (Some(true), Some(2 + 2 * 2 * BODIES)), "{report}");
    let reads = reads.into_inner();
    println!("readers: {reads} reads beside {} batches of a megabyte: no torn line, no damage, lost 0", 2 * BODIES);
    assert!(reads > 10);
}

#[test]
fn random_sequences_on_a_disk_that_loses_unsynced_sectors_lose_nothing_acknowledged() {
    let (deaths, acknowledged) = sequences(1_000..=999 + SEEDS);
    println!("crashes: {SEEDS} sequences, {deaths} deaths, acknowledged {acknowledged} events, lost 0");
    let lost = sequences_on_a_disk_that_lies(1_000..=1_019);
    println!("crashes control, a disk that lies: 20 sequences, {lost} lost something");
    assert!(lost > 0);
}
