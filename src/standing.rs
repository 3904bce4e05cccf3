//! How a capability stands: what was declared, what is in force, what was rejected, as the fold has it.
//!
//! Values and the questions one can ask of them; only the fold changes them. The invariant: a capability is pending exactly if
//! its newest declaration is newer than its newest receipt.

use std::collections::BTreeMap;

use crate::capability::{Declaration, Need};
use crate::event::Event;
use crate::receipt::{Form, Verified};

/// How many open rejections of one capability, and how many notices, are kept.
pub const NOTICES_MAX: usize = 32;

/// After so many rejections a capability is no longer offered as work.
pub const STALLED_AT: u32 = 5;

/// Where a record stands in the log's file, without its newline.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct At {
    /// Where it starts, in bytes.
    pub offset: u64,
    /// How long it is, in bytes; 0 where nobody asked.
    pub bytes: u32,
}

/// Where a text of the log came from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Origin {
    /// The event's number.
    pub seq: u64,
    /// The text of its door; empty where the record does not say.
    pub via: String,
    /// Who the caller said it was.
    pub by: Option<String>,
    /// Where its record stands.
    pub at: At,
}

impl Origin {
    pub(crate) fn of(event: &Event<'_>, at: At) -> Origin {
        let via = event.via.as_ref().map(|via| via.text().into_owned()).unwrap_or_default();
        Origin { seq: event.seq, via, by: event.by.as_deref().map(str::to_owned), at }
    }
}

/// A declaration that stands.
#[derive(Debug, Clone)]
pub struct Declared {
    /// Where it came from.
    pub origin: Origin,
    /// Its payload, as it stands in the log.
    pub payload: String,
    /// The SHA-256 of the payload, as hex digits.
    pub digest: String,
    /// What it says.
    pub declaration: Declaration,
}

/// A script that is in force.
#[derive(Debug, Clone)]
pub struct Installed {
    /// The receipt's number.
    pub seq: u64,
    /// Where the receipt stands.
    pub at: At,
    /// The receipt.
    pub receipt: Verified,
    /// The declaration it was installed under; none for an older receipt without any.
    pub declaration: Option<Declared>,
}

impl Installed {
    /// The event names a projector is fed; empty means all.
    #[must_use]
    pub fn consumes(&self) -> &[String] {
        self.declaration.as_ref().map_or(&[], |declared| &declared.declaration.consumes)
    }

    /// How many of the newest events of each name a projector is fed; `None` means all.
    #[must_use]
    pub fn last(&self) -> Option<u64> {
        self.declaration.as_ref().and_then(|declared| declared.declaration.last)
    }

    /// What the script may touch beyond the default. An older receipt seals no declaration, so it needs nothing.
    #[must_use]
    pub fn needs(&self) -> &[Need] {
        let sealed = self.declaration.as_ref().filter(|_| self.receipt.form() == Form::V3);
        sealed.map_or(&[], |declared| &declared.declaration.needs)
    }
}

/// A run of a command that failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Death {
    /// Where its record stands.
    pub origin: Origin,
    /// How it ended: an exit status, or a word such as `limit:time`.
    pub exit: String,
    /// The end of what it said on stderr.
    pub stderr: String,
    /// The SHA-256 of its script, as hex digits.
    pub sha256: String,
}

/// A script that was not installed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rejection {
    /// Where its record stands.
    pub origin: Origin,
    /// Why.
    pub reason: String,
    /// The start of the script.
    pub excerpt: String,
    /// The SHA-256 of the script, as hex digits.
    pub sha256: String,
}

/// A refusal, or a rejection that names no capability: told to the next mind once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Notice {
    /// Where its record stands.
    pub origin: Origin,
    /// What was refused: an event's name, or what a script claimed to be for; may be empty.
    pub subject: String,
    /// Why.
    pub reason: String,
    /// Its start.
    pub excerpt: String,
    pub(crate) batch: String,
}

/// How a capability stands.
#[derive(Debug, Clone, Default)]
pub struct Standing {
    pub(crate) declarations: Vec<Declared>,
    pub(crate) installed: Option<Installed>,
    /// The newest receipt that could not be checked, for want of a key.
    pub(crate) unproven: Option<u64>,
    pub(crate) rejections: Vec<Rejection>,
    pub(crate) deaths: Vec<Death>,
    pub(crate) failures: u32,
    /// How often each script of the rejections that are kept was rejected.
    pub(crate) scripts: BTreeMap<String, u32>,
}

impl Standing {
    /// The newest declaration.
    #[must_use]
    pub fn declared(&self) -> Option<&Declared> {
        self.declarations.last()
    }

    /// The script in force.
    #[must_use]
    pub fn installed(&self) -> Option<&Installed> {
        self.installed.as_ref()
    }

    /// Whether a receipt stands that could not be checked, for want of a key.
    #[must_use]
    pub fn is_unproven(&self) -> bool {
        self.unproven.is_some()
    }

    /// Whether it is declared and no script was installed since.
    #[must_use]
    pub fn is_pending(&self) -> bool {
        let receipt = self.unproven.max(self.installed.as_ref().map(|installed| installed.seq));
        self.declared().is_some_and(|declared| Some(declared.origin.seq) > receipt)
    }

    /// The rejections since the last receipt or retirement, oldest first; the newest few.
    #[must_use]
    pub fn rejections(&self) -> &[Rejection] {
        &self.rejections
    }

    /// The failed runs since the last receipt, one for each script and cause.
    #[must_use]
    pub fn deaths(&self) -> &[Death] {
        &self.deaths
    }

    /// Whether a run of this script that ended so is recorded already.
    #[must_use]
    pub fn has_died_so(&self, sha256: &str, exit: &str) -> bool {
        self.deaths.iter().any(|death| death.sha256 == sha256 && death.exit == exit)
    }

    /// Whether so many scripts were rejected since the last declaration that it is no longer offered as work.
    #[must_use]
    pub fn is_stalled(&self) -> bool {
        self.failures >= STALLED_AT
    }

    /// How often the script of the newest rejection was rejected since the last declaration, receipt or retirement.
    #[must_use]
    pub fn repeats(&self) -> u32 {
        self.rejections.last().and_then(|last| self.scripts.get(&last.sha256)).copied().unwrap_or(0)
    }

    /// Counts rejections from here: there is a new declaration, or a receipt.
    pub(crate) fn starts_anew(&mut self) {
        self.failures = 0;
        self.scripts.clear();
    }

    /// A script is in force: what was rejected before is settled.
    pub(crate) fn install(&mut self, installed: Installed) {
        self.starts_anew();
        self.rejections.clear();
        self.deaths.clear();
        self.installed = Some(installed);
    }

    pub(crate) fn die(&mut self, death: Death) {
        self.deaths.push(death);
        keep_newest(&mut self.deaths);
    }

    pub(crate) fn reject(&mut self, rejection: Rejection) {
        self.failures += 1;
        *self.scripts.entry(rejection.sha256.clone()).or_default() += 1;
        self.rejections.push(rejection);
        keep_newest(&mut self.rejections);
        self.scripts.retain(|sha256, _| self.rejections.iter().any(|kept| kept.sha256 == *sha256));
    }
}

/// Drops the oldest of what is over [`NOTICES_MAX`].
pub(crate) fn keep_newest<T>(list: &mut Vec<T>) {
    let surplus = list.len().saturating_sub(NOTICES_MAX);
    list.drain(..surplus);
}
