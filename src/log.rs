//! The log, read: `events.jsonl` in pieces, up to the end of its last whole batch.
//!
//! Only this file and `append` open it. Reading goes through [`Log::all`], [`Log::named`], [`Log::last_of`] and [`Log::at`] and
//! passes damaged lines by, naming them. The invariant: no bytes are read that may yet be cut off.

use std::collections::{BTreeMap, VecDeque};
use std::fs::File;
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};

use crate::event::Event;
use crate::lines::{Lines, READ_BYTES, copy};
use crate::lock::{Lock, LockFault, READER_WAITS, WRITER_WAITS};
use crate::record::Line;
use crate::seal::Chain;
use crate::tail::Tail;

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

pub(crate) fn io_error<'p>(act: &'static str, path: &'p Path) -> impl FnOnce(io::Error) -> LogError + use<'p> {
    move |source| LogError::Io { act, path: path.to_owned(), source }
}

/// A damaged line: neither a record nor blank.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Damage {
    /// The line's number, from 1.
    pub line: u64,
    /// Where it starts, in bytes.
    pub offset: u64,
}

/// How far a log has been read, so that reading can go on from there.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Position {
    /// Bytes read.
    pub offset: u64,
    /// Newlines read.
    pub newlines: u64,
    /// The highest number seen.
    pub highest: u64,
    /// The damaged lines seen.
    pub damage: Vec<Damage>,
}

/// A log opened for reading, up to the end of its last whole batch.
#[derive(Debug)]
pub struct Log {
    pub(crate) file: File,
    pub(crate) path: PathBuf,
    pub(crate) tail: Tail,
    steady: bool,
}

impl Log {
    /// Opens the log; `None` if there is none. Waits until no write is under way, so that nothing is read that may yet be cut;
    /// where the lock cannot be had the last whole batch is the end. Where there is no lock file, no write is under way.
    pub fn open(places: &Places) -> Result<Option<Log>, LogError> {
        let path = &places.log;
        match std::fs::metadata(path) {
            Err(fault) if fault.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(fault) => return Err(io_error("open", path)(fault)),
            Ok(facts) if !facts.is_file() => return Err(LogError::NotAFile(path.clone())),
            Ok(_) => {}
        }
        let file = File::open(path).map_err(io_error("open", path))?;
        let lock = Lock::shared(&places.lock, READER_WAITS);
        let size = file.metadata().map_err(io_error("read", path))?.len();
        let steady = match &lock {
            Ok(_) => true,
            Err(LockFault::Io(fault)) => fault.kind() == io::ErrorKind::NotFound && !places.lock.exists(),
            Err(LockFault::Busy) => false,
        };
        // Held until the tail is classified: a recovery would cut it meanwhile.
        let log = Log::classify(file, path, size, steady);
        drop(lock);
        log.map(Some)
    }

    pub(crate) fn classify(file: File, path: &Path, size: u64, steady: bool) -> Result<Log, LogError> {
        let tail = Tail::find(size, |buffer, at| file.read_exact_at(buffer, at)).map_err(io_error("read", path))?;
        Ok(Log { file, path: path.to_owned(), tail, steady })
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

    /// Reads all events in file order.
    pub fn all(&self, mut each: impl FnMut(Event<'_>)) -> Result<Position, LogError> {
        let mut position = Position::default();
        self.resume(&mut position, &mut each)?;
        Ok(position)
    }

    /// Reads the events of these names in file order.
    pub fn named(&self, names: &[&str], mut each: impl FnMut(Event<'_>)) -> Result<(), LogError> {
        self.all(|event| {
            if names.contains(&&*event.name) {
                each(event);
            }
        })
        .map(drop)
    }

    /// The newest `n` events of a name, oldest first.
    pub fn last_of(&self, name: &str, n: usize) -> Result<Vec<Event<'static>>, LogError> {
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
        let mut found = None;
        self.all(|event| {
            if event.seq == seq && found.is_none() {
                found = Some(event.into_owned());
            }
        })?;
        Ok(found)
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
                Line::Damaged => position.damage.push(Damage { line: position.newlines + 1, offset: lines.start() }),
                Line::Record(record) => {
                    let seq = record.seq.unwrap_or(position.highest + 1);
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

/// Which records a script is fed.
#[derive(Debug, Clone, Default)]
pub struct Wanted {
    /// Of these names; empty means all.
    pub names: Vec<String>,
    /// Only the newest so many of each name.
    pub last: Option<u64>,
}

impl Wanted {
    fn takes(&self, name: &str) -> bool {
        self.names.is_empty() || self.names.iter().any(|wanted| wanted == name)
    }
}

/// The lines of records, as they stand and each with one newline, in pieces for a script's stdin.
pub struct Feed<'l> {
    log: &'l Log,
    lines: Lines<'l>,
    wanted: Wanted,
    /// How many of each name are still to be left out, being older than the newest ones wanted.
    skip: BTreeMap<String, u64>,
}

impl Log {
    /// Feeds the records that are wanted, in file order.
    pub fn feed(&self, wanted: Wanted) -> Result<Feed<'_>, LogError> {
        let mut skip = BTreeMap::new();
        if let Some(last) = wanted.last {
            self.all(|event| {
                if wanted.takes(&event.name) {
                    *skip.entry(event.name.into_owned()).or_insert(0) += 1;
                }
            })?;
            skip.values_mut().for_each(|count: &mut u64| *count = count.saturating_sub(last));
        }
        Ok(Feed { log: self, lines: Lines::from(&self.file, 0, self.tail.whole), wanted, skip })
    }
}

impl Feed<'_> {
    /// The next piece of about 256 KiB; `None` at the end.
    pub fn next_piece(&mut self) -> Result<Option<Vec<u8>>, LogError> {
        let mut piece = Vec::new();
        while piece.len() < READ_BYTES && self.lines.step().map_err(io_error("read", &self.log.path))? {
            let Line::Record(record) = self.lines.line() else { continue };
            if !self.wanted.takes(record.name()) {
                continue;
            }
            if let Some(left) = self.skip.get_mut(record.name()).filter(|left| **left > 0) {
                *left -= 1;
                continue;
            }
            piece.extend_from_slice(self.lines.text());
            piece.push(b'\n');
        }
        Ok((!piece.is_empty()).then_some(piece))
    }
}
