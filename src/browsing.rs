//! Browsing: `self log`, the events of the log for a person or a program.
//!
//! What is asked for is found by the log's rows where they are known, else from the end of the log, so that what is read grows with
//! what is asked for. Never writes to the home but for the cache in `.self/index`. The invariant: what is shown stands in the log, in
//! whole batches, the same however it was found, and each damaged line that a whole reading meets is named once.

use std::collections::VecDeque;
use std::io::{self, Write};
use std::ops::ControlFlow;

use crate::event::Event;
use crate::head::Head;
use crate::kernel::{DAMAGE_NAMED_MAX, Error, Kernel, View, damaged, torn};
use crate::listing::Manner;
use crate::log::{Damage, Log, LogError, Position};
use crate::query::{Query, Span};
use crate::quotation::on_one_line;
use crate::record::{Line, Record};
use crate::sifting::Sieve;

/// Of how many events the places are held while they are counted from the end; of more all are sought once more.
const PLACES_MAX: u64 = 4096;

/// In which form events are shown.
#[derive(Debug, Clone)]
pub enum Shape {
    /// Lines for a person.
    Listed(Manner),
    /// The stored lines byte for byte; at a terminal their control characters show.
    Stored {
        /// Whether it goes to a terminal.
        terminal: bool,
    },
}

/// Why browsing ended early.
#[derive(Debug)]
pub enum BrowseFault {
    /// The home could not be read.
    Kernel(Error),
    /// What was found could not be printed.
    Out(io::Error),
}

impl<E: Into<Error>> From<E> for BrowseFault {
    fn from(fault: E) -> BrowseFault {
        BrowseFault::Kernel(fault.into())
    }
}

/// A place in the log from which events can be shown in order.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Place {
    pub(crate) start: u64,
    /// The highest number in front of it, which numbers a record that bears none.
    pub(crate) highest: u64,
}

/// A log that is open, and what is known of it.
pub(crate) struct Leafed {
    pub(crate) log: Log,
    /// All of its damaged lines; `None` where they are not known.
    pub(crate) damage: Option<Vec<Damage>>,
}

/// What is shown, of which log, and where.
pub(crate) struct Show<'s> {
    pub(crate) log: &'s Log,
    pub(crate) query: &'s Query,
    pub(crate) shape: &'s Shape,
    pub(crate) out: &'s mut dyn Write,
    /// Where the damaged lines start that were met.
    pub(crate) damage: Vec<u64>,
    /// Whether somebody still reads.
    pub(crate) goes_on: &'s dyn Fn() -> bool,
}

impl Kernel {
    /// Shows the events that are asked for; says, when it is done, what the caller should be told on stderr.
    pub fn browse(
        &self,
        query: &Query,
        span: Span,
        shape: &Shape,
        out: &mut dyn Write,
        goes_on: &dyn Fn() -> bool,
    ) -> Result<Vec<String>, BrowseFault> {
        self.shown(&self.leafed(query)?, query, span, shape, out, goes_on)
    }

    /// The same, of a log that is open.
    pub(crate) fn shown(
        &self,
        leafed: &Leafed,
        query: &Query,
        span: Span,
        shape: &Shape,
        out: &mut dyn Write,
        goes_on: &dyn Fn() -> bool,
    ) -> Result<Vec<String>, BrowseFault> {
        let log = &leafed.log;
        let mut show = Show { log, query, shape, out, damage: Vec::new(), goes_on };
        if let Some((damage, sieve)) = leafed.damage.as_ref().zip(log.sieve(query)) {
            let from = show.by_rows(&sieve, span)?;
            let met: Vec<_> = damage.iter().filter(|damage| from.is_some_and(|from| damage.offset >= from)).copied().collect();
            self.recall(log)?;
            return Ok(torn(log).into_iter().chain(damaged(&met, met.len() as u64)).collect());
        }
        match span {
            Span { newest: None, reverse: false } => show.onward(Place { start: 0, highest: 0 }).map(drop)?,
            Span { newest: Some(newest), reverse: false } => {
                if let Some(place) = show.place_of_newest(newest)? {
                    show.onward(place)?;
                }
            }
            Span { newest, reverse: true } => show.back(newest.unwrap_or(u64::MAX))?,
        }
        let mut words: Vec<_> = torn(log).into_iter().collect();
        let damage = placed(log, show.damage)?;
        words.extend(damaged(&damage, damage.len() as u64));
        self.recall(log)?;
        Ok(words)
    }

