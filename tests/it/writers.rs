//! Many processes, one log: they wait in turn, none is lost, none interrupts another, and a killed one leaves nothing behind.

use std::collections::BTreeSet;
use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::thread;
use std::time::Duration;

use rustix::process::{Pid, Signal};

use crate::home::{Call, Ended, Home, assert_whole, at_once, has, skipped, wait_until};

fn events(writer: usize, count: usize) -> String {
    (0..count).map(|n| format!("{{\"name\":\"note.taken\",\"payload\":{{\"writer\":{writer},\"n\":{n}}}}}\n")).collect()
}

/// Takes the lock that writers wait for, as another self would.
fn locked(home: &Home) -> File {
    locked_at(&home.join(".self/lock"))
}

fn locked_at(path: &Path) -> File {
    let mut options = OpenOptions::new();
    let lock = options.read(true).write(true).create(true).truncate(false).mode(0o600).open(path).unwrap();
    lock.lock().unwrap();
    lock
}

#[test]
fn sixty_processes_append_at_once_some_with_a_mebibyte() {
    let home = Home::made();
    let big = "x".repeat(1 << 20);
    let body = |writer: usize| match writer % 10 {
        0 => format!("{{\"name\":\"note.taken\",\"payload\":{{\"writer\":{writer},\"n\":0,\"big\":\"{big}\"}}}}\n"),
        _ => events(writer, 1),
    };
    at_once((0..60).map(|writer| home.run(["hear"]).stdin(body(writer)).stderr_any()).collect());
    let records = home.records();
    assert_whole(&records);
    assert_eq!(records.len(), 62);
    let bytes: usize = home.payloads("note.taken").iter().map(String::len).sum();
    assert!(bytes > 6 << 20, "a large payload was cut: {bytes} bytes in all");
}

#[test]
fn fifty_appends_at_once_through_every_face_that_writes() {
    let home = Home::made();
    let call = |n: usize| match n % 3 {
        0 => home.run(["hear"]).stdin(events(n, 1)).stderr_any(),
        1 => home.run(["ask", "what now?"]).stdout_has(&["what now?"]).stderr_any(),
        _ => home.filter(events(n, 2)).stderr_any(),
    };
    at_once((0..50).map(call).collect());
    let records = home.records();
    assert_whole(&records);
    assert_eq!((home.count("note.taken"), home.count("self.asked")), (17 + 2 * 16, 17));
}

#[test]
fn ten_bodies_of_200_events_at_once_are_ten_uninterrupted_runs() {
    let home = Home::made();
    at_once((0..10).map(|writer| home.run(["hear"]).stdin(events(writer, 200)).stderr_any()).collect());
    assert_whole(&home.records());
    let told: Vec<_> = home.payloads("note.taken");
    assert_eq!(told.len(), 2000);
    for run in told.chunks(200) {
        let writer = run[0].split(',').next().unwrap();
        let expect: Vec<_> = (0..200).map(|n| format!("{writer},\"n\":{n}}}")).collect();
        assert_eq!(run, expect);
    }
}

#[test]
fn d7_eight_processes_append_fifty_batches_of_three() {
    let home = Home::made();
    thread::scope(|scope| {
        for writer in 0..8 {
            let home = &home;
            scope.spawn(move || {
                for _ in 0..50 {
                    home.run(["hear"]).stdin(events(writer, 3)).stderr_any().check();
                }
            });
        }
    });
    let records = home.records();
    assert_whole(&records);
    assert_eq!(records.len(), 2 + 1200);
}

#[test]
fn thirty_two_writers_under_xargs_wait_in_turn() {
    if !has("xargs") {
        return skipped("thirty_two_writers_under_xargs_wait_in_turn", "no xargs here");
    }
    let home = Home::made();
    let line = r#"seq 32 | xargs -P 32 -I N sh -c 'printf "{\"name\":\"note.taken\",\"payload\":{\"n\":N}}\n" | self hear'"#;
    home.sh(line).stderr_any().check();
    let records = home.records();
    assert_whole(&records);
    let mut seen: Vec<_> = home.payloads("note.taken");
    seen.sort();
    let mut expect: Vec<_> = (1..=32).map(|n| format!("{{\"n\":{n}}}")).collect();
    expect.sort();
    assert_eq!(seen, expect);
}

#[test]
fn d8_a_lock_held_elsewhere_ends_the_wait_with_75() {
    let home = Home::made();
    let held = locked(&home);
    let before = home.log();
    let busy = |call: Call| call.status(75).stdout_any().stderr_has(&["busy"]);
    let ended = at_once(vec![
        busy(home.run(["hear"]).stdin(events(0, 3))),
        busy(home.run(["ask", "anybody there?"])),
        busy(home.filter("anybody there?")),
    ]);
    for Ended { took, .. } in ended {
        assert!((Duration::from_secs(8)..Duration::from_secs(20)).contains(&took), "waited for {took:?}");
    }
    assert_eq!(home.log(), before);
    drop(held);
    home.hear(&events(0, 1));
}

#[test]
fn a_lock_held_elsewhere_does_not_stop_readers() {
    let home = Home::made();
    let held = locked(&home);
    for verb in [["show", "brief"].as_slice(), &["quiet"], &["protocol"]] {
        let read = home.run(verb).stdout_any().stderr_any().check();
        assert!(read.took < Duration::from_secs(3), "{verb:?} took {:?}", read.took);
    }
    drop(held);
}

#[test]
fn a_waiting_writer_goes_on_when_the_lock_is_free() {
    let home = Home::made();
    let held = locked(&home);
    let mut child = home.run(["hear"]).stdin(events(0, 3)).start();
    wait_until("the writer has opened the lock", || opened(child.id(), &home.join(".self/lock")));
    assert_eq!(home.records().len(), 2);
    drop(held);
    assert!(child.wait().unwrap().success());
    assert_eq!(home.records().len(), 5);
}

