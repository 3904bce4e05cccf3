//! The power goes, and the disk is full: on an ext4 image of our own.

use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, sleep};
use std::time::Duration;

use self_kernel::append::Disk as Sink;
use self_kernel::hearing::Answers;
use self_kernel::home::Home;
use self_kernel::kernel::{Caller, Kernel, World};
use self_kernel::level::{Level, Reach, Sandbox};
use self_kernel::wire;

use crate::disk::Disk;
use crate::kills::{Writer, goes_on, is_sound, lost};
use crate::skipped;

const ROUNDS: u64 = 50;
const CONTROL_ROUNDS: u64 = 6;
const WHY: &str = "needs root, mkfs.ext4 and loop devices";

#[test]
fn d14_a_power_cut_loses_nothing_acknowledged() {
    let Some(disk) = Disk::new(64) else { return skipped("d14", WHY) };
    let mut told = Vec::new();
    let mut torn = 0;
    for round in 0..ROUNDS {
        // A new home now and then, so that its making is cut too.
        let home = disk.path().join(format!("home-{}", round / 5));
        let before = told.len();
        let switch = disk.switch();
        let writers: Vec<_> =
            (0..2).map(|writer| Writer::start(&home, disk.beside("").as_path(), &format!("{round}.{writer}"))).collect();
        sleep(Duration::from_millis(20 + round * 53 % 400));
        told.extend(writers.iter().flat_map(Writer::told));
        switch.cut();
        writers.into_iter().for_each(|writer| drop(writer.kill()));
        disk.turn_on();
        let case = format!("round {round}");
        let key = fs::read(home.join(".secret")).unwrap_or_default().len();
        assert!(told.len() == before || key == 65, "{case}: the key has {key} bytes");
        // The head is not synced and lies on another disk: it may remember what was never acknowledged, and warn of it.
        goes_on(&home, &disk.beside("state"), &case);
        is_sound(&home, &disk.beside("state"), &case);
        torn += usize::from(home.join(".self/torn").exists());
        let mine: Vec<_> = told
            .iter()
            .filter(|(name, _)| name.split('.').next().unwrap().parse::<u64>().unwrap() / 5 == round / 5)
            .cloned()
            .collect();
        assert_eq!(lost(&home, &mine, &case), 0, "{case}");
    }
    println!("d14: {ROUNDS} rounds, acknowledged {} events, lost 0; homes with a torn tail set aside: {torn}", told.len() * 3);
    assert!(told.len() as u64 > ROUNDS, "too little was acknowledged to show anything: {}", told.len());
}

/// A kernel over a disk that is never synced.
fn unsynced(home: PathBuf) -> Kernel {
    let random = |bytes: &mut [u8]| getrandom::fill(bytes).map_err(std::io::Error::from);
    let world = World {
        now: jiff::Timestamp::now,
        random,
        disk: Sink { sync: |_| Ok(()), ..Sink::real() },
        reach: |_, _, _| Reach { level: Level::Full, why: String::new(), holds_signals: true },
        tell: |_| {},
        offered: |_| Vec::new(),
    };
    let caller = Caller {
        speaker: None,
        mind: None,
        folder: home.clone(),
        path: "/usr/bin:/bin".into(),
        scratch: std::env::temp_dir(),
        executable: PathBuf::from(env!("CARGO_BIN_EXE_self")),
        script_seconds: 10,
        sandbox: Sandbox::Auto,
        user: "/nonexistent".into(),
        state: None,
    };
    Kernel::new(Home::at(home), caller, world)
}

#[test]
fn d14_without_a_sync_a_power_cut_loses_some_so_the_proof_has_teeth() {
    let Some(disk) = Disk::new(64) else { return skipped("d14 control", WHY) };
    let (mut told, mut missing) = (0, 0);
    for round in 0..CONTROL_ROUNDS {
        let home = disk.path().join(format!("home-{round}"));
        goes_on(&home, &disk.beside("state"), "control");
        let (over, switch) = (AtomicBool::new(false), disk.switch());
        let acknowledged = thread::scope(|scope| {
            let writer = scope.spawn(|| {
                let kernel = unsynced(home.clone());
                let mut acknowledged = Vec::new();
                for n in 1..100_000_u64 {
                    let body: String = (1..=3)
                        .map(|k| format!("{{\"name\":\"note.taken\",\"payload\":{{\"w\":\"0\",\"n\":{n},\"k\":{k}}}}}\n"))
                        .collect();
                    if over.load(Ordering::SeqCst) || kernel.hear(wire::read(body.as_bytes()), Answers::Nothing).failure.is_some()
                    {
                        break;
                    }
                    acknowledged.push(("0".to_owned(), n));
                }
                acknowledged
            });
            sleep(Duration::from_millis(300));
            switch.cut();
            over.store(true, Ordering::SeqCst);
            writer.join().unwrap()
        });
        disk.turn_on();
        goes_on(&home, &disk.beside("state"), "control");
        told += acknowledged.len() * 3;
        missing += lost(&home, &acknowledged, "control") * 3;
    }
    println!("d14 control, no sync: {CONTROL_ROUNDS} rounds, acknowledged {told} events, lost {missing}");
    assert!(missing > 0, "without a sync nothing was lost: the proof shows nothing");
}

/// Hears a body on this disk; the status, what was printed and what was said.
fn hear(home: &Path, body: &str) -> (i32, String, String) {
    let mut kernel = Command::new(env!("CARGO_BIN_EXE_self"));
    kernel.arg("hear").env("SELF_HOME", home).env_remove("XDG_STATE_HOME").env_remove("HOME");
    let mut child = kernel.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(body.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.code().unwrap(), text(&output.stdout), text(&output.stderr))
}

#[test]
fn d4_a_really_full_disk_leaves_the_log_as_it_was_and_the_reply_on_stdout() {
    let Some(disk) = Disk::new(8) else { return skipped("d4", WHY) };
    let home = disk.path().join("home");
    assert_eq!(hear(&home, "{\"name\":\"home.made\"}\n").0, 0);
    let (mut full, mut landed) = (0, 1);
    for round in 0..20_usize {
        let mut filler = OpenOptions::new().append(true).create(true).open(disk.path().join("filler")).unwrap();
        while filler.write_all(&[0; 4096]).is_ok() {}
        drop(filler);
        // Room for a few blocks, another number each round; the batch needs more.
        let length = fs::metadata(disk.path().join("filler")).unwrap().len();
        File::options()
            .write(true)
            .open(disk.path().join("filler"))
            .unwrap()
            .set_len(length - (round as u64 % 5) * 4096)
            .unwrap();
        let before = fs::read(home.join("events.jsonl")).unwrap();
        let body = format!("The answer.\n{{\"name\":\"note.taken\",\"payload\":\"{}\"}}\n", "x".repeat(40_000));
        let (status, printed, said) = hear(&home, &body);
        assert_eq!((status, printed.as_str()), (1, "The answer.\n"), "{said}");
        assert_eq!(fs::read(home.join("events.jsonl")).unwrap(), before, "round {round}");
        assert!(said.contains(&format!("file system at `{}`", disk.path().display())), "{said}");
        full += 1;
        fs::remove_file(disk.path().join("filler")).unwrap();
        assert_eq!(hear(&home, "{\"name\":\"note.taken\"}\n").0, 0);
        landed += 1;
    }
    is_sound(&home, &disk.beside("state"), "d4");
    println!("d4: {full} appends to a full disk, all refused whole; {landed} acknowledged, lost 0");
}
