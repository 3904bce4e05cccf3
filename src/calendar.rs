//! The calendar: how much was recorded on each day of a year, and in each hour of a day.
//!
//! A model made of counts, and a drawing of it with its words and its table beside it. Days and hours are those of UTC. Pure; the day
//! comes in as a value. The invariant: what the drawing shows stands in words or in a table too, and a day is the same in each.

use std::collections::BTreeMap;

use jiff::civil::{Date, Weekday};
use jiff::{Span, Timestamp};
use maud::{Markup, html};
use serde::Serialize;

use crate::tally::Tally;

/// How many weeks are drawn, the present one among them.
pub const WEEKS: i32 = 53;

/// How many hours a day has.
const HOURS: usize = 24;

/// How many steps there are above nothing.
const STEPS: u32 = 4;

/// The side of a day's square, and from one square to the next, in units of the drawing.
const SQUARE: i32 = 10;
const PITCH: i32 = 13;

/// The room for the names of weekdays and of months.
const LEFT: i32 = 30;
const TOP: i32 = 16;

/// From one hour's bar to the next, its width, and the height of the longest.
const HOUR: usize = 14;
const BAR: usize = 10;
const HIGH: u64 = 64;

/// A year of days.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Year {
    /// The first day.
    pub from: String,
    /// The last day: today.
    pub to: String,
    /// How many events there are on these days.
    pub events: u64,
    /// The day with most of them, the newest of several.
    pub busiest: Option<Day>,
    /// Whether days at the start are not counted one by one any more.
    pub is_cut: bool,
    /// The months with events, newest first.
    pub months: Vec<Month>,
    #[serde(skip)]
    today: Date,
}

/// A month with events.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Month {
    /// `2026-11`
    pub month: String,
    /// How many events.
    pub events: u64,
    /// Its days with events, oldest first.
    pub days: Vec<Day>,
}

/// A day with events.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Day {
    /// `2026-11-30`
    pub day: String,
    /// How many.
    pub events: u64,
}

impl Year {
    /// The year up to a day, out of the log's tally of days.
    #[must_use]
    pub fn of(days: &Tally, today: Date) -> Year {
        let monday = today.saturating_sub(Span::new().days(i64::from(today.weekday().to_monday_zero_offset())));
        let from = monday.saturating_sub(Span::new().weeks(WEEKS - 1));
        let (first, last) = (from.to_string(), today.to_string());
        let within = days.keys().filter(|(day, _)| *day >= first.as_str() && *day <= last.as_str() && date(day).is_some());
        let within: Vec<_> = within.map(|(day, counted)| Day { day: day.to_owned(), events: counted.count }).collect();
        let mut months: Vec<Month> = Vec::new();
        for day in &within {
            let month = &day.day[..7];
            if months.last().is_none_or(|last| last.month != month) {
                months.push(Month { month: month.to_owned(), events: 0, days: Vec::new() });
            }
            if let Some(last) = months.last_mut() {
                last.events += day.events;
                last.days.push(day.clone());
            }
        }
        months.reverse();
        let oldest = days.keys().next().map(|(day, _)| day);
        Year {
            events: within.iter().map(|day| day.events).sum(),
            busiest: within.iter().max_by_key(|day| day.events).cloned(),
            is_cut: days.rest().count > 0 && oldest.is_some_and(|oldest| oldest > first.as_str()),
            months,
            from: first,
            to: last,
            today,
        }
    }

    /// It in a sentence or two.
    fn words(&self) -> String {
        let days: usize = self.months.iter().map(|month| month.days.len()).sum();
        let busiest = match &self.busiest {
            Some(day) => format!(" on {}; most, {}, on {}", count(days, "day"), day.events, day.day),
            None => String::new(),
        };
        let cut = if self.is_cut { " Older days than these are not counted one by one any more." } else { "" };
        format!("{} from {} to {}{busiest}.{cut}", events(self.events), self.from, self.to)
    }