#[test]
fn a_writer_that_waited_for_a_replaced_lock_starts_over() {
    let home = Home::made();
    let old = locked(&home);
    let mut child = home.run(["hear"]).stdin(events(0, 3)).start();
    wait_until("the writer has opened the lock", || opened(child.id(), &home.join(".self/lock")));
    let new = locked_at(&home.join(".self/new"));
    fs::rename(home.join(".self/new"), home.join(".self/lock")).unwrap();
    drop(old);
    wait_until("the writer has opened the new lock", || opened(child.id(), &home.join(".self/lock")));
    assert_eq!(home.records().len(), 2, "appended under a lock that nobody else can see");
    drop(new);
    assert!(child.wait().unwrap().success());
    assert_eq!(home.records().len(), 5);
}

/// Whether a process has this file open, the one that the path names now.
fn opened(process: u32, path: &Path) -> bool {
    let Ok(file) = fs::metadata(path) else { return false };
    let Ok(open) = fs::read_dir(format!("/proc/{process}/fd")) else { return false };
    open.flatten().any(|entry| fs::metadata(entry.path()).is_ok_and(|open| (open.ino(), open.dev()) == (file.ino(), file.dev())))
}

/// A writer that hears body after body until it is killed, and writes down each that was acknowledged.
const WRITER: &str = r#"
    n=0
    while :; do
        n=$((n + 1))
        printf '{"name":"note.taken","payload":{"w":%s,"n":%s,"k":1}}\n{"name":"note.taken","payload":{"w":%s,"n":%s,"k":2}}\n{"name":"note.taken","payload":{"w":%s,"n":%s,"k":3}}\n' $W $n $W $n $W $n |
            self hear >/dev/null 2>&1 && echo $n >&2
    done"#;

#[test]
fn d1_after_kill_9_every_acknowledged_event_is_there() {
    let home = Home::made();
    let mut acknowledged: Vec<(String, String)> = Vec::new();
    for round in 0..12 {
        let writers: Vec<_> = (0..4).map(|writer| Killed::start(&home, (round * 4 + writer).to_string())).collect();
        let enough = home.log().len() + 2000 * (1 + round % 5);
        wait_until("the writers have written", || home.log().len() > enough);
        for writer in writers {
            acknowledged.extend(writer.kill());
        }
        // Nothing of a killed writer stands in the way: no lock, no pid file.
        let next = home.run(["hear"]).stdin(r#"{"name":"round.over","payload":{}}"#).stderr_any().check();
        assert!(next.took < Duration::from_secs(5), "a killed writer's lock outlived it: {:?}", next.took);
    }
    assert_whole(&home.records());
    let payloads: BTreeSet<_> = home.payloads("note.taken").into_iter().collect();
    assert!(acknowledged.len() > 12, "too little was acknowledged for a test: {}", acknowledged.len());
    for (writer, n) in acknowledged {
        for k in 1..=3 {
            let payload = format!(r#"{{"w":{writer},"n":{n},"k":{k}}}"#);
            assert!(payloads.contains(&payload), "acknowledged and lost: {payload}");
        }
    }
    assert!(!home.files().iter().any(|file| file.extension().is_some_and(|end| end == "pid")), "{:?}", home.files());
}

/// A running [`WRITER`], in a process group of its own.
struct Killed {
    name: String,
    acknowledged: PathBuf,
    shell: Child,
}

impl Killed {
    fn start(home: &Home, name: String) -> Killed {
        let acknowledged = home.beside(format!("acknowledged-{name}"));
        let mut command = home.sh(WRITER).env("W", &name).into_command();
        command.process_group(0).stdin(Stdio::null()).stdout(Stdio::null()).stderr(File::create(&acknowledged).unwrap());
        Killed { name, acknowledged, shell: command.spawn().unwrap() }
    }

    /// Kills the writer with everything it started; returns what was acknowledged to it.
    fn kill(mut self) -> Vec<(String, String)> {
        rustix::process::kill_process_group(Pid::from_child(&self.shell), Signal::KILL).unwrap();
        self.shell.wait().unwrap();
        let numbers = fs::read_to_string(&self.acknowledged).unwrap();
        numbers.lines().map(|n| (self.name.clone(), n.to_owned())).collect()
    }
}

#[test]
fn many_writers_find_one_torn_tail_and_set_it_aside_once() {
    let home = Home::made();
    home.append("{\"torn");
    at_once((0..16).map(|writer| home.run(["hear"]).stdin(events(writer, 3)).stderr_any()).collect());
    assert_whole(&home.records());
    assert_eq!((home.count("log.recovered"), home.torn().len(), home.count("note.taken")), (1, 1, 48));
}

#[test]
fn a_reader_beside_writers_sees_no_torn_tail_and_no_damage() {
    let home = Home::made();
    let big = "x".repeat(300_000);
    let body = format!("{}{{\"name\":\"note.taken\",\"payload\":\"{big}\"}}\n", events(0, 3));
    thread::scope(|scope| {
        let writers: Vec<_> = (0..2)
            .map(|_| {
                scope.spawn(|| {
                    for _ in 0..30 {
                        home.run(["hear"]).stdin(&body).stderr_any().check();
                    }
                })
            })
            .collect();
        let mut reads = 0;
        while !writers.iter().all(thread::ScopedJoinHandle::is_finished) {
            home.run(["quiet"]).check();
            reads += 1;
        }
        assert!(reads > 3, "only {reads} reads");
    });
    assert_whole(&home.records());
}
