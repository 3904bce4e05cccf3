//! Asking: the verbs that make a prompt, and those that only look.
//!
//! A prompt's marker is left before its record is appended, and names it before it is printed. The invariant: no prompt is
//! returned whose ask is not on the disk.

use std::os::fd::BorrowedFd;

use crate::batch::Unstamped;
use crate::brief::{brief, margin};
use crate::event::Door;
use crate::kernel::{Error, Kernel, View};
use crate::level::Reach;
use crate::payload::Payload;
use crate::prompt::{self, Offer, Scene};
use crate::record::RECORD_BYTES_MAX;
use crate::standing::{At, Origin};
use crate::task::Task;
use crate::turn::{Kind, Mark, linger};
use crate::vocabulary::Word;

/// Room for the envelope of a record whose speaker is unknown yet, in bytes.
const RECORD_ENVELOPE_BYTES: usize = 512;

/// A prompt that was made, ready to be printed.
#[derive(Debug)]
pub struct Prompted {
    /// The prompt.
    pub text: String,
    /// The marker it left, to be followed when it is printed.
    pub mark: Option<Mark>,
    /// What the caller should be told on stderr, a line each.
    pub words: Vec<String>,
}

impl Kernel {
    /// Records a question and makes the prompt for it.
    pub fn ask(&self, text: &str, out: BorrowedFd<'_>) -> Result<Prompted, Error> {
        let text = text.trim();
        if text.is_empty() {
            return Err(Error::NothingToAsk);
        }
        let mut view = self.look()?;
        let mark = self.mark(&mut view, out);
        let payload = Payload::of(&serde_json::json!({ "text": text }));
        let bytes =
            payload.get().len() + RECORD_ENVELOPE_BYTES + self.caller.speaker.as_ref().map_or(0, |by| 6 * by.as_str().len());
        if bytes > RECORD_BYTES_MAX {
            return Err(Error::AskTooLarge { bytes });
        }
        let asked = self.commit(&mut view, vec![Unstamped::word(Word::SelfAsked, Door::Pipe, payload)])?;
        let seq = asked.last().map_or(0, |event| event.seq);
        let text = prompt::ask(&view.state, self.scene(&self.offer()), seq, text);
        prompted(view, text, mark, Kind::Ask(seq))
    }

    /// Makes the prompt about what waits; if nothing does, records that a reflection was asked for.
    pub fn work(&self, out: BorrowedFd<'_>) -> Result<Prompted, Error> {
        let mut view = self.look()?;
        let reflects = Task::of(&view.state) == Task::Reflect;
        let mark = self.mark(&mut view, out);
        if reflects {
            self.commit(&mut view, vec![Unstamped::word(Word::SelfReflected, Door::Pipe, Payload::empty())])?;
        }
        let text = prompt::work(&view.state, self.scene(&self.offer()));
        prompted(view, text, mark, Kind::Work)
    }

    /// Leaves word, for whoever hears an answer downstream, that no prompt was made.
    pub fn make_no_prompt(&self, out: BorrowedFd<'_>) {
        if Mark::leave(&self.home.turns(), out).is_err() {
            linger(out);
        }
    }

    /// Whether nothing but a reflection is left to do.
    pub fn quiet(&self) -> Result<(bool, Vec<String>), Error> {
        let view = self.look()?;
        Ok((Task::of(&view.state) == Task::Reflect, view.words))
    }

    /// The brief and, if asked for, the margin behind it.
    pub fn orient(&self) -> Result<(String, Vec<String>), Error> {
        let view = self.look()?;
        let text = format!("{}\n{}", brief(&view.state), margin(&view.state, &view.position, self.reach().level));
        Ok((text, view.words))
    }

    /// Where an event of this caller through the command line stands.
    pub(crate) fn told_at(&self, view: &View, seq: u64) -> Result<Origin, Error> {
        let event = view.log.as_ref().map(|log| log.at(seq)).transpose()?.flatten();
        Ok(event.map_or_else(
            || Origin { seq, via: "cli".to_owned(), by: None, at: At::default() },
            |event| Origin::of(&event, At::default()),
        ))
    }

    pub(crate) fn scene<'s>(&'s self, offer: &'s Offer) -> Scene<'s> {
        Scene { home: self.home.root(), version: env!("CARGO_PKG_VERSION"), offer }
    }

    /// What scripts run with on this machine.
    pub(crate) fn offer(&self) -> Offer {
        Offer { level: self.reach().level, interpreters: (self.world.offered)(&self.caller.path) }
    }

    /// How far scripts are held here, as far as the caller wants it.
    pub(crate) fn reach(&self) -> Reach {
        (self.world.reach)(&self.caller.executable, self.caller.sandbox, Some(&self.home.own().join("reach")))
    }

    /// Leaves the marker of a prompt that is about to be made. Without one the prompt is good all the same; only the answer has
    /// to name its face.
    pub(crate) fn mark(&self, view: &mut View, out: BorrowedFd<'_>) -> Option<Mark> {
        Mark::leave(&self.home.turns(), out).unwrap_or_else(|fault| {
            view.words.push(format!("{fault}; hear the answer with `self hear`"));
            None
        })
    }
}

/// A prompt whose marker names it. Where the marker cannot be written it stays one of a prompt that failed, so none is given.
pub(crate) fn prompted(view: View, text: String, mut mark: Option<Mark>, kind: Kind) -> Result<Prompted, Error> {
    if let Some(mark) = &mut mark {
        mark.promise(kind)?;
    }
    Ok(Prompted { text, mark, words: view.words })
}
