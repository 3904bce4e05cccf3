//! Windows: records that stand near each other in the log, read at once.
//!
//! Reads only what its rows name, and what lies between them. The invariant: a record is given only if it stands, as a line of its own,
//! where its row says.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use crate::record::{BOM, RECORD_BYTES_READ_MAX};
use crate::rows::{Chosen, Row, Rows};

/// How far apart two records may stand and still be read at once, in bytes.
pub(crate) const GAP_BYTES_MAX: u64 = 4 << 10;

/// How much is read at once, in bytes, unless one record is longer.
pub(crate) const WINDOW_BYTES_MAX: u64 = 256 << 10;

/// Records that stand near each other, read at once.
pub(crate) struct Windows<'l> {
    file: &'l Arc<File>,
    /// Where the last whole batch ends.
    whole: u64,
    rows: &'l Rows,
    held: Vec<Row>,
    ahead: Option<Row>,
    bytes: Vec<u8>,
    start: u64,
}

impl<'l> Windows<'l> {
    /// Windows over a log's file, up to the end of its last whole batch.
    pub(crate) fn of(file: &'l Arc<File>, whole: u64, rows: &'l Rows) -> Windows<'l> {
        Windows { file, whole, rows, held: Vec::new(), ahead: None, bytes: Vec::new(), start: 0 }
    }

    /// The rows of the window.
    pub(crate) fn rows(&self) -> &[Row] {
        &self.held
    }

    /// Reads the next window; `false` if nothing is left.
    pub(crate) fn fill(&mut self, chosen: &mut Chosen) -> io::Result<bool> {
        self.held.clear();
        let Some(first) = self.ahead.take().map_or_else(|| chosen.next_row(), |row| Ok(Some(row)))? else { return Ok(false) };
        self.held.push(first);
        let mut end = first.end();
        while let Some(row) = chosen.next_row()? {
            if row.offset > end + GAP_BYTES_MAX || row.end() - first.offset > WINDOW_BYTES_MAX {
                self.ahead = Some(row);
                break;
            }
            end = end.max(row.end());
            self.held.push(row);
        }
        let whole = self.whole;
        // The byte order mark of the file, or the newline in front; a CR and the newline behind.
        self.start = first.offset.saturating_sub(BOM.len() as u64);
        if end > whole || u64::from(first.bytes) > RECORD_BYTES_READ_MAX as u64 {
            return Err(self.rows.wrong());
        }
        self.bytes.resize(usize::try_from((end + 2).min(whole) - self.start).unwrap_or(usize::MAX), 0);
        self.file.read_exact_at(&mut self.bytes, self.start)?;
        Ok(true)
    }

    /// The bytes between two places of this window that were looked at.
    pub(crate) fn bytes(&self, run: Row) -> &[u8] {
        let at = |offset: u64| usize::try_from(offset - self.start).unwrap_or(usize::MAX);
        &self.bytes[at(run.offset)..at(run.end())]
    }

    /// The file that is looked at.
    pub(crate) fn file(&self) -> &Arc<File> {
        self.file
    }

    /// Whether a newline, and no CR, follows what ends here in this window.
    pub(crate) fn has_newline(&self, run: Row) -> bool {
        let end = usize::try_from(run.end() - self.start).unwrap_or(usize::MAX);
        self.bytes.get(end) == Some(&b'\n')
    }

    /// The record of a row of this window, if it stands there as a line of its own.
    pub(crate) fn line(&self, row: Row) -> io::Result<&[u8]> {
        let at = |offset: u64| usize::try_from(offset - self.start).unwrap_or(usize::MAX);
        let (line, end) = (at(row.offset)..at(row.end()), &self.bytes[at(row.end())..]);
        let front = &self.bytes[..line.start];
        let begins = front.last() == Some(&b'\n') || (self.start == 0 && (front.is_empty() || front == BOM));
        let ends = matches!(end, [] | [b'\n', ..] | [b'\r'] | [b'\r', b'\n', ..]);
        let is_one = begins && ends && row.bytes > 0 && row.offset >= self.start;
        match is_one && memchr::memchr(b'\n', &self.bytes[line.clone()]).is_none() {
            true => Ok(&self.bytes[line]),
            false => Err(self.rows.wrong()),
        }
    }
}
