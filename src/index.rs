//! The index: a cache over the log, in `.self/index/`, so that what a command costs does not grow with the history.
//!
//! `slots` holds what the log says is so, small; `rows` where each event stands. Both are written behind an append, under the log's
//! lock and never synced; an error there costs the index, not the append. (1) A slot without a good mac is none. (2) If the log's
//! file is what the slot says it was, the slot is the state. (3) Else the lines it covers are summed up: if they are what they
//! were, only what is behind them is read; if not, everything is. Without the key there is no index. The invariant: a state that
//! comes out of here equals the fold of the whole log.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use serde::{Deserialize, Serialize};

use crate::lines::{Lines, copy};
use crate::lock::{Lock, READER_WAITS};
use crate::log::{Facts, Log, LogError, Misnumber, Places, Position, io_error};
use crate::receipt::{Purpose, Secret};
use crate::record::Line;
use crate::rows::{ROW_BYTES, Row, Rows};
use crate::seal::Chain;
use crate::slots::{HEAD_BYTES, SLOT_BYTES_MAX, SlotHead, slot};
use crate::snapshot::Snapshot;
use crate::standing::At;
use crate::state::State;
use crate::sum::{Sum, SumKey};
use crate::tail::Tail;

/// How many bytes of new lines at most are taken into the seals' chain as they are read; of more, the next seal does it.
const CHAINED_BYTES_MAX: u64 = 16 << 20;

/// How many bytes of rows are held before they are written.
const PENDING_BYTES_MAX: usize = 256 << 10;

/// After how many bytes of the log it tells how far it is.
const STRIDE_BYTES: u64 = 1 << 20;

/// What is less to be read than this, in bytes, is read in a moment: nobody is told.
const TOLD_BYTES_MIN: u64 = 128 << 20;

/// What is known of a log's lines up to some place, beside the state.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Cover {
    /// Whether there is nothing but records, each ended by a newline and nothing else.
    is_plain: bool,
    /// Whether each event claims a number that is its row and 1.
    is_regular: bool,
    /// Whether the last line lacks its newline.
    is_open: bool,
    sum: Sum,
    /// The seals' chain; it may be behind.
    chain: Chain,
}

impl Default for Cover {
    fn default() -> Cover {
        Cover { is_plain: true, is_regular: true, is_open: false, sum: Sum::default(), chain: Chain::default() }
    }
}

/// What a slot holds.
#[derive(Serialize, Deserialize)]
struct Entry {
    facts: Facts,
    position: Position,
    cover: Cover,
    snapshot: Snapshot,
}

/// What a slot holds, to be written.
#[derive(Serialize)]
struct EntryOf<'e> {
    facts: Facts,
    position: &'e Position,
    cover: &'e Cover,
    snapshot: Snapshot,
}

/// Rows on their way to the disk.
#[derive(Debug, Default)]
struct Pending {
    file: Option<Arc<File>>,
    /// Whether the file is a new one, under another name yet.
    is_new: bool,
    /// The row at which the bytes start.
    first: u64,
    bytes: Vec<u8>,
    /// Rows were given up, for want of a file: nothing can be saved.
    is_lost: bool,
}

/// The index of one home's log, and how far the log was read.
#[derive(Debug)]
pub struct Index {
    folder: PathBuf,
    secret: Option<Secret>,
    key: SumKey,
    cover: Cover,
    pending: Pending,
    /// What the log's file was like when it was read to its end.
    facts: Option<Facts>,
    /// The slot that was read or written last, and its generation.
    newest: Option<(u64, u64)>,
    /// Nothing is to be written.
    only_looks: bool,
    /// Whether the rows turned out not to fit the log.
    wrong: Arc<AtomicBool>,
}

/// Hears how many bytes of how many were read.
pub type Tell<'t> = &'t mut dyn FnMut(u64, u64);

impl Index {
    /// An index that nothing was read of yet.
    #[must_use]
    pub fn of(places: &Places, secret: Option<Secret>) -> Index {
        let key = secret.as_ref().map_or(SumKey::of(&[0; 32]), sum_key);
        let (cover, pending) = (Cover::default(), Pending::default());
        Index {
            folder: places.index(),
            secret,
            key,
            cover,
            pending,
            facts: None,
            newest: None,
            only_looks: false,
            wrong: Arc::default(),
        }
    }

