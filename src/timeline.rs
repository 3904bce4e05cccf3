//! The timeline: a page of the log, newest first, under the days of UTC, with what it can be filtered by.
//!
//! A model, which as JSON is the page's twin, and a view of it; pure. Runs of one kind are folded into one line. The invariant: what it
//! costs does not grow with the log, and each event that was found stands on the page once.

use maud::{Markup, html};
use serde::Serialize;

use crate::entry::{self, Entry, claim};
use crate::filters::{Filter, Filters, LOG, is_day};
use crate::seeking::Sought;
use crate::state::State;
use crate::tally::Tally;

/// How many events a page holds.
pub const EVENTS_MAX: usize = 100;

/// After so many bytes of the log no further event is looked at for one page.
pub const LOOKED_BYTES_MAX: u64 = 8 << 20;

/// From so many events of one kind in a row on they are folded.
const RUN_MIN: usize = 4;

/// How many of each kind of count are shown at first.
const COUNTS_SHOWN_MAX: usize = 12;

/// How many of each kind of count there are on a page.
const COUNTS_MAX: usize = 256;

/// A claim may have been counted by its start alone from so many bytes on.
const WHOLE_BYTES_MAX: usize = 124;

/// A page of the log.
#[derive(Debug, Serialize)]
pub struct Timeline<'t> {
    /// The number of the newest event of the log.
    pub as_of: u64,
    /// How many events the log holds.
    pub events_in_all: u64,
    /// How many lines of the log are no events, and left out.
    pub damaged_lines: u64,
    /// What is asked for.
    pub filters: &'t Filters,
    /// What was found, newest first.
    pub events: Vec<Entry<'t>>,
    /// Where it goes on.
    #[serde(flatten)]
    pub further: Further,
    /// Counts of the whole log, whatever is asked for.
    pub whole_log: Counts<'t>,
}

/// Where a page of the log goes on.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Further {
    /// The byte of the log in front of which the next page begins; `None` at the beginning of the log.
    pub before: Option<u64>,
    /// The number of the oldest event that was looked at, if looking ended before the page was full.
    pub looked_back_to: Option<u64>,
}

/// How many events of the whole log there are of each kind.
#[derive(Debug, Serialize)]
pub struct Counts<'t> {
    names: Facet<'t>,
    doors: Facet<'t>,
    speakers: Facet<'t>,
    days: Facet<'t>,
}

/// Counts by one thing.
#[derive(Debug, Serialize)]
struct Facet<'t> {
    #[serde(skip)]
    filter: Filter,
    counts: Vec<Count<'t>>,
    /// How many events bear none of these.
    others: u64,
}

/// A count.
#[derive(Debug, Serialize)]
struct Count<'t> {
    value: &'t str,
    events: u64,
}

