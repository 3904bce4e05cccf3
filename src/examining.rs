//! Examining: what `self doctor` looks at.
//!
//! Only reads; asks version managers what their shims stand for, git what it makes of the key, and a process of its own how far a
//! script can be held. The invariant: a home that was examined is the same, byte for byte, and so is what is remembered of it.

use std::path::Path;

use crate::capability::{Capability, Need};
use crate::doctor::{Checkup, Confinement, Examined, FileSystem, Interpreter, LogHealth, amount};
use crate::ground::{Ground, Kind};
use crate::home::{of_user, resolved, shell_word};
use crate::interpreter::{self, Shebang};
use crate::kernel::{Error, Glance, Kernel, Key, View, damaged};
use crate::level::{Level, Sandbox};
use crate::log::{BATCH_BYTES_MAX, Log, Misnumber, Misnumbered};
use crate::mirror;
use crate::roster::Roster;
use crate::standing::Installed;
use crate::turn;
use crate::worktree::Standing;

/// What a first line has in front of an interpreter's name.
const ENV: &str = "/usr/bin/env";

/// With less room than this for the home's user, in bytes, an append of a large batch may fail.
const FREE_BYTES_MIN: u64 = BATCH_BYTES_MAX as u64;

/// How many conflict copies of a file are named.
const COPIES_NAMED_MAX: usize = 8;

impl Kernel {
    /// Examines the home.
    pub fn doctor(&self) -> Result<Checkup, Error> {
        let glance = self.glance()?;
        let view = &glance.view;
        let Some(log) = &view.log else { return Err(Error::NoHome(self.home.root().to_owned())) };
        // Found out anew: nothing that was kept may hide a change, and nothing is written.
        let reach = (self.world.reach)(&self.caller.executable, self.caller.sandbox, None);
        let confinement = Confinement {
            level: reach.level.word(),
            why: reach.why,
            sandbox: self.caller.sandbox.word(),
            holds_signals: reach.holds_signals,
        };
        let names = (self.world.offered)(&self.caller.path);
        let now = (self.world.now)().as_second();
        let mut checkup = Checkup {
            home: self.home.root().display().to_string(),
            events: view.state.seq(),
            log: LogHealth {
                bytes: log.tail().whole,
                torn_bytes: log.tail().torn_bytes(),
                damaged: view.position.damage.len(),
                misnumbered: view.position.misnumbered.count,
            },
            head: String::new(),
            file_systems: Vec::new(),
            copied_by: None,
            key: String::new(),
            git: None,
            stale_markers: turn::stale(&self.home.turns(), now.max(0).cast_unsigned()),
            confinement,
            interpreters: names.into_iter().filter_map(|name| self.known(name)).collect(),
            capabilities: Vec::new(),
            faults: Vec::new(),
        };
        examine_log(log, view, &mut checkup);
        examine_head(&glance, &mut checkup);
        self.examine_ground(&mut checkup);
        self.examine_mirrors(&mut checkup);
        self.examine_key(view, &mut checkup);
        self.examine_git(&mut checkup);
        self.examine_files(now, &mut checkup);
        if reach.level < Level::Landlock && self.caller.sandbox == Sandbox::Require {
            checkup.add(
                "SELF_SANDBOX=require, and this machine cannot confine scripts: none runs",
                "a Linux of 6.2 or newer with Landlock; or unset SELF_SANDBOX, and scripts run unconfined",
            );
        }
        for (capability, standing) in view.state.capabilities() {
            if let Some(installed) = standing.installed() {
                self.examine_script(view, capability, installed, &mut checkup);
            }
        }
        Ok(checkup)
    }

    fn known(&self, name: String) -> Option<Interpreter> {
        let shebang = Shebang { program: ENV.to_owned(), argument: Some(name.clone()) };
        let found = interpreter::resolve(&shebang, &self.caller.path, self.home.root()).ok()?;
        Some(Interpreter { name, path: found.path.display().to_string() })
    }

