//! A batch: what is to be recorded together, before and while it is stamped.
//!
//! Pure: the moment and the randomness of the ids come in as values. The invariant: number, id and door are given here and nowhere
//! else, and the records of a batch frame themselves in their ids.

use std::borrow::Cow;

use jiff::Timestamp;
use serde::Serialize;

use crate::append::Torn;
use crate::convoy::Convoy;
use crate::event::{Door, Event, Speaker};
use crate::hear::Refused;
use crate::log::{LogError, Position};
use crate::moment;
use crate::payload::Payload;
use crate::receipt::Secret;
use crate::record::{Frame, front};
use crate::seal::{Chain, Seal};
use crate::vocabulary::Word;

/// What is to be stamped.
#[derive(Debug, Clone)]
pub(crate) struct Unstamped {
    pub(crate) name: Cow<'static, str>,
    pub(crate) payload: Payload,
    pub(crate) door: Door<'static>,
    /// What it brings from the home it comes from; an event that is born here brings nothing.
    pub(crate) own: Option<Own>,
}

/// A moment and a speaker that an event keeps.
#[derive(Debug, Clone)]
pub(crate) struct Own {
    /// When it happened; `None` for now.
    pub(crate) occurred_at: Option<String>,
    /// Who said so; `None` for nobody.
    pub(crate) by: Option<String>,
}

impl Unstamped {
    pub(crate) fn word(word: Word, door: Door<'static>, payload: Payload) -> Unstamped {
        Unstamped { name: Cow::Borrowed(word.name()), payload, door, own: None }
    }

    pub(crate) fn refused(refused: &Refused) -> Unstamped {
        Unstamped::word(Word::EventRefused, Door::Kernel, Payload::of(refused))
    }
}

/// What the records of one batch share.
pub(crate) struct Stamp {
    /// The batch's own part of each id.
    pub(crate) id: String,
    /// How many records there are.
    pub(crate) n: usize,
    pub(crate) now: Timestamp,
    /// The highest number in front of the batch.
    pub(crate) highest: u64,
}

impl Stamp {
    /// The event that an entry becomes at its place in the batch.
    pub(crate) fn event(&self, at: usize, entry: Unstamped, speaker: Option<&Speaker>) -> Event<'static> {
        let Own { occurred_at, by } = entry.own.unwrap_or_else(|| {
            let speaker = speaker.filter(|_| entry.door != Door::Kernel);
            Own { occurred_at: None, by: speaker.map(|by| by.as_str().to_owned()) }
        });
        Event {
            seq: self.highest + 1 + at as u64,
            id: Cow::Owned(Frame::id(&self.id, at + 1, self.n)),
            name: entry.name,
            occurred_at: Cow::Owned(occurred_at.unwrap_or_else(|| moment::text(moment::after(self.now, at)))),
            by: by.map(Cow::Owned),
            via: Some(entry.door),
            payload: Cow::Owned(entry.payload.into_raw()),
        }
    }
}

/// How a batch ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Close {
    /// With what was asked for.
    Open,
    /// The same; what opens a log is enough to make one.
    Opening,
    /// With a seal behind that, if anything was asked for.
    Sealed,
    /// With a seal, even if nothing was asked for.
    Seal,
}

impl Close {
    pub(crate) fn seals(self) -> bool {
        matches!(self, Close::Sealed | Close::Seal)
    }
}

/// What a seal at the end of a batch needs: the key, and the digest over the log in front of the batch.
pub(crate) struct Sealer {
    pub(crate) secret: Secret,
    pub(crate) chain: Chain,
}

impl Sealer {
    /// Makes the seal: an event without a payload yet, behind these lines of its batch.
    pub(crate) fn close(mut self, lines: &[u8], bare: Event<'static>) -> Event<'static> {
        for line in lines.split_inclusive(|byte| *byte == b'\n') {
            self.chain.take_line(line.strip_suffix(b"\n").unwrap_or(line), self.chain.offset() == 0);
        }
        let seal = Seal::sign(&self.secret, &self.chain, bare.seq - 1, front(&bare).as_bytes());
        Event { payload: Cow::Owned(Payload::of(&seal).into_raw()), ..bare }
    }
}

#[derive(Serialize)]
struct Recovered<'a> {
    offset: u64,
    bytes: u64,
    sha256: &'a str,
}

/// What the kernel itself puts in front of a batch, and how much of it there is.
pub(crate) fn opening(position: &Position, torn: Option<&Torn>) -> (usize, Vec<Unstamped>) {
    let mut batch = Vec::new();
    if position.highest == 0 {
        batch.push(Unstamped::word(Word::KernelInitialized, Door::Kernel, Payload::empty()));
    }
    if let Some(Torn { offset, bytes, sha256 }) = torn {
        let payload = Payload::of(&Recovered { offset: *offset, bytes: *bytes, sha256 });
        batch.push(Unstamped::word(Word::LogRecovered, Door::Kernel, payload));
    }
    (batch.len(), batch)
}

/// What became of one run's part of a batch that several runs share.
#[derive(Debug)]
pub(crate) enum Arrival {
    Landed(Vec<Event<'static>>),
    /// It is not known whether it landed.
    Failed(LogError),
    /// It did not land, and goes by itself.
    Parted(Vec<Unstamped>),
}

/// What the runs of one process want recorded, on its way into the log.
pub(crate) type Batches = Convoy<Vec<Unstamped>, Arrival>;
