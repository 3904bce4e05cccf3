//! The kernel: one short verb for each verb of the command line.
//!
//! [`Kernel::commit`] is the only way into the log. What the world gives (the moment, randomness, the disk) comes in as values
//! and functions; what is printed goes out as values. The invariant: nothing is returned as done that is not on the disk.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::io;
use std::os::fd::BorrowedFd;

use jiff::Timestamp;
use serde::Serialize;

use crate::append::{Disk, Torn, Writer};
use crate::brief::{brief, margin};
use crate::event::{Door, Event, Speaker};
use crate::hear::{Answered, Entry, Hearing, Refused, examine, judge};
use crate::home::{Home, HomeError};
use crate::log::{BATCH_BYTES_MAX, Log, LogError, Position};
use crate::moment;
use crate::payload::Payload;
use crate::prompt::{self, Scene};
use crate::receipt::SECRET_BYTES;
use crate::record::{Frame, RECORD_BYTES_MAX, write};
use crate::state::State;
use crate::task::Task;
use crate::turn::{Kind, Mark, TurnError, linger};
use crate::vocabulary::Word;
use crate::wire::{Item, Reading};

/// The largest body that is read from stdin, in bytes.
pub const BODY_BYTES_MAX: usize = BATCH_BYTES_MAX;

/// How many damaged lines are named.
const DAMAGE_NAMED_MAX: usize = 8;

/// The world outside, as far as the kernel uses it.
#[derive(Debug, Clone, Copy)]
pub struct World {
    /// Tells the moment.
    pub now: fn() -> Timestamp,
    /// Fills a buffer with random bytes.
    pub random: fn(&mut [u8]) -> io::Result<()>,
    /// Writes and syncs.
    pub disk: Disk,
}

/// The kernel over one home.
#[derive(Debug)]
pub struct Kernel {
    home: Home,
    speaker: Option<Speaker>,
    world: World,
}

/// Why a verb failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The log could not be read or appended.
    #[error(transparent)]
    Log(#[from] LogError),
    /// The home could not be read or made.
    #[error(transparent)]
    Home(#[from] HomeError),
    /// A prompt's marker could not be written.
    #[error(transparent)]
    Turn(#[from] TurnError),
    /// The system gave no randomness.
    #[error("could not get random bytes from the system: {0}")]
    Random(io::Error),
    /// There is nothing to ask.
    #[error("there is nothing to ask")]
    NothingToAsk,
    /// An ask does not fit into a record.
    #[error("the ask would make a record of {bytes} bytes; the limit is {RECORD_BYTES_MAX}; nothing was recorded")]
    AskTooLarge {
        /// The record's size.
        bytes: usize,
    },
    /// stdin could not be read.
    #[error("could not read stdin: {0}; nothing was recorded")]
    Input(io::Error),
    /// A body is larger than the limit.
    #[error("the input is larger than {BODY_BYTES_MAX} bytes; nothing was recorded")]
    BodyTooLarge,
    /// A body is UTF-16.
    #[error("the input is UTF-16, not UTF-8; nothing was recorded")]
    Utf16,
    /// There is no such page.
    #[error("there is no projection `{0}`")]
    NoProjection(String),
}

impl Error {
    /// The exit status: 1 failed, 65 refused input of which nothing was recorded, 75 try again.
    #[must_use]
    pub fn status(&self) -> u8 {
        match self {
            Error::NothingToAsk | Error::AskTooLarge { .. } | Error::BodyTooLarge | Error::Utf16 => 65,
            Error::Log(LogError::BatchTooLarge { .. }) => 65,
            Error::Log(LogError::Busy(_) | LogError::Unknown { .. }) => 75,
            Error::Log(LogError::Io { .. } | LogError::NotAFile(_) | LogError::Write { .. } | LogError::Damage { .. })
            | Error::Home(_)
            | Error::Turn(_)
            | Error::Random(_)
            | Error::Input(_)
            | Error::NoProjection(_) => 1,
        }
    }

    /// Whether the home or its log could not be read or written.
    #[must_use]
    pub fn is_of_the_disk(&self) -> bool {
        matches!(self, Error::Home(_) | Error::Log(_) | Error::Turn(_))
    }

    /// The remedy, as a line.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        match self {
            Error::Home(fault @ HomeError::Io { source, .. }) => read_only(source).or_else(|| fault.hint()),
            Error::Home(fault) => fault.hint(),
            Error::Turn(fault) => Some(fault.hint().to_owned()),
            Error::Log(LogError::Io { source, .. }) => read_only(source),
            Error::Log(LogError::Write { .. }) => Some("make room there, then send it again".into()),
            Error::Log(LogError::Unknown { .. }) => {
                Some("check the disk, look whether the log has it, then send it again".into())
            }
            Error::Log(LogError::Busy(_)) => Some("try again; find the holder with: fuser .self/lock".into()),
            Error::Log(LogError::BatchTooLarge { .. }) | Error::BodyTooLarge => Some("send it in smaller parts".into()),
            Error::Utf16 => Some("convert it first: iconv -f UTF-16 -t UTF-8".into()),
            Error::NothingToAsk => Some("self ask \"what is going on?\"".into()),
            Error::AskTooLarge { .. } => Some("keep the long text in a file and ask about it".into()),
            Error::NoProjection(_) => Some("self show brief".into()),
            Error::Log(LogError::NotAFile(_) | LogError::Damage { .. }) | Error::Random(_) | Error::Input(_) => None,
        }
    }
}

