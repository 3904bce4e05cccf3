//! The log, read: `events.jsonl` in pieces, up to the end of its last whole batch.
//!
//! Only this file and `append` open it. Reading goes through [`Log::all`], [`Log::named`], [`Log::last_of`] and [`Log::at`] and
//! passes damaged lines by, naming them. The invariant: no bytes are read that may yet be cut off.

use std::collections::{BTreeSet, VecDeque};
use std::fs::{File, Metadata};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::event::Event;
use crate::lines::{Lines, copy};
use crate::lock::{Lock, LockFault, READER_WAITS, WRITER_WAITS};
use crate::names::REST;
use crate::record::Line;
use crate::rows::{Chosen, Row, Rows};
use crate::seal::Chain;
use crate::tail::Tail;
use crate::windows::Windows;

/// The largest batch, in bytes.
pub const BATCH_BYTES_MAX: usize = 64 << 20;

/// Where the log and what belongs to it lie.
#[derive(Debug, Clone)]
pub struct Places {
    /// `events.jsonl`.
    pub log: PathBuf,
    /// `.self/lock`.
    pub lock: PathBuf,
    /// `.self/torn/`.
    pub torn: PathBuf,
}

impl Places {
    /// `.self/index/`.
    #[must_use]
    pub fn index(&self) -> PathBuf {
        self.lock.with_file_name("index")
    }
}

/// What tells whether a file was touched.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Facts {
    /// Its device and inode.
    pub identity: (u64, u64),
    /// Its length, in bytes.
    pub size: u64,
    mtime: (i64, i64),
    ctime: (i64, i64),
}

impl Facts {
    /// What is known of a file.
    #[must_use]
    pub fn of(facts: &Metadata) -> Facts {
        Facts {
            identity: (facts.dev(), facts.ino()),
            size: facts.len(),
            mtime: (facts.mtime(), facts.mtime_nsec()),
            ctime: (facts.ctime(), facts.ctime_nsec()),
        }
    }
}

/// What went wrong with the log.
#[derive(Debug, thiserror::Error)]
pub enum LogError {
    /// An ordinary failure to open, read, make or lock something.
    #[error("could not {act} `{}`: {source}", path.display())]
    Io {
        /// What was attempted.
        act: &'static str,
        /// On which file.
        path: PathBuf,
        /// Why it failed.
        source: io::Error,
    },
    /// The log is no regular file.
    #[error("could not open `{}`: it is not a regular file", .0.display())]
    NotAFile(PathBuf),
    /// Another process held the lock until the deadline.
    #[error("log busy: `{}` was held by another process for {} s", .0.display(), WRITER_WAITS.as_secs())]
    Busy(PathBuf),
    /// A batch is larger than the limit.
    #[error("the batch would be {bytes} bytes; the limit is {BATCH_BYTES_MAX}")]
    BatchTooLarge {
        /// Its size.
        bytes: usize,
    },
    /// A write failed; the file is as it was.
    #[error("could not append to `{}` on the file system at `{}`: {source}; the log is as it was", path.display(), mount.display())]
    Write {
        /// The log.
        path: PathBuf,
        /// Where its file system is mounted.
        mount: PathBuf,
        /// Why it failed.
        source: io::Error,
    },
    /// A write failed, and so did taking back what it left.
    #[error("could not append to `{}` on the file system at `{}`: {source}; what was written behind byte {base} could not be cut off", path.display(), mount.display())]
    Damage {
        /// The log.
        path: PathBuf,
        /// Where its file system is mounted.
        mount: PathBuf,
        /// Where the batch began.
        base: u64,
        /// Why it failed.
        source: io::Error,
    },
    /// The disk did not confirm a batch.
    #[error("outcome unknown: could not sync `{}`: {source}", path.display())]
    Unknown {
        /// The log.
        path: PathBuf,
        /// Why it failed.
        source: io::Error,
    },
}

