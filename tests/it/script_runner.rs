//! The script runner, with the real executable as its launcher: TRUST §2 S5, S6, S9, S13 to S16, and the rows of `CASES.md`
//! "Scripts" that are its own.
//!
//! Every process of a run has the run's scratch folder in its environment: by that it is found, and killed if a test fails.

use std::ffi::OsString;
use std::fs;
use std::io::{self, BufRead, BufReader};
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use self_kernel::feed::Piece;
use self_kernel::hear::mended;
use self_kernel::interpreter::{resolve, shebang};
use self_kernel::level::Level;
use self_kernel::orders::{Access, Grant};
use self_kernel::script::{ERROR_BYTES_KEPT, Ending, FILE_BYTES_MAX, Hold, Limit, Limits, Ran, Run, ScriptError, run};
use tempfile::TempDir;

use crate::home::{SELF, is_root, skipped, wait_until};

/// A time limit that no test reaches unless something hangs.
const FAR: Duration = Duration::from_secs(60);

/// A time limit that a test means to reach.
const NEAR: Duration = Duration::from_secs(1);

/// How late after its limit a run may return on a loaded machine.
const LATE: Duration = Duration::from_secs(20);

/// A script, and what it is run with. Dropped, it kills what is left of it.
struct Script {
    text: Vec<u8>,
    arguments: Vec<OsString>,
    environment: Vec<(OsString, OsString)>,
    folder: Option<PathBuf>,
    limits: Limits,
    most: Level,
    grants: Vec<Grant>,
    links: Vec<(PathBuf, PathBuf)>,
    strays: u32,
    parent: TempDir,
    name: String,
    stop: AtomicBool,
}

impl Script {
    fn new(text: impl AsRef<[u8]>) -> Script {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        Script {
            text: text.as_ref().to_vec(),
            arguments: Vec::new(),
            environment: vec![("PATH".into(), path())],
            folder: None,
            limits: Limits::within(FAR),
            most: Level::Full,
            grants: grants(),
            links: Vec::new(),
            strays: 0,
            parent: tempfile::tempdir().unwrap(),
            name: format!("self-{:016x}{count:016x}", std::process::id()),
            stop: AtomicBool::new(false),
        }
    }

    fn sh(text: &str) -> Script {
        Script::new(format!("#!/bin/sh\n{text}\n"))
    }

    fn limits(mut self, limits: impl FnOnce(&mut Limits)) -> Script {
        limits(&mut self.limits);
        self
    }

    /// At this level at most.
    fn at(mut self, most: Level) -> Script {
        self.most = most;
        self
    }

    fn within(self, wall: Duration) -> Script {
        self.limits(|limits| limits.wall = wall)
    }

    fn scratch(&self) -> PathBuf {
        self.parent.path().join(&self.name)
    }

    /// Runs it on this input, and holds what holds for every run: nothing is left, neither process nor file.
    fn on(&self, feed: &mut dyn FnMut() -> io::Result<Option<Vec<u8>>>) -> Result<Ran, ScriptError> {
        let asked = shebang(&self.text).unwrap();
        let words = asked.words(&resolve(&asked, &path(), Path::new("/")).unwrap().path);
        let ran = run(
            &Run {
                launcher: Path::new(SELF),
                script: &self.text,
                interpreter: &words,
                arguments: &self.arguments,
                environment: &self.environment,
                folder: self.folder.as_deref(),
                scratch_parent: self.parent.path(),
                scratch_name: &self.name,
                limits: self.limits,
                hold: Hold { most: self.most, least: Level::Limits, grants: &self.grants, net: false, links: &self.links },
                strays: self.strays,
                stop: &self.stop,
            },
            &mut || feed().map(|bytes| bytes.map(Piece::of)),
        );
        assert_eq!(left(&self.name), [0; 0], "processes are left");
        assert_eq!(fs::read_dir(self.parent.path()).unwrap().count(), 0, "the scratch folder is left");
        ran
    }

    fn run(&self) -> Ran {
        self.on(&mut || Ok(None)).unwrap()
    }