    fn examine_key(&self, view: &View, checkup: &mut Checkup) {
        match (self.home.secret(), view.key) {
            (Err(fault), _) => {
                checkup.key = "not usable".to_owned();
                checkup.add(fault.to_string(), fault.hint().unwrap_or_else(|| "restore .secret from a backup".to_owned()));
            }
            (Ok(None), _) if view.state.is_signed() => {
                checkup.key = "missing".to_owned();
                checkup.add("the key is missing, and this log was signed with one", "restore .secret from a backup, mode 600");
            }
            (Ok(None), _) => checkup.key = "none yet; the first script or seal makes one".to_owned(),
            (Ok(Some(_)), Key::Refused) => {
                checkup.key = "not the one this log was signed with".to_owned();
                checkup.add("the key proves none of this log's receipts", "restore the .secret that this log was signed with");
            }
            (Ok(Some(_)), Key::Here | Key::Missing) => {
                checkup.key = self.home.mode(".secret").map_or_else(String::new, |mode| format!("mode {mode:04o}"));
            }
        }
    }

    /// What the home, and a log that lies elsewhere, stand on.
    fn examine_ground(&self, checkup: &mut Checkup) {
        let home = resolved(self.home.root());
        let log = resolved(&self.home.places().log);
        let elsewhere = log.parent().filter(|folder| **folder != home).map(|folder| ("log", folder));
        for (holds, folder) in [Some(("home", home.as_path())), elsewhere].into_iter().flatten() {
            let Some(ground) = Ground::of(folder) else { continue };
            if let Some(warning) = ground.warning() {
                checkup.add(
                    format!("the {holds} lies on {}, {warning}", ground.name),
                    format!("move it to a disk of this machine: cp -a {} FOLDER, and set SELF_HOME", shell_word(&home)),
                );
            }
            if let Some(free) = ground.free_bytes.filter(|free| *free < FREE_BYTES_MIN && self.home.is_writable()) {
                let (free, limit) = (amount(free), amount(FREE_BYTES_MIN));
                checkup.add(
                    format!("the file system of the {holds} has {free} free for you, less than {limit}: an append may soon fail"),
                    format!("make room there: df -h {}", shell_word(folder)),
                );
            }
            let is_memory = ground.kind == Kind::Memory;
            checkup.file_systems.push(FileSystem { holds, name: ground.name, is_memory, free_bytes: ground.free_bytes });
        }
    }

    /// Whether a program copies the home between machines, and what copies of the log and the key it left.
    fn examine_mirrors(&self, checkup: &mut Checkup) {
        let home = resolved(self.home.root());
        if let Some((folder, program)) = mirror::around(&home) {
            checkup.copied_by = Some(program);
            checkup.add(
                format!(
                    "the home lies in `{}`, which {program} copies between machines: two hosts on one log, and the key goes along",
                    folder.display()
                ),
                format!("move it out of there: mv {} FOLDER, and set SELF_HOME", shell_word(&home)),
            );
        }
        for (holds, file) in [("log", self.home.places().log), ("key", self.home.key_path())] {
            let real = resolved(&file);
            let mut copies = mirror::copies(&file, checkup.copied_by);
            if real.parent() != Some(&home) {
                copies.extend(mirror::copies(&real, checkup.copied_by));
            }
            for copy in copies.iter().take(COPIES_NAMED_MAX) {
                checkup.add(
                    format!("`{}` is a conflict copy of the {holds}: two machines wrote it", copy.display()),
                    format!(
                        "cmp {} {}, keep what is missing in the first, and move the second away",
                        shell_word(&real),
                        shell_word(copy)
                    ),
                );
            }
            if let Some(more) = copies.len().checked_sub(COPIES_NAMED_MAX).filter(|more| *more > 0) {
                checkup.add(format!("and {more} more conflict copies of the {holds}"), "self doctor, once those are gone");
            }
        }
    }

    /// What git makes of the key, if there is one in a work tree.
    fn examine_git(&self, checkup: &mut Checkup) {
        let key = self.home.key_path();
        if !key.exists() {
            return;
        }
        let key = resolved(&key);
        let (Some(folder), Some(name)) = (key.parent().map(shell_word), key.file_name().map(Path::new).map(shell_word)) else {
            return;
        };
        let ignore = key.parent().map(|folder| shell_word(&folder.join(".gitignore"))).unwrap_or_default();
        let Some(standing) = Standing::of(&key, &self.caller.path) else { return };
        checkup.git = Some(match standing {
            Standing::Ignored => "it ignores the key",
            Standing::Unknown => "it did not say whether it ignores the key",
            Standing::Tracked => {
                checkup.add(
                    "git tracks the key: whoever gets the repository can sign scripts for this home; commits that have it keep it",
                    format!("git -C {folder} rm --cached {name} && echo {name} >> {ignore}"),
                );
                "it tracks the key"
            }
            Standing::Open => {
                checkup.add("git does not ignore the key: the next `git add` takes it along", format!("echo {name} >> {ignore}"));
                "it does not ignore the key"
            }
        });
    }