impl LogError {
    /// Whether the log is sure to be as it was.
    #[must_use]
    pub fn is_before_the_write(&self) -> bool {
        match self {
            LogError::NotAFile(_) | LogError::Busy(_) | LogError::BatchTooLarge { .. } | LogError::Write { .. } => true,
            LogError::Io { .. } | LogError::Damage { .. } | LogError::Unknown { .. } => false,
        }
    }

    /// The same fault, for somebody else whom it befell.
    #[must_use]
    pub fn again(&self) -> LogError {
        let same = |source: &io::Error| match source.raw_os_error() {
            Some(code) => io::Error::from_raw_os_error(code),
            None => io::Error::new(source.kind(), source.to_string()),
        };
        match self {
            LogError::Io { act, path, source } => LogError::Io { act, path: path.clone(), source: same(source) },
            LogError::NotAFile(path) => LogError::NotAFile(path.clone()),
            LogError::Busy(path) => LogError::Busy(path.clone()),
            LogError::BatchTooLarge { bytes } => LogError::BatchTooLarge { bytes: *bytes },
            LogError::Write { path, mount, source } => {
                LogError::Write { path: path.clone(), mount: mount.clone(), source: same(source) }
            }
            LogError::Damage { path, mount, base, source } => {
                LogError::Damage { path: path.clone(), mount: mount.clone(), base: *base, source: same(source) }
            }
            LogError::Unknown { path, source } => LogError::Unknown { path: path.clone(), source: same(source) },
        }
    }
}

pub(crate) fn io_error<'p>(act: &'static str, path: &'p Path) -> impl FnOnce(io::Error) -> LogError + use<'p> {
    move |source| LogError::Io { act, path: path.to_owned(), source }
}

/// How many damaged lines are remembered; the others are counted.
pub const DAMAGE_KEPT_MAX: usize = 64;

/// A damaged line: neither a record nor blank.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Damage {
    /// The line's number, from 1.
    pub line: u64,
    /// Where it starts, in bytes.
    pub offset: u64,
}

/// The records whose number is not the highest before them plus one.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Misnumbered {
    /// How many there are.
    pub count: u64,
    /// The first.
    pub first: Option<Misnumber>,
}

/// A record's number that is not the one that was due.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Misnumber {
    /// The line's number, from 1.
    pub line: u64,
    /// Where it starts, in bytes.
    pub offset: u64,
    /// What it says; nothing that could be used if `None`.
    pub seq: Option<u64>,
    /// The number that was due.
    pub due: u64,
}

impl Misnumbered {
    /// Takes note of a record's number, if it is not the one that was due.
    pub(crate) fn take(&mut self, found: Misnumber) {
        if found.seq != Some(found.due) {
            self.count += 1;
            self.first.get_or_insert(found);
        }
    }
}

/// How far a log has been read, so that reading can go on from there.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Position {
    /// Bytes read.
    pub offset: u64,
    /// Newlines read.
    pub newlines: u64,
    /// The highest number seen.
    pub highest: u64,
    /// The damaged lines seen, the first [`DAMAGE_KEPT_MAX`] of them.
    pub damage: Vec<Damage>,
    /// How many damaged lines were seen.
    pub damaged: u64,
    /// The odd numbers seen.
    pub misnumbered: Misnumbered,
}

impl Position {
    /// Takes note of a damaged line that starts here.
    pub(crate) fn note_damage(&mut self, offset: u64) {
        self.damaged += 1;
        if self.damage.len() < DAMAGE_KEPT_MAX {
            self.damage.push(Damage { line: self.newlines + 1, offset });
        }
    }
}

/// A log opened for reading, up to the end of its last whole batch.
#[derive(Debug, Clone)]
pub struct Log {
    pub(crate) file: Arc<File>,
    pub(crate) path: PathBuf,
    pub(crate) tail: Tail,
    steady: bool,
    /// Where its events stand, if that is known.
    pub(crate) rows: Option<Rows>,
    /// Whether it is known to hold nothing but records, each ended by a newline and nothing else.
    pub(crate) is_plain: bool,
}

impl Log {
    /// Opens the log; `None` if there is none. Waits until no write is under way, so that nothing is read that may yet be cut;
    /// where the lock cannot be had the last whole batch is the end. Where there is no lock file, no write is under way.
    pub fn open(places: &Places) -> Result<Option<Log>, LogError> {
        Log::open_with(places, || None::<()>).map(|opened| opened.map(|(log, ..)| log))
    }

