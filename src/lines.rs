//! Lines: a stretch of a file, one line at a time through one buffer.
//!
//! Bytes split on 0x0A only. A line longer than any record is passed by without being held. The invariant: memory stays within
//! [`RECORD_BYTES_READ_MAX`], whatever the file holds.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;

use crate::record::{BOM, Line, RECORD_BYTES_READ_MAX};

/// How much is read at a time, in bytes.
pub const READ_BYTES: usize = 256 << 10;

/// The lines of a stretch of a file, one at a time through one buffer.
pub struct Lines<'f> {
    file: &'f File,
    end: u64,
    read_to: u64,
    buffer: Vec<u8>,
    /// Where the unread part of the buffer starts.
    at: usize,
    line: Range<usize>,
    start: u64,
    newline: bool,
    huge: bool,
}

impl<'f> Lines<'f> {
    /// The lines between two places, of which the first is the start of a line.
    #[must_use]
    pub fn from(file: &'f File, start: u64, end: u64) -> Lines<'f> {
        Lines { file, end, read_to: start, buffer: Vec::new(), at: 0, line: 0..0, start, newline: false, huge: false }
    }

    /// Moves to the next line; `false` at the end.
    pub fn step(&mut self) -> io::Result<bool> {
        self.huge = false;
        self.start = self.next();
        let mut searched = self.at;
        loop {
            if let Some(found) = memchr::memchr(b'\n', &self.buffer[searched..]) {
                self.line = self.at..searched + found;
                self.at = self.line.end + 1;
                self.newline = true;
                return Ok(true);
            }
            if self.read_to == self.end {
                self.line = self.at..self.buffer.len();
                self.at = self.buffer.len();
                self.newline = false;
                return Ok(self.huge || !self.line.is_empty());
            }
            if self.buffer.len() - self.at > RECORD_BYTES_READ_MAX {
                self.huge = true;
                self.at = self.buffer.len();
            }
            self.buffer.drain(..self.at);
            self.at = 0;
            searched = self.buffer.len();
            let more = usize::try_from(self.end - self.read_to).unwrap_or(usize::MAX).min(READ_BYTES);
            self.buffer.resize(searched + more, 0);
            self.file.read_exact_at(&mut self.buffer[searched..], self.read_to)?;
            self.read_to += more as u64;
        }
    }

    /// The line moved to, as what it is in a log.
    #[must_use]
    pub fn line(&self) -> Line<'_> {
        self.whole().map_or(Line::Damaged, |line| Line::of(line, self.start == 0))
    }

    /// Its bytes as they stand, without the newline; `None` if it is longer than [`RECORD_BYTES_READ_MAX`].
    #[must_use]
    pub fn whole(&self) -> Option<&[u8]> {
        (!self.huge).then(|| &self.buffer[self.line.clone()])
    }

    /// Its bytes: a BOM at the start of the file and a CR at the end are no part of it. Of a line longer than
    /// [`RECORD_BYTES_READ_MAX`] only the end is held.
    #[must_use]
    pub fn text(&self) -> &[u8] {
        let line = &self.buffer[self.line.clone()];
        let line = if self.start == 0 { line.strip_prefix(BOM).unwrap_or(line) } else { line };
        line.strip_suffix(b"\r").unwrap_or(line)
    }

    /// How many bytes at its start are no part of it: a BOM's.
    #[must_use]
    pub fn skipped(&self) -> usize {
        let is_marked = self.start == 0 && self.buffer[self.line.clone()].starts_with(BOM);
        if is_marked { BOM.len() } else { 0 }
    }

    /// Whether a newline ends it.
    #[must_use]
    pub fn has_newline(&self) -> bool {
        self.newline
    }

    /// Whether it is longer than [`RECORD_BYTES_READ_MAX`].
    #[must_use]
    pub fn is_huge(&self) -> bool {
        self.huge
    }

    /// Where it starts.
    #[must_use]
    pub fn start(&self) -> u64 {
        self.start
    }

    /// Where the next one starts.
    #[must_use]
    pub fn next(&self) -> u64 {
        self.read_to - (self.buffer.len() - self.at) as u64
    }
}

/// Reads a stretch of a file in pieces.
pub fn copy(file: &File, stretch: Range<u64>, mut each: impl FnMut(&[u8]) -> io::Result<()>) -> io::Result<()> {
    let mut at = stretch.start;
    let mut buffer = vec![0; READ_BYTES];
    while at < stretch.end {
        let piece = usize::try_from(stretch.end - at).unwrap_or(usize::MAX).min(READ_BYTES);
        file.read_exact_at(&mut buffer[..piece], at)?;
        each(&buffer[..piece])?;
        at += piece as u64;
    }
    Ok(())
}
