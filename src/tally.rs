//! Tallies: how many events there are of each day, month, door and speaker, and between which rows those of each stand.
//!
//! A tally holds so many keys and no more; what does not fit is counted as one. The invariant: all counts together are the events
//! taken in, and taking in a log in two parts gives what taking it in whole gives; no event of a key stands outside of the rows of the
//! key and those of the rest.

use std::collections::BTreeMap;
use std::ops::Range;

use serde::{Deserialize, Serialize};

/// How many keys a tally holds: all days of a year's calendar, and some.
pub const KEYS_MAX: usize = 400;

/// How many events, the oldest and the newest of them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counted {
    /// How many.
    pub count: u64,
    /// The row of the oldest, counted from 0.
    pub oldest: u64,
    /// The row of the newest, counted from 0.
    pub newest: u64,
}

impl Counted {
    fn add(&mut self, other: Counted) {
        self.oldest = if self.count == 0 { other.oldest } else { self.oldest.min(other.oldest) };
        self.newest = self.newest.max(other.newest);
        self.count += other.count;
    }

    /// The rows between which they stand; none if there are none.
    #[must_use]
    pub fn rows(&self) -> Range<u64> {
        if self.count == 0 { 0..0 } else { self.oldest..self.newest + 1 }
    }
}

/// Which key gives way when there are too many.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Yields {
    /// The one with the fewest events, of these the one whose newest is oldest.
    #[default]
    Rarest,
    /// The first in order: of days, the oldest.
    First,
}

/// Events counted by a key.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tally {
    keys: BTreeMap<String, Counted>,
    rest: Counted,
    yields: Yields,
}

impl Tally {
    /// A tally of nothing.
    #[must_use]
    pub fn of(yields: Yields) -> Tally {
        Tally { yields, ..Tally::default() }
    }

    /// The keys, in order, and what was counted of each.
    pub fn keys(&self) -> impl DoubleEndedIterator<Item = (&str, Counted)> {
        self.keys.iter().map(|(key, counted)| (key.as_str(), *counted))
    }

    /// The rows between which the events of a key stand: its own, and the rest's, which it may have been part of.
    #[must_use]
    pub fn rows(&self, key: &str) -> Range<u64> {
        let own = self.keys.get(key).copied().unwrap_or_default();
        hull(own.rows(), self.rest.rows())
    }

    /// What was counted of all keys that are not held.
    #[must_use]
    pub fn rest(&self) -> Counted {
        self.rest
    }

    /// Counts the event of a row.
    pub fn take(&mut self, key: &str, row: u64) {
        let one = Counted { count: 1, oldest: row, newest: row };
        if let Some(counted) = self.keys.get_mut(key) {
            return counted.add(one);
        }
        self.keys.insert(key.to_owned(), one);
        if self.keys.len() > KEYS_MAX {
            let gone = match self.yields {
                Yields::First => self.keys.keys().next(),
                Yields::Rarest => self.keys.iter().min_by_key(|(_, counted)| (counted.count, counted.newest)).map(|(key, _)| key),
            };
            if let Some(counted) = gone.cloned().and_then(|key| self.keys.remove(&key)) {
                self.rest.add(counted);
            }
        }
    }
}

/// The smallest stretch that holds two.
#[must_use]
pub fn hull(one: Range<u64>, other: Range<u64>) -> Range<u64> {
    match (one.is_empty(), other.is_empty()) {
        (true, _) => other,
        (_, true) => one,
        (false, false) => one.start.min(other.start)..one.end.max(other.end),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(yields: Yields, keys: impl Iterator<Item = String>, kept: &str, gone: &str, rest: Counted) {
        let mut tally = Tally::of(yields);
        let mut all = 0;
        for (key, row) in keys.zip(0..) {
            tally.take(&key, row);
            all += 1;
        }
        assert_eq!(tally.keys().map(|(_, counted)| counted.count).sum::<u64>() + tally.rest().count, all);
        assert!(tally.keys().any(|(key, _)| key == kept) && !tally.keys().any(|(key, _)| key == gone));
        assert_eq!((tally.rest(), tally.keys().count()), (rest, KEYS_MAX));
    }

    #[test]
    fn what_does_not_fit_is_counted_as_one() {
        let many = || (0..=KEYS_MAX).map(|n| format!("{n:04}"));
        check(Yields::First, many(), "0001", "0000", Counted { count: 1, oldest: 0, newest: 0 });
        let twice = ["0000".to_owned()].into_iter().chain(many());
        check(Yields::Rarest, twice, "0000", "0001", Counted { count: 1, oldest: 2, newest: 2 });
    }

    #[test]
    fn no_event_of_a_key_stands_outside_of_its_rows() {
        for yields in [Yields::First, Yields::Rarest] {
            let mut tally = Tally::of(yields);
            let keys: Vec<_> = (0..3 * KEYS_MAX as u64).map(|row| format!("{:04}", row * 7919 % 577)).collect();
            for (key, row) in keys.iter().zip(0..) {
                tally.take(key, row);
            }
            for (key, row) in keys.iter().zip(0..) {
                assert!(tally.rows(key).contains(&row), "{key}, row {row}");
            }
            let held: Vec<_> = tally.keys().map(|(_, counted)| counted.rows()).collect();
            assert!(held.iter().all(|rows| !rows.is_empty()) && !tally.rest().rows().is_empty());
        }
        assert_eq!((Tally::default().rows("x"), hull(3..5, 0..0), hull(7..9, 2..4)), (0..0, 3..5, 2..9));
    }
}