    /// Writes nothing from here on.
    pub fn only_look(&mut self) {
        self.only_looks = true;
        self.pending.is_lost = true;
    }

    /// Takes a key that was made just now. What was read without it cannot be saved.
    pub fn trust(&mut self, secret: Secret, position: &Position) {
        self.key = sum_key(&secret);
        self.secret = Some(secret);
        self.pending.is_lost |= position.offset > 0;
    }

    /// Opens the log and takes all of it into the state; `None` if there is none.
    pub fn open(
        &mut self,
        places: &Places,
        state: &mut State,
        position: &mut Position,
        tell: Tell<'_>,
    ) -> Result<Option<Log>, LogError> {
        if let Some(log) = self.known_log(places, state, position)? {
            return Ok(Some(log));
        }
        // A writer may have been between the log and the slot: both are looked at again while no write is under way.
        let opened = Log::open_with(places, || self.newest_slot(None))?;
        let Some((log, facts, entry)) = opened else { return Ok(None) };
        let is_known = match entry {
            Some(entry) if entry.facts == facts && entry.position.offset == log.tail.whole => {
                self.restore(entry, &log, state, position)
            }
            Some(entry) => self.still_stands(&entry, &log)? && self.restore(entry, &log, state, position),
            None => false,
        };
        if !is_known {
            self.start_over(state, position);
        }
        let before = (position.offset, self.facts);
        self.take_in(&log, state, position, tell)?;
        self.facts = Some(facts);
        if log.steady() && (position.offset, self.facts) != before {
            self.save_as_reader(places, &log, state, position);
        }
        Ok(Some(self.attach(log, state)))
    }

    /// Opens a log of which all is known, and makes the state of it; `None` for any other. Nothing of the history is read.
    pub fn known_log(&mut self, places: &Places, state: &mut State, position: &mut Position) -> Result<Option<Log>, LogError> {
        let Some((file, facts)) = Log::file(&places.log)? else { return Ok(None) };
        let Some(entry) = self.newest_slot(Some(facts)) else { return Ok(None) };
        let tail = Tail { whole: facts.size, size: facts.size, lacks_newline: entry.cover.is_open };
        let log = Log::whole(file, &places.log, tail);
        Ok(self.restore(entry, &log, state, position).then(|| self.attach(log, state)))
    }

    /// What was so when the index was written last, whatever became of the log since, if it still is there; nothing of it is read.
    pub fn remembered(&mut self, places: &Places) -> Option<Snapshot> {
        Log::file(&places.log).ok()??;
        self.newest_slot(None).map(|entry| entry.snapshot)
    }

    /// What is known of the log's file, for whoever opens it next.
    #[must_use]
    pub fn known(&self, position: &Position) -> Option<(Facts, Tail)> {
        let facts = self.facts.filter(|facts| facts.size == position.offset)?;
        Some((facts, Tail { whole: facts.size, size: facts.size, lacks_newline: self.cover.is_open }))
    }

    /// Takes what stands in a log behind what was read into the state, under the log's lock. A log that was touched in any other
    /// way than by an append is read anew.
    pub fn catch_up(&mut self, log: &Log, state: &mut State, position: &mut Position) -> Result<(), LogError> {
        let facts = log.facts()?;
        if self.facts == Some(facts) && position.offset == log.tail.whole {
            return Ok(());
        }
        let is_same = self.facts.is_some_and(|known| known.identity == facts.identity) && position.offset <= log.tail.whole;
        let by_self = |entry: Entry| entry.facts == facts && entry.position.offset >= position.offset;
        let goes_on = is_same
            && (self.secret.is_none()
                || self.newest_slot(Some(facts)).is_some_and(by_self)
                || self.sum_of(log, position.offset)? == self.cover.sum);
        if !goes_on {
            self.start_over(state, position);
        }
        self.take_in(log, state, position, &mut |_, _| {})?;
        self.facts = Some(facts);
        Ok(())
    }

    /// Takes an append into the state, writes the index, and gives the log with its rows. Under the log's lock.
    pub fn appended(&mut self, log: Log, state: &mut State, position: &mut Position, lock: &Lock) -> Result<Log, LogError> {
        self.take_in(&log, state, position, &mut |_, _| {})?;
        self.facts = Some(log.facts()?);
        self.save(state, position, lock);
        Ok(self.attach(log, state))
    }

