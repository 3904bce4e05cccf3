//! Today: the front page of a home without a welcome: what happened since somebody looked, what waits, and what can be done.
//!
//! A view of the state and of the newest events; every text of the log is escaped and cut. Time comes in as a value. The invariant: it
//! costs the same at any size of the log.

use std::collections::BTreeMap;

use jiff::Timestamp;
use maud::{Markup, html};
use serde::Deserialize;

use crate::event::Event;
use crate::page::{self, told, word};
use crate::quotation::origin;
use crate::shell;
use crate::standing::STALLED_AT;
use crate::state::State;

/// How many of the newest events the page is made of.
pub const EVENTS_MAX: usize = 500;

/// How many of them it shows.
const SHOWN_MAX: usize = 40;

/// How much of an event's payload is shown, in characters.
const TELLING_CHARS_MAX: usize = 240;

/// How often a visit is noted at most, in minutes.
const VISIT_MINUTES: i64 = 30;

/// What the browser keeps of the last visit: `<since>.<then>.<minute>`: what was seen before it began, what there was when it began,
/// and when that was.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Visit {
    since: u64,
    then: u64,
    minute: i64,
}

impl Visit {
    /// Reads the cookie `seen` out of the `Cookie` headers.
    #[must_use]
    pub fn read<'c>(cookies: impl Iterator<Item = &'c [u8]>) -> Option<Visit> {
        let mut pairs = cookies.filter_map(|line| str::from_utf8(line).ok()).flat_map(|line| line.split(';'));
        let value = pairs.find_map(|pair| pair.trim().strip_prefix("seen="))?;
        let mut parts = value.split('.');
        let visit =
            Visit { since: parts.next()?.parse().ok()?, then: parts.next()?.parse().ok()?, minute: parts.next()?.parse().ok()? };
        parts.next().is_none().then_some(visit)
    }

    /// The visit that this request belongs to, and whether it is a new one: one begins when the last began half an hour ago.
    #[must_use]
    pub fn at(was: Option<Visit>, seq: u64, now: Timestamp) -> (Visit, bool) {
        let minute = now.as_second().div_euclid(60);
        match was {
            Some(was) if was.since > seq || was.then > seq => (Visit { since: seq, then: seq, minute }, true),
            Some(was) if (0..VISIT_MINUTES).contains(&(minute - was.minute)) => (was, false),
            Some(was) => (Visit { since: was.then, then: seq, minute }, true),
            None => (Visit { since: 0, then: seq, minute }, true),
        }
    }

    /// The number of the newest event seen before this visit; 0 for somebody's first.
    #[must_use]
    pub fn since(self) -> u64 {
        self.since
    }

    /// The value of `Set-Cookie`.
    #[must_use]
    pub fn cookie(self) -> String {
        let Visit { since, then, minute } = self;
        format!("seen={since}.{then}.{minute}; Path=/; Max-Age=31536000; HttpOnly; SameSite=Strict")
    }
}