    /// Opens the file; `None` if there is none.
    pub(crate) fn file(path: &Path) -> Result<Option<(Arc<File>, Facts)>, LogError> {
        match std::fs::metadata(path) {
            Err(fault) if fault.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(fault) => return Err(io_error("open", path)(fault)),
            Ok(facts) if !facts.is_file() => return Err(LogError::NotAFile(path.to_owned())),
            Ok(_) => {}
        }
        let file = File::open(path).map_err(io_error("open", path))?;
        let facts = Facts::of(&file.metadata().map_err(io_error("read", path))?);
        Ok(Some((file.into(), facts)))
    }

    /// Opens the log, and asks what is known of it while no write is under way.
    pub(crate) fn open_with<T>(
        places: &Places,
        known: impl FnOnce() -> Option<T>,
    ) -> Result<Option<(Log, Facts, Option<T>)>, LogError> {
        let path = &places.log;
        let Some((file, _)) = Log::file(path)? else { return Ok(None) };
        let lock = Lock::shared(&places.lock, READER_WAITS);
        let facts = Facts::of(&file.metadata().map_err(io_error("read", path))?);
        let steady = match &lock {
            Ok(_) => true,
            Err(LockFault::Io(fault)) => fault.kind() == io::ErrorKind::NotFound && !places.lock.exists(),
            Err(LockFault::Busy) => false,
        };
        let known = known();
        // Held until the tail is classified: a recovery would cut it meanwhile.
        let log = Log::classify(file, path, facts.size, steady)?;
        drop(lock);
        Ok(Some((log, facts, known)))
    }

    pub(crate) fn classify(file: Arc<File>, path: &Path, size: u64, steady: bool) -> Result<Log, LogError> {
        let tail = Tail::find(size, |buffer, at| file.read_exact_at(buffer, at)).map_err(io_error("read", path))?;
        Ok(Log { steady, ..Log::whole(file, path, tail) })
    }

    /// A log whose end is known.
    pub(crate) fn whole(file: Arc<File>, path: &Path, tail: Tail) -> Log {
        Log { file, path: path.to_owned(), tail, steady: true, rows: None, is_plain: false }
    }

    /// What the file is like now.
    pub(crate) fn facts(&self) -> Result<Facts, LogError> {
        self.file.metadata().map(|facts| Facts::of(&facts)).map_err(io_error("read", &self.path))
    }

    /// The log's end.
    #[must_use]
    pub fn tail(&self) -> Tail {
        self.tail
    }

    /// Whether the end is sure to be no write under way: a torn tail is then really torn.
    #[must_use]
    pub fn steady(&self) -> bool {
        self.steady
    }

    /// What tells this file from another of the same path.
    #[must_use]
    pub fn identity(&self) -> Option<(u64, u64)> {
        self.file.metadata().ok().map(|facts| (facts.dev(), facts.ino()))
    }

    /// Whether each event is known to claim the number that is its place.
    #[must_use]
    pub fn is_regular(&self) -> bool {
        self.rows.as_ref().is_some_and(|rows| rows.is_regular)
    }

