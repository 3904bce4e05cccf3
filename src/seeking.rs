//! Seeking: the newest events that match a query, from a place of the log back.
//!
//! Part of the log's reading interface. What is read has a bound, so that a page of a long log costs no more than one of a short log;
//! where it ended is said, and seeking goes on from there. The invariant: what one seek gives, and what the next ones give that go
//! on where it ended, is what a query of the whole log gives, newest first.

use std::ops::ControlFlow;

use crate::event::Event;
use crate::log::{Log, LogError};
use crate::query::Query;
use crate::record::Line;
use crate::sifting::Sieve;

/// What is sought.
#[derive(Debug, Clone, Copy)]
pub struct Seek<'q> {
    /// Which events.
    pub query: &'q Query,
    /// Only what stands in front of this byte; `None` means all.
    pub before: Option<u64>,
    /// At most so many events.
    pub most: usize,
    /// After so many bytes of the log no further line is looked at. Where its rows are known, what they say cannot match costs none.
    pub bytes_max: u64,
}

/// What was found.
#[derive(Debug, Default)]
pub struct Sought {
    /// The events, newest first.
    pub events: Vec<Event<'static>>,
    /// The byte in front of which seeking goes on; `None` once all was looked at.
    pub next: Option<u64>,
}

impl Log {
    /// Seeks the newest events that match, from a place back. A record that bears no number is left out.
    ///
    /// # Errors
    /// When the log cannot be read.
    pub fn sought(&self, seek: Seek<'_>) -> Result<Sought, LogError> {
        let end = seek.before.unwrap_or(u64::MAX).min(self.tail().whole);
        match self.sieve(seek.query) {
            Some(sieve) => sought_by_rows(&sieve, seek, end),
            None => self.sought_by_lines(seek, end),
        }
    }

    fn sought_by_lines(&self, seek: Seek<'_>, end: u64) -> Result<Sought, LogError> {
        let mut sought = Sought::default();
        let least = end.saturating_sub(seek.bytes_max);
        self.back_from(end, |met| {
            if sought.events.len() >= seek.most || met.next <= least {
                sought.next = Some(met.next);
                return ControlFlow::Break(());
            }
            let Line::Record(record) = met.line else { return ControlFlow::Continue(()) };
            let event = record.seq.map(|seq| record.at(seq));
            sought.events.extend(event.filter(|event| seek.query.takes(event)).map(Event::into_owned));
            ControlFlow::Continue(())
        })?;
        Ok(sought)
    }
}

/// The same by the rows of the log: only what is read counts against the bound.
fn sought_by_rows(sieve: &Sieve<'_>, seek: Seek<'_>, end: u64) -> Result<Sought, LogError> {
    let mut sought = Sought::default();
    let (mut place, mut bytes) = (end, 0);
    sieve.back(end, &mut |looked| {
        if sought.events.len() >= seek.most || bytes >= seek.bytes_max {
            sought.next = Some(place);
            return ControlFlow::Break(());
        }
        place = looked.start;
        bytes += looked.text.len() as u64 + 1;
        sought.events.extend(looked.event.map(Event::into_owned));
        ControlFlow::Continue(())
    })?;
    Ok(sought)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log::Places;
    use crate::query::Typed;

    #[test]
    fn a_page_goes_on_where_the_one_before_it_ended() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("events.jsonl");
        let line = |seq: u64| {
            let name = if seq.is_multiple_of(3) { "rare.made" } else { "note.made" };
            format!(r#"{{"id":"{seq}","seq":{seq},"name":"{name}","occurred_at":"2026-11-30T00:00:00Z","payload":{{}}}}"#) + "\n"
        };
        std::fs::write(&path, (1..=30).map(line).collect::<String>()).unwrap();
        let (lock, torn) = (folder.path().join("lock"), folder.path().join("torn"));
        let log = Log::open(&Places { log: path, lock, torn }).unwrap().unwrap();
        let typed = Typed { name: vec!["rare.*".to_owned()], ..Typed::default() };
        let query = typed.query("2026-11-30T00:00:00Z".parse().unwrap()).unwrap();
        for (most, bytes_max) in [(4, u64::MAX), (100, 200), (1, 100), (100, u64::MAX)] {
            let (mut before, mut found, mut pages) = (None, Vec::new(), 0);
            loop {
                let sought = log.sought(Seek { query: &query, before, most, bytes_max }).unwrap();
                assert!(sought.events.len() <= most);
                found.extend(sought.events.iter().map(|event| event.seq));
                (before, pages) = (sought.next, pages + 1);
                if before.is_none() {
                    break;
                }
            }
            assert_eq!(found, (1..=10).rev().map(|third| third * 3).collect::<Vec<_>>());
            assert_eq!(pages == 1, most == 100 && bytes_max == u64::MAX);
        }
    }
}
