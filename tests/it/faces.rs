//! What the bare filter does with its input: the table of DESIGN §4.1, in `sh` and `bash`, as scripts, without a terminal.
//!
//! `tests/proofs` has the same over more shells, loads and callers.

use std::fs;
use std::process::{Child, Command, Stdio};

use crate::home::{Ends, Home, Record, at_once, first_line, has, line, skipped};

const MIND: &str = "sh -c 'cat >/dev/null; echo All quiet.'";

/// The shells this machine has, of the two that these tests know.
fn shells(test: &str) -> Vec<&'static str> {
    let (here, missing): (Vec<_>, Vec<_>) = ["sh", "bash"].into_iter().partition(|shell| has(shell));
    for shell in missing {
        skipped(test, &format!("no {shell} here"));
    }
    here
}

/// A shell line in which each `MIND` is a mind that reads its prompt and answers `All quiet.`.
fn with_mind(line: &str) -> String {
    line.replace("MIND", MIND)
}

#[test]
fn prose_becomes_a_prompt_and_an_ask() {
    let home = Home::made();
    let prompt = home.filter("what is going on?\n").env("SELF_CALLER", "ada").stdout_has(&["what is going on?"]).check().text();
    assert_eq!(home.told_from(3), [r#"3 pipe/ada self.asked {"text":"what is going on?"}"#]);
    assert!(prompt.contains(home.path().to_str().unwrap()), "a prompt says where its home is: {prompt}");
    assert!(prompt.ends_with('\n'));
}

#[test]
fn self_ask_takes_its_arguments_or_stdin() {
    let home = Home::made();
    home.run(["ask", "what", "is", "on?"]).stdin("not read").stdout_has(&["what is on?"]).check();
    home.run(["ask"]).stdin("  from\nstdin \n\n").stdout_has(&["from\nstdin\n"]).check();
    assert_eq!(home.payloads("self.asked"), [r#"{"text":"what is on?"}"#, r#"{"text":"from\nstdin"}"#]);
}

#[test]
fn self_ask_takes_event_material_for_an_ask() {
    let home = Home::made();
    home.run(["ask"]).stdin(r#"{"name":"a.b","payload":{}}"#).stdout_has(&[r#"| {"name":"a.b","payload":{}}"#]).check();
    assert_eq!(home.payloads("self.asked"), [r#"{"text":"{\"name\":\"a.b\",\"payload\":{}}"}"#]);
    assert_eq!(home.count("a.b"), 0);
}

#[test]
fn an_answer_in_a_script_without_a_terminal_is_in_the_file_and_in_the_log() {
    for shell in shells("an_answer_in_a_script_without_a_terminal_is_in_the_file_and_in_the_log") {
        let home = Home::new();
        let script = home.beside("script");
        fs::write(&script, with_mind("echo hi | self | MIND | self > out\n")).unwrap();
        home.program(shell, [&script]).stderr_any().check();
        assert_eq!(fs::read(home.join("out")).unwrap(), b"All quiet.\n");
        assert_eq!(
            home.told(),
            [
                "1 kernel kernel.initialized {}",
                r#"2 pipe self.asked {"text":"hi"}"#,
                r#"3 pipe self.replied {"text":"All quiet.","ask":2}"#
            ]
        );
    }
}

#[test]
fn the_same_line_does_the_same_however_it_is_run() {
    let lines = [
        "echo q | self | MIND | self",
        "echo q | self | MIND | self > out; cat out",
        "answer=$(echo q | self | MIND | self); echo \"$answer\"",
        "( echo q | self ) | MIND | self",
        "{ echo q | self; } | MIND | self",
        "echo q | self | ( MIND ) | self",
        "echo q | self | { MIND; } | self",
        "( echo q | self | MIND | self )",
        "f() { self; }; echo q | f | MIND | f",
        "loop() { echo q | self | MIND | self; }; loop",
        "echo q | env self | env MIND | env self",
        "echo q | timeout 60 self | timeout 60 MIND | timeout 60 self",
        "echo q | nohup self | nohup MIND | nohup self 2>/dev/null",
        "echo q | self | MIND | self & wait",
        "echo q >body; self <body | MIND | self",
        "echo q | self | cat | cat | MIND | cat | cat | self",
        "echo q | self | tee prompt | MIND | self | tee out",
        "echo q | self | { sleep 0.4; MIND; } | self",
        "echo q | self | { while read -r line; do :; done; echo All quiet.; } | self",
        "{ sleep 0.3; echo q; } | self | MIND | self",
        "self ask q | MIND | self",
        "self ask q | MIND | self hear",
        "if echo q | self | MIND | self; then :; fi",
        "sh -c 'echo q | self' | MIND | sh -c self",
        "env -i PATH=\"$PATH\" HOME=\"$HOME\" setsid -w sh -c \"echo q | self | MIND | self\"",
    ];
    for shell in shells("the_same_line_does_the_same_however_it_is_run") {
        for line in lines {
            if line.contains("setsid") && !has("setsid") {
                skipped("the_same_line_does_the_same_however_it_is_run", "no setsid here");
                continue;
            }
            let home = Home::made();
            let ended = home.shell(shell, &with_mind(line)).stdout_any().stderr_any().check();
            assert_eq!(ended.text(), "All quiet.\n", "{shell}: {line}\n{}", ended.said());
            assert_eq!(
                home.told_from(3),
                [r#"3 pipe self.asked {"text":"q"}"#, r#"4 pipe self.replied {"text":"All quiet.","ask":3}"#],
                "{shell}: {line}"
            );
        }
    }
}

#[test]
fn an_ask_behind_another_pipeline_is_never_a_reply() {
    let lines = [
        "echo q | self >/dev/null; echo r | self >/dev/null",
        "echo q | self | cat >/dev/null; echo r | self | cat >/dev/null",
        "echo q | self | MIND >/dev/null; echo r | self >/dev/null",
        "prompt=$(echo q | self); echo r | self >/dev/null",
        "echo q | self >prompt; cat prompt >/dev/null; echo r | self >prompt",
        "( echo q | self; echo r | self ) >/dev/null",
        "( echo q | self; echo r | self ) | cat >/dev/null",
        "echo q | self | { cat >/dev/null; echo r | self >/dev/null; }",
        "echo q | self | cat >/dev/null & echo r | self | cat >/dev/null & wait",
    ];
    for shell in shells("an_ask_behind_another_pipeline_is_never_a_reply") {
        for line in lines {
            let home = Home::made();
            home.shell(shell, &with_mind(line)).stderr_any().check();
            let mut told: Vec<_> =
                home.records().into_iter().skip(2).map(|record| (record.name, record.payload.to_string())).collect();
            told.sort();
            let asked = |text: &str| ("self.asked".to_owned(), format!(r#"{{"text":"{text}"}}"#));
            assert_eq!(told, [asked("q"), asked("r")], "{shell}: {line}");
        }
    }
}

#[test]
fn two_pipelines_at_once_have_each_their_own_answer() {
    for shell in shells("two_pipelines_at_once_have_each_their_own_answer") {
        let home = Home::made();
        let one =
            |n: u32| format!("echo question {n} | self | sh -c 'cat >/dev/null; sleep 0.{n}; echo answer {n}' | self >out{n} & ");
        home.shell(shell, &((1..=4).rev().map(one).collect::<String>() + "wait")).stderr_any().check();
        check_answers(&home, 4);
        for n in 1..=4 {
            assert_eq!(fs::read_to_string(home.join(format!("out{n}"))).unwrap(), format!("answer {n}\n"));
        }
    }
}

/// Asserts that each `question N` has its one `answer N`, which names it.
#[track_caller]
fn check_answers(home: &Home, count: usize) {
    let records = home.records();
    let of = |name: &str| records.iter().filter(|record| record.name == name).collect::<Vec<&Record>>();
    let (asked, replied) = (of("self.asked"), of("self.replied"));
    assert_eq!((asked.len(), replied.len()), (count, count), "{:?}", home.told());
    for ask in asked {
        let answer = ask.payload.get().replace("question", "answer").replace('}', &format!(",\"ask\":{}}}", ask.seq));
        assert_eq!(replied.iter().filter(|reply| reply.payload.get() == answer).count(), 1, "no {answer}");
    }
}

/// Programs that keep every processor busy until they are dropped.
struct Busy(Vec<Child>);

impl Busy {
    fn loops(count: usize) -> Busy {
        let start = |_| Command::new("sh").args(["-c", "while :; do :; done"]).stdin(Stdio::null()).spawn().unwrap();
        Busy((0..count).map(start).collect())
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        for child in &mut self.0 {
            child.kill().unwrap();
            child.wait().unwrap();
        }
    }
}

#[test]
fn three_hundred_pipelines_have_three_hundred_replies() {
    let shells = shells("three_hundred_pipelines_have_three_hundred_replies");
    for (busy, pipelines) in [(0, 240), (2, 60)] {
        let rounds = pipelines / shells.len();
        let load = Busy::loops(busy);
        for shell in &shells {
            let home = Home::made();
            let line = format!(
                "n=0; while [ $n -lt {rounds} ]; do n=$((n + 1)); echo question $n | self | {{ cat >/dev/null; echo answer $n; }} | self || exit 9; done"
            );
            let expect: String = (1..=rounds).map(|n| format!("answer {n}\n")).collect();
            home.shell(shell, &line).stdout(expect).stderr_any().check();
            check_answers(&home, rounds);
        }
        drop(load);
    }
}

#[test]
fn a_hundred_asks_in_a_tight_loop_are_a_hundred_asks() {
    for shell in shells("a_hundred_asks_in_a_tight_loop_are_a_hundred_asks") {
        let home = Home::made();
        let line = "n=0; while [ $n -lt 50 ]; do n=$((n + 1)); echo q | self >prompt; echo r | self | cat >prompt; done";
        home.shell(shell, line).stderr_any().check();
        assert_eq!((home.count("self.asked"), home.count("self.replied")), (100, 0));
    }
}

#[test]
fn asks_at_once_are_asks() {
    let home = Home::made();
    at_once((0..24).map(|n| home.filter(format!("question {n}")).stdout_any().stderr_any()).collect());
    assert_eq!((home.count("self.asked"), home.count("self.replied")), (24, 0));
}

#[test]
fn self_hear_takes_prose_as_the_reply_to_the_newest_unanswered_ask() {
    let home = Home::made();
    home.run(["hear"]).stdin("Nobody asked.\n").stdout("Nobody asked.\n").stderr_any().check();
    home.run(["ask", "first"]).stdout_any().check();
    home.run(["ask", "second"]).stdout_any().check();
    for answer in ["To the second.", "To the first.", "To none."] {
        home.run(["hear"]).stdin(answer).stdout(format!("{answer}\n")).stderr_any().check();
    }
    assert_eq!(
        home.payloads("self.replied"),
        [
            r#"{"text":"Nobody asked."}"#,
            r#"{"text":"To the second.","ask":5}"#,
            r#"{"text":"To the first.","ask":4}"#,
            r#"{"text":"To none."}"#,
        ]
    );
}

#[test]
fn a_reply_with_events_and_prose_to_an_open_prompt_is_one_batch() {
    let home = Home::made();
    home.sh(r#"echo q | self | { cat >/dev/null; printf 'Noted.\n{"name":"note.taken","payload":{}}\n'; } | self"#)
        .stdout("Noted.\n")
        .stderr_any()
        .check();
    assert_eq!(
        home.told_from(3),
        [r#"3 pipe self.asked {"text":"q"}"#, "4 pipe note.taken {}", r#"5 pipe self.replied {"text":"Noted.","ask":3}"#]
    );
    let records = home.records();
    assert_eq!(records[3].frame().0, records[4].frame().0);
}

#[test]
fn nothing_on_stdin_is_a_request_for_work() {
    let home = Home::made();
    home.hear(r#"{"name":"command.declared","payload":{"name":"note"}}"#);
    for call in [home.filter(""), home.filter("\n \n"), home.run(["work"]), home.run([""; 0])] {
        call.stdout_has(&["DECLARATION (command \"note\"):\n{\"name\":\"note\"}\n"]).check();
    }
    assert_eq!(home.records().len(), 3, "work that waits is no reflection");
}

#[test]
fn work_is_offered_in_order_and_a_reflection_comes_last() {
    let home = Home::made();
    home.run(["quiet"]).check();
    home.run(["work"]).stdout_any().check();
    assert_eq!(home.told_from(3), ["3 pipe self.reflected {}"]);

    home.hear(r#"{"name":"chat.message","payload":{"role":"user","content":"are you there?"}}"#);
    home.run(["quiet"]).status(1).check();
    home.run(["work"]).stdout_has(&["| are you there?"]).check();
    home.hear(r#"{"name":"command.declared","payload":{"name":"note"}}"#);
    home.run(["work"]).stdout_has(&["DECLARATION (command \"note\"):"]).check();
    home.hear(r#"{"name":"capability.retired","payload":{"type":"command","name":"note"}}"#);
    home.run(["quiet"]).status(1).check();
    home.hear(r#"{"name":"chat.message","payload":{"role":"assistant","content":"I am."}}"#);
    home.run(["quiet"]).check();
    assert_eq!(home.count("self.reflected"), 1, "only the first work prompt was a reflection");
}

#[test]
fn the_loop_converges() {
    let home = Home::made();
    home.hear(r#"{"name":"chat.message","payload":{"role":"user","content":"are you there?"}}"#);
    let mind = r#"sh -c 'cat >/dev/null; echo "{\"name\":\"chat.message\",\"payload\":{\"role\":\"assistant\",\"content\":\"I am.\"}}"'"#;
    let line =
        format!("for i in 1 2 3 4 5 6 7 8; do self quiet && echo quiet after $i && break; self </dev/null | {mind} | self; done");
    home.sh(&line).stdout("quiet after 2\n").stderr_any().check();
}

#[test]
fn a_reply_to_a_work_prompt_names_no_ask() {
    let home = Home::made();
    home.run(["ask", "an older question"]).stdout_any().check();
    home.sh(&with_mind("self </dev/null | MIND | self")).stdout("All quiet.\n").stderr_any().check();
    assert_eq!(home.payloads("self.replied"), [r#"{"text":"All quiet."}"#]);
}

#[test]
fn a_prompt_that_could_not_be_made_is_no_question() {
    let home = Home::made();
    let padding = "x".repeat(4000);
    home.hear(&format!(r#"{{"name":"note.taken","payload":"{padding}"}}"#));
    let before = home.log();
    home.sh("( ulimit -f 4; echo q | self ) | { cat >/dev/null; echo What was it; } | self")
        .status(75)
        .stdout("What was it\n")
        .stderr_has(&["no prompt was made"])
        .check();
    assert_eq!(home.log(), before);
}

#[test]
fn at_a_terminal_the_bare_filter_orients_and_records_nothing() {
    let home = Home::made();
    home.hear(r#"{"name":"command.declared","payload":{"name":"note"}}"#);
    let before = home.log();
    let all = Ends { stdin: true, stdout: true, stderr: true };
    let brief = home.run(["show", "brief"]).stdout_any().check().text();
    let shown = home.run([""; 0]).terminal(all).stdout_any().check().text().replace("\r\n", "\n");
    assert!(shown.contains(brief.lines().find(|line| !line.is_empty()).unwrap()), "no brief in {shown}");
    assert!(shown.contains("note"), "the margin names what is pending: {shown}");
    assert_eq!(home.log(), before);
}

#[test]
fn a_terminal_for_stdin_and_a_pipe_for_stdout_is_a_request_for_work() {
    let home = Home::made();
    home.hear(r#"{"name":"command.declared","payload":{"name":"note"}}"#);
    let before = home.log();
    // The terminal end's output is what `check` sees of stdout, so the pipe is a file here, looked at afterwards.
    let ends = Ends { stdin: true, stdout: false, stderr: true };
    home.sh("self | cat >prompt").terminal(ends).stdout_any().stderr_any().check();
    let prompt = fs::read_to_string(home.join("prompt")).unwrap();
    assert!(prompt.contains("DECLARATION (command \"note\"):"), "{prompt}");
    assert_eq!(home.log(), before);
}

#[test]
fn the_recent_conversation_is_in_the_next_prompt() {
    let home = Home::made();
    home.sh(&with_mind("echo the first question | self | MIND | self")).stdout_any().stderr_any().check();
    let prompt = home.run(["ask", "and now?"]).stdout_any().check().text();
    for part in ["the first question", "All quiet.", "and now?"] {
        assert!(prompt.contains(part), "{part} is not in {prompt}");
    }
}

#[test]
fn a_prompt_is_the_same_for_the_same_log() {
    let one = Home::called("same");
    one.hear(r#"{"name":"command.declared","payload":{"name":"note"}}"#);
    let log = one.log();
    let prompt = one.run(["work"]).stdout_any().check().stdout;
    assert_eq!(one.run(["work"]).stdout_any().check().stdout, prompt);
    fs::remove_dir_all(one.join(".self")).unwrap();
    one.write_log(&log);
    assert_eq!(one.run(["work"]).stdout_any().check().stdout, prompt);
}

#[test]
fn at_a_terminal_the_loop_is_the_same() {
    let home = Home::made();
    let all = Ends { stdin: true, stdout: true, stderr: true };
    let shown = home.sh(&with_mind("echo q | self | MIND | self")).terminal(all).stdout_any().check().text();
    assert!(shown.starts_with("All quiet.\r\n") || shown.ends_with("All quiet.\r\n"), "{shown}");
    assert_eq!(home.told_from(3), [r#"3 pipe self.asked {"text":"q"}"#, r#"4 pipe self.replied {"text":"All quiet.","ask":3}"#]);
}

#[test]
fn a_silent_stdin_is_named_at_a_terminal_unless_a_prompt_is_open() {
    let home = Home::made();
    let ends = Ends { stdin: false, stdout: false, stderr: true };
    let line = |line: &str| home.sh(line).terminal(ends).stdout_any().stderr_any();
    let ended = at_once(vec![
        line("sh -c 'sleep 4; echo q' | self >/dev/null"),
        line("echo q | self | sh -c 'cat >/dev/null; sleep 3; echo answer' | self >/dev/null"),
    ]);
    assert!(ended[0].text().contains("reading stdin"), "{}", ended[0].text());
    assert!(!ended[1].text().contains("reading stdin"), "{}", ended[1].text());
    // Where stderr is no terminal nobody can be waiting at it.
    home.sh("sh -c 'sleep 3; echo q' | self").stdout_has(&["q"]).check();
}

#[test]
fn quiet_exits_75_on_an_error_and_never_1() {
    let home = Home::new();
    fs::create_dir(home.join("events.jsonl")).unwrap();
    home.run(["quiet"]).status(75).stderr_has(&["events.jsonl"]).check();
}

#[test]
fn a_chat_message_that_an_account_brought_waits_for_no_answer() {
    let user = r#"{"role":"user","content":"?"}"#;
    for (door, status) in [("learn:tides", 0), ("kernel", 0), ("pipe", 1), ("cli", 1), ("http:127.0.0.1", 1)] {
        let home = Home::with_log(first_line() + &line(2, door, "chat.message", user));
        home.run(["quiet"]).status(status).check();
    }
}

#[test]
fn after_five_rejections_a_capability_is_no_longer_work_until_it_is_declared_anew() {
    let home = Home::made();
    let declaration = r#"{"name":"command.declared","payload":{"name":"note"}}"#;
    home.hear(declaration);
    for n in 1..=5 {
        home.run(["quiet"]).status(1).check();
        home.hear(&format!("```self command/note\n# no shebang {n}\n```"));
    }
    home.run(["quiet"]).check();
    home.run(["ask", "what is open?"]).stdout_has(&["DECLARATION (command \"note\"):"]).check();
    home.hear(declaration);
    home.run(["quiet"]).status(1).check();
}

#[test]
fn a_refusal_rides_every_prompt_until_an_answer_is_heard() {
    let home = Home::made();
    home.run(["hear"]).stdin("{\"name\":\"note.taken\",\"payload\":{,}}").stdout_any().stderr_any().check();
    let refused = "| {\"name\":\"note.taken\",\"payload\":{,}}\n";
    home.run(["quiet"]).check();
    home.run(["ask", "one"]).stdout_has(&[refused]).check();
    home.run(["work"]).stdout_has(&[refused]).check();
    home.run(["ask", "two"]).stdout_has(&[refused]).check();
    home.hear(r#"{"name":"note.taken","payload":{}}"#);
    let prompt = home.run(["ask", "three"]).stdout_any().check().text();
    let after = prompt.split("## Refused").nth(1).unwrap_or_default();
    assert!(!after.contains("{,}"), "{prompt}");
}

#[test]
fn a_mind_that_uses_self_itself_disturbs_nothing() {
    for shell in shells("a_mind_that_uses_self_itself_disturbs_nothing") {
        for inner in [
            r#"echo '{"name":"note.taken","payload":{}}' | self hear 2>/dev/null"#,
            r#"echo '{"name":"note.taken","payload":{}}' | self 2>/dev/null"#,
            r#"self show brief >/dev/null; echo '{"name":"note.taken","payload":{}}' >f; self hear <f 2>/dev/null"#,
            r#"self quiet; self hear 2>/dev/null <<E
{"name":"note.taken","payload":{}}
E
"#,
        ] {
            let home = Home::made();
            let mind = format!("cat >/dev/null\n{inner}\necho All quiet.\n");
            fs::write(home.beside("mind"), mind).unwrap();
            home.shell(shell, "echo q | self | sh ../mind | self").stdout("All quiet.\n").stderr_any().check();
            assert_eq!(
                home.told_from(3),
                [
                    r#"3 pipe self.asked {"text":"q"}"#,
                    "4 pipe note.taken {}",
                    r#"5 pipe self.replied {"text":"All quiet.","ask":3}"#
                ],
                "{shell}: {inner}"
            );
        }
    }
}

#[test]
fn an_ask_inside_a_mind_is_an_ask_of_its_own() {
    let home = Home::made();
    fs::write(home.beside("mind"), format!("cat >/dev/null\necho inner | self | {MIND} | self >inner\necho outer answer\n"))
        .unwrap();
    home.sh("echo outer | self | sh ../mind | self").stdout("outer answer\n").stderr_any().check();
    assert_eq!(
        home.told_from(3),
        [
            r#"3 pipe self.asked {"text":"outer"}"#,
            r#"4 pipe self.asked {"text":"inner"}"#,
            r#"5 pipe self.replied {"text":"All quiet.","ask":4}"#,
            r#"6 pipe self.replied {"text":"outer answer","ask":3}"#,
        ]
    );
}

#[test]
fn twelve_pipelines_under_xargs_have_each_their_own_answer() {
    if !has("xargs") {
        return skipped("twelve_pipelines_under_xargs_have_each_their_own_answer", "no xargs here");
    }
    let home = Home::made();
    let one = "echo question N | self | { cat >/dev/null; echo answer N; } | self >outN";
    home.sh(&format!("seq 12 | xargs -P 12 -I N sh -c '{one}'")).stderr_any().check();
    check_answers(&home, 12);
}

#[test]
fn a_self_behind_the_answer_is_a_question_of_its_own() {
    let home = Home::made();
    for round in 0..5 {
        home.sh(&with_mind("echo q | self | MIND | self | self")).stdout_has(&["All quiet."]).stderr_any().check();
        let names: Vec<_> = home.records().into_iter().skip(2 + 3 * round).map(|record| record.name).collect();
        assert_eq!(names, ["self.asked", "self.replied", "self.asked"]);
    }
}

#[test]
fn markers_of_prompts_that_nobody_heard_are_swept() {
    let home = Home::made();
    home.sh("n=0; while [ $n -lt 100 ]; do n=$((n + 1)); self ask hi | cat >/dev/null; done").stderr_any().check();
    let markers = fs::read_dir(home.join(".self/turns")).unwrap().count();
    assert!(markers <= 66, "{markers} markers are left");
    home.sh(&with_mind("echo q | self | MIND | self")).stdout("All quiet.\n").stderr_any().check();
}
