//! Sifting: the events of a log that a query takes, newest first or in file order, found by its rows.
//!
//! Part of the log's reading interface, for a log whose rows are known and whose events claim their places. Only what can match is
//! read; where the rows turn out not to fit the log, all that was not given yet is read line by line. The invariant: what is given
//! is what a whole reading would give, in the same order, each once.

use std::io;
use std::ops::{ControlFlow, Range};
use std::os::unix::fs::FileExt;

use crate::backwards::Backwards;
use crate::bounds::Bounds;
use crate::event::Event;
use crate::lines::Lines;
use crate::log::{Log, LogError, io_error};
use crate::query::Query;
use crate::record::{Line, seq_in_front};
use crate::rows::{Back, Chosen, Row, Rows};
use crate::windows::{GAP_BYTES_MAX, WINDOW_BYTES_MAX, Windows};

/// How much is read at once of what is nearest to the end, in bytes; of what follows twice as much each time.
const WINDOW_BYTES_MIN: u64 = 16 << 10;

/// A line that was looked at.
#[derive(Debug)]
pub(crate) struct Looked<'l> {
    /// Where its record starts.
    pub(crate) start: u64,
    /// Its bytes, without the newline and what is no part of a record.
    pub(crate) text: &'l [u8],
    /// The event, if it is asked for.
    pub(crate) event: Option<Event<'l>>,
}

/// What is done with each line that was looked at.
pub(crate) type Each<'e> = &'e mut dyn FnMut(Looked<'_>) -> ControlFlow<()>;

/// A query of a log whose rows are known.
#[derive(Debug)]
pub(crate) struct Sieve<'l> {
    log: &'l Log,
    rows: &'l Rows,
    query: &'l Query,
    bounds: Bounds,
}

impl Log {
    /// A query of this log by its rows; `None` where they are not known, or its events do not claim their places.
    pub(crate) fn sieve<'l>(&'l self, query: &'l Query) -> Option<Sieve<'l>> {
        let rows = self.regular_rows()?;
        let bounds = query.bounds(&rows.names, &rows.counts, rows.count);
        Some(Sieve { log: self, rows, query, bounds })
    }
}