    pub(crate) fn open(&self) -> Result<Log, Error> {
        Log::open(&self.home.places())?.ok_or_else(|| Error::NoHome(self.home.root().to_owned()))
    }

    /// The log, with its rows where all of it is known. Where it is not, it is read for them if the query asks for less than all.
    pub(crate) fn leafed(&self, query: &Query) -> Result<Leafed, Error> {
        if let Some(leafed) = self.leafed_at_once()? {
            return Ok(leafed);
        }
        let mut view = self.unread();
        if view.secret.is_some() && query.is_narrow() {
            view = self.look()?;
        }
        match view.log.take() {
            Some(log) => Ok(Leafed::of(log, &view.position)),
            None => self.open().map(|log| Leafed { log, damage: None }),
        }
    }

    /// The log, if all of it is known.
    pub(crate) fn leafed_at_once(&self) -> Result<Option<Leafed>, Error> {
        let View { mut state, mut position, mut index, .. } = self.unread();
        let log = index.known_log(&self.home.places(), &mut state, &mut position)?;
        Ok(log.map(|log| Leafed::of(log, &position)))
    }

    /// Notices a log that seems to have been longer. Only then is all of it read.
    fn recall(&self, log: &Log) -> Result<(), Error> {
        let unread = self.unread();
        let remembered = self.memory(unread.secret.as_ref()).and_then(|memory| memory.recall());
        if let Some(was) = remembered
            && was.is_beyond(Head { seq: newest(log)?.unwrap_or(0), bytes: log.tail().size })
        {
            self.look()?;
        }
        Ok(())
    }
}

impl Leafed {
    fn of(log: Log, position: &Position) -> Leafed {
        let is_all = position.damaged == position.damage.len() as u64;
        Leafed { log, damage: is_all.then(|| position.damage.clone()) }
    }
}

/// The number that the newest record bears, if there is one and it bears any.
pub(crate) fn newest(log: &Log) -> Result<Option<u64>, LogError> {
    let mut newest = None;
    log.back(|met| match met.line {
        Line::Record(record) => {
            newest = record.seq;
            ControlFlow::Break(())
        }
        Line::Blank | Line::Damaged => ControlFlow::Continue(()),
    })?;
    Ok(newest)
}

/// Damaged lines by the number of their line, those that are named.
pub(crate) fn placed(log: &Log, mut starts: Vec<u64>) -> Result<Vec<Damage>, LogError> {
    starts.sort_unstable();
    let (mut line, mut counted) = (1, 0);
    let mut damage = Vec::with_capacity(starts.len());
    for (at, offset) in starts.into_iter().enumerate() {
        if at < DAMAGE_NAMED_MAX {
            line += log.newlines(counted, offset)?;
            counted = offset;
        }
        damage.push(Damage { line, offset });
    }
    Ok(damage)
}

impl Shape {
    pub(crate) fn write(&self, event: &Event<'_>, text: &[u8], out: &mut dyn Write) -> io::Result<()> {
        match self {
            Shape::Listed(manner) => out.write_all(manner.line(event).as_bytes()),
            Shape::Stored { terminal: false } => {
                out.write_all(text)?;
                out.write_all(b"\n")
            }
            Shape::Stored { terminal: true } => {
                out.write_all(on_one_line(&String::from_utf8_lossy(text)).as_bytes())?;
                out.write_all(b"\n")
            }
        }
    }
}