    fn examine_files(&self, now: i64, checkup: &mut Checkup) {
        for (name, holds, mode) in [("events.jsonl", "the log", "600"), (".self", "`.self`, the kernel's own folder,", "700")] {
            if let Some(found) = self.home.mode(name).filter(|mode| mode & 0o077 != 0) {
                checkup.add(
                    format!("{holds} lets others at it: mode {found:04o}"),
                    format!("chmod {mode} {}", self.home.word(name)),
                );
            }
        }
        if !self.home.is_writable() {
            checkup.add("this home cannot be written here; reads work", "set SELF_HOME to a home of yours");
        }
        for draft in self.home.drafts_left(now) {
            checkup.add(
                format!("`{}` was left by a self that was ended before it was done", draft.display()),
                format!("rm {}", shell_word(&draft)),
            );
        }
    }

    fn examine_script(&self, view: &View, capability: &Capability, installed: &Installed, checkup: &mut Checkup) {
        let given = Roster::of(&self.home.own()).given(capability);
        let needs = installed.needs();
        checkup.capabilities.push(Examined {
            name: capability.to_string(),
            interpreter: given.as_deref().map(|path| interpreter::shown_as(installed.receipt.script(), path)),
            needs: needs.iter().map(Need::to_string).collect(),
        });
        if let Some(altered) = self.altered(view, capability) {
            checkup.add(altered, "self rehydrate");
        }
        let found = interpreter::shebang(installed.receipt.script().as_bytes()).ok();
        let found = found.map(|shebang| interpreter::resolve(&shebang, &self.caller.path, self.home.root()));
        match (found, given) {
            (Some(Err(fault)), _) => checkup.add(format!("{capability}: {fault}"), "install it, then self rehydrate"),
            (Some(Ok(now)), Some(was)) if now.path != was => {
                let (was, now) = (was.display(), now.path.display());
                checkup.add(format!("{capability} was given `{was}`, and would get `{now}` now"), "self rehydrate");
            }
            (Some(Ok(_)) | None, _) => {}
        }
        for need in needs {
            let again = format!("declare {capability} anew without that need, and have it authored");
            if let Some(why) = self.home.forbids(need, &self.caller.user, self.caller.state.as_deref()) {
                checkup.add(format!("{capability} does not run: {why}"), again);
            } else if let Need::Read(path) = need {
                let path = of_user(path, &self.caller.user);
                if !Path::new(&path).exists() {
                    checkup.add(format!("{capability} may read `{}`, and nothing is there", path.display()), again);
                }
            }
        }
    }
}

/// What reading the log showed of it.
fn examine_log(log: &Log, view: &View, checkup: &mut Checkup) {
    let tail = log.tail();
    if tail.torn_bytes() > 0 && log.steady() {
        let (line, bytes) = (view.position.newlines + 1, tail.torn_bytes());
        checkup.add(
            format!(
                "the log is torn at line {line}, byte {}: its last {bytes} bytes are no whole batch, and passed over",
                tail.whole
            ),
            "nothing need be done: the next append sets them aside in .self/torn; self verify has more",
        );
    }
    if let Some(damaged) = damaged(&view.position.damage, view.position.damaged) {
        checkup.add(
            damaged,
            "self verify names each line; put a backup of events.jsonl back if you have one, nothing else brings a line back",
        );
    }
    let Misnumbered { count, first } = view.position.misnumbered;
    if let Some(Misnumber { line, offset, seq, due }) = first {
        let found = seq.map_or_else(|| "no usable number".to_owned(), |seq| format!("seq {seq}"));
        let more = if count == 1 { String::new() } else { format!(", and {} more", count - 1) };
        checkup.add(
            format!("records out of order: {found} where {due} is due, at line {line}, byte {offset}{more}"),
            "self verify names each; if two copies of this log were mixed, put the one back that is whole",
        );
    }
}

/// Whether the log has been longer.
fn examine_head(glance: &Glance, checkup: &mut Checkup) {
    checkup.head = match glance.was {
        None => "how long the log has been is not remembered".to_owned(),
        Some(was) if was.is_beyond(glance.is) => {
            checkup.add(
                was.missing_in(glance.is),
                "if an older copy was put here, put the newer one back; else nothing: self goes on from what is there",
            );
            "the log has been longer".to_owned()
        }
        Some(_) => "the log has not been longer".to_owned(),
    };
}