    /// Runs it; it must exit with 0 and say nothing on stderr.
    #[track_caller]
    fn prints(&self) -> String {
        let ran = self.run();
        assert_eq!((ran.ending, String::from_utf8_lossy(&ran.stderr).as_ref()), (Ending::Exited(0), ""));
        String::from_utf8(ran.stdout).unwrap()
    }
}

impl Drop for Script {
    fn drop(&mut self) {
        end_all(&self.name);
    }
}

/// What these scripts are granted: the system's programs, and the devices.
fn grants() -> Vec<Grant> {
    let real = |path: &str| fs::canonicalize(path).ok();
    let programs = ["/usr", "/bin", "/lib", "/lib64", "/etc"].into_iter().filter_map(real).map(Grant::read);
    let devices = ["/dev/null", "/dev/zero"].into_iter().filter_map(real).map(|path| Grant { path, access: Access::Device });
    programs.chain(devices).collect()
}

fn path() -> OsString {
    std::env::var_os("PATH").unwrap()
}

/// The processes that have this text in their environment, this one aside.
fn left(name: &str) -> Vec<i32> {
    let numbers = fs::read_dir("/proc").unwrap().filter_map(|entry| entry.unwrap().file_name().to_str()?.parse::<i32>().ok());
    let is_of = |number: &i32| {
        let environment = fs::read(format!("/proc/{number}/environ")).unwrap_or_default();
        memchr::memmem::find(&environment, name.as_bytes()).is_some()
    };
    numbers.filter(is_of).filter(|&number| number.cast_unsigned() != std::process::id()).collect()
}

fn end_all(name: &str) {
    let deadline = Instant::now() + LATE;
    loop {
        let left = left(name);
        if left.is_empty() || Instant::now() > deadline {
            return;
        }
        for pid in left.into_iter().filter_map(Pid::from_raw) {
            let _ = kill_process(pid, Signal::KILL);
        }
    }
}

#[track_caller]
fn ends_at(script: &Script, limit: Limit) -> Ran {
    let begun = Instant::now();
    let ran = script.run();
    assert_eq!(ran.ending, Ending::Limit(limit), "{}", String::from_utf8_lossy(&ran.stderr));
    assert!(begun.elapsed() < script.limits.wall + LATE, "{:?}", begun.elapsed());
    ran
}

#[test]
fn a_script_gets_its_words_and_its_input_and_its_end_is_told() {
    let mut script = Script::sh("cat; printf '<%s>' \"$@\"; echo oh >&2; exit 3");
    script.arguments = ["a b", "", "-x", "new\nline"].map(OsString::from).to_vec();
    let mut pieces = vec![b"two\n".to_vec(), Vec::new(), b"one\n".to_vec()];
    let ran = script.on(&mut || Ok(pieces.pop())).unwrap();
    assert_eq!((ran.ending, ran.stdout.as_slice()), (Ending::Exited(3), b"one\ntwo\n<a b><><-x><new\nline>".as_slice()));
    assert_eq!(ran.stderr, b"oh\n");
    assert_eq!(Script::sh("kill -9 $$").run().ending, Ending::Signal(9));
}

#[test]
fn s5_a_sleeper_ends_at_the_time_limit() {
    ends_at(&Script::sh("echo half; sleep 60").within(NEAR), Limit::Time(NEAR));
}

#[test]
fn s5_a_script_that_traps_term_ends_at_the_time_limit() {
    ends_at(&Script::sh("trap '' TERM INT HUP QUIT; while :; do sleep 1; done").within(NEAR), Limit::Time(NEAR));
}

#[test]
fn s5_a_stopped_script_ends_at_the_time_limit() {
    ends_at(&Script::sh("kill -STOP $$").within(NEAR), Limit::Time(NEAR));
}

/// Doubles ten times and then sleeps: a bomb that ends by itself, should the limit not hold.
const BOMB: &str = "f() { [ $1 -gt 0 ] && { f $(($1 - 1)) & f $(($1 - 1)) & }; exec sleep 20; }\n";

fn bomb(last: &str) -> Script {
    Script::sh(&format!("{BOMB}{last}")).limits(|limits| limits.processes = 64)
}

#[test]
fn s5_a_fork_bomb_ends_at_the_process_limit() {
    let script = bomb("f 10");
    ends_at(&script, Limit::Processes(64));
}

