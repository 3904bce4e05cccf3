//! Attacks on the confinement of scripts: a table of what a script tries and which level holds it, run at each level.
//!
//! `attacks.py` tries, as a command of a home; [`TABLE`] says what must come of it. What a level does not hold is asserted as not
//! held. A lower level is the machine's own: `unshare`, or Landlock, is denied to the kernel that runs the script, by a filter on
//! the thread that starts it. The README shows the same table; `BLESS=1 cargo test --test it attacks` writes it there, and
//! `cargo test --test it attack_table -- --nocapture` prints it with what each try said.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;

use seccompiler::{SeccompAction, SeccompFilter, SeccompRule, TargetArch};
use self_kernel::level::Level;
use serde::Deserialize;

use crate::home::{Home, has, skipped};
use crate::scripts::with_needs;

/// What must come of an attack at a level.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Must {
    /// It gets nothing.
    Hold,
    /// It gets what it wants: not held, and known not to be.
    Pass,
    /// Not this level decides.
    Depend,
}

use Must::{Depend, Hold, Pass};

/// What a script tries, and what must come of it at full, landlock and limits.
const TABLE: &[(&str, [Must; 3])] = &[
    ("S1 read the key", [Hold, Hold, Pass]),
    ("S1 read the kernel's own folder", [Hold, Hold, Pass]),
    ("S1 list the home", [Hold, Hold, Pass]),
    ("S1 read ~/.ssh", [Hold, Hold, Pass]),
    ("S1 list the user's folder", [Hold, Hold, Pass]),
    ("S1 read a project's .env", [Hold, Hold, Pass]),
    ("S1 read the key over a link", [Hold, Hold, Pass]),
    ("S1 take a name of the key", [Hold, Hold, Pass]),
    ("S1 read the key through /proc", [Hold, Hold, Pass]),
    ("S1 read the key over a descriptor that only names it", [Hold, Hold, Pass]),
    ("S1 open a file by its handle", [Hold, Hold, Depend]),
    ("S1 run a file that others may not read", [Hold, Hold, Pass]),
    ("S1 watch a folder that it may not list", [Hold, Hold, Pass]),
    ("S1 learn that a file is there, its size and its times", [Pass, Pass, Pass]),
    (GRANTED, [Pass, Pass, Pass]),
    ("S2 append to the log", [Hold, Hold, Pass]),
    ("S2 open the log to write", [Hold, Hold, Pass]),
    ("S2 make a file in the home", [Hold, Hold, Pass]),
    ("S2 make a file in the user's folder", [Hold, Hold, Pass]),
    ("S2 write a page", [Hold, Hold, Pass]),
    ("S2 cut a page", [Hold, Hold, Pass]),
    ("S2 rename a file of the home", [Hold, Hold, Pass]),
    ("S2 remove a file of the home", [Hold, Hold, Pass]),
    ("S2 chmod a page", [Hold, Hold, Pass]),
    ("S2 chmod by descriptor", [Hold, Hold, Pass]),
    ("S2 chmod by the newest call", [Hold, Hold, Pass]),
    ("S2 chown a page", [Hold, Hold, Pass]),
    ("S2 chown by descriptor", [Hold, Hold, Pass]),
    ("S2 set an attribute of a page", [Hold, Hold, Pass]),
    ("S2 set an attribute by descriptor", [Hold, Hold, Pass]),
    ("S2 put a page's time back", [Hold, Hold, Pass]),
    ("S2 set a page's flags", [Hold, Hold, Pass]),
    ("S2 set a page's extended flags", [Hold, Hold, Pass]),
    ("S2 mount", [Hold, Hold, Depend]),
    ("S2 make a namespace", [Hold, Hold, Pass]),
    ("S2 enter a namespace", [Hold, Hold, Pass]),
    ("S2 make a process in a namespace", [Hold, Hold, Depend]),
    ("S2 make a process by the call that cannot be looked into", [Hold, Hold, Pass]),
    ("S2 type into a terminal", [Hold, Hold, Pass]),
    ("S2 call through another table of the system", [Hold, Hold, Depend]),
    ("S2 call as a program of 32 bits", [Hold, Hold, Depend]),
    ("S3 make a socket of any family", [Hold, Hold, Pass]),
    ("S3 make a pair of sockets", [Hold, Hold, Pass]),
    ("S3 listen on an abstract name", [Hold, Hold, Pass]),
    ("S3 make a ring", [Hold, Hold, Depend]),
    ("S4 signal another process", [Hold, Hold, Pass]),
    ("S4 learn which processes there are", [Pass, Pass, Pass]),
    ("S4 learn which program a process is", [Hold, Hold, Pass]),
    ("S4 trace a process", [Hold, Hold, Pass]),
    ("S4 read a process's memory", [Hold, Hold, Pass]),
    ("S4 compare processes", [Hold, Hold, Depend]),
    ("S4 take a descriptor of a process", [Hold, Hold, Pass]),
    ("S4 read /proc of another process", [Hold, Hold, Pass]),
    ("S4 list /proc", [Hold, Hold, Pass]),
    ("S4 change a process's priority", [Hold, Hold, Pass]),
    ("S4 read another process's limits", [Hold, Hold, Pass]),
    ("S4 share memory by number", [Hold, Hold, Pass]),
    ("S4 ask for keys of the session", [Hold, Hold, Depend]),
    ("S4 raise its rights by a program that has more", [Hold, Hold, Depend]),
    ("S5 take more memory than the limit", [Hold, Hold, Hold]),
    ("S8 take a lease on the log", [Hold, Hold, Pass]),
    ("S8 lock the kernel's lock", [Hold, Hold, Pass]),
    ("S9 find a descriptor beyond 0 to 2", [Hold, Hold, Hold]),
    ("S9 find a secret in the environment", [Hold, Hold, Hold]),
];

