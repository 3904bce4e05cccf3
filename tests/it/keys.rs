//! The key of a home: made once, private, never replaced, never shown. TRUST §4.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};

use crate::home::{Ends, Home, assert_whole, at_once, first_line, is_root, line, skipped};

const NOTE: &str = r#"{"name":"note.taken","payload":{"n":1}}"#;

#[test]
fn k1_racing_first_runs_make_one_key_and_one_home() {
    for _ in 0..3 {
        let home = Home::new();
        let call = |n: usize| match n % 2 {
            0 => home.run(["ask", "hi"]).stdout_any().stderr_any(),
            _ => home.run(["hear"]).stdin(NOTE).stderr_any(),
        };
        let ended = at_once((0..32).map(call).collect());
        let records = home.records();
        assert_whole(&records);
        assert_eq!(records[0].told(), "1 kernel kernel.initialized {}");
        assert_eq!((records.len(), home.count("kernel.initialized")), (33, 1));
        let key = fs::read_to_string(home.join(".secret")).unwrap();
        assert!(key.len() == 65 && key.trim_end().bytes().all(|byte| byte.is_ascii_hexdigit()), "{} bytes", key.len());
        assert_eq!(home.mode(".secret"), 0o600);
        let said_so = ended.iter().filter(|ended| ended.said().contains(home.path().to_str().unwrap())).count();
        assert_eq!(said_so, 1, "who made the home says so, nobody else");
        let mut left: Vec<_> =
            fs::read_dir(home.path()).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        left.sort();
        left.retain(|name| name != "site");
        assert_eq!(left, [".secret", ".self", "events.jsonl"], "a temporary file was left");
    }
}

#[test]
fn every_home_has_a_key_of_its_own() {
    let keys = [Home::made(), Home::made()].map(|home| fs::read(home.join(".secret")).unwrap());
    assert_ne!(keys[0], keys[1]);
    assert!(keys[0].iter().collect::<std::collections::BTreeSet<_>>().len() > 8, "no random digits");
}

/// Asserts that a home with this key is read, that its key is named with what mends it, and that nobody mends it silently.
#[track_caller]
fn check_refused(home: &Home, parts: &[&str]) {
    let before = fs::symlink_metadata(home.join(".secret")).unwrap();
    let log = home.log();
    let all = [&[".secret"], parts].concat();
    home.run(["show", "brief"]).stdout_any().stderr_has(&all).check();
    home.run(["quiet"]).stderr_has(&all).check();
    let ended = home.run(["ask", "hi"]).end();
    for part in all {
        assert!(ended.said().contains(part), "`{part}` is not in {}", ended.said());
    }
    let after = fs::symlink_metadata(home.join(".secret")).unwrap();
    let of = |file: &fs::Metadata| (file.ino(), file.mode(), file.uid(), file.size());
    assert_eq!(of(&after), of(&before), "the key was mended silently");
    assert!(home.log().starts_with(&log));
}

#[test]
fn k2_a_key_that_others_may_read_is_named_with_the_command_that_mends_it() {
    for mode in [0o644, 0o640, 0o604, 0o660, 0o620, 0o601] {
        let home = Home::made();
        fs::set_permissions(home.join(".secret"), fs::Permissions::from_mode(mode)).unwrap();
        check_refused(&home, &[&format!("{mode:o}"), "chmod 600"]);
    }
}

#[test]
fn k2_a_key_of_mode_0600_or_0400_is_right() {
    for mode in [0o600, 0o400] {
        let home = Home::made();
        fs::set_permissions(home.join(".secret"), fs::Permissions::from_mode(mode)).unwrap();
        home.run(["show", "brief"]).stdout_any().check();
        home.run(["ask", "hi"]).stdout_any().check();
    }
}

#[test]
fn k2_a_key_of_another_owner_is_named() {
    if !is_root() {
        return skipped("k2_a_key_of_another_owner_is_named", "only root can give a file away");
    }
    let home = Home::made();
    chown(home.join(".secret"), Some(65_534), None).unwrap();
    check_refused(&home, &["chown"]);
}

#[test]
fn k2_a_key_that_is_no_key_is_named() {
    for bytes in ["", "\n", "abc", "abcd", &"0".repeat(62), &"z".repeat(64), &format!("{}\0", "0".repeat(63))] {
        let home = Home::made();
        home.write_private(".secret", bytes);
        check_refused(&home, &[]);
    }
}

#[test]
fn k2_a_key_that_is_no_file_is_named_and_never_waited_for() {
    for make in ["mkdir .secret", "mkfifo -m 600 .secret", "ln -s /dev/null .secret"] {
        let home = Home::made();
        fs::remove_file(home.join(".secret")).unwrap();
        home.sh(make).check();
        check_refused(&home, &[]);
    }
}

#[test]
fn a_key_in_capitals_and_with_a_crlf_is_the_key() {
    let home = Home::made();
    let key = fs::read_to_string(home.join(".secret")).unwrap();
    home.write_private(".secret", key.trim_end().to_uppercase() + " \r\n\n");
    home.run(["ask", "hi"]).stdout_any().check();
}