    /// The seals' chain, taken to the end of what was read.
    pub fn chain(&mut self, log: &Log, position: &Position) -> Result<Chain, LogError> {
        if self.cover.chain.offset() < position.offset {
            log.chain(&mut self.cover.chain, |_, _| {})?;
        }
        Ok(self.cover.chain.clone())
    }

    fn start_over(&mut self, state: &mut State, position: &mut Position) {
        state.start_over();
        *position = Position::default();
        let pending = Pending { is_lost: self.only_looks, ..Pending::default() };
        (self.cover, self.pending, self.facts, self.wrong) = (Cover::default(), pending, None, Arc::default());
    }

    fn take_in(&mut self, log: &Log, state: &mut State, position: &mut Position, tell: Tell<'_>) -> Result<(), LogError> {
        let (end, failed) = (log.tail.whole, |fault| io_error("read", &log.path)(fault));
        let chain = &self.cover.chain;
        let stands_here = chain.offset() == position.offset + u64::from(self.cover.is_open);
        let is_chained = stands_here && end.saturating_sub(position.offset) <= CHAINED_BYTES_MAX;
        let mut lines = Lines::from(&log.file, position.offset, end);
        let is_told = end.saturating_sub(position.offset) >= TOLD_BYTES_MIN;
        let mut told = position.offset + STRIDE_BYTES;
        while lines.step().map_err(failed)? {
            if self.cover.is_open {
                // The newline that the last line lacked; a line with more was written by nobody, and is damage.
                self.cover.is_open = false;
                if lines.text().is_empty() && lines.has_newline() {
                    (position.offset, position.newlines) = (lines.next(), position.newlines + 1);
                    continue;
                }
            }
            self.take_line(log, &lines, state, position, is_chained).map_err(failed)?;
            position.offset = lines.next();
            position.newlines += u64::from(lines.has_newline());
            self.cover.is_open = !lines.has_newline();
            if is_told && position.offset >= told {
                tell(position.offset, end);
                told = position.offset + STRIDE_BYTES;
            }
        }
        Ok(())
    }

    fn take_line(
        &mut self,
        log: &Log,
        lines: &Lines<'_>,
        state: &mut State,
        position: &mut Position,
        is_chained: bool,
    ) -> io::Result<()> {
        let (line, whole) = (lines.line(), lines.whole());
        match whole {
            Some(whole) => {
                self.cover.sum.take(self.key, whole);
                if is_chained {
                    let payload = match &line {
                        Line::Record(record) => record.payload_in(whole),
                        Line::Blank | Line::Damaged => None,
                    };
                    self.cover.chain.take(whole, payload);
                }
            }
            None => self.cover.take_long(self.key, log, lines, is_chained)?,
        }
        match line {
            Line::Blank => self.cover.is_plain = false,
            Line::Damaged => {
                self.cover.is_plain = false;
                position.note_damage(lines.start());
            }
            Line::Record(record) => {
                let (text, claimed) = (lines.text(), record.seq);
                let due = position.highest + 1;
                let line = position.newlines + 1;
                position.misnumbered.take(Misnumber { line, offset: lines.start(), seq: claimed, due });
                let seq = claimed.unwrap_or(due);
                position.highest = position.highest.max(seq);
                let offset = lines.start() + lines.skipped() as u64;
                let at = At { offset, bytes: u32::try_from(text.len()).unwrap_or(u32::MAX) };
                let row = state.events();
                self.cover.is_plain &= whole.is_some_and(|whole| whole.len() == text.len());
                self.cover.is_regular &= claimed == Some(row + 1);
                let (name, before) = state.take(&record.at(seq), at);
                self.push(Row { offset: at.offset, name, bytes: at.bytes, before });
            }
        }
        Ok(())
    }

    fn push(&mut self, row: Row) {
        match row.encode() {
            Some(bytes) if !self.pending.is_lost => self.pending.bytes.extend_from_slice(&bytes),
            Some(_) | None => self.pending.is_lost = true,
        }
        if self.pending.bytes.len() >= PENDING_BYTES_MAX {
            self.flush();
        }
    }

