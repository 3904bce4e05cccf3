//! One flipped bit, anywhere in a sealed log: `self verify` finds it, and every other verb goes on.

use std::fs;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use crate::kills::goes_on;

const BODY: &str = "{\"name\":\"command.declared\",\"payload\":{\"name\":\"x\",\"event\":{\"name\":\"a.b\"}}}\n```self command/x\n#!/bin/sh\necho '{\"name\":\"a.b\"}'\n```\n";

fn kernel(home: &Path, arguments: &[&str]) -> Output {
    let mut kernel = Command::new(env!("CARGO_BIN_EXE_self"));
    kernel.args(arguments).env("SELF_HOME", home).env_remove("XDG_STATE_HOME").env_remove("HOME");
    kernel.stdin(Stdio::null()).output().unwrap()
}

#[test]
fn d10_a_flipped_bit_at_any_byte_of_a_sealed_log_is_found() {
    let folder = tempfile::tempdir().unwrap();
    let home = folder.path().join("home");
    goes_on(&home, folder.path(), "d10");
    let body = folder.path().join("body");
    fs::write(&body, BODY).unwrap();
    let mut hear = Command::new(env!("CARGO_BIN_EXE_self"));
    hear.arg("hear").env("SELF_HOME", &home).env_remove("XDG_STATE_HOME").env_remove("HOME");
    assert!(hear.stdin(fs::File::open(&body).unwrap()).stderr(Stdio::null()).status().unwrap().success());
    let path = home.join("events.jsonl");
    let log = fs::read(&path).unwrap();
    assert!(kernel(&home, &["verify"]).status.success());
    let (mut found, mut told) = (0, 0);
    for at in 0..log.len() {
        let mut flipped = log.clone();
        flipped[at] ^= 1 << (at * 5 % 8);
        fs::write(&path, &flipped).unwrap();
        let verified = kernel(&home, &["verify"]);
        let text = String::from_utf8_lossy(&verified.stdout).into_owned();
        assert_eq!(verified.status.code(), Some(1), "byte {at}: {text}");
        assert!(text.contains("fault: line "), "byte {at}: {text}");
        found += 1;
        for verb in [["show", "brief"].as_slice(), &["quiet"]] {
            let other = kernel(&home, verb);
            let said = String::from_utf8_lossy(&other.stderr).into_owned();
            assert!(matches!(other.status.code(), Some(0 | 1)), "byte {at}, {verb:?}: {said}");
            for what in ["is damaged at", "are passed over"] {
                let warnings = said.lines().filter(|line| line.contains(what)).count();
                assert!(warnings <= 1, "byte {at}, {verb:?}: {said}");
                told += warnings;
            }
        }
        assert_eq!(fs::read(&path).unwrap(), flipped, "byte {at}: a reader wrote");
    }
    println!("d10: {} bytes, one bit of each flipped: found {found}, missed 0; other verbs said so {told} times", log.len());
}
