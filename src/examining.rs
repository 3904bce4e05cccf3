//! Examining: what `self doctor` looks at.
//!
//! Only reads; asks version managers what their shims stand for, and a process of its own how far a script can be held. The
//! invariant: a home that was examined is the same, byte for byte.

use std::path::Path;

use crate::capability::{Capability, Need};
use crate::doctor::{Checkup, Confinement, Examined, Interpreter};
use crate::home::of_user;
use crate::interpreter::{self, Shebang};
use crate::kernel::{Error, Kernel, Key, View};
use crate::level::{Level, Sandbox};
use crate::log::Log;
use crate::roster::Roster;
use crate::standing::Installed;

/// What a first line has in front of an interpreter's name.
const ENV: &str = "/usr/bin/env";

impl Kernel {
    /// Examines the home.
    pub fn doctor(&self) -> Result<Checkup, Error> {
        if Log::open(&self.home.places())?.is_none() {
            return Err(Error::NoHome(self.home.root().to_owned()));
        }
        let view = self.look()?;
        // Found out anew: nothing that was kept may hide a change, and nothing is written.
        let reach = (self.world.reach)(&self.caller.executable, self.caller.sandbox, None);
        let confinement = Confinement {
            level: reach.level.word(),
            why: reach.why,
            sandbox: self.caller.sandbox.word(),
            holds_signals: reach.holds_signals,
        };
        let names = (self.world.offered)(&self.caller.path);
        let mut checkup = Checkup {
            home: self.home.root().display().to_string(),
            events: view.state.seq(),
            key: String::new(),
            confinement,
            interpreters: names.into_iter().filter_map(|name| self.known(name)).collect(),
            capabilities: Vec::new(),
            faults: Vec::new(),
        };
        self.examine_key(&view, &mut checkup);
        self.examine_files(&view, &mut checkup);
        if reach.level < Level::Landlock && self.caller.sandbox == Sandbox::Require {
            checkup.add(
                "SELF_SANDBOX=require, and this machine cannot confine scripts: none runs",
                "a Linux of 6.2 or newer with Landlock; or unset SELF_SANDBOX, and scripts run unconfined",
            );
        }
        for (capability, standing) in view.state.capabilities() {
            if let Some(installed) = standing.installed() {
                self.examine_script(&view, capability, installed, &mut checkup);
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

    fn examine_files(&self, view: &View, checkup: &mut Checkup) {
        if let Some(mode) = self.home.mode("events.jsonl").filter(|mode| mode & 0o077 != 0) {
            checkup.add(
                format!("the log lets others at it: mode {mode:04o}"),
                format!("chmod 600 {}", self.home.word("events.jsonl")),
            );
        }
        if !self.home.is_writable() {
            checkup.add("this home cannot be written here; reads work", "set SELF_HOME to a home of yours");
        }
        for damage in view.position.damage.iter().take(1) {
            let (line, more) = (damage.line, view.position.damage.len() - 1);
            let more = if more == 0 { String::new() } else { format!(", and {more} more") };
            checkup.add(
                format!("the log is damaged at line {line}, byte {}{more}; it is passed over and kept", damage.offset),
                "put a backup of events.jsonl back if you have one; nothing else brings a line back",
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
