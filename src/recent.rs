//! The newest events of the log, and where those behind a number begin.
//!
//! Reads from the end, or where the log's rows say, and only as much as is asked for, so it costs the same at any size of the log.
//! The invariant: what is given are whole records of the last whole batch and those before it, oldest first.

use std::ops::ControlFlow;

use crate::event::Event;
use crate::log::{Log, LogError};
use crate::record::Line;

/// How much of the log's end is looked at for the newest events, in bytes.
pub const RECENT_BYTES: u64 = 1 << 20;

impl Log {
    /// The newest events, at most `n`, of about the last [`RECENT_BYTES`]; records without a number are left out.
    ///
    /// # Errors
    /// When the log cannot be read.
    pub fn recent(&self, n: usize) -> Result<Vec<Event<'static>>, LogError> {
        let least = self.tail().whole.saturating_sub(RECENT_BYTES);
        let mut newest = Vec::new();
        self.back(|met| {
            let start = met.start;
            if let Line::Record(record) = met.line
                && let Some(seq) = record.seq
            {
                newest.push(record.at(seq).into_owned());
            }
            if newest.len() >= n || start < least { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        })?;
        newest.reverse();
        Ok(newest)
    }

    /// Where the first line stands that bears a number greater than this one; the end of the log if none does. Numbers are taken to
    /// grow; `verify` says where they do not.
    ///
    /// # Errors
    /// When the log cannot be read.
    pub fn behind(&self, seq: u64) -> Result<u64, LogError> {
        if seq == 0 {
            return self.behind_all(0);
        }
        if let Some(rows) = self.regular_rows() {
            if seq >= rows.count {
                return Ok(self.tail().whole);
            }
            match self.nth(rows, seq) {
                Ok((_, row)) => return Ok(row.offset),
                Err(_) => drop(rows.wrong()),
            }
        }
        let mut place = self.tail().whole;
        let mut is_numbered = true;
        self.back(|met| {
            let Line::Record(record) = &met.line else { return ControlFlow::Continue(()) };
            is_numbered = record.seq.is_some();
            match record.seq {
                Some(own) if own > seq => {
                    place = met.start;
                    ControlFlow::Continue(())
                }
                Some(_) | None => ControlFlow::Break(()),
            }
        })?;
        if is_numbered { Ok(place) } else { self.behind_all(seq) }
    }

    /// The same for a log whose records are numbered by their place.
    fn behind_all(&self, seq: u64) -> Result<u64, LogError> {
        let mut place = self.tail().whole;
        let mut highest = 0;
        self.onward(0, |met| {
            let Line::Record(record) = &met.line else { return ControlFlow::Continue(()) };
            highest = record.seq.unwrap_or(highest + 1).max(highest);
            if highest <= seq {
                return ControlFlow::Continue(());
            }
            place = met.start;
            ControlFlow::Break(())
        })?;
        Ok(place)
    }
}
