//! `self doctor`: the faults it finds in a home and around it, what mends each, and that it touches nothing.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

use serde_json::Value;

use crate::home::{Ended, Home, has, is_root, line, skipped};

const NOTE: &str = r#"{"name":"note.taken","payload":{"n":1}}"#;

/// Runs the doctor; its status must say whether it names a fault.
#[track_caller]
fn seen(home: &Home, path: Option<&Path>, json: bool) -> Ended {
    let call = home.run(["doctor"].into_iter().chain(json.then_some("--json")));
    let call = match path {
        Some(path) => call.env("PATH", path),
        None => call,
    };
    let ended = call.stdout_any().end();
    assert_eq!(ended.said(), "");
    let has_fault = if json { !ended.text().contains("\"faults\":[]") } else { ended.text().contains("\nfault: ") };
    assert_eq!(ended.status, i32::from(has_fault), "{}", ended.text());
    ended
}

/// The lines that are not the machine's, with `HERE` for the home.
#[track_caller]
fn told(home: &Home) -> String {
    let of_the_machine = ["file system of", "confinement: ", "  not ", "interpreters: "];
    let text = seen(home, None, false).text().replace(home.path().to_str().unwrap(), "HERE");
    let kept = text.lines().filter(|line| !of_the_machine.iter().any(|start| line.starts_with(start)));
    kept.map(|line| format!("{line}\n")).collect()
}

/// The JSON.
#[track_caller]
fn json(home: &Home) -> Value {
    serde_json::from_str(&seen(home, None, true).text()).unwrap()
}

/// Checks the faults and what mends them, in JSON and as lines.
#[track_caller]
fn check(home: &Home, expect: &[[&str; 2]]) {
    let expect: Vec<_> = expect.iter().map(|pair| pair.map(|text| text.replace("HERE", home.path().to_str().unwrap()))).collect();
    let json = json(home);
    let faults = json["faults"].as_array().unwrap();
    let found: Vec<_> = faults.iter().map(|fault| ["fault", "mend"].map(|key| fault[key].as_str().unwrap().to_owned())).collect();
    assert_eq!(found, expect);
    let text = seen(home, None, false).text();
    let at = text.find("\nfault: ").map_or(text.len(), |at| at + 1);
    if !expect.iter().flatten().any(|text| text.chars().any(char::is_control)) {
        let lines: String = expect.iter().map(|[fault, mend]| format!("fault: {fault}\n  mend: {mend}\n")).collect();
        assert_eq!(&text[at..], lines);
    }
}

/// Does what the doctor says, and checks that nothing is left to do.
#[track_caller]
fn mend(home: &Home) {
    for fault in json(home)["faults"].as_array().unwrap() {
        home.sh(fault["mend"].as_str().unwrap()).stdout_any().check();
    }
    check(home, &[]);
}

#[test]
fn a_sound_home_has_no_fault() {
    let home = Home::made();
    let bytes = home.log().len();
    assert_eq!(
        told(&home),
        format!(
            "home: HERE, 2 events\nlog: {bytes} bytes, every line a record in its order; self verify proves more\n\
             head: the log has not been longer\nkey: mode 0600\nno fault was found\n"
        )
    );
    let json = json(&home);
    assert_eq!(json["log"], serde_json::json!({"bytes": bytes, "torn_bytes": 0, "damaged": 0, "misnumbered": 0}));
    assert_eq!((&json["git"], &json["copied_by"], &json["stale_markers"]), (&Value::Null, &Value::Null, &0.into()));
    assert_eq!(json["file_systems"].as_array().unwrap().len(), 1);
}

#[test]
fn a_torn_tail_is_a_fault_until_the_next_append() {
    let home = Home::made();
    let bytes = home.log().len();
    home.append("{\"torn");
    check(
        &home,
        &[[
            &format!("the log is torn at line 3, byte {bytes}: its last 6 bytes are no whole batch, and passed over"),
            "nothing need be done: the next append sets them aside in .self/torn; self verify has more",
        ]],
    );
    let said = format!("log: {bytes} bytes; torn bytes 6, damaged lines 0, odd numbers 0; self verify has each\n");
    assert!(told(&home).contains(&said));
    home.hear(NOTE);
    check(&home, &[]);
}

