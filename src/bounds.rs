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
            narrow(within(self.since, self.until, counts));
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
    let of_kind = matching(doors, |door| via == "learn" && matches!(Door::read(door.into()), Door::Learn(_)));
    hull(doors.rows(wanted), of_kind)
}

/// The rows between which the events stand whose moments can lie within two.
fn within(since: Option<Timestamp>, until: Option<Timestamp>, counts: &Counts) -> Range<u64> {
    let [since, until] = [since, until].map(|moment| moment.map(|moment| TimeZone::UTC.to_datetime(moment).date()));
    // Days are counted as their moments are written, with whatever offset: less than a day apart from UTC.
    let can_match = |first: Date, last: Date| {
        since.is_none_or(|since| last.saturating_add(1.day()) >= since)
            && until.is_none_or(|until| first.saturating_sub(1.day()) <= until)
    };
    // What is no day begins no moment.
    let held = matching(&counts.days, |day| day.parse::<Date>().is_ok_and(|day| can_match(day, day)));
    let months = matching(&counts.months, |month| {
        format!("{month}-01").parse::<Date>().is_ok_and(|first| can_match(first, first.last_of_month()))
    });
    // Of the days that are not held, their months are known, but for those that are not held either.
    let (others, months) = (counts.days.rest().rows(), hull(months, counts.months.rest().rows()));
    hull(held, others.start.max(months.start)..others.end.min(months.end))
}

/// The rows between which the events of these keys stand.
fn matching(tally: &Tally, is_one: impl Fn(&str) -> bool) -> Range<u64> {
    let rows = tally.keys().filter(|(key, _)| is_one(key)).map(|(_, counted)| counted.rows());
    rows.fold(0..0, hull)
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
            counts.months.take(moment.get(..7).unwrap_or_default(), row);
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
    fn of_a_day_that_is_not_held_the_month_is_known() {
        let day = |n: i64| Date::constant(2026, 1, 1).saturating_add(n.days()).to_string();
        let mut counts = Counts::default();
        for (n, row) in (0..KEYS_MAX as i64 + 100).zip(0..) {
            counts.days.take(&day(n), row);
            counts.months.take(&day(n)[..7], row);
        }
        let moment = |n: i64| crate::moment::read(&format!("{}T00:00:00Z", day(n)));
        assert_eq!(within(moment(200), moment(201), &counts), 199..203, "a day, and one on either side");
        assert_eq!(within(moment(40), moment(41), &counts), 31..59, "the month of the fortieth day");
        assert_eq!(within(None, moment(40), &counts), 0..59);
        assert_eq!(within(moment(40), None, &counts), 31..500);
        assert!(within(None, moment(-9), &counts).is_empty());
        for (n, row) in (0..450_i64).zip(500..) {
            counts.months.take(&format!("{:04}-01", 1000 + n), row);
            counts.days.take(&format!("{:04}-01-01", 1000 + n), row);
        }
        let old = crate::moment::read("1001-01-01T00:00:00Z");
        assert_eq!(within(None, old, &counts), 500..567, "of months that are not held, nothing is known");
    }
}
