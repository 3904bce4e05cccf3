//! Every command of the README is run, and of the guides to lessons and minds.
//!
//! A fenced block marked `sh` runs as one script in an empty directory, with `self` on the `PATH`, and must exit 0. A block marked
//! `sh no-run` is left out; there are few, and each needs something that a test has not: an agent, cargo, a clone, a browser.

use std::fs;
use std::path::Path;

use crate::home::Home;

/// The files whose commands are run.
const GUIDES: [&str; 3] = ["README.md", "LESSONS.md", "examples/README.md"];

/// The most blocks that a file may leave out.
const NO_RUN_MAX: usize = 6;

/// What a block that is left out must need.
const NEEDS: [&str; 11] =
    ["claude", "codex", "gemini", "opencode", "llm ", "curl ", "cargo", "git clone", "./demo.sh", "bench/", ".ci/run"];

/// The fenced blocks of a Markdown text whose mark starts with `sh`: line number, mark, body.
fn blocks(text: &str) -> Vec<(usize, String, String)> {
    let mut found = Vec::new();
    let mut lines = text.lines().enumerate();
    while let Some((number, line)) = lines.next() {
        let Some(mark) = line.trim_start().strip_prefix("```") else { continue };
        let body: Vec<_> = lines.by_ref().map(|(_, line)| line).take_while(|line| line.trim() != "```").collect();
        if mark.split_whitespace().next() == Some("sh") {
            found.push((number + 1, mark.trim().to_owned(), body.join("\n") + "\n"));
        }
    }
    found
}

#[test]
fn every_readme_command_works() {
    for guide in GUIDES {
        every_command_works(guide);
    }
}

#[track_caller]
fn every_command_works(guide: &str) {
    let path = format!("{}/{guide}", env!("CARGO_MANIFEST_DIR"));
    let text = fs::read_to_string(&path).unwrap_or_else(|fault| panic!("{path}: {fault}"));
    let blocks = blocks(&text);
    let (run, left): (Vec<_>, Vec<_>) = blocks.into_iter().partition(|(_, mark, _)| mark == "sh");
    assert!(!run.is_empty(), "{guide} shows no command that can be tried");
    for (line, _, body) in run {
        let home = Home::new();
        for folder in ["lessons", "examples"] {
            std::os::unix::fs::symlink(Path::new(env!("CARGO_MANIFEST_DIR")).join(folder), home.join(folder)).unwrap();
        }
        let ended = home.sh(&format!("set -e\n{body}")).end();
        assert_eq!(
            ended.status,
            0,
            "{guide} line {line}: this block does not work; mend it, or mark it `sh no-run` if it needs an agent:\n{body}\nstdout:\n{}\nstderr:\n{}",
            ended.text(),
            ended.said()
        );
    }
    assert!(left.len() <= NO_RUN_MAX, "{guide} leaves {} blocks untried; {NO_RUN_MAX} may be", left.len());
    for (line, mark, body) in left {
        assert_eq!(mark, "sh no-run", "{guide} line {line}: a block is `sh` or `sh no-run`");
        let needed = NEEDS.iter().any(|need| body.contains(need));
        assert!(needed, "{guide} line {line}: this block needs none of {NEEDS:?}, so let it be tried: mark it `sh`");
    }
}

#[test]
fn blocks_are_found_by_their_mark() {
    let text = "a\n```sh\nx\n\ny\n```\n```\nno\n```\n```sh no-run\nclaude\n```\n```json\n```\n";
    let expect = [(2, "sh".to_owned(), "x\n\ny\n".to_owned()), (10, "sh no-run".to_owned(), "claude\n".to_owned())];
    assert_eq!(blocks(text), expect);
}
