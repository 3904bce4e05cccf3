//! Starting: how a run of a script is put together from the caller and the home.
//!
//! Chooses the interpreter, the grants, the environment and the folder; what runs is the receipt's bytes. While a script runs, Ctrl-C and
//! SIGTERM end the run instead of the kernel, so nothing half done is recorded. The invariant: a script gets no variable, no
//! descriptor and no argument that is not named here.

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock, PoisonError};
use std::time::Duration;

use signal_hook::{SigId, flag, low_level};

use crate::capability::{Capability, Need};
use crate::claim::Claim;
use crate::feed::Piece;
use crate::grant::{self, Place};
use crate::interpreter::{self, Shebang};
use crate::kernel::{Error, Kernel, View};
use crate::level::{Level, Sandbox};
use crate::roster::Roster;
use crate::script::{Hold, Limits, Ran, Run, run};
use crate::stop::{ENDING, Stop};

/// What a script reads, piece by piece.
pub(crate) type Input<'i> = &'i mut dyn FnMut() -> io::Result<Option<Piece>>;

/// A run to be started.
pub(crate) struct Order<'o> {
    /// The receipt's bytes.
    pub(crate) script: &'o str,
    /// Whose script it is, if it is in force; a trial's is not yet.
    pub(crate) of: Option<&'o Capability>,
    /// Its arguments.
    pub(crate) arguments: &'o [OsString],
    /// The variables that a trial varies.
    pub(crate) settings: [(&'static str, &'static str); 3],
    /// What its sealed declaration needs; `None` for a projector, which has none and does not know its home. A command works in
    /// the home and knows its caller.
    pub(crate) needs: Option<&'o [Need]>,
    /// How many process numbers are used up in front of it.
    pub(crate) strays: u32,
}

/// The settings of every run but a second trial.
pub(crate) const USUAL: [(&str, &str); 3] = [("TZ", "UTC"), ("LANG", "C.UTF-8"), ("PYTHONHASHSEED", "0")];

impl Kernel {
    /// Runs a script to its end.
    pub(crate) fn start(&self, order: &Order<'_>, input: Input<'_>) -> Result<Ran, Error> {
        let shebang = interpreter::shebang(order.script.as_bytes())?;
        let found = self.interpreter(order.of, &shebang)?;
        let mut granted = grant::by_default(self.place(), &found, order.needs.is_some());
        grant::by_needs(&mut granted, self.place(), order.needs.unwrap_or_default(), order.arguments)?;
        let (most, least) = self.caller.sandbox.range();
        let name = format!("self-{}", hex::encode(self.random::<16>()?));
        let scratch = self.caller.scratch.canonicalize().unwrap_or_else(|_| self.caller.scratch.clone());
        let environment = self.environment(order, &scratch.join(&name));
        let _claim = Claim::take(&self.home.own().join("scratch"), &scratch.join(&name));
        let signals = match &self.stop {
            Some(stop) => Signals::lasting(stop),
            None => Signals::catch().map_err(Error::Signals)?,
        };
        let ran = run(
            &Run {
                launcher: &self.caller.executable,
                script: order.script.as_bytes(),
                interpreter: &shebang.words(&found),
                arguments: order.arguments,
                environment: &environment,
                folder: order.needs.map(|_| self.home.root()),
                scratch_parent: &scratch,
                scratch_name: &name,
                limits: Limits::within(Duration::from_secs(self.caller.script_seconds)),
                hold: Hold { most, least, grants: &granted.grants, net: granted.net, links: &granted.links },
                strays: order.strays,
                stop: &signals.any,
            },
            input,
        );
        match signals.caught() {
            Some(signal) => Err(Error::Stopped(signal)),
            None => {
                let ran = ran?;
                self.note_level(ran.level);
                Ok(ran)
            }
        }
    }