/// The page.
#[must_use]
pub fn today(state: &State, damaged: usize, newest: &[Event<'_>], since: u64) -> Markup {
    html! {
        h1 { "Today" }
        (changes(state, newest, since))
        (waits(state, damaged))
        section { h2 { "Do something" } (shell::command_forms(state)) }
        (page::instance(state))
    }
}

fn changes(state: &State, newest: &[Event<'_>], since: u64) -> Markup {
    let count = state.seq().saturating_sub(since);
    let fresh = newest.iter().filter(|event| event.seq > since);
    let mut doors: BTreeMap<(String, String), u64> = BTreeMap::new();
    for event in fresh {
        let via = event.via.as_ref().map(|via| via.text().into_owned()).unwrap_or_default();
        *doors.entry((event.by.as_deref().unwrap_or("nobody named").to_owned(), via)).or_default() += 1;
    }
    let title = if since == 0 { "What happened" } else { "Since your last visit" };
    html! {
        section {
            h2 { (title) }
            @match (since, count) {
                (0, _) => p { (state.events()) " events in all." },
                (_, 0) => p { "Nothing happened since." },
                (_, 1) => p { "1 event." },
                (_, count) => p { (count) " events." },
            }
            @if !doors.is_empty() && since > 0 {
                ul.row { @for ((by, via), count) in &doors {
                    li { span.who { (word(by)) } " " span.muted { "through " (word(via)) ": " } span.num { (count) } }
                } }
            }
            (timeline(newest, since))
        }
    }
}

fn timeline(newest: &[Event<'_>], since: u64) -> Markup {
    let mut days: Vec<(String, Vec<&Event<'_>>)> = Vec::new();
    for event in newest.iter().rev().take(SHOWN_MAX) {
        let day =
            moment(event).map_or_else(|| "At no known time".to_owned(), |moment| moment.strftime("%A, %Y-%m-%d").to_string());
        match days.last_mut() {
            Some((last, events)) if *last == day => events.push(event),
            _ => days.push((day, vec![event])),
        }
    }
    html! {
        @for (day, events) in &days {
            h3 { (day) }
            ol.log { @for event in events { (entry(event, event.seq > since && since > 0)) } }
        }
        @if newest.len() > SHOWN_MAX { p { a href="/events" { "Older ones, as text" } } }
    }
}

fn entry(event: &Event<'_>, is_new: bool) -> Markup {
    html! {
        li {
            @if let Some(moment) = moment(event) {
                time.muted datetime=(moment.strftime("%Y-%m-%dT%H:%M:%SZ")) title="UTC" { (moment.strftime("%H:%M")) }
            }
            " " code { (word(&event.name)) }
            @if is_new { " " span.tag { "new" } }
            @if let Some(by) = &event.by { " " span.who { (word(by)) } }
            " " span.telling { (telling(event)) }
            " " span.muted { "seq " (event.seq) @if let Some(via) = &event.via { ", " (word(&via.text())) } }
        }
    }
}

/// The fields that tell most of an event, the first that is there.
#[derive(Deserialize)]
struct Told {
    text: Option<String>,
    content: Option<String>,
    message: Option<String>,
    summary: Option<String>,
    reason: Option<String>,
    name: Option<String>,
}

/// An event's payload in a line.
fn telling(event: &Event<'_>) -> String {
    let field = event.parse::<Told>().and_then(|told| {
        let Told { text, content, message, summary, reason, name } = told;
        text.or(content).or(message).or(summary).or(reason).or(name)
    });
    let text = field.unwrap_or_else(|| event.payload.get().to_owned());
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let mut cut: String = line.chars().take(TELLING_CHARS_MAX).collect();
    if cut.len() < line.len() {
        cut.push('…');
    }
    word(if cut == "{}" { "" } else { &cut })
}

fn moment(event: &Event<'_>) -> Option<Timestamp> {
    event.occurred_at.parse().ok()
}

fn waits(state: &State, damaged: usize) -> Markup {
    let pending = state.pending();
    let rejected = state.capabilities().filter(|(_, standing)| !standing.is_pending() && !standing.rejections().is_empty());
    let rejected: Vec<_> = rejected.map(|(capability, _)| capability).collect();
    let nothing =
        pending.is_empty() && rejected.is_empty() && state.waiting().is_none() && damaged == 0 && state.notices().is_empty();
    html! {
        section {
            h2 { "What waits" }
            @if nothing { p.muted { "Nothing waits." } } @else {
                ul {
                    @if damaged > 0 { li.danger { "Damaged lines in the log: " span.num { (damaged) } "; " code { "self verify" } " names them." } }
                    @if let Some(turn) = state.waiting() {
                        li { "A message waits for an answer: " span.muted { (word(&origin(&turn.origin))) } " " (told(&turn.text)) }
                    }
                    @for (capability, standing) in &pending {
                        li {
                            code { (word(&capability.to_string())) } " waits for its script"
                            @if standing.is_stalled() { ", and is no longer offered after " (STALLED_AT) " rejections" }
                            "."
                        }
                    }
                    @for capability in &rejected { li { "The last script for " code { (word(&capability.to_string())) } " was rejected." } }
                    @if !state.notices().is_empty() { li { "Refused since the last answer: " span.num { (state.notices().len()) } "." } }
                }
                p.muted { "A mind takes it on: " code { "self work | <mind> | self" } }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_visit_is_noted_at_most_every_half_hour() {
        let at = |minute: i64| Timestamp::from_second(minute * 60 + 7).unwrap();
        let (first, set) = Visit::at(None, 10, at(1000));
        assert_eq!((first.since(), set), (0, true));
        assert_eq!(first.cookie(), "seen=0.10.1000; Path=/; Max-Age=31536000; HttpOnly; SameSite=Strict");
        let again = Visit::read([&b"a=b; seen=0.10.1000"[..]].into_iter());
        assert_eq!(again, Some(first));
        assert_eq!(Visit::at(again, 12, at(1029)), (first, false), "a look again shows the same changes");
        let (second, set) = Visit::at(again, 12, at(1030));
        assert_eq!((second.since(), second.then, set), (10, 12, true));
        assert_eq!(
            Visit::at(Some(second), 3, at(1031)),
            (Visit { since: 3, then: 3, minute: 1031 }, true),
            "a log that is shorter now"
        );
        for odd in ["", "seen=", "seen=1.2", "seen=1.2.3.4", "seen=-1.2.3", "xseen=1.2.3", "seen=99999999999999999999.1.1"] {
            assert_eq!(Visit::read([odd.as_bytes()].into_iter()), None, "{odd}");
        }
    }
}
