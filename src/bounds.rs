//! Bounds: between which rows of a log what a query takes can stand, and under which names.
//!
//! Pure: a function of the query and of what the fold counted. Never says where an event stands, only where none does. The
//! invariant: an event that the query takes stands within the bounds, whatever moment, door or speaker it claims.

use std::ops::Range;

use jiff::civil::Date;
use jiff::tz::TimeZone;
use jiff::{Timestamp, ToSpan};

use crate::event::Door;
use crate::names::{NameId, Names, REST};
use crate::query::Query;
use crate::state::{Counts, HTTP};
use crate::tally::{Tally, hull};

/// Where what is asked for can stand.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bounds {
    /// Between which rows.
    pub rows: Range<u64>,
    /// Under which entries of the names; `None` for any.
    pub ids: Option<Vec<NameId>>,
}

impl Query {
    /// Where the events that are asked for can stand in a log of so many.
    #[must_use]
    pub fn bounds(&self, names: &Names, counts: &Counts, count: u64) -> Bounds {
        let mut rows = self.after.unwrap_or(0)..count;
        let mut narrow = |to: Range<u64>| rows = rows.start.max(to.start)..rows.end.min(to.end);
        if let Some(by) = &self.by {
            narrow(counts.speakers.rows(Counts::key(by)));
        }
        if let Some(via) = &self.via {
            narrow(through(via, &counts.doors));
        }
        if self.since.is_some() || self.until.is_some() {
            narrow(within(self.since, self.until, &counts.days));
        }
        let ids = self.ids(names);
        if ids.as_ref().is_some_and(Vec::is_empty) {
            rows = 0..0;
        }
        Bounds { rows, ids }
    }

    /// The entries of the names that are asked for; `None` if they are all.
    fn ids(&self, names: &Names) -> Option<Vec<NameId>> {
        if self.names.is_empty() {
            return None;
        }
        let (own, rest) = names.entries();
        let fits = |name: &str| self.names.iter().any(|glob| glob.fits(name));
        let mut ids: Vec<_> = own.iter().zip(0..).filter(|(named, _)| fits(&named.name)).map(|(_, id)| id).collect();
        if ids.len() == own.len() && rest.count == 0 {
            return None;
        }
        ids.extend((rest.count > 0).then_some(REST));
        Some(ids)
    }

    /// Whether it asks for less than all, other than by what stands in the payloads.
    #[must_use]
    pub fn is_narrow(&self) -> bool {
        let is_claimed = self.by.is_some() || self.via.is_some() || !self.names.is_empty();
        is_claimed || self.since.is_some() || self.until.is_some() || self.after.is_some()
    }
}

/// The rows between which the events stand that came through a door, or through any of its kind.
fn through(via: &str, doors: &Tally) -> Range<u64> {
    let wanted = match Door::read(via.into()) {
        Door::Http(_) => HTTP,
        Door::Cli | Door::Pipe | Door::Kernel | Door::Learn(_) | Door::Other(_) => Counts::key(via),
    };
    let mut rows = doors.rows(wanted);
    if via == "learn" {
        for (door, counted) in doors.keys() {
            if matches!(Door::read(door.into()), Door::Learn(_)) {
                rows = hull(rows, counted.rows());
            }
        }
    }
    rows
}

