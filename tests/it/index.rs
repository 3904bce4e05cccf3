//! The index: whatever happens to it or to the log, a command sees what a whole reading of the log would show it.

use std::collections::BTreeSet;
use std::fs;
use std::io::Write as _;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, SystemTime};

use rustix::process::{Pid, WaitId, WaitIdOptions, waitid};
use self_kernel::capability::{Capability, CapabilityName, Kind};
use self_kernel::feed::{Piece, Wanted};
use self_kernel::index::Index;
use self_kernel::log::{Log, Places, Position};
use self_kernel::payload::Payload;
use self_kernel::receipt::{Secret, sha256, sign};
use self_kernel::state::State;

use crate::home::{Home, is_root, line, line_as, skipped};

/// Numbers that look random, from a seed.
pub struct Dice(pub u64);

impl Dice {
    pub fn below(&mut self, n: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % n
    }

    pub fn of<'t>(&mut self, all: &[&'t str]) -> &'t str {
        all[usize::try_from(self.below(all.len() as u64)).unwrap()]
    }
}

fn secret() -> Secret {
    Secret::new([7; 32])
}

const DECLARED: [&str; 3] = [
    r#"{"name":"NAME","description":"d","event":{"name":"note.added","fields":{"text":"string"}}}"#,
    r#"{"name":"NAME","params":{"n":"integer"}}"#,
    r#"{"name":"NAME","needs":["net"]}"#,
];

