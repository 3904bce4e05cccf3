//! The kernel over one home: how it is read, and the only way into its log.
//!
//! The verbs stand in `asking`, `hearing`, `running`, `rendering` and `keeping`, each an `impl Kernel`. What the world gives (the
//! moment, randomness, the disk, the caller) comes in as values and functions. The invariant: nothing that `commit` returns is
//! not on the disk.

use std::borrow::Cow;
use std::ffi::{OsStr, OsString};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use jiff::Timestamp;

use crate::account::LineFault;
use crate::append::{Disk, Writer};
use crate::batch::{Batches, Close, Sealer, Stamp, Unstamped, opening};
use crate::capability::{Capability, Declaration};
use crate::directory::AccountError;
use crate::event::{Door, Draft, Event, Speaker};
use crate::grant::GrantError;
use crate::head::{Head, Memory};
use crate::hear::Refused;
use crate::home::{Home, HomeError};
use crate::index::Index;
use crate::interpreter::{InterpreterFault, ShebangFault};
use crate::level::{Level, Reach, Sandbox};
use crate::log::{BATCH_BYTES_MAX, Damage, Log, LogError, Places, Position};
use crate::pace::Pace;
use crate::payload::Payload;
use crate::receipt::{SECRET_BYTES, Secret};
use crate::record::{RECORD_BYTES_MAX, write};
use crate::script::ScriptError;
use crate::shelf::ShelfError;
use crate::state::State;
use crate::stop::Stop;
use crate::turn::TurnError;
use crate::vocabulary::Word;

/// The largest body that is read from stdin, in bytes.
pub const BODY_BYTES_MAX: usize = BATCH_BYTES_MAX;

/// How many damaged lines are named.
pub(crate) const DAMAGE_NAMED_MAX: usize = 8;

/// How long reading the log takes before it tells how far it is.
const INDEX_TELLS: Duration = Duration::from_millis(300);

/// The world outside, as far as the kernel uses it.
#[derive(Debug, Clone, Copy)]
pub struct World {
    /// Tells the moment.
    pub now: fn() -> Timestamp,
    /// Fills a buffer with random bytes.
    pub random: fn(&mut [u8]) -> io::Result<()>,
    /// Writes and syncs.
    pub disk: Disk,
    /// Tells how far this program can hold a script here; the last path, if there is one, keeps what was found out.
    pub reach: fn(&Path, Sandbox, Option<&Path>) -> Reach,
    /// Says a line to whoever waits while something takes long.
    pub tell: fn(&str),
    /// Tells which interpreters a `PATH` offers, by name.
    pub offered: fn(&OsStr) -> Vec<String>,
}

/// The kernel over one home.
#[derive(Debug)]
pub struct Kernel {
    pub(crate) home: Home,
    pub(crate) caller: Caller,
    pub(crate) world: World,
    /// What was found missing at the end of the log, once.
    missing: OnceLock<String>,
    /// The lowest level at which a script ran.
    pub(crate) ran_at: Mutex<Option<Level>>,
    /// What ends its scripts, where it is more than one verb's.
    pub(crate) stop: Option<Stop>,
    /// What it appends may go together with, if others of its process write the same log.
    pub(crate) convoy: Option<Arc<Batches>>,
}

/// Who calls, and from where.
#[derive(Debug, Clone)]
pub struct Caller {
    /// Who the caller says it is.
    pub speaker: Option<Speaker>,
    /// Which model writes, if the caller says so.
    pub mind: Option<Speaker>,
    /// Where the caller stands.
    pub folder: PathBuf,
    /// Where programs are looked for.
    pub path: OsString,
    /// Where scratch folders are made.
    pub scratch: PathBuf,
    /// This executable, which runs scripts for the kernel.
    pub executable: PathBuf,
    /// How long a script may run, in seconds.
    pub script_seconds: u64,
    /// How far the caller wants scripts confined.
    pub sandbox: Sandbox,
    /// What `~` stands for.
    pub user: PathBuf,
    /// Where programs keep their state, if anywhere.
    pub state: Option<PathBuf>,
}

