//! Feeds: the records of a log that a script gets on its stdin.
//!
//! The lines as they stand, each ended by one newline, in file order; blank and damaged lines, a byte order mark and CRs are left
//! out. A whole log with none of these goes as it stands in the file; of a log whose rows are known, what was chosen is looked at
//! where it stands and nothing else is read, and then gathered, or goes as it stands where much of it stands side by side; where its
//! rows turn out not to fit it, all that was not fed yet is read line by line. The invariant: every record that is wanted is fed once,
//! or the feed fails.

use std::collections::{BTreeMap, VecDeque};
use std::fs::File;
use std::io::{self, Cursor, PipeWriter, Write};
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use rustix::io::Errno;
use rustix::pipe::{SpliceFlags, splice};

use crate::lines::{Lines, READ_BYTES};
use crate::log::{Log, LogError, io_error};
use crate::names::REST;
use crate::record::{Line, has_name};
use crate::rows::{Chosen, Row, Rows};
use crate::windows::Windows;

/// A piece of what a script is fed, from where it was poured to.
#[derive(Debug, Clone)]
pub enum Piece {
    /// Bytes.
    Bytes(Cursor<Vec<u8>>),
    /// A stretch of a file as it stands; it must not be cut meanwhile.
    Stretch(Arc<File>, Range<u64>),
}

impl Default for Piece {
    fn default() -> Piece {
        Piece::of(Vec::new())
    }
}

impl Piece {
    /// A piece of these bytes.
    #[must_use]
    pub fn of(bytes: Vec<u8>) -> Piece {
        Piece::Bytes(Cursor::new(bytes))
    }

    /// Whether all of it was poured.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        match self {
            Piece::Bytes(bytes) => bytes.position() >= bytes.get_ref().len() as u64,
            Piece::Stretch(_, stretch) => stretch.is_empty(),
        }
    }

    /// Pours what a pipe has room for, and says how many bytes. A stretch goes by reference, where the file system can do that.
    pub fn pour(&mut self, pipe: &mut PipeWriter) -> io::Result<usize> {
        let (file, stretch) = match self {
            Piece::Bytes(bytes) => {
                let at = usize::try_from(bytes.position()).unwrap_or(usize::MAX);
                let poured = pipe.write(bytes.get_ref().get(at..).unwrap_or_default())?;
                bytes.set_position((at + poured) as u64);
                return Ok(poured);
            }
            Piece::Stretch(file, stretch) => (file, stretch),
        };
        let most = usize::try_from(stretch.end - stretch.start).unwrap_or(usize::MAX).min(SPLICE_BYTES_MAX);
        let flags = SpliceFlags::NONBLOCK;
        match splice(&*file, Some(&mut stretch.start), &*pipe, None, most, flags) {
            Ok(0) => Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(poured) => Ok(poured),
            Err(Errno::INVAL | Errno::NOSYS) => {
                let mut bytes = vec![0; most.min(READ_BYTES)];
                file.read_exact_at(&mut bytes, stretch.start)?;
                let poured = pipe.write(&bytes)?;
                stretch.start += poured as u64;
                Ok(poured)
            }
            Err(fault) => Err(fault.into()),
        }
    }

    /// Its bytes, all of them in memory.
    pub fn into_bytes(self) -> io::Result<Vec<u8>> {
        match self {
            Piece::Bytes(bytes) => Ok(bytes.into_inner()),
            Piece::Stretch(file, stretch) => {
                let mut bytes = vec![0; usize::try_from(stretch.end - stretch.start).unwrap_or(usize::MAX)];
                file.read_exact_at(&mut bytes, stretch.start)?;
                Ok(bytes)
            }
        }
    }
}

/// How much is spliced at once, in bytes.
const SPLICE_BYTES_MAX: usize = 1 << 20;

/// How much has to stand side by side to go as it stands, in bytes: each page of it takes up a place in the pipe.
const STRETCH_BYTES_MIN: usize = 8 << 10;

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
    wanted: Wanted,
    source: Source<'l>,
    /// What stands in front of this byte was fed.
    fed: u64,
}

/// Where the lines come from.
enum Source<'l> {
    /// The file as it stands.
    Whole(Vec<Piece>),
    /// What was chosen of its rows, and what was gathered of them.
    Rows(&'l Rows, Windows<'l>, Chosen, Gathered),
    /// All lines, read one by one; of each name, how many are still to be left out.
    Lines(Lines<'l>, BTreeMap<String, u64>),
}