/// The rows between which the events stand whose moments can lie within two. Days are counted as their moments are written, with
/// whatever offset: less than a day apart from UTC.
fn within(since: Option<Timestamp>, until: Option<Timestamp>, days: &Tally) -> Range<u64> {
    let [since, until] = [since, until].map(|moment| moment.map(|moment| TimeZone::UTC.to_datetime(moment).date()));
    let ends_late = |day: Date| since.is_none_or(|since| day.saturating_add(1.day()) >= since);
    let starts_early = |day: Date| until.is_none_or(|until| day.saturating_sub(1.day()) <= until);
    let mut rows = 0..0;
    for (day, counted) in days.keys() {
        // What is no day begins no moment.
        if day.parse::<Date>().is_ok_and(|day| ends_late(day) && starts_early(day)) {
            rows = hull(rows, counted.rows());
        }
    }
    // The days that are not held are those before all that are.
    let first = days.keys().next().and_then(|(day, _)| day.parse::<Date>().ok());
    if first.is_none_or(ends_late) { hull(rows, days.rest().rows()) } else { rows }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::query::Typed;
    use crate::tally::KEYS_MAX;

    /// The names and the counts of some events: name, moment, door, speaker.
    fn folded(events: &[[&str; 4]]) -> (Names, Counts) {
        let (mut names, mut counts) = (Names::default(), Counts::default());
        for ([name, moment, door, speaker], row) in events.iter().zip(0..) {
            names.take(name, row, row + 1);
            counts.days.take(moment.get(..10).unwrap_or_default(), row);
            counts.doors.take(door, row);
            counts.speakers.take(speaker, row);
        }
        (names, counts)
    }

    #[track_caller]
    fn check(typed: Typed, rows: Range<u64>) {
        let (names, counts) = folded(&[
            ["a.b", "2026-03-01T12:00:00Z", "pipe", "ada"],
            ["c.d", "2026-03-05T12:00:00Z", "http", ""],
            ["a.b", "2026-03-01T23:00:00-05:00", "learn:x", "bob"],
            ["e.f", "2026-03-09T12:00:00Z", "learn:y", "ada"],
            ["a.b", "yesterday", "http", ""],
        ]);
        let query = typed.query("2026-03-10T00:00:00Z".parse().unwrap()).unwrap();
        let found = query.bounds(&names, &counts, 5).rows;
        assert_eq!(if found.is_empty() { 0..0 } else { found }, rows, "{typed:?}");
    }

    #[test]
    fn nothing_outside_of_the_bounds_can_match() {
        let some = |text: &str| Some(text.to_owned());
        let none = Typed::default;
        check(none(), 0..5);
        check(Typed { after: some("2"), ..none() }, 2..5);
        check(Typed { after: some("99"), ..none() }, 0..0);
        check(Typed { by: some("ada"), ..none() }, 0..4);
        check(Typed { by: some("bob"), ..none() }, 2..3);
        check(Typed { by: some("nobody"), ..none() }, 0..0);
        check(Typed { via: some("http"), ..none() }, 1..5);
        check(Typed { via: some("http:[::1]"), ..none() }, 1..5);
        check(Typed { via: some("learn"), ..none() }, 2..4);
        check(Typed { via: some("learn:y"), ..none() }, 3..4);
        check(Typed { via: some("cli"), ..none() }, 0..0);
        check(Typed { since: some("2026-03-02"), ..none() }, 0..4);
        check(Typed { since: some("2026-03-03"), ..none() }, 1..4);
        check(Typed { since: some("2d"), ..none() }, 3..4);
        check(Typed { since: some("2026-04-01"), ..none() }, 0..0);
        check(Typed { until: some("2026-03-01"), ..none() }, 0..3);
        check(Typed { until: some("2026-02-01"), ..none() }, 0..0);
        check(Typed { since: some("2026-03-05"), until: some("2026-03-06"), by: some("ada"), ..none() }, 1..2);
        check(Typed { name: vec!["no.such".to_owned()], ..none() }, 0..0);
    }

    #[test]
    fn a_day_that_is_not_held_can_match_what_is_before_all_that_are() {
        let mut days = Counts::default().days;
        let day = |n: i32| Date::constant(2026, 1, 1).saturating_add(n.days());
        for (n, row) in (0..KEYS_MAX as i32 + 9).zip(0..) {
            days.take(&day(n).to_string(), row);
        }
        let moment = |n: i32| crate::moment::read(&format!("{}T00:00:00Z", day(n)));
        assert_eq!(within(moment(3), moment(4), &days), 0..9);
        assert_eq!(within(moment(100), moment(101), &days), 99..103);
        assert_eq!(within(None, moment(-9), &days), 0..9);
    }
}