impl Show<'_> {
    /// Shows what matches from a place on; says where it ended.
    pub(crate) fn onward(&mut self, place: Place) -> Result<Place, BrowseFault> {
        let mut place = place;
        let mut failed = None;
        self.log.onward(place.start, |met| {
            place.start = met.next;
            match met.line {
                Line::Blank => ControlFlow::Continue(()),
                Line::Damaged => {
                    self.damage.push(met.start);
                    ControlFlow::Continue(())
                }
                Line::Record(record) => {
                    let seq = record.seq.unwrap_or(place.highest + 1);
                    place.highest = place.highest.max(seq);
                    let event = record.at(seq);
                    let shown = if self.query.takes(&event) { self.shape.write(&event, met.text, self.out) } else { Ok(()) };
                    self.after(shown, &mut failed)
                }
            }
        })?;
        failed.map_or(Ok(place), |fault| Err(BrowseFault::Out(fault)))
    }

    /// Shows what matches, as the rows of the log give it. Gives the place from which on a whole reading would have met what is
    /// damaged, if it would have met any.
    fn by_rows(&mut self, sieve: &Sieve<'_>, span: Span) -> Result<Option<u64>, BrowseFault> {
        match span {
            Span { newest: Some(0), .. } => Ok(None),
            Span { newest: None, reverse: false } => self.onward_by_rows(sieve, 0).map(|()| Some(0)),
            Span { newest: Some(newest), reverse: false } => self.newest_by_rows(sieve, newest),
            Span { newest, reverse: true } => {
                let (mut left, mut from, mut failed) = (newest.unwrap_or(u64::MAX), 0, None);
                sieve.back(u64::MAX, &mut |looked| {
                    let Some(event) = looked.event else { return self.after(Ok(()), &mut failed) };
                    left -= 1;
                    let shown = self.shape.write(&event, looked.text, self.out);
                    if left == 0 {
                        from = looked.start;
                    }
                    let goes_on = self.after(shown, &mut failed);
                    if left == 0 { ControlFlow::Break(()) } else { goes_on }
                })?;
                failed.map_or(Ok(Some(from)), |fault| Err(BrowseFault::Out(fault)))
            }
        }
    }

    /// Shows what matches behind a number.
    fn onward_by_rows(&mut self, sieve: &Sieve<'_>, seq: u64) -> Result<(), BrowseFault> {
        let mut failed = None;
        sieve.onward(seq, &mut |looked| {
            let shown = looked.event.map_or(Ok(()), |event| self.shape.write(&event, looked.text, self.out));
            self.after(shown, &mut failed)
        })?;
        failed.map_or(Ok(()), |fault| Err(BrowseFault::Out(fault)))
    }

    /// Shows the newest so many that match, and says where the oldest of them starts.
    fn newest_by_rows(&mut self, sieve: &Sieve<'_>, newest: u64) -> Result<Option<u64>, BrowseFault> {
        let (mut places, mut count, mut oldest) = (Vec::new(), 0, None);
        sieve.back(u64::MAX, &mut |looked| {
            if let Some(event) = looked.event {
                let end = looked.start + looked.text.len() as u64;
                (count, oldest) = (count + 1, Some((looked.start, event.seq)));
                if count <= PLACES_MAX {
                    places.push(looked.start..end);
                }
            }
            if count == newest || !(self.goes_on)() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        })?;
        let Some((start, seq)) = oldest else { return Ok(None) };
        if count > PLACES_MAX {
            return self.onward_by_rows(sieve, seq - 1).map(|()| Some(start));
        }
        let mut failed = None;
        for place in places.into_iter().rev() {
            let text = self.log.in_front_of(place.end, place.end - place.start)?;
            let Line::Record(record) = Line::of(&text, place.start == 0) else { continue };
            let Some(seq) = record.seq else { continue };
            let shown = self.shape.write(&record.at(seq), &text, self.out);
            if self.after(shown, &mut failed).is_break() {
                break;
            }
        }
        failed.map_or(Ok(Some(start)), |fault| Err(BrowseFault::Out(fault)))
    }

    /// Where the newest so many start that match; `None` if none does.
    fn place_of_newest(&mut self, newest: u64) -> Result<Option<Place>, BrowseFault> {
        let (mut left, mut found, mut unnumbered) = (newest, None, None);
        self.log.back(|met| {
            if left == 0 || !(self.goes_on)() {
                return ControlFlow::Break(());
            }
            let Line::Record(record) = met.line else { return ControlFlow::Continue(()) };
            let Some(seq) = record.seq else {
                unnumbered = Some(met.next);
                return ControlFlow::Break(());
            };
            if self.query.takes(&record.at(seq)) {
                left -= 1;
                found = Some(Place { start: met.start, highest: 0 });
            }
            ControlFlow::Continue(())
        })?;
        match unnumbered {
            None => Ok(found),
            Some(end) => Ok(self.numbered(end, left)?.front().copied().or(found)),
        }
    }

    /// Shows what matches from the last to the first, so many at most.
    fn back(&mut self, newest: u64) -> Result<(), BrowseFault> {
        let (mut left, mut unnumbered, mut failed) = (newest, None, None);
        self.log.back(|met| {
            if left == 0 {
                return ControlFlow::Break(());
            }
            match met.line {
                Line::Blank => ControlFlow::Continue(()),
                Line::Damaged => {
                    self.damage.push(met.start);
                    ControlFlow::Continue(())
                }
                Line::Record(Record { seq: None, .. }) => {
                    unnumbered = Some(met.next);
                    ControlFlow::Break(())
                }
                Line::Record(record) => {
                    let event = record.seq.map(|seq| record.at(seq));
                    let Some(event) = event.filter(|event| self.query.takes(event)) else { return ControlFlow::Continue(()) };
                    left -= 1;
                    let shown = self.shape.write(&event, met.text, self.out);
                    self.after(shown, &mut failed)
                }
            }
        })?;
        if let Some(fault) = failed {
            return Err(BrowseFault::Out(fault));
        }
        let Some(end) = unnumbered else { return Ok(()) };
        for place in self.numbered(end, left)?.into_iter().rev() {
            self.one(place)?;
        }
        Ok(())
    }

    /// The places of the newest so many that match in front of an end, each with what numbers it: all lines in front of it are
    /// read, for one of them bears no number.
    fn numbered(&mut self, end: u64, newest: u64) -> Result<VecDeque<Place>, BrowseFault> {
        let (mut highest, mut places) = (0, VecDeque::new());
        self.log.onward(0, |met| {
            if met.start >= end || newest == 0 {
                return ControlFlow::Break(());
            }
            let Line::Record(record) = met.line else { return ControlFlow::Continue(()) };
            let (seq, before) = (record.seq.unwrap_or(highest + 1), highest);
            highest = highest.max(seq);
            if self.query.takes(&record.at(seq)) {
                places.push_back(Place { start: met.start, highest: before });
                if places.len() as u64 > newest {
                    places.pop_front();
                }
            }
            ControlFlow::Continue(())
        })?;
        Ok(places)
    }

    /// Shows the event at a place.
    fn one(&mut self, place: Place) -> Result<(), BrowseFault> {
        let mut shown = Ok(());
        self.log.onward(place.start, |met| {
            if let Line::Record(record) = met.line {
                let seq = record.seq.unwrap_or(place.highest + 1);
                shown = self.shape.write(&record.at(seq), met.text, self.out);
            }
            ControlFlow::Break(())
        })?;
        shown.map_err(BrowseFault::Out)
    }

    fn after(&self, shown: io::Result<()>, failed: &mut Option<io::Error>) -> ControlFlow<()> {
        match shown {
            Err(fault) => {
                *failed = Some(fault);
                ControlFlow::Break(())
            }
            Ok(()) if (self.goes_on)() => ControlFlow::Continue(()),
            Ok(()) => ControlFlow::Break(()),
        }
    }
}
