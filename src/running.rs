//! Running: a command's script, and what it emits.
//!
//! All of what a run emits lands, as one batch, or nothing does. The invariant: one command never runs twice at once, and the log's
//! lock is never held while it runs.

use std::ffi::OsString;
use std::io;
use std::time::Duration;

use serde::Serialize;
use serde_json::value::RawValue;

use crate::batch::Unstamped;
use crate::capability::{Capability, CapabilityName, Kind, Need};
use crate::event::{Door, Draft};
use crate::feed::Wanted;
use crate::grant::help;
use crate::hear::{Refused, spelled};
use crate::kernel::{Error, Kernel, View};
use crate::level::Level;
use crate::lock::{Lock, LockFault};
use crate::payload::Payload;
use crate::quotation::cut_end;
use crate::receipt::sha256;
use crate::rendering::installed;
use crate::script::{Ending, Ran};
use crate::standing::Installed;
use crate::starting::{Order, USUAL};
use crate::vocabulary::{Sender, Word, admit};
use crate::wire::{Item, read};

/// How much of a script's stderr is kept with its death, in bytes.
const STDERR_BYTES_MAX: usize = 1024;

/// The exit status by which a script says that it was called wrongly.
const WRONG_USAGE: i32 = 2;

/// How a run ended.
#[derive(Debug, Default)]
pub struct Outcome {
    /// A line for each event that landed.
    pub text: String,
    /// What the script said on stderr, as it came.
    pub stderr: Vec<u8>,
    /// What the caller should be told, a line each.
    pub words: Vec<String>,
    /// The exit status.
    pub status: u8,
    /// Whether anything was recorded, be it only that the run failed.
    pub recorded: bool,
    /// The number of the first event that landed.
    pub landed: Option<u64>,
}

/// The payload of `capability.died`.
#[derive(Serialize)]
struct Died<'a> {
    #[serde(rename = "type")]
    kind: &'a str,
    name: &'a str,
    exit: &'a RawValue,
    stderr: &'a str,
    sha256: &'a str,
}

impl Kernel {
    /// Runs a command with these arguments, and appends what it emits.
    pub fn run(&self, name: &str, arguments: &[OsString]) -> Result<Outcome, Error> {
        let (mut outcome, view) = self.run_through(&Door::Cli, name, arguments)?;
        let derived = self.derive(&view);
        outcome.words.extend(derived.words);
        if let Some(signal) = derived.stopped {
            outcome.words.push(format!("rendering was ended by signal {signal}; the next command goes on with it"));
            outcome.status = 128 + signal;
        }
        Ok(outcome)
    }

    /// The same through this door, and what the log says then; the derived files are left as they are. No argument that comes over
    /// http is a file of this machine.
    pub(crate) fn run_through(&self, door: &Door<'static>, name: &str, arguments: &[OsString]) -> Result<(Outcome, View), Error> {
        let view = self.look()?;
        let name = CapabilityName::inherited(name).ok_or_else(|| Error::NoCommand(name.to_owned()))?;
        let capability = Capability { kind: Kind::Command, name };
        in_force(&view, &capability)?;
        if let Some(at) =
            arguments.iter().position(|argument| argument.to_str().is_none() && !self.caller.folder.join(argument).exists())
        {
            return Err(Error::Argument(at + 1));
        }
        let _lock = self.lock_command(&capability)?;
        let mut view = self.look()?;
        let installed = in_force(&view, &capability)?;
        if let Some(altered) = self.altered(&view, &capability) {
            return Err(Error::Altered(altered));
        }
        let mut outcome = Outcome { words: std::mem::take(&mut view.words), ..Outcome::default() };
        outcome.words.extend(self.place_script(&view, &capability).err());
        let ran = self.feed(&view, door, &capability, &installed, arguments)?;
        outcome.stderr = ran.stderr.clone();
        let emitted = match ran.ending {
            Ending::Exited(0) => emitted(&ran.stdout),
            Ending::Exited(_) | Ending::Signal(_) | Ending::Limit(_) | Ending::Stopped => Err(ran.ending.to_string()),
        };
        match emitted {
            Ok(emitted) => {
                let enter = |emitted| match emitted {
                    Ok(draft) => self.taken(draft, door.clone()),
                    Err(refused) => Unstamped::refused(&refused),
                };
                self.land(&mut view, &mut outcome, emitted.into_iter().map(enter).collect())?;
            }
            Err(reason) => self.bury(&mut view, &mut outcome, &capability, &ran, &reason)?,
        }
        outcome.words.append(&mut view.words);
        Ok((outcome, view))
    }

    fn feed(
        &self,
        view: &View,
        door: &Door<'_>,
        capability: &Capability,
        installed: &Installed,
        arguments: &[OsString],
    ) -> Result<Ran, Error> {
        let mut feed = view.log.as_ref().map(|log| log.feed(Wanted::default())).transpose()?;
        let mut next = || match &mut feed {
            Some(feed) => feed.next_piece().map_err(io::Error::other),
            None => Ok(None),
        };
        let script = installed.receipt.script();
        let may = |need: &&Need| **need != Need::ReadArgs || !matches!(door, Door::Http(_));
        let needs: Vec<Need> = installed.needs().iter().filter(may).cloned().collect();
        let needs = Some(&*needs);
        self.start(&Order { script, of: Some(capability), arguments, settings: USUAL, needs, strays: 0 }, &mut next)
    }