    /// Reads all events in file order.
    pub fn all(&self, mut each: impl FnMut(Event<'_>)) -> Result<Position, LogError> {
        let mut position = Position::default();
        self.resume(&mut position, &mut each)?;
        Ok(position)
    }

    /// Reads the events of these names in file order.
    pub fn named(&self, names: &[&str], mut each: impl FnMut(Event<'_>)) -> Result<(), LogError> {
        self.picked(|name| names.contains(&name), |event, _| each(event))
    }

    /// Reads the events whose names are picked, in file order, with their lines as they stand, without the newline.
    pub fn picked(&self, pick: impl Fn(&str) -> bool, mut each: impl FnMut(Event<'_>, &[u8])) -> Result<(), LogError> {
        let mut reached = 0;
        if let Some(rows) = self.regular_rows() {
            match self.picked_by(rows, &pick, &mut |event, line| {
                reached = event.seq;
                each(event, line);
            }) {
                Ok(()) => return Ok(()),
                Err(_) => drop(rows.wrong()),
            }
        }
        // Where the rows do not fit, what was read by them so far is right, and all the rest is read.
        self.verbatim(|event, line| {
            if (reached == 0 || event.seq > reached) && pick(&event.name) {
                each(event, line);
            }
        })
    }

    /// The rows, if each event claims the number that is its place and they still seem to fit.
    pub(crate) fn regular_rows(&self) -> Option<&Rows> {
        self.rows.as_ref().filter(|rows| rows.is_regular && !rows.are_wrong())
    }

    /// Whether what is known of it turned out not to fit it: it is better opened anew.
    #[must_use]
    pub fn is_misread(&self) -> bool {
        self.rows.as_ref().is_some_and(Rows::are_wrong)
    }

    fn picked_by(&self, rows: &Rows, pick: impl Fn(&str) -> bool, each: &mut impl FnMut(Event<'_>, &[u8])) -> io::Result<()> {
        let mut chosen = rows.choose(&rows.ids(&pick), None)?;
        let mut windows = Windows::of(&self.file, self.tail.whole, rows);
        while windows.fill(&mut chosen)? {
            for row in windows.rows() {
                let line = windows.line(*row)?;
                let Line::Record(record) = Line::read(line) else { return Err(rows.wrong()) };
                let Some(seq) = record.seq.filter(|_| rows.names.entry(row.name).name == record.name() || row.name == REST)
                else {
                    return Err(rows.wrong());
                };
                if pick(record.name()) {
                    each(record.at(seq), line);
                }
            }
        }
        Ok(())
    }

    /// The newest `n` events of a name, oldest first.
    pub fn last_of(&self, name: &str, n: usize) -> Result<Vec<Event<'static>>, LogError> {
        if let Some(rows) = self.regular_rows().filter(|rows| rows.names.id(name) != REST) {
            let newest = rows.newest(rows.names.id(name), n as u64);
            let events = newest.and_then(|newest| newest.into_iter().map(|row| self.event_at(rows, row)).collect());
            match events {
                Ok(events) => return Ok(events),
                Err(_) => drop(rows.wrong()),
            }
        }
        let mut newest = VecDeque::with_capacity(n.min(1024));
        self.named(&[name], |event| {
            newest.push_back(event.into_owned());
            if newest.len() > n {
                newest.pop_front();
            }
        })?;
        Ok(newest.into())
    }

    /// The event of this number; the first if several claim it.
    pub fn at(&self, seq: u64) -> Result<Option<Event<'static>>, LogError> {
        if let Some(rows) = self.regular_rows() {
            let Some(at) = seq.checked_sub(1).filter(|at| *at < rows.count) else { return Ok(None) };
            match self.nth(rows, at) {
                Ok((event, _)) => return Ok(Some(event)),
                Err(_) => drop(rows.wrong()),
            }
        }
        let mut found = None;
        self.all(|event| {
            if event.seq == seq && found.is_none() {
                found = Some(event.into_owned());
            }
        })?;
        Ok(found)
    }

    /// Reads the events of these numbers, all that claim one of them, in no certain order.
    pub fn these(&self, seqs: &BTreeSet<u64>, mut each: impl FnMut(Event<'_>)) -> Result<(), LogError> {
        let mut left = seqs.clone();
        if let Some(rows) = self.regular_rows() {
            while let Some(seq) = left.first().copied() {
                match seq.checked_sub(1).filter(|at| *at < rows.count).map(|at| self.nth(rows, at)) {
                    Some(Err(_)) => {
                        rows.wrong();
                        break;
                    }
                    Some(Ok((event, _))) => each(event),
                    None => {}
                }
                left.remove(&seq);
            }
        }
        if left.is_empty() {
            return Ok(());
        }
        self.all(|event| {
            if left.contains(&event.seq) {
                each(event);
            }
        })
        .map(drop)
    }

    /// The event of a row of a log whose events claim their places, and where it stands.
    pub(crate) fn nth(&self, rows: &Rows, at: u64) -> io::Result<(Event<'static>, Row)> {
        let row = rows.row(at)?;
        let event = self.event_at(rows, row)?;
        if event.seq == at + 1 { Ok((event, row)) } else { Err(rows.wrong()) }
    }

    fn event_at(&self, rows: &Rows, row: Row) -> io::Result<Event<'static>> {
        let mut windows = Windows::of(&self.file, self.tail.whole, rows);
        windows.fill(&mut Chosen::Listed(vec![row].into_iter()))?;
        match Line::read(windows.line(row)?) {
            Line::Record(record) if row.name == REST || rows.names.entry(row.name).name == record.name() => {
                record.seq.map(|seq| record.at(seq).into_owned()).ok_or_else(|| rows.wrong())
            }
            Line::Record(_) | Line::Blank | Line::Damaged => Err(rows.wrong()),
        }
    }

    /// Takes the lines from where a chain stands to the end into it, showing each one first, with the chain as it is in front of
    /// it. A last line that lacks its newline counts as if it had it: the next append writes it first.
    pub fn chain(&self, chain: &mut Chain, mut each: impl FnMut(Stood<'_>, &mut Chain)) -> Result<(), LogError> {
        let start = chain.offset();
        if start >= self.tail.whole {
            return Ok(());
        }
        let mut lines = Lines::from(&self.file, start, self.tail.whole);
        let failed = |fault| io_error("read", &self.path)(fault);
        while lines.step().map_err(failed)? {
            let (number, offset, whole) = (chain.lines() + 1, chain.offset(), lines.whole());
            let line = lines.line();
            let payload = match (&line, whole) {
                (Line::Record(record), Some(whole)) => record.payload_in(whole),
                (Line::Record(_) | Line::Blank | Line::Damaged, _) => None,
            };
            each(Stood { number, offset, whole: whole.unwrap_or_default(), line }, chain);
            match whole {
                Some(whole) => chain.take(whole, payload),
                None => {
                    let end = lines.next() - u64::from(lines.has_newline());
                    chain
                        .take_long(end - offset, |each| {
                            copy(&self.file, offset..end, |piece| {
                                each(piece);
                                Ok(())
                            })
                        })
                        .map_err(failed)?;
                }
            }
        }
        Ok(())
    }

    /// Reads the events behind a position and moves it to the end.
    pub fn resume(&self, position: &mut Position, each: &mut impl FnMut(Event<'_>)) -> Result<(), LogError> {
        self.read(position, &mut |event, _| each(event))
    }

    /// Reads all events with their lines as they stand, without the newline.
    pub fn verbatim(&self, mut each: impl FnMut(Event<'_>, &[u8])) -> Result<(), LogError> {
        self.read(&mut Position::default(), &mut each)
    }

    fn read(&self, position: &mut Position, each: &mut impl FnMut(Event<'_>, &[u8])) -> Result<(), LogError> {
        let mut lines = Lines::from(&self.file, position.offset, self.tail.whole);
        while lines.step().map_err(io_error("read", &self.path))? {
            match lines.line() {
                Line::Blank => {}
                Line::Damaged => position.note_damage(lines.start()),
                Line::Record(record) => {
                    let (line, offset, due) = (position.newlines + 1, lines.start(), position.highest + 1);
                    position.misnumbered.take(Misnumber { line, offset, seq: record.seq, due });
                    let seq = record.seq.unwrap_or(due);
                    position.highest = position.highest.max(seq);
                    each(record.at(seq), lines.text());
                }
            }
            position.offset = lines.next();
            position.newlines += u64::from(lines.has_newline());
        }
        Ok(())
    }
}

/// A line of the log as it stands.
#[derive(Debug)]
pub struct Stood<'l> {
    /// Its number, from 1.
    pub number: u64,
    /// Where it starts, in bytes.
    pub offset: u64,
    /// Its bytes without the newline, BOM and CR included; empty for one that is too long for a record.
    pub whole: &'l [u8],
    /// What it is.
    pub line: Line<'l>,
}