    /// How dark a day is drawn, 0 for nothing: by the order of magnitude, for days differ by far.
    fn step(&self, events: u64) -> u32 {
        let order = |events: u64| f64::from(u32::try_from(events).unwrap_or(u32::MAX)).ln_1p();
        let most = self.busiest.as_ref().map_or(1, |day| day.events).max(1);
        (1..=STEPS).find(|step| order(events) * f64::from(STEPS) <= order(most) * f64::from(*step)).unwrap_or(STEPS)
            * u32::from(events > 0)
    }
}

/// A day of the calendar, in the form that a moment has.
fn date(day: &str) -> Option<Date> {
    day.parse::<Date>().ok().filter(|date| date.to_string() == day)
}

fn events(count: u64) -> String {
    if count == 1 { "1 event".to_owned() } else { format!("{count} events") }
}

fn count(count: usize, noun: &str) -> String {
    if count == 1 { format!("1 {noun}") } else { format!("{count} {noun}s") }
}

/// A year as a drawing, a sentence, and a table.
#[must_use]
pub fn year(year: &Year) -> Markup {
    html! {
        figure.calendar {
            div.sideways tabindex="0" role="region" aria-label="The days of a year" { (squares(year)) }
            figcaption { (year.words()) }
        }
        @if !year.months.is_empty() {
            details {
                summary { "By month and day" }
                table.months {
                    thead { tr { th scope="col" { "Month" } th.num scope="col" { "Events" } th scope="col" { "Days" } } }
                    tbody {
                        @for month in &year.months {
                            tr {
                                th scope="row" { (month.month) }
                                td.num { (month.events) }
                                td { @for day in &month.days {
                                    span.one {
                                        a href=(link(&day.day)) aria-label=(format!("{}: {}", day.day, events(day.events))) { (&day.day[8..]) }
                                        " " span.muted { (day.events) }
                                    }
                                    " "
                                } }
                            }
                        }
                    }
                }
            }
        }
    }
}

/// Where the events of a day are.
fn link(day: &str) -> String {
    format!("/-/log?day={day}")
}

fn squares(year: &Year) -> Markup {
    let counts: BTreeMap<&str, u64> =
        year.months.iter().flat_map(|month| &month.days).map(|day| (day.day.as_str(), day.events)).collect();
    let first = year.today.saturating_sub(Span::new().days(i64::from(year.today.weekday().to_monday_zero_offset())));
    let first = first.saturating_sub(Span::new().weeks(WEEKS - 1));
    let (width, height) = (LEFT + WEEKS * PITCH, TOP + 7 * PITCH);
    let weeks: Vec<(i32, Date)> = (0..WEEKS).map(|week| (week, first.saturating_add(Span::new().weeks(week)))).collect();
    html! {
        svg.year viewBox=(format!("0 0 {width} {height}")) width=(width) height=(height) role="img" aria-label=(year.words()) {
            @for (week, monday) in &weeks {
                @let sunday = monday.saturating_add(Span::new().days(6));
                @if sunday.day() <= 7 && *week < WEEKS - 1 {
                    text x=(LEFT + week * PITCH) y=(TOP - 6) { (sunday.strftime("%b")) }
                }
            }
            @for (row, day) in [(0, Weekday::Monday), (2, Weekday::Wednesday), (4, Weekday::Friday)] {
                text x="0" y=(TOP + row * PITCH + SQUARE - 1) { (short(day)) }
            }
            @for (week, monday) in &weeks {
                @for row in 0..7 {
                    @let day = monday.saturating_add(Span::new().days(row));
                    @if day <= year.today {
                        @let name = day.to_string();
                        @let count = counts.get(name.as_str()).copied().unwrap_or(0);
                        @let class = if day == year.today { format!("s{} now", year.step(count)) } else { format!("s{}", year.step(count)) };
                        rect class=(class) x=(LEFT + week * PITCH) y=(TOP + row * PITCH) width=(SQUARE) height=(SQUARE) rx="2" {
                            @if count > 0 { title { (name) ": " (events(count)) } }
                        }
                    }
                }
            }
        }
    }
}