    fn land(&self, view: &mut View, outcome: &mut Outcome, batch: Vec<Unstamped>) -> Result<(), Error> {
        if batch.is_empty() {
            return Ok(());
        }
        outcome.recorded = true;
        for event in self.commit_joined(view, batch)? {
            match event.parse::<Refused>().filter(|_| event.name == Word::EventRefused.name()) {
                Some(refused) => outcome.words.push(format!("refused {}: {}", refused.name, refused.reason)),
                None => {
                    outcome.landed.get_or_insert(event.seq);
                    outcome.text.push_str(&format!("appended seq {} {}\n", event.seq, event.name));
                }
            }
        }
        Ok(())
    }

    /// Records a failed run, once for each script and cause.
    fn bury(
        &self,
        view: &mut View,
        outcome: &mut Outcome,
        capability: &Capability,
        ran: &Ran,
        reason: &str,
    ) -> Result<(), Error> {
        if ran.ending == Ending::Exited(WRONG_USAGE) {
            outcome.status = 2;
            return Ok(());
        }
        outcome.words.push(format!("{capability} failed, and nothing of it was appended: {reason}"));
        outcome.status = 1;
        let Some(installed) = installed(view, capability) else { return Ok(()) };
        if ran.level > Level::Limits {
            outcome.words.extend(help(capability, installed.needs(), &String::from_utf8_lossy(&ran.stderr)));
        }
        let exit = if ran.ending == Ending::Exited(0) { Some("\"output\"".to_owned()) } else { ran.ending.json() };
        let Some(exit) = exit.and_then(|exit| RawValue::from_string(exit).ok()) else { return Ok(()) };
        let digest = sha256(installed.receipt.script().as_bytes());
        let spelled = exit.get().trim_matches('"');
        if view.state.standing(capability).is_some_and(|standing| standing.has_died_so(&digest, spelled)) {
            return Ok(());
        }
        let said = String::from_utf8_lossy(&ran.stderr);
        let said = if said.trim().is_empty() { reason } else { &said };
        let payload = Payload::of(&Died {
            kind: capability.kind.word(),
            name: capability.name.as_str(),
            exit: &exit,
            stderr: cut_end(said, STDERR_BYTES_MAX),
            sha256: &digest,
        });
        outcome.recorded = true;
        self.commit_joined(view, vec![Unstamped::word(Word::CapabilityDied, Door::Kernel, payload)]).map(drop)
    }

    /// Waits until no other run of the command is under way.
    fn lock_command(&self, capability: &Capability) -> Result<Lock, Error> {
        self.home.make()?;
        let folder = self.home.own().join("run");
        self.home.make_folder(&folder)?;
        let path = folder.join(hex::encode(capability.name.as_str()));
        let wait = Duration::from_secs(self.caller.script_seconds);
        Lock::exclusive(&path, wait).map_err(|fault| match fault {
            LockFault::Busy => Error::Running(capability.clone()),
            LockFault::Io(fault) => Error::Home(self.home.failed("lock", &path, fault)),
        })
    }
}

/// The script of a command that may be run.
fn in_force(view: &View, capability: &Capability) -> Result<Installed, Error> {
    match view.state.standing(capability) {
        None => Err(Error::NoCommand(capability.name.as_str().to_owned())),
        Some(standing) if standing.is_unproven() => Err(Error::Unproven(capability.clone())),
        Some(standing) => standing.installed().cloned().ok_or(Error::NoScript(capability.clone())),
    }
}

/// Reads what a script printed: one undecorated event object a line. A name that a command may not send is refused, and the rest
/// lands.
fn emitted(stdout: &[u8]) -> Result<Vec<Result<Draft, Refused>>, String> {
    let text = std::str::from_utf8(stdout).map_err(|_| "what it printed is not UTF-8".to_owned())?;
    let mut batch = Vec::new();
    for (at, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
        let bad = |reason: &str| format!("line {} of what it printed is no event: {reason}", at + 1);
        let plain = line.trim();
        if !plain.starts_with('{') || plain.contains('\u{1b}') {
            return Err(bad("one JSON object {\"name\", \"payload\"} a line, and nothing else"));
        }
        let sent = match <[Item; 1]>::try_from(read(plain.as_bytes()).items) {
            Ok([Item::Draft(sent)]) => sent.draft,
            Ok([Item::Script(_)]) => {
                let reason = "a command sends events; a script is authored by a mind".to_owned();
                batch.push(Err(Refused::new(Word::ScriptAuthored.name(), reason, plain)));
                continue;
            }
            Ok([Item::NearMiss(miss)]) => return Err(bad(&miss.reason)),
            _ => return Err(bad("it needs a `name` of two or more dot-separated segments, and a `payload`")),
        };
        batch.push(match admit(sent.name.as_str(), &sent.payload, Sender::Command) {
            Err(reason) => Err(Refused::new(sent.name.as_str(), reason, sent.payload.get())),
            Ok(word) => Ok(Draft { name: spelled(word, sent.name), ..sent }),
        });
    }
    Ok(batch)
}