impl Caller {
    /// Who a script's bytes are from: the mind, else the speaker, else the pipe.
    #[must_use]
    pub fn author(&self) -> &str {
        self.mind.as_ref().or(self.speaker.as_ref()).map_or("pipe", Speaker::as_str)
    }
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
    /// There is no such command.
    #[error("there is no command `{0}`")]
    NoCommand(String),
    /// A capability is declared, and has no script yet.
    #[error("`{0}` is declared, but no script for it was installed yet")]
    NoScript(Capability),
    /// A receipt could not be checked.
    #[error("`{0}` is not run: without the key its receipt cannot be proven")]
    Unproven(Capability),
    /// A script on disk is not the signed one; in words.
    #[error("{0}")]
    Altered(String),
    /// A command is run by another process.
    #[error("`{0}` is being run by another process")]
    Running(Capability),
    /// An argument of a run is no text, and names no file.
    #[error("argument {0} is not UTF-8, and names no file; nothing was run")]
    Argument(usize),
    /// A run was ended by a signal.
    #[error("the run was ended by signal {0}; nothing of it was appended")]
    Stopped(u8),
    /// Signals could not be caught.
    #[error("could not catch signals: {0}")]
    Signals(io::Error),
    /// A script could not be run.
    #[error(transparent)]
    Script(#[from] ScriptError),
    /// A script's first line asks for nothing.
    #[error(transparent)]
    Shebang(#[from] ShebangFault),
    /// A script's interpreter is not on this machine.
    #[error(transparent)]
    Interpreter(#[from] InterpreterFault),
    /// A script would get another interpreter than it was given.
    #[error("`{capability}` was given `{}`, and would get `{}` now; it was not run", was.display(), now.display())]
    OtherInterpreter {
        /// Whose script.
        capability: Capability,
        /// The interpreter it was given.
        was: PathBuf,
        /// The one that is found now.
        now: PathBuf,
    },
    /// A need cannot be granted.
    #[error(transparent)]
    Grant(#[from] GrantError),
    /// The derived files could not be written.
    #[error(transparent)]
    Shelf(#[from] ShelfError),
    /// An account could not be read or written.
    #[error(transparent)]
    Account(#[from] AccountError),
    /// Nothing was named to be given.
    #[error("there is nothing to give under an empty name")]
    NoSelector,
    /// The log holds nothing of the kind.
    #[error("there is nothing to give: the log holds nothing of `{0}`")]
    NothingToGive(String),
    /// An event is none that a home could learn.
    #[error("could not give `{name}`, seq {seq}: no home could learn it: {fault}")]
    CannotTravel {
        /// Its number.
        seq: u64,
        /// Its name.
        name: String,
        /// Why.
        fault: LineFault,
    },
    /// There is no home here.
    #[error("there is no home in `{}`: it has no events.jsonl", .0.display())]
    NoHome(PathBuf),
    /// There is nothing to retire.
    #[error("`{0}` is neither declared nor openly rejected")]
    NothingToRetire(String),
    /// A projection could not be made, and none stands; in words.
    #[error("{0}")]
    NoPage(String),
    /// There is no such page.
    #[error("there is no projection `{0}`")]
    NoProjection(String),
    /// There is no event of this number.
    #[error("there is no event {0} in this log")]
    NoEvent(u64),
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
            | Error::NoCommand(_)
            | Error::NoScript(_)
            | Error::Unproven(_)
            | Error::Altered(_)
            | Error::Signals(_)
            | Error::Script(_)
            | Error::Shebang(_)
            | Error::Interpreter(_)
            | Error::OtherInterpreter { .. }
            | Error::Grant(_)
            | Error::Shelf(_)
            | Error::NothingToGive(_)
            | Error::CannotTravel { .. }
            | Error::NoHome(_)
            | Error::NothingToRetire(_)
            | Error::NoPage(_)
            | Error::NoProjection(_)
            | Error::NoEvent(_) => 1,
            Error::Account(fault) => {
                if fault.is_refusal() {
                    65
                } else {
                    1
                }
            }
            Error::Argument(_) | Error::NoSelector => 2,
            Error::Running(_) => 75,
            Error::Stopped(signal) => 128 + signal,
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
            Error::NoProjection(_) | Error::NoCommand(_) => Some("self show brief".into()),
            Error::NoScript(_) => Some("to have it authored: self work | <mind> | self".into()),
            Error::NoEvent(_) => Some("self log -n 1 shows the newest".into()),
            Error::Unproven(_) => Some("restore .secret from a backup, mode 600".into()),
            Error::Running(_) => Some("try again when it is done".into()),
            Error::Script(fault) => fault.hint(),
            Error::Account(fault) => fault.hint(),
            Error::NoSelector => {
                Some("self give <prefix of event names> <directory>, or command/<name>, projector/<name>".into())
            }
            Error::CannotTravel { .. } => Some("give under a longer prefix, which leaves it out".into()),
            Error::Interpreter(_) => {
                Some("this machine lacks it, and the script is not at fault: install it, then self rehydrate".into())
            }
            Error::OtherInterpreter { .. } => Some("self rehydrate gives each script what is found now".into()),
            Error::Grant(_) => Some("self doctor; a new declaration with other needs, and its script, change them".into()),
            Error::NothingToRetire(_) => Some("self retire command/<name>, or projector/<name>".into()),
            Error::Altered(_)
            | Error::NoPage(_)
            | Error::Argument(_)
            | Error::Stopped(_)
            | Error::Signals(_)
            | Error::Shebang(_)
            | Error::Shelf(_)
            | Error::NothingToGive(_)
            | Error::NoHome(_)
            | Error::Random(_)
            | Error::Input(_)
            | Error::Log(LogError::NotAFile(_) | LogError::Damage { .. }) => None,
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
    /// The log, up to where it was read; `None` if there is none.
    pub(crate) log: Option<Log>,
    pub(crate) index: Index,
    pub(crate) key: Key,
    /// The key's bytes, if it is here and can be trusted.
    pub(crate) secret: Option<Secret>,
}

/// A home as it was read, before note is taken of anything.
pub(crate) struct Glance {
    pub(crate) view: View,
    memory: Option<Memory>,
    /// How long the log is remembered to have been.
    pub(crate) was: Option<Head>,
    /// How long it is.
    pub(crate) is: Head,
}

/// The home's key, as it was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Key {
    Here,
    Missing,
    Refused,
}

impl View {
    /// Whether scripts can be judged: with a key, or where none was ever used.
    pub(crate) fn can_judge(&self) -> bool {
        match self.key {
            Key::Here => true,
            Key::Missing => !self.state.is_signed(),
            Key::Refused => false,
        }
    }

    /// Whether what was known of its log turned out not to fit it: it is better read anew.
    pub(crate) fn is_misread(&self) -> bool {
        self.log.as_ref().is_some_and(Log::is_misread)
    }

    /// Opens the log and takes in what was not read of it yet.
    fn open(&mut self, places: &Places, mut pace: Pace<'_>) -> Result<(), LogError> {
        let View { state, position, index, .. } = self;
        self.log = index.open(places, state, position, &mut |done, all| {
            pace.tell(|| format!("read {} of {} MiB of the log", done >> 20, all >> 20));
        })?;
        Ok(())
    }

    /// Reads the log again without the key, which proves none of its receipts: nothing is installed, removed or signed with it.
    fn distrust(&mut self, places: &Places, pace: Pace<'_>) -> Result<(), LogError> {
        self.key = Key::Refused;
        self.secret = None;
        (self.state, self.position, self.index) = (State::new(None), Position::default(), Index::of(places, None));
        self.words.push("the key `.secret` proves none of this log's receipts: no script is installed or removed".into());
        self.words.push("hint: restore the .secret that this log was signed with".into());
        self.open(places, pace)
    }
}

impl Kernel {
    /// A kernel over this home, for this caller.
    #[must_use]
    pub fn new(home: Home, caller: Caller, world: World) -> Kernel {
        Kernel { home, caller, world, missing: OnceLock::new(), ran_at: Mutex::default(), stop: None, convoy: None }
    }

    /// What the caller should be told about the end of the log, whatever becomes of the verb; a line each.
    #[must_use]
    pub fn missing(&self) -> Vec<String> {
        let hint = "hint: if an older copy was put here, put the newer one back; else self goes on from what is there";
        self.missing.get().map(|missing| vec![missing.clone(), hint.to_owned()]).unwrap_or_default()
    }

    /// The home.
    #[must_use]
    pub fn home(&self) -> &Home {
        &self.home
    }

    /// A view of nothing yet, with the key as it was found.
    pub(crate) fn unread(&self) -> View {
        let mut words = Vec::new();
        let (key, secret) = match self.home.secret() {
            Ok(Some(secret)) => (Key::Here, Some(secret)),
            Ok(None) => (Key::Missing, None),
            Err(fault) => {
                words.extend([fault.to_string()].into_iter().chain(fault.hint().map(|hint| format!("hint: {hint}"))));
                (Key::Refused, None)
            }
        };
        let index = Index::of(&self.home.places(), secret.clone());
        View { state: State::new(secret.clone()), position: Position::default(), words, log: None, index, key, secret }
    }

    /// Where the length of this log is remembered; nowhere without the key.
    pub(crate) fn memory(&self, secret: Option<&Secret>) -> Option<Memory> {
        Some(Memory::of(self.caller.state.as_ref()?, secret?, &self.home.places().log))
    }

    /// Reads the home; one that is none yet reads as empty. Takes note of a log that has been longer, so that it is told once.
    pub fn look(&self) -> Result<View, Error> {
        let Glance { view, memory, was, is } = self.read(self.unread())?;
        if let Some((memory, was)) = memory.zip(was).filter(|(_, was)| was.is_beyond(is)) {
            self.missing.get_or_init(|| was.missing_in(is));
            memory.keep(is);
        }
        Ok(view)
    }

    /// The same, but takes note of nothing, and writes nothing.
    pub(crate) fn glance(&self) -> Result<Glance, Error> {
        let mut view = self.unread();
        view.index.only_look();
        self.read(view)
    }

    fn read(&self, mut view: View) -> Result<Glance, Error> {
        // Recalled before the log is opened: what is appended from here on cannot be missed.
        let memory = self.memory(view.secret.as_ref());
        let was = memory.as_ref().and_then(Memory::recall);
        let places = self.home.places();
        let pace = || Pace::every(INDEX_TELLS, self.world.now, &self.world.tell);
        view.open(&places, pace())?;
        if view.state.fits_no_receipt() && self.shelf().holds_scripts() {
            view.distrust(&places, pace())?;
        }
        if let Some(log) = &view.log {
            view.words.extend(torn(log));
        }
        let is = Head { seq: view.position.highest, bytes: view.log.as_ref().map_or(0, |log| log.tail().size) };
        view.words.extend(damaged(&view.position.damage, view.position.damaged));
        if view.key == Key::Missing && view.state.is_signed() {
            view.words
                .push("the key `.secret` is missing, but this log was signed with one: no script is installed or removed".into());
            view.words.push("hint: restore .secret from a backup, mode 600".into());
        }
        Ok(Glance { view, memory, was, is })
    }

    /// Appends one batch, syncs it, and takes it into the view. Makes the home if it is none; the first batch of a log opens
    /// with `kernel.initialized`, one that finds a torn tail with `log.recovered`. Returns what was asked for, as it landed.
    pub(crate) fn commit(&self, view: &mut View, asked: Vec<Unstamped>) -> Result<Vec<Event<'static>>, Error> {
        self.commit_with(view, Close::Open, |_, _, _| Ok(asked))
    }

    /// The same, with a seal over the whole log as the batch's last record. Without the key there is none.
    pub(crate) fn commit_sealed(&self, view: &mut View, asked: Vec<Unstamped>) -> Result<Vec<Event<'static>>, Error> {
        self.commit_with(view, Close::Sealed, |_, _, _| Ok(asked))
    }

    /// The same for what depends on the state or the log under the lock, or on its own number: the first one asked for gets the
    /// number that is passed. If nothing is asked for, nothing is appended but a seal on its own.
    pub(crate) fn commit_with(
        &self,
        view: &mut View,
        close: Close,
        ask: impl FnOnce(&View, u64, &Log) -> Result<Vec<Unstamped>, Error>,
    ) -> Result<Vec<Event<'static>>, Error> {
        self.make_key(view)?;
        if let Some(log) = view.log.as_ref().filter(|_| close != Close::Open) {
            // What can be done before the lock is taken is little to do under it.
            view.index.chain(log, &view.position)?;
        }
        let writer = Writer::open(&self.home.places(), self.world.disk, view.index.known(&view.position))?;
        view.index.catch_up(writer.log(), &mut view.state, &mut view.position)?;
        if writer.rival() {
            view.words.push(
                "another program holds a lock on the log itself; two kernels must not write one home at the same time".into(),
            );
        }
        let (own, mut batch) = opening(&view.position, writer.torn());
        let asked = ask(view, view.position.highest + 1 + own as u64, writer.log())?;
        let is_enough = match close {
            Close::Seal => true,
            Close::Opening => !batch.is_empty(),
            Close::Open | Close::Sealed => false,
        };
        if asked.is_empty() && !is_enough {
            return Ok(Vec::new());
        }
        batch.extend(asked);
        let seal = sealer(view, close, writer.log())?;
        let seals = usize::from(seal.is_some());
        let (mut events, bytes) = self.stamp(view.position.highest, batch, seal)?;
        let torn = writer.torn().cloned();
        let (lock, log) = writer.append(&bytes)?;
        if let Some(torn) = torn {
            let name = format!("{}-{}", torn.offset, &torn.sha256[..8]);
            view.words.push(format!("set {} torn bytes at byte {} aside in .self/torn/{name}", torn.bytes, torn.offset));
        }
        if view.position.highest == 0 {
            view.words.push(format!("made a home in {}", self.home.root().display()));
        }
        let View { state, position, index, .. } = view;
        view.log = Some(index.appended(log, state, position, &lock)?);
        if let Some(memory) = self.memory(view.secret.as_ref()) {
            memory.keep(Head { seq: view.position.highest, bytes: view.position.offset });
        }
        drop(lock);
        events.truncate(events.len() - seals);
        Ok(events.split_off(own))
    }

    /// Makes the home if it is none, and its key if none was ever used.
    pub(crate) fn make_key(&self, view: &mut View) -> Result<(), Error> {
        self.home.make()?;
        if view.key == Key::Missing && !view.state.is_signed() {
            let tag = hex::encode(self.random::<16>()?);
            if let Some(secret) = self.home.make_secret(self.random::<SECRET_BYTES>()?, &tag)? {
                view.key = Key::Here;
                view.secret = Some(secret.clone());
                view.index.trust(secret.clone(), &view.position);
                view.state.trust(secret);
            }
        }
        Ok(())
    }

    /// Gives numbers, ids, moments, door and speaker. The moments of a batch lie a nanosecond apart, so that name, moment and
    /// speaker name one event, in any home. A record over the limit becomes a refusal.
    fn stamp(&self, highest: u64, batch: Vec<Unstamped>, seal: Option<Sealer>) -> Result<(Vec<Event<'static>>, Vec<u8>), Error> {
        let n = batch.len() + usize::from(seal.is_some());
        let stamp = Stamp { id: hex::encode(self.random::<16>()?), n, now: (self.world.now)(), highest };
        let speaker = self.caller.speaker.as_ref();
        let mut bytes = Vec::new();
        let mut events = Vec::with_capacity(n);
        for (at, entry) in batch.into_iter().enumerate() {
            let mut event = stamp.event(at, entry, speaker);
            let start = bytes.len();
            write(&mut bytes, &event);
            let length = bytes.len() - start - 1;
            if length > RECORD_BYTES_MAX {
                bytes.truncate(start);
                let reason = format!("the record would be {length} bytes; the limit is {RECORD_BYTES_MAX}");
                let refused = Unstamped::refused(&Refused::new(&event.name, reason, event.payload.get()));
                event = stamp.event(at, refused, speaker);
                write(&mut bytes, &event);
            }
            events.push(event);
        }
        if let Some(seal) = seal {
            let bare = Unstamped::word(Word::LogSealed, Door::Kernel, Payload::empty());
            let event = seal.close(&bytes, stamp.event(n - 1, bare, None));
            write(&mut bytes, &event);
            events.push(event);
        }
        Ok((events, bytes))
    }

    /// What a draft becomes: itself, or a refusal if it declares a need that this home cannot grant.
    pub(crate) fn taken(&self, draft: Draft, door: Door<'static>) -> Unstamped {
        let kind = Word::of(draft.name.as_str()).and_then(Word::declares);
        let declared = kind.and_then(|kind| Declaration::read(kind, draft.payload.as_ref()).ok());
        let needs = declared.map(|declared| declared.needs).unwrap_or_default();
        match needs.iter().find_map(|need| self.home.forbids(need, &self.caller.user, self.caller.state.as_deref())) {
            Some(reason) => Unstamped::refused(&Refused::new(draft.name.as_str(), reason, draft.payload.get())),
            None => Unstamped { name: Cow::Owned(draft.name.as_str().to_owned()), payload: draft.payload, door, own: None },
        }
    }

    pub(crate) fn random<const N: usize>(&self) -> Result<[u8; N], Error> {
        let mut bytes = [0; N];
        (self.world.random)(&mut bytes).map_err(Error::Random)?;
        Ok(bytes)
    }
}

/// What a seal behind the log under the lock needs; none without the key.
fn sealer(view: &mut View, close: Close, log: &Log) -> Result<Option<Sealer>, LogError> {
    let Some(secret) = view.secret.clone().filter(|_| close.seals()) else { return Ok(None) };
    Ok(Some(Sealer { secret, chain: view.index.chain(log, &view.position)? }))
}

/// What there is to say of a tail that is passed over.
pub(crate) fn torn(log: &Log) -> Option<String> {
    let tail = log.tail();
    let why = match log.steady() {
        true => "torn; the next append sets them aside",
        false => "torn, or of a write that is under way",
    };
    let (bytes, from) = (tail.torn_bytes(), tail.whole);
    (bytes > 0).then(|| format!("the log's last {bytes} bytes, from byte {from} on, are passed over: they are {why}"))
}

/// What there is to say of lines that are passed by.
pub(crate) fn damaged(damage: &[Damage], all: u64) -> Option<String> {
    let named = &damage[..damage.len().min(DAMAGE_NAMED_MAX)];
    let lines: Vec<_> = named.iter().map(|damage| format!("line {}, byte {}", damage.line, damage.offset)).collect();
    let more = all - named.len() as u64;
    let more = if more == 0 { String::new() } else { format!("; and {more} more lines") };
    (!lines.is_empty()).then(|| format!("the log is damaged at {}{more}: passed over, and kept as it is", lines.join("; ")))
}
