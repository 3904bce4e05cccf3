//! Following: `self log --follow`, the events of the log as they arrive.
//!
//! Looks at the log whenever its file changed, while no write is under way, and reads only what is new. Where the file shrank or is
//! another, it steps back to what it has not shown. Never shows bytes that may yet be cut. The invariant: an event that stays in
//! the log is shown once.

use std::io::Write;
use std::ops::ControlFlow;
use std::os::unix::fs::MetadataExt;

use crate::browsing::{BrowseFault, Leafed, Place, Shape, Show, newest, placed};
use crate::kernel::{Error, Kernel, damaged};
use crate::lock::{Lock, LockFault, READER_WAITS};
use crate::log::{Log, LogError};
use crate::query::{Query, Span};
use crate::record::Line;

/// How many bytes in front of the place that was reached tell whether they still stand there.
const MARK_BYTES: u64 = 256;

/// What is followed, and how it is shown.
pub struct Follow<'f> {
    /// Which events.
    pub query: &'f Query,
    /// Which of those that are there already; `None` for none.
    pub earlier: Option<Span>,
    /// How they are shown.
    pub shape: &'f Shape,
    /// Waits a moment; `false` once nobody reads any more.
    pub pause: &'f dyn Fn() -> bool,
    /// Says lines on stderr.
    pub say: &'f dyn Fn(&[String]),
}

/// What tells that a file is as it was.
type Facts = (u64, u64, u64, i64, i64, i64, i64);

/// How far the log was shown.
struct Reached {
    identity: Option<(u64, u64)>,
    place: Place,
    /// The last bytes in front of it.
    mark: Vec<u8>,
}

/// The log, while no write is under way.
enum Still {
    Log(Log),
    /// A write is under way, and takes long.
    Busy,
    Gone,
}

impl Kernel {
    /// Shows events as they arrive, until nobody reads any more.
    pub fn follow(&self, follow: &Follow<'_>, out: &mut dyn Write) -> Result<(), BrowseFault> {
        let (mut facts, first) = loop {
            let facts = self.facts();
            if let Some(leafed) = self.leafed_at_once()? {
                break (facts, leafed);
            }
            match self.still()? {
                Still::Log(log) => break (facts, Leafed { log, damage: None }),
                Still::Gone => return Err(Error::NoHome(self.home.root().to_owned()).into()),
                Still::Busy if (follow.pause)() => {}
                Still::Busy => return Ok(()),
            }
        };
        if let Some(span) = follow.earlier {
            let words = self.shown(&first, follow.query, span, follow.shape, out, &|| true)?;
            (follow.say)(&words);
            out.flush().map_err(BrowseFault::Out)?;
        }
        let place = Place { start: first.log.tail().whole, highest: newest(&first.log)?.unwrap_or(0) };
        let mut reached = Reached::at(&first.log, place)?;
        while (follow.pause)() {
            let now = self.facts();
            if now == facts {
                continue;
            }
            match self.still()? {
                Still::Log(log) => reached = arrived(&log, reached, follow, out)?,
                Still::Busy => continue,
                Still::Gone => (follow.say)(&["the log is gone; waiting for it to be there again".to_owned()]),
            }
            facts = now;
        }
        Ok(())
    }

    /// What tells that the log is as it was; `None` where there is none.
    fn facts(&self) -> Option<Facts> {
        let facts = std::fs::metadata(self.home.places().log).ok()?;
        Some((facts.dev(), facts.ino(), facts.size(), facts.mtime(), facts.mtime_nsec(), facts.ctime(), facts.ctime_nsec()))
    }

    fn still(&self) -> Result<Still, LogError> {
        let places = self.home.places();
        let _lock = match Lock::shared(&places.lock, READER_WAITS) {
            Err(LockFault::Busy) => return Ok(Still::Busy),
            held => held,
        };
        Ok(Log::open(&places)?.map_or(Still::Gone, Still::Log))
    }
}

impl Reached {
    fn at(log: &Log, place: Place) -> Result<Reached, LogError> {
        Ok(Reached { identity: log.identity(), place, mark: log.in_front_of(place.start, MARK_BYTES)? })
    }

    /// Whether all that was shown still stands where it stood.
    fn stands_in(&self, log: &Log) -> Result<bool, LogError> {
        Ok(self.identity == log.identity()
            && self.place.start <= log.tail().whole
            && self.mark == log.in_front_of(self.place.start, MARK_BYTES)?)
    }
}

/// Shows what is new, and says how far that is.
fn arrived(log: &Log, reached: Reached, follow: &Follow<'_>, out: &mut dyn Write) -> Result<Reached, BrowseFault> {
    let mut place = reached.place;
    if !reached.stands_in(log)? {
        place = behind(log, reached.place.highest)?;
        let words = format!("the log is not what it was: it was cut, or another was put here; going on at byte {}", place.start);
        (follow.say)(&[words]);
    }
    if holds_unnumbered(log, place.start)? {
        place.highest = highest_before(log, place.start)?;
    }
    let (query, shape) = (follow.query, follow.shape);
    let mut show = Show { log, query, shape, out, damage: Vec::new(), goes_on: &|| true };
    place = show.onward(place)?;
    let damage = placed(log, show.damage)?;
    (follow.say)(&damaged(&damage, damage.len() as u64).into_iter().collect::<Vec<_>>());
    out.flush().map_err(BrowseFault::Out)?;
    Ok(Reached::at(log, place)?)
}

/// The place behind the newest record whose number is not higher than this.
fn behind(log: &Log, highest: u64) -> Result<Place, LogError> {
    let mut place = Place { start: log.tail().whole, highest: 0 };
    log.back(|met| match met.line {
        Line::Record(record) if record.seq.is_some_and(|seq| seq > highest) => {
            place.start = met.start;
            ControlFlow::Continue(())
        }
        Line::Record(record) => {
            place.highest = record.seq.unwrap_or(0);
            ControlFlow::Break(())
        }
        Line::Blank | Line::Damaged => ControlFlow::Continue(()),
    })?;
    Ok(place)
}

/// Whether a record from here on bears no number.
fn holds_unnumbered(log: &Log, start: u64) -> Result<bool, LogError> {
    let mut found = false;
    log.onward(start, |met| {
        found = matches!(&met.line, Line::Record(record) if record.seq.is_none());
        if found { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    })?;
    Ok(found)
}

/// The highest number in front of a place.
fn highest_before(log: &Log, end: u64) -> Result<u64, LogError> {
    let mut highest = 0;
    log.onward(0, |met| {
        if met.start >= end {
            return ControlFlow::Break(());
        }
        if let Line::Record(record) = met.line {
            highest = highest.max(record.seq.unwrap_or(highest + 1));
        }
        ControlFlow::Continue(())
    })?;
    Ok(highest)
}