/// What every command may do.
const GRANTED: &str = "S1 read the log";

const ATTACKS: &str = include_str!("attacks.py");

/// The system calls that are denied to whoever starts a kernel that is to reach only this level.
fn denied(level: Level) -> &'static [i64] {
    const UNSHARE: i64 = if cfg!(target_arch = "x86_64") { 272 } else { 97 };
    const LANDLOCK_CREATE_RULESET: i64 = 444;
    match level {
        Level::Full => &[],
        Level::Landlock => &[UNSHARE],
        Level::Limits => &[LANDLOCK_CREATE_RULESET],
    }
}

/// Does the work in a thread of which, and of whose children, the machine has no more than this level.
pub fn at<T: Send>(level: Level, work: impl FnOnce() -> T + Send) -> T {
    thread::scope(|scope| {
        let worker = scope.spawn(|| {
            let rules: BTreeMap<i64, Vec<SeccompRule>> = denied(level).iter().map(|call| (*call, Vec::new())).collect();
            if !rules.is_empty() {
                let here = if cfg!(target_arch = "x86_64") { TargetArch::x86_64 } else { TargetArch::aarch64 };
                let filter = SeccompFilter::new(rules, SeccompAction::Allow, SeccompAction::Errno(1), here).unwrap();
                let program: seccompiler::BpfProgram = filter.try_into().unwrap();
                seccompiler::apply_filter(&program).unwrap();
            }
            work()
        });
        worker.join().unwrap_or_else(|fault| std::panic::resume_unwind(fault))
    })
}

/// The levels that this machine offers, the highest first, by the kernel's own word; the rest are said to be skipped.
pub fn offered(test: &str) -> Vec<Level> {
    let home = Home::new();
    let most = self_kernel::launch::try_out(Path::new(crate::home::SELF), self_kernel::level::Sandbox::Auto);
    drop(home);
    if most.level < Level::Full {
        skipped(test, &format!("above level {}: {}", most.level, most.why));
    }
    Level::ALL.into_iter().filter(|level| *level <= most.level).collect()
}

/// What a try said.
#[derive(Debug, Deserialize)]
struct Tried {
    attack: String,
    held: Option<bool>,
    said: String,
}

/// Tries everything at a level, in a home of its own.
fn tried(level: Level) -> Vec<Tried> {
    let home = with_needs("[]", ATTACKS);
    for (path, mode) in [("user/.ssh/id_ed25519", 0o600), ("project/.env", 0o600), ("project/tool", 0o700)] {
        let path = home.beside(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, "#!/bin/sh\n").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
    }
    fs::create_dir(home.join("empty")).unwrap();
    fs::write(home.join("site/decoy"), "decoy").unwrap();
    let key = fs::read(home.join(".secret")).unwrap();
    let mut victim = Command::new("sleep").arg("60").stdin(Stdio::null()).spawn().unwrap();
    let arguments = [home.path(), &home.beside("user"), &home.beside("project")].map(|path| path.display().to_string());
    let number = victim.id().to_string();
    let words = ["run", "x"].into_iter().chain(arguments.iter().map(String::as_str)).chain([number.as_str()]);
    at(level, || home.run(words).env("TOKEN", "hunter2").stdout_any().stderr_any().check());
    let alive = victim.try_wait().unwrap().is_none();
    victim.kill().unwrap();
    victim.wait().unwrap();
    assert!(alive, "the other process is dead at {level}");
    assert_eq!(fs::read(home.join(".secret")).unwrap(), key);
    if level > Level::Limits {
        assert_eq!(fs::read(home.join("site/decoy")).unwrap(), b"decoy");
        assert_eq!(home.mode("events.jsonl"), 0o600);
    }
    home.payloads("attack.tried").iter().map(|payload| serde_json::from_str(payload).unwrap()).collect()
}

