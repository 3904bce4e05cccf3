//! Confinement as it is lived with: needs, interpreters, levels, the doctor; TRUST §2 at each level that the machine offers.
//!
//! What a script tries by force stands in `attacks`.

use std::fs;
use std::io::Read;
use std::net::TcpListener;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use self_kernel::level::Level;

use crate::attacks::{at, offered};
use crate::home::{Call, Home, SELF, has, is_root, skipped, wait_until};
use crate::scripts::{fence, runs, with_needs};

/// The levels that hold a script to what it is granted.
fn holding(test: &str) -> Vec<Level> {
    offered(test).into_iter().filter(|level| *level > Level::Limits).collect()
}

fn run_x(home: &Home) -> Call {
    home.run(["run", "x"]).stdout_any()
}

/// A script that fails with 3 unless every line of it does what it must.
fn sh(lines: &str) -> String {
    let lines: String = lines
        .lines()
        .map(|line| format!("{} || {{ echo failed: '{}' >&2; exit 3; }}\n", line.trim(), line.trim().replace('\'', "")))
        .collect();
    format!("#!/bin/sh\n{lines}exit 0\n")
}

/// Runs `command/x` with these needs at each level that holds; each line of the script must do what it says.
#[track_caller]
fn each_line_holds(test: &str, needs: &str, lines: &str) -> Option<Home> {
    let mut last = None;
    for level in holding(test) {
        let home = with_needs(needs, &sh(lines));
        fs::create_dir_all(home.beside("user/notes")).unwrap();
        fs::write(home.beside("user/notes/one"), "one").unwrap();
        fs::write(home.beside("user/other"), "other").unwrap();
        at(level, || run_x(&home).stderr_any().end());
        let ended = at(level, || run_x(&home).stderr_any().end());
        assert_eq!(ended.status, 0, "{level}: {}", ended.said());
        last = Some(home);
    }
    last
}

// ---- Needs -----------------------------------------------------------------------------------------------------------------

#[test]
fn s11_read_grants_a_folder_and_nothing_beside_it() {
    each_line_holds(
        "s11_read",
        r#"["read:~/notes"]"#,
        "[ \"$(cat ~/notes/one)\" = one ]
         ls ~/notes/ >/dev/null
         ! cp /dev/null ~/notes/two 2>/dev/null
         ! cat \"$SELF_HOME/../user/other\" 2>/dev/null
         ! ls \"$SELF_HOME/../user\" 2>/dev/null
         ! cat .secret 2>/dev/null",
    );
}