fn short(day: Weekday) -> &'static str {
    match day {
        Weekday::Monday => "Mon",
        Weekday::Tuesday => "Tue",
        Weekday::Wednesday => "Wed",
        Weekday::Thursday => "Thu",
        Weekday::Friday => "Fri",
        Weekday::Saturday => "Sat",
        Weekday::Sunday => "Sun",
    }
}

/// The course of a day.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Course {
    /// Which day.
    pub day: String,
    /// How many events it has.
    pub events: u64,
    /// How many of them are told apart by the hour: the newest.
    pub counted: u64,
    /// How many there are in each hour.
    pub hours: [u64; HOURS],
}

impl Course {
    /// The course of a day, out of the tally of days and the newest moments.
    pub fn of(days: &Tally, today: Date, moments: impl Iterator<Item = Timestamp>) -> Course {
        let day = today.to_string();
        let mut hours = [0; HOURS];
        for moment in moments {
            let moment = jiff::tz::TimeZone::UTC.to_datetime(moment);
            if moment.date() == today
                && let Some(hour) = usize::try_from(moment.hour()).ok().and_then(|hour| hours.get_mut(hour))
            {
                *hour += 1;
            }
        }
        let counted = hours.iter().sum();
        let events = days.keys().find(|(own, _)| *own == day).map_or(0, |(_, tallied)| tallied.count);
        Course { events: events.max(counted), day, counted, hours }
    }

    fn words(&self) -> String {
        let newest = if self.counted < self.events { format!("of the newest {} ", self.counted) } else { String::new() };
        let busiest = self.hours.iter().enumerate().rev().max_by_key(|(_, events)| **events).filter(|(_, events)| **events > 0);
        match busiest {
            None if self.events == 0 => "Nothing yet.".to_owned(),
            None => format!("{}; too many came behind them to tell their hours.", events(self.events)),
            Some((hour, most)) => {
                format!("{}; {newest}most, {most}, from {hour:02}:00 to {:02}:00 UTC.", events(self.events), hour + 1)
            }
        }
    }
}

/// A day as a drawing and a sentence, and a table of its hours.
#[must_use]
pub fn course(course: &Course) -> Markup {
    html! {
        @if course.counted == 0 { p.muted { (course.words()) } } @else {
            figure.calendar {
                (bars(course))
                figcaption { (course.words()) }
            }
            details {
                summary { "By hour" }
                table {
                    thead { tr { th scope="col" { "Hour (UTC)" } th.num scope="col" { "Events" } } }
                    tbody { @for (hour, events) in course.hours.iter().enumerate().filter(|(_, events)| **events > 0) {
                        tr { th scope="row" { (format!("{hour:02}:00")) } td.num { (events) } }
                    } }
                }
            }
        }
    }
}