fn read_only(source: &io::Error) -> Option<String> {
    let denied = matches!(source.kind(), io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem);
    denied.then(|| "this home cannot be written here; reads work, or set SELF_HOME to one of yours".to_owned())
}

/// What was read of a home.
#[derive(Debug)]
pub struct View {
    /// What the log says is so.
    pub state: State,
    /// How far it was read, and the damaged lines passed by.
    pub position: Position,
    /// What the caller should be told on stderr, a line each.
    pub words: Vec<String>,
    identity: Option<(u64, u64)>,
    key: Key,
}

/// The home's key, as it was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Key {
    Here,
    Missing,
    Refused,
}

impl View {
    /// Whether scripts can be judged: with a key, or where none was ever used.
    fn can_judge(&self) -> bool {
        match self.key {
            Key::Here => true,
            Key::Missing => !self.state.is_signed(),
            Key::Refused => false,
        }
    }

    fn take_in(&mut self, log: &Log) -> Result<(), LogError> {
        let identity = log.identity();
        if self.identity != identity || log.tail().whole < self.position.offset {
            self.state.start_over();
            self.position = Position::default();
            self.identity = identity;
        }
        let state = &mut self.state;
        log.resume(&mut self.position, &mut |event| state.apply(&event))
    }
}

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

/// What is to be stamped.
struct Unstamped {
    name: Cow<'static, str>,
    payload: Payload,
    door: Door<'static>,
}

impl Unstamped {
    fn word(word: Word, door: Door<'static>, payload: Payload) -> Unstamped {
        Unstamped { name: Cow::Borrowed(word.name()), payload, door }
    }

    fn refused(refused: &Refused) -> Unstamped {
        Unstamped::word(Word::EventRefused, Door::Kernel, Payload::of(refused))
    }
}

#[derive(Serialize)]
struct Recovered<'a> {
    offset: u64,
    bytes: u64,
    sha256: &'a str,
}

impl Kernel {
    /// A kernel over this home, for this caller.
    #[must_use]
    pub fn new(home: Home, speaker: Option<Speaker>, world: World) -> Kernel {
        Kernel { home, speaker, world }
    }

    /// The home.
    #[must_use]
    pub fn home(&self) -> &Home {
        &self.home
    }

    /// Reads the home; one that is none yet reads as empty.
    pub fn look(&self) -> Result<View, Error> {
        let mut words = Vec::new();
        let (key, secret) = match self.home.secret() {
            Ok(Some(secret)) => (Key::Here, Some(secret)),
            Ok(None) => (Key::Missing, None),
            Err(fault) => {
                words.extend([fault.to_string()].into_iter().chain(fault.hint().map(|hint| format!("hint: {hint}"))));
                (Key::Refused, None)
            }
        };
        let mut view = View { state: State::new(secret), position: Position::default(), words, identity: None, key };
        if let Some(log) = Log::open(&self.home.places())? {
            view.take_in(&log)?;
            let tail = log.tail();
            if tail.torn_bytes() > 0 {
                let why = match log.steady() {
                    true => "torn; the next append sets them aside",
                    false => "torn, or of a write that is under way",
                };
                let (bytes, from) = (tail.torn_bytes(), tail.whole);
                view.words.push(format!("the log's last {bytes} bytes, from byte {from} on, are passed over: they are {why}"));
            }
        }
        view.words.extend(damaged(&view.position));
        if view.key == Key::Missing && view.state.is_signed() {
            view.words
                .push("the key `.secret` is missing, but this log was signed with one: no script is installed or removed".into());
            view.words.push("hint: restore .secret from a backup, mode 600".into());
        }
        Ok(view)
    }