/// A line that a log may hold, mostly one that the fold acts on.
fn any_line(dice: &mut Dice, seq: u64) -> String {
    let id = match dice.below(4) {
        0 => format!("{seq:032x}.1-2"),
        _ => format!("{seq:032x}"),
    };
    let (name, command) = (dice.of(&["a", "b", "c"]), dice.below(3) > 0);
    let kind = if command { "command" } else { "projector" };
    let declared = dice.of(&DECLARED[..if command { 3 } else { 2 }]).replace("NAME", name);
    let digest = dice.of(&["00", "11", "22"]);
    let of = |via: &str, name: &str, payload: &str| line_as(&id, seq, via, name, payload);
    match dice.below(26) {
        0..3 => of("pipe", if command { "command.declared" } else { "projector.declared" }, &declared),
        3..6 => {
            let kind = if command { Kind::Command } else { Kind::Projector };
            let capability = Capability { kind, name: CapabilityName::new(kind, name).unwrap() };
            let receipt = sign(&secret(), &capability, "#!/bin/sh\n", "ada", seq, &sha256(declared.as_bytes()));
            of("kernel", "script.compiled", Payload::of(&receipt).get())
        }
        6 => of("kernel", "script.compiled", r#"{"type":"command","name":"a","script":"x","sig":"00"}"#),
        7..9 => {
            let payload = format!(r#"{{"type":"{kind}","name":"{name}","reason":"r","excerpt":"e","sha256":"{digest}"}}"#);
            of("kernel", "script.rejected", &payload)
        }
        9 => of("kernel", "script.rejected", r#"{"type":"","name":"","reason":"nobody's"}"#),
        10 => {
            let payload = format!(r#"{{"type":"{kind}","name":"{name}","exit":3,"stderr":"s","sha256":"{digest}"}}"#);
            of("kernel", "capability.died", &payload)
        }
        11 => of("cli", "capability.retired", &format!(r#"{{"type":"{kind}","name":"{name}"}}"#)),
        12 => of("kernel", "event.refused", r#"{"name":"x.y","reason":"r","excerpt":"e"}"#),
        13..15 => of("pipe", "self.asked", r#"{"text":"what\nnow?"}"#),
        15 => of("pipe", "self.replied", &format!(r#"{{"text":"so","ask":{}}}"#, seq - 1)),
        16 => of("cli", "chat.message", r#"{"role":"user","content":"are you there?"}"#),
        17 => of("pipe", "chat.message", r#"{"role":"assistant","content":"yes"}"#),
        18 => "damaged\n".to_owned(),
        19 => "\n".to_owned(),
        20 => line(seq, "cli", "note.added", r#"{"text":"cr"}"#).replace('\n', "\r\n"),
        21 => "{\"NAME\":\"a name\",\"payload\":null,\"extra\":[]}\n".to_owned(),
        22 => line(dice.below(9) + 1, "http:127.0.0.1", "note.odd", "1"),
        _ => of("cli", dice.of(&["note.added", "note.b", "note.c", "long.name"]), r#"{"text":"some text of a note"}"#),
    }
}

fn places(home: &Home) -> Places {
    let path = |name: &str| home.join(name);
    Places { log: path("events.jsonl"), lock: path(".self/lock"), torn: path(".self/torn") }
}

/// All that is known of a log.
struct Seen {
    log: Log,
    state: State,
    position: Position,
}

impl Seen {
    /// By the index, or by a whole reading.
    fn of(home: &Home, is_indexed: bool) -> Seen {
        let (mut state, mut position) = (State::new(Some(secret())), Position::default());
        let mut index = Index::of(&places(home), is_indexed.then(secret));
        let log = index.open(&places(home), &mut state, &mut position, &mut |_, _| {}).unwrap().unwrap();
        Seen { log, state, position }
    }

    fn fed(&self, names: &[&str], last: Option<u64>) -> String {
        let wanted = Wanted { names: names.iter().map(|name| (*name).to_owned()).collect(), last };
        let mut feed = self.log.feed(wanted).unwrap();
        let mut all = Vec::new();
        while let Some(piece) = feed.next_piece().unwrap() {
            match piece {
                Piece::Bytes(bytes) => all.extend(bytes.into_inner()),
                Piece::Stretch(file, stretch) => {
                    let mut bytes = vec![0; usize::try_from(stretch.end - stretch.start).unwrap()];
                    std::os::unix::fs::FileExt::read_exact_at(&*file, &mut bytes, stretch.start).unwrap();
                    all.extend(bytes);
                }
            }
        }
        String::from_utf8(all).unwrap()
    }

    /// Everything that a verb may ask of it.
    fn told(&self) -> Vec<String> {
        let mut told = vec![format!("{:?}", self.state), format!("{:?}", self.position), format!("{:?}", self.log.tail())];
        for (names, last) in [
            (&[][..], None),
            (&["note.added"], None),
            (&["note.added", "a name"], None),
            (&["self.asked", "note.b"], Some(2)),
            (&["no.such"], None),
            (&[], Some(1)),
        ] {
            told.push(self.fed(names, last));
        }
        told.push(format!("{:?}", self.log.last_of("note.added", 2).unwrap()));
        told.push(format!("{:?}", self.log.at(3).unwrap()));
        let mut named = Vec::new();
        self.log.named(&["note.b", "chat.message"], |event| named.push(format!("{event:?}"))).unwrap();
        let mut these = Vec::new();
        self.log.these(&BTreeSet::from([2, 5]), |event| these.push(format!("{event:?}"))).unwrap();
        told.extend([named.concat(), these.concat()]);
        told
    }
}

#[track_caller]
fn check(home: &Home, what: &str) {
    let (indexed, whole) = (Seen::of(home, true).told(), Seen::of(home, false).told());
    for (at, (indexed, whole)) in indexed.iter().zip(&whole).enumerate() {
        assert_eq!(indexed, whole, "{what}, answer {at}");
    }
}

#[test]
fn a_state_from_the_index_is_the_state_of_a_whole_reading_wherever_the_log_is_cut() {
    for seed in 1..=21 {
        let mut dice = Dice(0x9e37_79b9_7f4a_7c15_u64.wrapping_mul(seed));
        let home = Home::with_log("");
        fs::create_dir(home.join(".self")).unwrap();
        let is_odd = seed % 3 == 0;
        let mut log = if seed % 7 == 0 { "\u{feff}".to_owned() } else { String::new() };
        let mut seq = 0;
        for step in 0..6 {
            for _ in 0..dice.below(25) {
                let line = any_line(&mut dice, seq + 1);
                let is_plain = line.starts_with("{\"id\"") && line.ends_with("}\n") && !line.contains("note.odd");
                if is_odd || is_plain {
                    log.push_str(&line);
                    seq += 1;
                }
            }
            let is_cut = dice.below(4) == 0;
            home.write_log(log.strip_suffix('\n').filter(|_| is_cut).unwrap_or(&log));
            check(&home, &format!("seed {seed}, step {step}"));
            check(&home, &format!("seed {seed}, step {step}, again"));
            if dice.below(5) == 0 {
                fs::remove_dir_all(home.join(".self/index")).unwrap();
            }
        }
    }
}

#[test]
fn more_names_than_have_an_entry_are_all_found() {
    let home = Home::new();
    fs::create_dir(home.join(".self")).unwrap();
    let mut log: String = (1..=4200).map(|seq| line(seq, "cli", &format!("many.n{seq}"), "{}")).collect();
    for (at, name) in ["a name", "note.added", "many.n4199", "note.b", "many.n1", "note.added"].iter().enumerate() {
        log.push_str(&line(4201 + at as u64, "cli", name, "{}"));
    }
    home.write_log(&log);
    check(&home, "first");
    check(&home, "again");
    let seen = Seen::of(&home, true);
    assert_eq!(seen.fed(&["many.n4199"], None).lines().count(), 2);
    assert_eq!(seen.fed(&["many.n4199"], Some(1)).lines().count(), 1);
}

#[test]
fn what_stands_side_by_side_is_fed_as_it_stands() {
    let long = format!(r#"{{"text":"{}"}}"#, "x".repeat(3000));
    let name = |seq: u64| match seq % 10 {
        0..4 => "note.added",
        4 => "self.asked",
        5 | 6 => "note.b",
        _ => "a name",
    };
    let lines: Vec<_> = (1..=200).map(|seq| line(seq, "cli", name(seq), &long)).collect();
    for (odd, log) in [
        ("plain", lines.concat()),
        ("a byte order mark", format!("\u{feff}{}", lines.concat())),
        ("CRs", lines.concat().replace('\n', "\r\n")),
        ("no last newline", lines[..193].concat().trim_end().to_owned()),
    ] {
        let home = Home::with_log(&log);
        fs::create_dir(home.join(".self")).unwrap();
        check(&home, odd);
        check(&home, &format!("{odd}, again"));
        let seen = Seen::of(&home, true);
        let mut feed = seen.log.feed(Wanted { names: vec!["note.added".to_owned()], last: None }).unwrap();
        let mut stretches = 0;
        while let Some(piece) = feed.next_piece().unwrap() {
            stretches += usize::from(matches!(piece, Piece::Stretch(..)));
        }
        assert_eq!(stretches > 0, odd != "CRs", "{odd}");
    }
}

/// A home whose index was written, with some notes.
fn indexed() -> Home {
    let home = Home::made();
    for n in 0..5 {
        home.hear(&format!(r#"{{"name":"note.taken","payload":{{"n":{n}}}}}"#));
    }
    home.hear(r#"{"name":"command.declared","payload":{"name":"note"}}"#);
    home
}

/// What `self work` says waits, and the number that the next event gets.
#[track_caller]
fn stands(home: &Home, pending: &[&str], next: u64) {
    let said = home.run(["hear"]).stdin("{\"name\":\"probe.sent\",\"payload\":{}}\n").stderr_any().check().said();
    assert!(said.contains(&format!("heard seq {next}\n")), "{said}");
    let told = format!("pending: {}; to have", pending.join(", "));
    assert_eq!(said.contains("pending: "), !pending.is_empty(), "{said}");
    assert!(pending.is_empty() || said.contains(&told), "{said}");
}

fn index(home: &Home) -> std::path::PathBuf {
    home.join(".self/index")
}

#[test]
fn an_index_that_is_deleted_or_broken_between_two_commands_is_made_anew() {
    type Deed = fn(&Home);
    let deeds: [(&str, Deed); 10] = [
        ("nothing", |_| {}),
        ("no .self", |home| fs::remove_dir_all(home.join(".self")).unwrap()),
        ("no index", |home| fs::remove_dir_all(index(home)).unwrap()),
        ("no rows", |home| fs::remove_file(index(home).join("rows")).unwrap()),
        ("rows cut", |home| fs::write(index(home).join("rows"), "x").unwrap()),
        ("a hole at the end of the rows", |home| {
            let rows = fs::OpenOptions::new().write(true).open(index(home).join("rows")).unwrap();
            let length = rows.metadata().unwrap().len();
            rows.set_len(length - 16).unwrap();
            rows.set_len(length).unwrap();
        }),
        ("no slots", |home| fs::remove_file(index(home).join("slots")).unwrap()),
        ("both slots broken", |home| {
            let path = index(home).join("slots");
            let mut bytes = fs::read(&path).unwrap();
            for at in [100, (4 << 20) + 100] {
                if let Some(byte) = bytes.get_mut(at) {
                    *byte ^= 1;
                }
            }
            fs::write(&path, bytes).unwrap();
        }),
        ("a file in its place", |home| {
            let _ = fs::remove_dir_all(index(home));
            fs::write(index(home), "x").unwrap();
        }),
        ("rows in the making", |home| fs::write(index(home).join("rows.new"), "left behind").unwrap()),
    ];
    for (what, deed) in deeds {
        let home = indexed();
        for round in 0..3 {
            deed(&home);
            stands(&home, &["command/note"], 9 + round);
        }
        home.run(["verify"]).stdout_any().stderr_any().check();
        assert_eq!(home.records().len(), 11, "{what}");
    }
}

#[test]
fn a_copied_home_goes_on_with_its_index() {
    let home = indexed();
    let copy = Home::new();
    for file in home.files() {
        fs::create_dir_all(copy.join(&file).parent().unwrap()).unwrap();
        fs::copy(home.join(&file), copy.join(&file)).unwrap();
    }
    stands(&copy, &["command/note"], 9);
    stands(&home, &["command/note"], 9);
}

#[test]
fn what_another_program_appended_is_read() {
    let home = indexed();
    home.append(line(9, "pipe", "command.declared", r#"{"name":"other"}"#));
    stands(&home, &["command/note", "command/other"], 10);
    home.append(line(11, "cli", "capability.retired", r#"{"type":"command","name":"note"}"#).trim_end());
    stands(&home, &["command/other"], 12);
    stands(&home, &["command/other"], 13);
}

/// Gives a file the length, the inode and the times that it had, and other bytes.
fn edit(path: &Path, from: &str, to: &str) {
    assert_eq!(from.len(), to.len());
    let before = fs::metadata(path).unwrap();
    let text = fs::read_to_string(path).unwrap();
    assert!(text.contains(from));
    let mut file = fs::OpenOptions::new().write(true).open(path).unwrap();
    file.write_all(text.replace(from, to).as_bytes()).unwrap();
    let since = |seconds: i64, nanoseconds: i64| {
        SystemTime::UNIX_EPOCH + Duration::new(u64::try_from(seconds).unwrap(), u32::try_from(nanoseconds).unwrap())
    };
    file.set_modified(since(before.mtime(), before.mtime_nsec())).unwrap();
    let after = fs::metadata(path).unwrap();
    assert_eq!((after.len(), after.ino(), after.mtime_nsec()), (before.len(), before.ino(), before.mtime_nsec()));
}

#[test]
fn an_edit_of_the_same_length_with_the_times_put_back_is_seen() {
    let home = indexed();
    stands(&home, &["command/note"], 9);
    edit(&home.join("events.jsonl"), r#""name":"note"}"#, r#""name":"nota"}"#);
    stands(&home, &["command/nota"], 10);
    edit(&home.join("events.jsonl"), r#""name":"nota"}"#, r#""name":"noto"}"#);
    let said = home.run(["work"]).stdout_any().check().text();
    assert!(said.contains("command/noto") || said.contains("\"noto\""), "{said}");
}

#[test]
fn an_older_copy_of_the_log_and_a_cut_one_are_read_anew() {
    for is_cut in [false, true] {
        let home = indexed();
        let (log, now) = (home.join("events.jsonl"), home.log());
        let at = now.iter().enumerate().filter(|(_, byte)| **byte == b'\n').nth(3).unwrap().0 + 1;
        if is_cut {
            fs::OpenOptions::new().write(true).open(&log).unwrap().set_len(at as u64).unwrap();
        } else {
            fs::write(home.join("older"), &now[..at]).unwrap();
            fs::rename(home.join("older"), &log).unwrap();
        }
        stands(&home, &[], 5);
        stands(&home, &[], 6);
        // The longer one, put back.
        home.write_log(&now);
        stands(&home, &["command/note"], 9);
    }
}

#[test]
fn another_key_makes_another_index() {
    let home = indexed();
    home.write_private(".secret", "09".repeat(32));
    stands(&home, &["command/note"], 9);
    stands(&home, &["command/note"], 10);
}

#[test]
fn a_log_of_another_home_is_not_taken_for_this_one() {
    let (home, other) = (indexed(), Home::made());
    other.hear(r#"{"name":"projector.declared","payload":{"name":"page"}}"#);
    fs::copy(other.join("events.jsonl"), home.join("events.jsonl")).unwrap();
    stands(&home, &["projector/page"], 4);
}

#[test]
fn two_writers_in_turn_share_one_index() {
    let home = indexed();
    for n in 0..6 {
        if n % 2 == 0 {
            home.run(["ask", "what now?"]).stdout_any().stderr_any().check();
        } else {
            home.hear(r#"{"name":"note.taken","payload":{}}"#);
        }
    }
    let rows = fs::metadata(index(&home).join("rows")).unwrap().len();
    assert_eq!(rows, 16 * home.records().len() as u64);
}

#[test]
fn a_home_that_cannot_be_written_is_read_from_memory() {
    if is_root() {
        return skipped("a_home_that_cannot_be_written_is_read_from_memory", "root writes everywhere");
    }
    let home = indexed();
    fs::remove_dir_all(index(&home)).unwrap();
    let set = |mode: u32| {
        for path in [home.path().to_owned(), home.join(".self")] {
            fs::set_permissions(path, PermissionsExt::from_mode(mode)).unwrap();
        }
    };
    set(0o500);
    home.run(["quiet"]).status(1).check();
    home.run(["show", "brief"]).stdout_any().check();
    let is_there = index(&home).exists();
    set(0o700);
    assert!(!is_there);
}

#[test]
fn a_look_without_a_key_leaves_no_index() {
    let home = Home::with_log(line(1, "pipe", "command.declared", r#"{"name":"note"}"#));
    home.run(["quiet"]).status(1).check();
    assert_eq!(home.files(), [Path::new("events.jsonl")]);
}

#[test]
fn what_the_index_holds_is_the_owners_alone() {
    let home = indexed();
    for (name, mode) in [(".self/index", 0o700), (".self/index/slots", 0o600), (".self/index/rows", 0o600)] {
        assert_eq!(home.mode(name), mode, "{name}");
    }
}

/// A log of so many notes, under twenty names.
fn notes(count: u64) -> String {
    let note = |seq: u64| {
        let text = "x".repeat(200 + usize::try_from(seq * 7919 % 400).unwrap());
        line(seq, "cli", &format!("note.n{}", seq % 20), &format!("{{\"text\":\"{text}\"}}"))
    };
    (1..=count).map(note).collect()
}

/// What a call read and wrote itself, in bytes and in calls of the system, as the system counted it.
fn effort(home: &Home, arguments: &[&str], body: &str) -> (u64, u64) {
    let out = fs::File::create(home.beside("out")).unwrap();
    let mut command = home.run(arguments).into_command();
    let input = home.beside("in");
    fs::write(&input, body).unwrap();
    let mut child = command.stdin(fs::File::open(&input).unwrap()).stdout(out).stderr(Stdio::null()).spawn().unwrap();
    // It has ended, and still is there to be looked at.
    let ended = waitid(WaitId::Pid(Pid::from_child(&child)), WaitIdOptions::EXITED | WaitIdOptions::NOWAIT);
    assert!(ended.unwrap().is_some());
    let told = fs::read_to_string(format!("/proc/{}/io", child.id())).unwrap();
    assert!(child.wait().unwrap().success(), "{arguments:?}");
    let number = |key: &str| -> u64 {
        let line = told.lines().find_map(|line| line.strip_prefix(key)).unwrap();
        line.trim().parse().unwrap()
    };
    (number("rchar:") + number("wchar:"), number("syscr:") + number("syscw:"))
}

#[track_caller]
fn nearly(what: &str, short: u64, long: u64) {
    let (less, more) = (short.min(long), short.max(long));
    assert!(more - less <= more / 20, "{what}: {short} on a short log, {long} on a long one");
}

#[test]
fn a_long_history_costs_no_byte_and_no_call_more_than_a_short_one() {
    let homes = [1_000, 20_000].map(|count| Home::with_log(notes(count)));
    for home in &homes {
        home.hear(r#"{"name":"command.declared","payload":{"name":"note"}}"#);
        home.run(["quiet"]).status(1).check();
    }
    let calls: [(&[&str], &str); 4] = [
        (&["hear"], "{\"name\":\"note.n1\",\"payload\":{}}\n"),
        (&["ask"], "what is going on?\n"),
        (&["show", "brief"], ""),
        (&["work"], ""),
    ];
    for (arguments, body) in calls {
        let [short, long] = homes.each_ref().map(|home| effort(home, arguments, body));
        nearly(&format!("{arguments:?}, bytes"), short.0, long.0);
        nearly(&format!("{arguments:?}, calls"), short.1, long.1);
        assert!(long.0 < 512 << 10, "{arguments:?} read and wrote {} bytes", long.0);
    }
}

#[test]
fn what_is_asked_of_a_long_log_is_found_without_reading_it() {
    let home = Home::with_log(notes(20_000));
    home.hear(r#"{"name":"rare.made","payload":{}}"#);
    home.run(["quiet"]).check();
    for question in [
        &["-n", "20"][..],
        &["7"],
        &["--after", "19990"],
        &["--name", "rare.made"],
        &["--name", "note.n7", "--since", "2025-06-01", "-n", "5"],
        &["--name", "no.such"],
        &["--by", "nobody"],
        &["--via", "learn"],
        &["--since", "2999-01-01"],
        &["--until", "1999-01-01", "--reverse"],
    ] {
        // The log has 11 MiB.
        let (bytes, calls) = effort(&home, &[&["log"], question].concat(), "");
        assert!(bytes < 768 << 10 && calls < 250, "{question:?} read and wrote {bytes} bytes in {calls} calls");
    }
}

#[test]
fn memory_does_not_grow_with_the_history() {
    let home = Home::with_log(notes(40_000));
    home.hear(r#"{"name":"command.declared","payload":{"name":"note"}}"#);
    let verbs = ["self quiet", "self show brief >out", "self ask what now >out", "self give note.n7 given"];
    for verb in ["rm -r .self/index; self quiet"].into_iter().chain(verbs) {
        // In KiB; the log is 21 MiB.
        let line = format!("ulimit -d 12288; {verb}");
        home.sh(&line).stderr_any().status(i32::from(verb.ends_with("quiet"))).check();
    }
}
