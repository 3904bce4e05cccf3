//! Which face a bare `self` shows in a pipeline: what `tests/proofs/pipes.rs` proves at length, for bash and sh and in seconds.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::Value;

/// A home, and a folder with `self` and minds in the PATH.
struct Pipes {
    folder: tempfile::TempDir,
}

impl Pipes {
    fn new() -> Pipes {
        let folder = tempfile::tempdir().unwrap();
        std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_self"), folder.path().join("self")).unwrap();
        for (name, script) in [
            ("mind", "cat > /dev/null; echo All quiet."),
            ("slow", "cat > /dev/null; sleep 0.3; echo All quiet."),
            ("blurt", "echo All quiet."),
            ("mute", "cat > /dev/null"),
        ] {
            let path = folder.path().join(name);
            fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        }
        Pipes { folder }
    }

    fn home(&self) -> &Path {
        self.folder.path()
    }

    /// Runs a line of shell; gives stdout and the exit status.
    fn run(&self, shell: &str, line: &str) -> (String, i32) {
        let mut command = Command::new(shell);
        let path = format!("{}:{}", self.home().display(), std::env::var("PATH").unwrap());
        command.args(["-c", line]).env_clear().env("PATH", path).env("SELF_HOME", self.home()).current_dir(self.home());
        let output = command.stdin(Stdio::null()).output().unwrap();
        (String::from_utf8(output.stdout).unwrap(), output.status.code().unwrap())
    }

    /// The asks and replies of the log in order: `2 asks q`, `3 answers 2: All quiet.`
    fn turns(&self) -> Vec<String> {
        let log = fs::read_to_string(self.home().join("events.jsonl")).unwrap_or_default();
        let events = log.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        let turn = |event: Value| {
            let text = event["payload"]["text"].as_str().unwrap_or_default().to_owned();
            match event["name"].as_str() {
                Some("self.asked") => Some(format!("{} asks {text}", event["seq"])),
                Some("self.replied") => Some(format!("{} answers {}: {text}", event["seq"], event["payload"]["ask"])),
                Some(_) | None => None,
            }
        };
        events.filter_map(turn).collect()
    }

    fn markers(&self) -> usize {
        fs::read_dir(self.home().join(".self/turns")).map_or(0, Iterator::count)
    }
}

/// A line that asks `q` and hears the answer to it, in a home of its own.
#[track_caller]
fn check_heard(line: &str) {
    for shell in ["bash", "sh"] {
        let pipes = Pipes::new();
        assert_eq!(pipes.run(shell, line), ("All quiet.\n".to_owned(), 0), "{shell}: {line}");
        assert_eq!(pipes.turns(), ["2 asks q", "3 answers 2: All quiet."], "{shell}: {line}");
        assert_eq!(pipes.markers(), 0, "{shell}: the marker is taken");
    }
}

/// A line whose selves all ask.
#[track_caller]
fn check_asked(line: &str, asks: &[&str]) {
    for shell in ["bash", "sh"] {
        let pipes = Pipes::new();
        assert_eq!(pipes.run(shell, line), (String::new(), 0), "{shell}: {line}");
        assert_eq!(pipes.turns(), asks, "{shell}: {line}");
    }
}

#[test]
fn an_answer_is_heard_whatever_the_pipeline_is_part_of() {
    check_heard("echo q | self | mind | self");
    check_heard("self ask q | mind | self");
    check_heard("echo q | self | slow | self");
    check_heard("echo q | self | mind | self > out; cat out");
    check_heard("x=$(echo q | self | mind | self); echo \"$x\"");
    check_heard("echo q | self | mind | self & wait");
    check_heard("(sleep 0.1; echo q) | self | mind | self");
}

#[test]
fn an_answer_is_heard_through_groups_functions_and_runners() {
    check_heard("(echo q | self) | (mind) | (self)");
    check_heard("{ echo q | self; } | { mind; } | { self; }");
    check_heard("f() { echo q | self; }; g() { mind; }; h() { self; }; f | g | h");
    check_heard("echo q | env self | nohup mind | timeout 60 self");
    check_heard("echo q | self | tee copy | mind | cat | self | cat");
}

#[test]
fn a_mind_that_does_not_read_its_prompt_is_heard() {
    check_heard("echo q | self | blurt | self");
}

#[test]
fn asks_whose_prompts_go_elsewhere_are_asks() {
    check_asked("for i in 1 2 3; do echo $i | self > out; done", &["2 asks 1", "3 asks 2", "4 asks 3"]);
    check_asked("for i in 1 2 3; do echo $i | self | cat > out; done", &["2 asks 1", "3 asks 2", "4 asks 3"]);
    check_asked("x=$(self ask 1); echo 2 | self > out; echo 3 | self | cat > out", &["2 asks 1", "3 asks 2", "4 asks 3"]);
}

#[test]
fn two_pipelines_at_once_hear_their_own_answers() {
    let line = "echo a | self | sed -n 's/^a$/to a/p' | self & echo b | self | sed -n 's/^b$/to b/p' | self & wait";
    for shell in ["bash", "sh"] {
        let pipes = Pipes::new();
        pipes.run(shell, line);
        let turns = pipes.turns();
        assert_eq!(turns.len(), 4, "{shell}: {turns:?}");
        for name in ["a", "b"] {
            let answer = turns.iter().find_map(|turn| turn.strip_suffix(&format!(": to {name}"))).unwrap();
            let (_, ask) = answer.split_once(" answers ").unwrap();
            assert!(turns.contains(&format!("{ask} asks {name}")), "{shell}: {turns:?}");
        }
    }
}

#[test]
fn a_mind_that_says_nothing_leaves_no_reply() {
    for shell in ["bash", "sh"] {
        let pipes = Pipes::new();
        assert_eq!(pipes.run(shell, "echo q | self | mute | self"), (String::new(), 75));
        assert_eq!(pipes.turns(), ["2 asks q"]);
    }
}