#[test]
fn damaged_lines_and_odd_numbers_are_placed() {
    let home = Home::made();
    let at = home.log().len();
    let (third, ninth) = (line(3, "pipe", "a.b", "{}"), line(9, "pipe", "a.b", "{}"));
    home.append(format!("nonsense\n{third}worse\n{ninth}{ninth}"));
    let second = at + 9 + third.len();
    check(
        &home,
        &[
            [
                &format!("the log is damaged at line 3, byte {at}; line 5, byte {second}: passed over, and kept as it is"),
                "self verify names each line; put a backup of events.jsonl back if you have one, nothing else brings a line back",
            ],
            [
                &format!("records out of order: seq 9 where 4 is due, at line 6, byte {}, and 1 more", second + 6),
                "self verify names each; if two copies of this log were mixed, put the one back that is whole",
            ],
        ],
    );
}

#[test]
fn a_log_that_has_been_longer_is_named_and_no_note_is_taken_of_it() {
    let home = Home::made();
    let (old, was) = (home.log(), home.log().len());
    home.hear(NOTE);
    let longer = home.log().len();
    home.write_log(&old);
    let fault = format!(
        "this log has been longer: 1 event is missing; it ended with seq 3 at byte {longer}, now with seq 2 at byte {was}"
    );
    for _ in 0..2 {
        let mend = "if an older copy was put here, put the newer one back; else nothing: self goes on from what is there";
        check(&home, &[[&fault, mend]]);
    }
    home.run(["quiet"]).stderr_has(&["1 event is missing"]).check();
    check(&home, &[]);
}

#[test]
fn files_that_others_can_read_and_drafts_that_were_left_are_mended_by_what_is_said() {
    let home = Home::called("a home's \"own\"");
    home.hear(NOTE);
    fs::set_permissions(home.join("events.jsonl"), fs::Permissions::from_mode(0o644)).unwrap();
    fs::set_permissions(home.join(".self"), fs::Permissions::from_mode(0o755)).unwrap();
    for name in ["draft-17", "secret.00ff", "interpreters.17.new"] {
        fs::write(home.join(".self").join(name), "").unwrap();
        check_modes(&home, &[]);
    }
    let old = SystemTime::now() - Duration::from_secs(120);
    for name in ["draft-17", "secret.00ff"] {
        fs::File::options().write(true).open(home.join(".self").join(name)).unwrap().set_modified(old).unwrap();
    }
    check_modes(&home, &["draft-17", "secret.00ff"]);
    mend(&home);
    assert!(home.join(".self/interpreters.17.new").exists(), "it may be under way");
}

#[track_caller]
fn check_modes(home: &Home, drafts: &[&str]) {
    let word = |name: &str| format!("'{}'", home.join(name).to_str().unwrap().replace('\'', "'\\''"));
    let mut expect = vec![
        ["the log lets others at it: mode 0644".to_owned(), format!("chmod 600 {}", word("events.jsonl"))],
        ["`.self`, the kernel's own folder, lets others at it: mode 0755".to_owned(), format!("chmod 700 {}", word(".self"))],
    ];
    expect.extend(drafts.iter().map(|name| {
        let path = format!(".self/{name}");
        [format!("`HERE/{path}` was left by a self that was ended before it was done"), format!("rm {}", word(&path))]
    }));
    let expect: Vec<_> = expect.iter().map(|pair| [pair[0].as_str(), pair[1].as_str()]).collect();
    check(home, &expect);
}