impl<'t> Timeline<'t> {
    /// The page of what was found.
    #[must_use]
    pub fn of(state: &'t State, damaged_lines: u64, filters: &'t Filters, sought: &'t Sought, further: Further) -> Timeline<'t> {
        Timeline {
            damaged_lines,
            as_of: state.seq(),
            events_in_all: state.events(),
            filters,
            events: sought.events.iter().map(Entry::of).collect(),
            further,
            whole_log: Counts::of(state),
        }
    }
}

impl<'t> Counts<'t> {
    fn of(state: &'t State) -> Counts<'t> {
        let (own, rest) = state.named().entries();
        let names = own.iter().map(|named| Count { value: &named.name, events: named.count }).collect();
        let counts = state.counts();
        Counts {
            names: Facet::of(Filter::Name, names, rest.count),
            doors: Facet::tallied(Filter::Via, &counts.doors),
            speakers: Facet::tallied(Filter::By, &counts.speakers),
            days: Facet::tallied(Filter::Day, &counts.days),
        }
    }
}

impl<'t> Facet<'t> {
    fn tallied(filter: Filter, tally: &'t Tally) -> Facet<'t> {
        let counts = tally.keys().map(|(value, counted)| Count { value, events: counted.count }).collect();
        Facet::of(filter, counts, tally.rest().count)
    }

    /// The most frequent first; of days, the newest.
    fn of(filter: Filter, mut counts: Vec<Count<'t>>, others: u64) -> Facet<'t> {
        match filter {
            Filter::Day => counts.sort_by(|one, other| other.value.cmp(one.value)),
            Filter::Name | Filter::By | Filter::Via | Filter::Text => {
                counts.sort_by(|one, other| other.events.cmp(&one.events).then(one.value.cmp(other.value)));
            }
        }
        let cut: u64 = counts.iter().skip(COUNTS_MAX).map(|count| count.events).sum();
        counts.truncate(COUNTS_MAX);
        Facet { filter, counts, others: others + cut }
    }
}

/// The page.
#[must_use]
pub fn timeline(page: &Timeline<'_>) -> Markup {
    let filters = page.filters;
    html! {
        h1 { "Log" }
        p.muted {
            "Newest first. Days and times are UTC. The log holds " (page.events_in_all) " events; " a href="#counts" { "counts of them" } "."
        }
        @if page.damaged_lines > 0 {
            p.warn { "Damaged lines, which are left out: " (page.damaged_lines) ". " code { "self verify" } " names them." }
        }
        (tags(filters))
        (form(filters))
        div.beside {
            div {
                @if filters.before.is_some() { p { a href=(filters.before(None).address(LOG)) { "Back to the newest" } } }
                (days(&page.events, filters, Within::Page))
                (further(page.further, filters, LOG, page.events.is_empty()))
            }
            aside #counts aria-label="Counts of the whole log" {
                h2 { "In the whole log" }
                (facet("Names", &page.whole_log.names, filters))
                (facet("Speakers", &page.whole_log.speakers, filters))
                (facet("Doors", &page.whole_log.doors, filters))
                (facet("Days, as stored", &page.whole_log.days, filters))
            }
        }
    }
}

/// The filters that are set, each a link that removes it.
fn tags(filters: &Filters) -> Markup {
    let set: Vec<_> = Filter::ALL.into_iter().filter_map(|filter| Some((filter, filters.get(filter)?))).collect();
    html! {
        @if !set.is_empty() {
            ul.row.set aria-label="Filters" {
                @for (filter, value) in &set {
                    li {
                        a.tag href=(filters.with(*filter, None).address(LOG)) {
                            (filter.word()) " " b { (label(*filter, value)) } " "
                            span aria-hidden="true" { "×" } span.unseen { "remove" }
                        }
                    }
                }
                @if set.len() > 1 { li { a href=(LOG) { "Remove all" } } }
            }
        }
    }
}

/// What a value of a filter is called.
fn label(filter: Filter, value: &str) -> String {
    match (filter, value) {
        (Filter::By, "") => "nobody named".to_owned(),
        (Filter::Via, "") => "not recorded".to_owned(),
        (Filter::Day, "") => "not recorded".to_owned(),
        (Filter::Via, "http") => "http, any address".to_owned(),
        (Filter::Name | Filter::By | Filter::Via | Filter::Day | Filter::Text, value) => claim(value),
    }
}

fn form(filters: &Filters) -> Markup {
    let hint = |filter: Filter| match filter {
        Filter::Name => "Name, or a pattern with * and ?",
        Filter::By => "Speaker, exactly",
        Filter::Via => "Door; http and learn for all of theirs",
        Filter::Day => "Day of UTC",
        Filter::Text => "Text in the payload, as it is stored",
    };
    html! {
        details #filter.card {
            summary { "Filter" }
            form.fields action=(LOG) method="get" {
                @for filter in Filter::ALL {
                    @let id = format!("filter-{}", filter.param());
                    @let value = filters.get(filter).filter(|value| !value.is_empty());
                    p {
                        label for=(id) { (hint(filter)) }
                        input #(id) name=(filter.param()) type=(if filter == Filter::Day { "date" } else { "text" }) value=[value];
                    }
                    @if filters.get(filter) == Some("") { input type="hidden" name="without" value=(filter.param()); }
                }
                p { button type="submit" { "Show" } }
            }
        }
    }
}

/// What a list of events stands in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Within {
    /// A page: days have headings of the second rank, and runs are folded.
    Page,
    /// A section of what was sought: days have headings of the third rank, and all that was found is seen.
    Section,
}

/// The events under their days.
pub(crate) fn days(events: &[Entry<'_>], filters: &Filters, within: Within) -> Markup {
    let day = |entry: &Entry<'_>| entry.moment().map(|moment| moment.strftime("%A, %Y-%m-%d").to_string());
    html! {
        @for of_day in events.chunk_by(|one, other| day(one) == day(other)) {
            @let heading = of_day.first().and_then(day).unwrap_or_else(|| "At no known time".to_owned());
            @match within {
                Within::Page => h2 { (heading) },
                Within::Section => h3 { (heading) },
            }
            ol.log.line {
                @for run in of_day.chunk_by(is_alike) {
                    @if run.len() >= RUN_MIN && within == Within::Page { (folded(run, filters)) } @else { @for entry in run { (entry::line(entry, filters)) } }
                }
            }
        }
    }
}

/// Whether two events are of one kind: of one name, through one door, by one speaker.
fn is_alike(one: &Entry<'_>, other: &Entry<'_>) -> bool {
    (one.name, &one.via, one.by) == (other.name, &other.via, other.by)
}

/// A run of events of one kind, newest first, folded.
fn folded(run: &[Entry<'_>], filters: &Filters) -> Markup {
    let ([newest, ..], Some(oldest)) = (run, run.last()) else { return Markup::default() };
    html! {
        li {
            // By its oldest event: newer ones join it at the other end.
            details.run #(format!("run-{}", oldest.seq)) {
                summary {
                    @if second(oldest) != second(newest) { (entry::time(oldest)) "– " }
                    (entry::time(newest))
                    span.num { (run.len()) } " × " code { (claim(newest.name)) }
                    @if let Some(by) = newest.by { " " span.who { (claim(by)) } }
                    @if let Some(via) = &newest.via { " " span.via { (claim(via)) } }
                }
                ol.log.line { @for entry in run { (entry::line(entry, filters)) } }
            }
        }
    }
}

fn second(entry: &Entry<'_>) -> Option<i64> {
    entry.moment().map(|moment| moment.as_second())
}

/// Where a list of events goes on, or that it ends.
pub(crate) fn further(further: Further, filters: &Filters, path: &str, is_empty: bool) -> Markup {
    html! {
        @match (further.before, further.looked_back_to) {
            (Some(before), Some(seq)) => p.further {
                "Looked back to " a href=(entry::address(seq)) { "event " (seq) } "; "
                a rel="next" href=(filters.before(Some(before)).address(path)) { "go on" } "."
            },
            (Some(before), None) => p.further { a rel="next" href=(filters.before(Some(before)).address(path)) { "Older" } },
            (None, _) if is_empty => p.muted { "No event matches." },
            (None, _) if filters.is_set() => p.muted { "Nothing older matches." },
            (None, _) => p.muted { "That is the beginning of the log." },
        }
    }
}

fn facet(title: &str, facet: &Facet<'_>, filters: &Filters) -> Markup {
    let (first, more) = facet.counts.split_at(facet.counts.len().min(COUNTS_SHOWN_MAX));
    let list = |counts: &[Count<'_>]| html! { ul.counts { @for count in counts { (counted(facet.filter, count, filters)) } } };
    html! {
        section {
            h3 { (title) }
            (list(first))
            @if !more.is_empty() {
                details #(format!("more-{}", facet.filter.param())) { summary { (more.len()) " more" } (list(more)) }
            }
            @if facet.others > 0 { p.muted { (facet.others) " events of others, which are not counted one by one." } }
        }
    }
}

fn counted(filter: Filter, count: &Count<'_>, filters: &Filters) -> Markup {
    let value = count.value;
    let is_set = filters.get(filter) == Some(value);
    let can_be_asked = match filter {
        Filter::Day => is_day(value),
        Filter::By | Filter::Via => value.len() <= WHOLE_BYTES_MAX,
        Filter::Name | Filter::Text => true,
    };
    html! {
        li {
            @if can_be_asked {
                a href=(filters.with(filter, (!is_set).then_some(value)).address(LOG)) aria-current=[is_set.then_some("true")] {
                    (label(filter, value)) @if is_set { span.unseen { ", remove" } }
                }
            } @else { span { (label(filter, value)) } }
            " " span.num { (count.events) }
        }
    }
}
