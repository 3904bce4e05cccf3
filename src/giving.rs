//! Giving: the verb that writes an account from the log.
//!
//! Reads the log once, and writes what was selected line by line. The invariant: what a record holds stands in the log, and that
//! it was given is recorded only when it is on the disk.

use std::collections::BTreeMap;
use std::path::Path;

use serde::Serialize;

use crate::account::{Selector, given};
use crate::batch::Unstamped;
use crate::capability::Declaration;
use crate::directory::Outbox;
use crate::event::{Door, Event};
use crate::keeping::Kept;
use crate::kernel::{Error, Kernel, View};
use crate::log::{Log, LogError};
use crate::payload::Payload;
use crate::state::State;
use crate::vocabulary::Word;

/// How many names a new intent lists.
const NAMES_LISTED_MAX: usize = 64;

#[derive(Serialize)]
struct Given<'a> {
    selector: &'a str,
    events: u64,
    dir: &'a str,
    record_sha256: &'a str,
}

impl Kernel {
    /// Writes an account: what `selector` names of the log, into a directory. Over a record that somebody edited only with `force`.
    pub fn give(&self, selector: &str, directory: &Path, force: bool) -> Result<Kept, Error> {
        let selector = Selector::read(selector).ok_or(Error::NoSelector)?;
        let mut view = self.look()?;
        let Some(log) = &view.log else { return Err(Error::NoHome(self.home.root().to_owned())) };
        let tag = hex::encode(self.random::<8>()?);
        let mut selection = Selection::of(&selector, self.blank_state(&view)?);
        let (mut outbox, mut names, mut fault) = (None, BTreeMap::<String, u64>::new(), None);
        selection.read(log, |selection, event, line| {
            if fault.is_some() || !selection.takes(&event) {
                return;
            }
            let (seq, name) = (event.seq, event.name.clone().into_owned());
            let out = || -> Result<(), Error> {
                let line = given(event, line).map_err(|fault| Error::CannotTravel { seq, name: name.clone(), fault })?;
                let outbox = match &mut outbox {
                    Some(outbox) => outbox,
                    None => outbox.insert(Outbox::open(directory, &selector, force, &tag)?),
                };
                Ok(outbox.add(&line)?)
            };
            match out() {
                Ok(()) => *names.entry(name).or_default() += 1,
                Err(failed) => fault = Some(failed),
            }
        })?;
        if let Some(fault) = fault {
            return Err(fault);
        }
        let outbox = outbox.ok_or_else(|| Error::NothingToGive(selector.text()))?;
        let (events, dir) = (outbox.events, outbox.folder().to_string_lossy().into_owned());
        let sha256 = outbox.close(&selector, &stub(&selector, &names))?;
        let payload = Payload::of(&Given { selector: &selector.text(), events, dir: &dir, record_sha256: &sha256 });
        let landed = self.commit_sealed(&mut view, vec![Unstamped::word(Word::AccountGiven, Door::Cli, payload)])?;
        let mut words = std::mem::take(&mut view.words);
        if selection.lacks_key {
            words.push("without the key no receipt is proven, so none was given".to_owned());
        }
        let seq = landed.first().map_or(0, |event| event.seq);
        words.push(format!("gave events: {events}, into {dir}: seq {seq}"));
        words.push(format!("hint: say in {dir}/intent.md what this is about, for somebody who was not there"));
        let derived = self.derive(&view);
        words.extend(derived.words);
        Ok(Kept { words, failed: derived.failed })
    }

    /// The state of no event yet, with the key that the view was read with.
    fn blank_state(&self, view: &View) -> Result<State, Error> {
        Ok(State::new(if view.can_judge() { self.home.secret()? } else { None }))
    }
}

/// What of the log is selected.
struct Selection<'s> {
    selector: &'s Selector,
    state: State,
    lacks_key: bool,
}

impl<'s> Selection<'s> {
    fn of(selector: &'s Selector, state: State) -> Selection<'s> {
        Selection { selector, state, lacks_key: false }
    }

    /// Reads what may be selected. Whether a receipt holds depends on what claims a number in front of it, so of a log whose
    /// numbers are not its own all events are read.
    fn read(&mut self, log: &Log, mut each: impl FnMut(&mut Self, Event<'_>, &[u8])) -> Result<(), LogError> {
        match self.selector {
            Selector::Prefix(prefix) => {
                log.picked(|name| name.starts_with(prefix.as_str()), |event, line| each(self, event, line))
            }
            Selector::Capability(_) if log.is_regular() => {
                let counts = |name: &str| Word::of(name).is_some();
                log.picked(counts, |event, line| each(self, event, line))
            }
            Selector::Capability(_) => log.verbatim(|event, line| each(self, event, line)),
        }
    }

    /// Takes the log's next event, and says whether it is selected.
    fn takes(&mut self, event: &Event<'_>) -> bool {
        let capability = match self.selector {
            Selector::Prefix(prefix) => return event.name.starts_with(prefix.as_str()),
            Selector::Capability(capability) => capability,
        };
        let standing = |state: &State| {
            let standing = state.standing(capability)?;
            Some((standing.installed().map(|installed| installed.seq), standing.is_unproven()))
        };
        let before = standing(&self.state);
        self.state.apply(event);
        let after = standing(&self.state);
        self.lacks_key |= after.is_some_and(|(_, is_unproven)| is_unproven);
        let Some(word) = Word::of(&event.name).filter(|word| word.counts_through(event.via.as_ref())) else { return false };
        if word == Word::ScriptCompiled {
            let installed = |standing: Option<(Option<u64>, bool)>| standing.and_then(|(seq, _)| seq);
            return installed(after) != installed(before) && installed(after) == Some(event.seq);
        }
        word.declares().is_some_and(|kind| {
            let declared = Declaration::read(kind, &event.payload).ok().or_else(|| Declaration::inherited(kind, &event.payload));
            declared.is_some_and(|declared| declared.capability == *capability)
        })
    }
}

/// An intent to be edited by whoever gives.
fn stub(selector: &Selector, names: &BTreeMap<String, u64>) -> String {
    let what = match selector {
        Selector::Prefix(prefix) => format!("the events whose names start with `{prefix}`"),
        Selector::Capability(capability) => format!("the declarations and scripts of `{capability}`"),
    };
    let mut text = format!(
        "# {}\n\nThis account holds {what}. Say here, for somebody who was not there, what it is about, which commands and pages \
         grow from it and under which names, and leave to them how.\n\n## What the record holds\n\n",
        selector.text()
    );
    for (name, count) in names.iter().take(NAMES_LISTED_MAX) {
        text.push_str(&format!("- `{name}`: {count}\n"));
    }
    if names.len() > NAMES_LISTED_MAX {
        text.push_str(&format!("- and {} more names\n", names.len() - NAMES_LISTED_MAX));
    }
    text + "\n## What good looks like\n\nLines to run, and what must then be seen.\n"
}