#[test]
fn stale_turn_markers_are_counted_and_left_to_the_next_prompt() {
    let home = Home::made();
    fs::create_dir_all(home.join(".self/turns")).unwrap();
    for pipe in [8, 9] {
        let marker = format!(r#"{{"boot":"another","pidns":3,"pipe":{pipe},"down":[{pipe}],"kind":"work"}}"#);
        fs::write(home.join(format!(".self/turns/{pipe}")), marker + "\n").unwrap();
    }
    check(&home, &[]);
    assert!(told(&home).contains("\nstale turn markers: 2; the next prompt sweeps them\n"));
    home.sh("self work | cat >/dev/null").stderr_any().check();
    assert_eq!(json(&home)["stale_markers"], 0);
}

#[test]
fn conflict_copies_are_named_whatever_their_names_hold() {
    let home = Home::made();
    let hostile = "events (conflicted copy\nno fault was found\u{1b}[2J).jsonl";
    for name in [hostile, ".sync-conflict-20260101-120000-ABCDEFG.secret", "events-2026.jsonl"] {
        home.write_private(name, "");
    }
    let copy = |name: &str, holds: &str, of: &str| {
        [
            format!("`HERE/{name}` is a conflict copy of the {holds}: two machines wrote it"),
            format!("cmp 'HERE/{of}' 'HERE/{name}', keep what is missing in the first, and move the second away"),
        ]
    };
    let expect = [copy(hostile, "log", "events.jsonl"), copy(".sync-conflict-20260101-120000-ABCDEFG.secret", "key", ".secret")];
    check(&home, &expect.each_ref().map(|pair| pair.each_ref().map(String::as_str)));
    let text = told(&home);
    assert!(!text.contains('\u{1b}') && !text.lines().any(|line| line == "no fault was found"), "{text}");
    assert!(
        text.contains("\nfault: `HERE/events (conflicted copy\\x0ano fault was found\\x1b[2J).jsonl` is a conflict"),
        "{text}"
    );
}

#[test]
fn of_many_conflict_copies_the_first_are_named() {
    let home = Home::made();
    (1..=20).for_each(|number| home.write_private(&format!("events ({number}).jsonl"), ""));
    let json = json(&home);
    let faults = json["faults"].as_array().unwrap();
    assert_eq!((faults.len(), &faults[8]["fault"]), (9, &"and 12 more conflict copies of the log".into()));
}

#[test]
fn copies_beside_a_log_that_lies_elsewhere_are_found_there() {
    let home = Home::made();
    fs::create_dir(home.beside("logs")).unwrap();
    fs::rename(home.join("events.jsonl"), home.beside("logs/log.jsonl")).unwrap();
    symlink(home.beside("logs/log.jsonl"), home.join("events.jsonl")).unwrap();
    fs::write(home.beside("logs/log.sync-conflict-1.jsonl"), "").unwrap();
    let json = json(&home);
    let fault = format!("`{}` is a conflict copy of the log", home.beside("logs/log.sync-conflict-1.jsonl").display());
    assert!(json["faults"][0]["fault"].as_str().unwrap().starts_with(&fault), "{json}");
    assert_eq!(json["file_systems"][1]["holds"], "log");
}

#[test]
fn a_home_in_a_folder_that_is_copied_between_machines_is_a_fault() {
    let words = "which {} copies between machines: two hosts on one log, and the key goes along";
    for (folder, mark, program) in [("Dropbox/home", None, "Dropbox"), ("shared/home", Some("shared/.stfolder"), "Syncthing")] {
        let home = Home::called(folder);
        home.hear(NOTE);
        mark.into_iter().for_each(|mark| fs::create_dir(home.beside(mark)).unwrap());
        let top = home.path().parent().unwrap().to_str().unwrap().to_owned();
        let fault = format!("the home lies in `{top}`, {}", words.replace("{}", program));
        check(&home, &[[&fault, "move it out of there: mv 'HERE' FOLDER, and set SELF_HOME"]]);
        assert_eq!(json(&home)["copied_by"], program);
    }
}

// ---- Git -------------------------------------------------------------------------------------------------------------------

/// A home in a work tree whose configuration would start a program, if git were asked without care.
fn in_a_work_tree() -> Option<Home> {
    let home = has("git").then(Home::made)?;
    home.sh("git init -q . && git config core.fsmonitor 'touch started; false'").stdout_any().stderr_any().check();
    Some(home)
}

#[test]
fn a_key_that_git_tracks_or_does_not_ignore_is_a_fault() {
    let Some(home) = in_a_work_tree() else { return skipped("a_key_that_git_tracks", "git is not installed") };
    check(&home, &[["git does not ignore the key: the next `git add` takes it along", "echo '.secret' >> 'HERE/.gitignore'"]]);
    mend(&home);
    assert!(told(&home).contains("\ngit: it ignores the key\n"));
    fs::write(home.join(".gitignore"), ".*\n!.secret\n").unwrap();
    assert_eq!(json(&home)["git"], "it does not ignore the key");
    home.sh("git -c core.fsmonitor=false add -f .secret").stderr_any().check();
    check(
        &home,
        &[[
            "git tracks the key: whoever gets the repository can sign scripts for this home; commits that have it keep it",
            "git -C 'HERE' rm --cached '.secret' && echo '.secret' >> 'HERE/.gitignore'",
        ]],
    );
    let index = home.join(".git/index");
    let before = (fs::read(&index).unwrap(), fs::metadata(&index).unwrap().mtime_nsec());
    told(&home);
    assert_eq!((fs::read(&index).unwrap(), fs::metadata(&index).unwrap().mtime_nsec()), before);
    assert!(!home.join("started").exists(), "a monitor of files was started");
    home.sh("git config --unset core.fsmonitor").check();
    mend(&home);
}

#[test]
fn without_git_or_without_its_answer_no_fault_is_made_up() {
    let home = Home::made();
    fs::create_dir(home.join(".git")).unwrap();
    assert_eq!(json_with(&home, &home.beside("nothing"))["git"], Value::Null);
    let bin = home.beside("own bin");
    fs::create_dir(&bin).unwrap();
    for script in ["#!/bin/sh\nexit 128\n", "#!/bin/sh\n/bin/sleep 60\n"] {
        fs::write(bin.join("git"), script).unwrap();
        fs::set_permissions(bin.join("git"), fs::Permissions::from_mode(0o755)).unwrap();
        let begun = Instant::now();
        let json = json_with(&home, &bin);
        assert_eq!(
            (&json["git"], &json["faults"]),
            (&"it did not say whether it ignores the key".into(), &serde_json::json!([]))
        );
        assert!(begun.elapsed() < Duration::from_secs(30));
    }
}

#[track_caller]
fn json_with(home: &Home, path: &Path) -> Value {
    serde_json::from_str(&seen(home, Some(path), true).text()).unwrap()
}

// ---- Room, and that nothing is touched -------------------------------------------------------------------------------------

#[test]
fn little_room_is_a_fault() {
    if !is_root() || !has("unshare") {
        return skipped("little_room_is_a_fault", "needs root and unshare, to mount a small disk");
    }
    let home = Home::new();
    let line = r#"mount -t tmpfs -o size=4m tmpfs "$PWD" && cd "$PWD" || { echo no mount; exit 0; }
        echo '{"name":"a.b","payload":{}}' | self hear 2>/dev/null; chmod 700 .; self doctor"#;
    let ended = home.program("unshare", ["-m", "sh", "-c", line]).stdout_any().end();
    if ended.text() == "no mount\n" {
        return skipped("little_room_is_a_fault", "mounting is not allowed here");
    }
    let text = ended.text().replace(home.path().to_str().unwrap(), "HERE");
    assert_eq!(ended.status, 1, "{text}");
    assert!(text.contains("\nfile system of the home: tmpfs, 3.9 MiB free for you; it is lost at a reboot\n"), "{text}");
    assert!(
        text.ends_with(
            "\nfault: the file system of the home has 3.9 MiB free for you, less than 64.0 MiB: an append may soon fail\n  \
             mend: make room there: df -h 'HERE'\n"
        ),
        "{text}"
    );
}

/// Everything at and under a folder: path, mode, size, and when it was changed.
fn facts(folder: &Path, into: &mut Vec<(PathBuf, u32, u64, [i64; 4])>) {
    let facts_of = |path: &Path| {
        let facts = fs::symlink_metadata(path).unwrap();
        (path.to_owned(), facts.mode(), facts.size(), [facts.mtime(), facts.mtime_nsec(), facts.ctime(), facts.ctime_nsec()])
    };
    into.push(facts_of(folder));
    let mut paths: Vec<_> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    for path in paths {
        if fs::symlink_metadata(&path).unwrap().is_dir() { facts(&path, into) } else { into.push(facts_of(&path)) }
    }
}

#[test]
fn a_home_with_every_fault_is_left_as_it_is() {
    let home = Home::called("Dropbox");
    home.hear(NOTE);
    let old = home.log();
    home.hear(NOTE);
    home.write_log([&old[..], b"nonsense\n", line(9, "pipe", "a.b", "{}").as_bytes(), b"{\"torn"].concat());
    home.write_private("events 2.jsonl", "");
    fs::create_dir_all(home.join(".self/turns")).unwrap();
    fs::write(home.join(".self/turns/8"), r#"{"boot":"another","pidns":3,"pipe":8,"down":[8],"kind":"work"}"#).unwrap();
    fs::write(home.join(".self/draft-1"), "").unwrap();
    if has("git") {
        home.sh("git init -q . && git add -f .secret").stdout_any().stderr_any().check();
    }
    fs::set_permissions(home.join("events.jsonl"), fs::Permissions::from_mode(0o644)).unwrap();
    let everything = || {
        let mut all = Vec::new();
        facts(&home.beside(""), &mut all);
        all
    };
    let before = everything();
    assert!(json(&home)["faults"].as_array().unwrap().len() >= 6);
    told(&home);
    assert_eq!(everything(), before);
}
