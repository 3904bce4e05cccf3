//! Stopping: the wish that ends the scripts of a program that stays.
//!
//! A verb that runs one script catches signals for as long as that runs (`starting`). A program that runs many at once notes a signal
//! here for good, and decides itself when it ends. The invariant: once a signal came, no script of this program runs on.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::flag;

/// The signals that end a run.
pub const ENDING: [i32; 3] = [SIGHUP, SIGINT, SIGTERM];

/// Whether a signal came, and which.
#[derive(Debug, Clone, Default)]
pub struct Stop {
    any: Arc<AtomicBool>,
    which: Arc<AtomicUsize>,
}

impl Stop {
    /// Notes the ending signals from now on; none of them ends the process any more.
    ///
    /// # Errors
    /// When they cannot be caught.
    pub fn on_signals() -> io::Result<Stop> {
        let stop = Stop::default();
        for signal in ENDING {
            flag::register_usize(signal, Arc::clone(&stop.which), usize::try_from(signal).unwrap_or_default())?;
            flag::register(signal, Arc::clone(&stop.any))?;
        }
        Ok(stop)
    }

    /// The signal that came, if one did.
    #[must_use]
    pub fn signal(&self) -> Option<u8> {
        u8::try_from(self.which.load(Ordering::SeqCst)).ok().filter(|signal| *signal > 0)
    }

    pub(crate) fn any(&self) -> &Arc<AtomicBool> {
        &self.any
    }

    pub(crate) fn which(&self) -> &Arc<AtomicUsize> {
        &self.which
    }
}
