//! `self completions`: what each shell's own completion offers, where the shell is installed.

use crate::home::{Home, has, skipped};

/// A home with a command, a page, and events under odd names that another program wrote.
fn home() -> Home {
    let home = Home::made();
    home.hear(r#"{"name":"note.taken","payload":{}}"#);
    home.hear("{\"name\":\"command.declared\",\"payload\":{\"name\":\"note\"}}\n{\"name\":\"projector.declared\",\"payload\":{\"name\":\"notes\"}}\n");
    home.hear("```self command/note\n#!/bin/sh\n:\n```\n\n```self projector/notes\n#!/bin/sh\necho '<p>notes</p>'\n```");
    home.append(
        "{\"name\":\"$(touch hit).x\",\"seq\":90}\n{\"name\":\"a\\nb.c\",\"seq\":91}\n{\"name\":\"`touch hit`.x\",\"seq\":92}\n",
    );
    home.run(["quiet"]).check();
    home
}

/// What is offered for the last of these words.
const CASES: [(&str, &str); 7] = [
    ("self run n", "note"),
    ("self show n", "notes"),
    ("self show k", "kernel"),
    ("self retire command/", "command/note"),
    ("self give home.", "home. home.made"),
    ("self log --name note.", "note.taken"),
    ("self rehyd", "rehydrate"),
];

#[track_caller]
fn check(home: &Home, shell: &str, ask: impl Fn(&str) -> String) {
    for (line, expect) in CASES {
        let offered = home.shell(shell, &ask(line)).stdout_any().check().text();
        let offered: Vec<_> = offered.lines().map(|line| line.split('\t').next().unwrap_or_default()).collect();
        assert_eq!(offered.join(" "), expect, "{shell}: {line}");
    }
    let names = home.shell(shell, &ask("self log --name ")).stdout_any().check().text();
    assert!(names.contains("home.made") && !names.contains("touch") && !names.contains('`'), "{shell}: {names}");
    assert!(!home.join("hit").exists(), "{shell} ran a name");
}

#[test]
fn bash_completes_from_the_home() {
    if !has("bash") {
        return skipped("bash_completes_from_the_home", "no bash here");
    }
    let ask = |line: &str| {
        let words: Vec<_> = line.split(' ').map(|word| format!("'{word}'")).collect();
        format!(
            r#"eval "$(self completions bash)"; complete -p self >/dev/null; compopt() {{ :; }}
            COMP_WORDS=({words}); COMP_CWORD={last}; COMP_TYPE=9
            _clap_complete_self self "${{COMP_WORDS[COMP_CWORD]}}" x; printf '%s\n' "${{COMPREPLY[@]}}""#,
            words = words.join(" "),
            last = words.len() - 1
        )
    };
    check(&home(), "bash", ask);
}

#[test]
fn fish_completes_from_the_home() {
    if !has("fish") {
        return skipped("fish_completes_from_the_home", "no fish here");
    }
    check(&home(), "fish", |line| format!("self completions fish | source; complete -C '{line}'"));
}

#[test]
fn zsh_completes_from_the_home() {
    if !has("zsh") {
        return skipped("zsh_completes_from_the_home", "no zsh here");
    }
    let ask = |line: &str| {
        let words: Vec<_> = line.split(' ').map(|word| format!("'{word}'")).collect();
        // What the completion system would do with what it is given.
        format!(
            r#"compdef() {{ :; }}; _describe() {{ local name=$3; print -l -- ${{${{(P)name}}//\\/}}; }}
            eval "$(self completions zsh)"; words=({words}); CURRENT={last}; _clap_dynamic_completer_self | sed 's/:[^:]*$//'"#,
            words = words.join(" "),
            last = words.len()
        )
    };
    check(&home(), "zsh", ask);
}

#[test]
fn a_completion_in_no_home_makes_none_and_says_nothing() {
    let home = Home::new();
    let ask = |words: &str| home.sh(&format!("SELF_COMPLETE=fish self -- self {words}"));
    ask("show b").stdout("brief\n").check();
    assert!(home.files().is_empty());
    // The variable alone changes nothing, and an unknown shell is a usage error.
    home.sh("SELF_COMPLETE=fish self protocol | head -n 1").stdout("# How a mind answers\n").check();
    home.sh("SELF_COMPLETE=csh self -- self ''").status(2).check();
    home.run(["completions", "csh"]).status(2).stderr_any().check();
}

#[test]
fn what_is_offered_comes_from_the_index_and_nothing_of_the_log_is_read() {
    let home = home();
    home.write_log("");
    let ask = |words: &str| home.sh(&format!("SELF_COMPLETE=fish self -- self {words}"));
    ask("log --name note.").stdout("note.taken\n").check();
    ask("run n").stdout("note\n").check();
    ask("give note").stdout("note.\nnote.taken\n").check();
    std::fs::remove_dir_all(home.join(".self/index")).unwrap();
    ask("run n").check();
}