fn bars(course: &Course) -> Markup {
    let most = course.hours.iter().copied().max().unwrap_or(0).max(1);
    let width = HOURS * HOUR;
    html! {
        svg.day viewBox=(format!("0 0 {width} {}", HIGH + 18)) width=(width) height=(HIGH + 18) role="img" aria-label=(course.words()) {
            rect.ground x="0" y=(HIGH + 1) width=(width) height="1" {}
            @for (hour, count) in course.hours.iter().enumerate() {
                @if *count > 0 {
                    @let high = (count * HIGH).div_ceil(most);
                    rect.s3 x=(hour * HOUR + (HOUR - BAR) / 2) y=(HIGH + 1 - high) width=(BAR) height=(high) {
                        title { (format!("{hour:02}:00: {}", events(*count))) }
                    }
                }
                @if hour % 6 == 0 { text x=(hour * HOUR) y=(HIGH + 15) { (format!("{hour:02}:00")) } }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tally::Yields;

    fn tally(days: &[(&str, u64)]) -> Tally {
        let mut tally = Tally::of(Yields::First);
        let all = days.iter().flat_map(|(day, count)| std::iter::repeat_n(*day, usize::try_from(*count).unwrap()));
        all.zip(0..).for_each(|(day, row)| tally.take(day, row));
        tally
    }

    fn today() -> Date {
        "2026-11-30".parse().unwrap()
    }

    #[test]
    fn a_year_is_fifty_three_weeks_up_to_today() {
        let days =
            [("2025-11-30", 7), ("2025-12-01", 1), ("2026-02-28", 40), ("2026-11-29", 3), ("2026-11-30", 40), ("2026-12-01", 9)];
        let odd = [("", 1), ("2026-13-01", 1), ("2026-11-3<", 1), ("+026-11-30", 1)];
        let year = Year::of(&tally(&[&days[..], &odd].concat()), today());
        assert_eq!((year.from.as_str(), year.to.as_str(), year.events, year.is_cut), ("2025-12-01", "2026-11-30", 84, false));
        assert_eq!(year.words(), "84 events from 2025-12-01 to 2026-11-30 on 4 days; most, 40, on 2026-11-30.");
        let months: Vec<_> = year.months.iter().map(|month| (month.month.as_str(), month.events, month.days.len())).collect();
        assert_eq!(months, [("2026-11", 43, 2), ("2026-02", 40, 1), ("2025-12", 1, 1)]);
        let drawn = squares(&year).into_string();
        assert_eq!(drawn.matches("<rect").count(), 52 * 7 + 1, "no square for a day to come");
        assert!(
            drawn.contains(
                r#"<rect class="s4 now" x="706" y="16" width="10" height="10" rx="2"><title>2026-11-30: 40 events</title>"#
            ),
            "{drawn}"
        );
    }

    #[test]
    fn an_empty_year_says_so() {
        let year = Year::of(&tally(&[]), today());
        assert_eq!(year.words(), "0 events from 2025-12-01 to 2026-11-30.");
        assert_eq!(squares(&year).into_string().matches("class=\"s0").count(), 365);
    }

    #[test]
    fn a_busy_year_is_counted_whole_and_one_that_is_not_says_so() {
        let year = |ago: std::ops::Range<i64>| {
            let days: Vec<String> = ago.map(|ago| today().saturating_sub(Span::new().days(ago)).to_string()).rev().collect();
            let days: Vec<_> = days.iter().map(|day| (day.as_str(), 1)).collect();
            Year::of(&tally(&days), today())
        };
        assert_eq!((year(0..800).events, year(0..800).is_cut), (365, false));
        // Events may bear days to come.
        assert!(year(-60..360).is_cut);
    }

    #[test]
    fn a_step_is_an_order_of_magnitude() {
        let steps = |most: u64, of: &[u64]| {
            let year = Year::of(&tally(&[("2026-11-30", most)]), today());
            of.iter().map(|events| year.step(*events)).collect::<Vec<_>>()
        };
        assert_eq!(steps(1, &[0, 1]), [0, 4]);
        assert_eq!(steps(1_000, &[0, 1, 4, 5, 30, 31, 180, 1_000]), [0, 1, 1, 2, 2, 3, 4, 4]);
    }

    #[test]
    fn the_course_of_a_day_counts_its_hours() {
        let at = |text: &str| text.parse::<Timestamp>().unwrap();
        let moments =
            ["2026-11-30T09:00:00Z", "2026-11-30T11:30:00+02:00", "2026-11-30T23:59:59Z", "2026-11-29T23:59:59Z"].map(at);
        let course = Course::of(&tally(&[("2026-11-30", 5)]), today(), moments.into_iter());
        assert_eq!((course.events, course.counted, course.hours[9], course.hours[23]), (5, 3, 2, 1));
        assert_eq!(course.words(), "5 events; of the newest 3 most, 2, from 09:00 to 10:00 UTC.");
        assert_eq!(Course::of(&tally(&[]), today(), std::iter::empty()).words(), "Nothing yet.");
    }
}