fn home_with_a_receipt() -> Home {
    let receipt = r##"{"type":"command","name":"note","script":"#!/bin/sh\n","by":"ada","seq":3,"declaration":"00","sig":"00"}"##;
    Home::with_log(
        first_line()
            + &line(2, "pipe", "command.declared", r#"{"name":"note","event":{"name":"note.added"}}"#)
            + &line(3, "kernel", "script.compiled", receipt),
    )
}

#[test]
fn k3_no_new_key_is_made_while_the_log_holds_a_receipt() {
    let home = home_with_a_receipt();
    for (verb, status) in [(["show", "brief"].as_slice(), 0), (&["ask", "hi"], 0), (&["work"], 0)] {
        home.run(verb).status(status).stdout_any().stderr_has(&[".secret", "restore"]).check();
        assert!(!home.join(".secret").exists(), "{verb:?} made a key");
    }
    home.run(["hear"]).stdin(NOTE).stderr_has(&[".secret", "restore"]).check();
    assert!(!home.join(".secret").exists(), "hearing made a key");
    assert_eq!(
        home.told().last().unwrap(),
        r#"5 pipe note.taken {"n":1}"#.replace('5', &home.records().len().to_string()).as_str()
    );
}

#[test]
fn k3_a_seal_in_the_log_is_as_good_as_a_receipt() {
    let seal = r#"{"through":1,"digest":"00","mac":"00"}"#;
    let home = Home::with_log(first_line() + &line(2, "kernel", "log.sealed", seal));
    home.run(["ask", "hi"]).stdout_any().stderr_has(&[".secret"]).check();
    assert!(!home.join(".secret").exists());
}

#[test]
fn k3_a_receipt_through_another_door_does_not_count() {
    let forged = r#"{"type":"command","name":"note","script":"x","sig":"00"}"#;
    let home = Home::with_log(first_line() + &line(2, "learn:tides", "script.compiled", forged));
    home.run(["ask", "hi"]).stdout_any().stderr_any().check();
    assert_eq!(home.mode(".secret"), 0o600);
}

#[test]
fn k3_a_script_is_not_judged_without_the_key() {
    let home = home_with_a_receipt();
    home.run(["hear"]).stdin("```self command/note\n#!/bin/sh\n```\n").status(75).stdout_any().stderr_has(&[".secret"]).check();
    assert_eq!(home.count("script.rejected"), 0);
    assert!(!home.join(".secret").exists());
}

#[test]
fn a_log_without_a_receipt_gets_a_key() {
    let home = Home::with_log(first_line());
    home.run(["ask", "hi"]).stdout_any().stderr_any().check();
    assert_eq!((home.mode(".secret"), fs::read(home.join(".secret")).unwrap().len()), (0o600, 65));
    assert_eq!(home.count("kernel.initialized"), 1);
}

#[test]
fn k5_the_key_is_in_no_output_and_no_file() {
    let home = Home::made();
    let text = fs::read_to_string(home.join(".secret")).unwrap().trim_end().to_owned();
    let bytes = hex::decode(&text).unwrap();
    let mut seen: Vec<(String, Vec<u8>)> = Vec::new();
    let bodies =
        ["prose", NOTE, "```self command/x\n#!/bin/sh\n```", r#"{"name":"command.declared","payload":{"name":"note"}}"#, ""];
    let mut look = |home: &Home, verb: &[&str]| {
        for body in bodies {
            let ended = home.run(verb).stdin(body).end();
            seen.push((format!("stdout of {verb:?}"), ended.stdout));
            seen.push((format!("stderr of {verb:?}"), ended.stderr));
        }
    };
    let verbs: [&[&str]; 12] = [
        &[],
        &["ask"],
        &["hear"],
        &["work"],
        &["quiet"],
        &["show", "brief"],
        &["verify"],
        &["verify", "--json"],
        &["protocol"],
        &["help"],
        &["show", ".secret"],
        &["show", "../.secret"],
    ];
    for verb in verbs {
        look(&home, verb);
    }
    fs::set_permissions(home.join(".secret"), fs::Permissions::from_mode(0o644)).unwrap();
    look(&home, &["ask"]);
    home.write_private(".secret", format!("{text}z\n"));
    look(&home, &["hear"]);
    home.write_private(".secret", &text[..50]);
    look(&home, &["hear"]);
    let all = Ends { stdin: true, stdout: true, stderr: true };
    seen.push(("orientation".into(), home.run([""; 0]).terminal(all).end().stdout));
    for file in home.files().into_iter().filter(|file| !file.ends_with(".secret")) {
        seen.push((format!("{file:?}"), fs::read(home.join(&file)).unwrap_or_default()));
    }
    for heads in fs::read_dir(home.beside("state/self/heads")).into_iter().flatten() {
        seen.push(("the head".into(), fs::read(heads.unwrap().path()).unwrap()));
    }
    for (what, bytes_seen) in seen {
        let lower = bytes_seen.to_ascii_lowercase();
        let part = &text.as_bytes()[..24];
        assert!(!lower.windows(part.len()).any(|window| window == part), "the key is in {what}");
        assert!(!bytes_seen.windows(16).any(|window| window == &bytes[..16]), "the key's bytes are in {what}");
    }
}

#[test]
fn k5_the_key_is_in_no_environment_and_no_argument() {
    let home = Home::made();
    let text = fs::read_to_string(home.join(".secret")).unwrap().trim_end().to_owned();
    let mut command = home.run(["hear"]).into_command();
    command.stdin(std::process::Stdio::piped()).stdout(std::process::Stdio::null()).stderr(std::process::Stdio::null());
    let mut child = command.spawn().unwrap();
    for file in ["environ", "cmdline"] {
        let Ok(bytes) = fs::read(format!("/proc/{}/{file}", child.id())) else {
            skipped("k5_the_key_is_in_no_environment_and_no_argument", "no /proc here");
            break;
        };
        assert!(!String::from_utf8_lossy(&bytes).contains(&text));
    }
    drop(child.stdin.take());
    child.wait().unwrap();
}