    /// Writes the rows that are held to their file. Where there is none they are given up.
    fn flush(&mut self) {
        if self.pending.bytes.is_empty() {
            return;
        }
        if self.pending.file.is_none() && self.pending.first == 0 && self.secret.is_some() {
            self.pending.file = new_rows(&self.folder).ok().flatten().map(Arc::new);
            self.pending.is_new = true;
        }
        let Pending { file, first, bytes, .. } = &mut self.pending;
        let written = file.as_ref().is_some_and(|file| file.write_all_at(bytes, *first * ROW_BYTES as u64).is_ok());
        *first += (bytes.len() / ROW_BYTES) as u64;
        bytes.clear();
        self.pending.is_lost |= !written;
    }

    /// The newest slot that was written with this key; `None` if it is not about a file with these facts.
    fn newest_slot(&mut self, facts: Option<Facts>) -> Option<Entry> {
        let secret = self.secret.as_ref()?;
        let file = File::open(self.folder.join("slots")).ok()?;
        let mut heads: Vec<(u64, SlotHead)> = (0..2).filter_map(|at| Some((at, head(&file, at)?))).collect();
        heads.sort_by_key(|(_, head)| std::cmp::Reverse(head.generation));
        for (at, head) in heads {
            let mut bytes = vec![0; head.bytes];
            if file.read_exact_at(&mut bytes, at * SLOT_BYTES_MAX as u64 + HEAD_BYTES as u64).is_ok()
                && head.fits(secret, &bytes)
                && let Ok(entry) = postcard::from_bytes::<Entry>(&bytes)
            {
                self.newest = Some((at, head.generation));
                return Some(entry)
                    .filter(|entry| facts.is_none_or(|facts| entry.facts == facts && entry.position.offset == facts.size));
            }
        }
        None
    }

    /// Whether the lines that a slot covers are what they were.
    fn still_stands(&self, entry: &Entry, log: &Log) -> Result<bool, LogError> {
        let covered = entry.position.offset;
        Ok(covered <= log.tail.whole && self.sum_of(log, covered)? == entry.cover.sum)
    }

    fn sum_of(&self, log: &Log, end: u64) -> Result<Sum, LogError> {
        let mut cover = Cover::default();
        let mut lines = Lines::from(&log.file, 0, end);
        let failed = |fault| io_error("read", &log.path)(fault);
        while lines.step().map_err(failed)? {
            match lines.whole() {
                Some(whole) => cover.sum.take(self.key, whole),
                None => cover.take_long(self.key, log, &lines, false).map_err(failed)?,
            }
        }
        Ok(cover.sum)
    }

    /// Makes the state out of a slot. `false` if the log or the rows do not hold what it speaks of.
    fn restore(&mut self, entry: Entry, log: &Log, state: &mut State, position: &mut Position) -> bool {
        let Entry { facts, position: covered, cover, snapshot } = entry;
        let events = snapshot.events();
        let Some(rows) = open_rows(&self.folder, events, covered.offset) else { return false };
        let fetch = |at: At| {
            let end = at.offset + u64::from(at.bytes);
            let mut bytes = vec![0; usize::try_from(at.bytes).ok().filter(|_| end <= covered.offset)?];
            log.file.read_exact_at(&mut bytes, at.offset).ok().map(|()| bytes)
        };
        let Some(made) = snapshot.restore(self.secret.clone(), fetch) else { return false };
        *state = made;
        *position = covered;
        self.cover = cover;
        self.facts = Some(facts);
        self.pending = Pending { file: Some(rows.into()), first: events, is_lost: self.only_looks, ..Pending::default() };
        true
    }

    /// Writes the index after a log was read that it did not cover, if nobody wrote since. Where it cannot be, nothing is lost.
    fn save_as_reader(&mut self, places: &Places, log: &Log, state: &State, position: &Position) {
        if self.secret.is_none() || self.pending.is_lost {
            return;
        }
        let Ok(lock) = Lock::exclusive(&places.lock, READER_WAITS) else { return };
        let is_there =
            |facts: Facts| self.facts == Some(facts) && self.facts == std::fs::metadata(&places.log).ok().as_ref().map(Facts::of);
        if log.facts().is_ok_and(is_there) {
            self.save(state, position, &lock);
        }
    }