#[test]
fn s5_a_fork_bomb_that_leaves_its_script_is_dead_too() {
    let ending = bomb("f 10 &").run().ending;
    assert!(matches!(ending, Ending::Exited(0) | Ending::Limit(Limit::Processes(64))), "{ending:?}");
}

#[test]
fn s5_a_chain_of_sessions_ends_at_the_process_limit() {
    let script = Script::sh("n=0; while [ $n -lt 500 ]; do setsid sleep 60 & n=$((n+1)); done; wait")
        .limits(|limits| limits.processes = 40);
    ends_at(&script, Limit::Processes(40));
}

#[test]
fn s5_an_endless_printer_ends_at_the_output_limit() {
    let script = Script::sh("exec yes");
    let bytes = script.limits.output_bytes;
    assert_eq!(bytes, 64 << 20);
    ends_at(&script, Limit::Output(bytes));
}

#[test]
fn s5_a_large_file_ends_at_the_file_limit() {
    let script = Script::sh("exec head -c 2000000 /dev/zero >large").limits(|limits| limits.file_bytes = 1 << 20);
    ends_at(&script, Limit::File(1 << 20));
}

#[test]
fn s5_five_megabytes_of_stderr_come_before_stdout() {
    let ran = Script::sh("head -c 5000000 /dev/zero | tr '\\0' x >&2; echo last >&2; echo out").run();
    assert_eq!((ran.ending, ran.stdout.as_slice()), (Ending::Exited(0), b"out\n".as_slice()));
    assert_eq!(ran.stderr.len(), ERROR_BYTES_KEPT);
    assert!(ran.stderr.ends_with(b"xxxlast\n"));
}

#[test]
fn s5_the_system_holds_the_other_limits() {
    let blocks = FILE_BYTES_MAX / 512;
    assert_eq!(
        Script::sh("ulimit -n; ulimit -Hn; ulimit -c; ulimit -f; ulimit -d").prints(),
        format!("256\n256\n0\n{blocks}\n1048576\n")
    );
}

#[test]
fn s6_a_daemon_that_keeps_stdout_delays_nothing_and_is_dead_after() {
    let daemon = "setsid sh -c 'trap \"\" TERM HUP; sleep 300' & echo done";
    let delay = (0..8).map(|_| {
        let plain = time(|| assert_eq!(Script::sh("echo done").prints(), "done\n"));
        time(|| assert_eq!(Script::sh(daemon).prints(), "done\n")).saturating_sub(plain)
    });
    let delay = delay.inspect(|delay| assert!(*delay < LATE)).min().unwrap();
    assert!(delay < Duration::from_millis(500), "{delay:?}");
}

#[test]
fn s6_what_a_child_prints_right_after_its_script_counts() {
    assert_eq!(Script::sh("{ sleep 0.02; echo late; } & echo early").prints(), "early\nlate\n");
}

fn time(work: impl FnOnce()) -> Duration {
    let begun = Instant::now();
    work();
    begun.elapsed()
}

#[test]
fn s9_a_script_has_three_descriptors() {
    // Without close-on-exec, as a descriptor that a careless shell left open.
    let leaked: OwnedFd = rustix::io::dup(fs::File::open("/etc/passwd").unwrap()).unwrap();
    // No pipeline: a shell holds the pipes it is about to hand out.
    let script = Script::sh("ls -l /proc/$$/fd").at(Level::Limits);
    let own = script.scratch().join("run").display().to_string();
    let told = script.prints();
    let mut count = 0;
    for line in told.lines().filter(|line| line.contains(" -> ")) {
        let (head, target) = line.split_once(" -> ").unwrap();
        let number: u32 = head.rsplit_once(' ').unwrap().1.parse().unwrap();
        assert!(number < 3 && target.starts_with("pipe:") || target == own, "{told}");
        count += 1;
    }
    assert!(count >= 3, "{told}");
    drop(leaked);
}