#[test]
fn s11_write_makes_its_folder_and_grants_nothing_beside_it() {
    let home = each_line_holds(
        "s11_write",
        r#"["write:~/deep/out"]"#,
        "rm -rf ~/deep/out/it
         mkdir ~/deep/out/it
         echo kept > ~/deep/out/it/file
         mv ~/deep/out/it/file ~/deep/out/kept
         [ \"$(cat ~/deep/out/kept)\" = kept ]
         ! cp /dev/null \"$SELF_HOME/../user/deep/beside\" 2>/dev/null
         ! cat \"$SELF_HOME/../user/other\" 2>/dev/null
         ! cp /dev/null \"$SELF_HOME/made\" 2>/dev/null",
    );
    let Some(home) = home else { return };
    assert_eq!(fs::read_to_string(home.beside("user/deep/out/kept")).unwrap(), "kept\n");
    for folder in ["user/deep", "user/deep/out"] {
        assert_eq!(fs::metadata(home.beside(folder)).unwrap().permissions().mode() & 0o777, 0o700, "{folder}");
    }
}

#[test]
fn s11_write_grants_a_file_that_is_there_alone() {
    each_line_holds(
        "s11_write_file",
        r#"["write:~/other"]"#,
        "echo more >> ~/other
         [ -n \"$(cat ~/other)\" ]
         ! cat \"$SELF_HOME/../user/notes/one\" 2>/dev/null
         ! rm \"$SELF_HOME/../user/other\" 2>/dev/null",
    );
}

#[test]
fn s11_read_args_grants_the_files_of_this_run() {
    let script =
        "#!/bin/sh\ncd \"$SELF_CWD\"\ncat \"$1\" >/dev/null && ! cat \"$2\" 2>/dev/null || exit 3\nprintf '{\"name\":\"a.b\"}'\n";
    for level in holding("s11_read_args") {
        let home = with_needs(r#"["read:args"]"#, script);
        for name in ["one", "two"] {
            fs::write(home.beside("user").join(name), "it").unwrap();
        }
        let call = |arguments: &[&str]| {
            let call = home
                .run(["run", "x"].iter().chain(arguments))
                .env("SELF_HOME", home.path())
                .from(home.beside("user"))
                .stdout_any()
                .stderr_any();
            at(level, || call.end())
        };
        // The second argument is no file; the script tries a file of that name all the same.
        let ended = call(&["one", "./no/../two"]);
        assert_eq!(ended.status, 0, "{}", ended.said());
        assert_eq!(call(&["nothing", "two"]).status, 1);
        let ended = call(&["../home/.secret"]);
        assert_eq!(ended.status, 1);
        assert!(ended.said().contains("argument 1 is not granted: it carries the key"), "{}", ended.said());
    }
}

#[test]
fn s11_net_grants_the_internet_and_no_other_socket() {
    if !has("python3") {
        return skipped("s11_net", "there is no python3");
    }
    let script = "#!/usr/bin/env python3
import socket, sys
it = socket.create_connection(('127.0.0.1', int(sys.argv[1])), 5)
it.sendall(b'here')
it.close()
socket.socket(socket.AF_INET6).close()
socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0).close()
for family, kind, protocol in [(socket.AF_UNIX, 1, 0), (socket.AF_UNIX, 2, 0), (socket.AF_NETLINK, 3, 15), (socket.AF_PACKET, 3, 0)]:
    try:
        socket.socket(family, kind, protocol)
        sys.exit('made one of family %d' % family)
    except PermissionError:
        pass
open('/etc/resolv.conf').read()
";
    for level in holding("s11_net") {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port().to_string();
        let home = with_needs(r#"["net"]"#, script);
        let ended = at(level, || home.run(["run", "x", &port]).stderr_any().end());
        assert_eq!(ended.status, 0, "{level}: {}", ended.said());
        let mut came = String::new();
        listener.accept().unwrap().0.read_to_string(&mut came).unwrap();
        assert_eq!(came, "here");
    }
}

#[test]
fn s11_a_need_whose_path_became_a_link_into_the_home_is_refused_at_the_run() {
    let home = with_needs(r#"["read:~/notes"]"#, "#!/bin/sh\ncat ~/notes/.secret\n");
    symlink(home.path(), home.beside("user/notes")).unwrap();
    let log = home.log();
    run_x(&home).status(1).stderr_has(&["`read:~/notes` is not granted: it contains this home", "hint: self doctor"]).check();
    assert_eq!(home.log(), log);
    home.run(["doctor"])
        .status(1)
        .stdout_has(&["fault: command/x does not run: `read:~/notes`", "mend: declare command/x anew"])
        .check();
}

#[test]
fn a_key_or_a_log_that_lies_elsewhere_is_not_carried_there() {
    let home = with_needs(r#"["read:~/keys","write:~/logs"]"#, "#!/bin/sh\n");
    for (folder, file, place) in [("keys", ".secret", "user/keys/key"), ("logs", "events.jsonl", "user/logs/log")] {
        fs::create_dir_all(home.beside("user").join(folder)).unwrap();
        fs::rename(home.join(file), home.beside(place)).unwrap();
        symlink(home.beside(place), home.join(file)).unwrap();
        let said = if file == ".secret" { "it carries the key" } else { "it carries the log" };
        run_x(&home).status(1).stderr_has(&[said]).check();
        fs::remove_file(home.join(file)).unwrap();
        fs::rename(home.beside(place), home.join(file)).unwrap();
    }
    run_x(&home).check();
}

#[test]
fn only_newly_granted_needs_are_told() {
    let home = Home::new();
    let declared = |needs: &str| format!(r#"{{"name":"command.declared","payload":{{"name":"x","needs":{needs}}}}}"#) + "\n";
    let send = |needs: &str| {
        let body = declared(needs) + &fence("command/x", "#!/bin/sh\n");
        home.run(["hear"]).stdin(body).stderr_any().check().said()
    };
    assert!(send(r#"["read:~/notes"]"#).contains("self: command/x may now read ~/notes\n"));
    assert!(send(r#"["read:~/notes","net"]"#).contains("self: command/x may now use the network\n"));
    assert!(!send(r#"["net"]"#).contains("may now"));
    assert!(send(r#"["net"]"#).contains(", sh → /bin/sh\n"));
    home.run(["show", "brief"]).stdout_has(&["- `x` [needs net]"]).check();
    home.run(["show", "kernel"]).stdout_has(&["<dt>Needs</dt>", "<code>net</code>"]).check();
    home.run(["doctor"]).stdout_has(&["command/x: needs net; sh → /bin/sh\n", "no fault was found"]).check();
}

#[test]
fn a_script_that_was_held_back_gets_a_word_of_help() {
    for level in holding("help") {
        let home = with_needs(r#"["read:~/notes"]"#, "#!/bin/sh\ncat /root/x || cat .secret\n");
        let help = "command/x reads the log, site/ and capabilities/, writes its own TMPDIR, and may read ~/notes; a need is \
                    read:<path>, write:<path>, read:args or net, and a new declaration with its script adds one";
        at(level, || run_x(&home).status(1).stderr_has(&[help]).check());
        let home = with_needs("[]", "#!/bin/sh\necho no such thing >&2\nexit 4\n");
        let ended = at(level, || run_x(&home).stderr_any().end());
        assert!(!ended.said().contains("a need is"), "{}", ended.said());
    }
}

#[test]
fn a_projector_is_granted_its_input_and_nothing_else() {
    for level in holding("projector") {
        let home = Home::new();
        let declared = r#"{"name":"projector.declared","payload":{"name":"p","consumes":["a.b"]}}"#;
        let log = home.join("events.jsonl").display().to_string();
        for tried in [&format!("cat {log}"), &format!("echo >> {log}"), &format!("ls {}", home.path().display())] {
            let body =
                format!("{declared}\n{}", fence("projector/p", &format!("#!/bin/sh\n{tried} || exit 3\necho '<p>it</p>'\n")));
            at(level, || home.hear(&body));
            let reasons = home.reasons();
            let last = reasons.last().unwrap();
            assert!(last.contains("ermission denied") && last.contains("a projector has no needs"), "{level}: {last}");
        }
    }
}

#[test]
fn s2_a_scratch_folder_is_the_scripts_own_and_gone_after() {
    for level in holding("scratch") {
        let home = with_needs(
            "[]",
            &sh("cd \"$TMPDIR\"\nmkdir a\n: > a/b\nln -s b a/c\ntouch a/b\n[ \"$HOME\" = \"$TMPDIR\" ]\n: > ~/x"),
        );
        at(level, || run_x(&home).check());
    }
}

// ---- Interpreters ----------------------------------------------------------------------------------------------------------

/// Puts an interpreter, a copy of `sh`'s words, at this place beside the home.
fn interpreter(home: &Home, place: &str) -> PathBuf {
    let path = home.beside(place);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    let sh = fs::canonicalize("/bin/sh").unwrap();
    fs::copy(sh, &path).unwrap();
    path
}

/// Installs `command/x` with an interpreter `lang` that lies in a tool tree, and gives a call with it in the `PATH`.
fn with_lang(home: &Home, folders: &[&Path], script: &str) {
    let body = format!("{{\"name\":\"command.declared\",\"payload\":{{\"name\":\"x\"}}}}\n{}", fence("command/x", script));
    in_path(home.run(["hear"]).stdin(body), home, folders).stderr_any().check();
    assert_eq!(home.count("script.compiled"), 1, "{:?}", home.reasons());
}

fn in_path(call: Call, home: &Home, folders: &[&Path]) -> Call {
    let path = folders.iter().map(|it| it.to_path_buf()).chain([home.beside("bin"), "/usr/bin".into(), "/bin".into()]);
    call.env("PATH", std::env::join_paths(path).unwrap())
}

#[test]
fn an_interpreter_in_a_tool_tree_under_the_users_folder_works_and_shows_only_its_tree() {
    for level in holding("tool_tree") {
        for tree in ["user/.pyenv/versions/3.11", "user/.nvm/versions/node/v20", "user/.local/share/mise/installs/lang/1"] {
            let home = Home::new();
            let lang = interpreter(&home, &format!("{tree}/bin/lang"));
            fs::write(home.beside(tree).join("library"), "found").unwrap();
            fs::write(home.beside("user/secret"), "no").unwrap();
            let lines = format!(
                "#!/usr/bin/env lang\n[ \"$(cat {})\" = found ] && ! cat {} 2>/dev/null || exit 3\n",
                home.beside(tree).join("library").display(),
                home.beside("user/secret").display()
            );
            let bin = lang.parent().unwrap();
            with_lang(&home, &[bin], &lines);
            let ended = at(level, || in_path(run_x(&home), &home, &[bin]).stderr_any().end());
            assert_eq!(ended.status, 0, "{level} {tree}: {}", ended.said());
        }
    }
}

#[test]
fn another_interpreter_than_the_one_given_is_refused_and_rehydrate_is_the_way_out() {
    let home = Home::new();
    let [one, two] = ["one/bin/lang", "two/bin/lang"].map(|place| interpreter(&home, place));
    let [first, second] = [one.parent().unwrap(), two.parent().unwrap()];
    with_lang(&home, &[first], "#!/usr/bin/env lang\n");
    let roster = || fs::read_to_string(home.join(".self/interpreters")).unwrap();
    assert_eq!(roster(), format!("{{\"command/x\":\"{}\"}}\n", one.display()));
    let both = [second, first];
    let words = format!("`command/x` was given `{}`, and would get `{}` now", one.display(), two.display());
    in_path(run_x(&home), &home, &both).status(1).stderr_has(&[&words, "hint: self rehydrate"]).check();
    in_path(home.run(["doctor"]), &home, &both).status(1).stdout_has(&["mend: self rehydrate"]).check();
    in_path(home.run(["rehydrate"]), &home, &both).stderr_any().check();
    in_path(run_x(&home), &home, &both).check();
    assert_eq!(roster(), format!("{{\"command/x\":\"{}\"}}\n", two.display()));
    // What was forgotten is given anew at the next run.
    fs::remove_file(home.join(".self/interpreters")).unwrap();
    in_path(run_x(&home), &home, &[first]).check();
    assert_eq!(roster(), format!("{{\"command/x\":\"{}\"}}\n", one.display()));
}

#[test]
fn an_interpreter_that_is_missing_at_a_run_is_the_machines_fault() {
    let home = Home::new();
    let lang = interpreter(&home, "one/bin/lang");
    with_lang(&home, &[lang.parent().unwrap()], "#!/usr/bin/env lang\n");
    let log = home.log();
    run_x(&home)
        .status(1)
        .stderr_has(&["`lang` is nowhere in PATH", "this machine lacks it, and the script is not at fault"])
        .check();
    home.run(["doctor"]).status(1).stdout_has(&["fault: command/x: the interpreter `lang`", "mend: install it"]).check();
    assert_eq!(home.log(), log, "no death, no rejection");
}

#[test]
fn a_home_that_lies_in_a_granted_folder_stays_hidden() {
    let Some(folder) = is_root().then(|| tempfile::TempDir::new_in("/opt").ok()).flatten() else {
        return skipped("a_home_that_lies_in_a_granted_folder_stays_hidden", "nothing can be made in /opt");
    };
    for level in holding("granted_folder") {
        let home = folder.path().join(format!("{level}/home"));
        fs::create_dir_all(&home).unwrap();
        fs::write(folder.path().join("open"), "open").unwrap();
        let other = Home::new();
        let script =
            sh(&format!("! cat .secret 2>/dev/null\n! ls . 2>/dev/null\n[ \"$(cat {}/open)\" = open ]", folder.path().display()));
        let body = format!("{{\"name\":\"command.declared\",\"payload\":{{\"name\":\"x\"}}}}\n{}", fence("command/x", &script));
        other.run(["hear"]).env("SELF_HOME", &home).stdin(body).stderr_any().check();
        let ended = at(level, || run_x(&other).env("SELF_HOME", &home).stderr_any().end());
        assert_eq!(ended.status, 0, "{level}: {}", ended.said());
    }
}

// ---- Levels ----------------------------------------------------------------------------------------------------------------

#[test]
fn below_landlock_it_is_said_once_and_require_runs_nothing() {
    let home = with_needs("[]", "#!/bin/sh\necho '{\"name\":\"a.b\"}'\n");
    let declared = r#"{"name":"projector.declared","payload":{"name":"p","consumes":["a.b"]}}"#;
    home.hear(&format!("{declared}\n{}", fence("projector/p", "#!/bin/sh\necho '<p>it</p>'\n")));
    let told = "self: scripts ran unconfined, at level limits: they could touch all that you can; self doctor says why\n";
    at(Level::Limits, || {
        // A command and a page: two scripts, one word.
        assert_eq!(run_x(&home).stderr_any().check().said(), told);
        run_x(&home).env("SELF_SANDBOX", "off").check();
        let log = home.log();
        run_x(&home)
            .env("SELF_SANDBOX", "require")
            .status(1)
            .stderr_has(&[
                "the script was not run, for it could not be confined: this system has no Landlock",
                "hint: self doctor",
            ])
            .check();
        assert_eq!(home.log(), log);
        home.run(["doctor"]).stdout_has(&["confinement: level limits", "not higher, for this system has no Landlock"]).check();
        home.run(["doctor"]).env("SELF_SANDBOX", "require").status(1).stdout_has(&["fault: SELF_SANDBOX=require"]).check();
        home.run(["ask", "hi"]).stdout_has(&["Scripts run at level `limits` of confinement: they are not confined"]).check();
        // A trial that cannot be confined is no rejection.
        let body = format!("{declared}\n{}", fence("projector/p", "#!/bin/sh\necho '<p>two</p>'\n"));
        home.run(["hear"])
            .env("SELF_SANDBOX", "require")
            .stdin(body)
            .status(1)
            .stderr_has(&["1 scripts were not judged"])
            .check();
        assert_eq!(home.count("script.rejected"), 0);
    });
    assert_eq!(home.count("a.b"), 2);
}

#[test]
fn a_level_is_told_where_it_belongs_and_nowhere_in_the_pages() {
    for level in offered("a_level_is_told") {
        let home = with_needs("[]", "#!/bin/sh\n");
        at(level, || {
            home.run(["doctor"]).stdout_has(&[&format!("confinement: level {level} (SELF_SANDBOX=auto)")]).check();
            home.run(["ask", "hi"]).stdout_has(&[&format!("Scripts run at level `{level}`"), "Interpreters here: `sh`"]).check();
            home.run(["rehydrate"]).stderr_any().check();
        });
        for page in ["site/brief.md", "site/kernel.html"] {
            let text = fs::read_to_string(home.join(page)).unwrap();
            assert!(!text.contains("landlock") && !text.contains("level") && !text.contains("/bin/sh"), "{page}");
        }
    }
}

#[test]
fn where_namespaces_can_be_made_and_not_used_scripts_run_at_landlock() {
    let home = with_needs("[]", "#!/bin/sh\ncat >&2\necho '{\"name\":\"a.b\"}'\n");
    // As some distributions do, by other means: the namespace is there, and its users cannot be named.
    let without = |line: &str| home.sh(&format!("unshare -m sh -c 'mount -t proc -o ro proc /proc && {line}'"));
    if !is_root() || without("true").stderr_any().end().status != 0 {
        return skipped("where_namespaces_can_be_made_and_not_used", "only root can mount");
    }
    without("self doctor").stdout_has(&["level landlock", "not higher, for a user namespace could not be set up"]).check();
    let log = String::from_utf8(home.log()).unwrap();
    let ended = without("self run x").stdout("appended seq 5 a.b\n").stderr_any().check();
    assert_eq!(ended.said(), log, "the script gets its input once and whole");
}

#[test]
fn an_odd_sandbox_is_a_usage_error() {
    let home = Home::new();
    for odd in ["on", "OFF", "full", " auto"] {
        home.run(["help"])
            .env("SELF_SANDBOX", odd)
            .status(2)
            .stderr_has(&["self: SELF_SANDBOX is one of auto, require and off\n"])
            .check();
    }
    home.run(["help"]).env("SELF_SANDBOX", "").stdout_any().check();
}

#[test]
fn the_doctor_only_looks() {
    let home = Home::new();
    home.run(["doctor"]).status(1).stderr_has(&["there is no home in"]).check();
    assert_eq!(fs::read_dir(home.path()).unwrap().count(), 0);
    let home = with_needs("[]", "#!/bin/sh\n");
    let before: Vec<_> = home.files().into_iter().map(|path| (fs::read(home.join(&path)).unwrap(), path)).collect();
    let json = home.run(["doctor", "--json"]).stdout_any().check().text();
    let told: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!((&told["capabilities"][0]["name"], &told["faults"]), (&"command/x".into(), &serde_json::json!([])));
    let after: Vec<_> = home.files().into_iter().map(|path| (fs::read(home.join(&path)).unwrap(), path)).collect();
    assert_eq!(before, after);
    fs::set_permissions(home.join(".secret"), fs::Permissions::from_mode(0o644)).unwrap();
    home.run(["doctor"]).status(1).stdout_has(&["fault: could not use", "mend: chmod 600"]).stderr_any().check();
}

// ---- TRUST §2 at each level ------------------------------------------------------------------------------------------------

/// Runs a script at each level; it must fail with these words, append nothing, and leave no process with this word.
#[track_caller]
fn ends_in_words(test: &str, script: &str, words: &[&str], left: &str) {
    for level in offered(test) {
        let home = with_needs("[]", script);
        at(level, || run_x(&home).env("SELF_SCRIPT_SECONDS", "2").status(1).stderr_has(words).check());
        assert_eq!((home.count("a.b"), home.count("capability.died")), (0, 1), "{level}");
        wait_until("nothing of it runs", || !runs(left));
    }
}

#[test]
fn s5_a_sleeper_that_traps_everything_ends_at_the_time_limit() {
    let script =
        "#!/bin/sh\ntrap '' TERM INT HUP QUIT\necho '{\"name\":\"a.b\"}'\nsleep 50.0501 & sleep 50.0501\nsleep 50.0501\n";
    ends_in_words("s5_sleeper", script, &["it passed the time limit of 2 s"], "50.0501");
}

#[test]
fn s5_a_fork_bomb_ends_at_the_process_limit_at_each_level() {
    // Ten doublings, and then it sleeps and ends by itself.
    let script = "#!/bin/sh\nf() { [ $1 -gt 0 ] && { f $(($1 - 1)) & f $(($1 - 1)) & }; exec sleep 20.0502; }\nf 10\n";
    for level in offered("s5_bomb") {
        let home = with_needs("[]", script);
        at(level, || {
            run_x(&home).env("SELF_SCRIPT_SECONDS", "30").status(1).stderr_has(&["it passed the limit of 256 processes"]).check()
        });
        wait_until("nothing of it runs", || !runs("20.0502"));
    }
}

#[test]
fn a_script_may_start_many_programs_one_after_the_other() {
    let script = "#!/bin/sh\ni=0\nwhile [ $i -lt 700 ]; do /bin/true; i=$((i+1)); done\necho '{\"name\":\"a.b\"}' | cat | cat\n";
    for level in offered("many_programs") {
        let home = with_needs("[]", script);
        at(level, || run_x(&home).env("SELF_SCRIPT_SECONDS", "60").stderr_any().check());
        assert_eq!(home.count("a.b"), 1, "{level}");
    }
}

#[test]
fn s6_a_daemon_that_keeps_stdout_is_dead_after_at_each_level() {
    let script = "#!/bin/sh\nsetsid sh -c 'trap \"\" TERM HUP; sleep 50.0601' &\necho '{\"name\":\"a.b\"}'\n";
    for level in offered("s6_daemon") {
        let home = with_needs("[]", script);
        at(level, || run_x(&home).stderr_any().check());
        assert_eq!(home.count("a.b"), 1);
        wait_until("the daemon is gone", || !runs("50.0601"));
    }
}

#[test]
fn s8_a_script_that_locks_all_it_can_blocks_no_append() {
    if !has("python3") {
        return skipped("s8", "there is no python3");
    }
    let script = "#!/usr/bin/env python3
import fcntl, os, time
home = os.environ['SELF_HOME']
for name in ['events.jsonl', '.self/lock', '.self/pages.lock']:
    try:
        held = os.open(os.path.join(home, name), os.O_RDONLY)
        fcntl.flock(held, fcntl.LOCK_EX)
        fcntl.fcntl(held, fcntl.F_SETLEASE, fcntl.F_RDLCK)
    except OSError:
        pass
open(os.path.join(os.environ['HOME'], 'out/held'), 'w').close()
time.sleep(8.0801)
";
    for level in holding("s8") {
        let home = with_needs(r#"["write:~/out"]"#, script);
        at(level, || {
            let mut child = home.run(["run", "x"]).start();
            wait_until("it holds what it can", || home.beside("user/out/held").exists());
            let begun = Instant::now();
            home.run(["hear"]).stdin("{\"name\":\"n.n\",\"payload\":{}}\n").stderr_any().check();
            let took = begun.elapsed();
            assert!(child.try_wait().unwrap().is_none(), "the script is done already");
            assert!(took < Duration::from_secs(5), "{level}: the append took {took:?}");
            rustix::process::kill_process(rustix::process::Pid::from_child(&child), rustix::process::Signal::TERM).unwrap();
            child.wait().unwrap();
        });
        assert_eq!(home.count("n.n"), 1);
    }
}

#[test]
fn s10_a_page_of_its_process_number_or_its_folder_is_rejected_at_each_level() {
    let declared = r#"{"name":"projector.declared","payload":{"name":"p","consumes":["a.b"]}}"#;
    for level in offered("s10") {
        for odd in ["$$", "$HOME", "$TZ", "$(date +%s%N)", "$(sh -c 'echo $$')"] {
            let home = Home::new();
            let script = format!("#!/bin/sh\necho \"<p>{odd}</p>\"\n");
            at(level, || home.hear(&format!("{declared}\n{}", fence("projector/p", &script))));
            let reasons = home.reasons();
            assert!(reasons.len() == 1 && reasons[0].contains("gave different pages"), "{level} {odd}: {reasons:?}");
        }
    }
}

#[test]
fn s13_a_large_log_to_a_script_that_never_reads_is_no_deadlock_at_each_level() {
    for level in offered("s13") {
        let home = with_needs("[]", "#!/bin/sh\necho '{\"name\":\"a.b\"}'\n");
        let payload = format!(r#"{{"text":"{}"}}"#, "x".repeat(1 << 18));
        home.append((4..84).map(|seq| crate::home::line(seq, "pipe", "n.n", &payload)).collect::<String>());
        at(level, || run_x(&home).stdout("appended seq 84 a.b\n").stderr_any().check());
    }
}

#[test]
fn s15_a_script_that_may_run_self_is_stopped_in_words_at_each_level() {
    let needs = format!("[\"read:{}\"]", fs::canonicalize(SELF).unwrap().display());
    for level in offered("s15") {
        let home = with_needs(&needs, &format!("#!/bin/sh\n{} quiet\n", fs::canonicalize(SELF).unwrap().display()));
        at(level, || run_x(&home).status(1).stderr_has(&["a script cannot call self"]).check());
    }
}

#[test]
fn s16_ctrl_c_leaves_no_orphan_and_no_batch_at_each_level() {
    let script = "#!/bin/sh\ntrap '' INT TERM\necho '{\"name\":\"a.b\"}'\nsleep 50.1601 &\nsleep 50.1601\n";
    for level in offered("s16") {
        let home = with_needs("[]", script);
        let log = home.log();
        at(level, || {
            let mut child = home.run(["run", "x"]).start();
            wait_until("the script runs", || runs("50.1601"));
            rustix::process::kill_process(rustix::process::Pid::from_child(&child), rustix::process::Signal::INT).unwrap();
            assert_eq!(crate::home::status_of(child.wait().unwrap()), 130);
        });
        wait_until("nothing of it runs", || !runs("50.1601"));
        assert_eq!(home.log(), log);
    }
}

#[test]
fn a_kernel_that_is_killed_takes_its_script_with_it_at_each_level() {
    let script = "#!/bin/sh\ntrap '' INT TERM HUP\nsetsid sleep 50.1602 &\nsleep 50.1602\n";
    for level in offered("killed") {
        let home = with_needs("[]", script);
        at(level, || {
            let mut child = home.run(["run", "x"]).start();
            wait_until("the script runs", || runs("50.1602"));
            child.kill().unwrap();
            child.wait().unwrap();
        });
        wait_until("everything of it is dead", || !runs("50.1602"));
    }
}
