//! Spots: where one event stands in the log, its stored line, and what stands around it.
//!
//! Part of the log's reading interface. Where each event's number is known to be its place, what is read does not grow with the log.
//! The invariant: of several events that claim a number the first is given, and that there are others is said.

use std::ops::ControlFlow;

use crate::event::Event;
use crate::log::{Log, LogError, io_error};
use crate::record::Line;

/// An event and where it stands.
#[derive(Debug)]
pub struct Spot {
    /// The event.
    pub event: Event<'static>,
    /// Its stored line, without the newline.
    pub text: Vec<u8>,
    /// Where its line starts, in bytes.
    pub start: u64,
    /// Where the line behind it starts, in bytes.
    pub next: u64,
    /// How many other events claim its number.
    pub others: u64,
}

impl Log {
    /// The event of a number, and where it stands.
    ///
    /// # Errors
    /// When the log cannot be read.
    pub fn spot(&self, seq: u64) -> Result<Option<Spot>, LogError> {
        let Some(rows) = self.rows.as_ref().filter(|rows| rows.is_regular) else { return self.spot_of_all(seq) };
        let Some(at) = seq.checked_sub(1).filter(|at| *at < rows.count) else { return Ok(None) };
        let mut spot = None;
        self.onward(rows.row(at).map_err(io_error("read", &self.path))?.offset, |met| {
            if let Line::Record(record) = met.line
                && record.seq == Some(seq)
            {
                let (event, text) = (record.at(seq).into_owned(), met.text.to_vec());
                spot = Some(Spot { event, text, start: met.start, next: met.next, others: 0 });
            }
            ControlFlow::Break(())
        })?;
        if spot.is_none() {
            return Err(io_error("read", &self.path)(rows.wrong()));
        }
        Ok(spot)
    }

    /// The same for a log that has to be counted through.
    fn spot_of_all(&self, seq: u64) -> Result<Option<Spot>, LogError> {
        let (mut highest, mut spot) = (0, None::<Spot>);
        self.onward(0, |met| {
            let Line::Record(record) = met.line else { return ControlFlow::Continue(()) };
            let own = record.seq.unwrap_or(highest + 1);
            highest = highest.max(own);
            match &mut spot {
                Some(spot) if own == seq => spot.others += 1,
                None if own == seq => {
                    let (event, text) = (record.at(own).into_owned(), met.text.to_vec());
                    spot = Some(Spot { event, text, start: met.start, next: met.next, others: 0 });
                }
                Some(_) | None => {}
            }
            ControlFlow::Continue(())
        })?;
        Ok(spot)
    }

    /// The events behind a place, which is the start of a line, oldest first: at most so many, and none behind so many bytes.
    /// Records that bear no number are left out.
    ///
    /// # Errors
    /// When the log cannot be read.
    pub fn behind_place(&self, place: u64, most: usize, bytes_max: u64) -> Result<Vec<Event<'static>>, LogError> {
        let end = place.saturating_add(bytes_max);
        let mut events = Vec::new();
        self.onward(place, |met| {
            if events.len() >= most || met.start >= end {
                return ControlFlow::Break(());
            }
            if let Line::Record(record) = met.line
                && let Some(seq) = record.seq
            {
                events.push(record.at(seq).into_owned());
            }
            ControlFlow::Continue(())
        })?;
        Ok(events)
    }

    /// Whether a line may start at a place: at the log's start or end, or behind a newline.
    ///
    /// # Errors
    /// When the log cannot be read.
    pub fn starts_line(&self, place: u64) -> Result<bool, LogError> {
        let whole = self.tail().whole;
        Ok(place == 0 || place == whole || (place < whole && self.in_front_of(place, 1)? == b"\n"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log::Places;

    #[test]
    fn an_event_is_found_by_its_number_with_its_line_and_its_neighbours() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("events.jsonl");
        let lines = [
            "{\"seq\":1,\"name\":\"a.b\"}",
            "junk",
            "{\"name\":\"c.d\"}",
            "{\"seq\":2,\"name\":\"e.f\"}",
            "{\"seq\":7,\"name\":\"g.h\"}",
        ];
        std::fs::write(&path, lines.map(|line| format!("{line}\n")).concat()).unwrap();
        let (lock, torn) = (folder.path().join("lock"), folder.path().join("torn"));
        let log = Log::open(&Places { log: path, lock, torn }).unwrap().unwrap();
        let spot = log.spot(2).unwrap().unwrap();
        assert_eq!((&*spot.event.name, &*spot.text, spot.start, spot.others), ("c.d", lines[2].as_bytes(), 28, 1));
        let names = |events: Vec<Event<'static>>| events.into_iter().map(|event| event.name.into_owned()).collect::<Vec<_>>();
        assert_eq!(names(log.behind_place(spot.next, 9, 1 << 20).unwrap()), ["e.f", "g.h"]);
        assert_eq!(names(log.behind_place(spot.next, 1, 1 << 20).unwrap()), ["e.f"]);
        assert_eq!(names(log.behind_place(spot.next, 9, 1).unwrap()), ["e.f"]);
        assert!(log.spot(3).unwrap().is_none() && log.spot(0).unwrap().is_none());
        let starts: Vec<u64> = (0..200).filter(|place| log.starts_line(*place).unwrap()).collect();
        assert_eq!(starts, [0, 23, 28, 43, 66, 89]);
    }
}