impl Log {
    /// Feeds the records that are wanted, in file order.
    pub fn feed(&self, wanted: Wanted) -> Result<Feed<'_>, LogError> {
        let rows = self.rows.as_ref().filter(|rows| !rows.are_wrong());
        let source = match rows {
            Some(_) if wanted.names.is_empty() && wanted.last.is_none() && self.is_plain => Source::Whole(self.as_it_stands()),
            Some(rows) if wanted.last.is_none() || rows.names.entry(REST).count == 0 => {
                let ids = rows.ids(|name| wanted.takes(name));
                match rows.choose(&ids, wanted.last) {
                    Ok(chosen) => Source::Rows(rows, Windows::of(&self.file, self.tail.whole, rows), chosen, Gathered::default()),
                    Err(_) => self.lines(rows, &wanted)?,
                }
            }
            Some(_) | None => Source::Lines(Lines::from(&self.file, 0, self.tail.whole), self.older(&wanted)?),
        };
        Ok(Feed { log: self, wanted, source, fed: 0 })
    }

    /// All lines, where the rows do not fit the log.
    fn lines(&self, rows: &Rows, wanted: &Wanted) -> Result<Source<'_>, LogError> {
        rows.wrong();
        Ok(Source::Lines(Lines::from(&self.file, 0, self.tail.whole), self.older(wanted)?))
    }

    /// The whole file, and the newline that it may lack; the last piece first.
    fn as_it_stands(&self) -> Vec<Piece> {
        let mut pieces = Vec::new();
        if self.tail.lacks_newline {
            pieces.push(Piece::of(b"\n".to_vec()));
        }
        if self.tail.whole > 0 {
            pieces.push(Piece::Stretch(self.file.clone(), 0..self.tail.whole));
        }
        pieces
    }

    /// How many records of each name are older than the newest ones that are wanted.
    fn older(&self, wanted: &Wanted) -> Result<BTreeMap<String, u64>, LogError> {
        let mut skip = BTreeMap::new();
        if let Some(last) = wanted.last {
            self.all(|event| {
                if wanted.takes(&event.name) {
                    *skip.entry(event.name.into_owned()).or_insert(0) += 1;
                }
            })?;
            skip.values_mut().for_each(|count: &mut u64| *count = count.saturating_sub(last));
        }
        Ok(skip)
    }
}

impl Feed<'_> {
    /// The next piece, of at most about 256 KiB if it is bytes; `None` at the end.
    pub fn next_piece(&mut self) -> Result<Option<Piece>, LogError> {
        let failed = |fault| io_error("read", &self.log.path)(fault);
        let mut piece = Vec::new();
        match &mut self.source {
            Source::Whole(pieces) => return Ok(pieces.pop()),
            Source::Rows(rows, windows, chosen, gathered) => {
                let rows: &Rows = rows;
                while gathered.pieces.is_empty() {
                    let filled = windows.fill(chosen).and_then(|is_filled| {
                        if is_filled {
                            gathered.take(&self.wanted, rows, windows)?;
                        }
                        Ok(is_filled)
                    });
                    match filled {
                        Ok(true) => self.fed = windows.rows().last().map_or(self.fed, |row| row.end()),
                        Ok(false) => break,
                        Err(_) => {
                            let whole = gathered.next_piece();
                            self.source = self.log.lines(rows, &self.wanted)?;
                            return if whole.is_none() { self.next_piece() } else { Ok(whole) };
                        }
                    }
                }
                return Ok(gathered.next_piece());
            }
            Source::Lines(lines, skip) => {
                while piece.len() < READ_BYTES && lines.step().map_err(failed)? {
                    let Line::Record(record) = lines.line() else { continue };
                    if !self.wanted.takes(record.name()) {
                        continue;
                    }
                    if let Some(left) = skip.get_mut(record.name()).filter(|left| **left > 0) {
                        *left -= 1;
                        continue;
                    }
                    if lines.start() < self.fed {
                        continue;
                    }
                    piece.extend_from_slice(lines.text());
                    piece.push(b'\n');
                }
            }
        }
        Ok((!piece.is_empty()).then(|| Piece::of(piece)))
    }
}

/// What was gathered from where it stands: whole pieces, and the bytes that the next one begins with.
#[derive(Default)]
struct Gathered {
    pieces: VecDeque<Piece>,
    bytes: Vec<u8>,
    /// Of one window, what stands side by side, as one row each.
    runs: Vec<Row>,
}

impl Gathered {
    /// Takes the records of a window that are wanted, each with its newline; those that stand side by side at once. All of them, or
    /// none if one is not what its row says.
    fn take(&mut self, wanted: &Wanted, rows: &Rows, windows: &Windows<'_>) -> io::Result<()> {
        self.runs.clear();
        for row in windows.rows() {
            let line = windows.line(*row)?;
            let is_it = match row.name {
                REST => has_name(line, |name| wanted.takes(name)),
                id => has_name(line, |name| name == rows.names.entry(id).name),
            };
            if !is_it && row.name != REST {
                return Err(rows.wrong());
            }
            match self.runs.last_mut().filter(|run| run.end() + 1 == row.offset) {
                Some(run) if is_it => run.bytes = u32::try_from(row.end() - run.offset).map_err(|_| rows.wrong())?,
                Some(_) | None if is_it => self.runs.push(*row),
                Some(_) | None => {}
            }
        }
        for run in std::mem::take(&mut self.runs) {
            self.add(windows, run);
        }
        Ok(())
    }

    fn add(&mut self, windows: &Windows<'_>, run: Row) {
        let bytes = windows.bytes(run);
        if bytes.len() >= STRETCH_BYTES_MIN && windows.has_newline(run) {
            self.close();
            self.pieces.push_back(Piece::Stretch(windows.file().clone(), run.offset..run.end() + 1));
            return;
        }
        if self.bytes.capacity() == 0 {
            self.bytes.reserve_exact(READ_BYTES.max(bytes.len() + 1));
        }
        self.bytes.extend_from_slice(bytes);
        self.bytes.push(b'\n');
        if self.bytes.len() >= READ_BYTES {
            self.close();
        }
    }

    /// The bytes so far are a piece.
    fn close(&mut self) {
        if !self.bytes.is_empty() {
            self.pieces.push_back(Piece::of(std::mem::take(&mut self.bytes)));
        }
    }

    fn next_piece(&mut self) -> Option<Piece> {
        if self.pieces.is_empty() {
            self.close();
        }
        self.pieces.pop_front()
    }
}