/// Whether this system holds signals at `landlock`: its Landlock knows them from version 6 on.
fn holds_signals() -> bool {
    at(Level::Landlock, || self_kernel::launch::try_out(Path::new(crate::home::SELF), self_kernel::level::Sandbox::Auto))
        .holds_signals
}

#[test]
fn attack_table_s1_s2_s3_s4_s5_s8_s9_at_each_level() {
    if !has("python3") {
        return skipped("attack_table", "there is no python3");
    }
    let levels = offered("attack_table");
    let signals = holds_signals();
    let mut faults = String::new();
    let mut seen = String::from("\n");
    for level in &levels {
        let column = Level::ALL.iter().position(|it| it == level).unwrap();
        let tried = tried(*level);
        let names: Vec<_> = tried.iter().map(|it| it.attack.clone()).collect();
        for (attack, musts) in TABLE {
            let Some(it) = tried.iter().find(|it| it.attack == *attack) else {
                writeln!(faults, "{level}: `{attack}` was not tried").unwrap();
                continue;
            };
            let must = match musts[column] {
                Hold if *level == Level::Landlock && *attack == "S4 signal another process" && !signals => Pass,
                must @ (Hold | Pass | Depend) => must,
            };
            writeln!(seen, "{:<9} {:<5} {attack}: {}", level.word(), word(it.held), it.said).unwrap();
            let fits = match (must, it.held) {
                (Depend, _) | (Hold, Some(true)) | (Pass, Some(false)) => true,
                // What another processor does not have is not tried there.
                (Hold, None) => it.said == "x86_64 only",
                (Hold | Pass, _) => false,
            };
            if !fits {
                writeln!(faults, "{level}: `{attack}` must {must:?}: {it:?}").unwrap();
            }
        }
        let unknown: Vec<_> = names.iter().filter(|name| TABLE.iter().all(|(attack, _)| attack != name)).collect();
        assert!(unknown.is_empty(), "give {unknown:?} a row in TABLE");
    }
    if std::env::args().any(|argument| argument == "--nocapture") {
        std::io::stdout().write_all(format!("{seen}\n{}", table()).as_bytes()).unwrap();
    }
    assert!(faults.is_empty(), "{faults}{seen}");
}

fn word(held: Option<bool>) -> &'static str {
    match held {
        Some(true) => "held",
        Some(false) => "open",
        None => "-",
    }
}

/// What the attacks of one number are about.
const GROUPS: [(&str, &str); 7] = [
    ("S1", "read, run or list what was not granted"),
    ("S2", "write or change it, or get past its own files and calls"),
    ("S3", "open a socket or a ring"),
    ("S4", "reach other processes"),
    ("S5", "take more memory than the limit"),
    ("S8", "block an append"),
    ("S9", "find descriptors or secrets that came along"),
];

/// The table as the README shows it: a row for each number, and in it what a level does not hold.
fn table() -> String {
    let mut text = String::from("| a script tries to | `full` | `landlock` | `limits` |\n|---|---|---|---|\n");
    for (number, about) in GROUPS {
        let rows: Vec<_> = TABLE.iter().filter(|(attack, _)| attack.starts_with(number) && *attack != GRANTED).collect();
        let cell = |column: usize| {
            let open: Vec<_> = rows.iter().filter(|(_, musts)| musts[column] == Pass).map(|(attack, _)| &attack[3..]).collect();
            let held = rows.iter().any(|(_, musts)| musts[column] == Hold);
            match (open.is_empty(), held) {
                (true, _) => "held".to_owned(),
                (false, false) => "not held".to_owned(),
                (false, true) => format!("held, but not: {}", open.join("; ")),
            }
        };
        writeln!(text, "| {number} {about} | {} | {} | {} |", cell(0), cell(1), cell(2)).unwrap();
    }
    text
}

const TABLE_BEGINS: &str = "<!-- attacks -->\n";
const TABLE_ENDS: &str = "<!-- end of attacks -->\n";

#[test]
fn the_readme_shows_the_table_that_is_tested() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("README.md");
    let text = fs::read_to_string(&path).unwrap();
    let (before, rest) = text.split_once(TABLE_BEGINS).unwrap();
    let (shown, after) = rest.split_once(TABLE_ENDS).unwrap();
    if std::env::var_os("BLESS").is_some() && shown != table() {
        return fs::write(&path, [before, TABLE_BEGINS, &table(), TABLE_ENDS, after].concat()).unwrap();
    }
    assert_eq!(shown, table(), "README.md; if the change is meant: BLESS=1 cargo test --test it attacks");
}