#[test]
fn s9_a_script_has_the_environment_it_was_given() {
    let mut script = Script::sh("tr '\\0' '\\n' </proc/$$/environ").at(Level::Limits);
    script.environment.extend([("LANG", "C.UTF-8"), ("HOME", "/root"), ("X", "a\tb")].map(|(k, v)| (k.into(), v.into())));
    let scratch = script.scratch();
    let mut lines: Vec<_> = script.prints().lines().map(str::to_owned).collect();
    lines.sort();
    let scratch = scratch.display();
    let mut expect = [
        format!("PATH={}", path().to_str().unwrap()),
        "LANG=C.UTF-8".to_owned(),
        "X=a\tb".to_owned(),
        format!("HOME={scratch}"),
        format!("TMPDIR={scratch}"),
        "SELF_DEPTH=1".to_owned(),
    ];
    expect.sort();
    assert_eq!(lines, expect);
}

#[test]
fn a_script_stands_where_it_is_told_and_writes_for_itself_alone() {
    let mut script = Script::sh("pwd -P; umask; stat -c %a \"$HOME\" \"$0\"; mkdir -p a/b; : >a/b/c");
    let scratch = fs::canonicalize(script.parent.path()).unwrap().join(&script.name);
    assert_eq!(script.prints(), format!("{}\n0077\n700\n700\n", scratch.display()));
    assert_eq!(Script::sh("mkdir -p a/b; : >a/b/c; chmod 0 a/b a").at(Level::Limits).prints(), "");
    let folder = tempfile::tempdir().unwrap();
    let stands = folder.path().join("a space");
    fs::create_dir(&stands).unwrap();
    script.text = b"#!/bin/sh\npwd -P\n".to_vec();
    script.folder = Some(stands.clone());
    assert_eq!(script.prints(), format!("{}\n", fs::canonicalize(&stands).unwrap().display()));
    script.folder = Some(folder.path().join("gone"));
    let fault = script.on(&mut || Ok(None)).unwrap_err();
    assert!(matches!(&fault, ScriptError::Start(words) if words.contains("/gone`")), "{fault}");
}

#[test]
fn a_run_can_be_made_to_have_other_process_numbers() {
    let mut script = Script::sh("echo $(($$ - PPID))");
    script.strays = 8;
    // The numbers begin anew at some point, so the first try may be the odd one.
    assert!((0..3).any(|_| script.prints().trim().parse::<i64>().unwrap() > 8));
}

#[test]
fn s13_fifty_megabytes_for_a_script_that_does_not_read() {
    for (text, expect) in
        [("echo ok", "ok\n"), ("exec <&-; sleep 0.2; echo ok", "ok\n"), ("head -c 4; sleep 0.2", "xxxx"), ("sleep 0.2", "")]
    {
        let mut left = 50;
        let ran = Script::sh(text).on(&mut || piece(&mut left)).unwrap();
        assert_eq!(
            (ran.ending, String::from_utf8(ran.stdout).unwrap().as_str(), ran.stderr.len()),
            (Ending::Exited(0), expect, 0)
        );
        assert!(left > 0, "pieces are made as they are taken");
    }
}

fn piece(left: &mut usize) -> io::Result<Option<Vec<u8>>> {
    *left = left.wrapping_sub(1);
    Ok((*left < 50).then(|| vec![b'x'; 1 << 20]))
}

#[test]
fn s13_fifty_megabytes_in_and_out_with_five_of_stderr() {
    let mut left = 50;
    let ran = Script::sh("head -c 5000000 /dev/zero >&2; exec cat").on(&mut || piece(&mut left)).unwrap();
    assert_eq!((ran.ending, ran.stdout.len()), (Ending::Exited(0), 50 << 20));
    assert!(ran.stdout.iter().all(|&byte| byte == b'x'));
}

#[test]
fn an_input_that_cannot_be_read_ends_the_run() {
    let mut left = 50;
    let fault = Script::sh("cat >/dev/null; sleep 60")
        .on(&mut || if left < 40 { Err(io::Error::other("torn")) } else { piece(&mut left) })
        .unwrap_err();
    assert_eq!(fault.to_string(), "could not read the script's input: torn");
}

#[test]
fn s14_a_script_with_crlf_runs_once_mended() {
    assert_eq!(Script::new(mended("#!/bin/sh -eu\r\necho ok\r\n").into_bytes()).prints(), "ok\n");
}

