//! Starting: how a run of a script is put together from the caller and the home.
//!
//! Chooses the interpreter, the environment and the folder; what runs is the receipt's bytes. While a script runs, Ctrl-C and
//! SIGTERM end the run instead of the kernel, so nothing half done is recorded. The invariant: a script gets no variable, no
//! descriptor and no argument that is not named here.

use std::ffi::OsString;
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::{SigId, flag, low_level};

use crate::interpreter;
use crate::kernel::{Error, Kernel};
use crate::script::{Limits, Ran, Run, run};

/// What a script reads, piece by piece.
pub(crate) type Input<'i> = &'i mut dyn FnMut() -> io::Result<Option<Vec<u8>>>;

/// A run to be started.
pub(crate) struct Order<'o> {
    /// The receipt's bytes.
    pub(crate) script: &'o str,
    /// Its arguments.
    pub(crate) arguments: &'o [OsString],
    /// The variables that a trial varies.
    pub(crate) settings: [(&'static str, &'static str); 3],
    /// Whether it is a command: it works in the home and knows its caller.
    pub(crate) is_command: bool,
    /// How many process numbers are used up in front of it.
    pub(crate) strays: u32,
}

/// The settings of every run but a second trial.
pub(crate) const USUAL: [(&str, &str); 3] = [("TZ", "UTC"), ("LANG", "C.UTF-8"), ("PYTHONHASHSEED", "0")];

impl Kernel {
    /// Runs a script to its end.
    pub(crate) fn start(&self, order: &Order<'_>, input: Input<'_>) -> Result<Ran, Error> {
        let shebang = interpreter::shebang(order.script.as_bytes())?;
        let found = interpreter::resolve(&shebang, &self.caller.path)?;
        let name = format!("self-{}", hex::encode(self.random::<16>()?));
        let scratch = self.caller.scratch.join(&name);
        let environment = self.environment(order, &scratch);
        let signals = Signals::catch().map_err(Error::Signals)?;
        let ran = run(
            &Run {
                launcher: &self.caller.executable,
                script: order.script.as_bytes(),
                interpreter: &shebang.words(&found.path),
                arguments: order.arguments,
                environment: &environment,
                folder: order.is_command.then(|| self.home.root()),
                scratch_parent: &self.caller.scratch,
                scratch_name: &name,
                limits: Limits::within(Duration::from_secs(self.caller.script_seconds)),
                strays: order.strays,
                stop: &signals.any,
            },
            input,
        );
        match signals.caught() {
            Some(signal) => Err(Error::Stopped(signal)),
            None => Ok(ran?),
        }
    }

    fn environment(&self, order: &Order<'_>, scratch: &Path) -> Vec<(OsString, OsString)> {
        let home = if order.is_command { self.home.root() } else { scratch };
        let mut environment = vec![("PATH".into(), self.caller.path.clone()), ("SELF_HOME".into(), home.into())];
        environment.extend(order.settings.map(|(name, value)| (name.into(), value.into())));
        if order.is_command {
            let claims = [("SELF_CALLER", &self.caller.speaker), ("SELF_MIND_ID", &self.caller.mind)];
            let claims = claims.into_iter().filter_map(|(name, claim)| Some((name, claim.as_ref()?.as_str())));
            environment.extend(claims.map(|(name, claim)| (name.into(), claim.into())));
            environment.push(("SELF_CWD".into(), self.caller.folder.clone().into()));
        }
        environment
    }
}

/// The signals that end a run.
const ENDING: [i32; 3] = [SIGHUP, SIGINT, SIGTERM];

/// Whether no script runs: an ending signal then does what it does by default. Set up once, for a handler cannot be taken back.
static IDLE: OnceLock<Arc<AtomicBool>> = OnceLock::new();

/// The ending signals, caught while this value lives.
struct Signals {
    any: Arc<AtomicBool>,
    which: Arc<AtomicUsize>,
    caught: Vec<SigId>,
}

impl Signals {
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
        for id in self.caught.drain(..) {
            low_level::unregister(id);
        }
        if let Some(idle) = IDLE.get() {
            idle.store(true, Ordering::SeqCst);
        }
    }
}
