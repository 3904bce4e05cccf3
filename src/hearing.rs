//! Hearing: a mind's answer, recorded.
//!
//! Events land as one batch, then what became of scripts as another. The invariant: whatever fails, the reply is returned.

use std::collections::{BTreeMap, BTreeSet};

use crate::batch::Unstamped;
use crate::capability::{Capability, Need};
use crate::event::{Door, Event};
use crate::hear::{Answered, Entry, Hearing, Refused, Rejected, judge};
use crate::interpreter::shown_as;
use crate::kernel::{Error, Kernel, View};
use crate::log::{BATCH_BYTES_MAX, LogError};
use crate::receipt::Receipt;
use crate::roster::Roster;
use crate::vocabulary::Word;
use crate::wire::{Item, Reading};

/// Which prompt an answer belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answers {
    /// None: prose is passed on and not recorded.
    Nothing,
    /// This one.
    Prompt(Answered),
    /// The newest ask that has no reply, if there is one; prose is recorded all the same.
    NewestAsk,
}

/// What became of an answer.
#[derive(Debug, Default)]
pub struct Heard {
    /// The reply, without a newline behind it; may be empty.
    pub reply: String,
    /// What happened, a line each.
    pub words: Vec<String>,
    /// Whether anything was rejected or refused.
    pub objected: bool,
    /// Whether scripts were left unjudged for want of the key.
    pub unjudged: bool,
    /// What failed; the reply is good all the same.
    pub failure: Option<Error>,
}

impl Kernel {
    /// Takes the quotations of this log out of a reading: what a mind only cites is prose.
    pub fn settle(&self, reading: &mut Reading) -> Result<(), Error> {
        let quotes = |item: &Item| match item {
            Item::Draft(sent) => sent.quotes.clone(),
            Item::Prose(_) | Item::Script(_) | Item::NearMiss(_) => None,
        };
        let claimed: BTreeSet<(u64, String)> =
            reading.items.iter().filter_map(quotes).map(|quote| (quote.seq, quote.id)).collect();
        if claimed.is_empty() {
            return Ok(());
        }
        let mut known = BTreeSet::new();
        if let Some(log) = &self.look()?.log {
            log.these(&claimed.iter().map(|(seq, _)| *seq).collect(), |event| {
                let claim = (event.seq, event.id.into_owned());
                if claimed.contains(&claim) {
                    known.insert(claim);
                }
            })?;
        }
        for item in &mut reading.items {
            if let Some(quote) = quotes(item).filter(|quote| known.contains(&(quote.seq, quote.id.clone()))) {
                *item = Item::Prose(quote.text);
            }
        }
        Ok(())
    }

    /// Hears an answer: events land as one batch, then what became of scripts as another. Whatever fails, the reply is returned.
    pub fn hear(&self, reading: Reading, answers: Answers) -> Heard {
        let mut heard = Heard::default();
        if let Err(fault) = self.hear_into(&mut heard, reading, answers) {
            heard.failure = Some(fault);
        }
        heard
    }

    fn hear_into(&self, heard: &mut Heard, reading: Reading, answers: Answers) -> Result<(), Error> {
        let looked = self.look();
        let answered = match answers {
            Answers::Nothing => None,
            Answers::Prompt(answered) => Some(answered),
            Answers::NewestAsk => Some(Answered { ask: looked.as_ref().ok().and_then(|view| view.state.open_ask()) }),
        };
        let Hearing { entries, attempts, reply } = judge(reading, answered);
        heard.reply = reply;
        let mut view = looked?;
        let bytes = entries.iter().map(Entry::bytes).sum();
        if bytes > BATCH_BYTES_MAX {
            return Err(LogError::BatchTooLarge { bytes }.into());
        }
        if !entries.is_empty() {
            let landed = self.commit(&mut view, entries.into_iter().map(|entry| self.entered(entry)).collect());
            heard.words.append(&mut view.words);
            report(heard, &landed?);
        }
        heard.words.append(&mut view.words);
        if !attempts.is_empty() && !view.can_judge() {
            heard.unjudged = true;
            let unjudged = "scripts were not judged, for want of the key; send them again when it is back";
            heard.words.push(format!("{} {unjudged}", attempts.len()));
        } else if !attempts.is_empty() {
            let sent = attempts.len();
            let before = needs(&view);
            let landed = self.install(&mut view, attempts);
            heard.words.append(&mut view.words);
            if landed.is_err() {
                heard.words.push(format!("{sent} scripts were not judged; send them again"));
            }
            report_scripts(heard, &view, &landed?, &before, &Roster::of(&self.home.own()));
        }
        let derived = self.derive(&view);
        heard.words.extend(derived.words);
        if let Some(signal) = derived.stopped {
            return Err(Error::Stopped(signal));
        }
        let pending: Vec<_> = view.state.pending().iter().map(|(capability, _)| capability.to_string()).collect();
        if !pending.is_empty() {
            heard.words.push(format!("pending: {}; to have it authored: self | <mind> | self", pending.join(", ")));
        }
        Ok(())
    }