#[test]
fn s14_env_finds_the_interpreter() {
    assert_eq!(Script::new("#!/usr/bin/env sh\necho ok\n").prints(), "ok\n");
    assert_eq!(Script::new("#!/usr/bin/env -S sh -eu\nset -o | grep -c 'errexit *on'\n").prints(), "1\n");
    assert_eq!(Script::new("#!/usr/bin/env -S A=b sh\necho $A\n").prints(), "b\n");
}

#[test]
fn s14_an_interpreter_that_went_away_is_named() {
    let scratch = tempfile::tempdir().unwrap();
    let stop = AtomicBool::new(false);
    let fault = run(
        &Run {
            launcher: Path::new(SELF),
            script: b"#!/no/such/lang\n",
            interpreter: &["/no/such/lang".into()],
            arguments: &[],
            environment: &[],
            folder: None,
            scratch_parent: scratch.path(),
            scratch_name: "self-x",
            limits: Limits::within(FAR),
            hold: Hold { most: Level::Full, least: Level::Limits, grants: &grants(), net: false, links: &[] },
            strays: 0,
            stop: &stop,
        },
        &mut || Ok(None),
    );
    assert_eq!(fault.unwrap_err().to_string(), "could not start `/no/such/lang`: No such file or directory (os error 2)");
    assert_eq!(fs::read_dir(scratch.path()).unwrap().count(), 0);
}

#[test]
fn s14_a_script_that_somebody_holds_open_for_writing_starts() {
    let script = Script::sh("sleep 0.2; echo ok");
    let file = script.scratch().join("run");
    thread::scope(|scope| {
        scope.spawn(|| {
            let deadline = Instant::now() + LATE;
            while Instant::now() < deadline {
                if let Ok(held) = fs::OpenOptions::new().append(true).open(&file) {
                    thread::sleep(Duration::from_millis(100));
                    drop(held);
                    return;
                }
            }
        });
        assert_eq!(script.prints(), "ok\n");
    });
}

#[test]
fn s14_a_scratch_without_exec_is_no_fault() {
    if !is_root() {
        return skipped("s14_a_scratch_without_exec_is_no_fault", "only root can mount");
    }
    let script = Script::sh("echo ok");
    let mounted = Command::new("mount").args(["-t", "tmpfs", "-o", "noexec", "tmpfs"]).arg(script.parent.path()).status();
    if !mounted.is_ok_and(|status| status.success()) {
        return skipped("s14_a_scratch_without_exec_is_no_fault", "mount is not allowed here");
    }
    let ran = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| script.prints()));
    Command::new("umount").arg(script.parent.path()).status().unwrap();
    assert_eq!(ran.unwrap(), "ok\n");
}

#[test]
fn a_scratch_folder_that_cannot_be_made_is_named() {
    let mut script = Script::sh(":");
    script.name = "no/such".to_owned();
    let fault = script.on(&mut || Ok(None)).unwrap_err();
    let path = script.scratch();
    assert_eq!(fault.to_string(), format!("could not make `{}`: No such file or directory (os error 2)", path.display()));
    assert_eq!(fault.hint().unwrap(), "set TMPDIR to a folder that you can write and that has room");
}

#[test]
fn s15_a_script_cannot_call_self() {
    let mut script = Script::sh("\"$1\" ask hi; echo $?; echo hi | \"$1\"; echo $?");
    script.arguments = vec![SELF.into()];
    script.grants.push(Grant::read(fs::canonicalize(SELF).unwrap()));
    let home = tempfile::tempdir().unwrap();
    script.environment.push(("SELF_HOME".into(), home.path().into()));
    let ran = script.run();
    let words = "self: a script cannot call self\nself: hint: read the log on stdin, and print the events it should append\n";
    assert_eq!((ran.ending, String::from_utf8(ran.stdout).unwrap().as_str()), (Ending::Exited(0), "1\n1\n"));
    assert_eq!(String::from_utf8(ran.stderr).unwrap(), words.repeat(2));
    assert_eq!(fs::read_dir(home.path()).unwrap().count(), 0);
}

#[test]
fn s16_a_run_that_is_stopped_leaves_nothing() {
    let script = Script::sh("trap '' INT TERM; setsid sleep 300 & : >\"$HOME/up\"; sleep 300");
    let up = script.scratch().join("up");
    thread::scope(|scope| {
        scope.spawn(|| {
            wait_until("the script is up", || up.exists());
            script.stop.store(true, Ordering::Relaxed);
        });
        let begun = Instant::now();
        assert_eq!(script.run().ending, Ending::Stopped);
        assert!(begun.elapsed() < FAR);
    });
}