    /// Where scripts of this home run, and for whom.
    fn place(&self) -> Place<'_> {
        Place { home: &self.home, user: &self.caller.user, state: self.caller.state.as_deref(), folder: &self.caller.folder }
    }

    /// The interpreter of a script. One in force gets the one it was given, or none: another may do something else, and a way of
    /// finding one that was shut falls through to the next in silence.
    fn interpreter(&self, of: Option<&Capability>, shebang: &Shebang) -> Result<PathBuf, Error> {
        let now = interpreter::resolve(shebang, &self.caller.path, self.home.root())?.path;
        let Some(capability) = of else { return Ok(now) };
        let roster = Roster::of(&self.home.own());
        match roster.given(capability) {
            Some(was) if was != now => Err(Error::OtherInterpreter { capability: capability.clone(), was, now }),
            Some(_) => Ok(now),
            None => {
                // Where nothing can be written, nothing is remembered.
                let _ = roster.note(capability, &now);
                Ok(now)
            }
        }
    }

    /// Gives each script in force the interpreter that is found now.
    pub(crate) fn find_interpreters_anew(&self, view: &View) {
        let standing = view.state.capabilities().filter_map(|(capability, standing)| Some((capability, standing.installed()?)));
        let found = standing.filter_map(|(capability, installed)| {
            let shebang = interpreter::shebang(installed.receipt.script().as_bytes()).ok()?;
            Some((capability, interpreter::resolve(&shebang, &self.caller.path, self.home.root()).ok()?.path))
        });
        // What cannot be written is found at the next run.
        let _ = Roster::of(&self.home.own()).replace(found);
    }

    fn note_level(&self, level: Level) {
        let mut lowest = self.ran_at.lock().unwrap_or_else(PoisonError::into_inner);
        *lowest = Some(lowest.map_or(level, |there| there.min(level)));
    }

    /// What the caller should be told at the end of a command whose scripts ran unconfined though nobody wanted that.
    #[must_use]
    pub fn unconfined(&self) -> Option<String> {
        let lowest = *self.ran_at.lock().unwrap_or_else(PoisonError::into_inner);
        let told = lowest? < Level::Landlock && self.caller.sandbox == Sandbox::Auto;
        told.then(|| {
            "scripts ran unconfined, at level limits: they could touch all that you can; self doctor says why".to_owned()
        })
    }

    fn environment(&self, order: &Order<'_>, scratch: &Path) -> Vec<(OsString, OsString)> {
        let home = if order.needs.is_some() { self.home.root() } else { scratch };
        let mut environment = vec![("PATH".into(), self.caller.path.clone()), ("SELF_HOME".into(), home.into())];
        environment.extend(order.settings.map(|(name, value)| (name.into(), value.into())));
        if order.needs.is_some() {
            let claims = [("SELF_CALLER", &self.caller.speaker), ("SELF_MIND_ID", &self.caller.mind)];
            let claims = claims.into_iter().filter_map(|(name, claim)| Some((name, claim.as_ref()?.as_str())));
            environment.extend(claims.map(|(name, claim)| (name.into(), claim.into())));
            environment.push(("SELF_CWD".into(), self.caller.folder.clone().into()));
        }
        environment
    }
}

/// Whether no script runs: an ending signal then does what it does by default. Set up once, for a handler cannot be taken back.
static IDLE: OnceLock<Arc<AtomicBool>> = OnceLock::new();

/// The ending signals, caught while this value lives.
struct Signals {
    any: Arc<AtomicBool>,
    which: Arc<AtomicUsize>,
    caught: Vec<SigId>,
}

impl Signals {
    /// Those that a program which stays notes itself.
    fn lasting(stop: &Stop) -> Signals {
        Signals { any: Arc::clone(stop.any()), which: Arc::clone(stop.which()), caught: Vec::new() }
    }

    fn catch() -> io::Result<Signals> {
        let (any, which) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
        let idle = IDLE.get_or_init(|| Arc::new(AtomicBool::new(true)));
        let fresh = Arc::strong_count(idle) == 1;
        idle.store(false, Ordering::SeqCst);
        let mut caught = Vec::new();
        for signal in ENDING {
            if fresh {
                flag::register_conditional_default(signal, Arc::clone(idle))?;
            }
            caught.push(flag::register_usize(signal, Arc::clone(&which), usize::try_from(signal).unwrap_or_default())?);
            caught.push(flag::register(signal, Arc::clone(&any))?);
        }
        Ok(Signals { any, which, caught })
    }

    /// The signal that came, if one did.
    fn caught(&self) -> Option<u8> {
        u8::try_from(self.which.load(Ordering::SeqCst)).ok().filter(|signal| *signal > 0)
    }
}

impl Drop for Signals {
    fn drop(&mut self) {
        if self.caught.is_empty() {
            return;
        }
        for id in self.caught.drain(..) {
            low_level::unregister(id);
        }
        if let Some(idle) = IDLE.get() {
            idle.store(true, Ordering::SeqCst);
        }
    }
}