    /// Records a question and makes the prompt for it.
    pub fn ask(&self, text: &str, out: BorrowedFd<'_>) -> Result<Prompted, Error> {
        let text = text.trim();
        if text.is_empty() {
            return Err(Error::NothingToAsk);
        }
        let mut view = self.look()?;
        let mark = self.mark(&mut view, out);
        let payload = Payload::of(&serde_json::json!({ "text": text }));
        let bytes = payload.get().len() + RECORD_ENVELOPE_BYTES + self.speaker.as_ref().map_or(0, |by| 6 * by.as_str().len());
        if bytes > RECORD_BYTES_MAX {
            return Err(Error::AskTooLarge { bytes });
        }
        let asked = self.commit(&mut view, vec![Unstamped::word(Word::SelfAsked, Door::Pipe, payload)])?;
        let seq = asked.last().map_or(0, |event| event.seq);
        let text = prompt::ask(&view.state, self.scene(), seq, text);
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
        let text = prompt::work(&view.state, self.scene());
        prompted(view, text, mark, Kind::Work)
    }

    /// Leaves word, for whoever hears an answer downstream, that no prompt was made.
    pub fn make_no_prompt(&self, out: BorrowedFd<'_>) {
        if Mark::leave(&self.home.turns(), out).is_err() {
            linger(out);
        }
    }

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
        if let Some(log) = Log::open(&self.home.places())? {
            log.all(|event| {
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
            let landed = self.commit(&mut view, entries.into_iter().map(unstamped).collect());
            heard.words.append(&mut view.words);
            report(heard, &landed?);
        }
        heard.words.append(&mut view.words);
        if !attempts.is_empty() && !view.can_judge() {
            heard.unjudged = true;
            let unjudged = "scripts were not judged, for want of the key; send them again when it is back";
            heard.words.push(format!("{} {unjudged}", attempts.len()));
        } else if !attempts.is_empty() {
            let rejections: Vec<_> = attempts.into_iter().map(|attempt| examine(&view.state, attempt)).collect();
            let word = |rejected| Unstamped::word(Word::ScriptRejected, Door::Kernel, Payload::of(rejected));
            let landed = self.commit(&mut view, rejections.iter().map(word).collect());
            heard.words.append(&mut view.words);
            landed?;
            for rejected in &rejections {
                heard.words.push(format!("rejected {}/{}: {}", rejected.kind, rejected.name, rejected.reason));
            }
            heard.objected = true;
        }
        let pending: Vec<_> = view.state.pending().iter().map(|(capability, _)| capability.to_string()).collect();
        if !pending.is_empty() {
            heard.words.push(format!("pending: {}; to have it authored: self | <mind> | self", pending.join(", ")));
        }
        Ok(())
    }

    /// Whether nothing but a reflection is left to do.
    pub fn quiet(&self) -> Result<(bool, Vec<String>), Error> {
        let view = self.look()?;
        Ok((Task::of(&view.state) == Task::Reflect, view.words))
    }

    /// The brief and, if asked for, the margin behind it.
    pub fn orient(&self) -> Result<(String, Vec<String>), Error> {
        let view = self.look()?;
        let text = format!("{}\n{}", brief(&view.state), margin(&view.state, &view.position.damage));
        Ok((text, view.words))
    }

    /// A page by its name.
    pub fn show(&self, name: &str) -> Result<(String, Vec<String>), Error> {
        if name != "brief" {
            return Err(Error::NoProjection(name.to_owned()));
        }
        let view = self.look()?;
        Ok((brief(&view.state), view.words))
    }

    /// The reply that an answer holds, for one that is passed on and not heard.
    #[must_use]
    pub fn reply_of(reading: Reading) -> String {
        judge(reading, None).reply
    }

    fn scene(&self) -> Scene<'_> {
        Scene { home: self.home.root(), version: env!("CARGO_PKG_VERSION") }
    }

    /// Leaves the marker of a prompt that is about to be made. Without one the prompt is good all the same; only the answer has
    /// to name its face.
    fn mark(&self, view: &mut View, out: BorrowedFd<'_>) -> Option<Mark> {
        Mark::leave(&self.home.turns(), out).unwrap_or_else(|fault| {
            view.words.push(format!("{fault}; hear the answer with `self hear`"));
            None
        })
    }