/// Set for a copy of this program that is to be a runner.
const ROLE: &str = "SELF_TEST_RUNNER";

/// This program again, as a process that runs one test with a role.
fn runner(test: &str, role: &str) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", &format!("script_runner::{test}"), "--nocapture"]).env(ROLE, role).stdin(Stdio::null());
    command
}

#[test]
fn s16_a_runner_that_is_killed_takes_its_script_with_it() {
    if let Ok(name) = std::env::var(ROLE) {
        let mut script = Script::sh("trap '' INT TERM HUP; setsid sleep 300 & sleep 300");
        script.name = name;
        script.run();
        return;
    }
    let name = format!("self-killed-{}", std::process::id());
    let folder = tempfile::tempdir().unwrap();
    let mut child = runner("s16_a_runner_that_is_killed_takes_its_script_with_it", &name)
        .env("TMPDIR", folder.path())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    // The runner, the launcher, the shell, and both of its children.
    let up = std::panic::catch_unwind(|| wait_until("the script is up", || left(&name).len() >= 5));
    child.kill().unwrap();
    child.wait().unwrap();
    let gone = std::panic::catch_unwind(|| wait_until("everything of it is dead", || left(&name).is_empty()));
    end_all(&name);
    up.and(gone).unwrap();
}

#[test]
fn s5_a_fork_bomb_of_an_ordinary_user_ends_at_the_process_limit() {
    const TEST: &str = "s5_a_fork_bomb_of_an_ordinary_user_ends_at_the_process_limit";
    if std::env::var_os(ROLE).is_some() {
        let script = bomb("f 10");
        let ending = script.run().ending;
        let bound = Script::sh("ulimit -u 2>/dev/null || ulimit -p").limits(|limits| limits.processes = 64).prints();
        return fs::write(std::env::temp_dir().join("ending"), format!("{ending:?} {bound}")).unwrap();
    }
    if !is_root() {
        return skipped(TEST, "only root can become somebody else; as you the test above shows it");
    }
    let folder = tempfile::tempdir().unwrap();
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o777)).unwrap();
    let mut command = runner(TEST, "bomb");
    command.env("TMPDIR", folder.path()).uid(65534).gid(65534).stdout(Stdio::piped()).stderr(Stdio::piped());
    let Ok(child) = command.spawn() else { return skipped(TEST, "nobody may not start this program") };
    let ended = child.wait_with_output().unwrap();
    let said = fs::read_to_string(folder.path().join("ending")).unwrap_or_else(|_| panic!("{ended:?}"));
    let (ending, bound) = said.trim().rsplit_once(' ').unwrap();
    assert_eq!(ending, "Limit(Processes(64))");
    let bound: u64 = bound.parse().unwrap();
    assert!((1024..16384).contains(&bound), "{bound}");
}

#[test]
fn many_runs_at_once_keep_apart() {
    thread::scope(|scope| {
        for at in 0..8 {
            scope.spawn(move || {
                for round in 0..4 {
                    let mut script = Script::sh("cat; echo $1");
                    script.arguments = vec![format!("{at}.{round}").into()];
                    let mut input = Some(format!("{at}\n").into_bytes());
                    let ran = script.on(&mut || Ok(input.take())).unwrap();
                    assert_eq!(String::from_utf8(ran.stdout).unwrap(), format!("{at}\n{at}.{round}\n"));
                }
            });
        }
    });
}

#[test]
fn the_launcher_by_hand_does_nothing() {
    let ended = Command::new(SELF)
        .args(["--self-launch", "1", "1", "1", "1", "1", "full", "limits", "-", "/self", "/", "0", "sh"])
        .stdin(Stdio::null())
        .output()
        .unwrap();
    assert_eq!((ended.status.code(), ended.stdout.len(), ended.stderr.len()), (Some(2), 0, 0));
    let help = Command::new(SELF).arg("help").output().unwrap();
    assert!(!BufReader::new(help.stdout.as_slice()).lines().any(|line| line.unwrap().contains("launch")));
}
