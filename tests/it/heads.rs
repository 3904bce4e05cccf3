//! The head outside of the home: one warning when a log has been longer, whatever made it shorter. FORMATS §2.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use crate::home::{Home, first_line, is_root, line, skipped};

const NOTE: &str = r#"{"name":"note.taken","payload":{"n":1}}"#;
const MISSING: &str = "this log has been longer";

/// The head's file, and what it holds.
#[track_caller]
fn head(home: &Home) -> (std::path::PathBuf, String) {
    let mut heads: Vec<_> = fs::read_dir(home.beside("state/self/heads")).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert_eq!(heads.len(), 1, "{heads:?}");
    let path = heads.pop().unwrap();
    let text = fs::read_to_string(&path).unwrap();
    (path, text)
}

#[track_caller]
fn remembers(home: &Home, seq: u64) {
    let (_, text) = head(home);
    let bytes = home.log().len();
    assert!(text.starts_with(&format!(r#"{{"seq":{seq},"bytes":{bytes},"mac":""#)), "{text}");
}

#[test]
fn every_append_is_remembered_privately() {
    let home = Home::made();
    remembers(&home, 2);
    home.run(["ask", "hi"]).stdout_any().check();
    remembers(&home, 3);
    let (path, _) = head(&home);
    for (path, mode) in [(path.as_path(), 0o600), (path.parent().unwrap(), 0o700)] {
        assert_eq!(fs::metadata(path).unwrap().permissions().mode() & 0o777, mode, "{}", path.display());
    }
    assert_eq!(path.file_name().unwrap().len(), 64);
}

#[test]
fn yesterdays_log_over_todays_is_one_warning_that_counts_what_is_missing() {
    let verbs: [&[&str]; 6] = [&["quiet"], &["show", "brief"], &["ask", "hi"], &["work"], &["run", "nothing"], &["rehydrate"]];
    for verb in verbs {
        let home = Home::made();
        let yesterday = home.log();
        for _ in 0..3 {
            home.hear(NOTE);
        }
        home.write_log(&yesterday);
        let ended = home.run(verb).end();
        let warnings: Vec<_> = ended.said().lines().filter(|line| line.contains(MISSING)).map(str::to_owned).collect();
        let bytes = yesterday.len();
        assert_eq!(warnings.len(), 1, "{verb:?}: {}", ended.said());
        assert!(warnings[0].contains("3 events are missing; it ended with seq 5"), "{warnings:?}");
        assert!(warnings[0].ends_with(&format!("now with seq 2 at byte {bytes}")), "{warnings:?}");
        // It goes on from what is there, and says so no more.
        let again = home.run(["quiet"]).end();
        assert!(!again.said().contains(MISSING), "{verb:?} again: {}", again.said());
        home.hear(NOTE);
        assert!(home.log().starts_with(&yesterday));
    }
}

#[test]
fn a_log_that_is_gone_is_missed() {
    let home = Home::made();
    fs::remove_file(home.join("events.jsonl")).unwrap();
    home.run(["quiet"]).stderr_has(&["2 events are missing", "now with seq 0 at byte 0"]).check();
    home.run(["quiet"]).check();
}

#[test]
fn a_log_of_the_same_numbers_that_lost_bytes_is_missed() {
    let home = Home::made();
    let log = String::from_utf8(home.log()).unwrap();
    home.write_log(log.replace("home.made", "home.mad"));
    home.run(["quiet"]).stderr_has(&["1 byte is missing"]).check();
}

#[test]
fn the_first_command_after_a_cut_warns_and_appends_all_the_same() {
    let home = Home::made();
    home.hear(NOTE);
    let kept = home.log().len() - 9;
    home.sh("truncate -s -9 events.jsonl").check();
    let said = home.run(["hear"]).stdin(NOTE).stderr_has(&["1 event is missing", "set", "aside"]).check().said();
    assert_eq!(said.matches(MISSING).count(), 1);
    assert!(home.log().len() > kept);
    home.run(["quiet"]).check();
}

#[test]
fn a_log_that_grew_by_another_hand_is_no_news() {
    let home = Home::made();
    home.append(line(3, "pipe", "a.b", "{}"));
    home.run(["quiet"]).check();
    home.hear(NOTE);
    remembers(&home, 4);
}

#[test]
fn a_forged_or_foreign_head_is_none() {
    let home = Home::made();
    let (path, text) = head(&home);
    for forged in [text.replace("\"seq\":2", "\"seq\":9"), "{}".to_owned(), "\0\0\0".to_owned(), String::new()] {
        fs::write(&path, forged).unwrap();
        home.run(["quiet"]).check();
    }
    home.hear(NOTE);
    remembers(&home, 3);
}

#[test]
fn a_head_that_cannot_be_written_costs_the_warning_only() {
    let home = Home::made();
    let (path, _) = head(&home);
    fs::remove_dir_all(home.beside("state/self")).unwrap();
    fs::write(home.beside("state/self"), "in the way").unwrap();
    home.run(["hear"]).stdin(NOTE).stderr_has(&["heard seq 3"]).check();
    assert!(!path.exists());
    home.write_log(first_line());
    home.run(["quiet"]).check();
}

#[test]
fn without_a_place_for_state_nothing_is_remembered() {
    let home = Home::new();
    home.run(["hear"]).without("HOME").without("XDG_STATE_HOME").stdin(NOTE).stderr_any().check();
    home.run(["hear"]).without("HOME").env("XDG_STATE_HOME", "relative").stdin(NOTE).stderr_any().check();
    assert!(!home.join("relative").exists() && !home.beside("state/self").exists());
    home.run(["hear"]).without("XDG_STATE_HOME").stdin(NOTE).stderr_any().check();
    assert!(home.beside("user/.local/state/self/heads").exists());
}

#[test]
fn a_head_that_cannot_be_read_is_no_error() {
    if is_root() {
        return skipped("a_head_that_cannot_be_read_is_no_error", "permission bits do not bind root");
    }
    let home = Home::made();
    let (path, _) = head(&home);
    fs::set_permissions(&path, fs::Permissions::from_mode(0o0)).unwrap();
    home.run(["quiet"]).check();
}

#[test]
fn two_homes_are_two_heads() {
    let home = Home::made();
    home.sh("cp -R . ../other && cd ../other && self hear").stdin(NOTE).stderr_any().check();
    let heads = fs::read_dir(home.beside("state/self/heads")).unwrap().count();
    assert_eq!(heads, 2);
    home.run(["quiet"]).check();
}

#[test]
fn a_moved_home_goes_on_where_it_is() {
    let home = Home::made();
    home.hear(NOTE);
    home.sh("mv ../home ../elsewhere && cd ../elsewhere && self hear && self verify")
        .stdin(NOTE)
        .stdout_has(&["no fault"])
        .stderr_has(&["heard seq 4"])
        .check();
}

#[test]
fn a_restored_log_and_key_are_a_sound_home_anywhere() {
    let home = Home::made();
    home.hear(NOTE);
    home.sh(
        "mkdir ../restored && cp -p events.jsonl .secret ../restored && cd ../restored && self verify --seal && self rehydrate",
    )
    .stdout_has(&["sealed: seq 4", "no fault"])
    .stderr_any()
    .check();
    home.run(["verify"]).stdout_has(&["no fault"]).check();
}