    fn save(&mut self, state: &State, position: &Position, _lock: &Lock) {
        let Some(facts) = self.facts else { return };
        self.flush();
        self.pending.is_lost |= self.wrong.load(Ordering::Relaxed);
        let Some(secret) = self.secret.as_ref().filter(|_| !self.pending.is_lost) else { return };
        if self.pending.is_new && std::fs::rename(self.folder.join(NEW_ROWS), self.folder.join("rows")).is_err() {
            self.pending.is_lost = true;
            return;
        }
        self.pending.is_new = false;
        let (last, generation) = self.newest.unwrap_or((1, 0));
        let (at, generation) = (1 - last, generation.saturating_add(1));
        let entry = EntryOf { facts, position, cover: &self.cover, snapshot: Snapshot::of(state) };
        let bytes = postcard::to_stdvec(&entry).ok().and_then(|state| slot(secret, generation, &state));
        let open = || OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(self.folder.join("slots"));
        let write = |bytes: Vec<u8>| open()?.write_all_at(&bytes, at * SLOT_BYTES_MAX as u64);
        if bytes.is_some_and(|bytes| write(bytes).is_ok()) {
            self.newest = Some((at, generation));
        }
    }

    /// Gives a log its rows, if all of them are in their file.
    fn attach(&self, mut log: Log, state: &State) -> Log {
        let Pending { file, bytes, is_lost, .. } = &self.pending;
        log.is_plain = self.cover.is_plain;
        log.rows = file.as_ref().filter(|_| bytes.is_empty() && !is_lost).map(|file| Rows {
            file: file.clone(),
            count: state.events(),
            names: state.named().clone(),
            counts: state.counts().clone(),
            is_regular: self.cover.is_regular,
            slots: self.folder.join("slots"),
            wrong: self.wrong.clone(),
        });
        log
    }
}

impl Cover {
    /// Takes a line in that is too long to be held.
    fn take_long(&mut self, key: SumKey, log: &Log, lines: &Lines<'_>, is_chained: bool) -> io::Result<()> {
        let stretch = lines.start()..lines.next() - u64::from(lines.has_newline());
        let read = |each: &mut dyn FnMut(&[u8])| {
            copy(&log.file, stretch.clone(), |piece| {
                each(piece);
                Ok(())
            })
        };
        self.sum.take_long(key, read)?;
        if is_chained { self.chain.take_long(stretch.end - stretch.start, read) } else { Ok(()) }
    }
}

/// The name of rows that are not all there yet.
const NEW_ROWS: &str = "rows.new";

/// Makes an empty file for all rows, unless another process is at it.
fn new_rows(folder: &Path) -> io::Result<Option<File>> {
    DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    let path = folder.join(NEW_ROWS);
    let file = OpenOptions::new().read(true).write(true).create(true).truncate(false).mode(0o600).open(&path)?;
    let identity = |facts: &std::fs::Metadata| Facts::of(facts).identity;
    if file.try_lock().is_err() || identity(&file.metadata()?) != identity(&std::fs::metadata(&path)?) {
        return Ok(None);
    }
    file.set_len(0)?;
    Ok(Some(file))
}

/// Opens rows, if there are that many and the last one is no hole that a power cut left; for reading only where they cannot be
/// written.
fn open_rows(folder: &Path, count: u64, end: u64) -> Option<File> {
    let path = folder.join("rows");
    let file = OpenOptions::new().read(true).write(true).open(&path).or_else(|_| File::open(&path)).ok()?;
    let Some(last) = count.checked_sub(1) else { return Some(file) };
    let mut bytes = [0; ROW_BYTES];
    file.read_exact_at(&mut bytes, last * ROW_BYTES as u64).ok()?;
    let row = Row::decode(bytes);
    (row.bytes > 0 && row.end() <= end).then_some(file)
}

fn head(file: &File, at: u64) -> Option<SlotHead> {
    let mut bytes = [0; HEAD_BYTES];
    file.read_exact_at(&mut bytes, at * SLOT_BYTES_MAX as u64).ok()?;
    SlotHead::read(&bytes)
}

fn sum_key(secret: &Secret) -> SumKey {
    let mut key = [0; 32];
    // A mac is 64 hex digits.
    let _ = hex::decode_to_slice(secret.mac(Purpose::Index, &[b"sum"]), &mut key);
    SumKey::of(&key)
}
