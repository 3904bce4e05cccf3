//! Stretches of the log: its lines from a place on, and back from the end, until whoever looks has seen enough.
//!
//! Part of the log's reading interface: nothing behind the last whole batch is shown, and what is read grows with what is looked
//! at. Never numbers a record that bears no number: that takes all lines in front of it. The invariant: both ways show the same
//! lines.

use std::ops::ControlFlow;
use std::os::unix::fs::FileExt;

use crate::backwards::Backwards;
use crate::lines::{Lines, copy};
use crate::log::{Log, LogError, io_error};
use crate::record::Line;

/// A line that was met on the way through the log.
#[derive(Debug)]
pub struct Met<'l> {
    /// Where it starts.
    pub start: u64,
    /// Where the line behind it starts.
    pub next: u64,
    /// What it is.
    pub line: Line<'l>,
    /// Its bytes, without the newline and what is no part of a record.
    pub text: &'l [u8],
}

impl Log {
    /// Shows the lines from a place on, which is the start of a line.
    pub fn onward(&self, from: u64, mut each: impl FnMut(Met<'_>) -> ControlFlow<()>) -> Result<(), LogError> {
        let mut lines = Lines::from(&self.file, from, self.tail.whole.max(from));
        while lines.step().map_err(io_error("read", &self.path))? {
            let met = Met { start: lines.start(), next: lines.next(), line: lines.line(), text: lines.text() };
            if each(met).is_break() {
                break;
            }
        }
        Ok(())
    }

    /// Shows the lines from the last to the first.
    pub fn back(&self, each: impl FnMut(Met<'_>) -> ControlFlow<()>) -> Result<(), LogError> {
        self.back_from(self.tail.whole, each)
    }

    /// Shows the lines in front of a place, which is the start of a line, from the last to the first.
    pub fn back_from(&self, place: u64, mut each: impl FnMut(Met<'_>) -> ControlFlow<()>) -> Result<(), LogError> {
        let end = place.min(self.tail.whole);
        let mut lines = Backwards::from(end, |buffer: &mut [u8], at| self.file.read_exact_at(buffer, at));
        while lines.step().map_err(io_error("read", &self.path))? {
            let met = Met { start: lines.start(), next: lines.next(), line: lines.line(), text: lines.text() };
            if each(met).is_break() {
                break;
            }
        }
        Ok(())
    }

    /// The bytes in front of a place: at most so many as the buffer holds.
    pub fn in_front_of(&self, place: u64, bytes_max: u64) -> Result<Vec<u8>, LogError> {
        let length = place.min(bytes_max);
        let mut bytes = vec![0; usize::try_from(length).unwrap_or(usize::MAX)];
        self.file.read_exact_at(&mut bytes, place - length).map_err(io_error("read", &self.path))?;
        Ok(bytes)
    }

    /// How many newlines stand between two places.
    pub fn newlines(&self, from: u64, to: u64) -> Result<u64, LogError> {
        let mut count = 0;
        let counted = copy(&self.file, from..to, |piece| {
            count += memchr::memchr_iter(b'\n', piece).count() as u64;
            Ok(())
        });
        counted.map_err(io_error("read", &self.path)).map(|()| count)
    }
}