    /// Appends one batch, syncs it, and takes it into the view. Makes the home if it is none; the first batch of a log opens
    /// with `kernel.initialized`, one that finds a torn tail with `log.recovered`. Returns what was asked for, as it landed.
    fn commit(&self, view: &mut View, asked: Vec<Unstamped>) -> Result<Vec<Event<'static>>, Error> {
        self.home.make()?;
        if view.key == Key::Missing && !view.state.is_signed() {
            let tag = hex::encode(self.random::<16>()?);
            if let Some(secret) = self.home.make_secret(self.random::<SECRET_BYTES>()?, &tag)? {
                view.key = Key::Here;
                view.state.trust(secret);
            }
        }
        let writer = Writer::open(&self.home.places(), self.world.disk)?;
        view.take_in(writer.log())?;
        if writer.rival() {
            view.words.push(
                "another program holds a lock on the log itself; two kernels must not write one home at the same time".into(),
            );
        }
        let (own, mut batch) = opening(&view.position, writer.torn());
        batch.extend(asked);
        let (mut events, bytes) = self.stamp(view.position.highest, batch)?;
        let (tail, torn) = (writer.log().tail(), writer.torn().cloned());
        writer.append(&bytes)?;
        if let Some(torn) = torn {
            let name = format!("{}-{}", torn.offset, &torn.sha256[..8]);
            view.words.push(format!("set {} torn bytes at byte {} aside in .self/torn/{name}", torn.bytes, torn.offset));
        }
        if view.position.highest == 0 {
            view.words.push(format!("made a home in {}", self.home.root().display()));
        }
        view.position.offset = tail.whole + u64::from(tail.lacks_newline) + bytes.len() as u64;
        view.position.newlines += u64::from(tail.lacks_newline) + events.len() as u64;
        for event in &events {
            view.state.apply(event);
            view.position.highest = event.seq;
        }
        Ok(events.split_off(own))
    }

    /// Gives numbers, ids, moment, door and speaker. A record over the limit becomes a refusal.
    fn stamp(&self, highest: u64, batch: Vec<Unstamped>) -> Result<(Vec<Event<'static>>, Vec<u8>), Error> {
        let (id, moment, n) = (hex::encode(self.random::<16>()?), moment::text((self.world.now)()), batch.len());
        let mut bytes = Vec::new();
        let mut events = Vec::with_capacity(n);
        for (at, entry) in batch.into_iter().enumerate() {
            let stamped = |entry: Unstamped| Event {
                seq: highest + 1 + at as u64,
                id: Cow::Owned(Frame::id(&id, at + 1, n)),
                name: entry.name,
                occurred_at: Cow::Owned(moment.clone()),
                by: self.speaker.as_ref().filter(|_| entry.door != Door::Kernel).map(|by| Cow::Owned(by.as_str().to_owned())),
                via: Some(entry.door),
                payload: Cow::Owned(entry.payload.into_raw()),
            };
            let mut event = stamped(entry);
            let start = bytes.len();
            write(&mut bytes, &event);
            let length = bytes.len() - start - 1;
            if length > RECORD_BYTES_MAX {
                bytes.truncate(start);
                let reason = format!("the record would be {length} bytes; the limit is {RECORD_BYTES_MAX}");
                event = stamped(Unstamped::refused(&Refused::new(&event.name, reason, event.payload.get())));
                write(&mut bytes, &event);
            }
            events.push(event);
        }
        Ok((events, bytes))
    }

    fn random<const N: usize>(&self) -> Result<[u8; N], Error> {
        let mut bytes = [0; N];
        (self.world.random)(&mut bytes).map_err(Error::Random)?;
        Ok(bytes)
    }
}

/// Room for the envelope of a record whose speaker is unknown yet, in bytes.
const RECORD_ENVELOPE_BYTES: usize = 512;

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

/// What the kernel itself puts in front of a batch, and how much of it there is.
fn opening(position: &Position, torn: Option<&Torn>) -> (usize, Vec<Unstamped>) {
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

fn unstamped(entry: Entry) -> Unstamped {
    match entry {
        Entry::Draft(draft) => {
            Unstamped { name: Cow::Owned(draft.name.as_str().to_owned()), payload: draft.payload, door: Door::Pipe }
        }
        Entry::Refused(refused) => Unstamped::refused(&refused),
    }
}

/// A prompt whose marker names it. Where the marker cannot be written it stays one of a prompt that failed, so none is given.
fn prompted(view: View, text: String, mut mark: Option<Mark>, kind: Kind) -> Result<Prompted, Error> {
    if let Some(mark) = &mut mark {
        mark.promise(kind)?;
    }
    Ok(Prompted { text, mark, words: view.words })
}

fn damaged(position: &Position) -> Option<String> {
    let (named, rest) = position.damage.split_at(position.damage.len().min(DAMAGE_NAMED_MAX));
    let lines: Vec<_> = named.iter().map(|damage| format!("line {}, byte {}", damage.line, damage.offset)).collect();
    let more = if rest.is_empty() { String::new() } else { format!("; and {} more lines", rest.len()) };
    (!lines.is_empty()).then(|| format!("the log is damaged at {}{more}: passed over, and kept as it is", lines.join("; ")))
}