impl Sieve<'_> {
    /// Looks at what can match in front of a byte, newest first.
    pub(crate) fn back(&self, before: u64, each: Each<'_>) -> Result<(), LogError> {
        let mut place = before.min(self.log.tail.whole);
        let by_rows = self.back_by_rows(place, &mut |looked| {
            place = looked.start;
            each(looked)
        });
        match by_rows {
            Ok(()) => Ok(()),
            Err(_) => {
                self.rows.wrong();
                self.back_through(0..place, each)
            }
        }
    }

    /// Looks at what can match from a row on, in file order.
    pub(crate) fn onward(&self, from: u64, each: Each<'_>) -> Result<(), LogError> {
        let mut place = 0;
        let by_rows = self.onward_by_rows(from, &mut |looked| {
            place = looked.start + looked.text.len() as u64;
            each(looked)
        });
        match by_rows {
            Ok(()) => Ok(()),
            Err(_) => {
                self.rows.wrong();
                self.onward_through(place..self.log.tail.whole, &mut |looked| {
                    let is_wanted = looked.event.as_ref().is_none_or(|event| event.seq > from);
                    if is_wanted { each(looked) } else { ControlFlow::Continue(()) }
                })
            }
        }
    }

    fn back_by_rows(&self, before: u64, each: Each<'_>) -> Result<(), LogError> {
        let failed = |fault| io_error("read", &self.log.path)(fault);
        let in_front = if before == self.log.tail.whole { self.rows.count } else { self.in_front(before).map_err(failed)? };
        let wanted = self.bounds.rows.start..self.bounds.rows.end.min(in_front);
        if wanted.is_empty() {
            return Ok(());
        }
        match &self.bounds.ids {
            None => {
                let stretch = self.stretch(wanted).map_err(failed)?;
                self.back_through(stretch.start..stretch.end.min(before), each)
            }
            Some(ids) => self.rows.back(ids, wanted).and_then(|back| self.back_along(back, each)).map_err(failed),
        }
    }

    fn onward_by_rows(&self, from: u64, each: Each<'_>) -> Result<(), LogError> {
        let failed = |fault| io_error("read", &self.log.path)(fault);
        let wanted = self.bounds.rows.start.max(from)..self.bounds.rows.end;
        if wanted.is_empty() {
            return Ok(());
        }
        match &self.bounds.ids {
            None => self.onward_through(self.stretch(wanted).map_err(failed)?, each),
            Some(ids) => self.rows.between(ids, wanted).and_then(|chosen| self.onward_along(chosen, each)).map_err(failed),
        }
    }

    /// How many events end in front of a byte.
    fn in_front(&self, before: u64) -> io::Result<u64> {
        let (mut least, mut most) = (0, self.rows.count);
        while least < most {
            let middle = least + (most - least) / 2;
            if self.rows.row(middle)?.end() <= before { least = middle + 1 } else { most = middle }
        }
        let ends = |at: u64| self.log.nth(self.rows, at).map(|(_, row)| row.end());
        let is_last = least == 0 || ends(least - 1)? <= before;
        if is_last && (least == self.rows.count || ends(least)? > before) { Ok(least) } else { Err(self.rows.wrong()) }
    }

    /// The bytes between which the events of these rows stand.
    fn stretch(&self, wanted: Range<u64>) -> io::Result<Range<u64>> {
        let starts = |at: u64| self.log.nth(self.rows, at).map(|(_, row)| row.offset);
        let start = if wanted.start == 0 { 0 } else { starts(wanted.start)? };
        let end = if wanted.end == self.rows.count { self.log.tail.whole } else { starts(wanted.end)? };
        Ok(start..end)
    }

    /// Looks at all lines of a stretch, last first.
    fn back_through(&self, stretch: Range<u64>, each: Each<'_>) -> Result<(), LogError> {
        let failed = |fault| io_error("read", &self.log.path)(fault);
        let mut lines = Backwards::from(stretch.end, |buffer: &mut [u8], at| self.log.file.read_exact_at(buffer, at));
        while lines.step().map_err(failed)? {
            if lines.next() <= stretch.start {
                break;
            }
            let (start, text) = (lines.start() + lines.skipped() as u64, lines.text());
            let event = if self.query.may_take(text) { self.taken(lines.line()) } else { None };
            if each(Looked { start, text, event }).is_break() {
                break;
            }
        }
        Ok(())
    }

    /// Looks at all lines of a stretch.
    fn onward_through(&self, stretch: Range<u64>, each: Each<'_>) -> Result<(), LogError> {
        let failed = |fault| io_error("read", &self.log.path)(fault);
        let mut lines = Lines::from(&self.log.file, stretch.start, stretch.end);
        while lines.step().map_err(failed)? {
            let (start, text) = (lines.start() + lines.skipped() as u64, lines.text());
            let event = if self.query.may_take(text) { self.taken(lines.line()) } else { None };
            if each(Looked { start, text, event }).is_break() {
                break;
            }
        }
        Ok(())
    }

    fn taken<'e>(&self, line: Line<'e>) -> Option<Event<'e>> {
        let Line::Record(record) = line else { return None };
        record.seq.map(|seq| record.at(seq)).filter(|event| self.query.takes(event))
    }

    /// Looks at records that stand in many places, newest first: those near each other are read at once.
    fn back_along(&self, mut back: Back, each: Each<'_>) -> io::Result<()> {
        let mut windows = Windows::of(&self.log.file, self.log.tail.whole, self.rows);
        let (mut most, mut ahead) = (WINDOW_BYTES_MIN, back.next_row()?);
        while let Some(last) = ahead.take() {
            let mut near = vec![last];
            let mut start = last.1.offset;
            while let Some((at, row)) = back.next_row()? {
                if start - row.end() > GAP_BYTES_MAX || last.1.end() - row.offset > most {
                    ahead = Some((at, row));
                    break;
                }
                start = row.offset;
                near.push((at, row));
            }
            let rows: Vec<Row> = near.iter().rev().map(|(_, row)| *row).collect();
            windows.fill(&mut Chosen::Listed(rows.into_iter()))?;
            for (at, row) in near {
                if self.look(&windows, row, |seq| seq == at + 1, each)?.is_break() {
                    return Ok(());
                }
            }
            most = (2 * most).min(WINDOW_BYTES_MAX);
        }
        Ok(())
    }

    /// The same in file order.
    fn onward_along(&self, mut chosen: Chosen, each: Each<'_>) -> io::Result<()> {
        let (mut windows, mut highest) = (Windows::of(&self.log.file, self.log.tail.whole, self.rows), 0);
        while windows.fill(&mut chosen)? {
            for row in windows.rows() {
                let grows = |seq| seq > std::mem::replace(&mut highest, seq);
                if self.look(&windows, *row, grows, each)?.is_break() {
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    /// Looks at the record of a row, if it has the number that it should have.
    fn look(
        &self,
        windows: &Windows<'_>,
        row: Row,
        is_due: impl FnOnce(u64) -> bool,
        each: Each<'_>,
    ) -> io::Result<ControlFlow<()>> {
        let text = windows.line(row)?;
        let start = row.offset;
        if !self.query.may_take(text)
            && let Some(seq) = seq_in_front(text)
        {
            return if is_due(seq) { Ok(each(Looked { start, text, event: None })) } else { Err(self.rows.wrong()) };
        }
        let Line::Record(record) = Line::read(text) else { return Err(self.rows.wrong()) };
        let Some(seq) = record.seq.filter(|seq| is_due(*seq)) else { return Err(self.rows.wrong()) };
        let event = Some(record.at(seq)).filter(|event| self.query.takes(event));
        Ok(each(Looked { start, text, event }))
    }
}
