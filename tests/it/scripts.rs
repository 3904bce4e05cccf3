//! Scripts of commands: what is installed and what is rejected, how a command runs, and what a changed file does.
//!
//! Black-box, over homes that the kernel made. The pages of projectors stand in `pages`.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use rustix::process::{Pid, Signal, kill_process};

use crate::home::{Call, Ended, Home, at_once, first_line, line, status_of, wait_until};

/// A declaration of a command, as a line of the wire.
pub fn command(name: &str) -> String {
    format!(r#"{{"name":"command.declared","payload":{{"name":"{name}","description":"d","event":{{"name":"a.b"}}}}}}"#) + "\n"
}

/// A script in its fence.
pub fn fence(capability: &str, script: &str) -> String {
    format!("```self {capability}\n{script}```\n")
}

/// A home in which `command/x` is this script. Its receipt is seq 3, and the seal behind it seq 4.
#[track_caller]
fn with_command(script: &str) -> Home {
    let home = Home::new();
    install(&home, script);
    home
}

#[track_caller]
fn install(home: &Home, script: &str) {
    let installed = home.count_or_none("script.compiled");
    home.hear(&(command("x") + &fence("command/x", script)));
    assert_eq!(home.count("script.compiled"), installed + 1, "{:?}", home.payloads("script.rejected"));
}

/// A home in which `command/x` is this script, and may write to `~/out`, which [`out`] names. Its receipt is seq 3.
#[track_caller]
fn with_writer(script: &str) -> Home {
    with_needs(r#"["write:~/out"]"#, script)
}

/// A home in which `command/x` is this script and has these needs.
#[track_caller]
pub fn with_needs(needs: &str, script: &str) -> Home {
    let home = Home::new();
    let declared = format!(r#"{{"name":"command.declared","payload":{{"name":"x","needs":{needs}}}}}"#);
    home.hear(&(declared + "\n" + &fence("command/x", script)));
    assert_eq!(home.count("script.compiled"), 1, "{:?}", home.payloads("event.refused"));
    home
}

/// A file that `command/x` of [`with_writer`] may write.
fn out(home: &Home, name: &str) -> PathBuf {
    home.beside("user/out").join(name)
}

impl Home {
    fn count_or_none(&self, name: &str) -> usize {
        if self.join("events.jsonl").exists() { self.count(name) } else { 0 }
    }

    /// The reasons of the rejections, in order.
    pub fn reasons(&self) -> Vec<String> {
        let reason = |payload: &String| {
            let payload: serde_json::Value = serde_json::from_str(payload).unwrap();
            payload["reason"].as_str().unwrap().to_owned()
        };
        self.payloads("script.rejected").iter().map(reason).collect()
    }

    fn run_x(&self) -> Call {
        self.run(["run", "x"])
    }
}

const SCRIPT_PATH: &str = "capabilities/commands/x/run";
const HONEST: &str = "#!/bin/sh\necho '{\"name\":\"a.b\",\"payload\":{\"n\":1}}'\n";

// ---- Installing ------------------------------------------------------------------------------------------------------------

#[test]
fn a_fenced_script_is_installed_byte_for_byte() {
    let script = "#!/bin/sh\n# é \\n \" ' `id` $HOME\t\n\n\n  echo '{\"name\":\"a.b\"}'  \n\n";
    let home = with_command(script);
    assert_eq!(fs::read(home.join(SCRIPT_PATH)).unwrap(), script.as_bytes());
    assert_eq!(home.mode(SCRIPT_PATH), 0o700);
    home.run_x().stdout("appended seq 5 a.b\n").check();
}

#[test]
fn a_script_with_cr_line_ends_is_mended() {
    let home = with_command(&HONEST.replace('\n', "\r\n"));
    assert_eq!(fs::read(home.join(SCRIPT_PATH)).unwrap(), HONEST.as_bytes());
    home.run_x().stdout("appended seq 5 a.b\n").check();
}

#[track_caller]
fn rejects(script: &str, reason: &str) {
    let home = Home::new();
    home.hear(&(command("x") + &fence("command/x", script)));
    let reasons = home.reasons();
    assert!(reasons.len() == 1 && reasons[0].contains(reason), "{reasons:?}");
    assert_eq!(home.count("script.compiled"), 0);
    assert!(!home.join("capabilities").exists());
    home.run(["quiet"]).status(1).check();
    home.run(["work"]).stdout_has(&["DECLARATION (command \"x\"):", reason]).check();
    home.run_x().stderr_has(&["no script for it was installed"]).status(1).check();
}

#[test]
fn a_script_without_a_shebang_is_rejected() {
    rejects("echo '{\"name\":\"a.b\"}'\n", "the script has no shebang");
}

#[test]
fn a_script_whose_interpreter_is_not_here_is_rejected() {
    rejects("#!/usr/bin/env nosuchlang\n", "`nosuchlang` is nowhere in PATH");
}

#[test]
fn an_empty_script_is_rejected() {
    rejects("", "the script is empty");
}

#[test]
fn a_shebang_with_a_blank_and_an_argument_works() {
    let home = with_command("#! /bin/sh -eu\nfalse\necho '{\"name\":\"a.b\"}'\n");
    home.run_x().stderr_has(&["nothing of it was appended"]).status(1).check();
}

#[test]
fn a_home_whose_path_holds_a_space_runs_scripts() {
    let home = Home::called("my home");
    install(&home, HONEST);
    home.run_x().stdout("appended seq 5 a.b\n").check();
}

#[test]
fn an_undeclared_script_is_rejected() {
    let home = Home::made();
    home.hear(&fence("command/x", HONEST));
    assert_eq!(home.reasons(), ["`command/x` is not declared here; declare it first"]);
    assert_eq!(home.count("script.compiled"), 0);
}

#[test]
fn a_script_after_a_retirement_in_the_same_body_is_rejected() {
    let home = with_command(HONEST);
    let retire = r#"{"name":"capability.retired","payload":{"type":"command","name":"x"}}"#;
    home.hear(&format!("{}{retire}\n", fence("command/x", HONEST)));
    assert_eq!(home.reasons(), ["`command/x` is not declared here; declare it first"]);
    assert!(!home.join("capabilities/commands/x").exists());
}

#[test]
fn a_script_that_names_nothing_is_for_the_one_pending_declaration() {
    let home = Home::new();
    let script = serde_json::to_string(HONEST).unwrap();
    let authored = format!(r#"{{"name":"script.authored","payload":{{"script":{script}}}}}"#);
    home.hear(&(command("x") + &authored));
    home.run_x().stdout("appended seq 5 a.b\n").check();
    home.hear(&(command("y") + &command("z") + &authored));
    assert_eq!(home.reasons(), ["the script names no capability, and 2 declarations are pending, not one"]);
}

#[test]
fn a_script_in_a_log_that_never_had_a_key_is_installed() {
    let declared = line(2, "pipe", "command.declared", r#"{"name":"x"}"#);
    let home = Home::with_log(first_line() + &declared);
    home.hear(&fence("command/x", HONEST));
    assert_eq!(home.count("script.compiled"), 1, "{:?}", home.reasons());
    home.run_x().stdout("appended seq 5 a.b\n").check();
}

#[test]
fn the_same_rejected_script_three_times_is_named() {
    let home = Home::new();
    home.hear(&command("x"));
    for told in [None, None, Some("(the same script, rejected 3 times)")] {
        home.hear(&fence("command/x", "echo\n"));
        let prompt = home.run(["work"]).stdout_any().check().text();
        assert_eq!(prompt.contains("the same script"), told.is_some());
        assert!(told.is_none_or(|told| prompt.contains(told)), "{prompt}");
    }
}

#[test]
fn the_bounded_loop_ends_by_itself_with_a_cheating_mind() {
    let home = Home::new();
    home.hear(&command("x"));
    let cheat = home.beside("bin/cheat");
    fs::write(&cheat, "#!/bin/sh\ncat > /dev/null\nprintf '```self command/x\\necho cheat\\n```\\n'\n").unwrap();
    fs::set_permissions(&cheat, fs::Permissions::from_mode(0o700)).unwrap();
    let passes =
        "n=0; for i in 1 2 3 4 5 6 7 8; do self quiet && break; n=$i; self < /dev/null | cheat | self; done; echo $n passes";
    home.sh(passes).stdout("5 passes\n").stderr_any().check();
    assert_eq!((home.count("script.rejected"), home.count("self.reflected")), (5, 0));
    // It is offered again when it is declared anew.
    home.hear(&command("x"));
    home.run(["quiet"]).status(1).check();
}

#[test]
fn a_rejection_leaves_the_script_that_is_in_force() {
    let home = with_command(HONEST);
    home.hear(&fence("command/x", "echo\n"));
    assert_eq!(home.count("script.rejected"), 1);
    home.run_x().stdout("appended seq 6 a.b\n").check();
}

// ---- Running ---------------------------------------------------------------------------------------------------------------

#[test]
fn exit_3_after_half_its_events_appends_nothing_and_is_recorded_once() {
    let home = with_command("#!/bin/sh\necho '{\"name\":\"a.b\"}'\necho not today >&2\nexit 3\n");
    let fails = || {
        home.run_x().stderr_has(&["not today\n", "self: command/x failed, and nothing of it was appended"]).status(1).check();
    };
    fails();
    fails();
    assert_eq!(home.count("a.b"), 0);
    let died = home.payloads("capability.died");
    assert_eq!(died.len(), 1);
    assert!(died[0].starts_with(r#"{"type":"command","name":"x","exit":3,"stderr":"not today\n","sha256":""#), "{died:?}");
    home.run(["ask", "hi"]).stdout_has(&["| command/x ended with 3: not today\n"]).check();
    // A receipt settles it, and the next death is a new one.
    install(&home, "#!/bin/sh\nexit 3\n");
    home.run_x().stderr_any().status(1).check();
    assert_eq!(home.count("capability.died"), 2);
}

#[test]
fn another_cause_of_death_is_recorded_too() {
    let home = with_command("#!/bin/sh\nexit $1\n");
    for status in ["3", "4", "3"] {
        home.run(["run", "x", status]).stderr_any().status(1).check();
    }
    assert_eq!(home.count("capability.died"), 2);
}

#[test]
fn wrong_usage_exits_2_and_is_not_recorded() {
    let home = with_command("#!/bin/sh\necho '{\"name\":\"a.b\"}'\necho usage: x >&2\nexit 2\n");
    let log = home.log();
    home.run_x().stderr_has(&["usage: x\n"]).status(2).check();
    assert_eq!(home.log(), log);
}

#[track_caller]
fn prints_badly(printed: &str, reason: &str) {
    let home = with_command(&format!("#!/bin/sh\ncat <<'END'\n{{\"name\":\"a.b\"}}\n{printed}\nEND\n"));
    home.run_x().stderr_has(&["line 2 of what it printed is no event", reason]).status(1).check();
    assert_eq!((home.count("a.b"), home.count("capability.died")), (0, 1));
}

#[test]
fn a_line_of_output_that_is_no_event_lands_nothing() {
    prints_badly("done", "one JSON object");
    prints_badly("```json", "one JSON object");
    prints_badly("`{\"name\":\"c.d\"}`", "one JSON object");
    prints_badly("[{\"name\":\"c.d\"}]", "one JSON object");
    prints_badly("{\"name\":\"c.d\",}", "");
    prints_badly("{\"name\":\"c.d\",\"name\":\"e.f\"}", "");
    prints_badly("{\"name\":\"cd\",\"payload\":{}}", "");
    prints_badly("{\"name\":\"c.d\"} {\"name\":\"e.f\"}", "");
}

#[test]
fn a_name_of_the_kernel_from_a_command_is_refused_and_the_rest_lands() {
    let home = with_command(
        "#!/bin/sh\necho '{\"name\":\"a.b\"}'\necho '{\"name\":\"script.compiled\",\"payload\":{}}'\necho '{\"name\":\"c.d\"}'\n",
    );
    home.run_x().stdout("appended seq 5 a.b\nappended seq 7 c.d\n").stderr_has(&["refused script.compiled"]).check();
    let told: Vec<_> = home.records().split_off(4).into_iter().map(|it| (it.via.unwrap(), it.name)).collect();
    let told: Vec<_> = told.iter().map(|(via, name)| (&**via, &**name)).collect();
    assert_eq!(told, [("cli", "a.b"), ("kernel", "event.refused"), ("cli", "c.d")]);
}

#[test]
fn a_script_from_a_command_is_refused_and_the_rest_lands() {
    let authored = r##"{"name":"script.authored","payload":{"type":"command","name":"x","script":"#!/bin/sh\n"}}"##;
    let home = with_command(&format!("#!/bin/sh\ncat <<'END'\n{authored}\n{{\"name\":\"a.b\"}}\nEND\n"));
    home.run_x().stdout("appended seq 6 a.b\n").stderr_has(&["refused script.authored"]).check();
    assert_eq!((home.count("script.compiled"), home.count("capability.died")), (1, 0));
}

#[test]
fn a_command_may_grow_a_command() {
    let home = with_command(&format!("#!/bin/sh\ncat <<'END'\n{}END\n", command("y")));
    home.run_x().stdout("appended seq 5 command.declared\n").check();
    home.run(["work"]).stdout_has(&["DECLARATION (command \"y\"):"]).check();
}

#[test]
fn arguments_come_as_they_were_typed() {
    let home = with_writer("#!/bin/sh\nfor it in \"$@\"; do printf '[%s]\\n' \"$it\"; done > ~/out/got\n");
    let check = |arguments: &[&str]| {
        home.run(["run", "x"].iter().chain(arguments)).check();
        let expect: String = arguments.iter().map(|it| format!("[{it}]\n")).collect();
        assert_eq!(fs::read_to_string(out(&home, "got")).unwrap(), expect);
    };
    check(&[]);
    check(&["--help"]);
    check(&["-x", "", "a  b", "--strict", "é", "*", "$HOME", "-h", "--version"]);
    check(&["a", "--", "-b"]);
}

#[test]
fn the_environment_is_cleared_and_tells_where_and_who() {
    let home = with_writer(
        "#!/bin/sh\nenv > ~/out/got\npwd > ~/out/where\nfor it in \"$HOME\" \"$TMPDIR\"; do test -w \"$it\" || exit 9; done\n",
    );
    home.run_x()
        .env("SELF_CALLER", "ada")
        .env("TOKEN", "hunter2")
        .env("SELF_HOME", home.path())
        .from(home.beside("user"))
        .check();
    let got = fs::read_to_string(out(&home, "got")).unwrap();
    let value = |key: &str| got.lines().find_map(|line| line.strip_prefix(&format!("{key}=")).map(str::to_owned));
    let mut keys: Vec<_> = got.lines().filter_map(|line| line.split_once('=')).map(|(key, _)| key).collect();
    keys.retain(|key| !["PWD", "OLDPWD", "SHLVL", "_"].contains(key));
    keys.sort_unstable();
    let expect = ["HOME", "LANG", "PATH", "PYTHONHASHSEED", "SELF_CALLER", "SELF_CWD", "SELF_DEPTH", "SELF_HOME", "TMPDIR", "TZ"];
    assert_eq!(keys, expect);
    let root = home.path().to_str().unwrap();
    let user = home.beside("user");
    let told = ["SELF_CALLER", "SELF_CWD", "SELF_HOME", "TZ", "LANG", "PYTHONHASHSEED"].map(|key| value(key).unwrap());
    assert_eq!(told, ["ada", user.to_str().unwrap(), root, "UTC", "C.UTF-8", "0"]);
    assert_ne!(value("HOME").unwrap(), user.to_str().unwrap());
    assert_eq!(fs::read_to_string(out(&home, "where")).unwrap().trim_end(), root);
    assert!(!Path::new(&value("HOME").unwrap()).exists(), "the scratch folder is left behind");
}

#[test]
fn the_log_comes_on_stdin_as_it_stands() {
    let home = with_writer("#!/bin/sh\ncat > ~/out/got\n");
    home.hear(r#"{"name":"n.n","payload":{"big":123456789012345678901234567890,"z":1.10,"a":"<\u2028>"}}"#);
    let last = line(5, "pipe", "n.n", "{}");
    let whole = [home.log(), last.clone().into_bytes()].concat();
    home.append(format!("not a record\n\n{last}"));
    home.run_x().stderr_has(&["the log is damaged"]).check();
    assert_eq!(fs::read(out(&home, "got")).unwrap(), whole);
}

#[test]
fn a_script_that_reads_no_stdin_loses_nothing_on_a_20_mb_log() {
    let home = with_command(HONEST);
    let payload = format!(r#"{{"text":"{}"}}"#, "x".repeat(1 << 18));
    home.append((5..85).map(|seq| line(seq, "pipe", "n.n", &payload)).collect::<String>());
    home.run_x().stdout("appended seq 85 a.b\n").check();
}

#[test]
fn one_command_never_runs_twice_at_once() {
    let home = with_writer(
        "#!/bin/sh\ncd ~/out\nmkdir busy || exit 9\ni=0; while [ $i -lt 20000 ]; do i=$((i+1)); done\nrmdir busy\necho '{\"name\":\"a.b\"}'\n",
    );
    let ended = at_once((0..3).map(|_| home.run_x().stdout_any()).collect());
    let mut told: Vec<_> = ended.iter().map(Ended::text).collect();
    told.sort();
    assert_eq!(told, ["appended seq 5 a.b\n", "appended seq 6 a.b\n", "appended seq 7 a.b\n"]);
}

#[test]
fn a_command_that_is_run_elsewhere_for_too_long_exits_75() {
    let home =
        with_writer("#!/bin/sh\ncd ~/out\n: > started\nwhile ! [ -e go ]; do sleep 0.02; done\necho '{\"name\":\"a.b\"}'\n");
    let mut first = home.run_x().start();
    wait_until("the first runs", || out(&home, "started").exists());
    home.run_x().env("SELF_SCRIPT_SECONDS", "1").stderr_has(&["`command/x` is being run by another process"]).status(75).check();
    fs::write(out(&home, "go"), "").unwrap();
    assert_eq!(status_of(first.wait().unwrap()), 0);
    assert_eq!(home.count("a.b"), 1);
}

#[test]
fn a_script_cannot_call_self() {
    let needs = format!("[\"read:{}\"]", fs::canonicalize(crate::home::SELF).unwrap().display());
    let home = with_needs(&needs, &format!("#!/bin/sh\n{} quiet\necho '{{\"name\":\"a.b\"}}' | {0} hear\n", crate::home::SELF));
    home.run_x().stderr_has(&["a script cannot call self"]).status(1).check();
    assert_eq!(home.count("a.b"), 0);
    home.run(["quiet"]).env("SELF_DEPTH", "1").stderr_has(&["a script cannot call self"]).status(1).check();
}

/// Whether a process has this word in its arguments.
pub fn runs(word: &str) -> bool {
    let has = |entry: fs::DirEntry| {
        fs::read(entry.path().join("cmdline")).is_ok_and(|line| line.split(|b| *b == 0).any(|it| it == word.as_bytes()))
    };
    fs::read_dir("/proc").unwrap().flatten().any(has)
}

#[track_caller]
fn is_stopped_by(signal: Signal, sleep: &str, status: i32) {
    let home = with_writer(&format!(
        "#!/bin/sh\ntrap '' INT TERM\necho '{{\"name\":\"a.b\"}}'\nsleep {sleep} &\n: > ~/out/started\nwait\nsleep {sleep}\n"
    ));
    let log = home.log();
    let mut child = home.run_x().start();
    wait_until("the script runs", || out(&home, "started").exists() && runs(sleep));
    kill_process(Pid::from_child(&child), signal).unwrap();
    assert_eq!(status_of(child.wait().unwrap()), status);
    wait_until("nothing of it runs", || !runs(sleep));
    assert_eq!(home.log(), log);
    // No lock is left.
    home.run_x().env("SELF_SCRIPT_SECONDS", "1").stderr_has(&["limit"]).status(1).check();
}

#[test]
fn ctrl_c_during_a_run_leaves_no_orphan_no_lock_and_no_batch() {
    is_stopped_by(Signal::INT, "300.0130", 130);
}

#[test]
fn sigterm_during_a_run_leaves_no_orphan_no_lock_and_no_batch() {
    is_stopped_by(Signal::TERM, "300.0143", 143);
}

#[test]
fn a_daemon_that_keeps_stdout_does_not_outlive_its_run() {
    let home = with_command("#!/bin/sh\nsetsid sleep 300.0777 &\necho '{\"name\":\"a.b\"}'\n");
    let ended = home.run_x().stdout("appended seq 5 a.b\n").check();
    assert!(ended.took.as_millis() < 1000, "{:?}", ended.took);
    wait_until("the daemon is gone", || !runs("300.0777"));
}

#[test]
fn a_script_that_prints_without_end_ends_at_a_limit() {
    let home = with_command("#!/bin/sh\nexec yes '{\"name\":\"a.b\"}'\n");
    home.run_x().env("SELF_SCRIPT_SECONDS", "1").stderr_has(&["nothing of it was appended", "limit"]).status(1).check();
    assert_eq!(home.count("a.b"), 0);
    let died = home.payloads("capability.died");
    assert!(died.len() == 1 && died[0].contains(r#""exit":"limit:"#), "{died:?}");
}

#[test]
fn a_script_that_ignores_term_ends_at_the_time_limit() {
    let home = with_command("#!/bin/sh\ntrap '' TERM INT HUP\necho '{\"name\":\"a.b\"}'\nwhile :; do sleep 0.1; done\n");
    home.run_x().env("SELF_SCRIPT_SECONDS", "1").stderr_has(&["limit"]).status(1).check();
    assert_eq!(home.payloads("capability.died").len(), 1);
    assert!(home.payloads("capability.died")[0].contains(r#""exit":"limit:time""#));
}

#[test]
fn five_megabytes_on_stderr_are_no_deadlock() {
    let home = with_command("#!/bin/sh\nhead -c 5000000 /dev/zero | tr '\\0' e >&2\necho '{\"name\":\"a.b\"}'\n");
    home.run_x().stdout("appended seq 5 a.b\n").stderr_any().check();
}

#[test]
fn a_command_that_is_not_there_makes_no_home() {
    let home = Home::new();
    home.run_x().stderr_has(&["hint"]).status(1).check();
    assert_eq!(fs::read_dir(home.path()).unwrap().count(), 0);
}

#[test]
fn names_that_are_no_command_run_nothing() {
    let home = with_command(HONEST);
    let log = home.log();
    for name in ["../x", "/etc/passwd", "X", "", "y", "x/run", "commands/x", "x\n"] {
        home.run(["run", name]).stderr_has(&["there is no command"]).status(1).check();
    }
    assert_eq!(home.log(), log);
}

// ---- The file on disk ------------------------------------------------------------------------------------------------------

#[track_caller]
fn is_not_run(change: impl FnOnce(&Path)) {
    let home = with_command(HONEST);
    change(&home.join(SCRIPT_PATH));
    let log = home.log();
    home.run_x().stderr_has(&[SCRIPT_PATH, "self rehydrate", "authored anew"]).status(1).check();
    assert_eq!(home.log(), log);
    // Neither does another verb put it in order in silence.
    home.hear(r#"{"name":"n.n"}"#);
    home.run_x().stderr_has(&[SCRIPT_PATH]).status(1).check();
    home.run(["rehydrate"]).stderr_any().check();
    home.run_x().stdout("appended seq 6 a.b\n").check();
}

#[test]
fn an_edited_script_is_not_run_and_both_ways_out_are_named() {
    is_not_run(|path| fs::write(path, HONEST.replace("\"n\":1", "\"n\":2")).unwrap());
}

#[test]
fn a_deleted_script_is_not_run_and_both_ways_out_are_named() {
    is_not_run(|path| fs::remove_file(path).unwrap());
}

#[test]
fn a_script_swapped_for_a_link_is_not_run_and_both_ways_out_are_named() {
    is_not_run(|path| {
        let other = path.with_file_name("other");
        fs::rename(path, &other).unwrap();
        symlink(other, path).unwrap();
    });
}

#[test]
fn an_edited_script_is_replaced_when_it_is_authored_anew() {
    let home = with_command(HONEST);
    fs::write(home.join(SCRIPT_PATH), "#!/bin/sh\n# edited\n").unwrap();
    let body = command("x") + &fence("command/x", HONEST);
    home.run(["hear"]).stdin(body).stderr_has(&["aside"]).check();
    home.run_x().stdout("appended seq 8 a.b\n").check();
    let aside: Vec<_> = home.files().into_iter().filter(|path| path.starts_with(".self/aside")).collect();
    assert_eq!(aside.len(), 1);
    assert_eq!(fs::read_to_string(home.join(&aside[0])).unwrap(), "#!/bin/sh\n# edited\n");
}

#[test]
fn a_script_that_was_never_put_in_place_is_put_in_place_and_run() {
    let home = with_command(HONEST);
    for folder in [".self", "capabilities"] {
        fs::remove_dir_all(home.join(folder)).unwrap();
    }
    home.run_x().stdout("appended seq 5 a.b\n").stderr_any().check();
    assert_eq!(fs::read_to_string(home.join(SCRIPT_PATH)).unwrap(), HONEST);
}

// ---- Receipts --------------------------------------------------------------------------------------------------------------

/// The line of the newest receipt.
#[track_caller]
fn receipt(home: &Home) -> String {
    let log = String::from_utf8(home.log()).unwrap();
    log.lines().rfind(|line| line.contains("\"name\":\"script.compiled\"")).unwrap().to_owned() + "\n"
}

#[test]
fn d11_an_old_receipt_copied_to_the_end_does_not_bring_a_retired_command_back() {
    let home = with_command(HONEST);
    let receipt = receipt(&home);
    home.run(["retire", "command/x"]).stderr_any().check();
    home.append(&receipt);
    home.run_x().stderr_has(&["there is no command `x`"]).status(1).check();
    home.run(["rehydrate"]).stderr_any().check();
    assert!(!home.join(SCRIPT_PATH).exists());
}

#[test]
fn d11_an_old_receipt_copied_to_the_end_rolls_nothing_back() {
    let home = with_command("#!/bin/sh\necho '{\"name\":\"old.old\"}'\n");
    let old = receipt(&home);
    install(&home, HONEST);
    home.append(&old);
    home.run_x().stdout_has(&[" a.b\n"]).stderr_any().check();
    home.run(["rehydrate"]).stderr_any().check();
    assert_eq!(fs::read_to_string(home.join(SCRIPT_PATH)).unwrap(), HONEST);
    assert_eq!(home.count("old.old"), 0);
}

#[test]
fn d11_an_old_receipt_that_is_piped_in_revives_nothing() {
    let home = with_command(HONEST);
    let line = receipt(&home);
    home.run(["retire", "command/x"]).stderr_any().check();
    // The line as it stands is a quotation; its payload alone is a forgery.
    home.run(["hear"]).stdin(&line).stdout_any().stderr_any().check();
    let payload = &home.payloads("script.compiled")[0];
    home.run(["hear"])
        .stdin(format!("{{\"name\":\"script.compiled\",\"payload\":{payload}}}\n"))
        .stdout_any()
        .stderr_has(&["refused script.compiled"])
        .check();
    home.run_x().stderr_has(&["there is no command `x`"]).status(1).check();
    assert_eq!(home.count("script.compiled"), 1);
}

#[test]
fn a_forged_receipt_puts_nothing_on_disk() {
    let home = Home::new();
    home.hear(&command("x"));
    let forged = r##"{"type":"command","name":"x","script":"#!/bin/sh\ntouch pwned\n","by":"pipe","seq":3,"declaration":"00","sig":"00"}"##;
    home.append(line(3, "kernel", "script.compiled", forged));
    home.run_x().stderr_any().status(1).check();
    home.run(["rehydrate"]).stderr_any().check();
    assert!(!home.join("pwned").exists() && !home.join(SCRIPT_PATH).exists());
}

#[test]
fn one_flipped_byte_in_a_receipts_script_stops_it() {
    let home = with_command(HONEST);
    let log = String::from_utf8(home.log()).unwrap().replace("\\\"n\\\":1", "\\\"n\\\":2");
    home.write_log(&log);
    home.run_x().stderr_any().status(1).check();
    assert_eq!(home.count("a.b"), 0);
}

#[test]
fn without_the_key_nothing_is_run_or_removed() {
    let home = with_command(HONEST);
    fs::remove_file(home.join(".secret")).unwrap();
    home.run_x().stderr_any().status(1).check();
    home.run(["rehydrate"]).stderr_has(&["nothing was rebuilt or removed"]).status(1).check();
    assert_eq!(fs::read_to_string(home.join(SCRIPT_PATH)).unwrap(), HONEST);
    assert!(!home.join(".secret").exists());
}

#[test]
fn an_argument_that_is_no_text_and_names_no_file_is_refused_before_the_run() {
    let home = Home::made();
    home.hear("{\"name\":\"command.declared\",\"payload\":{\"name\":\"x\"}}\n```self command/x\n#!/bin/sh\nexit 3\n```\n");
    let before = home.log();
    let odd = <std::ffi::OsStr as std::os::unix::ffi::OsStrExt>::from_bytes(b"caf\xe9");
    home.run([std::ffi::OsStr::new("run"), "x".as_ref(), "fine".as_ref(), odd]).status(2).stderr_has(&["argument 2"]).check();
    assert_eq!(home.log(), before);
}