    fn entered(&self, entry: Entry) -> Unstamped {
        match entry {
            Entry::Draft(draft) => self.taken(draft, Door::Pipe),
            Entry::Refused(refused) => Unstamped::refused(&refused),
        }
    }

    /// The reply that an answer holds, for one that is passed on and not heard.
    #[must_use]
    pub fn reply_of(reading: Reading) -> String {
        judge(reading, None).reply
    }
}

/// Says what landed.
fn report(heard: &mut Heard, landed: &[Event<'static>]) {
    let (refused, sent): (Vec<_>, Vec<_>) = landed.iter().partition(|event| event.via == Some(Door::Kernel));
    let (replies, events): (Vec<_>, Vec<_>) = sent.into_iter().partition(|event| event.name == Word::SelfReplied.name());
    for (what, events) in [("heard", events), ("recorded the reply as", replies)] {
        match events[..] {
            [] => {}
            [event] => heard.words.push(format!("{what} seq {}", event.seq)),
            [first, .., last] => heard.words.push(format!("{what} seq {} to {}", first.seq, last.seq)),
        }
    }
    for refused in refused.iter().filter_map(|event| event.parse::<Refused>()) {
        let subject = if refused.name.is_empty() { "a line" } else { &refused.name };
        heard.words.push(format!("refused {subject}: {}", refused.reason));
        heard.objected = true;
    }
}

/// What each script in force may touch beyond the default.
fn needs(view: &View) -> BTreeMap<Capability, Vec<Need>> {
    let installed = view.state.capabilities().filter_map(|(of, standing)| Some((of, standing.installed()?)));
    installed.map(|(of, installed)| (of.clone(), installed.needs().to_vec())).collect()
}

/// Says which scripts are in force now, with which interpreter and what they may touch that they might not before, and which were
/// rejected.
fn report_scripts(
    heard: &mut Heard,
    view: &View,
    landed: &[Event<'static>],
    before: &BTreeMap<Capability, Vec<Need>>,
    roster: &Roster,
) {
    for event in landed {
        if let Some(receipt) = event.parse::<Receipt>().filter(|_| event.name == Word::ScriptCompiled.name()) {
            let mut now = view.state.capabilities().filter_map(|(of, standing)| Some((of, standing.installed()?)));
            let found = now.find(|(_, installed)| installed.seq == event.seq);
            let given = found.and_then(|(capability, _)| roster.given(capability));
            let given = given.map_or_else(String::new, |path| format!(", {}", shown_as(&receipt.script, &path)));
            heard.words.push(format!("installed {}/{}: seq {}{given}", receipt.kind, receipt.name, event.seq));
            if let Some((capability, installed)) = found {
                let had = before.get(capability).map_or(&[][..], Vec::as_slice);
                let may: Vec<_> = installed.needs().iter().filter(|need| !had.contains(need)).map(Need::words).collect();
                if !may.is_empty() {
                    heard.words.push(format!("{capability} may now {}", may.join(", ")));
                }
            }
        } else if let Some(rejected) = event.parse::<Rejected>() {
            let target = [&*rejected.kind, &*rejected.name].join("/");
            let target = if target == "/" { "a script" } else { &target };
            heard.words.push(format!("rejected {target}: {}", rejected.reason));
            heard.objected = true;
        }
    }
}
